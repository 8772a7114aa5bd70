"""Purify tables: move every effect to the smallest term that can express it, which makes the model identifiable.

    f_ij(x_i, x_j) = c + a_i(x_i) + b_j(x_j) + r_ij(x_i, x_j)          Σ_j w_ij r_ij = Σ_i w_ij r_ij = 0

In: tables of all members with training weights, an intercept, and the density w of a table (`smooth_density`; by
default the training weights). Out: purified tables and intercept with the same scores. From the highest order down, the
weighted least squares projection of a table on sums of functions of fewer features is subtracted from it and added to
the tables of those features; the mean goes to the intercept. Cells of density 0 are changed in the same way, so no
score changes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import combinations, product
from typing import Any

import numpy as np

from ..encoding.axis import Axis
from ..terms.margins import divide
from ..terms.term import Term
from .interpolation import bracket_knots

STACK = 1 << 18  # numbers to process at a time: they stay in the cache
ROUNDING = 1e-12  # limit of weighted means along an axis relative to the largest value; rounding hides smaller gaps


@dataclass(frozen=True, eq=False)
class Table:
    """The values of one term for all members, before they are averaged."""

    term: Term
    axes: tuple[Axis, ...]
    values: np.ndarray  # (c_1, …, c_o, C) in C channels; along each axis: missing, knots, unseen
    weights: np.ndarray  # (c_1, …, c_o) training weight of each cell
    mix: np.ndarray | None = None  # (C, E): the term contributes values @ mix (tied: C shapes, weighted for each class)

    def to_outputs(self) -> np.ndarray:
        """(c_1, …, c_o, E) contributions of the term."""
        return self.values if self.mix is None else self.values @ self.mix


Density = Callable[[Sequence[Axis], np.ndarray], np.ndarray]


def purify(
    tables: Sequence[Table], intercept: np.ndarray, density: Density = lambda _axes, weights: weights
) -> tuple[list[Table], np.ndarray]:
    """Make the weighted sums of all tables along every axis zero without changing any score.

    The knots of a term must be a subset of those of its smaller terms. Smaller terms that are absent are created and
    follow the given ones. Nothing is changed in place. The intercept has the shape (E,).
    """
    _check_channels(tables, len(intercept))
    found = _add_parents(tables, len(intercept))
    pending: dict[Term, list[Table]] = defaultdict(list)  # projections to add to a term
    for order in range(max(map(len, found), default=0), 0, -1):
        terms = sorted(term for term in found if len(term) == order)  # sums must not depend on the order of tables
        for stack in _stack_equal_shapes([_add_projections(found[term], pending.pop(term, [])) for term in terms]):
            pure, projections = _split(stack, density)
            found.update((table.term, table) for table in pure)
            for part in projections:
                pending[part.term].append(part)
    constant = Table((), (), np.asarray(intercept, dtype=float), np.ones(()))
    return list(found.values()), _add_projections(constant, pending[()]).values


def _check_channels(tables: Sequence[Table], n_outputs: int) -> None:
    if len({table.term for table in tables}) < len(tables):
        raise ValueError("every term must have one table, but two tables have the same features; add them up first")
    for table in tables:
        channels = table.values.shape[-1]
        expected = (n_outputs, n_outputs) if table.mix is None else (len(table.mix), table.mix.shape[1])
        if (channels, n_outputs) != expected:
            raise ValueError(
                f"the table of term {table.term} has {channels} channels and the intercept {n_outputs}; expected "
                f"{n_outputs} channels, or a mix of shape {(channels, n_outputs)}"
            )


def _add_parents(tables: Sequence[Table], n_outputs: int) -> dict[Term, Table]:
    """The given tables by term, followed by a table for every smaller term that is absent."""
    given = {table.term: table for table in tables}
    made: dict[Term, Table] = {}
    for order in range(max(map(len, given), default=0), 1, -1):
        options: dict[Term, list[tuple[Table, int]]] = defaultdict(list)
        children = [table for table in (given | made).values() if len(table.term) == order]
        for child, d in product(sorted(children, key=lambda table: table.term), range(order)):
            options[_drop(child.term, d)].append((child, d))
        finest = {term: max(found, key=_size) for term, found in options.items() if term not in given}
        made |= {term: _make_parent(*found, n_outputs) for term, found in finest.items()}
    return given | {term: made[term] for term in sorted(made, key=lambda term: (len(term), term))}


def _drop(parts: tuple[Any, ...], without: int) -> tuple[Any, ...]:
    return parts[:without] + parts[without + 1 :]


def _size(option: tuple[Table, int]) -> int:
    """Cells of the table that remains when one axis is dropped."""
    child, without = option
    return child.weights.size // child.weights.shape[without]


def _make_parent(child: Table, without: int, n_outputs: int) -> Table:
    """Zeros on the child's other axes; without channels if the child's channels are mixed."""
    weights = child.weights.sum(axis=without)
    mix = None if child.mix is None else np.zeros((0, n_outputs))
    values = np.zeros((*weights.shape, n_outputs if mix is None else 0))
    return Table(_drop(child.term, without), _drop(child.axes, without), values, weights, mix)


def _add_projections(table: Table, projections: Sequence[Table]) -> Table:
    """Add the projections of larger terms to a table; those on the same axes are summed first."""
    groups: dict[tuple[int, ...], list[Table]] = defaultdict(list)
    for part in projections:
        groups[tuple(map(id, part.axes))].append(part)
    for group in groups.values():
        if table.mix is None:
            total = sum((part.to_outputs() for part in group[1:]), group[0].to_outputs())
            table = replace(table, values=table.values + _expand(total, group[0].axes, table.axes))
        else:
            table = _append_channels(table, group)
    return table


def _append_channels(table: Table, group: Sequence[Table]) -> Table:
    """Append the projections as channels; replace channels by outputs once there are more channels than outputs."""
    mixes = [np.eye(part.values.shape[-1]) if part.mix is None else part.mix for part in group]
    added = _expand(np.concatenate([part.values for part in group], axis=-1), group[0].axes, table.axes)
    values, mix = np.concatenate([table.values, added], axis=-1), np.concatenate([table.mix, *mixes])
    if len(mix) > mix.shape[1]:
        return replace(table, values=values @ mix, mix=None)
    return replace(table, values=values, mix=mix)


def _expand(values: np.ndarray, coarse: Sequence[Axis], fine: Sequence[Axis]) -> np.ndarray:
    """The same function on finer axes."""
    for d, (child, parent) in enumerate(zip(coarse, fine, strict=True)):
        if child is not parent:
            left, right, share = _locate(child, parent)
            low, high = values.take(left, axis=d), values.take(right, axis=d)
            values = low + share.reshape(-1, *[1] * (values.ndim - d - 1)) * (high - low)
    return values


def _locate(coarse: Axis, fine: Axis) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """For every cell of the fine axis the two surrounding cells of the coarse axis and the share of the second."""
    count, values = len(coarse.knots), fine.knots
    if coarse.is_level != fine.is_level or not np.isin(coarse.knots, values).all():
        raise ValueError(
            f"the knots of column {fine.name!r} in a larger term are not among those in a smaller term; axes must be "
            "nested: make the coarse ones with Axis.coarsen"
        )
    if fine.is_level:
        left = np.minimum(np.searchsorted(coarse.knots, values), count - 1)
        left = np.where(coarse.knots[left] == values, left, count)  # levels that are not kept use the unseen cell
        right, share = left, np.zeros(len(left))
    else:
        left, right, share = bracket_knots(coarse.knots, values)
    return np.r_[0, left + 1, count + 1], np.r_[0, right + 1, count + 1], np.r_[0.0, share, 0.0]


def _stack_equal_shapes(tables: Sequence[Table]) -> list[list[Table]]:
    """Group tables of equal shape, with at most `STACK` numbers per group."""
    by_shape: dict[tuple[int, ...], list[Table]] = defaultdict(list)
    for table in tables:
        by_shape[table.values.shape].append(table)
    stacks = []
    for shape, group in by_shape.items():
        length = max(1, STACK // max(1, int(np.prod(shape))))
        stacks += [group[first : first + length] for first in range(0, len(group), length)]
    return stacks


def _split(stack: Sequence[Table], density: Density) -> tuple[list[Table], list[Table]]:
    """Split tables of equal shape into purified tables and their projections on all smaller terms.

    Each projection goes directly to its term. Passing a main effect of a triple through a pair would leave traces of
    opposite sign in cells without weight.
    """
    values = np.stack([table.values for table in stack], dtype=float)  # (n, c_1, …, c_o, C)
    weights = np.stack([density(table.axes, table.weights) for table in stack], dtype=float)
    cells = tuple(range(1, weights.ndim))
    weights[weights < 1e-13 * weights.max(axis=cells, keepdims=True)] = 0.0  # their sums would be rounding errors
    scale = np.where(weights[..., None] > 0, np.abs(values), 0.0).max(axis=cells)[:, None]  # (n, 1, C)
    parts = []
    for size in range(len(cells)):
        for kept, part in _project(values, weights, size, ROUNDING * scale).items():
            for table, own in zip(stack, part, strict=True):
                term, axes = tuple(table.term[d] for d in kept), tuple(table.axes[d] for d in kept)
                parts.append(Table(term, axes, own, np.empty(0), table.mix))
    return [replace(table, values=own) for table, own in zip(stack, values, strict=True)], parts


class _Sums:
    """Sums of functions of `size` features, for a stack of n tables: their values on the tables, and the margins.

    The functions of all subsets of features are one array (n, U, C), scaled by the root of their weight. With this
    scaling the normal equations have a diagonal of ones.
    """

    def __init__(self, weights: np.ndarray, size: int):
        features = range(weights.ndim - 1)
        self.weights = weights
        self.kept = list(combinations(features, size))
        dropped = [tuple(1 + d for d in features if d not in kept) for kept in self.kept]
        margins = [weights.sum(axis=axes, keepdims=True)[..., None] for axes in dropped]
        self.roots = [divide(np.ones_like(margin), np.sqrt(margin)) for margin in margins]
        self.flat_roots = np.concatenate([root.reshape(len(weights), -1, 1) for root in self.roots], axis=1)
        self.bounds = np.cumsum([margin[0].size for margin in margins])[:-1]

    def gather(self, values: np.ndarray) -> np.ndarray:
        """Weighted sums of the tables over the other features: (n, c_1, …, c_o, C) -> (n, U, C)."""
        *cells, channel = range(values.ndim)
        shape = (len(values), -1, values.shape[-1])
        margins = [
            np.einsum(self.weights, cells, values, [*cells, channel], [0, *(1 + d for d in kept), channel])
            for kept in self.kept
        ]
        return np.concatenate([margin.reshape(shape) for margin in margins], axis=1) * self.flat_roots

    def parts(self, functions: np.ndarray) -> list[np.ndarray]:
        """The functions of each subset of features, with one cell along the axes of the others."""
        pieces = np.split(functions * self.flat_roots, self.bounds, axis=1)
        return [piece.reshape(*root.shape[:-1], -1) for piece, root in zip(pieces, self.roots, strict=True)]


def _project(values: np.ndarray, weights: np.ndarray, size: int, tolerance: np.ndarray) -> dict[Term, np.ndarray]:
    """Subtract the projection on sums of functions of `size` features from `values`; return it by subset of axes."""
    sums = _Sums(weights, size)
    solve = _choose_solver(sums, tolerance)
    total = np.zeros((*sums.flat_roots.shape[:2], values.shape[-1]))
    for _ in range(2):  # the second pass removes rounding errors of the first
        functions = solve(sums.gather(values))
        total += functions
        for part in sums.parts(functions):
            values -= part
    shapes = [(len(values), *(weights.shape[1 + d] for d in kept), values.shape[-1]) for kept in sums.kept]
    parts = (part.reshape(shape) for part, shape in zip(sums.parts(total), shapes, strict=True))
    return dict(zip(sums.kept, parts, strict=True))


def _choose_solver(sums: _Sums, tolerance: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Margins (n, U, C) -> functions (n, U, C) whose sum has these margins."""
    if len(sums.kept) == 1:  # the mean
        return lambda margins: margins
    if len(sums.kept) == 2:  # the two features of a pair
        return _factor_pairs(sums)
    return partial(_solve_by_steps, sums, tolerance)


def _factor_pairs(sums: _Sums) -> Callable[[np.ndarray], np.ndarray]:
    """Solver of the normal equations of pairs after eliminating rows:  (I - NᵀN) b = g_columns - Nᵀ g_rows.

    N is the table of weights divided by the roots of its margins. Where NᵀN has the eigenvalue 1, a block of cells
    shares no row and no column with the others. Its mean is split equally between both axes, so neither is preferred.
    """
    rows, columns = sums.roots
    joint = rows[..., 0] * sums.weights * columns[..., 0]  # (n, rows, columns)
    n_rows, is_wide = joint.shape[1], joint.shape[1] < joint.shape[2]
    joint = np.swapaxes(joint, 1, 2) if is_wide else joint
    turned = np.swapaxes(joint, 1, 2)
    eigenvalues, vectors = np.linalg.eigh(turned @ joint)
    gap = 1.0 - eigenvalues[..., None]
    is_block = gap < ROUNDING

    def solve(margins: np.ndarray) -> np.ndarray:
        first, second = np.split(margins, [n_rows], axis=1)
        long, short = (second, first) if is_wide else (first, second)
        goal, half = (np.swapaxes(vectors, 1, 2) @ side for side in (short - turned @ long, short / 2))
        short = vectors @ np.where(is_block, half, goal / np.where(is_block, 1.0, gap))
        long = long - joint @ short
        return np.concatenate([short, long] if is_wide else [long, short], axis=1)

    return solve


def _solve_by_steps(sums: _Sums, tolerance: np.ndarray, margins: np.ndarray) -> np.ndarray:
    """Conjugate gradients on the normal equations, with separate step sizes for every table and channel."""
    functions, residual, direction = np.zeros_like(margins), margins, margins
    energy, is_open = _energy(margins), np.full(tolerance.shape, True)
    for _ in range(2000):  # real data need about 100
        image = sums.gather(reduce(np.add, sums.parts(direction)))
        curvature = (direction * image).sum(axis=1, keepdims=True)
        is_open &= curvature > ROUNDING * _energy(direction)  # otherwise only rounding is left
        is_open &= (np.abs(residual) * sums.flat_roots).max(axis=1, keepdims=True) > tolerance
        if not is_open.any():
            break
        step = divide(energy, np.where(is_open, curvature, 0.0))
        functions += step * direction
        residual = residual - step * image
        before, energy = energy, _energy(residual)
        direction = residual + divide(energy, before) * direction
    return functions


def _energy(functions: np.ndarray) -> np.ndarray:
    return (functions**2).sum(axis=1, keepdims=True)
