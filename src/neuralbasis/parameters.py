"""The parameters of both estimators, with their defaults. `config.FitConfig` checks them when a fit begins.

The settings of the network and of storage are in two groups, `settings.NetworkConfig` and `settings.StorageConfig`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from inspect import cleandoc, signature
from textwrap import indent
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from .checks import is_auto
from .settings import GROUPS, HOME, NetworkConfig, StorageConfig
from .suggestions import suggest


def _accept_settings(init: Callable[..., None]) -> Callable[..., None]:
    """Let a constructor also take single settings, such as network__n_bases, and names of version 0.1."""
    own = signature(init).parameters

    @wraps(init)
    def accept(self, *args: Any, **given: Any) -> None:
        init(self, *args, **{name: value for name, value in given.items() if name in own})
        self._set_others({name: value for name, value in given.items() if name not in own}, TypeError)

    return accept


class EstimatorParameters(BaseEstimator):
    """The parameters of both estimators.

    By default, two learners propose the shape of each term: a network, whose smooth bases are shared by all terms of
    the same order, and boosted steps. The model keeps a share of each proposal. All shares of a stage are chosen
    jointly, on rows that the members hold out. Main effects are fitted first, then pairs, then triples; triples have no
    steps. The model is the mean of several members.

    Parameters
    ----------
    feature_names : list of str, optional
        Names of the columns. The default is the names of a data frame.
    feature_types : list or mapping, optional
        For each column "auto", "continuous", "nominal" or "ordinal", a list of levels in their order, or a list of
        increasing numbers: its knots. A mapping names the columns that are not "auto". DIFF: EBM's shapes are constant
        between such cut points. Shapes here are linear between knots and constant outside; two close knots make a step.
        Columns of a sparse table are continuous.

        "auto" reads numbers as continuous and text as nominal (as ordinal if the table declares an order). A text
        column without declared levels is read as numbers, with a warning, if at least 90 % of its values are numbers:
        "1.5", "1,200" (1200), "40 %" (40). Its other values are missing, and so are "", "NA", "N/A", "nan", "null",
        "none", "?", "-" and "." in any case. A column with integers such as "007" stays nominal. The same rule applies
        to text in a continuous column at prediction; less than 90 % of numbers are an error.
    max_bins : int
        Maximum number of knots of a main effect. Boosted steps may add knots.
    max_interaction_bins : int or "auto"
        Maximum number of knots of a column in a pair; a quarter of it in a triple. A pair with a column of few values
        may have more knots along the other column. "auto" is 49, or fewer for few rows or very many pairs.
    interactions : int, float, str, list of tuples, or mapping
        Pairs of columns with a term. An integer is the number of the strongest pairs; a number below 1 is a share of
        the number of columns, "3x" a multiple of it; "all" is every pair. A list names terms by tuples of two or three
        column names or indices. A mapping gives pairs and triples: {2: "auto", 3: 10} adds the 10 strongest triples
        among columns whose three pairs are in the model.

        "auto" searches up to 5 pairs per column for a regression and 3 for classes (5 from 100,000 rows), 300 at most,
        and takes those that are stronger than noise: up to 10,000 rows, pure noise passes as a pair with a chance of
        30 %; above, pairs are selected at a 30 % false discovery rate. Up to 10,000 rows, boosted steps are also
        proposed for weaker pairs. Pairs whose share is 0 are dropped, except those listed by name.
    exclude : list, optional
        Columns and tuples of columns that must not be terms or parts of larger terms.
    validation_size : float or int
        Rows that each member holds out for early stopping and for the shares: a share of the rows, or a maximum number.
        0 trains to the end and keeps what the network proposes.
    outer_bags : int or "auto"
        Number of members. The model is their mean. "auto" depends on the preset and the number of rows; it is 1 if the
        network is not staged, as in the paper.
    max_terms : int, "auto" or None
        Maximum number of main effects. Before training, each member selects the columns with the strongest effects,
        without the rows that it holds out; other columns have no term, unless interactions list them. None keeps all
        columns. "auto" keeps all, unless a table has more than 100 columns and more than one per four rows; it then
        keeps columns whose effect is confirmed by held-out rows.
    smoothness : float or "auto"
        Strength of the penalty on rough shapes, as a multiple of the default; 0 is none. The exact engine has none.
    boosted_steps : bool
        Propose boosted steps besides the smooth shapes of the network, for jumps and edges that smooth bases cannot
        express. Steps need held-out rows (`validation_size`) and are left out for very large tables, with tied
        classes, with an `output_penalty`, and if members select different columns (`max_terms`).
    learning_rate : float
        Initial rate of a cosine schedule.
    max_steps : int or "auto"
        Number of batches of a stage. "auto" depends on the number of rows.
    early_stopping_rounds : int
        Stop after this many of 25 checkpoints without a better validation loss; 0 never stops early.
    time_limit : float, optional
        Seconds after which training stops with the best model so far.
    callbacks : list of callables, optional
        Each is called with the `History` at every checkpoint; a true result stops training.
    preset : {"default", "fast", "best"}
        How much work "auto" stands for in other parameters. "fast" uses fewer members, steps and pairs and takes a
        fraction of the time; "best" uses more.
    verbose : bool
        Show a progress bar.
    n_jobs : int, optional
        Number of threads; None and -1 are all cores. DIFF: in scikit-learn None is one thread. Here the members and
        their matrix products use threads of one process, as torch and EBM do by default, and results do not depend on
        the number of threads.
    device : str
        Device of the training: "cpu" or a torch device.
    random_state : int, RandomState or None
        The same seed gives the same model.
    warm_start : bool
        Let a second `fit` continue from the fitted model, as `update` does.
    network : NetworkConfig, mapping, "paper" or None
        The basis network and its training: `{"n_bases": 64}` changes one setting of `NetworkConfig`, and so does the
        argument `network__n_bases=64`; "paper" is the network of the paper. Names of version 0.1, such as `n_bases`,
        still work with a FutureWarning.
    storage : StorageConfig, mapping or None
        Memory limit, cache and checkpoints, as in `StorageConfig`.

    Warns
    -----
    UserWarning
        If parameters were set that the fit does not read: most settings of the network for a very wide sparse table,
        those of the network with another `basis`, those of early stopping with `validation_size=0`, and those of knots
        and terms in an `update`, unless the model was fitted with them.
    """

    @_accept_settings
    def __init__(
        self,
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[Any] | Mapping[str, Any] | None = None,
        max_bins: int = 193,
        max_interaction_bins: int | str = "auto",
        interactions: Any = "auto",
        exclude: Sequence[Any] | None = None,
        validation_size: float = 0.15,
        outer_bags: int | str = "auto",
        *,
        max_terms: int | str | None = "auto",
        smoothness: float | str = "auto",
        boosted_steps: bool = True,
        learning_rate: float = 0.02,
        max_steps: int | str = "auto",
        early_stopping_rounds: int = 8,
        time_limit: float | None = None,
        callbacks: Sequence[Callable] | None = None,
        preset: str = "default",
        verbose: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        random_state: int | np.random.RandomState | None = 42,
        warm_start: bool = False,
        network: NetworkConfig | Mapping[str, Any] | str | None = None,
        storage: StorageConfig | Mapping[str, Any] | None = None,
    ):
        self.feature_names = feature_names
        self.feature_types = feature_types
        self.max_bins = max_bins
        self.max_interaction_bins = max_interaction_bins
        self.interactions = interactions
        self.exclude = exclude
        self.validation_size = validation_size
        self.outer_bags = outer_bags
        self.max_terms = max_terms
        self.smoothness = smoothness
        self.boosted_steps = boosted_steps
        self.learning_rate = learning_rate
        self.max_steps = max_steps
        self.early_stopping_rounds = early_stopping_rounds
        self.time_limit = time_limit
        self.callbacks = callbacks
        self.preset = preset
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.warm_start = warm_start
        self.network = network
        self.storage = storage

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The parameters; with `deep` also each setting of the two groups, as `network__n_bases`."""
        found = super().get_params(deep=False)
        for group, kind in GROUPS.items() if deep else ():
            found |= {f"{group}__{name}": value for name, value in vars(kind.read(found[group])).items()}
        return found

    def set_params(self, **parameters: object):
        """Set parameters; `network__n_bases=64` sets one setting of a group and keeps its others."""
        own = self.get_params(deep=False)
        for name in own.keys() & parameters.keys():
            setattr(self, name, parameters[name])
        self._set_others({name: value for name, value in parameters.items() if name not in own}, ValueError)
        return self

    def _set_others(self, others: Mapping[str, Any], error: type[Exception]) -> None:
        """Set settings of groups, and parameters by their names of version 0.1."""
        settings: dict[str, dict[str, Any]] = {group: {} for group in GROUPS}
        for name, value in others.items():
            group, _, setting = name.partition("__")
            if group in GROUPS and HOME.get(setting) == group:
                settings[group][setting] = value
            elif name in HOME:
                text = f"{name} has moved: write {HOME[name]}={{{name!r}: …}} or {HOME[name]}__{name}=…"
                warnings.warn(text, FutureWarning, stacklevel=3)
                settings[HOME[name]][name] = None if is_auto(value) else value
            elif name in _OLD:
                warnings.warn(_OLD[name], FutureWarning, stacklevel=3)
                self._set_old(name, value)
            else:
                own = [*self.get_params(deep=False)]
                hint = suggest(name, [*own, *HOME], f"its parameters are {own}")
                raise error(f"Invalid parameter {name!r} for {type(self).__name__}: {hint}")
        for group, changed in settings.items():
            if changed:
                setattr(self, group, replace(GROUPS[group].read(getattr(self, group)), **changed))

    def _set_old(self, name: str, value: Any) -> None:
        """Set a parameter that another one has replaced."""
        if name == "refine":
            self.boosted_steps = value
        elif name == "triples":
            pairs = self.interactions if isinstance(self.interactions, Mapping) else {2: self.interactions}
            self.interactions = {**pairs, 3: value}
        elif name == "knots" and value:
            if not isinstance(self.feature_types, (Mapping, type(None))):
                raise ValueError("feature_types is a list: write the knots of a column as its item of feature_types")
            self.feature_types = {**(self.feature_types or {}), **value}


_OLD = {
    "refine": "refine has a new name: write boosted_steps",
    "triples": "triples is now part of interactions: write interactions={2: pairs, 3: triples}",
    "knots": "knots is now part of feature_types: write feature_types={column: knots}",
    "heredity": "heredity has no effect any more: triples are searched where all three pairs are in the model",
}
PARAMETERS = indent(cleandoc(EstimatorParameters.__doc__ or "").partition("\n\n")[2], "    ").strip()
