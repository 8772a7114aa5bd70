"""SparseCodes: which terms a row of a stored table touches, and where it stands on them.

In a wide table nearly all values of a row are the absent one. Every term is anchored there: it is zero where any of its
features is absent, so a row's score is a sum over few entries, those terms whose features it all has. All columns share
one axis, on which the absent value is a knot like any other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix
from ..readonly import freeze, freeze_fields
from ..terms.term import Term
from .axis import Axis, continuous_axis
from .layout import lay_out

MAX_POOLED = 4_000_000  # stored values that place the knots of the shared axis
CHUNK_ENTRIES = 1 << 22  # worked on at a time


def pool_axis(
    stored: SparseMatrix, weights: np.ndarray | None = None, scaling: str = "quantile", max_knots: int = 193
) -> Axis:
    """The axis that all columns of a stored table share: knots at its stored values together, and the absent one.

    DIFF: the paper scales every column by itself. In a wide table that makes the one value of a rare column as large as
    the largest of a frequent one.
    """
    pooled, of_row = stored.value, np.repeat(np.arange(len(stored)), np.diff(stored.starts))
    if len(pooled) > MAX_POOLED:
        chosen = np.linspace(0, len(pooled) - 1, MAX_POOLED).astype(np.int64)
        pooled, of_row = pooled[chosen], of_row[chosen]
    if not np.isfinite(pooled).any():
        if math.isnan(stored.absent):
            raise ValueError(
                "the table holds no value that is not missing, since absent_value is NaN; a model needs some values"
            )
        return Axis("", "continuous", np.array([stored.absent]), np.array([0.5]))
    axis = continuous_axis("", pooled, None if weights is None else weights[of_row], scaling, max_knots)
    return _with_absent(axis, stored.absent)


def coarsen_axis(axis: Axis, absent: float, max_knots: int) -> Axis:
    """A shared axis with fewer knots, for interactions; the absent value stays one."""
    return _with_absent(axis.coarsen(max_knots), absent)


def _with_absent(axis: Axis, absent: float) -> Axis:
    where = int(np.searchsorted(axis.knots, absent))
    if math.isnan(absent):  # missing values have a cell without a knot
        return axis
    if where < len(axis.knots) and axis.knots[where] == absent:
        return axis
    # The bases say nothing at the absent value, so its place may be any between its neighbours'.
    near = np.r_[0.0, axis.places, 1.0][where : where + 2].mean()
    return replace(axis, knots=np.insert(axis.knots, where, absent), places=np.insert(axis.places, where, near))


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """The terms of one order that rows touch.

    starts : (N + 1,) where each row's entries begin
    term : (E,) index of the term
    position : (E, o) on the shared axis, see `axis`
    """

    starts: np.ndarray
    term: np.ndarray
    position: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: np.ndarray) -> SparseCodes:
        """The same of some rows."""
        size = (self.starts[1:] - self.starts[:-1])[rows]
        starts = np.r_[0, np.cumsum(size)]
        chosen = np.arange(starts[-1]) + np.repeat(self.starts[rows] - starts[:-1], size)
        return SparseCodes(starts, self.term[chosen], self.position[chosen])

    def chunks(self) -> Iterator[tuple[SparseCodes, np.ndarray]]:
        """Some rows at a time, without a copy, and the row of each of their entries."""
        step = max(1, CHUNK_ENTRIES * len(self) // max(len(self.term), 1))
        for first in range(0, len(self), step):
            starts = self.starts[first : first + step + 1]
            own = slice(starts[0], starts[-1])
            part = SparseCodes(starts - starts[0], self.term[own], self.position[own])
            yield part, np.repeat(np.arange(first, first + len(part)), np.diff(starts))

    def blend(self, bases: np.ndarray, side: int, threads: int = 1) -> np.ndarray:
        """Bases (side ** o, B) at the positions of all entries, (E, B)."""
        out = np.empty((len(self.term), bases.shape[1]), dtype=bases.dtype)

        def work(_part: int, first: int, last: int) -> int:
            return kernels.blend_bases(first, last, self.position, side, bases, out)

        kernels.share_rows(work, len(self.term), threads)
        return out

    def sort(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The terms that are touched, where each one's entries begin, the entries term by term, and their rows.

        `count` (T,) is a scratch of zeros.
        """
        size = len(self.term)
        touched, begin, entry, row = (np.empty(size + 1, np.int64) for _ in range(4))
        found = kernels.sort_entries(self.starts, self.term, count, touched, begin, entry, row)
        return touched[:found], begin[: found + 1], entry[:size], row[:size]

    def add_scores(self, blend: np.ndarray, coefficients: np.ndarray, out: np.ndarray, threads: int = 1) -> None:
        """Add the contributions of all entries to the scores of their rows, out (N, K)."""

        def work(_part: int, first: int, last: int) -> int:
            return kernels.add_entries(first, last, self.starts, self.term, blend, coefficients, out)

        kernels.share_rows(work, len(self), threads, min_rows=16)


@dataclass(frozen=True, eq=False)
class CodeFinder:
    """Finds the entries of rows for the terms of one order, all on one axis.

    axis : the shared axis
    absent : the absent value, one of its knots
    features : (T, o) of the terms, sorted
    n_columns : of the table
    """

    axis: Axis
    absent: float
    features: np.ndarray
    n_columns: int

    def __post_init__(self):
        freeze_fields(self, "features")

    @classmethod
    def of(cls, axis: Axis, absent: float, terms: Sequence[Term], n_columns: int) -> CodeFinder:
        return cls(axis, absent, np.array(sorted(terms), dtype=np.int64), n_columns)

    @property
    def absent_cell(self) -> int:
        """The cell of the absent value along the axis."""
        if math.isnan(self.absent):
            return 0
        return int(np.flatnonzero(self.axis.knots == self.absent)[0]) + 1

    @property
    def side(self) -> int:
        """Cells along the axis: missing, knots, unseen."""
        return self.axis.n_cells

    @property
    def inner_cells(self) -> np.ndarray:
        """Cells along the axis at which the bases speak: all knots but the absent value."""
        cells = np.arange(1, self.side - 1)
        return freeze(cells[cells != self.absent_cell])

    @cached_property
    def group(self) -> np.ndarray:
        """(D + 1,) first of the terms that begin with each column."""
        return freeze(np.searchsorted(self.features[:, 0], np.arange(self.n_columns + 1)))

    @cached_property
    def others(self) -> np.ndarray:
        """(o - 1, T) features of the terms behind the first."""
        # Unsigned: no check for negative places.
        return freeze(np.ascontiguousarray(self.features[:, 1:].T, dtype=np.uint32))

    @cached_property
    def _layout(self):
        return lay_out([self.axis], [(0,)], {})

    def find(self, stored: SparseMatrix, threads: int = 1) -> SparseCodes:
        """SparseCodes of all rows; infinite values are refused where a table is read."""
        place = self._layout.encode(stored.value[:, None], threads)[:, 0]
        count = np.zeros(len(stored), dtype=np.int64)
        known = stored.starts, stored.column

        def count_them(_part: int, first: int, last: int) -> int:
            return kernels.count_entries(first, last, *known, self.group, self.others, count)

        kernels.share_rows(count_them, len(stored), threads, min_rows=256)
        starts = np.r_[0, np.cumsum(count)]
        term = np.empty(starts[-1], dtype=np.int32)
        position = np.empty((starts[-1], self.features.shape[1]), dtype=np.float32)

        def list_them(_part: int, first: int, last: int) -> int:
            arrays = (*known, place, self.group, self.others, starts, term, position)
            return kernels.list_entries(first, last, *arrays)

        kernels.share_rows(list_them, len(stored), threads, min_rows=256)
        return SparseCodes(starts, term, position)
