"""Factors: all terms of one order of a wide model, as bases on one shared axis and coefficients of every term.

    f_t(x) = Σ_b h_b(x) a_tb        h on the cells of the axis, multilinear between them; zero where a feature is absent

Tables of a hundred thousand columns would be large and mostly alike; in factors a row costs its stored values only.
`shape.LowRankShape` reads one term of them as a table, for all who look at shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix, to_sparse
from ..encoding.sparse_codes import CodeFinder, SparseCodes
from ..readonly import freeze, freeze_fields

BLOCK_ROWS = 4096  # worked on at a time: their entries stay in the cache
SORTED_NUMBERS = 128  # coefficients of a term from which rows wait for their terms, instead of the other way round
BLOCK_CELLS = 1 << 14
BLOCK_NUMBERS = 1 << 22  # coefficients gathered at a time


@dataclass(frozen=True, eq=False)
class Factors:
    """Terms of one order.

    Parameters
    ----------
    finder : the shared axis, and the features of every term in the order of the bases' inputs
    bases : (cells, B) float32, zero where a feature is absent; cells: the axis' to the power of the order
    coefficients : (T, B, K) float32
    deviations : (T, B, K) float32 standard deviations of the coefficients over the members
    cells, weights : (C,) cells that training rows stand on and their weight, term by term; the absent one left out
    cell_starts : (T + 1,) where each term's begin
    total : weight of all training rows
    sizes : (T, K) see `importances`, measured on the training rows; None where that was not done
    """

    finder: CodeFinder
    bases: np.ndarray
    coefficients: np.ndarray
    deviations: np.ndarray
    cells: np.ndarray
    weights: np.ndarray
    cell_starts: np.ndarray
    total: float
    sizes: np.ndarray | None = None

    def __post_init__(self):
        freeze_fields(self, "bases", "coefficients", "deviations", "cells", "weights", "cell_starts", "sizes")

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def order(self) -> int:
        return self.finder.features.shape[1]

    @property
    def table_shape(self) -> tuple[int, ...]:
        return (self.finder.side,) * self.order

    @property
    def absent_cell(self) -> int:
        """Where all features are absent."""
        return int(np.ravel_multi_index([self.finder.absent_cell] * self.order, self.table_shape))

    @cached_property
    def importances(self) -> np.ndarray:
        """(T, K) mean distance of the contributions from their mean, over the training rows, of which most have none.

        Terms of a wide model are zero where a feature is absent instead of centred, so their importance is this
        distance. Without the rows, each counts by the cell that is nearest to it.
        """
        if self.sizes is not None:
            return self.sizes
        found = np.zeros((len(self), self.coefficients.shape[2]))
        for terms, begins, values, weights in self._list_values():
            mean = np.add.reduceat(weights[:, None] * values, begins, axis=0) / self.total
            own = np.repeat(mean, np.diff(np.r_[begins, len(values)]), axis=0)
            beyond = weights[:, None] * (np.abs(values - own) - np.abs(own))  # than if there were nothing
            found[terms] = np.abs(mean) + np.add.reduceat(beyond, begins, axis=0) / self.total
        return freeze(found)

    @cached_property
    def leanings(self) -> np.ndarray:
        """(T, K) see `AdditiveModel.leanings`; the most frequent value is the absent one."""
        total = np.zeros((len(self), self.coefficients.shape[2]))
        for terms, begins, values, weights in self._list_values():
            total[terms] = np.add.reduceat(weights[:, None] * values, begins, axis=0)
        term = np.repeat(np.arange(len(self)), np.diff(self.cell_starts))
        present = np.bincount(term, self.weights * (self.cells != self.absent_cell), minlength=len(self))
        return freeze(total / self.total * (1 - present / self.total)[:, None])

    @cached_property
    def ranges(self) -> np.ndarray:
        """(T, K) from the least to the largest contribution of a training row; 0 is one of them."""
        least, most = np.zeros((2, len(self), self.coefficients.shape[2]))
        for terms, begins, values, _ in self._list_values():
            least[terms] = np.minimum(np.minimum.reduceat(values, begins, axis=0), 0.0)
            most[terms] = np.maximum(np.maximum.reduceat(values, begins, axis=0), 0.0)
        return freeze(most - least)

    def _list_values(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Terms that training rows stand on, some at a time, and where each one's cells begin among the values (c, K)
        and the weights (c,) of the cells."""
        counts = np.diff(self.cell_starts)
        seen = np.flatnonzero(counts)
        starts = np.r_[self.cell_starts[seen], len(self.cells)]
        edges = np.unique(np.r_[np.searchsorted(starts[:-1], np.arange(0, len(self.cells), BLOCK_CELLS)), len(seen)])
        for first, last in pairwise(edges):
            terms, own = seen[first:last], slice(starts[first], starts[last])
            of_cell = np.repeat(terms, counts[terms])
            values = np.einsum("cb,cbk->ck", self.bases[self.cells[own]], self.coefficients[of_cell])
            yield terms, starts[first:last] - starts[first], values, self.weights[own]

    def measure(self, entries: SparseCodes, weights: np.ndarray) -> Factors:
        """The same factors with the importances of their terms over all training rows, given by their entries."""
        mean = self._add_by_term(entries, weights, lambda values, _term: values) / self.total
        beyond = self._add_by_term(
            entries, weights, lambda values, term: np.abs(values - mean[term]) - np.abs(mean[term])
        )
        return replace(self, sizes=np.maximum(np.abs(mean) + beyond / self.total, 0.0))

    def _add_by_term(
        self, entries: SparseCodes, weights: np.ndarray, change: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """(T, K) weighted sums over the entries of each term of its changed contributions."""
        total = np.zeros((len(self), self.coefficients.shape[2]))
        step = max(1, BLOCK_NUMBERS // self.coefficients[0].size)
        row = np.repeat(np.arange(len(entries)), np.diff(entries.starts))
        for first in range(0, len(row), step):
            own = slice(first, first + step)
            order = first + np.argsort(entries.term[own], kind="stable")
            term = entries.term[order]
            part = SparseCodes(np.array([0, len(term)]), term, entries.position[order])
            blend = part.blend(self.bases, self.finder.side)
            values = np.einsum("eb,ebk->ek", blend, self.coefficients[term], dtype=float)
            begins = np.flatnonzero(np.r_[True, term[1:] != term[:-1]])
            total[term[begins]] += np.add.reduceat(weights[row[order], None] * change(values, term), begins, axis=0)
        return total

    def find(self, stored: SparseMatrix, threads: int = 1) -> tuple[SparseCodes, np.ndarray]:
        """SparseCodes of the rows, and the bases there (E, B)."""
        entries = self.finder.find(stored, threads)
        return entries, entries.blend(self.bases, self.finder.side, threads)

    def contributions(self, stored: SparseMatrix, threads: int = 1) -> tuple[SparseCodes, np.ndarray]:
        """SparseCodes of the rows, and what each contributes (E, K)."""
        entries, blend = self.find(stored, threads)
        return entries, np.einsum("eb,ebk->ek", blend, self.coefficients[entries.term])

    def add_scores(self, stored: SparseMatrix, out: np.ndarray, threads: int = 1) -> None:
        """Add the contributions of the rows to out (N, K), a block of rows for each thread."""
        is_large = self.coefficients[0].size >= SORTED_NUMBERS if len(self) else False

        def work(_part: int, first: int, last: int) -> int:
            count = np.zeros(len(self), np.int64)
            for start in range(first, last, BLOCK_ROWS):
                end = min(start + BLOCK_ROWS, last)
                entries, blend = self.find(stored.take_slice(start, end))
                if is_large:
                    kernels.add_sorted_entries(*entries.sort(count), blend, self.coefficients, out[start:end])
                else:
                    entries.add_scores(blend, self.coefficients, out[start:end])
            return -1

        kernels.share_rows(work, len(stored), threads, min_rows=64)


@dataclass(frozen=True, eq=False)
class Contributions:
    """What terms contribute to rows, row by row; a term that is not there contributes 0.

    starts : (N + 1,) where each row's begin
    term : (E,) index of the term, increasing within a row
    value : (E, K)
    """

    starts: np.ndarray
    term: np.ndarray
    value: np.ndarray

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def row(self) -> np.ndarray:
        """(E,) row of each contribution."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def of_row(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Terms and contributions of one row."""
        own = slice(self.starts[index], self.starts[index + 1])
        return self.term[own], self.value[own]


def fill_contributions(terms: Sequence[int], values: np.ndarray) -> Contributions:
    """Contributions (N, t, K) of all these terms to all rows."""
    n_rows, n_terms, n_outputs = values.shape
    starts = n_terms * np.arange(n_rows + 1)
    return Contributions(starts, np.tile(np.array(terms, dtype=np.int64), n_rows), values.reshape(-1, n_outputs))


def join_contributions(parts: Sequence[Contributions]) -> Contributions:
    """Contributions of different terms to the same rows."""
    row, term = (np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "term"))
    order = np.lexsort((term, row))
    starts = np.searchsorted(row[order], np.arange(len(parts[0]) + 1))
    return Contributions(starts, term[order], np.concatenate([part.value for part in parts])[order])


class LowRankPart:
    """Factors within a model: `index` (T,) of their terms among all. See `parts.TablePart`."""

    def __init__(self, factors: Factors, index: Sequence[int]):
        self.factors, self.index = factors, np.array(index)

    def importances(self, importance_type: str) -> np.ndarray:
        """(T,) see `AdditiveModel.importances`."""
        found = self.factors.importances if importance_type == "avg_weight" else self.factors.ranges
        return found.mean(axis=1)

    def leanings(self) -> np.ndarray:
        """(T, K) see `AdditiveModel.leanings`."""
        return self.factors.leanings

    def add_to(self, out: np.ndarray, numbers: np.ndarray | SparseMatrix, per_term: bool, n_jobs: int | None) -> int:
        """Add contributions of the rows into out (N, 1 or T, K); returns the column of an infinite value or -1."""
        if isinstance(numbers, np.ndarray):
            return self._add_dense(out, numbers, per_term, n_jobs)
        if not per_term:
            self.factors.add_scores(numbers, out[:, 0], kernels.count_threads(n_jobs))
            return -1
        entries, values = self.factors.contributions(numbers)
        row = np.repeat(np.arange(len(entries)), np.diff(entries.starts))
        out[row, self.index[entries.term]] += values
        return -1

    def list_contributions(self, numbers: np.ndarray | SparseMatrix) -> Contributions:
        """The same of all rows, without zeros; infinite values count as the largest."""
        stored = to_sparse(numbers, self.factors.finder.absent) if isinstance(numbers, np.ndarray) else numbers
        entries, values = self.factors.contributions(stored)
        return Contributions(entries.starts, self.index[entries.term], values.astype(float))

    def _add_dense(self, out: np.ndarray, numbers: np.ndarray, per_term: bool, n_jobs: int | None) -> int:
        """The same for rows with all their values, a block at a time."""
        for first in range(0, len(numbers), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            infinite = np.isinf(numbers[rows]).any(axis=0)
            if infinite.any():
                return int(infinite.argmax())
            self.add_to(out[rows], to_sparse(numbers[rows], self.factors.finder.absent), per_term, n_jobs)
        return -1
