"""Search for settings on the training rows, then fit with the best ones: the work of `neuralbasis tune`."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import neuralbasis

from ..tuning.tuner import Tuning
from .fitting import FileRows, HoldoutResult, fit_and_evaluate
from .options import FitOptions
from .tables import AnyTable


@dataclass(frozen=True)
class SearchOptions:
    """Parameters of the search; see `neuralbasis.tune`."""

    n_trials: int
    time_limit: float | None
    space: str
    sampler: str
    storage: str | None


def tune_and_fit(table: AnyTable, options: FitOptions, search: SearchOptions) -> tuple[HoldoutResult, Tuning]:
    """Fit with the best settings; the search does not use the rows that are held out for the scores."""
    found: list[Tuning] = []

    def choose(estimator: Any, rows: FileRows) -> Any:
        quiet = estimator.set_params(verbose=False)  # the search has the only progress bar
        seed = options.parameters["random_state"]
        tuning = neuralbasis.tune(
            quiet, rows.X, rows.y, sample_weight=rows.weights, random_state=seed, refit=False,
            verbose=sys.stderr.isatty(), **vars(search),
        )  # fmt: skip
        found.append(tuning)
        return tuning.estimator

    return fit_and_evaluate(table, options, choose), found[0]
