"""Metrics of predictions with 95 % bootstrap intervals, next to those of the constant model.

In: true values, predictions and row weights. Out: a list of `Metric`. Every metric is a function of weighted means over
the rows, so all bootstrap draws are one matrix product: the counts of the drawn rows times the sums per row. Above
2,000 rows, 2,000 random groups of rows are drawn instead. The intervals reflect the choice of the rows, not the
variation between fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

N_DRAWS, MAX_GROUPS = 1000, 2000
MIN_PROBABILITY = 1e-15


@dataclass(frozen=True)
class Metric:
    """A metric, its 95 % interval, and the same metric of the constant model."""

    name: str
    value: float
    low: float
    high: float
    constant: float


class _Bootstrap:
    """Means (1 + draws,) over all rows and over each bootstrap draw of the rows."""

    def __init__(self, weights: np.ndarray):
        rng = np.random.default_rng(0)
        self.weights, self.n_groups = weights, min(len(weights), MAX_GROUPS)
        self.group = rng.permutation(len(weights)) % self.n_groups
        drawn = rng.multinomial(self.n_groups, np.full(self.n_groups, 1 / self.n_groups), size=N_DRAWS)
        self.counts = np.vstack([np.ones(self.n_groups), drawn])

    def mean(self, values: np.ndarray, mask: np.ndarray | float = 1.0) -> np.ndarray:
        """Weighted mean over the rows in `mask`; NaN for draws without such a row."""
        mass = self.weights * mask
        with np.errstate(invalid="ignore", divide="ignore"):
            return self._sum(mass * values) / self._sum(mass)

    def _sum(self, values: np.ndarray) -> np.ndarray:
        return self.counts @ np.bincount(self.group, values, self.n_groups)


def regression_metrics(
    y: np.ndarray, prediction: np.ndarray, constant: float, weights: np.ndarray | None = None
) -> list[Metric]:
    """R², root mean squared error and mean absolute error of predictions (N,); `constant` is the constant model's.

    >>> y = np.arange(10.0)
    >>> [(m.name, m.value, round(m.constant, 3)) for m in regression_metrics(y, y + 1, y.mean())]
    [('R²', 0.8787878787878788, 0.0), ('RMSE', 1.0, 2.872), ('MAE', 1.0, 2.5)]
    """
    draws = _Bootstrap(np.ones(len(y)) if weights is None else weights)
    centred = y - np.average(y, weights=draws.weights)
    variance = draws.mean(centred**2) - draws.mean(centred) ** 2

    def compute(guess: np.ndarray | float) -> list[np.ndarray]:
        squares = draws.mean((y - guess) ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):  # a constant target
            return [1 - squares / variance, np.sqrt(squares), draws.mean(np.abs(y - guess))]

    return _collect(("R²", "RMSE", "MAE"), compute(prediction), compute(constant))


def classification_metrics(
    codes: np.ndarray, probability: np.ndarray, shares: np.ndarray, weights: np.ndarray | None = None
) -> list[Metric]:
    """Log loss, area under the ROC curve (one class against the others, averaged) and accuracy.

    codes : (N,) index of the class of each row
    probability : (N, classes)
    shares : (classes,) probabilities of the constant model
    """
    draws = _Bootstrap(np.ones(len(codes)) if weights is None else weights)
    is_class = codes[:, None] == np.arange(probability.shape[1])
    constant = np.broadcast_to(shares, probability.shape)

    def compute(guess: np.ndarray) -> list[np.ndarray]:
        loss = -np.log(np.maximum(guess[np.arange(len(codes)), codes], MIN_PROBABILITY))
        one_side = [1] if guess.shape[1] == 2 else range(guess.shape[1])
        areas = np.array([_area(draws, is_class[:, k], guess[:, k]) for k in one_side])
        known = ~np.isnan(areas[:, 0])
        area = np.nanmean(areas[known], axis=0) if known.any() else np.full(len(draws.counts), np.nan)
        return [draws.mean(loss), area.clip(0, 1), draws.mean(guess.argmax(axis=1) == codes)]

    return _collect(("log loss", "AUROC", "accuracy"), compute(probability), compute(constant))


def _area(draws: _Bootstrap, positive: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Area under the ROC curve; draws are linearized in the means over positive and over negative rows."""
    shares = _correct_shares(score, positive, draws.weights)
    inside, outside = draws.mean(shares, positive), draws.mean(shares, ~positive)
    return inside + outside - inside[0]


def _correct_shares(score: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(N,) share of the rows of the other class that are ranked correctly against each row; ties count half."""
    values, place = np.unique(score, return_inverse=True)

    def share_below(side: np.ndarray) -> np.ndarray:
        mass = np.bincount(place, weights * side, len(values))
        with np.errstate(invalid="ignore"):  # a class without rows
            return ((np.cumsum(mass) - mass / 2) / mass.sum())[place]

    return np.where(positive, share_below(~positive), 1 - share_below(positive))


def _collect(names: Sequence[str], ours: Sequence[np.ndarray], constant: Sequence[np.ndarray]) -> list[Metric]:
    """Metrics from arrays (1 + draws,) whose first element is the value over all rows."""
    found = []
    for name, values, other in zip(names, ours, constant, strict=True):
        drawn = values[1:][np.isfinite(values[1:])]
        low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
        found.append(Metric(name, float(values[0]), float(low), float(high), float(other[0])))
    return found
