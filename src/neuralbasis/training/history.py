"""History: the course of a fit. Plain values only: a pickled estimator needs no training code."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any


@dataclass
class History:
    """One entry per checkpoint in each list; `best` is the checkpoint whose state was kept.

    stage : "main effects", "pairs", "triples", "all terms", "update", or "shares" after the learners of a stage
    steps : batches so far
    validation : mean loss of the members on the rows they hold out, in the unit of the loss
    seconds : time since training began
    stopped_by : "schedule", "early_stopping", "time_limit" or "callback"
    constant : validation loss of the constant model
    started : reading of the monotonic clock when fitting began
    """

    stage: list[str] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    validation: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    best: int = -1
    stopped_by: str = "schedule"
    constant: float = math.nan
    started: float = field(default_factory=time.monotonic)

    def state(self) -> dict[str, Any]:
        """All but the clock's reading, which becomes the time since."""
        fields = {name: value for name, value in asdict(self).items() if name != "started"}
        return {**fields, "passed": time.monotonic() - self.started}

    @staticmethod
    def form() -> dict[str, Any]:
        """The form of a state."""
        lists = {"stage": [str], "steps": [int], "validation": [float], "seconds": [float]}
        return {**lists, "best": int, "stopped_by": str, "constant": float, "passed": float}

    @staticmethod
    def accepts(state: dict[str, Any]) -> bool:
        """Whether a state of this form is plausible."""
        steps, n_checkpoints = state["steps"], len(state["steps"])
        return (
            all(len(state[name]) == n_checkpoints for name in ("stage", "validation", "seconds"))
            and all(0 < one <= other < 2**53 for one, other in pairwise([1, *steps]))
            and -1 <= state["best"] < n_checkpoints
            and state["stopped_by"] in ("schedule", "early_stopping", "time_limit", "callback")
            and all(map(math.isfinite, [*state["seconds"], state["passed"]]))
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state: the time before the interruption counts, the interruption does not."""
        for name, value in state.items():
            if name != "passed":
                setattr(self, name, list(value) if isinstance(value, list) else value)  # do not change the state
        self.started = time.monotonic() - state["passed"]

    def clear(self) -> None:
        """Remove all checkpoints, but keep the start time."""
        vars(self).update(vars(History(started=self.started)))

    def add(self, stage: str, steps: int, loss: float, keep: bool) -> None:
        """Add a checkpoint, `steps` steps after the last one; `keep` if it is the best so far."""
        self.stage.append(stage)
        self.steps.append(steps + (self.steps[-1] if self.steps else 0))
        self.validation.append(loss)
        self.seconds.append(time.monotonic() - self.started)
        if keep:
            self.best = len(self.steps) - 1
