"""Training of the networks of the paper's comparison, and the fitted models that predict with them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from .networks import AdditiveNetwork, make_network


@dataclass(frozen=True)
class Training:
    """Settings of training: AdamW with a cosine schedule from the learning rate to zero.

    `output_penalty` weighs the mean square of the shapes of an additive network, over rows and shapes. With validation
    rows, the state with the lowest loss among `n_checkpoints` is kept, and training ends after `patience` checkpoints
    without a lower loss; 0 trains to the end.
    """

    epochs: int
    batch_size: int = 1024
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    output_penalty: float = 0.0
    n_checkpoints: int = 50
    patience: int = 0


class Fitted:
    """A trained network; targets were scaled to mean 0 and deviation 1."""

    def __init__(self, net: nn.Module, shift: float, unit: float):
        self.net, self.shift, self.unit = net.eval(), shift, unit

    @property
    def term_features_(self) -> list[tuple[int, ...]]:
        """Columns of each term of an additive network."""
        return [tuple(map(int, term)) for terms in self.net.terms for term in terms]

    def contributions(self, X: Any) -> np.ndarray:
        """(N, T), with three classes or more (N, T, K), in the unit of the scores."""
        found = torch.cat([self.net.contributions(part) for part in split_rows(X)])
        return self.unit * (found[..., 0] if found.shape[2] == 1 else found).double().numpy()

    @torch.no_grad()
    def scores(self, X: Any) -> np.ndarray:
        """(N, K)"""
        found = torch.cat([self.net(part) for part in split_rows(X)])
        return self.shift + self.unit * found.double().numpy()


class FittedRegressor(Fitted):
    """Predicts the target."""

    def predict(self, X: Any) -> np.ndarray:
        return self.scores(X)[:, 0]


class FittedClassifier(Fitted):
    """Predicts classes; with two classes there is one score, the log odds of the second."""

    def __init__(self, net: nn.Module, classes: np.ndarray):
        super().__init__(net, 0.0, 1.0)
        self.classes_ = classes

    def predict_proba(self, X: Any) -> np.ndarray:
        scores = self.scores(X)
        if scores.shape[1] == 1:
            scores = np.hstack([np.zeros_like(scores), scores])
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]


def fit_network(
    learner: str, options: dict[str, Any], training: Training, X: Any, y: Any, task: str, seed: int,
    validation: tuple[Any, Any] | None = None,
) -> FittedRegressor | FittedClassifier:  # fmt: skip
    """Train a learner's network on a table of numbers (an array or CSR); the same seed gives the same network."""
    check_numbers(X)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if task == "regression":
            shift, unit = float(np.mean(y)), float(np.std(y)) or 1.0
            net = make_network(learner, X.shape[1], 1, **options)
            train(net, X, (np.asarray(y) - shift) / unit, training, _scale(validation, shift, unit))
            return FittedRegressor(net, shift, unit)
        classes, codes = np.unique(y, return_inverse=True)
        net = make_network(learner, X.shape[1], 1 if len(classes) == 2 else len(classes), **options)
        held = None if validation is None else (validation[0], np.searchsorted(classes, validation[1]))
        train(net, X, codes, training, held)
        return FittedClassifier(net, classes)


def _scale(validation: tuple[Any, Any] | None, shift: float, unit: float) -> tuple[Any, Any] | None:
    return None if validation is None else (validation[0], (np.asarray(validation[1]) - shift) / unit)


def check_numbers(X: Any) -> None:
    """Raise if the table has levels or missing values."""
    values = X.data if hasattr(X, "indptr") else np.asarray(X)
    if values.dtype.kind not in "fiub" or not np.isfinite(values).all():
        raise ValueError(
            "a network needs finite numbers, but the table has levels or missing values; "
            "benchmarks.datasets.paper.prepare encodes levels as numbers; fill or drop missing values"
        )


def train(net: nn.Module, X: Any, y: np.ndarray, training: Training, validation: tuple[Any, Any] | None = None) -> None:
    """Fit `net` in place; `y` are numbers, or classes as integers."""
    target = as_target(y)
    optimizer = torch.optim.AdamW(net.parameters(), training.learning_rate, weight_decay=training.weight_decay)
    n_rows, size = len(target), min(training.batch_size, len(target))
    n_steps = math.ceil(n_rows / size) * training.epochs
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, n_steps)
    stopping = None if validation is None else EarlyStopping(net, *validation, training)
    every = max(1, n_steps // training.n_checkpoints)
    for step, rows in enumerate(draw_batches(n_rows, size, training.epochs), start=1):
        net.train()
        optimizer.zero_grad()
        compute_batch_loss(net, take_rows(X, rows), target[rows], training.output_penalty).backward()
        optimizer.step()
        schedule.step()
        if stopping is not None and (step % every == 0 or step == n_steps) and stopping.check():
            break
    if stopping is not None:
        net.load_state_dict(stopping.best)
    net.eval()


class EarlyStopping:
    """Computes the validation loss and keeps the state with the lowest."""

    def __init__(self, net: nn.Module, X: Any, y: np.ndarray, training: Training):
        self.net, self.X, self.target, self.patience = net, X, as_target(y), training.patience
        self.lowest, self.waited, self.best = math.inf, 0, copy_state(net)

    @torch.no_grad()
    def check(self) -> bool:
        """Update the best state; True if training should stop."""
        self.net.eval()
        scores = torch.cat([self.net(part) for part in split_rows(self.X)])
        loss = float(compute_loss(scores, self.target))
        if loss < self.lowest:
            self.lowest, self.waited, self.best = loss, 0, copy_state(self.net)
        else:
            self.waited += 1
        return 0 < self.patience <= self.waited


def draw_batches(n_rows: int, size: int, epochs: int) -> Iterator[Tensor]:
    """Shuffled rows, every row once per epoch. Batches of an epoch differ by at most one row: a last batch of one row
    would break batch norm."""
    n_batches = math.ceil(n_rows / size)
    for _ in range(epochs):
        yield from torch.randperm(n_rows).tensor_split(n_batches)


def compute_batch_loss(net: nn.Module, rows: Tensor, target: Tensor, output_penalty: float) -> Tensor:
    """The training loss of a batch."""
    if not isinstance(net, AdditiveNetwork):
        return compute_loss(net(rows), target)
    shapes = net.shapes(rows)
    loss = compute_loss(net.combine(shapes), target)
    return loss + output_penalty * shapes.square().mean() if output_penalty else loss


def compute_loss(scores: Tensor, target: Tensor) -> Tensor:
    """Mean squared error, or cross-entropy; two classes have one score."""
    if target.dtype.is_floating_point:
        return functional.mse_loss(scores[:, 0], target)
    if scores.shape[1] == 1:
        return functional.binary_cross_entropy_with_logits(scores[:, 0], target.float())
    return functional.cross_entropy(scores, target)


def as_target(y: np.ndarray) -> Tensor:
    y = np.asarray(y)
    return torch.from_numpy(y.astype(np.float32 if y.dtype.kind == "f" else np.int64))


def take_rows(X: Any, rows: Any) -> Tensor:
    """Rows of an array or a sparse matrix as a dense tensor."""
    found = X[rows.numpy() if isinstance(rows, Tensor) else rows]
    return torch.from_numpy(np.ascontiguousarray(found.toarray() if hasattr(found, "toarray") else found, np.float32))


def split_rows(X: Any, size: int = 1024) -> Iterator[Tensor]:
    """All rows, `size` at a time."""
    for first in range(0, X.shape[0], size):
        yield take_rows(X, slice(first, first + size))


def copy_state(net: nn.Module) -> dict[str, Tensor]:
    return {name: value.clone() for name, value in net.state_dict().items()}


def thread_counts() -> list[int]:
    """Numbers of threads to time a network with: one and all. On a busy machine one can be faster."""
    return sorted({1, torch.get_num_threads()})
