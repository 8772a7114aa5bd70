"""Thinning: the few knots between which linear interpolation follows a curve best.

    minimize   Σ_g weight_g · (curve_g − interpolation at g)²     over all choices of n knots with both ends

The weights are the training rows of the knots and a tenth of equal weights, which keeps tails without rows in shape.
In: knots, curves and training weights. Out: for each n, the indices of the chosen knots, by dynamic programming.
"""

from __future__ import annotations

import numpy as np

EQUAL = 0.1  # share of equal weights


def choose_knots(knots: np.ndarray, values: np.ndarray, weights: np.ndarray, most: int) -> dict[int, np.ndarray]:
    """The best 2, 3, … `most` knots of G: values (G, C), weights (G,).

    >>> steps = np.array([0.0, 0.0, 0.0, 5.0, 5.0, 5.0])[:, None]
    >>> choose_knots(np.arange(6.0), steps, np.ones(6), 4)[4].tolist()
    [0, 2, 3, 5]
    """
    count = len(knots)
    if count <= 2:
        return {count: np.arange(count)}
    costs = _measure_segments(knots, values, weights / (weights.sum() or 1.0) + EQUAL / count)
    best, lasts = costs[0], []  # (G,) lowest cost of all segments up to each knot
    found = {2: np.array([0, count - 1])}
    for n_knots in range(3, min(most, count) + 1):
        total = best[:, None] + costs
        lasts.append(total.argmin(axis=0))
        best = total.min(axis=0)
        chosen = [count - 1]
        for last in reversed(lasts):
            chosen.append(int(last[chosen[-1]]))
        found[n_knots] = np.unique([0, *chosen])
    return found


def _measure_segments(knots: np.ndarray, values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(G, G) weighted squared error of a straight line from each knot to each later one; infinite otherwise."""
    count = len(knots)
    scale = float(np.abs(values).max()) or 1.0
    scaled, at = values / scale, knots / (float(np.abs(knots).max()) or 1.0)  # their range cannot overflow
    costs = np.full((count, count), np.inf)
    for i in range(count - 1):
        ends, inner = np.arange(i + 1, count), np.arange(i + 1, count - 1)
        share = np.clip(
            (at[inner] - at[i])[None, :] / np.maximum(at[ends] - at[i], np.finfo(float).tiny)[:, None], 0, 1
        )
        is_inside = inner[None, :] < ends[:, None]
        lines = scaled[i] + share[:, :, None] * (scaled[ends] - scaled[i])[:, None, :]
        error = ((lines - scaled[inner][None]) ** 2).sum(axis=2)
        costs[i, ends] = np.where(is_inside, error * weights[inner], 0.0).sum(axis=1)
    return costs
