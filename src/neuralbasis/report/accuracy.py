"""Check: how well predictions meet what came, in figures and in bins that the page draws.

A bin holds equally many rows, sorted by prediction: its mean prediction, the mean of what came and the standard error
of that mean. Where the model is honest the two means agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.columns import Columns
from ..losses.links import inverse_link
from ..model.additive_model import AdditiveModel

N_BINS, MIN_BIN = 12, 5
MAX_POINTS = 800
N_BARS = 20


def describe_accuracy(model: AdditiveModel, table: Columns, y: Any) -> dict[str, Any]:
    """Figures and pictures of all rows of a table; `y` is what came for each."""
    came = np.asarray(y)
    if came.shape != (table.n_rows,):
        raise ValueError(f"y must hold one value for each of the {table.n_rows} rows of X; its shape is {came.shape}")
    predicted = inverse_link(model.link, model.scores(table))
    if model.classes is None:
        return {"n": table.n_rows, **_measure_regression(came, predicted)}
    return {"n": table.n_rows, **_measure_classes(_find_codes(model.classes, came), predicted)}


def _measure_regression(came: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    came = _read_numbers(came)
    if predicted.ndim > 1:
        raise ValueError(f"y is compared with one output, but the model has {predicted.shape[1]}; leave y out")
    measures = {"RMSE": root_mean_squared_error(came, predicted), "mean error": mean_absolute_error(came, predicted)}
    if len(came) > 1 and np.ptp(came) > 0:
        measures = {"R²": r2_score(came, predicted), **measures}
    shown = np.random.default_rng(0).permutation(len(came))[:MAX_POINTS]
    points = np.column_stack([predicted, came - predicted])[shown]
    return {"measures": _list(measures), "bins": [_bin(predicted, came)], "points": points.tolist(), "bars": None}


def _measure_classes(codes: np.ndarray, probability: np.ndarray) -> dict[str, Any]:
    from sklearn.metrics import log_loss, roc_auc_score

    n_classes = probability.shape[1]
    is_class = codes[:, None] == np.arange(n_classes)
    measures = {
        "accuracy": float((probability.argmax(axis=1) == codes).mean()),
        "log loss": log_loss(codes, probability, labels=range(n_classes)),
    }
    drawn = [1] if n_classes == 2 else range(n_classes)
    if is_class.any(axis=0).all():
        measures["AUROC"] = np.mean([roc_auc_score(is_class[:, k], probability[:, k]) for k in drawn])
    bins = [_bin(probability[:, k], is_class[:, k].astype(float)) for k in drawn]
    bars = [[_count(probability[side, k]) for side in (is_class[:, k], ~is_class[:, k])] for k in drawn]
    return {"measures": _list(measures), "bins": bins, "points": None, "bars": bars}


def _bin(predicted: np.ndarray, came: np.ndarray) -> list[list[float]]:
    """(mean prediction, mean of what came, its standard error, rows) of each bin."""
    n_bins = max(1, min(N_BINS, len(came) // MIN_BIN))
    parts = np.array_split(np.argsort(predicted, kind="stable"), n_bins)
    errors = [came[part].std() / np.sqrt(len(part)) for part in parts]
    return [
        [float(predicted[part].mean()), float(came[part].mean()), float(error), len(part)]
        for part, error in zip(parts, errors, strict=True)
    ]


def _count(probability: np.ndarray) -> list[int]:
    return np.histogram(probability, N_BARS, (0.0, 1.0))[0].tolist()


def _list(measures: dict[str, Any]) -> list[list[Any]]:
    return [[name, float(value)] for name, value in measures.items()]


def _read_numbers(came: np.ndarray) -> np.ndarray:
    numbers = np.asarray(came, dtype=float)
    if not np.isfinite(numbers).all():
        raise ValueError("y holds values that are missing or infinite; leave those rows out")
    return numbers


def _find_codes(classes: np.ndarray, came: np.ndarray) -> np.ndarray:
    known = {label: code for code, label in enumerate(classes.tolist())}
    codes = [known.get(label, -1) for label in came.tolist()]
    if -1 in codes:
        wrong = came.tolist()[codes.index(-1)]
        raise ValueError(f"y holds {wrong!r}, which is no class of the model; its classes are {list(known)[:20]}")
    return np.array(codes)
