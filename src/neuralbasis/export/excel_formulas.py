"""Formulas of the workbook: from a row's values to positions, contributions, scores and probabilities.

All functions are old ones (INDEX, MATCH, IF, EXP, SUMPRODUCT, …), which Excel 2010 and LibreOffice compute alike. In
formulas, cell 1 of an axis is a missing value, cells 2 … are its knots or levels, and the last is an unseen level.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..model.additive_model import AdditiveModel
from .excel_cells import letter

FIRST_LINE = 5  # of the rows on "Predict" and "Positions"
FIRST_KNOT = 3  # line of the first knot on "Axes"
Position = tuple[str, str | None]  # columns of "Positions" for an axis: the cell, and the share of the next one if any


@dataclass(frozen=True)
class PredictColumns:
    """Columns and lines of the sheet "Predict".

    classes : labels of the classes, None for a regression
    inputs, scores, probabilities, bounds : columns of these
    contributions : for each output, one column per term
    lines, n_rows : lines for rows, and the number of those that have one; the others are empty
    """

    classes: list[Any] | None
    inputs: range
    scores: range
    probabilities: range
    bounds: range
    contributions: list[range]
    lines: range
    n_rows: int


def place_columns(model: AdditiveModel, n_rows: int, n_blank: int, n_bounds: int) -> PredictColumns:
    """Predictions first, where they stay visible, then the values of the row, then scores and contributions."""
    n_inputs, n_outputs, n_terms = len(model.encoder.axes), model.n_outputs, len(model.shapes)
    if model.link == "identity":
        classes, probabilities, first = None, range(0), n_outputs + 1 + n_bounds
    else:
        classes = [0, 1] if model.classes is None else model.classes.tolist()
        probabilities = range(2, 2 + len(classes))
        first = probabilities.stop + n_bounds
    inputs = range(first, first + n_inputs)
    scores = range(1, first - n_bounds) if classes is None else range(inputs.stop, inputs.stop + n_outputs)
    start = max(inputs.stop, scores.stop)
    contributions = [range(start + k * n_terms, start + (k + 1) * n_terms) for k in range(n_outputs)]
    lines = range(FIRST_LINE, FIRST_LINE + n_rows + n_blank)
    bounds = range(first - n_bounds, first)
    return PredictColumns(classes, inputs, scores, probabilities, bounds, contributions, lines, n_rows)


@dataclass(frozen=True)
class AxisCells:
    """References to an axis on "Axes": its knots or levels, and the widths to the next knots, if there are any."""

    ticks: str
    widths: str | None
    n_ticks: int
    is_level: bool

    def cell_formula(self, value: str) -> str:
        """The cell at or below a value. The last knot of several is never the cell below."""
        ticks, count = self.ticks, self.n_ticks
        if self.is_level:  # EXACT, because MATCH ignores case and reads * and ? as wildcards
            found = f"SUMPRODUCT(EXACT({ticks},{value})*({count + FIRST_KNOT}-ROW({ticks})))"
            return f"=IF(ISBLANK({value}),1,{count + 2}-{found})"
        inside = f"IF({value}<INDEX({ticks},1),2,MIN(MATCH({value},{ticks},1)+1,{count}))" if count > 1 else "2"
        return f"=IF(ISBLANK({value}),1,IF(ISNUMBER({value}),{inside},NA()))"

    def share_formula(self, value: str, cell: str) -> str:
        """The weight of the next cell, in [0, 1]. Only values between two knots are divided by a width."""
        knot, width = (f"INDEX({cells},{cell}-1)" for cells in (self.ticks, self.widths))
        inside = f"IF({value}-{knot}>={width},1,({value}-{knot})/{width})"
        return f"=IF(ISBLANK({value}),0,IF({value}<={knot},0,{inside}))"


@dataclass(frozen=True)
class TermCells:
    """References to the table of a term, one per output, and the number of cells along each axis."""

    cells: list[str]
    sizes: list[int]

    def look_up(self, output: int, positions: Sequence[Position], line: int) -> str:
        """The contribution of a row: the cells around its position, each times its weight."""
        corners = []
        for corner in product(*[(0, 1) if share else (0,) for _, share in positions]):
            weights, cells = [], []
            for (cell, share), upper in zip(positions, corner, strict=True):
                cells.append(f"Positions!{cell}{line}" + "+1" * upper)
                if share:
                    weights.append(f"Positions!{share}{line}" if upper else f"(1-Positions!{share}{line})")
            *leading, last = cells
            at = leading[0] if leading else last
            for size, inner in zip(self.sizes[1:-1], leading[1:], strict=True):
                at = f"({at}-1)*{size}+{inner}"
            index = f"{at},{last}" if leading else at
            corners.append("*".join([*weights, f"INDEX({self.cells[output]},{index})"]))
        return "+".join(corners)


def link_formulas(columns: PredictColumns, line: int) -> dict[int, str]:
    """Formulas of the probabilities and of the most probable class, by column. The header holds the labels."""
    if columns.classes is None:
        return {}
    header = [f"${letter(column)}${FIRST_LINE - 1}" for column in columns.probabilities]
    first, last = (f"{letter(column)}{line}" for column in (columns.scores[0], columns.scores[-1]))
    if len(columns.scores) == 1:
        negative, positive = columns.probabilities
        tail = f"EXP(-ABS({first}))"  # never overflows
        found = {positive: f"IF({first}>=0,1,{tail})/(1+{tail})", negative: f"1-{letter(positive)}{line}"}
        return {**found, 1: f"IF({first}>0,{header[1]},{header[0]})"}
    scores = f"{first}:{last}"
    total = f"SUMPRODUCT(EXP({scores}-MAX({scores})))"
    pairs = zip(columns.probabilities, columns.scores, strict=True)
    odds = {column: f"EXP({letter(score)}{line}-MAX({scores}))/{total}" for column, score in pairs}
    return {**odds, 1: f"INDEX({header[0]}:{header[-1]},MATCH(MAX({scores}),{scores},0))"}
