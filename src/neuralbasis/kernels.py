"""The compiled inner loops: find a row's position on its axes, look terms up, sum them; and the way back.

Every kernel releases the GIL and works on a range of rows, so that rows can be shared among plain threads
(`share_rows`); no threading layer of numba is involved. `layout` arguments are described in `layout.Layout`.
Positions: see `axis`. A term of order o reads the 2^o cells around a row's position and weighs them linearly.
Where numba is absent, `NUMBA` is False and the same functions run as (slow) Python: the NumPy path in `model` is used
instead.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

NUMBA = os.environ.get("NEURALBASIS_NUMBA", "1") != "0"
if NUMBA:
    try:
        from numba import njit
    except ImportError:  # pragma: no cover - exercised in a subprocess
        NUMBA = False

if not NUMBA:

    def njit(*_args, **_options):
        return lambda function: function


FEW_ROWS = 64  # predicted in less time than it takes to hand the GIL over
MIN_ROWS = 4096  # a thread that predicts fewer rows costs more than it saves
HUGE = 1e308  # a difference of knots beyond this may have overflowed
CUTS = 4  # of a column in a round of boosting
BLOCK = 1024  # rows worked on at a time: positions of a block stay in the cache
N_GROUPS = 8  # of neighbouring bins, see `find_view`


@njit(cache=True, nogil=True, error_model="numpy")
def _locate_column(numbers, column, first, size, level, knots, start, count, guide, starts, lines, axis, out):
    """Positions out[:size] of rows first … of one column on one axis; False if a value is infinite.

    A value's bucket in the guide table (from `starts[axis]` on, see `layout.make_guide`) leaves few knots to search.
    One loop without calls: an inlined call would count references to the arrays for every value.
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
            while found >= 0 and knots[start + found] > value:  # a coarser axis keeps some levels only
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
    """numbers (N, D) -> positions (N, A) for rows first … last - 1; returns the column of an infinite value or -1."""
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
    """The same for a term of two axes or more: bilinear along the last two, summed over the corners of the others."""
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
    """One term for `size` rows of out from `first` on."""
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
    """All terms for a block of rows, a term after the other: its table stays in the cache."""
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
    """Add table look-ups of raw rows into out (N, 1, K), or (N, T, K) if `per_term`; returns as `locate_rows`."""
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
    """`score_rows` that keeps the GIL: in a few microseconds, threads would only wait for each other to get it back."""
    return score_rows(
        first, last, numbers, axis_column, axis_start, axis_level, knots, guide, guide_start, guide_line,
        term_start, term_axis, term_stride, term_offset, skip_axis, skip_place, table, per_term, out,
    )  # fmt: skip


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def narrow_rows(first, last, found, largest, narrow, sizes):
    """Copy rows first … last - 1 of found (N, S) into narrow, and add Σ |found| · largest (S,) to sizes (N,)."""
    for row in range(first, last):
        total = 0.0
        for s in range(found.shape[1]):
            narrow[row, s] = found[row, s]
            total += abs(found[row, s]) * largest[s]
        sizes[row] += total
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"nnan", "nsz", "reassoc"})
def _add_and_find_highest(scores, intercept):
    """Add the intercept to the scores (K,) of a row; the highest. Several at a time, so none may be missing."""
    best = np.float32(-np.inf)
    for k in range(len(scores)):
        scores[k] += intercept[k]
        best = max(best, scores[k])
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def pick_classes(first, last, scores, intercept, reach, winners):
    """The column with the highest score (N, K) + intercept (K,) of rows first … last - 1; -1 if another may be as high,
    each score being off by up to reach (N,). Adds the intercept to the scores."""
    for row in range(first, last):
        bound = _add_and_find_highest(scores[row], intercept) - 2 * reach[row]
        count, winner = 0, 0
        for k in range(scores.shape[1]):
            is_high = int(scores[row, k] >= bound)
            count += is_high
            winner += is_high * k
        winners[row] = winner if count == 1 else -1
    return -1


MISSING_BITS, SIGN_BIT = 0x7FF0000000000000, 0x8000000000000000


@njit(cache=True, nogil=True, error_model="numpy")
def _scramble(mixed):
    """A number that looks random, from any: the last steps of the generator splitmix64.

    Sums and products wrap around; where numba is absent, NumPy has to be told that they may.
    """
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(cache=True, nogil=True, error_model="numpy")
def _digest(bits, key):
    """A number that looks random, from the bits of a value and the key of its column; 0 for the value 0.

    All missing values are alike, and so are 0 and -0.
    """
    if bits == np.uint64(0) or bits == np.uint64(SIGN_BIT):
        return np.uint64(0)
    if bits & np.uint64(SIGN_BIT - 1) > np.uint64(MISSING_BITS):
        bits = np.uint64(SIGN_BIT - 1)
    return _scramble(bits + key)


@njit(cache=True, nogil=True, error_model="numpy")
def digest_rows(first, last, bits, keys, digests):
    """Add the digests of all values of rows first … last - 1, given as bits (N, D), to digests (N,)."""
    for row in range(first, last):
        for column in range(len(keys)):
            digests[row] += _digest(bits[row, column], keys[column])
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def digest_stored(first, last, starts, column, bits, absent, keys, digests):
    """The same for stored rows, as if every other value were there, with the bits `absent`."""
    everywhere = np.uint64(0)
    for c in range(len(keys)):
        everywhere += _digest(absent, keys[c])
    for row in range(first, last):
        total = everywhere
        for e in range(starts[row], starts[row + 1]):
            key = keys[column[e]]
            total += _digest(bits[e], key) - _digest(absent, key)
        digests[row] += total
    return -1


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
    """Training forward: add look-ups at positions taken (A, b) into out (b, 1, C), or (b, T, C) if `per_term`."""
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
    """The same for an interaction; corners as in `_add_interaction`, written out again: see `_locate_column`."""
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
    """Training backward: histograms of the gradients grad (b, 1 or T, C) over the cells of terms first … last - 1.

    Terms, not rows, are shared among threads: every cell is summed by one thread, always in the same order.
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
    """Stored rows first … last - 1 -> their entries on all axes of their columns: axis and position, from begins[row].

    The axes of column c are axes[axes_start[c]:axes_start[c + 1]]; values (entries, 1). Returns as `locate_rows`.
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
    """Has a row no entry on the first `before` axes of a term?"""
    j = start
    while j < start + before and place[term_axis[j], 0] == absent[term_axis[j]]:
        j += 1
    return j == start + before


@njit(cache=True, nogil=True, error_model="numpy")
def gather_stored(
    first, last, rows, starts, axis, positions, absent, touch_start, touch_term, touch_before, term_start, term_axis,
    term_stride, term_offset, skip_axis, skip_place, table, at_absent, per_term, out,
):  # fmt: skip
    """`gather_rows` for stored rows: out holds what terms say where all values are absent, at_absent (T, C) of each.

    Only terms that an entry touches are looked up, each once (see `layout.list_touches`): the cost is that of the
    entries. `place` holds the positions of one row.
    """
    place = absent.copy().reshape(-1, 1)
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
    """`scatter_rows` for stored rows: rest (1, T, C) holds the summed gradients of all rows, n_rows (T,) their number.

    What touched rows take away from these stays for the cells where all values are absent; nothing, not rounding
    either, where no row is left.
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


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def measure_roughness(left, right, block, inverse, table, rough):
    """Add every edge's squared difference over its width to its block's roughness (blocks, C)."""
    for e in range(len(left)):
        for c in range(table.shape[1]):
            change = table[right[e], c] - table[left[e], c]
            rough[block[e], c] += change * change * inverse[e]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pull_edges(left, right, block, inverse, strength, table, grad):
    """Add the gradient of Σ_edges ½ strength[block] (difference)² / width to grad (cells, C)."""
    for e in range(len(left)):
        for c in range(table.shape[1]):
            pull = strength[block[e], c] * inverse[e] * (table[right[e], c] - table[left[e], c])
            grad[right[e], c] += pull
            grad[left[e], c] -= pull
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pull_bends(middle, before, after, strength, table, grad):
    """Add the gradient of Σ_bends ½ strength (after · step away - before · step there)² to grad (cells, C)."""
    for b in range(len(middle)):
        cell, down, up = middle[b], before[b], after[b]
        for c in range(table.shape[1]):
            bend = up * (table[cell + 1, c] - table[cell, c]) - down * (table[cell, c] - table[cell - 1, c])
            pull = strength[b, c] * bend
            grad[cell - 1, c] += down * pull
            grad[cell, c] -= (down + up) * pull
            grad[cell + 1, c] += up * pull
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_slopes(position, slope, curvature, steep, inner, outer):
    """Sums over rows on a chain of knots: minus their slopes (G,), and their curvatures as a tridiagonal matrix."""
    count = len(steep)
    for i in range(len(position)):
        place = position[i]
        if curvature[i] == 0 or not (1 <= place <= count):  # held out, missing or unseen
            continue
        left = int(place) - 1
        part = place - 1 - left
        steep[left] -= (1 - part) * slope[i]
        inner[left] += (1 - part) * (1 - part) * curvature[i]
        if part > 0:
            steep[left + 1] -= part * slope[i]
            inner[left + 1] += part * part * curvature[i]
            outer[left] += part * (1 - part) * curvature[i]


@njit(cache=True, nogil=True, error_model="numpy")
def _solve_chain(inner, outer, right, x):
    """x of a symmetric tridiagonal system with diagonal `inner` (G,) and `outer` (G - 1,) beside it."""
    count = len(inner)
    ratio = np.empty(count)
    pivot = inner[0]
    x[0] = right[0] / pivot
    for j in range(1, count):
        ratio[j - 1] = outer[j - 1] / pivot
        pivot = inner[j] - outer[j - 1] * ratio[j - 1]
        x[j] = (right[j] - outer[j - 1] * x[j - 1]) / pivot
    for j in range(count - 2, -1, -1):
        x[j] -= ratio[j] * x[j + 1]


@njit(cache=True, nogil=True, error_model="numpy")
def _fuse(inner, outer, right, price, width, x):
    """Minimise the quadratic ½ x'Hx - right'x + Σ_j price_j |x_j+1 - x_j| by reweighted squares, starting from x."""
    steps = len(inner) - 1
    for _ in range(4):
        diagonal, beside = inner.copy(), outer[:steps].copy()
        for j in range(steps):
            weight = price[j] / (abs(x[j + 1] - x[j]) + width)
            diagonal[j] += weight
            diagonal[j + 1] += weight
            beside[j] -= weight
        _solve_chain(diagonal, beside, right, x)


@njit(cache=True, nogil=True, error_model="numpy")
def refine_columns(positions, sizes, price, spike_price, width, slope, curvature, chain, spike, moved):
    """One sweep over the columns: refit each one's free part to the slopes that all others leave.

    positions (F, N); sizes (F,) knots; price (F, G) of a jump behind each knot and spike_price (F, G) of a spike there,
    inf for none; the rows' slope (N,) and moved (N,) follow the changes; chain and spike (F, G) are the two parts.
    """
    for f in range(len(positions)):
        count, position = sizes[f], positions[f]
        steep, inner, outer = np.zeros(count), np.zeros(count), np.zeros(count)
        _sum_slopes(position, slope, curvature, steep, inner, outer)
        total = inner.sum()
        if total == 0:
            continue
        inner += 1e-6 * total / count  # knots that no row stands on
        old, x, right = chain[f, :count], chain[f, :count].copy(), steep.copy()
        for j in range(count):
            right[j] += inner[j] * old[j]
            if j > 0:
                right[j] += outer[j - 1] * old[j - 1]
            if j < count - 1:
                right[j] += outer[j] * old[j + 1]
        _fuse(inner, outer, right, price[f], width, x)
        x -= (inner * x).sum() / total
        change = x - old
        chain[f, :count] = x
        jolt = np.zeros(count)
        for j in range(count):
            if spike_price[f, j] < np.inf:
                rest = steep[j] - inner[j] * change[j]
                if j > 0:
                    rest -= outer[j - 1] * change[j - 1]
                if j < count - 1:
                    rest -= outer[j] * change[j + 1]
                rest += inner[j] * spike[f, j]
                new = np.sign(rest) * max(abs(rest) - spike_price[f, j], 0.0) / inner[j]
                jolt[j] = new - spike[f, j]
                spike[f, j] = new
        change += jolt
        for i in range(len(position)):
            place = position[i]
            if 1 <= place <= count:
                left = int(place) - 1
                part = place - 1 - left
                step = (1 - part) * change[left]
                if part > 0:
                    step += part * change[left + 1]
                slope[i] += curvature[i] * step
                moved[i] += step
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def _order_cells(slope, curvature, is_nominal, order, rank):
    """Cells of an axis in the order in which it is cut: their own, or of levels the order of their Newton steps."""
    for i in range(len(order)):
        order[i] = i
    if is_nominal:
        order[:] = np.argsort(slope / (curvature + 1.0), kind="mergesort")
    for i in range(len(order)):
        rank[order[i]] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_line(slope, curvature, last, ridge, least):
    """Cut a line of cells, of which the sums before each are given, where its two sides gain most; 0: better not."""
    total, weight = slope[last], curvature[last]
    best, place = total * total / (weight + ridge), 0
    for j in range(1, last):
        light = curvature[j]
        if light < least or weight - light < least:
            continue
        gain = slope[j] ** 2 / (light + ridge) + (total - slope[j]) ** 2 / (weight - light + ridge)
        if gain > best:
            best, place = gain, j
    return best, place


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_anywhere(curvature, least, chance):
    """Cut a line of cells, of which the sums before each are given, behind such a share of the rows; 0: better not."""
    total = curvature[-1]
    place = np.searchsorted(curvature, chance * total)
    return 0 if curvature[place] < least or total - curvature[place] < least else place


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def cut_columns(
    positions, cells, axes, sizes, nominal, ridge, least, rate, slope, curvature, tables, offsets, moved, seed
):
    """One round of boosting: cut every column in two, CUTS times, and move both sides by a part of their Newton steps.

    As `cut_pairs` has it, with axes (P, 1). The rows move once for all cuts of a column, so they cost as much as one.
    Cuts are where they gain most, or, with a seed above 0, by chance: anywhere among the rows, of levels in any order.
    """
    for p in range(len(axes)):
        axis = axes[p, 0]
        size, near, position = sizes[axis], cells[axis], positions[axis]
        steep, weight, change = np.zeros(size), np.zeros(size), np.zeros(size)
        for n in range(len(slope)):
            steep[near[n]] += slope[n]
            weight[near[n]] += curvature[n]
        order, rank = np.empty(size, np.int64), np.empty(size, np.int64)
        _order_cells(steep, weight, nominal[axis], order, rank)
        for c in range(CUTS):
            chance = -1.0
            if seed > 0:
                chance = _draw(seed, p * CUTS + c, 0)
                if nominal[axis]:
                    _shuffle_cells(seed, p * CUTS + c, order, rank)
            if not _cut_column(order, rank, ridge, least, rate, steep, weight, change, chance) and seed == 0:
                break
        tables[offsets[p] : offsets[p] + size] += change
        for n in range(len(slope)):
            left = int(position[n])
            part = position[n] - left
            move = change[left]
            if part > 0:
                move += part * (change[left + 1] - move)
            slope[n] += curvature[n] * move
            moved[n] += move


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(seed, cut, number):
    """0 … 1, as if drawn by chance."""
    mixed = _scramble(np.uint64(seed)) + np.uint64(cut) * np.uint64(0x9E3779B97F4A7C15)
    return float(_scramble(_scramble(mixed) + np.uint64(number)) >> np.uint64(11)) / 2.0**53


@njit(cache=True, nogil=True, error_model="numpy")
def _shuffle_cells(seed, cut, order, rank):
    """Cells in any order."""
    keys = np.empty(len(order))
    for i in range(len(order)):
        keys[i] = _draw(seed, cut, 1 + i)
    order[:] = np.argsort(keys)
    for i in range(len(order)):
        rank[order[i]] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_column(order, rank, ridge, least, rate, steep, weight, change, chance):
    """Cut a column's cells where it gains most, or with a chance of 0 … 1 behind such a share of the rows: slopes and
    changes follow. False if there is no such cut."""
    size = len(order)
    sums, bends = np.zeros(size + 1), np.zeros(size + 1)
    for i in range(size):
        sums[i + 1] = sums[i] + steep[order[i]]
        bends[i + 1] = bends[i] + weight[order[i]]
    if chance < 0:
        _, place = _cut_line(sums, bends, size, ridge, least)
    else:
        place = _cut_anywhere(bends, least, chance)
    if place == 0:
        return False
    near = -rate * sums[place] / (bends[place] + ridge)
    far = -rate * (sums[size] - sums[place]) / (bends[size] - bends[place] + ridge)
    for i in range(size):
        step = near if rank[i] < place else far
        change[i] += step
        steep[i] += weight[i] * step
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_table(slope, curvature, ridge, least, cut):
    """Cut a table, of which the sums before each cell are given, along its first axis, and each side along the second.

    Writes the three places; returns what that gains, 0 if there is nothing to cut.
    """
    rows, last = slope.shape[0] - 1, slope.shape[1] - 1
    best = 0.0
    for i in range(1, rows):
        if curvature[i, last] < least or curvature[rows, last] - curvature[i, last] < least:
            continue
        near, near_place = _cut_line(slope[i], curvature[i], last, ridge, least)
        far, far_place = _cut_line(slope[rows] - slope[i], curvature[rows] - curvature[i], last, ridge, least)
        if near + far > best:
            best = near + far
            cut[0], cut[1], cut[2] = i, near_place, far_place
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_table_anywhere(curvature, least, seed, number, cut):
    """As `_cut_table`, each of the three cuts behind any share of the rows."""
    rows, last = curvature.shape[0] - 1, curvature.shape[1] - 1
    cut[0] = _cut_anywhere(curvature[:, last], least, _draw(seed, number, 0))
    cut[1] = _cut_anywhere(curvature[cut[0]], least, _draw(seed, number, 1))
    cut[2] = _cut_anywhere(curvature[rows] - curvature[cut[0]], least, _draw(seed, number, 2))


@njit(cache=True, nogil=True, error_model="numpy")
def _find_steps(slope, curvature, cut, ridge, rate, step):
    """Newton steps of the four pieces of a cut table."""
    i, rows, last = cut[0], slope.shape[0] - 1, slope.shape[1] - 1
    for side in range(2):
        j = cut[1 + side]
        top, bottom = (i, 0) if side == 0 else (rows, i)
        for piece in range(2):
            right, left = (j, 0) if piece == 0 else (last, j)
            rise = slope[top, right] - slope[bottom, right] - slope[top, left] + slope[bottom, left]
            bend = curvature[top, right] - curvature[bottom, right] - curvature[top, left] + curvature[bottom, left]
            step[side, piece] = -rate * rise / (bend + ridge)


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_before(cells, order, other, sums):
    """sums[i, j]: of all cells before the i-th and j-th in the given orders of the two axes."""
    for i in range(len(order)):
        line = 0.0
        for j in range(len(other)):
            line += cells[order[i], other[j]]
            sums[i + 1, j + 1] = sums[i, j + 1] + line


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def cut_pairs(
    positions, cells, pairs, sizes, nominal, ridge, least, rate, slope, curvature, tables, offsets, moved, seed
):
    """One round of boosting: cut every pair's table in four pieces and move each by a part of its Newton step.

    positions (A, N) and the cells nearest to them on each axis; pairs (P, 2) of axes; sizes (A,) cells of each axis;
    tables: all cells of all pairs, each from its offset on; the rows' slope (N,) and moved (N,) follow. Cuts are where
    they gain most, or, with a seed above 0, by chance: along either axis first, of levels in any order.
    """
    cut, turned, step = np.zeros(3, np.int64), np.zeros(3, np.int64), np.zeros((2, 2))
    for p in range(len(pairs)):
        first, second = pairs[p]
        shape = sizes[first], sizes[second]
        steep, weight = np.zeros(shape), np.zeros(shape)
        near, other = cells[first], cells[second]
        for n in range(len(slope)):
            steep[near[n], other[n]] += slope[n]
            weight[near[n], other[n]] += curvature[n]
        order, rank = np.empty(shape[0], np.int64), np.empty(shape[0], np.int64)
        order2, rank2 = np.empty(shape[1], np.int64), np.empty(shape[1], np.int64)
        _order_cells(steep.sum(axis=1), weight.sum(axis=1), nominal[first], order, rank)
        _order_cells(steep.sum(axis=0), weight.sum(axis=0), nominal[second], order2, rank2)
        if seed > 0 and nominal[first]:
            _shuffle_cells(seed, 4 * p, order, rank)
        if seed > 0 and nominal[second]:
            _shuffle_cells(seed, 4 * p + 1, order2, rank2)
        sums, bends = np.zeros((shape[0] + 1, shape[1] + 1)), np.zeros((shape[0] + 1, shape[1] + 1))
        _sum_before(steep, order, order2, sums)
        _sum_before(weight, order, order2, bends)
        turned_sums, turned_bends = np.ascontiguousarray(sums.T), np.ascontiguousarray(bends.T)
        if seed > 0:
            _cut_table_anywhere(bends, least, seed, 4 * p + 2, cut)
            _cut_table_anywhere(turned_bends, least, seed, 4 * p + 2, turned)
            is_turned = _draw(seed, 4 * p + 3, 0) < 0.5
        else:
            gain = _cut_table(sums, bends, ridge, least, cut)
            is_turned = _cut_table(turned_sums, turned_bends, ridge, least, turned) > gain
        if is_turned:
            cut[:] = turned
            sums, bends = turned_sums, turned_bends
            first, second, rank, rank2 = second, first, rank2, rank
        if cut[0] == 0:
            continue
        _find_steps(sums, bends, cut, ridge, rate, step)
        _move_rows(positions, cells, first, second, nominal, rank, rank2, cut, step, slope, curvature, moved)
        for i in range(len(rank)):
            side = int(rank[i] >= cut[0])
            for j in range(len(rank2)):
                where = j * len(rank) + i if is_turned else i * len(rank2) + j
                tables[offsets[p] + where] += step[side, int(rank2[j] >= cut[1 + side])]
        cut[:] = 0


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _move_rows(positions, cells, first, second, nominal, rank, rank2, cut, step, slope, curvature, moved):
    """Move the rows as they read the table: between two knots linearly, so a step is a ramp there."""
    near, other = positions[first], positions[second]
    for n in range(len(slope)):
        if nominal[first]:
            far = 1.0 if rank[cells[first, n]] >= cut[0] else 0.0
        else:
            far = min(max(near[n] - (cut[0] - 1), 0.0), 1.0)
        move = 0.0
        for side in range(2):
            share = far if side == 1 else 1.0 - far
            if share > 0.0:
                if nominal[second]:
                    right = 1.0 if rank2[cells[second, n]] >= cut[1 + side] else 0.0
                else:
                    right = min(max(other[n] - (cut[1 + side] - 1), 0.0), 1.0)
                move += share * (step[side, 0] + right * (step[side, 1] - step[side, 0]))
        slope[n] += curvature[n] * move
        moved[n] += move


@njit(cache=True, nogil=True, error_model="numpy")
def count_cells(first, last, terms, codes, n_bins, data, histogram):
    """Add data (N, C) into histogram (T, cells, C) at each row's cell of the terms first … last - 1.

    A term's columns are read from codes (D, N); its cells, at most 65,536, lie as in a table of n_bins along each axis,
    last axis fastest. The cells of a block of rows are found first, in loops that vectorise. Pieces of the arrays
    and unsigned cells spare the sums a check for negative indices.
    """
    n_rows, n_channels = data.shape
    cells = np.empty(BLOCK, dtype=np.uint16)
    for term in range(first, last):
        table = histogram[term]
        for block in range(0, n_rows, BLOCK):
            rows = data[block : block + BLOCK]
            size = len(rows)
            column = codes[terms[term, 0], block : block + BLOCK]
            for i in range(size):
                cells[i] = column[i]
            for d in range(1, terms.shape[1]):
                column = codes[terms[term, d], block : block + BLOCK]
                for i in range(size):
                    cells[i] = cells[i] * n_bins + column[i]
            if n_channels == 2:  # one output: thrice as fast without the loop over channels
                for i in range(size):
                    cell = cells[i]
                    table[cell, 0] += rows[i, 0]
                    table[cell, 1] += rows[i, 1]
            else:
                for i in range(size):
                    cell = cells[i]
                    for c in range(n_channels):
                        table[cell, c] += rows[i, c]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def find_view(sums, reach):
    """How much the best view of a column exceeds what noise would explain, and which it is.

    Views are 0: a line, 1: a parabola, 2: groups of bins, 3 + b: a jump behind bin b.
    sums (bins + 1, 1 + K) hold the weight and the weighted residuals of every bin, missing values last. A view explains
    Σ (residuals · contrast)² / Σ weight · contrast² over its orthogonal contrasts; reach (2, 4) is what the strongest
    of all columns would explain if they were noise, without and with a contrast for missing values.
    """
    n_bins, n_outputs = len(sums) - 1, sums.shape[1] - 1
    lost, known, middle = sums[n_bins, 0], 0.0, 0.0
    for b in range(n_bins):
        known += sums[b, 0]
        middle += sums[b, 0] * b
    if known <= 0.0:
        return -np.inf, 0
    middle /= known
    second, third, fourth = 0.0, 0.0, 0.0
    for b in range(n_bins):
        t = b - middle
        second += sums[b, 0] * t * t
        third += sums[b, 0] * t * t * t
    spread, skew = second / known, third / max(second, 1e-300)
    for b in range(n_bins):
        t = b - middle
        bend = t * t - spread - skew * t
        fourth += sums[b, 0] * bend * bend
    line, parabola, groups, gone = 0.0, 0.0, 0.0, 0.0
    width = n_bins // N_GROUPS
    for k in range(1, n_outputs + 1):
        along, bent, total = 0.0, 0.0, 0.0
        for g in range(N_GROUPS):
            weight, part = 0.0, 0.0
            for b in range(g * width, (g + 1) * width):
                t = b - middle
                along += sums[b, k] * t
                bent += sums[b, k] * (t * t - spread - skew * t)
                part += sums[b, k]
                weight += sums[b, 0]
            total += part
            if weight > 0.0:
                groups += part * part / weight
        groups -= total * total / known
        if second > 1e-9 * known:
            line += along * along / second
        if fourth > 1e-9 * known:
            parabola += bent * bent / fourth
        if lost > 0.0:
            part = sums[n_bins, k]
            gone += total * total / known + part * part / lost - (total + part) * (total + part) / (known + lost)
    row = 1 if lost > 0.0 else 0
    best, view = line + gone - reach[row, 0], 0
    if line + parabola + gone - reach[row, 1] > best:
        best, view = line + parabola + gone - reach[row, 1], 1
    if groups + gone - reach[row, 2] > best:
        best, view = groups + gone - reach[row, 2], 2
    jump, behind = _find_jump(sums, known)
    if jump + gone - reach[row, 3] > best:
        best, view = jump + gone - reach[row, 3], 3 + behind
    return best, view


@njit(cache=True, nogil=True, error_model="numpy")
def _find_jump(sums, known):
    """What the best cut into two parts explains of known values of this weight, and the last bin before it."""
    n_bins = len(sums) - 1
    explained = np.zeros(n_bins)
    for k in range(1, sums.shape[1]):
        total = 0.0
        for b in range(n_bins):
            total += sums[b, k]
        weight, part = 0.0, 0.0
        for b in range(n_bins - 1):
            weight += sums[b, 0]
            part += sums[b, k] - total / known * sums[b, 0]
            if 0.0 < weight < known:
                explained[b] += part * part * known / (weight * (known - weight))
    behind = int(np.argmax(explained))
    return explained[behind], behind


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_columns(first, last, codes, data, reach, strengths):
    """Strengths (D, M) of columns first … last - 1, see `find_view`; codes (D, N), data (N, M · (1 + K))."""
    n_members = strengths.shape[1]
    width = data.shape[1] // n_members
    n_bins = 2 * N_GROUPS
    sums = np.empty((n_bins + 1, data.shape[1]))
    for column in range(first, last):
        sums[:] = 0.0
        code = codes[column]
        for i in range(len(code)):
            line = sums[code[i]]
            for c in range(data.shape[1]):
                line[c] += data[i, c]
        for member in range(n_members):
            begin = member * width
            strengths[column, member] = find_view(sums[:, begin : begin + width], reach)[0]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def step_adam(grad, mean, square, values, average, first, second, bias1, bias2, rate, decay, epsilon, share):
    """A step of AdamW for every value, its exponential average, and the gradient back to zero, in one pass."""
    one = values.dtype.type(1)
    keep1, keep2, move = values.dtype.type(first), values.dtype.type(second), values.dtype.type(rate / bias1)
    scale, tiny = values.dtype.type(1 / bias2), values.dtype.type(epsilon)
    shrink, part = values.dtype.type(1 - decay), values.dtype.type(share)
    for i in range(len(values)):
        g = grad[i]
        mean[i] = keep1 * mean[i] + (one - keep1) * g
        square[i] = keep2 * square[i] + (one - keep2) * g * g
        values[i] = shrink * values[i] - move * mean[i] / (np.sqrt(scale * square[i]) + tiny)
        average[i] += part * (values[i] - average[i])
        grad[i] = 0
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def count_entries(first, last, starts, column, group, others, count):
    """How many terms have all their features among the stored values of each row first … last - 1.

    starts (N + 1,) and column (S,): the stored values; group (D + 1,): the terms whose first feature a column is,
    others (o - 1, T): their other features.
    """
    seen = np.zeros(len(group) - 1, dtype=np.bool_)
    for i in range(first, last):
        for s in range(starts[i], starts[i + 1]):
            seen[column[s]] = True
        for s in range(starts[i], starts[i + 1]):
            for t in range(group[column[s]], group[column[s] + 1]):
                found = 1
                for d in range(len(others)):
                    if not seen[others[d, t]]:
                        found = 0
                count[i] += found
        for s in range(starts[i], starts[i + 1]):
            seen[column[s]] = False
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def list_entries(first, last, starts, column, place, group, others, entry_starts, term, position):
    """The same terms themselves: term (E,) and position (E, o) of the rows' entries, from place (S,) of the values."""
    where = np.full(len(group) - 1, -1, dtype=np.int64)
    for i in range(first, last):
        for s in range(starts[i], starts[i + 1]):
            where[column[s]] = s
        e = entry_starts[i]
        for s in range(starts[i], starts[i + 1]):
            for t in range(group[column[s]], group[column[s] + 1]):
                found = True
                for d in range(len(others)):
                    if where[others[d, t]] < 0:
                        found = False
                if found:
                    term[e] = t
                    position[e, 0] = place[s]
                    for d in range(len(others)):
                        position[e, d + 1] = place[where[others[d, t]]]
                    e += 1
        for s in range(starts[i], starts[i + 1]):
            where[column[s]] = -1
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def blend_bases(first, last, position, side, bases, out):
    """Bases (side ** o, B) at the positions of entries first … last - 1: multilinear between cells, out (E, B)."""
    n_axes, one = position.shape[1], bases.dtype.type(1)
    for e in range(first, last):
        if n_axes == 2:  # written out: the loops below would take most of the time of a prediction
            down, right = np.floor(position[e, 0]), np.floor(position[e, 1])
            low, far = position[e, 0] - down, position[e, 1] - right
            cell = int(down) * side + int(right)
            below, beside = (side if low > 0 else 0), (1 if far > 0 else 0)
            for b in range(bases.shape[1]):
                top = bases[cell, b] + far * (bases[cell + beside, b] - bases[cell, b])
                bottom = bases[cell + below, b] + far * (bases[cell + below + beside, b] - bases[cell + below, b])
                out[e, b] = top + low * (bottom - top)
            continue
        for b in range(bases.shape[1]):
            out[e, b] = 0
        for corner in range(1 << n_axes):
            cell, share = 0, one
            for d in range(n_axes):
                whole = np.floor(position[e, d])
                part = position[e, d] - whole
                upper = corner >> d & 1
                share *= part if upper else one - part
                cell = cell * side + int(whole) + (upper and part > 0)
            if share > 0:
                for b in range(bases.shape[1]):
                    out[e, b] += share * bases[cell, b]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pull_bases(position, side, grad, out):
    """The way back of `blend_bases`: add grad (E, B) to the cells, out (side ** o, B)."""
    n_axes, one = position.shape[1], out.dtype.type(1)
    for e in range(len(position)):
        for corner in range(1 << n_axes):
            cell, share = 0, one
            for d in range(n_axes):
                whole = np.floor(position[e, d])
                part = position[e, d] - whole
                upper = corner >> d & 1
                share *= part if upper else one - part
                cell = cell * side + int(whole) + (upper and part > 0)
            if share > 0:
                for b in range(out.shape[1]):
                    out[cell, b] += share * grad[e, b]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_entries(first, last, starts, term, blend, coefficients, out):
    """Add Σ_entries Σ_b blend_b a_tb to rows first … last - 1: blend (E, B), coefficients (T, B, C), out (b, C)."""
    total = np.empty(out.shape[1], out.dtype)  # nothing else can lie there: the sums vectorise
    for i in range(first, last):
        total[:] = 0
        for e in range(starts[i], starts[i + 1]):
            t = term[e]
            for b in range(blend.shape[1]):
                share = blend[e, b]
                for c in range(len(total)):
                    total[c] += share * coefficients[t, b, c]
        for c in range(len(total)):
            out[i, c] += total[c]
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_sorted_entries(touched, begin, entry, row, blend, coefficients, out):
    """`add_entries` for sorted entries, see `sort_entries`: a term's coefficients are read once for all its rows."""
    for j in range(len(begin) - 1):
        values = coefficients[touched[j]]
        for place in range(begin[j], begin[j + 1]):
            e, line = entry[place], out[row[place]]
            for b in range(0, blend.shape[1] - 1, 2):  # two at a time: half as many ways to the row and back
                share, other, own, next_own = blend[e, b], blend[e, b + 1], values[b], values[b + 1]
                for c in range(len(line)):
                    line[c] += share * own[c] + other * next_own[c]
            if blend.shape[1] % 2:
                share, own = blend[e, -1], values[-1]
                for c in range(len(line)):
                    line[c] += share * own[c]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def sort_entries(starts, term, count, touched, begin, entry, row):
    """Entries by term. Writes the terms in their order, where each one's entries begin, and these with their rows;
    returns how many terms there are. `count` (T,) is zero before and after: a step costs what it holds."""
    found = 0
    for e in range(len(term)):
        if count[term[e]] == 0:
            touched[found] = term[e]
            found += 1
        count[term[e]] += 1
    touched[:found].sort()
    begin[0] = 0
    for j in range(found):
        begin[j + 1] = begin[j] + count[touched[j]]
        count[touched[j]] = begin[j]
    for i in range(len(starts) - 1):
        for e in range(starts[i], starts[i + 1]):
            place = count[term[e]]
            entry[place], row[place] = e, i
            count[term[e]] += 1
    for j in range(found):
        count[touched[j]] = 0
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def shrink_terms(first, last, touched, coefficients, power, seen, clock, ridge):
    """The decay that terms have missed since they were last touched: their rate, and so their decay, stood still.

    clock: sum of the rates so far, seen (T,): as it was; power (T,): see `step_terms`.
    """
    for j in range(first, last):
        term = touched[j]
        if power[term] > 0:
            part = coefficients.dtype.type(np.exp((seen[term] - clock) * ridge[term] / np.sqrt(power[term])))
            for b in range(coefficients.shape[1]):
                for c in range(coefficients.shape[2]):
                    coefficients[term, b, c] *= part
        seen[term] = clock
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract", "reassoc"})
def step_terms(first, last, touched, begin, entry, row, blend, slope, coefficients, power, rate, back):
    """Move the coefficients of touched terms against the slopes (b, C) of their rows' scores; entries as in
    `sort_entries`.

    AdaGrad with one rate a term: power (T,) sums the mean squares of its gradients. Writes back (E, B), the gradients
    of the blends at the coefficients before the step.
    """
    n_bases, n_channels = coefficients.shape[1], coefficients.shape[2]
    grad = np.zeros((n_bases, n_channels), coefficients.dtype)
    for j in range(first, last):
        term = touched[j]
        values = coefficients[term]
        grad[:] = 0
        for place in range(begin[j], begin[j + 1]):
            e, line = entry[place], slope[row[place]]
            for b in range(n_bases):
                share, own, mine = blend[e, b], values[b], grad[b]
                total = share * 0
                for c in range(n_channels):  # two loops, of which each vectorises
                    total += own[c] * line[c]
                for c in range(n_channels):
                    mine[c] += share * line[c]
                back[e, b] = total
        square = 0.0
        for b in range(n_bases):
            for c in range(n_channels):
                square += grad[b, c] * grad[b, c]
        power[term] += square / (n_bases * n_channels)
        if power[term] > 0:
            step = coefficients.dtype.type(rate / np.sqrt(power[term]))
            for b in range(n_bases):
                for c in range(n_channels):
                    values[b, c] -= step * grad[b, c]
    return -1


@njit(cache=True, nogil=True, error_model="numpy")
def thin_points(values, mass, n_points, n_parts, thin_values, thin_mass):
    """Increasing values with weights -> fewer of them; returns how many. See `stream.sketch`.

    Neighbours whose middles lie in the same of `n_points` shares of the weight, which grow with the root of the
    distance from the nearer end, and in the same of `n_parts` parts of the range, become one, at their weighted median.
    A value with more than an even share, the first and the last stay alone.
    """
    size, count, start = len(values), 0, 0
    before, total, cell, part, was_alone = 0.0, 0.0, -1, -1, False
    whole = mass.sum()
    length = values[size - 1] / 2 - values[0] / 2  # halves: the range may overflow
    for i in range(size + 1):
        rank = (total + mass[i] / 2) / whole if i < size else 0.5
        here = int(n_points * (math.sqrt(rank / 2) if rank < 0.5 else 1 - math.sqrt((1 - rank) / 2)))
        spot = int((values[i] / 2 - values[0] / 2) / length * n_parts) if i < size and length > 0 else -1
        alone = i == 0 or i >= size - 1 or mass[i] * n_points > whole
        if i > 0 and (alone or was_alone or here != cell or spot != part):
            middle, run, half = start, before + mass[start], before + (total - before) / 2
            while run < half and middle < i - 1:
                middle += 1
                run += mass[middle]
            thin_values[count], thin_mass[count] = values[middle], total - before
            count, start, before = count + 1, i, total
        if i < size:
            total += mass[i]
        cell, part, was_alone = here, spot, alone
    return count


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
    return share_work(work, [k * n_rows // threads for k in range(threads + 1)])


def share_work(work: Callable[[int, int, int], int], edges: Sequence[int] | np.ndarray) -> int:
    """The same for parts between given edges."""
    threads = len(edges) - 1
    if threads == 1:
        return work(0, edges[0], edges[1])
    others = [_pool(threads - 1).submit(work, k, edges[k], edges[k + 1]) for k in range(1, threads)]
    return max([work(0, edges[0], edges[1])] + [other.result() for other in others])


def count_threads(n_jobs: int | None) -> int:
    """scikit-learn's spelling of threads: None is all cores, -1 too, -2 all but one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == 0:
        return cores
    return max(1, n_jobs if n_jobs > 0 else cores + 1 + n_jobs)
