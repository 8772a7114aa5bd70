"""Rows that the page explains, with the values that its script predicts from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.columns import Columns, level_text
from ..encoding.axis import Axis
from ..explain import explain_local
from ..model.additive_model import AdditiveModel
from .page_model import PageModel


def describe_rows(
    model: AdditiveModel, page_model: PageModel, table: Columns, y: Any, rows: Sequence[tuple[int, str]]
) -> list[dict[str, Any]]:
    """The chosen rows: index, reason, values for the script, names of unseen levels, contribution of terms that are not
    on the page, and the actual class or value."""
    small, chosen = page_model.model, [row for row, _ in rows]
    found = explain_local(model, take_rows(table, chosen), None if y is None else np.asarray(y)[chosen])
    shown = [[own[feature] for feature in page_model.features] for own in found.values]
    rest: list[Any] = [None] * len(chosen)
    actual: list[Any] = [None] * len(chosen)
    if page_model.n_hidden:
        named = [dict(zip(small.encoder.names, values, strict=True)) for values in shown]
        rest = (found.scores - small.scores(named)).tolist()
    if found.actual is not None:
        actual = [label if model.classes is None else level_text(label) for label in found.actual.tolist()]
    described = []
    for (index, reason), values, others, label in zip(rows, shown, rest, actual, strict=True):
        numbers = [_number(axis, value) for axis, value in zip(small.encoder.axes, values, strict=True)]
        unseen = {c: values[c] for c, axis in enumerate(small.encoder.axes) if axis.is_level and numbers[c] == -1.0}
        found_row = {"index": index, "reason": reason, "values": numbers, "unseen": unseen}
        described.append(found_row | {"rest": others, "actual": label})
    return described


def take_rows(table: Columns, rows: Sequence[int]) -> Columns:
    index = np.array(rows, dtype=np.int64)

    def take(values: Any) -> Any:
        return None if values is None else values[index]

    columns = table.columns
    if columns is not None:
        columns = tuple(replace(own, numbers=take(own.numbers), codes=take(own.codes)) for own in columns)
    return replace(table, n_rows=len(index), matrix=take(table.matrix), sparse=take(table.sparse), columns=columns)


def add_margins(columns: Sequence[dict[str, Any]], model: AdditiveModel) -> None:
    """Add how far beyond the first and the last knot of each column training rows may be.

    If a column has more distinct values than knots, its outer knots are means of several values. Values closer than
    rounding share a knot, so such a column may have somewhat fewer knots than the limit.
    """
    max_knots = 0 if model.summary is None else model.summary.parameters.get("max_bins", 0)
    for described, axis in zip(columns, model.encoder.axes, strict=True):
        is_grouped = isinstance(max_knots, int) and max(1, max_knots // 2) < len(axis.knots) and not axis.is_level
        gaps = np.diff(axis.knots[[0, 1, -2, -1]])[::2] if is_grouped and max_knots > 0 else np.zeros(2)
        described["margins"] = gaps.tolist()


def _number(axis: Axis, value: Any) -> float | None:
    """A value for the script: a number, the index of a level, -1 for an unseen level, None for missing."""
    if value is None or axis.levels is None:
        return value
    return float(axis.levels.index(value)) if value in axis.levels else -1.0
