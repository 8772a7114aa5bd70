"""Reading a table: digests of rows, which give them an order that does not depend on that of the columns, and sketches
of columns.
"""

from __future__ import annotations

import math

import numpy as np

from .compiled import njit

SIGN_BIT = 0x8000000000000000


@njit(cache=True, nogil=True, error_model="numpy")
def _scramble(mixed):
    """Pseudorandom bits from an integer: the last steps of the generator splitmix64.

    Sums and products wrap around; without numba, callers must silence NumPy's overflow warning.
    """
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


@njit(cache=True, nogil=True, error_model="numpy")
def _digest(bits, key):
    """Pseudorandom bits from the bits of a value and the key of its column; 0 for the value 0.

    All NaN have the same digest, and so have 0 and -0.
    """
    if bits == np.uint64(0) or bits == np.uint64(SIGN_BIT):
        return np.uint64(0)
    if bits & np.uint64(SIGN_BIT - 1) > np.uint64(0x7FF0000000000000):  # NaN
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
    """The same for sparse rows, as if their other values were stored with the bits `absent`."""
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
def thin_points(values, mass, n_points, n_parts, thin_values, thin_mass):
    """Compress increasing values with weights; returns the number of remaining values. See `data.sketches`.

    Two grids divide the values: `n_points` shares of the weight, which are smaller towards both ends, and `n_parts`
    equal parts of the range. Neighbours in the same share and the same part are merged into their weighted median.
    The first value, the last value, and values heavier than the mean share are kept.
    """
    size, count, start = len(values), 0, 0
    before, total, cell, part, was_alone = 0.0, 0.0, -1, -1, False
    whole = mass.sum()
    length = values[size - 1] / 2 - values[0] / 2  # halved, because the range may overflow
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
