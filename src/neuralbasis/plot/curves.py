"""A main effect in one panel, as in the paper's figures.

Faint lines are the members and the thick line is their mean; with many classes, a band of one standard deviation
replaces the members. Levels are bars. The grey background is darker where there are more training rows, and white where
there are none. Missing values have a marker in a strip at the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .canvas import COLOURS, GREY, bar_style, line_style
from .plot_axis import FEW_KNOTS, PlotAxis, cell_edges, draw_plot_axis, draw_strip, make_plot_axis
from .scale import ScaledTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BARS = 30  # bars of the density of a continuous column
DARKEST = 0.2  # grey of the bar with the most rows
MAX_MEMBER_CURVES = 3  # with more curves in a panel, their members overlap


@dataclass(frozen=True, eq=False)
class Curve:
    """A main effect, ready to draw.

    Parameters
    ----------
    scaled : its numbers
    plot_axis : its x axis
    colour_indices : a colour for each drawn class
    shows_members : whether each member is drawn as a line
    """

    scaled: ScaledTerm
    plot_axis: PlotAxis
    colour_indices: Sequence[int]
    shows_members: bool = False

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest drawn value, including members or spread."""
        scaled, cells = self.scaled, self.plot_axis.visible_cells
        cells = np.r_[0, cells] if self.plot_axis.has_missing else cells
        mean, spread = scaled.mean[cells], scaled.spread[cells]
        parts = [mean - spread, mean + spread, scaled.base]
        if self.shows_members and scaled.members is not None:
            parts.append(scaled.members[cells])
        return min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)


def make_curve(scaled: ScaledTerm, colour_indices: Sequence[int], n_curves: int = 0) -> Curve:
    """`n_curves`: number of curves in the panel, if other models are drawn too."""
    plot_axis = make_plot_axis(scaled.term.axes[0], scaled.term.weights, with_counts=True)
    shows_members = (
        scaled.members is not None and plot_axis.labels is None and (n_curves or len(scaled.base)) <= MAX_MEMBER_CURVES
    )
    return Curve(scaled, plot_axis, colour_indices, shows_members)


def choose_limits(curves: Iterable[Curve]) -> tuple[float, float]:
    """Range of the y axis that several curves share."""
    lows, highs = zip(*(curve.limits for curve in curves), strict=True)
    low, high = min(lows), max(highs)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def draw_curve(axes: Axes, curve: Curve) -> list[Any]:
    """Draw into a panel whose y range is set; returns a legend handle for each class."""
    draw_background(axes, curve)
    return draw_marks(axes, curve)


def draw_background(axes: Axes, curve: Curve) -> None:
    """Axis, density of the training rows, and the line at a contribution of 0."""
    term, plot_axis = curve.scaled.term, curve.plot_axis
    draw_density(axes, plot_axis, term.weights)
    bases = curve.scaled.base
    is_shared = bool((bases == bases[0]).all())
    for order, base in zip(curve.colour_indices[: 1 if is_shared else None], bases, strict=False):
        axes.axhline(base, color=GREY if is_shared else line_style(order)["color"], linewidth=0.6, linestyle=":")
    draw_plot_axis(axes, plot_axis, "x")
    if plot_axis.has_missing:
        draw_strip(axes, plot_axis, term.weights[0] / term.weights.sum())


def draw_marks(axes: Axes, curve: Curve) -> list[Any]:
    """Lines or bars, and the markers of missing values; returns a legend handle for each class."""
    handles = (_draw_lines if curve.plot_axis.labels is None else _draw_bars)(axes, curve)
    if curve.plot_axis.has_missing:
        _draw_missing(axes, curve)
    return handles


def draw_density(axes: Axes, plot_axis: PlotAxis, weights: np.ndarray) -> None:
    """Training weight along an axis, as grey bars in the background."""
    at, weight = plot_axis.positions, weights[plot_axis.cells]
    width = 1.0 if plot_axis.is_stepped else (plot_axis.high - plot_axis.low) / N_BARS
    if not plot_axis.is_stepped and len(at) > FEW_KNOTS:
        # Spread the weight of a knot half way to its neighbours: sparse knots leave no gaps.
        edges = np.linspace(max(at[0], plot_axis.low), min(at[-1], plot_axis.high), N_BARS + 1)
        weight = np.diff(np.interp(edges, cell_edges(at).clip(at[0], at[-1]), np.r_[0.0, np.cumsum(weight)]))
        at, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    # The square root keeps few rows distinguishable from none.
    shade = DARKEST * np.sqrt(weight / max(weight.max(), np.finfo(float).tiny))
    bars = [(left, width) for left in at - width / 2]
    look: dict[str, Any] = {"facecolors": [str(1 - grey) for grey in shade], "linewidth": 0, "antialiased": False}
    axes.broken_barh(bars, (0, 1), transform=axes.get_xaxis_transform(), zorder=0, **look)


def _draw_lines(axes: Axes, curve: Curve) -> list[Any]:
    scaled, plot_axis = curve.scaled, curve.plot_axis
    handles = []
    for k, order in enumerate(curve.colour_indices):
        look = line_style(order)
        at, mean = plot_axis.polyline(scaled.mean[plot_axis.cells, k])
        spread = plot_axis.polyline(scaled.spread[plot_axis.cells, k])[1]
        if curve.shows_members and scaled.members is not None:
            _draw_members(axes, *plot_axis.polyline(scaled.members[plot_axis.cells, :, k]), look["color"])
        elif spread.any():
            axes.fill_between(at, mean - spread, mean + spread, color=look["color"], alpha=0.2, linewidth=0)
        marker = "." if len(at) <= FEW_KNOTS and not plot_axis.is_stepped else None
        handles += axes.plot(at, mean, linewidth=1.8, marker=marker, markersize=6, **look)
    return handles


def _draw_members(axes: Axes, at: np.ndarray, members: np.ndarray, colour: str) -> None:
    """Members (P, M) as faint lines; more members are drawn fainter."""
    from matplotlib.collections import LineCollection

    lines = np.stack([np.broadcast_to(at[:, None], members.shape), members], axis=-1).swapaxes(0, 1)
    alpha = float(np.clip(4 / len(lines), 0.1, 0.45))
    axes.add_collection(LineCollection(list(lines), colors=colour, alpha=alpha, linewidths=0.6), autolim=False)


def _draw_bars(axes: Axes, curve: Curve) -> list[Any]:
    scaled, plot_axis = curve.scaled, curve.plot_axis
    count = len(scaled.base)
    width = 0.7 / count
    error = {"elinewidth": 1.0, "ecolor": "black", "capsize": 1.5}
    handles = []
    for k, (order, base) in enumerate(zip(curve.colour_indices, scaled.base, strict=True)):
        mean, spread = scaled.mean[plot_axis.cells, k], scaled.spread[plot_axis.cells, k]
        at = plot_axis.positions + (k - (count - 1) / 2) * width
        bars = {"yerr": spread if spread.any() else None, "error_kw": error, **bar_style(order)}
        handles.append(axes.bar(at, mean - base, width, base, **bars))
    return handles


def _draw_missing(axes: Axes, curve: Curve) -> None:
    scaled, (left, right) = curve.scaled, curve.plot_axis.strip
    places = np.linspace(0.5, 0.85, len(scaled.base)) if len(scaled.base) > 1 else [0.65]
    for k, (order, place) in enumerate(zip(curve.colour_indices, places, strict=True)):
        colour = COLOURS[order % len(COLOURS)]
        look: dict[str, Any] = {"color": colour, "marker": "D", "markersize": 4, "elinewidth": 1.2, "zorder": 3}
        look["markerfacecolor"] = "white" if order >= len(COLOURS) else colour
        axes.errorbar(left + place * (right - left), scaled.mean[0, k], scaled.spread[0, k], **look)
