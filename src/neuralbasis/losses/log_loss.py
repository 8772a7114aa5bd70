"""LogLoss: the loss of two classes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..data.target import Sample
from .interface import Loss


class LogLoss(Loss):
    """One score, the log odds of the second class."""

    link = "logit"

    def encode(self, y: np.ndarray) -> Tensor:
        return torch.from_numpy(y.astype(np.float32))

    def first_score(self, sample: Sample) -> np.ndarray:
        if sample.init is not None:
            return np.zeros(1)
        share = np.average(sample.y, weights=sample.weights)
        return np.array([np.log(share / (1 - share))])

    def information(self, sample: Sample) -> float:
        share = np.average(sample.y, weights=sample.weights)
        return max(float(4 * share * (1 - share)), 1e-6)  # rows of an update may all have one class

    def variance(self, scores: Tensor) -> Tensor:
        share = scores.sigmoid()
        return share * (1 - share)

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        return functional.softplus(scores[..., 0]) - target[:, None] * scores[..., 0]

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        return scores.sigmoid() - target[:, None, None]
