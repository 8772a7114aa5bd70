"""MLPBasis: the paper's basis network, one small multi-layer perceptron with B outputs shared by all terms.

    h = (h_1 … h_B):  [0, 1]^o -> R^B        PAPER §3.2: hidden 256-128-128, batch norm, ReLU, dropout

Members and subnets are copies with their own weights, evaluated by batched matrix products. LinearStartBasis adds what
the network learns to given functions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from .basis import Basis


class MLPBasis(Basis):
    """The paper's network on places, with optional Fourier inputs.

    Parameters
    ----------
    n_inputs, n_bases, n_copies : see `Basis`
    hidden : units of the hidden layers
    fourier : number of random frequencies in front of the network, 0 for the paper's form
    max_frequency : highest frequency, in periods over the whole axis
    decay : a frequency f enters with amplitude (1 + f)^-decay
    batch_norm : normalise hidden units and outputs over the weighted points
    relu_bases : whether outputs end with a ReLU
    dropout : share of hidden units dropped in training. DIFF: for a point, hence for all rows that share it in a batch
    generator : source of the initial weights

    Examples
    --------
    >>> basis = MLPBasis(1, 100, 1, hidden=(256, 128, 128), fourier=0)
    >>> basis.count_parameters()  # 62,820 weights (paper §3.3), 1,024 + 200 of batch norm
    64044
    >>> basis(torch.rand(5, 1), torch.ones(5)).shape
    torch.Size([1, 5, 100])
    """

    separable = True
    frequency: Tensor
    phase: Tensor
    amplitude: Tensor

    def __init__(
        self,
        n_inputs: int,
        n_bases: int,
        n_copies: int,
        hidden: Sequence[int] = (64, 64, 32),
        fourier: int = 16,
        max_frequency: float = 32.0,
        decay: float = 2.0,
        batch_norm: bool = True,
        dropout: float = 0.0,
        generator: torch.Generator | None = None,
        relu_bases: bool = False,
    ):
        super().__init__(n_inputs, n_bases, n_copies)
        self.dropout, self.relu_bases = dropout, relu_bases
        self._last_inputs: tuple[Tensor | None, Tensor] = (None, torch.empty(0))
        self._draw_frequencies(fourier, max_frequency, decay, generator)
        sizes = [n_inputs + 2 * fourier, *hidden, n_bases]
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for fan_in, fan_out in pairwise(sizes):
            bound = 1 / math.sqrt(fan_in)
            draw = torch.rand(n_copies, fan_in + 1, fan_out, generator=generator) * 2 * bound - bound
            self.weights.append(nn.Parameter(draw[:, :-1].contiguous()))
            self.biases.append(nn.Parameter(draw[:, -1:].contiguous()))
        norms = sizes[1:] if batch_norm else []
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(n_copies, 1, size)) for size in norms)
        self.shifts = nn.ParameterList(nn.Parameter(torch.zeros(n_copies, 1, size)) for size in norms)

    def _draw_frequencies(self, count: int, highest: float, decay: float, generator: torch.Generator | None) -> None:
        """Fixed log-spaced frequencies, jittered, in random directions, with random phases, for each copy."""
        steps = torch.arange(count) + torch.rand(self.n_copies, 1, count, generator=generator) - 0.5
        frequency = (0.25 * (highest / 0.25) ** (steps / max(count - 1, 1))).clamp(max=highest)
        direction = torch.randn(self.n_copies, self.n_inputs, count, generator=generator)
        direction = direction / direction.norm(dim=1, keepdim=True)
        self.register_buffer("frequency", 2 * math.pi * frequency * direction)
        self.register_buffer("phase", 2 * math.pi * torch.rand(self.n_copies, 1, count, generator=generator))
        self.register_buffer("amplitude", (1 + frequency) ** -decay)

    def forward(self, points: Tensor, weight: Tensor) -> Tensor:
        values = self._inputs(points)
        last = len(self.weights) - 1
        for layer, (matrix, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            values = torch.baddbmm(bias, values, matrix)
            if len(self.gains):
                values = self._normalise(values, weight, layer)
            if layer < last:
                values = functional.relu(values)
                if self.dropout:  # torch copies the values even at dropout 0
                    values = functional.dropout(values, self.dropout, self.training)
        return functional.relu(values) if self.relu_bases else values

    def _inputs(self, points: Tensor) -> Tensor:
        """(P, o) -> (Q, P, o + 2F); cached, since the points of a grid never change."""
        known, inputs = self._last_inputs
        if known is points:
            return inputs
        plain = (2 * points - 1).expand(self.n_copies, -1, -1)
        angle = torch.matmul(points, self.frequency) + self.phase
        inputs = torch.cat([plain, self.amplitude * angle.sin(), self.amplitude * angle.cos()], dim=-1)
        self._last_inputs = points, inputs
        return inputs

    def _normalise(self, values: Tensor, weight: Tensor, layer: int) -> Tensor:
        """Batch norm of values (Q, P, H) over points weighted by their rows.

        DIFF: no running averages. The weights of the training rows are known, so the moments are exact during and after
        training.
        """
        share = weight / weight.sum()
        mean = torch.matmul(share, values).unsqueeze(1)
        variance = torch.matmul(share, (values - mean).square()).unsqueeze(1)
        scale = torch.rsqrt(variance + 1e-5) * self.gains[layer]
        return torch.addcmul(self.shifts[layer] - mean * scale, values, scale)


class LinearStartBasis(MLPBasis):
    """An MLPBasis, one copy, whose outputs are added to given functions.

    With many columns and few values of each, coefficients of simple functions (the value itself, whether it is present)
    learn quickly; the network then bends these functions.

    Parameters
    ----------
    start : (P, B) values of the given functions at the points where the basis will be evaluated; a function that is
        zero there starts as the network's output
    n_inputs, max_frequency, generator : see `MLPBasis`

    Examples
    --------
    >>> points = torch.linspace(0, 1, 5)[:, None]
    >>> basis = LinearStartBasis(torch.cat([points, points**2], dim=1), n_inputs=1)
    >>> bool((basis(points, torch.ones(5))[0] == torch.cat([points, points**2], dim=1)).all())
    True
    """

    start: Tensor

    def __init__(
        self, start: Tensor, n_inputs: int, max_frequency: float = 32.0, generator: torch.Generator | None = None
    ):
        size = start.shape[1]
        super().__init__(n_inputs, size, 1, (32, 32), 16, max_frequency, 2.0, batch_norm=False, generator=generator)
        self.register_buffer("start", start)
        is_given = (start != 0).any(dim=0)
        self.weights[-1].data[..., is_given] = 0
        self.biases[-1].data[..., is_given] = 0

    def forward(self, points: Tensor, weight: Tensor) -> Tensor:
        return self.start + super().forward(points, weight)
