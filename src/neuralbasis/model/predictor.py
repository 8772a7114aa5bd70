"""Parts: the terms of a model as the compiled loops read them, by the way they are looked up.

A part adds what its terms say of rows into an array: from tables, from tables of which classes have shares (tied
ones), or from factors. The NumPy path gives the same numbers where numba is absent.
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
from .factors import Factors, LowRankPart
from .shapes import AnyShape, LowRankShape, Shape, TiedShape

BLOCK_NUMBERS = 1 << 22  # scores of classes, or contributions of tied terms, worked on at a time
MIN_BLOCK = 256  # rows of these for a thread: products of fewer are slow
CHUNK_NUMBERS = 4000  # contributions of a row to tied terms: of more terms, some at a time
BLOCK_ROWS, STORED_ROWS = 1 << 14, 64  # rows read or, if stored, worked on at a time; stored rows worth a thread
LOOK_UPS = 1 << 16  # rows × terms that are worth a thread
ROUNDING, SMALLEST, LARGEST = float(np.finfo(np.float32).eps) / 2, 1e-20, 1e37  # of single precision

Hear = Callable[[slice, slice, np.ndarray], None]  # what is done with the contributions of some rows to some terms


def make_parts(axes: Sequence[Axis], shapes: Sequence[AnyShape]) -> tuple[TablePart | LowRankPart, ...]:
    """The terms by the way they are looked up: in tables, in tables of tied classes, in each one of the factors."""
    tables: dict[type, dict[int, Shape | TiedShape]] = {Shape: {}, TiedShape: {}}
    factors: dict[Factors, list[int]] = {}
    for t, shape in enumerate(shapes):
        if isinstance(shape, LowRankShape):
            factors.setdefault(shape.factors, []).append(t)
        else:
            tables[type(shape)][t] = shape
    plain = [TablePart(axes, list(found.values()), list(found)) for found in tables.values() if found]
    return (*plain, *(LowRankPart(part, index) for part, index in factors.items()))


class TablePart:
    """Terms of a model as the kernels read them: all that have tables, or all whose classes are tied."""

    def __init__(self, axes: Sequence[Axis], shapes: Sequence[Shape | TiedShape], index: Sequence[int]):
        self.index, self.shapes = index, shapes
        self.tables = [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in self.shapes]
        width = max(table.shape[-1] for table in self.tables)
        self.absent: dict[str, tuple[tuple[np.ndarray, ...], np.ndarray]] = {}  # what `_find_absent` found last
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
        return np.stack([lean(shape.scores, shape.weights) for shape in self.shapes])

    def _join_mixes(self, width: int) -> np.ndarray:
        """(T, C, K) weights of the shapes in the mean of the members."""
        mixes = [shape.mix.mean(axis=1) for shape in self.shapes if isinstance(shape, TiedShape)]
        return np.stack([_widen(mix.T, width).T for mix in mixes])

    def add_to(self, out: np.ndarray, numbers: np.ndarray | SparseMatrix, per_term: bool, n_jobs: int | None) -> int:
        """Add contributions of the rows into out (N, 1 or T, K); returns the column of an infinite value or -1."""
        if self.mix is None and (not per_term or len(self.index) == out.shape[1]):
            return self._score(numbers, per_term, out, n_jobs)
        if self.mix is not None and not per_term:
            return self._share(numbers, n_jobs, lambda rows, step: self._hear_sums(out[rows, 0], step))
        return self._share(numbers, n_jobs, lambda rows, _step: self._hear_terms(out[rows]))

    def guess(
        self, numbers: np.ndarray | SparseMatrix, intercept: np.ndarray, winners: np.ndarray, n_jobs: int | None
    ) -> int:
        """Write the classes with the highest score, -1 where rounding could decide; of tied classes alone."""
        return self._share(numbers, n_jobs, lambda rows, step: self._hear_winners(winners[rows], intercept, step))

    def _share(
        self, numbers: np.ndarray | SparseMatrix, n_jobs: int | None, listen: Callable[[slice, int], Hear]
    ) -> int:
        """Threads take neighbouring rows each, and what `listen` returns for these and for a number of rows at a time
        hears what the terms say of them. Returns the column of an infinite value or -1.

        Each goes all the way from look-ups to products of matrices.
        """
        threads = max(1, min(kernels.count_threads(n_jobs), len(numbers) // STORED_ROWS))
        step = self._count_rows(numbers, threads)

        def work(_part, low, high):
            rows = slice(low, high)
            return self._visit(take_rows(numbers, rows), step, listen(rows, step))

        with hold_blas() if threads > 1 else nullcontext():
            return kernels.share_rows(work, len(numbers), threads, STORED_ROWS)

    def _hear_terms(self, out: np.ndarray) -> Hear:
        """Add contributions into out (N, T, K) of all terms."""

        def hear(rows: slice, terms: slice, found: np.ndarray) -> None:
            said = found if self.mix is None else np.einsum("ntc,tck->ntk", found, self.mix[terms])
            out[rows, self.index[terms]] += said

        return hear

    def _hear_sums(self, out: np.ndarray, step: int) -> Hear:
        """Add the scores of tied classes into out (N, K)."""
        assert self.mix is not None
        mix, product = self.mix, np.empty((step, self.mix.shape[2]))

        def hear(rows: slice, terms: slice, found: np.ndarray) -> None:
            flat, own = found.reshape(len(found), -1), product[: len(found)]
            out[rows] += np.matmul(flat, mix[terms].reshape(flat.shape[1], -1), out=own)

        return hear

    def _hear_winners(self, winners: np.ndarray, intercept: np.ndarray, step: int) -> Hear:
        """Sum scores in single precision, and write the highest.

        A sum of n products of rounded numbers is off by little more than n + 2 roundings of the sum of their sizes;
        each further chunk of products that is added to it rounds once more.
        """
        shares, largest = self._single
        n_terms, width, n_outputs = shares.shape
        n_roundings = n_terms * width + 8
        single, sizes = np.empty(step * n_terms * width, dtype=np.float32), np.empty(step)
        scores, product = np.empty((2, step, n_outputs), dtype=np.float32)
        with np.errstate(over="ignore"):
            most, last = np.abs(intercept).max() + SMALLEST, intercept.astype(np.float32)

        def hear(rows: slice, terms: slice, found: np.ndarray) -> None:
            n_rows, flat = len(found), found.reshape(len(found), -1)
            narrow, own = single[: flat.size].reshape(flat.shape), scores[:n_rows]
            is_first = terms.start == 0
            if is_first:
                sizes[:n_rows] = most
            kernels.narrow_rows(0, n_rows, flat, largest[terms].ravel(), narrow, sizes)
            with np.errstate(over="ignore", invalid="ignore"):  # what is too large for single precision is not sure
                said = own if is_first else product[:n_rows]
                np.matmul(narrow, shares[terms].reshape(flat.shape[1], -1), out=said)
                if not is_first:
                    own += said
            if terms.stop == n_terms:
                reach = np.where(sizes[:n_rows] < LARGEST, n_roundings * ROUNDING * sizes[:n_rows], np.inf)
                kernels.pick_classes(0, n_rows, own, last, reach, winners[rows])

        return hear

    def _count_terms(self, numbers: np.ndarray | SparseMatrix) -> int:
        """Tied terms that are looked up at a time."""
        if isinstance(numbers, SparseMatrix) or not kernels.NUMBA:
            return len(self.index)
        return min(len(self.index), max(1, CHUNK_NUMBERS // self.arrays[-1].shape[1]))

    def _count_rows(self, numbers: np.ndarray | SparseMatrix, threads: int) -> int:
        """Rows that a thread works on at a time, at most all."""
        width, n_outputs = self.arrays[-1].shape[1], 1 if self.mix is None else self.mix.shape[2]
        step = BLOCK_NUMBERS // max(self._count_terms(numbers) * width, n_outputs, len(self.layout.axes))
        return max(1, min(max(step // threads, MIN_BLOCK), step, len(numbers)))

    def _visit(self, numbers: np.ndarray | SparseMatrix, step: int, hear: Hear) -> int:
        """Let `hear` know what the terms say of so many rows at a time, (n, T, C); of very many terms, chunk by chunk.

        The array is used again. Returns the column of an infinite value or -1.
        """
        if self._count_terms(numbers) == len(self.index):
            return self._visit_rows(numbers, step, hear)
        assert isinstance(numbers, np.ndarray)
        return self._visit_chunks(numbers, step, hear)

    def _visit_rows(self, numbers: np.ndarray | SparseMatrix, step: int, hear: Hear) -> int:
        n_terms, width = len(self.index), self.arrays[-1].shape[1]
        room, every = np.empty((min(step, len(numbers)), n_terms, width)), slice(0, n_terms)
        for first in range(0, len(numbers), step):
            rows = slice(first, min(first + step, len(numbers)))
            found = room[: rows.stop - first]
            found[:] = 0.0
            bad = self._score(take_rows(numbers, rows), True, found, 1)
            if bad >= 0:
                return bad
            hear(rows, every, found)
        return -1

    def _visit_chunks(self, numbers: np.ndarray, step: int, hear: Hear) -> int:
        """Positions are found once; the weights of a chunk's terms are then read once for many rows."""
        layout, table = self.layout, self.arrays[-1]
        n_terms, chunk = len(self.index), self._count_terms(numbers)
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
                hear(rows, terms, found)
        return -1

    @cached_property
    def _single(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights (T, C, K) of the shapes in single precision, and the largest (T, C) of each over the classes."""
        assert self.mix is not None
        with np.errstate(over="ignore"):
            return self.mix.astype(np.float32), np.abs(self.mix).max(axis=2)

    def _score(self, numbers: np.ndarray | SparseMatrix, per_term: bool, out: np.ndarray, n_jobs: int | None) -> int:
        if not kernels.NUMBA:
            return self._score_numpy(numbers, per_term, out)
        if isinstance(numbers, SparseMatrix):
            return self._score_stored(numbers, per_term, out, kernels.count_threads(n_jobs))

        if len(numbers) < 2 * kernels.MIN_ROWS and not numbers.flags.carray:
            numbers = np.array(numbers, order="C")  # a layout that no kernel is compiled for would cost seconds
        if len(numbers) <= kernels.FEW_ROWS:
            return kernels.score_few_rows(0, len(numbers), numbers, *self.arrays, per_term, out)

        def work(_part, first, last):
            return kernels.score_rows(first, last, numbers, *self.arrays, per_term, out)

        enough = max(STORED_ROWS, LOOK_UPS // len(self.index))
        if len(numbers) < 2 * enough:  # not worth a look at the machine
            return work(0, 0, len(numbers))
        return kernels.share_rows(work, len(numbers), kernels.count_threads(n_jobs), enough)

    def _score_stored(self, numbers: SparseMatrix, per_term: bool, out: np.ndarray, threads: int) -> int:
        """What all terms say where every value is absent, and the difference that the entries of a row make."""
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

    def _score_numpy(self, numbers: np.ndarray | SparseMatrix, per_term: bool, out: np.ndarray) -> int:
        """The same numbers without numba, a block of rows at a time."""
        for first in range(0, len(numbers), 65536):
            rows = slice(first, min(first + 65536, len(numbers)))
            block = take_rows(numbers, rows)
            if not isinstance(block, SparseMatrix) and len(bad := np.flatnonzero(np.isinf(block).any(axis=0))):
                return int(bad[0])
            for index, (shape, table) in enumerate(zip(self.shapes, self.tables, strict=True)):
                places = [_positions(_read_column(block, f), a) for f, a in zip(shape.term, shape.axes, strict=True)]
                found = _interpolate(table, places)
                out[rows, index if per_term else 0, : found.shape[1]] += found
        return -1


def take_rows(numbers: np.ndarray | SparseMatrix, rows: slice | np.ndarray) -> Any:
    """Some rows; neighbours without a copy."""
    if isinstance(rows, np.ndarray):
        if rows[-1] - rows[0] != len(rows) - 1:
            return numbers.take(rows) if isinstance(numbers, SparseMatrix) else numbers[rows]
        rows = slice(int(rows[0]), int(rows[-1]) + 1)
    return numbers.take_slice(rows.start, rows.stop) if isinstance(numbers, SparseMatrix) else numbers[rows]


def _read_column(numbers: np.ndarray | SparseMatrix, column: int) -> np.ndarray:
    return numbers.read_column(column) if isinstance(numbers, SparseMatrix) else numbers[:, column]


def _widen(table: np.ndarray, width: int) -> np.ndarray:
    """Columns of zeros up to a common number."""
    return np.pad(table, ((0, 0), (0, width - table.shape[1])))


def _measure_range(shape: Shape | TiedShape) -> float:
    """Range of the scores over the cells that training rows touch, the mean over the outputs."""
    seen = shape.weights > 0
    return float(np.ptp(shape.scores[seen], axis=0).mean()) if seen.any() else 0.0


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
