"""AdditiveModel: what remains of a fitted network. One table a term, an intercept, a link; NumPy only.

    score(x) = intercept + Σ_terms table_term(position of x)          prediction = link⁻¹(score)

Prediction, plots, explanations, edits, files and exports all read these tables, so none of them can disagree.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import permutations
from typing import Any, BinaryIO

import numpy as np

from . import kernels
from .axis import Axis
from .columns import Columns, find_rows, read_columns, read_rows
from .document import read_fields, write_model
from .encoder import Encoder
from .factors import Contributions, FactoredPart, Factors, fill_contributions, join_contributions
from .layout import Layout, flatten, list_touches, raise_if_infinite
from .link import inverse_link
from .scorecard import Scorecard, describe, scorecard
from .shape import AnyShape, FactoredShape, Shape, TiedShape
from .stored import Stored, store_rows
from .summary import Summary
from .terms import Term, term_name

BLOCK_NUMBERS = 1 << 22  # scores of classes, or contributions of tied terms, worked on at a time
CACHED_NUMBERS = 1 << 16  # scores that are linked at a time
CHUNK_NUMBERS = 4000  # contributions of a row to tied terms: of more terms, some at a time
BLOCK_ROWS, STORED_ROWS = 1 << 14, 64  # stored rows worked on at a time, and that are worth a thread
ROUNDING, SMALLEST = float(np.finfo(np.float32).eps) / 2, 1e-20  # of single precision
MAX_BYTES = 2e9  # contributions of a stored table or a wide model: more would be dense by surprise

Hear = Callable[[slice, slice, np.ndarray], None]  # what is done with the contributions of some rows to some terms


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
    _parts: tuple[_Part | FactoredPart, ...] = field(init=False, repr=False)

    def __post_init__(self):
        used, shapes = _find_used(len(self.encoder.axes), self.shapes)
        axes = self.encoder.axes if used is None else [self.encoder.axes[feature] for feature in used]
        places = [_number_levels(axis) for axis in self.encoder.axes]
        object.__setattr__(self, "_is_plain", not any(axis.is_level for axis in self.encoder.axes))
        object.__setattr__(self, "_places", tuple(places))
        object.__setattr__(self, "_used", used)
        object.__setattr__(self, "_parts", _make_parts(axes, shapes))

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
        wished = 0.0 if self.summary is None else self.summary.parameters.get("absent_value", 0.0)
        return float(wished) if isinstance(wished, (int, float)) else np.nan  # a file holds None for it

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
        found = [part.list_contributions(numbers) for part in self._parts if isinstance(part, FactoredPart)]
        tables = [t for t, shape in enumerate(self.shapes) if not isinstance(shape, FactoredShape)]
        if tables:
            alone = replace(self, shapes=tuple(self.shapes[t] for t in tables))
            found.append(fill_contributions(tables, alone.contributions(X)))
        return join_contributions(found)

    def store(self, X: Any) -> Stored:
        """Rows of a wide model without their absent values."""
        numbers = self._numbers(X)
        absent = next(part.factors.finder.absent for part in self._parts if isinstance(part, FactoredPart))
        return store_rows(numbers, absent) if isinstance(numbers, np.ndarray) else numbers

    @cached_property
    def is_wide(self) -> bool:
        """Are its terms, or some of them, kept in factors?"""
        return any(isinstance(part, FactoredPart) for part in self._parts)

    def predict(self, X: Any) -> np.ndarray:
        """Values of a regression, or the most probable class."""
        if self.classes is None:
            return inverse_link(self.link, self.scores(X))
        if self.link == "logit":
            return self.classes[(self.scores(X)[:, 0] > 0).astype(int)]
        return self.classes[self._find_winners(self._numbers(X))]

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
        """(T,) weighted mean of |scores| over the cells, or range of the scores; the mean over classes."""
        if importance_type not in ("avg_weight", "min_max"):
            raise ValueError(f"importance_type must be 'avg_weight' or 'min_max', not {importance_type!r}")
        found = np.zeros(len(self.shapes))
        for part in self._parts:
            found[part.index] = part.importances(importance_type)
        return found

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

    def _find_winners(self, numbers: np.ndarray | Stored) -> np.ndarray:
        """(N,) classes with the highest score, a block of rows at a time: of many classes, scores are large.

        Where classes are tied, a product in single precision finds most of them; rows in which rounding could decide
        are scored again.
        """
        winners, step = np.full(len(numbers), -1), max(1, BLOCK_NUMBERS // self.n_outputs)
        tied = self._parts[0] if len(self._parts) == 1 and isinstance(self._parts[0], _Part) else None
        if tied is not None and tied.mix is not None and kernels.NUMBA:
            self._raise_if_infinite(tied.guess(numbers, self.intercept, winners, self.n_jobs))
        unsure = np.flatnonzero(winners < 0)
        for first in range(0, len(unsure), step):
            some = unsure[first : first + step]
            winners[some] = self._add_up(_take(numbers, some), False)[:, 0].argmax(axis=1)
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
        if per_term and (self.is_wide or isinstance(numbers, Stored)):
            self._check_size(len(numbers))
        return self._add_up(numbers, per_term)

    def _add_up(self, numbers: np.ndarray | Stored, per_term: bool) -> np.ndarray:
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

    def _numbers(self, X: Any) -> np.ndarray | Stored:
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
    tables = [shape for shape in shapes if not isinstance(shape, FactoredShape)]
    used = sorted({feature for shape in tables for feature in shape.term})
    if 2 * len(used) >= n_columns or len(tables) < len(shapes):
        return None, shapes
    number = {feature: index for index, feature in enumerate(used)}
    return used, [replace(shape, term=tuple(number[feature] for feature in shape.term)) for shape in tables]


def _make_parts(axes: Sequence[Axis], shapes: Sequence[AnyShape]) -> tuple[_Part | FactoredPart, ...]:
    """The terms by the way they are looked up: in tables, in tables of tied classes, in each one of the factors."""
    tables: dict[type, dict[int, Shape | TiedShape]] = {Shape: {}, TiedShape: {}}
    factors: dict[Factors, list[int]] = {}
    for t, shape in enumerate(shapes):
        if isinstance(shape, FactoredShape):
            factors.setdefault(shape.factors, []).append(t)
        else:
            tables[type(shape)][t] = shape
    plain = [_Part(axes, list(found.values()), list(found)) for found in tables.values() if found]
    return (*plain, *(FactoredPart(part, index) for part, index in factors.items()))


class _Part:
    """Terms of a model as the kernels read them: all that have tables, or all whose classes are tied."""

    def __init__(self, axes: Sequence[Axis], shapes: Sequence[Shape | TiedShape], index: Sequence[int]):
        self.index, self.shapes = index, shapes
        self.tables = [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in self.shapes]
        width = max(table.shape[-1] for table in self.tables)
        self.absent: dict[str, tuple[tuple[np.ndarray, ...], np.ndarray]] = {}  # what `_find_absent` found last
        self.mix = self._join_mixes(width) if isinstance(self.shapes[0], TiedShape) else None
        tables = [_widen(table.reshape(-1, table.shape[-1]), width) for table in self.tables]
        self.layout = layout = flatten(
            axes, [shape.term for shape in self.shapes], [shape.axes for shape in self.shapes]
        )
        self.arrays = (
            *layout.axis_arrays,
            *layout.term_arrays,
            *layout.skips,
            np.ascontiguousarray(np.concatenate(tables)),
        )

    def importances(self, importance_type: str) -> list[float]:
        return [_importance(shape, importance_type) for shape in self.shapes]

    def leanings(self) -> np.ndarray:
        return np.stack([lean(shape.scores, shape.weights) for shape in self.shapes])

    def _join_mixes(self, width: int) -> np.ndarray:
        """(T, C, K) weights of the shapes in the mean of the members."""
        mixes = [shape.mix.mean(axis=1) for shape in self.shapes if isinstance(shape, TiedShape)]
        return np.stack([_widen(mix.T, width).T for mix in mixes])

    def add_to(self, out: np.ndarray, numbers: np.ndarray | Stored, per_term: bool, n_jobs: int | None) -> int:
        """Add contributions of the rows into out (N, 1 or T, K); returns the column of an infinite value or -1."""
        if self.mix is None and (not per_term or len(self.index) == out.shape[1]):
            return self._score(numbers, per_term, out, n_jobs)
        if self.mix is not None and not per_term:
            return self._add_mixed(out[:, 0], numbers, n_jobs)

        def hear(rows: slice, _terms: slice, found: np.ndarray) -> None:
            out[rows, self.index] += found if self.mix is None else np.einsum("ntc,tck->ntk", found, self.mix)

        return self._visit_rows(numbers, len(numbers), n_jobs, hear)

    def _add_mixed(self, out: np.ndarray, numbers: np.ndarray | Stored, n_jobs: int | None) -> int:
        """Add the scores of tied classes into out (N, K)."""
        assert self.mix is not None
        step, mix = self._count_rows(numbers), self.mix
        product = np.empty((step, mix.shape[2]))

        def hear(rows: slice, terms: slice, found: np.ndarray) -> None:
            flat, own = found.reshape(len(found), -1), product[: len(found)]
            out[rows] += np.matmul(flat, mix[terms].reshape(flat.shape[1], -1), out=own)

        return self._visit(numbers, step, n_jobs, hear)

    def guess(
        self, numbers: np.ndarray | Stored, intercept: np.ndarray, winners: np.ndarray, n_jobs: int | None
    ) -> int:
        """Write the classes with the highest score, -1 where rounding could decide; of tied classes alone.

        A sum of n products of rounded numbers is off by little more than n + 2 roundings of the sum of their sizes;
        each further chunk of products that is added to it rounds once more.
        """
        shares, largest = self._single
        step, threads, n_terms = self._count_rows(numbers), kernels.count_threads(n_jobs), len(self.index)
        size = self._count_terms(numbers) * shares.shape[1]
        n_roundings = size + math.ceil(n_terms / self._count_terms(numbers)) + 8
        scores, product = np.empty((2, step, shares.shape[2]), dtype=np.float32)
        single, sizes = np.empty((step, size), dtype=np.float32), np.empty(step)
        most = np.abs(intercept).max() + SMALLEST

        def hear(rows: slice, terms: slice, found: np.ndarray) -> None:
            n_rows, flat = len(found), found.reshape(len(found), -1)
            narrow, own = single[:n_rows, : flat.shape[1]], scores[:n_rows]
            if terms.start == 0:
                with np.errstate(over="ignore"):
                    own[:], sizes[:n_rows] = intercept, most

            def cast(_part, low, high):
                return kernels.narrow_rows(low, high, flat, largest[terms].ravel(), narrow, sizes)

            def pick(_part, low, high):
                reach = n_roundings * ROUNDING * sizes[:n_rows]
                return kernels.pick_classes(low, high, own, reach, winners[rows])

            kernels.share_rows(cast, n_rows, threads, STORED_ROWS)
            with np.errstate(over="ignore", invalid="ignore"):  # what is too large for single precision is not sure
                own += np.matmul(narrow, shares[terms].reshape(flat.shape[1], -1), out=product[:n_rows])
            if terms.stop == n_terms:
                kernels.share_rows(pick, n_rows, threads, STORED_ROWS)

        return self._visit(numbers, step, n_jobs, hear)

    def _count_terms(self, numbers: np.ndarray | Stored) -> int:
        """Tied terms that are looked up at a time."""
        if isinstance(numbers, Stored) or not kernels.NUMBA:
            return len(self.index)
        return min(len(self.index), max(1, CHUNK_NUMBERS // self.arrays[-1].shape[1]))

    def _count_rows(self, numbers: np.ndarray | Stored) -> int:
        """Rows of tied terms that are worked on at a time, at most all."""
        assert self.mix is not None
        _, width, n_outputs = self.mix.shape
        step = BLOCK_NUMBERS // max(self._count_terms(numbers) * width, n_outputs, len(self.layout.axes))
        return max(1, min(step, len(numbers)))

    def _visit(self, numbers: np.ndarray | Stored, step: int, n_jobs: int | None, hear: Hear) -> int:
        """Let `hear` know what the terms say of so many rows at a time, (n, T, C); of very many terms, chunk by chunk.

        The array is used again. Returns the column of an infinite value or -1.
        """
        if self._count_terms(numbers) == len(self.index):
            return self._visit_rows(numbers, step, n_jobs, hear)
        assert isinstance(numbers, np.ndarray)
        return self._visit_chunks(numbers, step, n_jobs, hear)

    def _visit_rows(self, numbers: np.ndarray | Stored, step: int, n_jobs: int | None, hear: Hear) -> int:
        n_terms, width = len(self.index), self.arrays[-1].shape[1]
        step = max(1, min(step, BLOCK_NUMBERS // (n_terms * width)))
        room, every = np.empty((min(step, len(numbers)), n_terms, width)), slice(0, n_terms)
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            found = room[: rows.stop - first]
            found[:] = 0.0
            bad = self._score(_take(numbers, rows), True, found, n_jobs)
            if bad >= 0:
                return bad
            hear(rows, every, found)
        return -1

    def _visit_chunks(self, numbers: np.ndarray, step: int, n_jobs: int | None, hear: Hear) -> int:
        """Positions are found once; the weights of a chunk's terms are then read once for many rows."""
        layout, threads, table = self.layout, kernels.count_threads(n_jobs), self.arrays[-1]
        n_terms, chunk = len(self.index), self._count_terms(numbers)
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            block = numbers[rows]
            positions = np.empty((len(block), len(layout.axes)))

            def locate(_part, low, high, block=block, positions=positions):
                return kernels.locate_rows(low, high, block, *layout.axis_arrays, positions)

            bad = kernels.share_rows(locate, len(block), threads, STORED_ROWS)
            if bad >= 0:
                return bad
            taken = np.ascontiguousarray(positions.T)
            for start in range(0, n_terms, chunk):
                terms = slice(start, min(start + chunk, n_terms))
                found = np.zeros((len(block), terms.stop - start, table.shape[1]))
                arrays = layout.terms_between(start, terms.stop)

                def gather(_part, low, high, found=found, arrays=arrays, taken=taken):
                    return kernels.gather_rows(low, high, taken, *arrays, table, True, found)

                kernels.share_rows(gather, len(block), threads, STORED_ROWS)
                hear(rows, terms, found)
        return -1

    @cached_property
    def _single(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (T, C, K) of the shapes in single precision, and the largest (T, C) of each over the classes."""
        assert self.mix is not None
        with np.errstate(over="ignore"):
            return self.mix.astype(np.float32), np.abs(self.mix).max(axis=2)

    def _score(self, numbers: np.ndarray | Stored, per_term: bool, out: np.ndarray, n_jobs: int | None) -> int:
        if not kernels.NUMBA:
            return self._score_numpy(numbers, per_term, out)
        if isinstance(numbers, Stored):
            return self._score_stored(numbers, per_term, out, kernels.count_threads(n_jobs))

        if len(numbers) < 2 * kernels.MIN_ROWS and not numbers.flags.carray:
            numbers = np.array(numbers, order="C")  # a layout that no kernel is compiled for would cost seconds
        if len(numbers) <= kernels.FEW_ROWS:
            return kernels.score_few_rows(0, len(numbers), numbers, *self.arrays, per_term, out)

        def work(_part, first, last):
            return kernels.score_rows(first, last, numbers, *self.arrays, per_term, out)

        if len(numbers) < 2 * kernels.MIN_ROWS:  # not worth a look at the machine
            return work(0, 0, len(numbers))
        return kernels.share_rows(work, len(numbers), kernels.count_threads(n_jobs))

    def _score_stored(self, numbers: Stored, per_term: bool, out: np.ndarray, threads: int) -> int:
        """What all terms say where every value is absent, and the difference that the entries of a row make."""
        *arrays, table = self.arrays[len(self.layout.axis_arrays) :]
        for first in range(0, len(numbers), BLOCK_ROWS):
            rows = slice(first, min(first + BLOCK_ROWS, len(numbers)))
            positions = self.layout.encode(_take(numbers, rows), threads, np.float64)
            entries = positions.starts, positions.column, positions.value, positions.absent
            touches, at_absent = self._find_absent(numbers.absent, positions.absent)
            out[rows] += at_absent if per_term else at_absent.sum(axis=0)

            def work(_part, low, high, block=out[rows], entries=(*entries, *touches), at_absent=at_absent):
                order = np.arange(len(block))
                return kernels.gather_stored(low, high, order, *entries, *arrays, table, at_absent, per_term, block)

            kernels.share_rows(work, len(positions), threads, STORED_ROWS)
        return -1

    def _find_absent(self, absent: float, positions: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Which entries touch which terms, and what every term says (T, C) where all values are absent."""
        known = self.absent.get(str(absent))
        if known is None:
            *arrays, table = self.arrays[len(self.layout.axis_arrays) :]
            found = np.zeros((1, len(self.index), table.shape[1]))
            kernels.gather_rows(0, 1, positions[:, None], *arrays, table, True, found)
            known = list_touches(self.layout, positions), found[0]
            self.absent = {str(absent): known}
        return known

    def _score_numpy(self, numbers: np.ndarray | Stored, per_term: bool, out: np.ndarray) -> int:
        """The same numbers without numba, a block of rows at a time."""
        for first in range(0, len(numbers), 65536):
            rows = slice(first, min(first + 65536, len(numbers)))
            block = _take(numbers, rows)
            if not isinstance(block, Stored) and len(bad := np.flatnonzero(np.isinf(block).any(axis=0))):
                return int(bad[0])
            for index, (shape, table) in enumerate(zip(self.shapes, self.tables, strict=True)):
                places = [_positions(_read_column(block, f), a) for f, a in zip(shape.term, shape.axes, strict=True)]
                found = _interpolate(table, places)
                out[rows, index if per_term else 0, : found.shape[1]] += found
        return -1


def _take(numbers: np.ndarray | Stored, rows: slice | np.ndarray) -> Any:
    """Some rows; neighbours without a copy."""
    if isinstance(rows, np.ndarray):
        if rows[-1] - rows[0] != len(rows) - 1:
            return numbers.take(rows) if isinstance(numbers, Stored) else numbers[rows]
        rows = slice(int(rows[0]), int(rows[-1]) + 1)
    return numbers.take_slice(rows.start, rows.stop) if isinstance(numbers, Stored) else numbers[rows]


def _read_column(numbers: np.ndarray | Stored, column: int) -> np.ndarray:
    return numbers.read_column(column) if isinstance(numbers, Stored) else numbers[:, column]


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


def lean(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(K,) see `AdditiveModel.leanings`."""
    scores, shares = scores.reshape(-1, scores.shape[-1]), weights.ravel() / (weights.sum() or 1.0)
    usual = int(shares.argmax())
    return shares[usual] * (shares @ (scores - scores[usual]))


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
