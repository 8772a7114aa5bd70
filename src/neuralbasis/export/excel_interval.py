"""Sheet "Interval" of a workbook: quantiles of the residuals by region of the score, and the region of each row.

In: an interval and an empty sheet. Out: references to the written cells, for the formulas of both bounds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from openpyxl.worksheet.worksheet import Worksheet

from .excel_cells import letter, put, put_headers, put_title, reference
from .excel_formulas import FIRST_LINE, AxisCells, Position, PredictColumns
from .plain import BOUNDS, PlainInterval

SHEET = "Interval"


@dataclass(frozen=True)
class IntervalCells:
    """References to the quantiles of both bounds, and the columns with the region of each row."""

    title: str
    quantiles: list[str]
    position: Position
    is_probability: bool

    def bound_formulas(self, columns: PredictColumns, line: int) -> dict[int, str]:
        """Formulas of both bounds by column: the score plus a quantile, linear between the centres of the regions."""
        cell, share = (column and f"{SHEET}!{column}{line}" for column in self.position)
        score, found = f"{letter(columns.scores[0])}{line}", {}
        for column, cells in zip(columns.bounds, self.quantiles, strict=True):
            low, high = f"INDEX({cells},{cell}-1)", f"INDEX({cells},{cell})"
            bound = f"{score}+(1-{share})*{low}+{share}*{high}" if share else f"{score}+{low}"
            found[column] = f"1/(1+EXP(-MAX({bound},-700)))" if self.is_probability else bound  # never overflows
        return found


def write_interval(sheet: Worksheet, interval: PlainInterval, columns: PredictColumns, style: str) -> IntervalCells:
    """Write the regions, and beside them formulas for the region of each row on "Predict"."""
    title, has_width = f"{100 * interval.coverage:g} % interval", len(interval.centres) > 1
    rule = "a bound is the score plus a quantile over held-out rows with a similar score"
    put_title(sheet, title, rule + ", as a probability" * interval.is_probability)
    put_headers(sheet, FIRST_LINE - 1, 1, ["score", "to the next", *BOUNDS])
    widths = [*np.diff(interval.centres).tolist(), None]  # stored for the reason given in `write_axes`
    regions = zip(interval.centres, widths, *interval.quantiles, strict=True)
    for line, numbers in enumerate(regions, FIRST_LINE):
        for column, number in enumerate(numbers, 1):
            put(sheet, line, column, number, style)
    lines = range(FIRST_LINE, FIRST_LINE + len(interval.centres))
    cells = [reference(SHEET, lines, range(column, column + 1)) for column in range(1, 5)]
    axis = AxisCells(cells[0], cells[1] if has_width else None, len(lines), is_level=False)
    put_headers(sheet, FIRST_LINE - 1, 6, ["row: cell", "share of the next"][: 1 + has_width])
    for line in columns.lines:
        value = f"Predict!{letter(columns.scores[0])}{line}"
        formulas = [axis.cell_formula(value), *([axis.share_formula(value, f"F{line}")] if has_width else [])]
        for column, formula in enumerate(formulas, 6):
            sheet.cell(line, column, f'=IF({value}="","",{formula[1:]})').number_format = (
                "0.0000" if column > 6 else "0"
            )
    sheet.freeze_panes = f"A{FIRST_LINE}"
    return IntervalCells(title, cells[2:], ("F", "G" if has_width else None), interval.is_probability)
