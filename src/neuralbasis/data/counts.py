"""ColumnCounts: a sketch of every feature, labels or range of the target, number and weight of the rows.

Tallies of two parts merge into that of both. They are sent to other processes, and kept beside a cache, as bytes.
Rows of weight 0 are not counted; what no model can learn from is refused here, by the name of its column.
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
from .sketches import MAX_LEVELS, POINTS, AnySketch, LevelSketch, NumberSketch, TextSketch
from .target import MAX_TARGET
from .writers import LANES

MAX_CLASSES = 100_000
SEALED_BYTES = 128 << 20

Packed = list[list[bytes]]  # tallies as bytes, a lane each


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


class ColumnCounts:
    """What was seen of every column of some rows."""

    def __init__(self, roles: Roles, wishes: Sequence[Any], is_classifier: bool):
        self.roles, self.wishes = roles, wishes
        self.sketches: list[AnySketch | None] = [None] * len(roles.features)
        self.target = TargetCounts(roles.target, is_classifier)
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
            return
        labels = column.to_labels()  # a text column without a value in this batch came as numbers
        assert labels.codes is not None
        assert labels.levels is not None
        mass = np.bincount(labels.codes + 1, weights, minlength=len(labels.levels) + 1)  # missing comes first
        sketch.add(labels.levels, mass[1:], float(mass[0]))

    def merge(self, other: ColumnCounts) -> None:
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
        """Make it small: tallies of all lanes, which every process holds for a moment, stay within `SEALED_BYTES`."""
        n_points = int(np.clip(SEALED_BYTES / (24 * LANES * len(self.sketches)), 512, POINTS))
        for sketch in self.sketches:
            if isinstance(sketch, (NumberSketch, TextSketch)):
                (sketch.numbers if isinstance(sketch, TextSketch) else sketch).seal(n_points)

    def pack(self) -> list[bytes]:
        """All of it as bytes: rows, target, then a sketch a feature."""
        facts = json.dumps([self.n_rows, self.weight_sum, self.whole_weights]).encode()
        letters = {NumberSketch: b"n", LevelSketch: b"l", TextSketch: b"t"}
        packed = [b"" if sketch is None else letters[type(sketch)] + sketch.to_bytes() for sketch in self.sketches]
        return [facts, self.target.pack(), *packed]

    def unpack(self, packed: Sequence[bytes]) -> ColumnCounts:
        """This tally, with what another has packed."""
        kinds: dict[bytes, Any] = {b"n": NumberSketch, b"l": LevelSketch, b"t": TextSketch}
        self.n_rows, self.weight_sum, self.whole_weights = json.loads(packed[0])
        self.target.unpack(packed[1])
        self.sketches = [kinds[data[:1]].from_bytes(data[1:]) if data else None for data in packed[2:]]
        return self


class TargetCounts:
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

    def merge(self, other: TargetCounts) -> None:
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

    def pack(self) -> bytes:
        labels = None if self.labels is None else [self.labels.dtype.str, self.labels.tolist()]
        return json.dumps([self.is_single, labels]).encode()

    def unpack(self, data: bytes) -> None:
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


def start_sketch(column: Column, kind: pa.DataType, wish: Any) -> AnySketch:
    """The sketch of a column, by its type and its requested type."""
    is_level = not isinstance(wish, str) or wish in ("nominal", "ordinal")
    if is_text(kind):
        is_declared = pa.types.is_dictionary(kind)
        levels = LevelSketch(is_declared, column.ordered)
        return levels if is_level or (is_declared and wish != "continuous") else TextSketch(levels)
    return NumberSketch(MAX_LEVELS) if is_level else NumberSketch()


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


def write_tallies(path: Path, key: Any, packed: Packed) -> None:
    """Keep tallies in a file, with what they depend on; without room for it they are found again the next time."""
    data = b"".join(part for lane in packed for part in lane)
    facts = {"key": key, "sizes": [[len(part) for part in lane] for lane in packed], "checksum": zlib.crc32(data)}
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(OSError), replace_when_done(path) as file:
        file.write(json.dumps(facts).encode() + b"\n" + data)


def read_tallies(path: Path, key: Any) -> Packed | None:
    """The tallies of a file that depend on just this; None if it has no such, or is damaged."""
    try:
        head, _, data = path.read_bytes().partition(b"\n")
        facts = json.loads(head)
        if facts["key"] != key or facts["checksum"] != zlib.crc32(data):
            return None
        file = io.BytesIO(data)
        return [[file.read(size) for size in lane] for lane in facts["sizes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return None
