"""Residuals: what rows that members held out say about scores, as quantiles by region of the score.

    interval(score) = score + quantiles at (1 ± coverage) / 2, between the centres of the regions

In: scores, residuals or classes, and weights of held-out rows. Out: a `Residuals` for each output, which a model and
its file keep, and intervals from it. A quantile of n residuals has the rank (n + 1) · probability, as in split
conformal prediction, and is interpolated between two residuals: rounded outwards, it would widen the intervals of
regions of few rows. The score of a class is its log odds. If e of the n rows of a region belong to the class, its share
has Jeffreys' posterior Beta(e + 1/2, n - e + 1/2). Prediction needs NumPy only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..checks import is_number
from ..losses.links import find_log_odds, inverse_link
from ..readonly import freeze_fields
from .interpolation import interpolate_knots

# Probabilities below 1/2; those above mirror them. 0 is the extreme residual.
LOWER = np.array([
    0.0, 0.001, 0.0025, 0.005, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05, 0.06, 0.075, 0.1, 0.125, 0.15, 0.2, 0.25,
    0.3, 0.35, 0.4,
])  # fmt: skip
GRID = np.r_[LOWER, 0.5, 1 - LOWER[::-1]]


@dataclass(frozen=True, eq=False)
class Residuals:
    """Quantiles over held-out rows by region of the score: of target minus score, or of a class's share minus score.

    Parameters
    ----------
    centres : (R,) score of each region, increasing: the mean, or the log odds of the mean probability of a class
    probabilities : (P,) increasing, from 0 to 1
    quantiles : (R, P) quantile of each region at each probability, in the unit of the score

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
        centres, quantiles = [], []
        for own in _divide(scores, weights):
            found = scores[own]
            mean = np.average(found - found[0], weights=weights[own]) + found[0]
            centres.append(np.clip(mean, found.min(), found.max()))  # rounding could exchange two close centres
            low = -find_quantiles(-residuals[own], weights[own], 1 - LOWER)
            high = find_quantiles(residuals[own], weights[own], 1 - LOWER[::-1])
            quantiles.append([*low, (low[-1] + high[0]) / 2, *high])
        return cls(np.array(centres), GRID, np.array(quantiles))

    @classmethod
    def measure_shares(cls, scores: np.ndarray, is_class: np.ndarray, weights: np.ndarray) -> Residuals:
        """The same for the log odds of a class (N,) and whether each row belongs to it: quantiles of the class's share.

        >>> found = Residuals.measure_shares(np.zeros(1000), np.arange(1000) < 250, np.ones(1000))
        >>> predict_bounds([found], "logit", np.zeros((1, 1)), coverage=0.9).round(2).tolist()
        [[0.23, 0.27]]
        """
        from scipy.special import betaincinv, logit

        centres, counts = [], []
        for own in _divide(scores, weights):
            found, mass = scores[own], weights[own]
            # The mean probability of the rows is their expected share, the mean of their log odds is not.
            shares = [np.average(np.exp(-np.logaddexp(0, sign * found)), weights=mass) for sign in (-1, 1)]
            with np.errstate(divide="ignore"):  # shares that underflow give the outermost score
                centres.append(np.clip(np.subtract(*np.log(shares)), found.min(), found.max()))
            counts.append([mass @ is_class[own], mass @ ~is_class[own]])
        events, others = np.array(counts).T[..., None] + 0.5  # (R, 1)
        tails = np.maximum(LOWER, 1e-6)  # the quantile at 0 is infinite
        low = logit(betaincinv(events, others, np.r_[tails, 0.5]))
        high = -logit(betaincinv(others, events, tails[::-1]))  # keeps the digits of shares close to 1
        return cls(np.array(centres), GRID, np.hstack([low, high]) - np.array(centres)[:, None])

    def interval(self, scores: np.ndarray, coverage: float) -> np.ndarray:
        """(N, 2) lower and upper bound at scores (N,), in the unit of the score."""
        if not (is_number(coverage) and 0 < coverage < 1):
            raise ValueError(f"coverage must be a number between 0 and 1, such as 0.9, not {coverage!r}")
        bounds = np.array([(1 - coverage) / 2, (1 + coverage) / 2])
        return scores[:, None] + interpolate_knots(scores, self.centres, self.read(bounds))

    def read(self, probabilities: np.ndarray) -> np.ndarray:
        """(R, p) quantiles of each region at these probabilities, linear between those of the grid."""
        return interpolate_knots(probabilities, self.probabilities, self.quantiles.T).T


def predict_bounds(residuals: Sequence[Residuals], link: str, scores: np.ndarray, coverage: float) -> np.ndarray:
    """(N, 2) lower and upper bound of targets or probabilities at scores (N, 1); (N, K, 2) at scores (N, K)."""
    require_residuals(residuals)
    scores = scores if link == "identity" else find_log_odds(scores)
    bounds = np.stack([own.interval(scores[:, k], coverage) for k, own in enumerate(residuals)], axis=1)
    if link != "identity":
        bounds = inverse_link("logit", bounds.reshape(-1, 1))[:, 1].reshape(bounds.shape)
    return bounds[:, 0] if len(residuals) == 1 else bounds


def require_residuals(residuals: Sequence[Residuals]) -> None:
    """Raise an error that says what to do if a model has no residuals."""
    if not residuals:
        raise ValueError(
            "predict_interval needs residuals of held-out rows, and this model has none: it was fitted with "
            "validation_size=0 or very many classes, merged, built by hand, or saved by an older version; fit it with "
            "held-out rows, such as validation_size=0.15, or update a merged model with new rows"
        )


def _divide(scores: np.ndarray, weights: np.ndarray) -> Iterator[np.ndarray]:
    """(N,) whether a row belongs to a region, for up to 20 regions of equal weight and at least 150 rows by score."""
    n_regions = int(np.clip(weights.sum() // 150, 1, 20))
    inverse = np.unique(scores, return_inverse=True)[1]  # equal scores stay in one region
    mass = np.bincount(inverse, weights)
    middle = (np.cumsum(mass) - mass / 2) / mass.sum()
    region = np.minimum(middle * n_regions, n_regions - 1).astype(int)[inverse]
    for index in np.unique(region):
        yield region == index


def find_quantiles(values: np.ndarray, weights: np.ndarray, probabilities: np.ndarray) -> np.ndarray:
    """(p,) the values of rank (n + 1) · probability, interpolated; the largest above rank n.

    n is the sum of the weights: a row of weight 2 is two rows.

    >>> find_quantiles(np.array([3.0, 1.0, 2.0]), np.ones(3), np.array([0.5, 0.625, 0.99])).tolist()
    [2.0, 2.5, 3.0]
    """
    order = np.argsort(values, kind="stable")
    sizes = weights[order]
    before = np.cumsum(sizes) - sizes
    half = (1 + sizes) / 2
    ranks = np.stack([before + np.minimum(half, 1.0), before + np.maximum(half, sizes)], axis=1)  # first and last
    return np.interp((sizes.sum() + 1) * probabilities, ranks.ravel(), np.repeat(values[order], 2))
