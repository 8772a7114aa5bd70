"""`tune` chooses parameters of an estimator on rows that are held out once, then fits on all rows.

In: an estimator, a table and a space of parameters. Out: a `Tuning` record. Held-out rows get weight 0 in the fit,
which equals leaving them out and works for every kind of table. The first trial is the unchanged estimator, so the
chosen parameters are never worse on the held-out rows.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer

from ..checks import require
from ..data.target import check_weights, hold_out
from ..model.summary import to_plain
from ..printable import escape
from ..settings import NetworkConfig, nest
from .search import PAPER_RANGES, Trial, best_trial, check_limits, search

if TYPE_CHECKING:
    from ..estimators import Estimator

# Parameters that can matter at the defaults; docs/defaults.md reports how little a search gains.
DEFAULT_SPACE: dict[str, Any] = {
    "smoothness": (0.1, 10.0, "log"),
    "learning_rate": (0.005, 0.08, "log"),
    "interactions": [0, "auto"],
    "max_bins": [17, 49, 193],
    "network__n_bases": [16, 32, 64],
}
MIN_PROBABILITY = 1e-15
MAX_LISTED = 10  # trials to print
Rows = tuple[Any, np.ndarray, np.ndarray]  # a table, its target and the weights of its rows
_NEUTRAL = ("verbose", "n_jobs", "device", "callbacks")  # parameters that do not change the loss


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """Result of a search. It prints as a table of the best trials.

    Parameters
    ----------
    estimator : the best settings, fitted to all rows
    best : the best trial
    trials : all trials, in their order
    loss_name : what was measured
    drawn : names of the parameters that were drawn

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, tune
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> base = NeuralBasisRegressor(max_steps=20, outer_bags=2)
    >>> found = tune(base, x, x[:, 0], {"smoothness": (0.1, 10.0, "log")}, n_trials=2, verbose=False)
    >>> len(found.trials), found.drawn
    (2, ('smoothness',))
    """

    estimator: Estimator  # with the best settings, fitted unless `refit=False`
    best: Trial  # the one with the smallest loss
    trials: list[Trial]
    loss_name: str
    drawn: tuple[str, ...]  # parameters that had more than one value to draw from

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
            values = [t.settings.get(name, "unchanged") for name in self.drawn]
            texts = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in values]
            rows.append([str(t.number), loss, f"{t.seconds:.1f}", *texts])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        seconds = sum(t.seconds for t in self.trials)
        best = f"the best is trial {self.best.number}"
        lines = [f"{len(self.trials)} trials, {len(failed)} failed, {seconds:.0f} s; {best}", ""]
        for row in rows:
            lines.append("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)))
        if len(ranked) > MAX_LISTED:
            lines.append(f"… and {len(ranked) - MAX_LISTED} more")
        lines += [f"trial {t.number} failed with {t.error}" for t in failed]
        return "\n".join(map(escape, lines))

    __repr__ = __str__


def tune(
    estimator: Estimator, X: Any, y: Any, space: str | Mapping[str, Any] = "default",
    *, n_trials: int = 20, time_limit: float | None = None, sample_weight: Any = None,
    validation: tuple[Any, Any] | None = None, validation_size: float = 0.2, scoring: str | Callable | None = None,
    sampler: str = "random", storage: str | os.PathLike[str] | None = None, refit: bool = True, verbose: bool = True,
    random_state: int = 42,
) -> Tuning:  # fmt: skip
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
    if scoring is None:
        loss_name = "log loss" if is_classifier(estimator) else "RMSE"
    else:
        loss_name = f"−{scoring if isinstance(scoring, str) else to_plain(scoring)}"
    parameters = {name: to_plain(v) for name, v in estimator.get_params(deep=False).items() if name not in _NEUTRAL}
    rows = [part.tolist() for _, *parts in (train, held) for part in parts]
    identity = {  # everything that the losses depend on except the settings
        "estimator": f"{type(estimator).__name__} {parameters}",
        "rows": hashlib.sha256(repr(rows).encode()).hexdigest(),
        "scoring": loss_name,
    }
    trials = search(
        lambda settings: _compute_loss(clone(estimator).set_params(**settings).fit(*train), *held, scoring),
        chosen, n_trials=n_trials, time_limit=time_limit, sampler=sampler, storage=storage, random_state=random_state,
        unchanged=True, identity=identity, verbose=verbose,
    )  # fmt: skip
    best = best_trial(trials)
    tuned = clone(estimator).set_params(**best.settings)
    if refit:
        tuned.fit(X, y, sample_weight=sample_weight)
    drawn = tuple(name for name, choices in chosen.items() if len(choices) > 1)
    return Tuning(tuned, best, trials, loss_name, drawn)


def _read_space(space: str | Mapping[str, Any], estimator: Estimator) -> Mapping[str, Any]:
    """The space as a checked mapping; a named space without the parameters that are not at their default."""
    known = estimator.get_params()
    if isinstance(space, str):
        if space not in ("default", "paper"):
            raise ValueError(f"space must be 'default', 'paper' or a dict of parameters, not {space!r}")
        named = DEFAULT_SPACE
        if space == "paper":
            fixed = {name: [value] for name, value in nest(NetworkConfig.PRESETS["paper"]).items()}
            # DIFF: the output penalty is a sum over the terms, the paper's is a mean; the range suits both.
            named = {**fixed, "outer_bags": [1], **nest(PAPER_RANGES)}
        defaults = type(estimator)().get_params()
        space = {name: choices for name, choices in named.items() if known[name] == defaults[name]}
    if unknown := [name for name in space if name not in known]:
        raise ValueError(
            f"space must name parameters of {type(estimator).__name__}, such as 'smoothness', not "
            f"{', '.join(map(repr, unknown))}"
        )
    if not space:
        raise ValueError("space leaves nothing to draw: give a dict of parameters, or leave some at their defaults")
    return space


def _split_rows(
    estimator: Estimator, X: Any, y: Any, sample_weight: Any,
    validation: tuple[Any, Any] | None, validation_size: float, random_state: int,
) -> tuple[Rows, Rows]:  # fmt: skip
    """Rows to fit on and rows to measure on; without `validation`, both are the same table with other weights."""
    y = np.asarray(y)
    weights = check_weights(sample_weight, len(y))
    if validation is not None:
        if not (isinstance(validation, (tuple, list)) and len(validation) == 2):
            raise ValueError(f"validation must be None or a pair (X, y), not a {type(validation).__name__}")
        other = np.asarray(validation[1])
        return (X, y, weights), (validation[0], other, np.ones(len(other)))
    require("validation_size", validation_size, lambda v: 0 < v < 1, "a share between 0 and 1")
    is_held = hold_out(y, validation_size, is_classifier(estimator), random_state) & (weights > 0)
    if not is_held.any():
        raise ValueError(f"validation_size={validation_size!r} of {len(y)} rows holds none out; give a larger share")
    return (X, y, weights * ~is_held), (X, y, weights * is_held)


def _compute_loss(model: Any, X: Any, y: np.ndarray, weights: np.ndarray, scoring: str | Callable | None) -> float:
    """Loss of a fitted estimator on held-out rows."""
    if scoring is not None:
        return -float(get_scorer(scoring)(model, X, y, sample_weight=weights))
    if not is_classifier(model):
        return math.sqrt(np.average((y - model.predict(X)) ** 2, weights=weights))
    codes = np.searchsorted(model.classes_, y).clip(max=len(model.classes_) - 1)
    probability = model.predict_proba(X)[np.arange(len(codes)), codes] * (model.classes_[codes] == y)
    return float(np.average(-np.log(np.maximum(probability, MIN_PROBABILITY)), weights=weights))
