"""Strength: how much a candidate's histogram explains beyond its margins and beyond noise.

Input: histograms (T, cells, 1 + K) of weights and residuals. Output: strengths (T,), each the largest over several
views of a histogram: the cells, coarser grids of merged bins, and products of polynomials along the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .binning import Bins, one_hot
from .margins import SINGULAR, Margins, fit_margins, solve_singular
from .noise import NoiseLevel

# By the order of a term: bins per axis of the coarser grids, and the largest degrees of the polynomials.
GRIDS = {2: (4, 2), 3: (3, 2)}
POLYNOMIAL_DEGREES = {2: (2, 1), 3: (1,)}
CAUTION = 4.0  # noise deviations that a view with more degrees of freedom must exceed


@dataclass(frozen=True, eq=False)
class Views:
    """Matrices that turn a histogram into its views, one per column.

    merges : bins per axis of a grid -> (D, bins of the grid, bins), 1 where a bin belongs to a bin of the grid
    polynomials : (D, degrees, bins) values at the bins, without the constant
    products : for each view, the indices of the products of polynomials that it uses
    """

    merges: dict[int, np.ndarray]
    polynomials: np.ndarray
    products: list[list[int]]


def make_views(bins: Bins, order: int) -> Views:
    """Views of the histograms of terms of this order."""
    grids = [grid for grid in GRIDS[order] if grid < bins.max_bins]
    merges = {grid: np.swapaxes(one_hot(bins.coarse_labels(grid), grid), 1, 2).copy() for grid in grids}
    is_known = np.arange(bins.max_bins) < bins.n_known[:, None]
    mass = np.where(is_known, bins.mass, 0.0)
    total = np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    rank = 2 * (np.cumsum(mass, axis=1) - mass / 2) / total - 1
    max_degree = max(POLYNOMIAL_DEGREES[order])
    legendre = np.polynomial.legendre.legvander(rank, max_degree)[..., 1:] * is_known[..., None]
    every = list(np.ndindex(*[max_degree] * order))
    products = [[i for i, part in enumerate(every) if max(part) < degree] for degree in POLYNOMIAL_DEGREES[order]]
    return Views(merges, np.swapaxes(legendre, 1, 2).copy(), products)


def split_last_axis(histogram: np.ndarray, order: int, n_bins: int) -> np.ndarray:
    """(T, cells, C) -> (T, C, F, L): the last axis of a term, and its other axes flattened."""
    return np.swapaxes(histogram, 1, 2).reshape(len(histogram), -1, n_bins ** (order - 1), n_bins)


def measure_strengths(histogram: np.ndarray, terms: np.ndarray, views: Views, noise: NoiseLevel) -> np.ndarray:
    """Strength of every term (T, order) from its histogram (T, cells, 1 + K): that of its best view."""
    order, n_bins = terms.shape[1], views.polynomials.shape[2]
    cells = split_last_axis(histogram, order, n_bins)
    weight, n_outputs = cells[:, 0], cells.shape[1] - 1
    products = _kron([views.polynomials[column] for column in terms.T]).reshape(len(terms), -1, *weight.shape[1:])
    sums = np.concatenate([cells[:, 1:], weight[:, None] * products], axis=1)
    margins = fit_margins(weight, sums, order)
    cells[:, 1:] = margins.remove_from(sums[:, :n_outputs])
    strengths = [_measure_cells(cells, margins.freedom, noise)]
    strengths += [_measure_products(products, sums, margins, chosen, noise) for chosen in views.products]
    for merge in views.merges.values():
        left, right = _kron([merge[column] for column in terms.T[:-1]]), np.swapaxes(merge[terms[:, -1]], 1, 2)
        coarse = left[:, None] @ cells @ right[:, None]
        margins = fit_margins(coarse[:, 0], coarse[:, 1:], order)
        coarse[:, 1:] = margins.remove_from(coarse[:, 1:])
        strengths.append(_measure_cells(coarse, margins.freedom, noise))
    best = np.max(strengths, axis=0)
    return np.where(np.isfinite(best), best, 0.0)


def _kron(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Kronecker product of matrices (T, i, j), (T, k, l), … for each T: (T, i · k …, j · l …)"""
    product = parts[0]
    for part in parts[1:]:
        wide = product[:, :, None, :, None] * part[:, None, :, None, :]
        product = wide.reshape(len(part), product.shape[1] * part.shape[1], -1)
    return product


def _measure_cells(cells: np.ndarray, freedom: np.ndarray, noise: NoiseLevel) -> np.ndarray:
    """Strength of a grid: weights and residual sums (T, 1 + K, F, L), degrees of freedom (T,)."""
    weight = cells[:, 0]
    inverse = np.divide(1.0, weight + noise.shrinkage, out=np.zeros_like(weight), where=weight > 0)
    explained = (np.square(cells[:, 1:]).sum(axis=1) * inverse).sum(axis=(1, 2))
    kept = (weight * inverse).sum(axis=(1, 2)) / np.maximum(np.count_nonzero(weight, axis=(1, 2)), 1)
    return _subtract_noise(explained, freedom * kept, noise)


def _measure_products(
    products: np.ndarray, sums: np.ndarray, margins: Margins, chosen: list[int], noise: NoiseLevel
) -> np.ndarray:
    """Strength of the chosen products (T, Q, F, L) of polynomials, by least squares beside the margins.

    sums (T, K + Q, F, L): those of the outputs, then the weighted products themselves.
    """
    n_outputs = sums.shape[1] - products.shape[1]
    flat = products[:, chosen].reshape(len(products), len(chosen), -1)
    rows = [n_outputs + index for index in chosen]
    every = flat @ np.swapaxes(sums.reshape(*sums.shape[:2], -1), 1, 2)  # (T, chosen, K + Q)
    inner = every - margins.explained_products(rows)
    target = inner[..., :n_outputs]
    solution, rank = solve_singular(inner[..., rows], target, SINGULAR * margins.total.sum(axis=1))
    return _subtract_noise((target * solution).sum(axis=(1, 2)), rank, noise)


def _subtract_noise(explained: np.ndarray, freedom: np.ndarray, noise: NoiseLevel) -> np.ndarray:
    """(T,) share of the variance beyond noise; -inf without degrees of freedom."""
    caution = CAUTION * (np.sqrt(2 * np.maximum(freedom, 1)) - np.sqrt(2)) / np.sqrt(noise.n_outputs)
    surplus = explained - noise.variance * (freedom + caution)
    return np.where(freedom > 0, surplus / (noise.initial_variance * noise.n_rows), -np.inf)
