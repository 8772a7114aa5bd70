"""Old formats: `document.json` of formats 1 and 2 in the form of format 3.

format 1   columns apart from their axes, no factors, no measured importances
format 2   no measured importances
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .archive import DocumentError
from .json_checks import read_record
from .records import AxisRecord, ColumnRun


class OldColumn(NamedTuple):
    """A column of format 1. Its axis is the one of the same index."""

    name: str
    kind: str
    levels: list[str] | None


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON of any format in the present form. Only the fields that change are checked here."""
    if document["format"] < 3:
        document = _add_measured(document)
    return _join_columns(document) if document["format"] < 2 else document


def _add_measured(document: dict[str, Any]) -> dict[str, Any]:
    """Mark terms and factors as not measured."""
    lists = {name: document[name] for name in ("terms", "factors") if type(document.get(name)) is list}
    return document | {name: [_mark(item) for item in items] for name, items in lists.items()}


def _mark(item: Any) -> Any:
    return item | {"is_measured": False} if type(item) is dict and "is_measured" not in item else item


def _join_columns(document: dict[str, Any]) -> dict[str, Any]:
    """Move the first axes into the columns."""
    columns, axes = document.get("columns"), document.get("axes")
    if "factors" in document or type(columns) is not list or type(axes) is not list:
        return document
    runs = []
    for index, item in enumerate(columns):
        column = read_record(OldColumn, item, "a column")
        axis = read_record(AxisRecord, axes[index], "an axis") if index < len(axes) else None
        if axis is None or axis.column != index:
            raise DocumentError("its first axes are not those of its columns")
        runs.append(ColumnRun([column.name], column.kind, column.levels, axis.n_knots, axis.has_mass)._asdict())
    return document | {"columns": runs, "axes": axes[len(runs) :], "factors": []}
