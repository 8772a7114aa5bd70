"""Maps: a pair as a heat map, a triple as several of them.

Colours diverge from white at 0, red where the score rises, blue where it falls; lines at a third of the scale, dashed
below 0, tell the sign without colours. Cells that no training row is near are veiled and hatched: there the map is an
extrapolation. Missing values have a strip of their own at the left and at the foot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoding.axis import Axis
from ..explain import TermView
from .canvas import GREY, label_axis, plain
from .ruler import Ruler, draw_ruler, lay_ruler

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOUR_MAP = "RdBu_r"
REACH = 20  # a cell is near a row if that is at most this part of a column's knots away
GAP = 0.25  # of a strip, between it and the map


@dataclass(frozen=True, eq=False)
class Map:
    """A table over two axes as it is drawn.

    Parameters
    ----------
    names : of the two columns
    rulers : of the two axes
    values : (c_1, c_2, …) all cells of the table
    is_empty : (c_1, c_2) whether no training row is near
    """

    names: tuple[str, str]
    rulers: tuple[Ruler, Ruler]
    values: np.ndarray
    is_empty: np.ndarray

    @property
    def limit(self) -> float:
        """Largest size of a value that is drawn near rows."""
        seen = np.ix_(*(np.r_[0, r.cells] if r.has_missing else r.cells for r in self.rulers))
        drawn = np.abs(self.values[seen])[~self.is_empty[seen]]
        return float(drawn.max(initial=0.0))

    @property
    def sides(self) -> list[np.ndarray]:
        """Borders of the drawn cells along both axes; before the first cell a strip and a gap for the missing one."""
        found = []
        for ruler in self.rulers:
            sides, (left, right) = ruler.sides, ruler.strip
            if ruler.has_missing:
                sides = np.r_[left, right - GAP * (right - left), sides.clip(ruler.low, ruler.high)]
            found.append(sides)
        return found

    def cut(self, table: np.ndarray) -> np.ma.MaskedArray:
        """The drawn cells of a table (c_1, c_2, …), masked in the gaps beside the strips."""
        cells = [np.r_[0, 0, r.cells] if r.has_missing else r.cells for r in self.rulers]
        drawn = np.ma.array(table[np.ix_(*cells)])
        for d, ruler in enumerate(self.rulers):
            if ruler.has_missing:
                drawn[(slice(None),) * d + (1,)] = np.ma.masked
        return drawn


def lay_map(term: TermView, values: np.ndarray, weights: np.ndarray, kept: Sequence[int] = (0, 1)) -> Map:
    """The table `values` (c_1, c_2, …) over two axes of a term, with the training weight (c_1, c_2) of its cells."""
    axes, around = [term.axes[d] for d in kept], range(len(term.axes))
    x, y = (lay_ruler(term.axes[d], term.weights.sum(axis=tuple(o for o in around if o != d))) for d in kept)
    names = plain(term.columns[kept[0]], 28), plain(term.columns[kept[1]], 28)
    return Map(names, (x, y), values, find_empty(axes, weights))


def find_empty(axes: Sequence[Axis], weights: np.ndarray) -> np.ndarray:
    """Cells that no training row is on or near."""
    from scipy.ndimage import maximum_filter1d

    near = weights > 0
    for d, axis in enumerate(axes):
        width = 1 + 2 * (len(axis.knots) // REACH)
        if not axis.is_level and width > 1:
            inner = np.moveaxis(near, d, 0)[1:-1]
            inner[:] = maximum_filter1d(inner.astype(np.uint8), width, axis=0, mode="constant") > 0
    return ~near


def draw_map(axes: Axes, panel: Map, limit: float) -> Any:
    """A heat map from -limit to limit; returns what a colour bar explains."""
    sides = panel.sides
    look: dict[str, Any] = {"cmap": COLOUR_MAP, "vmin": -limit, "vmax": limit, "rasterized": True}
    mesh = axes.pcolormesh(*sides, panel.cut(panel.values).T, **look)
    outline(axes, panel, panel.values, [-limit / 3, limit / 3])
    finish_map(axes, panel)
    return mesh


def finish_map(axes: Axes, panel: Map) -> None:
    """The veil over empty cells, ranges, ticks and names of a map whose cells are drawn."""
    _veil(axes, panel)
    directions: tuple[Literal["x", "y"], ...] = ("x", "y")
    for direction, ruler, sides, name in zip(directions, panel.rulers, panel.sides, panel.names, strict=True):
        draw_ruler(axes, ruler, direction)
        low = ruler.strip[0] if ruler.has_missing else max(ruler.low, sides[0])
        hides_levels = len(ruler.labels or ()) > len(ruler.at)  # the last label says how many
        axes.set(**{f"{direction}lim": (low, ruler.high if hides_levels else min(ruler.high, sides[-1]))})
        label_axis(axes, direction, f"{name} ({ruler.note})" if ruler.is_cut else name)
        if ruler.has_missing:
            _name_strip(axes, ruler, direction)
    axes.spines[:].set_visible(False)


def _name_strip(axes: Axes, ruler: Ruler, direction: Literal["x", "y"]) -> None:
    left, right = ruler.strip
    middle = left + (1 - GAP) / 2 * (right - left)
    if direction == "x":
        slant: dict[str, Any] = {"rotation": 45, "rotation_mode": "anchor", "ha": "right", "va": "top"}
        axes.text(middle, -0.02, "missing", transform=axes.get_xaxis_transform(), fontsize=7, **slant)
    else:
        axes.text(-0.02, middle, "missing", transform=axes.get_yaxis_transform(), fontsize=7, ha="right", va="center")


def outline(axes: Axes, panel: Map, table: np.ndarray, levels: Sequence[float]) -> None:
    """Lines where a table (c_1, c_2) has these values, dashed below 0; missing cells have none."""
    inner = table[np.ix_(*(ruler.cells for ruler in panel.rulers))]
    if min(inner.shape) < 2:
        return
    x, inner = panel.rulers[0].trace(inner)
    y, inner = panel.rulers[1].trace(inner.T)
    found = [level for level in levels if inner.min() < level < inner.max()]  # matplotlib warns of others
    if found:
        dashes = ["--" if level < 0 else "-" for level in found]
        axes.contour(x, y, inner, levels=found, colors="black", linestyles=dashes, linewidths=0.5)


def _veil(axes: Axes, panel: Map) -> None:
    """A white veil with hatches over the cells that no row is near, as one patch: no seams between cells."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    left, foot = np.nonzero(panel.cut(panel.is_empty).filled(False))
    if not len(left):
        return
    x, y = panel.sides
    corners = np.stack([
        np.stack([x[left], x[left + 1], x[left + 1], x[left], x[left]], axis=1),
        np.stack([y[foot], y[foot], y[foot + 1], y[foot + 1], y[foot]], axis=1),
    ], axis=2)  # fmt: skip
    codes = np.tile([Path.MOVETO, Path.LINETO, Path.LINETO, Path.LINETO, Path.CLOSEPOLY], len(left))
    path = Path(corners.reshape(-1, 2), codes)
    axes.add_patch(PathPatch(path, facecolor=(1, 1, 1, 0.65), edgecolor=GREY, hatch="////", linewidth=0))


def add_bar(figure: Any, mesh: Any, axes: Sequence[Axes], unit: str) -> None:
    """The colour bar of some maps, right of them, in a figure or a part of one."""
    n_rows = len({panel.get_subplotspec().rowspan.start for panel in axes})  # type: ignore[union-attr]
    bar = figure.colorbar(mesh, ax=axes, shrink=1.2 / (n_rows + 0.5), aspect=25)
    label_axis(bar.ax, "y", unit)
    bar.outline.set_visible(False)


def split_triple(term: TermView, values: np.ndarray, count: int) -> list[tuple[str, Map]]:
    """A triple as maps of two of its columns at some levels of the third, each with its title.

    `values` (c_1, c_2, c_3). The third column is one of levels where there is one, otherwise the last.
    """
    across = next((d for d in (2, 1, 0) if term.axes[d].is_level), 2)
    kept = [d for d in range(3) if d != across]
    found = []
    for cell, text in choose_levels(term.axes[across], term.weights.sum(axis=tuple(kept)), count):
        weights = term.weights.take(cell, axis=across)
        panel = lay_map(term, values.take(cell, axis=across), weights, kept)
        found.append((f"{plain(term.columns[across], 20)} = {text}", panel))
    return found


def choose_levels(axis: Axis, weights: np.ndarray, count: int) -> list[tuple[int, str]]:
    """Some cells of an axis and their names: the most frequent levels, or knots at even quantiles of the rows."""
    inner = weights[1:-1]
    if axis.levels is not None:
        kept = np.sort(np.argsort(-inner, kind="stable")[:count])
        return [(index + 1, plain(axis.levels[index], 20)) for index in kept.tolist()]
    share = (np.cumsum(inner) - inner / 2) / max(inner.sum(), np.finfo(float).tiny)
    wanted = (np.arange(count) + 0.5) / count
    kept = np.unique(np.searchsorted(share, wanted).clip(max=len(inner) - 1))
    return [(index + 1, write_value(axis.knots[index])) for index in kept.tolist()]


def write_value(value: float) -> str:
    """A raw value as a person writes it.

    >>> write_value(2.0), write_value(1234567.0), write_value(0.123456), write_value(2.5)
    ('2', '1,234,567', '0.123', '2.5')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.3g}"
