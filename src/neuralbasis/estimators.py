"""NeuralBasisRegressor and NeuralBasisClassifier: scikit-learn estimators in EBM's spelling.

`fit` reads the table and the target and passes them to `training.fit`; everything else reads the AdditiveModel that it
returns. Only `fit` and `update` import torch. `parameters` documents the parameters.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from sklearn.base import ClassifierMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from .config import FitConfig
from .data.target import Sample, check_init_score, check_weights
from .encoding.axis import Axis
from .lazy import Lazy
from .losses.links import inverse_link
from .model.additive_model import AdditiveModel, find_model
from .model.explained import ExplainedModel
from .model.residuals import predict_bounds
from .model.shapes import AnyShape
from .parameters import PARAMETERS, EstimatorParameters
from .readonly import freeze
from .settings import nest
from .validation import (
    encode_classes,
    find_classes,
    find_source,
    read_numbers,
    read_prediction_table,
    read_target,
    read_training_table,
    require_names,
)

if TYPE_CHECKING:
    from .data.files import Source
    from .training.checkpointer import Checkpointer
    from .training.fit import FitResult


class _NeuralBasisModel(ExplainedModel, EstimatorParameters):
    """What both estimators share: fits, updates, and the fitted model in EBM's spelling."""

    def fit(self, X, y, sample_weight=None, init_score=None, resume=False):
        """Fit the model to a table and a target.

        Parameters
        ----------
        X : table (NumPy, SciPy sparse, pandas, polars, Arrow, dict of columns), or a source of one: a path or glob of
            Parquet or CSV files, a folder, a list of paths, an Arrow dataset, or an iterable of record batches that can
            be iterated again; `feature_names` then selects its columns
        y : (N,) target; the name of its column if X is a source
        sample_weight : (N,) weights, optional; a row of weight 2 is two equal rows, one of weight 0 is absent; the name
            of their column if X is a source
        init_score : (N,) or (N, K) scores to start from, optional; the model is added to them
        resume : resume from the last checkpoint in `checkpoint_dir` (of `storage`), with the same rows and parameters,
            and return the model that the uninterrupted fit returns; the fit starts from the beginning if there is no
            checkpoint, or if a fit with other rows or parameters has ended there
        """
        from .training.fit import open_checkpointer

        config = FitConfig.read(self)
        if self.warm_start and hasattr(self, "model_"):
            return self.update(X, y, sample_weight, init_score)
        with open_checkpointer(config, resume) as checkpointer:
            if (source := find_source(X)) is not None:
                return self._fit_source(source, y, sample_weight, init_score, config, checkpointer)
            name = None if getattr(y, "name", None) is None else str(y.name)
            return self._fit_table(X, y, sample_weight, init_score, name, config, checkpointer)

    def _fit_table(
        self, X, y, sample_weight, init_score, target: str | None, config: FitConfig, checkpointer: Checkpointer
    ):
        from .training.fit import fit
        from .training.tables import MemoryTable

        columns, self._has_names = read_training_table(self, X)
        self.n_features_in_ = len(columns)
        self.feature_names_in_ = freeze(np.array(columns.names, dtype=object))
        sample = self._read_sample(y, sample_weight, init_score, columns.n_rows, is_new=True)
        table = MemoryTable(columns, sample, getattr(self, "classes_", None), target)
        return self._take(fit(table, config, checkpointer))

    def _fit_source(self, source: Source, y, sample_weight, init_score, config: FitConfig, checkpointer: Checkpointer):
        from .encoding.profile import choose_roles
        from .training.fit import fit
        from .training.tables import FileTable, read_in_memory

        require_names(y, sample_weight, init_score)
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
        """Correct the fitted model with new rows, in a fraction of the time of a fit.

        Columns, knots and terms stay. The learners propose a correction of every shape. Its prior share is that of the
        new rows among all rows; held-out rows move the share to 1 where the data have changed and to 0 where the
        correction is noise. `bin_weights_` add up. Errors are those of the old rows where nothing was learned and of
        the new rows where a shape was replaced; `evidence` and tables of members are not kept. A new level gets a cell
        in the main effect of a nominal column; interactions treat it as unseen. Classes must be those of the fit.

        Parameters
        ----------
        X, y, sample_weight : new rows as for `fit`, with the same columns in any order
        init_score : (N,) or (N, K) scores that the model is added to, if it was fitted with such scores

        Examples
        --------
        >>> import numpy as np
        >>> from neuralbasis import NeuralBasisRegressor
        >>> x = np.random.default_rng(0).random((900, 1))
        >>> model = NeuralBasisRegressor(max_steps=100).fit(x[:600], x[:600, 0])
        >>> _ = model.update(x[600:], 3 * x[600:, 0])  # the data have changed
        >>> round(float(np.ptp(model.predict([[0.1], [0.9]]))), 1), model.model_.summary.n_rows
        (2.4, 900)
        """
        from .training.fit import fit
        from .training.update import UpdateTable

        model = self._fitted_model()
        config = FitConfig.read(self, None if model.summary is None else model.summary.parameters).without_terms()
        if (source := find_source(X)) is not None:
            X, y, sample_weight = self._read_source(source, y, sample_weight, init_score, config)
        columns = model.find_columns(read_training_table(self, X)[0])
        sample = self._read_sample(y, sample_weight, init_score, columns.n_rows)
        result = fit(UpdateTable(model, columns, sample), config, stacklevel=4)
        self.model_, self.history_ = result.model, result.history
        return self

    def _read_source(self, source: Source, y, sample_weight, init_score, config: FitConfig) -> Any:
        """New rows of files, which must fit in memory."""
        from .encoding.profile import choose_roles
        from .training.tables import read_in_memory

        require_names(y, sample_weight, init_score)
        roles = choose_roles(source, y, sample_weight, list(self._fitted_model().encoder.names))
        parts = read_in_memory(config, source, roles)
        if parts is None:
            raise ValueError(
                "update reads its rows into memory, but these need more than memory_limit; update with some of the "
                "files at a time, or fit a new model"
            )
        return parts

    def _read_sample(self, y, sample_weight, init_score, n_rows: int, is_new: bool = False) -> Sample:
        """Target, weights and given scores of the rows; a new target defines the classes."""
        y = read_target(y, n_rows, type(self).__name__)
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
        """A table at prediction."""
        plain = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype == np.float64 and len(X) > 0
        if plain and X.shape[1] == self.n_features_in_ and not self._has_names:
            return X
        return read_prediction_table(self, X, self._has_names)

    def eval_terms(self, X) -> np.ndarray:
        """Contribution of every term to every row's score: (N, T), or (N, T, K) with three classes or more.

        `eval_terms(X).sum(axis=1) + intercept_` is the score.
        """
        contributions = self._fitted_model().contributions(self._read_table(X))
        return contributions[..., 0] if contributions.shape[2] == 1 else contributions

    def predict_interval(self, X, coverage: float = 0.9, init_score=None) -> np.ndarray:
        """(N, 2) lower and upper bound of the target, or of the probability of the second of two classes.

        Three classes or more give (N, K, 2). Bounds come from training rows with a similar score, each scored by the
        members that held it out. They assume no distribution and need no refit. The target of a regression lies between
        its bounds with about this probability, on average over rows with a similar prediction, not for every single
        row. Among rows with similar log odds, the share of a class lies between its bounds with this confidence.

        Parameters
        ----------
        X, init_score : table, and the scores (N,) or (N, K) of its rows if the model was fitted with such scores
        coverage : probability or confidence, between 0 and 1

        Examples
        --------
        >>> import numpy as np
        >>> from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
        >>> x, noise = np.random.default_rng(0).uniform(size=(2, 4000))
        >>> model = NeuralBasisRegressor(max_steps=100).fit(x[:, None], x * (0.5 + noise))  # noise grows with x
        >>> model.predict_interval([[0.2], [0.8]], coverage=0.8).round(1).tolist()
        [[0.1, 0.3], [0.5, 1.1]]
        >>> model = NeuralBasisClassifier(max_steps=100).fit(x[:, None], noise < x)  # the probability is x
        >>> bool(abs(model.predict_interval([[0.3]]) - 0.3).max() < 0.1)
        True
        """
        model = self._fitted_model()
        return predict_bounds(model.residuals, model.link, self._scores(X, init_score), coverage)

    def predict_with_uncertainty(self, X, init_score=None) -> np.ndarray:
        """(N, 2) score and its standard error; (N, K, 2) with three classes or more.

        The score is the prediction of a regression, or the log odds of two classes; see the method of `AdditiveModel`.

        Examples
        --------
        >>> x = np.random.default_rng(0).normal(size=(300, 1))
        >>> NeuralBasisRegressor(max_steps=100).fit(x, x[:, 0]).predict_with_uncertainty(x).shape
        (300, 2)
        """
        found = self._fitted_model().predict_with_uncertainty(self._read_table(X))
        init = check_init_score(init_score, len(found), 1 if found.ndim == 2 else found.shape[1])
        if init is not None:
            found[..., 0] += init[:, 0] if found.ndim == 2 else init
        return found

    def term_importances(self, importance_type: str = "avg_weight") -> np.ndarray:
        """(T,) mean absolute contribution over the training rows ("avg_weight"), or range of the shape ("min_max").

        With three classes or more, the mean over the classes; see `AdditiveModel.importances`.
        """
        return self._fitted_model().importances(importance_type)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the fitted model to one file, without pickle; `neuralbasis.load` reads it as an `AdditiveModel`."""
        return self._fitted_model().save(path)

    def _html_repr(self) -> str:
        """The card of the fitted model in a notebook; scikit-learn's diagram before the fit."""
        return self.model_._repr_html_() if hasattr(self, "model_") else super()._html_repr()

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
        """Table of each term; along each axis: missing, knots or levels, unseen; classes last."""
        return self._read_shapes(lambda shape: _squeeze(shape.scores))

    @property
    def standard_deviations_(self) -> Sequence[np.ndarray]:
        """Standard errors of `term_scores_`; deviations over the members in a model without `evidence`."""
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
        """For each column its knots, or a dict level -> cell: first of main effects, then of interactions."""
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


class NeuralBasisRegressor(RegressorMixin, _NeuralBasisModel):
    __doc__ = f"""Additive regression with shared neural bases.

    {PARAMETERS}

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
        return read_numbers(y)

    def predict(self, X, init_score=None) -> np.ndarray:
        """(N,) predictions; give `init_score` if the model was fitted with one."""
        return self._scores(X, init_score)[:, 0]


class NeuralBasisClassifier(ClassifierMixin, _NeuralBasisModel):
    __doc__ = f"""Additive classification with shared neural bases, two classes or more.

    {PARAMETERS}

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
        found = find_classes(y, weights)
        if is_new:
            if len(found) < 2:
                label = found.tolist()[0]
                raise ValueError(f"y has one class only, {label!r}; a classifier needs at least two classes")
            self.classes_ = freeze(found)
        return encode_classes(y, found, self.classes_)

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


Estimator: TypeAlias = NeuralBasisRegressor | NeuralBasisClassifier


def update(model: Any, X, y, sample_weight=None, init_score=None, **parameters: object) -> AdditiveModel:
    """A model that is corrected with new rows, see `NeuralBasisRegressor.update`; the given model does not change.

    Parameters
    ----------
    model : a fitted estimator, or a model that `load` or `merge` returned
    X, y, sample_weight, init_score : new rows with the model's columns
    parameters : of an estimator, such as `preset` or `random_state`; the default is the value at the fit of the model

    Returns
    -------
    AdditiveModel

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
    lasting = {name: before[name] for name in _LASTING if name in before} | {"absent_value": known.absent_value}
    estimator = kind(**nest(lasting)).set_params(**parameters)
    estimator.model_ = known
    estimator.n_features_in_ = len(known.encoder.axes)
    estimator.feature_names_in_ = freeze(np.array(known.encoder.names, dtype=object))
    if known.classes is not None:
        estimator.classes_ = known.classes
    return estimator.update(X, y, sample_weight, init_score).model_


# Parameters that an update inherits from the fit; others concern terms and knots, which stay, or the run.
_LASTING = (
    "preset", "n_bases", "n_interaction_bases", "hidden", "n_subnets", "fourier", "batch_norm",
    "dropout", "basis_dropout", "tied_classes", "boosted_steps", "smoothness", "output_penalty", "weight_decay",
    "learning_rate", "batch_size", "max_steps", "max_epochs", "validation_size", "outer_bags",
    "early_stopping_rounds", "early_stopping_tolerance",
)  # fmt: skip


def _squeeze(table: np.ndarray) -> np.ndarray:
    return table[..., 0] if table.shape[-1] == 1 else table


def _describe_axis(axis: Axis) -> Any:
    return {level: index + 1 for index, level in enumerate(axis.levels)} if axis.levels is not None else axis.knots
