"""A main effect in one panel, as in the paper's figures.

The thick line is the table. The darker band is the 95 % band for each value, the lighter band the 95 % band for the
whole curve. Without evidence, faint lines are the members. More than three curves in a panel have no bands. Levels are
horizontal bars, labelled with their training rows. A term without a clear effect is grey. The background of a curve is
darker where there are more training rows, by the same scale in every panel, and white where there are none. Missing
values and special codes have markers in a strip at the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..explain.point_masses import point_masses
from .canvas import COLOURS, FAINT, GREY, bar_style, line_style
from .plot_axis import FEW_KNOTS, PlotAxis, cell_edges, draw_plot_axis, make_bar_axis, make_plot_axis
from .scale import Band, ScaledTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BARS = 30  # bars of the density of a continuous column
DARKEST = 0.25  # grey of a bar with at least MANY of the rows
MANY = 0.2  # share of all rows
MAX_BANDS = 3  # with more curves in a panel, bands and members would hide the curves
MIN_APART = 0.02  # share of the rows from which on the band of a value in the strip is always inside the panel
INNER_SHADE, OUTER_SHADE = 0.3, 0.16  # opacity of the bands; the inner one is drawn over the outer one


class Drawn(Protocol):
    """What a panel with a value axis draws: a `Curve`, or the curves of a pair."""

    @property
    def scaled(self) -> ScaledTerm: ...
    @property
    def is_flipped(self) -> bool: ...
    @property
    def extent(self) -> tuple[float, float]: ...


@dataclass(frozen=True, eq=False)
class Curve:
    """A main effect, ready to draw."""

    scaled: ScaledTerm  # its members are None unless they are drawn
    plot_axis: PlotAxis
    colour_indices: Sequence[int]  # a colour for each drawn class

    @property
    def has_inner(self) -> bool:
        """Whether a band or an error bar for each value is drawn."""
        low, high = (end[self.plot_axis.cells] for end in self.scaled.inner)
        return self.scaled.members is None and bool((low < high).any())

    @property
    def is_flipped(self) -> bool:
        """Whether values run from left to right: levels are listed from top to bottom."""
        return self.plot_axis.labels is not None

    @property
    def extent(self) -> tuple[float, float]:
        """Lowest and highest drawn value, including members and bands."""
        scaled, axis = self.scaled, self.plot_axis
        cells, drawn = axis.cells[(axis.positions >= axis.low) & (axis.positions <= axis.high)], [scaled.base]
        for cell, _ in axis.apart:  # few rows with missing values have a wide band, which would flatten all curves
            drawn += [scaled.mean[[cell]]]
            is_many = scaled.term.weights[cell] >= MIN_APART * scaled.term.weights.sum()
            cells = np.r_[cell, cells] if is_many else cells
        drawn += [end[cells] for band in (scaled.inner, scaled.outer) if band is not None for end in band]
        drawn += [] if scaled.members is None else [scaled.members[cells]]
        return min(float(part.min()) for part in drawn), max(float(part.max()) for part in drawn)


def make_curve(scaled: ScaledTerm, colour_indices: Sequence[int], n_curves: int = 0) -> Curve:
    """`n_curves`: number of curves in the panel, if other models are drawn too."""
    axis, weights = scaled.term.axes[0], scaled.term.weights
    if axis.is_level:
        plot_axis = make_bar_axis(axis, weights, scaled.mean - scaled.base)
    else:
        plot_axis = make_plot_axis(axis, weights, point_masses(scaled.term))
    is_crowded = (n_curves or len(scaled.base)) > MAX_BANDS
    if plot_axis.labels is not None or is_crowded:
        scaled = replace(scaled, members=None)
    if plot_axis.labels is None and is_crowded:
        scaled = replace(scaled, inner=Band(scaled.mean, scaled.mean))
    if n_curves > 1 or len(scaled.base) > 1:  # colours distinguish the curves, and two bands for each would overlap
        scaled = replace(scaled, outer=None, effect="")
    return Curve(scaled, plot_axis, colour_indices)


def choose_limits(curves: Iterable[Drawn]) -> tuple[float, float]:
    """Range of the value axis that several panels share, within the limits of the drawn unit."""
    drawn = list(curves)
    low, high = min(curve.extent[0] for curve in drawn), max(curve.extent[1] for curve in drawn)
    margin = 0.05 * (high - low) or 1.0
    least, most = drawn[0].scaled.limits
    return max(low - margin, least), min(high + margin, most)


def set_limits(axes: Axes, curve: Drawn, limits: tuple[float, float]) -> None:
    """Set the range of the value axis."""
    (axes.set_xlim if curve.is_flipped else axes.set_ylim)(*limits)


def draw_background(axes: Axes, curve: Curve, taken: float = 0.0) -> None:
    """Axis, density of the training rows, line at a contribution of 0, and strip for missing values at the left.

    The range of the value axis must be set. For `taken` see `draw_plot_axis`.
    """
    term, plot_axis = curve.scaled.term, curve.plot_axis
    if not curve.is_flipped:
        draw_density(axes, plot_axis, term.weights)
    bases = curve.scaled.base
    is_shared = bool((bases == bases[0]).all())
    line = axes.axvline if curve.is_flipped else axes.axhline
    for order, base in zip(curve.colour_indices[: 1 if is_shared else None], bases, strict=False):
        line(base, color=GREY if is_shared else line_style(order)["color"], linewidth=0.6, linestyle=":")
    draw_plot_axis(axes, plot_axis, "y" if curve.is_flipped else "x", taken)
    if curve.is_flipped:
        axes.set_ylim(plot_axis.high, plot_axis.low)  # the first level is on top
        axes.tick_params(axis="y", length=0)
    draw_strip_edge(axes, plot_axis)


def draw_strip_edge(axes: Axes, plot_axis: PlotAxis) -> None:
    """The line between the curve and the strip for missing values and special codes."""
    if plot_axis.apart:
        axes.axvline(plot_axis.low, color=GREY, linewidth=0.6)


def keep_off_strip(artist: Any, axes: Axes, plot_axis: PlotAxis) -> None:
    """Clip what is drawn through knots in a cut tail: it must not run into the strip."""
    from matplotlib.patches import Rectangle

    if plot_axis.apart:
        width, transform = plot_axis.high - plot_axis.low, axes.get_xaxis_transform()
        artist.set_clip_path(Rectangle((plot_axis.low, 0), width, 1, transform=transform))


def draw_marks(axes: Axes, curve: Curve) -> list[Any]:
    """Lines or bars, and the markers in the strip; returns a legend handle for each class."""
    handles = (_draw_lines if curve.plot_axis.labels is None else _draw_bars)(axes, curve)
    for (cell, _), slot in zip(curve.plot_axis.apart, curve.plot_axis.slots, strict=True):
        _draw_apart(axes, curve, cell, slot)
    return handles


def draw_density(axes: Axes, plot_axis: PlotAxis, weights: np.ndarray, is_coarse: bool = False) -> None:
    """Training weight along a continuous axis, as grey bars in the background; see `shade_rows`."""
    from matplotlib.collections import PolyCollection

    low, high, shade = shade_rows(plot_axis, weights, is_coarse)
    along = np.stack([low, high, high, low], axis=1)
    corners = np.stack([along, np.broadcast_to([0.0, 0.0, 1.0, 1.0], along.shape)], axis=-1)
    look: dict[str, Any] = {"facecolors": [str(1 - grey) for grey in shade], "linewidth": 0, "antialiased": False}
    place = axes.get_xaxis_transform()
    axes.add_collection(PolyCollection(list(corners), transform=place, zorder=0, **look), autolim=False)


def shade_rows(plot_axis: PlotAxis, weights: np.ndarray, is_coarse: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both ends and the grey, 0 … DARKEST, of bars along a continuous axis with training weight (cells,).

    The knots of a coarse axis stand for all rows around them, other knots for the rows near them.
    """
    at, weight = plot_axis.positions, weights[plot_axis.cells]
    width = 1.0 if plot_axis.is_stepped else (plot_axis.high - plot_axis.low) / N_BARS
    if not plot_axis.is_stepped and (len(at) > FEW_KNOTS or (is_coarse and len(at) > 1)):
        edges = np.linspace(max(at[0], plot_axis.low), min(at[-1], plot_axis.high), N_BARS + 1)
        weight = _spread_weight(at, weight, edges, np.inf if is_coarse else edges[1] - edges[0])
        at, width = (edges[1:] + edges[:-1]) / 2, edges[1] - edges[0]
    # The square root keeps few rows distinguishable from none.
    shade = DARKEST * np.sqrt(np.minimum(weight / (MANY * weights.sum() or 1.0), 1.0))
    low, high = ((at + side * width / 2).clip(plot_axis.low, plot_axis.high) for side in (-1, 1))
    return low, high, shade


def _spread_weight(at: np.ndarray, weight: np.ndarray, edges: np.ndarray, reach: float) -> np.ndarray:
    """Training weight between edges: that of a knot extends half way to its neighbours, and `reach` at most.

    Sparse knots leave no gaps, and a value far from all others does not show rows between them.

    >>> edges = np.array([0.0, 1.0, 2.0, 7.0, 8.0, 9.0])
    >>> _spread_weight(np.array([0.0, 8.0, 9.0]), np.array([4.0, 2.0, 2.0]), edges, 1.0).round(6).tolist()
    [4.0, 0.0, 0.0, 1.333333, 2.666667]
    """
    cells = cell_edges(at)
    low = np.maximum(cells[:-1], at - reach).clip(at[0], at[-1])
    high = np.minimum(cells[1:], at + reach).clip(at[0], at[-1])
    ends, total = np.stack([low, high], axis=1).ravel(), np.cumsum(weight)
    share = np.interp(edges, ends, np.stack([total - weight, total], axis=1).ravel())
    return np.diff(share)


def _draw_lines(axes: Axes, curve: Curve) -> list[Any]:
    from matplotlib.collections import LineCollection

    scaled, plot_axis = curve.scaled, curve.plot_axis
    handles = []
    for k, order in enumerate(curve.colour_indices):
        look = _find_look(scaled, order)
        at, mean = plot_axis.polyline(scaled.mean[plot_axis.cells, k])
        inner, outer = (_trace_band(band, plot_axis, k) for band in (scaled.inner, scaled.outer))
        if scaled.members is not None:
            members = plot_axis.polyline(scaled.members[plot_axis.cells, :, k])[1].T
            alpha = float(np.clip(4 / len(members), 0.1, 0.45))  # more members are drawn fainter
            faint: dict[str, Any] = {"colors": look["color"], "alpha": alpha, "linewidths": 0.6}
            lines = LineCollection([np.c_[at, one] for one in members], **faint)
            axes.add_collection(lines, autolim=False)
            keep_off_strip(lines, axes, plot_axis)
        else:
            # Outlines separate the bands of several classes, which overlap.
            own, width = (OUTER_SHADE, 0.8) if len(curve.colour_indices) > 1 else (INNER_SHADE, 0.0)
            for band, shade in ((outer, OUTER_SHADE), (inner, own)):
                if band is not None and (band.low < band.high).any():
                    area = axes.fill_between(at, *band, color=look["color"], alpha=shade, linewidth=width)
                    keep_off_strip(area, axes, plot_axis)
        marker = "." if len(at) <= FEW_KNOTS and not plot_axis.is_stepped else None
        handles += axes.plot(at, mean, linewidth=1.8, marker=marker, markersize=6, **look)
        keep_off_strip(handles[-1], axes, plot_axis)
        if loose := list(plot_axis.loose):
            _draw_errors(axes, plot_axis.positions[loose], scaled, plot_axis.cells[loose], k, look["color"])
            dots = scaled.mean[plot_axis.cells[loose], k]
            axes.plot(plot_axis.positions[loose], dots, "o", color=look["color"], markersize=4)
    return handles


def _draw_bars(axes: Axes, curve: Curve) -> list[Any]:
    scaled, plot_axis = curve.scaled, curve.plot_axis
    count = len(scaled.base)
    width = 0.7 / count
    handles = []
    for k, (order, base) in enumerate(zip(curve.colour_indices, scaled.base, strict=True)):
        at = plot_axis.positions + (k - (count - 1) / 2) * width
        look = bar_style(order) | ({"facecolor": FAINT} if scaled.effect else {})
        handles.append(axes.barh(at, scaled.mean[plot_axis.cells, k] - base, width, base, **look))
        colour = "black" if count <= MAX_BANDS else line_style(order)["color"]
        _draw_errors(axes, at, scaled, plot_axis.cells, k, colour, is_flipped=True)
    return handles


def _draw_errors(
    axes: Axes, at: Any, scaled: ScaledTerm, cells: Any, k: int, colour: str, is_flipped: bool = False
) -> None:
    """Error bars of some cells: thick for each value, thin for all values together."""
    mean, has_outer = scaled.mean[cells, k], scaled.outer is not None
    inner = (scaled.inner, 2.2, 0.0) if has_outer else (scaled.inner, 1.0, 1.5)
    for band, width, cap in ((scaled.outer, 0.8, 2.5), inner):
        if band is not None and (band.low[cells, k] < band.high[cells, k]).any():
            sizes = np.abs(np.stack([mean - band.low[cells, k], band.high[cells, k] - mean])).reshape(2, -1)
            look: dict[str, Any] = {"fmt": "none", "ecolor": colour, "elinewidth": width, "capsize": cap}
            if is_flipped:
                axes.errorbar(mean, at, xerr=sizes, **look)
            else:
                axes.errorbar(at, mean, yerr=sizes, **look)


def _draw_apart(axes: Axes, curve: Curve, cell: int, slot: tuple[float, float]) -> None:
    scaled, (left, right) = curve.scaled, slot
    places = np.linspace(0.3, 0.7, len(scaled.base)) if len(scaled.base) > 1 else [0.5]
    for k, (order, place) in enumerate(zip(curve.colour_indices, places, strict=True)):
        colour = _find_look(scaled, order)["color"]
        look: dict[str, Any] = {"color": colour, "marker": "D", "markersize": 4, "zorder": 3}
        look["markerfacecolor"] = "white" if order >= len(COLOURS) else colour
        at = left + place * (right - left)
        _draw_errors(axes, at, scaled, cell, k, colour)
        axes.plot([at], [scaled.mean[cell, k]], **look)


def _find_look(scaled: ScaledTerm, order: int) -> dict[str, Any]:
    """Style of a line, grey if the term has no clear effect."""
    return line_style(order) | ({"color": GREY} if scaled.effect else {})


def _trace_band(band: Band | None, plot_axis: PlotAxis, k: int) -> Band | None:
    """The ends of a band along the line of one class."""
    return None if band is None else Band(*(plot_axis.polyline(end[plot_axis.cells, k])[1] for end in band))
