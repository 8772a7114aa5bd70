"""Factors: all terms of one order of a wide model, as bases on one shared axis and coefficients of every term.

    f_t(x) = Σ_b h_b(x) a_tb        h on the cells of the axis, multilinear between them; zero where a feature is absent

Tables of a hundred thousand columns would be large and mostly alike; in factors a row costs its stored values only.
`shape.FactoredShape` reads one term of them as a table, for all who look at shapes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from . import kernels
from .entries import Entries, Finder
from .stored import Stored, store_rows

BLOCK_ROWS = 4096  # worked on at a time: their entries stay in the cache


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
    """

    finder: Finder
    bases: np.ndarray
    coefficients: np.ndarray
    deviations: np.ndarray
    cells: np.ndarray
    weights: np.ndarray
    cell_starts: np.ndarray
    total: float

    def __len__(self) -> int:
        return len(self.coefficients)

    @property
    def order(self) -> int:
        return self.finder.features.shape[1]

    @property
    def table_shape(self) -> tuple[int, ...]:
        return (self.finder.side,) * self.order

    @cached_property
    def importances(self) -> np.ndarray:
        """(T, K) mean size of the contributions over the training rows, of which most have none."""
        total = np.zeros((len(self), self.coefficients.shape[2]))
        for term, values, weights in self._list_values():
            np.add.at(total, term, weights[:, None] * np.abs(values))
        return total / self.total

    @cached_property
    def ranges(self) -> np.ndarray:
        """(T, K) from the least to the largest contribution of a training row; 0 is one of them."""
        least, most = np.zeros((2, len(self), self.coefficients.shape[2]))
        for term, values, _ in self._list_values():
            np.minimum.at(least, term, values)
            np.maximum.at(most, term, values)
        return most - least

    def _list_values(self) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """The cells that training rows stand on, some at a time: their terms, values (c, K) and weights."""
        term = np.repeat(np.arange(len(self)), np.diff(self.cell_starts))
        for first in range(0, len(term), 1 << 16):
            part = slice(first, first + (1 << 16))
            values = np.einsum("cb,cbk->ck", self.bases[self.cells[part]], self.coefficients[term[part]])
            yield term[part], values, self.weights[part]

    def find(self, stored: Stored, threads: int = 1) -> tuple[Entries, np.ndarray]:
        """Entries of the rows, and the bases there (E, B)."""
        entries = self.finder.find(stored, threads)
        return entries, entries.blend(self.bases, self.finder.side, threads)

    def contributions(self, stored: Stored, threads: int = 1) -> tuple[Entries, np.ndarray]:
        """Entries of the rows, and what each contributes (E, K)."""
        entries, blend = self.find(stored, threads)
        return entries, np.einsum("eb,ebk->ek", blend, self.coefficients[entries.term])

    def add_scores(self, stored: Stored, out: np.ndarray, threads: int = 1) -> None:
        """Add the contributions of the rows to out (N, K), a block of rows for each thread."""

        def work(_part: int, first: int, last: int) -> int:
            for start in range(first, last, BLOCK_ROWS):
                end = min(start + BLOCK_ROWS, last)
                entries, blend = self.find(stored.take_slice(start, end))
                entries.add_scores(blend, self.coefficients, out[start:end])
            return -1

        kernels.share_rows(work, len(stored), threads, min_rows=64)


class FactoredPart:
    """Factors within a model: `index` (T,) of their terms among all. See `model._Part`."""

    def __init__(self, factors: Factors, index: Sequence[int]):
        self.factors, self.index = factors, np.array(index)

    def importances(self, importance_type: str) -> np.ndarray:
        """(T,) see `AdditiveModel.importances`."""
        found = self.factors.importances if importance_type == "avg_weight" else self.factors.ranges
        return found.mean(axis=1)

    def add_to(self, out: np.ndarray, numbers: np.ndarray | Stored, per_term: bool, n_jobs: int | None) -> int:
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

    def _add_dense(self, out: np.ndarray, numbers: np.ndarray, per_term: bool, n_jobs: int | None) -> int:
        """The same for rows with all their values, a block at a time."""
        for first in range(0, len(numbers), BLOCK_ROWS):
            rows = slice(first, first + BLOCK_ROWS)
            infinite = np.isinf(numbers[rows]).any(axis=0)
            if infinite.any():
                return int(infinite.argmax())
            self.add_to(out[rows], store_rows(numbers[rows], self.factors.finder.absent), per_term, n_jobs)
        return -1
