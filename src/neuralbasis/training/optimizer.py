"""AdamW on one flat vector: every parameter is a view of it, and a step, an average or a snapshot is one operation.

DIFF: the kept net is an exponential average of the values, not the last ones.
torch.optim would import torch's compiler (seconds in a fresh process) and loop over tensors.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from .. import kernels
from .checkpointer import require

_MOVING = "values", "mean", "square", "average"


class FlatAdamW:
    """AdamW (decoupled weight decay) over some parameters.

    Parameters
    ----------
    parameters : they become views of `values`
    weight_decay : each step shrinks values by rate · weight_decay
    averaging : steps that `average`, the exponential mean of the values, spans
    """

    betas, epsilon = (0.9, 0.99), 1e-8

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float, averaging: float):
        self.parameters = [p for p in parameters if p.numel() and p.requires_grad]
        self.values = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self.grad, self.mean, self.square = (torch.zeros_like(self.values) for _ in range(3))
        sizes = [p.numel() for p in self.parameters]
        for p, value, grad in zip(self.parameters, self.values.split(sizes), self.grad.split(sizes), strict=True):
            p.data, p.grad = value.view_as(p), grad.view_as(p)
        self.weight_decay, self.averaging, self.steps = weight_decay, averaging, 0
        self.average = self.values.clone()

    @property
    def is_compiled(self) -> bool:
        return kernels.NUMBA and self.values.device.type == "cpu"

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps, **{name: getattr(self, name).cpu().numpy() for name in _MOVING}}

    def restore(self, state: dict[str, Any]) -> None:
        require(0 <= state["steps"] < 2**31, "the optimiser's number of steps is out of range")
        self.steps = state["steps"]
        for name in _MOVING:
            getattr(self, name).copy_(torch.from_numpy(state[name]))

    def step(self, rate: float) -> None:
        """Move along the accumulated gradients, then set them to 0."""
        self.steps += 1
        (first, second), share = self.betas, 1 / min(self.steps, self.averaging + 1)
        bias = 1 - first**self.steps, 1 - second**self.steps
        if self.is_compiled:
            arrays = (array.numpy() for array in (self.grad, self.mean, self.square, self.values, self.average))
            kernels.step_adam(*arrays, first, second, *bias, rate, rate * self.weight_decay, self.epsilon, share)
            return
        self.mean.lerp_(self.grad, 1 - first)
        self.square.mul_(second).addcmul_(self.grad, self.grad, value=1 - second)
        self.values.mul_(1 - rate * self.weight_decay)
        scale = (self.square / bias[1]).sqrt_().add_(self.epsilon)
        self.values.addcdiv_(self.mean, scale, value=-rate / bias[0])
        self.average.lerp_(self.values, share)
        self.grad.zero_()
