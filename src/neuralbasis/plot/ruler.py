"""Ruler: one axis as it is drawn. Which cells, where they stand, what is written below them.

A continuous column is drawn in raw units, each knot at its value; a column of whole numbers in steps of width 1. A
long tail is cut. Levels stand at 0, 1, 2, …, the most frequent in the axis's order. The missing cell, if any training
row stood on it, has a strip of its own at the low end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoding.axis import Axis
from .canvas import GREY, LETTERS, find_inches, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LEVELS = 12
FEW_KNOTS = 30  # up to here a column is drawn as separate values, each with its own dot
MAX_STEPS = 60  # whole numbers up to here are drawn as steps
TAIL = 0.005  # share of the rows that a long tail may lose at each end
STRIP = 0.16  # of the range, for the missing value


@dataclass(frozen=True, eq=False)
class Ruler:
    """One axis as it is drawn.

    Parameters
    ----------
    cells : (P,) cells of the table that are drawn
    at : (P,) where: raw values of knots, or 0 … P - 1 for levels
    low, high : ends of the drawn range
    labels : names below the levels, None for a continuous column
    is_cut : whether knots of the tails lie outside the range
    is_stepped : whether each value fills a place of width 1: levels and whole numbers
    has_missing : whether training rows stood on the missing cell
    """

    cells: np.ndarray
    at: np.ndarray
    low: float
    high: float
    labels: list[str] | None = None
    is_cut: bool = False
    is_stepped: bool = False
    has_missing: bool = False

    @property
    def seen(self) -> np.ndarray:
        """The cells that lie in the drawn range."""
        return self.cells[(self.at >= self.low) & (self.at <= self.high)]

    @property
    def sides(self) -> np.ndarray:
        """(P + 1,) borders half way between neighbours."""
        return find_sides(self.at)

    @property
    def strip(self) -> tuple[float, float]:
        """Ends of the strip of the missing value."""
        return self.low - STRIP * (self.high - self.low), self.low

    @property
    def note(self) -> str:
        return f"central {1 - 2 * TAIL:.0%} of rows" if self.is_cut else ""

    def trace(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Points (Q,) and values (Q, …) of the polyline that draws values (P, …) at the cells."""
        if not self.is_stepped:
            return self.at, values
        return np.repeat(self.at, 2) + np.tile([-0.5, 0.5], len(self.at)), np.repeat(values, 2, axis=0)


def lay_ruler(axis: Axis, weights: np.ndarray, with_counts: bool = False) -> Ruler:
    """`weights` (cells,): training weight along this axis, written below the levels if asked for."""
    inner, has_missing = weights[1:-1], bool(weights[0] > 0)
    if axis.levels is None:
        return _lay_knots(axis.knots, inner, has_missing)
    kept = np.sort(np.argsort(-inner, kind="stable")[:MAX_LEVELS])
    names, cells = [plain(axis.levels[index], 16) for index in kept], kept + 1
    if weights[-1] > 0:  # a coarser axis reads its rare levels as unseen
        names, cells = [*names, "any other"], np.r_[cells, len(weights) - 1]
    if with_counts:
        names = [f"{name}\n{_count(weights[cell])}" for name, cell in zip(names, cells, strict=True)]
    if len(inner) > MAX_LEVELS:
        names.append(f"… {len(inner) - MAX_LEVELS} more")
    at = np.arange(len(cells), dtype=float)
    return Ruler(cells, at, -0.6, len(names) - 0.4, names, is_stepped=True, has_missing=has_missing)


def _lay_knots(knots: np.ndarray, weights: np.ndarray, has_missing: bool) -> Ruler:
    low, high = _choose_range(knots, weights)
    is_cut = bool(low > knots[0] or high < knots[-1])
    is_stepped = 2 <= len(knots) <= MAX_STEPS and bool((knots == np.rint(knots)).all())
    margin = 0.03 * (high - low) or 0.5
    margin = max(margin, 0.6) if is_stepped else margin
    cells = np.arange(len(knots)) + 1
    return Ruler(cells, knots, low - margin, high + margin, None, is_cut, is_stepped, has_missing)


def _choose_range(knots: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """All knots, or those between the outer quantiles where the tails would take a third of the axis or more.

    >>> knots = np.array([0.0, 1.0, 2.0, 900.0])
    >>> _choose_range(knots, np.array([30.0, 50.0, 30.0, 0.1]))
    (0.0, 2.0)
    >>> _choose_range(knots, np.array([30.0, 50.0, 30.0, 10.0]))
    (0.0, 900.0)
    """
    share = np.cumsum(weights) / max(weights.sum(), np.finfo(float).tiny)
    first, last = np.searchsorted(share, [TAIL, 1 - TAIL]).clip(max=len(knots) - 1)
    inner, whole = knots[last] - knots[first], knots[-1] - knots[0]
    if inner == 0 or inner > 2 / 3 * whole:
        first, last = 0, -1
    return float(knots[first]), float(knots[last])


def find_sides(at: np.ndarray) -> np.ndarray:
    """(P + 1,) borders half way between neighbours.

    >>> find_sides(np.array([0.0, 2.0, 6.0])).tolist()
    [-1.0, 1.0, 4.0, 8.0]
    """
    gaps = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    return np.r_[at[0] - gaps[0], at[:-1] + gaps[: len(at) - 1], at[-1] + gaps[-1]]


def _count(weight: float) -> str:
    """
    >>> _count(1234.0), _count(0.5)
    ('1,234', '0.5')
    """
    return f"{weight:,.0f}" if weight >= 10 or weight == round(weight) else f"{weight:.2g}"


def draw_ruler(axes: Axes, ruler: Ruler, direction: Literal["x", "y"]) -> None:
    """Range and ticks in the direction "x" or "y"."""
    axes.set(**{f"{direction}lim": (ruler.low, ruler.high)})
    if ruler.labels is not None:
        _draw_levels(axes, ruler.labels, direction)
        return
    line = axes.xaxis if direction == "x" else axes.yaxis
    if len(ruler.at) <= 2:  # yes and no as 0 and 1
        line.set_ticks(ruler.at)
        return
    room = find_inches(axes, direction)
    axes.locator_params(axis=direction, nbins=max(2, min(6, int(2.5 * room))), integer=ruler.is_stepped)
    line.set_ticks([tick for tick in line.get_majorticklocs() if ruler.low <= tick <= ruler.high])


def _draw_levels(axes: Axes, labels: list[str], direction: Literal["x", "y"]) -> None:
    """Names of levels, slanted where they would touch."""
    if direction == "y":
        axes.set_yticks(np.arange(len(labels)), labels)
        return
    letters = len(labels) * (1 + max(len(line) for label in labels for line in label.split("\n")))
    if letters <= LETTERS * find_inches(axes):
        axes.set_xticks(np.arange(len(labels)), labels)
        return
    slanted = [label.replace("\n", ": ") for label in labels]
    axes.set_xticks(np.arange(len(labels)), slanted, rotation=45, ha="right", rotation_mode="anchor")


def draw_strip(axes: Axes, ruler: Ruler, share: float) -> None:
    """Room for the missing value left of a curve, parted from it by a line; `share` of the rows miss the value."""
    left, right = ruler.strip
    axes.axvline(right, color=GREY, linewidth=0.6)
    axes.set_xlim(left, ruler.high)
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "top"}
    axes.text(left + 0.25 * (right - left), 0.98, f"missing {100 * share:.3g}%", fontsize=7, color=GREY, **place)
