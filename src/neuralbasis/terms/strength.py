"""Strength: how much a candidate's histogram explains beyond its margins and beyond noise.

Input: histograms (T, cells, 1 + K) of weights and standardized residuals. Output: strengths (T,), each the largest over
several views of a histogram: the cells, coarser grids of merged bins, and products of polynomials along the axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from .binning import Bins, one_hot
from .margins import SINGULAR, Margins, fit_margins, solve_singular

CAUTION = 4.0  # noise deviations that a view with more degrees of freedom must exceed


@dataclass(frozen=True)
class NoiseLevel:
    """The noise of standardized residuals."""

    n_rows: float  # sum of the weights
    shrinkage: float  # κ / 2, added to the weight of a cell; κ is the excess kurtosis
    variance: float  # of all outputs together
    initial_variance: float  # the same before any term was subtracted
    n_outputs: float  # effective number of independent outputs

    def threshold(self, n_terms: int, rate: float | np.ndarray) -> np.ndarray:
        """Strength that the strongest of `n_terms` noise candidates exceeds at this rate, with one degree of freedom
        per output."""
        return (chdtri(self.n_outputs, rate / n_terms) - self.n_outputs) / (self.n_outputs * self.n_rows)


def standardize(
    residuals: np.ndarray, weights: np.ndarray | None, variances: np.ndarray | None, max_outputs: int
) -> tuple[np.ndarray, NoiseLevel | None]:
    """(N, 1 + K) weights and weighted residuals of variance 1; the noise level is None if all residuals are 0."""
    weights = np.ones(len(residuals)) if weights is None else np.asarray(weights, dtype=float)
    if not (weights == np.floor(weights)).all():
        weights = weights * (np.count_nonzero(weights) / weights.sum())
    share = weights / max(weights.sum(), np.finfo(float).tiny)
    if variances is None:
        variances = np.ones((len(residuals), 1))
    if residuals.shape[1] > max_outputs:  # leading principal directions: frequent and confused classes
        residuals = residuals @ np.linalg.eigh(_mean_products(residuals, share))[1][:, -max_outputs:]
        variances = variances.sum(axis=1, keepdims=True)
    squares, mean = share @ np.square(residuals, dtype=float), share @ variances
    if not (squares.any() and mean.any()):
        return residuals, None
    outputs = residuals[:, squares > 0] / np.sqrt(squares[squares > 0])
    expected = (variances[:, mean > 0] / mean[mean > 0]).mean(axis=1)
    kurtosis = (share @ np.square(np.square(outputs))).mean() - 3 * (share @ np.square(expected))
    variance = float(outputs.shape[1])
    n_outputs = variance**2 / np.square(_mean_products(outputs, share)).sum()
    noise = NoiseLevel(weights.sum(), max(kurtosis / 2, 0.0), variance, variance, n_outputs)
    data = np.concatenate([expected[:, None], outputs], axis=1) * weights[:, None]
    return np.ascontiguousarray(data, dtype=np.float32), noise


def _mean_products(outputs: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(K, K) weighted means of the products of outputs."""
    return (outputs * share[:, None]).T @ outputs


@dataclass(frozen=True, eq=False)
class Views:
    """Matrices that turn a histogram into its views, one per column."""

    merges: list[np.ndarray]  # for each grid (D, bins of the grid, bins), 1 where a bin belongs to a bin of the grid
    polynomials: np.ndarray  # (D, degrees, bins) values at the bins, without the constant
    products: list[list[int]]  # for each view, the indices of the products of polynomials that it uses


def make_views(bins: Bins, order: int) -> Views:
    """Views of the histograms of terms of this order."""
    grids, degrees = ((4, 2), (2, 1)) if order == 2 else ((3, 2), (1,))  # bins per axis; largest degrees of polynomials
    fewer = [grid for grid in grids if grid < bins.max_bins]
    merges = [np.swapaxes(one_hot(bins.coarse_labels(grid), grid), 1, 2).copy() for grid in fewer]
    is_known = np.arange(bins.max_bins) < bins.n_known[:, None]
    mass = np.where(is_known, bins.mass, 0.0)
    total = np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    rank = 2 * (np.cumsum(mass, axis=1) - mass / 2) / total - 1
    max_degree = max(degrees)
    legendre = np.polynomial.legendre.legvander(rank, max_degree)[..., 1:] * is_known[..., None]
    every = list(np.ndindex(*[max_degree] * order))
    products = [[i for i, part in enumerate(every) if max(part) < degree] for degree in degrees]
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
    for merge in views.merges:
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
