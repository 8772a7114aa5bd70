"""`tune` chooses parameters of an estimator on rows that are held out once, then fits on all rows.

In: an estimator, a table and a space of parameters. Out: a `Tuning` record. Held-out rows get weight 0 in the fit,
which equals leaving them out and works for every kind of table. The first trial is the unchanged estimator, so the
chosen parameters are never worse on the held-out rows.
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

# Parameters that can matter at the defaults; docs/defaults.md reports how little a search gains.
DEFAULT_SPACE: dict[str, Any] = {
    "smoothness": (0.1, 10.0, "log"),
    "learning_rate": (0.005, 0.08, "log"),
    "interactions": [0, "auto"],
    "max_bins": [17, 49, 193],
    "n_bases": [16, 32, 64],
}
MIN_PROBABILITY = 1e-15
MAX_LISTED = 10  # trials to print
_NEUTRAL = ("verbose", "n_jobs", "device", "callbacks")  # parameters that do not change the loss


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Result of a search. It prints as a table of the best trials.

    estimator : estimator with the best settings, fitted on all rows (not fitted if `refit=False`)
    best : the trial with the smallest loss
    trials : all trials in their order
    loss_name : name of the loss
    drawn : parameters that had more than one value to draw from
    """

    estimator: Any
    best: Trial
    trials: list[Trial]
    loss_name: str
    drawn: tuple[str, ...]

    def to_rows(self) -> list[dict[str, Any]]:
        """One record per trial, such as for `pandas.DataFrame(tuning.to_rows())`."""
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
            values = [_format_value(t.settings[name]) if name in t.settings else "unchanged" for name in self.drawn]
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
    """Choose parameters of an estimator by the loss on rows that are held out once.

    The defaults rarely need tuning: on the tables of docs/defaults.md, a search gained nothing.

    Parameters
    ----------
    estimator : NeuralBasisRegressor or NeuralBasisClassifier; it is not changed, and its parameters are the first trial
    X, y, sample_weight : as for `fit`
    space : parameters to draw
        "default" draws the few parameters that can matter at the defaults. "paper" is the published model with its
        published ranges (set `max_epochs` on the estimator). Both keep parameters that are not at their default.
        A dict maps a parameter to a list of values, (low, high) or (low, high, "log").
    n_trials : total number of trials, including those in `storage`
    time_limit : seconds after which no trial starts; the running trial and the fit on all rows are not interrupted
    validation : (X, y) to measure the loss on, instead of held-out rows; not used by the final fit
    validation_size : share of the rows to hold out, the same for each class
    scoring : name or callable of a scikit-learn scorer that takes `sample_weight`; the loss is its negative
        None is the log loss, or the root mean squared error for a regression.
    sampler : "random", or "tpe", which learns from previous trials
    storage : file of trials; call again with it to continue after an interruption or with a larger `n_trials`
    refit : whether to fit the best settings on all rows
    verbose : show a progress bar with the best loss and the time left
    random_state : seed of the held-out rows and of the draws; the same seed gives the same trials

    Returns
    -------
    Tuning

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
    train, held = _split_rows(estimator, X, y, sample_weight, validation, validation_size, random_state)
    evaluator = SettingsEvaluator(estimator, train, held, scoring)
    trials = search(
        evaluator.measure, chosen, n_trials=n_trials, time_limit=time_limit, sampler=sampler, storage=storage,
        random_state=random_state, unchanged=True, identity=evaluator.identify(), verbose=verbose,
    )  # fmt: skip
    best = best_trial(trials)
    tuned = clone(estimator).set_params(**best.settings)
    if refit:
        tuned.fit(X, y, sample_weight=sample_weight)
    drawn = tuple(name for name, choices in chosen.items() if len(choices) > 1)
    return Tuning(tuned, best, trials, evaluator.loss_name, drawn)


def _read_space(space: str | Mapping[str, Any], estimator: Any) -> Mapping[str, Any]:
    """The space as a checked mapping; a named space without the parameters that are not at their default."""
    known = estimator.get_params(deep=False)
    if isinstance(space, str):
        if space not in ("default", "paper"):
            raise ValueError(f"space must be 'default', 'paper' or a dict of parameters, not {space!r}")
        defaults = type(estimator)().get_params(deep=False)
        named = DEFAULT_SPACE if space == "default" else _make_paper_space()
        space = {name: choices for name, choices in named.items() if known[name] == defaults[name]}
    unknown = [name for name in space if name not in known]
    if unknown:
        raise ValueError(
            f"space must name parameters of {type(estimator).__name__}, such as 'smoothness', not "
            f"{', '.join(map(repr, unknown))}"
        )
    if not space:
        raise ValueError("space leaves nothing to draw: give a dict of parameters, or leave some at their defaults")
    return space


def _make_paper_space() -> dict[str, Any]:
    """The fixed settings of the paper and the ranges of the others.

    DIFF: the output penalty is a sum over the terms, the paper's is a mean; the range is wide enough for both.
    """
    from ..config import PAPER  # brings torch

    return {**{name: [value] for name, value in PAPER.items()}, **PAPER_RANGES}


@dataclass(frozen=True, eq=False)
class WeightedRows:
    """A table, its target and the weights of its rows."""

    X: Any
    y: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class SettingsEvaluator:
    """Fits settings of an estimator on training rows and measures the loss on held-out rows."""

    estimator: Any
    train: WeightedRows
    held: WeightedRows
    scoring: str | Callable | None

    def measure(self, settings: Mapping[str, Any]) -> float:
        """Loss of the settings on the held-out rows."""
        rows = self.train
        return self._compute_loss(clone(self.estimator).set_params(**settings).fit(rows.X, rows.y, rows.weights))

    def _compute_loss(self, model: Any) -> float:
        rows = self.held
        if self.scoring is not None:
            return -float(get_scorer(self.scoring)(model, rows.X, rows.y, sample_weight=rows.weights))
        if not is_classifier(model):
            return math.sqrt(np.average((rows.y - model.predict(rows.X)) ** 2, weights=rows.weights))
        codes = np.searchsorted(model.classes_, rows.y).clip(max=len(model.classes_) - 1)
        probability = model.predict_proba(rows.X)[np.arange(len(codes)), codes] * (model.classes_[codes] == rows.y)
        return float(np.average(-np.log(np.maximum(probability, MIN_PROBABILITY)), weights=rows.weights))

    @property
    def loss_name(self) -> str:
        if self.scoring is None:
            return "log loss" if is_classifier(self.estimator) else "RMSE"
        return f"−{self.scoring if isinstance(self.scoring, str) else to_plain(self.scoring)}"

    def identify(self) -> dict[str, str]:
        """Everything that the losses depend on except the settings, for the file of trials."""
        parameters = {n: to_plain(v) for n, v in self.estimator.get_params(deep=False).items() if n not in _NEUTRAL}
        rows = [part.tolist() for rows in (self.train, self.held) for part in (rows.y, rows.weights)]
        return {
            "estimator": f"{type(self.estimator).__name__} {parameters}",
            "rows": hashlib.sha256(repr(rows).encode()).hexdigest(),
            "scoring": self.loss_name,
        }


def _split_rows(
    estimator: Any, X: Any, y: Any, sample_weight: Any, validation: tuple[Any, Any] | None, validation_size: float,
    random_state: int,
) -> tuple[WeightedRows, WeightedRows]:  # fmt: skip
    """Rows to fit on and rows to measure on; without `validation`, both are the same table with other weights."""
    y = np.asarray(y)
    weights = check_weights(sample_weight, len(y))
    if validation is not None:
        if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
            raise ValueError(f"validation must be None or a pair (X, y), not a {type(validation).__name__}")
        other = np.asarray(validation[1])
        return WeightedRows(X, y, weights), WeightedRows(validation[0], other, np.ones(len(other)))
    if not 0 < validation_size < 1:
        raise ValueError(f"validation_size must be a share between 0 and 1, not {validation_size!r}")
    is_held = hold_out(y, validation_size, is_classifier(estimator), random_state) & (weights > 0)
    if not is_held.any():
        raise ValueError(f"validation_size={validation_size!r} of {len(y)} rows holds none out; give a larger share")
    return WeightedRows(X, y, weights * ~is_held), WeightedRows(X, y, weights * is_held)


def _format_value(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _align(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
