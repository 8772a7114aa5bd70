"""One axis of a plot: which cells of a table are drawn, at which positions, with which labels.

A continuous column is drawn in raw units, each knot at its value. A column of whole numbers is drawn in steps of width
1. Long tails are cut. Levels are drawn at 0, 1, 2, …: the most frequent ones, in the order of the axis. If training
rows have missing values, the missing cell is drawn in a strip at the low end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoding.axis import Axis
from .canvas import CHARS_PER_INCH, GREY, axes_inches, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LEVELS = 12
FEW_KNOTS = 30  # up to this many knots, each one is marked with a dot
MAX_STEPS = 60  # up to this many whole numbers are drawn as steps
TAIL = 0.005  # share of the rows that is cut at each end of a long-tailed column
STRIP = 0.16  # width of the strip for missing values, as a share of the range


@dataclass(frozen=True, eq=False)
class PlotAxis:
    """The drawn part of an axis.

    Parameters
    ----------
    cells : (P,) drawn cells of the table
    positions : (P,) raw values of knots, or 0 … P - 1 for levels
    low, high : ends of the drawn range
    labels : tick labels of levels, None for a continuous column
    is_cut : whether knots in the tails lie outside the range
    is_stepped : whether each value is drawn with width 1: levels and whole numbers
    has_missing : whether training rows have missing values
    """

    cells: np.ndarray
    positions: np.ndarray
    low: float
    high: float
    labels: list[str] | None = None
    is_cut: bool = False
    is_stepped: bool = False
    has_missing: bool = False

    @property
    def visible_cells(self) -> np.ndarray:
        """The cells inside the drawn range."""
        return self.cells[(self.positions >= self.low) & (self.positions <= self.high)]

    @property
    def edges(self) -> np.ndarray:
        """(P + 1,) edges of the cells, half way between neighbouring positions."""
        return cell_edges(self.positions)

    @property
    def strip(self) -> tuple[float, float]:
        """Both ends of the strip for missing values."""
        return self.low - STRIP * (self.high - self.low), self.low

    @property
    def note(self) -> str:
        """Says that the tails are cut; empty otherwise."""
        return f"central {1 - 2 * TAIL:.0%} of rows" if self.is_cut else ""

    def polyline(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (P, …) of the cells -> positions (Q,) and values (Q, …) of the line that shows them."""
        if not self.is_stepped:
            return self.positions, values
        return np.repeat(self.positions, 2) + np.tile([-0.5, 0.5], len(self.positions)), np.repeat(values, 2, axis=0)


def make_plot_axis(axis: Axis, weights: np.ndarray, with_counts: bool = False) -> PlotAxis:
    """Choose the drawn part of an axis; `weights` (cells,) is the training weight along it.

    With `with_counts`, the labels of levels include the weight.
    """
    inner, has_missing = weights[1:-1], bool(weights[0] > 0)
    if axis.levels is None:
        return _make_continuous_axis(axis.knots, inner, has_missing)
    kept = np.sort(np.argsort(-inner, kind="stable")[:MAX_LEVELS])
    names, cells = [plain(axis.levels[index], 16) for index in kept], kept + 1
    if weights[-1] > 0:  # a coarser axis merges rare levels into the unseen cell
        names, cells = [*names, "any other"], np.r_[cells, len(weights) - 1]
    if with_counts:
        names = [f"{name}\n{_format_count(weights[cell])}" for name, cell in zip(names, cells, strict=True)]
    if len(inner) > MAX_LEVELS:
        names.append(f"… {len(inner) - MAX_LEVELS} more")
    at = np.arange(len(cells), dtype=float)
    return PlotAxis(cells, at, -0.6, len(names) - 0.4, names, is_stepped=True, has_missing=has_missing)


def _make_continuous_axis(knots: np.ndarray, weights: np.ndarray, has_missing: bool) -> PlotAxis:
    low, high = _choose_range(knots, weights)
    is_cut = bool(low > knots[0] or high < knots[-1])
    is_stepped = 2 <= len(knots) <= MAX_STEPS and bool((knots == np.rint(knots)).all())
    margin = 0.03 * (high - low) or 0.5
    margin = max(margin, 0.6) if is_stepped else margin
    cells = np.arange(len(knots)) + 1
    return PlotAxis(cells, knots, low - margin, high + margin, None, is_cut, is_stepped, has_missing)


def _choose_range(knots: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The first and the last drawn knot: the outer quantiles if the tails would fill a third of the axis, else all.

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


def cell_edges(at: np.ndarray) -> np.ndarray:
    """(P + 1,) edges half way between neighbouring positions.

    >>> cell_edges(np.array([0.0, 2.0, 6.0])).tolist()
    [-1.0, 1.0, 4.0, 8.0]
    """
    gaps = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    return np.r_[at[0] - gaps[0], at[:-1] + gaps[: len(at) - 1], at[-1] + gaps[-1]]


def _format_count(weight: float) -> str:
    """
    >>> _format_count(1234.0), _format_count(0.5)
    ('1,234', '0.5')
    """
    return f"{weight:,.0f}" if weight >= 10 or weight == round(weight) else f"{weight:.2g}"


def draw_plot_axis(axes: Axes, plot_axis: PlotAxis, direction: Literal["x", "y"]) -> None:
    """Set range and ticks in the direction "x" or "y"."""
    axes.set(**{f"{direction}lim": (plot_axis.low, plot_axis.high)})
    if plot_axis.labels is not None:
        _draw_levels(axes, plot_axis.labels, direction)
        return
    line = axes.xaxis if direction == "x" else axes.yaxis
    if len(plot_axis.positions) <= 2:  # such as a flag with the values 0 and 1
        line.set_ticks(plot_axis.positions)
        return
    room = axes_inches(axes, direction)
    axes.locator_params(axis=direction, nbins=max(2, min(6, int(2.5 * room))), integer=plot_axis.is_stepped)
    line.set_ticks([tick for tick in line.get_majorticklocs() if plot_axis.low <= tick <= plot_axis.high])


def _draw_levels(axes: Axes, labels: list[str], direction: Literal["x", "y"]) -> None:
    """Tick labels of levels, slanted if they would overlap."""
    if direction == "y":
        axes.set_yticks(np.arange(len(labels)), labels)
        return
    letters = len(labels) * (1 + max(len(line) for label in labels for line in label.split("\n")))
    if letters <= CHARS_PER_INCH * axes_inches(axes):
        axes.set_xticks(np.arange(len(labels)), labels)
        return
    slanted = [label.replace("\n", ": ") for label in labels]
    axes.set_xticks(np.arange(len(labels)), slanted, rotation=45, ha="right", rotation_mode="anchor")


def draw_strip(axes: Axes, plot_axis: PlotAxis, share: float) -> None:
    """The strip for missing values left of a curve, separated by a line; `share` of the rows are missing."""
    left, right = plot_axis.strip
    axes.axvline(right, color=GREY, linewidth=0.6)
    axes.set_xlim(left, plot_axis.high)
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "top"}
    axes.text(left + 0.25 * (right - left), 0.98, f"missing {100 * share:.3g}%", fontsize=7, color=GREY, **place)
