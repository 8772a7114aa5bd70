"""Document: an AdditiveModel <-> one versioned file without pickle; NumPy only.

The file is an archive of `document.json`, which says what the model is made of, and of plain arrays (`knots.npy`, …),
each holding the numbers of all axes or all terms one after the other. How many numbers there are follows from the JSON.
Reading trusts nothing: every value is checked before it is used, so that a file gives a model or a `DocumentError`.
Predictions are bit for bit the same after reading; error bars (`spread`, `members`) keep seven digits.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields
from reprlib import repr as shorten
from types import NoneType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from . import __version__
from .archive import DocumentError, read_archive, write_archive
from .axis import KINDS, Axis
from .encoder import Encoder
from .layout import Layout
from .link import LINKS
from .shape import Shape, TiedShape
from .summary import MAX_DEPTH, Summary

# To change the format: raise FORMAT, write the new form only, and keep reading the old ones (an old document is brought
# to the new form right behind `_check_format`). In all formats `document.json` has "format" and "neuralbasis" (the
# version that wrote it). `python -m tests.formats.make` writes a file of the new format to tests/formats; those of the
# older ones stay there, and a test reads them all.
FORMAT = 1

DOCUMENT = "document.json"
MAX_DOCUMENT = 1 << 26  # bytes of the JSON
MAX_VALUES = 2_000_000  # values in it, about
MAX_DIGITS = 20
MAX_AXES = 1 << 14  # each brings a guide table of 8 kB
MAX_ORDER = 6  # a row reads 2^order cells of a term
MAX_LABELS = 1 << 24  # letters of all classes, each as long as the longest
MAX_SCORE = 1e200  # so that no sum of scores and no product with a weight overflows
MAX_WEIGHT = 1e100

_EXACT = ("<f4", "<f8")
_COUNTS = ("|u1", "<u2", "<u4", "<f4", "<f8")
# Name -> types it may be stored in, the smallest that is exact; smallest and largest number.
ARRAYS: dict[str, tuple[tuple[str, ...], float, float]] = {
    "knots": (_EXACT, -np.finfo(float).max, np.finfo(float).max),
    "places": (_EXACT, 0.0, 1.0),
    "mass": (_COUNTS, 0.0, MAX_WEIGHT),
    "weights": (_COUNTS, 0.0, MAX_WEIGHT),
    "tables": (_EXACT, -MAX_SCORE, MAX_SCORE),
    "spread": (_COUNTS, 0.0, MAX_SCORE),
    "members": (_EXACT, -MAX_SCORE, MAX_SCORE),
    "mix": (_EXACT, -MAX_WEIGHT, MAX_WEIGHT),
}
_LABELS = {"str": (str,), "bool": (bool,), "object": (str, bool, int, float)}
_LABELS |= {f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)}
_LABELS |= {f"float{bits}": (float,) for bits in (16, 32, 64)}


class _Column(NamedTuple):
    name: str
    kind: str
    levels: list[str] | None


class _Line(NamedTuple):
    """An axis as the document has it; its knots are in the arrays."""

    column: int
    n_knots: int
    has_mass: bool


class _Table(NamedTuple):
    """A term as the document has it: `n_members` whose tables are kept; the numbers of shapes and members if tied."""

    features: list[int]
    axes: list[int]
    n_members: int
    tied: list[int] | None

    def cells(self, lines: Sequence[_Line]) -> list[int]:
        return [lines[axis].n_knots + 2 for axis in self.axes]


def write_model(model: Any, path: str | os.PathLike[str]) -> None:
    """Write an AdditiveModel to a file. A model that could not be read again is refused."""
    with _naming(path, "cannot be written"):
        entries = _write_entries(model)
        _read_entries(dict(entries))
        write_archive(path, entries)


@contextmanager
def _naming(path: Any, problem: str) -> Iterator[None]:
    """Errors of the block with the file's name before them."""
    try:
        yield
    except DocumentError as error:
        raise DocumentError(f"{path} {problem}: {error}") from None


def _write_entries(model: Any) -> dict[str, bytes]:
    layout = model.layout
    arrays = {name: _join(parts) for name, parts in _collect_numbers(model, layout).items()}
    types = {name: _choose_type(values, ARRAYS[name][0]) for name, values in arrays.items()}
    document = {
        "format": FORMAT,
        "neuralbasis": __version__,
        "link": model.link,
        "intercept": np.asarray(model.intercept, dtype=float).tolist(),
        "classes": None if model.classes is None else _describe_classes(model.classes),
        "columns": [_describe_column(axis) for axis in model.encoder.axes],
        "axes": [_describe_axis(axis, layout, a) for a, axis in enumerate(layout.axes)],
        "terms": [_describe_term(shape, layout, t) for t, shape in enumerate(model.shapes)],
        "arrays": types,
        "summary": None if model.summary is None else asdict(model.summary),
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    return {DOCUMENT: text} | {f"{name}.npy": _write_array(arrays[name], types[name]) for name in ARRAYS}


def _collect_numbers(model: Any, layout: Layout) -> dict[str, list[np.ndarray]]:
    """Pieces of every array, in the order of the axes and of the terms."""
    plain = [shape for shape in model.shapes if isinstance(shape, Shape)]
    tied = [shape for shape in model.shapes if isinstance(shape, TiedShape)]
    return {
        "knots": [axis.knots for axis in layout.axes],
        "places": [axis.places for axis in layout.axes],
        "mass": [axis.mass for axis in layout.axes if axis.mass is not None],
        "weights": [shape.weights for shape in model.shapes],
        "tables": [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in model.shapes],
        "spread": [_round(shape.spread) for shape in plain],
        "members": [_round(shape.members) for shape in plain if shape.members is not None],
        "mix": [shape.mix for shape in tied],
    }


def _round(values: np.ndarray) -> np.ndarray:
    """Seven digits of the largest are enough for an error bar; the tables that it belongs to stay exact."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = values.astype(np.float32).astype(float)
        return rounded if (abs(rounded - values) <= 1e-6 * abs(values).max()).all() else values


def _join(parts: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.asarray(part, dtype=float).ravel() for part in parts]) if parts else np.empty(0)


def _choose_type(values: np.ndarray, types: Sequence[str]) -> str:
    """The first type that holds all values exactly, or else the last."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return next((kind for kind in types if (values.astype(kind) == values).all()), types[-1])


def _describe_column(axis: Axis) -> dict[str, Any]:
    return {"name": axis.name, "kind": axis.kind, "levels": None if axis.levels is None else list(axis.levels)}


def _describe_axis(axis: Axis, layout: Layout, index: int) -> dict[str, Any]:
    """Name, kind and levels are the column's; a coarser axis keeps those levels that are its knots."""
    column = int(layout.axis_column[index])
    own = layout.axes[column]
    levels = None if own.levels is None else tuple(own.levels[int(knot)] for knot in axis.knots)
    if (axis.name, axis.kind, axis.levels) != (own.name, own.kind, levels):
        raise DocumentError(f"an axis of column {own.name!r} has another name, kind or other levels than the column")
    return {"column": column, "n_knots": len(axis.knots), "has_mass": axis.mass is not None}


def _describe_term(shape: Shape | TiedShape, layout: Layout, index: int) -> dict[str, Any]:
    axes = layout.term_axis[layout.term_start[index] : layout.term_start[index + 1]].tolist()
    is_tied = isinstance(shape, TiedShape)
    return {
        "features": [int(f) for f in shape.term],
        "axes": axes,
        "n_members": 0 if is_tied or shape.members is None else shape.members.shape[-2],
        "tied": list(shape.mix.shape[:2]) if isinstance(shape, TiedShape) else None,
    }


def _describe_classes(classes: np.ndarray) -> dict[str, Any]:
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]
    odd = [label for label in labels if type(label) not in _LABELS.get(kind, ())]
    if odd or kind not in _LABELS:
        raise DocumentError(f"classes must be text, numbers or booleans, not {odd[:1]} ({classes.dtype})")
    return {"dtype": kind, "labels": labels}


def read_fields(path: str | os.PathLike[str] | BinaryIO) -> dict[str, Any]:
    """Fields of the AdditiveModel in a file, or in an open one."""
    if not isinstance(path, (str, os.PathLike)):
        with _naming(getattr(path, "name", "the file"), "is not a model that can be read"):
            return _read_entries(read_archive(path))
    with open(path, "rb") as file:
        return read_fields(file)


def _read_entries(entries: dict[str, bytes]) -> dict[str, Any]:
    """Fields of a model from the entries of its file, which are used up."""
    document = _parse_json(entries.pop(DOCUMENT, None))
    _check_format(document)
    parts = _record(
        document, "the document", format=int, neuralbasis=str, link=str, intercept=list, classes=(dict, NoneType),
        columns=list, axes=list, terms=list, arrays=dict, summary=(dict, NoneType),
    )  # fmt: skip
    _, _, link, intercept, classes, columns, axes, terms, types, summary = parts
    n_outputs = len(_check_list(intercept, "the intercept", (int, float)))
    if max(map(abs, intercept)) > MAX_SCORE:
        raise DocumentError(f"the intercept is beyond ±{MAX_SCORE:g}")
    columns = _check_columns(columns)
    lines = _check_lines(axes, len(columns))
    tables = _check_tables(terms, lines)
    arrays = _read_arrays(entries, types, _count_numbers(lines, tables, n_outputs))
    made = list(_make_axes(columns, lines, arrays))
    return {
        "encoder": Encoder(tuple(made[: len(columns)])),
        "intercept": np.array(intercept, dtype=float),
        "shapes": tuple(_make_shapes(tables, made, arrays, n_outputs)),
        "link": link,
        "classes": _make_classes(link, n_outputs, classes),
        "summary": None if summary is None else _make_summary(summary),
    }


def _parse_json(data: bytes | None) -> Any:
    if data is None:
        raise DocumentError(f"it has no {DOCUMENT}: it is not a model of neuralbasis")
    if len(data) > MAX_DOCUMENT or sum(map(data.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise DocumentError(f"its {DOCUMENT} is larger than that of any model")
    try:
        return json.loads(
            data, parse_int=_parse_int, parse_float=_parse_float, parse_constant=_parse_float,
            object_pairs_hook=_make_object,
        )  # fmt: skip
    except RecursionError:
        raise DocumentError(f"its {DOCUMENT} is nested too deeply") from None
    except ValueError as error:
        raise DocumentError(f"its {DOCUMENT} cannot be read ({error})") from None


def _parse_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"a whole number of {len(text)} digits")
    return int(text)


def _parse_float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {text:.40} is not finite")
    return value


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("an object with two equal names")
    return found


def _check_format(document: Any) -> None:
    found = document.get("format") if type(document) is dict else None
    if type(found) is not int or found < 1:
        raise DocumentError(f"its {DOCUMENT} states no format")
    if found > FORMAT:
        writer = document.get("neuralbasis")
        raise DocumentError(
            f"it has format {found}, written by neuralbasis {shorten(writer)}; neuralbasis {__version__} reads formats "
            f"up to {FORMAT}: upgrade neuralbasis"
        )


def _record(value: Any, what: str, **kinds: type | tuple[type, ...]) -> list[Any]:
    """Values of a JSON object that must have these names and types, in the order of the names."""
    if type(value) is not dict or value.keys() != kinds.keys():
        raise DocumentError(f"{what} must have the entries {', '.join(kinds)}, not {shorten(value)}")
    for name, kind in kinds.items():
        if type(value[name]) not in (kind if isinstance(kind, tuple) else (kind,)):
            raise DocumentError(f"{name!r} of {what} has the wrong type: {shorten(value[name])}")
    return [value[name] for name in kinds]


def _check_list(values: list[Any], what: str, kinds: tuple[type, ...], unique: bool = False) -> list[Any]:
    """A list that is not empty and holds values of these types only."""
    if not values or any(type(value) not in kinds for value in values):
        raise DocumentError(f"{what} must be a list of {' or '.join(k.__name__ for k in kinds)}, not {shorten(values)}")
    if unique and len(set(values)) < len(values):
        raise DocumentError(f"{what} must differ from one another: {shorten(values)}")
    return values


def _check_columns(columns: list[Any]) -> list[_Column]:
    found = [_Column(*_record(item, "a column", name=str, kind=str, levels=(list, NoneType))) for item in columns]
    _check_list([column.name for column in found], "names of columns", (str,), unique=True)
    for name, kind, levels in found:
        if kind not in KINDS or (levels is None) != (kind == "continuous"):
            raise DocumentError(f"column {shorten(name)} has kind {shorten(kind)}, which does not go with its levels")
        if levels is not None:
            _check_list(levels, f"levels of column {shorten(name)}", (str,), unique=True)
    return found


def _check_lines(axes: list[Any], n_columns: int) -> list[_Line]:
    """The columns' own axes come first, in their order."""
    if len(axes) > MAX_AXES:
        raise DocumentError(f"it has {len(axes):,} axes; a model has at most {MAX_AXES:,}")
    found = [_Line(*_record(item, "an axis", column=int, n_knots=int, has_mass=bool)) for item in axes]
    if [line.column for line in found[:n_columns]] != list(range(n_columns)):
        raise DocumentError("its first axes are not those of its columns")
    if any(not (0 <= line.column < n_columns and line.n_knots > 0) for line in found):
        raise DocumentError("an axis belongs to no column, or has no knots")
    return found


def _check_tables(terms: list[Any], lines: Sequence[_Line]) -> list[_Table]:
    found = [
        _Table(*_record(item, "a term", features=list, axes=list, n_members=int, tied=(list, NoneType)))
        for item in terms
    ]
    for features, axes, n_members, tied in found:
        _check_list(features, "features of a term", (int,), unique=True)
        _check_list(axes, "axes of a term", (int,))
        if len(axes) > MAX_ORDER or any(not 0 <= axis < len(lines) for axis in axes):
            raise DocumentError(f"a term has too many features, or an axis that is not there: {shorten(features)}")
        if features != [lines[axis].column for axis in axes]:
            raise DocumentError(f"the axes of a term are not those of its features {shorten(features)}")
        if tied is not None and (len(_check_list(tied, "sizes of tied classes", (int,))) != 2 or min(tied) < 1):
            raise DocumentError(f"tied classes need a number of shapes and one of members, not {shorten(tied)}")
        if n_members < 0 or (n_members and tied):
            raise DocumentError(f"a term cannot have {n_members:,} members")
    if len({frozenset(table.features) for table in found}) < len(found):
        raise DocumentError("two of its terms have the same features")
    return found


def _count_numbers(lines: Sequence[_Line], tables: Sequence[_Table], n_outputs: int) -> dict[str, int]:
    """Length of every array."""
    cells = [(math.prod(table.cells(lines)), table.tied) for table in tables]
    n_members = [table.n_members for table in tables]
    n_knots = sum(line.n_knots for line in lines)
    return {
        "knots": n_knots,
        "places": n_knots,
        "mass": sum(line.n_knots for line in lines if line.has_mass),
        "weights": sum(count for count, _ in cells),
        "tables": sum(count * (tied[0] if tied else n_outputs) for count, tied in cells),
        "spread": sum(count * n_outputs for count, tied in cells if not tied),
        "members": sum(count * many * n_outputs for (count, _), many in zip(cells, n_members, strict=True)),
        "mix": sum(math.prod(tied) * n_outputs for _, tied in cells if tied),
    }


def _write_array(values: np.ndarray, kind: str) -> bytes:
    return _write_header(kind, len(values)) + values.astype(kind).tobytes()


def _write_header(kind: str, length: int) -> bytes:
    """What begins a .npy file. Reading compares it: nothing in it is ever parsed."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({length},), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def _read_arrays(entries: dict[str, bytes], types: dict[str, Any], lengths: Mapping[str, int]) -> dict[str, _Numbers]:
    if types.keys() != ARRAYS.keys() or entries.keys() != {f"{name}.npy" for name in ARRAYS}:
        raise DocumentError(f"it must hold {DOCUMENT} and the arrays {', '.join(ARRAYS)}, and nothing else")
    for name, kind in types.items():
        if kind not in ARRAYS[name][0]:
            raise DocumentError(f"array {name!r} cannot have the type {shorten(kind)}")
        data, header = entries[f"{name}.npy"], _write_header(kind, lengths[name])
        if not data.startswith(header) or len(data) != len(header) + lengths[name] * np.dtype(kind).itemsize:
            raise DocumentError(f"array {name!r} does not hold the {lengths[name]:,} numbers that the model needs")
    return {name: _Numbers(name, entries.pop(f"{name}.npy"), types[name]) for name in ARRAYS}


class _Numbers:
    """An array that is taken piece by piece."""

    def __init__(self, name: str, data: bytes, kind: str):
        with np.errstate(invalid="ignore"):  # NaN that signals
            self.values = np.frombuffer(data, kind, offset=len(_write_header(kind, 0))).astype(float)
        self.first = 0
        _, low, high = ARRAYS[name]
        if not ((self.values >= low) & (self.values <= high)).all():
            raise DocumentError(f"array {name!r} holds numbers outside {low:g} to {high:g}")

    def take(self, *shape: int) -> np.ndarray:
        """The next numbers, in a table of this shape."""
        first, self.first = self.first, self.first + math.prod(shape)
        return self.values[first : self.first].reshape(shape)


def _make_axes(columns: Sequence[_Column], lines: Sequence[_Line], arrays: Mapping[str, _Numbers]) -> Iterator[Axis]:
    for index, line in enumerate(lines):
        name, kind, known = columns[line.column]
        knots, places = arrays["knots"].take(line.n_knots), arrays["places"].take(line.n_knots)
        if (knots[1:] <= knots[:-1]).any() or (places[1:] < places[:-1]).any():
            raise DocumentError(f"knots of column {shorten(name)} do not increase")
        levels = None if known is None else _take_levels(name, known, knots, is_own=index == line.column)
        mass = arrays["mass"].take(line.n_knots) if line.has_mass else None
        yield Axis(name, kind, knots, places, levels, mass)


def _take_levels(name: str, known: Sequence[str], knots: np.ndarray, is_own: bool) -> tuple[str, ...]:
    """Those levels of a column that are knots of an axis; its own axis has all of them."""
    if (is_own and len(knots) != len(known)) or not np.isin(knots, np.arange(len(known))).all():
        raise DocumentError(f"knots of column {shorten(name)} are not its levels")
    return tuple(known[int(knot)] for knot in knots)


def _make_shapes(
    tables: Sequence[_Table], axes: Sequence[Axis], arrays: Mapping[str, _Numbers], n_outputs: int
) -> Iterator[Shape | TiedShape]:
    for table in tables:
        term, own = tuple(table.features), tuple(axes[axis] for axis in table.axes)
        cells = [axis.n_cells for axis in own]
        weights = arrays["weights"].take(*cells)
        if table.tied:
            values, mix = arrays["tables"].take(*cells, table.tied[0]), arrays["mix"].take(*table.tied, n_outputs)
            yield TiedShape(term, own, values, mix, weights)
        else:
            scores, spread = arrays["tables"].take(*cells, n_outputs), arrays["spread"].take(*cells, n_outputs)
            many = table.n_members
            members = arrays["members"].take(*cells, many, n_outputs) if many else None
            yield Shape(term, own, scores, spread, weights, members)


def _make_classes(link: str, n_outputs: int, classes: Any) -> np.ndarray | None:
    """Labels in their own type, as many as the link has; text is as wide as the longest label."""
    if link not in LINKS or (link == "logit" and n_outputs != 1):
        raise DocumentError(f"link {shorten(link)} does not go with {n_outputs} outputs; links are {', '.join(LINKS)}")
    if classes is None:
        return None
    kind, labels = _record(classes, "the classes", dtype=str, labels=list)
    _check_list(labels, "labels of classes", _LABELS.get(kind, ()), unique=True)
    if len(labels) != {"logit": 2, "mlogit": n_outputs}.get(link):
        raise DocumentError(f"link {shorten(link)} with {n_outputs} outputs does not go with {len(labels)} classes")
    if kind == "str" and len(labels) * max(map(len, labels)) > MAX_LABELS:
        raise DocumentError("labels of classes are too long")
    try:
        with np.errstate(over="raise"):
            return np.array(labels, dtype=kind)
    except (OverflowError, FloatingPointError):
        raise DocumentError(f"labels of classes do not fit into {kind}: {shorten(labels)}") from None


def _make_summary(summary: dict[str, Any]) -> Summary:
    number, perhaps = (int, float), (int, float, NoneType)
    values = _record(
        summary, "the summary", estimator=str, parameters=dict, n_rows=int, n_columns=int, target=(str, NoneType),
        shift=number, unit=number, validation=perhaps, history=dict, date=str, versions=dict,
    )  # fmt: skip
    if not _is_shallow(summary, MAX_DEPTH + 2):
        raise DocumentError("its summary is nested too deeply")
    return Summary(**dict(zip((field.name for field in fields(Summary)), values, strict=True)))


def _is_shallow(value: Any, depth: int) -> bool:
    inner = value.values() if type(value) is dict else value if type(value) is list else ()
    return depth > 0 and all(_is_shallow(item, depth - 1) for item in inner)
