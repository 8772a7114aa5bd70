"""Stage: terms that were trained together: a net, the grid it is read on, and what stands beside the net."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..networks.basis_net import BasisNet
from .engines import GridEngine


@dataclass(frozen=True, eq=False)
class Stage:
    """A trained net with its grid; its share in the tables, and the free part (cells, C) beside it if there is one."""

    net: BasisNet
    grid: GridEngine
    rest: Tensor | None = None
    share: float = 1.0

    @torch.no_grad()
    def table(self) -> Tensor:
        """All cells of all terms, (cells, C)."""
        table = self.share * self.net.eval().table(self.grid.points)
        return table if self.rest is None else table + self.rest

    def add_part(self, tables: np.ndarray) -> Stage:
        """The stage with these tables (M, K, cells) in its free part."""
        part = torch.from_numpy(tables.reshape(-1, tables.shape[-1]).T.astype(np.float32)).to(self.grid.device)
        return replace(self, rest=part if self.rest is None else self.rest + part)

    def mix(self, share: float, tables: np.ndarray) -> Stage:
        """So much of the stage, and of these tables (M, K, cells) what is left to 1."""
        rest = None if self.rest is None else share * self.rest
        return replace(self, share=share * self.share, rest=rest).add_part((1 - share) * tables)

    def move(self, grid: GridEngine) -> Stage:
        """The same main effects on a grid with other knots."""
        if self.rest is None:
            return replace(self, grid=grid)
        old, new, rest = self.grid.layout, grid.layout, self.rest.cpu().numpy()
        moved = np.empty((new.n_cells, rest.shape[1]), dtype=np.float32)
        for index in range(len(new.terms)):
            (before,), (axis,) = old.axes_of(index), new.axes_of(index)
            moved[new.cells_of(index)] = before.carry(rest[old.cells_of(index)], axis)
        return replace(self, grid=grid, rest=torch.from_numpy(moved).to(grid.device))

    def read(self, positions: np.ndarray) -> Stage:
        """The same stage, read by rows at other positions."""
        return replace(self, grid=self.grid.read(positions))

    @torch.no_grad()
    def add_scores(self, init: Tensor | None) -> Tensor:
        """(N, M, K): what was given before plus the scores of this stage."""
        table, lookup = self.table(), self.grid.lookup
        n_rows, step = len(self.grid.positions), self.net.block_rows
        scores = torch.empty(n_rows, self.net.n_members, self.net.n_outputs, device=self.grid.device)
        for first in range(0, n_rows, step):
            rows = np.arange(first, min(first + step, n_rows))
            scores[first : first + len(rows)] = self.net.combine(lookup.gather(lookup.take(rows), table, self.net.tied))
        return scores if init is None else scores.add_(init)
