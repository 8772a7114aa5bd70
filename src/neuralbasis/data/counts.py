"""ColumnCounts: summary of one pass over rows: a sketch per feature, the classes or range of the target, total weight.

In: record batches. Out: mergeable counts, which are sent to other processes and stored beside a cache. Rows of weight 0
are not counted. Targets and weights that no model can learn from raise an error that names the column.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ..serialization.archive import DocumentError
from ..serialization.nested_json import read_nested, write_nested
from .columns import Column, check_finite, weigh_codes
from .files import is_text, read_column
from .parts import N_PARTS
from .sketches import POINTS, AnySketch, LevelSketch, NumberSketch, TextSketch, fits_single
from .target import MAX_TARGET, is_whole
from .text_numbers import TextFacts

STORED = {kind.__name__: kind for kind in (NumberSketch, LevelSketch, TextSketch, TextFacts)}


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
        self.roles, self.feature_types, self.is_classifier = roles, feature_types, is_classifier
        self.sketches: list[AnySketch | None] = [None] * len(roles.features)
        self.n_rows, self.weight_sum, self.whole_weights = 0, 0.0, True
        self.labels: np.ndarray | None = None  # of a classifier, in increasing order
        self.is_single = True  # whether float32 holds all targets of a regression

    def add(self, batch: pa.RecordBatch, pool: Executor) -> None:
        """Count a batch of rows; the threads of `pool` divide the columns."""
        batch, weights = drop_rows(batch, self.roles)
        if batch.num_rows == 0:
            return
        self.n_rows += batch.num_rows
        self.weight_sum += float(batch.num_rows) if weights is None else float(weights.sum())
        self.whole_weights &= weights is None or is_whole(weights)
        self._add_target(batch.column(self.roles.target))
        list(pool.map(lambda index: self._add_column(batch, index, weights), range(len(self.sketches))))

    def _add_target(self, array: pa.Array) -> None:
        name = self.roles.target
        if array.null_count:
            raise ValueError(f"target {name!r} has missing values; leave out the rows without a target")
        if self.is_classifier:
            plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
            self._add_labels(pa.compute.unique(plain).to_numpy(zero_copy_only=False))
            return
        self.is_single &= fits_single(read_target(name, array))

    def _add_labels(self, labels: np.ndarray) -> None:
        name = self.roles.target
        if labels.dtype.kind == "f":
            if not np.isfinite(labels).all():
                raise ValueError(f"target {name!r} has missing or infinite values; leave out these rows")
            if (labels != np.floor(labels)).any():
                raise ValueError(
                    f"target {name!r} is continuous, but a classifier needs classes; fit a regression, or write the "
                    "classes as texts or whole numbers"
                )
        self.labels = np.unique(labels if self.labels is None else np.concatenate([self.labels, labels]))
        if len(self.labels) > 100_000:
            raise ValueError(f"target {name!r} has more than 100,000 different values; fit a regression instead")

    def _add_column(self, batch: pa.RecordBatch, index: int, weights: np.ndarray | None) -> None:
        name = self.roles.features[index]
        column = read_column(batch, name)
        sketch = self.sketches[index]
        if sketch is None:
            kind = batch.schema.field(name).type
            sketch = self.sketches[index] = _start_sketch(column, kind, self.feature_types[index])
        if isinstance(sketch, NumberSketch):
            sketch.add(column.to_numbers(), weights)
            return
        codes, levels = column.to_labels()  # a text column without a value in this batch is read as numbers
        sketch.add(levels, weigh_codes(codes, len(levels), weights))

    def merge(self, other: ColumnCounts) -> None:
        """Add the rows of other counts."""
        self.n_rows += other.n_rows
        self.weight_sum += other.weight_sum
        self.whole_weights &= other.whole_weights
        self.is_single &= other.is_single
        if other.labels is not None:
            self._add_labels(other.labels)
        for index, (own, more) in enumerate(zip(self.sketches, other.sketches, strict=True)):
            if own is None or more is None:
                self.sketches[index] = own or more
            else:
                own.merge(more)  # type: ignore[arg-type]

    def seal(self) -> None:
        """Thin the sketches: the counts of all parts, which every process holds when they merge, take up to 128 MiB."""
        n_points = int(np.clip((128 << 20) / (24 * N_PARTS * len(self.sketches)), 512, POINTS))
        for sketch in self.sketches:
            numbers = sketch.numbers if isinstance(sketch, TextSketch) else sketch
            if isinstance(numbers, NumberSketch):
                numbers.seal(n_points)

    def classes(self) -> np.ndarray | None:
        """The class labels in increasing order, None for a regression."""
        if self.labels is not None and len(self.labels) < 2:
            raise ValueError(
                f"target {self.roles.target!r} has one class only, {self.labels.tolist()[0]!r}; a classifier needs two "
                "or more"
            )
        return self.labels


def _start_sketch(column: Column, kind: pa.DataType, feature_type: Any) -> AnySketch:
    """An empty sketch for a column, by its Arrow type and its requested type."""
    is_level = not isinstance(feature_type, str) or feature_type in ("nominal", "ordinal")
    if is_text(kind):
        is_declared = pa.types.is_dictionary(kind)
        levels = LevelSketch(is_declared, column.ordered)
        return levels if is_level or (is_declared and feature_type != "continuous") else TextSketch(levels)
    return NumberSketch(max_exact=1_000_000) if is_level else NumberSketch()  # as many as a LevelSketch holds


def drop_rows(batch: pa.RecordBatch, roles: Roles) -> tuple[pa.RecordBatch, np.ndarray | None]:
    """The rows of positive weight, and their weights; None if the source has no weights."""
    if roles.weight is None:
        return batch, None
    weights = read_column(batch, roles.weight).to_numbers().astype(np.float64)
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


def write_counts(path: Path, key: Any, counts: ColumnCounts) -> None:
    """Store counts with the key that they depend on; without room on the disk they are not stored."""
    content = {
        "key": key,
        "totals": [counts.n_rows, counts.weight_sum, counts.whole_weights, counts.is_single],
        "labels": None if counts.labels is None else [counts.labels.dtype.str, counts.labels.tolist()],
        "sketches": [_pack(sketch) for sketch in counts.sketches],
    }
    with suppress(OSError, DocumentError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_nested(path, content)


def read_counts(path: Path, key: Any, counts: ColumnCounts) -> bool:
    """Fill counts with those stored with this key; False if the file is missing, damaged or has another key."""
    try:
        found = read_nested(path)
        counts.n_rows, counts.weight_sum, counts.whole_weights, counts.is_single = found["totals"]
        counts.labels = None if found["labels"] is None else np.array(found["labels"][1], dtype=found["labels"][0])
        counts.sketches = [_unpack(sketch) for sketch in found["sketches"]]
        return bool(found["key"] == key)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return False


def _pack(value: Any) -> Any:
    """A sketch as nested JSON: the name of its class and its attributes; a dict of weights as two arrays."""
    if isinstance(value, dict):
        texts = np.frombuffer(json.dumps(list(value)).encode(), np.uint8)
        return {"dict": [texts, np.array(list(value.values()), dtype=float)]}
    if type(value).__name__ in STORED:
        return {type(value).__name__: {name: _pack(item) for name, item in vars(value).items()}}
    return value


def _unpack(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, state),) = value.items()
    if kind == "dict":
        return dict(zip(json.loads(state[0].tobytes()), state[1].tolist(), strict=True))
    found = object.__new__(STORED[kind])
    vars(found).update({name: _unpack(item) for name, item in state.items()})
    return found
