"""Accuracy of a model on the rows of a page: measures, calibration bins, residuals, class separation and thresholds.

Rows are sorted by prediction and split into bins of equal size. A bin has its mean prediction, its observed mean and
the standard error of the observed mean. For a calibrated model the two means agree. Each measure comes with that of the
best constant prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.columns import Columns
from ..losses.links import inverse_link
from ..model.additive_model import AdditiveModel
from .transforms import invert_transform

N_BINS, MIN_BIN = 12, 5  # bins of the calibration chart, and minimum rows of a bin
MAX_POINTS = 800  # residuals
N_BARS = 20  # bars of the separation chart


def describe_loss(model: AdditiveModel) -> dict[str, Any] | None:
    """Name and value of the loss on held-out rows, and that of the best constant; None without such rows."""
    summary = model.summary
    if summary is None or summary.validation is None:
        return None
    found, constant = summary.validation, summary.history.get("constant")
    if model.classes is not None:
        return {"name": "log loss", "value": found, "constant": constant}
    if model.n_outputs > 1:
        return {"name": "loss", "value": found, "constant": constant}
    # The loss is half the squared error in units of the target's standard deviation.
    value, other = (None if loss is None else summary.unit * (2 * max(loss, 0.0)) ** 0.5 for loss in (found, constant))
    return {"name": "RMSE", "value": value, "constant": other}


def describe_accuracy(model: AdditiveModel, table: Columns, y: Any, transform: str | None = None) -> dict[str, Any]:
    """Measures and chart data for all rows of a table; `y` has their actual classes or values."""
    actual = np.asarray(y)
    if actual.shape != (table.n_rows,):
        raise ValueError(f"y must have one value for each of the {table.n_rows} rows of X; got shape {actual.shape}")
    predicted = inverse_link(model.link, model.scores(table))
    if model.classes is None:
        values = invert_transform(transform, predicted)
        check_unit(transform, actual, predicted, values)
        found = _measure_regression(actual, values)
    else:
        found = _measure_classes(find_codes(model.classes, actual), predicted)
    return {"n": table.n_rows, **found, "measures": [[name, float(v)] for name, v in found["measures"].items()]}


def check_unit(transform: str | None, actual: np.ndarray, scores: np.ndarray, values: np.ndarray) -> None:
    """Refuse actual values that are closer to the transformed predictions (N,) than to the predictions (N,)."""
    if transform is None or actual.dtype.kind not in "fiu":
        return
    known = np.isfinite(actual)
    errors = [float(np.abs(actual - own)[known].sum()) for own in (scores, values)]
    if errors[0] < 0.1 * errors[1]:
        raise ValueError(
            f"transform={transform!r} needs y in the unit of the target; got values near the {transform} of it: "
            "pass y as it was before the transformation, or omit transform"
        )


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
        "mean absolute error": mean_absolute_error(actual, predicted),
    }
    error = float(np.abs(actual - np.median(actual)).mean())
    constants = {"RMSE": float(actual.std()), "mean absolute error": error}
    shown = np.random.default_rng(0).permutation(len(actual))[:MAX_POINTS]
    points = np.column_stack([predicted, actual - predicted])[shown]
    found = {"measures": measures, "constants": constants, "bins": [_bin(predicted, actual)]}
    return found | {"points": points.tolist(), "bars": None, "rates": None, "cells": None}


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
    rates = is_class.mean(axis=0)
    present = rates[rates > 0]
    constants = {"accuracy": float(rates.max()), "log loss": float(-(present * np.log(present)).sum())}
    cells = _count_cells(codes, probability[:, 1]) if n_classes == 2 else None
    found = {"measures": measures, "constants": constants, "bins": bins, "points": None, "bars": bars}
    return found | {"rates": rates.tolist(), "cells": cells}


def _count_cells(codes: np.ndarray, probability: np.ndarray) -> dict[str, Any]:
    """For each threshold, the rows of either class whose probability of the second class is above it."""
    thresholds = list_thresholds()
    own = [np.sort(probability[codes == code]) for code in (0, 1)]
    above = [(len(p) - np.searchsorted(p, thresholds, "right")).tolist() for p in own]
    return {"thresholds": thresholds.tolist(), "above": above}


def list_thresholds() -> np.ndarray:
    """Round thresholds from 0 to 1: steps of 0.5 % between 1 % and 99 %, finer ones outside.

    >>> found = list_thresholds().tolist()
    >>> found[:3], found[len(found) // 2], len(found)
    ([0.0, 0.0001, 0.0002], 0.5, 235)
    """
    low = np.concatenate([[0.0], np.arange(1, 10) / 10_000, np.arange(1, 10) / 1_000])
    return np.concatenate([low, np.arange(2, 199) / 200, 1 - low[::-1]]).round(4)


def _bin(predicted: np.ndarray, actual: np.ndarray) -> list[list[float]]:
    """(mean prediction, observed mean, its standard error, number of rows) of each bin."""
    n_bins = max(1, min(N_BINS, len(actual) // MIN_BIN))
    parts = np.array_split(np.argsort(predicted, kind="stable"), n_bins)
    return [
        [float(predicted[part].mean()), float(own.mean()), float(own.std() / np.sqrt(len(part))), len(part)]
        for part, own in ((part, actual[part]) for part in parts)
    ]


def find_codes(classes: np.ndarray, actual: np.ndarray) -> np.ndarray:
    """(N,) The index of the class of each row."""
    known = {label: code for code, label in enumerate(classes.tolist())}
    codes = [known.get(label, -1) for label in actual.tolist()]
    if -1 in codes:
        wrong = actual.tolist()[codes.index(-1)]
        raise ValueError(f"y contains {wrong!r}, which is not a class of the model; its classes are {list(known)[:20]}")
    return np.array(codes)
