"""Document: an AdditiveModel <-> one versioned file without pickle; NumPy only.

The file is an archive of `document.json`, which says what the model is made of, and of plain arrays (`knots.npy`, …),
each holding the numbers of all axes or all terms one after the other; those without numbers are left out. How many
there are follows from the JSON. Columns that share an axis share its knots, and factors are a few large arrays, so that
a hundred thousand columns are read at once.
Reading trusts nothing: every value is checked before it is used, so that a file gives a model or a `DocumentError`.
Predictions are bit for bit the same after reading; error bars (`spread`, `members`) keep seven digits.
"""

from __future__ import annotations

import json
import math
import os
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from itertools import accumulate
from reprlib import repr as shorten
from types import NoneType
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from .. import __version__
from ..encoding.axis import KINDS, Axis
from ..encoding.encoder import Encoder
from ..encoding.sparse_codes import CodeFinder
from ..lazy import Lazy
from ..losses.links import LINKS
from ..model.factors import Factors
from ..model.shapes import LowRankShape, Shape, TiedShape, make_shapes
from ..model.summary import MAX_DEPTH, Summary, to_plain
from .archive import MAX_BYTES, DocumentError, read_archive, write_archive

# To change the format: raise FORMAT, write the new form only, and keep reading the old ones (an old document is brought
# to the new form by `_renew`). In all formats `document.json` has "format" and "neuralbasis" (the version that wrote
# it). `python -m tests.formats.make` writes a file of the new format to tests/formats; those of the older ones stay
# there, and a test reads them all.
FORMAT = 3

DOCUMENT = "document.json"
MAX_DOCUMENT = 1 << 26  # bytes of the JSON
MAX_VALUES = 4_000_000  # values in it, about
MAX_DIGITS = 20
MAX_COLUMNS = 1 << 20
MAX_KNOTS = 1 << 22  # of an axis: positions beyond 2^24 are not exact in single precision
MAX_TERMS = 1 << 21  # in factors; terms with tables are values of the JSON
MAX_ORDER = 6  # a row reads 2^order cells of a term
MAX_TABLE = 1 << 26  # numbers in the table that a term of factors stands for
MAX_BASES = 10_000
MAX_LABELS = 1 << 24  # letters of all classes, each as long as the longest
MAX_SCORE = 1e200  # so that no sum of scores and no product with a weight overflows
MAX_WEIGHT = 1e100
MAX_BASE, MAX_COEFFICIENT = 1e9, 1e25  # so that MAX_BASES products of the two are a number in single precision


class _Kind(NamedTuple):
    """How an array is stored: types, of which the smallest that is exact is taken; its range; its type in memory."""

    types: tuple[str, ...]
    low: float
    high: float
    memory: str = "f8"


_EXACT = ("<f4", "<f8")
_WHOLE = ("|u1", "<u2", "<u4")
_COUNTS = (*_WHOLE, *_EXACT)
ARRAYS = {
    "knots": _Kind(_EXACT, -np.finfo(float).max, np.finfo(float).max),
    "places": _Kind(_EXACT, 0.0, 1.0),
    "mass": _Kind(_COUNTS, 0.0, MAX_WEIGHT),
    "weights": _Kind(_COUNTS, 0.0, MAX_WEIGHT),
    "tables": _Kind(_EXACT, -MAX_SCORE, MAX_SCORE),
    "spread": _Kind(_COUNTS, 0.0, MAX_SCORE),
    "members": _Kind(_EXACT, -MAX_SCORE, MAX_SCORE),
    "mix": _Kind(_EXACT, -MAX_WEIGHT, MAX_WEIGHT),
    "sizes": _Kind(_EXACT, 0.0, MAX_SCORE),
    "bases": _Kind(("<f4",), -MAX_BASE, MAX_BASE, "f4"),
    "features": _Kind(_WHOLE, 0, MAX_COLUMNS, "i8"),
    "coefficients": _Kind(("<f4",), -MAX_COEFFICIENT, MAX_COEFFICIENT, "f4"),
    "deviations": _Kind(("<f4",), 0.0, MAX_COEFFICIENT, "f4"),
    "factor_sizes": _Kind(_EXACT, 0.0, MAX_SCORE),
    "cells": _Kind(_WHOLE, 0, MAX_TABLE, "i8"),
    "cell_counts": _Kind(_WHOLE, 0, MAX_TABLE, "i8"),
    "cell_weights": _Kind(_COUNTS, 0.0, MAX_WEIGHT),
}
_LABELS = {"str": (str,), "bool": (bool,), "object": (str, bool, int, float)}
_LABELS |= {f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)}
_LABELS |= {f"float{bits}": (float,) for bits in (16, 32, 64)}


class _Run(NamedTuple):
    """Columns side by side that share their axis, as the document has them; its knots are in the arrays."""

    names: list[str]
    kind: str
    levels: list[str] | None
    n_knots: int
    has_mass: bool


class _Line(NamedTuple):
    """An axis as the document has it: those of all columns, then the coarser ones of interactions."""

    column: int
    n_knots: int
    has_mass: bool


class _Table(NamedTuple):
    """A term as the document has it: `n_members` whose tables are kept; the numbers of shapes and members if tied; does
    it have a measured importance?"""

    features: list[int]
    axes: list[int]
    n_members: int
    tied: list[int] | None
    is_measured: bool

    def cells(self, lines: Sequence[_Line]) -> list[int]:
        return [lines[axis].n_knots + 2 for axis in self.axes]


class _Group(NamedTuple):
    """Factors as the document has them; `n_cells` that training rows stand on, `absent` value, None for a missing one,
    `total` weight of all rows."""

    order: int
    n_terms: int
    n_bases: int
    n_knots: int
    n_cells: int
    absent: float | None
    total: float
    is_measured: bool

    @property
    def table_cells(self) -> int:
        return (self.n_knots + 2) ** self.order


class _Plan(NamedTuple):
    """What a model is made of: all that decides how many numbers there are."""

    runs: list[_Run]
    coarse: list[_Line]
    lines: Sequence[_Line]
    tables: list[_Table]
    groups: list[_Group]
    n_outputs: int


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
    tables, factors = _split_shapes(model)
    runs = _find_runs(model.encoder.axes)
    coarse, index_of = _number_axes(model.encoder.axes, tables)
    axes = [*(run[0] for run in runs), *(axis for _, axis in coarse), *(part.finder.axis for part in factors)]
    pieces = _collect_axes(axes) | _collect_tables(tables) | _collect_factors(factors)
    arrays = {name: found for name in ARRAYS if len(found := _join(name, pieces[name]))}
    types = {name: _choose_type(values, ARRAYS[name].types) for name, values in arrays.items()}
    document = {
        "format": FORMAT,
        "neuralbasis": __version__,
        "link": model.link,
        "intercept": np.asarray(model.intercept, dtype=float).tolist(),
        "classes": None if model.classes is None else _describe_classes(model.classes),
        "columns": [_describe_run(run) for run in runs],
        "axes": [_describe_axis(axis, column, model.encoder.axes[column]) for column, axis in coarse],
        "terms": [_describe_term(shape, [index_of[id(axis)] for axis in shape.axes]) for shape in tables],
        "factors": [_describe_factors(part) for part in factors],
        "arrays": types,
        "summary": None if model.summary is None else asdict(model.summary),
    }
    text = json.dumps(document, separators=(",", ":")).encode()
    return {DOCUMENT: text} | {f"{name}.npy": _write_array(arrays[name], types[name]) for name in arrays}


def check_labels(classes: np.ndarray | None) -> None:
    """Refuse labels that a file cannot hold; called before training."""
    if classes is None:
        return
    try:
        _make_classes("mlogit", len(classes), json.loads(json.dumps(_describe_classes(classes)), parse_int=_parse_int))
    except ValueError as error:
        raise ValueError(f"y has labels that no model can be saved with: {error}; write them as short text") from None


def check_columns(axes: Sequence[Axis], parameters: Any, n_terms: float) -> None:
    """Refuse columns and parameters that a file cannot hold with so many tables; called before training.

    `n_terms` and two coarser axes a column are counted generously, at what they take in the document.
    """
    if len(axes) > MAX_COLUMNS:
        raise ValueError(f"the table has {len(axes):,} columns; a model has at most {MAX_COLUMNS:,}: leave some out")
    if odd := next((axis for axis in axes if len(axis.knots) > MAX_KNOTS), None):
        raise ValueError(
            f"column {odd.name!r} has {len(odd.knots):,} knots or levels; a model has at most {MAX_KNOTS:,} of them: "
            "set max_bins, or write rare levels as one"
        )
    text = json.dumps([[_describe_run(run) for run in _find_runs(axes)], to_plain(parameters)])
    n_values = sum(map(text.count, ",[{")) + 16 * n_terms + 8 * min(n_terms, len(axes))
    n_bytes = len(text) + 200 * n_terms + 120 * min(n_terms, len(axes)) + (1 << 20)
    if n_bytes > MAX_DOCUMENT or n_values > MAX_VALUES:
        longest = max(axes, key=lambda axis: sum(map(len, axis.levels or ())))
        raise ValueError(
            f"names of columns and levels, parameters and terms take about {n_bytes / 1e6:,.0f} MB, {n_values:,} "
            f"values in a model's file, which holds at most {MAX_DOCUMENT / 1e6:,.0f} MB, {MAX_VALUES:,} values; "
            f"column {longest.name!r:.80} has {len(longest.levels or ()):,} levels: leave it out, write rare levels as "
            "one, or fit fewer terms"
        )


def check_size(n_bytes: float, n_cells: float = 0) -> None:
    """Refuse tables that take more bytes than a file may have, or factors whose largest table has too many cells."""
    if n_bytes > MAX_BYTES or n_cells > MAX_TABLE:
        raise ValueError(
            f"the tables of the model would take about {n_bytes / 1e9:,.1f} GB, {n_cells:,.0f} cells in one of them; "
            f"its file holds at most {MAX_BYTES / 1e9:,.1f} GB, {MAX_TABLE:,} cells: set smaller max_bins, outer_bags "
            "or max_terms, or tied_classes=True"
        )


def _split_shapes(model: Any) -> tuple[list[Shape | TiedShape], list[Factors]]:
    """Terms with tables, and the factors of all that follow them."""
    tables = [shape for shape in model.shapes if not isinstance(shape, LowRankShape)]
    rest = model.shapes[len(tables) :]
    factors = list(dict.fromkeys(shape.factors for shape in rest if isinstance(shape, LowRankShape)))
    wanted = [(id(part), index) for part in factors for index in range(len(part))]
    if [(id(getattr(shape, "factors", None)), getattr(shape, "index", -1)) for shape in rest] != wanted:
        raise DocumentError("terms of factors must stand behind all tables, each of them once and in their order")
    return tables, factors


def _find_runs(axes: Sequence[Axis]) -> list[list[Axis]]:
    """Columns side by side whose axes differ in their names only."""
    runs: list[list[Axis]] = []
    for axis in axes:
        if runs and _is_alike(runs[-1][-1], axis):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _is_alike(one: Axis, other: Axis) -> bool:
    pairs = [(one.knots, other.knots), (one.places, other.places), (one.mass, other.mass)]
    same = (mine is its or (mine is not None and its is not None and np.array_equal(mine, its)) for mine, its in pairs)
    return (one.kind, one.levels) == (other.kind, other.levels) and all(same)


def _number_axes(
    axes: Sequence[Axis], shapes: Sequence[Shape | TiedShape]
) -> tuple[list[tuple[int, Axis]], dict[int, int]]:
    """Axes that are not a column's own, each with its column; and the number of every axis object."""
    index_of = {id(axis): index for index, axis in enumerate(axes)}
    coarse: list[tuple[int, Axis]] = []
    for shape in shapes:
        for feature, axis in zip(shape.term, shape.axes, strict=True):
            if id(axis) not in index_of:
                index_of[id(axis)] = len(axes) + len(coarse)
                coarse.append((feature, axis))
    return coarse, index_of


def _collect_axes(axes: Sequence[Axis]) -> dict[str, list[Any]]:
    """Pieces of the arrays, one behind another; so do the two below."""
    masses = [axis.mass for axis in axes if axis.mass is not None]
    return {"knots": [axis.knots for axis in axes], "places": [axis.places for axis in axes], "mass": masses}


def _collect_tables(shapes: Sequence[Shape | TiedShape]) -> dict[str, list[Any]]:
    plain = [shape for shape in shapes if isinstance(shape, Shape)]
    return {
        "weights": [shape.weights for shape in shapes],
        "tables": [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in shapes],
        "spread": [_round(shape.spread) for shape in plain],
        "members": [_round(shape.members) for shape in plain if shape.members is not None],
        "mix": [shape.mix for shape in shapes if isinstance(shape, TiedShape)],
        "sizes": [sizes for shape in shapes if (sizes := shape.measured_sizes) is not None],
    }


def _collect_factors(factors: Sequence[Factors]) -> dict[str, list[Any]]:
    if any(array.dtype != np.float32 for part in factors for array in (part.bases, part.coefficients)):
        raise DocumentError("bases and coefficients of factors must be in single precision (float32)")
    return {
        "bases": [part.bases for part in factors],
        "features": [part.finder.features for part in factors],
        "coefficients": [part.coefficients for part in factors],
        "deviations": [part.deviations for part in factors],
        "factor_sizes": [part.sizes for part in factors if part.sizes is not None],
        "cells": [part.cells for part in factors],
        "cell_counts": [np.diff(part.cell_starts) for part in factors],
        "cell_weights": [part.weights for part in factors],
    }


def _round(values: np.ndarray) -> np.ndarray:
    """Seven digits of the largest are enough for an error bar; the tables that it belongs to stay exact."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = values.astype(np.float32).astype(float)
        return rounded if (abs(rounded - values) <= 1e-6 * abs(values).max()).all() else values


def _join(name: str, parts: Sequence[np.ndarray]) -> np.ndarray:
    memory = ARRAYS[name].memory
    return np.concatenate([np.empty(0, memory), *(np.asarray(part, dtype=memory).ravel() for part in parts)])


def _choose_type(values: np.ndarray, types: Sequence[str]) -> str:
    """The first type that holds all values exactly, or else the last."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return next((kind for kind in types if (values.astype(kind) == values).all()), types[-1])


def _describe_run(run: Sequence[Axis]) -> dict[str, Any]:
    first = run[0]
    levels = None if first.levels is None else list(first.levels)
    return {"names": [axis.name for axis in run], "kind": first.kind, "levels": levels} | _describe_knots(first)


def _describe_axis(axis: Axis, column: int, own: Axis) -> dict[str, Any]:
    """Name, kind and levels are the column's; a coarser axis keeps those levels that are its knots."""
    levels = None if own.levels is None else tuple(own.levels[int(knot)] for knot in axis.knots)
    if (axis.name, axis.kind, axis.levels) != (own.name, own.kind, levels):
        raise DocumentError(f"an axis of column {own.name!r} has another name, kind or other levels than the column")
    return {"column": column} | _describe_knots(axis)


def _describe_knots(axis: Axis) -> dict[str, Any]:
    return {"n_knots": len(axis.knots), "has_mass": axis.mass is not None}


def _describe_term(shape: Shape | TiedShape, axes: list[int]) -> dict[str, Any]:
    is_tied = isinstance(shape, TiedShape)
    return {
        "features": [int(f) for f in shape.term],
        "axes": axes,
        "n_members": 0 if is_tied or shape.members is None else shape.members.shape[-2],
        "tied": list(shape.mix.shape[:2]) if isinstance(shape, TiedShape) else None,
        "is_measured": shape.measured_sizes is not None,
    }


def _describe_factors(part: Factors) -> dict[str, Any]:
    n_terms, n_bases, _ = part.coefficients.shape
    sizes = (part.order, n_terms, n_bases, len(part.finder.axis.knots), len(part.cells))
    absent = None if math.isnan(part.finder.absent) else float(part.finder.absent)
    return _Group(*sizes, absent, float(part.total), part.sizes is not None)._asdict()


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
        _renew(document), "the document", format=int, neuralbasis=str, link=str, intercept=list,
        classes=(dict, NoneType), columns=list, axes=list, terms=list, factors=list, arrays=dict,
        summary=(dict, NoneType),
    )  # fmt: skip
    _, _, link, intercept, classes, columns, axes, terms, factors, types, summary = parts
    n_outputs = len(_check_list(intercept, "the intercept", (int, float)))
    if max(map(abs, intercept)) > MAX_SCORE:
        raise DocumentError(f"the intercept is beyond ±{MAX_SCORE:g}")
    plan = _make_plan(columns, axes, terms, factors, n_outputs)
    arrays = _read_arrays(entries, types, _count_numbers(plan))
    own = [axis for run in plan.runs for axis in _make_run(run, arrays)]
    made = [*own, *(_make_coarse(own[line.column], line, arrays) for line in plan.coarse)]
    encoder = Encoder(tuple(own))
    tables = tuple(_make_tables(plan, made, arrays))
    parts = [_make_factors(group, encoder, arrays, n_outputs) for group in plan.groups]
    _check_terms(tables, parts)
    return {
        "encoder": encoder,
        "intercept": np.array(intercept, dtype=float),
        "shapes": (*tables, *make_shapes(parts, encoder)),
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


def _renew(document: dict[str, Any]) -> dict[str, Any]:
    """A document of an older format in the present form.

    Format 1 had columns and their axes apart, and no factors; formats 1 and 2 had no measured importances.
    """
    if document["format"] < 3:
        parts = {name: document[name] for name in ("terms", "factors") if type(document.get(name)) is list}
        parts = {name: [_add_measured(item) for item in items] for name, items in parts.items()}
        document = document | parts
    columns, axes = document.get("columns"), document.get("axes")
    if document["format"] > 1 or "factors" in document or type(columns) is not list or type(axes) is not list:
        return document
    runs = []
    for index, column in enumerate(columns):
        name, kind, levels = _record(column, "a column", name=str, kind=str, levels=(list, NoneType))
        line = _check_line(axes[index]) if index < len(axes) else None
        if line is None or line.column != index:
            raise DocumentError("its first axes are not those of its columns")
        runs.append(_Run([name], kind, levels, line.n_knots, line.has_mass)._asdict())
    return document | {"columns": runs, "axes": axes[len(runs) :], "factors": []}


def _add_measured(item: Any) -> Any:
    return item | {"is_measured": False} if type(item) is dict and "is_measured" not in item else item


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


def _make_plan(columns: list[Any], axes: list[Any], terms: list[Any], factors: list[Any], n_outputs: int) -> _Plan:
    runs, coarse = _check_runs(columns), [_check_line(item) for item in axes]
    lines = _list_lines(runs, coarse)
    tables, groups = _check_tables(terms, lines), _check_groups(factors, n_outputs)
    if not {axis for table in tables for axis in table.axes}.issuperset(range(len(lines) - len(coarse), len(lines))):
        raise DocumentError("an axis belongs to no term")
    every: list[_Run | _Line | _Group] = [*runs, *coarse, *groups]
    if any(axis.n_knots > MAX_KNOTS for axis in every):
        raise DocumentError(f"an axis has more than {MAX_KNOTS:,} knots")
    return _Plan(runs, coarse, lines, tables, groups, n_outputs)


def _check_runs(columns: list[Any]) -> list[_Run]:
    kinds: dict[str, Any] = {"names": list, "kind": str, "levels": (list, NoneType), "n_knots": int, "has_mass": bool}
    found = [_Run(*_record(item, "a column", **kinds)) for item in columns]
    names = _check_list([name for run in found for name in run.names], "names of columns", (str,), unique=True)
    if len(names) > MAX_COLUMNS:
        raise DocumentError(f"it has {len(names):,} columns; a model has at most {MAX_COLUMNS:,}")
    for (name, *_), kind, levels, n_knots, _ in (run for run in found if run.names):
        if kind not in KINDS or (levels is None) != (kind == "continuous"):
            raise DocumentError(f"column {shorten(name)} has kind {shorten(kind)}, which does not go with its levels")
        if levels is not None:
            _check_list(levels, f"levels of column {shorten(name)}", (str,), unique=True)
        if n_knots < 1:
            raise DocumentError(f"column {shorten(name)} has no knots")
    if not all(run.names for run in found):
        raise DocumentError("one of its axes belongs to no column")
    return found


def _check_line(item: Any) -> _Line:
    return _Line(*_record(item, "an axis", column=int, n_knots=int, has_mass=bool))


def _list_lines(runs: Sequence[_Run], coarse: Sequence[_Line]) -> Sequence[_Line]:
    """All axes that tables may lie on, the columns' own first."""
    ends = list(accumulate(len(run.names) for run in runs))
    if any(not (0 <= line.column < ends[-1] and line.n_knots > 0) for line in coarse):
        raise DocumentError("an axis belongs to no column, or has no knots")

    def find(index: int) -> _Line:
        if index >= ends[-1]:
            return coarse[index - ends[-1]]
        run = runs[bisect_right(ends, index)]
        return _Line(index, run.n_knots, run.has_mass)

    return Lazy(find, ends[-1] + len(coarse))


def _check_tables(terms: list[Any], lines: Sequence[_Line]) -> list[_Table]:
    found = [
        _Table(
            *_record(item, "a term", features=list, axes=list, n_members=int, tied=(list, NoneType), is_measured=bool)
        )
        for item in terms
    ]
    for features, axes, n_members, tied, _ in found:
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


def _check_groups(factors: list[Any], n_outputs: int) -> list[_Group]:
    kinds: dict[str, Any] = dict.fromkeys(("order", "n_terms", "n_bases", "n_knots", "n_cells"), int)
    kinds |= {"absent": (int, float, NoneType), "total": (int, float), "is_measured": bool}
    found = [_Group(*_record(item, "factors", **kinds)) for item in factors]
    for group in found:
        if not (1 <= group.order <= MAX_ORDER and 1 <= group.n_bases <= MAX_BASES and min(group[1:4]) >= 1):
            raise DocumentError(f"factors of {shorten(group)} are not those of a model")
        if group.table_cells * n_outputs > MAX_TABLE or not 0 < group.total <= MAX_WEIGHT or group.n_cells < 0:
            raise DocumentError(f"factors of {shorten(group)} are larger than those of any model, or have no rows")
    if len({group.order for group in found}) < len(found) or sum(group.n_terms for group in found) > MAX_TERMS:
        raise DocumentError(f"it has two factors of the same order, or more than {MAX_TERMS:,} terms in factors")
    return found


def _count_numbers(plan: _Plan) -> dict[str, int]:
    """Length of every array."""
    cells = [(math.prod(table.cells(plan.lines)), table) for table in plan.tables]
    axes: list[_Run | _Line] = [*plan.runs, *plan.coarse]
    groups, n_outputs = plan.groups, plan.n_outputs
    n_knots = sum(axis.n_knots for axis in axes) + sum(group.n_knots for group in groups)
    n_coefficients = sum(group.n_terms * group.n_bases for group in groups) * n_outputs
    n_cells = sum(group.n_cells for group in groups)
    return {
        "knots": n_knots,
        "places": n_knots,
        "mass": sum(axis.n_knots for axis in axes if axis.has_mass),
        "weights": sum(count for count, _ in cells),
        "tables": sum(count * (table.tied[0] if table.tied else n_outputs) for count, table in cells),
        "spread": sum(count * n_outputs for count, table in cells if not table.tied),
        "members": sum(count * table.n_members * n_outputs for count, table in cells),
        "mix": sum(math.prod(table.tied) * n_outputs for table in plan.tables if table.tied),
        "sizes": sum(n_outputs for table in plan.tables if table.is_measured),
        "bases": sum(group.table_cells * group.n_bases for group in groups),
        "features": sum(group.n_terms * group.order for group in groups),
        "coefficients": n_coefficients,
        "deviations": n_coefficients,
        "factor_sizes": sum(group.n_terms * n_outputs for group in groups if group.is_measured),
        "cells": n_cells,
        "cell_counts": sum(group.n_terms for group in groups),
        "cell_weights": n_cells,
    }


def _write_array(values: np.ndarray, kind: str) -> bytes:
    return _write_header(kind, len(values)) + values.astype(kind).tobytes()


def _write_header(kind: str, length: int) -> bytes:
    """What begins a .npy file. Reading compares it: nothing in it is ever parsed."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({length},), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


def _read_arrays(entries: dict[str, bytes], types: dict[str, Any], lengths: Mapping[str, int]) -> dict[str, _Numbers]:
    needed = [name for name in ARRAYS if lengths[name] or name in types]
    if types.keys() != set(needed) or entries.keys() != {f"{name}.npy" for name in needed}:
        raise DocumentError(f"it must hold {DOCUMENT} and the arrays {', '.join(needed)}, and nothing else")
    for name, kind in types.items():
        if kind not in ARRAYS[name].types:
            raise DocumentError(f"array {name!r} cannot have the type {shorten(kind)}")
        data, header = entries[f"{name}.npy"], _write_header(kind, lengths[name])
        if not data.startswith(header) or len(data) != len(header) + lengths[name] * np.dtype(kind).itemsize:
            raise DocumentError(f"array {name!r} does not hold the {lengths[name]:,} numbers that the model needs")
    return {name: _Numbers(name, entries.pop(f"{name}.npy", b""), types.get(name)) for name in ARRAYS}


class _Numbers:
    """An array that is taken piece by piece; one without a type is empty."""

    def __init__(self, name: str, data: bytes, kind: str | None):
        _, low, high, memory = ARRAYS[name]
        offset = 0 if kind is None else len(_write_header(kind, 0))
        with np.errstate(invalid="ignore"):  # NaN that signals
            self.values = np.frombuffer(data, kind or memory, offset=offset).astype(memory)
        self.first = 0
        if not ((self.values >= low) & (self.values <= high)).all():
            raise DocumentError(f"array {name!r} holds numbers outside {low:g} to {high:g}")

    def take(self, *shape: int) -> np.ndarray:
        """The next numbers, in a table of this shape."""
        first, self.first = self.first, self.first + math.prod(shape)
        return self.values[first : self.first].reshape(shape)


def _make_run(run: _Run, arrays: Mapping[str, _Numbers]) -> list[Axis]:
    """The axes of columns that differ in their names only."""
    first = _make_axis(run.names[0], run.kind, run, arrays)
    if run.levels is not None:
        first = replace(first, levels=_take_levels(first.name, run.levels, first.knots, is_own=True))
    knots, places, levels, mass = first.knots, first.places, first.levels, first.mass
    return [Axis(name, run.kind, knots, places, levels, mass) for name in run.names]


def _make_coarse(own: Axis, line: _Line, arrays: Mapping[str, _Numbers]) -> Axis:
    axis = _make_axis(own.name, own.kind, line, arrays)
    return axis if own.levels is None else replace(axis, levels=_take_levels(own.name, own.levels, axis.knots))


def _make_axis(name: str, kind: str, size: _Run | _Line | _Group, arrays: Mapping[str, _Numbers]) -> Axis:
    knots, places = arrays["knots"].take(size.n_knots), arrays["places"].take(size.n_knots)
    if (knots[1:] <= knots[:-1]).any() or (places[1:] < places[:-1]).any():
        raise DocumentError(f"knots of column {shorten(name)} do not increase")
    has_mass = not isinstance(size, _Group) and size.has_mass
    return Axis(name, kind, knots, places, None, arrays["mass"].take(size.n_knots) if has_mass else None)


def _take_levels(name: str, known: Sequence[str], knots: np.ndarray, is_own: bool = False) -> tuple[str, ...]:
    """Those levels of a column that are knots of an axis; its own axis has all of them."""
    if (is_own and len(knots) != len(known)) or knots[0] < 0 or knots[-1] >= len(known) or (knots % 1 != 0).any():
        raise DocumentError(f"knots of column {shorten(name)} are not its levels")
    return tuple(known[int(knot)] for knot in knots)


def _make_tables(plan: _Plan, axes: Sequence[Axis], arrays: Mapping[str, _Numbers]) -> Iterator[Shape | TiedShape]:
    n_outputs = plan.n_outputs
    for table in plan.tables:
        term, own = tuple(table.features), tuple(axes[axis] for axis in table.axes)
        cells = [axis.n_cells for axis in own]
        weights = arrays["weights"].take(*cells)
        if table.tied:
            values, mix = arrays["tables"].take(*cells, table.tied[0]), arrays["mix"].take(*table.tied, n_outputs)
            shape: Shape | TiedShape = TiedShape(term, own, values, mix, weights)
        else:
            scores, spread = arrays["tables"].take(*cells, n_outputs), arrays["spread"].take(*cells, n_outputs)
            many = table.n_members
            members = arrays["members"].take(*cells, many, n_outputs) if many else None
            shape = Shape(term, own, scores, spread, weights, members)
        yield shape.measure(arrays["sizes"].take(n_outputs)) if table.is_measured else shape


def _make_factors(group: _Group, encoder: Encoder, arrays: Mapping[str, _Numbers], n_outputs: int) -> Factors:
    """Every index is checked: compiled loops will follow them."""
    axis, absent = (
        _make_axis("", "continuous", group, arrays),
        math.nan if group.absent is None else float(group.absent),
    )
    if not math.isnan(absent) and absent not in axis.knots:
        raise DocumentError(f"the absent value {absent:g} of factors is not among their knots")
    finder = CodeFinder(axis, absent, arrays["features"].take(group.n_terms, group.order), len(encoder.axes))
    _check_features(finder.features, encoder.axes)
    bases = arrays["bases"].take(group.table_cells, group.n_bases)
    table = bases.reshape(*[finder.side] * group.order, group.n_bases)
    if any(np.moveaxis(table, d, 0)[finder.absent_cell].any() for d in range(group.order)):
        raise DocumentError("bases of factors must be zero at the absent value")
    sizes = group.n_terms, group.n_bases, n_outputs
    coefficients, deviations = arrays["coefficients"].take(*sizes), arrays["deviations"].take(*sizes)
    starts = np.r_[0, np.cumsum(arrays["cell_counts"].take(group.n_terms))]
    cells, weights = arrays["cells"].take(group.n_cells), arrays["cell_weights"].take(group.n_cells)
    measured = arrays["factor_sizes"].take(group.n_terms, n_outputs) if group.is_measured else None
    factors = Factors(finder, bases, coefficients, deviations, cells, weights, starts, float(group.total), measured)
    _check_cells(factors)
    return factors


def _check_features(features: np.ndarray, axes: Sequence[Axis]) -> None:
    """Columns of numbers, in the order in which a CodeFinder looks for them, no term twice."""
    if features.max() >= len(axes):
        raise DocumentError(f"factors have a feature {features.max():,}, but there are {len(axes):,} columns")
    is_level = np.fromiter((axis.is_level for axis in axes), dtype=bool, count=len(axes))
    if is_level[features].any():
        raise DocumentError("factors have a feature that is a column of levels")
    order = np.lexsort(features.T[::-1])
    if (np.diff(order) < 0).any():
        raise DocumentError("terms of factors are not sorted by their features")
    known = np.sort(features, axis=1)
    if (known[:, 1:] == known[:, :-1]).any() or len(np.unique(known, axis=0)) < len(known):
        raise DocumentError("a term of factors has a feature twice, or two of them have the same features")


def _check_cells(factors: Factors) -> None:
    """Cells that are there, increasing within a term, and no term on more rows than there are."""
    starts, cells = factors.cell_starts, factors.cells
    if starts[-1] != len(cells) or (len(cells) and cells.max() >= len(factors.bases)):
        raise DocumentError("factors have cells that their terms do not have")
    term = np.repeat(np.arange(len(factors)), np.diff(starts))
    if ((np.diff(cells) <= 0) & (np.diff(term) == 0)).any():
        raise DocumentError("cells of a term of factors do not increase")
    weights = np.bincount(term, factors.weights, minlength=len(factors))
    if weights.max(initial=0.0) > factors.total * (1 + 1e-6):
        raise DocumentError("a term of factors stands on more rows than there are")


def _check_terms(tables: Sequence[Shape | TiedShape], factors: Sequence[Factors]) -> None:
    known = {frozenset(shape.term) for shape in tables}
    if known and any(frozenset(term) in known for part in factors for term in part.finder.features.tolist()):
        raise DocumentError("two of its terms have the same features")


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
            found = np.array(labels, dtype=kind)
    except (OverflowError, FloatingPointError):
        found = np.empty(0)
    if found.tolist() != labels:  # too large, too long a fraction, or NUL at the end of a text, which NumPy drops
        raise DocumentError(f"labels of classes do not fit into {kind}: {shorten(labels)}")
    return found


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
