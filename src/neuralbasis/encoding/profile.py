"""Profile: the first pass over a source, from rows to axes.

Every lane is tallied: sketches of the features, labels and range of the target, rows and weights. Tallies of all lanes
merge into the same profile on every process. Its axes come from the rule that fits them in memory (`encoder.fit_axis`),
given the distinct values of a column and their weights instead of its rows.
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
from ..data.counts import ColumnCounts, Packed, Roles, read_tallies, write_tallies
from ..data.files import Piece, Source, require_names
from ..data.sketches import LevelSketch, NumberSketch, TextSketch
from ..data.writers import LANES, deal_lanes, gather_results, read_pieces
from ..progress import Bar, open_bar
from .axis import Axis
from .encoder import Encoder, check_knots, column_numbers, fit_axis, list_wishes

FORMAT = 2  # of kept tallies
INTEGERS = ("int8", "int16", "int32")  # the smallest value of each stands for missing


@dataclass(frozen=True, eq=False)
class Profile:
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
    fingerprint : of the source, before it was read
    closed : of each feature, whether it has levels and all that were seen are on its axis
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
    """The roles of a source's columns: those that are neither target nor weight are features, or some are listed."""
    named = [target] if weight is None else [target, weight]
    require_names([*named, *(features or ())], source.names, "the table")
    rest = tuple(name for name in source.names if name not in named) if features is None else tuple(features)
    if odd := [name for name in named if name in rest]:
        raise ValueError(f"the column {odd[0]!r} is target or weight, so it cannot be a feature; leave it out")
    if not rest:
        raise ValueError(f"the table has no column besides {', '.join(map(repr, named))}; a model needs features")
    return Roles(target, weight, rest)


def make_profile(
    source: Source,
    roles: Roles,
    is_classifier: bool,
    parameters: Any,
    group: Any,
    threads: int,
    folder: str | os.PathLike[str] | None = None,
) -> Profile:
    """Read all rows once; `parameters` has feature_types, scaling, max_bins, knots and verbose.

    What was seen is kept in the folder, and taken from there if nothing has changed, whatever the knots and scaling.
    """
    check_knots(parameters.knots, roles.features)
    wishes, knots = list_wishes(parameters.feature_types, parameters.knots, roles.features)
    fingerprint = source.fingerprint()
    start = partial(ColumnCounts, roles, wishes, is_classifier)
    key = [FORMAT, fingerprint, *roles.names, repr(wishes), is_classifier, max(LANES, group.size)]
    path = None if folder is None or not group.agree(fingerprint) else Path(folder) / f"profile.rank-{group.rank}.bin"
    kept = group.gather(None if path is None else read_tallies(path, key))
    packed, is_known = kept[group.rank], all(lanes is not None for lanes in kept)
    if not is_known or packed is None:
        found = gather_results(group, lambda: tally_lanes(source, start, group, threads, bool(parameters.verbose)))
        packed = [lane for lanes in found for lane in lanes]
    whole = start()
    for lane in packed:
        whole.merge(start().unpack(lane))
    profile = finish_profile(whole, parameters, knots, fingerprint)
    if path is not None and not is_known:
        write_tallies(path, key, packed)
    return profile


def tally_lanes(source: Source, start: Callable[[], ColumnCounts], group: Any, threads: int, verbose: bool) -> Packed:
    """The tallies of this process's lanes."""
    lanes = deal_lanes(source, group.rank, group.size)
    total = sum(piece.n_rows or 0 for _, pieces in lanes for piece in pieces)
    bar = open_bar(total, "profile", "row", verbose and group.rank == 0)
    with bar, ThreadPoolExecutor(threads) as pool:
        return [tally_lane(source, pieces, start(), pool, bar) for _, pieces in lanes if pieces]


def tally_lane(source: Source, pieces: Sequence[Piece], tally: ColumnCounts, pool: Executor, bar: Bar) -> list[bytes]:
    """The tally of one lane, small enough to send."""
    for batch in read_pieces(source, pieces, tally.roles.names):
        tally.add(batch, pool)
        bar.update(batch.num_rows)
    tally.seal()
    return tally.pack()


def finish_profile(
    tally: ColumnCounts, parameters: Any, knots: Mapping[str, Sequence[float]], fingerprint: str
) -> Profile:
    """The profile of all that was seen."""
    if tally.n_rows < 2:
        raise ValueError(f"the table has {tally.n_rows} row(s) of positive weight; a model needs at least 2")
    scaling = "quantile" if parameters.scaling == "auto" else parameters.scaling
    axes, sketches, closed = [], [], []
    for name, wish, sketch in zip(tally.roles.features, tally.wishes, tally.sketches, strict=True):
        assert sketch is not None
        sketch = sketch.settle(name, wish) if isinstance(sketch, TextSketch) else sketch
        sketches.append(sketch)
        column, mass = distinct_column(name, sketch)
        axes.append(fit_axis(column, wish, mass, scaling, parameters.max_bins, knots.get(name)))
        is_whole = not (sketch.lost if isinstance(sketch, LevelSketch) else sketch.error)
        closed.append(axes[-1].is_level and is_whole and bool((column_numbers(axes[-1], column) != -1).all()))
    types = tuple(map(choose_type, axes, sketches))
    error = np.array([getattr(sketch, "error", 0.0) for sketch in sketches])
    classes = tally.target.classes()
    kind = _integer_type(0, len(classes)) if classes is not None else "float32" if tally.target.is_single else "float64"
    return Profile(
        Encoder(tuple(axes)), tally.roles, tally.n_rows, classes, types, kind, tally.weight_sum, tally.whole_weights,
        error, fingerprint, tuple(closed),
    )  # fmt: skip


def distinct_column(name: str, sketch: NumberSketch | LevelSketch) -> tuple[Column, np.ndarray]:
    """A column of the distinct values that a sketch has kept, one row each, and their weights."""
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
    """The smallest integers from low to high, besides one that stands for missing; empty where none is large enough."""
    fitting = (kind for kind in INTEGERS if np.iinfo(kind).min < low and high <= np.iinfo(kind).max)
    return next(fitting, "")


def index_labels(array: pa.Array, classes: np.ndarray) -> np.ndarray:
    """(N,) the place of each label among the classes, NaN for others."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    try:
        labels = pa.array(classes.tolist()).cast(array.type)
    except pa.ArrowInvalid:  # another type, and no label in common
        return np.full(len(array), np.nan)
    found = pa.compute.index_in(array, value_set=labels).to_numpy(zero_copy_only=False)
    return found if found.dtype.kind == "f" else found.astype(np.int64)
