"""Stage: tables of terms that were trained together, and how rows read them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..networks.basis_net import BasisNet, count_block_rows
from ..terms.term import Term
from .engines import GridEngine


@dataclass(frozen=True, eq=False)
class Stage:
    """Tables of some terms."""

    grid: GridEngine  # how rows read the tables
    intercept: Tensor  # (M, K)
    values: Tensor | None = None  # (cells, C) all tables, None for the network's own
    net: BasisNet | None = None  # None if the tables stand alone; it mixes the tables of tied classes

    @property
    def terms(self) -> list[Term]:
        """Terms in the order of the tables, the features of each sorted."""
        return [tuple(sorted(term)) for term in self.grid.layout.terms]

    @property
    def tied(self) -> bool:
        return self.net is not None and self.net.tied

    @torch.no_grad()
    def table(self) -> Tensor:
        """All cells of all terms, (cells, C)."""
        if self.values is not None:
            return self.values
        assert self.net is not None
        return self.net.eval().table(self.grid.points)

    def _fold(self, table: Tensor) -> Tensor:
        """Tables of tied classes (cells, M · S) as tables of the classes (cells, M · K)."""
        assert self.net is not None
        layout, (n_members, n_outputs) = self.grid.layout, self.intercept.shape
        term = torch.from_numpy(np.repeat(np.arange(len(layout.terms)), np.diff([*layout.term_offset, layout.n_cells])))
        found = table.new_zeros(len(table), n_members, n_outputs)
        for copy, mix in enumerate(self.net.mix()):
            found[:, copy // self.net.n_subnets] += table[:, copy, None] * mix[term]
        return found.flatten(1)

    def measure_main_effects(self) -> dict[int, float]:
        """Variance of the main effect of each column over the rows."""
        layout, table, found = self.grid.layout, self.table().cpu().double().numpy(), {}
        for index, (feature, *_) in enumerate(layout.terms):
            cells = layout.cells_of(index)
            weights, values = self.grid.cell_weight[cells], table[cells]
            centred = values - np.average(values, axis=0, weights=weights)
            found[feature] = float(np.average((centred**2).mean(axis=1), weights=weights))
        return found

    def move(self, grid: GridEngine) -> Stage:
        """The same main effects on a grid with other knots."""
        if self.values is None:
            return replace(self, grid=grid)
        old, new, values = self.grid.layout, grid.layout, self.values.cpu().numpy()
        moved = np.empty((new.n_cells, values.shape[1]), dtype=np.float32)
        for index in range(len(new.terms)):
            (before,), (axis,) = old.axes_of(index), new.axes_of(index)
            moved[new.cells_of(index)] = before.carry(values[old.cells_of(index)], axis)
        return replace(self, grid=grid, values=torch.from_numpy(moved).to(grid.device))

    def select(self, terms: Collection[Term], grid: GridEngine) -> Stage:
        """Some of the terms, on a grid of these alone."""
        table = self.table()
        cells = [self.grid.layout.cells_of(index) for index, term in enumerate(self.terms) if term in terms]
        return replace(self, grid=grid, values=torch.cat([table[own] for own in cells]))

    def read(self, positions: np.ndarray) -> Stage:
        """The same stage, read by rows at other positions."""
        return replace(self, grid=self.grid.read(positions))

    @torch.no_grad()
    def add_scores(self, init: Tensor | None) -> Tensor:
        """(N, M, K): given scores plus those of this stage."""
        table, lookup, n_rows = self.table(), self.grid.lookup, len(self.grid.positions)
        n_terms, tied = len(self.grid.layout.terms), self.tied
        if tied and n_terms >= 1000 and len(table) * self.intercept.numel() < n_rows * n_terms:
            table, tied = self._fold(table), False
        n_terms = n_terms if tied else 1
        step = count_block_rows(n_terms * table.shape[1] + self.intercept.numel())
        scores = torch.empty(n_rows, *self.intercept.shape, device=self.grid.device)
        for first in range(0, n_rows, step):
            rows = np.arange(first, min(first + step, n_rows))
            found = lookup.gather(lookup.take(rows), table, tied)
            if self.net is not None and tied:
                scores[first : first + len(rows)] = self.net.combine(found)
            else:
                scores[first : first + len(rows)] = found.view(len(found), *self.intercept.shape) + self.intercept
        return scores if init is None else scores.add_(init)
