"""Exports: a fitted model for other engines, each tested to equal `predict`.

    to_onnx   a graph for onnxruntime                 to_python   one Python file without dependencies
    to_sql    one SELECT for SQLite or DuckDB         to_c        one C99 file
    to_json   tables and the rule that reads them     to_excel    a workbook that computes by formulas

Each function takes an AdditiveModel or a fitted estimator. Its module, and the packages that it needs, are imported on
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lazy import find_name

if TYPE_CHECKING:
    from .c import to_c as to_c
    from .excel import to_excel as to_excel
    from .json import to_json as to_json
    from .onnx import to_onnx as to_onnx
    from .python import to_python as to_python
    from .sql import to_sql as to_sql

_MODULES = {f"to_{module}": module for module in ("c", "excel", "json", "onnx", "python", "sql")}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _MODULES, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
