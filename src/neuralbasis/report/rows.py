"""Rows: single rows for the page, with their values as its rule reads them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..axis import Axis
from ..columns import Column, Columns, find_rows, level_text
from ..explain import explain_local
from ..model import AdditiveModel

N_ROWS = 8


def read_table(model: AdditiveModel, X: Any) -> Columns:
    """The model's columns of any table that `predict` reads; a row as a mapping lacks what it does not name."""
    mappings = find_rows(X)
    if mappings is not None:
        X = {name: [row.get(name) for row in mappings] for name in model.encoder.names}
    return model.find_columns(X)


def describe_rows(model: AdditiveModel, table: Columns, y: Any, rows: Sequence[int] | None) -> list[dict[str, Any]]:
    """The chosen rows: index, values as the page's rule reads them, texts of levels never seen, and what came."""
    chosen = _choose(table.n_rows, rows)
    found = explain_local(model, _take(table, chosen), None if y is None else np.asarray(y)[chosen])
    actual = [None] * len(chosen) if found.actual is None else found.actual.tolist()
    described = []
    for index, values, came in zip(chosen, found.values, actual, strict=True):
        numbers = [_number(axis, value) for axis, value in zip(model.encoder.axes, values, strict=True)]
        unseen = {c: values[c] for c, axis in enumerate(model.encoder.axes) if axis.is_level and numbers[c] == -1.0}
        label = came if came is None or model.classes is None else level_text(came)
        described.append({"index": index, "values": numbers, "unseen": unseen, "actual": label})
    return described


def _choose(n_rows: int, rows: Sequence[int] | None) -> list[int]:
    if rows is None:
        return list(range(min(N_ROWS, n_rows)))
    chosen = [operator.index(row) for row in rows]
    wrong = [row for row in chosen if not -n_rows <= row < n_rows]
    if wrong:
        raise ValueError(f"rows must lie between 0 and {n_rows - 1}, the last row of X; got {wrong[0]}")
    return [row % n_rows for row in chosen]


def _take(table: Columns, rows: Sequence[int]) -> Columns:
    if table.matrix is not None:
        return replace(table, matrix=table.matrix[list(rows)], n_rows=len(rows))
    assert table.columns is not None
    return replace(table, columns=tuple(_take_column(column, rows) for column in table.columns), n_rows=len(rows))


def _take_column(column: Column, rows: Sequence[int]) -> Column:
    numbers = None if column.numbers is None else column.numbers[list(rows)]
    codes = None if column.codes is None else column.codes[list(rows)]
    return replace(column, numbers=numbers, codes=codes)


def _number(axis: Axis, value: Any) -> float | None:
    """A value as the page's rule reads it: a number, the index of a level, -1 for a level never seen."""
    if value is None or axis.levels is None:
        return value
    return float(axis.levels.index(value)) if value in axis.levels else -1.0
