"""Basis: the interface of a family of shared basis functions.

A basis turns places into values: points (P, o) in [0, 1]^o with weights (P,) -> (Q, P, B): B functions of Q independent
copies (members × subnets) at P points.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Basis(nn.Module):
    """Base of all bases.

    Parameters
    ----------
    n_inputs : o, the order of the terms: 1 for main effects, 2 for pairs, 3 for triples
    n_bases : B, the number of functions
    n_copies : Q, independent copies evaluated at once

    Set `separable` if all parameters and buffers have the copies as first dimension and `forward` draws no random
    numbers: members are then trained on several threads.
    """

    separable = False

    def __init__(self, n_inputs: int, n_bases: int, n_copies: int):
        super().__init__()
        self.n_inputs, self.n_bases, self.n_copies = n_inputs, n_bases, n_copies

    def forward(self, points: Tensor, weight: Tensor) -> Tensor:
        """points (P, o), weight (P,) -> (Q, P, B)."""
        raise NotImplementedError

    def count_parameters(self) -> int:
        """Parameters of one copy."""
        return sum(parameter.numel() for parameter in self.parameters()) // self.n_copies


def weighted_moments(values: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and variance (Q, 1, H) of values (Q, P, H) over points with `weight` (P,)."""
    share = weight / weight.sum()
    mean = torch.matmul(share, values).unsqueeze(1)
    return mean, torch.matmul(share, (values - mean).square()).unsqueeze(1)
