"""Curves: a main effect in one panel, as in the paper's figures.

Each member is a faint line and their mean a thick one, or the spread of the members is a band where several classes
are drawn; levels are bars. Shaded bars behind are the training weight: the darker, the more rows, and white where
there are none. The missing value has a mark of its own in a strip at the left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .canvas import COLOURS, GREY, fill, style
from .reading import Reading
from .ruler import FEW_KNOTS, Ruler, draw_ruler, draw_strip, find_sides, lay_ruler

if TYPE_CHECKING:
    from matplotlib.axes import Axes

N_BARS = 30  # of the density of a continuous column
DARKEST = 0.2  # grey of the densest bar
MAX_FANS = 3  # fans of members that can be told apart in one panel


@dataclass(frozen=True, eq=False)
class Curve:
    """A main effect as it is drawn.

    Parameters
    ----------
    reading : its numbers
    ruler : its axis
    orders : places of the drawn classes in the row of colours
    has_fan : whether the members are drawn one by one
    """

    reading: Reading
    ruler: Ruler
    orders: Sequence[int]
    has_fan: bool = False

    @property
    def limits(self) -> tuple[float, float]:
        """Lowest and highest value that the panel shows, with members or spread."""
        reading, cells = self.reading, self.ruler.seen
        cells = np.r_[0, cells] if self.ruler.has_missing else cells
        mean, spread = reading.mean[cells], reading.spread[cells]
        parts = [mean - spread, mean + spread, reading.base]
        if self.has_fan and reading.members is not None:
            parts.append(reading.members[cells])
        return min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)


def lay_curve(reading: Reading, orders: Sequence[int], n_fans: int = 0) -> Curve:
    """`n_fans`: how many fans of members the panel would have."""
    ruler = lay_ruler(reading.term.axes[0], reading.term.weights, with_counts=True)
    has_fan = reading.members is not None and ruler.labels is None and (n_fans or len(reading.base)) <= MAX_FANS
    return Curve(reading, ruler, orders, has_fan)


def choose_limits(curves: Iterable[Curve]) -> tuple[float, float]:
    """Range of a y scale that several curves share."""
    lows, highs = zip(*(curve.limits for curve in curves), strict=True)
    low, high = min(lows), max(highs)
    margin = 0.05 * (high - low) or 1.0
    return low - margin, high + margin


def draw_curve(axes: Axes, curve: Curve) -> list[Any]:
    """Draw into a panel whose y scale is set; returns a handle for each class."""
    draw_ground(axes, curve)
    return draw_marks(axes, curve)


def draw_ground(axes: Axes, curve: Curve) -> None:
    """Axis, density and the line where a term says nothing."""
    term, ruler = curve.reading.term, curve.ruler
    draw_density(axes, ruler, term.weights)
    bases = curve.reading.base
    is_shared = bool((bases == bases[0]).all())
    for order, base in zip(curve.orders[: 1 if is_shared else None], bases, strict=False):
        axes.axhline(base, color=GREY if is_shared else style(order)["color"], linewidth=0.6, linestyle=":")
    draw_ruler(axes, ruler, "x")
    if ruler.has_missing:
        draw_strip(axes, ruler, term.weights[0] / term.weights.sum())


def draw_marks(axes: Axes, curve: Curve) -> list[Any]:
    """Lines or bars, and the marks of the missing value; returns a handle for each class."""
    handles = (_draw_lines if curve.ruler.labels is None else _draw_bars)(axes, curve)
    if curve.ruler.has_missing:
        _draw_missing(axes, curve)
    return handles


def draw_density(axes: Axes, ruler: Ruler, weights: np.ndarray) -> None:
    """Training weight along an axis as shaded bars behind everything else."""
    at, weight = ruler.at, weights[ruler.cells]
    width = 1.0 if ruler.is_stepped else (ruler.high - ruler.low) / N_BARS
    if not ruler.is_stepped and len(at) > FEW_KNOTS:
        # Each knot stands for the values up to half way to its neighbours: no gaps where knots are sparse.
        sides = np.linspace(max(at[0], ruler.low), min(at[-1], ruler.high), N_BARS + 1)
        weight = np.diff(np.interp(sides, find_sides(at).clip(at[0], at[-1]), np.r_[0.0, np.cumsum(weight)]))
        at, width = (sides[1:] + sides[:-1]) / 2, sides[1] - sides[0]
    # The square root keeps places of few rows apart from places of none.
    shade = DARKEST * np.sqrt(weight / max(weight.max(), np.finfo(float).tiny))
    bars = [(left, width) for left in at - width / 2]
    look: dict[str, Any] = {"facecolors": [str(1 - grey) for grey in shade], "linewidth": 0, "antialiased": False}
    axes.broken_barh(bars, (0, 1), transform=axes.get_xaxis_transform(), zorder=0, **look)


def _draw_lines(axes: Axes, curve: Curve) -> list[Any]:
    reading, ruler = curve.reading, curve.ruler
    handles = []
    for k, order in enumerate(curve.orders):
        look = style(order)
        at, mean = ruler.trace(reading.mean[ruler.cells, k])
        spread = ruler.trace(reading.spread[ruler.cells, k])[1]
        if curve.has_fan and reading.members is not None:
            _draw_fan(axes, *ruler.trace(reading.members[ruler.cells, :, k]), look["color"])
        elif spread.any():
            axes.fill_between(at, mean - spread, mean + spread, color=look["color"], alpha=0.2, linewidth=0)
        marker = "." if len(at) <= FEW_KNOTS and not ruler.is_stepped else None
        handles += axes.plot(at, mean, linewidth=1.8, marker=marker, markersize=6, **look)
    return handles


def _draw_fan(axes: Axes, at: np.ndarray, members: np.ndarray, colour: str) -> None:
    """Members (P, M) as faint lines, the fainter the more there are."""
    from matplotlib.collections import LineCollection

    lines = np.stack([np.broadcast_to(at[:, None], members.shape), members], axis=-1).swapaxes(0, 1)
    alpha = float(np.clip(4 / len(lines), 0.1, 0.45))
    axes.add_collection(LineCollection(list(lines), colors=colour, alpha=alpha, linewidths=0.6), autolim=False)


def _draw_bars(axes: Axes, curve: Curve) -> list[Any]:
    reading, ruler = curve.reading, curve.ruler
    count = len(reading.base)
    width = 0.7 / count
    error = {"elinewidth": 1.0, "ecolor": "black", "capsize": 1.5}
    handles = []
    for k, (order, base) in enumerate(zip(curve.orders, reading.base, strict=True)):
        mean, spread = reading.mean[ruler.cells, k], reading.spread[ruler.cells, k]
        at = ruler.at + (k - (count - 1) / 2) * width
        bars = {"yerr": spread if spread.any() else None, "error_kw": error, **fill(order)}
        handles.append(axes.bar(at, mean - base, width, base, **bars))
    return handles


def _draw_missing(axes: Axes, curve: Curve) -> None:
    reading, (left, right) = curve.reading, curve.ruler.strip
    places = np.linspace(0.5, 0.85, len(reading.base)) if len(reading.base) > 1 else [0.65]
    for k, (order, place) in enumerate(zip(curve.orders, places, strict=True)):
        colour = COLOURS[order % len(COLOURS)]
        look: dict[str, Any] = {"color": colour, "marker": "D", "markersize": 4, "elinewidth": 1.2, "zorder": 3}
        look["markerfacecolor"] = "white" if order >= len(COLOURS) else colour
        axes.errorbar(left + place * (right - left), reading.mean[0, k], reading.spread[0, k], **look)
