"""Noise: standardized residuals, and how much of their variance a candidate explains by chance.

Input: residuals (N, K), weights, expected variances. Output: what the histograms sum (N, 1 + K), and `NoiseLevel`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

FALSE_POSITIVE_RATE = 0.1  # probability of picking a term from noise, by the view with one degree of freedom


@dataclass(frozen=True)
class NoiseLevel:
    """The noise of standardized residuals.

    n_rows : sum of the weights
    shrinkage : κ / 2, added to the weight of a cell; κ is the excess kurtosis
    variance : of all outputs together
    initial_variance : the same before any term was subtracted
    n_outputs : effective number of independent outputs
    """

    n_rows: float
    shrinkage: float
    variance: float
    initial_variance: float
    n_outputs: float

    def threshold(self, n_terms: int, rate: float | np.ndarray = FALSE_POSITIVE_RATE) -> np.ndarray:
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
