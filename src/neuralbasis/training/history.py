"""History: what happened while fitting. Plain, so that a pickled estimator brings no training code with it."""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from typing import Any

STOPPED_BY = "schedule", "early_stopping", "time_limit", "callback"


@dataclass
class History:
    """One entry a checkpoint in each list; `best` is the checkpoint whose state was kept.

    stage : "main effects", "refinement", "blend", "pairs", "cuts", "triples" or "all terms"
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
        """All but the clock's reading, of which what has passed since."""
        known = {name: value for name, value in asdict(self).items() if name != "started"}
        return {**known, "passed": time.monotonic() - self.started}

    @staticmethod
    def form() -> dict[str, Any]:
        """Types of what is in a state."""
        lists = {"stage": [str], "steps": [int], "validation": [float], "seconds": [float]}
        return {**lists, "best": int, "stopped_by": str, "constant": float, "passed": float}

    @staticmethod
    def accepts(state: dict[str, Any]) -> bool:
        """Whether a state of this form could be one of a fit."""
        steps, n_looks = state["steps"], len(state["steps"])
        return (
            all(len(state[name]) == n_looks for name in ("stage", "validation", "seconds"))
            and all(0 < one <= other < 2**53 for one, other in pairwise([1, *steps]))
            and -1 <= state["best"] < n_looks
            and state["stopped_by"] in STOPPED_BY
            and all(map(math.isfinite, [*state["seconds"], state["passed"]]))
        )

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a state: time that has passed counts, time in between does not."""
        for name, value in state.items():
            if name != "passed":
                setattr(self, name, list(value) if isinstance(value, list) else value)  # the state stays as it is
        self.started = time.monotonic() - state["passed"]

    def clear(self) -> None:
        """Forget all checkpoints, but not when fitting began."""
        vars(self).update(vars(History(started=self.started)))

    def add(self, stage: str, steps: int, loss: float, keep: bool) -> None:
        """A checkpoint, so many steps after the last one; `keep` if its state is the one to keep so far."""
        self.stage.append(stage)
        self.steps.append(steps + (self.steps[-1] if self.steps else 0))
        self.validation.append(loss)
        self.seconds.append(time.monotonic() - self.started)
        if keep:
            self.best = len(self.steps) - 1
