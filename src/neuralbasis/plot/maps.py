"""A pair as a heat map, a triple as several heat maps.

Red raises the score, blue lowers it, white is 0. Contour lines at a third of the scale, dashed below 0, show the sign
without colours. Cells without training rows nearby are hatched: there the map is an extrapolation. Missing values have
strips at the left and at the bottom.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoding.axis import Axis
from ..explain import TermView
from .canvas import GREY, format_value, label_axis, plain
from .plot_axis import PlotAxis, draw_plot_axis, make_plot_axis

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR_MAP = "RdBu_r"
REACH = 20  # a cell is near a row if at most 1 / REACH of the column's knots lie between them
GAP = 0.25  # share of the strip that separates it from the map


@dataclass(frozen=True, eq=False)
class Map:
    """A table over two axes, ready to draw.

    Parameters
    ----------
    names : names of the two columns
    plot_axes : x and y axis
    values : (c_1, c_2, …) all cells of the table
    is_empty : (c_1, c_2) whether no training row is near
    """

    names: tuple[str, str]
    plot_axes: tuple[PlotAxis, PlotAxis]
    values: np.ndarray
    is_empty: np.ndarray

    @property
    def limit(self) -> float:
        """Largest absolute value of the drawn cells that are near training rows."""
        seen = np.ix_(*(np.r_[0, r.cells] if r.has_missing else r.cells for r in self.plot_axes))
        drawn = np.abs(self.values[seen])[~self.is_empty[seen]]
        return float(drawn.max(initial=0.0))

    @property
    def edges(self) -> list[np.ndarray]:
        """Edges of the drawn cells along both axes, with a strip and a gap for missing values before the first cell."""
        found = []
        for plot_axis in self.plot_axes:
            edges, (left, right) = plot_axis.edges, plot_axis.strip
            if plot_axis.has_missing:
                edges = np.r_[left, right - GAP * (right - left), edges.clip(plot_axis.low, plot_axis.high)]
            found.append(edges)
        return found

    def select_drawn(self, table: np.ndarray) -> np.ma.MaskedArray:
        """The drawn cells of a table (c_1, c_2, …); the gaps beside the strips are masked."""
        cells = [np.r_[0, 0, r.cells] if r.has_missing else r.cells for r in self.plot_axes]
        drawn = np.ma.array(table[np.ix_(*cells)])
        for d, plot_axis in enumerate(self.plot_axes):
            if plot_axis.has_missing:
                drawn[(slice(None),) * d + (1,)] = np.ma.masked
        return drawn


def make_map(term: TermView, values: np.ndarray, weights: np.ndarray, kept: Sequence[int] = (0, 1)) -> Map:
    """A map of `values` (c_1, c_2, …) over two axes of a term; `weights` (c_1, c_2) is the training weight."""
    axes, around = [term.axes[d] for d in kept], range(len(term.axes))
    x, y = (make_plot_axis(term.axes[d], term.weights.sum(axis=tuple(o for o in around if o != d))) for d in kept)
    names = plain(term.columns[kept[0]], 28), plain(term.columns[kept[1]], 28)
    return Map(names, (x, y), values, find_empty(axes, weights))


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
    edges = panel.edges
    look: dict[str, Any] = {"cmap": COLOUR_MAP, "vmin": -limit, "vmax": limit, "rasterized": True}
    mesh = axes.pcolormesh(*edges, panel.select_drawn(panel.values).T, **look)
    draw_contours(axes, panel, panel.values, [-limit / 3, limit / 3])
    finish_map(axes, panel)
    return mesh


def finish_map(axes: Axes, panel: Map) -> None:
    """Hatch empty cells and set ranges, ticks and labels of a map whose cells are drawn."""
    _hatch_empty(axes, panel)
    directions: tuple[Literal["x", "y"], ...] = ("x", "y")
    for direction, plot_axis, edges, name in zip(directions, panel.plot_axes, panel.edges, panel.names, strict=True):
        draw_plot_axis(axes, plot_axis, direction)
        low = plot_axis.strip[0] if plot_axis.has_missing else max(plot_axis.low, edges[0])
        hides_levels = len(plot_axis.labels or ()) > len(plot_axis.positions)  # the last label counts them
        axes.set(**{f"{direction}lim": (low, plot_axis.high if hides_levels else min(plot_axis.high, edges[-1]))})
        label_axis(axes, direction, f"{name} ({plot_axis.note})" if plot_axis.is_cut else name)
        if plot_axis.has_missing:
            _label_strip(axes, plot_axis, direction)
    axes.spines[:].set_visible(False)


def _label_strip(axes: Axes, plot_axis: PlotAxis, direction: Literal["x", "y"]) -> None:
    left, right = plot_axis.strip
    middle = left + (1 - GAP) / 2 * (right - left)
    if direction == "x":
        slant: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor", "ha": "right", "va": "top"}
        axes.text(middle, -0.02, "missing", transform=axes.get_xaxis_transform(), fontsize=7, **slant)
    else:
        axes.text(-0.02, middle, "missing", transform=axes.get_yaxis_transform(), fontsize=7, ha="right", va="center")


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


def _hatch_empty(axes: Axes, panel: Map) -> None:
    """Hatch empty cells over a white tint, as one patch, which has no seams between cells."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, foot = np.nonzero(panel.select_drawn(panel.is_empty).filled(False))
    if not len(left):
        return
    x, y = panel.edges
    corners = np.stack([
        np.stack([x[left], x[left + 1], x[left + 1], x[left], x[left]], axis=1),
        np.stack([y[foot], y[foot], y[foot + 1], y[foot + 1], y[foot]], axis=1),
    ], axis=2)  # fmt: skip
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(left))
    path = Path(corners.reshape(-1, 2), codes)
    axes.add_patch(PathPatch(path, facecolor=(1, 1, 1, 0.65), edgecolor=GREY, hatch="////", linewidth=0))


def add_colour_bar(figure: Any, mesh: Any, axes: Sequence[Axes], unit: str) -> None:
    """A colour bar right of the maps, in a figure or a subfigure."""
    n_rows = len({panel.get_subplotspec().rowspan.start for panel in axes})  # type: ignore[union-attr]
    bar = figure.colorbar(mesh, ax=axes, shrink=1.2 / (n_rows + 0.5), aspect=25)
    label_axis(bar.ax, "y", unit)
    bar.outline.set_visible(False)


def split_triple(term: TermView, values: np.ndarray, count: int) -> list[tuple[str, Map]]:
    """A triple as maps of two columns at some values of the third, each with its title.

    `values` (c_1, c_2, c_3). The third column is a column of levels if there is one, otherwise the last column.
    """
    across = next((d for d in (2, 1, 0) if term.axes[d].is_level), 2)
    kept = [d for d in range(3) if d != across]
    found = []
    for cell, text in choose_levels(term.axes[across], term.weights.sum(axis=tuple(kept)), count):
        weights = term.weights.take(cell, axis=across)
        panel = make_map(term, values.take(cell, axis=across), weights, kept)
        found.append((f"{plain(term.columns[across], 20)} = {text}", panel))
    return found


def choose_levels(axis: Axis, weights: np.ndarray, count: int) -> list[tuple[int, str]]:
    """Some cells of an axis and their names: the most frequent levels, or knots at evenly spaced quantiles."""
    inner = weights[1:-1]
    if axis.levels is not None:
        kept = np.sort(np.argsort(-inner, kind="stable")[:count])
        return [(index + 1, plain(axis.levels[index], 20)) for index in kept.tolist()]
    share = (np.cumsum(inner) - inner / 2) / max(inner.sum(), np.finfo(float).tiny)
    wanted = (np.arange(count) + 0.5) / count
    kept = np.unique(np.searchsorted(share, wanted).clip(max=len(inner) - 1))
    return [(index + 1, format_value(axis.knots[index])) for index in kept.tolist()]
