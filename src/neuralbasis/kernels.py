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
BLOCK = 1024  # rows worked on at a time: positions of a block stay in the cache


@njit(cache=True, nogil=True, inline="always")
def _locate(value, knots, start, count, is_level):
    """Position of one raw value on an axis with `count` knots from `start` on."""
    if value != value:
        return 0.0
    if is_level:
        return value + 1.0 if 0.0 <= value < count else count + 1.0
    if value <= knots[start]:
        return 1.0
    if value >= knots[start + count - 1]:
        return float(count)
    low = 0
    length = count
    while length > 1:  # largest knot not above the value
        half = length >> 1
        if knots[start + low + half] <= value:
            low += half
        length -= half
    left = knots[start + low]
    right = knots[start + low + 1]
    if np.isinf(right - left):  # knots near the largest double
        return 1.0 + low + (value / 2 - left / 2) / (right / 2 - left / 2)
    return 1.0 + low + (value - left) / (right - left)


@njit(cache=True, nogil=True)
def locate_rows(first, last, numbers, axis_column, axis_start, axis_level, knots, positions):
    """numbers (N, D) -> positions (N, A) for rows first … last - 1; returns the column of an infinite value or -1."""
    for row in range(first, last):
        for axis in range(len(axis_column)):
            value = numbers[row, axis_column[axis]]
            if np.isinf(value):
                return axis_column[axis]
            start = axis_start[axis]
            positions[row, axis] = _locate(value, knots, start, axis_start[axis + 1] - start, axis_level[axis])
    return -1


@njit(cache=True, nogil=True)
def score_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots,
    term_start, term_axis, term_stride, term_offset, table, per_term, out,
):  # fmt: skip
    """Add table look-ups of raw rows into out (N, 1, K), or (N, T, K) if `per_term`; returns as `locate_rows`."""
    n_axes = len(axis_column)
    n_outputs = table.shape[1]
    position = np.empty((n_axes, BLOCK))
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(n_axes):
            column = axis_column[axis]
            start = axis_start[axis]
            count = axis_start[axis + 1] - start
            level = axis_level[axis]
            for i in range(size):
                value = numbers[block + i, column]
                if np.isinf(value):
                    return column
                position[axis, i] = _locate(value, knots, start, count, level)
        for term in range(len(term_offset)):
            where = term if per_term else 0
            low = term_start[term]
            order = term_start[term + 1] - low
            offset = term_offset[term]
            if order == 1:
                axis = term_axis[low]
                for i in range(size):
                    cell = int(position[axis, i])
                    share = position[axis, i] - cell
                    left = offset + cell
                    right = left + (share > 0.0)
                    for k in range(n_outputs):
                        value = table[left, k]
                        out[block + i, where, k] += value + share * (table[right, k] - value)
                continue
            for i in range(size):
                for corner in range(1 << order):
                    cell = offset
                    share = 1.0
                    for d in range(order):
                        place = position[term_axis[low + d], i]
                        whole = int(place)
                        part = place - whole
                        if corner >> d & 1:
                            share *= part
                            whole += part > 0.0
                        else:
                            share *= 1.0 - part
                        cell += whole * term_stride[low + d]
                    if share > 0.0:
                        for k in range(n_outputs):
                            out[block + i, where, k] += share * table[cell, k]
    return -1


@njit(cache=True, nogil=True, fastmath={"contract"})
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


@njit(cache=True, nogil=True, fastmath={"contract"})
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


@njit(cache=True, nogil=True, inline="always")
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
