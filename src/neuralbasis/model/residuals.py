"""Residuals: target minus score of rows that members held out, as quantiles by region of the score.

    interval(score) = score + quantiles of the residuals at (1 ± coverage) / 2, between the centres of the regions

In: scores, residuals and weights of held-out rows. Out: a `Residuals` that a regression and its file keep, and
prediction intervals from it. A quantile of n rows has the rank (n + 1) · probability, rounded away from the median, as
in split conformal prediction. NumPy only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..checks import is_number
from ..readonly import freeze_fields
from .interpolation import interpolate_knots


@dataclass(frozen=True, eq=False)
class Residuals:
    """Quantiles of target minus score over held-out rows, by region of the score, in the unit of the target.

    Parameters
    ----------
    centres : (R,) mean score of the held-out rows of each region, increasing
    probabilities : (P,) increasing, from 0 to 1
    quantiles : (R, P) quantile of the residuals of each region at each probability

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> scores = rng.uniform(0, 10, 3000)
    >>> residuals = Residuals.measure(scores, scores * rng.normal(size=3000), np.ones(3000))
    >>> residuals.quantiles.shape
    (20, 43)
    >>> narrow, wide = np.ptp(residuals.interval(np.array([2.0, 8.0]), coverage=0.9), axis=1)
    >>> round(float(wide / narrow))
    4
    """

    centres: np.ndarray
    probabilities: np.ndarray
    quantiles: np.ndarray

    def __post_init__(self):
        freeze_fields(self, "centres", "probabilities", "quantiles")

    @classmethod
    def measure(cls, scores: np.ndarray, residuals: np.ndarray, weights: np.ndarray) -> Residuals:
        """Divide rows into regions of equal weight by score, and take the quantiles of each.

        Parameters
        ----------
        scores, residuals : (N,) score by the members that held the row out, and target minus this score
        weights : (N,) how many rows each row counts as
        """
        n_regions = int(np.clip(weights.sum() // 150, 1, 20))
        inverse = np.unique(scores, return_inverse=True)[1]  # equal scores stay in one region
        mass = np.bincount(inverse, weights)
        middle = (np.cumsum(mass) - mass / 2) / mass.sum()
        region = np.minimum(middle * n_regions, n_regions - 1).astype(int)[inverse]
        # Probabilities below 1/2; those above mirror them. 0 is the extreme residual.
        lower = np.array([
            0.0, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.125, 0.15,
            0.2, 0.25, 0.3, 0.35, 0.4,
        ])  # fmt: skip
        centres, quantiles = [], []
        for index in np.unique(region):
            own = region == index
            found = scores[own]
            mean = np.average(found - found[0], weights=weights[own]) + found[0]
            centres.append(np.clip(mean, found.min(), found.max()))  # rounding could exchange two close centres
            low = -find_quantiles(-residuals[own], weights[own], 1 - lower)
            high = find_quantiles(residuals[own], weights[own], 1 - lower[::-1])
            quantiles.append([*low, (low[-1] + high[0]) / 2, *high])
        return cls(np.array(centres), np.r_[lower, 0.5, 1 - lower[::-1]], np.array(quantiles))

    def interval(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """(N, 2) lower and upper bound of the target at scores (N,)."""
        if not (is_number(coverage) and 0 < coverage < 1):
            raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9, not {coverage!r}")
        bounds = np.array([(1 - coverage) / 2, (1 + coverage) / 2])
        return scores[:, None] + interpolate_knots(scores, self.centres, self.read(bounds))

    def read(self, probabilities: np.ndarray) -> np.ndarray:
        """(R, p) quantiles of each region at these probabilities, linear between those of the grid."""
        return interpolate_knots(probabilities, self.probabilities, self.quantiles.T).T


def find_quantiles(values: np.ndarray, weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(p,) the smallest value that at least (n + 1) · probability rows do not exceed; the largest if none is.

    n is the sum of the weights: a row of weight 2 is two rows.

    >>> find_quantiles(np.array([3.0, 1.0, 2.0]), np.ones(3), np.array([0.5, 0.51, 0.99])).tolist()
    [2.0, 3.0, 3.0]
    """
    order = np.argsort(values, kind="stable")
    count = np.cumsum(weights[order])
    rank = (count[-1] + 1) * probabilities * (1 - 1e-12)  # a whole rank must not be missed by rounding
    return values[order][np.minimum(np.searchsorted(count, rank), len(values) - 1)]
