"""A linear layer with softmax, trained by Adam without a penalty on a sparse matrix.

It stops early by its loss on a held-out eighth of the rows. With `validate=False` it trains on all rows for all epochs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import softmax
from sklearn.model_selection import train_test_split
from torch.nn.functional import cross_entropy, embedding_bag

BATCH, RATE, PATIENCE = 512, 0.03, 5


@dataclass(frozen=True, eq=False)
class Softmax:
    """Weights (D, K) and intercepts (K,) of the classes."""

    weights: np.ndarray
    intercepts: np.ndarray
    classes_: np.ndarray

    def predict_proba(self, X: Any) -> np.ndarray:
        return softmax(X @ self.weights + self.intercepts, axis=1)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[(X @ self.weights + self.intercepts).argmax(axis=1)]


class Layer:
    """Weights during training."""

    def __init__(self, n_columns: int, n_classes: int):
        self.weights = torch.zeros(n_columns, n_classes, requires_grad=True)
        self.intercepts = torch.zeros(n_classes, requires_grad=True)
        self.optimizer = torch.optim.Adam([self.weights, self.intercepts], RATE)

    def loss(self, X: Any, y: np.ndarray) -> torch.Tensor:
        index, starts = torch.from_numpy(X.indices).long(), torch.from_numpy(X.indptr).long()
        values = torch.from_numpy(X.data.astype(np.float32))
        scores = embedding_bag(
            index, self.weights, starts, mode="sum", per_sample_weights=values, include_last_offset=True
        )
        return cross_entropy(scores + self.intercepts, torch.from_numpy(y))

    def train(self, X: Any, y: np.ndarray, rows: np.ndarray) -> None:
        """One pass over the rows in this order."""
        for first in range(0, len(rows), BATCH):
            batch = np.sort(rows[first : first + BATCH])
            self.optimizer.zero_grad()
            self.loss(X[batch], y[batch]).backward()
            self.optimizer.step()

    def read(self, classes: np.ndarray) -> Softmax:
        return Softmax(self.weights.detach().numpy().copy(), self.intercepts.detach().numpy().copy(), classes)


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False, max_epochs: int = 300, validate: bool = True) -> Any:
    rng, (classes, target) = np.random.default_rng(seed), np.unique(y, return_inverse=True)
    layer, rows, held = Layer(X.shape[1], len(classes)), np.arange(len(target)), np.arange(0)
    if validate:
        rows, held = train_test_split(rows, test_size=0.125, random_state=seed, stratify=target)
    best, epoch_of_best, model = np.inf, 0, layer.read(classes)
    for epoch in range(2 if quick else max_epochs):
        layer.train(X, target, rng.permutation(rows))
        with torch.no_grad():
            loss = (
                float(layer.loss(X[held], target[held])) if validate else -epoch
            )  # without validation the last epoch is kept
        if loss < best:
            best, epoch_of_best, model = loss, epoch, layer.read(classes)
        elif epoch - epoch_of_best >= PATIENCE:
            break
    return model
