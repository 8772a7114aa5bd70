"""Boosted steps: rounds that split columns and pairs into pieces, and a penalised fit of jumps and spikes per column.

Slopes and curvatures are the first and second derivatives of the loss with respect to the rows' scores.
"""

from __future__ import annotations

import numpy as np

from .compiled import njit
from .reading import _scramble

CUTS = 4  # cuts of a column per round of boosting


@njit(cache=True, nogil=True, error_model="numpy")
def _sum_slopes(position, slope, curvature, steep, inner, outer):
    """Sum the rows at the knots of an axis: negative slopes (G,), and curvatures as a tridiagonal matrix."""
    count = len(steep)
    for i in range(len(position)):
        place = position[i]
        if curvature[i] == 0 or not (1 <= place <= count):  # held-out row, missing value or unseen level
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
    """Solve a symmetric tridiagonal system with diagonal `inner` (G,) and off-diagonal `outer` (G - 1,) for x."""
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
    """Minimise ½ x'Hx - right'x + Σ_j price_j |x_j+1 - x_j| by iteratively reweighted squares, starting from x."""
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
    """One sweep of coordinate descent over the columns: refit the jumps and spikes of each, given all others.

    positions (F, N); sizes (F,) number of knots; price (F, G) penalty of a jump after each knot; spike_price (F, G)
    penalty of a spike at each knot, inf for none; chain and spike (F, G) are the two parts of a shape. The rows' slope
    (N,) and score changes moved (N,) are updated.
    """
    for f in range(len(positions)):
        count, position = sizes[f], positions[f]
        steep, inner, outer = np.zeros(count), np.zeros(count), np.zeros(count)
        _sum_slopes(position, slope, curvature, steep, inner, outer)
        total = inner.sum()
        if total == 0:
            continue
        inner += 1e-6 * total / count  # knots without rows
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
    """Order of the cells in which an axis is cut: along the axis; nominal levels by their Newton steps."""
    for i in range(len(order)):
        order[i] = i
    if is_nominal:
        order[:] = np.argsort(slope / (curvature + 1.0), kind="mergesort")
    for i in range(len(order)):
        rank[order[i]] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_line(slope, curvature, last, ridge, least):
    """Best cut of a line of cells, given cumulative sums; returns its gain and its place, 0 for no cut."""
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
def _cut_at_quantile(curvature, least, quantile):
    """Cut of a line of cells at this quantile of the curvature, given cumulative sums; 0 for no cut."""
    total = curvature[-1]
    place = np.searchsorted(curvature, quantile * total)
    return 0 if curvature[place] < least or total - curvature[place] < least else place


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def cut_columns(
    positions, cells, axes, sizes, nominal, ridge, least, rate, slope, curvature, tables, offsets, moved, seed
):
    """One round of boosting: cut every column in two, CUTS times; each side takes its Newton step times `rate`.

    Arguments as in `cut_pairs`, with axes (P, 1). The rows are updated once for all cuts of a column. Cuts have the
    largest gain, or, if the seed is above 0, are random: at a random quantile of the rows, nominal levels shuffled.
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
            quantile = -1.0
            if seed > 0:
                quantile = _draw(seed, p * CUTS + c, 0)
                if nominal[axis]:
                    _shuffle_cells(seed, p * CUTS + c, order, rank)
            if not _cut_column(order, rank, ridge, least, rate, steep, weight, change, quantile) and seed == 0:
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
    """Pseudorandom number in [0, 1)."""
    mixed = _scramble(np.uint64(seed)) + np.uint64(cut) * np.uint64(0x9E3779B97F4A7C15)
    return float(_scramble(_scramble(mixed) + np.uint64(number)) >> np.uint64(11)) / 2.0**53


@njit(cache=True, nogil=True, error_model="numpy")
def _shuffle_cells(seed, cut, order, rank):
    """Shuffle the cells."""
    keys = np.empty(len(order))
    for i in range(len(order)):
        keys[i] = _draw(seed, cut, 1 + i)
    order[:] = np.argsort(keys)
    for i in range(len(order)):
        rank[order[i]] = i


@njit(cache=True, nogil=True, error_model="numpy")
def _cut_column(order, rank, ridge, least, rate, steep, weight, change, quantile):
    """Cut a column's cells and update slopes and changes; False if there is no cut.

    The cut has the largest gain, or is at a quantile of the rows if `quantile` is not negative.
    """
    size = len(order)
    sums, bends = np.zeros(size + 1), np.zeros(size + 1)
    for i in range(size):
        sums[i + 1] = sums[i] + steep[order[i]]
        bends[i + 1] = bends[i] + weight[order[i]]
    if quantile < 0:
        _, place = _cut_line(sums, bends, size, ridge, least)
    else:
        place = _cut_at_quantile(bends, least, quantile)
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
    """Best cut of a table along its first axis, and of each side along the second, given cumulative sums.

    Writes the three places to `cut`; returns the gain, 0 for no cut.
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
def _cut_table_at_random(curvature, least, seed, number, cut):
    """As `_cut_table`, with each of the three cuts at a random quantile of the rows."""
    rows, last = curvature.shape[0] - 1, curvature.shape[1] - 1
    cut[0] = _cut_at_quantile(curvature[:, last], least, _draw(seed, number, 0))
    cut[1] = _cut_at_quantile(curvature[cut[0]], least, _draw(seed, number, 1))
    cut[2] = _cut_at_quantile(curvature[rows] - curvature[cut[0]], least, _draw(seed, number, 2))


@njit(cache=True, nogil=True, error_model="numpy")
def _find_steps(slope, curvature, cut, ridge, rate, step):
    """Newton steps of the four pieces of a cut table, times `rate`."""
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

    positions (A, N) and the cells nearest to them; pairs (P, 2) of axes; sizes (A,) number of cells; tables: the cells
    of all pairs, each pair from its offset on. The rows' slope (N,) and score changes moved (N,) are updated. Cuts have
    the largest gain, or, if the seed is above 0, are random: along either axis first, nominal levels shuffled.
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
            _cut_table_at_random(bends, least, seed, 4 * p + 2, cut)
            _cut_table_at_random(turned_bends, least, seed, 4 * p + 2, turned)
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
