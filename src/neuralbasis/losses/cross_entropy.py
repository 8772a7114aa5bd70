"""CrossEntropy: the loss of three classes or more."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..data.target import Sample
from .interface import Loss


class CrossEntropy(Loss):
    """One score per class; probabilities are their softmax."""

    link = "mlogit"

    def encode(self, y: np.ndarray) -> Tensor:
        return torch.from_numpy(y.astype(np.int64))

    def first_score(self, sample: Sample) -> np.ndarray:
        if sample.init is not None:
            return np.zeros(self.n_outputs)
        share = np.bincount(sample.y, sample.weights, minlength=self.n_outputs) / sample.weights.sum()
        score = np.log(np.maximum(share, 1e-12))
        return score - score.mean()

    def variance(self, scores: Tensor) -> Tensor:
        share = scores.softmax(dim=2)
        return share * (1 - share)

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        true = scores.gather(2, target[:, None, None].expand(-1, scores.shape[1], 1))[..., 0]
        return scores.logsumexp(dim=2) - true

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        return scores.softmax(dim=2) - functional.one_hot(target, self.n_outputs)[:, None]
