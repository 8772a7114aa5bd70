"""Factors: all terms of one order of a wide model, as bases on one shared axis and coefficients of every term.

    f_t(x) = Σ_b h_b(x) a_tb        h on the cells of the axis, multilinear between them; zero where a feature is absent

Tables of a hundred thousand columns would be large and mostly alike; in factors a row costs its stored values only.
`FactoredShape` reads one term of them as a table, for all who look at shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .axis import Axis
from .entries import Entries, Finder
from .stored import Stored
from .terms import Term

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
        term = np.repeat(np.arange(len(self)), np.diff(self.cell_starts))
        total = np.zeros((len(self), self.coefficients.shape[2]))
        for first in range(0, len(term), 1 << 16):
            part = slice(first, first + (1 << 16))
            values = np.einsum("cb,cbk->ck", self.bases[self.cells[part]], self.coefficients[term[part]])
            np.add.at(total, term[part], self.weights[part, None] * np.abs(values))
        return total / self.total

    def find(self, stored: Stored, threads: int = 1) -> tuple[Entries, np.ndarray]:
        """Entries of the rows, and the bases there (E, B)."""
        entries = self.finder.find(stored, threads)
        return entries, entries.blend(self.bases, self.finder.side, threads)

    def contributions(self, stored: Stored, threads: int = 1) -> tuple[Entries, np.ndarray]:
        """Entries of the rows, and what each contributes (E, K)."""
        entries, blend = self.find(stored, threads)
        return entries, np.einsum("eb,ebk->ek", blend, self.coefficients[entries.term])

    def add_scores(self, stored: Stored, out: np.ndarray, threads: int = 1) -> None:
        """Add the contributions of the rows to out (N, K)."""
        for first in range(0, len(stored), BLOCK_ROWS * threads):
            rows = slice(first, first + BLOCK_ROWS * threads)
            entries, blend = self.find(stored.take_slice(rows.start, min(rows.stop, len(stored))), threads)
            entries.add_scores(blend, self.coefficients, out[rows], threads)


@dataclass(frozen=True, eq=False)
class FactoredShape:
    """One term of `Factors`, read as a `Shape`: the same names, made when somebody asks."""

    factors: Factors
    index: int
    axes: tuple[Axis, ...]
    members: None = None

    @property
    def _features(self) -> np.ndarray:
        return self.factors.finder.features[self.index]

    @property
    def term(self) -> Term:
        return tuple(sorted(self._features.tolist()))

    @property
    def scores(self) -> np.ndarray:
        return self._turn(self.factors.bases.astype(float) @ self.factors.coefficients[self.index])

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation over the members, as if their coefficients of different bases were independent."""
        variance = self.factors.deviations[self.index].astype(float) ** 2
        return self._turn(np.sqrt(self.factors.bases.astype(float) ** 2 @ variance))

    @property
    def weights(self) -> np.ndarray:
        cells = slice(*self.factors.cell_starts[self.index : self.index + 2])
        found = np.zeros(len(self.factors.bases))
        found[self.factors.cells[cells]] = self.factors.weights[cells]
        absent = np.ravel_multi_index([self.factors.finder.absent_cell] * len(self.axes), self.factors.table_shape)
        found[absent] = self.factors.total - found.sum()
        return self._turn(found)

    def _turn(self, cells: np.ndarray) -> np.ndarray:
        """Cells (cells, …) as a table whose axes follow the increasing features."""
        order = np.argsort(self._features)
        table = cells.reshape(*self.factors.table_shape, *cells.shape[1:])
        return table.transpose(*order, *range(len(order), table.ndim))
