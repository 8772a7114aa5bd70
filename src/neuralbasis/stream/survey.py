"""Survey: the first pass over a source, from rows to axes.

Every lane is tallied: sketches of the features, labels and range of the target, rows and weights. Tallies of all lanes
merge into the same survey on every process. Its axes come from the rule that fits them in memory (`encoder.fit_axis`),
given the distinct values of a column and their weights instead of its rows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ..axis import Axis, check_finite
from ..columns import Column
from ..encoder import Encoder, check_knots, fit_axis, list_wishes
from ..progress import Bar, open_bar
from ..sample import MAX_TARGET
from .lanes import deal_lanes, gather_results, read_pieces
from .sketch import MAX_LEVELS, LevelSketch, NumberSketch
from .source import Source, is_text, read_column, require_names

INTEGERS = ("int8", "int16", "int32")  # the smallest value of each stands for missing
MAX_CLASSES = 100_000


@dataclass(frozen=True)
class Roles:
    """What the columns of a source are for."""

    target: str
    weight: str | None
    features: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, self.target, *([] if self.weight is None else [self.weight])]


@dataclass(frozen=True, eq=False)
class Survey:
    """What a pass over all rows of positive weight has found.

    Parameters
    ----------
    encoder : the axes of the features
    roles : what the columns are for
    n_rows : rows of positive weight, of all processes
    classes : (classes,) labels in increasing order, None for a regression
    types : the type in which the cache keeps each feature exactly
    target_type : that of the target
    weight_sum : of all rows
    whole_weights : whether all weights are whole numbers
    error : (D,) how far the rank of a value may be off in each column, as a share of the weight; 0 is exact
    """

    encoder: Encoder
    roles: Roles
    n_rows: int
    classes: np.ndarray | None
    types: tuple[str, ...]
    target_type: str
    weight_sum: float
    whole_weights: bool
    error: np.ndarray


def choose_roles(
    source: Source, target: str, weight: str | None = None, features: Sequence[str] | None = None
) -> Roles:
    """The roles of a source's columns: those that are neither target nor weight are features, or some are listed."""
    named = [target] if weight is None else [target, weight]
    require_names([*named, *(features or ())], source.names, "the table")
    rest = tuple(name for name in source.names if name not in named) if features is None else tuple(features)
    if odd := [name for name in named if name in rest]:
        raise ValueError(f"the column {odd[0]!r} is target or weight, so it cannot be a feature; leave it out")
    if not rest:
        raise ValueError(f"the table has no column besides {', '.join(map(repr, named))}; a model needs features")
    return Roles(target, weight, rest)


def make_survey(source: Source, roles: Roles, is_classifier: bool, parameters: Any, group: Any, threads: int) -> Survey:
    """Read all rows once; `parameters` has feature_types, scaling, max_bins, knots and verbose."""
    check_knots(parameters.knots, roles.features)
    wishes = list_wishes(parameters.feature_types, len(roles.features))
    tallies = gather_results(
        group, lambda: tally_lanes(source, roles, wishes, is_classifier, group, threads, bool(parameters.verbose))
    )
    packed = [lane for lanes in tallies for lane in lanes]
    tally = Tally(roles, wishes, is_classifier)
    for lane in packed:
        tally.merge(Tally.unpack(roles, wishes, is_classifier, lane))
    return tally.finish(parameters)


def tally_lanes(
    source: Source, roles: Roles, wishes: Sequence[Any], is_classifier: bool, group: Any, threads: int, verbose: bool
) -> list[list[bytes]]:
    """The tallies of this process's lanes."""
    lanes = deal_lanes(source, group.rank, group.size)
    total = sum(piece.n_rows or 0 for _, pieces in lanes for piece in pieces)
    bar = open_bar(total, "survey", "row", verbose and group.rank == 0)
    with bar, ThreadPoolExecutor(threads) as pool:
        return [tally_lane(source, roles, wishes, is_classifier, pieces, pool, bar) for _, pieces in lanes if pieces]


def tally_lane(
    source: Source, roles: Roles, wishes: Sequence[Any], is_classifier: bool, pieces: Sequence[Any], pool: Executor,
    bar: Bar,
) -> list[bytes]:  # fmt: skip
    """The tally of one lane, small enough to send."""
    tally = Tally(roles, wishes, is_classifier)
    for batch in read_pieces(source, pieces, roles.names):
        tally.add(batch, pool)
        bar.update(batch.num_rows)
    tally.seal()
    return tally.pack()


class Tally:
    """What was seen of every column of some rows."""

    def __init__(self, roles: Roles, wishes: Sequence[Any], is_classifier: bool):
        self.roles, self.wishes = roles, wishes
        self.sketches: list[NumberSketch | LevelSketch | None] = [None] * len(roles.features)
        self.target = TargetTally(roles.target, is_classifier)
        self.n_rows, self.weight_sum, self.whole_weights = 0, 0.0, True

    def add(self, batch: pa.RecordBatch, pool: Executor) -> None:
        """Take in a batch of rows; columns are shared among threads."""
        batch, weights = drop_rows(batch, self.roles)
        if batch.num_rows == 0:
            return
        self.n_rows += batch.num_rows
        self.weight_sum += float(batch.num_rows) if weights is None else float(weights.sum())
        self.whole_weights &= weights is None or bool((weights == np.floor(weights)).all())
        self.target.add(batch.column(self.roles.target))
        list(pool.map(lambda index: self._add_column(batch, index, weights), range(len(self.sketches))))

    def _add_column(self, batch: pa.RecordBatch, index: int, weights: np.ndarray | None) -> None:
        name, wish = self.roles.features[index], self.wishes[index]
        column, kind = read_column(batch, name), batch.schema.field(name).type
        sketch = self.sketches[index]
        if sketch is None:
            sketch = self.sketches[index] = start_sketch(column, kind, wish)
        if isinstance(sketch, NumberSketch):
            numbers = column.to_numbers().numbers
            assert numbers is not None
            sketch.add(numbers, weights)
        elif column.codes is not None and column.levels is not None:
            codes = column.codes + 1  # missing comes first
            mass = np.bincount(codes, weights, minlength=len(column.levels) + 1)
            sketch.add(column.levels, mass[1:], float(mass[0]))
        else:  # a text column without a value in this batch
            sketch.missing += float(batch.num_rows if weights is None else weights.sum())

    def merge(self, other: Tally) -> None:
        self.n_rows += other.n_rows
        self.weight_sum += other.weight_sum
        self.whole_weights &= other.whole_weights
        self.target.merge(other.target)
        for index, (own, came) in enumerate(zip(self.sketches, other.sketches, strict=True)):
            if own is None or came is None:
                self.sketches[index] = own or came
            else:
                own.merge(came)  # type: ignore[arg-type]

    def seal(self) -> None:
        for sketch in self.sketches:
            if isinstance(sketch, NumberSketch):
                sketch.seal()

    def pack(self) -> list[bytes]:
        """All of it as bytes: rows, target, then a sketch a feature."""
        facts = json.dumps([self.n_rows, self.weight_sum, self.whole_weights]).encode()
        letters = {NumberSketch: b"n", LevelSketch: b"l"}
        packed = [b"" if sketch is None else letters[type(sketch)] + sketch.to_bytes() for sketch in self.sketches]
        return [facts, self.target.to_bytes(), *packed]

    @classmethod
    def unpack(cls, roles: Roles, wishes: Sequence[Any], is_classifier: bool, packed: Sequence[bytes]) -> Tally:
        kinds: dict[bytes, Any] = {b"n": NumberSketch, b"l": LevelSketch}
        tally = cls(roles, wishes, is_classifier)
        tally.n_rows, tally.weight_sum, tally.whole_weights = json.loads(packed[0])
        tally.target.read_bytes(packed[1])
        tally.sketches = [kinds[data[:1]].from_bytes(data[1:]) if data else None for data in packed[2:]]
        return tally

    def finish(self, parameters: Any) -> Survey:
        """The survey of all that was seen."""
        if self.n_rows < 2:
            raise ValueError(f"the table has {self.n_rows} row(s) of positive weight; a model needs at least 2")
        scaling = "quantile" if parameters.scaling == "auto" else parameters.scaling
        knots, axes = parameters.knots or {}, []
        for name, wish, sketch in zip(self.roles.features, self.wishes, self.sketches, strict=True):
            assert sketch is not None
            column, mass = distinct_column(name, sketch)
            axes.append(fit_axis(column, wish, mass, scaling, parameters.max_bins, knots.get(name)))
        types = tuple(map(choose_type, axes, self.sketches))
        error = np.array([getattr(sketch, "error", 0.0) for sketch in self.sketches])
        return Survey(
            Encoder(tuple(axes)), self.roles, self.n_rows, self.target.classes(), types, self.target.type(),
            self.weight_sum, self.whole_weights, error,
        )  # fmt: skip


class TargetTally:
    """Labels of the classes, or whether single precision holds all targets; refuses what no model can learn."""

    def __init__(self, name: str, is_classifier: bool):
        self.name, self.is_classifier = name, is_classifier
        self.labels: np.ndarray | None = None
        self.is_single = True

    def add(self, array: pa.Array) -> None:
        if array.null_count:
            raise ValueError(f"target {self.name!r} has missing values; leave out the rows without a target")
        if self.is_classifier:
            self._add_labels(read_labels(array))
            return
        values = read_target(self.name, array)
        if self.is_single:
            with np.errstate(over="ignore"):
                self.is_single = bool((values.astype(np.float32) == values).all())

    def _add_labels(self, labels: np.ndarray) -> None:
        if labels.dtype.kind == "f":
            if not np.isfinite(labels).all():
                raise ValueError(f"target {self.name!r} has missing or infinite values; leave out these rows")
            if (labels != np.floor(labels)).any():
                raise ValueError(
                    f"target {self.name!r} is continuous, but a classifier needs classes; fit a regression, or write "
                    "the classes as texts or whole numbers"
                )
        found = labels if self.labels is None else np.concatenate([self.labels, labels])
        self.labels = np.unique(found)
        if len(self.labels) > MAX_CLASSES:
            raise ValueError(
                f"target {self.name!r} has more than {MAX_CLASSES:,} different values; fit a regression instead"
            )

    def merge(self, other: TargetTally) -> None:
        self.is_single &= other.is_single
        if other.labels is not None:
            self._add_labels(other.labels)

    def classes(self) -> np.ndarray | None:
        if not self.is_classifier or self.labels is None:
            return None
        if len(self.labels) < 2:
            raise ValueError(
                f"target {self.name!r} has one class only, {self.labels.tolist()[0]!r}; a classifier needs two or more"
            )
        return self.labels

    def type(self) -> str:
        if self.is_classifier:
            assert self.labels is not None
            return _integer_type(0, len(self.labels))
        return "float32" if self.is_single else "float64"

    def to_bytes(self) -> bytes:
        labels = None if self.labels is None else [self.labels.dtype.str, self.labels.tolist()]
        return json.dumps([self.is_single, labels]).encode()

    def read_bytes(self, data: bytes) -> None:
        self.is_single, labels = json.loads(data)
        self.labels = None if labels is None else np.array(labels[1], dtype=labels[0])


def drop_rows(batch: pa.RecordBatch, roles: Roles) -> tuple[pa.RecordBatch, np.ndarray | None]:
    """The rows of positive weight, and their weights; None where the source has no weights."""
    if roles.weight is None:
        return batch, None
    weights = read_column(batch, roles.weight).to_numbers().numbers
    assert weights is not None
    weights = weights.astype(np.float64)
    if not np.isfinite(weights).all():
        raise ValueError(f"the weights {roles.weight!r} hold NaN or infinite values; weights must be finite")
    if (weights < 0).any():
        raise ValueError(f"the weights {roles.weight!r} hold negative values; weights must be 0 or more")
    keep = weights > 0
    if keep.all():
        return batch, weights
    dropped = batch.filter(pa.array(~keep))
    for name in roles.features:  # an infinite value is refused in every row
        if not is_text(dropped.schema.field(name).type):
            check_finite(name, read_column(dropped, name).numbers)  # type: ignore[arg-type]
    return batch.filter(pa.array(keep)), weights[keep]


def start_sketch(column: Column, kind: pa.DataType, wish: Any) -> NumberSketch | LevelSketch:
    """The sketch that a column asks for by its type and by what it is to be."""
    is_level = not isinstance(wish, str) or wish in ("nominal", "ordinal")
    if is_text(kind) and wish != "continuous":
        return LevelSketch(pa.types.is_dictionary(kind), column.ordered)
    return NumberSketch(MAX_LEVELS) if is_level else NumberSketch()


def distinct_column(name: str, sketch: NumberSketch | LevelSketch) -> tuple[Column, np.ndarray]:
    """A column of the distinct values that a sketch has kept, one row each, and their weights."""
    if isinstance(sketch, NumberSketch):
        values, mass = sketch.points()
        return Column(name, values), mass
    texts, mass = sketch.weigh()
    return Column(name, None, np.arange(len(texts), dtype=np.int32), texts, sketch.ordered), mass


def choose_type(axis: Axis, sketch: NumberSketch | LevelSketch | None) -> str:
    """The smallest type that holds all numbers of a column exactly."""
    if axis.is_level:
        return _integer_type(-1, len(axis.knots))
    assert isinstance(sketch, NumberSketch)
    values, _ = sketch.points()
    kind = _integer_type(values[0], values[-1]) if sketch.is_whole and len(values) else ""
    return kind or ("float32" if sketch.is_single else "float64")


def _integer_type(low: float, high: float) -> str:
    """The smallest integers from low to high, besides one that stands for missing; empty where none is large enough."""
    fitting = (kind for kind in INTEGERS if np.iinfo(kind).min < low and high <= np.iinfo(kind).max)
    return next(fitting, "")


def read_labels(array: pa.Array) -> np.ndarray:
    """The labels of a target that occur, as `fit` in memory would see them."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return pa.compute.unique(array).to_numpy(zero_copy_only=False)


def read_target(name: str, array: pa.Array) -> np.ndarray:
    """(N,) float64 targets of a regression, all finite."""
    try:
        values = array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ValueError(
            f"target {name!r} holds {array.type}, but a regression needs numbers; fit a classifier, or convert it"
        ) from None
    if not np.isfinite(values).all():
        raise ValueError(f"target {name!r} holds NaN or infinite values; leave out the rows without a finite target")
    if len(values) and np.abs(values).max() > MAX_TARGET:
        raise ValueError(f"target {name!r} holds values beyond ±{MAX_TARGET:.0e}, whose squares overflow; rescale it")
    return values


def index_labels(array: pa.Array, classes: np.ndarray) -> np.ndarray:
    """(N,) the place of each label among the classes."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    labels = pa.array(classes.tolist()).cast(array.type)
    found = pa.compute.index_in(array, value_set=labels)
    if found.null_count:
        raise ValueError("the target has labels that it did not have before; the data changed while they were read")
    return found.to_numpy(zero_copy_only=False).astype(np.int64)
