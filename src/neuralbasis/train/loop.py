"""The training loop: epochs of shuffled batches, AdamW with a cosine schedule, early stopping, the best state kept.

All members are trained at once on the same batches; each holds out rows of its own for validation, which weigh nothing
in its loss. `train` changes the net, and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from tqdm.auto import tqdm

from ..history import History
from ..net import BasisNet
from ..objective import Objective
from .optimizer import FlatAdamW
from .penalty import CURVATURE, Penalty, Smoothness
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
    early_stopping_tolerance: float | None = 0.0
    smoothness: Smoothness = field(default_factory=lambda: {1: (3.0, 3.0), 2: (3.0, 3.0), 3: (3.0, 3.0)})
    output_penalty: float = 0.0
    averaging: float = 0.05
    time_limit: float | None = None
    verbose: bool = False
    callbacks: Sequence[Callable] = ()
    stage: str = "main effects"


def train(
    net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, rows: Rows, objective: Objective,
    settings: Settings, history: History, rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Fit `net` in place and write on in the history; False if a stage after the first gains nothing."""
    optimizer = FlatAdamW(net, settings.weight_decay, settings.averaging * settings.max_steps)
    # Where one class is rare, a row tells little about the shapes: strong shapes are let free later.
    release = 1 / math.sqrt(rows.information)
    smoothness = {
        kind: (strength, floor) if kind == CURVATURE else (release * strength, release * floor)
        for kind, (strength, floor) in settings.smoothness.items()
    }
    penalty = Penalty(grid, rows.n_effective, smoothness, settings.output_penalty)
    shares = rows.shares()
    watch = _Watch(net, grid, rows, objective, settings, optimizer, history)
    net.train()
    with _progress(settings) as bar:
        for step, batch in enumerate(_batches(rows.copies, settings.batch_size, settings.max_steps, rng)):
            if step % 10 == 0:
                with torch.no_grad():
                    penalty.refresh(net.table(grid.points), watch.noise, step / settings.max_steps)
            compute_gradients(net, engine, batch, rows, shares, objective, penalty)
            optimizer.step(settings.learning_rate * _schedule((step + 1) / settings.max_steps))
            bar.update()
            if watch.is_due(step) and watch.look(step, bar):
                break
    watch.restore_best()
    return watch.improved


def compute_gradients(
    net: BasisNet, engine: GridEngine | ExactEngine, batch: np.ndarray, rows: Rows, shares: Tensor,
    objective: Objective, penalty: Penalty,
) -> None:  # fmt: skip
    """One batch: the table forward, the rows' gradient as a histogram over its cells, and back through the net."""
    points, lookup, index = engine.batch(batch)
    table = net.table(points)
    values, taken = table.detach(), lookup.take(index)
    where = torch.from_numpy(batch).to(values.device)
    target, init = rows.take(where)
    parts = lookup.gather(taken, values, net.tied).requires_grad_()
    scores = net.combine(parts)
    given = scores.detach() if init is None else scores.detach() + init
    scores.backward(objective.slope(given, target) * (shares[where] / len(batch))[..., None])
    assert parts.grad is not None
    grad = lookup.scatter(taken, parts.grad, len(values))
    if isinstance(engine, GridEngine):
        penalty.add_gradient(values, grad)
    else:
        times = lookup.scatter(taken, values.new_ones(len(batch), 1, 1), len(values))
        penalty.add_exact_gradient(values, grad, times / len(batch))
    table.backward(grad)


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
    """Looks at the validation loss at checkpoints, keeps the best state, decides when to stop.

    A stage after the first is worth keeping only if it is better than none: it begins with its untrained state as the
    best, and what it gains in the end must exceed the standard error of the gain.
    """

    def __init__(
        self, net: BasisNet, grid: GridEngine, rows: Rows, objective: Objective, settings: Settings,
        optimizer: FlatAdamW, history: History,
    ):  # fmt: skip
        self.net, self.grid, self.rows, self.objective, self.settings = net, grid, rows, objective, settings
        self.optimizer, self.history = optimizer, history
        self.before, self.best_before = len(history.steps), history.best
        self.seen = 0  # steps of this stage at the last checkpoint
        self.every = max(1, settings.max_steps // settings.n_checkpoints)
        self.held = np.flatnonzero(rows.held_out.any(dim=1).cpu().numpy())
        self.lowest, self.best_values = math.inf, optimizer.average.clone()
        self.losses_before = self.lowest_losses = self.best_losses = torch.empty(0)
        self.noise, history.stopped_by = 1.0, "schedule"
        if len(self.held):
            self._look_before()

    @torch.no_grad()
    def _look_before(self) -> None:
        self.losses_before = self.lowest_losses = self.best_losses = self.validation_losses()
        loss = float(self.losses_before.sum())
        if self.before:
            self.lowest = loss
        else:
            self.history.constant = loss
        self._estimate_noise(loss)

    @property
    def improved(self) -> bool:
        """Is the best state surely better than the untrained one?"""
        if not len(self.held) or not self.before:
            return True
        gain = self.losses_before - self.best_losses
        return float(gain.sum()) > standard_error(gain)

    def _estimate_noise(self, loss: float) -> None:
        constant = self.history.constant
        self.noise = min(1.0, max(1e-3, loss / constant)) if constant > 0 else 1.0

    def is_due(self, step: int) -> bool:
        last = step + 1 == self.settings.max_steps
        return last or self._is_late() or (step + 1) % self.every == 0

    def look(self, step: int, bar: tqdm) -> bool:
        """Score the averaged values; True when training should stop."""
        losses = self._score_average()
        loss = float(losses.sum()) if len(losses) else math.nan
        keep = not len(self.held) or self._is_kept(loss, losses)
        self.history.add(self.settings.stage, step + 1 - self.seen, loss, keep)
        self.seen = step + 1
        if keep:
            self.best_values, self.best_losses = self.optimizer.average.clone(), losses
        self._estimate_noise(loss)
        bar.set_postfix(loss=f"{loss:.4f}")
        return self._should_stop()

    def _is_kept(self, loss: float, losses: Tensor) -> bool:
        """Is this state better than all before it, by the tolerance? Without one: is none of them surely better?

        The lowest of many noisy losses is often an early one by chance, and another chance for every seed.
        """
        tolerance = self.settings.early_stopping_tolerance
        is_lowest = loss < self.lowest - (tolerance or 0.0)
        if is_lowest:
            self.lowest, self.lowest_losses = loss, losses
        return is_lowest or (tolerance is None and loss - self.lowest <= standard_error(losses - self.lowest_losses))

    def _should_stop(self) -> bool:
        history = self.history
        waited = len(history.steps) - max(history.best + 1, self.before)
        if any(callback(history) for callback in self.settings.callbacks):
            history.stopped_by = "callback"
        elif self._is_late():
            history.stopped_by = "time_limit"
        elif len(self.held) and waited >= self.settings.early_stopping_rounds > 0:
            history.stopped_by = "early_stopping"
        return history.stopped_by != "schedule"

    def _is_late(self) -> bool:
        limit = self.settings.time_limit
        return limit is not None and time.monotonic() - self.history.started > limit

    @torch.no_grad()
    def _score_average(self) -> Tensor:
        """Validation losses of the averaged values."""
        if not len(self.held):
            return torch.empty(0)
        values = self.optimizer.values
        present = values.clone()
        values.copy_(self.optimizer.average)
        losses = self.validation_losses()
        values.copy_(present)
        self.net.train()
        return losses

    def validation_losses(self) -> Tensor:
        """(held-out rows,) parts of the validation loss: the mean over members of the loss on each one's rows."""
        self.net.eval()
        table, lookup, parts = self.net.table(self.grid.points), self.grid.lookup, []
        weights = self.rows.held_out * self.rows.weights[:, None]
        weights = weights / weights.sum(0) / self.net.n_members
        for first in range(0, len(self.held), 65536):
            index = self.held[first : first + 65536]
            where = torch.from_numpy(index).to(self.grid.device)
            target, init = self.rows.take(where)
            scores = self.net.combine(lookup.gather(lookup.take(index), table, self.net.tied))
            losses = self.objective.loss(scores if init is None else scores + init, target)
            parts.append((losses * weights[where]).sum(1))
        return torch.cat(parts)

    def restore_best(self) -> None:
        """Give the net the best averaged values; a stage without gain leaves no trace in `history.best`."""
        self.optimizer.values.copy_(self.best_values)
        if not self.improved:
            self.history.best = self.best_before
        self.net.eval()


def standard_error(parts: Tensor) -> float:
    """Of the sum of independent parts."""
    return float(parts.std()) * math.sqrt(len(parts)) if len(parts) > 1 else 0.0


def _progress(settings: Settings) -> tqdm:
    return tqdm(total=settings.max_steps, desc=settings.stage, unit="step", disable=not settings.verbose, leave=True)


@contextmanager
def training_threads() -> Iterator[None]:
    """torch on one thread: its spinning workers fight with the kernels' threads, and with all else the machine does.

    With two threads, a fit with pairs was a quarter faster on an idle machine and many times slower on a busy one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
