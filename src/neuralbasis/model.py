"""AdditiveModel: what remains of a fitted network. One table a term, an intercept, a link; NumPy only.

    score(x) = intercept + Σ_terms table_term(position of x)          prediction = link⁻¹(score)

Prediction, plots, explanations, edits, files and exports all read these tables, so none of them can disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from . import kernels
from .axis import Axis
from .columns import Columns, read_columns
from .encoder import Encoder
from .layout import Layout, flatten, raise_if_infinite
from .link import inverse_link
from .terms import Term, term_name


@dataclass(frozen=True, eq=False)
class Shape:
    """One term's table.

    Parameters
    ----------
    term : the features, increasing
    axes : one axis a feature: the column's own for a main effect, a coarser one for an interaction
    scores : (c_1, …, c_o, K) contribution of each cell; along each axis: missing, knots, unseen
    spread : standard deviation of `scores` over the members, same shape
    weights : (c_1, …, c_o) training weight that fell on each cell
    """

    term: Term
    axes: tuple[Axis, ...]
    scores: np.ndarray
    spread: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True, eq=False)
class AdditiveModel:
    """A fitted additive model: look up, sum, link.

    Rows may be any table; columns are found by name, in any order, and a plain array is read by position.

    Parameters
    ----------
    encoder : axes of the columns
    intercept : (K,) score of a row whose contributions are all zero
    shapes : one a term
    link : "identity", "logit" or "mlogit"
    classes : labels of the classes, None for regression
    """

    encoder: Encoder
    intercept: np.ndarray
    shapes: tuple[Shape, ...]
    link: str
    classes: np.ndarray | None = None
    n_jobs: int | None = None
    layout: Layout = field(init=False, repr=False)
    _is_plain: bool = field(init=False, repr=False)
    _arrays: tuple[np.ndarray, ...] = field(init=False, repr=False)

    def __post_init__(self):
        layout = flatten(self.encoder.axes, self.terms, [shape.axes for shape in self.shapes])
        tables = [shape.scores.reshape(-1, len(self.intercept)) for shape in self.shapes]
        table = np.ascontiguousarray(np.concatenate(tables))
        object.__setattr__(self, "layout", layout)
        object.__setattr__(self, "_is_plain", not layout.axis_level.any())
        object.__setattr__(self, "_arrays", (*layout.axis_arrays, *layout.term_arrays, table))

    @property
    def terms(self) -> tuple[Term, ...]:
        return tuple(shape.term for shape in self.shapes)

    @property
    def term_names(self) -> tuple[str, ...]:
        return tuple(term_name(term, self.encoder.names) for term in self.terms)

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

    def importances(self, importance_type: str = "avg_weight") -> np.ndarray:
        """(T,) weighted mean of |scores| over the cells, or range of the scores; the mean over classes."""
        if importance_type not in ("avg_weight", "min_max"):
            raise ValueError(f"importance_type must be 'avg_weight' or 'min_max', not {importance_type!r}")
        return np.array([_importance(shape, importance_type) for shape in self.shapes])

    def axes_by_feature(self) -> list[list[Axis]]:
        """For each column its own axis and then the coarser ones that interactions use, by order."""
        found = [{1: axis} for axis in self.encoder.axes]
        for shape in self.shapes:
            for feature, axis in zip(shape.term, shape.axes, strict=True):
                found[feature][len(shape.term)] = axis
        return [[axes[order] for order in sorted(axes)] for axes in found]

    def _look_up(self, X: Any, per_term: bool) -> np.ndarray:
        numbers = self._numbers(X)
        shape = (len(numbers), len(self.shapes) if per_term else 1, self.n_outputs)
        out = np.zeros(shape)
        if not per_term:
            out[:] = self.intercept
        if kernels.NUMBA:
            bad = self._score_compiled(numbers, per_term, out)
        else:
            bad = self._score_numpy(numbers, per_term, out)
        raise_if_infinite(self.encoder.axes, bad)
        return out

    def _numbers(self, X: Any) -> np.ndarray:
        plain = type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and len(X) > 0 and self._is_plain
        if plain and X.shape[1] == len(self.encoder.axes):
            return X  # the common case pays no conversion
        return self.encoder.numbers(self.find_columns(X))

    def find_columns(self, X: Any) -> Columns:
        """By name where the table has names, otherwise by position."""
        columns = X if isinstance(X, Columns) else read_columns(X)
        return columns.select(self.encoder.names) if columns.named else columns

    def _score_compiled(self, numbers: np.ndarray, per_term: bool, out: np.ndarray) -> int:
        def work(_part, first, last):
            return kernels.score_rows(first, last, numbers, *self._arrays, per_term, out)

        if len(numbers) < 2 * kernels.MIN_ROWS:  # not worth a look at the machine
            return work(0, 0, len(numbers))
        return kernels.share_rows(work, len(numbers), kernels.count_threads(self.n_jobs))

    def _score_numpy(self, numbers: np.ndarray, per_term: bool, out: np.ndarray) -> int:
        """The same numbers without numba, a block of rows at a time."""
        for first in range(0, len(numbers), 65536):
            rows = slice(first, first + 65536)
            bad = np.flatnonzero(np.isinf(numbers[rows]).any(axis=0))
            if len(bad):
                return int(bad[0])
            for index, shape in enumerate(self.shapes):
                places = [_positions(numbers[rows, f], a) for f, a in zip(shape.term, shape.axes, strict=True)]
                out[rows, index if per_term else 0] += _interpolate(shape.scores, places)
        return -1


def _importance(shape: Shape, importance_type: str) -> float:
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
        positions = np.where((values >= 0) & (values < count), values + 1, count + 1.0)
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
