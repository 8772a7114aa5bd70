"""A pair as a heat map, a triple as several heat maps.

Red raises the score, blue lowers it, white is 0. Contour lines at a third of the scale, dashed below 0, show the sign
without colours. Cells whose 95 % band contains 0 are pale. Cells without training rows nearby are hatched: there the
map is an extrapolation. Missing values and special codes have strips at the left and at the bottom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoding.axis import Axis
from ..explain import TermView
from ..explain.point_masses import PointMass, list_point_masses
from .canvas import GREY, format_value, label_axis, plain
from .plot_axis import PlotAxis, cell_edges, draw_plot_axis, make_plot_axis, measure_names

if TYPE_CHECKING:
    from matplotlib.axes import Axes

REACH = 20  # a cell is near a row if at most 1 / REACH of the column's knots lie between them
PALE = 0.65  # share of white in pale cells
BAR_ROOM = 0.5  # inches for the colour bar beside a map
GAP = 0.25  # share of the strip that separates it from the map


@dataclass(frozen=True, eq=False)
class Map:
    """A table over two axes, ready to draw."""

    names: list[str]
    plot_axes: list[PlotAxis]  # x and y
    values: np.ndarray  # (c_1, c_2, …) all cells of the table
    is_empty: np.ndarray  # (c_1, c_2) whether no training row is near
    is_pale: np.ndarray | None = None  # (c_1, c_2) whether training rows are near and the band contains 0
    term: str = ""  # all maps of a term have one colour scale

    @property
    def limit(self) -> float:
        """Largest absolute value of the drawn cells that are near training rows."""
        return float(self.select_drawn(np.where(self.is_empty, 0.0, np.abs(self.values))).max())

    @property
    def edges(self) -> list[np.ndarray]:
        """Edges of the drawn cells along both axes; the strip and a gap come before the first cell."""
        found = []
        for plot_axis in self.plot_axes:
            edges = cell_edges(plot_axis.positions)
            if plot_axis.apart:
                slots = [left for left, _ in plot_axis.slots]
                left, right = plot_axis.slots[-1]
                edges = np.r_[slots, right - GAP * (right - left), edges.clip(plot_axis.low, plot_axis.high)]
            found.append(edges)
        return found

    def select_drawn(self, table: np.ndarray) -> np.ma.MaskedArray:
        """The drawn cells of a table (c_1, c_2, …); the gaps beside the strips are masked."""
        strips = [[cell for cell, _ in plot_axis.apart] for plot_axis in self.plot_axes]
        cells = [
            np.r_[own, own[-1], plot_axis.cells].astype(int) if own else plot_axis.cells
            for own, plot_axis in zip(strips, self.plot_axes, strict=True)
        ]
        drawn = np.ma.array(table[np.ix_(*cells)])
        for d, own in enumerate(strips):
            if own:
                drawn[(slice(None),) * d + (len(own),)] = np.ma.masked
        return drawn


def make_map(
    term: TermView,
    values: np.ndarray,
    weights: np.ndarray | None = None,
    kept: Sequence[int] = (0, 1),
    supported: np.ndarray | None = None,
    masses: Sequence[Sequence[PointMass]] | None = None,
) -> Map:
    """A map of `values` (c_1, c_2, …) over two axes of a term.

    For a part of a triple, `weights` (c_1, c_2) is its training weight. Cells that are not `supported` (c_1, c_2) are
    pale. `masses` are the point masses of each column of the term; None finds them in the term.
    """
    axes, around = [term.axes[d] for d in kept], set(range(len(term.axes)))
    own = list_point_masses(term, {}) if masses is None else masses
    weight_of = {d: term.weights.sum(axis=tuple(around - {d})) for d in kept}
    # A map has no gaps: values that a curve does not join are cells like others.
    plot_axes = [replace(make_plot_axis(term.axes[d], weight_of[d], own[d]), loose=()) for d in kept]
    names = [plain(term.columns[d], 28) for d in kept]
    is_empty = find_empty(axes, term.weights if weights is None else weights)
    is_pale = None if supported is None else ~supported & ~is_empty
    return Map(names, plot_axes, values, is_empty, is_pale, term.name)


def find_empty(axes: Sequence[Axis], weights: np.ndarray) -> np.ndarray:
    """Cells without a training row on them or near them."""
    from scipy.ndimage import maximum_filter1d

    near = weights > 0
    for d, axis in enumerate(axes):
        width = 1 + 2 * (len(axis.knots) // REACH)
        if not axis.is_level and width > 1:
            inner = np.moveaxis(near, d, 0)[1:-1]
            inner[:] = maximum_filter1d(inner.astype(np.uint8), width, axis=0, mode="constant") > 0
    return ~near


def draw_map(axes: Axes, panel: Map, limit: float) -> Any:
    """Draw a heat map from -limit to limit; returns the mesh for a colour bar."""
    look: dict[str, Any] = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit, "rasterized": True}
    mesh = axes.pcolormesh(*panel.edges, panel.select_drawn(panel.values).T, **look)
    if panel.is_pale is not None:
        _cover_cells(axes, panel, panel.is_pale, facecolor=(1, 1, 1, PALE), edgecolor="none")
    draw_contours(axes, panel, panel.values, [-limit / 3, limit / 3])
    finish_map(axes, panel)
    return mesh


def finish_map(axes: Axes, panel: Map) -> None:
    """Hatch empty cells over a white tint, and set ranges, ticks and labels of a map whose cells are drawn."""
    _cover_cells(axes, panel, panel.is_empty, facecolor=(1, 1, 1, PALE), edgecolor=GREY, hatch="////")
    directions: tuple[Literal["x", "y"], ...] = ("x", "y")
    taken = {"x": BAR_ROOM + measure_names(panel.plot_axes[1]), "y": 0.0}
    for direction, plot_axis, edges, name in zip(directions, panel.plot_axes, panel.edges, panel.names, strict=True):
        draw_plot_axis(axes, plot_axis, direction, taken[direction])
        low = plot_axis.start if plot_axis.apart else max(plot_axis.low, edges[0])
        hides_levels = len(plot_axis.labels or ()) > len(plot_axis.positions)  # the last label counts them
        axes.set(**{f"{direction}lim": (low, plot_axis.high if hides_levels else min(plot_axis.high, edges[-1]))})
        label_axis(axes, direction, f"{name} ({plot_axis.note})" if plot_axis.note else name)
    axes.spines[:].set_visible(False)


def draw_contours(axes: Axes, panel: Map, table: np.ndarray, levels: Sequence[float]) -> None:
    """Contour lines of a table (c_1, c_2) at these values, dashed below 0; strips have none."""
    inner = table[np.ix_(*(plot_axis.cells for plot_axis in panel.plot_axes))]
    if min(inner.shape) < 2:
        return
    x, inner = panel.plot_axes[0].polyline(inner)
    y, inner = panel.plot_axes[1].polyline(inner.T)
    found = [level for level in levels if inner.min() < level < inner.max()]  # others make matplotlib warn
    if found:
        dashes = ["--" if level < 0 else "-" for level in found]
        axes.contour(x, y, inner, levels=found, colors="black", linestyles=dashes, linewidths=0.5)


def _cover_cells(axes: Axes, panel: Map, cells: np.ndarray, **look: Any) -> None:
    """Draw one patch over some cells (c_1, c_2), which has no seams between them."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, foot = np.nonzero(panel.select_drawn(cells).filled(False))
    if not len(left):
        return
    x, y = panel.edges
    around = left + np.array([[0], [1], [1], [0], [0]]), foot + np.array([[0], [0], [1], [1], [0]])  # (5, cells)
    corners = np.stack([x[around[0]], y[around[1]]], axis=-1)
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(left))
    path = Path(corners.swapaxes(0, 1).reshape(-1, 2), codes)
    axes.add_patch(PathPatch(path, linewidth=0, **look))


def add_colour_bar(figure: Any, mesh: Any, axes: Sequence[Axes], unit: str) -> None:
    """A colour bar right of the maps, in a figure or a subfigure."""
    n_rows = len({panel.get_subplotspec().rowspan.start for panel in axes})  # type: ignore[union-attr]
    bar = figure.colorbar(mesh, ax=axes, shrink=1.2 / (n_rows + 0.5), aspect=25)
    label_axis(bar.ax, "y", unit)
    bar.outline.set_visible(False)


def make_maps(
    term: TermView,
    values: np.ndarray,
    count: int,
    supported: np.ndarray | None = None,
    masses: Sequence[Sequence[PointMass]] | None = None,
) -> list[tuple[str, Map]]:
    """A pair as one map, a triple as maps of two columns at `count` values of the third, each with its title.

    `values` and `supported` (c_1, c_2, …). The third column is a column of levels if there is one, otherwise the
    last column.
    """
    if len(term.columns) == 2:
        return [("", make_map(term, values, supported=supported, masses=masses))]
    if len(term.columns) > 3:
        raise ValueError(f"figures show terms of up to three columns; {term.name!r} has {len(term.columns)}")
    across = next((d for d in (2, 1, 0) if term.axes[d].is_level), 2)
    kept = [d for d in range(3) if d != across]
    found = []
    for index in choose_knots(term.axes[across], term.weights.sum(axis=tuple(kept)), count):
        drawn, weights = (table.take(index + 1, axis=across) for table in (values, term.weights))
        title = f"{plain(term.columns[across], 20)} = {name_knot(term.axes[across], index)}"
        clear = None if supported is None else supported.take(index + 1, axis=across)
        found.append((title, make_map(term, drawn, weights, kept, clear, masses)))
    return found


def choose_knots(axis: Axis, weights: np.ndarray, count: int) -> list[int]:
    """Indices of the most frequent levels, or of knots at evenly spaced quantiles.

    If many rows share a value, the remaining knots are at quantiles of the other rows.
    """
    inner = weights[1:-1].astype(float)
    if axis.is_level:
        return np.sort(np.argsort(-inner, kind="stable")[:count]).tolist()
    chosen = _choose_quantiles(inner, count)
    while len(chosen) < count and (rest := np.where(np.isin(np.arange(len(inner)), chosen), 0.0, inner)).any():
        chosen = np.union1d(chosen, _choose_quantiles(rest, count - len(chosen)))
    return chosen.tolist()


def _choose_quantiles(weights: np.ndarray, count: int) -> np.ndarray:
    """Indices with a positive weight.

    >>> _choose_quantiles(np.array([2.0, 0.0, 2.0]), 1).tolist()
    [2]
    """
    known = np.flatnonzero(weights > 0) if (weights > 0).any() else np.arange(len(weights))
    own = weights[known]
    share = (np.cumsum(own) - own / 2) / max(own.sum(), np.finfo(float).tiny)
    wanted = (np.arange(count) + 0.5) / count
    return np.unique(known[np.searchsorted(share, wanted).clip(max=len(known) - 1)])


def name_knot(axis: Axis, index: int) -> str:
    """The value of a knot, or the name of a level."""
    return format_value(axis.knots[index]).replace("-", "−") if axis.levels is None else plain(axis.levels[index], 20)
