"""Model file: an `AdditiveModel` <-> one versioned file without pickle; NumPy only.

The file is an archive of `document.json`, which lists what the model consists of (`records`), and of plain arrays
(`arrays`), each with the numbers of all axes or all terms one after the other. Reading trusts nothing: a file gives a
model or a `DocumentError`. Predictions are bit for bit the same after reading; error bars (`spread`, `members`) keep
seven digits. `check_labels`, `check_columns` and `check_size` refuse before training what a file cannot hold.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from reprlib import repr as shorten
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .. import __version__
from ..encoding.axis import Axis
from ..model.summary import to_plain
from .archive import MAX_BYTES, DocumentError, read_archive, write_archive
from .json_checks import MAX_DOCUMENT, MAX_VALUES, parse_int, parse_json, read_record
from .model_reader import make_fields
from .model_writer import SavableModel, describe_columns, describe_model
from .records import (
    MAX_COLUMNS,
    MAX_KNOTS,
    MAX_TABLE,
    AxisRecord,
    ColumnRun,
    ModelRecord,
    describe_classes,
    read_classes,
)

# To change the format:
# 1. Raise FORMAT and let `model_writer` write the new form only.
# 2. Let `upgrade` bring the previous form to the new one: every old format stays readable.
# 3. Run `python -m tests.formats.make`. It adds a file of the new format to tests/formats; a test reads all of them.
# `document.json` of every format has "format" and "neuralbasis", the version that wrote it.
FORMAT = 4

MODEL_JSON = "document.json"


def write_model(model: SavableModel, path: str | os.PathLike[str]) -> None:
    """Write an AdditiveModel to a file. A model that could not be read again is refused."""
    with _naming_file(path, "cannot be written"):
        entries = write_entries(model)
        read_entries(dict(entries))
        write_archive(path, entries)


def read_fields(path: str | os.PathLike[str] | BinaryIO) -> dict[str, Any]:
    """Keyword arguments of the AdditiveModel in a file, given by its path or open in binary mode."""
    if not isinstance(path, (str, os.PathLike)):
        with _naming_file(getattr(path, "name", "the file"), "is not a model that can be read"):
            return read_entries(read_archive(path))
    with open(path, "rb") as file:
        return read_fields(file)


@contextmanager
def _naming_file(path: Any, problem: str) -> Iterator[None]:
    """Put the name of the file before a DocumentError of the block."""
    try:
        yield
    except DocumentError as error:
        raise DocumentError(f"{path} {problem}: {error}") from None


def write_entries(model: SavableModel) -> dict[str, bytes]:
    """Entries of the archive."""
    content, arrays = describe_model(model)
    document = {"format": FORMAT, "neuralbasis": __version__, **content}
    return {MODEL_JSON: json.dumps(document, separators=(",", ":")).encode(), **arrays}


def read_entries(entries: dict[str, bytes]) -> dict[str, Any]:
    """Keyword arguments of the AdditiveModel in these entries, which are used up."""
    text = entries.pop(MODEL_JSON, None)
    if text is None:
        raise DocumentError(f"it has no {MODEL_JSON}: it is not a model of neuralbasis")
    document = parse_json(text, MODEL_JSON)
    found = document.get("format") if type(document) is dict else None
    if type(found) is not int or found < 1:
        raise DocumentError(f"its {MODEL_JSON} states no format")
    if found > FORMAT:
        raise DocumentError(
            f"it has format {found}, written by neuralbasis {shorten(document.get('neuralbasis'))}; neuralbasis "
            f"{__version__} reads formats up to {FORMAT}: upgrade neuralbasis"
        )
    return make_fields(read_record(ModelRecord, upgrade(document), MODEL_JSON), entries)


class OldColumn(NamedTuple):
    """A column of format 1. Its axis is the one of the same index."""

    name: str
    kind: str
    levels: list[str] | None


def upgrade(document: dict[str, Any]) -> dict[str, Any]:
    """The JSON of any format in the present form. Only the fields that change are checked here."""
    if document["format"] < 4:
        document = _add_entries({"residuals": []} | document, "terms", {"evidence": None})
    if document["format"] < 3:  # without measured importances
        for name in ("terms", "factors"):
            document = _add_entries(document, name, {"is_measured": False})
    columns, axes = document.get("columns"), document.get("axes")
    if document["format"] > 1 or "factors" in document or type(columns) is not list or type(axes) is not list:
        return document
    runs = []  # of format 1, which has columns apart from their axes, and no factors
    for index, item in enumerate(columns):
        column = read_record(OldColumn, item, "a column")
        axis = read_record(AxisRecord, axes[index], "an axis") if index < len(axes) else None
        if axis is None or axis.column != index:
            raise DocumentError("its first axes are not those of its columns")
        runs.append(ColumnRun([column.name], column.kind, column.levels, axis.n_knots, axis.has_mass)._asdict())
    return document | {"columns": runs, "axes": axes[len(runs) :], "factors": []}


def _add_entries(document: dict[str, Any], name: str, entries: dict[str, Any]) -> dict[str, Any]:
    """The document with entries that the objects of one of its lists do not have yet."""
    items = document.get(name)
    if type(items) is not list:
        return document
    return document | {name: [entries | item if type(item) is dict else item for item in items]}


def check_labels(classes: np.ndarray | None) -> None:
    """Refuse class labels that a file cannot hold."""
    if classes is None:
        return
    try:
        read_classes("mlogit", len(classes), json.loads(json.dumps(describe_classes(classes)), parse_int=parse_int))
    except ValueError as error:
        raise ValueError(f"y has labels that no model can be saved with: {error}; write them as short text") from None


def check_columns(axes: Sequence[Axis], parameters: Mapping[str, object], n_terms: float) -> None:
    """Refuse columns and parameters that a file cannot hold beside so many terms.

    The estimate of the JSON is an upper bound: it counts two coarser axes for a column.
    """
    if len(axes) > MAX_COLUMNS:
        raise ValueError(f"the table has {len(axes):,} columns; a model has at most {MAX_COLUMNS:,}: leave some out")
    if odd := next((axis for axis in axes if len(axis.knots) > MAX_KNOTS), None):
        raise ValueError(
            f"column {odd.name!r} has {len(odd.knots):,} knots or levels; an axis has at most {MAX_KNOTS:,} of them: "
            "set max_bins, or merge rare levels"
        )
    text = json.dumps([describe_columns(axes), to_plain(parameters)])
    n_values = sum(map(text.count, ",[{")) + 16 * n_terms + 8 * min(n_terms, len(axes))
    n_bytes = len(text) + 200 * n_terms + 120 * min(n_terms, len(axes)) + (1 << 20)
    if n_bytes > MAX_DOCUMENT or n_values > MAX_VALUES:
        longest = max(axes, key=lambda axis: sum(map(len, axis.levels or ())))
        raise ValueError(
            f"names of columns and levels, parameters and terms take about {n_bytes / 1e6:,.0f} MB and {n_values:,} "
            f"values in a model file, which holds at most {MAX_DOCUMENT / 1e6:,.0f} MB and {MAX_VALUES:,} values; "
            f"column {longest.name!r:.80} has {len(longest.levels or ()):,} levels: leave it out, merge rare levels, "
            "or fit fewer terms"
        )


def check_size(n_bytes: float, n_cells: float = 0) -> None:
    """Refuse tables of more bytes than a file may have, or factors whose largest table has too many cells."""
    if n_bytes > MAX_BYTES or n_cells > MAX_TABLE:
        raise ValueError(
            f"the tables of the model would take about {n_bytes / 1e9:,.1f} GB, the largest {n_cells:,.0f} cells; "
            f"a model file holds at most {MAX_BYTES / 1e9:,.1f} GB, and a table {MAX_TABLE:,} cells: lower max_bins, "
            "outer_bags or max_terms, or set tied_classes=True"
        )
