"""LinearStartBasis: a network that starts from given functions and learns what to add to them.

With many columns and few values of each, coefficients of simple functions (the value itself, whether it is present)
learn quickly; the network then bends these functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .mlp import MLPBasis


class LinearStartBasis(MLPBasis):
    """An MLPBasis whose outputs are added to `start`.

    Parameters
    ----------
    start : (P, B) values of the given functions at the points where the basis will be evaluated; a function that is
        zero there starts as the network's output
    others : see `MLPBasis`

    Examples
    --------
    >>> points = torch.linspace(0, 1, 5)[:, None]
    >>> basis = LinearStartBasis(torch.cat([points, points**2], dim=1), n_inputs=1)
    >>> bool((basis(points, torch.ones(5))[0] == torch.cat([points, points**2], dim=1)).all())
    True
    """

    start: Tensor

    def __init__(
        self, start: Tensor, n_inputs: int, hidden: Sequence[int] = (32, 32), fourier: int = 16,
        max_frequency: float = 32.0, decay: float = 2.0, generator: torch.Generator | None = None,
    ):  # fmt: skip
        super().__init__(
            n_inputs, start.shape[1], 1, hidden, fourier, max_frequency, decay, batch_norm=False, generator=generator
        )
        self.register_buffer("start", start)
        is_given = (start != 0).any(dim=0)
        self.weights[-1].data[..., is_given] = 0
        self.biases[-1].data[..., is_given] = 0

    def forward(self, points: Tensor, weight: Tensor) -> Tensor:
        return self.start + super().forward(points, weight)
