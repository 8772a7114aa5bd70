"""Measures: how well predictions meet what came, each with a 95 % interval and beside the constant model.

Every measure is a function of weighted means over the rows, so that a bootstrap draw is a product of a matrix: how
often each row (beyond 2,000 rows: each of 2,000 random groups of rows) was drawn, times the sums of that row or group.
The intervals speak of the rows that were measured, not of another fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

N_DRAWS, MAX_GROUPS = 1000, 2000
SMALLEST = 1e-15  # probability


@dataclass(frozen=True)
class Measure:
    """One figure, the ends of its interval, and the same figure of the constant model."""

    name: str
    value: float
    low: float
    high: float
    constant: float


class _Draws:
    """Means over all rows and over each bootstrap draw of them: (1 + draws,)"""

    def __init__(self, weights: np.ndarray):
        rng = np.random.default_rng(0)
        self.weights, self.n_groups = weights, min(len(weights), MAX_GROUPS)
        self.group = rng.permutation(len(weights)) % self.n_groups
        drawn = rng.multinomial(self.n_groups, np.full(self.n_groups, 1 / self.n_groups), size=N_DRAWS)
        self.counts = np.vstack([np.ones(self.n_groups), drawn])

    def mean(self, values: np.ndarray, among: np.ndarray | float = 1.0) -> np.ndarray:
        """Weighted mean of the rows that are `among` a part."""
        mass = self.weights * among
        with np.errstate(invalid="ignore", divide="ignore"):  # a draw without such a row
            return self._sum(mass * values) / self._sum(mass)

    def _sum(self, values: np.ndarray) -> np.ndarray:
        return self.counts @ np.bincount(self.group, values, self.n_groups)


def measure_values(
    y: np.ndarray, prediction: np.ndarray, constant: float, weights: np.ndarray | None = None
) -> list[Measure]:
    """R², root of the mean squared error, mean absolute error.

    Examples
    --------
    >>> y = np.arange(10.0)
    >>> [(m.name, m.value, round(m.constant, 3)) for m in measure_values(y, y + 1, y.mean())]
    [('R²', 0.8787878787878788, 0.0), ('RMSE', 1.0, 2.872), ('MAE', 1.0, 2.5)]
    """
    draws = _Draws(np.ones(len(y)) if weights is None else weights)
    centred = y - np.average(y, weights=draws.weights)
    variance = draws.mean(centred**2) - draws.mean(centred) ** 2

    def figures(guess: np.ndarray | float) -> list[np.ndarray]:
        squares = draws.mean((y - guess) ** 2)
        with np.errstate(invalid="ignore", divide="ignore"):  # a target without spread
            return [1 - squares / variance, np.sqrt(squares), draws.mean(np.abs(y - guess))]

    return _collect(("R²", "RMSE", "MAE"), figures(prediction), figures(constant))


def measure_classes(
    codes: np.ndarray, probability: np.ndarray, shares: np.ndarray, weights: np.ndarray | None = None
) -> list[Measure]:
    """Log loss, area under the ROC curve (the mean over classes against all others), accuracy.

    Parameters
    ----------
    codes : (N,) the class of each row
    probability : (N, classes)
    shares : (classes,) what the constant model says
    """
    draws = _Draws(np.ones(len(codes)) if weights is None else weights)
    is_class = codes[:, None] == np.arange(probability.shape[1])
    constant = np.broadcast_to(shares, probability.shape)

    def figures(guess: np.ndarray) -> list[np.ndarray]:
        loss = -np.log(np.maximum(guess[np.arange(len(codes)), codes], SMALLEST))
        one_side = [1] if guess.shape[1] == 2 else range(guess.shape[1])
        areas = np.array([_area(draws, is_class[:, k], guess[:, k]) for k in one_side])
        known = ~np.isnan(areas[:, 0])
        area = np.nanmean(areas[known], axis=0) if known.any() else np.full(len(draws.counts), np.nan)
        return [draws.mean(loss), area.clip(0, 1), draws.mean(guess.argmax(axis=1) == codes)]

    return _collect(("log loss", "AUROC", "accuracy"), figures(probability), figures(constant))


def _area(draws: _Draws, positive: np.ndarray, score: np.ndarray) -> np.ndarray:
    """Area under the ROC curve: a mean over the positive rows and one over the negative ones, drawn to first order."""
    beaten = _beaten(score, positive, draws.weights)
    inside, outside = draws.mean(beaten, positive), draws.mean(beaten, ~positive)
    return inside + outside - inside[0]


def _beaten(score: np.ndarray, positive: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """For each row the share of the other side's rows that are on the right side of it; ties count half."""
    values, place = np.unique(score, return_inverse=True)

    def share_below(side: np.ndarray) -> np.ndarray:
        mass = np.bincount(place, weights * side, len(values))
        with np.errstate(invalid="ignore"):  # no row on that side
            return ((np.cumsum(mass) - mass / 2) / mass.sum())[place]

    return np.where(positive, share_below(~positive), 1 - share_below(positive))


def _collect(names: Sequence[str], ours: Sequence[np.ndarray], constant: Sequence[np.ndarray]) -> list[Measure]:
    """The first entry is the figure itself, the others are the draws."""
    found = []
    for name, figures, other in zip(names, ours, constant, strict=True):
        drawn = figures[1:][~np.isnan(figures[1:])]
        low, high = np.percentile(drawn, [2.5, 97.5]) if len(drawn) else (np.nan, np.nan)
        found.append(Measure(name, float(figures[0]), float(low), float(high), float(other[0])))
    return found
