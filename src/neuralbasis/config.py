"""FitConfig: every parameter of a fit, typed and frozen. Nothing below the estimators receives the estimator itself.

`FitConfig.read` checks an estimator's parameters and raises an error for the first that is wrong or contradicts
another. `resolve` sets the number of members, which depends on the table. `warn_unread` names parameters that a fit
ignores. Defaults that depend on the rows or the network (knots, steps, batch sizes) are in `training.defaults`.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state

from .data.memory import read_limit
from .encoding.axis import SCALINGS
from .model.summary import to_plain

if TYPE_CHECKING:
    from .networks import Basis

LARGE_TABLE = 100_000  # rows from which there are fewer members and, for classes, more pairs
MAX_TIED, MIN_MEMBERS = 1e6, 2  # terms × members × classes above which there are fewer members, and the fewest


@dataclass(frozen=True)
class Preset:
    """How much work "auto" stands for.

    members, members_large, members_wide : members of an ensemble; for large tables; for very wide sparse tables
    steps, pairs : multiples of the default number of steps and of automatic pairs
    coarser : how many of the finest grids of interactions are left out
    """

    members: int
    members_large: int
    members_wide: int
    steps: float
    pairs: float
    coarser: int


PRESETS = {
    "fast": Preset(members=3, members_large=2, members_wide=2, steps=0.35, pairs=0.4, coarser=1),
    "default": Preset(members=7, members_large=4, members_wide=3, steps=1.0, pairs=1.0, coarser=0),
    "best": Preset(members=14, members_large=7, members_wide=7, steps=2.0, pairs=2.0, coarser=0),
}

# PAPER §4.3: the published settings, for comparison with our defaults.
PAPER = {
    "scaling": "minmax", "engine": "exact", "hidden": (256, 128, 128), "n_bases": 100, "n_interaction_bases": 200,
    "fourier": 0, "batch_norm": True, "tied_classes": True, "staged": False, "outer_bags": 1, "smoothness": 0.0,
    "refine": False,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class FitConfig:
    """Parameters of a fit, documented in `parameters.EstimatorParameters`; None stands for their "auto".

    estimator : name of the estimator's class
    classifier : whether the target has classes
    given : the parameters as the user gave them
    changed : names of parameters that are not at their defaults
    """

    estimator: str
    classifier: bool
    given: Mapping[str, Any]
    changed: frozenset[str]
    preset: str
    feature_names: Sequence[str] | None
    feature_types: Sequence[Any] | None
    absent_value: float
    max_bins: int
    knots: Mapping[str, Sequence[float]] | None
    max_interaction_bins: int | None
    interactions: Any
    triples: Any
    exclude: Sequence[Any] | None
    max_terms: int | str | None
    heredity: str | None
    scaling: str
    engine: str
    basis: str | Callable[..., Basis]
    n_bases: int | None
    n_interaction_bases: int
    hidden: Sequence[int]
    n_subnets: int
    fourier: int
    batch_norm: bool
    dropout: float
    basis_dropout: float
    tied_classes: bool | None
    staged: bool
    refine: bool
    smoothness: float | None
    output_penalty: float
    weight_decay: float
    learning_rate: float
    batch_size: int | None
    max_steps: int | None
    max_epochs: float | None
    validation_size: float
    outer_bags: Any  # an integer once resolved
    early_stopping_rounds: int
    early_stopping_tolerance: float | None
    time_limit: float | None
    callbacks: Sequence[Callable[..., Any]] | None
    verbose: bool
    n_jobs: int | None
    device: str
    memory_limit: int | str | None
    cache_dir: str | os.PathLike[str] | None
    keep_cache: bool
    random_state: int | np.random.RandomState | None
    checkpoint_dir: str | os.PathLike[str] | None
    checkpoint_every: float
    warm_start: bool

    @classmethod
    def read(cls, estimator: BaseEstimator, before: Mapping[str, Any] | None = None) -> FitConfig:
        """The checked parameters of an estimator.

        Parameters
        ----------
        estimator : NeuralBasisRegressor, NeuralBasisClassifier
        before : plain parameters of an earlier fit; those with the same value do not count as changed
        """
        given = estimator.get_params(deep=False)
        values: dict[str, Any] = {
            name: None if name in _AUTOMATIC and _is_auto(value) else value for name, value in given.items()
        }
        config = cls(
            estimator=type(estimator).__name__, classifier=is_classifier(estimator), given=MappingProxyType(given),
            changed=frozenset(_list_changed(type(estimator), given, before)),
            **values,
        )  # fmt: skip
        check_config(config)
        return config

    def resolve(self, n_rows: int, wide: bool = False, n_numbers: float = 1, rank: int = 0) -> FitConfig:
        """The same with the number of members as an integer.

        Parameters
        ----------
        n_rows : rows of the table
        wide : whether the table is very wide and sparse
        n_numbers : terms × classes
        rank : of this process; only the first shows progress bars
        """
        preset, members = PRESETS[self.preset], self.outer_bags
        if members is None:
            usual = preset.members if n_rows < LARGE_TABLE else preset.members_large
            members = min(usual, preset.members_wide if wide else max(MIN_MEMBERS, int(MAX_TIED // n_numbers)))
        return replace(self, outer_bags=members, verbose=bool(self.verbose) and rank == 0)

    def without_terms(self) -> FitConfig:
        """The same without requests for terms: an update keeps those of the model."""
        return replace(self, interactions=0, triples=0, exclude=None)

    @property
    def axis_scaling(self) -> str:
        return "quantile" if self.scaling == "auto" else self.scaling

    @property
    def cache_path(self) -> Path | None:
        """Folder of the cache: as given, or beside the checkpoints; None is a temporary folder."""
        if self.cache_dir is not None:
            return Path(self.cache_dir)
        return None if self.checkpoint_dir is None else Path(self.checkpoint_dir, "cache")


def _list_changed(kind: type, given: Mapping[str, Any], before: Mapping[str, Any] | None) -> set[str]:
    """Names of parameters that are neither at their defaults nor as before."""
    usual = {name: to_plain(each.default) for name, each in signature(kind).parameters.items()}
    now = {name: to_plain(value) for name, value in given.items()}
    return {name for name, value in now.items() if value not in (usual[name], (before or usual).get(name))}


_COUNTS = {
    "max_bins": 2, "n_interaction_bases": 1, "n_subnets": 1, "fourier": 0, "early_stopping_rounds": 0,
}  # fmt: skip
# Parameters whose "auto" is None here. `max_terms` is not one of them: its None means all columns.
_AUTOMATIC = (
    "max_interaction_bins", "n_bases", "tied_classes", "smoothness", "batch_size", "max_steps", "outer_bags",
    "early_stopping_tolerance",
)  # fmt: skip
_AUTOMATIC_COUNTS = {"batch_size": 1, "max_steps": 1, "max_interaction_bins": 2, "outer_bags": 1, "n_bases": 1}
_SHARES = ("dropout", "basis_dropout")
_AMOUNTS = ("output_penalty", "weight_decay")
_CHOICES = {
    "preset": tuple(PRESETS),
    "scaling": ("auto", *SCALINGS),
    "engine": ("grid", "exact"),
    "heredity": ("strong", "weak", None),
}
_FLAGS = ("batch_norm", "staged", "refine", "verbose", "keep_cache", "warm_start")


def check_config(config: FitConfig) -> None:
    """Raise an error for the first parameter that is wrong or contradicts another."""
    for name, smallest in _COUNTS.items():
        _require_integer(config, name, smallest)
    for name in _SHARES:
        _require(config, name, lambda v: _is_number(v) and 0 <= v < 1, "a number from 0 to below 1")
    for name in _AMOUNTS:
        _require(config, name, lambda v: _is_number(v) and v >= 0, "a number of at least 0")
    for name, choices in _CHOICES.items():
        _require(config, name, choices.__contains__, f"one of {choices}")
    for name in _FLAGS:
        _require(config, name, _is_flag, "True or False")
    _require(config, "tied_classes", lambda v: _is_auto(v) or _is_flag(v), "True, False or 'auto'")
    for name, smallest in _AUTOMATIC_COUNTS.items():
        if not _is_auto(config.given[name]):
            _require_integer(config, name, smallest, "'auto' or ")
    if config.max_terms is not None and config.max_terms != "auto":
        _require_integer(config, "max_terms", 1, "None, 'auto' or ")
    _require(config, "knots", lambda v: v is None or isinstance(v, Mapping), "None or a mapping of columns")
    _require(config, "absent_value", _is_number_or_missing, "a finite number or NaN")
    _require(config, "learning_rate", lambda v: _is_number(v) and v > 0, "a number above 0")
    _require(config, "validation_size", _is_validation_size, "a share below 1 or a number of rows")
    _require(config, "basis", lambda v: v in ("mlp", "spline") or callable(v), "'mlp', 'spline' or a callable")
    _require(config, "hidden", _is_sizes, "a sequence of positive integers")
    _require(config, "max_epochs", _is_none_or_positive, "None or a number above 0")
    _require(config, "time_limit", _is_none_or_positive, "None or seconds above 0")
    for name in ("smoothness", "early_stopping_tolerance"):
        _require(config, name, lambda v: _is_auto(v) or (_is_number(v) and v >= 0), "'auto' or >= 0")
    _check_run(config)
    _check_contradictions(config)


def _check_run(config: FitConfig) -> None:
    """Parameters that concern the run and not the model."""
    read_limit(config.memory_limit)
    for name in ("cache_dir", "checkpoint_dir"):
        _require(config, name, lambda v: isinstance(v, (str, os.PathLike, type(None))), "None or a folder")
    _require(config, "checkpoint_every", lambda v: _is_number(v) and v >= 0, "seconds of at least 0")
    _require(config, "callbacks", _is_none_or_callables, "None or a list of callables")
    if config.n_jobs is not None and (not _is_integer(config.n_jobs) or config.n_jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for all cores, not {config.n_jobs!r}")
    try:
        check_random_state(config.random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState: {error}"
        ) from None
    try:
        torch.zeros(1, device=torch.device(config.device)).cpu()
    except (TypeError, RuntimeError, AssertionError) as error:
        reason = f"{config.device!r} ({str(error).splitlines()[0]})"
        raise ValueError(f"device must be 'cpu' or a torch device of this machine, not {reason}") from None


def _check_contradictions(config: FitConfig) -> None:
    if config.engine == "exact" and config.smoothness:
        raise ValueError(
            f"smoothness={config.smoothness!r} contradicts engine='exact': only the grid engine can smooth; set "
            "smoothness=0 or engine='grid'"
        )
    if config.max_epochs is not None and config.max_steps is not None:
        raise ValueError("max_steps and max_epochs contradict each other: give one of them")
    if config.keep_cache and config.cache_dir is None:
        raise ValueError("keep_cache=True needs a cache_dir: a cache in a temporary folder would never be found again")


# Kind of fit -> parameters that it never reads. Kinds combine: an update may use splines. Parameters of something that
# was not requested (pairs with interactions=0, checkpoints without a folder) are not listed.
UNREAD: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "wide": (
        "max_interaction_bins", "heredity", "n_bases", "n_interaction_bases", "hidden", "n_subnets", "fourier",
        "batch_norm", "dropout", "basis_dropout", "staged", "refine", "smoothness", "learning_rate",
    ),
    "other basis": ("hidden", "fourier", "batch_norm", "dropout"),
    "no validation": ("early_stopping_rounds", "early_stopping_tolerance"),
    "update": (
        "feature_types", "max_bins", "knots", "max_interaction_bins", "interactions", "triples", "exclude", "max_terms",
        "heredity", "scaling", "staged", "cache_dir", "keep_cache", "checkpoint_dir", "checkpoint_every",
    ),
})  # fmt: skip
_REASONS = {
    "wide": "a table with this many columns, nearly all of whose values are absent, is fitted with a network and rates "
    "of its own; leave them at their defaults, or set scaling='quantile', which fits every term as in other tables and "
    "needs far more memory",
    "other basis": "only basis='mlp' has a network; leave them at their defaults, or set basis='mlp'",
    "no validation": "validation_size=0 holds out no rows to stop by; set validation_size to a share such as 0.15",
    "update": "an update keeps the knots and terms of the model, reads its rows into memory and writes no checkpoints; "
    "fit a new model to change them",
}


def warn_unread(config: FitConfig, kind: str = "", stacklevel: int = 3) -> None:
    """Warn once about changed parameters that this fit never reads.

    Parameters
    ----------
    kind : "wide", "update", or "" for all other fits; other bases and fits without validation are found in the config
    stacklevel : see `warnings.warn`
    """
    kinds = [kind, *(["other basis"] if config.basis != "mlp" else [])]
    kinds += ["no validation"] if config.validation_size == 0 else []
    parts = []
    for each in kinds:
        if found := [name for name in UNREAD.get(each, ()) if name in config.changed]:
            listed = " and ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
            parts.append(f"{listed} {'has' if len(found) == 1 else 'have'} no effect: {_REASONS[each]}")
    if parts:
        warnings.warn(". ".join(parts), UserWarning, stacklevel=stacklevel)


def _require(config: FitConfig, name: str, is_right: Callable[[Any], bool], expected: str) -> None:
    value = config.given[name]
    if not is_right(value):
        raise ValueError(f"{name} must be {expected}, not {value!r}")


def _require_integer(config: FitConfig, name: str, smallest: int, others: str = "") -> None:
    expected = f"{others}an integer of at least {smallest}"
    _require(config, name, lambda v: _is_integer(v) and v >= smallest, expected)


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def _is_flag(value: Any) -> bool:
    return isinstance(value, (bool, np.bool_, int))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def _is_number_or_missing(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not math.isinf(value)


def _is_none_or_positive(value: Any) -> bool:
    return value is None or (_is_number(value) and value > 0)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_validation_size(value: Any) -> bool:
    return _is_number(value) and (bool(0 <= value < 1) or (_is_integer(value) and bool(value >= 1)))


def _is_sizes(value: Any) -> bool:
    return isinstance(value, Sequence) and all(_is_integer(size) and size > 0 for size in value)


def _is_none_or_callables(value: Any) -> bool:
    return value is None or (isinstance(value, Sequence) and all(map(callable, value)))
