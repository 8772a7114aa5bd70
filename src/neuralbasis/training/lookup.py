"""Rows read the table: scores of a batch, and the gradient of the table as a histogram of the batch's gradients.

Three implementations have equal results: compiled kernels on the CPU for dense and for sparse positions, and torch
indexing on other devices.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..data.sparse import SparseMatrix
from ..encoding.layout import Layout, list_touches

MIN_WORK = 2**17  # numbers to look up: a thread with fewer costs more than it saves


class CompiledLookUp:
    """positions (N, A) float32 with the terms of a layout, on `threads` threads.

    Sums are in double precision and rounded at the end: they hardly ever depend on the order of summation. Training
    amplifies differences, and must take the same path for dense and sparse tables and any number of processes.
    """

    sums = torch.float64  # dtype of sums of losses and gradients over rows

    def __init__(self, positions: np.ndarray, layout: Layout, threads: int = 1):
        self.positions, self.threads = positions, threads
        self.arrays, self.n_terms = (*layout.term_arrays, *layout.skips), len(layout.terms)
        shares = [1.0 - layout.anchored_share(index) for index in range(self.n_terms)]
        self.effort = np.r_[0.0, np.cumsum(np.array(shares) * 2.0 ** np.diff(layout.term_start) + 0.1)]
        self.row_work: float = self.n_terms

    def take(self, rows: np.ndarray) -> Any:
        """Positions (A, b) of a batch."""
        taken = np.empty((self.positions.shape[1], len(rows)), dtype=np.float32)

        def work(_part: int, first: int, last: int) -> int:
            return kernels.take_rows(first, last, self.positions, rows, taken)

        kernels.share_rows(work, len(rows), self._threads(taken.size), min_rows=1)
        return taken

    def gather(self, taken: np.ndarray, table: Tensor, per_term: bool = False) -> Tensor:
        """table (cells, C) -> sums over the terms (b, 1, C), or contributions (b, T, C) of each term."""
        cells, n_rows = table.numpy(), taken.shape[-1]
        out, work = self._start_gather(taken, cells, per_term)
        kernels.share_rows(work, n_rows, self._threads(int(n_rows * cells.shape[1] * self.row_work)), min_rows=1)
        return torch.from_numpy(out).to(table.dtype)

    def scatter(self, taken: np.ndarray, grad: Tensor, n_cells: int) -> Tensor:
        """Gradient of the result of `gather` -> gradient (cells, C) of the table; terms are shared by equal effort."""
        slopes = grad.contiguous().double().numpy()
        out = np.zeros((n_cells, slopes.shape[2]))
        work = self._start_scatter(taken, slopes, grad.shape[1] > 1, out)
        threads = self._threads(int(len(slopes) * slopes.shape[2] * self.row_work))
        edges = np.searchsorted(self.effort, self.effort[-1] * np.arange(threads + 1) / threads)
        kernels.share_work(work, np.minimum(edges, self.n_terms))  # rounding may move the last edge past the end
        return torch.from_numpy(out).to(grad.dtype)

    def _threads(self, work: int) -> int:
        """Threads worth starting for `work` numbers."""
        return max(1, min(self.threads, work // MIN_WORK))

    def _start_gather(self, taken: np.ndarray, cells: np.ndarray, per_term: bool) -> tuple[np.ndarray, Callable]:
        out = np.zeros((taken.shape[1], self.n_terms if per_term else 1, cells.shape[1]))
        arrays = taken, *self.arrays, cells, per_term, out
        return out, lambda _part, first, last: kernels.gather_rows(first, last, *arrays)

    def _start_scatter(self, taken: np.ndarray, slopes: np.ndarray, per_term: bool, out: np.ndarray) -> Callable:
        arrays = taken, *self.arrays, slopes, per_term, out
        return lambda _part, first, last: kernels.scatter_rows(first, last, *arrays)


class SparseLookUp(CompiledLookUp):
    """The same for sparse positions: the contributions where all values are absent are computed once, and each row adds
    the differences of the terms that its stored values affect."""

    def __init__(self, positions: SparseMatrix, layout: Layout, threads: int = 1):
        super().__init__(np.empty((0, 0)), layout, threads)
        touches = list_touches(layout, positions.absent)
        self.stored = positions.starts, positions.column, positions.value, positions.absent, *touches
        self.absent = positions.absent[:, None]
        counts = np.bincount(positions.column, minlength=len(positions.absent))
        effort = np.add.reduceat(counts[layout.term_axis], layout.term_start[:-1])
        self.effort = np.r_[0.0, np.cumsum(effort * 2.0 ** np.diff(layout.term_start) + 1)]
        self.row_work = max(1.0, self.effort[-1] / max(len(positions), 1))

    def take(self, rows: np.ndarray) -> np.ndarray:
        return rows

    def _start_gather(self, taken: np.ndarray, cells: np.ndarray, per_term: bool) -> tuple[np.ndarray, Callable]:
        at_absent = np.zeros((1, self.n_terms, cells.shape[1]))
        kernels.gather_rows(0, 1, self.absent, *self.arrays, cells, True, at_absent)
        out = np.tile(at_absent if per_term else at_absent.sum(axis=1, keepdims=True), (len(taken), 1, 1))
        arrays = taken, *self.stored, *self.arrays, cells, at_absent[0], per_term, out
        return out, lambda _part, first, last: kernels.gather_stored(first, last, *arrays)

    def _start_scatter(self, taken: np.ndarray, slopes: np.ndarray, per_term: bool, out: np.ndarray) -> Callable:
        rest, n_rows = np.empty((1, self.n_terms, slopes.shape[2])), np.full(self.n_terms, len(taken))
        rest[:] = slopes.sum(axis=0)
        arrays = taken, *self.stored, *self.arrays, slopes, per_term, rest, n_rows, out
        return lambda _part, first, last: kernels.scatter_stored(first, last, *arrays)


class TorchLookUp:
    """The same by torch indexing, for accelerators."""

    sums = torch.float32  # not all accelerators have double precision

    def __init__(self, positions: np.ndarray, layout: Layout, device: torch.device | str = "cpu"):
        self.positions = torch.from_numpy(positions).to(device)
        self.layout = layout

    def take(self, rows: np.ndarray) -> Any:
        return self.positions[torch.from_numpy(rows).to(self.positions.device)]

    def gather(self, taken: Tensor, table: Tensor, per_term: bool = False) -> Tensor:
        out = table.new_zeros(len(taken), len(self.layout.terms) if per_term else 1, table.shape[1])
        for term, cell, share in self._corners(taken):
            out[:, term if per_term else 0] += share[:, None] * table[cell]
        return out

    def scatter(self, taken: Tensor, grad: Tensor, n_cells: int) -> Tensor:
        out = grad.new_zeros(n_cells, grad.shape[2])
        for term, cell, share in self._corners(taken):
            out.index_add_(0, cell, share[:, None] * grad[:, term if grad.shape[1] > 1 else 0])
        return out

    def _corners(self, places: Tensor) -> Iterator[tuple[int, Tensor, Tensor]]:
        """(term, cell, weight) of every corner of every term for all rows of a batch."""
        layout = self.layout
        whole = places.long()
        part = places - whole
        for term, offset in enumerate(layout.term_offset):
            span = range(layout.term_start[term], layout.term_start[term + 1])
            for corner in range(1 << len(span)):
                cell = torch.full((len(places),), int(offset), device=places.device)
                share = torch.ones(len(places), device=places.device)
                for d, where in enumerate(span):
                    axis, stride = layout.term_axis[where], int(layout.term_stride[where])
                    upper = bool(corner >> d & 1)
                    cell += (whole[:, axis] + (part[:, axis] > 0) * upper) * stride
                    share = share * (part[:, axis] if upper else 1 - part[:, axis])
                yield term, cell, share


LookUp = CompiledLookUp | TorchLookUp


def choose_lookup(positions: np.ndarray | SparseMatrix, layout: Layout, threads: int, device: torch.device) -> LookUp:
    """Compiled loops on the CPU, torch elsewhere."""
    if isinstance(positions, SparseMatrix):
        if device.type != "cpu":
            raise ValueError(f"device={str(device)!r} cannot train on a sparse table: set device='cpu'")
        return SparseLookUp(positions, layout, threads)
    is_cpu = device.type == "cpu"
    return CompiledLookUp(positions, layout, threads) if is_cpu else TorchLookUp(positions, layout, device)
