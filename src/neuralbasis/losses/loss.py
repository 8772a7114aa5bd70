"""The choice of a loss, and a bound of its curvature. `Loss` is defined in `interface`, which all families import."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from ..data.target import Sample
from .cross_entropy import CrossEntropy
from .interface import Loss
from .log_loss import LogLoss
from .squared_error import SquaredError

__all__ = ["Loss", "bound_curvature", "choose_loss"]


def choose_loss(sample: Sample, classes: np.ndarray | None) -> Loss:
    """Squared error without classes, log loss for two, cross-entropy for more."""
    if classes is None:
        return SquaredError.of(sample)
    return LogLoss() if len(classes) == 2 else CrossEntropy(len(classes))


def bound_curvature(variance: Tensor) -> Tensor:
    """Upper bound of the log loss's curvature at a score s: tanh(s / 2) / 2s.

    It is the smallest curvature of a parabola that touches the loss at s and lies nowhere below it (Jaakkola and
    Jordan, 2000).

    variance : p (1 - p) at the score

    >>> import torch
    >>> bound_curvature(torch.tensor([0.25, 0.1]))
    tensor([0.2500, 0.1877])
    """
    root = (1 - 4 * variance.double()).clamp(min=1e-12).sqrt()  # tanh(s / 2)
    return (root / (4 * root.clamp(max=1 - 1e-12).atanh())).to(variance)
