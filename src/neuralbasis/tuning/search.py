"""Search: which settings give the least loss? Trials drawn from a space, kept in a file, gone on with after a stop.

    space   name -> [values] | (low, high) | (low, high, "log"); one value is fixed
    measure settings -> loss, whatever it fits for that
    trials  every setting that was tried, with its loss, its seconds, or why it failed

Knows nothing of models. The home of Optuna: its samplers draw, its journal file remembers. Every draw has a seed of its
own, made of the search's seed and the trial's number, so a search that was stopped ten times makes the same trials.
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

# PAPER §4.3 and appendix: what was searched at random, for each data set, on its validation part.
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
_PLAIN = (str, bool, int, float, type(None))  # values that a journal can hold as they are


@dataclass(frozen=True)
class Trial:
    """One setting and what came of it.

    number : 0 is the first
    settings : name -> value; empty where nothing was changed
    loss : NaN if the trial failed
    seconds : that the measuring took
    error : why it failed, or None
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
    measure : from settings to a loss; whatever it raises makes a failed trial, with a warning, and the search goes on
    space : name -> a list of values, (low, high), or (low, high, "log"); whole numbers where both ends are
    n_trials : in all, those of an earlier run included
    time_limit : seconds after which this run begins no trial, but for the first of a search
    sampler : "random", or "tpe", which learns from the trials before
    storage : a file that keeps the trials; a second run with it goes on where the first one stopped
    random_state : same seed, same trials
    unchanged : is the first trial one with no settings at all? If it fails, its error is the search's.
    identity : what else the losses depend on, by name; a file with another identity is refused
    verbose : show a bar, with the least loss so far

    Examples
    --------
    >>> trials = search(lambda s: (s["x"] - 3) ** 2, {"x": (0.0, 10.0)}, n_trials=50)
    >>> len(trials), abs(best_trial(trials).settings["x"] - 3) < 0.5
    (50, True)
    """
    check_limits(n_trials, time_limit, sampler, random_state)
    mine = {**(identity or {}), "space": repr(dict(space)), "sampler": sampler, "random_state": repr(random_state)}
    with _quiet_optuna():
        dimensions = {name: _read_dimension(name, wish) for name, wish in space.items()}
        desk = _Desk(_open_study(storage, mine), dimensions, sampler, random_state, unchanged)
        with open_bar(n_trials, "trials", "trial", verbose, min(desk.n_done, n_trials)) as bar:
            end = time.monotonic() + (math.inf if time_limit is None else time_limit)
            while desk.n_done < n_trials and (desk.n_done == 0 or time.monotonic() < end):
                desk.run(measure)
                bar.update()
                bar.set_postfix_str(_describe(desk.list_trials(), end - time.monotonic()))
        return desk.list_trials()


def best_trial(trials: Sequence[Trial]) -> Trial:
    """The trial of the least loss; an error that quotes the last reason where all failed."""
    done = [trial for trial in trials if trial.error is None]
    if not done:
        raise ValueError(f"none of {len(trials)} trials succeeded; the last one failed with {trials[-1].error}")
    return min(done, key=lambda trial: trial.loss)


@dataclass(frozen=True, eq=False)
class Dimension:
    """One name of a space: how Optuna draws it, and the value behind what was drawn."""

    drawn: BaseDistribution
    values: dict[Any, Any] = field(default_factory=dict)  # of a list: label -> value

    def read(self, found: Any) -> Any:
        return self.values.get(found, found)


@dataclass(eq=False)
class _Desk:
    """Draws trials, has them measured, files them."""

    study: Study
    dimensions: Mapping[str, Dimension]
    sampler: str
    random_state: int
    unchanged: bool

    @property
    def n_done(self) -> int:
        return len(self._filed())

    def run(self, measure: Callable[[dict[str, Any]], float]) -> None:
        number = self.n_done
        is_unchanged = self.unchanged and number == 0
        self.study.sampler = _make_sampler(self.sampler, self.random_state, number)
        trial = self.study.ask({} if is_unchanged else {name: d.drawn for name, d in self.dimensions.items()})
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
            self.study.tell(trial, state=_failed())
            warnings.warn(f"trial {number} failed with {error}; the search goes on", stacklevel=3)

    def list_trials(self) -> list[Trial]:
        return [
            Trial(
                number, self._read(found.params), math.nan if found.value is None else found.value,
                found.user_attrs["seconds"], found.user_attrs["error"],
            )
            for number, found in enumerate(self._filed())
        ]  # fmt: skip

    def _filed(self) -> list[Any]:
        """Trials that came to an end; one that was killed has no seconds."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state.is_finished() and "seconds" in trial.user_attrs]

    def _read(self, found: Mapping[str, Any]) -> dict[str, Any]:
        return {name: dimension.read(found[name]) for name, dimension in self.dimensions.items() if name in found}


def _open_study(storage: str | os.PathLike[str] | None, identity: Mapping[str, str]) -> Study:
    """The study of a file, or one in memory; what a killed run left is closed."""
    from optuna import create_study
    from optuna.storages import InMemoryStorage, JournalStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import TrialState

    try:
        kept = InMemoryStorage() if storage is None else JournalStorage(JournalFileBackend(os.fspath(storage)))
        study = create_study(storage=kept, study_name=_STUDY, direction="minimize", load_if_exists=True)
    except (ValueError, KeyError, TypeError) as error:  # lines that are no JSON, or not Optuna's
        raise ValueError(
            f"storage {os.fspath(storage or '')!r} is not a file of trials; name a new file, or one that a search wrote"
        ) from error
    known = study.user_attrs.get("identity", identity)
    others = sorted(name for name in {*known, *identity} if known.get(name) != identity.get(name))
    if others:
        raise ValueError(
            f"storage {os.fspath(storage or '')!r} holds trials of another search: {', '.join(others)} differ; go on "
            "with what it was begun with, or name another file"
        )
    study.set_user_attr("identity", dict(identity))
    for trial in study.get_trials(states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=_failed())
    return study


def _failed() -> Any:
    from optuna.trial import TrialState

    return TrialState.FAIL


def _make_sampler(kind: str, random_state: int, number: int) -> Any:
    from optuna.samplers import RandomSampler, TPESampler

    seed = int(np.random.SeedSequence([random_state, number]).generate_state(1)[0])
    return RandomSampler(seed) if kind == "random" else TPESampler(seed=seed)


def _read_dimension(name: str, wish: Any) -> Dimension:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if isinstance(wish, list) and wish:
        values = {value if isinstance(value, _PLAIN) else repr(value): value for value in wish}
        return Dimension(CategoricalDistribution(tuple(values)), values)
    if isinstance(wish, tuple) and len(wish) in (2, 3) and _is_range(*wish):
        low, high, is_log = wish[0], wish[1], len(wish) == 3
        if isinstance(low, Integral) and isinstance(high, Integral):
            return Dimension(IntDistribution(int(low), int(high), log=is_log))
        return Dimension(FloatDistribution(float(low), float(high), log=is_log))
    raise ValueError(
        f"space of {name!r} must be a list of values, (low, high) or (low, high, 'log') with low < high (and above 0 "
        f"for 'log'), not {wish!r}"
    )


def _is_range(low: Any, high: Any, kind: Any = None) -> bool:
    is_number = all(isinstance(end, Real) and not isinstance(end, bool) and math.isfinite(end) for end in (low, high))
    return is_number and bool(low < high) and (kind is None or (kind == "log" and bool(low > 0)))


def check_limits(n_trials: Any, time_limit: Any, sampler: Any, random_state: Any) -> None:
    """One clear error for the first argument of a search that is wrong."""
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
    """Optuna without a line for every trial: the bar says it."""
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
    """The least loss so far and, where there is a limit, how long trials will still be begun.

    >>> _describe([Trial(0, {}, 0.5, 1.0)], 12.3), _describe([Trial(0, {}, math.nan, 1.0, "no")], math.inf)
    ('best 0.5, 12 s left', 'all failed')
    """
    losses = [trial.loss for trial in trials if trial.error is None]
    best = f"best {min(losses):.5g}" if losses else "all failed"
    return best if math.isinf(seconds_left) else f"{best}, {max(0, seconds_left):.0f} s left"
