"""Profile: the result of the first pass over a source: axes of the features, classes or range of the target, weights.

In: a `Source` and the roles of its columns. Out: the same `Profile` in every process. Each part of the source is
counted (`ColumnCounts`), and the counts of all parts are merged. `encoder.fit_axis` fits the axes, as in memory, to the
distinct values of a column and their weights instead of its rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

from ..data.columns import Column
from ..data.counts import ColumnCounts, PackedCounts, Roles, read_counts, write_counts
from ..data.files import Piece, Source, require_names
from ..data.parts import N_PARTS, Communicator, assign_parts, gather_results, read_pieces
from ..data.sketches import LevelSketch, NumberSketch, TextSketch
from ..progress import Bar, open_bar
from .axis import Axis
from .encoder import Encoder, check_knots, column_numbers, fit_axis, read_feature_types

FORMAT = 2  # of stored counts
INTEGERS = ("int8", "int16", "int32")  # the smallest value of each means "missing"


@dataclass(frozen=True, eq=False)
class Profile:
    """The result of a pass over all rows of positive weight.

    Parameters
    ----------
    encoder : Encoder
        The axes of the features.
    roles : Roles
    n_rows : int
        Rows of positive weight, of all processes.
    classes : ndarray of shape (classes,) or None
        Labels in increasing order, None for a regression.
    types : tuple of D str
        The smallest types that hold the features exactly.
    target_type : str
        The same for the target.
    weight_sum : float
        Weight of all rows.
    whole_weights : bool
        Whether all weights are integers.
    error : ndarray of shape (D,)
        Largest error of a rank in each column, as a share of the weight; 0 is exact.
    fingerprint : str
        Of the source, before it was read.
    closed : tuple of D bool
        Whether the feature has levels and its axis holds all levels of the source.
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
    fingerprint: str
    closed: tuple[bool, ...]


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
    parameters: Any,
    group: Communicator,
    threads: int,
    folder: str | os.PathLike[str] | None = None,
) -> Profile:
    """Read all rows once; `parameters` has feature_types, scaling, max_bins, knots and verbose.

    The counts are stored in `folder` and used again if nothing has changed, even for other knots and scalings.
    """
    check_knots(parameters.knots, roles.features)
    feature_types, knots = read_feature_types(parameters.feature_types, parameters.knots, roles.features)
    fingerprint = source.fingerprint()
    start = partial(ColumnCounts, roles, feature_types, is_classifier)
    key = [FORMAT, fingerprint, *roles.names, repr(feature_types), is_classifier, max(N_PARTS, group.size)]
    path = None if folder is None or not group.agree(fingerprint) else Path(folder) / f"profile.rank-{group.rank}.bin"
    stored = group.gather(None if path is None else read_counts(path, key))
    packed, is_stored = stored[group.rank], all(counts is not None for counts in stored)
    if not is_stored or packed is None:
        found = gather_results(group, lambda: count_parts(source, start, group, threads, bool(parameters.verbose)))
        packed = [part for parts in found for part in parts]
    total = start()
    for part in packed:
        total.merge(start().unpack(part))
    profile = finish_profile(total, parameters, knots, fingerprint)
    if path is not None and not is_stored:
        write_counts(path, key, packed)
    return profile


def count_parts(
    source: Source, start: Callable[[], ColumnCounts], group: Communicator, threads: int, verbose: bool
) -> PackedCounts:
    """The counts of this process's parts of the source."""
    parts = assign_parts(source, group.rank, group.size)
    n_rows = sum(piece.n_rows or 0 for _, pieces in parts for piece in pieces)
    bar = open_bar(n_rows, "profile", "row", verbose and group.rank == 0)
    with bar, ThreadPoolExecutor(threads) as pool:
        return [count_part(source, pieces, start(), pool, bar) for _, pieces in parts if pieces]


def count_part(source: Source, pieces: Sequence[Piece], counts: ColumnCounts, pool: Executor, bar: Bar) -> list[bytes]:
    """Add the rows of some pieces to the counts, and pack them."""
    for batch in read_pieces(source, pieces, counts.roles.names):
        counts.add(batch, pool)
        bar.update(batch.num_rows)
    counts.seal()
    return counts.pack()


def finish_profile(
    counts: ColumnCounts, parameters: Any, knots: Mapping[str, Sequence[float]], fingerprint: str
) -> Profile:
    """The profile of the counts of all rows."""
    if counts.n_rows < 2:
        raise ValueError(f"the table has {counts.n_rows} row(s) of positive weight; a model needs at least 2")
    scaling = "quantile" if parameters.scaling == "auto" else parameters.scaling
    axes, sketches, closed = [], [], []
    for name, feature_type, sketch in zip(counts.roles.features, counts.feature_types, counts.sketches, strict=True):
        assert sketch is not None
        sketch = sketch.settle(name, feature_type) if isinstance(sketch, TextSketch) else sketch
        column, mass = distinct_column(name, sketch)
        axis = fit_axis(column, feature_type, mass, scaling, parameters.max_bins, knots.get(name))
        is_exact = not (sketch.lost if isinstance(sketch, LevelSketch) else sketch.error)
        axes.append(axis)
        sketches.append(sketch)
        closed.append(axis.is_level and is_exact and bool((column_numbers(axis, column) != -1).all()))
    classes = counts.target.classes()
    float_type = "float32" if counts.target.is_single else "float64"
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
    """The smallest integer type for low … high and the value that means "missing"; empty if none is large enough."""
    fitting = (kind for kind in INTEGERS if np.iinfo(kind).min < low and high <= np.iinfo(kind).max)
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
