"""Interpolation: a term of order o, linear between the 2^o cells around a row's position, and the adjoint.

`adjoint` is None to add the cells of `table` (cells, C) to `rows` (N, 1 or T, C), and True to add `rows` to the cells.
Numba drops the branch of the adjoint if `adjoint` is None; if it were False, a read-only table would not compile.
`terms` are the arrays of the terms, see `Layout` in `encoding.layout`. The loops over rows make no calls, which would
count references to the arrays for every row.
"""

from __future__ import annotations

import numpy as np

from .compiled import njit


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_main(position, size, offset, table, rows, first, where, adjoint):
    """A main effect and `size` rows from `first` on."""
    for i in range(size):
        whole = np.floor(position[i])  # unlike an integer, it keeps the arithmetic in single precision
        share = position[i] - whole
        cell, row = offset + int(whole), first + i
        if adjoint is None:
            if share == 0.0:
                for c in range(table.shape[1]):
                    rows[row, where, c] += table[cell, c]
            else:
                for c in range(table.shape[1]):
                    value = table[cell, c]
                    rows[row, where, c] += value + share * (table[cell + 1, c] - value)
        elif share == 0.0:
            for c in range(table.shape[1]):
                table[cell, c] += rows[row, where, c]
        else:
            for c in range(table.shape[1]):
                part = share * rows[row, where, c]
                table[cell, c] += rows[row, where, c] - part
                table[cell + 1, c] += part


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_interaction(position, axes, strides, size, offset, skip_axis, skip_place, table, rows, first, where, adjoint):
    """A term of two or more axes: bilinear along the last two, summed over the corners of the others."""
    n_leading = len(axes) - 2
    row_axis, column_axis, down = axes[n_leading], axes[n_leading + 1], strides[n_leading]
    one = position.dtype.type(1)
    for i in range(size):
        if skip_axis >= 0 and position[skip_axis, i] == skip_place:
            continue
        above, before = np.floor(position[row_axis, i]), np.floor(position[column_axis, i])
        low, right = position[row_axis, i] - above, position[column_axis, i] - before
        row = first + i
        for corner in range(1 << n_leading):
            cell = offset + int(above) * down + int(before)
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
                for c in range(table.shape[1]):
                    if adjoint is None:
                        rows[row, where, c] += share * table[cell, c]
                    else:
                        table[cell, c] += share * rows[row, where, c]
            elif low == 0.0 or right == 0.0:
                step, part = (1, right) if low == 0.0 else (down, low)
                for c in range(table.shape[1]):
                    if adjoint is None:
                        value = table[cell, c]
                        rows[row, where, c] += share * (value + part * (table[cell + step, c] - value))
                    else:
                        slope = share * rows[row, where, c]
                        table[cell, c] += slope - part * slope
                        table[cell + step, c] += part * slope
            else:
                w11 = share * low * right
                w10, w01 = share * low - w11, share * right - w11
                w00 = share - w10 - w01 - w11
                below = cell + down
                for c in range(table.shape[1]):
                    if adjoint is None:
                        upper_row = w00 * table[cell, c] + w01 * table[cell + 1, c]
                        rows[row, where, c] += upper_row + w10 * table[below, c] + w11 * table[below + 1, c]
                    else:
                        slope = rows[row, where, c]
                        table[cell, c] += w00 * slope
                        table[cell + 1, c] += w01 * slope
                        table[below, c] += w10 * slope
                        table[below + 1, c] += w11 * slope


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def add_term(term, position, size, terms, table, per_term, rows, first, adjoint):
    """One term and `size` rows from `first` on, at position (A, size). Inlined: a call would count references."""
    starts, axes, strides, offsets, skip_axis, skip_place = terms
    low, high, where = starts[term], starts[term + 1], term if per_term else 0
    if high - low == 1:
        _add_main(position[axes[low]], size, offsets[term], table, rows, first, where, adjoint)
    else:
        _add_interaction(
            position, axes[low:high], strides[low:high], size, offsets[term], skip_axis[term], skip_place[term], table,
            rows, first, where, adjoint,
        )  # fmt: skip
