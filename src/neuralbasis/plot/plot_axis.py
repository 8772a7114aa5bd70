"""One axis of a plot: which cells of a table are drawn, at which positions, with which labels.

A continuous column is drawn in raw units, each knot at its value. A column of whole numbers is drawn in steps of width
1. Long tails are cut. Levels are drawn at 0, 1, 2, …: the most frequent ones, in the order of the axis. If training
rows have missing values, the missing cell is drawn in a strip at the low end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from ..encoding.axis import Axis
from .canvas import CHARS_PER_INCH, axes_inches, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LEVELS = 12
FEW_KNOTS = 30  # up to this many knots, each one is marked with a dot
MAX_STEPS = 60  # up to this many whole numbers are drawn as steps
TAIL = 0.005  # share of the rows that is cut at each end of a long-tailed column
STRIP = 0.16  # width of the strip for missing values, as a share of the range


@dataclass(frozen=True, eq=False)
class PlotAxis:
    """The drawn part of an axis."""

    cells: np.ndarray  # (P,) drawn cells of the table
    positions: np.ndarray  # (P,) raw values of knots, or 0 … P - 1 for levels
    low: float  # ends of the drawn range
    high: float
    labels: list[str] | None = None  # tick labels of levels, None for a continuous column
    note: str = ""  # says that knots in the tails lie outside the range
    is_stepped: bool = False  # whether each value is drawn with width 1: levels and whole numbers
    has_missing: bool = False  # whether training rows have missing values

    @property
    def strip(self) -> tuple[float, float]:
        """Both ends of the strip for missing values."""
        return self.low - STRIP * (self.high - self.low), self.low

    def polyline(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (P, …) of the cells -> positions (Q,) and values (Q, …) of the line that shows them."""
        if not self.is_stepped:
            return self.positions, values
        return np.repeat(self.positions, 2) + np.tile([-0.5, 0.5], len(self.positions)), np.repeat(values, 2, axis=0)


def make_plot_axis(axis: Axis, weights: np.ndarray, with_counts: bool = False) -> PlotAxis:
    """Choose the drawn part of an axis from its training weight (cells,), which labels of levels may include."""
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
    note = f"central {1 - 2 * TAIL:.0%} of rows" if low > knots[0] or high < knots[-1] else ""
    is_stepped = 2 <= len(knots) <= MAX_STEPS and bool((knots == np.rint(knots)).all())
    margin = 0.03 * (high - low) or 0.5
    margin = max(margin, 0.6) if is_stepped else margin
    cells = np.arange(len(knots)) + 1
    return PlotAxis(cells, knots, low - margin, high + margin, None, note, is_stepped, has_missing)


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
    """Set range and ticks; the names of levels are slanted if they would overlap."""
    axes.set(**{f"{direction}lim": (plot_axis.low, plot_axis.high)})
    line = axes.xaxis if direction == "x" else axes.yaxis
    labels, inches = plot_axis.labels, axes_inches(axes, direction)
    if labels is not None:
        letters = len(labels) * (1 + max(len(line) for label in labels for line in label.split("\n")))
        if direction == "y" or letters <= CHARS_PER_INCH * inches:
            line.set_ticks(np.arange(len(labels)), labels)
        else:
            slanted = [label.replace("\n", ": ") for label in labels]
            line.set_ticks(np.arange(len(labels)), slanted, rotation=45, ha="right", rotation_mode="anchor")
    elif len(plot_axis.positions) <= 2:  # such as a flag with the values 0 and 1
        line.set_ticks(plot_axis.positions)
    else:
        axes.locator_params(axis=direction, nbins=max(2, min(6, int(2.5 * inches))), integer=plot_axis.is_stepped)
        line.set_ticks([tick for tick in line.get_majorticklocs() if plot_axis.low <= tick <= plot_axis.high])
