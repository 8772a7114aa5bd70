"""Profile: the result of the first pass over a source: axes of the features, classes or range of the target, weights.

In: a `Source` and the roles of its columns. Out: the same `Profile` in every process. Each part of the source is
counted (`ColumnCounts`), and the counts of all parts are merged. `encoder.fit_axis` fits the axes, as in memory, to the
distinct values of a column and their weights instead of its rows.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ..data.columns import Column
from ..data.counts import ColumnCounts, Roles, read_counts, write_counts
from ..data.files import Source, require_names
from ..data.parts import N_PARTS, Communicator, assign_parts, gather_results, read_pieces
from ..data.sketches import LevelSketch, NumberSketch, TextSketch
from ..progress import open_bar
from .axis import Axis
from .encoder import Encoder, column_numbers, fit_axis, read_feature_types


@dataclass(frozen=True, eq=False)
class Profile:
    """The result of a pass over all rows of positive weight."""

    encoder: Encoder
    roles: Roles
    n_rows: int  # of positive weight, of all processes
    classes: np.ndarray | None  # labels in increasing order, None for a regression
    types: tuple[str, ...]  # the smallest that hold the features exactly
    target_type: str
    weight_sum: float
    whole_weights: bool
    error: np.ndarray  # (D,) largest error of a rank in each column, as a share of the weight; 0 is exact
    fingerprint: str  # of the source, before it was read
    closed: tuple[bool, ...]  # whether the feature has levels and its axis holds all levels of the source


class ProfileOptions(NamedTuple):
    """The parameters of a fit that a profile depends on."""

    feature_types: Sequence[Any] | Mapping[str, Any] | None = None
    scaling: str = "quantile"
    max_bins: int = 193
    verbose: bool = False


def choose_roles(
    source: Source, target: str, weight: str | None = None, features: Sequence[str] | None = None
) -> Roles:
    """The roles of a source's columns: features are the given ones, or all but target and weight."""
    named = [target] if weight is None else [target, weight]
    require_names([*named, *(features or ())], source.names, "the table")
    chosen = tuple(name for name in source.names if name not in named) if features is None else tuple(features)
    if repeated := [name for name in named if name in chosen]:
        raise ValueError(f"the column {repeated[0]!r} is target or weight, so it cannot be a feature; leave it out")
    if not chosen:
        raise ValueError(f"the table has no column besides {', '.join(map(repr, named))}; a model needs features")
    return Roles(target, weight, chosen)


def make_profile(
    source: Source,
    roles: Roles,
    is_classifier: bool,
    options: ProfileOptions,
    group: Communicator,
    threads: int,
    folder: str | os.PathLike[str] | None = None,
) -> Profile:
    """Read all rows once; counts in `folder` serve again if nothing has changed, even for other knots and scalings."""
    feature_types, knots = read_feature_types(options.feature_types, roles.features)
    fingerprint = source.fingerprint()
    start = partial(ColumnCounts, roles, feature_types, is_classifier)
    version = 3  # of stored counts
    key = [version, fingerprint, *roles.names, repr(feature_types), is_classifier, max(N_PARTS, group.size)]
    path = None if folder is None or not group.agree(fingerprint) else Path(folder) / f"profile.rank-{group.rank}.bin"
    total = start()
    is_stored = all(group.gather(path is not None and read_counts(path, key, total)))
    if not is_stored:
        total = start()
        found = gather_results(group, lambda: count_parts(source, start, group, threads, options.verbose))
        for part in chain.from_iterable(found):
            total.merge(pickle.loads(part))
    profile = finish_profile(total, options, knots, fingerprint)
    if path is not None and not is_stored:
        write_counts(path, key, total)
    return profile


def count_parts(
    source: Source, start: Callable[[], ColumnCounts], group: Communicator, threads: int, verbose: bool
) -> list[bytes]:
    """The counts of this process's parts of the source, pickled: many texts take less memory."""
    parts, packed = assign_parts(source, group.rank, group.size), []
    n_rows = sum(piece.n_rows or 0 for _, pieces in parts for piece in pieces)
    bar = open_bar(n_rows, "profile", "row", verbose and group.rank == 0)
    with bar, ThreadPoolExecutor(threads) as pool:
        for pieces in (pieces for _, pieces in parts if pieces):
            counts = start()
            for batch in read_pieces(source, pieces, counts.roles.names):
                counts.add(batch, pool)
                bar.update(batch.num_rows)
            counts.seal()
            packed.append(pickle.dumps(counts))
    return packed


def finish_profile(
    counts: ColumnCounts, options: ProfileOptions, knots: Mapping[str, Sequence[float]], fingerprint: str
) -> Profile:
    """The profile of the counts of all rows."""
    if counts.n_rows < 2:
        raise ValueError(f"the table has {counts.n_rows} row(s) of positive weight; a model needs at least 2")
    axes, sketches, closed = [], [], []
    for name, feature_type, sketch in zip(counts.roles.features, counts.feature_types, counts.sketches, strict=True):
        assert sketch is not None
        sketch = sketch.settle(name, feature_type) if isinstance(sketch, TextSketch) else sketch
        column, mass = distinct_column(name, sketch)
        axis = fit_axis(column, feature_type, mass, options.scaling, options.max_bins, knots.get(name))
        is_exact = not (sketch.lost if isinstance(sketch, LevelSketch) else sketch.error)
        axes.append(axis)
        sketches.append(sketch)
        closed.append(axis.is_level and is_exact and bool((column_numbers(axis, column) != -1).all()))
    classes = counts.classes()
    float_type = "float32" if counts.is_single else "float64"
    return Profile(
        encoder=Encoder(tuple(axes)),
        roles=counts.roles,
        n_rows=counts.n_rows,
        classes=classes,
        types=tuple(map(choose_type, axes, sketches)),
        target_type=float_type if classes is None else _integer_type(0, len(classes)),
        weight_sum=counts.weight_sum,
        whole_weights=counts.whole_weights,
        error=np.array([getattr(sketch, "error", 0.0) for sketch in sketches]),
        fingerprint=fingerprint,
        closed=tuple(closed),
    )


def distinct_column(name: str, sketch: NumberSketch | LevelSketch) -> tuple[Column, np.ndarray]:
    """A column with the distinct values of a sketch, one row each, and their weights."""
    if isinstance(sketch, NumberSketch):
        values, mass = sketch.points()
        return Column(name, values), mass
    texts, mass = sketch.weigh()
    return Column(name, None, np.arange(len(texts), dtype=np.int32), texts, sketch.ordered, sketch.declared), mass


def choose_type(axis: Axis, sketch: NumberSketch | LevelSketch) -> str:
    """The smallest type that holds all numbers of a column exactly."""
    if axis.is_level:
        return _integer_type(-1, len(axis.knots))
    assert isinstance(sketch, NumberSketch)
    values, _ = sketch.points()
    kind = _integer_type(values[0], values[-1]) if sketch.is_whole and len(values) else ""
    return kind or ("float32" if sketch.is_single else "float64")


def _integer_type(low: float, high: float) -> str:
    """The smallest integer type for low … high and its own minimum, which means "missing"; empty if none fits."""
    fitting = (kind for kind in ("int8", "int16", "int32") if np.iinfo(kind).min < low and high <= np.iinfo(kind).max)
    return next(fitting, "")


def index_labels(array: pa.Array, classes: np.ndarray) -> np.ndarray:
    """(N,) The index of each label among the classes, NaN for other labels."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        labels = pa.array(classes.tolist()).cast(array.type)
    except pa.ArrowInvalid:  # another type, and no label in common
        return np.full(len(array), np.nan)
    found = pa.compute.index_in(array, value_set=labels).to_numpy(zero_copy_only=False)
    return found if found.dtype.kind == "f" else found.astype(np.int64)


LoadedTable = tuple[pa.Table, np.ndarray, np.ndarray | None]  # the feature columns, y (N,), weights (N,) or None


def read_table(source: Source, roles: Roles, max_rows: int) -> LoadedTable | None:
    """All rows of a source, or None if there are more than `max_rows`."""
    if (source.n_rows or 0) > max_rows:
        return None
    batches, n_rows = [], 0
    for piece in source.pieces:
        for batch in source.read(piece, roles.names):
            batches.append(batch)
            n_rows += batch.num_rows
            if n_rows > max_rows:
                return None
    table = pa.Table.from_batches(batches)

    def read(name: str) -> np.ndarray:
        column = table[name]
        return (column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column).to_numpy()

    return table.select(roles.features), read(roles.target), None if roles.weight is None else read(roles.weight)
