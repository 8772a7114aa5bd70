"""A pair as curves of one column, one for each of some values of the other column.

Thick where training rows are near, thin where none is. A column of levels has a marker with an error bar for each level
instead of a curve, hollow where no training row is near. In: a scaled pair, with or without the main effects of its
columns. Out: a `PairCurves`, ready to draw.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoding.axis import Axis
from ..explain import GlobalExplanation, TermView
from ..explain.point_masses import PointMass, list_point_masses, point_masses
from .canvas import CHARS_PER_INCH, DASHES, FAINT, GREY, line_style, plain
from .curves import draw_density, draw_strip_edge, keep_off_strip
from .maps import choose_knots, find_empty, name_knot
from .plot_axis import PlotAxis, draw_plot_axis, make_bar_axis, make_plot_axis
from .scale import Band, Scale, ScaledTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MARKERS = "osD^vP*Xph"
SPREAD = 0.7  # height of a level that its markers share


@dataclass(frozen=True, eq=False)
class PairCurves:
    """The curves of a pair for one class; P cells along one column, C curves."""

    scaled: ScaledTerm
    side: int  # index of the column along the curves
    plot_axis: PlotAxis  # of the column along the curves
    weights: np.ndarray  # training weight of the cells of this column
    names: list[str]  # (C,) the values of the other column
    looks: list[dict[str, Any]]
    values: np.ndarray  # (P, C)
    band: Band  # (P, C), described by `scaled.inner_name`
    is_near: np.ndarray  # (P, C) whether training rows are near
    apart: np.ndarray  # (A, C) values in the strip, where the column along the curves is missing or has a special code

    @property
    def names_of_columns(self) -> tuple[str, str]:
        """The column along the curves, and the column whose values distinguish them."""
        columns = self.scaled.term.columns
        return columns[self.side], columns[1 - self.side]

    @property
    def is_flipped(self) -> bool:
        """Whether values run from left to right: levels are listed from top to bottom."""
        return self.plot_axis.labels is not None

    @property
    def has_bars(self) -> bool:
        return self.is_flipped and bool((self.band.low < self.band.high).any())

    @property
    def extent(self) -> tuple[float, float]:
        """Lowest and highest value near training rows: extrapolations may leave the panel."""
        axis = self.plot_axis
        is_inside = ((axis.positions >= axis.low) & (axis.positions <= axis.high))[:, None]
        chosen = self.is_near & is_inside if (self.is_near & is_inside).any() else is_inside & True
        drawn = [self.values, *(self.band if self.is_flipped else ())]
        found = np.concatenate([table[np.broadcast_to(chosen, table.shape)] for table in drawn])
        ends = np.r_[found, self.apart.ravel(), self.scaled.base]
        return float(ends.min()), float(ends.max())


def make_pair_curves(scaled: ScaledTerm, side: int, levels: int | Sequence[Any], drawn: Scale) -> PairCurves:
    """Curves along the column `side`, at a number of values of the other column or at the listed ones."""
    term, across = scaled.term, 1 - side
    axis, weights = term.axes[side], term.weights.sum(axis=across)
    chosen = np.array(_choose_slices(term.axes[across], term.weights.sum(axis=side), levels))
    tables = scaled.mean[..., 0], *(end[..., 0] for end in scaled.inner), ~find_empty(term.axes, term.weights)
    mean, low, high, near = (np.moveaxis(table, side, 0)[:, chosen + 1] for table in tables)
    if axis.is_level:
        plot_axis = make_bar_axis(axis, weights, mean.mean(axis=1, keepdims=True) - scaled.base[0])
    else:
        plot_axis = make_plot_axis(axis, weights, list_column_masses(drawn.explanation, term)[side])
    names = _name_slices(term.axes[across], chosen)
    looks, cells = _choose_colours(term.axes[across], len(chosen), drawn.is_multiclass), plot_axis.cells
    band, apart = Band(low[cells], high[cells]), mean[[cell for cell, _ in plot_axis.apart]]
    return PairCurves(scaled, side, plot_axis, weights, names, looks, mean[cells], band, near[cells], apart)


def list_column_masses(explanation: GlobalExplanation, term: TermView) -> list[Sequence[PointMass]]:
    """The point masses of each column of a term, as in the figures of their main effects."""
    mains = [view for view in explanation.terms if len(view.columns) == 1 and view.columns[0] in term.columns]
    return list_point_masses(term, {view.columns[0]: point_masses(view) for view in mains})


def draw_pair_curves(axes: Axes, curves: PairCurves, taken: float = 0.0) -> list[Any]:
    """Draw the curves; the range of the value axis must be set. Returns a legend handle for each of them.

    For `taken` see `draw_plot_axis`.
    """
    plot_axis, base = curves.plot_axis, curves.scaled.base[0]
    (axes.axvline if curves.is_flipped else axes.axhline)(base, color=GREY, linewidth=0.6, linestyle=":")
    draw_plot_axis(axes, plot_axis, "y" if curves.is_flipped else "x", taken)
    if curves.is_flipped:
        axes.set_ylim(plot_axis.high, plot_axis.low)
        axes.tick_params(axis="y", length=0)
        return _draw_markers(axes, curves)
    draw_density(axes, plot_axis, curves.weights, is_coarse=True)
    draw_strip_edge(axes, plot_axis)
    return _draw_lines(axes, curves)


def label_curves(axes: Axes, handles: list[Any], names: Sequence[str], column: str, inches: float) -> None:
    """A legend above a panel, below its title, with the name of the column."""
    room, size = int(1.3 * CHARS_PER_INCH * inches), 7.0  # the final layout is larger
    longest = max(10, room // 2 - 7)  # two columns fit
    names = [name if len(name) <= longest else plain(name.replace(r"\$", "$"), longest) for name in names]
    letters = max(map(len, names)) + 6
    count = max(1, min(len(names), room // letters))
    look: dict[str, Any] = {"handlelength": 1.4, "columnspacing": 0.9, "handletextpad": 0.4, "borderaxespad": 0.2}
    axes.legend(
        handles, list(names), title=column, title_fontsize=size, loc="lower center", bbox_to_anchor=(0.5, 1.0),
        ncols=count, fontsize=size, labelspacing=0.2, borderpad=0.1, **look,
    )  # fmt: skip
    axes.set_title(axes.get_title(), pad=8 + 1.35 * size * (1 - (-len(names) // count)))


def find_side(term: TermView, along: str | None) -> int:
    """Index of the column along the curves: by default a continuous one, or the one with more knots or levels."""
    if along is None:
        one, other = term.axes
        return int(one.is_level if one.is_level != other.is_level else len(other.knots) > len(one.knots))
    if along not in term.columns:
        first, second = term.columns
        raise ValueError(f"along must be a column of the pair, {first!r} or {second!r}; got {along!r}")
    return term.columns.index(along)


def _draw_lines(axes: Axes, curves: PairCurves) -> list[Any]:
    plot_axis, handles, count = curves.plot_axis, [], len(curves.looks)
    loose = list(plot_axis.loose)
    for j, look in enumerate(curves.looks):
        at, line = plot_axis.polyline(curves.values[:, j])
        _, near = plot_axis.polyline(curves.is_near[:, j])
        (thin,) = axes.plot(at, line, linewidth=0.5, **look)
        handles += axes.plot(at, np.where(near, line, np.nan), linewidth=2.0, **look)
        keep_off_strip(thin, axes, plot_axis)
        keep_off_strip(handles[-1], axes, plot_axis)
        dots: dict[str, Any] = {"color": look["color"], "linestyle": "", "markersize": 3.5, "zorder": 3}
        axes.plot(plot_axis.positions[loose], curves.values[loose, j], marker="o", **dots)
        for (left, right), values in zip(plot_axis.slots, curves.apart, strict=True):
            place = left + (0.5 + 0.5 * (j - (count - 1) / 2) / count) * (right - left)
            axes.plot([place], [values[j]], marker="D", **dots)
    return handles


def _draw_markers(axes: Axes, curves: PairCurves) -> list[Any]:
    handles, count = [], len(curves.looks)
    for j, look in enumerate(curves.looks):
        colour = look["color"]
        at = curves.plot_axis.positions + (j - (count - 1) / 2) * SPREAD / count
        own: dict[str, Any] = {"color": colour, "marker": MARKERS[j % len(MARKERS)], "linestyle": "", "markersize": 4.5}
        values, low, high = curves.values[:, j], curves.band.low[:, j], curves.band.high[:, j]
        if (low < high).any():
            sizes = np.abs(np.stack([values - low, high - values]))
            axes.errorbar(values, at, xerr=sizes, fmt="none", ecolor=colour, elinewidth=1.0, capsize=2.0)
        near = curves.is_near[:, j]
        axes.plot(values[~near], at[~near], **own, markerfacecolor="white")
        handles += axes.plot(values[near], at[near], **own)
    for place in curves.plot_axis.positions[1:] - 0.5:
        axes.axhline(place, color=FAINT, linewidth=0.4, zorder=0.5)
    return handles


def _name_slices(axis: Axis, chosen: np.ndarray) -> list[str]:
    """Names of levels, or values of knots with enough digits to differ."""
    names = [name_knot(axis, index) for index in chosen]
    if axis.is_level or len(set(names)) == len(set(chosen.tolist())):
        return names
    return [f"{axis.knots[index]:.8g}" for index in chosen]


def _choose_colours(axis: Axis, count: int, is_multiclass: bool) -> list[dict[str, Any]]:
    """Line styles: colours of their own for levels, dark to light for numbers; colours of classes are not reused."""
    if axis.is_level and not is_multiclass:
        return [line_style(order) for order in range(count)]
    from matplotlib import colormaps

    shades = np.linspace(0.0, 0.85, count)
    dashes = DASHES if axis.is_level else ("-",)
    return [{"color": colormaps["viridis"](s), "linestyle": dashes[k % len(dashes)]} for k, s in enumerate(shades)]


def _choose_slices(axis: Axis, weights: np.ndarray, levels: int | Sequence[Any]) -> list[int]:
    """Indices of knots or levels of the other column."""
    if isinstance(levels, (int, np.integer)):
        if not 1 <= levels <= 10:
            raise ValueError(f"levels must be 1 to 10 curves, or a list of values; got {levels!r}")
        return choose_knots(axis, weights, int(levels))
    if axis.levels is None:
        return [int(np.abs(axis.knots - float(value)).argmin()) for value in levels]
    unknown = [level for level in levels if str(level) not in axis.levels]
    if unknown:
        known = ", ".join(map(repr, axis.levels[:20]))
        raise ValueError(f"column {axis.name!r} has no level {unknown[0]!r} in this pair; its levels are {known}")
    return [axis.levels.index(str(level)) for level in levels]
