"""Penalties on the table: adaptive smoothness between knots, adaptive ridge on levels, the paper's output penalty.

    slope        Σ_b λ_b ∫_b |∇f_t|²       λ_b = strength · noise / (mean |∇f_t|² in b + floor) / n; b: blocks of a term
    curvature    Σ_t ∫ λ_t(x) f_t''²       λ_t(x) = strength · noise / (mean f_t''² around x + floor) / n; main effects
    ridge        Σ_g ρ_g Σ_{c in g} w_c f_c²   ρ_g = ½ · noise / (mean f_c² + floor) / n; w: see `find_loose_cells`

All weights adapt to the shape that they penalise, like the variance of a prior that is estimated while fitting: flat
shapes are flattened, strong ones are hardly penalised. A shape may be sharp in one place and smooth elsewhere: a main
effect around each knot, an interaction in each block of its table. These local weights (of curvature, and of the slopes
of interactions) grow with training: penalised from the start, a shape would never bend.
`noise` is the validation loss divided by that of the constant model.
PAPER §3.2: the output penalty is on f before classes are mixed, as here if classes are tied. DIFF: with coefficients
for each class, it is on the contributions; the other penalties are ours.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from .. import kernels
from ..encoding.axis import Axis
from ..networks.basis_net import RIDGE_FLOOR
from .engines import GridEngine
from .lookup import CompiledLookUp

CURVATURE = 0  # its key in `Smoothness`; the other keys are orders of terms
Smoothness = Mapping[int, tuple[float, float]]  # order of a term (slopes) or CURVATURE -> strength and floor


class Edges:
    """Neighbouring cells of a grid; compiled loops on the CPU, torch indexing elsewhere."""

    def __init__(self, grid: GridEngine):
        left, right, width, block, term, share = find_edges(grid)
        self.compiled = isinstance(grid.lookup, CompiledLookUp)
        inverse = (1 / width).astype(np.float32)
        self.arrays = tuple(torch.from_numpy(array).to(grid.device) for array in (left, right, block, inverse))
        self.term = torch.from_numpy(term).to(grid.device)
        self.share = torch.from_numpy(share.astype(np.float32)).to(grid.device)[:, None]

    def roughness(self, table: Tensor) -> Tensor:
        """Mean |∇f|² of every block, (blocks, C)"""
        rough = table.new_zeros(len(self.term), table.shape[1])
        if self.compiled:
            kernels.measure_roughness(*(array.numpy() for array in self.arrays), table.numpy(), rough.numpy())
        else:
            left, right, block, inverse = self.arrays
            rough.index_add_(0, block, (table[right] - table[left]).square() * inverse[:, None])
        return rough / self.share

    def add_gradient(self, strength: Tensor, table: Tensor, grad: Tensor) -> None:
        """Add the gradient of Σ_b ½ strength_b ∫ |∇f|² over every block, strength (blocks, C)."""
        if self.compiled:
            kernels.pull_edges(*(array.numpy() for array in (*self.arrays, strength, table, grad)))
            return
        left, right, block, inverse = self.arrays
        pull = strength[block] * inverse[:, None] * (table[right] - table[left])
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


def adapt_smoothness(smoothness: Smoothness, n_rows: float, information: float) -> Smoothness:
    """Penalties for `n_rows` rows with this `information` (low if one class is rare).

    With little information, slopes are penalised more. Curvature is penalised more with more information: few rows
    hardly support a bend, and the penalty would remove it; many rows support small bends despite the penalty. Its
    strength is given for 3,000 rows.
    """
    slope_factor, amount = 1 / math.sqrt(information), n_rows * information / 3000
    bend_factor = max(0.3, min(amount, amount**0.3))
    return {
        kind: (bend_factor * strength, floor) if kind == CURVATURE else (slope_factor * strength, slope_factor * floor)
        for kind, (strength, floor) in smoothness.items()
    }


class Penalty:
    """Gradient of all penalties with respect to the table (cells, C) of a grid."""

    def __init__(self, grid: GridEngine, n_rows: float, smoothness: Smoothness, output_penalty: float = 0.0):
        device, self.n_rows = grid.device, n_rows
        requested = torch.tensor(
            [smoothness[len(term)] for term in grid.layout.terms], dtype=torch.float32, device=device
        )
        self.edges = Edges(grid) if requested[:, 0].any() else None
        if self.edges is not None:
            self.strength, self.floor = requested[self.edges.term].split(1, dim=1)
            orders = torch.tensor([[len(term)] for term in grid.layout.terms], device=device)
            self.grows = orders[self.edges.term] > 1
        self.bend_strength, self.bend_floor = smoothness.get(CURVATURE, (0.0, 0.0))
        self.bends = Bends(grid) if self.bend_strength else None
        self.n_free = grid.cells.n_free
        self.loose, self.group, weight = (
            torch.from_numpy(array).to(device) for array in find_loose_cells(grid, smoothness)
        )
        self.weight = weight.float()[:, None]
        self.group_weight = torch.bincount(self.group, self.weight[:, 0])[:, None].float()
        share = grid.cell_weight / grid.cell_weight[grid.layout.cells_of(0)].sum()
        self.output_penalty = output_penalty
        self.share = torch.from_numpy(share.astype(np.float32)).to(device)[:, None]

    @property
    def adapts(self) -> bool:
        """Whether any weight depends on the shapes."""
        return self.edges is not None or self.bends is not None or len(self.loose) > 0

    def refresh(self, table: Tensor, noise: Tensor | float, progress: float = 1.0) -> None:
        """Adapt the weights of the penalties to the current shapes; `noise` is a number or one (C,) per channel."""
        scale = noise / self.n_rows
        grown = min(1.0, progress / 0.9)  # local weights grow during 90 % of the steps
        if self.bends is not None:
            self.bend = 2 * scale * grown * self.bend_strength / (self.bends.curvature(table) + self.bend_floor + 1e-12)
        if self.edges is not None:
            strength = torch.where(self.grows, grown, 1.0) * self.strength
            self.smooth = 2 * scale * strength / (self.edges.roughness(table) + self.floor + 1e-12)
        power = table.new_zeros(len(self.group_weight), table.shape[1])
        power.index_add_(0, self.group, self.weight * table[self.loose].square())
        self.ridge = self.weight * (scale / (power / self.group_weight + RIDGE_FLOOR))[self.group]

    def state(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name).cpu().numpy() for name in ("bend", "smooth", "ridge") if hasattr(self, name)}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        for name, weights in state.items():
            setattr(self, name, torch.from_numpy(weights).to(self.share.device))

    def add_gradient(self, table: Tensor, grad: Tensor) -> None:
        """Add the penalties' gradient to `grad`."""
        if self.edges is not None:
            self.edges.add_gradient(self.smooth, table, grad)
        if self.bends is not None:
            self.bends.add_gradient(self.bend, table, grad)
        if len(self.loose):
            grad.index_add_(0, self.loose, self.ridge * table[self.loose])
        if self.output_penalty:
            grad += 2 * self.output_penalty * self.share * table

    def add_exact_gradient(self, table: Tensor, grad: Tensor, share: Tensor) -> None:
        """The same for the exact engine, without smoothness or ridge on interactions; `share` (cells, 1) of a batch."""
        if self.n_free:  # these cells precede the last one
            own = slice(len(table) - self.n_free - 1, len(table) - 1)
            grad[own] += self.ridge[: self.n_free] * table[own]
        if self.output_penalty:
            grad += 2 * self.output_penalty * share * table


def find_edges(grid: GridEngine) -> tuple[np.ndarray, ...]:
    """Neighbouring based cells along every axis with an order: left, right, width, block; for every block its term and
    its share of it. The width is the distance times the number of parallel lines: sums over edges are integrals."""
    layout, found, terms, count = grid.layout, [], [], 0
    for index in range(len(layout.terms)):
        shape, start, axes = layout.table_shape(index), layout.cells_of(index).start, layout.axes_of(index)
        ids, block = np.arange(start, start + math.prod(shape)).reshape(shape), count + find_blocks(axes)
        for d, axis in enumerate(axes):
            if axis.kind == "nominal" or len(axis.knots) < 2:
                continue
            left = np.take(ids, range(1, len(axis.knots)), axis=d)
            right = np.take(ids, range(2, len(axis.knots) + 1), axis=d)
            gap = np.diff(axis.places).reshape([-1 if k == d else 1 for k in range(len(shape))])
            keep = grid.cells.based[left] & grid.cells.based[right]
            lines = math.prod(len(other.knots) for k, other in enumerate(axes) if k != d)
            gap = np.broadcast_to(gap, left.shape)[keep]
            found.append((left[keep], right[keep], gap * lines, block.ravel()[left[keep] - start], gap / lines))
        terms.append(np.full(int(block.max()) + 1 - count, index))
        count += len(terms[-1])
    if not found:
        found.append((*np.empty((2, 0), np.int64), np.empty(0), np.empty(0, np.int64), np.empty(0)))
    left, right, width, block, extent = (np.concatenate(parts) for parts in zip(*found, strict=True))
    term = np.concatenate(terms)
    extent = np.bincount(block, extent, minlength=len(term))
    share = extent / np.maximum(np.bincount(term, extent), 1e-12)[term]
    return left, right, width, block, term, np.where(share > 0, share, 1.0)


def find_blocks(axes: Sequence[Axis]) -> np.ndarray:
    """Block of every cell of a table: the ordered axes of an interaction are cut into up to 6 pieces."""
    block = np.zeros((), dtype=np.int64)
    for axis in axes:
        n_knots = len(axis.knots)
        n = 1 if axis.kind == "nominal" or len(axes) == 1 else int(np.clip(n_knots // 4, 1, 6))
        block = block[..., None] * n + np.clip((np.arange(axis.n_cells) - 1) * n // n_knots, 0, n - 1)
    return block


def find_bends(grid: GridEngine) -> tuple[np.ndarray, ...]:
    """For every inner knot of an ordered main effect: its cell, the gaps before and after it, its width, and the first
    and last + 1 bend of the window around it."""
    layout, found, count = grid.layout, [], 0
    for index, term in enumerate(layout.terms):
        axis = layout.axes_of(index)[0]
        size = len(axis.knots) - 2
        if len(term) > 1 or axis.kind == "nominal" or size < 1:
            continue
        gap, inner = np.diff(axis.places), np.arange(size)
        reach = max(8, size // 24)
        low, high = count + np.maximum(inner - reach, 0), count + np.minimum(inner + reach + 1, size)
        cell = layout.cells_of(index).start + 2 + inner
        found.append((cell, gap[:-1], gap[1:], (gap[:-1] + gap[1:]) / 2, low, high))
        count += size
    if not found:
        return tuple(np.empty(0, kind) for kind in (np.int64, float, float, float, np.int64, np.int64))
    return tuple(np.concatenate(parts) for parts in zip(*found, strict=True))


def find_loose_cells(grid: GridEngine, smoothness: Smoothness) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells with a ridge: the free ones, then, with smoothness, those of interactions of nominal columns, whose levels
    are not neighbours.

    Each cell comes with its group, whose cells are shrunk together (the levels of a term; the missing cell of a main
    effect alone), and its weight: a line of cells along an ordered axis counts as one.
    """
    free, based, n_terms = [], [], len(grid.layout.terms)
    for index, term in enumerate(grid.layout.terms):
        cells, axes = grid.layout.cells_of(index), grid.layout.axes_of(index)
        own = np.flatnonzero(grid.cells.free[cells] >= 0)
        alone = (own == 0) & (len(term) == 1)
        free.append((cells.start + own, index + n_terms * alone, np.ones(len(own))))
        if len(term) > 1 and smoothness[len(term)][0] and any(axis.kind == "nominal" for axis in axes):
            own = np.flatnonzero(grid.cells.based[cells])
            share = 1 / math.prod(len(axis.knots) for axis in axes if axis.kind != "nominal")
            based.append((cells.start + own, np.full(len(own), index + 2 * n_terms), np.full(len(own), share)))
    found, group, weight = (np.concatenate(parts) for parts in zip(*free, *based, strict=True))
    return found, np.unique(group, return_inverse=True)[1], weight
