"""FitConfig: every parameter of a fit, typed and frozen. Nothing below the estimators receives the estimator itself.

`FitConfig.read` checks an estimator's parameters and raises an error for the first that is wrong or contradicts
another. `resolve` sets the number of members, which depends on the table. `warn_unread` names parameters that a fit
ignores. Defaults that depend on the rows or the network (knots, steps, batch sizes) are in `training.defaults`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, is_classifier
from sklearn.utils import check_random_state

from .checks import is_auto, is_integer, is_number, require, require_integer
from .model.summary import to_plain
from .settings import NetworkConfig, StorageConfig, flatten

LARGE_TABLE = 100_000  # rows from which there are fewer members, more steps of pairs and, for classes, more pairs
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
    "default": Preset(members=7, members_large=2, members_wide=3, steps=1.0, pairs=1.0, coarser=0),
    "best": Preset(members=14, members_large=4, members_wide=7, steps=2.0, pairs=2.0, coarser=0),
}


@dataclass(frozen=True, eq=False)
class FitConfig:
    """Parameters of a fit, documented in `parameters.EstimatorParameters`; None stands for their "auto".

    estimator : name of the estimator's class
    classifier : whether the target has classes
    given : the parameters as the user gave them, with all settings of the network and of storage beside them
    changed : names of parameters that are not at their defaults
    interactions, triples : pairs and triples that `interactions` of the estimator requests
    """

    estimator: str
    classifier: bool
    given: Mapping[str, Any]
    changed: frozenset[str]
    network: NetworkConfig
    storage: StorageConfig
    feature_names: Sequence[str] | None
    feature_types: Sequence[Any] | Mapping[str, Any] | None
    max_bins: int
    max_interaction_bins: int | None
    interactions: Any
    triples: Any
    exclude: Sequence[Any] | None
    validation_size: float
    outer_bags: Any  # an integer once resolved
    max_terms: int | str | None
    smoothness: float | None
    boosted_steps: bool
    learning_rate: float
    max_steps: int | None
    early_stopping_rounds: int
    time_limit: float | None
    callbacks: Sequence[Callable[..., Any]] | None
    preset: str
    verbose: bool
    n_jobs: int | None
    device: str
    random_state: int | np.random.RandomState | None
    warm_start: bool

    @classmethod
    def read(cls, estimator: BaseEstimator, before: Mapping[str, Any] | None = None) -> FitConfig:
        """The checked parameters of an estimator.

        Parameters
        ----------
        estimator : NeuralBasisRegressor, NeuralBasisClassifier
        before : plain parameters of an earlier fit; those with the same value do not count as changed
        """
        values = estimator.get_params(deep=False)
        given = flatten(values)
        pairs, triples = _split_orders(values["interactions"])
        values |= {name: None for name in _AUTOMATIC if is_auto(values[name])}
        values |= {"interactions": pairs, "triples": triples}
        values |= {"network": NetworkConfig.read(values["network"]), "storage": StorageConfig.read(values["storage"])}
        config = cls(
            estimator=type(estimator).__name__, classifier=is_classifier(estimator), given=MappingProxyType(given),
            changed=frozenset(_list_changed(type(estimator), given, before)), **values,
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
        if members is None and not self.network.staged and not wide:
            members = 1  # PAPER: one model
        elif members is None:
            usual = preset.members if n_rows < LARGE_TABLE else preset.members_large
            members = min(usual, preset.members_wide if wide else max(MIN_MEMBERS, int(MAX_TIED // n_numbers)))
        return replace(self, outer_bags=members, verbose=bool(self.verbose) and rank == 0)

    def without_terms(self) -> FitConfig:
        """The same without requests for terms: an update keeps those of the model."""
        return replace(self, interactions=0, triples=0, exclude=None)


def _split_orders(interactions: Any) -> tuple[Any, Any]:
    """Requests for pairs and for triples."""
    if not isinstance(interactions, Mapping):
        return interactions, 0
    if unknown := [order for order in interactions if order not in (2, 3)]:
        raise ValueError(f"interactions as a mapping has the keys 2 for pairs and 3 for triples, not {unknown[0]!r}")
    return interactions.get(2, "auto"), interactions.get(3, 0)


def _list_changed(kind: type, given: Mapping[str, Any], before: Mapping[str, Any] | None) -> set[str]:
    """Names of parameters that are neither at their defaults nor as before."""
    usual = to_plain(flatten(kind().get_params(deep=False)))
    now = to_plain(given)
    return {name for name, value in now.items() if value not in (usual[name], (before or usual).get(name))}


# Parameters whose "auto" is None here. `max_terms` is not one of them: its None means all columns.
_AUTOMATIC = ("max_interaction_bins", "smoothness", "max_steps", "outer_bags")


def check_config(config: FitConfig) -> None:
    """Raise an error for the first parameter that is wrong or contradicts another."""
    given = config.given
    for name, smallest in {"max_bins": 2, "early_stopping_rounds": 0}.items():
        require_integer(name, given[name], smallest)
    for name, smallest in {"max_steps": 1, "max_interaction_bins": 2, "outer_bags": 1, "max_terms": 1}.items():
        others = "None, 'auto' or " if name == "max_terms" else "'auto' or "
        if not (is_auto(given[name]) or (name == "max_terms" and given[name] is None)):
            require_integer(name, given[name], smallest, others)
    for name in ("boosted_steps", "verbose", "warm_start"):
        require(name, given[name], "flag")
    require("preset", config.preset, tuple(PRESETS).__contains__, f"one of {tuple(PRESETS)}")
    require("smoothness", given["smoothness"], lambda v: is_auto(v) or (is_number(v) and v >= 0), "'auto' or >= 0")
    require("learning_rate", config.learning_rate, "positive")
    require("validation_size", config.validation_size, _is_validation_size, "a share below 1 or a number of rows")
    _check_run(config)
    if config.network.engine == "exact" and config.smoothness:
        raise ValueError(
            f"smoothness={config.smoothness!r} contradicts engine='exact': only the grid engine can smooth; set "
            "smoothness=0 or engine='grid'"
        )
    if config.network.max_epochs is not None and config.max_steps is not None:
        raise ValueError("max_steps and max_epochs contradict each other: give one of them")


def _check_run(config: FitConfig) -> None:
    """Parameters that concern the run and not the model."""
    require("time_limit", config.time_limit, lambda v: is_number(v) and v > 0, "seconds above 0", "None or ")
    require("callbacks", config.callbacks, _is_none_or_callables, "None or a list of callables")
    if config.n_jobs is not None and (not is_integer(config.n_jobs) or config.n_jobs == 0):
        raise ValueError(f"n_jobs must be None, a number of threads, or -1 for all cores, not {config.n_jobs!r}")
    try:
        check_random_state(config.random_state)
    except ValueError as error:
        raise ValueError(
            f"random_state must be None, an integer from 0 to 2**32 - 1 or a RandomState: {error}"
        ) from None
    import torch  # here: checks of other parameters do not need it

    try:
        torch.zeros(1, device=torch.device(config.device)).cpu()
    except (TypeError, RuntimeError, AssertionError) as error:
        reason = f"{config.device!r} ({str(error).splitlines()[0]})"
        raise ValueError(f"device must be 'cpu' or a torch device of this machine, not {reason}") from None


# Kind of fit -> parameters that it never reads. Kinds combine: an update may use splines. Parameters of something that
# was not requested (pairs with interactions=0, checkpoints without a folder) are not listed.
UNREAD: Mapping[str, tuple[str, ...]] = MappingProxyType({
    "wide": (
        "max_interaction_bins", "n_bases", "n_interaction_bases", "hidden", "n_subnets", "fourier", "batch_norm",
        "dropout", "basis_dropout", "staged", "boosted_steps", "smoothness", "learning_rate",
    ),
    "other basis": ("hidden", "fourier", "batch_norm", "dropout"),
    "no validation": ("early_stopping_rounds", "early_stopping_tolerance"),
    "update": (
        "feature_types", "max_bins", "max_interaction_bins", "interactions", "exclude", "max_terms", "scaling",
        "staged", "cache_dir", "keep_cache", "checkpoint_dir", "checkpoint_every",
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


def warn_unread(config: FitConfig, kinds: Collection[str] = (), stacklevel: int = 3) -> None:
    """Warn once about changed parameters that this fit never reads.

    Parameters
    ----------
    kinds : "wide" and "update" where they apply; other bases and fits without validation are found in the config
    stacklevel : see `warnings.warn`
    """
    other_kinds = {"other basis": config.network.basis != "mlp", "no validation": config.validation_size == 0}
    parts = []
    for each in [*kinds, *(kind for kind, applies in other_kinds.items() if applies)]:
        if found := [name for name in UNREAD.get(each, ()) if name in config.changed]:
            listed = " and ".join(filter(None, [", ".join(found[:-1]), found[-1]]))
            parts.append(f"{listed} {'has' if len(found) == 1 else 'have'} no effect: {_REASONS[each]}")
    if parts:
        warnings.warn(". ".join(parts), UserWarning, stacklevel=stacklevel)


def _is_validation_size(value: Any) -> bool:
    return is_number(value) and (bool(0 <= value < 1) or (is_integer(value) and bool(value >= 1)))


def _is_none_or_callables(value: Any) -> bool:
    return value is None or (isinstance(value, Sequence) and all(map(callable, value)))
