"""The published form of the model as a plain torch module: the basis network is evaluated on every cell of the table.

    h: 1 -> 256 -> 128 -> 128 -> B = 100, batch norm, ReLU        PAPER §3.2, appendix
    f_i = Σ_k a_ik h_k(x_i) + c_i        g_l = Σ_i w_il f_i + w_0l

Written from the paper; the reference that the engines of neuralbasis are timed against.
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

HIDDEN = (256, 128, 128)
N_BASES = 100


def make_basis_network() -> nn.Sequential:
    """(rows · D, 1) -> (rows · D, B); the same layers and batch norms as neuralbasis' own network of this size."""
    sizes = [1, *HIDDEN, N_BASES]
    layers: list[nn.Module] = []
    for n_in, n_out in pairwise(sizes):
        layers += [nn.Linear(n_in, n_out), nn.BatchNorm1d(n_out), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


class PaperNetwork(nn.Module):
    """Scores (b, K) of rows (b, D) scaled to [0, 1]."""

    def __init__(self, n_columns: int, n_outputs: int):
        super().__init__()
        self.basis = make_basis_network()
        self.coefficients = nn.Parameter(torch.randn(n_columns, N_BASES) / N_BASES**0.5)
        self.offsets = nn.Parameter(torch.zeros(n_columns))
        self.classes = nn.Linear(n_columns, n_outputs)

    def forward(self, rows: Tensor) -> Tensor:
        values = self.basis(rows.reshape(-1, 1)).view(*rows.shape, N_BASES)  # (b, D, B)
        shapes = torch.einsum("bdk,dk->bd", values, self.coefficients) + self.offsets
        return self.classes(shapes)


def thread_counts() -> list[int]:
    """One thread and all. On a busy machine more can be slower: the network is timed with both, the faster counts."""
    return sorted({1, torch.get_num_threads()})
