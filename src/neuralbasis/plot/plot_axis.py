"""One axis of a plot: which cells of a table are drawn, at which positions, with which labels.

A continuous column is drawn in raw units, each knot at its value. A column of whole numbers is drawn in steps of width
1. Long tails are cut. Missing values of training rows and special codes (−9, 99999) are drawn in a strip at the left,
and their ticks have their shares of the rows.
A value without training rows beside it is not joined to others. Levels are drawn at 0, 1, 2, …: on a map the most
frequent ones, in the order of the axis; as bars those with the strongest effects, sorted by effect unless they have an
order of their own, and the missing value after them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..encoding.axis import Axis
from ..explain.point_masses import PointMass
from .canvas import CHARS_PER_INCH, GREY, axes_inches, format_value, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAX_LEVELS = 12
FEW_KNOTS = 30  # up to this many knots, each one is marked with a dot, and whole numbers are drawn as steps
TAIL = 0.005  # share of the rows that is cut at each end of a long-tailed column
SLANTED: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
LINE = 0.14  # inches between names above each other
STRIP, SLOT = 0.16, 0.13  # width of the strip, and of each value in it, as shares of the range


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
    codes: tuple[tuple[int, float], ...] = ()  # cells and values of special codes
    loose: tuple[int, ...] = ()  # indices of positions that are not joined to their neighbours
    shares: tuple[float, ...] = ()  # of the training weight, for each cell in the strip

    @property
    def apart(self) -> list[tuple[int, str]]:
        """Cells that are drawn in the strip, and their names."""
        codes = [(cell, format_value(value).replace("-", "−")) for cell, value in self.codes]
        return [(0, "missing")] * self.has_missing + codes

    @property
    def start(self) -> float:
        """The left end, with the strip."""
        return self.strip[0] if self.apart else self.low

    @property
    def strip(self) -> tuple[float, float]:
        """Both ends of the strip for missing values and special codes."""
        return self.low - max(STRIP, SLOT * len(self.apart)) * (self.high - self.low), self.low

    @property
    def slots(self) -> list[tuple[float, float]]:
        """Both ends of the place of each cell in the strip."""
        edges = np.linspace(*self.strip, len(self.apart) + 1).tolist()
        return list(pairwise(edges))

    def polyline(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Values (P, …) of the cells -> positions (Q,) and values (Q, …) of the line that shows them."""
        at = self.positions
        if self.is_stepped:
            return np.repeat(at, 2) + np.tile([-0.5, 0.5], len(at)), np.repeat(values, 2, axis=0)
        gaps = sorted({place for index in self.loose for place in (index, index + 1) if 0 < place < len(at)})
        return (np.insert(at, gaps, np.nan), np.insert(values, gaps, np.nan, 0)) if gaps else (at, values)


def make_plot_axis(axis: Axis, weights: np.ndarray, masses: Sequence[PointMass] = ()) -> PlotAxis:
    """Choose the drawn part of an axis from its training weight (cells,)."""
    inner, has_missing = weights[1:-1], bool(weights[0] > 0)
    if axis.levels is None:
        plot_axis = _make_continuous_axis(axis.knots, inner, has_missing, masses)
    else:
        kept = np.sort(np.argsort(-inner, kind="stable")[:MAX_LEVELS])
        names, cells = _name_levels(axis, kept, weights, 16)
        plot_axis = _make_level_axis(names, cells, len(inner), has_missing)
    return replace(plot_axis, shares=tuple(float(weights[cell] / weights.sum()) for cell, _ in plot_axis.apart))


def make_bar_axis(axis: Axis, weights: np.ndarray, values: np.ndarray) -> PlotAxis:
    """The axis of bars with these values (cells, k): levels with the strongest effects, labelled with their rows."""
    inner, size = weights[1:-1], np.abs(values[1:-1]).max(axis=1)
    kept = np.argsort(-np.where(inner > 0, size, -1.0), kind="stable")[:MAX_LEVELS]
    is_single = values.shape[1] == 1
    kept = np.sort(kept)
    if axis.kind == "nominal":
        kept = kept[np.argsort(-(values[1:-1, 0] if is_single else inner)[kept], kind="stable")]
    names, cells = _name_levels(axis, kept, weights, 28)
    if weights[0] > 0:
        names, cells = [*names, "missing"], np.r_[cells, 0]
    names = [f"{name} ({_format_count(weights[cell])})" for name, cell in zip(names, cells, strict=True)]
    return _make_level_axis(names, cells, len(inner), False)


def _name_levels(axis: Axis, kept: np.ndarray, weights: np.ndarray, room: int) -> tuple[list[str], np.ndarray]:
    """Names and cells of some levels, and of the unseen cell if rows are in it: coarser axes merge rare levels."""
    names, cells = [plain((axis.levels or ())[index], room) for index in kept], kept + 1
    return ([*names, "any other"], np.r_[cells, len(weights) - 1]) if weights[-1] > 0 else (names, cells)


def _make_level_axis(names: list[str], cells: np.ndarray, n_levels: int, has_missing: bool) -> PlotAxis:
    at = np.arange(len(cells), dtype=float)
    names = [*names, f"… {n_levels - MAX_LEVELS} more"] if n_levels > MAX_LEVELS else names
    return PlotAxis(cells, at, -0.6, len(names) - 0.4, names, is_stepped=True, has_missing=has_missing)


def _make_continuous_axis(
    knots: np.ndarray, weights: np.ndarray, has_missing: bool, masses: Sequence[PointMass]
) -> PlotAxis:
    codes = tuple((mass.cell, mass.value) for mass in masses if mass.is_apart)
    cells = np.setdiff1d(np.arange(len(knots)) + 1, [cell for cell, _ in codes])
    knots, weights = knots[cells - 1], weights[cells - 1]
    loose = tuple(int(np.searchsorted(cells, mass.cell)) for mass in masses if not (mass.is_apart or mass.is_joined))
    low, high = _choose_range(knots, weights)
    note = f"central {100 * (1 - 2 * TAIL):.0f} % of rows" if low > knots[0] or high < knots[-1] else ""
    is_stepped = 2 <= len(knots) <= FEW_KNOTS and bool((knots == np.rint(knots)).all())
    is_stepped = is_stepped and float(np.median(np.diff(knots))) == 1.0  # coarser axes of pairs leave out numbers
    margin = 0.03 * (high - low) or 0.5
    margin = max(margin, 0.6) if is_stepped else margin
    return PlotAxis(cells, knots, low - margin, high + margin, None, note, is_stepped, has_missing, codes, loose)


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


def _shorten_label(label: str, room: int) -> str:
    """A name of at most `room` characters; the number of rows after it stays.

    >>> _shorten_label("married, spouse absent (1,204)", 20)
    'married,…ent (1,204)'
    """
    name, separator, count = label.rpartition(" (")
    if len(label) <= room or not separator:
        return plain(label.replace(r"\$", "$"), room)
    return plain(name.replace(r"\$", "$"), max(8, room - len(count) - 2)) + separator + count


def _format_count(weight: float) -> str:
    """
    >>> _format_count(1234.0), _format_count(0.5)
    ('1,234', '0.5')
    """
    return f"{weight:,.0f}" if weight >= 10 or weight == round(weight) else f"{weight:.2g}"


def _format_share(share: float) -> str:
    """
    >>> _format_share(0.004), _format_share(0.174), _format_share(0.996)
    ('< 1 %', '17 %', '> 99 %')
    """
    return "< 1 %" if share < 0.01 else "> 99 %" if share > 0.99 else f"{100 * share:.0f} %"


def measure_names(plot_axis: PlotAxis) -> float:
    """The room for names of levels beside a panel, in inches."""
    return max(map(len, plot_axis.labels or [""])) / CHARS_PER_INCH


def draw_plot_axis(axes: Axes, plot_axis: PlotAxis, direction: Literal["x", "y"], taken: float = 0.0) -> None:
    """Set range and ticks; names of levels and of the strip are slanted if they would overlap.

    `taken` is the room for names beside the panel, or beside a panel above or below it, in inches.
    """
    axes.set(**{f"{direction}lim": (plot_axis.low, plot_axis.high)})
    line = axes.xaxis if direction == "x" else axes.yaxis
    labels, inches = plot_axis.labels, axes_inches(axes, direction)
    if labels is not None:
        letters = len(labels) * (1 + max(map(len, labels)))
        if direction == "y":
            size = min(float(line.get_ticklabels()[0].get_fontsize()), max(4.0, 40 * inches / len(labels)))  # points
            room = max(18, int(9 * axes_inches(axes, "x")))
            line.set_ticks(np.arange(len(labels)), [_shorten_label(label, room) for label in labels], fontsize=size)
        elif letters <= CHARS_PER_INCH * inches:
            line.set_ticks(np.arange(len(labels)), labels)
        else:
            line.set_ticks(np.arange(len(labels)), labels, **SLANTED)
    elif len(plot_axis.positions) <= 2:  # such as a flag with the values 0 and 1
        line.set_ticks(plot_axis.positions)
    else:
        digits = len(format_value(max(abs(plot_axis.low), abs(plot_axis.high))))
        count = int((2.0 if digits < 4 else 1.4) * inches)
        axes.locator_params(axis=direction, nbins=max(2, min(6, count)), integer=plot_axis.is_stepped)
        ticks = [tick for tick in line.get_majorticklocs() if plot_axis.low <= tick <= plot_axis.high]
        if max(map(abs, ticks), default=0.0) >= 1e4:  # 20,000 instead of a power of ten at the end of the axis
            line.set_ticks(ticks, [format_value(tick) for tick in ticks])
        else:
            line.set_ticks(ticks)
    if plot_axis.apart:
        _draw_strip_ticks(axes, plot_axis, direction, inches - taken)


def _draw_strip_ticks(axes: Axes, plot_axis: PlotAxis, direction: Literal["x", "y"], inches: float) -> None:
    """Minor ticks with the names of missing values and special codes, and their shares of the rows."""
    line = axes.xaxis if direction == "x" else axes.yaxis
    axes.set(**{f"{direction}lim": (plot_axis.start, plot_axis.high)})
    shares = [_format_share(share) for share in plot_axis.shares]
    names = [name for _, name in plot_axis.apart]
    places = [(left + right) / 2 for left, right in plot_axis.slots]
    scale = inches / (plot_axis.high - plot_axis.start)
    width = scale * (plot_axis.slots[0][1] - plot_axis.slots[0][0])
    letters = max(map(len, [*names, *shares]))
    if direction == "x" and letters <= CHARS_PER_INCH * width + 1:  # the final layout is larger
        line.set_ticks(places, [f"{name}\n{share}" for name, share in zip(names, shares, strict=True)], minor=True)
    else:
        texts = [f"{name}: {share}" for name, share in zip(names, shares, strict=True)]
        line.set_ticks(places, texts, minor=True, **(SLANTED if direction == "x" else {}))
    if direction == "y":  # names are above each other: the first tick of the range may be too near
        ticks = list(zip(line.get_majorticklocs(), [text.get_text() for text in line.get_ticklabels()], strict=True))
        ticks = [(tick, text) for tick, text in ticks if scale * (tick - places[-1]) > LINE]
        line.set_ticks([tick for tick, _ in ticks], [text for _, text in ticks])
    size = float(line.get_ticklabels()[0].get_fontsize()) if line.get_ticklabels() else 7.0
    axes.tick_params(axis=direction, which="minor", length=0, labelsize=min(size, 7.0), labelcolor=GREY)
