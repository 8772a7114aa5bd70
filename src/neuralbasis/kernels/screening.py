"""Screening: histograms of residuals, which rank interactions (`terms.interactions`) and columns (`terms.features`)."""

from __future__ import annotations

import numpy as np

from .compiled import BLOCK, njit

N_GROUPS = 8  # groups of neighbouring bins, see `find_view`


@njit(cache=True, nogil=True, error_model="numpy")
def count_cells(first, last, terms, codes, n_bins, data, histogram):
    """Add data (N, C) to histogram (T, cells, C), at each row's cell of the terms first … last - 1.

    terms (T, order) are columns of codes (D, N). A term has n_bins ** order cells, at most 65,536, in C order. The
    cells of a block of rows are found first, in loops that vectorise. Slices and unsigned cells avoid numba's check for
    negative indices.
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
            if n_channels == 2:  # one output: three times as fast without the loop over channels
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
def find_view(sums, limits):
    """Return the excess of a column's best view over noise, and the view.

    Views are 0: a line, 1: a parabola, 2: groups of bins, 3 + b: a jump after bin b. sums (bins + 1, 1 + K) hold the
    weight and the weighted residuals of every bin, missing values last. A view explains
    Σ (residuals · contrast)² / Σ weight · contrast² over its orthogonal contrasts. limits (2, 4) are the amounts that
    the strongest of all columns would explain if all were noise, without and with a contrast for missing values.
    """
    n_bins, n_outputs = len(sums) - 1, sums.shape[1] - 1
    missing, known, middle = sums[n_bins, 0], 0.0, 0.0
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
    line, parabola, groups, by_missing = 0.0, 0.0, 0.0, 0.0
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
        if missing > 0.0:
            part = sums[n_bins, k]
            both = total + part
            by_missing += total * total / known + part * part / missing - both * both / (known + missing)
    jump, before = _find_jump(sums, known)
    amounts = line, line + parabola, groups, jump
    row = 1 if missing > 0.0 else 0
    best, view = -np.inf, 0
    for v in range(4):
        excess = amounts[v] + by_missing - limits[row, v]
        if excess > best:
            best, view = excess, v if v < 3 else 3 + before
    return best, view


@njit(cache=True, nogil=True, error_model="numpy")
def _find_jump(sums, known):
    """Amount that the best cut of the known values (of weight `known`) explains, and the last bin before the cut."""
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
    before = int(np.argmax(explained))
    return explained[before], before


@njit(cache=True, nogil=True, error_model="numpy")
def weigh_columns(first, last, codes, data, limits, strengths):
    """Write the strengths (D, M) of columns first … last - 1, see `find_view`; codes (D, N), data (N, M · (1 + K))."""
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
            strengths[column, member] = find_view(sums[:, begin : begin + width], limits)[0]
    return -1
