"""The training loop: epochs of shuffled batches, AdamW with a cosine schedule, early stopping, the best state kept.

All members are trained at once on the same batches; each holds out rows of its own for validation, which weigh nothing
in its loss. `train_net` changes the net, and nothing else.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import repeat
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..losses.loss import Loss
from ..networks.basis_net import BasisNet
from ..progress import Bar, open_bar
from .batches import Batches, Pool, set_generator, share_pool
from .checkpointer import NO_CHECKPOINTS, Checkpointer, StateError, require
from .engines import ExactEngine, GridEngine
from .history import History
from .members import Members, Settings
from .rows import Rows, standard_error

MAX_ROUND, SHORT = 64, 0.1  # batches between two looks at the clock, fewer if they would take longer than seconds
_LOSSES = "losses_before", "lowest_losses", "best_losses"
_N_TWISTER = 624  # words in the state of torch's generator


class Learners(Protocol):
    """What the loop asks of those it trains: `Members`, `LowRankMembers`."""

    @property
    def steps(self) -> int: ...
    @property
    def validates(self) -> bool: ...
    def advance(self, pool: Any, batches: Sequence[np.ndarray], noise: float, /) -> None: ...
    def validation_losses(self) -> Tensor: ...
    def keep(self) -> None: ...
    def restore(self) -> None: ...
    def state(self) -> dict[str, Any]: ...
    def resume(self, state: dict[str, Any], /) -> None: ...


def train_net(
    net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, rows: Rows, objective: Loss,
    settings: Settings, history: History, rng: np.random.Generator, group: ProcessGroup = SINGLE_PROCESS,
    pools: Iterator[Pool] | None = None, checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> bool:  # fmt: skip
    """Fit `net` in place and write on in the history; False if a stage after the first gains nothing.

    The net is judged by `rows`, and trained on `pools`: the same rows, unless others are given.
    """
    if pools is None:
        pools = repeat(share_pool(engine, rows, group))
    with Members(net, grid, engine, rows, objective, settings, group) as crew:
        return run_loop(
            crew, Batches(pools, settings.batch_size, settings.max_steps, rng), settings, history, group, checkpointer
        )


def run_loop(
    learners: Learners, feed: Batches, settings: Settings, history: History, group: ProcessGroup = SINGLE_PROCESS,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> bool:  # fmt: skip
    """Lead learners through their batches to the best state on the way; resume from a checkpoint."""
    with open_bar(settings.max_steps, settings.stage, "step", settings.verbose) as bar:
        watch, size = _Watch(learners, settings, history, group), 1
        state = _State(learners, watch, feed)
        is_over = checkpointer.begin(state) or history.stopped_by != "schedule"
        bar.update(learners.steps)
        while not is_over and (found := feed.draw(min(size, watch.steps_left))):
            started = time.monotonic()
            learners.advance(feed.pool, found, watch.noise)
            bar.update(len(found))
            size = min(2 * size, MAX_ROUND) if time.monotonic() - started < SHORT else max(1, size // 2)
            size = group.agree(size)
            is_over = watch.is_due and watch.look(bar)
            checkpointer.note(state)
        checkpointer.end(state)
        watch.restore_best()
    return watch.improved


class _State:
    """All that changes while learners are led through their batches, as plain values and arrays."""

    def __init__(self, learners: Learners, watch: _Watch, feed: Batches):
        self.learners, self.watch, self.feed = learners, watch, feed

    def form(self) -> dict[str, Any]:
        """The form of a state, from what the run has before its first step; draws from torch's generator."""
        return {
            "learners": self.learners.state(), "watch": self.watch.form(), "feed": self.feed.form(),
            "rng": self.feed.rng.bit_generator.state, "dropout": torch.get_rng_state().numpy(),
        }  # fmt: skip

    def read(self) -> dict[str, Any]:
        return {
            "learners": self.learners.state(), "watch": self.watch.state(), "feed": self.feed.state(),
            "rng": self.feed.rng.bit_generator.state, "dropout": torch.get_rng_state().numpy(),
        }  # fmt: skip

    def write(self, state: dict[str, Any], is_over: bool) -> None:
        """Take a state over; batches are not needed any more once training is over."""
        n_done = self.feed.steps_left - state["feed"]["steps_left"]
        self.learners.resume(state["learners"])
        require(0 < self.learners.steps == n_done <= self.feed.steps_left, "the number of steps is out of range")
        self.watch.restore(state["watch"])
        if not is_over:
            self.feed.restore(state["feed"])
        set_generator(self.feed.rng, state["rng"])
        set_torch_generator(state["dropout"])


def set_torch_generator(state: np.ndarray) -> None:
    """Give torch's generator a state (bytes) from a file.

    torch checks less than memory safety needs: it reads `left` words from word `next` on, and would read past the end.
    """
    left, following = int(state[8:12].view(np.int32)[0]), int(state[16:24].view(np.uint64)[0])
    require(1 <= left <= _N_TWISTER and left + following <= _N_TWISTER + 1, "the state of torch's generator is wrong")
    try:
        torch.set_rng_state(torch.from_numpy(state))
    except RuntimeError as error:
        raise StateError(f"the state of torch's generator is wrong ({error})") from None


class _Watch:
    """Looks at the validation loss at checkpoints, keeps the best state, decides when to stop.

    A stage after the first is worth keeping only if it is better than none: it begins with its untrained state as the
    best, and what it gains in the end must exceed a part of the standard error of the gain.
    """

    def __init__(self, crew: Learners, settings: Settings, history: History, group: ProcessGroup = SINGLE_PROCESS):
        self.crew, self.settings, self.history, self.group = crew, settings, history, group
        self.before, self.best_before = len(history.steps), history.best
        self.seen = 0  # steps of this stage at the last checkpoint
        self.every = max(1, settings.max_steps // settings.n_checkpoints)
        self.lowest = math.inf
        self.losses_before = self.lowest_losses = self.best_losses = crew.validation_losses()
        self.noise, history.stopped_by = 1.0, "schedule"
        crew.keep()
        if crew.validates:
            self._look_before()

    def _look_before(self) -> None:
        loss = float(self.losses_before.sum())
        if self.before:
            self.lowest = loss
        else:
            self.history.constant = loss
        self._estimate_noise(loss)

    @property
    def improved(self) -> bool:
        """Has the best state a lower held-out loss than the untrained one?"""
        if not self.crew.validates or not self.before:
            return True
        return float((self.losses_before - self.best_losses).sum()) > 0

    def _estimate_noise(self, loss: float) -> None:
        constant = self.history.constant
        self.noise = min(1.0, max(1e-3, loss / constant)) if constant > 0 else 1.0

    @property
    def steps_left(self) -> int:
        """To the next checkpoint."""
        return self.every - self.crew.steps % self.every

    @property
    def is_due(self) -> bool:
        return self.crew.steps % self.every == 0 or self.crew.steps == self.settings.max_steps or self._is_late()

    def look(self, bar: Bar) -> bool:
        """Score the averaged values; True when training should stop."""
        losses, step = self.crew.validation_losses(), self.crew.steps
        loss = float(losses.sum()) if len(losses) else math.nan
        keep = not self.crew.validates or self._is_kept(loss, losses)
        self.history.add(self.settings.stage, step - self.seen, loss, keep)
        self.seen = step
        if keep:
            self.crew.keep()
            self.best_losses = losses
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
        if self.group.agree(any(callback(history) for callback in self.settings.callbacks)):
            history.stopped_by = "callback"
        elif self._is_late():
            history.stopped_by = "time_limit"
        elif self.crew.validates and waited >= self.settings.early_stopping_rounds > 0:
            history.stopped_by = "early_stopping"
        return history.stopped_by != "schedule"

    def _is_late(self) -> bool:
        limit = self.settings.time_limit
        return limit is not None and self.group.agree(time.monotonic() - self.history.started > limit)

    def state(self) -> dict[str, Any]:
        losses = {name: getattr(self, name).cpu().numpy() for name in _LOSSES}
        known = {name: getattr(self, name) for name in ("before", "best_before", "seen", "lowest", "noise")}
        return {**known, **losses, "history": self.history.state()}

    def form(self) -> dict[str, Any]:
        """The form of a state."""
        return {**self.state(), "history": self.history.form()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        history, seen, before = state["history"], state["seen"], state["before"]
        require(self.history.accepts(history), "the history is not one of a fit")
        is_known = 0 <= before <= len(history["steps"]) and -1 <= state["best_before"] < before
        require(is_known and 0 <= seen <= self.crew.steps, "a number of looks or steps is out of range")
        require(0 < state["noise"] <= 1 and not math.isnan(state["lowest"]), "a loss is out of range")
        self.history.restore(history)
        for name, value in state.items():
            if name != "history":
                setattr(self, name, torch.from_numpy(value) if name in _LOSSES else value)

    def restore_best(self) -> None:
        """Give the net the best averaged values; a stage without gain leaves no trace in `history.best`."""
        self.crew.restore()
        if not self.improved:
            self.history.best = self.best_before


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
