"""Basis, the interface of a family of shared basis functions, and SplineBasis, the classical fixed one.

A basis turns places into values: points (P, o) in [0, 1]^o with weights (P,) -> (Q, P, B): B functions of Q independent
copies (members × subnets) at P points.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class Basis(nn.Module):
    """Base of all bases.

    Set `separable` if all parameters and buffers have the copies as first dimension and `forward` draws no random
    numbers: members are then trained on several threads.

    Parameters
    ----------
    n_inputs : o, the order of the terms: 1 for main effects, 2 for pairs, 3 for triples
    n_bases : B, the number of functions
    n_copies : Q, independent copies evaluated at once

    Examples
    --------
    >>> class Powers(Basis):
    ...     def forward(self, points, weight):
    ...         powers = [points.prod(dim=1) ** (b + 1) for b in range(self.n_bases)]
    ...         return torch.stack(powers, dim=1).expand(self.n_copies, -1, -1)
    >>> Powers(1, 3, 2)(torch.tensor([[0.5]]), torch.ones(1))[0].tolist()
    [[0.5, 0.25, 0.125]]
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


class SplineBasis(Basis):
    """Cubic B-splines with evenly spaced knots; tensor products of shorter bases for interactions. No parameters.

    Parameters
    ----------
    n_inputs, n_bases, n_copies : see `Basis`

    Examples
    --------
    >>> basis = SplineBasis(1, 8, 2)
    >>> values = basis(torch.linspace(0, 1, 5)[:, None], torch.ones(5))
    >>> values.shape, bool(torch.allclose(values.sum(-1), torch.ones(2, 5)))
    (torch.Size([2, 5, 8]), True)
    """

    separable = True

    def __init__(self, n_inputs: int, n_bases: int, n_copies: int):
        self.per_axis = max(4, round(n_bases ** (1 / n_inputs)))
        super().__init__(n_inputs, self.per_axis**n_inputs, n_copies)

    def forward(self, points: Tensor, weight: Tensor) -> Tensor:
        values = torch.ones(len(points), 1, dtype=points.dtype, device=points.device)
        for axis in range(self.n_inputs):
            along = self._along_axis(points[:, axis])
            values = (values[:, :, None] * along[:, None, :]).flatten(1)
        return values.expand(self.n_copies, -1, -1)

    def _along_axis(self, place: Tensor) -> Tensor:
        """(P,) -> (P, per_axis): the cubic B-spline around each of the evenly spaced centres."""
        centres = torch.arange(self.per_axis, dtype=place.dtype, device=place.device) - 1
        distance = (place[:, None] * (self.per_axis - 3) - centres).abs()
        inner = 2 / 3 - distance**2 + distance**3 / 2
        outer = (2 - distance).clamp(min=0) ** 3 / 6
        return torch.where(distance < 1, inner, outer)
