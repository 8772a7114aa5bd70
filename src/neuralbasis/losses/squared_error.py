"""SquaredError: the loss of a regression."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..data.target import MIN_DEVIATION, Sample, find_deviation
from .interface import Loss


class SquaredError(Loss):
    """Half the squared error of the scaled target."""

    link = "identity"

    @classmethod
    def of(cls, sample: Sample) -> SquaredError:
        """Scaled by the mean and deviation of the target minus the given scores."""
        rest = sample.y if sample.init is None else sample.y - sample.init[:, 0]
        shift = float(np.average(rest, weights=sample.weights))
        unit = find_deviation(rest - shift, sample.weights)
        if 0 < unit < MIN_DEVIATION and np.ptp(rest) > 0:
            raise ValueError(
                f"the target's standard deviation is {unit:.1e}, and below {MIN_DEVIATION:.0e} floating-point numbers "
                "lose their digits; multiply the target by a constant"
            )
        return cls(1, shift, unit if unit >= MIN_DEVIATION else 1.0)

    def encode(self, y: np.ndarray) -> Tensor:
        return torch.from_numpy(((y - self.shift) / self.unit).astype(np.float32))

    def encode_init(self, init: np.ndarray) -> Tensor:
        return torch.from_numpy((init / self.unit).astype(np.float32))

    def first_score(self, sample: Sample) -> np.ndarray:
        return np.zeros(1)

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        return (scores[..., 0] - target[:, None]).square() / 2

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        return scores - target[:, None, None]
