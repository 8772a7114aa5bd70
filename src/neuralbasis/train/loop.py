"""The training loop: epochs of shuffled batches, AdamW with a cosine schedule, early stopping, the best state kept.

All members are trained at once on the same batches; each holds out rows of its own for validation, which weigh nothing
in its loss. `train` changes the net, and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..history import History
from ..net import BasisNet
from ..objective import Objective
from .optimizer import FlatAdamW
from .penalty import Penalty
from .points import ExactEngine, GridEngine
from .rows import Rows


@dataclass(frozen=True)
class Settings:
    """How to train. Steps and rounds count batches and checkpoints; see the estimators for what users set."""

    learning_rate: float = 1e-2
    weight_decay: float = 1e-5
    batch_size: int = 1024
    max_steps: int = 1000
    n_checkpoints: int = 25
    early_stopping_rounds: int = 8
    early_stopping_tolerance: float = 0.0
    smoothness: float = 3.0
    output_penalty: float = 0.0
    averaging: float = 0.05
    time_limit: float | None = None
    verbose: bool = False
    callbacks: Sequence[Callable] = ()


def train(
    net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, rows: Rows, objective: Objective,
    settings: Settings, rng: np.random.Generator,
) -> History:  # fmt: skip
    """Fit `net` in place; returns the history of its validation loss."""
    optimizer = FlatAdamW(net, settings.weight_decay, settings.averaging * settings.max_steps)
    # Where one class is rare, a row tells little about the shapes: strong shapes are let free later.
    strength = settings.smoothness / math.sqrt(rows.information)
    penalty = Penalty(grid, rows.n_effective, strength, settings.output_penalty)
    shares = rows.shares()
    watch = _Watch(net, grid, rows, objective, settings, optimizer)
    net.train()
    with _progress(settings) as bar:
        for step, batch in enumerate(_batches(rows.copies, settings.batch_size, settings.max_steps, rng)):
            if step % 10 == 0:
                with torch.no_grad():
                    penalty.refresh(net.table(grid.points), watch.noise)
            compute_gradients(net, engine, batch, rows, shares, objective, penalty)
            optimizer.step(settings.learning_rate * _schedule((step + 1) / settings.max_steps))
            bar.update()
            if watch.is_due(step) and watch.look(step, bar):
                break
    watch.restore_best()
    return watch.history


def compute_gradients(
    net: BasisNet, engine: GridEngine | ExactEngine, batch: np.ndarray, rows: Rows, shares: Tensor,
    objective: Objective, penalty: Penalty,
) -> None:  # fmt: skip
    """One batch: the table forward, the rows' gradient as a histogram over its cells, and back through the net."""
    points, lookup, index = engine.batch(batch)
    table = net.table(points)
    values = table.detach()
    where = torch.from_numpy(batch).to(values.device)
    target, init = rows.take(where)
    scores = _member_scores(net, lookup.scores(index, values), init)
    slope = objective.slope(scores, target) * (shares[where] / len(batch))[..., None]
    grad = lookup.gradient(index, slope.flatten(1), len(values))
    if isinstance(engine, GridEngine):
        penalty.add_gradient(values, grad)
    else:
        times = lookup.gradient(index, slope.new_ones(len(batch), 1), len(values))
        penalty.add_exact_gradient(values, grad, times / len(batch))
    table.backward(grad)
    net.intercept.grad = slope.sum(0)


def _member_scores(net: BasisNet, flat: Tensor, init: Tensor | None) -> Tensor:
    scores = flat.view(len(flat), net.n_members, net.n_outputs) + net.intercept.detach()
    return scores if init is None else scores + init[:, None, :]


def _batches(copies: np.ndarray, size: int, n_steps: int, rng: np.random.Generator) -> Iterator[np.ndarray]:
    """Shuffled rows, every row as often as it has copies before a new epoch; batches may span two epochs."""
    epoch = np.repeat(np.arange(len(copies)), copies)
    size = min(size, len(epoch))
    waiting = rng.permutation(epoch)
    for _ in range(n_steps):
        if len(waiting) < size:
            waiting = np.concatenate([waiting, rng.permutation(epoch)])
        batch, waiting = waiting[:size], waiting[size:]
        yield batch


def _schedule(progress: float) -> float:
    """5 % linear warm-up, then a cosine to zero."""
    return min(1.0, progress / 0.05) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


class _Watch:
    """Looks at the validation loss at checkpoints, keeps the best state, decides when to stop."""

    def __init__(
        self, net: BasisNet, grid: GridEngine, rows: Rows, objective: Objective, settings: Settings,
        optimizer: FlatAdamW,
    ):  # fmt: skip
        self.net, self.grid, self.rows, self.objective, self.settings = net, grid, rows, objective, settings
        self.optimizer = optimizer
        self.history, self.started = History(), time.monotonic()
        self.every = max(1, settings.max_steps // settings.n_checkpoints)
        self.held = np.flatnonzero(rows.held_out.any(dim=1).cpu().numpy())
        self.best_loss, self.best_values = math.inf, optimizer.average.clone()
        self.noise = 1.0
        with torch.no_grad():
            self.constant_loss = self.validation_loss() if len(self.held) else 1.0

    def is_due(self, step: int) -> bool:
        last = step + 1 == self.settings.max_steps
        late = self.settings.time_limit is not None and self._elapsed() > self.settings.time_limit
        return last or late or (step + 1) % self.every == 0

    def look(self, step: int, bar: tqdm) -> bool:
        """Score the averaged values; True when training should stop."""
        loss = self._score_average()
        history = self.history
        history.steps.append(step + 1)
        history.validation.append(loss)
        history.seconds.append(self._elapsed())
        if not len(self.held) or loss < self.best_loss - self.settings.early_stopping_tolerance:
            self.best_loss, history.best = loss, len(history.steps) - 1
            self.best_values = self.optimizer.average.clone()
        self.noise = min(1.0, max(1e-3, loss / self.constant_loss)) if self.constant_loss > 0 else 1.0
        bar.set_postfix(loss=f"{loss:.4f}")
        return self._should_stop()

    def _should_stop(self) -> bool:
        history = self.history
        if any(callback(history) for callback in self.settings.callbacks):
            history.stopped_by = "callback"
        elif self.settings.time_limit is not None and self._elapsed() > self.settings.time_limit:
            history.stopped_by = "time_limit"
        elif len(self.held) and len(history.steps) - 1 - history.best >= self.settings.early_stopping_rounds > 0:
            history.stopped_by = "early_stopping"
        return history.stopped_by != "schedule"

    @torch.no_grad()
    def _score_average(self) -> float:
        """Validation loss of the averaged values."""
        if not len(self.held):
            return math.nan
        values = self.optimizer.values
        present = values.clone()
        values.copy_(self.optimizer.average)
        loss = self.validation_loss()
        values.copy_(present)
        self.net.train()
        return loss

    def validation_loss(self) -> float:
        """Mean over members of the weighted loss on each one's held-out rows."""
        self.net.eval()
        table = self.net.table(self.grid.points)
        total = weight = torch.zeros(self.net.n_members, device=self.grid.device)
        for first in range(0, len(self.held), 65536):
            index = self.held[first : first + 65536]
            where = torch.from_numpy(index).to(self.grid.device)
            target, init = self.rows.take(where)
            scores = _member_scores(self.net, self.grid.lookup.scores(index, table), init)
            losses = self.objective.loss(scores, target)
            mask = self.rows.held_out[where] * self.rows.weights[where][:, None]
            total = total + (losses * mask).sum(0)
            weight = weight + mask.sum(0)
        return float((total / weight).mean())

    def restore_best(self) -> None:
        """Give the net the best averaged values."""
        self.optimizer.values.copy_(self.best_values)
        self.net.eval()

    def _elapsed(self) -> float:
        return time.monotonic() - self.started


def _progress(settings: Settings) -> tqdm:
    return tqdm(total=settings.max_steps, desc="fit", unit="step", disable=not settings.verbose, leave=True)


@contextmanager
def training_threads() -> Iterator[None]:
    """torch on one thread: its spinning workers fight with the kernels' threads, and the nets are small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
