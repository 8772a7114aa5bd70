"""Metrics other than the loss: distance of shapes from the true effects, and change of predictions with the seed.

Contributions and true effects are (N, D) on test rows; each column is centred on these rows before the comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..datasets import Dataset


def score_seeds(models: Sequence[Any], test: Dataset) -> dict[str, float]:
    """seed_change: mean absolute distance between predictions of the first model and those of the others.

    For a regression in standard deviations of the target; for classes the mean over probabilities.
    """
    if len(models) < 2:
        return {}
    predictions = [
        model.predict(test.X) if test.task == "regression" else model.predict_proba(test.X) for model in models
    ]
    change = np.mean([np.abs(predictions[0] - other).mean() for other in predictions[1:]])
    return {"seed_change": float(change / test.y.std() if test.task == "regression" else change)}


def score_shapes(found: Sequence[np.ndarray], truth: np.ndarray, X: Any) -> dict[str, float]:
    """Compare contributions of one model, or of several with different seeds, with the true effects.

    shape_error : distance of the first model from the truth
    roughness : total variation of the first model over that of the truth, in columns of X that have an order
    shape_spread : distance of the first model from the others
    """
    found, truth = [each - each.mean(axis=0) for each in found], truth - truth.mean(axis=0)
    scale = root_mean_square(truth)
    metrics = {
        "shape_error": root_mean_square(found[0] - truth) / scale,
        "roughness": total_variation(found[0], X) / total_variation(truth, X),
    }
    if len(found) > 1:
        metrics["shape_spread"] = root_mean_square(np.stack(found[1:]) - found[0]) / scale
    return metrics


def spread_columns(contributions: np.ndarray, terms: Sequence[tuple[int, ...]], n_columns: int) -> np.ndarray:
    """Contributions (N, T) of main effects as (N, D); 0 where a column has no term."""
    spread = np.zeros((len(contributions), n_columns))
    spread[:, [column for (column,) in terms]] = contributions
    return spread


def root_mean_square(values: np.ndarray) -> float:
    return float(np.sqrt(np.mean(values**2)))


def total_variation(effects: np.ndarray, X: Any) -> float:
    """Sum of absolute differences along the sorted values of each numeric column, without missing values.

    >>> total_variation(np.array([[0.0], [5.0], [1.0]]), np.array([[1.0], [3.0], [2.0]]))
    5.0
    """
    total = 0.0
    for column, values in enumerate(read_numbers(X)):
        if values is not None:
            order = np.argsort(values, kind="stable")[: len(values) - np.isnan(values).sum()]  # NaN come last
            total += np.abs(np.diff(effects[order, column])).sum()
    return float(total)


def read_numbers(X: Any) -> list[np.ndarray | None]:
    """The columns of an array or a frame; None for columns of levels."""
    if isinstance(X, np.ndarray):
        return list(X.T)
    return [None if X[name].dtype == "category" else X[name].to_numpy() for name in X]
