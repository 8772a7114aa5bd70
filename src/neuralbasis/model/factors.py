"""Low-rank terms of a wide model: bases on one shared axis, and coefficients for every term.

    f_t(x) = Σ_b h_b(x) a_tb        h on the cells of the axis, multilinear between them; zero where a feature is absent

`Factors` holds all terms of one order. In: sparse rows. Out: scores, or `Contributions` without zeros. Dense tables of
100,000 columns would be large and similar to each other; with factors, a row costs only its stored values.
`shapes.LowRankShape` presents one term of the factors as a table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix, to_sparse
from ..encoding.sparse_codes import CodeFinder, SparseCodes
from ..readonly import freeze, freeze_fields

BLOCK_ROWS = 4096  # rows to process at a time: their codes stay in the cache
SORTED_NUMBERS = 128  # from this many coefficients per term on, codes are processed by term instead of by row
BLOCK_CELLS = 1 << 14
BLOCK_NUMBERS = 1 << 22  # coefficients to gather at a time


@dataclass(frozen=True, eq=False)
class Factors:
    """All terms of one order.

    Parameters
    ----------
    finder : the shared axis, and the features of every term in the order of the inputs of the bases
    bases : (cells, B) float32, zero where a feature is absent; cells is the axis' number of cells to the power of order
    coefficients : (T, B, K) float32
    deviations : (T, B, K) float32 standard deviations of the coefficients over the members
    cells, weights : (C,) cells with training rows and their weight, term by term, without the cell of absent values
    cell_starts : (T + 1,) start of each term in `cells`
    total : weight of all training rows
    sizes : (T, K) `importances` measured on the training rows, None if not measured
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
        """Index of the cell where all features are absent."""
        return int(np.ravel_multi_index([self.finder.absent_cell] * self.order, self.table_shape))

    @cached_property
    def importances(self) -> np.ndarray:
        """(T, K) mean absolute deviation of the contributions from their mean over the training rows.

        Terms of a wide model are not centred but zero where a feature is absent, hence the deviation. If `sizes` was
        not measured, rows count with the value of their nearest cell.
        """
        if self.sizes is not None:
            return self.sizes
        found = np.zeros((len(self), self.coefficients.shape[2]))
        for terms, begins, values, weights in self._list_values():
            mean = np.add.reduceat(weights[:, None] * values, begins, axis=0) / self.total
            own = np.repeat(mean, np.diff(np.r_[begins, len(values)]), axis=0)
            excess = weights[:, None] * (np.abs(values - own) - np.abs(own))  # over the deviation of an absent value
            found[terms] = np.abs(mean) + np.add.reduceat(excess, begins, axis=0) / self.total
        return freeze(found)

    @cached_property
    def leanings(self) -> np.ndarray:
        """(T, K) see `AdditiveModel.leanings`; the absent value is the most frequent one."""
        total = np.zeros((len(self), self.coefficients.shape[2]))
        for terms, begins, values, weights in self._list_values():
            total[terms] = np.add.reduceat(weights[:, None] * values, begins, axis=0)
        term = np.repeat(np.arange(len(self)), np.diff(self.cell_starts))
        present = np.bincount(term, self.weights * (self.cells != self.absent_cell), minlength=len(self))
        return freeze(total / self.total * (1 - present / self.total)[:, None])

    @cached_property
    def ranges(self) -> np.ndarray:
        """(T, K) largest minus smallest contribution of a training row; 0 is always included."""
        least, most = np.zeros((2, len(self), self.coefficients.shape[2]))
        for terms, begins, values, _ in self._list_values():
            least[terms] = np.minimum(np.minimum.reduceat(values, begins, axis=0), 0.0)
            most[terms] = np.maximum(np.maximum.reduceat(values, begins, axis=0), 0.0)
        return freeze(most - least)

    def _list_values(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Blocks of (terms, start of each term's cells, values (c, K), weights (c,)) of terms with training rows."""
        counts = np.diff(self.cell_starts)
        present = np.flatnonzero(counts)
        starts = np.r_[self.cell_starts[present], len(self.cells)]
        first_terms = np.searchsorted(starts[:-1], np.arange(0, len(self.cells), BLOCK_CELLS))
        for first, last in pairwise(np.unique(np.r_[first_terms, len(present)])):
            terms, own = present[first:last], slice(starts[first], starts[last])
            of_cell = np.repeat(terms, counts[terms])
            values = np.einsum("cb,cbk->ck", self.bases[self.cells[own]], self.coefficients[of_cell])
            yield terms, starts[first:last] - starts[first], values, self.weights[own]

    def measure(self, codes: SparseCodes, weights: np.ndarray) -> Factors:
        """A copy of the factors with importances measured on all training rows, given by their codes."""
        mean = self._sum_by_term(codes, weights, lambda values, _term: values) / self.total
        excess = self._sum_by_term(
            codes, weights, lambda values, term: np.abs(values - mean[term]) - np.abs(mean[term])
        )
        return replace(self, sizes=np.maximum(np.abs(mean) + excess / self.total, 0.0))

    def renumber(self, place: np.ndarray) -> Factors:
        """The same terms with column i as column place[i]."""
        features = place[self.finder.features]
        order = np.lexsort(features.T[::-1])
        number = np.empty_like(order)
        number[order] = np.arange(len(order))
        return replace(
            self,
            finder=replace(self.finder, features=features[order]),
            coefficients=self.coefficients[order],
            deviations=self.deviations[order],
            **join_cells(len(self), [(number, self.cells, self, 1.0)], len(self.bases)),
            sizes=None if self.sizes is None else self.sizes[order],
        )

    def correct(self, correction: Factors, share: float) -> Factors:
        """The factors plus a share of a correction that was learned from other rows, on the same terms and bases.

        The variance is that share of the correction's and the rest of their own, as for tables.
        """
        deviations = np.hypot(np.sqrt(1 - share) * self.deviations, np.sqrt(share) * correction.deviations)
        parts = [(np.arange(len(self)), part.cells, part, 1.0) for part in (self, correction)]
        return replace(
            self,
            coefficients=self.coefficients + np.float32(share) * correction.coefficients,
            deviations=deviations.astype(np.float32),
            **join_cells(len(self), parts, len(self.bases)),
            sizes=None,
        )

    def _sum_by_term(
        self, codes: SparseCodes, weights: np.ndarray, transform: Callable[[np.ndarray, np.ndarray], np.ndarray]
    ) -> np.ndarray:
        """(T, K) weighted sums of the transformed contributions of each term; `transform` takes values and terms."""
        total = np.zeros((len(self), self.coefficients.shape[2]))
        step = max(1, BLOCK_NUMBERS // self.coefficients[0].size)
        row = np.repeat(np.arange(len(codes)), np.diff(codes.starts))
        for first in range(0, len(row), step):
            own = slice(first, first + step)
            order = first + np.argsort(codes.term[own], kind="stable")
            term = codes.term[order]
            part = SparseCodes(np.array([0, len(term)]), term, codes.position[order])
            blend = part.blend(self.bases, self.finder.side)
            values = np.einsum("eb,ebk->ek", blend, self.coefficients[term], dtype=float)
            begins = np.flatnonzero(np.r_[True, term[1:] != term[:-1]])
            values = weights[row[order], None] * transform(values, term)
            total[term[begins]] += np.add.reduceat(values, begins, axis=0)
        return total

    def find(self, rows: SparseMatrix, threads: int = 1) -> tuple[SparseCodes, np.ndarray]:
        """Codes of the rows, and the values of the bases there (E, B)."""
        codes = self.finder.find(rows, threads)
        return codes, codes.blend(self.bases, self.finder.side, threads)

    def contributions(self, rows: SparseMatrix, threads: int = 1) -> tuple[SparseCodes, np.ndarray]:
        """Codes of the rows, and the contribution of each code (E, K)."""
        codes, blend = self.find(rows, threads)
        return codes, np.einsum("eb,ebk->ek", blend, self.coefficients[codes.term])

    def add_scores(self, rows: SparseMatrix, out: np.ndarray, threads: int = 1) -> None:
        """Add the contributions of the rows to out (N, K)."""
        is_large = self.coefficients[0].size >= SORTED_NUMBERS if len(self) else False

        def work(_part: int, first: int, last: int) -> int:
            count = np.zeros(len(self), np.int64)
            for start in range(first, last, BLOCK_ROWS):
                end = min(start + BLOCK_ROWS, last)
                codes, blend = self.find(rows[start:end])
                if is_large:
                    kernels.add_sorted_entries(*codes.sort(count), blend, self.coefficients, out[start:end])
                else:
                    codes.add_scores(blend, self.coefficients, out[start:end])
            return -1

        kernels.share_rows(work, len(rows), threads, min_rows=64)


def join_cells(
    n_terms: int, parts: Sequence[tuple[np.ndarray, np.ndarray, Factors, float]], n_cells: int
) -> dict[str, Any]:
    """Cells with training rows of several factors, their weights added up.

    parts : (terms, cells, factors, weight) the new index of each term of the factors, the new cell of each of their
        `cells`, and a factor of their weights
    """
    keys = [np.repeat(terms, np.diff(part.cell_starts)) * n_cells + cells for terms, cells, part, _ in parts]
    weights = [weight * part.weights for _, _, part, weight in parts]
    found, place = np.unique(np.concatenate(keys), return_inverse=True)
    return {
        "cells": (found % n_cells).astype(parts[0][1].dtype),
        "weights": np.bincount(place, np.concatenate(weights), minlength=len(found)),
        "cell_starts": np.searchsorted(found, np.arange(n_terms + 1) * n_cells),
        "total": sum(weight * part.total for *_, part, weight in parts),
    }


@dataclass(frozen=True, eq=False)
class Contributions:
    """Contributions row by row; a term that is not listed contributes 0.

    starts : (N + 1,) start of each row in `term` and `value`
    term : (E,) index of the term, increasing within a row
    value : (E, K) contribution
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
    """A record of dense contributions (N, t, K) of these terms."""
    n_rows, n_terms, n_outputs = values.shape
    starts = n_terms * np.arange(n_rows + 1)
    return Contributions(starts, np.tile(np.array(terms, dtype=np.int64), n_rows), values.reshape(-1, n_outputs))


def join_contributions(parts: Sequence[Contributions]) -> Contributions:
    """Join contributions of different terms to the same rows."""
    row, term = (np.concatenate([getattr(part, name) for part in parts]) for name in ("row", "term"))
    order = np.lexsort((term, row))
    starts = np.searchsorted(row[order], np.arange(len(parts[0]) + 1))
    return Contributions(starts, term[order], np.concatenate([part.value for part in parts])[order])


class LowRankPredictor:
    """Terms of a model in factors; `index` (T,) are their positions among all terms. See `predictor.TablePredictor`."""

    def __init__(self, factors: Factors, index: Sequence[int]):
        self.factors, self.index = factors, np.array(index)

    def importances(self, importance_type: str) -> np.ndarray:
        """(T,) see `AdditiveModel.importances`."""
        found = self.factors.importances if importance_type == "avg_weight" else self.factors.ranges
        return found.mean(axis=1)

    def leanings(self) -> np.ndarray:
        """(T, K) see `AdditiveModel.leanings`."""
        return self.factors.leanings

    def add_contributions(
        self, out: np.ndarray, numbers: np.ndarray | SparseMatrix, per_term: bool, n_jobs: int | None
    ) -> int:
        """Add the contributions of the rows to out (N, 1 or T, K); return the column of an infinite value or -1."""
        if isinstance(numbers, np.ndarray):
            return self._add_dense(out, numbers, per_term, n_jobs)
        if not per_term:
            self.factors.add_scores(numbers, out[:, 0], kernels.count_threads(n_jobs))
            return -1
        codes, values = self.factors.contributions(numbers)
        row = np.repeat(np.arange(len(codes)), np.diff(codes.starts))
        out[row, self.index[codes.term]] += values
        return -1

    def list_contributions(self, numbers: np.ndarray | SparseMatrix) -> Contributions:
        """Contributions of all rows without zeros; infinite values are clipped to the largest knot."""
        rows = to_sparse(numbers, self.factors.finder.absent) if isinstance(numbers, np.ndarray) else numbers
        codes, values = self.factors.contributions(rows)
        return Contributions(codes.starts, self.index[codes.term], values.astype(float))

    def _add_dense(self, out: np.ndarray, numbers: np.ndarray, per_term: bool, n_jobs: int | None) -> int:
        """`add_contributions` for dense rows, a block at a time."""
        for first in range(0, len(numbers), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            infinite = np.isinf(numbers[rows]).any(axis=0)
            if infinite.any():
                return int(infinite.argmax())
            block = to_sparse(numbers[rows], self.factors.finder.absent)
            self.add_contributions(out[rows], block, per_term, n_jobs)
        return -1
