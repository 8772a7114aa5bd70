"""Excel: an AdditiveModel as a workbook that computes. The only file that knows openpyxl.

Sheets: "Predict", where a person types rows and formulas give contributions, scores and predictions; "Terms", the
index; one sheet a term with its table; "Positions", where each row stands on each axis; "Axes", knots and levels. All
formulas are plain and old (INDEX, MATCH, IF, EXP, SUMPRODUCT, …), so that Excel 2010, LibreOffice and their like
compute them. Whatever comes from the data is stored as text, never as a formula.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoding.axis import Axis
from ..encoding.layout import Layout, raise_if_infinite
from ..model.additive_model import AdditiveModel
from ..model.scorecard import number_format, output_labels, reachable_cells, score_name
from ..serialization.temporary_file import replace_when_done
from .plain import find_small

if TYPE_CHECKING:
    from openpyxl.cell.cell import Cell
    from openpyxl.worksheet.worksheet import Worksheet

BLANK_LINES = 20  # below the example, for a person to fill
FIRST_LINE = 5  # of the rows on "Predict" and "Positions"
FIRST_KNOT = 3  # on "Axes"
FIRST_CELL = 4  # of the tables on a term's sheet
MAX_LINES, MAX_COLUMNS, MAX_TEXT, MAX_SHEET_NAME = 1_048_576, 16_384, 32_767, 31
MAX_WIDTH = 40  # of a column, in characters
HEADER, INPUT, RESULT = "D9E1F2", "FFF2CC", "E2EFDA"
LOW, MIDDLE, HIGH = "5A8AC6", "FFFFFF", "F8696B"
TEXT, WHOLE, PERCENT = "@", "0", "0.0%"
FONT = "Calibri"

# A file holds these characters as _xHHHH_; the underscore of a text that only looks so is held in the same way.
_ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
# Names of sheets have no such escape: LibreOffice decodes _xHHHH_ in them, but not in the formulas that refer to them.
_NOT_IN_NAMES = re.compile(rf"[\[\]:*?/\\\x00-\x1f]|{_ESCAPED.pattern}")


def to_excel(model: Any, path: str | os.PathLike, rows: Any = None) -> None:
    """Write a workbook that predicts.

    On the sheet "Predict" every line is a row. An empty cell is a missing value, a text that is no level of its column
    an unseen one; upper and lower case differ; numbers outside a column's range are read as its end. A line without
    any value stays empty, and a text where a number belongs gives #N/A. Spreadsheets tell numbers apart to about 15
    digits.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    path : where to write, ending in .xlsx
    rows : a table of rows to fill in, with formulas beside each; None gives an example and empty lines

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from openpyxl import load_workbook
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["time"], max_steps=20).fit(X, X[:, 0])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     to_excel(model, f"{folder}/model.xlsx")
    ...     load_workbook(f"{folder}/model.xlsx").sheetnames
    ['Predict', 'Terms', 'time', 'Positions', 'Axes']
    """
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise ImportError("to_excel needs the package openpyxl: pip install 'neuralbasis[excel]'") from error
    model, target = find_small(model), Path(path)
    if target.suffix.lower() != ".xlsx":
        raise ValueError(f"to_excel writes .xlsx files, but the path is {str(target)!r}; end it in .xlsx")
    values = _example(model) if rows is None else _raw_values(model, rows)
    plan = _plan_columns(model, len(values[0]), BLANK_LINES if rows is None else 0)
    layout = model.layout
    _check_size(plan, layout)

    book = Workbook()
    predict, index = book.worksheets[0], book.create_sheet("Terms")
    predict.title = "Predict"
    names = _name_sheets(model.term_names)
    tables = [_write_term(book.create_sheet(name), model, t) for t, name in enumerate(names)]
    positions, axes = book.create_sheet("Positions"), book.create_sheet("Axes")
    rulers = _write_axes(axes, layout)
    places = _write_positions(positions, layout, rulers, plan)
    intercepts = _write_index(index, model, names)
    _write_inputs(predict, model, plan, values, rulers)
    _write_outputs(predict, model, plan, tables, places, intercepts)
    book.calculation.fullCalcOnLoad = True
    with replace_when_done(target) as file:
        book.save(file)


def _example(model: AdditiveModel) -> list[list[Any]]:
    """One row: the middle knot, rounded, or the heaviest level of each column."""
    return [[_typical(axis)] for axis in model.encoder.axes]


def _typical(axis: Axis) -> Any:
    if axis.levels is None:
        return float(f"{axis.knots[len(axis.knots) // 2]:.4g}")
    return axis.levels[0 if axis.mass is None else int(np.argmax(axis.mass))]


def _raw_values(model: AdditiveModel, rows: Any) -> list[list[Any]]:
    """For each column its values as a person would type them: numbers, texts of levels, None for missing."""
    found: list[list[Any]] = []
    for index, (axis, column) in enumerate(zip(model.encoder.axes, model.find_columns(rows), strict=True)):
        if axis.levels is None:
            numbers = column.to_numbers().numbers
            assert numbers is not None
            raise_if_infinite(model.encoder.axes, index if np.isinf(numbers).any() else -1)
            found.append([None if np.isnan(number) else number for number in numbers.tolist()])
        else:
            labels = column.to_labels()
            assert labels.codes is not None
            assert labels.levels is not None
            _check_texts(axis.name, labels.levels)
            found.append([None if code < 0 else labels.levels[code] for code in labels.codes])
    return found


@dataclass(frozen=True)
class _Plan:
    """Which columns of "Predict" hold what, and which of its lines.

    classes : labels of the classes, None for a regression
    inputs, scores, probabilities : columns of these
    contributions : for each output, one column a term
    n_rows, n_blank : lines with a row, and empty ones below
    """

    classes: list[Any] | None
    inputs: range
    scores: range
    probabilities: range
    contributions: list[range]
    n_rows: int
    n_blank: int

    @property
    def lines(self) -> range:
        return range(FIRST_LINE, FIRST_LINE + self.n_rows + self.n_blank)


def _plan_columns(model: AdditiveModel, n_rows: int, n_blank: int) -> _Plan:
    """Predictions stand first, where they stay in sight; then the row, then what the predictions are made of."""
    n_inputs, n_outputs, n_terms = len(model.encoder.axes), model.n_outputs, len(model.shapes)
    if model.link == "identity":
        classes, first = None, n_outputs + 1
        probabilities = range(0)
    else:
        classes = [0, 1] if model.classes is None else model.classes.tolist()
        probabilities = range(2, 2 + len(classes))
        first = probabilities.stop
    inputs = range(first, first + n_inputs)
    scores = range(1, first) if classes is None else range(inputs.stop, inputs.stop + n_outputs)
    start = max(inputs.stop, scores.stop)
    contributions = [range(start + k * n_terms, start + (k + 1) * n_terms) for k in range(n_outputs)]
    return _Plan(classes, inputs, scores, probabilities, contributions, n_rows, n_blank)


def _check_size(plan: _Plan, layout: Layout) -> None:
    """Refuse what a sheet cannot hold."""
    for axis in layout.axes:
        _check_texts(axis.name, axis.levels or ())
    sizes = [layout.table_shape(t) for t in range(len(layout.terms))]
    heights = [(int(np.prod(size[:-1])) + 3) * len(plan.contributions) for size in sizes if len(size) > 1]
    tallest = max([plan.lines.stop, *heights, *(axis.n_cells for axis in layout.axes)]) + FIRST_CELL
    widest = max([plan.contributions[-1].stop, 2 * len(layout.axes), *(size[-1] for size in sizes)]) + 2
    for count, limit, unit in ((tallest, MAX_LINES, "lines"), (widest, MAX_COLUMNS, "columns")):
        if count > limit:
            raise ValueError(
                f"the workbook would need a sheet of {count:,} {unit}, but Excel has {limit:,}; give fewer rows, or "
                "export a model with fewer terms, classes or levels"
            )


def _check_texts(name: str, texts: Iterable[str]) -> None:
    longest = max(map(len, texts), default=0)
    if longest > MAX_TEXT:
        raise ValueError(
            f"column {name!r} has a level of {longest:,} characters, but a cell of Excel holds {MAX_TEXT:,}: "
            "shorten the level before fitting"
        )


def _name_sheets(names: Sequence[str]) -> list[str]:
    """Valid, different names of sheets, near to those of the terms.

    >>> _name_sheets(["rate [%]", "Rate [%]", "terms", "'a'"])
    ['rate (%)', 'Rate (%) (2)', 'terms (2)', 'a']
    """
    taken = {"predict", "terms", "positions", "axes", "history"}  # the last is Excel's own
    found = []
    for name in names:
        plain = _NOT_IN_NAMES.sub("-", name.replace("[", "(").replace("]", ")"))[:MAX_SHEET_NAME].strip(" '") or "term"
        sheet, count = plain, 1
        while sheet.lower() in taken:
            count += 1
            sheet = f"{plain[: MAX_SHEET_NAME - len(str(count)) - 3]} ({count})"
        taken.add(sheet.lower())
        found.append(sheet)
    return found


def _letter(column: int) -> str:
    from openpyxl.utils import get_column_letter

    return get_column_letter(column)


def _range(sheet: str, lines: range, columns: range) -> str:
    """An absolute reference to cells of a sheet."""
    quoted = sheet.replace("'", "''")
    first, last = _letter(columns.start), _letter(columns.stop - 1)
    return f"'{quoted}'!${first}${lines.start}:${last}${lines.stop - 1}"


def _put(sheet: Worksheet, line: int, column: int, value: Any, style: str | None = None) -> Cell:
    """Store a number or a text, which never becomes a formula."""
    cell = sheet.cell(line, column)
    if isinstance(value, str):
        cell.value = _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04X}_", value)
        cell.data_type = "s"
    else:
        cell.value = value
    if style:
        cell.number_format = style
    return cell


def _put_headers(sheet: Worksheet, line: int, first: int, texts: Iterable[Any]) -> None:
    from openpyxl.styles import Alignment, Font, PatternFill

    for column, text in enumerate(texts, first):
        cell = _put(sheet, line, column, text, TEXT if isinstance(text, str) else None)
        cell.font, cell.fill = Font(FONT, bold=True), PatternFill("solid", HEADER)
        cell.alignment = Alignment(horizontal="center", vertical="top", wrap_text=True)
        needed = min(max(10, len(str(text)) + 2), MAX_WIDTH)
        width = sheet.column_dimensions[_letter(column)]
        width.width = max(width.width if width.customWidth else 0, needed)


def _put_title(sheet: Worksheet, title: str, note: str = "") -> None:
    """Head a sheet, and let it print on the width of one page."""
    from openpyxl.styles import Font

    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0

    _put(sheet, 1, 1, title, TEXT).font = Font(FONT, bold=True, size=14)
    _put(sheet, 2, 1, note, TEXT).font = Font(FONT, italic=True, color="666666")


def _link_to(cell: Cell, sheet: str) -> None:
    from openpyxl.styles import Font
    from openpyxl.worksheet.hyperlink import Hyperlink

    quoted = sheet.replace("'", "''")
    cell.hyperlink = Hyperlink(ref="", location=f"'{quoted}'!A1")
    cell.font = Font(FONT, color="0563C1", underline="single")


@dataclass(frozen=True)
class _Ruler:
    """Where an axis stands on "Axes": its knots or levels, and the widths to the next knots, if it has any."""

    ticks: str
    widths: str | None
    n_ticks: int
    is_level: bool


def _write_axes(sheet: Worksheet, layout: Layout) -> list[_Ruler]:
    rulers, column = [], 1
    for axis in layout.axes:
        ticks: Sequence[Any] = axis.knots.tolist() if axis.levels is None else axis.levels
        lines, has_width = range(FIRST_KNOT, FIRST_KNOT + len(ticks)), axis.levels is None and len(ticks) > 1
        _put_headers(sheet, 1, column, [axis.name] * (1 + has_width))
        _put_headers(sheet, 2, column, ["level" if axis.is_level else "knot", "to the next"][: 1 + has_width])
        for line, tick in zip(lines, ticks, strict=True):
            _put(sheet, line, column, tick, TEXT if axis.is_level else None)
        # Widths are stored: a spreadsheet takes the difference of two knots near to each other for zero.
        for line, width in zip(lines, np.diff(axis.knots).tolist() if has_width else [], strict=False):
            _put(sheet, line, column + 1, width)
        ranges = [_range("Axes", lines, range(c, c + 1)) for c in (column, column + 1)]
        rulers.append(_Ruler(ranges[0], ranges[1] if has_width else None, len(ticks), axis.is_level))
        column += 1 + has_width
    sheet.freeze_panes = f"A{FIRST_KNOT}"
    return rulers


@dataclass(frozen=True)
class _Place:
    """Columns of "Positions" that say where rows stand on an axis: a cell, and the share of the next one, if any."""

    cell: str
    share: str | None

    def at(self, line: int, upper: int) -> str:
        return f"Positions!{self.cell}{line}" + "+1" * upper

    def weight(self, line: int, upper: int) -> list[str]:
        if self.share is None:
            return []
        return [f"Positions!{self.share}{line}" if upper else f"(1-Positions!{self.share}{line})"]


def _write_positions(sheet: Worksheet, layout: Layout, rulers: Sequence[_Ruler], plan: _Plan) -> list[list[_Place]]:
    """For each term its places, one an axis."""
    _put_title(sheet, "Positions", "where each row stands on each axis: cell 1 is a missing value, 2 the first knot")
    places: dict[int, _Place] = {}
    column = 1
    for a in np.unique(layout.term_axis).tolist():
        ruler, source = rulers[a], _letter(plan.inputs[layout.axis_column[a]])
        has_share = ruler.widths is not None
        names = [layout.axes[a].name] * (1 + has_share)
        _put_headers(sheet, FIRST_LINE - 2, column, names)
        _put_headers(sheet, FIRST_LINE - 1, column, ["cell", "share of the next"][: 1 + has_share])
        places[a] = _Place(_letter(column), _letter(column + 1) if has_share else None)
        for line in plan.lines:
            value, cell = f"Predict!{source}{line}", f"{_letter(column)}{line}"
            sheet.cell(line, column, _cell_formula(ruler, value))
            if has_share:
                sheet.cell(line, column + 1, _share_formula(ruler, value, cell)).number_format = "0.0000"
        column += 1 + has_share
    sheet.freeze_panes = f"A{FIRST_LINE}"
    bounds = zip(layout.term_start[:-1], layout.term_start[1:], strict=True)
    return [[places[a] for a in layout.term_axis[low:high].tolist()] for low, high in bounds]


def _cell_formula(ruler: _Ruler, value: str) -> str:
    """The cell at or below a value: 1 missing, 2 … the knots or levels, then unseen; the last knot is never below."""
    ticks, count = ruler.ticks, ruler.n_ticks
    if ruler.is_level:  # EXACT, as MATCH takes "a" for "A" and reads * and ? as wildcards
        found = f"SUMPRODUCT(EXACT({ticks},{value})*({count + FIRST_KNOT}-ROW({ticks})))"
        return f"=IF(ISBLANK({value}),1,{count + 2}-{found})"
    inside = f"IF({value}<INDEX({ticks},1),2,MIN(MATCH({value},{ticks},1)+1,{count}))" if count > 1 else "2"
    return f"=IF(ISBLANK({value}),1,IF(ISNUMBER({value}),{inside},NA()))"


def _share_formula(ruler: _Ruler, value: str, cell: str) -> str:
    """The way from the knot at or below a value to the next; a quotient is taken between two knots only."""
    knot, width = (f"INDEX({cells},{cell}-1)" for cells in (ruler.ticks, ruler.widths))
    inside = f"IF({value}-{knot}>={width},1,({value}-{knot})/{width})"
    return f"=IF(ISBLANK({value}),0,IF({value}<={knot},0,{inside}))"


@dataclass(frozen=True)
class _Table:
    """References to a term's cells, one an output, and the numbers of cells along its axes."""

    cells: list[str]
    sizes: list[int]

    def look_up(self, output: int, places: Sequence[_Place], line: int) -> str:
        """The cells around a row's position, each times its weight."""
        corners = []
        for corner in product(*[(0, 1) if place.share else (0,) for place in places]):
            ats = [place.at(line, upper) for place, upper in zip(places, corner, strict=True)]
            weights = [w for place, upper in zip(places, corner, strict=True) for w in place.weight(line, upper)]
            *leading, last = ats
            at = leading[0] if leading else last
            for size, inner in zip(self.sizes[1:-1], leading[1:], strict=True):
                at = f"({at}-1)*{size}+{inner}"
            index = f"{at},{last}" if leading else at
            corners.append("*".join([*weights, f"INDEX({self.cells[output]},{index})"]))
        return "+".join(corners)


def _write_term(sheet: Worksheet, model: AdditiveModel, index: int) -> _Table:
    shape, name = model.shapes[index], model.term_names[index]
    _put_title(sheet, name)
    back = _put(sheet, 2, 1, "all terms")
    _link_to(back, "Terms")
    inner = tuple(reachable_cells(axis) for axis in shape.axes)
    scores, spread, weights = shape.scores[inner], shape.spread[inner], shape.weights[inner]
    ticks = [_name_cells(axis) for axis in shape.axes]
    if len(shape.axes) == 1:
        cells = _write_curve(sheet, model, ticks[0], scores, spread, weights)
        if not shape.axes[0].is_level and len(ticks[0]) > 2:
            _draw_curve(sheet, model.n_outputs, len(ticks[0]))
    else:
        cells = _write_grids(sheet, model, [model.encoder.names[f] for f in shape.term], ticks, scores)
    return _Table(cells, list(weights.shape))


def _name_cells(axis: Axis) -> list[Any]:
    if axis.levels is None:
        return ["missing", *axis.knots.tolist()]
    return ["missing", *axis.levels, "any other"]


def _score_style(model: AdditiveModel) -> str:
    """The number format of all scores: digits enough for the largest contribution."""
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
    """A main effect: one line a cell."""
    n_outputs, style, total = model.n_outputs, _score_style(model), float(weights.sum()) or 1.0
    labels = output_labels(model)
    _put_headers(sheet, FIRST_CELL - 1, 1, ["value", *labels, *["±"] * n_outputs, "rows", "share of rows"])
    for place, tick in enumerate(ticks):
        line = FIRST_CELL + place
        _put(sheet, line, 1, tick, TEXT if isinstance(tick, str) else None)
        for column, score in enumerate([*scores[place].tolist(), *spread[place].tolist()], 2):
            _put(sheet, line, column, score, style)
        _put(sheet, line, 2 + 2 * n_outputs, float(weights[place]), WHOLE)
        _put(sheet, line, 3 + 2 * n_outputs, float(weights[place]) / total, PERCENT)
    sheet.freeze_panes = f"B{FIRST_CELL}"
    _widen(sheet, ticks)
    lines = range(FIRST_CELL, FIRST_CELL + len(ticks))
    return [_range(sheet.title, lines, range(2 + k, 3 + k)) for k in range(n_outputs)]


def _write_grids(
    sheet: Worksheet, model: AdditiveModel, names: Sequence[str], ticks: Sequence[Sequence[Any]], scores: np.ndarray
) -> list[str]:
    """An interaction: for each output a grid, its last column across, the others down."""
    found, line, n_leading = [], FIRST_CELL - 1, len(names) - 1
    style = _score_style(model)
    across = range(n_leading + 1, n_leading + 1 + len(ticks[-1]))
    for k, label in enumerate(output_labels(model)):
        _put_headers(sheet, line, 1, [*names[:-1], *[""] * len(ticks[-1])])
        _put_headers(sheet, line, across.start, [names[-1] if model.n_outputs == 1 else f"{names[-1]}, for {label}"])
        _put_headers(sheet, line + 1, 1, [""] * n_leading)
        _put_headers(sheet, line + 1, across.start, ticks[-1])
        lines = range(line + 2, line + 2 + int(np.prod(scores.shape[:n_leading])))
        for at, place in zip(lines, product(*ticks[:-1]), strict=True):
            _put_headers(sheet, at, 1, place)
        for at, row in zip(lines, scores[..., k].reshape(len(lines), -1).tolist(), strict=True):
            for column, score in zip(across, row, strict=True):
                _put(sheet, at, column, score, style)
        found.append(_range(sheet.title, lines, across))
        _colour(sheet, found[-1].split("!")[-1], float(np.abs(scores).max()) or 1.0)
        line = lines.stop + 1
    sheet.freeze_panes = f"{_letter(across.start)}{FIRST_CELL + 1 if model.n_outputs == 1 else FIRST_CELL - 1}"
    return found


def _widen(sheet: Worksheet, ticks: Iterable[Any]) -> None:
    width = max(len(str(tick)) for tick in ticks) + 2
    sheet.column_dimensions["A"].width = min(max(12, width), MAX_WIDTH)


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
    sheet.add_chart(chart, f"{_letter(6 + 2 * n_outputs)}{FIRST_CELL - 1}")


def _write_index(sheet: Worksheet, model: AdditiveModel, names: Sequence[str]) -> list[str]:
    """Intercepts and the terms by importance; returns the cells of the intercepts."""
    from openpyxl.formatting.rule import DataBarRule

    _put_title(sheet, "Terms", f"{score_name(model)} = intercept + the contribution of every term")
    line, intercepts = 4, []
    for label, start in zip(output_labels(model), model.intercept.tolist(), strict=True):
        _put_headers(sheet, line, 1, ["intercept" if model.n_outputs == 1 else f"intercept of {label}"])
        _put(sheet, line, 2, start, _score_style(model))
        intercepts.append(f"Terms!$B${line}")
        line += 1
    line += 1
    _put_headers(sheet, line, 1, ["term", "kind", "lowest", "highest", "importance"])
    sheet.freeze_panes = f"A{line + 1}"
    importances, style = model.importances(), _score_style(model)
    for t in np.argsort(-importances, kind="stable").tolist():
        line += 1
        shape = model.shapes[t]
        scores = shape.scores[tuple(reachable_cells(axis) for axis in shape.axes)]
        _link_to(_put(sheet, line, 1, model.term_names[t], TEXT), names[t])
        _put(sheet, line, 2, shape.axes[0].kind if len(shape.axes) == 1 else {2: "pair"}.get(len(shape.axes), "triple"))
        for column, number in enumerate((scores.min(), scores.max()), 3):
            _put(sheet, line, column, float(number), style)
        _put(sheet, line, 5, float(importances[t]), style)
    if len(names):
        bars = DataBarRule(start_type="num", start_value=0, end_type="max", end_value=None, color=LOW)
        sheet.conditional_formatting.add(f"E{line - len(names) + 1}:E{line}", bars)
    _widen(sheet, ["intercept", *model.term_names])
    sheet.column_dimensions["E"].width = 24
    return intercepts


def _write_inputs(
    sheet: Worksheet, model: AdditiveModel, plan: _Plan, values: Sequence[Sequence[Any]], rulers: Sequence[_Ruler]
) -> None:
    """The cells for the rows' values: coloured, levels with a list to choose from."""
    from openpyxl.styles import Border, PatternFill, Side
    from openpyxl.worksheet.datavalidation import DataValidation

    _put_title(sheet, "Predict", "one row a line: type its values into the yellow cells; leave a missing value empty")
    _put_headers(sheet, FIRST_LINE - 1, plan.inputs.start, model.encoder.names)
    _put_headers(sheet, FIRST_LINE - 2, plan.inputs.start, ["values of the row", *[""] * (len(plan.inputs) - 1)])
    fill, line_style = PatternFill("solid", INPUT), Side("hair", "999999")
    border = Border(top=line_style, bottom=line_style, left=line_style, right=line_style)
    for column, axis, ruler, given in zip(plan.inputs, model.encoder.axes, rulers, values, strict=False):
        for line, value in zip(plan.lines, [*given, *[None] * plan.n_blank], strict=True):
            cell = sheet.cell(line, column, '=""') if value == "" else _put(sheet, line, column, value)
            cell.fill, cell.border = fill, border
            cell.number_format = TEXT if axis.is_level else "General"
        if axis.is_level:  # a list that suggests; a level that it does not have is allowed
            letter = _letter(column)
            choice = DataValidation("list", formula1=ruler.ticks, allow_blank=True, showErrorMessage=False)
            choice.add(f"{letter}{plan.lines.start}:{letter}{plan.lines.stop - 1}")
            sheet.add_data_validation(choice)


def _write_outputs(
    sheet: Worksheet,
    model: AdditiveModel,
    plan: _Plan,
    tables: Sequence[_Table],
    places: Sequence[Sequence[_Place]],
    intercepts: Sequence[str],
) -> None:
    """Headers and formulas of everything that is computed."""
    _put_output_headers(sheet, model, plan)
    style = _score_style(model)
    result = _result_fill()
    for line in plan.lines:
        formulas: dict[int, str] = {}
        for k, columns in enumerate(plan.contributions):
            for column, table, used in zip(columns, tables, places, strict=True):
                formulas[column] = table.look_up(k, used, line)
            summed = f"SUM({_letter(columns.start)}{line}:{_letter(columns.stop - 1)}{line})" if len(columns) else "0"
            formulas[plan.scores[k]] = f"{intercepts[k]}+{summed}"
        formulas |= _link_formulas(plan, line)
        inputs = f"{_letter(plan.inputs.start)}{line}:{_letter(plan.inputs.stop - 1)}{line}"
        is_blank = line >= FIRST_LINE + plan.n_rows
        for column, formula in formulas.items():
            cell = sheet.cell(line, column, f'=IF(COUNTA({inputs})=0,"",{formula})' if is_blank else f"={formula}")
            cell.number_format = "0.0000" if column in plan.probabilities else style
            if column < plan.inputs.start:
                cell.fill = result
    sheet.freeze_panes = f"B{FIRST_LINE}"


def _result_fill() -> Any:
    from openpyxl.styles import PatternFill

    return PatternFill("solid", RESULT)


def _put_output_headers(sheet: Worksheet, model: AdditiveModel, plan: _Plan) -> None:
    group, head = FIRST_LINE - 2, FIRST_LINE - 1
    labels = output_labels(model)
    if plan.classes is None:
        names = ["prediction"] if model.n_outputs == 1 else [f"prediction {label}" for label in labels]
        _put_headers(sheet, group, 1, [""] * len(names))
        _put_headers(sheet, head, 1, names)
    else:
        _put_headers(sheet, group, 1, ["", "probability of", *[""] * (len(plan.classes) - 1)])
        _put_headers(sheet, head, 1, ["prediction", *plan.classes])
        _put_headers(sheet, group, plan.scores.start, [score_name(model), *[""] * (len(labels) - 1)])
        _put_headers(sheet, head, plan.scores.start, labels)
    for columns, label in zip(plan.contributions, labels, strict=True):
        title = "contributions" + (f" to {label}" if model.n_outputs > 1 else "")
        _put_headers(sheet, group, columns.start, [title, *[""] * len(columns)][: len(columns)])
        _put_headers(sheet, head, columns.start, model.term_names)


def _link_formulas(plan: _Plan, line: int) -> dict[int, str]:
    """Probabilities and the most probable class; labels are read from the header, not written into formulas."""
    if plan.classes is None:
        return {}
    header = [f"${_letter(column)}${FIRST_LINE - 1}" for column in plan.probabilities]
    first, last = (f"{_letter(column)}{line}" for column in (plan.scores[0], plan.scores[-1]))
    if len(plan.scores) == 1:
        negative, positive = plan.probabilities
        tail = f"EXP(-ABS({first}))"  # never overflows
        found = {positive: f"IF({first}>=0,1,{tail})/(1+{tail})", negative: f"1-{_letter(positive)}{line}"}
        return {**found, 1: f"IF({first}>0,{header[1]},{header[0]})"}
    scores = f"{first}:{last}"
    total = f"SUMPRODUCT(EXP({scores}-MAX({scores})))"
    pairs = zip(plan.probabilities, plan.scores, strict=True)
    odds = {column: f"EXP({_letter(score)}{line}-MAX({scores}))/{total}" for column, score in pairs}
    return {**odds, 1: f"INDEX({header[0]}:{header[-1]},MATCH(MAX({scores}),{scores},0))"}
