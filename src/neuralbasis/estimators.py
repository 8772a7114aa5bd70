"""NeuralBasisRegressor and NeuralBasisClassifier: scikit-learn estimators in EBM's spelling.

`fit` reads the table and the target and hands them to `fitting.fit_model`; everything else reads the AdditiveModel that
comes back. torch is imported by `fit` only.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_n_features, check_is_fitted, column_or_1d, validate_data

from .data.columns import Columns, is_missing
from .data.frames import read_columns
from .data.records import find_rows
from .data.target import MAX_TARGET, Sample, check_init_score, check_weights, read_floats
from .encoding.axis import Axis
from .lazy import Lazy
from .losses.links import inverse_link
from .model.additive_model import AdditiveModel, find_model
from .model.shapes import AnyShape
from .readonly import freeze

if TYPE_CHECKING:
    from .config import FitConfig
    from .data.files import Source
    from .explain import GlobalExplanation, LocalExplanation
    from .networks import Basis
    from .training.checkpointer import Checkpointer
    from .training.fit import FitResult


class _NeuralBasisModel(BaseEstimator):
    """What both estimators share.

    Parameters
    ----------
    preset : "default", "fast" or "best"
        How much work the "auto" of other parameters stands for: "fast" has fewer members, steps and pairs and is many
        times faster; "best" has more of each.
    feature_names : list of str, optional
        Names of the columns; a data frame brings its own.
    feature_types : list, optional
        For each column "auto", "continuous", "nominal", "ordinal", a list of texts: its levels in their order, or a
        list of increasing numbers: its knots, as in `knots`. DIFF: EBM's curves are steps at such cut points; curves
        here are linear between them and constant outside, and two close numbers make a step. Columns of a sparse table
        are continuous.

        "auto" reads numbers as continuous and text as nominal (ordinal where the table declares an order). A text
        column whose type declares no levels is read as numbers, with a warning, if at least 90 % of its values are
        numbers: "1.5", "1,200" (1200), "40 %" (40). Other values are then read as missing, and so are "", "NA", "N/A",
        "nan", "null", "none", "?", "-" and "." in any case. Columns with integers such as "007" stay nominal. In
        predictions, text in a continuous column follows the same rule; less than 90 % of numbers are an error.
    absent_value : float
        What a SciPy sparse matrix holds where it stores nothing: 0, another number, or NaN for missing.
    max_bins : int
        At most so many knots for a main effect.
    knots : mapping, optional
        For some columns of numbers, by name, the knots themselves: increasing values.
    max_interaction_bins : int or "auto"
        At most so many knots for a column in a pair (a pair with a column of few values may have more along the
        other); a quarter of that in a triple. "auto" is 49, fewer for few rows or very many pairs.
    interactions : 0, int, float, str or list of tuples
        Pairs that get a term of their own: how many of the strongest, as a number, a share of the number of columns
        (below 1) or a multiple of it ("3x"); "all"; or a list of tuples of two or three column names or indices.
        "auto" is 5x for a regression, 3x for classes (5x from 100,000 rows on), 300 at most, and only those that are
        stronger than noise would be (of more than 10,000 rows, all but three in ten). They are kept if they lower the
        validation loss. Tables of up to 10,000 rows get weaker ones, again so many at most, if together they lower the
        loss of held-out rows by more than two standard errors (`refine`).
    triples : 0, int, float, str
        Triples, counted in the same way.
    exclude : list, optional
        Columns, and tuples of columns, that must not be in the model, nor in a larger term.
    max_terms : None, int or "auto"
        At most so many main effects: the columns that say most, chosen before training by each member without the
        rows it holds out; other columns have no term. None: all columns. "auto": all, but of a table with more
        than 100 columns, and than one for every four rows, those that held-out rows confirm. Interactions listed by
        name stay.
    heredity : {"strong", "weak", None}
        Look for triples where all three pairs were chosen, at least two of them, or everywhere.
    scaling : {"auto", "quantile", "minmax", "gaussian"}
        How a continuous column is placed on the shared axis. "auto" is "quantile"; where rows have few of very many
        columns, all columns are placed together.
    engine : {"grid", "exact"}
        Evaluate the bases at the knots, or at the distinct values of each batch (the paper's way, slower).
    basis : {"mlp", "spline"} or callable
        The shared basis functions; a callable gets (n_inputs, n_bases, n_copies, generator) and returns a `Basis`.
    n_bases : int or "auto"
        B, the number of basis functions of main effects; "auto" grows with the logarithm of their number.
    n_interaction_bases : int
        B for pairs, and for triples.
    hidden : tuple of int
        Hidden units of the basis network.
    n_subnets : int
        S, independent basis networks whose shapes are added.
    fourier : int
        Random frequencies in front of the basis network; 0 is the paper's form.
    batch_norm : bool
        Batch normalisation in the basis network.
    dropout, basis_dropout : float
        Shares of hidden units and of basis values that are dropped in training.
    tied_classes : bool or "auto"
        One shape a term, weighed for each class (the paper), instead of a shape for each class; "auto" ties the
        classes where terms × classes are very many.
    staged : bool
        Train interactions after the main effects, on what these leave, and keep them only if they help; False trains
        all terms together (the paper).
    refine : bool
        Add what shared bases cannot express. Boosted main effects are mixed into the shapes, with shares that held-out
        rows choose around a prior (a quarter for tables of up to 10,000 rows), and their columns may get knots beyond
        `max_bins`. Jumps and spikes of main effects, edges of pairs, and weak pairs of tables with few rows are added
        if the loss of held-out rows falls by more than two standard errors. False leaves all of this out.
    smoothness : float or "auto"
        Strength of the adaptive smoothness of the shapes; 0 is none. The exact engine has none.
    output_penalty, weight_decay : float
        The paper's penalty on contributions, and AdamW's on weights.
    learning_rate : float
        First rate of a cosine schedule.
    batch_size, max_steps : int or "auto"
        Rows in a batch and number of batches; "auto" follows the number of rows.
    max_epochs : float, optional
        Instead of `max_steps`: passes over the rows.
    validation_size : float or int
        Share of rows (or at most how many) each member holds out for early stopping; 0 trains to the end.
    outer_bags : int or "auto"
        Members trained together; the model is their mean, error bars are their spread. "auto" follows the preset.
    early_stopping_rounds : int
        Stop after so many of the 25 checkpoints without a better validation loss; 0 never stops early.
    early_stopping_tolerance : float or "auto"
        A checkpoint is better than those before it if it improves by more than this. "auto" keeps the latest one,
        unless an earlier one was better by more than the standard error of their difference.
    time_limit : float, optional
        Seconds after which training stops with the best model so far.
    callbacks : list of callables, optional
        Each is called with the `History` at every checkpoint; a true result stops training.
    verbose : bool
        Show a progress bar.
    n_jobs : int, optional
        Threads; None and -1 are all cores.
    device : str
        Where to train: "cpu" or a torch device.
    memory_limit : int or str, optional
        Of a fit to files: bytes that the process may hold ("2GB"). A table that needs more is not read into memory, but
        put on disk and trained from there, in random parts. None is half of the memory that is free.
    cache_dir : path, optional
        Folder for what is put on disk, about as much as the files; None is a temporary one. Several processes may use
        the same folder at once: what one has written the others read, if it is what they need.
    keep_cache : bool
        Leave it in `cache_dir`, where the next fit to the same files finds it.
    random_state : int, RandomState or None
        Same seed, same model.
    checkpoint_dir : str or path, optional
        Folder in which training leaves its state as it goes, so that a fit that was cut off can go on:
        `fit(X, y, resume=True)`. A fit has a folder of its own; a second one that is to write there at the same time is
        refused.
    checkpoint_every : float
        Seconds between two such checkpoints.
    warm_start : bool
        Let a second `fit` go on from the present model, as `update` does, instead of beginning anew.

    Warns
    -----
    UserWarning
        Names parameters that were set and that a fit never reads: most of the network's for a very wide sparse table,
        those of the network with another `basis`, those of early stopping with `validation_size=0`, and those of knots
        and terms in an `update`, unless the model was fitted with them.
    """

    def __init__(
        self,
        preset: str = "default",
        feature_names: Sequence[str] | None = None,
        feature_types: Sequence[Any] | None = None,
        absent_value: float = 0.0,
        max_bins: int = 193,
        knots: Mapping[str, Sequence[float]] | None = None,
        max_interaction_bins: int | str = "auto",
        interactions: Any = "auto",
        triples: Any = 0,
        exclude: Sequence[Any] | None = None,
        max_terms: int | str | None = "auto",
        heredity: str | None = "strong",
        scaling: str = "auto",
        engine: str = "grid",
        basis: str | Callable[..., Basis] = "mlp",
        n_bases: int | str = 32,
        n_interaction_bases: int = 32,
        hidden: Sequence[int] = (64, 64, 32),
        n_subnets: int = 1,
        fourier: int = 16,
        batch_norm: bool = False,
        dropout: float = 0.0,
        basis_dropout: float = 0.0,
        tied_classes: bool | str = "auto",
        staged: bool = True,
        refine: bool = True,
        smoothness: float | str = "auto",
        output_penalty: float = 0.0,
        weight_decay: float = 1e-5,
        learning_rate: float = 0.02,
        batch_size: int | str = "auto",
        max_steps: int | str = "auto",
        max_epochs: float | None = None,
        validation_size: float = 0.15,
        outer_bags: int | str = "auto",
        early_stopping_rounds: int = 8,
        early_stopping_tolerance: float | str = "auto",
        time_limit: float | None = None,
        callbacks: Sequence[Callable] | None = None,
        verbose: bool = False,
        n_jobs: int | None = None,
        device: str = "cpu",
        memory_limit: int | str | None = None,
        cache_dir: str | os.PathLike[str] | None = None,
        keep_cache: bool = False,
        random_state: int | np.random.RandomState | None = 42,
        checkpoint_dir: str | os.PathLike[str] | None = None,
        checkpoint_every: float = 300.0,
        warm_start: bool = False,
    ):
        self.preset = preset
        self.feature_names = feature_names
        self.feature_types = feature_types
        self.absent_value = absent_value
        self.max_bins = max_bins
        self.knots = knots
        self.max_interaction_bins = max_interaction_bins
        self.interactions = interactions
        self.triples = triples
        self.exclude = exclude
        self.max_terms = max_terms
        self.heredity = heredity
        self.scaling = scaling
        self.engine = engine
        self.basis = basis
        self.n_bases = n_bases
        self.n_interaction_bases = n_interaction_bases
        self.hidden = hidden
        self.n_subnets = n_subnets
        self.fourier = fourier
        self.batch_norm = batch_norm
        self.dropout = dropout
        self.basis_dropout = basis_dropout
        self.tied_classes = tied_classes
        self.staged = staged
        self.refine = refine
        self.smoothness = smoothness
        self.output_penalty = output_penalty
        self.weight_decay = weight_decay
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.max_steps = max_steps
        self.max_epochs = max_epochs
        self.validation_size = validation_size
        self.outer_bags = outer_bags
        self.early_stopping_rounds = early_stopping_rounds
        self.early_stopping_tolerance = early_stopping_tolerance
        self.time_limit = time_limit
        self.callbacks = callbacks
        self.verbose = verbose
        self.n_jobs = n_jobs
        self.device = device
        self.memory_limit = memory_limit
        self.cache_dir = cache_dir
        self.keep_cache = keep_cache
        self.random_state = random_state
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every
        self.warm_start = warm_start

    def fit(self, X, y, sample_weight=None, init_score=None, resume=False):
        """Fit the model to a table and a target.

        Parameters
        ----------
        X : table (NumPy, SciPy sparse, pandas, polars, Arrow, dict of columns), or a source of one: a path or glob of
            Parquet or CSV files, a folder, a list of paths, an Arrow dataset, or an iterable of record batches that can
            be iterated again; `feature_names` then says which columns to take
        y : (N,) target; the name of its column where X is a source
        sample_weight : (N,) weights, optional; a row of weight 2 is two equal rows, one of weight 0 is absent; the name
            of their column where X is a source
        init_score : (N,) or (N, K) scores to start from, optional; the model learns what they leave
        resume : go on from the last checkpoint in `checkpoint_dir`, with the same rows and parameters, to the model
            that the fit would have given; without a checkpoint, or behind a fit that came to its end with other rows or
            parameters, the fit starts anew
        """
        from .config import FitConfig  # brings torch, which predictions do not need
        from .training.fit import open_checkpointer

        config = FitConfig.read(self)
        if self.warm_start and hasattr(self, "model_"):
            return self.update(X, y, sample_weight, init_score)
        with open_checkpointer(config, resume) as checkpointer:
            if (source := _find_source(X)) is not None:
                return self._fit_source(source, y, sample_weight, init_score, config, checkpointer)
            name = None if getattr(y, "name", None) is None else str(y.name)
            return self._fit_table(X, y, sample_weight, init_score, name, config, checkpointer)

    def _fit_table(
        self, X, y, sample_weight, init_score, target: str | None, config: FitConfig, checkpointer: Checkpointer
    ):
        from .training.fit import fit
        from .training.tables import MemoryTable

        columns = self._read_training_table(X)
        sample = self._read_sample(y, sample_weight, init_score, columns.n_rows, is_new=True)
        table = MemoryTable(columns, sample, getattr(self, "classes_", None), target)
        return self._take(fit(table, config, checkpointer))

    def _fit_source(self, source: Source, y, sample_weight, init_score, config: FitConfig, checkpointer: Checkpointer):
        from .encoding.profile import choose_roles
        from .training.fit import fit
        from .training.tables import FileTable, read_in_memory

        _require_names(y, sample_weight, init_score)
        roles = choose_roles(source, y, sample_weight, self.feature_names)
        if (parts := read_in_memory(config, source, roles, checkpointer)) is not None:
            return self._fit_table(*parts, None, roles.target, config, checkpointer)
        self._take(fit(FileTable(source, roles), config, checkpointer))
        if self.model_.classes is not None:
            self.classes_ = self.model_.classes
        self._has_names, self.n_features_in_ = self.feature_names is None, len(roles.features)
        self.feature_names_in_ = freeze(np.array(roles.features, dtype=object))
        return self

    def _take(self, result: FitResult):
        self.model_, self.history_, self.interaction_ranking_ = result.model, result.history, result.ranking
        return self

    def update(self, X, y, sample_weight=None, init_score=None):
        """Go on from the fitted model with new rows, in a part of the time that a fit takes.

        Columns, knots and terms stay as they are; a correction of every shape is learned on the new rows, and kept as
        far as held-out rows gain by it. Rows count alike, whether the model has seen them before or sees them now, but
        where the new rows are sure that something has changed, its shape follows them. `bin_weights_` add up.
        Error bars are those of the old rows where nothing was learned, of the new ones where a shape is theirs; tables
        of single members are not kept. A level that is new gets a knot in its column's main effect, if the column has
        no order; interactions read it as unseen. Classes must be those of the fit.

        Parameters
        ----------
        X, y, sample_weight : new rows as for `fit`, with the same columns in any order
        init_score : (N,) or (N, K) scores that the model's are added to, where it was fitted with such scores

        Examples
        --------
        >>> import numpy as np
        >>> from neuralbasis import NeuralBasisRegressor
        >>> x = np.random.default_rng(0).random((900, 1))
        >>> model = NeuralBasisRegressor(max_steps=100).fit(x[:600], x[:600, 0])
        >>> _ = model.update(x[600:], 3 * x[600:, 0])  # the world has changed
        >>> round(float(np.ptp(model.predict([[0.1], [0.9]]))), 1), model.model_.summary.n_rows
        (2.4, 900)
        """
        from .config import FitConfig
        from .training.fit import fit
        from .training.update import UpdateTable

        model = self._fitted_model()
        config = FitConfig.read(self, None if model.summary is None else model.summary.parameters)
        if (source := _find_source(X)) is not None:
            X, y, sample_weight = self._read_source(source, y, sample_weight, init_score, config)
        columns = read_columns(X, self.feature_names, self.absent_value)
        self._check_rows(columns)
        columns = model.find_columns(columns)
        sample = self._read_sample(y, sample_weight, init_score, columns.n_rows)
        result = fit(UpdateTable(model, columns, sample), config, stacklevel=4)
        self.model_, self.history_ = result.model, result.history
        return self

    def _read_source(self, source: Source, y, sample_weight, init_score, config: FitConfig) -> Any:
        """New rows of files, which must fit in memory."""
        from .encoding.profile import choose_roles
        from .training.tables import read_in_memory

        _require_names(y, sample_weight, init_score)
        roles = choose_roles(source, y, sample_weight, list(self._fitted_model().encoder.names))
        parts = read_in_memory(config, source, roles)
        if parts is None:
            raise ValueError(
                "update reads its rows into memory, but these need more than memory_limit; update with some of the "
                "files at a time, or fit anew"
            )
        return parts

    def _check_rows(self, columns: Columns) -> None:
        if columns.n_rows < 2:
            raise ValueError("X has n_samples=1: a model needs at least 2 rows")
        if self.validation_size >= columns.n_rows:
            raise ValueError(
                f"validation_size={self.validation_size!r} leaves no row to train on: X has {columns.n_rows} rows"
            )

    def _read_training_table(self, X) -> Columns:
        columns = read_columns(X, self.feature_names, self.absent_value)
        self._check_rows(columns)
        self._has_names = columns.named and self.feature_names is None and _frame_names(X) != []
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = freeze(np.array(columns.names, dtype=object))
        return columns

    def _read_sample(self, y, sample_weight, init_score, n_rows: int, is_new: bool = False) -> Sample:
        """The rows' target, weights and given scores; classes are learned from a new target, and known otherwise."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        y = column_or_1d(y, warn=True)
        if y.dtype == object and any(map(is_missing, y)):
            raise ValueError("Input y contains NaN or another missing value; leave out the rows without a target")
        _require_finite(y)
        if len(y) != n_rows:
            raise ValueError(f"X and y have inconsistent numbers of samples: [{n_rows}, {len(y)}]")
        weights = check_weights(sample_weight, n_rows)
        y = self._encode_target(y, weights, is_new)
        return Sample(y, weights, check_init_score(init_score, n_rows, self._n_outputs()))

    def _scores(self, X, init_score=None) -> np.ndarray:
        scores = self._fitted_model().scores(self._read_table(X))
        init = check_init_score(init_score, len(scores), scores.shape[1])
        return scores if init is None else scores + init

    def _fitted_model(self) -> AdditiveModel:
        if "model_" not in self.__dict__:  # check_is_fitted alone would double the time of a single row
            check_is_fitted(self, "model_")
        return self.model_

    def _read_table(self, X) -> Any:
        """Columns of a table at prediction; names and number of columns must be the training table's."""
        plain = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64 and len(X) > 0
        if plain and X.shape[1] == self.n_features_in_ and not self._has_names:
            return X
        if find_rows(X) is not None:
            return X
        columns = read_columns(X, absent=self.absent_value)
        names = _frame_names(X)
        if columns.named and names is None:  # a mapping: found by name
            return columns
        if self._has_names or (names and set(names) == set(self.feature_names_in_)):
            validate_data(self, X, reset=False, skip_check_array=True)
            return columns
        _check_n_features(self, X, reset=False)
        if names and self.feature_names is None:
            kind = type(self).__name__
            warnings.warn(f"X has feature names, but {kind} was fitted without feature names", stacklevel=3)
        return replace(columns, named=False)  # by position

    def eval_terms(self, X) -> np.ndarray:
        """Contribution of every term to every row's score: (N, T), or (N, T, K) with three classes or more.

        `eval_terms(X).sum(axis=1) + intercept_` is the score.
        """
        contributions = self._fitted_model().contributions(self._read_table(X))
        return contributions[..., 0] if contributions.shape[2] == 1 else contributions

    def term_importances(self, importance_type: str = "avg_weight") -> np.ndarray:
        """(T,) mean absolute contribution over the training rows ("avg_weight"), or range of the shape ("min_max").

        With three classes or more, the mean over the classes; see `AdditiveModel.importances`.
        """
        return self._fitted_model().importances(importance_type)

    def explain_global(self) -> GlobalExplanation:
        """Every term with its table, spread and importance; see `explain.explain_global`."""
        from .explain import explain_global

        return explain_global(self._fitted_model())

    def explain_local(self, X, y=None) -> LocalExplanation:
        """Why rows have their predictions: all contributions; see `explain.explain_local`."""
        from .explain import explain_local

        return explain_local(self._fitted_model(), self._read_table(X), y)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to one file, without pickle; `neuralbasis.load` reads it as an `AdditiveModel`."""
        self._fitted_model().save(path)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    @property
    def term_names_(self) -> list[str]:
        """Name of each term: "age", "age & income"."""
        return list(self._fitted_model().term_names)

    @property
    def term_features_(self) -> list[tuple[int, ...]]:
        """Feature indices of each term."""
        return list(self._fitted_model().terms)

    @property
    def term_scores_(self) -> Sequence[np.ndarray]:
        """Table of each term; along each axis: missing, knots or levels, unseen; classes last.

        In a wide model the tables are made one by one, when they are asked for; so are the two lists below.
        """
        return self._read_shapes(lambda shape: _squeeze(shape.scores))

    @property
    def standard_deviations_(self) -> Sequence[np.ndarray]:
        """Spread of `term_scores_` over the members."""
        return self._read_shapes(lambda shape: _squeeze(shape.spread))

    @property
    def bin_weights_(self) -> Sequence[np.ndarray]:
        """Training weight on each cell of each term."""
        return self._read_shapes(lambda shape: shape.weights)

    def _read_shapes(self, read: Callable[[AnyShape], np.ndarray]) -> Sequence[np.ndarray]:
        model = self._fitted_model()
        if model.is_wide:
            return Lazy(lambda index: read(model.shapes[index]), len(model.shapes))
        return [read(shape) for shape in model.shapes]

    @property
    def bins_(self) -> list[list[Any]]:
        """For each column its knots, or a dict level -> cell: of main effects, then coarser ones of interactions."""
        return [[_describe_axis(axis) for axis in axes] for axes in self._fitted_model().axes_by_feature()]

    @property
    def feature_types_in_(self) -> list[str]:
        """ "continuous", "nominal" or "ordinal" for each column."""
        return [axis.kind for axis in self._fitted_model().encoder.axes]

    @property
    def intercept_(self) -> float | np.ndarray:
        """Score where all contributions are 0: a float for a regression, (K,) for classes."""
        model = self._fitted_model()
        return float(model.intercept[0]) if model.classes is None else model.intercept

    @property
    def link_(self) -> str:
        """ "identity", "logit" or "mlogit"."""
        return self._fitted_model().link


_PARAMETERS = (_NeuralBasisModel.__doc__ or "").partition("share.")[2].strip()


class NeuralBasisRegressor(RegressorMixin, _NeuralBasisModel):
    __doc__ = f"""Additive regression with shared neural bases.

    {_PARAMETERS}

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(max_steps=100).fit(X, np.sin(6 * X[:, 0]))
    >>> bool(np.abs(model.predict(X) - np.sin(6 * X[:, 0])).mean() < 0.05)
    True
    """

    def _n_outputs(self) -> int:
        return 1

    def _encode_target(self, y: np.ndarray, weights: np.ndarray, is_new: bool) -> np.ndarray:
        y = read_floats(y, "y of a regression")
        _require_finite(y)
        if np.abs(y).max() > MAX_TARGET:
            raise ValueError(f"y holds values beyond ±{MAX_TARGET:.0e}, whose squares overflow; rescale it")
        return y

    def predict(self, X, init_score=None) -> np.ndarray:
        """(N,) predicted values; `init_score` is added where the model was fitted with one."""
        return self._scores(X, init_score)[:, 0]


class NeuralBasisClassifier(ClassifierMixin, _NeuralBasisModel):
    __doc__ = f"""Additive classification with shared neural bases, two classes or more.

    {_PARAMETERS}

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = NeuralBasisClassifier(max_steps=100).fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    >>> model.predict([[-0.5], [0.5]]).tolist()
    ['no', 'yes']
    """

    def _n_outputs(self) -> int:
        return 1 if len(self.classes_) == 2 else len(self.classes_)

    def _encode_target(self, y: np.ndarray, weights: np.ndarray, is_new: bool) -> np.ndarray:
        kinds = {type(label) for label in y} if y.dtype == object else set()
        if len(kinds) > 1 and str in kinds:
            names = sorted(kind.__name__ for kind in kinds)
            raise ValueError(
                f"y mixes labels of the types {', '.join(names)}; write all of them as text, or as numbers"
            )
        check_classification_targets(y)
        came = np.unique(y[weights > 0])
        if is_new:
            self.classes_ = freeze(came)
            if len(came) < 2:
                raise ValueError(f"y has one class only, {came.tolist()[0]!r}; a classifier needs at least two classes")
        elif len(new := came[~np.isin(came, self.classes_)]):
            raise ValueError(
                f"y has the class {new.tolist()[0]!r}, but the model knows {self.classes_.tolist()[:20]} alone; fit "
                "anew to add a class, or leave these rows out"
            )
        return np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)

    def decision_function(self, X, init_score=None) -> np.ndarray:
        """Scores: (N,) log odds of the second class, or (N, K)."""
        scores = self._scores(X, init_score)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X, init_score=None) -> np.ndarray:
        """(N, classes) probabilities."""
        if init_score is None:
            return self._fitted_model().predict_proba(self._read_table(X))
        return inverse_link(self._fitted_model().link, self._scores(X, init_score))

    def predict(self, X, init_score=None) -> np.ndarray:
        """The most probable class of each row."""
        if init_score is None:
            return self._fitted_model().predict(self._read_table(X))
        scores = self._scores(X, init_score)
        winner = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_)[winner]


def update(model: Any, X, y, sample_weight=None, init_score=None, **parameters: Any) -> AdditiveModel:
    """A model that goes on with new rows, see `NeuralBasisRegressor.update`; the given one stays as it is.

    Parameters
    ----------
    model : a fitted estimator, or a model as `load` and `merge` give it
    X, y, sample_weight, init_score : new rows with the model's columns
    parameters : of an estimator, such as `preset` or `random_state`; others are as they were when the model was fitted

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, update
    >>> x = np.random.default_rng(0).random((900, 1))
    >>> yesterday = NeuralBasisRegressor(max_steps=100).fit(x[:600], x[:600, 0]).model_
    >>> today = update(yesterday, x[600:], 1 + x[600:, 0])
    >>> round(float(today.predict([[0.5]])[0]), 1), yesterday.summary.n_rows, today.summary.n_rows
    (1.5, 600, 900)
    """
    known = find_model(model)
    kind = NeuralBasisRegressor if known.classes is None else NeuralBasisClassifier
    before = {} if known.summary is None else known.summary.parameters
    estimator = kind(**{name: before[name] for name in _LASTING if name in before} | parameters)
    estimator.model_ = known
    estimator.n_features_in_ = len(known.encoder.axes)
    estimator.feature_names_in_ = freeze(np.array(known.encoder.names, dtype=object))
    if known.classes is not None:
        estimator.classes_ = known.classes
    return estimator.update(X, y, sample_weight, init_score).model_


# Parameters that an update takes over from the fit; others speak of terms and knots, which stay, or of the run.
_LASTING = (
    "preset", "absent_value", "n_bases", "n_interaction_bases", "hidden", "n_subnets", "fourier", "batch_norm",
    "dropout", "basis_dropout", "tied_classes", "refine", "smoothness", "output_penalty", "weight_decay",
    "learning_rate", "batch_size", "max_steps", "max_epochs", "validation_size", "outer_bags",
    "early_stopping_rounds", "early_stopping_tolerance",
)  # fmt: skip


def _find_source(X) -> Source | None:
    """The source that X is; arrays, frames and mappings are tables in memory."""
    if hasattr(X, "shape") or hasattr(X, "columns") or isinstance(X, Mapping):
        return None
    from .data.files import open_source

    return open_source(X)


def _require_names(y, sample_weight, init_score) -> None:
    """What goes with a source are names of its columns."""
    if init_score is not None:
        raise ValueError("init_score needs a table in memory: a source of rows has no scores to start from")
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if not isinstance(value, str) and not (value is None and name == "sample_weight"):
            raise ValueError(
                f"X is a source of rows, so {name} must be the name of one of its columns, not {type(value).__name__}"
            )


def _require_finite(y: np.ndarray) -> None:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        odd = int(np.argmin(np.isfinite(y)))
        # scikit-learn's words first: its estimator checks, and its users, know them.
        came = "NaN" if np.isnan(y[odd]) else "infinity"
        raise ValueError(
            f"Input y contains {came}, first in row {odd} (0 is the first), {int((~np.isfinite(y)).sum()):,} in all; "
            "leave out the rows without a finite target"
        )


def _frame_names(X) -> list[str] | None:
    """Names of a data frame's columns, none where they are not text (as scikit-learn has it); None for other tables."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        return None
    return list(names) if all(isinstance(name, str) for name in names) else []


def _squeeze(table: np.ndarray) -> np.ndarray:
    return table[..., 0] if table.shape[-1] == 1 else table


def _describe_axis(axis: Axis) -> Any:
    return {level: index + 1 for index, level in enumerate(axis.levels)} if axis.levels is not None else axis.knots
