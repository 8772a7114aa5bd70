"""Sketches: summaries of columns of bounded size, built in one pass and mergeable.

A `NumberSketch` is a list of weighted points: the values, if there are at most `POINTS`. More points are thinned:
neighbours within a share of the weight (2 / `POINTS` in the middle, less towards both ends) and of the range
(4 / `POINTS`) become their median, since axes need ranks in the bulk and values in the tails; a value with more than
1 / `POINTS` of the weight stays. Buffers merge two by two, as a binary counter carries, so the error of a rank grows
with the logarithm of the rows. A `LevelSketch` counts texts; a `TextSketch` holds both readings of a text column.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .. import kernels
from .columns import distinct_values
from .target import is_whole
from .text_numbers import TextFacts, parse_texts

POINTS = 1 << 13  # equal shares of the weight; a group of points covers at most three, its rank is off by half of that

Points = tuple[np.ndarray, np.ndarray]  # increasing values, and the weight of each


class NumberSketch:
    """Weighted points of a column of numbers, and the types that hold its values."""

    def __init__(self, max_exact: int = POINTS):
        self.max_exact = max_exact
        self.is_whole = self.is_single = True  # whether all values are integers; whether float32 holds them
        self._waiting: list[Points] = []
        self._n_waiting = 0
        self._levels: list[Points | None] = []
        self._depth = 0  # largest number of times that a row was thinned since the sketch was sealed
        self._sealed_error = 0.0  # the error when it was sealed

    @property
    def error(self) -> float:
        """Largest error of the rank of a value, as a share of the weight."""
        return 1.5 * self._depth / POINTS + self._sealed_error

    def add(self, values: np.ndarray, weights: np.ndarray | None = None) -> None:
        """Add rows; NaN is missing, weights are positive."""
        distinct, mass = distinct_values(values, weights)
        self.is_whole = self.is_whole and is_whole(distinct)
        self.is_single = self.is_single and fits_single(distinct)
        self._add_points(distinct.astype(np.float64), mass)

    def merge(self, other: NumberSketch) -> None:
        """Add the rows of another sketch."""
        self.is_whole &= other.is_whole
        self.is_single &= other.is_single
        self._depth = max(self._depth, other._depth)
        self._sealed_error = max(self._sealed_error, other._sealed_error)
        for level, points in enumerate(other._levels):
            if points is not None:
                self._carry(points, level)
        for points in other._waiting:
            self._add_points(*points)

    def points(self) -> Points:
        """All points; if `error` is 0, the distinct values and their weights."""
        return join_points([*self._waiting, *(points for points in self._levels if points is not None)])

    def seal(self, n_points: int = POINTS) -> None:
        """Join all points into one buffer, small enough to store and send; thinned unless exact and small."""
        points = self.points()
        if not self._levels and len(points[0]) <= self.max_exact:
            self._waiting, self._n_waiting = [points], len(points[0])
        else:
            self._levels = [thin_points(points, n_points, min(POINTS // 4, n_points))]
            self._waiting, self._n_waiting = [], 0
            self._sealed_error, self._depth = self.error + 1.5 / n_points, 0

    def _add_points(self, values: np.ndarray, mass: np.ndarray) -> None:
        """Append points to the waiting ones; join those when there are many, and thin the result if it is long."""
        self._waiting.append((values, mass))
        self._n_waiting += len(values)
        if self._n_waiting <= 2 * self.max_exact:
            return
        points = join_points(self._waiting)
        if len(points[0]) <= self.max_exact and not self._levels:
            self._waiting, self._n_waiting = [points], len(points[0])
        else:
            self._waiting, self._n_waiting = [], 0
            self._depth = max(self._depth, 1)
            self._carry(thin_points(points), 0)

    def _carry(self, points: Points, level: int) -> None:
        """Add a buffer to its level, as a binary counter adds a digit."""
        self._levels += [None] * (level + 1 - len(self._levels))
        found = self._levels[level]
        if found is None:
            self._levels[level] = points
            return
        self._levels[level] = None
        self._depth = max(self._depth, level + 2)
        self._carry(thin_points(join_points([found, points])), level + 1)


class LevelSketch:
    """Weights of the texts of a column; `declared` texts keep their order, others are sorted.

    Above `max_levels` texts the lightest half is dropped; `lost` is an upper bound of the weight of a dropped text.
    """

    def __init__(self, declared: bool = False, ordered: bool = False, max_levels: int = 1_000_000):
        self.declared, self.ordered, self.max_levels = declared, ordered, max_levels
        self.lost = 0.0
        self._mass: dict[str, float] = {}

    def add(self, texts: Sequence[str], mass: np.ndarray) -> None:
        """Add texts of these weights."""
        for text, weight in zip(texts, mass.tolist(), strict=True):
            self._mass[text] = self._mass.get(text, 0.0) + weight
        if len(self._mass) > self.max_levels:
            limit = float(np.median(list(self._mass.values())))
            self._mass = {text: weight for text, weight in self._mass.items() if weight > limit}
            self.lost += limit

    def merge(self, other: LevelSketch) -> None:
        """Add the rows of another sketch."""
        self.lost += other.lost
        self.declared |= other.declared
        self.ordered |= other.ordered
        self.add(list(other._mass), np.array(list(other._mass.values())))

    def weigh(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The texts in order, and their weights."""
        texts = tuple(self._mass) if self.declared else tuple(sorted(self._mass))
        return texts, np.array([self._mass[text] for text in texts], dtype=float)


class TextSketch:
    """A text column that may hold numbers: a sketch of both readings. `settle` chooses one after all rows."""

    def __init__(self, levels: LevelSketch | None = None):
        self.numbers, self.levels, self.facts = NumberSketch(), levels or LevelSketch(), TextFacts()

    def add(self, texts: Sequence[str], mass: np.ndarray) -> None:
        """Add texts of these weights."""
        used = mass > 0
        numbers, facts = parse_texts(texts, mass)
        self.facts += facts
        self.numbers.add(numbers[used], mass[used].astype(float))
        self.levels.add(texts, mass)

    def merge(self, other: TextSketch) -> None:
        """Add the rows of another sketch."""
        self.facts += other.facts
        self.numbers.merge(other.numbers)
        self.levels.merge(other.levels)

    def settle(self, name: str, feature_type: Any) -> NumberSketch | LevelSketch:
        """The sketch of the numbers or of the levels, by the rule of `encoder.settle_texts`."""
        return self.numbers if self.facts.settle(name, feature_type == "continuous") else self.levels


AnySketch = NumberSketch | LevelSketch | TextSketch


def fits_single(values: np.ndarray) -> bool:
    """Whether float32 holds all values exactly."""
    with np.errstate(over="ignore"):
        return bool((values.astype(np.float32, copy=False) == values).all())


def join_points(parts: Iterable[Points]) -> Points:
    """The points of all parts; equal values become one point."""
    parts = list(parts)
    if len(parts) == 1:
        return parts[0]
    values = np.concatenate([part[0] for part in parts] or [np.empty(0)])
    mass = np.concatenate([part[1] for part in parts] or [np.empty(0)])
    order = np.argsort(values, kind="stable")  # fast on sorted parts
    values, mass = values[order], mass[order]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]]) if len(values) else np.empty(0, int)
    return values[starts], np.add.reduceat(mass, starts) if len(starts) else mass


def thin_points(points: Points, n_points: int = POINTS, n_parts: int = POINTS // 4) -> Points:
    """Fewer points: neighbours are replaced by their median; points above an even share of the weight stay."""
    values, mass = np.empty(len(points[0])), np.empty(len(points[0]))
    count = kernels.thin_points(*points, n_points, n_parts, values, mass)
    return values[:count].copy(), mass[:count].copy()
