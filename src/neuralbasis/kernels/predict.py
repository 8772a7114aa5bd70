"""Prediction: find a row's position on its axes, look up its terms, sum them.

`Layout` in `encoding.layout` describes the arrays of axes and terms, `encoding.axis` the positions. A term of order o
interpolates linearly between the 2^o cells around a row's position.
"""

from __future__ import annotations

import numpy as np

from .compiled import BLOCK, njit

HUGE = 1e308  # a larger difference of knots may have overflowed


@njit(cache=True, nogil=True, error_model="numpy")
def _locate_column(numbers, column, first, size, level, knots, start, count, guide, starts, lines, axis, out):
    """Write positions out[:size] of the rows from `first` on, for one column on one axis; False if a value is infinite.

    The bucket of a value in the guide table (from `starts[axis]` on, see `layout.make_guide`) limits the search to few
    knots. There are no calls in the loop: an inlined call would count references to the arrays for every value.
    """
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
            if right - left > HUGE:
                value, left, right = value / 2, left / 2, right / 2
            out[i] = 1.0 + low + (value - left) / (right - left)
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def locate_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line, positions
):
    """numbers (N, D) -> positions (N, A) of rows first … last - 1; returns the column of an infinite value, or -1."""
    found = np.empty(BLOCK)
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(len(axis_column)):
            start = axis_start[axis]
            if not _locate_column(
                numbers, axis_column[axis], block, size, axis_level[axis], knots, start, axis_start[axis + 1] - start,
                guide, guide_start, guide_line, axis, found,
            ):  # fmt: skip
                return axis_column[axis]
            for i in range(size):
                positions[block + i, axis] = found[i]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_main(position, size, table, offset, out, first, where):
    """Add a main effect's contributions to `size` rows of out from `first` on."""
    for i in range(size):
        whole = np.floor(position[i])  # unlike an integer, it keeps the arithmetic in single precision
        share = position[i] - whole
        cell = offset + int(whole)
        if share == 0.0:
            for k in range(table.shape[1]):
                out[first + i, where, k] += table[cell, k]
        else:
            for k in range(table.shape[1]):
                value = table[cell, k]
                out[first + i, where, k] += value + share * (table[cell + 1, k] - value)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_interaction(position, axes, strides, size, table, offset, skip_axis, skip_place, out, first, where):
    """The same for a term of two or more axes: bilinear along the last two, summed over the corners of the others."""
    n_leading = len(axes) - 2
    row_axis, column_axis, down = axes[n_leading], axes[n_leading + 1], strides[n_leading]
    one = position.dtype.type(1)
    for i in range(size):
        if skip_axis >= 0 and position[skip_axis, i] == skip_place:
            continue
        row, column = np.floor(position[row_axis, i]), np.floor(position[column_axis, i])
        low, right = position[row_axis, i] - row, position[column_axis, i] - column
        for corner in range(1 << n_leading):
            cell = offset + int(row) * down + int(column)
            share = one
            for d in range(n_leading):
                whole = np.floor(position[axes[d], i])
                part = position[axes[d], i] - whole
                upper = corner >> d & 1
                share *= part if upper else one - part
                cell += (int(whole) + (upper and part > 0.0)) * strides[d]
            if share == 0.0:
                continue
            if low == 0.0 and right == 0.0:
                for k in range(table.shape[1]):
                    out[first + i, where, k] += share * table[cell, k]
            elif low == 0.0 or right == 0.0:
                step, part = (1, right) if low == 0.0 else (down, low)
                for k in range(table.shape[1]):
                    value = table[cell, k]
                    out[first + i, where, k] += share * (value + part * (table[cell + step, k] - value))
            else:
                w11 = share * low * right
                w10, w01 = share * low - w11, share * right - w11
                w00 = share - w10 - w01 - w11
                for k in range(table.shape[1]):
                    out[first + i, where, k] += (
                        w00 * table[cell, k] + w01 * table[cell + 1, k]
                        + w10 * table[cell + down, k] + w11 * table[cell + down + 1, k]
                    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _add_term(
    term, position, size, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, out, first,
    where,
):  # fmt: skip
    """Add one term to `size` rows of out from `first` on."""
    low, high = term_start[term], term_start[term + 1]
    if high - low == 1:
        _add_main(position[term_axis[low]], size, table, term_offset[term], out, first, where)
    else:
        axes, strides = term_axis[low:high], term_stride[low:high]
        _add_interaction(
            position, axes, strides, size, table, term_offset[term], skip_axis[term], skip_place[term], out, first,
            where,
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def _add_terms(
    position, size, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out, first
):
    """Add all terms to a block of rows, one term after another: its table stays in the cache."""
    for term in range(len(term_offset)):
        where = term if per_term else 0
        _add_term(
            term, position, size, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, out,
            first, where,
        )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy")
def score_rows(
    first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line,
    term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out,
):  # fmt: skip
    """Add the contributions of raw rows to out (N, 1, K), or (N, T, K) if `per_term`; returns as `locate_rows`."""
    n_axes = len(axis_column)
    position = np.empty((n_axes, min(BLOCK, last - first)))
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        for axis in range(n_axes):
            start = axis_start[axis]
            if not _locate_column(
                numbers, axis_column[axis], block, size, axis_level[axis], knots, start, axis_start[axis + 1] - start,
                guide, guide_start, guide_line, axis, position[axis],
            ):  # fmt: skip
                return axis_column[axis]
        _add_terms(
            position, size, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term,
            out, block,
        )  # fmt: skip
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
