"""NetworkConfig and StorageConfig: settings that few users change, in two groups beside an estimator's parameters.

In: None, a mapping, `network="paper"`, or the object itself. Out: a frozen, checked object. Imports neither torch nor
scikit-learn.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .checks import is_auto, require, require_integer
from .data.memory import read_limit
from .encoding.axis import SCALINGS
from .suggestions import suggest

if TYPE_CHECKING:
    from .networks import Basis

Group = TypeVar("Group", bound="SettingsGroup")


@dataclass(frozen=True)
class SettingsGroup:
    """A group of settings."""

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    @classmethod
    def read(cls: type[Group], value: Any) -> Group:
        """The group as an object.

        Parameters
        ----------
        value : None for the defaults, a mapping of the settings that differ from them, the name of a preset, or an
            object of this class
        """
        name = cls.__name__.removesuffix("Config").lower()
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and value in cls.PRESETS:
            value = cls.PRESETS[value]
        if value is not None and not isinstance(value, Mapping):
            presets = "".join(f"{preset!r}, " for preset in cls.PRESETS)
            raise ValueError(f"{name} must be None, {presets}a mapping or a {cls.__name__}, not {value!r}")
        known = [field.name for field in fields(cls)]
        for unknown in (each for each in value or () if each not in known):
            raise ValueError(f"{name} has no setting {unknown!r}; {suggest(unknown, known, f'it has {known}')}")
        return cls(**(value or {}))


@dataclass(frozen=True)
class NetworkConfig(SettingsGroup):
    """The basis network and its training: `network=` of the estimators.

    A mapping of the settings that differ from the defaults does the same: `network={"n_bases": 64}`. The paper's
    network is `network="paper"`.

    Parameters
    ----------
    basis : {"mlp", "spline"} or callable
        The shared basis functions. A callable gets (n_inputs, n_bases, n_copies, generator) and returns a `Basis`.
    n_bases : int or None
        B, the number of basis functions of main effects. None grows with the logarithm of the number of columns.
    n_interaction_bases : int
        B for pairs, and for triples.
    hidden : tuple of int
        Hidden units of the basis network.
    n_subnets : int
        S, the number of independent basis networks whose shapes are added.
    fourier : int
        Number of random frequencies of the network's input; 0 is the paper's form.
    batch_norm : bool
        Batch normalization in the basis network, of its outputs too.
    relu_bases : bool
        Whether basis functions are at least 0, by a ReLU on the network's outputs.
    dropout, basis_dropout : float
        Shares of hidden units and of basis values that training drops.
    tied_classes : bool or None
        True learns one shape per term and a weight of it per class (the paper); False learns a shape per class. None
        ties classes if terms × classes are very many. Tied classes have no boosted steps.
    engine : {"grid", "exact"}
        Evaluate the bases at the knots, or at the distinct values of each batch (as the paper does; slower).
    scaling : {"quantile", "minmax", "gaussian"} or None
        How a continuous column is placed on the shared axis. None is "quantile", except for very wide sparse tables,
        whose columns are all placed on one axis together.
    staged : bool
        Train interactions after the main effects, on what these leave unexplained. False trains one network of all
        terms (the paper), without boosted steps, and one member unless `outer_bags` is a number.
    plain_training : bool
        Plain AdamW as in the paper: a cosine schedule from the first step, betas 0.9 and 0.999, the weights of the last
        step, each row once in an epoch, one learning rate for any number of terms. By default, the rate warms up and
        shrinks with many interactions, the second beta is 0.99, the last 5 % of the steps are averaged, and rows of
        rare classes are drawn more often with a lower weight.
    output_penalty, weight_decay : float
        The paper's penalty on the mean square of the contributions over rows and terms, and AdamW's penalty on weights.
    batch_size : int or None
        Rows in a batch. None depends on the number of rows.
    max_epochs : float or None
        Passes over the rows, instead of `max_steps`.
    early_stopping_tolerance : float or None
        Improvement of the validation loss that makes a checkpoint better. None keeps the latest checkpoint, unless an
        earlier one was better by more than the standard error of the difference.

    Examples
    --------
    >>> from neuralbasis import NetworkConfig
    >>> NetworkConfig.read("paper").hidden
    (256, 128, 128)
    """

    # PAPER §4.3: the published settings.
    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "paper": {
            "scaling": "minmax", "engine": "exact", "hidden": (256, 128, 128), "n_bases": 100,
            "n_interaction_bases": 200, "fourier": 0, "batch_norm": True, "relu_bases": True, "tied_classes": True,
            "staged": False, "plain_training": True,
        },
    }  # fmt: skip

    basis: str | Callable[..., Basis] = "mlp"
    n_bases: int | None = 32
    n_interaction_bases: int = 32
    hidden: Sequence[int] = (64, 64, 32)
    n_subnets: int = 1
    fourier: int = 16
    batch_norm: bool = False
    relu_bases: bool = False
    dropout: float = 0.0
    basis_dropout: float = 0.0
    tied_classes: bool | None = None
    engine: str = "grid"
    scaling: str | None = None
    staged: bool = True
    plain_training: bool = False
    output_penalty: float = 0.0
    weight_decay: float = 1e-5
    batch_size: int | None = None
    max_epochs: float | None = None
    early_stopping_tolerance: float | None = None

    def __post_init__(self) -> None:
        for name, smallest in {"n_interaction_bases": 1, "n_subnets": 1, "fourier": 0}.items():
            require_integer(name, getattr(self, name), smallest)
        for name in ("n_bases", "batch_size"):
            require_integer(name, getattr(self, name), 1, others="None or ")
        for name, kind in {
            "dropout": "share", "basis_dropout": "share", "output_penalty": "amount", "weight_decay": "amount",
            "batch_norm": "flag", "relu_bases": "flag", "staged": "flag", "plain_training": "flag", "hidden": "sizes",
        }.items():  # fmt: skip
            require(name, getattr(self, name), kind)
        for name, kind in {
            "tied_classes": "flag",
            "max_epochs": "positive",
            "early_stopping_tolerance": "amount",
        }.items():
            require(name, getattr(self, name), kind, others="None or ")
        for name, choices in {"engine": ("grid", "exact"), "scaling": (None, *SCALINGS)}.items():
            require(name, getattr(self, name), choices.__contains__, f"one of {choices}")
        require("basis", self.basis, lambda v: v in ("mlp", "spline") or callable(v), "'mlp', 'spline' or a callable")
        object.__setattr__(self, "hidden", tuple(self.hidden))

    @property
    def axis_scaling(self) -> str:
        """How columns are placed. Without common places, as in the exact engine, min-max knots can follow the rows."""
        scaling = self.scaling or "quantile"
        return "linear" if (scaling, self.engine) == ("minmax", "exact") else scaling


@dataclass(frozen=True)
class StorageConfig(SettingsGroup):
    """Memory, files and folders of a fit: `storage=` of the estimators.

    Parameters
    ----------
    memory_limit : int, str or None
        Maximum memory of the process in a fit to files, in bytes or as "2GB". A larger table is cached on disk and
        trained in random parts. None is half of the free memory.
    cache_dir : path or None
        Folder of this cache, which is about as large as the files; None is a temporary folder. Several processes can
        share a folder: a cache that one has written is read by the others if it holds what they need.
    keep_cache : bool
        Keep the cache in `cache_dir` for the next fit to the same files.
    checkpoint_dir : path or None
        Folder for the state of the training. `fit(X, y, resume=True)` resumes an interrupted fit from there. Each fit
        needs a folder of its own; a second fit at the same time raises an error.
    checkpoint_every : float
        Seconds between two checkpoints.
    absent_value : float
        The value of cells that a SciPy sparse matrix does not store: 0, another number, or NaN for missing.

    Examples
    --------
    >>> from neuralbasis import StorageConfig
    >>> StorageConfig(memory_limit="2GB").checkpoint_every
    300.0
    """

    memory_limit: int | str | None = None
    cache_dir: str | os.PathLike[str] | None = None
    keep_cache: bool = False
    checkpoint_dir: str | os.PathLike[str] | None = None
    checkpoint_every: float = 300.0
    absent_value: float = 0.0

    def __post_init__(self) -> None:
        read_limit(self.memory_limit)
        for name in ("cache_dir", "checkpoint_dir"):
            value = getattr(self, name)
            require(name, value, lambda v: isinstance(v, (str, os.PathLike, type(None))), "None or a folder")
        require("keep_cache", self.keep_cache, "flag")
        require("checkpoint_every", self.checkpoint_every, "seconds")
        require(
            "absent_value", self.absent_value,
            lambda v: isinstance(v, Real) and not isinstance(v, bool) and not math.isinf(v), "a finite number or NaN",
        )  # fmt: skip
        if self.keep_cache and self.cache_dir is None:
            raise ValueError(
                "keep_cache=True needs a cache_dir: a cache in a temporary folder would never be found again"
            )

    @property
    def cache_path(self) -> Path | None:
        """Folder of the cache: as given, or beside the checkpoints; None is a temporary folder."""
        if self.cache_dir is not None:
            return Path(self.cache_dir)
        return None if self.checkpoint_dir is None else Path(self.checkpoint_dir, "cache")


GROUPS: Mapping[str, type[SettingsGroup]] = {"network": NetworkConfig, "storage": StorageConfig}
HOME = {field.name: group for group, kind in GROUPS.items() for field in fields(kind)}  # setting -> its group


def flatten(parameters: Mapping[str, object]) -> dict[str, Any]:
    """Parameters of an estimator with the settings of both groups beside them: n_bases instead of network."""
    found = {name: value for name, value in parameters.items() if name not in GROUPS}
    for group, kind in GROUPS.items():
        found |= vars(kind.read(parameters[group]))
    return found


def nest(parameters: Mapping[str, object]) -> dict[str, Any]:
    """The opposite of `flatten`, in the spelling of scikit-learn: network__n_bases instead of n_bases.

    The "auto" of a setting in files of version 0.1 becomes None.
    """
    return {
        f"{HOME[name]}__{name}" if name in HOME else name: None if name in HOME and is_auto(value) else value
        for name, value in parameters.items()
    }
