"""Markdown tables and the format of their figures."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(format_table(header, rows))


def format_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """The first column is left-aligned, all others are right-aligned."""
    lines = [list(header), *[list(row) for row in rows]]
    widths = [max(2, *(len(line[column]) for line in lines)) for column in range(len(header))]  # a rule is at least -:
    rule = ["-" * widths[0], *["-" * (width - 1) + ":" for width in widths[1:]]]
    formatted = []
    for line in [lines[0], rule, *lines[1:]]:
        cells = [
            line[0].ljust(widths[0]),
            *[cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)],
        ]
        formatted.append("| " + " | ".join(cells) + " |")
    return "\n".join(formatted)


def format_number(value: float | None, digits: int = 3) -> str:
    """Format with `digits` significant digits and commas between thousands; a dash for None and NaN.

    >>> format_number(0.012345), format_number(1234567.0), format_number(None)
    ('0.0123', '1,234,567', '–')
    """
    if value is None or not math.isfinite(value):
        return "–"
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    return f"{value:,.{places}f}"


def format_mean(values: Sequence[float], places: int) -> str:
    """Mean, and with two values or more ± standard deviation."""
    if not values:
        return "not run"
    text = f"{statistics.fmean(values):,.{places}f}"
    return text if len(values) < 2 else f"{text} ± {statistics.stdev(values):,.{places}f}"


def format_error(values: Sequence[float], places: int) -> str:
    """Mean, and with two values or more ± standard error and their number.

    >>> format_error([1.0, 2.0, 3.0], 3), format_error([1.0], 3)
    ('2.000 ± 0.577 (3)', '1.000')
    """
    if len(values) < 2:
        return format_mean(values, places)
    error = statistics.stdev(values) / math.sqrt(len(values))
    return f"{statistics.fmean(values):,.{places}f} ± {error:,.{places}f} ({len(values)})"


def format_verdict(met: bool | None) -> str:
    return {True: "met", False: "missed", None: "–"}[met]
