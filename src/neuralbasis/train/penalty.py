"""Penalties on the table: adaptive smoothness between knots, adaptive ridge on free cells, the paper's output penalty.

    slope        Σ_t λ_t ∫ |∇f_t|²         λ_t = strength · noise / (∫ |∇f_t|² + floor) / n
    curvature    Σ_t ∫ λ_t(x) f_t''²       λ_t(x) = strength · noise / (mean f_t''² around x + floor) / n; main effects
    ridge        Σ_g ρ_g Σ_{c in g} f_c²   ρ_g = ½ · noise / (mean f_c² + floor) / n

All weights follow the shape they press on, like the variance of a prior that is estimated while fitting: flat shapes
are pressed flat, strong ones are left free, and a main effect may bend sharply in one place and be smooth elsewhere.
The curvature's weight grows with training: pressed from the start, a shape would never show that it has to bend.
`noise` is the validation loss as a share of the constant model's loss.
DIFF: the paper has the output penalty only, on f before classes are mixed; here it is on the contributions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .. import kernels
from ..layout import Layout
from .lookup import CompiledLookUp
from .points import GridEngine

RIDGE_FLOOR = 0.02
REACH = 8, 24  # curvature around a knot: so many knots on either side, or one in so many of the axis
RAMP = 0.9  # share of the steps in which the curvature's weight grows
CURVATURE = 0  # its key beside the orders of terms, which stand for their slopes
Smoothness = Mapping[int, tuple[float, float]]  # order of a term, or CURVATURE -> strength and floor


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


class Bends:
    """Knots of main effects with a neighbour on both sides, and the window of bends around each."""

    def __init__(self, grid: GridEngine):
        middle, before, after, width, low, high = find_bends(grid)
        self.compiled = isinstance(grid.lookup, CompiledLookUp)
        root = 1 / np.sqrt(width)
        scaled = (middle, (root / before).astype(np.float32), (root / after).astype(np.float32))
        self.arrays = tuple(torch.from_numpy(array).to(grid.device) for array in scaled)
        self.low, self.high = torch.from_numpy(low).to(grid.device), torch.from_numpy(high).to(grid.device)
        total = np.r_[0.0, np.cumsum(width)]
        self.window = torch.from_numpy(total[high] - total[low]).to(grid.device)[:, None]

    def curvature(self, table: Tensor) -> Tensor:
        """(bends, C): mean f''² around each bend."""
        middle, before, after = self.arrays
        here = table[middle]
        bend = after[:, None] * (table[middle + 1] - here) - before[:, None] * (here - table[middle - 1])
        total = functional.pad(bend.double().square().cumsum(0), (0, 0, 1, 0))
        return ((total[self.high] - total[self.low]) / self.window).clamp(min=0).to(table.dtype)

    def add_gradient(self, strength: Tensor, table: Tensor, grad: Tensor) -> None:
        """Add the gradient of Σ ½ strength ∫ f''², strength (bends, C)."""
        if self.compiled:
            kernels.pull_bends(*(array.numpy() for array in (*self.arrays, strength, table, grad)))
            return
        middle, before, after = self.arrays
        down, up = before[:, None], after[:, None]
        pull = strength * (up * (table[middle + 1] - table[middle]) - down * (table[middle] - table[middle - 1]))
        for cells, part in ((middle - 1, down * pull), (middle, -(down + up) * pull), (middle + 1, up * pull)):
            grad.index_add_(0, cells, part)


class Penalty:
    """Gradient of all penalties with respect to the table (cells, C) of a grid."""

    def __init__(self, grid: GridEngine, n_rows: float, smoothness: Smoothness, output_penalty: float = 0.0):
        device, self.n_rows = grid.device, n_rows
        wished = torch.tensor([smoothness[len(term)] for term in grid.layout.terms], dtype=torch.float32, device=device)
        self.strength, self.floor = wished[:, :1], wished[:, 1:]
        self.edges = Edges(grid) if self.strength.any() else None
        self.bend_strength, self.bend_floor = smoothness.get(CURVATURE, (0.0, 0.0))
        self.bends = Bends(grid) if self.bend_strength else None
        self.free = torch.from_numpy(np.flatnonzero(grid.cells.free >= 0)).to(device)
        self.group = torch.from_numpy(group_free_cells(grid)).to(device)
        self.group_size = torch.bincount(self.group)[:, None].float()
        share = grid.cell_weight / grid.cell_weight[grid.layout.cells_of(0)].sum()
        weight = torch.from_numpy(share.astype(np.float32)).to(device)
        self.output_penalty, self.share = output_penalty, weight[:, None]

    def refresh(self, table: Tensor, noise: Tensor | float, progress: float = 1.0) -> None:
        """Weigh the penalties anew by the present shapes; `noise` is a number or one (C,) for each channel."""
        scale = noise / self.n_rows
        if self.bends is not None:
            strength = self.bend_strength * min(1.0, progress / RAMP)
            self.bend = 2 * scale * strength / (self.bends.curvature(table) + self.bend_floor + 1e-12)
        if self.edges is not None:
            self.smooth = 2 * scale * self.strength / (self.edges.roughness(table) + self.floor + 1e-12)
        power = table.new_zeros(len(self.group_size), table.shape[1])
        power.index_add_(0, self.group, table[self.free].square())
        self.ridge = (scale / (power / self.group_size + RIDGE_FLOOR))[self.group]

    def add_gradient(self, table: Tensor, grad: Tensor) -> None:
        """Add the penalties' gradient to `grad`."""
        if self.edges is not None:
            self.edges.add_gradient(self.smooth, table, grad)
        if self.bends is not None:
            self.bends.add_gradient(self.bend, table, grad)
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


def find_bends(grid: GridEngine) -> tuple[np.ndarray, ...]:
    """Of every inner knot of a main effect with an order: its cell, the widths before and after it, its own width, and
    the first and last + 1 of the bends around it."""
    layout, found, count = grid.layout, [], 0
    for index, term in enumerate(layout.terms):
        axis = layout.axes_of(index)[0]
        size = len(axis.knots) - 2
        if len(term) > 1 or axis.kind == "nominal" or size < 1:
            continue
        gap, inner = np.diff(axis.places), np.arange(size)
        reach = max(REACH[0], size // REACH[1])
        low, high = count + np.maximum(inner - reach, 0), count + np.minimum(inner + reach + 1, size)
        cell = layout.cells_of(index).start + 2 + inner
        found.append((cell, gap[:-1], gap[1:], (gap[:-1] + gap[1:]) / 2, low, high))
        count += size
    if not found:
        return tuple(np.empty(0, kind) for kind in (np.int64, float, float, float, np.int64, np.int64))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


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
