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
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np

from ..progress import open_bar

if TYPE_CHECKING:
    from optuna import Study
    from optuna.distributions import BaseDistribution
    from optuna.samplers import BaseSampler
    from optuna.trial import FrozenTrial

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
_STUDY = "neuralbasis"
_PLAIN = (str, bool, int, float, type(None))  # values that a journal can hold; others are stored as their repr


@dataclass(frozen=True)
class Trial:
    """One trial of settings and its result.

    number : index of the trial, from 0
    settings : name -> value; empty if nothing was changed
    loss : NaN if the trial failed
    seconds : duration of the measurement
    error : reason of the failure, or None
    """

    number: int
    settings: Mapping[str, Any]
    loss: float
    seconds: float
    error: str | None = None


def search(
    measure: Callable[[dict[str, Any]], float],
    space: Mapping[str, Any],
    *,
    n_trials: int = 20,
    time_limit: float | None = None,
    sampler: str = "random",
    storage: str | os.PathLike[str] | None = None,
    random_state: int = 42,
    unchanged: bool = False,
    identity: Mapping[str, str] | None = None,
    verbose: bool = False,
) -> list[Trial]:
    """Measure settings drawn from a space.

    Parameters
    ----------
    measure : takes settings and returns a loss; an exception makes the trial a failed one, with a warning
    space : name -> a list of values, (low, high), or (low, high, "log"); integers if both ends are integers
    n_trials : total number of trials, including those in `storage`
    time_limit : seconds after which no trial starts; the first trial of a search always runs
    sampler : "random", or "tpe", which learns from previous trials
    storage : file of trials; a run with an existing file continues its search
    random_state : seed; the same seed gives the same trials
    unchanged : whether the first trial has empty settings; if it fails, its exception is raised
    identity : name -> text of everything else that the losses depend on; a file with another identity is refused
    verbose : show a progress bar with the smallest loss

    Returns
    -------
    list of Trial

    Examples
    --------
    >>> trials = search(lambda s: (s["x"] - 3) ** 2, {"x": (0.0, 10.0)}, n_trials=50)
    >>> len(trials), abs(best_trial(trials).settings["x"] - 3) < 0.5
    (50, True)
    """
    check_limits(n_trials, time_limit, sampler, random_state)
    mine = {**(identity or {}), "space": repr(dict(space)), "sampler": sampler, "random_state": repr(random_state)}
    with _quiet_optuna():
        dimensions = {name: _read_dimension(name, values) for name, values in space.items()}
        runner = _TrialRunner(_open_study(storage, mine), dimensions, sampler, random_state, unchanged)
        with open_bar(n_trials, "trials", "trial", verbose, min(runner.n_done, n_trials)) as bar:
            end = time.monotonic() + (math.inf if time_limit is None else time_limit)
            while runner.n_done < n_trials and (runner.n_done == 0 or time.monotonic() < end):
                runner.run(measure)
                bar.update()
                bar.set_postfix_str(_describe(runner.list_trials(), end - time.monotonic()))
        return runner.list_trials()


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The trial with the smallest loss; raises with the last reason if all trials failed."""
    done = [trial for trial in trials if trial.error is None]
    if not done:
        raise ValueError(f"none of {len(trials)} trials succeeded; the last one failed with {trials[-1].error}")
    return min(done, key=lambda trial: trial.loss)


@dataclass(frozen=True, eq=False)
class Dimension:
    """One name of a space: its Optuna distribution, and the values of the labels of a list."""

    distribution: BaseDistribution
    values: dict[Any, Any] = field(default_factory=dict)  # label -> value

    def read(self, drawn: Any) -> Any:
        """The value of what Optuna drew."""
        return self.values.get(drawn, drawn)


@dataclass(eq=False)
class _TrialRunner:
    """Draws settings, measures them and stores the trials in a study."""

    study: Study
    dimensions: Mapping[str, Dimension]
    sampler: str
    random_state: int
    unchanged: bool

    @property
    def n_done(self) -> int:
        return len(self._finished())

    def run(self, measure: Callable[[dict[str, Any]], float]) -> None:
        """Run and store the next trial."""
        from optuna.trial import TrialState

        number = self.n_done
        is_unchanged = self.unchanged and number == 0
        self.study.sampler = _make_sampler(self.sampler, self.random_state, number)
        space = {} if is_unchanged else {name: d.distribution for name, d in self.dimensions.items()}
        trial = self.study.ask(space)
        settings, started = self._read(trial.params), time.monotonic()
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
            self.study.tell(trial, loss)
        else:
            self.study.tell(trial, state=TrialState.FAIL)
            warnings.warn(f"trial {number} failed with {error}; the search continues", stacklevel=3)

    def list_trials(self) -> list[Trial]:
        return [
            Trial(
                number, self._read(found.params), math.nan if found.value is None else found.value,
                found.user_attrs["seconds"], found.user_attrs["error"],
            )
            for number, found in enumerate(self._finished())
        ]  # fmt: skip

    def _finished(self) -> list[FrozenTrial]:
        """Trials that were completed or failed; a trial that was killed has no seconds."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state.is_finished() and "seconds" in trial.user_attrs]

    def _read(self, drawn: Mapping[str, Any]) -> dict[str, Any]:
        return {name: dimension.read(drawn[name]) for name, dimension in self.dimensions.items() if name in drawn}


def _open_study(storage: str | os.PathLike[str] | None, identity: Mapping[str, str]) -> Study:
    """The study in a file, or a new one in memory; trials of a killed run are marked as failed."""
    from optuna import create_study
    from optuna.storages import InMemoryStorage, JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    try:
        kept = InMemoryStorage() if storage is None else JournalStorage(JournalFileBackend(os.fspath(storage)))
        study = create_study(storage=kept, study_name=_STUDY, direction="minimize", load_if_exists=True)
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


def _make_sampler(kind: str, random_state: int, number: int) -> BaseSampler:
    from optuna.samplers import RandomSampler, TPESampler

    seed = int(np.random.SeedSequence([random_state, number]).generate_state(1)[0])
    return RandomSampler(seed) if kind == "random" else TPESampler(seed=seed)


def _read_dimension(name: str, choices: Any) -> Dimension:
    """Read one item of a space: a list of values or a range."""
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(choices, list) and choices:
        values = {value if isinstance(value, _PLAIN) else repr(value): value for value in choices}
        return Dimension(CategoricalDistribution(tuple(values)), values)
    if isinstance(choices, tuple) and len(choices) in (2, 3) and _is_range(*choices):
        low, high, is_log = choices[0], choices[1], len(choices) == 3
        if isinstance(low, Integral) and isinstance(high, Integral):
            return Dimension(IntDistribution(int(low), int(high), log=is_log))
        return Dimension(FloatDistribution(float(low), float(high), log=is_log))
    raise ValueError(
        f"space of {name!r} must be a list of values, (low, high) or (low, high, 'log') with low < high (and above 0 "
        f"for 'log'), not {choices!r}"
    )


def _is_range(low: Any, high: Any, kind: Any = None) -> bool:
    is_number = all(isinstance(end, Real) and not isinstance(end, bool) and math.isfinite(end) for end in (low, high))
    return is_number and bool(low < high) and (kind is None or (kind == "log" and bool(low > 0)))


def check_limits(n_trials: Any, time_limit: Any, sampler: Any, random_state: Any) -> None:
    """Raise on the first invalid argument of a search."""
    if not isinstance(n_trials, Integral) or isinstance(n_trials, bool) or n_trials < 1:
        raise ValueError(f"n_trials must be an integer of at least 1, not {n_trials!r}")
    if time_limit is not None and not (isinstance(time_limit, Real) and float(time_limit) > 0):
        raise ValueError(f"time_limit must be None or seconds above 0, not {time_limit!r}")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler must be one of {SAMPLERS}, not {sampler!r}")
    if not isinstance(random_state, Integral) or isinstance(random_state, bool) or int(random_state) < 0:
        raise ValueError(f"random_state must be an integer of at least 0, not {random_state!r}")


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


def _describe(trials: Sequence[Trial], seconds_left: float) -> str:
    """The smallest loss and, if there is a limit, the time left to start trials.

    >>> _describe([Trial(0, {}, 0.5, 1.0)], 12.3), _describe([Trial(0, {}, math.nan, 1.0, "no")], math.inf)
    ('best 0.5, 12 s left', 'all failed')
    """
    losses = [trial.loss for trial in trials if trial.error is None]
    best = f"best {min(losses):.5g}" if losses else "all failed"
    return best if math.isinf(seconds_left) else f"{best}, {max(0, seconds_left):.0f} s left"
