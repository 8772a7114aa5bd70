"""AdditiveModel: what remains of a fitted network. One table a term, an intercept, a link; NumPy only.

    score(x) = intercept + Σ_terms table_term(position of x)          prediction = link⁻¹(score)

Prediction, plots, explanations, edits, files and exports all read these tables, so none of them can disagree.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, BinaryIO

import numpy as np

from . import kernels
from .axis import Axis
from .columns import Columns, find_rows, read_columns, read_rows
from .document import read_fields, write_model
from .encoder import Encoder
from .layout import Layout, flatten, raise_if_infinite
from .link import inverse_link
from .scorecard import Scorecard, describe, scorecard
from .shape import Shape, TiedShape
from .summary import Summary
from .terms import Term, term_name

BLOCK_NUMBERS = 1 << 23  # contributions of tied terms worked on at a time


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
    shapes: tuple[Shape | TiedShape, ...]
    link: str
    classes: np.ndarray | None = None
    n_jobs: int | None = None
    summary: Summary | None = None
    _is_plain: bool = field(init=False, repr=False)
    _places: tuple[Mapping[str, float] | None, ...] = field(init=False, repr=False)
    _used: list[int] | None = field(init=False, repr=False)  # columns that terms speak of, None for all
    _parts: tuple[_Part, ...] = field(init=False, repr=False)

    def __post_init__(self):
        is_tied = [isinstance(shape, TiedShape) for shape in self.shapes]
        used = _find_used(self.terms, len(self.encoder.axes))
        number = {feature: index for index, feature in enumerate(used)}
        axes = [self.encoder.axes[feature] for feature in used]
        shapes = [replace(shape, term=tuple(number[feature] for feature in shape.term)) for shape in self.shapes]
        parts = [
            _Part(axes, shapes, [t for t, tied in enumerate(is_tied) if tied == wished])
            for wished in sorted(set(is_tied))
        ]
        places = [_number_levels(axis) for axis in self.encoder.axes]
        object.__setattr__(self, "_is_plain", not any(axis.is_level for axis in self.encoder.axes))
        object.__setattr__(self, "_places", tuple(places))
        object.__setattr__(self, "_used", None if len(used) == len(self.encoder.axes) else used)
        object.__setattr__(self, "_parts", tuple(parts))

    @property
    def layout(self) -> Layout:
        """Axes and terms in flat arrays."""
        return flatten(self.encoder.axes, self.terms, [shape.axes for shape in self.shapes])

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(shape.term for shape in self.shapes)

    @property
    def term_names(self) -> tuple[str, ...]:
        names = self.encoder.names
        return tuple(term_name(term, names) for term in self.terms)

    @property
    def n_outputs(self) -> int:
        return len(self.intercept)

    def scores(self, X: Any) -> np.ndarray:
        """(N, K) scores: intercept plus the contributions of all terms."""
        return self._look_up(X, per_term=False)[:, 0]

    def contributions(self, X: Any) -> np.ndarray:
        """(N, T, K) contribution of every term to every row's score."""
        return self._look_up(X, per_term=True)

    def predict(self, X: Any) -> np.ndarray:
        """Values of a regression, or the most probable class."""
        scores = self.scores(X)
        if self.classes is None:
            return inverse_link(self.link, scores)
        winner = (scores[:, 0] > 0).astype(int) if self.link == "logit" else scores.argmax(axis=1)
        return self.classes[winner]

    def predict_proba(self, X: Any) -> np.ndarray:
        """(N, classes) probabilities."""
        if self.classes is None:
            raise AttributeError("predict_proba needs a model of classes; this one is a regression")
        return inverse_link(self.link, self.scores(X))

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
        """(T,) weighted mean of |scores| over the cells, or range of the scores; the mean over classes."""
        if importance_type not in ("avg_weight", "min_max"):
            raise ValueError(f"importance_type must be 'avg_weight' or 'min_max', not {importance_type!r}")
        return np.array([_importance(shape, importance_type) for shape in self.shapes])

    def axes_by_feature(self) -> list[list[Axis]]:
        """For each column its own axis and then the coarser ones that interactions use."""
        found = [{len(axis.knots): axis} for axis in self.encoder.axes]
        for shape in self.shapes:
            for feature, axis in zip(shape.term, shape.axes, strict=True):
                found[feature].setdefault(len(axis.knots), axis)
        return [[axes[size] for size in sorted(axes, reverse=True)] for axes in found]

    def _look_up(self, X: Any, per_term: bool) -> np.ndarray:
        numbers = self._numbers(X)
        axes = self.encoder.axes if self._used is None else [self.encoder.axes[feature] for feature in self._used]
        out = np.zeros((len(numbers), len(self.shapes) if per_term else 1, self.n_outputs))
        if not per_term:
            out[:] = self.intercept
        for part in self._parts:
            bad = part.add_to(out, numbers, per_term, self.n_jobs)
            raise_if_infinite(axes, bad)
        return out

    def _numbers(self, X: Any) -> np.ndarray:
        """(N, columns that terms speak of)"""
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0 and self._is_plain
        if plain and X.shape[1] == len(self.encoder.axes):
            return X if self._used is None else X[:, self._used]  # the common case pays no conversion
        rows = find_rows(X)
        if rows is not None:
            found = read_rows(rows, self.encoder.names, self._places)
            return found if self._used is None else found[:, self._used]
        return self.encoder.numbers(self.find_columns(X), self._used)

    def find_columns(self, X: Any) -> Columns:
        """By name where the table has names, otherwise by position."""
        columns = X if isinstance(X, Columns) else read_columns(X)
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


class _Part:
    """Terms of a model as the kernels read them: all that have tables, or all whose classes are tied."""

    def __init__(self, axes: Sequence[Axis], shapes: Sequence[Shape | TiedShape], index: Sequence[int]):
        self.index, self.shapes = list(index), [shapes[t] for t in index]
        self.tables = [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in self.shapes]
        width = max(table.shape[-1] for table in self.tables)
        self.mix = self._join_mixes(width) if isinstance(self.shapes[0], TiedShape) else None
        tables = [_widen(table.reshape(-1, table.shape[-1]), width) for table in self.tables]
        layout = flatten(axes, [shape.term for shape in self.shapes], [shape.axes for shape in self.shapes])
        self.arrays = (
            *layout.axis_arrays,
            *layout.term_arrays,
            *layout.skips,
            np.ascontiguousarray(np.concatenate(tables)),
        )

    def _join_mixes(self, width: int) -> np.ndarray:
        """(T, C, K) weights of the shapes in the mean of the members."""
        mixes = [shape.mix.mean(axis=1) for shape in self.shapes if isinstance(shape, TiedShape)]
        return np.stack([_widen(mix.T, width).T for mix in mixes])

    def add_to(self, out: np.ndarray, numbers: np.ndarray, per_term: bool, n_jobs: int | None) -> int:
        """Add contributions of the rows into out (N, 1 or T, K); returns the column of an infinite value or -1."""
        if self.mix is None and (not per_term or len(self.index) == out.shape[1]):
            return self._score(numbers, per_term, out, n_jobs)
        step = max(1, BLOCK_NUMBERS // self.arrays[-1].shape[1] // len(self.index))
        for first in range(0, len(numbers), step):
            rows = slice(first, first + step)
            found = np.zeros((len(numbers[rows]), len(self.index), self.arrays[-1].shape[1]))
            bad = self._score(numbers[rows], True, found, n_jobs)
            if bad >= 0:
                return bad
            if self.mix is None:
                out[rows, self.index] += found
            elif per_term:
                out[rows, self.index] += np.einsum("ntc,tck->ntk", found, self.mix)
            else:
                out[rows, 0] += found.reshape(len(found), -1) @ self.mix.reshape(-1, self.mix.shape[2])
        return -1

    def _score(self, numbers: np.ndarray, per_term: bool, out: np.ndarray, n_jobs: int | None) -> int:
        if not kernels.NUMBA:
            return self._score_numpy(numbers, per_term, out)

        if len(numbers) < 2 * kernels.MIN_ROWS and not numbers.flags.carray:
            numbers = np.array(numbers, order="C")  # a layout that no kernel is compiled for would cost seconds
        if len(numbers) <= kernels.FEW_ROWS:
            return kernels.score_few_rows(0, len(numbers), numbers, *self.arrays, per_term, out)

        def work(_part, first, last):
            return kernels.score_rows(first, last, numbers, *self.arrays, per_term, out)

        if len(numbers) < 2 * kernels.MIN_ROWS:  # not worth a look at the machine
            return work(0, 0, len(numbers))
        return kernels.share_rows(work, len(numbers), kernels.count_threads(n_jobs))

    def _score_numpy(self, numbers: np.ndarray, per_term: bool, out: np.ndarray) -> int:
        """The same numbers without numba, a block of rows at a time."""
        for first in range(0, len(numbers), 65536):
            rows = slice(first, first + 65536)
            bad = np.flatnonzero(np.isinf(numbers[rows]).any(axis=0))
            if len(bad):
                return int(bad[0])
            for index, (shape, table) in enumerate(zip(self.shapes, self.tables, strict=True)):
                places = [_positions(numbers[rows, f], a) for f, a in zip(shape.term, shape.axes, strict=True)]
                found = _interpolate(table, places)
                out[rows, index if per_term else 0, : found.shape[1]] += found
        return -1


def _find_used(terms: Sequence[Term], n_columns: int) -> list[int]:
    """Columns that terms speak of; all, where most are used: taking them out would cost more than it saves."""
    used = {feature for term in terms for feature in term}
    return sorted(used) if 2 * len(used) < n_columns else list(range(n_columns))


def _number_levels(axis: Axis) -> Mapping[str, float] | None:
    """Level -> its number, None for a continuous column."""
    return None if axis.levels is None else {level: float(index) for index, level in enumerate(axis.levels)}


def _widen(table: np.ndarray, width: int) -> np.ndarray:
    """Columns of zeros up to a common number."""
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))


def _importance(shape: Shape | TiedShape, importance_type: str) -> float:
    seen = shape.weights > 0
    if not seen.any():
        return 0.0
    scores = shape.scores[seen]  # (cells, K)
    if importance_type == "min_max":
        return float(np.ptp(scores, axis=0).mean())
    return float(np.average(np.abs(scores), axis=0, weights=shape.weights[seen]).mean())


def _positions(values: np.ndarray, axis: Axis) -> np.ndarray:
    """`kernels._locate` for a whole column."""
    count = len(axis.knots)
    if axis.is_level:
        found = np.minimum(np.searchsorted(axis.knots, np.nan_to_num(values, nan=-1.0)), count - 1)
        positions = np.where(axis.knots[found] == values, found + 1, count + 1.0)
    else:
        inside = np.clip(np.where(np.isnan(values), axis.knots[0], values), axis.knots[0], axis.knots[-1])
        left = np.clip(np.searchsorted(axis.knots, inside, side="right") - 1, 0, max(count - 2, 0))
        low, high = axis.knots[left], axis.knots[np.minimum(left + 1, count - 1)]
        unit = np.where(np.maximum(-low, high) > 1, 0.5, 1.0)  # halves: the range of huge knots must not overflow
        width = high * unit - low * unit if count > 1 else 1.0
        positions = 1 + left + (inside * unit - low * unit) / width
    return np.where(np.isnan(values), 0.0, positions)


def _interpolate(table: np.ndarray, positions: Sequence[np.ndarray]) -> np.ndarray:
    """Values (N, K) of a table between its cells."""
    total = np.zeros((len(positions[0]), table.shape[-1]))
    for corner in range(1 << len(positions)):
        share, cells = np.ones(len(positions[0])), []
        for d, position in enumerate(positions):
            whole = position.astype(np.int64)
            part = position - whole
            upper = bool(corner >> d & 1)
            share = share * (part if upper else 1 - part)
            cells.append(whole + (part > 0) if upper else whole)
        total += share[:, None] * table[tuple(cells)]
    return total
