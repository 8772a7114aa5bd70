"""Linear interpolation between knots, in NumPy.

The compiled kernels compute the same numbers; `predictor`, `purify` and `term_table` use these functions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def bracket_knots(knots: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Indices (N,) of the knots left and right of each value, and the share of the right one; values are clipped.

    >>> [part.tolist() for part in bracket_knots(np.array([0.0, 2.0, 3.0]), np.array([-1.0, 0.5, 3.0]))]
    [[0, 0, 1], [1, 1, 2], [0.0, 0.25, 1.0]]
    """
    count = len(knots)
    inside = np.clip(values, knots[0], knots[-1])
    left = np.clip(np.searchsorted(knots, inside, side="right") - 1, 0, max(count - 2, 0))
    right = np.minimum(left + 1, count - 1)
    low, high = knots[left], knots[right]
    unit = np.where(np.maximum(-low, high) > 1, 0.5, 1.0)  # halved: the range of huge knots must not overflow
    width = high * unit - low * unit if count > 1 else 1.0
    return left, right, (inside * unit - low * unit) / width


def interpolate_knots(at: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(P, …) linear interpolation at the points `at` of values (G, …) at the knots; constant outside."""
    left, right, share = bracket_knots(knots, at)
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    return (1 - share) * values[left] + share * values[right]


def interpolate_table(table: np.ndarray, positions: Sequence[np.ndarray]) -> np.ndarray:
    """(N, K) multilinear interpolation of a table (c_1, …, c_o, K) at positions along each axis."""
    total = np.zeros((len(positions[0]), table.shape[-1]))
    for corner in range(1 << len(positions)):
        share, cells = np.ones(len(positions[0])), []
        for d, position in enumerate(positions):
            whole = position.astype(np.int64)
            part = position - whole
            upper = bool(corner >> d & 1)
            share = share * (part if upper else 1 - part)
            cells.append(whole + (part > 0) if upper else whole)
        total += share[:, None] * table[tuple(cells)]
    return total
