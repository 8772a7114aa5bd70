"""Rows that the page explains, with the values that its script predicts from."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.columns import Columns, level_text
from ..encoding.axis import Axis
from ..explain import explain_local
from ..model.additive_model import AdditiveModel
from .page_model import PageModel

N_ROWS = 8


def describe_rows(
    model: AdditiveModel, page_model: PageModel, table: Columns, y: Any, chosen: Sequence[int]
) -> list[dict[str, Any]]:
    """The chosen rows: index, values for the script, names of unseen levels, contribution of terms that are not on the
    page, and the actual class or value."""
    small = page_model.model
    found = explain_local(model, take_rows(table, chosen), None if y is None else np.asarray(y)[list(chosen)])
    shown = [[own[feature] for feature in page_model.features] for own in found.values]
    rest: list[Any] = [None] * len(chosen)
    actual: list[Any] = [None] * len(chosen)
    if page_model.n_hidden:
        rows = [dict(zip(small.encoder.names, values, strict=True)) for values in shown]
        rest = (found.scores - small.scores(rows)).tolist()
    if found.actual is not None:
        actual = [label if model.classes is None else level_text(label) for label in found.actual.tolist()]
    described = []
    for index, values, others, label in zip(chosen, shown, rest, actual, strict=True):
        numbers = [_number(axis, value) for axis, value in zip(small.encoder.axes, values, strict=True)]
        unseen = {c: values[c] for c, axis in enumerate(small.encoder.axes) if axis.is_level and numbers[c] == -1.0}
        described.append({"index": index, "values": numbers, "unseen": unseen, "rest": others, "actual": label})
    return described


def choose_rows(n_rows: int, rows: Sequence[int] | None) -> list[int]:
    if rows is None:
        return list(range(min(N_ROWS, n_rows)))
    chosen = [operator.index(row) for row in rows]
    if wrong := [row for row in chosen if not -n_rows <= row < n_rows]:
        raise ValueError(f"rows must be between 0 and {n_rows - 1}, the last row of X; got {wrong[0]}")
    return [row % n_rows for row in chosen]


def take_rows(table: Columns, rows: Sequence[int]) -> Columns:
    index = np.array(rows, dtype=np.int64)

    def take(values: Any) -> Any:
        return None if values is None else values[index]

    columns = table.columns
    if columns is not None:
        columns = tuple(replace(own, numbers=take(own.numbers), codes=take(own.codes)) for own in columns)
    return replace(table, n_rows=len(index), matrix=take(table.matrix), sparse=take(table.sparse), columns=columns)


def _number(axis: Axis, value: Any) -> float | None:
    """A value for the script: a number, the index of a level, -1 for an unseen level, None for missing."""
    if value is None or axis.levels is None:
        return value
    return float(axis.levels.index(value)) if value in axis.levels else -1.0
