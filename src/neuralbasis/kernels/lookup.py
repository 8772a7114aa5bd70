"""Look-ups of training: contributions of a batch of rows (gather), and the adjoint, histograms of gradients (scatter).

Both exist for dense rows, with a position on every axis, and for sparse rows, which store only the positions of values
that are not absent. `Layout` in `encoding.layout` describes the arrays of axes and terms.
"""

from __future__ import annotations

import numpy as np

from .compiled import BLOCK, njit
from .interpolation import add_term
from .predict import locate_column


@njit(cache=True, nogil=True, error_model="numpy")
def take_rows(first, last, positions, rows, out):
    """positions (N, A) of rows[first:last] -> out (A, b)."""
    for i in range(first, last):
        row = rows[i]
        for axis in range(out.shape[0]):
            out[axis, i] = positions[row, axis]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def gather_rows(
    first, last, taken, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out
):
    """Forward pass: add look-ups at positions taken (A, b) to out (b, 1, C), or (b, T, C) if `per_term`."""
    terms = term_start, term_axis, term_stride, term_offset, skip_axis, skip_place
    for block in range(first, last, BLOCK):
        size = min(BLOCK, last - block)
        position = taken[:, block : block + size]
        for term in range(len(term_offset)):
            add_term(term, position, size, terms, table, per_term, out, block, None)
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def scatter_rows(
    first, last, taken, term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, grad, per_term, out
):
    """Backward pass: histograms of the gradients grad (b, 1 or T, C) over the cells of terms first … last - 1.

    Threads share terms, not rows: one thread sums each cell, always in the same order.
    """
    terms = term_start, term_axis, term_stride, term_offset, skip_axis, skip_place
    for term in range(first, last):
        add_term(term, taken, taken.shape[1], terms, out, per_term, grad, 0, True)
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
    layout = axis_start, axis_level, knots, guide, guide_start, guide_line
    found = np.empty(1)
    for row in range(first, last):
        place = begins[row]
        for e in range(starts[row], starts[row + 1]):
            for j in range(axes_start[column[e]], axes_start[column[e] + 1]):
                a = axes[j]
                if not locate_column(values, 0, e, 1, layout, a, found):
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
    terms = term_start, term_axis, term_stride, term_offset, skip_axis, skip_place
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
                    add_term(term, place, 1, terms, table, per_term, out, i, None)
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
    terms = term_start, term_axis, term_stride, term_offset, skip_axis, skip_place
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
                    add_term(term, place, 1, terms, out, per_term, grad, i, True)
        for e in range(low, high):
            place[axis[e], 0] = absent[axis[e]]
    for term in range(first, last):
        if n_rows[term] > 0:
            add_term(term, place, 1, terms, out, True, rest, 0, True)
    return -1
