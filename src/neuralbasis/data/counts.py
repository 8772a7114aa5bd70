"""ColumnCounts: summary of one pass over rows: a sketch per feature, the classes or range of the target, total weight.

In: record batches. Out: mergeable counts, which are sent to other processes and stored beside a cache as bytes. Rows of
weight 0 are not counted. Targets and weights that no model can learn from raise an error that names the column.
"""

from __future__ import annotations

import io
import json
import zlib
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ..serialization.temporary_file import replace_when_done
from .columns import Column
from .files import is_text, read_column
from .numbers import check_finite
from .parts import N_PARTS
from .sketches import MAX_LEVELS, POINTS, AnySketch, LevelSketch, NumberSketch, TextSketch
from .target import MAX_TARGET

MAX_CLASSES = 100_000
SEALED_BYTES = 128 << 20  # limit for the counts of all parts, which every process holds when they merge

PackedCounts = list[list[bytes]]  # of several parts, see `ColumnCounts.pack`


@dataclass(frozen=True)
class Roles:
    """Which columns of a source are target, weight and features."""

    target: str
    weight: str | None
    features: tuple[str, ...]

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        return [*self.features, self.target, *([] if self.weight is None else [self.weight])]


class ColumnCounts:
    """Counts of some rows; `feature_types` holds the requested type of each feature."""

    def __init__(self, roles: Roles, feature_types: Sequence[Any], is_classifier: bool):
        self.roles, self.feature_types = roles, feature_types
        self.sketches: list[AnySketch | None] = [None] * len(roles.features)
        self.target = TargetCounts(roles.target, is_classifier)
        self.n_rows, self.weight_sum, self.whole_weights = 0, 0.0, True

    def add(self, batch: pa.RecordBatch, pool: Executor) -> None:
        """Count a batch of rows; the threads of `pool` divide the columns."""
        batch, weights = drop_rows(batch, self.roles)
        if batch.num_rows == 0:
            return
        self.n_rows += batch.num_rows
        self.weight_sum += float(batch.num_rows) if weights is None else float(weights.sum())
        self.whole_weights &= weights is None or bool((weights == np.floor(weights)).all())
        self.target.add(batch.column(self.roles.target))
        list(pool.map(lambda index: self._add_column(batch, index, weights), range(len(self.sketches))))

    def _add_column(self, batch: pa.RecordBatch, index: int, weights: np.ndarray | None) -> None:
        name = self.roles.features[index]
        column, kind = read_column(batch, name), batch.schema.field(name).type
        sketch = self.sketches[index]
        if sketch is None:
            sketch = self.sketches[index] = start_sketch(column, kind, self.feature_types[index])
        if isinstance(sketch, NumberSketch):
            numbers = column.to_numbers().numbers
            assert numbers is not None
            sketch.add(numbers, weights)
            return
        labels = column.to_labels()  # a text column without a value in this batch is read as numbers
        assert labels.codes is not None
        assert labels.levels is not None
        mass = np.bincount(labels.codes + 1, weights, minlength=len(labels.levels) + 1)  # missing is first
        sketch.add(labels.levels, mass[1:], float(mass[0]))

    def merge(self, other: ColumnCounts) -> None:
        """Add the rows of other counts."""
        self.n_rows += other.n_rows
        self.weight_sum += other.weight_sum
        self.whole_weights &= other.whole_weights
        self.target.merge(other.target)
        for index, (own, more) in enumerate(zip(self.sketches, other.sketches, strict=True)):
            if own is None or more is None:
                self.sketches[index] = own or more
            else:
                own.merge(more)  # type: ignore[arg-type]

    def seal(self) -> None:
        """Thin the sketches: the counts of all parts together stay within `SEALED_BYTES`."""
        n_points = int(np.clip(SEALED_BYTES / (24 * N_PARTS * len(self.sketches)), 512, POINTS))
        for sketch in self.sketches:
            if isinstance(sketch, (NumberSketch, TextSketch)):
                (sketch.numbers if isinstance(sketch, TextSketch) else sketch).seal(n_points)

    def pack(self) -> list[bytes]:
        """The counts as bytes: rows and weights, target, then one sketch per feature."""
        totals = json.dumps([self.n_rows, self.weight_sum, self.whole_weights]).encode()
        letters = {NumberSketch: b"n", LevelSketch: b"l", TextSketch: b"t"}
        packed = [b"" if sketch is None else letters[type(sketch)] + sketch.to_bytes() for sketch in self.sketches]
        return [totals, self.target.pack(), *packed]

    def unpack(self, packed: Sequence[bytes]) -> ColumnCounts:
        """Replace these counts by packed ones, and return them."""
        kinds: dict[bytes, Any] = {b"n": NumberSketch, b"l": LevelSketch, b"t": TextSketch}
        self.n_rows, self.weight_sum, self.whole_weights = json.loads(packed[0])
        self.target.unpack(packed[1])
        self.sketches = [kinds[data[:1]].from_bytes(data[1:]) if data else None for data in packed[2:]]
        return self


class TargetCounts:
    """The class labels of a classifier, or whether float32 holds all targets of a regression; checks the target."""

    def __init__(self, name: str, is_classifier: bool):
        self.name, self.is_classifier = name, is_classifier
        self.labels: np.ndarray | None = None
        self.is_single = True

    def add(self, array: pa.Array) -> None:
        """Count the targets of a batch."""
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

    def merge(self, other: TargetCounts) -> None:
        """Add the rows of other counts."""
        self.is_single &= other.is_single
        if other.labels is not None:
            self._add_labels(other.labels)

    def classes(self) -> np.ndarray | None:
        """The class labels in increasing order, None for a regression."""
        if not self.is_classifier or self.labels is None:
            return None
        if len(self.labels) < 2:
            raise ValueError(
                f"target {self.name!r} has one class only, {self.labels.tolist()[0]!r}; a classifier needs two or more"
            )
        return self.labels

    def pack(self) -> bytes:
        """The counts as JSON."""
        labels = None if self.labels is None else [self.labels.dtype.str, self.labels.tolist()]
        return json.dumps([self.is_single, labels]).encode()

    def unpack(self, data: bytes) -> None:
        """Replace these counts by packed ones."""
        self.is_single, labels = json.loads(data)
        self.labels = None if labels is None else np.array(labels[1], dtype=labels[0])


def drop_rows(batch: pa.RecordBatch, roles: Roles) -> tuple[pa.RecordBatch, np.ndarray | None]:
    """The rows of positive weight, and their weights; None if the source has no weights."""
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
    for name in roles.features:  # infinite values are errors even in rows of weight 0
        if not is_text(dropped.schema.field(name).type):
            check_finite(name, read_column(dropped, name).numbers)  # type: ignore[arg-type]
    return batch.filter(pa.array(keep)), weights[keep]


def start_sketch(column: Column, kind: pa.DataType, feature_type: Any) -> AnySketch:
    """An empty sketch for a column, by its Arrow type and its requested type."""
    is_level = not isinstance(feature_type, str) or feature_type in ("nominal", "ordinal")
    if is_text(kind):
        is_declared = pa.types.is_dictionary(kind)
        levels = LevelSketch(is_declared, column.ordered)
        return levels if is_level or (is_declared and feature_type != "continuous") else TextSketch(levels)
    return NumberSketch(MAX_LEVELS) if is_level else NumberSketch()


def read_labels(array: pa.Array) -> np.ndarray:
    """The distinct labels of a target, as a fit in memory would read them."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    return pa.compute.unique(array).to_numpy(zero_copy_only=False)


def read_target(name: str, array: pa.Array) -> np.ndarray:
    """(N,) Targets of a regression, float64 and finite."""
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


def write_counts(path: Path, key: Any, packed: PackedCounts) -> None:
    """Store packed counts with the key that they depend on; without room on the disk they are not stored."""
    data = b"".join(item for part in packed for item in part)
    header = {"key": key, "sizes": [[len(item) for item in part] for part in packed], "checksum": zlib.crc32(data)}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError), replace_when_done(path) as file:
        file.write(json.dumps(header).encode() + b"\n" + data)


def read_counts(path: Path, key: Any) -> PackedCounts | None:
    """The counts stored with this key; None if the file is missing, damaged or has another key."""
    try:
        head, _, data = path.read_bytes().partition(b"\n")
        header = json.loads(head)
        if header["key"] != key or header["checksum"] != zlib.crc32(data):
            return None
        file = io.BytesIO(data)
        return [[file.read(size) for size in part] for part in header["sizes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
