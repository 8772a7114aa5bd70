"""Predictors: the terms of a model as flat arrays for the compiled kernels.

In: axes and shapes of a model. Out: one predictor per way of looking terms up, each of which adds the contributions of
its terms to an array. `TablePredictor` reads plain tables, or tables shared by tied classes (a few shapes per term,
mixed for each class); `LowRankPredictor` reads factors. Without numba, NumPy computes the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix
from ..encoding.axis import Axis, unused_axis
from ..encoding.layout import flatten, list_touches
from ..kernels.blas import hold_blas
from .factors import Factors, LowRankPredictor
from .interpolation import bracket_knots, interpolate_table
from .shapes import AnyShape, LowRankShape, Shape, TiedShape

BLOCK_NUMBERS = 1 << 22  # scores, or contributions of tied terms, held in memory at a time
MIN_BLOCK_ROWS = 256  # rows per thread and block: smaller matrix products are slow
CHUNK_NUMBERS = 4000  # contributions per row of tied terms; more terms are processed in chunks
BLOCK_ROWS = 1 << 14  # rows of an array to read, or rows of a sparse matrix to score, at a time
NUMPY_ROWS = 1 << 16  # rows to score at a time without numba
MIN_THREAD_ROWS = 64  # rows of a sparse matrix or of tied terms that are worth a thread
MIN_THREAD_LOOKUPS = 1 << 16  # rows × terms that are worth a thread
ROUNDING, SMALLEST, LARGEST = float(np.finfo(np.float32).eps) / 2, 1e-20, 1e37  # of single precision

BlockFunction = Callable[[slice, slice, np.ndarray], None]  # takes rows, terms and their contributions (n, t, C)


def make_predictors(axes: Sequence[Axis], shapes: Sequence[AnyShape]) -> tuple[TablePredictor | LowRankPredictor, ...]:
    """Group the terms: plain tables, tables of tied classes, and one group for each of the factors."""
    tables: dict[type, dict[int, Shape | TiedShape]] = {Shape: {}, TiedShape: {}}
    factors: dict[Factors, list[int]] = {}
    for t, shape in enumerate(shapes):
        if isinstance(shape, LowRankShape):
            factors.setdefault(shape.factors, []).append(t)
        else:
            tables[type(shape)][t] = shape
    plain = [TablePredictor(axes, list(found.values()), list(found)) for found in tables.values() if found]
    return (*plain, *(LowRankPredictor(part, index) for part, index in factors.items()))


class TablePredictor:
    """All terms of a model with plain tables, or all terms whose classes are tied.

    index : (T,) positions of the terms among those of the model
    arrays : axes, terms and the concatenated tables (cells, C) in the order of the kernels' arguments
    mix : (T, C, K) weight of each shape in each class, None for plain tables
    """

    def __init__(self, axes: Sequence[Axis], shapes: Sequence[Shape | TiedShape], index: Sequence[int]):
        self.index, self.shapes = index, shapes
        self.tables = [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in self.shapes]
        width = max(table.shape[-1] for table in self.tables)
        self._absent: dict[str, tuple[tuple[np.ndarray, ...], np.ndarray]] = {}  # last result of `_find_absent`
        self.mix = self._join_mixes(width) if isinstance(self.shapes[0], TiedShape) else None
        tables = [_widen(table.reshape(-1, table.shape[-1]), width) for table in self.tables]
        used = {id(axis) for shape in self.shapes for axis in shape.axes}
        axes = [axis if id(axis) in used else unused_axis(axis.name) for axis in axes]  # no term reads their knots
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
        """(T,) see `AdditiveModel.importances`."""
        if importance_type == "avg_weight":
            return [float(shape.importances.mean()) for shape in self.shapes]
        return [_measure_range(shape) for shape in self.shapes]

    def leanings(self) -> np.ndarray:
        """(T, K) see `AdditiveModel.leanings`."""
        return np.stack([lean(shape.scores, shape.weights) for shape in self.shapes])

    def _join_mixes(self, width: int) -> np.ndarray:
        """(T, C, K) weights of the shapes, averaged over the members."""
        mixes = [shape.mix.mean(axis=1) for shape in self.shapes if isinstance(shape, TiedShape)]
        return np.stack([_widen(mix.T, width).T for mix in mixes])

    def add_contributions(
        self, out: np.ndarray, numbers: np.ndarray | SparseMatrix, per_term: bool, n_jobs: int | None
    ) -> int:
        """Add the contributions of the rows to out (N, 1 or T, K); return the column of an infinite value or -1."""
        if self.mix is None and (not per_term or len(self.index) == out.shape[1]):
            return self._score(numbers, per_term, out, n_jobs)
        if self.mix is not None and not per_term:
            return self._for_each_block(numbers, n_jobs, lambda rows, step: self._sum_scores(out[rows, 0], step))
        return self._for_each_block(numbers, n_jobs, lambda rows, _step: self._add_terms(out[rows]))

    def pick_classes(
        self, numbers: np.ndarray | SparseMatrix, intercept: np.ndarray, classes: np.ndarray, n_jobs: int | None
    ) -> int:
        """Write the class of highest score into classes (N,), -1 where rounding could decide; tied classes only.

        Returns the column of an infinite value or -1.
        """
        return self._for_each_block(
            numbers, n_jobs, lambda rows, step: self._pick_in_single(classes[rows], intercept, step)
        )

    def _for_each_block(
        self,
        numbers: np.ndarray | SparseMatrix,
        n_jobs: int | None,
        make_function: Callable[[slice, int], BlockFunction],
    ) -> int:
        """Split the rows between threads; each applies its own block function to the contributions of its rows.

        `make_function` takes the rows of a thread and the number of rows per block. A thread does all work on its
        blocks, from lookups to matrix products. Returns the column of an infinite value or -1.
        """
        threads = max(1, min(kernels.count_threads(n_jobs), len(numbers) // MIN_THREAD_ROWS))
        step = self._block_size(numbers, threads)

        def work(_part, low, high):
            rows = slice(low, high)
            return self._apply(take_rows(numbers, rows), step, make_function(rows, step))

        with hold_blas() if threads > 1 else nullcontext():
            return kernels.share_rows(work, len(numbers), threads, MIN_THREAD_ROWS)

    def _add_terms(self, out: np.ndarray) -> BlockFunction:
        """Add the contributions to out (N, T, K) of all terms."""

        def add(rows: slice, terms: slice, found: np.ndarray) -> None:
            contributions = found if self.mix is None else np.einsum("ntc,tck->ntk", found, self.mix[terms])
            out[rows, self.index[terms]] += contributions

        return add

    def _sum_scores(self, out: np.ndarray, step: int) -> BlockFunction:
        """Add the scores of tied classes to out (N, K)."""
        assert self.mix is not None
        mix, product = self.mix, np.empty((step, self.mix.shape[2]))

        def add(rows: slice, terms: slice, found: np.ndarray) -> None:
            flat, own = found.reshape(len(found), -1), product[: len(found)]
            out[rows] += np.matmul(flat, mix[terms].reshape(flat.shape[1], -1), out=own)

        return add

    def _pick_in_single(self, classes: np.ndarray, intercept: np.ndarray, step: int) -> BlockFunction:
        """Sum scores in single precision and write the class of the highest, -1 where rounding could decide.

        A sum of n products of rounded numbers is off by at most about n + 2 roundings of the sum of their sizes; each
        further chunk of products adds one rounding.
        """
        shares, largest = self._single
        n_terms, width, n_outputs = shares.shape
        n_roundings = n_terms * width + 8
        single, sizes = np.empty(step * n_terms * width, dtype=np.float32), np.empty(step)
        scores, product = np.empty((2, step, n_outputs), dtype=np.float32)
        with np.errstate(over="ignore"):
            most, last = np.abs(intercept).max() + SMALLEST, intercept.astype(np.float32)

        def pick(rows: slice, terms: slice, found: np.ndarray) -> None:
            n_rows, flat = len(found), found.reshape(len(found), -1)
            narrow, own = single[: flat.size].reshape(flat.shape), scores[:n_rows]
            is_first = terms.start == 0
            if is_first:
                sizes[:n_rows] = most
            kernels.narrow_rows(0, n_rows, flat, largest[terms].ravel(), narrow, sizes)
            with np.errstate(over="ignore", invalid="ignore"):  # values beyond single precision get class -1
                total = own if is_first else product[:n_rows]
                np.matmul(narrow, shares[terms].reshape(flat.shape[1], -1), out=total)
                if not is_first:
                    own += total
            if terms.stop == n_terms:
                error = np.where(sizes[:n_rows] < LARGEST, n_roundings * ROUNDING * sizes[:n_rows], np.inf)
                kernels.pick_classes(0, n_rows, own, last, error, classes[rows])

        return pick

    def _chunk_size(self, numbers: np.ndarray | SparseMatrix) -> int:
        """Number of tied terms to look up at a time."""
        if isinstance(numbers, SparseMatrix) or not kernels.NUMBA:
            return len(self.index)
        return min(len(self.index), max(1, CHUNK_NUMBERS // self.arrays[-1].shape[1]))

    def _block_size(self, numbers: np.ndarray | SparseMatrix, threads: int) -> int:
        """Number of rows that a thread processes at a time."""
        width, n_outputs = self.arrays[-1].shape[1], 1 if self.mix is None else self.mix.shape[2]
        step = BLOCK_NUMBERS // max(self._chunk_size(numbers) * width, n_outputs, len(self.layout.axes))
        return max(1, min(max(step // threads, MIN_BLOCK_ROWS), step, len(numbers)))

    def _apply(self, numbers: np.ndarray | SparseMatrix, step: int, function: BlockFunction) -> int:
        """Call `function` with the contributions (n, t, C) of `step` rows at a time, and of a chunk of terms.

        The array of contributions is reused between calls. Returns the column of an infinite value or -1.
        """
        if self._chunk_size(numbers) == len(self.index):
            return self._apply_to_rows(numbers, step, function)
        assert isinstance(numbers, np.ndarray)
        return self._apply_to_chunks(numbers, step, function)

    def _apply_to_rows(self, numbers: np.ndarray | SparseMatrix, step: int, function: BlockFunction) -> int:
        """All terms in one chunk."""
        n_terms, width = len(self.index), self.arrays[-1].shape[1]
        buffer, every = np.empty((min(step, len(numbers)), n_terms, width)), slice(0, n_terms)
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            found = buffer[: rows.stop - first]
            found[:] = 0.0
            bad = self._score(take_rows(numbers, rows), True, found, 1)
            if bad >= 0:
                return bad
            function(rows, every, found)
        return -1

    def _apply_to_chunks(self, numbers: np.ndarray, step: int, function: BlockFunction) -> int:
        """Several chunks of terms: positions are computed once per block, and a chunk's tables stay in the cache."""
        layout, table = self.layout, self.arrays[-1]
        n_terms, chunk = len(self.index), self._chunk_size(numbers)
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            n_rows = rows.stop - first
            positions = np.empty((n_rows, len(layout.axes)))
            bad = kernels.locate_rows(0, n_rows, numbers[rows], *layout.axis_arrays, positions)
            if bad >= 0:
                return bad
            taken = np.ascontiguousarray(positions.T)
            for start in range(0, n_terms, chunk):
                terms = slice(start, min(start + chunk, n_terms))
                found = np.zeros((n_rows, terms.stop - start, table.shape[1]))
                kernels.gather_rows(0, n_rows, taken, *layout.terms_between(start, terms.stop), table, True, found)
                function(rows, terms, found)
        return -1

    @cached_property
    def _single(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (T, C, K) of the shapes in single precision, and their largest size (T, C) over the classes."""
        assert self.mix is not None
        with np.errstate(over="ignore"):
            return self.mix.astype(np.float32), np.abs(self.mix).max(axis=2)

    def _score(self, numbers: np.ndarray | SparseMatrix, per_term: bool, out: np.ndarray, n_jobs: int | None) -> int:
        """Add table values to out (N, 1 or T, C); return the column of an infinite value or -1."""
        if not kernels.NUMBA:
            return self._score_numpy(numbers, per_term, out)
        if isinstance(numbers, SparseMatrix):
            return self._score_sparse(numbers, per_term, out, kernels.count_threads(n_jobs))

        if len(numbers) < 2 * kernels.MIN_ROWS and not numbers.flags.carray:
            numbers = np.array(numbers, order="C")  # compiling a kernel for another memory layout takes seconds
        if len(numbers) <= kernels.FEW_ROWS:
            return kernels.score_few_rows(0, len(numbers), numbers, *self.arrays, per_term, out)

        def work(_part, first, last):
            return kernels.score_rows(first, last, numbers, *self.arrays, per_term, out)

        min_rows = max(MIN_THREAD_ROWS, MIN_THREAD_LOOKUPS // len(self.index))
        if len(numbers) < 2 * min_rows:  # counting the threads would take longer
            return work(0, 0, len(numbers))
        return kernels.share_rows(work, len(numbers), kernels.count_threads(n_jobs), min_rows)

    def _score_sparse(self, numbers: SparseMatrix, per_term: bool, out: np.ndarray, threads: int) -> int:
        """Contributions of a row without values, plus the differences that the row's stored values make."""
        *arrays, table = self.arrays[len(self.layout.axis_arrays) :]
        for first in range(0, len(numbers), BLOCK_ROWS):
            rows = slice(first, min(first + BLOCK_ROWS, len(numbers)))
            positions = self.layout.encode(take_rows(numbers, rows), threads, np.float64)
            entries = positions.starts, positions.column, positions.value, positions.absent
            touches, at_absent = self._find_absent(numbers.absent, positions.absent)
            out[rows] += at_absent if per_term else at_absent.sum(axis=0)

            def work(_part, low, high, block=out[rows], entries=(*entries, *touches), at_absent=at_absent):
                order = np.arange(len(block))
                return kernels.gather_stored(low, high, order, *entries, *arrays, table, at_absent, per_term, block)

            kernels.share_rows(work, len(positions), threads, MIN_THREAD_ROWS)
        return -1

    def _find_absent(self, absent: float, positions: np.ndarray) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Which columns belong to which terms, and the contributions (T, C) of a row whose values are all absent."""
        known = self._absent.get(str(absent))
        if known is None:
            *arrays, table = self.arrays[len(self.layout.axis_arrays) :]
            found = np.zeros((1, len(self.index), table.shape[1]))
            kernels.gather_rows(0, 1, positions[:, None], *arrays, table, True, found)
            known = list_touches(self.layout, positions), found[0]
            self._absent = {str(absent): known}
        return known

    def _score_numpy(self, numbers: np.ndarray | SparseMatrix, per_term: bool, out: np.ndarray) -> int:
        """The same as `_score` without numba, a block of rows at a time."""
        for first in range(0, len(numbers), NUMPY_ROWS):
            rows = slice(first, min(first + NUMPY_ROWS, len(numbers)))
            block = take_rows(numbers, rows)
            if not isinstance(block, SparseMatrix) and len(bad := np.flatnonzero(np.isinf(block).any(axis=0))):
                return int(bad[0])
            for index, (shape, table) in enumerate(zip(self.shapes, self.tables, strict=True)):
                places = [_positions(_read_column(block, f), a) for f, a in zip(shape.term, shape.axes, strict=True)]
                found = interpolate_table(table, places)
                out[rows, index if per_term else 0, : found.shape[1]] += found
        return -1


def take_rows(numbers: np.ndarray | SparseMatrix, rows: slice | np.ndarray) -> Any:
    """Select rows; consecutive rows are a view."""
    if isinstance(rows, np.ndarray) and rows[-1] - rows[0] == len(rows) - 1:
        rows = slice(int(rows[0]), int(rows[-1]) + 1)
    return numbers[rows]


def _read_column(numbers: np.ndarray | SparseMatrix, column: int) -> np.ndarray:
    return numbers.read_column(column) if isinstance(numbers, SparseMatrix) else numbers[:, column]


def _widen(table: np.ndarray, width: int) -> np.ndarray:
    """Append columns of zeros up to this width."""
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))


def _measure_range(shape: Shape | TiedShape) -> float:
    """Range of the scores over the cells with training weight, averaged over the outputs."""
    seen = shape.weights > 0
    return float(np.ptp(shape.scores[seen], axis=0).mean()) if seen.any() else 0.0


def lean(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(K,) see `AdditiveModel.leanings`."""
    scores, shares = scores.reshape(-1, scores.shape[-1]), weights.ravel() / (weights.sum() or 1.0)
    usual = int(shares.argmax())
    return shares[usual] * (shares @ (scores - scores[usual]))


def _positions(values: np.ndarray, axis: Axis) -> np.ndarray:
    """(N,) positions of a column's values on an axis; `kernels.predict.locate_column` in NumPy."""
    count = len(axis.knots)
    if axis.is_level:
        found = np.minimum(np.searchsorted(axis.knots, np.nan_to_num(values, nan=-1.0)), count - 1)
        positions = np.where(axis.knots[found] == values, found + 1, count + 1.0)
    else:
        left, _, share = bracket_knots(axis.knots, np.where(np.isnan(values), axis.knots[0], values))
        positions = 1 + left + share
    return np.where(np.isnan(values), 0.0, positions)
