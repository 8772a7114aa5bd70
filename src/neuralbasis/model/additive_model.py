"""`AdditiveModel`, the result of a fit: one table per term, an intercept and a link. It needs NumPy but no torch.

    score(x) = intercept + Σ_terms table_term(position of x)          prediction = link⁻¹(score)

In: any table of rows. Out: scores, contributions, predictions, probabilities. Plots, explanations, edits, files and
exports all read the same tables, so they agree with the predictions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .. import kernels
from ..data.columns import Columns
from ..data.frames import read_columns
from ..data.records import find_rows, read_rows
from ..data.sparse import SparseMatrix, to_sparse
from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..encoding.layout import Layout, flatten, raise_if_infinite
from ..losses.links import inverse_link
from ..readonly import freeze_fields
from ..serialization.model_file import read_fields, write_model
from ..terms.term import Term, term_name
from . import predictor
from .card import write_card
from .explained import ExplainedModel
from .factors import Contributions, Factors, LowRankPredictor, fill_contributions, join_contributions
from .predictor import TablePredictor, make_predictors, take_rows
from .residuals import Residuals, predict_bounds
from .scorecard import describe
from .shapes import AnyShape, LowRankShape, renumber, square_spreads
from .summary import Summary
from .unseen import warn_if_unseen

CACHED_NUMBERS = 1 << 16  # scores to which the link is applied at a time: they stay in the cache
MAX_MEASURED = 500_000_000  # contributions to average for importances; beyond it, a random sample of rows
MAX_BYTES = 2e9  # limit of the dense contributions of a sparse table or a wide model


@dataclass(frozen=True, eq=False)
class AdditiveModel(ExplainedModel):
    """A fitted additive model.

    Rows may come as any kind of table. Columns are found by name, in any order; plain arrays are read by position. One
    row may be a dict, such as `{"age": 31, "city": "Oslo"}`, and several rows a list of dicts. Models are immutable, so
    several threads may use one at the same time.

    Parameters
    ----------
    encoder : axes of the columns
    intercept : (K,) score of a row whose contributions are all zero
    shapes : one per term
    link : "identity", "logit" or "mlogit"
    classes : labels of the classes, None for regression
    n_jobs : number of threads; None and -1 use all cores
    summary : how the model was fitted, None if it was built by hand
    residuals : residuals of held-out rows for `predict_interval`, one for each output; empty if there are none

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"]).model_
    >>> model.predict({"size": 2.5, "colour": "green"}).shape
    (1,)
    >>> model.contributions([{"size": 2.5, "colour": "red"}, {"size": None, "colour": "blue"}]).shape
    (2, 2, 1)
    """

    encoder: Encoder
    intercept: np.ndarray
    shapes: tuple[AnyShape, ...]
    link: str
    classes: np.ndarray | None = None
    n_jobs: int | None = None
    summary: Summary | None = None
    residuals: tuple[Residuals, ...] = ()
    _is_plain: bool = field(init=False, repr=False)
    _places: tuple[Mapping[str, float] | None, ...] = field(init=False, repr=False)
    _used: list[int] | None = field(init=False, repr=False)  # columns that terms contain, None for all
    _predictors: tuple[TablePredictor | LowRankPredictor, ...] = field(init=False, repr=False)

    def __post_init__(self):
        freeze_fields(self, "intercept", "classes")
        used, shapes = _find_used(len(self.encoder.axes), self.shapes)
        axes = self.encoder.axes if used is None else [self.encoder.axes[feature] for feature in used]
        places = [_number_levels(axis) for axis in self.encoder.axes]
        object.__setattr__(self, "_is_plain", not any(axis.is_level for axis in self.encoder.axes))
        object.__setattr__(self, "_places", tuple(places))
        object.__setattr__(self, "_used", used)
        object.__setattr__(self, "_predictors", make_predictors(axes, shapes))

    @property
    def layout(self) -> Layout:
        """Axes and terms as flat arrays."""
        return flatten(self.encoder.axes, self.terms, [shape.axes for shape in self.shapes])

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        """Column indices of each term."""
        return tuple(shape.term for shape in self.shapes)

    @cached_property
    def term_names(self) -> tuple[str, ...]:
        """Names of the terms: "age", "age & income"."""
        names = self.encoder.names
        return tuple(term_name(term, names) for term in self.terms)

    @cached_property
    def term_index(self) -> Mapping[str, int]:
        """Index of each term by name; an interaction is listed under every order of its columns."""
        names = self.encoder.names
        found: dict[str, int] = {}
        for index, term in enumerate(self.terms):
            for order in permutations(term):
                found.setdefault(term_name(order, names), index)
        return found

    @property
    def n_outputs(self) -> int:
        """Number of scores of a row: one, or one per class with three classes or more."""
        return len(self.intercept)

    @property
    def absent_value(self) -> float:
        """Value of the elements that a SciPy sparse matrix does not store; a parameter of the estimators."""
        requested = 0.0 if self.summary is None else self.summary.parameters.get("absent_value", 0.0)
        return float(requested) if isinstance(requested, (int, float)) else np.nan  # files hold NaN as None

    def scores(self, X: Any) -> np.ndarray:
        """(N, K) scores: intercept plus the contributions of all terms."""
        return self._look_up(X, per_term=False)[:, 0]

    def contributions(self, X: Any) -> np.ndarray:
        """(N, T, K) contribution of every term to the score of every row; dense, even if X is sparse."""
        return self._look_up(X, per_term=True)

    def list_contributions(self, X: Any) -> Contributions:
        """Contributions without the zeros of wide models: terms in factors whose features are all present in a row."""
        if not self.is_wide:
            return fill_contributions(range(len(self.shapes)), self.contributions(X))
        numbers = self._numbers(X)
        if isinstance(numbers, np.ndarray):
            infinite = np.isinf(numbers).any(axis=0)
            raise_if_infinite(self.encoder.axes, int(infinite.argmax()) if infinite.any() else -1)
        found = [part.list_contributions(numbers) for part in self._predictors if isinstance(part, LowRankPredictor)]
        tables = [t for t, shape in enumerate(self.shapes) if not isinstance(shape, LowRankShape)]
        if tables:
            dense = replace(self, shapes=tuple(self.shapes[t] for t in tables))
            found.append(fill_contributions(tables, dense.contributions(X)))
        return join_contributions(found)

    def store(self, X: Any) -> SparseMatrix:
        """Rows of a wide model as a sparse matrix."""
        numbers = self._numbers(X)
        return to_sparse(numbers, self.factors[0].finder.absent) if isinstance(numbers, np.ndarray) else numbers

    @cached_property
    def factors(self) -> tuple[Factors, ...]:
        """Terms of a wide model, one entry for each order; none for other models."""
        return tuple(part.factors for part in self._predictors if isinstance(part, LowRankPredictor))

    @property
    def is_wide(self) -> bool:
        """Whether any term is stored in factors."""
        return len(self.factors) > 0

    def predict(self, X: Any) -> np.ndarray:
        """(N,) values of a regression, or labels of the most probable class."""
        if self.classes is None:
            return inverse_link(self.link, self.scores(X))
        if self.link == "logit":
            return self._label((self.scores(X)[:, 0] > 0).astype(int))
        step = predictor.BLOCK_ROWS
        if not isinstance(X, np.ndarray) or len(X) <= step:
            return self._label(self._pick_classes(self._numbers(X)))
        blocks = [X[first : first + step] for first in range(0, len(X), step)]
        return self._label(np.concatenate([self._pick_classes(self._numbers(block)) for block in blocks]))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, classes) probabilities of the classes."""
        if self.classes is None:
            raise AttributeError("predict_proba needs a model of classes; this one is a regression")
        scores = self.scores(X)
        if self.link == "mlogit":
            self._softmax(scores)
            return scores
        return inverse_link(self.link, scores)

    def predict_interval(self, X: Any, coverage: float = 0.9) -> np.ndarray:
        """(N, 2) bounds of the target of a regression, or of the probability of the second of two classes.

        Three classes or more give (N, K, 2), the bounds of all probabilities; see the method of the estimators.

        Examples
        --------
        >>> from neuralbasis import NeuralBasisRegressor
        >>> x = np.linspace(0, 1, 300)
        >>> y = x + np.random.default_rng(0).uniform(-0.1, 0.1, 300)
        >>> model = NeuralBasisRegressor(max_steps=100).fit({"size": x}, y).model_
        >>> model.predict_interval({"size": [0.2, 0.8]}, coverage=0.8).round(1).tolist()
        [[0.1, 0.3], [0.7, 0.9]]
        """
        return predict_bounds(self.residuals, self.link, self.scores(X), coverage)

    def predict_with_uncertainty(self, X: Any) -> np.ndarray:
        """(N, 2) score and its standard error, (N, K, 2) with three classes or more.

        The standard error is the root of the sum over all terms of the squared `spread`, interpolated between knots
        like scores. `predict_interval` measures how far targets or shares of classes are from the score.
        """
        errors = np.sqrt(np.maximum(self._variances[1].scores(X), 0.0)) * self._variances[0]
        found = np.stack([self.scores(X), errors], axis=2)
        return found[:, 0] if self.n_outputs == 1 else found

    @cached_property
    def _variances(self) -> tuple[float, AdditiveModel]:
        """A unit, and a model whose scores are the sums of all squared spreads in this unit."""
        unit, shapes = square_spreads(self.shapes, self.encoder)
        return unit, replace(self, intercept=np.zeros(self.n_outputs), shapes=shapes, residuals=())

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model to one file for `neuralbasis.load`, without pickle; replaces an existing file atomically."""
        write_model(self, path)
        return Path(path)

    def _repr_html_(self) -> str:
        return write_card(self)

    def __str__(self) -> str:
        return describe(self)

    def __repr__(self) -> str:
        return f"AdditiveModel({len(self.shapes)} terms, {self.link})"

    def importances(self, importance_type: str = "avg_weight") -> np.ndarray:
        """(T,) mean absolute contribution over the training rows ("avg_weight"), or range of the scores ("min_max").

        With three classes or more, the mean over the classes. Merged and updated models do not have all their training
        rows, so they average over the cells of a table, weighted by training weight.
        """
        if importance_type not in ("avg_weight", "min_max"):
            raise ValueError(f"importance_type must be 'avg_weight' or 'min_max', not {importance_type!r}")
        found = np.zeros(len(self.shapes))
        for part in self._predictors:
            found[part.index] = part.importances(importance_type)
        return found

    def measure(self, numbers: np.ndarray | SparseMatrix, weights: np.ndarray) -> AdditiveModel:
        """A copy of the model whose importances are measured on the training rows, or on a random sample of them.

        numbers : (N, D) rows as returned by `Encoder.numbers`
        weights : (N,) weights of the rows
        """
        total, n_rows = np.zeros((len(self.shapes), self.n_outputs)), len(numbers)
        if total.size * n_rows > MAX_MEASURED:
            chosen = np.sort(np.random.default_rng(0).permutation(n_rows)[: max(1, MAX_MEASURED // total.size)])
            numbers, weights = take_rows(numbers, chosen), weights[chosen]
        step = max(1, predictor.BLOCK_NUMBERS // max(total.size, 1))
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            found = self._sum_terms(self._take_used(take_rows(numbers, rows)), per_term=True)
            total += np.einsum("n,ntk->tk", weights[rows], np.abs(found, out=found))
        total /= weights.sum()
        shapes = [
            shape if isinstance(shape, LowRankShape) else shape.measure(sizes.copy())
            for shape, sizes in zip(self.shapes, total, strict=True)
        ]
        return replace(self, shapes=tuple(shapes))

    def score_numbers(self, numbers: np.ndarray | SparseMatrix) -> np.ndarray:
        """(N, K) scores of rows as returned by `Encoder.numbers`."""
        return self._sum_terms(self._take_used(numbers), per_term=False)[:, 0]

    def _take_used(self, numbers: np.ndarray | SparseMatrix) -> np.ndarray | SparseMatrix:
        if self._used is None:
            return numbers
        return numbers.select(self._used) if isinstance(numbers, SparseMatrix) else numbers[:, self._used]

    def leanings(self) -> np.ndarray:
        """(T, K) how much each term raises or lowers each score where a row differs from the most frequent value.

        The value is `share · (1 - share) · difference`. `share` is the share of the training rows off the most frequent
        value, `difference` the mean contribution off that value minus the contribution on it. For a column that is
        0 in most rows, such as the count of a word, the sign is the direction in which its presence moves the score.
        Values that nearly all rows or nearly no rows have give a small result.
        """
        found = np.zeros((len(self.shapes), self.n_outputs))
        for part in self._predictors:
            found[part.index] = part.leanings()
        return found

    def axes_by_feature(self) -> list[list[Axis]]:
        """For each column its own axis, then the coarser axes of its interactions."""
        found = [{len(axis.knots): axis} for axis in self.encoder.axes]
        for shape in self.shapes:
            for feature, axis in zip(shape.term, shape.axes, strict=True):
                found[feature].setdefault(len(axis.knots), axis)
        return [[axes[size] for size in sorted(axes, reverse=True)] for axes in found]

    def _label(self, classes: np.ndarray) -> np.ndarray:
        """Labels of class indices, in a new array that the caller may change."""
        return np.asarray(self.classes)[classes]

    def _pick_classes(self, numbers: np.ndarray | SparseMatrix) -> np.ndarray:
        """(N,) index of the class with the highest score, a block of rows at a time to bound memory.

        For tied classes, scores in single precision decide most rows. Rows in which rounding could matter are scored
        again in double precision.
        """
        classes, step = np.full(len(numbers), -1), max(1, predictor.BLOCK_NUMBERS // self.n_outputs)
        tied = self._predictors[0] if len(self._predictors) == 1 else None
        if isinstance(tied, TablePredictor) and tied.mix is not None and kernels.NUMBA:
            self._raise_if_infinite(tied.pick_classes(numbers, self.intercept, classes, self.n_jobs))
        undecided = np.flatnonzero(classes < 0)
        for first in range(0, len(undecided), step):
            rows = undecided[first : first + step]
            classes[rows] = self._sum_terms(take_rows(numbers, rows), False)[:, 0].argmax(axis=1)
        return classes

    def _softmax(self, scores: np.ndarray) -> None:
        """Replace scores (N, classes) by probabilities in place, in blocks that fit into the cache."""
        step = max(1, CACHED_NUMBERS // self.n_outputs)

        def work(_part, low, high):
            for first in range(low, high, step):
                rows = slice(first, min(first + step, high))
                scores[rows] = inverse_link(self.link, scores[rows])
            return -1

        kernels.share_rows(work, len(scores), kernels.count_threads(self.n_jobs), 4 * step)

    def _look_up(self, X: Any, per_term: bool) -> np.ndarray:
        numbers = self._numbers(X)
        if per_term and (self.is_wide or isinstance(numbers, SparseMatrix)):
            self._check_size(len(numbers))
        return self._sum_terms(numbers, per_term)

    def _sum_terms(self, numbers: np.ndarray | SparseMatrix, per_term: bool) -> np.ndarray:
        """(N, T, K) contributions if `per_term`, else (N, 1, K) scores."""
        out = np.zeros((len(numbers), len(self.shapes) if per_term else 1, self.n_outputs))
        if not per_term:
            out[:] = self.intercept
        for part in self._predictors:
            self._raise_if_infinite(part.add_contributions(out, numbers, per_term, self.n_jobs))
        return out

    def _raise_if_infinite(self, bad: int) -> None:
        """Raise if `bad`, an index into the columns in use, is not -1."""
        if bad >= 0:
            raise_if_infinite(self.encoder.axes, bad if self._used is None else self._used[bad])

    def _check_size(self, n_rows: int) -> None:
        needed = 8.0 * n_rows * len(self.shapes) * self.n_outputs
        if needed > MAX_BYTES:
            raise ValueError(
                f"contributions of {n_rows:,} rows to {len(self.shapes):,} terms and {self.n_outputs} score(s) would "
                f"take {needed / 1e9:,.1f} GB; pass at most {int(MAX_BYTES * n_rows / needed):,} rows at a time, or "
                "use list_contributions, which omits the zeros of a wide model"
            )

    def _numbers(self, X: Any) -> np.ndarray | SparseMatrix:
        """(N, columns in use) values of the rows."""
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0 and self._is_plain
        if plain and X.shape[1] == len(self.encoder.axes):
            return X if self._used is None else X[:, self._used]  # fast path without conversion
        rows = find_rows(X)
        if rows is not None:
            names = self.encoder.names
            found = read_rows(rows, names, self._places)
            warn_if_unseen(
                self.encoder.axes,
                found,
                lambda index: read_columns({names[index]: [row[names[index]] for row in rows]})[0],
                None,
            )
            return found if self._used is None else found[:, self._used]
        columns = self.find_columns(X)
        numbers = self.encoder.numbers(columns, self._used)
        if not isinstance(numbers, SparseMatrix):
            warn_if_unseen(self.encoder.axes, numbers, columns.__getitem__, self._used)
        return numbers

    def find_columns(self, X: Any) -> Columns:
        """Columns of the model: by name if the table has names, otherwise by position."""
        columns = X if isinstance(X, Columns) else read_columns(X, absent=self.absent_value)
        return columns.select(self.encoder.names) if columns.named else columns


def load(path: str | os.PathLike[str] | BinaryIO) -> AdditiveModel:
    """Load a model that `AdditiveModel.save` wrote. It predicts bit for bit the same.

    Needs neither torch nor scikit-learn. Nothing in the file is executed. A file that is damaged, malicious or not a
    model raises an `archive.DocumentError`, a subclass of ValueError, after bounded work.

    Parameters
    ----------
    path : path of the file, or an open binary file that can seek

    Returns
    -------
    AdditiveModel

    Examples
    --------
    >>> import tempfile, neuralbasis
    >>> fitted = neuralbasis.NeuralBasisRegressor(max_steps=20).fit([[1.0], [2.0], [3.0]] * 9, [3.0, 4.0, 5.0] * 9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model = neuralbasis.load(fitted.save(f"{folder}/prices.nbm"))
    >>> bool(model.predict([[2.5]]) == fitted.predict([[2.5]])), model.summary.n_rows
    (True, 27)
    """
    return AdditiveModel(**read_fields(path))


def find_model(model: Any) -> AdditiveModel:
    """The AdditiveModel of a fitted estimator, or the model itself."""
    found = getattr(model, "model_", model)
    if not isinstance(found, AdditiveModel):
        raise TypeError(f"expected an AdditiveModel or a fitted estimator, not {type(model).__name__}; call fit first")
    return found


def _find_used(n_columns: int, shapes: Sequence[AnyShape]) -> tuple[list[int] | None, Sequence[AnyShape]]:
    """The columns that terms contain, and the shapes with these columns renumbered.

    None if at least half of the columns are in use, since selecting them would cost more than it saves, or if a term
    is in factors, which read only the stored values of a row.
    """
    tables = [shape for shape in shapes if not isinstance(shape, LowRankShape)]
    used = sorted({feature for shape in tables for feature in shape.term})
    if 2 * len(used) >= n_columns or len(tables) < len(shapes):
        return None, shapes
    number = {feature: index for index, feature in enumerate(used)}
    return used, [renumber(shape, number) for shape in tables]


def _number_levels(axis: Axis) -> Mapping[str, float] | None:
    """Level -> index, None for a continuous column."""
    return None if axis.levels is None else {level: float(index) for index, level in enumerate(axis.levels)}
