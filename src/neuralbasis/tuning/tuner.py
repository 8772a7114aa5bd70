"""tune: parameters of an estimator chosen by rows held out once, then a fit on all rows.

Trials are fitted with weight 0 on the rows held out, which is the same as without them, so that no table has to be cut,
whatever its kind. The first trial is the estimator as it stands: no choice is worse than it on the rows held out.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer

from ..data.target import check_weights, hold_out
from ..model.summary import to_plain
from ..printable import escape
from .search import PAPER_RANGES, Trial, best_trial, check_limits, search

# What tuning at our defaults may change; docs/defaults.md says how little it brings.
DEFAULT_SPACE: dict[str, Any] = {
    "smoothness": (0.1, 10.0, "log"),
    "learning_rate": (0.005, 0.08, "log"),
    "interactions": [0, "auto"],
    "max_bins": [17, 49, 193],
    "n_bases": [16, 32, 64],
}
SMALLEST = 1e-15  # probability
MAX_LISTED = 10  # trials that are printed
_ASIDE = ("verbose", "n_jobs", "device", "callbacks")  # parameters that do not change a loss


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """What a search found. It prints as a table of the best trials.

    estimator : with the best settings, fitted on all rows (not fitted with `refit=False`)
    best : the trial of the least loss
    trials : all of them, in their order
    loss_name : what the losses are
    drawn : parameters that had several values to draw from
    """

    estimator: Any
    best: Trial
    trials: list[Trial]
    loss_name: str
    drawn: tuple[str, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """A record a trial: `pandas.DataFrame(tuning.to_rows())` is a frame."""
        return [
            {"trial": t.number, "loss": t.loss, "seconds": t.seconds, "error": t.error, **t.settings}
            for t in self.trials
        ]

    def __str__(self) -> str:
        ranked = sorted(self.trials, key=lambda t: (t.error is not None, t.loss))
        failed = [t for t in self.trials if t.error is not None]
        rows = [["trial", self.loss_name, "seconds", *self.drawn]]
        for t in ranked[:MAX_LISTED]:
            loss = "failed" if t.error is not None else f"{t.loss:#.5g}"
            values = [_write(t.settings[name]) if name in t.settings else "as it stands" for name in self.drawn]
            rows.append([str(t.number), loss, f"{t.seconds:.1f}", *values])
        seconds = sum(t.seconds for t in self.trials)
        lines = [
            f"{len(self.trials)} trials, {len(failed)} failed, {seconds:.0f} s; the best is trial {self.best.number}"
        ]
        lines += ["", *_align(rows)]
        if len(ranked) > MAX_LISTED:
            lines.append(f"… and {len(ranked) - MAX_LISTED} more")
        lines += [f"trial {t.number} failed with {t.error}" for t in failed]
        return "\n".join(map(escape, lines))

    __repr__ = __str__


def tune(
    estimator: Any,
    X: Any,
    y: Any,
    space: str | Mapping[str, Any] = "default",
    *,
    n_trials: int = 20,
    time_limit: float | None = None,
    sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None,
    validation_size: float = 0.2,
    scoring: str | Callable | None = None,
    sampler: str = "random",
    storage: str | os.PathLike[str] | None = None,
    refit: bool = True,
    verbose: bool = True,
    random_state: int = 42,
) -> Tuning:
    """Choose an estimator's parameters by the loss on rows that are held out once.

    The defaults are meant to be left alone: on the tables we tried, a search gained nothing (docs/defaults.md).

    Parameters
    ----------
    estimator : NeuralBasisRegressor or NeuralBasisClassifier; it is not changed, and is itself the first trial
    X, y, sample_weight : as for `fit`
    space : what to draw
        "default", the few parameters that can matter at our defaults; "paper", the published model and the ranges it
        was tuned in (give the estimator `max_epochs`); both leave alone what the estimator has not at its default.
        Or a dict: parameter -> a list of values, (low, high) or (low, high, "log").
    n_trials : in all, those that `storage` has already included
    time_limit : seconds after which no trial is begun; the last one, and the fit on all rows, come on top
    validation : (X, y) to measure on, instead of holding rows out; they stay out of the last fit
    validation_size : share of the rows to hold out, of each class the same
    scoring : a name or a callable of scikit-learn that takes `sample_weight`; larger is better, the loss its negative
        None is the log loss, or the root of the mean squared error.
    sampler : "random", or "tpe" (learns from the trials before)
    storage : a file that keeps every trial; call again with it, after a stop or with a larger `n_trials`, to go on
    refit : fit the best settings on all rows?
    verbose : show a bar with the best loss so far and the time left
    random_state : of the rows held out and of the draws: same seed, same trials

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, tune
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> estimator = NeuralBasisRegressor(max_steps=50, outer_bags=2, interactions=0)
    >>> tuning = tune(estimator, X, X[:, 0] * X[:, 1], {"interactions": [0, 1]}, n_trials=4, verbose=False)
    >>> len(tuning.trials), tuning.estimator.interactions
    (4, 1)
    """
    check_limits(n_trials, time_limit, sampler, random_state)
    chosen = _read_space(space, estimator)
    jury = _make_jury(estimator, X, y, sample_weight, validation, validation_size, scoring, random_state)
    trials = search(
        jury.measure, chosen, n_trials=n_trials, time_limit=time_limit, sampler=sampler, storage=storage,
        random_state=random_state, unchanged=True, identity=jury.identify(), verbose=verbose,
    )  # fmt: skip
    best = best_trial(trials)
    tuned = clone(estimator).set_params(**best.settings)
    if refit:
        tuned.fit(X, y, sample_weight=sample_weight)
    drawn = tuple(name for name, wish in chosen.items() if len(wish) > 1)
    return Tuning(tuned, best, trials, jury.loss_name, drawn)


def _read_space(space: str | Mapping[str, Any], estimator: Any) -> Mapping[str, Any]:
    known = estimator.get_params(deep=False)
    if isinstance(space, str):
        if space not in ("default", "paper"):
            raise ValueError(f"space must be 'default', 'paper' or a dict of parameters, not {space!r}")
        usual = type(estimator)().get_params(deep=False)
        wishes = DEFAULT_SPACE if space == "default" else _write_paper_space()
        space = {name: wish for name, wish in wishes.items() if known[name] == usual[name]}
    unknown = [name for name in space if name not in known]
    if unknown:
        raise ValueError(
            f"space must name parameters of {type(estimator).__name__}, such as 'smoothness', not "
            f"{', '.join(map(repr, unknown))}"
        )
    if not space:
        raise ValueError("space leaves nothing to draw: give a dict of parameters, or leave some at their defaults")
    return space


def _write_paper_space() -> dict[str, Any]:
    """The paper's settings and the ranges of the others.

    DIFF: our output penalty is summed over the terms, the paper's is their mean; its range is wide enough for both.
    """
    from ..config import PAPER  # brings torch

    return {**{name: [value] for name, value in PAPER.items()}, **PAPER_RANGES}


@dataclass(frozen=True, eq=False)
class Rows:
    """A table, its target, and how much each row counts."""

    X: Any
    y: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class Jury:
    """What a loss is: settings of an estimator, fitted on some rows, measured on others."""

    estimator: Any
    fitted: Rows
    measured: Rows
    scoring: str | Callable | None

    def measure(self, settings: Mapping[str, Any]) -> float:
        rows = self.fitted
        return self._find_loss(clone(self.estimator).set_params(**settings).fit(rows.X, rows.y, rows.weights))

    def _find_loss(self, model: Any) -> float:
        rows = self.measured
        if self.scoring is not None:
            return -float(get_scorer(self.scoring)(model, rows.X, rows.y, sample_weight=rows.weights))
        if not is_classifier(model):
            return math.sqrt(np.average((rows.y - model.predict(rows.X)) ** 2, weights=rows.weights))
        codes = np.searchsorted(model.classes_, rows.y).clip(max=len(model.classes_) - 1)
        probability = model.predict_proba(rows.X)[np.arange(len(codes)), codes] * (model.classes_[codes] == rows.y)
        return float(np.average(-np.log(np.maximum(probability, SMALLEST)), weights=rows.weights))

    @property
    def loss_name(self) -> str:
        if self.scoring is None:
            return "log loss" if is_classifier(self.estimator) else "RMSE"
        return f"−{self.scoring if isinstance(self.scoring, str) else to_plain(self.scoring)}"

    def identify(self) -> dict[str, str]:
        """What the losses depend on beside the settings, for the file of trials."""
        parameters = {n: to_plain(v) for n, v in self.estimator.get_params(deep=False).items() if n not in _ASIDE}
        rows = [part.tolist() for rows in (self.fitted, self.measured) for part in (rows.y, rows.weights)]
        return {
            "estimator": f"{type(self.estimator).__name__} {parameters}",
            "rows": hashlib.sha256(repr(rows).encode()).hexdigest(),
            "scoring": self.loss_name,
        }


def _make_jury(
    estimator: Any, X: Any, y: Any, sample_weight: Any, validation: tuple[Any, Any] | None, validation_size: float,
    scoring: str | Callable | None, random_state: int,
) -> Jury:  # fmt: skip
    y = np.asarray(y)
    weights = check_weights(sample_weight, len(y))
    if validation is not None:
        if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
            raise ValueError(f"validation must be None or a pair (X, y), not a {type(validation).__name__}")
        other = np.asarray(validation[1])
        return Jury(estimator, Rows(X, y, weights), Rows(validation[0], other, np.ones(len(other))), scoring)
    if not 0 < validation_size < 1:
        raise ValueError(f"validation_size must be a share between 0 and 1, not {validation_size!r}")
    is_held = hold_out(y, validation_size, is_classifier(estimator), random_state) & (weights > 0)
    if not is_held.any():
        raise ValueError(f"validation_size={validation_size!r} of {len(y)} rows holds none out; give a larger share")
    return Jury(estimator, Rows(X, y, weights * ~is_held), Rows(X, y, weights * is_held), scoring)


def _write(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
