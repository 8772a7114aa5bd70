"""Objectives: what training minimises. y and scores in, a loss for every row and member out; and the first intercept.

Scores are (b, M, K). A regression's target is brought to mean 0 and deviation 1; `unit` undoes that when the tables
are compiled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..data.target import MIN_DEVIATION, Sample, find_deviation


@dataclass(frozen=True)
class Loss:
    """A loss with its link. Subclasses say `loss`, `encode` and `first_score`."""

    n_outputs: int = 1
    shift: float = 0.0
    unit: float = 1.0
    link = "identity"

    def encode(self, y: np.ndarray) -> Tensor:
        """Targets as the loss reads them."""
        raise NotImplementedError

    def encode_init(self, init: np.ndarray) -> Tensor:
        """Given scores (N, K) in the unit of the loss."""
        return torch.from_numpy(init.astype(np.float32))

    def first_score(self, sample: Sample) -> np.ndarray:
        """(K,) score of the best constant model; 0 where scores are given."""
        raise NotImplementedError

    def first_slope(self, sample: Sample) -> np.ndarray:
        """(N, K) derivative of the loss at the best constant model, or at the given scores."""
        scores = np.broadcast_to(self.first_score(sample), (len(sample.y), self.n_outputs))
        start = torch.from_numpy(scores.astype(np.float32))
        if sample.init is not None:
            start = start + self.encode_init(sample.init)
        return self.slope(start[:, None], self.encode(sample.y))[:, 0].double().numpy()

    def information(self, sample: Sample) -> float:
        """What a row tells about a score, as a share of what it could tell at best."""
        return 1.0

    def variance(self, scores: Tensor) -> Tensor | None:
        """Variance (b, M, K) of the slope that these scores expect, up to a factor; None: alike in all rows."""
        return None

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        """(b, M, K), (b,) -> (b, M)"""
        raise NotImplementedError

    def surprise(self, loss: float, n_rows: float) -> float:
        """-log likelihood of so many rows, whose mean loss is given, up to a constant."""
        return n_rows * loss

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        """Derivative of the loss with respect to the scores, (b, M, K)."""
        scores = scores.detach().requires_grad_()
        return torch.autograd.grad(self.loss(scores, target).sum(), scores)[0]


class SquaredError(Loss):
    """Half the squared error of the target in its own unit."""

    link = "identity"

    @classmethod
    def of(cls, sample: Sample) -> SquaredError:
        """Mean and deviation of what the given scores leave of the target."""
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

    def surprise(self, loss: float, n_rows: float) -> float:
        """Of normal errors, whose deviation is what the loss says."""
        return n_rows / 2 * math.log(max(loss, 1e-12))

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        return scores - target[:, None, None]


class LogLoss(Loss):
    """Two classes: one score, the log odds of the second."""

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
        return max(float(4 * share * (1 - share)), 1e-6)  # the variance of the label; an update may see one class alone

    def variance(self, scores: Tensor) -> Tensor:
        share = scores.sigmoid()
        return share * (1 - share)

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        return functional.softplus(scores[..., 0]) - target[:, None] * scores[..., 0]

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        return scores.sigmoid() - target[:, None, None]


class CrossEntropy(Loss):
    """Three classes or more: a score for each."""

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


def bound_curvature(variance: Tensor) -> Tensor:
    """Of the log loss at a score s, whose variance p (1 - p) is given: tanh(s / 2) / 2s, the least curvature of a
    parabola that touches the loss there and is nowhere below it (Jaakkola and Jordan, 2000).

    >>> bound_curvature(torch.tensor([0.25, 0.1]))
    tensor([0.2500, 0.1877])
    """
    root = (1 - 4 * variance.double()).clamp(min=1e-12).sqrt()  # tanh(s / 2)
    return (root / (4 * root.clamp(max=1 - 1e-12).atanh())).to(variance)


def choose_loss(sample: Sample, classes: np.ndarray | None) -> Loss:
    """Squared error without classes, log loss for two, cross-entropy for more."""
    if classes is None:
        return SquaredError.of(sample)
    return LogLoss() if len(classes) == 2 else CrossEntropy(len(classes))
