"""Sketches: summaries of columns of bounded size, built in one pass and mergeable.

A `NumberSketch` is a list of weighted points. Up to `MAX_EXACT` distinct values the points are the values, and the
sketch is exact. Beyond that, points are thinned: neighbours within a share of the weight (2 / `POINTS` in the middle,
less towards both ends) and of the range (1 / `RANGE_PARTS`) are replaced by their median, because axes need ranks in
the bulk and values in the tails. A value with more than 1 / `POINTS` of the weight stays a point. Buffers of points
merge two by two, like the digits of a binary counter, and the error of a rank grows with the logarithm of the number of
rows. Nothing is random. A `LevelSketch` counts texts; a `TextSketch` holds both readings of a text column.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np

from .. import kernels
from .numbers import distinct_values
from .text_numbers import TextFacts, parse_texts

MAX_EXACT = 1 << 13  # distinct values
POINTS = 1 << 13  # equal shares of the weight; a group of points covers at most three, its rank is off by half of that
RANGE_PARTS = 1 << 11  # equal parts of the range
MAX_LEVELS = 1_000_000  # distinct texts of a column that are counted

Points = tuple[np.ndarray, np.ndarray]  # increasing values, and the weight of each


class NumberSketch:
    """Weighted points of a column of numbers, and the types that hold its values.

    Examples
    --------
    >>> import numpy as np
    >>> sketch = NumberSketch()
    >>> sketch.add(np.array([2.0, 1.0, np.nan, 2.0]))
    >>> [part.tolist() for part in sketch.points()], sketch.missing, sketch.error, sketch.is_whole
    ([[1.0, 2.0], [1.0, 2.0]], 1.0, 0.0, True)
    """

    def __init__(self, max_exact: int = MAX_EXACT):
        self.max_exact = max_exact
        self.missing = 0.0
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
        points = distinct_values(values, weights)
        total = float(len(values)) if weights is None else float(weights.sum())
        self.missing += max(0.0, total - float(points[1].sum()))
        self._note_types(points[0])
        self._add_points(points[0].astype(np.float64), points[1])

    def merge(self, other: NumberSketch) -> None:
        """Add the rows of another sketch."""
        self.missing += other.missing
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
            self._levels = [thin_points(points, n_points, min(RANGE_PARTS, n_points))]
            self._waiting, self._n_waiting = [], 0
            self._sealed_error, self._depth = self.error + 1.5 / n_points, 0

    def to_bytes(self) -> bytes:
        """The sketch as doubles: number of fields, fields (the last ones are sizes of buffers), buffers."""
        buffers = [*self._waiting, *(points or (np.empty(0), np.empty(0)) for points in self._levels)]
        fields = [self.max_exact, self.missing, self.is_whole, self.is_single, self._depth, self._sealed_error]
        fields += [len(self._waiting), *(len(values) for values, _ in buffers)]
        return np.concatenate([[len(fields)], fields, *(part for points in buffers for part in points)]).tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> NumberSketch:
        """The sketch that `to_bytes` wrote."""
        numbers = np.frombuffer(data)
        n_fields = int(numbers[0])
        max_exact, missing, is_whole, is_single, depth, error, n_waiting, *sizes = numbers[1 : n_fields + 1].tolist()
        parts = np.split(numbers[n_fields + 1 :], np.cumsum(np.repeat(sizes, 2)).astype(int))[:-1]
        sketch, buffers = cls(int(max_exact)), list(zip(parts[::2], parts[1::2], strict=True))
        sketch.missing, sketch.is_whole, sketch.is_single = missing, bool(is_whole), bool(is_single)
        sketch._depth, sketch._sealed_error, sketch._waiting = int(depth), error, buffers[: int(n_waiting)]
        sketch._n_waiting = sum(len(values) for values, _ in sketch._waiting)
        sketch._levels = [points if len(points[0]) else None for points in buffers[int(n_waiting) :]]
        return sketch

    def _note_types(self, distinct: np.ndarray) -> None:
        if self.is_whole and len(distinct):
            self.is_whole = bool((distinct == np.rint(distinct)).all())
        if self.is_single and distinct.dtype != np.float32:
            with np.errstate(over="ignore"):
                self.is_single = bool((distinct.astype(np.float32) == distinct).all())

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

    Examples
    --------
    >>> import numpy as np
    >>> sketch = LevelSketch()
    >>> sketch.add(["red", "blue"], np.array([2.0, 1.0]), missing=1.0)
    >>> sketch.weigh()
    (('blue', 'red'), array([1., 2.]))
    """

    def __init__(self, declared: bool = False, ordered: bool = False, max_levels: int = MAX_LEVELS):
        self.declared, self.ordered, self.max_levels = declared, ordered, max_levels
        self.missing = self.lost = 0.0
        self._mass: dict[str, float] = {}

    def add(self, texts: Sequence[str], mass: np.ndarray, missing: float = 0.0) -> None:
        """Add texts of these weights, and the weight of missing values."""
        self.missing += missing
        for text, weight in zip(texts, mass.tolist(), strict=True):
            self._mass[text] = self._mass.get(text, 0.0) + weight
        if len(self._mass) > self.max_levels:
            self._drop_lightest()

    def merge(self, other: LevelSketch) -> None:
        """Add the rows of another sketch."""
        self.lost += other.lost
        self.declared |= other.declared
        self.ordered |= other.ordered
        self.add(list(other._mass), np.array(list(other._mass.values())), other.missing)

    def weigh(self) -> tuple[tuple[str, ...], np.ndarray]:
        """The texts in order, and their weights."""
        texts = tuple(self._mass) if self.declared else tuple(sorted(self._mass))
        return texts, np.array([self._mass[text] for text in texts], dtype=float)

    def to_bytes(self) -> bytes:
        """The sketch as JSON."""
        fields = self.declared, self.ordered, self.max_levels, self.missing, self.lost
        return json.dumps([fields, self._mass]).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> LevelSketch:
        """The sketch that `to_bytes` wrote."""
        (declared, ordered, max_levels, missing, lost), mass = json.loads(data)
        sketch = cls(declared, ordered, max_levels)
        sketch.missing, sketch.lost, sketch._mass = missing, lost, mass
        return sketch

    def _drop_lightest(self) -> None:
        limit = float(np.median(list(self._mass.values())))
        self._mass = {text: weight for text, weight in self._mass.items() if weight > limit}
        self.lost += limit


class TextSketch:
    """A text column that may hold numbers: a sketch of both readings. `settle` chooses one after all rows.

    Examples
    --------
    >>> import numpy as np
    >>> sketch = TextSketch()
    >>> sketch.add(["1,200", "low"], np.array([9.0, 1.0]), missing=1.0)
    >>> sketch.facts.look_like_numbers, sketch.numbers.points(), sketch.levels.weigh()[0]
    (True, (array([1200.]), array([9.])), ('1,200', 'low'))
    """

    def __init__(self, levels: LevelSketch | None = None):
        self.numbers, self.levels, self.facts = NumberSketch(), levels or LevelSketch(), TextFacts()

    def add(self, texts: Sequence[str], mass: np.ndarray, missing: float = 0.0) -> None:
        """Add texts of these weights, and the weight of missing values."""
        used = mass > 0
        numbers, facts = parse_texts(texts, mass)
        self.facts += facts
        self.numbers.add(numbers[used], mass[used].astype(float))
        self.numbers.missing += missing
        self.levels.add(texts, mass, missing)

    def merge(self, other: TextSketch) -> None:
        """Add the rows of another sketch."""
        self.facts += other.facts
        self.numbers.merge(other.numbers)
        self.levels.merge(other.levels)

    def settle(self, name: str, feature_type: Any) -> NumberSketch | LevelSketch:
        """The sketch of the numbers or of the levels, by the rule of `encoder.settle_texts`."""
        if feature_type == "continuous":
            self.facts.require_numbers(name)
        elif self.facts.look_like_numbers:
            self.facts.warn_of_numbers(name)
        else:
            return self.levels
        return self.numbers

    def to_bytes(self) -> bytes:
        """A line with the facts and the size of the numbers; the numbers; the levels."""
        numbers = self.numbers.to_bytes()
        return json.dumps([astuple(self.facts), len(numbers)]).encode() + b"\n" + numbers + self.levels.to_bytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> TextSketch:
        """The sketch that `to_bytes` wrote."""
        head, _, rest = data.partition(b"\n")
        facts, size = json.loads(head)
        sketch = cls(LevelSketch.from_bytes(rest[size:]))
        sketch.facts, sketch.numbers = TextFacts(*facts), NumberSketch.from_bytes(rest[:size])
        return sketch


AnySketch = NumberSketch | LevelSketch | TextSketch


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


def thin_points(points: Points, n_points: int = POINTS, n_parts: int = RANGE_PARTS) -> Points:
    """Fewer points: neighbours are replaced by their median; points above an even share of the weight stay."""
    values, mass = np.empty(len(points[0])), np.empty(len(points[0]))
    count = kernels.thin_points(*points, n_points, n_parts, values, mass)
    return values[:count].copy(), mass[:count].copy()
