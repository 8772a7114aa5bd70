"""The two engines: where the bases are evaluated, and how a batch of rows reads the cells.

Grid (default): the points are the knots of all axes and never change; a row interpolates between knots.
Exact (the paper's): the points are the distinct places of the batch, each weighted by how often it occurs; repeated
values cost nothing. Both make `Points` for `BasisNet.table`; the forward pass is the same.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..data.sparse import SparseMatrix
from ..encoding.layout import Layout, anchor_position
from ..networks.basis_net import OrderPoints, Points
from .lookup import CompiledLookUp, LookUp, choose_lookup


@dataclass(frozen=True, eq=False)
class Cells:
    """The kind of every cell of a layout: a value of the bases, a free parameter, or always zero."""

    free: np.ndarray  # (cells,) index among the free cells, -1 otherwise
    based: np.ndarray  # (cells,) True where the value comes from the bases
    places: tuple[np.ndarray, ...]  # for each term (its cells, order) places of its cells, NaN outside the knots

    @property
    def n_free(self) -> int:
        return int(self.free.max(initial=-1)) + 1


def describe_cells(layout: Layout) -> Cells:
    """Knots are based, levels of nominal main effects and missing values are free, unseen values are zero.

    PAPER §4.1 one-hot encodes nominal columns. A one-hot column has one free parameter, so a free cell per level is the
    same model.
    """
    is_free, based, places = [], [], []
    for index in range(len(layout.terms)):
        axes = layout.axes_of(index)
        cell = np.indices(layout.table_shape(index)).reshape(len(axes), -1)  # along each axis: missing, knots, unseen
        last = np.array([[axis.n_cells - 1] for axis in axes])
        knots, unseen = ((cell > 0) & (cell < last)).all(axis=0), (cell == last).any(axis=0)
        nominal, is_used = len(axes) == 1 and axes[0].kind == "nominal", ~find_anchored(layout, index)
        based.append(is_used & knots & (not nominal))
        is_free.append(is_used & ~unseen & (nominal | ~knots))
        along = zip(axes, cell, strict=True)
        places.append(np.stack([np.r_[np.nan, axis.places, np.nan][one] for axis, one in along], axis=1))
    free = np.concatenate(is_free)
    return Cells(np.where(free, np.cumsum(free) - 1, -1), np.concatenate(based), tuple(places))


def find_anchored(layout: Layout, index: int) -> np.ndarray:
    """Which cells of an interaction lie on the anchor of one of its features; they are always zero."""
    term, shape = layout.terms[index], layout.table_shape(index)
    found = np.zeros(shape, dtype=bool)
    if len(term) > 1:
        for d, (feature, axis) in enumerate(zip(term, layout.axes_of(index), strict=True)):
            position = anchor_position(axis, layout.anchors[feature]) if feature in layout.anchors else -1
            if position > 0:
                np.moveaxis(found, d, 0)[position] = True
    return found.ravel()


class GridEngine:
    """Points at the knots, weighted by the rows: `weights` (N,) at `positions` (N, A)."""

    def __init__(
        self, layout: Layout, positions: np.ndarray | SparseMatrix, weights: np.ndarray, threads: int, device="cpu"
    ):
        self.layout, self.positions, self.device = layout, positions, torch.device(device)
        self.threads = threads
        self.cells = describe_cells(layout)
        self.lookup = choose_lookup(positions, layout, threads, self.device)
        self.cell_weight = self._weigh_cells(weights)
        self.points = self._find_knots()

    def _weigh_cells(self, weights: np.ndarray) -> np.ndarray:
        """(cells,) weight of the rows on each cell, shared between neighbouring knots as interpolation does."""
        layout = replace(self.layout, skip_axis=np.full(len(self.layout.terms), -1))
        lookup = choose_lookup(self.positions, layout, self.threads, torch.device("cpu"))
        total = torch.zeros(layout.n_cells, 1, dtype=torch.float64)
        for first in range(0, len(weights), 65536):
            rows = np.arange(first, min(first + 65536, len(weights)))
            weight = torch.from_numpy(weights[rows, None, None]).double()
            total += lookup.scatter(lookup.take(rows), weight, layout.n_cells)
        return total[:, 0].numpy()

    def _find_knots(self) -> Points:
        """Distinct places of all based cells, and the source of every cell."""
        layout, cells = self.layout, self.cells
        source = np.full(layout.n_cells, -1, dtype=np.int64)
        orders, count = {}, 0
        for order in sorted({len(term) for term in layout.terms}):
            terms = [index for index, term in enumerate(layout.terms) if len(term) == order]
            chosen = [cells.based[layout.cells_of(index)] for index in terms]
            place = np.concatenate([cells.places[index][mask] for index, mask in zip(terms, chosen, strict=True)])
            ids = np.concatenate(
                [layout.cells_of(i).start + np.flatnonzero(mask) for i, mask in zip(terms, chosen, strict=True)]
            )
            term = np.repeat(np.arange(len(terms)), [mask.sum() for mask in chosen])
            source[ids] = count + np.arange(len(ids))
            count += len(ids)
            orders[order] = order_points(place, self.cell_weight[ids], term, self.device)
        is_free = cells.free >= 0
        source[is_free] = count + cells.free[is_free]
        source[source < 0] = count + cells.n_free
        return Points(orders, torch.from_numpy(source).to(self.device))

    def find_member_mask(self, member_mask: Tensor) -> tuple[dict[int, Tensor], Tensor]:
        """Columns (D, M) that members use -> terms (T, M) by order of which they use all columns, and the free cells
        (free, M) of these terms."""
        terms, sizes = self.layout.terms, np.diff([*self.layout.term_offset, self.layout.n_cells])
        used = torch.stack([member_mask[list(term)].all(dim=0) for term in terms]).to(self.device)
        orders = np.array([len(term) for term in terms])
        free = np.repeat(np.arange(len(terms)), sizes)[self.cells.free >= 0]
        return {int(order): used[orders == order] for order in np.unique(orders)}, used[free]

    def with_threads(self, threads: int) -> GridEngine:
        """The same engine on `threads` threads."""
        other = copy(self)
        other.threads = threads
        if isinstance(self.lookup, CompiledLookUp):
            other.lookup = copy(self.lookup)
            other.lookup.threads = threads
        return other

    def read(self, positions: np.ndarray | SparseMatrix) -> GridEngine:
        """The same knots, read by rows at other positions."""
        other = copy(self)
        other.positions = positions
        other.lookup = choose_lookup(positions, self.layout, self.threads, self.device)
        return other

    def take(self, own: slice) -> GridEngine:
        """The same knots, read by some of the rows."""
        return self.read(self.positions[own])

    def batch(self, rows: np.ndarray) -> tuple[Points, LookUp, np.ndarray]:
        """Points to evaluate and how these rows read them."""
        return self.points, self.lookup, rows


class ExactEngine:
    """Points at the distinct places of each batch."""

    def __init__(self, grid: GridEngine):
        self.grid = grid

    def batch(self, rows: np.ndarray) -> tuple[Points, LookUp, np.ndarray]:
        grid, layout, device = self.grid, self.grid.layout, self.grid.device
        positions = grid.positions[rows]
        pieces: dict[int, list[tuple[np.ndarray, np.ndarray, int]]] = {}
        found, count = [], 0
        for order in sorted({len(term) for term in layout.terms}):
            terms = [t for t, term in enumerate(layout.terms) if len(term) == order]
            for rank, term in enumerate(terms):
                where, on_axes, times = _read_term(positions, layout, term)
                based, place, fixed = self._places(term, on_axes)
                distinct, inverse = _distinct_rows(place[based])
                index = np.empty(len(on_axes))
                index[based], index[~based] = count + inverse, -1 - fixed[~based]
                found.append((term, where, index))
                weight = np.bincount(inverse, times[based], minlength=len(distinct))
                pieces.setdefault(order, []).append((distinct, weight, rank))
                count += len(distinct)
        orders = {}
        for order, parts in pieces.items():
            distinct, weight = (np.concatenate([part[item] for part in parts]) for item in (0, 1))
            term_of = np.repeat([rank for *_, rank in parts], [len(part[0]) for part in parts])
            orders[order] = order_points(distinct, weight, term_of, device)
        source = torch.arange(count + grid.cells.n_free + 1, device=device)
        # Missing, unseen and nominal cells follow the based ones.
        found = [(term, where, np.where(index < 0, count - 1 - index, index)) for term, where, index in found]
        return Points(orders, source), self._lookup(found, len(rows)), np.arange(len(rows))

    def _places(self, term: int, on_axes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For one term and positions (n, o): are they based, their places, and otherwise the index of the free cell."""
        layout, cells = self.grid.layout, self.grid.cells
        span, axes = slice(layout.term_start[term], layout.term_start[term + 1]), layout.axes_of(term)
        cell = layout.term_offset[term] + on_axes.astype(np.int64) @ layout.term_stride[span]
        place = np.stack(
            [np.interp(on_axes[:, d], np.arange(1, len(a.knots) + 1), a.places) for d, a in enumerate(axes)], axis=1
        )
        free = np.where(cells.free[cell] >= 0, cells.free[cell], cells.n_free)
        return cells.based[cell], place, free

    def _lookup(self, found: list[tuple[int, np.ndarray, np.ndarray]], n_rows: int) -> LookUp:
        """Every term reads one cell: an integer position on an axis of its own."""
        n_terms = len(found)
        count = np.arange(n_terms + 1, dtype=np.int64)
        layout = Layout(
            axes=(), axis_column=count[:-1], axis_start=count, axis_level=np.ones(n_terms, bool), knots=np.empty(0),
            guide=np.empty(0, np.int32), guide_start=count[:-1], guide_line=np.empty((n_terms, 3)), anchors={},
            terms=tuple((t,) for t in range(n_terms)), term_start=count, term_axis=count[:-1],
            term_stride=np.ones(n_terms, np.int64), term_offset=np.zeros(n_terms, np.int64),
            skip_axis=np.full(n_terms, -1), skip_place=np.zeros(n_terms, np.float32), n_cells=0,
        )  # fmt: skip
        if isinstance(self.grid.positions, SparseMatrix):
            return choose_lookup(_store_cells(found, n_rows), layout, 1, self.grid.device)
        cells = np.empty((n_rows, n_terms), dtype=np.float32)
        for term, _, index in found:
            cells[:, term] = index
        return choose_lookup(cells, layout, 1, self.grid.device)


def _read_term(
    positions: np.ndarray | SparseMatrix, layout: Layout, term: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, their positions (n, o) on the term's axes, and how many rows each stands for.

    Of a sparse matrix, the rows with a stored value there; the last position is the absent one, for all others.
    """
    axes = layout.term_axis[layout.term_start[term] : layout.term_start[term + 1]]
    if not isinstance(positions, SparseMatrix):
        rows = np.arange(len(positions))
        return rows, positions[:, axes], np.ones(len(rows))
    starts, row, value = positions.by_column
    pieces = [slice(starts[axis], starts[axis + 1]) for axis in axes]
    rows = np.unique(np.concatenate([row[piece] for piece in pieces]))
    on_axes = np.tile(positions.absent[axes], (len(rows) + 1, 1))
    for d, piece in enumerate(pieces):
        on_axes[np.searchsorted(rows, row[piece]), d] = value[piece]
    n_others = len(positions) - len(rows)
    if n_others == 0:  # add no point that no row has
        on_axes[-1] = on_axes[0]
    return rows, on_axes, np.r_[np.ones(len(rows)), n_others]


def _store_cells(found: list[tuple[int, np.ndarray, np.ndarray]], n_rows: int) -> SparseMatrix:
    """Cells of rows by term, the last for absent positions -> a sparse matrix of positions."""
    absent = np.empty(len(found), dtype=np.float32)
    for term, _, index in found:
        absent[term] = index[-1]
    row = np.concatenate([rows for _, rows, _ in found])
    axis = np.repeat([term for term, _, _ in found], [len(rows) for _, rows, _ in found])
    cell = np.concatenate([index[:-1] for _, _, index in found]).astype(np.float32)
    order = np.lexsort((axis, row))
    order = order[cell[order] != absent[axis[order]]]
    starts = np.searchsorted(row[order], np.arange(n_rows + 1))
    return SparseMatrix(starts, axis[order].astype(np.int32), cell[order], absent, len(found))


def order_points(place: np.ndarray, weight: np.ndarray, term: np.ndarray, device: torch.device) -> OrderPoints:
    """Cells (places, weight, term) of one order -> their distinct points."""
    distinct, point = _distinct_rows(place)
    total = np.bincount(point, weight, minlength=len(distinct))
    if total.sum() == 0:  # only missing values: any weight will do
        total[:] = 1.0
    total = np.ldexp(total, -np.frexp(total.max(initial=0.0))[1])  # a power of 2, to fit single precision
    arrays = distinct.astype(np.float32), total.astype(np.float32), term, point
    return OrderPoints(*(torch.from_numpy(array).to(device) for array in arrays))


def _distinct_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct rows in order, and the index of each row among them."""
    if rows.shape[1] == 1:  # faster
        distinct, inverse = np.unique(rows[:, 0], return_inverse=True)
        return distinct[:, None], inverse
    distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
    return distinct, inverse.ravel()
