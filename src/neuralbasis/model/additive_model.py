"""AdditiveModel: what remains of a fitted network. One table a term, an intercept, a link; NumPy only.

    score(x) = intercept + Σ_terms table_term(position of x)          prediction = link⁻¹(score)

Prediction, plots, explanations, edits, files and exports all read these tables, so none of them can disagree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
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
from . import predictor as parts
from .factors import Contributions, LowRankPart, fill_contributions, join_contributions
from .predictor import TablePart, make_parts, take_rows
from .scorecard import Scorecard, describe, scorecard
from .shapes import AnyShape, LowRankShape
from .summary import Summary

CACHED_NUMBERS = 1 << 16  # scores that are linked at a time
MAX_MEASURED = 500_000_000  # contributions whose sizes are averaged; of more, a random part
MAX_BYTES = 2e9  # contributions of a stored table or a wide model: more would be dense by surprise


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """A fitted additive model: look up, sum, link.

    Rows may be any table; columns are found by name, in any order, and a plain array is read by position. One row may
    be a plain dict, such as `{"age": 31, "city": "Oslo"}`, and a few rows a list of such dicts. A model does not
    change: any number of threads may call it.

    Parameters
    ----------
    encoder : axes of the columns
    intercept : (K,) score of a row whose contributions are all zero
    shapes : one a term
    link : "identity", "logit" or "mlogit"
    classes : labels of the classes, None for regression
    n_jobs : threads for many rows; None and -1 are all cores
    summary : how the model was fitted, None if it was made by hand

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
    _is_plain: bool = field(init=False, repr=False)
    _places: tuple[Mapping[str, float] | None, ...] = field(init=False, repr=False)
    _used: list[int] | None = field(init=False, repr=False)  # columns that terms speak of, None for all
    _parts: tuple[TablePart | LowRankPart, ...] = field(init=False, repr=False)

    def __post_init__(self):
        freeze_fields(self, "intercept", "classes")
        used, shapes = _find_used(len(self.encoder.axes), self.shapes)
        axes = self.encoder.axes if used is None else [self.encoder.axes[feature] for feature in used]
        places = [_number_levels(axis) for axis in self.encoder.axes]
        object.__setattr__(self, "_is_plain", not any(axis.is_level for axis in self.encoder.axes))
        object.__setattr__(self, "_places", tuple(places))
        object.__setattr__(self, "_used", used)
        object.__setattr__(self, "_parts", make_parts(axes, shapes))

    @property
    def layout(self) -> Layout:
        """Axes and terms in flat arrays."""
        return flatten(self.encoder.axes, self.terms, [shape.axes for shape in self.shapes])

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return tuple(shape.term for shape in self.shapes)

    @cached_property
    def term_names(self) -> tuple[str, ...]:
        names = self.encoder.names
        return tuple(term_name(term, names) for term in self.terms)

    @cached_property
    def term_index(self) -> Mapping[str, int]:
        """Index of each term by its name, with the columns of an interaction in any order."""
        names = self.encoder.names
        found: dict[str, int] = {}
        for index, term in enumerate(self.terms):
            for order in permutations(term):
                found.setdefault(term_name(order, names), index)
        return found

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    @property
    def absent_value(self) -> float:
        """What a SciPy sparse matrix holds where it stores nothing; an estimator's parameter."""
        requested = 0.0 if self.summary is None else self.summary.parameters.get("absent_value", 0.0)
        return float(requested) if isinstance(requested, (int, float)) else np.nan  # a file holds None for it

    def scores(self, X: Any) -> np.ndarray:
        """(N, K) scores: intercept plus the contributions of all terms."""
        return self._look_up(X, per_term=False)[:, 0]

    def contributions(self, X: Any) -> np.ndarray:
        """(N, T, K) contribution of every term to every row's score, also where the table is sparse."""
        return self._look_up(X, per_term=True)

    def list_contributions(self, X: Any) -> Contributions:
        """The same without the zeros of wide models: of factors only those terms whose features a row all has."""
        if not self.is_wide:
            return fill_contributions(range(len(self.shapes)), self.contributions(X))
        numbers = self._numbers(X)
        if isinstance(numbers, np.ndarray):
            infinite = np.isinf(numbers).any(axis=0)
            raise_if_infinite(self.encoder.axes, int(infinite.argmax()) if infinite.any() else -1)
        found = [part.list_contributions(numbers) for part in self._parts if isinstance(part, LowRankPart)]
        tables = [t for t, shape in enumerate(self.shapes) if not isinstance(shape, LowRankShape)]
        if tables:
            alone = replace(self, shapes=tuple(self.shapes[t] for t in tables))
            found.append(fill_contributions(tables, alone.contributions(X)))
        return join_contributions(found)

    def store(self, X: Any) -> SparseMatrix:
        """Rows of a wide model without their absent values."""
        numbers = self._numbers(X)
        absent = next(part.factors.finder.absent for part in self._parts if isinstance(part, LowRankPart))
        return to_sparse(numbers, absent) if isinstance(numbers, np.ndarray) else numbers

    @cached_property
    def is_wide(self) -> bool:
        """Are its terms, or some of them, kept in factors?"""
        return any(isinstance(part, LowRankPart) for part in self._parts)

    def predict(self, X: Any) -> np.ndarray:
        """Values of a regression, or the most probable class."""
        if self.classes is None:
            return inverse_link(self.link, self.scores(X))
        if self.link == "logit":
            return self._label((self.scores(X)[:, 0] > 0).astype(int))
        if not isinstance(X, np.ndarray) or len(X) <= parts.BLOCK_ROWS:
            return self._label(self._find_winners(self._numbers(X)))
        blocks = [X[first : first + parts.BLOCK_ROWS] for first in range(0, len(X), parts.BLOCK_ROWS)]
        return self._label(np.concatenate([self._find_winners(self._numbers(block)) for block in blocks]))

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, classes) probabilities."""
        if self.classes is None:
            raise AttributeError("predict_proba needs a model of classes; this one is a regression")
        scores = self.scores(X)
        if self.link == "mlogit":
            self._soften(scores)
            return scores
        return inverse_link(self.link, scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to one file, which `neuralbasis.load` reads: no pickle, and no torch to read it.

        A file that is there already is replaced at once or not at all.
        """
        write_model(self, path)

    def scorecard(self, term: Any = None, max_rows: int | None = None) -> Scorecard:
        """The table of one term, or of all, to read and to predict by hand; see `scorecard.scorecard`."""
        return scorecard(self, term, max_rows)

    def __str__(self) -> str:
        return describe(self)

    def __repr__(self) -> str:
        return f"AdditiveModel({len(self.shapes)} terms, {self.link})"

    def importances(self, importance_type: str = "avg_weight") -> np.ndarray:
        """(T,) mean absolute contribution over the training rows ("avg_weight"), or range of the scores ("min_max").

        With three classes or more, the mean over the classes. A merged or updated model has not all of its rows at
        hand: it takes the mean over the cells of a table, by their training weight.
        """
        if importance_type not in ("avg_weight", "min_max"):
            raise ValueError(f"importance_type must be 'avg_weight' or 'min_max', not {importance_type!r}")
        found = np.zeros(len(self.shapes))
        for part in self._parts:
            found[part.index] = part.importances(importance_type)
        return found

    def measure(self, numbers: np.ndarray | SparseMatrix, weights: np.ndarray) -> AdditiveModel:
        """The same model with the importances of its tables measured on training rows, or on a random part of them.

        numbers : (N, D) rows as `Encoder.numbers` gives them
        weights : (N,)
        """
        total, n_rows = np.zeros((len(self.shapes), self.n_outputs)), len(numbers)
        if total.size * n_rows > MAX_MEASURED:
            chosen = np.sort(np.random.default_rng(0).permutation(n_rows)[: max(1, MAX_MEASURED // total.size)])
            numbers, weights = take_rows(numbers, chosen), weights[chosen]
        step = max(1, parts.BLOCK_NUMBERS // max(total.size, 1))
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            found = self._add_up(self._take_used(take_rows(numbers, rows)), per_term=True)
            total += np.einsum("n,ntk->tk", weights[rows], np.abs(found, out=found))
        total /= weights.sum()
        shapes = [
            shape if isinstance(shape, LowRankShape) else shape.measure(sizes.copy())
            for shape, sizes in zip(self.shapes, total, strict=True)
        ]
        return replace(self, shapes=tuple(shapes))

    def _take_used(self, numbers: np.ndarray | SparseMatrix) -> np.ndarray | SparseMatrix:
        if self._used is None:
            return numbers
        return numbers.select(self._used) if isinstance(numbers, SparseMatrix) else numbers[:, self._used]

    def leanings(self) -> np.ndarray:
        """(T, K) how far each term speaks for each score where a row has not its most frequent value, or against it.

        That is `share · (1 - share) · difference`: what the term contributes to rows off that value more than on it,
        and their share of the training rows. For a column that is 0 in most rows, such as a word, the sign says which
        way its presence leans; a value that nearly all rows have, or nearly none, leans little.
        """
        found = np.zeros((len(self.shapes), self.n_outputs))
        for part in self._parts:
            found[part.index] = part.leanings()
        return found

    def axes_by_feature(self) -> list[list[Axis]]:
        """For each column its own axis and then the coarser ones that interactions use."""
        found = [{len(axis.knots): axis} for axis in self.encoder.axes]
        for shape in self.shapes:
            for feature, axis in zip(shape.term, shape.axes, strict=True):
                found[feature].setdefault(len(axis.knots), axis)
        return [[axes[size] for size in sorted(axes, reverse=True)] for axes in found]

    def _label(self, winners: np.ndarray) -> np.ndarray:
        """Labels of classes, in an array of the caller's own."""
        return np.asarray(self.classes)[winners]

    def _find_winners(self, numbers: np.ndarray | SparseMatrix) -> np.ndarray:
        """(N,) classes with the highest score, a block of rows at a time: of many classes, scores are large.

        Where classes are tied, a product in single precision finds most of them; rows in which rounding could decide
        are scored again.
        """
        winners, step = np.full(len(numbers), -1), max(1, parts.BLOCK_NUMBERS // self.n_outputs)
        tied = self._parts[0] if len(self._parts) == 1 and isinstance(self._parts[0], TablePart) else None
        if tied is not None and tied.mix is not None and kernels.NUMBA:
            self._raise_if_infinite(tied.guess(numbers, self.intercept, winners, self.n_jobs))
        unsure = np.flatnonzero(winners < 0)
        for first in range(0, len(unsure), step):
            some = unsure[first : first + step]
            winners[some] = self._add_up(take_rows(numbers, some), False)[:, 0].argmax(axis=1)
        return winners

    def _soften(self, scores: np.ndarray) -> None:
        """Probabilities in the place of scores (N, classes), a few rows at a time: they stay in the cache."""
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
        return self._add_up(numbers, per_term)

    def _add_up(self, numbers: np.ndarray | SparseMatrix, per_term: bool) -> np.ndarray:
        out = np.zeros((len(numbers), len(self.shapes) if per_term else 1, self.n_outputs))
        if not per_term:
            out[:] = self.intercept
        for part in self._parts:
            self._raise_if_infinite(part.add_to(out, numbers, per_term, self.n_jobs))
        return out

    def _raise_if_infinite(self, bad: int) -> None:
        """If a part found an infinite value, in one of the columns that terms speak of."""
        if bad >= 0:
            raise_if_infinite(self.encoder.axes, bad if self._used is None else self._used[bad])

    def _check_size(self, n_rows: int) -> None:
        needed = 8.0 * n_rows * len(self.shapes) * self.n_outputs
        if needed > MAX_BYTES:
            raise ValueError(
                f"contributions of {n_rows:,} rows to {len(self.shapes):,} terms and {self.n_outputs} score(s) would "
                f"take {needed / 1e9:,.1f} GB; ask for fewer rows at a time, at most "
                f"{int(MAX_BYTES * n_rows / needed):,} of them, or use list_contributions, which leaves the zeros of a "
                "wide model out"
            )

    def _numbers(self, X: Any) -> np.ndarray | SparseMatrix:
        """(N, columns that terms speak of)"""
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0 and self._is_plain
        if plain and X.shape[1] == len(self.encoder.axes):
            return X if self._used is None else X[:, self._used]  # the common case pays no conversion
        rows = find_rows(X)
        if rows is not None:
            names = self.encoder.names
            found = read_rows(rows, names, self._places)
            self.encoder.warn_if_unseen(
                found, lambda index: read_columns({names[index]: [row[names[index]] for row in rows]})[0]
            )
            return found if self._used is None else found[:, self._used]
        columns = self.find_columns(X)
        numbers = self.encoder.numbers(columns, self._used)
        if not isinstance(numbers, SparseMatrix):
            self.encoder.warn_if_unseen(numbers, columns.__getitem__, self._used)
        return numbers

    def find_columns(self, X: Any) -> Columns:
        """By name where the table has names, otherwise by position."""
        columns = X if isinstance(X, Columns) else read_columns(X, absent=self.absent_value)
        return columns.select(self.encoder.names) if columns.named else columns


def load(path: str | os.PathLike[str] | BinaryIO) -> AdditiveModel:
    """The model that `AdditiveModel.save` wrote to a file; it predicts bit for bit as before.

    Needs neither torch nor scikit-learn. Nothing in the file is executed: a file that is damaged, hostile or not a
    model is a `document.DocumentError`, which is a ValueError, after bounded work.

    Parameters
    ----------
    path : the file, or an open binary file that can seek

    Examples
    --------
    >>> import tempfile, neuralbasis
    >>> fitted = neuralbasis.NeuralBasisRegressor(max_steps=20).fit([[1.0], [2.0], [3.0]] * 9, [3.0, 4.0, 5.0] * 9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(f"{folder}/prices.nbm")
    ...     model = neuralbasis.load(f"{folder}/prices.nbm")
    >>> bool(model.predict([[2.5]]) == fitted.predict([[2.5]]))
    True
    >>> model.summary.n_rows, model.summary.estimator
    (27, 'NeuralBasisRegressor')
    """
    return AdditiveModel(**read_fields(path))


def find_model(model: Any) -> AdditiveModel:
    """The AdditiveModel itself, or that of a fitted estimator."""
    found = getattr(model, "model_", model)
    if not isinstance(found, AdditiveModel):
        raise TypeError(f"expected an AdditiveModel or a fitted estimator, not {type(model).__name__}; call fit first")
    return found


def _find_used(n_columns: int, shapes: Sequence[AnyShape]) -> tuple[list[int] | None, Sequence[AnyShape]]:
    """The columns that tables speak of, and the shapes with these numbered anew.

    None for all of them, also where most are used: taking them out would cost more than it saves. Factors read what a
    row stores, so they need not know.
    """
    tables = [shape for shape in shapes if not isinstance(shape, LowRankShape)]
    used = sorted({feature for shape in tables for feature in shape.term})
    if 2 * len(used) >= n_columns or len(tables) < len(shapes):
        return None, shapes
    number = {feature: index for index, feature in enumerate(used)}
    return used, [replace(shape, term=tuple(number[feature] for feature in shape.term)) for shape in tables]


def _number_levels(axis: Axis) -> Mapping[str, float] | None:
    """Level -> its number, None for a continuous column."""
    return None if axis.levels is None else {level: float(index) for index, level in enumerate(axis.levels)}
