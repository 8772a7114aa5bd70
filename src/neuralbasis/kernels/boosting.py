"""Boosted steps: one round cuts every column in pieces, or the table of every pair in four.

A cut is the best of a few random ones: random cuts average to smooth shapes, and the best of a few finds jumps. Levels
of nominal columns are shuffled before each cut. Between two knots, a step is a ramp, as predictions interpolate.
"""

from __future__ import annotations

import numpy as np

from .compiled import njit
from .reading import _scramble

N_CUTS = 4  # of a column in a round
N_TRIES = 3  # random cuts of which the best is taken


@njit(cache=True, nogil=True, error_model="numpy")
def _draw(seed, cut, number):
    """A pseudorandom number from 0 to 1."""
    mixed = _scramble(np.uint64(seed)) + np.uint64(cut) * np.uint64(0x9E3779B97F4A7C15)
    return float(_scramble(_scramble(mixed) + np.uint64(number)) >> np.uint64(11)) / 2.0**53


@njit(cache=True, nogil=True, error_model="numpy")
def _order_cells(is_nominal, seed, number, order, rank):
    """The order in which an axis is cut: its own, or shuffled for nominal levels."""
    for i in range(len(order)):
        order[i] = i
    if is_nominal:
        keys = np.empty(len(order))
        for i in range(len(order)):
            keys[i] = _draw(seed, number, 1000 + i)
        order[:] = np.argsort(keys)
    for i in range(len(order)):
        rank[order[i]] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_at_quantile(curvature, least, quantile):
    """Cut a line of cells, given by cumulative sums, at a quantile of the rows; 0 if a side would be too small."""
    total = curvature[-1]
    place = np.searchsorted(curvature, quantile * total)
    return 0 if curvature[place] < least or total - curvature[place] < least else place


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_line(sums, bends, ridge, least, seed, number):
    """The best of `N_TRIES` random cuts of a line of cells, given by cumulative sums; 0 if there is none."""
    last, best, place = len(sums) - 1, -1.0, 0
    for k in range(N_TRIES):
        j = _cut_at_quantile(bends, least, _draw(seed, number, k))
        if j > 0:
            gain = sums[j] ** 2 / (bends[j] + ridge) + (sums[last] - sums[j]) ** 2 / (bends[last] - bends[j] + ridge)
            if gain > best:
                best, place = gain, j
    return place


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def cut_columns(
    positions, cells, axes, sizes, nominal, ridge, least, rate, slope, curvature, tables, offsets, moved, seed
):
    """One round of boosting: cut every column in two, N_CUTS times; each side takes its Newton step times `rate`.

    Arguments as in `cut_pairs`, with axes (P, 1). Rows are updated once for all cuts of a column.
    """
    for p in range(len(axes)):
        axis = axes[p, 0]
        size, near, position = sizes[axis], cells[axis], positions[axis]
        steep, weight, change = np.zeros(size), np.zeros(size), np.zeros(size)
        for n in range(len(slope)):
            steep[near[n]] += slope[n]
            weight[near[n]] += curvature[n]
        order, rank = np.empty(size, np.int64), np.empty(size, np.int64)
        for c in range(N_CUTS):
            _order_cells(nominal[axis], seed, p * N_CUTS + c, order, rank)
            _cut_column(order, rank, ridge, least, rate, steep, weight, change, seed, p * N_CUTS + c)
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
def _cut_column(order, rank, ridge, least, rate, steep, weight, change, seed, number):
    """Cut the cells of a column once; updates the slopes of the cells and the change of the table."""
    size = len(order)
    sums, bends = np.zeros(size + 1), np.zeros(size + 1)
    for i in range(size):
        sums[i + 1] = sums[i] + steep[order[i]]
        bends[i + 1] = bends[i] + weight[order[i]]
    place = _cut_line(sums, bends, ridge, least, seed, number)
    if place > 0:
        near = -rate * sums[place] / (bends[place] + ridge)
        far = -rate * (sums[size] - sums[place]) / (bends[size] - bends[place] + ridge)
        for i in range(size):
            step = near if rank[i] < place else far
            change[i] += step
            steep[i] += weight[i] * step


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_table(sums, bends, ridge, least, seed, number, cut, step):
    """The best of `N_TRIES` random cuts of a table, given by cumulative sums: along its first axis, then each side
    along the second. Writes the three places and the Newton steps of the four pieces; returns the gain, 0 for none."""
    rows, best = sums.shape[0] - 1, 0.0
    tried, steps = np.zeros(3, np.int64), np.zeros((2, 2))
    for k in range(N_TRIES):
        tried[0] = _cut_at_quantile(bends[:, -1], least, _draw(seed, number, 3 * k))
        if tried[0] == 0:
            continue
        tried[1] = _cut_at_quantile(bends[tried[0]], least, _draw(seed, number, 3 * k + 1))
        tried[2] = _cut_at_quantile(bends[rows] - bends[tried[0]], least, _draw(seed, number, 3 * k + 2))
        gain = _find_steps(sums, bends, tried, ridge, steps)
        if gain > best:
            best = gain
            cut[:], step[:] = tried, steps
    return best


@njit(cache=True, nogil=True, error_model="numpy")
def _find_steps(sums, bends, cut, ridge, step):
    """Newton steps of the four pieces of a cut table; returns what they gain."""
    i, rows, last, gain = cut[0], sums.shape[0] - 1, sums.shape[1] - 1, 0.0
    for side in range(2):
        j = cut[1 + side]
        top, bottom = (i, 0) if side == 0 else (rows, i)
        for piece in range(2):
            right, left = (j, 0) if piece == 0 else (last, j)
            rise = sums[top, right] - sums[bottom, right] - sums[top, left] + sums[bottom, left]
            bend = bends[top, right] - bends[bottom, right] - bends[top, left] + bends[bottom, left]
            step[side, piece] = -rise / (bend + ridge)
            gain += rise * rise / (bend + ridge)
    return gain


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_before(cells, order, other, sums):
    """Cumulative sums: sums[i, j] covers all cells before the i-th and j-th, in the given orders of the two axes."""
    for i in range(len(order)):
        line = 0.0
        for j in range(len(other)):
            line += cells[order[i], other[j]]
            sums[i + 1, j + 1] = sums[i, j + 1] + line


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def cut_pairs(
    positions, cells, pairs, sizes, nominal, ridge, least, rate, slope, curvature, tables, offsets, moved, seed
):
    """One round of boosting: cut the table of every pair in four pieces; each takes its Newton step times `rate`.

    positions, cells (A, N) of the rows on the axes, and the cells nearest to them; pairs (P, 2) of axes; sizes, nominal
    (A,) number of cells of each axis, and whether they have no order. A piece needs the curvature `least`, and `ridge`
    is added to it. slope, curvature (N,) of the loss at the rows' scores; slope and the score changes moved (N,) are
    updated, and so are `tables`, the cells of all pairs, each pair from its offset on. seed is above 0.
    """
    for p in range(len(pairs)):
        first, second = pairs[p]
        if _draw(seed, 3 * p, 0) < 0.5:
            first, second = second, first
        shape = sizes[first], sizes[second]
        steep, weight = np.zeros(shape), np.zeros(shape)
        near, other = cells[first], cells[second]
        for n in range(len(slope)):
            steep[near[n], other[n]] += slope[n]
            weight[near[n], other[n]] += curvature[n]
        order, rank = np.empty(shape[0], np.int64), np.empty(shape[0], np.int64)
        order2, rank2 = np.empty(shape[1], np.int64), np.empty(shape[1], np.int64)
        _order_cells(nominal[first], seed, 3 * p, order, rank)
        _order_cells(nominal[second], seed, 3 * p + 1, order2, rank2)
        sums, bends = np.zeros((shape[0] + 1, shape[1] + 1)), np.zeros((shape[0] + 1, shape[1] + 1))
        _sum_before(steep, order, order2, sums)
        _sum_before(weight, order, order2, bends)
        cut, step = np.zeros(3, np.int64), np.zeros((2, 2))
        if _cut_table(sums, bends, ridge, least, seed, 3 * p + 2, cut, step) == 0.0:
            continue
        step *= rate
        _move_rows(positions, cells, first, second, nominal, rank, rank2, cut, step, slope, curvature, moved)
        is_turned = first != pairs[p, 0]
        for i in range(shape[0]):
            side = int(rank[i] >= cut[0])
            for j in range(shape[1]):
                where = j * shape[0] + i if is_turned else i * shape[1] + j
                tables[offsets[p] + where] += step[side, int(rank2[j] >= cut[1 + side])]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _move_rows(positions, cells, first, second, nominal, rank, rank2, cut, step, slope, curvature, moved):
    """Update the rows by interpolation of the changed table: between two knots, a step is a ramp."""
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
