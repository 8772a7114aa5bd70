"""The compiled inner loops: find a row's position on its axes, look terms up, sum them; and the way back.

Every kernel releases the GIL and works on a range of rows, so that rows can be shared among plain threads
(`share_rows`); no threading layer of numba is involved. `layout` arguments are described in `layout.Layout`.
Positions: see `axis`. A term of order o reads the 2^o cells around a row's position and weighs them linearly.
Where numba is absent, `NUMBA` is False and the same functions run as (slow) Python: the NumPy path in `model` is used
instead.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

try:
    from numba import njit

    NUMBA = os.environ.get("NEURALBASIS_NUMBA", "1") != "0"
except ImportError:  # pragma: no cover - exercised in a subprocess
    NUMBA = False

if not NUMBA:

    def njit(*_args, **_options):
        return lambda function: function


MIN_ROWS = 4096  # a thread that predicts fewer rows costs more than it saves
GUIDE = 2048  # buckets of an axis' guide table
HUGE = 1e308  # a difference of knots beyond this may have overflowed
BLOCK = 1024  # rows worked on at a time: positions of a block stay in the cache


@njit(cache=True, nogil=True, error_model="numpy")
def _locate_column(numbers, column, first, size, level, knots, start, count, guide, entry, low_edge, scale, out):
    """Positions out[:size] of rows first … of one column on one axis; False if a value is infinite.

    A value's bucket in the guide table (from `entry` on, see `layout.make_guide`) leaves few knots to search. One loop
    without calls: an inlined call would count references to the arrays for every value.
    """
    smallest, largest, top = knots[start], knots[start + count - 1], GUIDE - 1.0
    for i in range(size):
        value = numbers[first + i, column]
        if value - value != 0.0:  # missing or infinite
            if value == value:
                return False
            out[i] = 0.0
        elif level:
            out[i] = value + 1.0 if 0.0 <= value < count else count + 1.0
        elif value <= smallest:
            out[i] = 1.0
        elif value >= largest:
            out[i] = count
        else:
            bucket = entry + int(max(0.0, min((value - low_edge) * scale, top)))
            low = int(guide[bucket])
            high = int(guide[bucket + 1])
            while high - low > 4:
                middle = (low + high + 1) >> 1
                if knots[start + middle] <= value:
                    low = middle
                else:
                    high = middle - 1
            while knots[start + low + 1] <= value:  # largest knot not above the value
                low += 1
            left, right = knots[start + low], knots[start + low + 1]
            if right - left > HUGE:
                value, left, right = value / 2, left / 2, right / 2
            out[i] = 1.0 + low + (value - left) / (right - left)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def locate_rows(first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_line, positions):
    """numbers (N, D) -> positions (N, A) for rows first … last - 1; returns the column of an infinite value or -1."""
    found = np.empty(BLOCK)
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(len(axis_column)):
            start = axis_start[axis]
            if not _locate_column(
                numbers, axis_column[axis], block, size, axis_level[axis], knots, start, axis_start[axis + 1] - start,
                guide, axis * (GUIDE + 1), guide_line[axis, 0], guide_line[axis, 1], found,
            ):  # fmt: skip
                return axis_column[axis]
            for i in range(size):
                positions[block + i, axis] = found[i]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _add_main(position, size, table, offset, out, first, where):
    """Add a main effect's contributions to `size` rows of out from `first` on."""
    for i in range(size):
        cell = int(position[i])
        share = position[i] - cell
        left = offset + cell
        right = left + (share > 0.0)
        for k in range(table.shape[1]):
            value = table[left, k]
            out[first + i, where, k] += value + share * (table[right, k] - value)


@njit(cache=True, nogil=True, error_model="numpy")
def _add_interaction(position, axes, strides, size, table, offset, out, first, where):
    """The same for a term of several axes: the weighted sum of the corners around each row."""
    for i in range(size):
        for corner in range(1 << len(axes)):
            cell = offset
            share = 1.0
            for d in range(len(axes)):
                place = position[axes[d], i]
                whole = int(place)
                part = place - whole
                if corner >> d & 1:
                    share *= part
                    whole += part > 0.0
                else:
                    share *= 1.0 - part
                cell += whole * strides[d]
            if share > 0.0:
                for k in range(table.shape[1]):
                    out[first + i, where, k] += share * table[cell, k]


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_line,
    term_start, term_axis, term_stride, term_offset, table, per_term, out,
):  # fmt: skip
    """Add table look-ups of raw rows into out (N, 1, K), or (N, T, K) if `per_term`; returns as `locate_rows`."""
    n_axes = len(axis_column)
    position = np.empty((n_axes, BLOCK))
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(n_axes):
            start = axis_start[axis]
            if not _locate_column(
                numbers, axis_column[axis], block, size, axis_level[axis], knots, start, axis_start[axis + 1] - start,
                guide, axis * (GUIDE + 1), guide_line[axis, 0], guide_line[axis, 1], position[axis],
            ):  # fmt: skip
                return axis_column[axis]
        for term in range(len(term_offset)):
            where = term if per_term else 0
            low = term_start[term]
            order = term_start[term + 1] - low
            if order == 1:
                _add_main(position[term_axis[low]], size, table, term_offset[term], out, block, where)
            else:
                axes, strides = term_axis[low : low + order], term_stride[low : low + order]
                _add_interaction(position, axes, strides, size, table, term_offset[term], out, block, where)
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def gather_rows(first, last, positions, rows, term_start, term_axis, term_stride, term_offset, table, out):
    """Training forward: out[i, c] = Σ_terms table(position of rows[i])[c] for i in first … last - 1."""
    n_channels = table.shape[1]
    for i in range(first, last):
        row = rows[i]
        out[i] = 0.0
        for term in range(len(term_offset)):
            low = term_start[term]
            order = term_start[term + 1] - low
            offset = term_offset[term]
            if order == 1:
                place = positions[row, term_axis[low]]
                cell = int(place)
                share = place - np.float32(cell)
                cell += offset
                if share == 0.0:
                    for c in range(n_channels):
                        out[i, c] += table[cell, c]
                else:
                    for c in range(n_channels):
                        left = table[cell, c]
                        out[i, c] += left + share * (table[cell + 1, c] - left)
                continue
            for corner in range(1 << order):
                cell, share = _corner(positions, row, term_axis, term_stride, low, order, corner)
                if share > 0.0:
                    for c in range(n_channels):
                        out[i, c] += share * table[offset + cell, c]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def scatter_rows(first, last, positions, rows, term_start, term_axis, term_stride, term_offset, grad, grad_table):
    """Training backward: the histogram of the gradients grad (b, C) over the cells, added to grad_table."""
    n_channels = grad_table.shape[1]
    for i in range(first, last):
        row = rows[i]
        for term in range(len(term_offset)):
            low = term_start[term]
            order = term_start[term + 1] - low
            offset = term_offset[term]
            if order == 1:
                place = positions[row, term_axis[low]]
                cell = int(place)
                share = place - np.float32(cell)
                cell += offset
                if share == 0.0:
                    for c in range(n_channels):
                        grad_table[cell, c] += grad[i, c]
                else:
                    rest = np.float32(1.0) - share
                    for c in range(n_channels):
                        grad_table[cell, c] += rest * grad[i, c]
                        grad_table[cell + 1, c] += share * grad[i, c]
                continue
            for corner in range(1 << order):
                cell, share = _corner(positions, row, term_axis, term_stride, low, order, corner)
                if share > 0.0:
                    for c in range(n_channels):
                        grad_table[offset + cell, c] += share * grad[i, c]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _corner(positions, row, term_axis, term_stride, low, order, corner):
    """Cell (relative to the term) and weight of one of the 2^order corners around a row's position."""
    cell = 0
    share = np.float32(1.0)
    for d in range(order):
        place = positions[row, term_axis[low + d]]
        whole = int(place)
        part = place - np.float32(whole)
        if corner >> d & 1:
            share *= part
            whole += part > 0.0
        else:
            share *= np.float32(1.0) - part
        cell += whole * term_stride[low + d]
    return cell, share


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="neuralbasis")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child has none of its parent's threads


def share_rows(work: Callable[[int, int, int], int], n_rows: int, threads: int, min_rows: int = MIN_ROWS) -> int:
    """Call `work(part, first, last)` on contiguous parts of the rows, one a thread; the largest result is returned.

    The parts depend on `n_rows` and `threads` only, so that sums are reproducible.
    """
    threads = max(1, min(threads, n_rows // min_rows))
    if threads == 1:
        return work(0, 0, n_rows)
    edges = np.linspace(0, n_rows, threads + 1).astype(int)
    others = [_pool(threads - 1).submit(work, k, edges[k], edges[k + 1]) for k in range(1, threads)]
    return max([work(0, edges[0], edges[1])] + [other.result() for other in others])


def count_threads(n_jobs: int | None) -> int:
    """scikit-learn's spelling of threads: None is all cores, -1 too, -2 all but one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == 0:
        return cores
    return max(1, n_jobs if n_jobs > 0 else cores + 1 + n_jobs)
