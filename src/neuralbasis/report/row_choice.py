"""Which rows a page explains: the most wrong, the most uncertain, the lowest and the highest predictions.

In: a model, a table and optional actual values. Out: indices of rows, each with the reason why it is shown.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..data.columns import Columns, level_text
from ..losses.links import find_log_odds, inverse_link
from ..model.additive_model import AdditiveModel
from ..model.shapes import QUANTILE
from .accuracy import find_codes
from .transforms import apply_transform

N_ROWS = 8
MAX_CLASSES = 4  # of which the page shows the row with the highest probability


def choose_rows(
    model: AdditiveModel, table: Columns, y: Any, rows: Sequence[int] | None, transform: str | None = None
) -> list[tuple[int, str]]:
    """Indices of the rows of a page and their reasons; requested rows and those of a small table have none."""
    n_rows = table.n_rows
    if rows is None and n_rows <= N_ROWS:
        return [(row, "") for row in range(n_rows)]
    if rows is None:
        return _choose_interesting(model, table, y, transform)
    chosen = [operator.index(row) for row in rows]
    if wrong := [row for row in chosen if not -n_rows <= row < n_rows]:
        raise ValueError(f"rows must be between 0 and {n_rows - 1}, the last row of X; got {wrong[0]}")
    return [(row % n_rows, "") for row in chosen]


def _choose_interesting(model: AdditiveModel, table: Columns, y: Any, transform: str | None) -> list[tuple[int, str]]:
    scores = model.scores(table)
    found: dict[int, list[str]] = {}
    rankings = [*_rank_uncertain(model, table, scores), *_rank_predictions(model, scores)]
    if y is not None:
        rankings.insert(0, _rank_wrong(model, scores, np.asarray(y), transform))
    room = N_ROWS
    for place in range(N_ROWS):  # the first of each ranking, then the second of each
        for reason, order in rankings:
            if place >= len(order):
                continue
            row = int(order[place])
            if row not in found and room == 0:
                continue
            room -= row not in found
            found.setdefault(row, []).append(reason)
    return [(row, ", ".join(reasons)) for row, reasons in found.items()]


def _rank_wrong(
    model: AdditiveModel, scores: np.ndarray, y: np.ndarray, transform: str | None
) -> tuple[str, np.ndarray]:
    """Rows whose prediction is wrong, the worst first; a regression has an error in each row."""
    if model.classes is None:
        actual = np.asarray(y, dtype=float) if transform is None else apply_transform(transform, y)
        return "most wrong", np.argsort(-np.abs(actual - scores[:, 0]), kind="stable")[:3]
    codes = find_codes(model.classes, y)
    probability = inverse_link(model.link, scores)
    own = probability[np.arange(len(codes)), codes]
    order = np.argsort(own, kind="stable")[:3]
    return "most wrong", order[probability[order].argmax(axis=1) != codes[order]]


def _rank_uncertain(model: AdditiveModel, table: Columns, scores: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    """Rows with the widest band of the prediction or, with classes, of the largest probability."""
    errors = model.predict_with_uncertainty(table)[..., 1].reshape(scores.shape)
    width = errors[:, 0]
    if model.classes is not None:
        odds, winner = find_log_odds(scores), scores.argmax(axis=1)
        ends = np.stack([odds - QUANTILE * errors, odds + QUANTILE * errors])
        width = np.ptp(0.5 * (1 + np.tanh(ends / 2)), axis=0)[np.arange(len(scores)), winner]
    if width.any():
        yield "most uncertain", np.argsort(-width, kind="stable")[:3]


def _rank_predictions(model: AdditiveModel, scores: np.ndarray) -> Iterator[tuple[str, np.ndarray]]:
    if model.link == "mlogit":
        probability = inverse_link(model.link, scores)
        yield "least decided", np.argsort(probability.max(axis=1), kind="stable")[:1]
        for label, own in list(zip(np.asarray(model.classes).tolist(), probability.T, strict=True))[:MAX_CLASSES]:
            yield f"highest probability of {level_text(label)}", np.argsort(-own, kind="stable")[:1]
        return
    order = np.argsort(scores[:, 0], kind="stable")
    what = "prediction" if model.classes is None else f"probability of {level_text(model.classes.tolist()[1])}"
    yield f"lowest {what}", order[:2]
    yield f"highest {what}", order[::-1][:2]
    yield f"middle {what}", order[len(order) // 2 :][:1]
