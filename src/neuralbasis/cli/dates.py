"""Dates: columns of their parts, which a model can use.

    admitted = 2024-03-15 10:30   ->   admitted year, admitted month, admitted weekday, admitted hour

In: columns of dates, or of texts as ISO 8601 writes them. Out: columns of numbers, and of names of weekdays. A model
that has the column "admitted month" reads it from the column "admitted" of later tables.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from .errors import CommandError

PARTS = ("year", "month", "weekday", "hour")
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_YEAR = "(?:19|20)[0-9]{2}"
_NUMBERS = r"[0-9]{1,2}([./-])[0-9]{1,2}\1([0-9]{4}|[0-9]{2})"
_YEAR_FIRST = rf"{_YEAR}([./])[0-9]{{1,2}}\3[0-9]{{1,2}}|{_YEAR}-[01][0-9]"
_MONTH = (
    "(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|"
    r"nov(?:ember)?|dec(?:ember)?)\.?"
)
_NAMES = rf"[0-9]{{1,2}}\.?[ -]{_MONTH}[ -][0-9]{{2,4}}|{_MONTH} [0-9]{{1,2}},? [0-9]{{4}}|{_MONTH}[ -][0-9]{{2,4}}"
OTHER_DATE = re.compile(
    rf"(?:{_NUMBERS}|{_YEAR_FIRST}|{_NAMES})(?:[ T][0-9]{{1,2}}:[0-9]{{2}}.*)?", re.IGNORECASE
)  # not ISO 8601
ISO_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
DateParts = Mapping[str, tuple[str, str]]  # name of the new column -> name of the date, part


def find_date_parts(names: Iterable[str], available: Collection[str]) -> dict[str, tuple[str, str]]:
    """The names that are no columns but parts of one.

    >>> find_date_parts(["age", "admitted month"], ["age", "admitted"])
    {'admitted month': ('admitted', 'month')}
    """
    found = {}
    for name in names:
        date, _, part = name.rpartition(" ")
        if name not in available and part in PARTS and date in available:
            found[name] = (date, part)
    return found


def name_dates(names: Iterable[str], available: Collection[str]) -> list[str]:
    """The names, with that of the date instead of its absent parts, if there are two of them or more.

    >>> name_dates(["age", "admitted year", "admitted month"], ["age"])
    ['age', 'admitted']
    """
    dates = {name: name.rpartition(" ")[0] for name in names if name.rpartition(" ")[2] in PARTS}
    absent = [date for name, date in dates.items() if name not in available]
    return list(dict.fromkeys(dates[name] if absent.count(dates.get(name, "")) > 1 else name for name in names))


def split_date(name: str, column: pa.ChunkedArray) -> dict[str, pa.ChunkedArray]:
    """The parts of a column of dates; no hour if all times are midnight."""
    parts = {f"{name} {part}": take_part(column, part) for part in PARTS}
    if not pc.any(pc.not_equal(parts[f"{name} hour"], 0)).as_py():
        del parts[f"{name} hour"]
    return parts


def take_part(column: pa.Array | pa.ChunkedArray, part: str) -> pa.Array | pa.ChunkedArray:
    """One part of dates; a date without a time has hour 0."""
    column = read_times(column)
    if part != "weekday":
        return getattr(pc, part)(column)
    return pc.take(pa.array(WEEKDAYS), pc.day_of_week(column))


def read_times(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Dates, or texts of dates, as times without a zone; those with a zone are converted to UTC."""
    try:
        return column.cast(pa.timestamp("us"))
    except pa.ArrowInvalid:
        return column.cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))


def find_dates(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A text column as times if all of its texts are dates in the form of ISO 8601; other columns unchanged."""
    first = column.drop_null()[:1].to_pylist()
    if not first or not isinstance(first[0], str) or ISO_DATE.match(first[0]) is None:
        return column
    try:
        return read_times(column)
    except pa.ArrowInvalid:
        return column


def add_date_parts(batch: pa.RecordBatch, dates: DateParts, missing: Collection[str]) -> pa.RecordBatch:
    """The batch with these parts as further columns."""
    for name, (date, part) in dates.items():
        column = batch.column(date)
        if pa.types.is_string(column.type):
            column = pc.if_else(pc.is_in(column, pa.array(list(missing), pa.string())), None, column)
        try:
            batch = batch.append_column(name, take_part(column, part))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            example = next((value for value in column.to_pylist() if value is not None), None)
            raise CommandError(
                f"column {date!r} must hold dates such as 2024-03-15, since the model uses its {part}, but holds "
                f"values such as {str(example)!r}; write it in this form"
            ) from error
    return batch
