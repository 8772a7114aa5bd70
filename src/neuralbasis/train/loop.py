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
from ..sample import Sample
from .optimizer import FlatAdamW
from .penalty import Penalty
from .points import ExactEngine, GridEngine

RARE_SHARE, MAX_COPIES = 0.05, 50  # classes below this share of the rows are drawn more often


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


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows beside their positions, on the device of the net.

    target : (N,)
    weights : (N,) with mean 1
    held_out : (N, M) rows that each member validates on
    n_effective : number of observations
    information : what a row tells, see `Objective.information`
    copies : (N,) how often a row is drawn in an epoch
    init : (N, K) given scores
    """

    target: Tensor
    weights: Tensor
    held_out: Tensor
    n_effective: float
    information: float
    copies: np.ndarray
    init: Tensor | None = None

    def shares(self) -> Tensor:
        """(N, M) weight of each row in each member's loss, with mean 1 over the rows it learns from."""
        shares = self.weights[:, None] * ~self.held_out
        shares = shares / shares.mean(0).clamp(min=1e-12)
        drawn = torch.from_numpy(self.copies / self.copies.mean()).to(shares)
        return shares / drawn[:, None]

    def take(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.target[index], None if self.init is None else self.init[index]


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
    with _progress(settings) as bar:
        for step, batch in enumerate(_batches(rows.copies, settings.batch_size, settings.max_steps, rng)):
            if step % 10 == 0:
                with torch.no_grad():
                    penalty.refresh(net.table(grid.points), watch.noise)
            _compute_gradients(net, grid, engine, batch, rows, shares, objective, penalty)
            optimizer.step(settings.learning_rate * _schedule((step + 1) / settings.max_steps))
            bar.update()
            if watch.is_due(step) and watch.look(step, bar):
                break
    watch.restore_best()
    return watch.history


def _compute_gradients(
    net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, batch: np.ndarray, rows: Rows, shares: Tensor,
    objective: Objective, penalty: Penalty,
) -> None:  # fmt: skip
    """One batch: the table forward, the rows' gradient as a histogram over its cells, and back through the net."""
    net.train()
    points, lookup, index = engine.batch(batch)
    table = net.table(points)
    values = table.detach()
    where = torch.from_numpy(batch).to(grid.device)
    target, init = rows.take(where)
    scores = _member_scores(net, lookup.scores(index, values), init).requires_grad_()
    losses = objective.loss(scores, target) * shares[where]
    (slope,) = torch.autograd.grad(losses.sum() / len(batch), scores)
    grad = lookup.gradient(index, slope.flatten(1), len(values))
    if points is grid.points:
        penalty.add_gradient(values, grad)
    else:
        times = lookup.gradient(index, torch.ones(len(batch), 1, device=grid.device), len(values))
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


def hold_out(
    strata: np.ndarray, n_members: int, share: float, rng: np.random.Generator, max_rows: int = 50_000
) -> np.ndarray:
    """(N, M) rows each member validates on: another part for each as far as they last, balanced over `strata`."""
    n_rows = len(strata)
    held = np.zeros((n_rows, n_members), dtype=bool)
    size = min(round(share * n_rows) if share < 1 else int(share), max_rows, n_rows - 1)
    if size < 1:
        return held
    parts = max(2, math.ceil(n_rows / size))
    for member in range(n_members):
        if member % parts == 0:
            order = _balanced_order(strata, rng)
        held[order[member % parts :: parts], member] = True
    return held


def _balanced_order(strata: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Rows sorted by stratum and shuffled within it, so that every k-th row is a balanced sample."""
    return np.lexsort((rng.random(len(strata)), strata))


def place_rows(
    sample: Sample, objective: Objective, n_members: int, validation_size: float, rng: np.random.Generator, device
) -> Rows:
    """The sample as tensors on the device, with rows held out for each member."""
    strata = sample.y if objective.link != "identity" else np.zeros(len(sample.y))
    held = hold_out(strata, n_members, validation_size, rng)
    weights = torch.from_numpy((sample.weights / sample.weights.mean()).astype(np.float32))
    init = None if sample.init is None else objective.encode_init(sample.init).to(device)
    target, held_out = objective.encode(sample.y).to(device), torch.from_numpy(held).to(device)
    return Rows(
        target, weights.to(device), held_out, sample.n_effective, objective.information(sample), copy_rare(strata), init
    )


def copy_rare(strata: np.ndarray) -> np.ndarray:
    """(N,) how often to draw each row: rows of a rare class more often (and they weigh less each time).

    A batch of 8,192 rows with 0.17 % positives has 14 of them, and its gradient is mostly their noise. Drawing them
    more often leaves the expected gradient as it is and takes most of that noise away.
    """
    _, inverse, count = np.unique(strata, return_inverse=True, return_counts=True)
    copies = np.clip(RARE_SHARE * len(strata) / count, 1, MAX_COPIES).astype(np.int64)
    return copies[inverse]


@contextmanager
def training_threads() -> Iterator[None]:
    """torch on one thread: its spinning workers fight with the kernels' threads, and the nets are small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
