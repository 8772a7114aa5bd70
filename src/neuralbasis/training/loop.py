"""The training loop: epochs of shuffled batches, AdamW with a cosine schedule, early stopping, the best state kept.

All members are trained at once on the same batches. Each holds out rows of its own for validation, which have weight 0
in its loss.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..progress import Bar, open_bar
from .batches import Batches, set_generator
from .checkpointer import NO_CHECKPOINTS, Checkpointer, StateError, require
from .history import History
from .members import Settings
from .rows import standard_error

_LOSSES = "losses_before", "lowest_losses", "best_losses"


class Learners(Protocol):
    """What the loop trains: `Members` or `LowRankMembers`."""

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


def run_loop(
    learners: Learners, batches: Batches, settings: Settings, history: History, group: ProcessGroup = SINGLE_PROCESS,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> bool:  # fmt: skip
    """Train learners on the batches and restore their best state; resume from a checkpoint if there is one."""
    with open_bar(settings.max_steps, settings.stage, "step", settings.verbose) as bar:
        stopping, size = _EarlyStopping(learners, settings, history, group), 1
        state = _LoopState(learners, stopping, batches)
        is_over = checkpointer.begin(state) or history.stopped_by != "schedule"
        bar.update(learners.steps)
        while not is_over and (drawn := batches.draw(min(size, stopping.steps_left))):
            started = time.monotonic()
            learners.advance(batches.pool, drawn, stopping.noise)
            bar.update(len(drawn))
            # The time limit is checked after each round of batches, at least every 0.1 seconds or so.
            size = min(2 * size, 64) if time.monotonic() - started < 0.1 else max(1, size // 2)
            size = group.agree(size)
            is_over = stopping.is_due and stopping.validate(bar)
            checkpointer.note(state)
        checkpointer.end(state)
        stopping.restore_best()
    return stopping.improved


class _LoopState:
    """All that changes in the loop, as plain values and arrays."""

    def __init__(self, learners: Learners, stopping: _EarlyStopping, batches: Batches):
        self.learners, self.stopping, self.batches = learners, stopping, batches

    def form(self) -> dict[str, Any]:
        """The form of a state, from the state before the first step."""
        return self._join(self.stopping.form(), self.batches.form())

    def capture(self) -> dict[str, Any]:
        return self._join(self.stopping.state(), self.batches.state())

    def _join(self, stopping: dict[str, Any], batches: dict[str, Any]) -> dict[str, Any]:
        """The parts of a state; dropout draws from torch's generator."""
        generators = {"rng": self.batches.rng.bit_generator.state, "dropout": torch.get_rng_state().numpy()}
        return {"learners": self.learners.state(), "stopping": stopping, "batches": batches, **generators}

    def restore(self, state: dict[str, Any], is_over: bool) -> None:
        """Continue from a state; a run that is over needs no more batches."""
        n_done = self.batches.steps_left - state["batches"]["steps_left"]
        self.learners.resume(state["learners"])
        require(0 < self.learners.steps == n_done <= self.batches.steps_left, "the number of steps is out of range")
        self.stopping.restore(state["stopping"])
        if not is_over:
            self.batches.restore(state["batches"])
        set_generator(self.batches.rng, state["rng"])
        set_torch_generator(state["dropout"])


def set_torch_generator(state: np.ndarray) -> None:
    """Set torch's generator to a state (bytes) from a file.

    torch does not check enough for memory safety: it reads `left` words from word `next` on, also past the end.
    """
    left, following = int(state[8:12].view(np.int32)[0]), int(state[16:24].view(np.uint64)[0])
    n_words = 624  # of the Mersenne twister
    require(1 <= left <= n_words and left + following <= n_words + 1, "the state of torch's generator is wrong")
    try:
        torch.set_rng_state(torch.from_numpy(state))
    except RuntimeError as error:
        raise StateError(f"the state of torch's generator is wrong ({error})") from None


class _EarlyStopping:
    """Computes the validation loss at checkpoints, keeps the best state and decides when to stop.

    A stage after the first starts with its untrained state as the best, and keeps it unless the validation loss falls.
    """

    def __init__(self, learners: Learners, settings: Settings, history: History, group: ProcessGroup = SINGLE_PROCESS):
        self.learners, self.settings, self.history, self.group = learners, settings, history, group
        self.n_before, self.best_before = len(history.steps), history.best  # checkpoints of earlier stages
        self.validated_at = 0  # steps of this stage at the last checkpoint
        self.every = max(1, settings.max_steps // settings.n_checkpoints)
        self.lowest = math.inf
        self.losses_before = self.lowest_losses = self.best_losses = learners.validation_losses()
        self.noise, history.stopped_by = 1.0, "schedule"
        learners.keep()
        if learners.validates:
            loss = float(self.losses_before.sum())
            if self.n_before:
                self.lowest = loss
            else:
                history.constant = loss
            self._estimate_noise(loss)

    @property
    def improved(self) -> bool:
        """Whether the best state has a lower held-out loss than the untrained one; True for the first stage."""
        if not self.learners.validates or not self.n_before:
            return True
        return float((self.losses_before - self.best_losses).sum()) > 0

    def _estimate_noise(self, loss: float) -> None:
        constant = self.history.constant
        self.noise = min(1.0, max(1e-3, loss / constant)) if constant > 0 else 1.0

    @property
    def steps_left(self) -> int:
        """Steps to the next checkpoint."""
        return self.every - self.learners.steps % self.every

    @property
    def is_due(self) -> bool:
        steps = self.learners.steps
        return steps % self.every == 0 or steps == self.settings.max_steps or self._is_late()

    def validate(self, bar: Bar) -> bool:
        """Compute the validation loss of the averaged values; True when training should stop."""
        losses, step = self.learners.validation_losses(), self.learners.steps
        loss = float(losses.sum()) if len(losses) else math.nan
        keep = not self.learners.validates or self._is_kept(loss, losses)
        self.history.add(self.settings.stage, step - self.validated_at, loss, keep)
        self.validated_at = step
        if keep:
            self.learners.keep()
            self.best_losses = losses
        self._estimate_noise(loss)
        bar.set_postfix(loss=f"{loss:.4f}")
        return self._should_stop()

    def _is_kept(self, loss: float, losses: Tensor) -> bool:
        """Whether this state is better than all before it by the tolerance.

        Without a tolerance, whether the loss is within a standard error of the lowest: the lowest of many noisy losses
        is often an early one by chance, and another one for every seed.
        """
        tolerance = self.settings.early_stopping_tolerance
        is_lowest = loss < self.lowest - (tolerance or 0.0)
        if is_lowest:
            self.lowest, self.lowest_losses = loss, losses
        return is_lowest or (tolerance is None and loss - self.lowest <= standard_error(losses - self.lowest_losses))

    def _should_stop(self) -> bool:
        history = self.history
        waited = len(history.steps) - max(history.best + 1, self.n_before)
        if self.group.agree(any(callback(history) for callback in self.settings.callbacks)):
            history.stopped_by = "callback"
        elif self._is_late():
            history.stopped_by = "time_limit"
        elif self.learners.validates and waited >= self.settings.early_stopping_rounds > 0:
            history.stopped_by = "early_stopping"
        return history.stopped_by != "schedule"

    def _is_late(self) -> bool:
        limit = self.settings.time_limit
        return limit is not None and self.group.agree(time.monotonic() - self.history.started > limit)

    def state(self) -> dict[str, Any]:
        losses = {name: getattr(self, name).cpu().numpy() for name in _LOSSES}
        known = {name: getattr(self, name) for name in ("n_before", "best_before", "validated_at", "lowest", "noise")}
        return {**known, **losses, "history": self.history.state()}

    def form(self) -> dict[str, Any]:
        return {**self.state(), "history": self.history.form()}

    def restore(self, state: dict[str, Any]) -> None:
        history, n_before = state["history"], state["n_before"]
        require(self.history.accepts(history), "the history is not one of a fit")
        is_inside = 0 <= n_before <= len(history["steps"]) and -1 <= state["best_before"] < n_before
        is_inside = is_inside and 0 <= state["validated_at"] <= self.learners.steps
        require(is_inside, "a number of checkpoints or steps is out of range")
        require(0 < state["noise"] <= 1 and not math.isnan(state["lowest"]), "a loss is out of range")
        self.history.restore(history)
        for name, value in state.items():
            if name != "history":
                setattr(self, name, torch.from_numpy(value) if name in _LOSSES else value)

    def restore_best(self) -> None:
        """Restore the best averaged values; a stage without gain does not change `history.best`."""
        self.learners.restore()
        if not self.improved:
            self.history.best = self.best_before


@contextmanager
def training_threads() -> Iterator[None]:
    """Run torch on one thread: its busy-waiting workers compete with the kernels' threads and with other programs.

    With two threads, a fit with pairs was a quarter faster on an idle machine and many times slower on a busy one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
