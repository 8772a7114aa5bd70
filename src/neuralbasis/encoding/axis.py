"""Axis: the knots of one column, each with a place on the axis that all columns share.

A continuous column becomes a list of knots: raw values, each with a *place* in [0, 1]. A shape is linear in the raw
value between two knots and constant outside. A level of a nominal or ordinal column is a knot without interpolation.
Every axis has two more cells than knots: the first for missing values, the last for levels that were not in the
training rows (unseen). A row's *position* on an axis is 0 (missing), 1 … G (knots, with a fraction between them), or
G + 1 (unseen).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ..data.columns import check_finite, distinct_values
from ..readonly import freeze, freeze_fields

SCALINGS = ("quantile", "minmax", "gaussian")  # and "linear": min-max places at knots that follow the rows
KINDS = ("continuous", "nominal", "ordinal")
MIN_GAP = float(np.finfo(np.float32).eps)  # between places, which are single precision
_ONE_KNOT, _ONE_PLACE = freeze(np.zeros(1)), freeze(np.full(1, 0.5))


@dataclass(frozen=True, eq=False)
class Axis:
    """Knots of one column and their places on the shared axis.

    Parameters
    ----------
    name : str
    kind : "continuous", "nominal" or "ordinal"
    knots : ndarray of shape (G,)
        Raw values in increasing order. For levels 0 … G - 1, or the ones that a coarser axis keeps.
    places : ndarray of shape (G,)
        Places in [0, 1], increasing.
    levels, mass : tuple of G str, ndarray of shape (G,)
        Names and training weights of the levels, None for a continuous column.

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

    def __post_init__(self):
        freeze_fields(self, "knots", "places", "mass")

    @property
    def n_cells(self) -> int:
        """Number of cells of a table on this axis: missing, knots, unseen."""
        return len(self.knots) + 2

    @property
    def is_level(self) -> bool:
        """Whether the knots are levels."""
        return self.levels is not None

    @cached_property
    def places_of_levels(self) -> dict[str, float]:
        """The index of every level, as a float."""
        return {level: float(index) for index, level in enumerate(self.levels or ())}

    def add_knots(self, values: np.ndarray) -> Axis:
        """The axis with further knots at these values, interpolated; without those closer than `MIN_GAP` to a knot."""
        knots = np.union1d(self.knots, values)
        places = np.interp(knots, self.knots, self.places)
        gap = np.r_[np.inf, np.diff(places), np.inf]
        keep = (np.minimum(gap[1:], gap[:-1]) >= MIN_GAP) | np.isin(knots, self.knots)
        return replace(self, knots=knots[keep], places=places[keep])

    def carry(self, cells: np.ndarray, other: Axis) -> np.ndarray:
        """Interpolate values (cells of this axis, …) to the cells of another axis of the same column."""
        place = np.r_[0, np.interp(other.knots, self.knots, np.arange(1, len(cells) - 1)), len(cells) - 1]
        left = np.minimum(place.astype(int), len(cells) - 2)
        part = (place - left).reshape(-1, *[1] * (cells.ndim - 1))
        return (1 - part) * cells[left] + part * cells[left + 1]

    def coarsen(self, max_knots: int, moves: bool = True) -> Axis:
        """An axis with at most `max_knots` knots, all of them knots of this axis.

        Places move to the nearest of `max_knots` even ones, so all interactions share few points; without `moves`, they
        stay. If there are too many levels, the heaviest are kept and the others are encoded as unseen.
        """
        last = max_knots - 1
        if len(self.knots) == 1:
            return self
        if not moves and self.levels is None:
            spaced = (np.linspace(0, 1, len(self.knots)) + self.places) / 2  # even steps of both
            keep = np.unique(np.searchsorted(spaced, np.linspace(0, 1, max_knots)).clip(max=len(self.knots) - 1))
            return replace(self, knots=self.knots[keep], places=self.places[keep])
        if len(self.knots) <= max_knots:
            return replace(self, places=_round_places(self.places, last))
        if self.levels is None:
            even = np.arange(max_knots)  # keep the knots nearest to the even places; both ends stay
            right = np.clip(np.searchsorted(self.places * last, even), 1, len(self.places) - 1)
            is_left = even - self.places[right - 1] * last < self.places[right] * last - even
            keep = np.unique(right - is_left)
            return replace(self, knots=self.knots[keep], places=_round_places(self.places[keep], last))
        mass = np.ones(len(self.knots)) if self.mass is None else self.mass
        keep = np.sort(np.argsort(-mass, kind="stable")[:max_knots])
        levels = tuple(self.levels[index] for index in keep)
        return replace(self, knots=self.knots[keep], places=np.arange(max_knots) / last, levels=levels, mass=mass[keep])


def continuous_axis(
    name: str, values: np.ndarray, weights: np.ndarray | None = None, scaling: str = "quantile", max_knots: int = 193
) -> Axis:
    """Fit the axis of a numeric column to the training rows (N,); NaN is missing, infinite values raise an error."""
    distinct, mass = distinct_values(values, weights)
    check_finite(name, distinct[[0, -1]] if len(distinct) else distinct)
    return continuous_axes([name], np.array([0, len(distinct)]), distinct, mass, scaling, max_knots)[0]


def given_axis(name: str, knots: Sequence[float], scaling: str = "quantile", max_knots: int = 193) -> Axis:
    """The axis of a numeric column with given knots; places assume the same weight at each knot."""
    values = np.asarray(knots, dtype=float)
    starts, mass = np.array([0, len(values)]), np.ones(len(values))
    return continuous_axes([name], starts, values, mass, scaling, max(max_knots, len(values)))[0]


def continuous_axes(
    names: Sequence[str], starts: np.ndarray, distinct: np.ndarray, mass: np.ndarray, scaling: str, max_knots: int
) -> list[Axis]:
    """Axes of many columns; `distinct[starts[d]:starts[d + 1]]` are the values of column d, finite and increasing."""
    sizes = np.diff(starts)
    axes: dict[int, Axis] = {}
    for size in np.unique(sizes):  # columns with equally many values are computed together
        columns = np.flatnonzero(sizes == size)
        if size == 0:
            name = names[columns[0]]
            raise ValueError(f"column {name!r} has only missing values; drop it or fill it before fitting")
        entries = starts[columns, None] + np.arange(size)
        found = _choose_knots(distinct[entries], mass[entries], scaling, max_knots)
        for column, (knots, places) in zip(columns.tolist(), found, strict=True):
            axes[column] = Axis(names[column], "continuous", knots, places)
    return [axes[column] for column in range(len(names))]


def unused_axis(name: str) -> Axis:
    """The axis of a numeric column that no term uses: one knot; all such axes share its arrays."""
    return Axis(name, "continuous", _ONE_KNOT, _ONE_PLACE)


def level_axis(name: str, kind: str, levels: Sequence[str], mass: np.ndarray | None = None) -> Axis:
    """The axis of a nominal or ordinal column: one knot per level, evenly spaced; `mass` is the weight of each."""
    if len(levels) == 0:
        raise ValueError(f"column {name!r} has only missing values; drop it or fill it before fitting")
    count = len(levels)
    places = np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])
    return Axis(name, kind, np.arange(count, dtype=float), places, tuple(levels), mass)


def _choose_knots(
    distinct: np.ndarray, mass: np.ndarray, scaling: str, max_knots: int
) -> Iterable[tuple[np.ndarray, np.ndarray]]:
    """Knots and places of n columns with equally many distinct values (n, G); up to `max_knots`, each is a knot."""
    n_values = distinct.shape[1]
    if n_values == 1:
        return zip(distinct, np.full(distinct.shape, 0.5), strict=True)
    if n_values > max_knots and scaling == "minmax":
        even = np.linspace(0.0, 1.0, max_knots)
        ends = distinct[:, [0, -1]]
        return [_drop_close(np.minimum(low * (1 - even) + high * even, high), even) for low, high in ends]
    is_linear = scaling == "linear"
    scaled = _scale(distinct, mass, "quantile" if is_linear and n_values > max_knots else scaling)
    if n_values > max_knots:
        found = [_group_values(*column, max_knots) for column in zip(distinct, mass, scaled, strict=True)]
        return [_spread(knots, own) for (knots, _), own in zip(found, distinct, strict=True)] if is_linear else found
    if scaling not in ("minmax", "linear"):
        return zip(distinct, _round_places(scaled, max_knots - 1), strict=True)
    return map(_drop_close, distinct, scaled)


def _scale(distinct: np.ndarray, mass: np.ndarray, scaling: str) -> np.ndarray:
    """(n, G) Places in [0, 1] of distinct values; the first of a column is at 0 and the last at 1."""
    # Halving large values first keeps a range near the largest double from overflowing. Subnormals are not halved.
    low, high = distinct[:, :1], distinct[:, -1:]
    unit = np.where(np.maximum(-low, high) > 1, 0.5, 1.0)
    minmax = (distinct * unit - low * unit) / (high * unit - low * unit)
    if scaling in ("minmax", "linear"):
        return minmax
    rank = (np.cumsum(mass, axis=1) - mass / 2) / mass.sum(axis=1, keepdims=True)
    if scaling == "gaussian":
        from scipy.special import ndtri

        epsilon = np.finfo(float).eps  # the rank of a light value beside a heavy one rounds to 1
        return _stretch(ndtri(np.clip(rank, epsilon, 1 - epsilon)))
    # DIFF: the paper scales by min-max alone or by quantiles alone. A blend keeps quantile resolution in the bulk and
    # gives the tails a share of the axis that grows with their length.
    return _stretch((1 - 0.35) * _stretch(rank) + 0.35 * minmax)


def _stretch(values: np.ndarray) -> np.ndarray:
    return (values - values[:, :1]) / (values[:, -1:] - values[:, :1])


def _drop_close(knots: np.ndarray, places: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Drop knots whose value or place equals that of the previous knot within rounding; both ends stay."""
    if (knots[1:] > knots[:-1]).all() and (np.diff(places) >= MIN_GAP).all():
        return knots, places
    keep = [0]
    for index in range(1, len(knots)):
        if knots[index] > knots[keep[-1]] and places[index] - places[keep[-1]] >= MIN_GAP:
            keep.append(index)
    keep[-1] = len(knots) - 1
    return knots[keep], places[keep]


def _spread(knots: np.ndarray, distinct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """These knots between the smallest and the largest value, at their min-max places."""
    whole = np.unique(np.r_[distinct[0], knots[1:-1], distinct[-1]])
    return _drop_close(whole, _scale(whole[None], whole[None], "minmax")[0])


def _group_values(
    distinct: np.ndarray, mass: np.ndarray, scaled: np.ndarray, max_knots: int
) -> tuple[np.ndarray, np.ndarray]:
    """Round the values of a column to the evenly spaced places of the shared axis; at most one knot per place.

    A knot is the weighted median of the values at its place, so a value that dominates its place is itself a knot. If a
    frequent value (twice the average weight of a knot) is alone at its place, the knots of both neighbouring places are
    the values nearest to it: its effect does not leak to the values around it. A place between two frequent values has
    only one knot, the value nearest to the second.
    """
    last = max_knots - 1
    place = np.rint(scaled * last).astype(np.int64)
    starts = np.flatnonzero(np.r_[True, place[1:] != place[:-1]])
    total = np.cumsum(mass)
    before = np.r_[0.0, total][starts]
    group = np.add.reduceat(mass, starts)
    median = np.searchsorted(total, before + group / 2)
    ends = np.r_[starts[1:], len(distinct)] - 1
    alone = (starts == ends) & (group > 2.0 / max_knots * total[-1])
    knot = np.clip(median, starts, ends)
    knot = np.where(np.r_[False, alone[:-1]] & ~alone, starts, knot)  # after a frequent value
    knot = np.where(np.r_[alone[1:], False] & ~alone, ends, knot)  # before one
    return distinct[knot], place[starts] / last


def _round_places(places: np.ndarray, last: int) -> np.ndarray:
    """Round places (…, G) to multiples of 1 / last, and move those that coincide apart; G is at most last + 1."""
    count = np.arange(places.shape[-1])
    place = np.rint(places * last).astype(np.int64)
    return np.minimum(np.maximum.accumulate(place - count, axis=-1) + count, last - count[::-1]) / last
