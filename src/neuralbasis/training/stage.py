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
    """Tables of some terms.

    grid : how rows read the tables
    intercept : (M, K)
    values : (cells, C) all tables, None for the network's own
    net : the network, None if the tables stand alone; it mixes the tables of tied classes
    """

    grid: GridEngine
    intercept: Tensor
    values: Tensor | None = None
    net: BasisNet | None = None

    @classmethod
    def of(cls, net: BasisNet, grid: GridEngine) -> Stage:
        """The stage of a trained network."""
        return cls(grid, net.intercept.detach(), None, net)

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
        layout, table = self.grid.layout, self.table()
        cells = [layout.cells_of(index) for index, term in enumerate(layout.terms) if tuple(sorted(term)) in terms]
        return replace(self, grid=grid, values=torch.cat([table[own] for own in cells]))

    def read(self, positions: np.ndarray) -> Stage:
        """The same stage, read by rows at other positions."""
        return replace(self, grid=self.grid.read(positions))

    @torch.no_grad()
    def add_scores(self, init: Tensor | None) -> Tensor:
        """(N, M, K): given scores plus those of this stage."""
        table, lookup, n_rows = self.table(), self.grid.lookup, len(self.grid.positions)
        n_terms = len(self.grid.layout.terms) if self.tied else 1
        step = count_block_rows(n_terms * table.shape[1] + self.intercept.numel())
        scores = torch.empty(n_rows, *self.intercept.shape, device=self.grid.device)
        for first in range(0, n_rows, step):
            rows = np.arange(first, min(first + step, n_rows))
            scores[first : first + len(rows)] = self._combine(lookup.gather(lookup.take(rows), table, self.tied))
        return scores if init is None else scores.add_(init)

    def _combine(self, found: Tensor) -> Tensor:
        if self.tied:
            assert self.net is not None
            return self.net.combine(found)
        return found.view(len(found), *self.intercept.shape) + self.intercept
