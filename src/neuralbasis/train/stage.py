"""Stage: terms that were trained together: a net and the grid it is read on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..net import BasisNet
from .points import GridEngine


@dataclass(frozen=True, eq=False)
class Stage:
    """A trained net with its grid, and the free part beside the bases (cells, C) if there is one."""

    net: BasisNet
    grid: GridEngine
    rest: Tensor | None = None

    @torch.no_grad()
    def table(self) -> Tensor:
        """All cells of all terms, (cells, C)."""
        table = self.net.eval().table(self.grid.points)
        return table if self.rest is None else table + self.rest

    @torch.no_grad()
    def add_scores(self, init: Tensor | None) -> Tensor:
        """(N, M, K): what was given before plus the scores of this stage."""
        table, lookup = self.table(), self.grid.lookup
        n_rows = len(self.grid.positions)
        scores = torch.empty(n_rows, self.net.n_members, self.net.n_outputs, device=self.grid.device)
        for first in range(0, n_rows, 65536):
            rows = np.arange(first, min(first + 65536, n_rows))
            scores[first : first + len(rows)] = self.net.combine(lookup.gather(lookup.take(rows), table, self.net.tied))
        return scores if init is None else scores + init
