"""Sheets with the model's numbers: "Axes" (knots and levels), one sheet per term with its table, "Terms" (the index).

In: a model and an empty sheet. Out: references to the written cells, for the formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from openpyxl.chart import Reference, ScatterChart, Series
from openpyxl.formatting.rule import ColorScaleRule, DataBarRule
from openpyxl.worksheet.worksheet import Worksheet

from ..encoding.axis import Axis
from ..encoding.layout import Layout
from ..model.additive_model import AdditiveModel
from ..model.scorecard import number_format, output_labels, reachable_scores, score_name
from ..model.shapes import AnyShape
from .excel_cells import TEXT, letter, link_to, put, put_headers, put_title, reference, widen
from .excel_formulas import FIRST_KNOT, AxisCells, TermCells

FIRST_CELL = 4  # line of the first cell on a term's sheet
LOW, MIDDLE, HIGH = "5A8AC6", "FFFFFF", "F8696B"  # colours


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


def write_term(sheet: Worksheet, model: AdditiveModel, index: int, style: str) -> TermCells:
    """Write the table of a term: one line per cell of a main effect, one grid per output of an interaction."""
    shape = model.shapes[index]
    put_title(sheet, model.term_names[index])
    link_to(put(sheet, 2, 1, "all terms"), "Terms")
    ticks = [_name_cells(axis) for axis in shape.axes]
    if len(shape.axes) == 1:
        cells = _write_curve(sheet, model, shape, ticks[0], style)
    else:
        cells = _write_grids(sheet, model, shape, ticks, style)
    return TermCells(cells, [len(names) for names in ticks])


def _name_cells(axis: Axis) -> list[Any]:
    """Names of the cells that a row can occupy."""
    return ["missing", *(axis.knots.tolist() if axis.levels is None else (*axis.levels, "any other"))]


def find_style(model: AdditiveModel) -> str:
    """The number format of all scores, with enough digits for the largest contribution."""
    largest = max((float(np.abs(shape.scores).max()) for shape in model.shapes), default=0.0)
    spec = number_format(largest or float(np.abs(model.intercept).max()))
    return f"0.{'0' * int(spec[1:-1])}".rstrip(".") if spec.endswith("f") else "0.0000E+00"


def _write_curve(
    sheet: Worksheet, model: AdditiveModel, shape: AnyShape, ticks: Sequence[Any], style: str
) -> list[str]:
    """Write a main effect and return the references to its scores, one per output."""
    n_outputs, n_cells = model.n_outputs, len(ticks)
    put_headers(sheet, FIRST_CELL - 1, 1, ["value", *output_labels(model), *["±"] * n_outputs, "rows", "share of rows"])
    numbers = np.concatenate([shape.scores, shape.spread], axis=1)[:n_cells].tolist()
    weights = shape.weights[:n_cells].tolist()
    total = float(shape.weights[:n_cells].sum()) or 1.0
    for line, (tick, row, weight) in enumerate(zip(ticks, numbers, weights, strict=True), FIRST_CELL):
        put(sheet, line, 1, tick, TEXT if isinstance(tick, str) else None)
        for column, number in enumerate(row, 2):
            put(sheet, line, column, number, style)
        put(sheet, line, 2 + 2 * n_outputs, weight, "0")
        put(sheet, line, 3 + 2 * n_outputs, weight / total, "0.0%")
    sheet.freeze_panes = f"B{FIRST_CELL}"
    widen(sheet, ticks)
    if not shape.axes[0].is_level and n_cells > 2:
        _draw_curve(sheet, n_outputs, n_cells)
    lines = range(FIRST_CELL, FIRST_CELL + n_cells)
    return [reference(sheet.title, lines, range(2 + k, 3 + k)) for k in range(n_outputs)]


def _write_grids(
    sheet: Worksheet, model: AdditiveModel, shape: AnyShape, ticks: Sequence[Sequence[Any]], style: str
) -> list[str]:
    """Write an interaction and return the references to its grids. The last feature runs across, the others down."""
    names, scores = [model.encoder.names[f] for f in shape.term], reachable_scores(shape)
    found, line, n_leading = [], FIRST_CELL - 1, len(names) - 1
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
    ends = {"start_value": -largest, "mid_value": 0, "end_value": largest}
    kinds = dict.fromkeys(("start_type", "mid_type", "end_type"), "num")
    rule = ColorScaleRule(**kinds, **ends, start_color=LOW, mid_color=MIDDLE, end_color=HIGH)
    sheet.conditional_formatting.add(cells.replace("$", ""), rule)


def _draw_curve(sheet: Worksheet, n_outputs: int, n_cells: int) -> None:
    """A chart of the scores at the knots."""
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


def write_index(sheet: Worksheet, model: AdditiveModel, sheet_names: Sequence[str], style: str) -> list[str]:
    """Write the intercepts and the terms by importance, and return the references to the intercepts."""
    put_title(sheet, "Terms", f"{score_name(model)} = intercept + the contribution of every term")
    intercepts = []
    for line, (label, start) in enumerate(zip(output_labels(model), model.intercept.tolist(), strict=True), 4):
        put_headers(sheet, line, 1, ["intercept" if model.n_outputs == 1 else f"intercept of {label}"])
        put(sheet, line, 2, start, style)
        intercepts.append(f"Terms!$B${line}")
    line += 2
    put_headers(sheet, line, 1, ["term", "kind", "lowest", "highest", "importance"])
    sheet.freeze_panes = f"A{line + 1}"
    importances = model.importances()
    for t in np.argsort(-importances, kind="stable").tolist():
        line += 1
        shape, scores = model.shapes[t], reachable_scores(model.shapes[t])
        link_to(put(sheet, line, 1, model.term_names[t], TEXT), sheet_names[t])
        put(sheet, line, 2, shape.axes[0].kind if len(shape.axes) == 1 else {2: "pair"}.get(len(shape.axes), "triple"))
        for column, number in enumerate((scores.min(), scores.max(), importances[t]), 3):
            put(sheet, line, column, float(number), style)
    if len(sheet_names):
        bars = DataBarRule(start_type="num", start_value=0, end_type="max", end_value=None, color=LOW)
        sheet.conditional_formatting.add(f"E{line - len(sheet_names) + 1}:E{line}", bars)
    widen(sheet, ["intercept", *model.term_names])
    sheet.column_dimensions["E"].width = 24
    return intercepts
