"""A main effect in one panel, as in the paper's figures.

Faint lines are the members and the thick line is their mean; with many classes, a band of one standard deviation
replaces the members. Levels are bars. The grey background is darker where there are more training rows, and white where
there are none. Missing values have a marker in a strip at the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .canvas import COLOURS, GREY, bar_style, line_style
from .plot_axis import FEW_KNOTS, PlotAxis, cell_edges, draw_plot_axis, make_plot_axis
from .scale import ScaledTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BARS = 30  # bars of the density of a continuous column
DARKEST = 0.2  # grey of the bar with the most rows
MAX_MEMBER_CURVES = 3  # with more curves in a panel, their members overlap


@dataclass(frozen=True, eq=False)
class Curve:
    """A main effect, ready to draw."""

    scaled: ScaledTerm  # its members are None unless they are drawn
    plot_axis: PlotAxis
    colour_indices: Sequence[int]  # a colour for each drawn class


def make_curve(scaled: ScaledTerm, colour_indices: Sequence[int], n_curves: int = 0) -> Curve:
    """`n_curves`: number of curves in the panel, if other models are drawn too."""
    plot_axis = make_plot_axis(scaled.term.axes[0], scaled.term.weights, with_counts=True)
    if plot_axis.labels is not None or (n_curves or len(scaled.base)) > MAX_MEMBER_CURVES:
        scaled = replace(scaled, members=None)
    return Curve(scaled, plot_axis, colour_indices)


def choose_limits(curves: Iterable[Curve]) -> tuple[float, float]:
    """Range of the y axis that several curves share, including members and spread."""
    drawn: list[np.ndarray] = []
    for curve in curves:
        scaled, axis = curve.scaled, curve.plot_axis
        cells = axis.cells[(axis.positions >= axis.low) & (axis.positions <= axis.high)]
        cells = np.r_[0, cells] if axis.has_missing else cells
        mean, spread = scaled.mean[cells], scaled.spread[cells]
        drawn += [mean - spread, mean + spread, scaled.base]
        drawn += [] if scaled.members is None else [scaled.members[cells]]
    low, high = min(float(part.min()) for part in drawn), max(float(part.max()) for part in drawn)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def draw_background(axes: Axes, curve: Curve) -> None:
    """Axis, density of the training rows, line at a contribution of 0, and strip for missing values at the left.

    The y range of the panel must be set.
    """
    term, plot_axis = curve.scaled.term, curve.plot_axis
    draw_density(axes, plot_axis, term.weights)
    bases = curve.scaled.base
    is_shared = bool((bases == bases[0]).all())
    for order, base in zip(curve.colour_indices[: 1 if is_shared else None], bases, strict=False):
        axes.axhline(base, color=GREY if is_shared else line_style(order)["color"], linewidth=0.6, linestyle=":")
    draw_plot_axis(axes, plot_axis, "x")
    if plot_axis.has_missing:
        left, right = plot_axis.strip
        axes.axvline(right, color=GREY, linewidth=0.6)
        axes.set_xlim(left, plot_axis.high)
        text = f"missing {100 * (term.weights[0] / term.weights.sum()):.3g}%"
        place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "top"}
        axes.text(left + 0.25 * (right - left), 0.98, text, fontsize=7, color=GREY, **place)


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
    from matplotlib.collections import LineCollection

    scaled, plot_axis = curve.scaled, curve.plot_axis
    handles = []
    for k, order in enumerate(curve.colour_indices):
        look = line_style(order)
        at, mean = plot_axis.polyline(scaled.mean[plot_axis.cells, k])
        spread = plot_axis.polyline(scaled.spread[plot_axis.cells, k])[1]
        if scaled.members is not None:
            members = plot_axis.polyline(scaled.members[plot_axis.cells, :, k])[1].T
            alpha = float(np.clip(4 / len(members), 0.1, 0.45))  # more members are drawn fainter
            faint: dict[str, Any] = {"colors": look["color"], "alpha": alpha, "linewidths": 0.6}
            axes.add_collection(LineCollection([np.c_[at, one] for one in members], **faint), autolim=False)
        elif spread.any():
            axes.fill_between(at, mean - spread, mean + spread, color=look["color"], alpha=0.2, linewidth=0)
        marker = "." if len(at) <= FEW_KNOTS and not plot_axis.is_stepped else None
        handles += axes.plot(at, mean, linewidth=1.8, marker=marker, markersize=6, **look)
    return handles


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
