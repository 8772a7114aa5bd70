"""AdamW on one flat vector: every parameter is a view of it, so a step, an average or a snapshot is one operation.

DIFF: the net that is kept is an exponential average of the values, not the last ones.
torch.optim would import its compiler with the first optimiser (seconds in a fresh process) and loop over tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class FlatAdamW:
    """AdamW (decoupled weight decay) over all parameters of a module.

    Parameters
    ----------
    module : its parameters become views of `values`
    weight_decay : each step shrinks values by rate · weight_decay
    averaging : steps over which `average`, the exponential mean of the values, looks back
    """

    betas, epsilon = (0.9, 0.99), 1e-8

    def __init__(self, module: nn.Module, weight_decay: float, averaging: float):
        self.parameters = [p for p in module.parameters() if p.numel() and p.requires_grad]
        self.values = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        start = 0
        for parameter in self.parameters:
            parameter.data = self.values[start : start + parameter.numel()].view_as(parameter)
            start += parameter.numel()
        self.weight_decay, self.averaging, self.steps = weight_decay, averaging, 0
        self.mean, self.square = torch.zeros_like(self.values), torch.zeros_like(self.values)
        self.average = self.values.clone()

    def step(self, rate: float) -> None:
        """Move along the gradients that the parameters hold, then forget them."""
        self.steps += 1
        grad = torch.cat([self._take_gradient(p) for p in self.parameters])
        first, second = self.betas
        self.mean.lerp_(grad, 1 - first)
        self.square.mul_(second).addcmul_(grad, grad, value=1 - second)
        self.values.mul_(1 - rate * self.weight_decay)
        scale = (self.square / (1 - second**self.steps)).sqrt_().add_(self.epsilon)
        self.values.addcdiv_(self.mean, scale, value=-rate / (1 - first**self.steps))
        self.average.lerp_(self.values, 1 / min(self.steps, self.averaging + 1))

    @staticmethod
    def _take_gradient(parameter: nn.Parameter) -> Tensor:
        grad, parameter.grad = parameter.grad, None
        return torch.zeros_like(parameter).reshape(-1) if grad is None else grad.reshape(-1)
