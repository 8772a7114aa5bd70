"""Losses: squared error, log loss of two classes, cross-entropy of more.

In: targets and scores (b, M, K). Out: a loss for every row and member (b, M), its slopes (b, M, K), and the score of
the best constant model. A regression's target is scaled to mean 0 and deviation 1; `shift` and `unit` undo that when
tables are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ..data.target import MIN_DEVIATION, Sample, find_deviation


@dataclass(frozen=True)
class Loss:
    """A loss with its link. Subclasses define `loss`, `encode` and `first_score`."""

    n_outputs: int = 1
    shift: float = 0.0
    unit: float = 1.0
    link = "identity"

    def encode(self, y: np.ndarray) -> Tensor:
        """Targets as the loss reads them."""
        raise NotImplementedError

    def encode_init(self, init: np.ndarray) -> Tensor:
        """Given scores (N, K) in the unit of the loss."""
        return torch.from_numpy((init / self.unit).astype(np.float32))

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
        """Fisher information of a row about its score, as a share of the largest possible."""
        return 1.0

    def variance(self, scores: Tensor) -> Tensor | None:
        """Variance (b, M, K) of the slope under these scores, up to a factor; None if it is the same in all rows."""
        return None

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        """(b, M, K), (b,) -> (b, M)"""
        raise NotImplementedError

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        """Derivative of the loss with respect to the scores, (b, M, K)."""
        scores = scores.detach().requires_grad_()
        return torch.autograd.grad(self.loss(scores, target).sum(), scores)[0]


class SquaredError(Loss):
    """Half the squared error of the scaled target."""

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

    def first_score(self, sample: Sample) -> np.ndarray:
        return np.zeros(1)

    def loss(self, scores: Tensor, target: Tensor) -> Tensor:
        return (scores[..., 0] - target[:, None]).square() / 2

    def slope(self, scores: Tensor, target: Tensor) -> Tensor:
        return scores - target[:, None, None]


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


def choose_loss(sample: Sample, classes: np.ndarray | None) -> Loss:
    """Squared error without classes, log loss for two, cross-entropy for more."""
    if classes is None:
        return SquaredError.of(sample)
    return LogLoss() if len(classes) == 2 else CrossEntropy(len(classes))


def bound_curvature(variance: Tensor) -> Tensor:
    """Upper bound of the log loss's curvature at a score s, tanh(s / 2) / 2s, from the variance p (1 - p) there.

    It is the smallest curvature of a parabola that touches the loss at s and lies nowhere below it (Jaakkola and
    Jordan, 2000).

    >>> bound_curvature(torch.tensor([0.25, 0.1]))
    tensor([0.2500, 0.1877])
    """
    root = (1 - 4 * variance.double()).clamp(min=1e-12).sqrt()  # tanh(s / 2)
    return (root / (4 * root.clamp(max=1 - 1e-12).atanh())).to(variance)
