"""Search a space of settings for the smallest loss. Independent of models; the only module that imports Optuna.

    space   name -> [values] | (low, high) | (low, high, "log"); a list of one value is fixed
    measure settings -> loss
    trials  all tried settings, each with its loss and seconds, or the reason of its failure

Optuna's samplers draw the settings, and its journal file stores the trials. Every draw is seeded by the seed of the
search and the number of the trial, so an interrupted and resumed search makes the same trials.
"""

from __future__ import annotations

import math
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..checks import is_integer, is_number, require, require_integer
from ..progress import open_bar

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution

    Dimension: TypeAlias = tuple[BaseDistribution, dict[Any, Any]]  # and the values of the labels of a list
    Dimensions: TypeAlias = dict[str, Dimension]

# PAPER §4.3 and appendix: ranges of the random search, which used the validation part of each data set.
DROPOUTS = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
PAPER_RANGES: dict[str, Any] = {
    "learning_rate": (1e-5, 1.0, "log"),
    "weight_decay": (1e-10, 1.0, "log"),
    "output_penalty": (1e-7, 100.0, "log"),
    "dropout": DROPOUTS,
    "basis_dropout": DROPOUTS,
}
SAMPLERS = ("random", "tpe")
_PLAIN = (str, bool, int, float, type(None))  # values that a journal can hold; others are stored as their repr


@dataclass(frozen=True)
class Trial:
    """One trial of settings and its result."""

    number: int  # from 0
    settings: Mapping[str, Any]  # empty if nothing was changed
    loss: float  # NaN if the trial failed
    seconds: float
    error: str | None = None  # reason of the failure


def search(
    measure: Callable[[dict[str, Any]], float], space: Mapping[str, Any], *, n_trials: int = 20,
    time_limit: float | None = None, sampler: str = "random", storage: str | os.PathLike[str] | None = None,
    random_state: int = 42, unchanged: bool = False, identity: Mapping[str, str] | None = None, verbose: bool = False,
) -> list[Trial]:  # fmt: skip
    """Measure settings drawn from a space, a mapping from a name to values as described above.

    An exception of `measure` makes the trial a failed one, with a warning. `n_trials` includes those in the file
    `storage`; a run with an existing file continues its search, unless its `identity` (everything else that the losses
    depend on) differs. No trial but the first starts after `time_limit` seconds. If `unchanged`, the first trial has
    empty settings, and its exception is raised. `tune` documents the other parameters.

    >>> trials = search(lambda s: (s["x"] - 3) ** 2, {"x": (0.0, 10.0)}, n_trials=50)
    >>> len(trials), abs(best_trial(trials).settings["x"] - 3) < 0.5
    (50, True)
    """
    check_limits(n_trials, time_limit, sampler, random_state)
    mine = {**(identity or {}), "space": repr(dict(space)), "sampler": sampler, "random_state": repr(random_state)}
    with _quiet_optuna():
        from optuna.samplers import RandomSampler, TPESampler

        dimensions = {name: _read_dimension(name, values) for name, values in space.items()}
        study = _open_study(storage, mine)
        trials = _list_trials(study, dimensions)
        with open_bar(n_trials, "trials", "trial", verbose, min(len(trials), n_trials)) as bar:
            end = time.monotonic() + (math.inf if time_limit is None else time_limit)
            while len(trials) < n_trials and (not trials or time.monotonic() < end):
                seed = int(np.random.SeedSequence([random_state, len(trials)]).generate_state(1)[0])
                study.sampler = RandomSampler(seed) if sampler == "random" else TPESampler(seed=seed)
                _run_trial(study, measure, dimensions, len(trials), is_unchanged=unchanged and not trials)
                trials = _list_trials(study, dimensions)
                bar.update()
                losses = [trial.loss for trial in trials if trial.error is None]
                best = f"best {min(losses):.5g}" if losses else "all failed"
                left = "" if math.isinf(end) else f", {max(0, end - time.monotonic()):.0f} s left"
                bar.set_postfix_str(best + left)
        return trials


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The trial with the smallest loss; raises with the last reason if all trials failed."""
    done = [trial for trial in trials if trial.error is None]
    if not done:
        raise ValueError(f"none of {len(trials)} trials succeeded; the last one failed with {trials[-1].error}")
    return min(done, key=lambda trial: trial.loss)


def _run_trial(
    study: Study, measure: Callable[[dict[str, Any]], float], dimensions: Dimensions, number: int, is_unchanged: bool
) -> None:
    """Draw settings, measure them and store the trial."""
    from optuna.trial import TrialState

    trial = study.ask({} if is_unchanged else {name: distribution for name, (distribution, _) in dimensions.items()})
    settings, started = _read_settings(trial.params, dimensions), time.monotonic()
    loss, error = math.nan, None
    try:
        loss = float(measure(settings))
        if not math.isfinite(loss):
            error = f"a loss of {loss}"
    except Exception as problem:
        if is_unchanged:
            raise
        error = f"{type(problem).__name__}: {' '.join(str(problem).split())}"
    trial.set_user_attr("error", error)
    trial.set_user_attr("seconds", time.monotonic() - started)
    if error is None:
        study.tell(trial, loss)
    else:
        study.tell(trial, state=TrialState.FAIL)
        warnings.warn(f"trial {number} failed with {error}; the search continues", stacklevel=3)


def _list_trials(study: Study, dimensions: Dimensions) -> list[Trial]:
    """Trials that were completed or failed; a trial that was killed has no seconds."""
    found = study.get_trials(deepcopy=False)
    finished = [trial for trial in found if trial.state.is_finished() and "seconds" in trial.user_attrs]
    return [
        Trial(
            number, _read_settings(trial.params, dimensions), math.nan if trial.value is None else trial.value,
            trial.user_attrs["seconds"], trial.user_attrs["error"],
        )
        for number, trial in enumerate(finished)
    ]  # fmt: skip


def _read_settings(drawn: Mapping[str, Any], dimensions: Dimensions) -> dict[str, Any]:
    """The values of what Optuna drew."""
    return {name: values.get(drawn[name], drawn[name]) for name, (_, values) in dimensions.items() if name in drawn}


def _open_study(storage: str | os.PathLike[str] | None, identity: Mapping[str, str]) -> Study:
    """The study in a file, or a new one in memory; trials of a killed run are marked as failed."""
    from optuna import create_study
    from optuna.storages import InMemoryStorage, JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    try:
        kept = InMemoryStorage() if storage is None else JournalStorage(JournalFileBackend(os.fspath(storage)))
        study = create_study(storage=kept, study_name="neuralbasis", direction="minimize", load_if_exists=True)
    except (ValueError, KeyError, TypeError) as error:  # lines that are not JSON, or not Optuna's
        raise ValueError(
            f"storage {os.fspath(storage or '')!r} is not a file of trials; name a new file, or one that a search wrote"
        ) from error
    known = study.user_attrs.get("identity", identity)
    others = sorted(name for name in {*known, *identity} if known.get(name) != identity.get(name))
    if others:
        raise ValueError(
            f"storage {os.fspath(storage or '')!r} holds trials of another search: {', '.join(others)} differ; use the "
            "same as before, or name another file"
        )
    study.set_user_attr("identity", dict(identity))
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.FAIL)
    return study


def _read_dimension(name: str, choices: Any) -> Dimension:
    """Read one item of a space: a list of values or a range."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(choices, list) and choices:
        values = {value if isinstance(value, _PLAIN) else repr(value): value for value in choices}
        return CategoricalDistribution(tuple(values)), values
    if isinstance(choices, tuple) and len(choices) in (2, 3) and _is_range(*choices):
        low, high, is_log = choices[0], choices[1], len(choices) == 3
        if is_integer(low) and is_integer(high):
            return IntDistribution(int(low), int(high), log=is_log), {}
        return FloatDistribution(float(low), float(high), log=is_log), {}
    raise ValueError(
        f"space of {name!r} must be a list of values, (low, high) or (low, high, 'log') with low < high (and above 0 "
        f"for 'log'), not {choices!r}"
    )


def _is_range(low: Any, high: Any, kind: Any = None) -> bool:
    is_increasing = is_number(low) and is_number(high) and bool(low < high)
    return is_increasing and (kind is None or (kind == "log" and bool(low > 0)))


def check_limits(n_trials: Any, time_limit: Any, sampler: Any, random_state: Any) -> None:
    """Raise on the first invalid argument of a search."""
    require_integer("n_trials", n_trials, 1)
    require("time_limit", time_limit, lambda v: isinstance(v, Real) and float(v) > 0, "seconds above 0", "None or ")
    require("sampler", sampler, lambda v: v in SAMPLERS, f"one of {SAMPLERS}")
    require_integer("random_state", random_state, 0)


@contextmanager
def _quiet_optuna() -> Iterator[None]:
    """Silence Optuna's log line per trial, since the progress bar shows it."""
    try:
        from optuna import logging
    except ImportError as error:
        raise ImportError('a search needs optuna: pip install "neuralbasis[tune]"') from error
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)
