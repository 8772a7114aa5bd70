"""Workbook of a model. A person types rows on the first sheet, and formulas compute the predictions.

Predict     a person types rows; formulas give predictions, scores and contributions
Terms       the index: intercept and terms by importance
<term>      one sheet per term with its table (`excel_tables`)
Positions   the position of each row on each axis (`excel_formulas`)
Axes        knots and levels
Interval    regions of a prediction interval, if one is requested (`excel_interval`)
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from openpyxl import Workbook
from openpyxl.styles import Border, PatternFill, Side
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from ..encoding.axis import Axis
from ..encoding.layout import Layout, raise_if_infinite
from ..model.additive_model import AdditiveModel
from ..model.scorecard import output_labels, score_name
from .excel_cells import TEXT, check_texts, letter, name_sheets, put, put_headers, put_title
from .excel_formulas import FIRST_LINE, AxisCells, Position, PredictColumns, TermCells, link_formulas, place_columns
from .excel_interval import SHEET, IntervalCells, write_interval
from .excel_tables import FIRST_CELL, find_style, write_axes, write_index, write_term
from .plain import BOUNDS, PlainInterval

BLANK_LINES = 20  # below the example, for rows that a person types
MAX_LINES, MAX_COLUMNS = 1_048_576, 16_384  # of a sheet in Excel


def make_book(model: AdditiveModel, rows: Any, interval: PlainInterval | None) -> Workbook:
    """A workbook with these rows filled in; None gives an example and empty lines."""
    values = [[_typical_value(axis)] for axis in model.encoder.axes] if rows is None else _read_values(model, rows)
    columns = place_columns(
        model, len(values[0]), 0 if rows is not None else BLANK_LINES, len(BOUNDS) if interval else 0
    )
    layout, style = model.layout, find_style(model)
    _check_size(columns, layout)
    book = Workbook()
    predict, index = book.worksheets[0], book.create_sheet("Terms")
    predict.title = "Predict"
    names = name_sheets(model.term_names, [SHEET] if interval else [])
    terms = [write_term(book.create_sheet(name), model, t, style) for t, name in enumerate(names)]
    positions_sheet, axes_sheet = book.create_sheet("Positions"), book.create_sheet("Axes")
    axes = write_axes(axes_sheet, layout)
    positions = _write_positions(positions_sheet, layout, axes, columns)
    intercepts = write_index(index, model, names, style)
    _write_inputs(predict, model, columns, values, axes)
    bounds = write_interval(book.create_sheet(SHEET), interval, columns, style) if interval else None
    _write_outputs(predict, model, columns, terms, positions, intercepts, bounds, style)
    book.calculation.fullCalcOnLoad = True
    return book


def _typical_value(axis: Axis) -> float | str:
    """The middle knot, rounded, or the most frequent level."""
    if axis.levels is None:
        return float(f"{axis.knots[len(axis.knots) // 2]:.4g}")
    return axis.levels[0 if axis.mass is None else int(np.argmax(axis.mass))]


def _read_values(model: AdditiveModel, rows: Any) -> list[list[Any]]:
    """The values of each column as a person would type them: numbers, levels, None for missing."""
    found: list[list[Any]] = []
    for index, (axis, column) in enumerate(zip(model.encoder.axes, model.find_columns(rows), strict=True)):
        if axis.levels is None:
            numbers = column.to_numbers()
            raise_if_infinite(model.encoder.axes, index if np.isinf(numbers).any() else -1)
            found.append([None if np.isnan(number) else number for number in numbers.tolist()])
        else:
            codes, levels = column.to_labels()
            check_texts(axis.name, levels)
            found.append([None if code < 0 else levels[code] for code in codes])
    return found


def _check_size(columns: PredictColumns, layout: Layout) -> None:
    """Refuse a model or a table that exceeds the size of a sheet."""
    for axis in layout.axes:
        check_texts(axis.name, axis.levels or ())
    sizes = [layout.table_shape(t) for t in range(len(layout.terms))]
    heights = [(int(np.prod(size[:-1])) + 3) * len(columns.contributions) for size in sizes if len(size) > 1]
    tallest = max([columns.lines.stop, *heights, *(axis.n_cells for axis in layout.axes)]) + FIRST_CELL
    widest = max([columns.contributions[-1].stop, 2 * len(layout.axes), *(size[-1] for size in sizes)]) + 2
    for count, limit, unit in ((tallest, MAX_LINES, "lines"), (widest, MAX_COLUMNS, "columns")):
        if count > limit:
            raise ValueError(
                f"the workbook would need a sheet of {count:,} {unit}, but Excel has {limit:,}; pass fewer rows, or "
                "export a model with fewer terms, classes or levels"
            )


def _write_positions(
    sheet: Worksheet, layout: Layout, axes: Sequence[AxisCells], columns: PredictColumns
) -> list[list[Position]]:
    """Write the positions of all rows, and return the columns of each term, one for each of its axes."""
    put_title(sheet, "Positions", "position of each row on each axis: cell 1 is a missing value, cell 2 the first knot")
    positions: dict[int, Position] = {}
    column = 1
    for a in np.unique(layout.term_axis).tolist():
        axis, source = axes[a], letter(columns.inputs[layout.axis_column[a]])
        has_share = axis.widths is not None
        put_headers(sheet, FIRST_LINE - 2, column, [layout.axes[a].name] * (1 + has_share))
        put_headers(sheet, FIRST_LINE - 1, column, ["cell", "share of the next"][: 1 + has_share])
        positions[a] = letter(column), letter(column + 1) if has_share else None
        for line in columns.lines:
            value, cell = f"Predict!{source}{line}", f"{letter(column)}{line}"
            sheet.cell(line, column, axis.cell_formula(value))
            if has_share:
                sheet.cell(line, column + 1, axis.share_formula(value, cell)).number_format = "0.0000"
        column += 1 + has_share
    sheet.freeze_panes = f"A{FIRST_LINE}"
    bounds = zip(layout.term_start[:-1], layout.term_start[1:], strict=True)
    return [[positions[a] for a in layout.term_axis[low:high].tolist()] for low, high in bounds]


def _write_inputs(
    sheet: Worksheet,
    model: AdditiveModel,
    columns: PredictColumns,
    values: Sequence[Sequence[Any]],
    axes: Sequence[AxisCells],
) -> None:
    """The coloured cells for the values of rows. Columns of levels have a list to choose from."""
    put_title(sheet, "Predict", "one row per line: type its values into the yellow cells; leave a missing value empty")
    _put_group(sheet, columns.inputs.start, "values of the row", model.encoder.names)
    background, side = PatternFill("solid", "FFF2CC"), Side("hair", "999999")
    border = Border(top=side, bottom=side, left=side, right=side)
    for column, axis, cells, given in zip(columns.inputs, model.encoder.axes, axes, values, strict=False):
        for line, value in zip_longest(columns.lines, given):
            cell = sheet.cell(line, column, '=""') if value == "" else put(sheet, line, column, value)
            cell.fill, cell.border = background, border
            cell.number_format = TEXT if axis.is_level else "General"
        if axis.is_level:  # the list only suggests: other levels are allowed
            choice = DataValidation("list", formula1=cells.ticks, allow_blank=True, showErrorMessage=False)
            choice.add(f"{letter(column)}{columns.lines.start}:{letter(column)}{columns.lines.stop - 1}")
            sheet.add_data_validation(choice)


def _write_outputs(
    sheet: Worksheet,
    model: AdditiveModel,
    columns: PredictColumns,
    terms: Sequence[TermCells],
    positions: Sequence[Sequence[Position]],
    intercepts: Sequence[str],
    bounds: IntervalCells | None,
    style: str,
) -> None:
    """Headers and formulas of predictions, bounds, scores and contributions."""
    _put_output_headers(sheet, model, columns)
    if bounds:
        _put_group(sheet, columns.bounds.start, bounds.title, BOUNDS)
    background = PatternFill("solid", "E2EFDA")
    for line in columns.lines:
        formulas: dict[int, str] = {}
        for k, block in enumerate(columns.contributions):
            for column, term, position in zip(block, terms, positions, strict=True):
                formulas[column] = term.look_up(k, position, line)
            summed = f"SUM({letter(block.start)}{line}:{letter(block.stop - 1)}{line})" if len(block) else "0"
            formulas[columns.scores[k]] = f"{intercepts[k]}+{summed}"
        formulas |= link_formulas(columns, line) | (bounds.bound_formulas(columns, line) if bounds else {})
        inputs = f"{letter(columns.inputs.start)}{line}:{letter(columns.inputs.stop - 1)}{line}"
        is_blank = line >= FIRST_LINE + columns.n_rows
        for column, formula in formulas.items():
            cell = sheet.cell(line, column, f'=IF(COUNTA({inputs})=0,"",{formula})' if is_blank else f"={formula}")
            is_share = column in columns.probabilities or (columns.classes is not None and column in columns.bounds)
            cell.number_format = "0.0000" if is_share else style
            if column < columns.inputs.start:
                cell.fill = background
    sheet.freeze_panes = f"B{FIRST_LINE}"


def _put_output_headers(sheet: Worksheet, model: AdditiveModel, columns: PredictColumns) -> None:
    labels = output_labels(model)
    if columns.classes is None:
        _put_group(sheet, 1, "", ["prediction"] if len(labels) == 1 else [f"prediction {label}" for label in labels])
    else:
        _put_group(sheet, 1, "", ["prediction"])
        _put_group(sheet, 2, "probability of", columns.classes)
        _put_group(sheet, columns.scores.start, score_name(model), labels)
    for block, label in zip(columns.contributions, labels, strict=True):
        title = "contributions" + (f" to {label}" if model.n_outputs > 1 else "")
        _put_group(sheet, block.start, title, model.term_names)


def _put_group(sheet: Worksheet, first: int, title: str, names: Sequence[Any]) -> None:
    """Headers of columns side by side, with a title above the first."""
    put_headers(sheet, FIRST_LINE - 2, first, [title, *[""] * len(names)][: len(names)])
    put_headers(sheet, FIRST_LINE - 1, first, names)
