"""Layout: where the axes and the cells of all terms lie in flat arrays, as the kernels read them.

A term has one axis a feature: the column's own for a main effect, a coarser one (nested in it) for an interaction.
All tables together are one array of cells; a term's table is a contiguous piece of it, last axis fastest.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from . import kernels
from .axis import Axis
from .terms import Term


@dataclass(frozen=True, eq=False)
class Layout:
    """Flat description of axes and terms.

    Row a of the guide table starts at entry a · (GUIDE + 1), see `make_guide`. A term's axes are
    `term_axis[term_start[t]:term_start[t + 1]]`; its cells start at `term_offset[t]`, one step along axis d is
    `term_stride[term_start[t] + d]` cells. The main axes of all columns are the first axes.
    """

    axes: tuple[Axis, ...]
    axis_column: np.ndarray
    axis_start: np.ndarray
    axis_level: np.ndarray
    knots: np.ndarray
    guide: np.ndarray
    guide_line: np.ndarray
    terms: tuple[Term, ...]
    term_start: np.ndarray
    term_axis: np.ndarray
    term_stride: np.ndarray
    term_offset: np.ndarray
    n_cells: int

    @property
    def axis_arrays(self) -> tuple[np.ndarray, ...]:
        return self.axis_column, self.axis_start, self.axis_level, self.knots, self.guide, self.guide_line

    @property
    def term_arrays(self) -> tuple[np.ndarray, ...]:
        return self.term_start, self.term_axis, self.term_stride, self.term_offset

    def axes_of(self, index: int) -> tuple[Axis, ...]:
        """Axes of the term with this index."""
        return tuple(self.axes[a] for a in self.term_axis[self.term_start[index] : self.term_start[index + 1]])

    def table_shape(self, index: int) -> tuple[int, ...]:
        """Cells of the term's table along each of its axes."""
        return tuple(axis.n_cells for axis in self.axes_of(index))

    def cells_of(self, index: int) -> slice:
        """The term's piece of the flat array of cells."""
        start = int(self.term_offset[index])
        return slice(start, start + int(np.prod(self.table_shape(index))))

    def axes_by_name(self) -> list[int]:
        """Main axes in the order of their names."""
        main = [axis.name for axis in self.axes[: int(self.axis_column.max()) + 1]]
        return sorted(range(len(main)), key=main.__getitem__)

    def encode(self, numbers: np.ndarray, threads: int = 1) -> np.ndarray:
        """numbers (N, D) -> positions (N, A) float32."""
        positions = np.empty((len(numbers), len(self.axes)), dtype=np.float32)

        def work(_part, first, last):
            return kernels.locate_rows(first, last, numbers, *self.axis_arrays, positions)

        raise_if_infinite(self.axes, kernels.share_rows(work, len(numbers), threads))
        return positions


def lay_out(axes: Sequence[Axis], terms: Sequence[Term], max_knots: Mapping[int, int]) -> Layout:
    """Give every term its axes and place the tables one after the other, features and terms sorted by name.

    Names, not the order of columns, decide which input of a basis a feature is and in which order terms are summed, so
    that a model does not depend on the order of columns.
    """
    terms = [tuple(sorted(term, key=lambda feature: axes[feature].name)) for term in terms]
    terms = sorted(terms, key=lambda term: (len(term), [axes[feature].name for feature in term]))
    return flatten(axes, terms, _choose_axes(axes, terms, max_knots))


def _choose_axes(axes: Sequence[Axis], terms: Sequence[Term], max_knots: Mapping[int, int]) -> list[tuple[Axis, ...]]:
    """Axes of every term: the column's own for main effects, otherwise one with at most `max_knots[order]` knots."""
    coarse: dict[tuple[int, int], Axis] = {}
    for order, feature in {(len(term), feature) for term in terms for feature in term}:
        coarse[order, feature] = axes[feature] if order == 1 else axes[feature].coarsen(max_knots[order])
    return [tuple(coarse[len(term), feature] for feature in term) for term in terms]


def flatten(axes: Sequence[Axis], terms: Sequence[Term], term_axes: Sequence[Sequence[Axis]]) -> Layout:
    """Number the axes (each object once) and place the tables in the order of `terms`."""
    all_axes, column_of = list(axes), list(range(len(axes)))
    index_of = {id(axis): index for index, axis in enumerate(all_axes)}
    flat_axis: list[int] = []
    stride: list[int] = []
    start, offset = [0], [0]
    for term, used in zip(terms, term_axes, strict=True):
        for feature, axis in zip(term, used, strict=True):
            if id(axis) not in index_of:
                index_of[id(axis)] = len(all_axes)
                all_axes.append(axis)
                column_of.append(feature)
            flat_axis.append(index_of[id(axis)])
        cells = [axis.n_cells for axis in used]
        stride.extend(int(np.prod(cells[d + 1 :])) for d in range(len(cells)))
        start.append(len(flat_axis))
        offset.append(offset[-1] + int(np.prod(cells)))
    counts = [len(axis.knots) for axis in all_axes]
    guides, lines = zip(*(make_guide(axis.knots) for axis in all_axes), strict=True)
    return Layout(
        axes=tuple(all_axes),
        axis_column=np.array(column_of, dtype=np.int64),
        axis_start=np.concatenate([[0], np.cumsum(counts)]).astype(np.int64),
        axis_level=np.array([axis.is_level for axis in all_axes], dtype=np.bool_),
        knots=np.concatenate([axis.knots for axis in all_axes]),
        guide=np.concatenate(guides),
        guide_line=np.array(lines),
        terms=tuple(terms),
        term_start=np.array(start, dtype=np.int64),
        term_axis=np.array(flat_axis, dtype=np.int64),
        term_stride=np.array(stride, dtype=np.int64),
        term_offset=np.array(offset[:-1], dtype=np.int64),
        n_cells=offset[-1],
    )


def make_guide(knots: np.ndarray) -> tuple[np.ndarray, tuple[float, float]]:
    """A table that takes a value to the few knots around it: (GUIDE + 1,) entries, and the line value -> bucket.

    Buckets are even over a range of knots, the outermost also hold what lies outside; of several ranges the one that
    leaves fewest knots to search is taken, so that long tails do not crowd the bulk into one bucket. A value in bucket
    j lies between the knots guide[j] and guide[j + 1]: rounding cannot break that, since the same monotone line takes
    knots and values to buckets.
    """
    last = len(knots) - 1
    ranges = [(int(last * low), math.ceil(last * high)) for low in _GUIDE_LOW for high in _GUIDE_HIGH]
    lines = {_guide_line(knots[low], knots[high]) for low, high in ranges}
    line = min(sorted(lines), key=lambda line: _count_search(_find_buckets(knots, *line)))
    before = np.searchsorted(_find_buckets(knots, *line), np.arange(kernels.GUIDE + 1))  # knots in earlier buckets
    return np.clip(before - 1, 0, max(last - 1, 0)).astype(np.int32), line


_GUIDE_LOW, _GUIDE_HIGH = (0.0, 0.1, 0.25), [share / 20 for share in range(10, 21)]


def _guide_line(low: float, high: float) -> tuple[float, float]:
    with np.errstate(over="ignore", divide="ignore"):
        scale = (kernels.GUIDE - 1) / (np.float64(high) - low)
    return (float(low), float(scale)) if np.isfinite(scale) else (0.0, 0.0)  # 0 · (value - 0) is never NaN


def _find_buckets(knots: np.ndarray, low: float, scale: float) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        places = (knots - low) * scale
    return np.nan_to_num(places, nan=0.0).clip(0, kernels.GUIDE - 1).astype(np.int64)


def _count_search(buckets: np.ndarray) -> float:
    """Mean steps of a binary search within the bucket of a knot."""
    size = np.bincount(buckets)
    return float((size * np.log2(1 + size)).sum())


def raise_if_infinite(axes: Sequence[Axis], column: int) -> None:
    """Raise for the column index that a kernel returned; -1 means that all values were finite."""
    if column >= 0:
        raise ValueError(
            f"column {axes[column].name!r} holds an infinite value; neuralbasis expects finite numbers or missing "
            "values (NaN): replace it before fitting or predicting"
        )
