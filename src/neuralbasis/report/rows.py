"""Rows that the page explains, with the values that its script predicts from."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.columns import Column, Columns, level_text
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
    axes = page_model.model.encoder.axes
    found = explain_local(model, take_rows(table, chosen), None if y is None else np.asarray(y)[list(chosen)])
    actual = [None] * len(chosen) if found.actual is None else found.actual.tolist()
    shown = [[own[feature] for feature in page_model.features] for own in found.values]
    rest = _find_rest(page_model, shown, found.scores) if page_model.n_hidden else [None] * len(chosen)
    described = []
    for index, values, others, target in zip(chosen, shown, rest, actual, strict=True):
        numbers = [_number(axis, value) for axis, value in zip(axes, values, strict=True)]
        unseen = {c: values[c] for c, axis in enumerate(axes) if axis.is_level and numbers[c] == -1.0}
        label = target if target is None or model.classes is None else level_text(target)
        described.append({"index": index, "values": numbers, "unseen": unseen, "rest": others, "actual": label})
    return described


def _find_rest(page_model: PageModel, rows: Sequence[Sequence[Any]], scores: np.ndarray) -> list[Any]:
    """(N, K) contribution of the terms that are not on the page."""
    names = page_model.model.encoder.names
    return (scores - page_model.model.scores([dict(zip(names, row, strict=True)) for row in rows])).tolist()


def choose_rows(n_rows: int, rows: Sequence[int] | None) -> list[int]:
    if rows is None:
        return list(range(min(N_ROWS, n_rows)))
    chosen = [operator.index(row) for row in rows]
    wrong = [row for row in chosen if not -n_rows <= row < n_rows]
    if wrong:
        raise ValueError(f"rows must be between 0 and {n_rows - 1}, the last row of X; got {wrong[0]}")
    return [row % n_rows for row in chosen]


def take_rows(table: Columns, rows: Sequence[int]) -> Columns:
    if table.sparse is not None:
        return replace(table, sparse=table.sparse.take(np.array(rows, dtype=np.int64)), n_rows=len(rows))
    if table.matrix is not None:
        return replace(table, matrix=table.matrix[list(rows)], n_rows=len(rows))
    assert table.columns is not None
    return replace(table, columns=tuple(_take_column(column, rows) for column in table.columns), n_rows=len(rows))


def _take_column(column: Column, rows: Sequence[int]) -> Column:
    numbers = None if column.numbers is None else column.numbers[list(rows)]
    codes = None if column.codes is None else column.codes[list(rows)]
    return replace(column, numbers=numbers, codes=codes)


def _number(axis: Axis, value: Any) -> float | None:
    """A value for the script: a number, the index of a level, -1 for an unseen level, None for missing."""
    if value is None or axis.levels is None:
        return value
    return float(axis.levels.index(value)) if value in axis.levels else -1.0
