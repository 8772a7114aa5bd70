"""Accuracy of a model on the rows of a page: measures, calibration bins, residuals and class separation.

Rows are sorted by prediction and split into bins of equal size. A bin has its mean prediction, its observed mean and
the standard error of the observed mean. For a calibrated model the two means agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.columns import Columns
from ..losses.links import inverse_link
from ..model.additive_model import AdditiveModel

N_BINS, MIN_BIN = 12, 5  # bins of the calibration chart, and minimum rows of a bin
MAX_POINTS = 800  # residuals
N_BARS = 20  # bars of the separation chart


def describe_accuracy(model: AdditiveModel, table: Columns, y: Any) -> dict[str, Any]:
    """Measures and chart data for all rows of a table; `y` has their actual classes or values."""
    actual = np.asarray(y)
    if actual.shape != (table.n_rows,):
        raise ValueError(f"y must have one value for each of the {table.n_rows} rows of X; got shape {actual.shape}")
    predicted = inverse_link(model.link, model.scores(table))
    if model.classes is None:
        found = _measure_regression(actual, predicted)
    else:
        found = _measure_classes(_find_codes(model.classes, actual), predicted)
    return {"n": table.n_rows, **found, "measures": [[name, float(v)] for name, v in found["measures"].items()]}


def _measure_regression(y: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    from sklearn.metrics import mean_absolute_error, r2_score, root_mean_squared_error

    actual = np.asarray(y, dtype=float)
    if not np.isfinite(actual).all():
        raise ValueError("y contains missing or infinite values; remove these rows")
    if predicted.ndim > 1:
        raise ValueError(f"y is compared with a single output; this model has {predicted.shape[1]}: omit y")
    has_variance = len(actual) > 1 and np.ptp(actual) > 0
    measures = {
        **({"R²": r2_score(actual, predicted)} if has_variance else {}),
        "RMSE": root_mean_squared_error(actual, predicted),
        "mean error": mean_absolute_error(actual, predicted),
    }
    shown = np.random.default_rng(0).permutation(len(actual))[:MAX_POINTS]
    points = np.column_stack([predicted, actual - predicted])[shown]
    return {"measures": measures, "bins": [_bin(predicted, actual)], "points": points.tolist(), "bars": None}


def _measure_classes(codes: np.ndarray, probability: np.ndarray) -> dict[str, Any]:
    from sklearn.metrics import log_loss, roc_auc_score

    n_classes = probability.shape[1]
    is_class = codes[:, None] == np.arange(n_classes)
    measures = {
        "accuracy": (probability.argmax(axis=1) == codes).mean(),
        "log loss": log_loss(codes, probability, labels=range(n_classes)),
    }
    bins, bars, areas = [], [], []
    for is_own, p in list(zip(is_class.T, probability.T, strict=True))[1 if n_classes == 2 else 0 :]:
        bins.append(_bin(p, is_own.astype(float)))
        bars.append([np.histogram(p[side], N_BARS, (0.0, 1.0))[0].tolist() for side in (is_own, ~is_own)])
        if is_class.any(axis=0).all():
            areas.append(roc_auc_score(is_own, p))
    if areas:
        measures["AUROC"] = np.mean(areas)
    return {"measures": measures, "bins": bins, "points": None, "bars": bars}


def _bin(predicted: np.ndarray, actual: np.ndarray) -> list[list[float]]:
    """(mean prediction, observed mean, its standard error, number of rows) of each bin."""
    n_bins = max(1, min(N_BINS, len(actual) // MIN_BIN))
    parts = np.array_split(np.argsort(predicted, kind="stable"), n_bins)
    return [
        [float(predicted[part].mean()), float(own.mean()), float(own.std() / np.sqrt(len(part))), len(part)]
        for part, own in ((part, actual[part]) for part in parts)
    ]


def _find_codes(classes: np.ndarray, actual: np.ndarray) -> np.ndarray:
    known = {label: code for code, label in enumerate(classes.tolist())}
    codes = [known.get(label, -1) for label in actual.tolist()]
    if -1 in codes:
        wrong = actual.tolist()[codes.index(-1)]
        raise ValueError(f"y contains {wrong!r}, which is not a class of the model; its classes are {list(known)[:20]}")
    return np.array(codes)
