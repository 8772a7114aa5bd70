"""Tables of Excel workbooks and of JSON files, read whole.

In: a path. Out: an Arrow table. Excel needs pandas and openpyxl. JSON is a list of records, or one record a line.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from .columns import is_missing, level_text


def read_workbook(path: str) -> pa.Table:
    """The first sheet of an Excel workbook; its first row holds the names of the columns."""
    try:
        import pandas

        frame = pandas.read_excel(path)
    except ImportError as error:
        raise ImportError(
            f"{path}: reading Excel needs pandas and openpyxl: pip install pandas 'neuralbasis[excel]'; or save the "
            "sheet as CSV"
        ) from error
    except (ValueError, KeyError, OSError) as error:
        raise ValueError(
            f"{path} is not an Excel workbook that can be read; save it again as .xlsx, or as CSV"
        ) from error
    unnamed = [name for name in frame.columns if str(name).startswith("Unnamed: ")]
    if len(unnamed) > 1 or frame.columns.empty:
        raise ValueError(
            f"{path}: the first row of the first sheet must hold the names of the columns, but {len(unnamed)} of its "
            "cells are empty; delete the rows above the table, or name all columns"
        )
    frame = frame.rename(columns=dict.fromkeys(unnamed, ""))  # the index of a frame that pandas wrote
    arrays = {}
    for name in frame.columns:
        values = frame[name].tolist()
        arrays[str(name)] = (
            make_array(values) if frame[name].dtype == object else pa.array(frame[name], from_pandas=True)
        )
    return pa.table(arrays)


def read_json(path: str) -> pa.Table:
    """A list of records such as [{"age": 31}, …], or one record a line; an absent key is a missing value."""
    try:
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
        lines = text.lstrip().startswith("{")
        records = [json.loads(line) for line in text.splitlines() if line.strip()] if lines else json.loads(text)
    except ValueError as error:
        raise ValueError(
            f"{path} is not JSON that can be read ({error}); correct it, or save the table as CSV"
        ) from error
    are_records = isinstance(records, list) and records and all(isinstance(record, dict) for record in records)
    if not are_records or any(isinstance(value, dict | list) for record in records for value in record.values()):
        raise ValueError(
            f'{path} must hold a list of records, such as [{{"age": 31}}, {{"age": 45}}], or one record a line; pandas '
            'writes them with to_json(orient="records")'
        )
    names = list(dict.fromkeys(name for record in records for name in record))
    return pa.table({name: make_array([record.get(name) for record in records]) for name in names})


def make_array(values: list[Any]) -> pa.Array:
    """An array of one type; numbers beside texts become texts."""
    values = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in values if value is not None}
    if str in kinds and len(kinds) > 1:
        values = [None if value is None else level_text(value) for value in values]
    return pa.array(values)


READERS: dict[str, Callable[[str], pa.Table]] = {
    ".xlsx": read_workbook,
    ".xlsm": read_workbook,
    ".json": read_json,
    ".jsonl": read_json,
    ".ndjson": read_json,
}
