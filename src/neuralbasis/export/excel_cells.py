"""Cells of a workbook: addresses, names of sheets, values, styles.

Texts from the data are stored as text and never become formulas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from openpyxl.cell.cell import Cell
from openpyxl.styles import Alignment, Font, PatternFill
from openpyxl.utils import get_column_letter as letter
from openpyxl.worksheet.hyperlink import Hyperlink
from openpyxl.worksheet.worksheet import Worksheet

MAX_TEXT, MAX_SHEET_NAME = 32_767, 31  # limits of Excel, in characters
MAX_WIDTH = 40  # of a column, in characters
HEADER, FONT = "D9E1F2", "Calibri"
TEXT = "@"  # number format

# The file format escapes these characters as _xHHHH_, and the underscore of a text that only looks like an escape.
_ESCAPED = re.compile("[\x00-\x08\x0b-\x1f\ufffe\uffff]|_(?=x[0-9A-Fa-f]{4}_)")
# Sheet names cannot be escaped: LibreOffice decodes _xHHHH_ in them, but not in the formulas that refer to them.
_NOT_IN_NAMES = re.compile(rf"[\[\]:*?/\\\x00-\x1f]|{_ESCAPED.pattern}")


def reference(sheet: str, lines: range, columns: range) -> str:
    """An absolute reference to a block of cells."""
    first, last = letter(columns.start), letter(columns.stop - 1)
    return f"{_quote(sheet)}!${first}${lines.start}:${last}${lines.stop - 1}"


def _quote(sheet: str) -> str:
    return "'" + sheet.replace("'", "''") + "'"


def name_sheets(names: Sequence[str], others: Sequence[str] = ()) -> list[str]:
    """Valid sheet names, all different and different from `others`, close to the names of the terms.

    >>> name_sheets(["rate [%]", "Rate [%]", "terms", "'a'"])
    ['rate (%)', 'Rate (%) (2)', 'terms (2)', 'a']
    """
    taken = {"predict", "terms", "positions", "axes", "history", *map(str.lower, others)}  # Excel reserves "history"
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


def check_texts(name: str, texts: Iterable[str]) -> None:
    """Refuse levels of a column that do not fit into a cell."""
    longest = max(map(len, texts), default=0)
    if longest > MAX_TEXT:
        raise ValueError(
            f"column {name!r} has a level of {longest:,} characters, but a cell of Excel holds {MAX_TEXT:,}: "
            "shorten the level before fitting"
        )


def put(sheet: Worksheet, line: int, column: int, value: Any, style: str | None = None) -> Cell:
    """Store a number or a text. A text never becomes a formula."""
    cell = sheet.cell(line, column)
    if isinstance(value, str):
        cell.value = _ESCAPED.sub(lambda found: f"_x{ord(found[0]):04X}_", value)
        cell.data_type = "s"
    else:
        cell.value = value
    if style:
        cell.number_format = style
    return cell


def put_headers(sheet: Worksheet, line: int, first: int, texts: Iterable[Any]) -> None:
    """Store headers side by side, from the column `first` on."""
    for column, text in enumerate(texts, first):
        cell = put(sheet, line, column, text, TEXT if isinstance(text, str) else None)
        cell.font, cell.fill = Font(FONT, bold=True), PatternFill("solid", HEADER)
        cell.alignment = Alignment(horizontal="center", vertical="top", wrap_text=True)
        needed = min(max(10, len(str(text)) + 2), MAX_WIDTH)
        width = sheet.column_dimensions[letter(column)]
        width.width = max(width.width if width.customWidth else 0, needed)


def put_title(sheet: Worksheet, title: str, note: str = "") -> None:
    """Put a title on a sheet, which prints on the width of one page."""
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    put(sheet, 1, 1, title, TEXT).font = Font(FONT, bold=True, size=14)
    put(sheet, 2, 1, note, TEXT).font = Font(FONT, italic=True, color="666666")


def link_to(cell: Cell, sheet: str) -> None:
    """Let a cell open another sheet."""
    cell.hyperlink = Hyperlink(ref="", location=f"{_quote(sheet)}!A1")
    cell.font = Font(FONT, color="0563C1", underline="single")


def widen(sheet: Worksheet, texts: Iterable[Any]) -> None:
    """Fit the first column to its texts."""
    width = max(len(str(text)) for text in texts) + 2
    sheet.column_dimensions["A"].width = min(max(12, width), MAX_WIDTH)
