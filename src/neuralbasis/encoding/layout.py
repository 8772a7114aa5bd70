"""Layout: the axes and tables of all terms as flat arrays, the form that the kernels read.

In: axes of the columns and a list of terms. Out: `Layout`, which also encodes numbers (N, D) to positions (N, A). A
term has one axis per feature: the column's own for a main effect, a coarser one nested in it for an interaction. All
tables together are one array of cells; each table is a contiguous slice of it, last axis fastest. A guide table maps a
value to the few knots around it, which shortens the search for its position.
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
    """The most frequent value of a column and its share of the rows. An anchored interaction is zero at that value.

    Nothing is lost: the terms of the other features can represent its contribution there.
    """

    value: float
    share: float


@dataclass(frozen=True, eq=False)
class Layout:
    """Flat description of A axes and T terms.

    The first axes are the main axes of all columns. The guide table of axis a starts at entry `guide_start[a]`, see
    `make_guide`. The axes of term t are `term_axis[term_start[t]:term_start[t + 1]]`. Its cells start at
    `term_offset[t]`; one step along its axis d is `term_stride[term_start[t] + d]` cells. An anchored term is zero for
    rows whose position on axis `skip_axis[t]` is `skip_place[t]`; `skip_axis` is -1 for other terms.
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
        """The arrays of the axes, in the order of the kernels' arguments."""
        guide = self.guide, self.guide_start, self.guide_line
        return self.axis_column, self.axis_start, self.axis_level, self.knots, *guide

    @property
    def term_arrays(self) -> tuple[np.ndarray, ...]:
        """The arrays of the terms, in the order of the kernels' arguments."""
        return self.term_start, self.term_axis, self.term_stride, self.term_offset

    def terms_between(self, first: int, last: int) -> tuple[np.ndarray, ...]:
        """`term_arrays` and `skips` of the terms first … last - 1."""
        own = slice(first, last)
        offsets = self.term_offset[own], self.skip_axis[own], self.skip_place[own]
        return self.term_start[first : last + 1], self.term_axis, self.term_stride, *offsets

    @property
    def skips(self) -> tuple[np.ndarray, np.ndarray]:
        """The axes and positions at which anchored terms are zero."""
        return self.skip_axis, self.skip_place

    def anchored_share(self, index: int) -> float:
        """Share of the rows for which the term with this index is zero by its anchor."""
        axis = self.skip_axis[index]
        return self.anchors[int(self.axis_column[axis])].share if axis >= 0 else 0.0

    def axes_of(self, index: int) -> tuple[Axis, ...]:
        """Axes of the term with this index."""
        return tuple(self.axes[a] for a in self.term_axis[self.term_start[index] : self.term_start[index + 1]])

    def table_shape(self, index: int) -> tuple[int, ...]:
        """Number of cells of the term's table along each of its axes."""
        return tuple(axis.n_cells for axis in self.axes_of(index))

    def cells_of(self, index: int) -> slice:
        """The term's slice of the flat array of cells."""
        start = int(self.term_offset[index])
        return slice(start, start + math.prod(self.table_shape(index)))

    def encode(self, numbers: np.ndarray | SparseMatrix, threads: int = 1, dtype: type = np.float32) -> Any:
        """Positions (N, A) of numbers (N, D); a sparse matrix gives sparse positions, with an absent one per axis."""
        if isinstance(numbers, SparseMatrix):
            return self._encode_sparse(numbers, threads, dtype)
        positions: np.ndarray = np.empty((len(numbers), len(self.axes)), dtype=dtype)
        arrays = numbers, *self.axis_arrays, positions
        bad = kernels.share_rows(lambda _, *rows: kernels.locate_rows(*rows, *arrays), len(numbers), threads)
        raise_if_infinite(self.axes, bad)
        return positions

    def _encode_sparse(self, numbers: SparseMatrix, threads: int, dtype: type) -> SparseMatrix:
        absent = self.encode(np.full((1, numbers.n_columns), numbers.absent), dtype=dtype)[0]
        axes = np.argsort(self.axis_column, kind="stable")
        axes_start = np.searchsorted(self.axis_column[axes], np.arange(numbers.n_columns + 1))
        starts = np.r_[0, np.cumsum(np.diff(axes_start)[numbers.column])][numbers.starts]
        axis, positions = np.empty(starts[-1], dtype=np.int32), np.empty(starts[-1], dtype=dtype)
        entries = numbers.starts, numbers.column, numbers.value[:, None]
        arrays = *entries, axes_start, axes, *self.axis_arrays, starts, axis, positions
        bad = kernels.share_rows(lambda _, *rows: kernels.locate_stored(*rows, *arrays), len(numbers), threads)
        raise_if_infinite(self.axes, bad)
        keep = positions != absent[axis]  # a value beyond the last knot may have the position of the absent one
        starts, axis, positions = np.r_[0, np.cumsum(keep)][starts], axis[keep], positions[keep]
        return SparseMatrix(starts, axis, positions, absent, len(self.axes))


def list_touches(layout: Layout, absent: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Terms touched by an entry on each axis: starts (A + 1,), terms, and the number of a term's axes before this one.

    The terms of axis a are `terms[starts[a]:starts[a + 1]]`. A row touches a term through the first of the term's axes
    on which it has an entry. If the absent position makes an anchored term zero, only entries on the anchored axis
    touch that term.
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
    """(axes, N) Positions of all rows on some axes."""
    if isinstance(positions, SparseMatrix):
        return np.stack([positions.read_column(axis) for axis in axes])
    return np.ascontiguousarray(positions[:, axes].T)


def lay_out(
    axes: Sequence[Axis],
    terms: Sequence[Term],
    max_knots: Mapping[int, int],
    anchors: Mapping[int, Anchor] | None = None,
    moves: bool = True,
) -> Layout:
    """The layout of terms, with features and terms sorted by name.

    Sorting by name makes a model independent of the order of columns: it fixes which input of a basis a feature is and
    in which order terms are summed. `max_knots` is the limit per axis for each order of interactions. Interactions are
    anchored at the features of `anchors`. `moves` says whether `Axis.coarsen` moves the places of interactions.
    """
    terms = [tuple(sorted(term, key=lambda feature: axes[feature].name)) for term in terms]
    terms = sorted(terms, key=lambda term: (len(term), [axes[feature].name for feature in term]))
    return flatten(axes, terms, _choose_axes(axes, terms, max_knots, moves), anchors or {})


def _choose_axes(
    axes: Sequence[Axis], terms: Sequence[Term], max_knots: Mapping[int, int], moves: bool
) -> list[tuple[Axis, ...]]:
    """Axes of every term, nested in those of lower-order terms.

    An interaction of order o has at most max_knots[o] knots per feature. If all features but one have at most two
    values, it keeps the columns' own axes: its table is small, and the bases are evaluated at few more points.
    """
    coarse: dict[tuple[int, int], Axis] = {}
    for feature in {feature for term in terms if len(term) > 1 for feature in term}:
        axis = axes[feature]
        for order in sorted(max_knots):  # each from the one before: axes are nested
            axis = coarse[order, feature] = axis.coarsen(max_knots[order], moves)
    found = []
    for term in terms:
        own = tuple(axes[feature] for feature in term)
        is_small = sum(len(axis.knots) > 2 for axis in own) <= 1
        found.append(own if is_small else tuple(coarse[len(term), feature] for feature in term))
    return found


def flatten(
    axes: Sequence[Axis], terms: Sequence[Term], term_axes: Sequence[Sequence[Axis]], anchors: Mapping[int, Anchor] = {}
) -> Layout:
    """The layout of terms in the given order, with the given axes; an axis object that occurs twice is stored once."""
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
    guide, guide_start, guide_line = join_guides([axis.knots for axis in all_axes])
    return Layout(
        axes=tuple(all_axes),
        axis_column=np.array(column_of, dtype=np.int64),
        axis_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        axis_level=np.array([axis.is_level for axis in all_axes], dtype=np.bool_),
        knots=np.concatenate([axis.knots for axis in all_axes]),
        guide=guide,
        guide_start=guide_start,
        guide_line=guide_line,
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
    """Index of the axis whose anchor has the most rows, and the anchor's position; (-1, -1) without an anchor."""
    found = [
        (anchors[feature].share, number, position)
        for feature, axis, number in zip(term, axes, numbers, strict=True)
        if len(term) > 1 and feature in anchors and (position := anchor_position(axis, anchors[feature])) > 0
    ]
    return max(found)[1:] if found else (-1, -1.0)


def anchor_position(axis: Axis, anchor: Anchor) -> int:
    """Position of the anchor on an axis, -1 if it is not a knot."""
    found = np.flatnonzero(axis.knots == anchor.value)
    return int(found[0]) + 1 if len(found) else -1


def raise_if_infinite(axes: Sequence[Axis], column: int) -> None:
    """Raise for the column index that a kernel returned; -1 means that all values are finite."""
    if column >= 0:
        raise ValueError(
            f"column {axes[column].name!r} holds an infinite value; neuralbasis expects finite numbers or missing "
            "values (NaN): replace it before fitting or predicting"
        )


def join_guides(knots: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The guide tables of A axes in one array, where each starts (A,), and their lines (A, 3).

    With very many axes, those with equally few knots share a table of one bucket: their search costs little, and guide
    tables that exceed the processor's cache would not help.
    """
    few = 2 if len(knots) <= 2048 else 32
    start_of: dict[int, int] = {}  # by number of knots if they share a table, otherwise by axis
    tables: list[np.ndarray] = []
    starts, lines, size = np.empty(len(knots), dtype=np.int64), np.zeros((len(knots), 3)), 0
    for index, axis_knots in enumerate(knots):
        key = len(axis_knots) if len(axis_knots) <= few else -1 - index
        if key not in start_of:
            table, lines[index] = make_guide(axis_knots, few)
            tables.append(table)
            start_of[key], size = size, size + len(table)
        starts[index] = start_of[key]
    return np.concatenate(tables), starts, lines


def make_guide(knots: np.ndarray, few: int = 2) -> tuple[np.ndarray, tuple[float, float, float]]:
    """The guide table of one axis (buckets + 1 entries) and its line value -> bucket (start, scale, last bucket).

    A value v lies in bucket j = (v - start) · scale, clipped to 0 … last bucket, and between knots guide[j] and
    guide[j + 1]. Up to `few` knots share one bucket. Buckets are even over a range of knots, and the outermost also
    hold the values outside. Among several ranges, the one that leaves the fewest knots to search is chosen, so long
    tails do not crowd the bulk into one bucket. Rounding is harmless: one monotone line maps knots and values.
    """
    last = len(knots) - 1
    if last < few:
        return np.array([0, max(last - 1, 0)], dtype=np.int32), (0.0, 0.0, 0.0)
    n_buckets = min(16 * len(knots), 2048)
    lows, highs = (0.0, 0.1, 0.25), [share / 20 for share in range(10, 21)]  # shares of the knots
    low, high = knots[np.array([(int(last * low), math.ceil(last * high)) for low in lows for high in highs]).T]
    with np.errstate(over="ignore", divide="ignore"):
        scale = (n_buckets - 1) / (high - low)
    # Each line maps low to the first bucket and high to the last; 0 · (value - 0) is never NaN.
    lines = np.where(np.isfinite(scale)[:, None], np.stack([low, scale], axis=1), 0.0)
    some = knots[:: -(-len(knots) // 4096)]  # enough to compare the lines
    best = int(np.argmin(_count_search(_find_buckets(some, lines, n_buckets))))
    size = np.bincount(_find_buckets(knots, lines[best : best + 1], n_buckets)[0], minlength=n_buckets)
    before = np.r_[0, np.cumsum(size)]  # knots in earlier buckets
    return np.clip(before - 1, 0, last - 1).astype(np.int32), (*lines[best].tolist(), n_buckets - 1.0)


def _find_buckets(knots: np.ndarray, lines: np.ndarray, n_buckets: int) -> np.ndarray:
    """(L, G) Bucket of every knot by each line."""
    with np.errstate(over="ignore", invalid="ignore"):
        places = (knots - lines[:, :1]) * lines[:, 1:]
    return np.nan_to_num(places, nan=0.0).clip(0, n_buckets - 1).astype(np.int64)


def _count_search(buckets: np.ndarray) -> np.ndarray:
    """(L,) Steps of binary searches for all knots within their buckets."""
    is_first = np.ones(buckets.shape, dtype=bool)
    is_first[:, 1:] = buckets[:, 1:] != buckets[:, :-1]
    first = np.flatnonzero(is_first)
    size = np.diff(np.r_[first, buckets.size])
    return np.add.reduceat(size * np.log2(1 + size), np.searchsorted(first, np.arange(len(buckets)) * buckets.shape[1]))
