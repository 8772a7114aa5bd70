"""Axis: one column's places on the axis that all columns share.

A continuous column becomes a list of knots: raw values, each with a *place* in [0, 1]. Between two knots a shape is
linear in the raw value, outside it is constant. A level of a nominal or ordinal column is a knot without
interpolation. Every axis has two cells more than it has knots: the first is the missing value, the last a level
that was never seen. A row's *position* on an axis is therefore 0 (missing), 1 … G (knots, with a fraction between
them), or G + 1 (unseen).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

SCALINGS = ("quantile", "minmax", "gaussian")
KINDS = ("continuous", "nominal", "ordinal")

# DIFF: the paper scales by min-max alone or by quantiles alone. A blend keeps quantile resolution in the bulk and
# still gives the tails a share of the axis that grows with their length.
MINMAX_SHARE = 0.35
FREQUENT = 2.0  # times the rows that an even share of all knots would have
MIN_GAP = float(np.finfo(np.float32).eps)  # places are read in single precision


@dataclass(frozen=True, eq=False)
class Axis:
    """Knots of one column and their places on the shared axis.

    Parameters
    ----------
    name : the column's name
    kind : "continuous", "nominal" or "ordinal"
    knots : (G,) raw values in increasing order; for levels 0 … G - 1, or those of them that a coarser axis keeps
    places : (G,) places in [0, 1], increasing
    levels : names of the levels, None for a continuous column
    mass : (G,) training weight of the levels, None for a continuous column

    Examples
    --------
    >>> import numpy as np
    >>> axis = continuous_axis("age", np.array([20.0, 30.0, 30.0, 60.0]), scaling="minmax")
    >>> axis.knots.tolist(), axis.places.tolist()
    ([20.0, 30.0, 60.0], [0.0, 0.25, 1.0])
    """

    name: str
    kind: str
    knots: np.ndarray
    places: np.ndarray
    levels: tuple[str, ...] | None = None
    mass: np.ndarray | None = None

    @property
    def n_cells(self) -> int:
        """Cells of a main effect's table on this axis: missing, knots, unseen."""
        return len(self.knots) + 2

    @property
    def is_level(self) -> bool:
        return self.levels is not None

    def add_knots(self, values: np.ndarray) -> Axis:
        """The same column with knots at these values too; what is between two knots stays where it is.

        Values whose places rounding could not tell from a knot beside them are left out.
        """
        knots = np.union1d(self.knots, values)
        places = np.interp(knots, self.knots, self.places)
        gap = np.r_[np.inf, np.diff(places), np.inf]
        keep = (np.minimum(gap[1:], gap[:-1]) >= MIN_GAP) | np.isin(knots, self.knots)
        return replace(self, knots=knots[keep], places=places[keep])

    def carry(self, cells: np.ndarray, other: Axis) -> np.ndarray:
        """Values (cells of this axis, …) at the cells of another axis of the column, as rows on its knots read them."""
        place = np.r_[0, np.interp(other.knots, self.knots, np.arange(1, len(cells) - 1)), len(cells) - 1]
        left = np.minimum(place.astype(int), len(cells) - 2)
        part = (place - left).reshape(-1, *[1] * (cells.ndim - 1))
        return (1 - part) * cells[left] + part * cells[left + 1]

    def coarsen(self, max_knots: int) -> Axis:
        """The same column with at most `max_knots` knots, all of them knots of this axis.

        Places move to the nearest of `max_knots` even ones, so that all interactions share few points. Of too many
        levels the heaviest stay; the others are read as unseen.
        """
        last = max_knots - 1
        if len(self.knots) == 1:
            return self
        if len(self.knots) <= max_knots:
            place = _push_apart(np.rint(self.places * last).astype(np.int64), last)
            return replace(self, places=place / last)
        if self.levels is None:
            keep = _thin(self.places, last)
            place = _push_apart(np.rint(self.places[keep] * last).astype(np.int64), last)
            return replace(self, knots=self.knots[keep], places=place / last)
        mass = np.ones(len(self.knots)) if self.mass is None else self.mass
        keep = np.sort(np.argsort(-mass, kind="stable")[:max_knots])
        levels = tuple(self.levels[index] for index in keep)
        return replace(self, knots=self.knots[keep], places=np.arange(max_knots) / last, levels=levels, mass=mass[keep])


def continuous_axis(
    name: str, values: np.ndarray, weights: np.ndarray | None = None, scaling: str = "quantile", max_knots: int = 193
) -> Axis:
    """Fit the axis of a numeric column on the training rows; NaN is missing, other values must be finite."""
    distinct, mass = _distinct_values(values, weights)
    if np.isinf(distinct[[0, -1]]).any() if len(distinct) else False:
        raise ValueError(
            f"column {name!r} holds infinite values; neuralbasis expects finite numbers or missing values (NaN): "
            "replace them, for example with NaN or with the largest finite value"
        )
    if len(distinct) == 0:
        raise ValueError(f"column {name!r} has no value that is not missing; drop it or fill it before fitting")
    if len(distinct) == 1:
        return Axis(name, "continuous", distinct, np.array([0.5]))
    if scaling == "minmax" and len(distinct) > max_knots:
        places = np.linspace(0.0, 1.0, max_knots)
        knots = np.minimum(distinct[0] * (1 - places) + distinct[-1] * places, distinct[-1])
        return Axis(name, "continuous", *_part(knots, places))
    scaled = _scale(distinct, mass, scaling)
    if scaling == "minmax":
        return Axis(name, "continuous", *_part(distinct, scaled))
    return Axis(name, "continuous", *_snap(distinct, mass, scaled, max_knots))


def level_axis(name: str, kind: str, levels: Sequence[str], mass: np.ndarray | None = None) -> Axis:
    """The axis of a nominal or ordinal column: one knot a level, evenly placed; `mass` is the weight of each."""
    if len(levels) == 0:
        raise ValueError(f"column {name!r} has no value that is not missing; drop it or fill it before fitting")
    count = len(levels)
    places = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    return Axis(name, kind, np.arange(count, dtype=float), places, tuple(levels), mass)


def _distinct_values(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Distinct non-missing values in increasing order and the weight of each."""
    if weights is None:
        ordered = np.sort(values)  # NaN sorts last
        ordered = ordered[: len(ordered) - int(np.isnan(ordered).sum())]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, int)
        return ordered[starts], np.diff(np.r_[starts, len(ordered)]).astype(float)
    known = ~np.isnan(values)
    known &= weights > 0
    distinct, inverse = np.unique(values[known], return_inverse=True)
    return distinct, np.bincount(inverse, weights[known], minlength=len(distinct))


def _scale(distinct: np.ndarray, mass: np.ndarray, scaling: str) -> np.ndarray:
    """Place of each distinct value in [0, 1], the first at 0 and the last at 1."""
    # Halves first: the range of a column near the largest double must not overflow, that of subnormals not vanish.
    unit = 0.5 if max(-distinct[0], distinct[-1]) > 1 else 1.0
    minmax = (distinct * unit - distinct[0] * unit) / (distinct[-1] * unit - distinct[0] * unit)
    if scaling == "minmax":
        return minmax
    rank = (np.cumsum(mass) - mass / 2) / mass.sum()
    if scaling == "gaussian":
        from scipy.special import ndtri

        epsilon = np.finfo(float).eps  # beside a heavy value, the rank of a light one rounds to 1
        return _stretch(ndtri(np.clip(rank, epsilon, 1 - epsilon)))
    return _stretch((1 - MINMAX_SHARE) * _stretch(rank) + MINMAX_SHARE * minmax)


def _stretch(values: np.ndarray) -> np.ndarray:
    return (values - values[0]) / (values[-1] - values[0])


def _part(knots: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Leave out knots that rounding cannot tell from the knot before, by value or by place; both ends stay."""
    keep = [0]
    for index in range(1, len(knots)):
        if knots[index] > knots[keep[-1]] and places[index] - places[keep[-1]] >= MIN_GAP:
            keep.append(index)
    keep[-1] = len(knots) - 1
    return knots[keep], places[keep]


def _snap(distinct: np.ndarray, mass: np.ndarray, scaled: np.ndarray, max_knots: int) -> tuple[np.ndarray, np.ndarray]:
    """Move values to the evenly spaced places of the shared axis; at most one knot a place.

    A knot stands at the weighted median of the values that share its place, so that a value frequent enough to
    dominate its place is itself a knot. Beside a place that one frequent value has for itself, a knot stands at the
    nearest value instead: what the frequent value says does not leak to the values around it. A place between two of
    them has one knot only, beside the second.
    """
    last = max_knots - 1
    place = np.rint(scaled * last).astype(np.int64)
    if len(distinct) <= max_knots:  # every value is a knot of its own: push equal places apart
        return distinct, _push_apart(place, last) / last
    starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    total = np.cumsum(mass)
    before = np.r_[0.0, total][starts]
    group = np.add.reduceat(mass, starts)
    median = np.searchsorted(total, before + group / 2)
    ends = np.r_[starts[1:], len(distinct)] - 1
    alone = (starts == ends) & (group > FREQUENT / max_knots * total[-1])
    knot = np.clip(median, starts, ends)
    knot = np.where(np.r_[False, alone[:-1]] & ~alone, starts, knot)  # right behind a frequent value
    knot = np.where(np.r_[alone[1:], False] & ~alone, ends, knot)  # right before one
    return distinct[knot], place[starts] / last


def _push_apart(place: np.ndarray, last: int) -> np.ndarray:
    """Increasing whole numbers 0 … last, at most that many, made different by moving as little as is simple."""
    count = np.arange(len(place))
    return np.minimum(np.maximum.accumulate(place - count) + count, last - count[::-1])


def _thin(places: np.ndarray, last: int) -> np.ndarray:
    """The knots nearest to the even places 0 … last; both ends stay."""
    wanted = np.arange(last + 1)
    right = np.clip(np.searchsorted(places * last, wanted), 1, len(places) - 1)
    nearest = right - (wanted - places[right - 1] * last < places[right] * last - wanted)
    return np.unique(nearest)
