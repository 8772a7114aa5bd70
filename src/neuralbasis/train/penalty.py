"""Penalties on the table: adaptive smoothness between knots, adaptive ridge on free cells, the paper's output penalty.

    smoothness   Σ_t λ_t ∫ |∇f_t|²         λ_t = strength · noise / (∫ |∇f_t|² + floor) / n
    ridge        Σ_g ρ_g Σ_{c in g} f_c²   ρ_g = ½ · noise / (mean f_c² + floor) / n

Both weights follow the shape they press on, like the variance of a prior that is estimated while fitting: flat shapes
are pressed flat, strong ones are left free. `noise` is the validation loss as a share of the constant model's loss.
DIFF: the paper has the output penalty only, on f before classes are mixed; here it is on the contributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..layout import Layout
from .lookup import CompiledLookUp
from .points import GridEngine

RIDGE_FLOOR = 0.02
Smoothness = Mapping[int, tuple[float, float]]  # order of a term -> strength and floor


class Edges:
    """Neighbouring cells of a grid, compiled loops on the CPU and torch indexing elsewhere."""

    def __init__(self, grid: GridEngine):
        left, right, width, term = find_edges(grid)
        self.n_terms, self.compiled = len(grid.layout.terms), isinstance(grid.lookup, CompiledLookUp)
        inverse = (1 / width).astype(np.float32)
        self.arrays = tuple(torch.from_numpy(array).to(grid.device) for array in (left, right, term, inverse))

    def roughness(self, table: Tensor) -> Tensor:
        """∫ |∇f|² of every term, (T, C)"""
        rough = table.new_zeros(self.n_terms, table.shape[1])
        if self.compiled:
            kernels.measure_roughness(*(array.numpy() for array in self.arrays), table.numpy(), rough.numpy())
            return rough
        left, right, term, inverse = self.arrays
        return rough.index_add_(0, term, (table[right] - table[left]).square() * inverse[:, None])

    def add_gradient(self, strength: Tensor, table: Tensor, grad: Tensor) -> None:
        """Add the gradient of Σ_t ½ strength_t ∫ |∇f_t|², strength (T, C)."""
        if self.compiled:
            arrays = (*self.arrays, strength, table, grad)
            kernels.pull_edges(*(array.numpy() for array in arrays))
            return
        left, right, term, inverse = self.arrays
        pull = strength[term] * inverse[:, None] * (table[right] - table[left])
        grad.index_add_(0, right, pull)
        grad.index_add_(0, left, pull, alpha=-1)


class Penalty:
    """Gradient of all penalties with respect to the table (cells, C) of a grid."""

    def __init__(self, grid: GridEngine, n_rows: float, smoothness: Smoothness, output_penalty: float = 0.0):
        device, self.n_rows = grid.device, n_rows
        wished = torch.tensor([smoothness[len(term)] for term in grid.layout.terms], dtype=torch.float32, device=device)
        self.strength, self.floor = wished[:, :1], wished[:, 1:]
        self.edges = Edges(grid) if self.strength.any() else None
        self.free = torch.from_numpy(np.flatnonzero(grid.cells.free >= 0)).to(device)
        self.group = torch.from_numpy(group_free_cells(grid)).to(device)
        self.group_size = torch.bincount(self.group)[:, None].float()
        share = grid.cell_weight / grid.cell_weight[grid.layout.cells_of(0)].sum()
        weight = torch.from_numpy(share.astype(np.float32)).to(device)
        self.output_penalty, self.share = output_penalty, weight[:, None]

    def refresh(self, table: Tensor, noise: Tensor | float) -> None:
        """Weigh the penalties anew by the present shapes; `noise` is a number or one (C,) for each channel."""
        scale = noise / self.n_rows
        if self.edges is not None:
            self.smooth = 2 * scale * self.strength / (self.edges.roughness(table) + self.floor + 1e-12)
        power = table.new_zeros(len(self.group_size), table.shape[1])
        power.index_add_(0, self.group, table[self.free].square())
        self.ridge = (scale / (power / self.group_size + RIDGE_FLOOR))[self.group]

    def add_gradient(self, table: Tensor, grad: Tensor) -> None:
        """Add the penalties' gradient to `grad`."""
        if self.edges is not None:
            self.edges.add_gradient(self.smooth, table, grad)
        if len(self.free):
            grad.index_add_(0, self.free, self.ridge * table[self.free])
        if self.output_penalty:
            grad += 2 * self.output_penalty * self.share * table

    def add_exact_gradient(self, table: Tensor, grad: Tensor, share: Tensor) -> None:
        """For the exact engine: no smoothness; its free cells stand before the last; `share` (cells, 1) of a batch."""
        if len(self.free):
            own = slice(len(table) - len(self.free) - 1, len(table) - 1)
            grad[own] += self.ridge * table[own]
        if self.output_penalty:
            grad += 2 * self.output_penalty * share * table


def find_edges(grid: GridEngine) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Neighbouring based cells along every axis with an order: left, right, width, term.

    The width is the distance of their places, times the number of parallel lines: sums over edges are integrals.
    """
    layout, found = grid.layout, []
    for index in range(len(layout.terms)):
        shape, start = layout.table_shape(index), layout.cells_of(index).start
        ids = np.arange(start, start + int(np.prod(shape))).reshape(shape)
        axes = layout.axes_of(index)
        for d, axis in enumerate(axes):
            if axis.kind == "nominal" or len(axis.knots) < 2:
                continue
            left = np.take(ids, range(1, len(axis.knots)), axis=d)
            right = np.take(ids, range(2, len(axis.knots) + 1), axis=d)
            gap = np.diff(axis.places).reshape([-1 if k == d else 1 for k in range(len(shape))])
            keep = grid.cells.based[left] & grid.cells.based[right]
            lines = math.prod(len(other.knots) for k, other in enumerate(axes) if k != d)
            width = np.broadcast_to(gap * lines, left.shape)[keep]
            found.append((left[keep], right[keep], width, np.full(keep.sum(), index)))
    if not found:
        return tuple(np.empty(0, kind) for kind in (np.int64, np.int64, float, np.int64))  # type: ignore[return-value]
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))  # type: ignore[return-value]


def group_free_cells(grid: GridEngine) -> np.ndarray:
    """Group of each free cell: the levels of a term are shrunk together, a main effect's missing cell on its own."""
    groups, n_groups = [], 0
    layout: Layout = grid.layout
    for index, term in enumerate(layout.terms):
        cells = layout.cells_of(index)
        free = np.flatnonzero(grid.cells.free[cells] >= 0)
        alone = (free == 0) & (len(term) == 1)
        groups.append(n_groups + np.where(alone, 1, 0))
        n_groups += 2
    joined = np.concatenate(groups)
    return np.unique(joined, return_inverse=True)[1]
