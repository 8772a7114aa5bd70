"""Tables with planted pairs: correlated columns of three kinds, main effects, and a few known interactions.

    score = Σ_i f_i(u_i) + Σ_p g_p(u_a, u_b)        u: ranks of equicorrelated normal columns, in (0, 1)

Columns are normal, have five values, or are skewed, in turn. Every other column has a main effect; one of the two
columns of a pair has a main effect and one has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from .dataset import Dataset

CORRELATION = 0.5
N_VALUES = 5  # in a column with few values
LOGIT_DEVIATION = 1.5  # of the main effects of classes

MAINS = (
    lambda u: 2 * u - 1,
    lambda u: np.sin(2 * np.pi * u),
    lambda u: (u > 0.7) * 1.0,
    lambda u: (2 * u - 1) ** 2,
)
PAIRS = (
    lambda u, v: (2 * u - 1) * (2 * v - 1),
    lambda u, v: (u > 0.6) * (v < 0.4) * 1.0,
    lambda u, v: np.sin(2 * np.pi * u) * (2 * v - 1),
)


@dataclass(frozen=True, eq=False)
class Planted:
    """A table and its interacting pairs of columns."""

    data: Dataset
    pairs: tuple[tuple[int, int], ...]


def plant_pairs(
    n_classes: int, seed: int, n_rows: int = 10_000, n_columns: int = 30, pair_deviation: float = 0.3
) -> Planted:
    """A table with three interacting pairs; `n_classes=0` is a regression.

    A pair has deviation `pair_deviation`; the sum of main effects and the noise of a regression have deviation 1.
    """
    rng = np.random.default_rng(seed)
    X, ranks = make_columns(rng, n_rows, n_columns)
    order = rng.permutation(n_columns)
    mains = [MAINS[k % len(MAINS)](ranks[:, column]) for k, column in enumerate(order[::2])]
    chosen = order[: 2 * len(PAIRS)].reshape(-1, 2)
    pairs = [shape(ranks[:, a], ranks[:, b]) for shape, (a, b) in zip(PAIRS, chosen, strict=True)]
    effects = standardise(np.stack(mains, axis=1)), pair_deviation * standardise(np.stack(pairs, axis=1))
    y = draw_target(rng, n_classes, *effects)
    task = "classification" if n_classes else "regression"
    data = Dataset(f"planted, {n_classes or 'no'} classes, seed {seed}", X, y, task)
    return Planted(data, tuple((int(min(pair)), int(max(pair))) for pair in chosen))


def make_columns(rng: np.random.Generator, n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns (N, D) and their ranks; in a column with few values, the rank of the value."""
    common, own = rng.normal(size=(n_rows, 1)), rng.normal(size=(n_rows, n_columns))
    normal = np.sqrt(CORRELATION) * common + np.sqrt(1 - CORRELATION) * own
    X, ranks = normal.copy(), ndtr(normal)
    few, skewed = slice(1, None, 3), slice(2, None, 3)
    X[:, few] = np.floor(N_VALUES * ranks[:, few])
    ranks[:, few] = (X[:, few] + 0.5) / N_VALUES
    X[:, skewed] = np.exp(1.5 * normal[:, skewed])
    return X, ranks


def draw_target(rng: np.random.Generator, n_classes: int, mains: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """y (N,) from main effects (N, I), whose sum is standardised, and pairs (N, P), with other weights per class."""
    n_scores = n_classes if n_classes > 2 else 1
    score = standardise(mains @ draw_loadings(rng, mains.shape[1], n_scores))
    score += pairs @ draw_loadings(rng, pairs.shape[1], n_scores)
    if n_classes == 0:
        return score[:, 0] + rng.normal(size=len(score))
    score *= LOGIT_DEVIATION
    if n_classes == 2:
        score = np.column_stack([np.zeros(len(score)), score])
    return (score + rng.gumbel(size=score.shape)).argmax(axis=1)  # a draw from the softmax


def draw_loadings(rng: np.random.Generator, n_effects: int, n_scores: int) -> np.ndarray:
    """(effects, scores): ones, or weights with mean 0 and mean square 1 over the classes."""
    if n_scores == 1:
        return np.ones((n_effects, 1))
    return standardise(rng.normal(size=(n_scores, n_effects))).T


def standardise(values: np.ndarray) -> np.ndarray:
    return (values - values.mean(axis=0)) / values.std(axis=0)
