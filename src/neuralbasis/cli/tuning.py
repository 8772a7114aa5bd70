"""Tuning: settings searched on the rows to fit on, then a trial with them; what `neuralbasis tune` does."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import neuralbasis

from ..tuning.tuner import Tuning
from .fitting import Rows, Trial, run_trial
from .options import Wishes
from .tables import AnyTable


@dataclass(frozen=True)
class Plan:
    """How to search; see `neuralbasis.tune`."""

    n_trials: int
    time_limit: float | None
    space: str
    sampler: str
    storage: str | None


def run_search(table: AnyTable, wishes: Wishes, plan: Plan) -> tuple[Trial, Tuning]:
    """The trial of the best settings, and how they were found; rows held out to measure take no part in the search."""
    found: list[Tuning] = []

    def choose(estimator: Any, rows: Rows) -> Any:
        quiet = estimator.set_params(verbose=False)  # one bar, that of the search
        seed = wishes.parameters["random_state"]
        tuning = neuralbasis.tune(
            quiet, rows.X, rows.y, plan.space, n_trials=plan.n_trials, time_limit=plan.time_limit,
            sample_weight=rows.weights, sampler=plan.sampler, storage=plan.storage, random_state=seed, refit=False,
            verbose=sys.stderr.isatty(),
        )  # fmt: skip
        found.append(tuning)
        return tuning.estimator

    return run_trial(table, wishes, choose), found[0]
