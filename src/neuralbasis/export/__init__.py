"""Exports: a fitted model in the languages of other engines, each proven equal to `predict`.

    to_onnx   a graph for onnxruntime                 to_python   one file without dependencies
    to_sql    one SELECT for SQLite or DuckDB         to_c        one C99 file
    to_json   look-up tables and the rule to read     to_excel    a workbook that computes by formulas

Each takes an AdditiveModel or a fitted estimator. A name is loaded when it is first used, with the packages it needs.
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = {
    "to_c": "c",
    "to_excel": "excel",
    "to_json": "json",
    "to_onnx": "onnx",
    "to_python": "python",
    "to_sql": "sql",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
