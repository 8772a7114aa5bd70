"""Prediction: find a row's position on its axes, look up its terms, sum them.

`Layout` in `encoding.layout` describes the arrays of axes and terms, `encoding.axis` the positions.
"""

from __future__ import annotations

import numpy as np

from .compiled import BLOCK, njit
from .interpolation import add_term


@njit(cache=True, nogil=True, error_model="numpy")
def locate_column(numbers, column, first, size, axes, axis, out):
    """Write positions out[:size] of the rows from `first` on, for one column on one axis; False if a value is infinite.

    The bucket of a value in the guide table (see `layout.make_guide`) limits the search to few knots. There are no
    calls in the loop: an inlined call would count references to the arrays for every value.
    """
    axis_start, axis_level, knots, guide, starts, lines = axes
    start, level = axis_start[axis], axis_level[axis]
    count = axis_start[axis + 1] - start
    smallest, largest = knots[start], knots[start + count - 1]
    entry, low_edge, scale, top = starts[axis], lines[axis, 0], lines[axis, 1], lines[axis, 2]
    for i in range(size):
        value = numbers[first + i, column]
        if value - value != 0.0:  # missing or infinite
            if value == value:
                return False
            out[i] = 0.0
        elif level:
            found = int(min(value, count - 1.0))
            while found >= 0 and knots[start + found] > value:  # a coarser axis has only some of the levels
                found -= 1
            out[i] = found + 1.0 if found >= 0 and knots[start + found] == value else count + 1.0
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
            if right - left > 1e308:  # a larger difference may have overflowed
                value, left, right = value / 2, left / 2, right / 2
            out[i] = 1.0 + low + (value - left) / (right - left)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def locate_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line, positions
):
    """numbers (N, D) -> positions (N, A) of rows first … last - 1; returns the column of an infinite value, or -1."""
    axes = axis_start, axis_level, knots, guide, guide_start, guide_line
    found = np.empty(BLOCK)
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(len(axis_column)):
            if not locate_column(numbers, axis_column[axis], block, size, axes, axis, found):
                return axis_column[axis]
            for i in range(size):
                positions[block + i, axis] = found[i]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line,
    term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out,
):  # fmt: skip
    """Add the contributions of raw rows to out (N, 1, K), or (N, T, K) if `per_term`; returns as `locate_rows`."""
    axes = axis_start, axis_level, knots, guide, guide_start, guide_line
    terms = term_start, term_axis, term_stride, term_offset, skip_axis, skip_place
    n_axes = len(axis_column)
    position = np.empty((n_axes, min(BLOCK, last - first)))
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(n_axes):
            if not locate_column(numbers, axis_column[axis], block, size, axes, axis, position[axis]):
                return axis_column[axis]
        for term in range(len(term_offset)):  # one after another: its table stays in the cache
            add_term(term, position, size, terms, table, per_term, out, block, None)
    return -1


@njit(cache=True, error_model="numpy")
def score_few_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line,
    term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out,
):  # fmt: skip
    """`score_rows` that keeps the GIL: for few rows, getting it back takes longer than the look-ups."""
    return score_rows(
        first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line,
        term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def narrow_rows(first, last, found, largest, narrow, sizes):
    """Copy rows first … last - 1 of found (N, S) to `narrow`, of lower precision.

    Adds Σ |found| · largest (S,) to sizes (N,): the rounding error of a row's scores is proportional to it.
    """
    for row in range(first, last):
        total = 0.0
        for s in range(found.shape[1]):
            narrow[row, s] = found[row, s]
            total += abs(found[row, s]) * largest[s]
        sizes[row] += total
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def _add_and_find_highest(scores, intercept):
    """Add the intercept to the scores (K,) of a row; returns the highest. `fastmath` vectorises it: no NaN allowed."""
    best = np.float32(-np.inf)
    for k in range(len(scores)):
        scores[k] += intercept[k]
        best = max(best, scores[k])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def pick_classes(first, last, scores, intercept, reach, winners):
    """Write the class with the highest score (N, K) + intercept (K,) of rows first … last - 1 to winners (N,).

    Scores have errors of up to reach (N,). If another class may be as high, the winner is -1. Adds the intercept to the
    scores.
    """
    for row in range(first, last):
        bound = _add_and_find_highest(scores[row], intercept) - 2 * reach[row]
        count, winner = 0, 0
        for k in range(scores.shape[1]):
            is_high = int(scores[row, k] >= bound)
            count += is_high
            winner += is_high * k
        winners[row] = winner if count == 1 else -1
    return -1
