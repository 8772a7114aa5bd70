"""SplineBasis: cubic B-splines with evenly spaced knots, the classical fixed basis; no parameters of its own.

For interactions it is the tensor product of shorter one-dimensional bases.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .basis import Basis


class SplineBasis(Basis):
    """
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
        pieces = self.per_axis - 3
        centres = torch.arange(self.per_axis, dtype=place.dtype, device=place.device) - 1
        distance = (place[:, None] * pieces - centres).abs()
        inner = 2 / 3 - distance**2 + distance**3 / 2
        outer = (2 - distance).clamp(min=0) ** 3 / 6
        return torch.where(distance < 1, inner, outer)
