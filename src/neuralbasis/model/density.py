"""The density of the rows over the cells of an interaction, against which it is purified.

    density = Π_d margin_d · (smoothed joint + 1) / (smoothed product + 1)

The margins are those of the training weights. The ratio of the joint distribution to the product of its margins is
estimated with a kernel along the ranks of each ordered axis, and shrunk to 1 by one row. Raw counts of cells would move
the noise of a few rows from an interaction into its main effects and turn a smooth curve into a saw-tooth.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from ..encoding.axis import Axis


def smooth_density(axes: Sequence[Axis], weights: np.ndarray, n_rows: float | None = None) -> np.ndarray:
    """(c_1, …, c_o) density of an interaction; the weights themselves for a main effect.

    n_rows : number of rows that all weights stand for; None: their sum
    """
    total, order = weights.sum(), weights.ndim
    if order < 2 or total == 0:
        return weights
    n_rows = float(total) if n_rows is None else n_rows
    weights = weights * (n_rows / total)
    margins = [weights.sum(axis=tuple(e for e in range(order) if e != d)) for d in range(order)]
    product = reduce(np.multiply.outer, margins) / n_rows ** (order - 1)
    smoothed = [weights, product]
    for d, (axis, margin) in enumerate(zip(axes, margins, strict=True)):
        kernel = _make_kernel(axis, margin / n_rows, n_rows ** (-1 / 3))
        smoothed = [np.moveaxis(np.tensordot(kernel, each, (1, d)), 0, d) for each in smoothed]
    density = product * (smoothed[0] + 1) / (smoothed[1] + 1)
    return np.where(is_silent(axes, weights), 0.0, density)


def _make_kernel(axis: Axis, margin: np.ndarray, width: float) -> np.ndarray:
    """(cells, cells) Gaussian kernel between mid-ranks of knots; missing, unseen and nominal cells are not smoothed."""
    kernel = np.eye(len(margin))
    if axis.kind != "nominal":
        rank = np.cumsum(margin)[1:-1] - margin[1:-1] / 2
        kernel[1:-1, 1:-1] = np.exp(-0.5 * ((rank[:, None] - rank) / width) ** 2)
    return kernel


def is_silent(axes: Sequence[Axis], weights: np.ndarray) -> np.ndarray:
    """(c_1, …, c_o) cells without a basis and without training rows; they contribute 0."""
    based = np.ones(weights.shape, dtype=bool)
    for d, axis in enumerate(axes):
        is_knot = np.zeros(axis.n_cells, dtype=bool)
        is_knot[1:-1] = len(axes) > 1 or axis.kind != "nominal"
        based &= is_knot.reshape([-1 if k == d else 1 for k in range(len(axes))])
    return ~based & (weights == 0)
