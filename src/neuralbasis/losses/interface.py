"""Loss: the interface of what training minimises.

In: targets and scores (b, M, K). Out: a loss for every row and member (b, M), its slopes (b, M, K), and the score of
the best constant model. A regression's target is scaled to mean 0 and deviation 1; `shift` and `unit` undo that when
tables are compiled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..data.target import Sample


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
