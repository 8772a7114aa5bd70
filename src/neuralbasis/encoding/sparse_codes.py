"""SparseCodes: for each row of a sparse table, the terms that it touches and its positions on their axes.

In: a `SparseMatrix` and the terms of one order. Out: `SparseCodes`. In a wide table nearly all values of a row are
absent. Every term is zero where any of its features is absent, so a row's score is a sum over few entries: the terms
whose features are all present in the row. All columns share one axis, on which the absent value is a knot.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix, find_entries
from ..readonly import freeze, freeze_fields
from ..terms.term import Term
from .axis import Axis, continuous_axis
from .layout import Layout, lay_out


def pool_axis(
    table: SparseMatrix, weights: np.ndarray | None = None, scaling: str = "quantile", max_knots: int = 193
) -> Axis:
    """The axis that all columns of a sparse table share; its knots come from all entries, plus the absent value.

    DIFF: the paper scales every column by itself. In a wide table that makes the only value of a rare column as large
    as the largest value of a frequent one.
    """
    pooled, row = table.value, table.row
    if len(pooled) > 4_000_000:  # enough to determine the knots
        chosen = np.linspace(0, len(pooled) - 1, 4_000_000).astype(np.int64)
        pooled, row = pooled[chosen], row[chosen]
    if not np.isfinite(pooled).any():
        if math.isnan(table.absent):
            raise ValueError("the table has only missing values, since absent_value is NaN; a model needs other values")
        return Axis("", "continuous", np.array([table.absent]), np.array([0.5]))
    axis = continuous_axis("", pooled, None if weights is None else weights[row], scaling, max_knots)
    return _with_absent(axis, table.absent)


def coarsen_axis(axis: Axis, absent: float, max_knots: int) -> Axis:
    """A shared axis with fewer knots, for interactions; the absent value stays a knot."""
    return _with_absent(axis.coarsen(max_knots), absent)


def _with_absent(axis: Axis, absent: float) -> Axis:
    if math.isnan(absent) or absent in axis.knots:  # missing values have a cell, not a knot
        return axis
    index = int(np.searchsorted(axis.knots, absent))
    # The bases are zero at the absent value, so any place between its neighbours will do.
    place = np.r_[0.0, axis.places, 1.0][index : index + 2].mean()
    return replace(axis, knots=np.insert(axis.knots, index, absent), places=np.insert(axis.places, index, place))


@dataclass(frozen=True, eq=False)
class SparseCodes:
    """The terms of one order o that N rows touch, E entries in total."""

    starts: np.ndarray  # (N + 1,) where the entries of each row start
    term: np.ndarray  # (E,) index of the term
    position: np.ndarray  # (E, o) on the shared axis, see `axis`

    def __len__(self) -> int:
        return len(self.starts) - 1

    def take(self, rows: np.ndarray) -> SparseCodes:
        """The codes of some rows."""
        starts, entries = find_entries(self.starts, rows)
        return SparseCodes(starts, self.term[entries], self.position[entries])

    def chunks(self) -> Iterator[tuple[SparseCodes, np.ndarray]]:
        """The codes in chunks of rows (about four million entries), without a copy, and the row of each entry."""
        step = max(1, (1 << 22) * len(self) // max(len(self.term), 1))
        for first in range(0, len(self), step):
            starts = self.starts[first : first + step + 1]
            own = slice(starts[0], starts[-1])
            part = SparseCodes(starts - starts[0], self.term[own], self.position[own])
            yield part, np.repeat(np.arange(first, first + len(part)), np.diff(starts))

    def blend(self, bases: np.ndarray, side: int, threads: int = 1) -> np.ndarray:
        """(E, B) Bases (side ** o, B), interpolated at the positions of all entries."""
        out = np.empty((len(self.term), bases.shape[1]), dtype=bases.dtype)
        arrays = self.position, side, bases, out
        kernels.share_rows(lambda _, *rows: kernels.blend_bases(*rows, *arrays), len(self.term), threads)
        return out

    def sort(self, count: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Entries by term: the touched terms, where the entries of each start, the entries, and their rows.

        `count` (T,) is a work array of zeros.
        """
        size = len(self.term)
        touched, begin, entry, row = (np.empty(size + 1, np.int64) for _ in range(4))
        found = kernels.sort_entries(self.starts, self.term, count, touched, begin, entry, row)
        return touched[:found], begin[: found + 1], entry[:size], row[:size]

    def add_scores(self, blend: np.ndarray, coefficients: np.ndarray, out: np.ndarray, threads: int = 1) -> None:
        """Add the contributions of all entries to the scores of their rows, out (N, K)."""
        arrays = self.starts, self.term, blend, coefficients, out
        kernels.share_rows(lambda _, *rows: kernels.add_entries(*rows, *arrays), len(self), threads, min_rows=16)


@dataclass(frozen=True, eq=False)
class CodeFinder:
    """Finds the sparse codes of rows for the T terms of one order o."""

    axis: Axis  # shared by all columns
    absent: float  # the absent value, one of the knots unless it is NaN
    features: np.ndarray  # (T, o) of the terms, sorted
    n_columns: int

    def __post_init__(self):
        freeze_fields(self, "features")

    @classmethod
    def of(cls, axis: Axis, absent: float, terms: Sequence[Term], n_columns: int) -> CodeFinder:
        """The finder for terms in any order."""
        return cls(axis, absent, np.array(sorted(terms), dtype=np.int64), n_columns)

    @property
    def absent_cell(self) -> int:
        """The cell of the absent value along the axis."""
        if math.isnan(self.absent):
            return 0
        return int(np.flatnonzero(self.axis.knots == self.absent)[0]) + 1

    @property
    def side(self) -> int:
        """Number of cells along the axis: missing, knots, unseen."""
        return self.axis.n_cells

    @property
    def inner_cells(self) -> np.ndarray:
        """Cells along the axis at which the bases may be nonzero: all knots but the absent value."""
        cells = np.arange(1, self.side - 1)
        return freeze(cells[cells != self.absent_cell])

    @cached_property
    def group(self) -> np.ndarray:
        """(D + 1,) Index of the first term whose first feature is each column."""
        return freeze(np.searchsorted(self.features[:, 0], np.arange(self.n_columns + 1)))

    @cached_property
    def others(self) -> np.ndarray:
        """(o - 1, T) Features of the terms after the first."""
        # Unsigned: compiled loops skip the check for negative indices.
        return freeze(np.ascontiguousarray(self.features[:, 1:].T, dtype=np.uint32))

    @cached_property
    def _layout(self) -> Layout:
        return lay_out([self.axis], [(0,)], {})

    def find(self, table: SparseMatrix, threads: int = 1) -> SparseCodes:
        """The codes of all rows; values must be finite or missing."""
        entry_position = self._layout.encode(table.value[:, None], threads)[:, 0]
        ends = np.zeros(len(table), dtype=np.int64)
        term, position = np.empty(0, dtype=np.int32), np.empty((0, self.features.shape[1]), dtype=np.float32)

        def list_codes(_part: int, first: int, last: int) -> int:
            entries = table.starts, table.column, entry_position
            return kernels.list_entries(first, last, *entries, self.group, self.others, ends, term, position)

        kernels.share_rows(list_codes, len(table), threads, min_rows=256)  # counts the codes of each row
        starts = np.r_[0, np.cumsum(ends)]
        ends = starts[:-1].copy()
        term, position = np.empty(starts[-1], term.dtype), np.empty((starts[-1], position.shape[1]), position.dtype)
        kernels.share_rows(list_codes, len(table), threads, min_rows=256)
        return SparseCodes(starts, term, position)
