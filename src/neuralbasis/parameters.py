"""The parameters of both estimators, with their defaults. `config.FitConfig` checks them when a fit begins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import cleandoc
from textwrap import indent
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

if TYPE_CHECKING:
    from .networks import Basis


class EstimatorParameters(BaseEstimator):
    """The parameters of both estimators.

    By default, two learners propose the shape of each term: a network, whose smooth bases are shared by all terms of
    the same order, and boosted steps. The model keeps a share of each proposal. All shares of a stage are chosen
    jointly, on rows that the members hold out. Main effects are fitted first, then pairs, then triples; triples have no
    steps. The model is the mean of several members.

    Parameters
    ----------
    preset : {"default", "fast", "best"}
        How much work "auto" stands for in other parameters. "fast" uses fewer members, steps and pairs and takes a
        fraction of the time; "best" uses more.
    feature_names : list of str, optional
        Names of the columns. The default is the names of a data frame.
    feature_types : list, optional
        For each column "auto", "continuous", "nominal" or "ordinal", a list of levels in their order, or a list of
        increasing numbers: its knots, as in `knots`. DIFF: EBM's shapes are constant between such cut points. Shapes
        here are linear between knots and constant outside; two close knots make a step. Columns of a sparse table are
        continuous.

        "auto" reads numbers as continuous and text as nominal (as ordinal if the table declares an order). A text
        column without declared levels is read as numbers, with a warning, if at least 90 % of its values are numbers:
        "1.5", "1,200" (1200), "40 %" (40). Its other values are missing, and so are "", "NA", "N/A", "nan", "null",
        "none", "?", "-" and "." in any case. A column with integers such as "007" stays nominal. The same rule applies
        to text in a continuous column at prediction; less than 90 % of numbers are an error.
    absent_value : float
        The value of cells that a SciPy sparse matrix does not store: 0, another number, or NaN for missing.
    max_bins : int
        Maximum number of knots of a main effect. Boosted steps may add knots.
    knots : mapping, optional
        Column name -> increasing numbers: the knots of a continuous column.
    max_interaction_bins : int or "auto"
        Maximum number of knots of a column in a pair; a quarter of it in a triple. A pair with a column of few values
        may have more knots along the other column. "auto" is 49, or fewer for few rows or very many pairs.
    interactions : int, float, str or list of tuples
        Pairs of columns with a term. An integer is the number of the strongest pairs; a number below 1 is a share of
        the number of columns, "3x" a multiple of it; "all" is every pair. A list names terms by tuples of two or three
        column names or indices.

        "auto" searches up to 5 pairs per column for a regression and 3 for classes (5 from 100,000 rows), 300 at most,
        and takes those that are stronger than noise: up to 10,000 rows, pure noise passes as a pair with a chance of
        30 %; above, pairs are selected at a 30 % false discovery rate. Up to 10,000 rows, boosted steps are also
        proposed for weaker pairs. Pairs whose share is 0 are dropped, except those listed by name.
    triples : int, float or str
        Triples of columns with a term, in the same form.
    exclude : list, optional
        Columns and tuples of columns that must not be terms or parts of larger terms.
    max_terms : int, "auto" or None
        Maximum number of main effects. Before training, each member selects the columns with the strongest effects,
        without the rows that it holds out; other columns have no term, unless interactions list them. None keeps all
        columns. "auto" keeps all, unless a table has more than 100 columns and more than one per four rows; it then
        keeps columns whose effect is confirmed by held-out rows.
    heredity : {"strong", "weak", None}
        Search triples among those with all three pairs in the model, with at least two, or among all.
    scaling : {"auto", "quantile", "minmax", "gaussian"}
        How a continuous column is placed on the shared axis. "auto" is "quantile", except for very wide sparse tables,
        whose columns are all placed on one axis together.
    engine : {"grid", "exact"}
        Evaluate the bases at the knots, or at the distinct values of each batch (as the paper does; slower).
    basis : {"mlp", "spline"} or callable
        The shared basis functions. A callable gets (n_inputs, n_bases, n_copies, generator) and returns a `Basis`.
    n_bases : int or "auto"
        B, the number of basis functions of main effects. "auto" grows with the logarithm of the number of columns.
    n_interaction_bases : int
        B for pairs, and for triples.
    hidden : tuple of int
        Hidden units of the basis network.
    n_subnets : int
        S, the number of independent basis networks whose shapes are added.
    fourier : int
        Number of random frequencies of the network's input; 0 is the paper's form.
    batch_norm : bool
        Batch normalization in the basis network.
    dropout, basis_dropout : float
        Shares of hidden units and of basis values that training drops.
    tied_classes : bool or "auto"
        True learns one shape per term and a weight of it per class (the paper); False learns a shape per class. "auto"
        ties classes if terms × classes are very many. Tied classes have no boosted steps.
    staged : bool
        Train interactions after the main effects, on what these leave unexplained. False trains one network of all
        terms (the paper), without boosted steps.
    refine : bool
        Propose boosted steps besides the smooth shapes of the network, for jumps and edges that smooth bases cannot
        express. Steps need held-out rows (`validation_size`) and are left out for very large tables, with tied
        classes, with an `output_penalty`, and if members select different columns (`max_terms`).
    smoothness : float or "auto"
        Strength of the penalty on rough shapes, as a multiple of the default; 0 is none. The exact engine has none.
    output_penalty, weight_decay : float
        The paper's penalty on contributions, and AdamW's penalty on weights.
    learning_rate : float
        Initial rate of a cosine schedule.
    batch_size, max_steps : int or "auto"
        Rows in a batch, and batches of a stage. "auto" depends on the number of rows.
    max_epochs : float, optional
        Passes over the rows, instead of `max_steps`.
    validation_size : float or int
        Rows that each member holds out for early stopping and for the shares: a share of the rows, or a maximum number.
        0 trains to the end and keeps what the network proposes.
    outer_bags : int or "auto"
        Number of members. The model is their mean, its error bars are their standard deviation. "auto" depends on the
        preset and the number of rows.
    early_stopping_rounds : int
        Stop after this many of 25 checkpoints without a better validation loss; 0 never stops early.
    early_stopping_tolerance : float or "auto"
        Improvement of the validation loss that makes a checkpoint better. "auto" keeps the latest checkpoint, unless an
        earlier one was better by more than the standard error of the difference.
    time_limit : float, optional
        Seconds after which training stops with the best model so far.
    callbacks : list of callables, optional
        Each is called with the `History` at every checkpoint; a true result stops training.
    verbose : bool
        Show a progress bar.
    n_jobs : int, optional
        Number of threads; None and -1 are all cores.
    device : str
        Device of the training: "cpu" or a torch device.
    memory_limit : int or str, optional
        Maximum memory of the process in a fit to files, in bytes or as "2GB". A larger table is cached on disk and
        trained in random parts. None is half of the free memory.
    cache_dir : path, optional
        Folder of this cache, which is about as large as the files; None is a temporary folder. Several processes can
        share a folder: a cache that one has written is read by the others if it holds what they need.
    keep_cache : bool
        Keep the cache in `cache_dir` for the next fit to the same files.
    random_state : int, RandomState or None
        The same seed gives the same model.
    checkpoint_dir : path, optional
        Folder for the state of the training. `fit(X, y, resume=True)` resumes an interrupted fit from there. Each fit
        needs a folder of its own; a second fit at the same time raises an error.
    checkpoint_every : float
        Seconds between two checkpoints.
    warm_start : bool
        Let a second `fit` continue from the fitted model, as `update` does.

    Warns
    -----
    UserWarning
        If parameters were set that the fit does not read: most parameters of the network for a very wide sparse table,
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


PARAMETERS = indent(cleandoc(EstimatorParameters.__doc__ or "").partition("\n\n")[2], "    ").strip()
