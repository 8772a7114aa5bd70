"""Look-ups of training: contributions of a batch of rows (gather), and the adjoint, histograms of gradients (scatter).

Both exist for dense rows, with a position on every axis, and for sparse rows, which store only the positions of values
that are not absent. `Layout` in `encoding.layout` describes the arrays of axes and terms.
"""

from __future__ import annotations

import numpy as np

from .compiled import BLOCK, njit
from .predict import _add_term, _add_terms, _locate_column


@njit(cache=True, nogil=True, error_model="numpy")
def take_rows(first, last, positions, rows, out):
    """positions (N, A) of rows[first:last] -> out (A, b)."""
    for block in range(first, last, 64):
        end = min(block + 64, last)
        for i in range(block, end):
            row = rows[i]
            for axis in range(out.shape[0]):
                out[axis, i] = positions[row, axis]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def gather_rows(
    first, last, taken, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out
):
    """Forward pass: add look-ups at positions taken (A, b) to out (b, 1, C), or (b, T, C) if `per_term`."""
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        position = taken[:, block : block + size]
        _add_terms(
            position, size, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term,
            out, block,
        )  # fmt: skip
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _scatter_main(position, grad, where, offset, out):
    """Add the gradients grad[:, where] of a main effect's rows to its cells."""
    for i in range(len(position)):
        whole = np.floor(position[i])
        share = position[i] - whole
        cell = offset + int(whole)
        if share == 0.0:
            for c in range(out.shape[1]):
                out[cell, c] += grad[i, where, c]
        else:
            for c in range(out.shape[1]):
                part = share * grad[i, where, c]
                out[cell, c] += grad[i, where, c] - part
                out[cell + 1, c] += part


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _scatter_interaction(taken, axes, strides, grad, where, offset, skip_axis, skip_place, out):
    """The same for an interaction, with the corners of `_add_interaction`.

    The loop is repeated here because an inlined call would count references to the arrays for every row.
    """
    n_leading = len(axes) - 2
    row_axis, column_axis, down = axes[n_leading], axes[n_leading + 1], strides[n_leading]
    one = taken.dtype.type(1)
    for i in range(taken.shape[1]):
        if skip_axis >= 0 and taken[skip_axis, i] == skip_place:
            continue
        row, column = np.floor(taken[row_axis, i]), np.floor(taken[column_axis, i])
        low, right = taken[row_axis, i] - row, taken[column_axis, i] - column
        for corner in range(1 << n_leading):
            cell = offset + int(row) * down + int(column)
            share = one
            for d in range(n_leading):
                whole = np.floor(taken[axes[d], i])
                part = taken[axes[d], i] - whole
                upper = corner >> d & 1
                share *= part if upper else one - part
                cell += (int(whole) + (upper and part > 0.0)) * strides[d]
            if share == 0.0:
                continue
            if low == 0.0 and right == 0.0:
                for c in range(out.shape[1]):
                    out[cell, c] += share * grad[i, where, c]
            elif low == 0.0 or right == 0.0:
                step, part = (1, right) if low == 0.0 else (down, low)
                for c in range(out.shape[1]):
                    slope = share * grad[i, where, c]
                    out[cell, c] += slope - part * slope
                    out[cell + step, c] += part * slope
            else:
                w11 = share * low * right
                w10, w01 = share * low - w11, share * right - w11
                w00 = share - w10 - w01 - w11
                for c in range(out.shape[1]):
                    slope = grad[i, where, c]
                    out[cell, c] += w00 * slope
                    out[cell + 1, c] += w01 * slope
                    out[cell + down, c] += w10 * slope
                    out[cell + down + 1, c] += w11 * slope


@njit(cache=True, nogil=True, error_model="numpy")
def _scatter_term(
    term, taken, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, grad, where, out
):
    """Add the gradients grad[:, where] of the rows taken (A, b) to the cells of one term."""
    low, high = term_start[term], term_start[term + 1]
    if high - low == 1:
        _scatter_main(taken[term_axis[low]], grad, where, term_offset[term], out)
    else:
        axes, strides = term_axis[low:high], term_stride[low:high]
        _scatter_interaction(
            taken, axes, strides, grad, where, term_offset[term], skip_axis[term], skip_place[term], out
        )


@njit(cache=True, nogil=True, error_model="numpy")
def scatter_rows(
    first, last, taken, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, grad, per_term, out
):
    """Backward pass: histograms of the gradients grad (b, 1 or T, C) over the cells of terms first … last - 1.

    Threads share terms, not rows: one thread sums each cell, always in the same order.
    """
    for term in range(first, last):
        where = term if per_term else 0
        _scatter_term(
            term, taken, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, grad, where, out
        )
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def locate_stored(
    first, last, starts, column, values, axes_start, axes, axis_column, axis_start, axis_level, knots, guide,
    guide_start, guide_line, begins, axis, positions,
):  # fmt: skip
    """Write axis and position of the entries of sparse rows first … last - 1, on all axes of their columns.

    A row's entries start at begins[row]. The axes of column c are axes[axes_start[c]:axes_start[c + 1]]; values
    (entries, 1). Returns the column of an infinite value, or -1.
    """
    found = np.empty(1)
    for row in range(first, last):
        place = begins[row]
        for e in range(starts[row], starts[row + 1]):
            for j in range(axes_start[column[e]], axes_start[column[e] + 1]):
                a = axes[j]
                start = axis_start[a]
                if not _locate_column(
                    values, 0, e, 1, axis_level[a], knots, start, axis_start[a + 1] - start, guide, guide_start,
                    guide_line, a, found,
                ):  # fmt: skip
                    return axis_column[a]
                axis[place], positions[place] = a, found[0]
                place += 1
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _is_first(start, before, term_axis, place, absent):
    """Whether a row has no entry on the first `before` axes of a term."""
    j = start
    while j < start + before and place[term_axis[j], 0] == absent[term_axis[j]]:
        j += 1
    return j == start + before


@njit(cache=True, nogil=True, error_model="numpy")
def gather_stored(
    first, last, rows, starts, axis, positions, absent, touch_start, touch_term, touch_before, term_start, term_axis,
    term_stride, term_offset, skip_axis, skip_place, table, at_absent, per_term, out,
):  # fmt: skip
    """`gather_rows` for sparse rows.

    out comes in with the contributions of rows whose values are all absent; at_absent (T, C) holds them per term. Only
    terms that an entry affects are looked up, each once (see `layout.list_touches`), so the cost is proportional to the
    number of entries.
    """
    place = absent.copy().reshape(-1, 1)  # positions of one row on all axes
    for i in range(first, last):
        low, high = starts[rows[i]], starts[rows[i] + 1]
        for e in range(low, high):
            place[axis[e], 0] = positions[e]
        for e in range(low, high):
            for j in range(touch_start[axis[e]], touch_start[axis[e] + 1]):
                term = touch_term[j]
                if _is_first(term_start[term], touch_before[j], term_axis, place, absent):
                    where = term if per_term else 0
                    for k in range(out.shape[2]):
                        out[i, where, k] -= at_absent[term, k]
                    _add_term(
                        term, place, 1, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table,
                        out, i, where,
                    )  # fmt: skip
        for e in range(low, high):
            place[axis[e], 0] = absent[axis[e]]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def scatter_stored(
    first, last, rows, starts, axis, positions, absent, touch_start, touch_term, touch_before, term_start, term_axis,
    term_stride, term_offset, skip_axis, skip_place, grad, per_term, rest, n_rows, out,
):  # fmt: skip
    """`scatter_rows` for sparse rows: rest (1, T, C) comes in with the summed gradients of all rows, n_rows (T,) with
    their number.

    The gradients of affected rows are subtracted from `rest`; the remainder belongs to the cell where all values are
    absent. If no row remains, it is dropped, because it would be pure rounding error.
    """
    place = absent.copy().reshape(-1, 1)
    for i in range(len(rows)):
        low, high = starts[rows[i]], starts[rows[i] + 1]
        for e in range(low, high):
            place[axis[e], 0] = positions[e]
        for e in range(low, high):
            for j in range(touch_start[axis[e]], touch_start[axis[e] + 1]):
                term = touch_term[j]
                if first <= term < last and _is_first(term_start[term], touch_before[j], term_axis, place, absent):
                    where = term if per_term else 0
                    n_rows[term] -= 1
                    for c in range(out.shape[1]):
                        rest[0, term, c] -= grad[i, where, c]
                    _scatter_term(
                        term, place, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place,
                        grad[i : i + 1], where, out,
                    )  # fmt: skip
        for e in range(low, high):
            place[axis[e], 0] = absent[axis[e]]
    for term in range(first, last):
        if n_rows[term] > 0:
            _scatter_term(
                term, place, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, rest, term, out
            )
    return -1
