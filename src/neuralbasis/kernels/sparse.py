"""Wide sparse tables: the terms that a row affects (its entries), their bases, and a step of their coefficients.

An entry is a term all of whose features are stored in a row. Dimensions: S stored values, E entries, B bases, o order.
"""

from __future__ import annotations

import numpy as np

from .compiled import njit


@njit(cache=True, nogil=True, error_model="numpy")
def list_entries(first, last, starts, column, place, group, others, ends, term, position):
    """Write the entries of rows first … last - 1: term (E,) and position (E, o).

    starts (N + 1,) and column (S,) are the stored values, place (S,) their positions. The terms whose first feature is
    column c are group[c] … group[c + 1] - 1, and others (o - 1, T) are their other features. ends (N,) come in with the
    first entry of each row and go out with the one after the last. If `term` is empty, entries are counted only.
    """
    where = np.full(len(group) - 1, -1, dtype=np.int64)
    for i in range(first, last):
        e, marked = ends[i], starts[i + 1] if len(others) > 0 else starts[i]  # main effects need no marks
        for s in range(starts[i], marked):
            where[column[s]] = s
        for s in range(starts[i], starts[i + 1]):
            for t in range(group[column[s]], group[column[s] + 1]):
                found = True
                for d in range(len(others)):
                    if where[others[d, t]] < 0:
                        found = False
                if found and len(term) > 0:
                    term[e] = t
                    position[e, 0] = place[s]
                    for d in range(len(others)):
                        position[e, d + 1] = place[where[others[d, t]]]
                e += found
        ends[i] = e
        for s in range(starts[i], marked):
            where[column[s]] = -1
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def blend_bases(first, last, position, side, bases, out):
    """Interpolate the bases (side ** o, B) linearly at the positions of entries first … last - 1; writes out (E, B)."""
    if position.shape[1] != 2:
        out[first:last] = 0
        _add_corners(first, last, position, side, bases, out, None)
        return -1
    for e in range(first, last):  # special case of pairs: the general loop would dominate the time of a prediction
        down, right = np.floor(position[e, 0]), np.floor(position[e, 1])
        low, far = position[e, 0] - down, position[e, 1] - right
        cell = int(down) * side + int(right)
        below, beside = (side if low > 0 else 0), (1 if far > 0 else 0)
        for b in range(bases.shape[1]):
            top = bases[cell, b] + far * (bases[cell + beside, b] - bases[cell, b])
            bottom = bases[cell + below, b] + far * (bases[cell + below + beside, b] - bases[cell + below, b])
            out[e, b] = top + low * (bottom - top)
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def pull_bases(position, side, grad, out):
    """Adjoint of `blend_bases`: add grad (E, B) to the cells, out (side ** o, B)."""
    _add_corners(0, len(position), position, side, out, grad, True)
    return -1


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def _add_corners(first, last, position, side, bases, entries, adjoint):
    """Add the cells of `bases` around each position to `entries`, or the adjoint; see `interpolation`."""
    n_axes, one = position.shape[1], bases.dtype.type(1)
    for e in range(first, last):
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
                    if adjoint is None:
                        entries[e, b] += share * bases[cell, b]
                    else:
                        bases[cell, b] += share * entries[e, b]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})
def add_entries(first, last, starts, term, blend, coefficients, out):
    """Add Σ_entries Σ_b blend_b a_tb to rows first … last - 1: blend (E, B), coefficients (T, B, C), out (b, C)."""
    total = np.empty(out.shape[1], out.dtype)  # a local array cannot alias the others: the sums vectorise
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
    """`add_entries` for entries sorted by `sort_entries`: the coefficients of a term are read once for all its rows."""
    for j in range(len(begin) - 1):
        values = coefficients[touched[j]]
        for place in range(begin[j], begin[j + 1]):
            e, line = entry[place], out[row[place]]
            for b in range(0, blend.shape[1] - 1, 2):  # two at a time: half as many reads and writes of the row
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
    """Sort entries by term; returns the number of distinct terms.

    Writes the terms in increasing order (touched), where the entries of each begin, the entries, and their rows. count
    (T,) is zero before and after the call, so the cost does not depend on T.
    """
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
    """Apply the weight decay that terms missed since their last step.

    clock is the sum of the learning rates so far, seen (T,) its value at the last step of each term; power (T,) as in
    `step_terms`.
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
    """AdaGrad step of the coefficients of the touched terms, given the gradients `slope` (b, C) of the rows' scores.

    Entries are sorted by `sort_entries`. There is one rate per term: power (T,) sums the mean squares of its gradients.
    Writes back (E, B), the gradients of the blends, taken before the step.
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
                for c in range(n_channels):  # separate loops vectorise
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
