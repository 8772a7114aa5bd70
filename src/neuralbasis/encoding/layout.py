"""Layout: where the axes and the cells of all terms lie in flat arrays, as the kernels read them.

A term has one axis a feature: the column's own for a main effect, a coarser one (nested in it) for an interaction.
All tables together are one array of cells; a term's table is a contiguous piece of it, last axis fastest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix
from ..terms.term import Term
from .axis import Axis


@dataclass(frozen=True)
class Anchor:
    """The value that most rows of a column have, and their share. An anchored interaction is zero there.

    Whatever it would say at that value, terms of the other features can say as well.
    """

    value: float
    share: float


@dataclass(frozen=True, eq=False)
class Layout:
    """Flat description of axes and terms.

    The guide table of axis a starts at entry `guide_start[a]`, see `make_guide`. A term's axes are
    `term_axis[term_start[t]:term_start[t + 1]]`; its cells start at `term_offset[t]`, one step along axis d is
    `term_stride[term_start[t] + d]` cells. The main axes of all columns are the first axes.
    Rows whose position on `skip_axis[t]` is `skip_place[t]` contribute nothing to an anchored term; -1 is no axis.
    """

    axes: tuple[Axis, ...]
    axis_column: np.ndarray
    axis_start: np.ndarray
    axis_level: np.ndarray
    knots: np.ndarray
    guide: np.ndarray
    guide_start: np.ndarray
    guide_line: np.ndarray
    anchors: Mapping[int, Anchor]
    terms: tuple[Term, ...]
    term_start: np.ndarray
    term_axis: np.ndarray
    term_stride: np.ndarray
    term_offset: np.ndarray
    skip_axis: np.ndarray
    skip_place: np.ndarray
    n_cells: int

    @property
    def axis_arrays(self) -> tuple[np.ndarray, ...]:
        guide = self.guide, self.guide_start, self.guide_line
        return self.axis_column, self.axis_start, self.axis_level, self.knots, *guide

    @property
    def term_arrays(self) -> tuple[np.ndarray, ...]:
        return self.term_start, self.term_axis, self.term_stride, self.term_offset

    def terms_between(self, first: int, last: int) -> tuple[np.ndarray, ...]:
        """`term_arrays` and `skips` of the terms first … last - 1."""
        own = slice(first, last)
        offsets = self.term_offset[own], self.skip_axis[own], self.skip_place[own]
        return self.term_start[first : last + 1], self.term_axis, self.term_stride, *offsets

    @property
    def skips(self) -> tuple[np.ndarray, np.ndarray]:
        return self.skip_axis, self.skip_place

    def anchored_share(self, index: int) -> float:
        """Share of the rows that the term with this index skips."""
        axis = self.skip_axis[index]
        return self.anchors[int(self.axis_column[axis])].share if axis >= 0 else 0.0

    def axes_of(self, index: int) -> tuple[Axis, ...]:
        """Axes of the term with this index."""
        return tuple(self.axes[a] for a in self.term_axis[self.term_start[index] : self.term_start[index + 1]])

    def table_shape(self, index: int) -> tuple[int, ...]:
        """Cells of the term's table along each of its axes."""
        return tuple(axis.n_cells for axis in self.axes_of(index))

    def cells_of(self, index: int) -> slice:
        """The term's piece of the flat array of cells."""
        start = int(self.term_offset[index])
        return slice(start, start + math.prod(self.table_shape(index)))

    def encode(self, numbers: np.ndarray | SparseMatrix, threads: int = 1, dtype: type = np.float32) -> Any:
        """numbers (N, D) -> positions (N, A); stored numbers -> stored positions, with the absent one on every axis."""
        if isinstance(numbers, SparseMatrix):
            return self._encode_stored(numbers, threads, dtype)
        positions: np.ndarray = np.empty((len(numbers), len(self.axes)), dtype=dtype)

        def work(_part, first, last):
            return kernels.locate_rows(first, last, numbers, *self.axis_arrays, positions)

        raise_if_infinite(self.axes, kernels.share_rows(work, len(numbers), threads))
        return positions

    def _encode_stored(self, numbers: SparseMatrix, threads: int, dtype: type) -> SparseMatrix:
        absent = self.encode(np.full((1, numbers.n_columns), numbers.absent), dtype=dtype)[0]
        axes = np.argsort(self.axis_column, kind="stable")
        axes_start = np.searchsorted(self.axis_column[axes], np.arange(numbers.n_columns + 1))
        starts = np.r_[0, np.cumsum(np.diff(axes_start)[numbers.column])][numbers.starts]
        axis, positions = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=dtype)

        def work(_part, first, last):
            entries = numbers.starts, numbers.column, numbers.value[:, None]
            found = starts, axis, positions
            return kernels.locate_stored(first, last, *entries, axes_start, axes, *self.axis_arrays, *found)

        raise_if_infinite(self.axes, kernels.share_rows(work, len(numbers), threads))
        moved = positions != absent[axis]  # a value beyond the last knots may stand where the absent one does
        starts, axis, positions = np.r_[0, np.cumsum(moved)][starts], axis[moved], positions[moved]
        return SparseMatrix(starts, axis, positions, absent, len(self.axes))


def list_touches(layout: Layout, absent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Terms that an entry on axis a touches: those from starts[a] to starts[a + 1], and how many of a term's axes come
    before a in it. A row touches a term where it has an entry on a and none on the axes before.

    An anchored term that the absent position on its axis skips is touched by entries on that axis alone.
    """
    term = np.repeat(np.arange(len(layout.terms)), np.diff(layout.term_start))
    before = np.arange(len(term)) - layout.term_start[term]
    skip_axis = layout.skip_axis[term]
    is_skipped = (skip_axis >= 0) & (absent[skip_axis] == layout.skip_place[term])
    kept = np.flatnonzero(~is_skipped | (layout.term_axis == skip_axis))
    order = kept[np.argsort(layout.term_axis[kept], kind="stable")]
    starts = np.searchsorted(layout.term_axis[order], np.arange(len(absent) + 1))
    return starts, term[order], np.where(is_skipped, 0, before)[order]


def line_up(positions: np.ndarray | SparseMatrix, axes: Sequence[int] | np.ndarray) -> np.ndarray:
    """(axes, N) positions of all rows on some axes."""
    if isinstance(positions, SparseMatrix):
        return np.stack([positions.read_column(axis) for axis in axes])
    return np.ascontiguousarray(positions[:, axes].T)


def lay_out(
    axes: Sequence[Axis],
    terms: Sequence[Term],
    max_knots: Mapping[int, int],
    anchors: Mapping[int, Anchor] | None = None,
) -> Layout:
    """Give every term its axes and place the tables one after the other, features and terms sorted by name.

    Names, not the order of columns, decide which input of a basis a feature is and in which order terms are summed, so
    that a model does not depend on the order of columns. Interactions are anchored at the features of `anchors`.
    """
    terms = [tuple(sorted(term, key=lambda feature: axes[feature].name)) for term in terms]
    terms = sorted(terms, key=lambda term: (len(term), [axes[feature].name for feature in term]))
    return flatten(axes, terms, _choose_axes(axes, terms, max_knots), anchors or {})


def _choose_axes(axes: Sequence[Axis], terms: Sequence[Term], max_knots: Mapping[int, int]) -> list[tuple[Axis, ...]]:
    """Axes of every term, nested in those of its parts.

    An interaction of order o has max_knots[o] knots a feature; where all features but one have two values, it keeps
    the columns' own axes: its tables are small, and the bases see few points more.
    """
    coarse: dict[tuple[int, int], Axis] = {}
    for feature in {feature for term in terms if len(term) > 1 for feature in term}:
        axis = axes[feature]
        for order in sorted(max_knots):  # from one to the next, so that they nest
            axis = coarse[order, feature] = axis.coarsen(max_knots[order])

    def choose(term: Term) -> tuple[Axis, ...]:
        own = tuple(axes[feature] for feature in term)
        if sum(len(axis.knots) > 2 for axis in own) <= 1:
            return own
        return tuple(coarse[len(term), feature] for feature in term)

    return [choose(term) for term in terms]


def flatten(
    axes: Sequence[Axis], terms: Sequence[Term], term_axes: Sequence[Sequence[Axis]], anchors: Mapping[int, Anchor] = {}
) -> Layout:
    """Number the axes (each object once) and place the tables in the order of `terms`."""
    all_axes, column_of = list(axes), list(range(len(axes)))
    index_of = {id(axis): index for index, axis in enumerate(all_axes)}
    flat_axis: list[int] = []
    stride: list[int] = []
    start, offset = [0], [0]
    skips: list[tuple[int, float]] = []
    for term, used in zip(terms, term_axes, strict=True):
        for feature, axis in zip(term, used, strict=True):
            if id(axis) not in index_of:
                index_of[id(axis)] = len(all_axes)
                all_axes.append(axis)
                column_of.append(feature)
            flat_axis.append(index_of[id(axis)])
        skips.append(_choose_skip(term, used, flat_axis[start[-1] :], anchors))
        cells = [axis.n_cells for axis in used]
        stride.extend(math.prod(cells[d + 1 :]) for d in range(len(cells)))
        start.append(len(flat_axis))
        offset.append(offset[-1] + math.prod(cells))
    counts = [len(axis.knots) for axis in all_axes]
    guide, guide_start, lines = _join_guides(all_axes)
    return Layout(
        axes=tuple(all_axes),
        axis_column=np.array(column_of, dtype=np.int64),
        axis_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        axis_level=np.array([axis.is_level for axis in all_axes], dtype=np.bool_),
        knots=np.concatenate([axis.knots for axis in all_axes]),
        guide=guide,
        guide_start=guide_start,
        guide_line=lines,
        anchors=anchors,
        terms=tuple(terms),
        term_start=np.array(start, dtype=np.int64),
        term_axis=np.array(flat_axis, dtype=np.int64),
        term_stride=np.array(stride, dtype=np.int64),
        term_offset=np.array(offset[:-1], dtype=np.int64),
        skip_axis=np.array([axis for axis, _ in skips], dtype=np.int64),
        skip_place=np.array([place for _, place in skips], dtype=np.float32),
        n_cells=offset[-1],
    )


def _choose_skip(
    term: Term, axes: Sequence[Axis], numbers: Sequence[int], anchors: Mapping[int, Anchor]
) -> tuple[int, float]:
    """Number of the axis on which most rows stand on the anchor, and their position."""
    found = [
        (anchors[feature].share, number, position)
        for feature, axis, number in zip(term, axes, numbers, strict=True)
        if len(term) > 1 and feature in anchors and (position := anchor_position(axis, anchors[feature])) > 0
    ]
    return max(found)[1:] if found else (-1, -1.0)


def anchor_position(axis: Axis, anchor: Anchor) -> int:
    """Position of the anchor on an axis, -1 if it is not among its knots."""
    found = np.flatnonzero(axis.knots == anchor.value)
    return int(found[0]) + 1 if len(found) else -1


def _join_guides(axes: Sequence[Axis]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Guide tables one after the other, where that of each axis starts, and the lines (A, 3).

    Of very many axes, those with equally few knots share a table of a single bucket: searching them costs next to
    nothing, and a guide table that does not stay in the cache would not help.
    """
    few = 2 if len(axes) <= MANY_AXES else FEW_KNOTS
    known: dict[int, int] = {}
    pieces: list[np.ndarray] = []
    starts, lines, size = np.empty(len(axes), dtype=np.int64), np.zeros((len(axes), 3)), 0
    for index, axis in enumerate(axes):
        count = len(axis.knots)
        start = known.get(count)
        if start is None:
            piece, lines[index] = make_guide(axis.knots, few)
            pieces.append(piece)
            start, size = size, size + len(piece)
            if count <= few:
                known[count] = start
        starts[index] = start
    return np.concatenate(pieces), starts, lines


def make_guide(knots: np.ndarray, few: int = 2) -> tuple[np.ndarray, tuple[float, float, float]]:
    """A table that takes a value to the few knots around it: one entry more than it has buckets, and the line
    value -> bucket (start, scale, last bucket).

    There are `BUCKETS` for each knot, at most `MAX_BUCKETS`; few knots are all in one bucket. Buckets are even over a
    range of knots, the outermost also hold what lies outside; of several ranges, the one that leaves fewest knots to
    search is taken, so that long tails do not crowd the bulk into one bucket. A value in bucket j lies between the
    knots guide[j] and guide[j + 1]: rounding cannot break that, since the same monotone line takes knots and values to
    buckets.
    """
    last = len(knots) - 1
    if last < few:
        return np.array([0, max(last - 1, 0)], dtype=np.int32), (0.0, 0.0, 0.0)
    n_buckets = min(BUCKETS * len(knots), MAX_BUCKETS)
    some = knots[:: -(-len(knots) // MAX_JUDGES)]
    places = [(int(last * low), math.ceil(last * high)) for low in _GUIDE_LOW for high in _GUIDE_HIGH]
    low, high = knots[np.array(places).T]
    lines = _guide_lines(low, high, n_buckets)
    best = int(np.argmin(_count_search(_find_buckets(some, lines, n_buckets))))
    size = np.bincount(_find_buckets(knots, lines[best : best + 1], n_buckets)[0], minlength=n_buckets)
    before = np.r_[0, np.cumsum(size)]  # knots in earlier buckets
    start, scale = lines[best].tolist()
    return np.clip(before - 1, 0, last - 1).astype(np.int32), (start, scale, n_buckets - 1.0)


MANY_AXES, FEW_KNOTS = 2048, 32
BUCKETS, MAX_BUCKETS = 16, 2048  # of an axis' guide table: for each knot, and at most
MAX_JUDGES = 4096  # knots that choose the range of the buckets
_GUIDE_LOW, _GUIDE_HIGH = (0.0, 0.1, 0.25), [share / 20 for share in range(10, 21)]


def _guide_lines(low: np.ndarray, high: np.ndarray, n_buckets: int) -> np.ndarray:
    """(L, 2) start and scale of each line, which takes low to the first bucket and high to the last."""
    with np.errstate(over="ignore", divide="ignore"):
        scale = (n_buckets - 1) / (high - low)
    return np.where(np.isfinite(scale)[:, None], np.stack([low, scale], axis=1), 0.0)  # 0 · (value - 0) is never NaN


def _find_buckets(knots: np.ndarray, lines: np.ndarray, n_buckets: int) -> np.ndarray:
    """(L, G) bucket of every knot by each line."""
    with np.errstate(over="ignore", invalid="ignore"):
        places = (knots - lines[:, :1]) * lines[:, 1:]
    return np.nan_to_num(places, nan=0.0).clip(0, n_buckets - 1).astype(np.int64)


def _count_search(buckets: np.ndarray) -> np.ndarray:
    """(L,) steps of binary searches for all knots within their buckets."""
    is_first = np.ones(buckets.shape, dtype=bool)
    is_first[:, 1:] = buckets[:, 1:] != buckets[:, :-1]
    first = np.flatnonzero(is_first)
    size = np.diff(np.r_[first, buckets.size])
    return np.add.reduceat(size * np.log2(1 + size), np.searchsorted(first, np.arange(len(buckets)) * buckets.shape[1]))


def raise_if_infinite(axes: Sequence[Axis], column: int) -> None:
    """Raise for the column index that a kernel returned; -1 means that all values were finite."""
    if column >= 0:
        raise ValueError(
            f"column {axes[column].name!r} holds an infinite value; neuralbasis expects finite numbers or missing "
            "values (NaN): replace it before fitting or predicting"
        )
