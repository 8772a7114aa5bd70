"""Sheets with the model's numbers: "Axes" (knots and levels), one sheet per term with its table, "Terms" (the index).

In: a model and an empty sheet. Out: references to the written cells, for the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoding.axis import Axis
from ..encoding.layout import Layout
from ..model.additive_model import AdditiveModel
from ..model.scorecard import number_format, output_labels, reachable_cells, score_name
from .excel_cells import (
    HIGH,
    LOW,
    MIDDLE,
    PERCENT,
    TEXT,
    WHOLE,
    letter,
    link_to,
    put,
    put_headers,
    put_title,
    reference,
    widen,
)
from .excel_formulas import FIRST_KNOT, AxisCells, TermCells

if TYPE_CHECKING:
    from openpyxl.worksheet.worksheet import Worksheet

FIRST_CELL = 4  # line of the first cell on a term's sheet


def write_axes(sheet: Worksheet, layout: Layout) -> list[AxisCells]:
    """Write the knots or levels of all axes side by side."""
    found, column = [], 1
    for axis in layout.axes:
        ticks: Sequence[Any] = axis.knots.tolist() if axis.levels is None else axis.levels
        lines, has_width = range(FIRST_KNOT, FIRST_KNOT + len(ticks)), axis.levels is None and len(ticks) > 1
        put_headers(sheet, 1, column, [axis.name] * (1 + has_width))
        put_headers(sheet, 2, column, ["level" if axis.is_level else "knot", "to the next"][: 1 + has_width])
        for line, tick in zip(lines, ticks, strict=True):
            put(sheet, line, column, tick, TEXT if axis.is_level else None)
        # Widths are stored: a spreadsheet rounds the difference of two close knots to zero.
        for line, width in zip(lines, np.diff(axis.knots).tolist() if has_width else [], strict=False):
            put(sheet, line, column + 1, width)
        cells = [reference("Axes", lines, range(c, c + 1)) for c in (column, column + 1)]
        found.append(AxisCells(cells[0], cells[1] if has_width else None, len(ticks), axis.is_level))
        column += 1 + has_width
    sheet.freeze_panes = f"A{FIRST_KNOT}"
    return found


def write_term(sheet: Worksheet, model: AdditiveModel, index: int) -> TermCells:
    """Write the table of a term: one line per cell of a main effect, one grid per output of an interaction."""
    shape, name = model.shapes[index], model.term_names[index]
    put_title(sheet, name)
    link_to(put(sheet, 2, 1, "all terms"), "Terms")
    inner = tuple(reachable_cells(axis) for axis in shape.axes)
    scores, spread, weights = shape.scores[inner], shape.spread[inner], shape.weights[inner]
    ticks = [_name_cells(axis) for axis in shape.axes]
    if len(shape.axes) == 1:
        cells = _write_curve(sheet, model, ticks[0], scores, spread, weights)
        if not shape.axes[0].is_level and len(ticks[0]) > 2:
            _draw_curve(sheet, model.n_outputs, len(ticks[0]))
    else:
        cells = _write_grids(sheet, model, [model.encoder.names[f] for f in shape.term], ticks, scores)
    return TermCells(cells, list(weights.shape))


def _name_cells(axis: Axis) -> list[Any]:
    if axis.levels is None:
        return ["missing", *axis.knots.tolist()]
    return ["missing", *axis.levels, "any other"]


def score_style(model: AdditiveModel) -> str:
    """The number format of all scores, with enough digits for the largest contribution."""
    largest = max((float(np.abs(shape.scores).max()) for shape in model.shapes), default=0.0)
    spec = number_format(largest or float(np.abs(model.intercept).max()))
    return f"0.{'0' * int(spec[1:-1])}".rstrip(".") if spec.endswith("f") else "0.0000E+00"


def _write_curve(
    sheet: Worksheet,
    model: AdditiveModel,
    ticks: Sequence[Any],
    scores: np.ndarray,
    spread: np.ndarray,
    weights: np.ndarray,
) -> list[str]:
    """Write a main effect and return the references to its scores, one per output."""
    n_outputs, style, total = model.n_outputs, score_style(model), float(weights.sum()) or 1.0
    labels = output_labels(model)
    put_headers(sheet, FIRST_CELL - 1, 1, ["value", *labels, *["±"] * n_outputs, "rows", "share of rows"])
    for cell, tick in enumerate(ticks):
        line = FIRST_CELL + cell
        put(sheet, line, 1, tick, TEXT if isinstance(tick, str) else None)
        for column, score in enumerate([*scores[cell].tolist(), *spread[cell].tolist()], 2):
            put(sheet, line, column, score, style)
        put(sheet, line, 2 + 2 * n_outputs, float(weights[cell]), WHOLE)
        put(sheet, line, 3 + 2 * n_outputs, float(weights[cell]) / total, PERCENT)
    sheet.freeze_panes = f"B{FIRST_CELL}"
    widen(sheet, ticks)
    lines = range(FIRST_CELL, FIRST_CELL + len(ticks))
    return [reference(sheet.title, lines, range(2 + k, 3 + k)) for k in range(n_outputs)]


def _write_grids(
    sheet: Worksheet, model: AdditiveModel, names: Sequence[str], ticks: Sequence[Sequence[Any]], scores: np.ndarray
) -> list[str]:
    """Write an interaction and return the references to its grids. The last feature runs across, the others down."""
    found, line, n_leading = [], FIRST_CELL - 1, len(names) - 1
    style = score_style(model)
    across = range(n_leading + 1, n_leading + 1 + len(ticks[-1]))
    for k, label in enumerate(output_labels(model)):
        put_headers(sheet, line, 1, [*names[:-1], *[""] * len(ticks[-1])])
        put_headers(sheet, line, across.start, [names[-1] if model.n_outputs == 1 else f"{names[-1]}, for {label}"])
        put_headers(sheet, line + 1, 1, [""] * n_leading)
        put_headers(sheet, line + 1, across.start, ticks[-1])
        lines = range(line + 2, line + 2 + int(np.prod(scores.shape[:n_leading])))
        for at, corner in zip(lines, product(*ticks[:-1]), strict=True):
            put_headers(sheet, at, 1, corner)
        for at, row in zip(lines, scores[..., k].reshape(len(lines), -1).tolist(), strict=True):
            for column, score in zip(across, row, strict=True):
                put(sheet, at, column, score, style)
        found.append(reference(sheet.title, lines, across))
        _colour(sheet, found[-1].split("!")[-1], float(np.abs(scores).max()) or 1.0)
        line = lines.stop + 1
    sheet.freeze_panes = f"{letter(across.start)}{FIRST_CELL + 1 if model.n_outputs == 1 else FIRST_CELL - 1}"
    return found


def _colour(sheet: Worksheet, cells: str, largest: float) -> None:
    from openpyxl.formatting.rule import ColorScaleRule

    ends = {"start_value": -largest, "mid_value": 0, "end_value": largest}
    kinds = dict.fromkeys(("start_type", "mid_type", "end_type"), "num")
    rule = ColorScaleRule(**kinds, **ends, start_color=LOW, mid_color=MIDDLE, end_color=HIGH)
    sheet.conditional_formatting.add(cells.replace("$", ""), rule)


def _draw_curve(sheet: Worksheet, n_outputs: int, n_cells: int) -> None:
    """A chart of the scores at the knots."""
    from openpyxl.chart import Reference, ScatterChart, Series

    chart = ScatterChart(style=13)
    chart.width, chart.height = 18, 9
    chart.scatterStyle = "lineMarker"
    chart.x_axis.delete = chart.y_axis.delete = False
    chart.x_axis.tickLblPos = chart.y_axis.tickLblPos = "low"
    first, last = FIRST_CELL + 1, FIRST_CELL + n_cells - 1
    knots = Reference(sheet, min_col=1, min_row=first, max_row=last)
    for k in range(n_outputs):
        scores = Reference(sheet, min_col=2 + k, min_row=first, max_row=last)
        series = Series(scores, knots, title=str(sheet.cell(FIRST_CELL - 1, 2 + k).value))
        series.smooth = False
        chart.series.append(series)
    if n_outputs == 1:
        chart.legend = None
    sheet.add_chart(chart, f"{letter(6 + 2 * n_outputs)}{FIRST_CELL - 1}")


def write_index(sheet: Worksheet, model: AdditiveModel, sheet_names: Sequence[str]) -> list[str]:
    """Write the intercepts and the terms by importance, and return the references to the intercepts."""
    from openpyxl.formatting.rule import DataBarRule

    put_title(sheet, "Terms", f"{score_name(model)} = intercept + the contribution of every term")
    line, intercepts, style = 4, [], score_style(model)
    for label, start in zip(output_labels(model), model.intercept.tolist(), strict=True):
        put_headers(sheet, line, 1, ["intercept" if model.n_outputs == 1 else f"intercept of {label}"])
        put(sheet, line, 2, start, style)
        intercepts.append(f"Terms!$B${line}")
        line += 1
    line += 1
    put_headers(sheet, line, 1, ["term", "kind", "lowest", "highest", "importance"])
    sheet.freeze_panes = f"A{line + 1}"
    importances = model.importances()
    for t in np.argsort(-importances, kind="stable").tolist():
        line += 1
        shape = model.shapes[t]
        scores = shape.scores[tuple(reachable_cells(axis) for axis in shape.axes)]
        link_to(put(sheet, line, 1, model.term_names[t], TEXT), sheet_names[t])
        put(sheet, line, 2, shape.axes[0].kind if len(shape.axes) == 1 else {2: "pair"}.get(len(shape.axes), "triple"))
        for column, number in enumerate((scores.min(), scores.max()), 3):
            put(sheet, line, column, float(number), style)
        put(sheet, line, 5, float(importances[t]), style)
    if len(sheet_names):
        bars = DataBarRule(start_type="num", start_value=0, end_type="max", end_value=None, color=LOW)
        sheet.conditional_formatting.add(f"E{line - len(sheet_names) + 1}:E{line}", bars)
    widen(sheet, ["intercept", *model.term_names])
    sheet.column_dimensions["E"].width = 24
    return intercepts
