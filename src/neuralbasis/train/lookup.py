"""Rows read the table: scores of a batch, and the gradient of the table as a histogram of the batch's gradients.

Two ways with equal results: compiled kernels on the CPU, plain torch indexing on any other device.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..layout import Layout

MIN_WORK = 2**17  # numbers looked up: a thread with fewer costs more than it saves


class CompiledLookUp:
    """positions (N, A) float32 with the terms of a layout, on `threads` threads."""

    def __init__(self, positions: np.ndarray, layout: Layout, threads: int = 1):
        self.positions, self.threads = positions, threads
        self.arrays, self.n_terms = layout.term_arrays, len(layout.terms)

    def scores(self, rows: np.ndarray, table: Tensor) -> Tensor:
        """Σ_terms table(row): (b, C)"""
        cells = table.numpy()
        out = np.empty((len(rows), cells.shape[1]), dtype=cells.dtype)

        def work(_part, first, last):
            return kernels.gather_rows(first, last, self.positions, rows, *self.arrays, cells, out)

        kernels.share_rows(work, len(rows), self._threads(out), min_rows=1)
        return torch.from_numpy(out)

    def gradient(self, rows: np.ndarray, grad: Tensor, n_cells: int) -> Tensor:
        """Gradient (b, C) of the scores -> gradient (cells, C) of the table."""
        slopes = grad.contiguous().numpy()
        threads = self._threads(slopes)
        parts = np.zeros((threads, n_cells, slopes.shape[1]), dtype=slopes.dtype)

        def work(part, first, last):
            return kernels.scatter_rows(first, last, self.positions, rows, *self.arrays, slopes, parts[part])

        kernels.share_rows(work, len(rows), threads, min_rows=1)
        return torch.from_numpy(parts[0] if threads == 1 else parts.sum(axis=0))

    def _threads(self, values: np.ndarray) -> int:
        """Threads worth starting for values (b, C)."""
        return max(1, min(self.threads, len(values), values.size * self.n_terms // MIN_WORK))


class TorchLookUp:
    """The same by torch indexing, for accelerators."""

    def __init__(self, positions: np.ndarray, layout: Layout, device: torch.device | str = "cpu"):
        self.positions = torch.from_numpy(positions).to(device)
        self.layout = layout

    def scores(self, rows: np.ndarray, table: Tensor) -> Tensor:
        places = self._places(rows)
        out = table.new_zeros(len(rows), table.shape[1])
        for cell, share in self._corners(places):
            out += share[:, None] * table[cell]
        return out

    def gradient(self, rows: np.ndarray, grad: Tensor, n_cells: int) -> Tensor:
        out = grad.new_zeros(n_cells, grad.shape[1])
        for cell, share in self._corners(self._places(rows)):
            out.index_add_(0, cell, share[:, None] * grad)
        return out

    def _places(self, rows: np.ndarray) -> Tensor:
        return self.positions[torch.from_numpy(rows).to(self.positions.device)]

    def _corners(self, places: Tensor):
        """(cell, weight) of every corner of every term for all rows of a batch."""
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
                yield cell, share
