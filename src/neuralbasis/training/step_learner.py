"""StepLearner: boosted steps of main effects or pairs, for jumps and edges that shared smooth bases cannot express.

    f_t = Σ_rounds step of the piece that x_t falls in

In every round each table is cut in pieces, a column in up to five and a pair in four, and each piece takes a part of
its Newton step. Members stop together, when the loss of the rows that they hold out stops falling. Columns are cut
between knots that are finer than those of the bases.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..encoding.axis import Axis
from ..encoding.layout import line_up
from ..losses.loss import Loss, bound_curvature
from .engines import GridEngine
from .rows import Rows

MAX_ROUNDS, PATIENCE = 300, 20  # rounds at most, and without a lower loss
MIN_WEIGHT = 4.0  # rows that a piece needs, and that are added to it, in units of the largest curvature of a row
MAX_WORK = 1e8  # rows × terms × members × outputs above which nothing is boosted
MAX_ADDED = 8  # knots between two of the bases


@dataclass(frozen=True, eq=False)
class StepTables:
    """Terms of one order that can be cut."""

    order: int
    offsets: np.ndarray  # (P,) where each term's table starts among all cells of the layout
    axes: np.ndarray  # (P, order)
    positions: np.ndarray  # (A, N) of the rows on the axes
    cells: np.ndarray  # (A, N) nearest to the positions
    sizes: np.ndarray  # (A,) cells of each axis
    nominal: np.ndarray  # (A,) whether the cells have no order
    n_cells: int  # of the layout


def find_step_tables(grid: GridEngine, order: int) -> StepTables | None:
    """Terms of this order whose columns have no anchor; None if there are none."""
    layout = grid.layout
    found = [
        index for index, term in enumerate(layout.terms)
        if len(term) == order and not any(feature in layout.anchors for feature in term)
    ]  # fmt: skip
    if not found:
        return None
    axes = np.array([layout.term_axis[layout.term_start[index] :][:order] for index in found])
    used, places = np.unique(axes, return_inverse=True)
    sizes = np.array([layout.axes[axis].n_cells for axis in used])
    positions = line_up(grid.positions, used)
    cells = np.rint(positions).astype(np.uint16 if sizes.max() < 2**16 else np.uint32)
    nominal = np.array([layout.axes[axis].kind == "nominal" for axis in used])
    return StepTables(
        order, layout.term_offset[found], places.reshape(axes.shape), positions, cells, sizes, nominal, layout.n_cells
    )


def subdivide(axis: Axis, values: np.ndarray) -> Axis:
    """The axis with up to `MAX_ADDED` more knots between two, at values of the column."""
    if axis.is_level:
        return axis
    distinct = np.setdiff1d(values[~np.isnan(values)], axis.knots)
    _, start, count = np.unique(np.searchsorted(axis.knots, distinct), return_index=True, return_counts=True)
    rank = np.arange(len(distinct)) - np.repeat(start, count)
    part = rank * MAX_ADDED // np.repeat(count, count)
    return axis.add_knots(distinct[(rank == 0) | (np.diff(part, prepend=-1) != 0)])


class Booster:
    """One member: its tables (K, cells), and the scores (N, K) of all rows with them; `kept` are the best of both."""

    def __init__(self, tables: StepTables, scores: Tensor, rows: Rows, loss: Loss):
        self.tables, self.scores, self.rows, self.loss = tables, scores, rows, loss
        self.held = torch.nonzero(rows.held_out[:, 0])[:, 0]
        self.weights = (rows.weights * ~rows.held_out[:, 0]).double().numpy()
        self.unit = 1.0 if loss.link == "identity" else 0.25  # the largest curvature of a row
        self.rounds, self.is_bounded = 0, False
        self.first_curvature = self._sum_curvature()
        self.values = np.zeros((scores.shape[1], tables.n_cells))
        self.keep()

    def keep(self) -> None:
        self.kept = self.values.copy(), self.scores.clone()

    def held_out_loss(self) -> float:
        losses = self.loss.loss(self.scores[self.held, None], self.rows.target[self.held])[:, 0]
        return float((losses.double() * self.rows.weights[self.held]).sum())

    def _training_loss(self) -> float:
        losses = self.loss.loss(self.scores[:, None], self.rows.target)[:, 0]
        return float(losses.double().numpy() @ self.weights)

    def cut(self, seed: int) -> None:
        """One round over all tables and outputs; the seed is above 0.

        Newton steps overshoot where rows of a rare class are predicted wrong with near certainty, since their curvature
        is close to 0. A member whose first round raises its training loss starts again with an upper bound of the
        curvature.
        """
        if self.rounds == 0:
            scores, before = self.scores.clone(), self._training_loss()
        self._cut(seed)
        if self.rounds == 0 and self._training_loss() > before:
            self.scores, self.values, self.is_bounded = scores, np.zeros_like(self.values), True
            self.first_curvature = self._sum_curvature()
            self._cut(seed)
        self.rounds += 1

    def _cut(self, seed: int) -> None:
        tables, kernel = self.tables, kernels.cut_columns if self.tables.order == 1 else kernels.cut_pairs
        slopes = self.loss.slope(self.scores[:, None], self.rows.target)[:, 0].double().numpy()
        curvature = self._find_curvature()
        # As curvature shrinks, lower the minimum weight of a piece in proportion; otherwise separable classes leave
        # nothing to cut.
        least = MIN_WEIGHT * self.unit * np.minimum(curvature.sum(axis=1) / self.first_curvature, 1) ** 2
        for k, bend in enumerate(curvature):
            moved = np.zeros(len(slopes))
            with np.errstate(over="ignore"):  # without numba, random numbers are drawn by integers that wrap around
                kernel(
                    tables.positions, tables.cells, tables.axes, tables.sizes, tables.nominal, MIN_WEIGHT * self.unit,
                    least[k], 0.2, slopes[:, k] * self.weights, bend, self.values[k], tables.offsets, moved, seed,
                )  # fmt: skip
            self.scores[:, k] += torch.from_numpy(moved)

    def _find_curvature(self) -> np.ndarray:
        """(K, N) of the loss, times the rows' weights."""
        variance = self.loss.variance(self.scores[:, None])
        if variance is None:
            return np.tile(self.weights, (self.scores.shape[1], 1))
        if self.is_bounded:
            variance = bound_curvature(variance)
        return variance[:, 0].T.double().numpy() * self.weights

    def _sum_curvature(self) -> np.ndarray:
        """(K,) over all rows."""
        return np.maximum(self._find_curvature().sum(axis=1), 1e-12)


def learn_steps(
    grid: GridEngine, order: int, scores: Tensor, rows: Rows, loss: Loss, threads: int,
    group: ProcessGroup = SINGLE_PROCESS,
) -> Tensor | None:  # fmt: skip
    """Boost the terms of this order from scores (N, M, K); other terms of the grid stay 0.

    Returns tables (cells, M · K) at the round with the lowest held-out loss; None if there is nothing to boost, or too
    much. Every member must hold rows out; members are shared among threads and processes.
    """
    tables = find_step_tables(grid, order)
    n_rows, n_members, n_outputs = scores.shape
    if tables is None or n_rows * len(tables.axes) * n_members * n_outputs > MAX_WORK:
        return None
    boosters = {
        m: Booster(tables, scores[:, m].clone(), rows.part(m, m + 1), loss)
        for m in range(n_members)[group.share(n_members)]
    }

    def work(_part: int, first: int, last: int) -> int:
        for m in list(boosters)[first:last]:
            boosters[m].cut((boosters[m].rounds + 1) * n_members + m)
        return -1

    lowest, waited = _sum_losses(boosters, n_members, group), 0
    for _ in range(MAX_ROUNDS):
        kernels.share_rows(work, len(boosters), threads, 1)
        if (now := _sum_losses(boosters, n_members, group)) < lowest:
            lowest, waited = now, 0
            for booster in boosters.values():
                booster.keep()
        elif (waited := waited + 1) > PATIENCE:
            break
    values = np.zeros((n_members, n_outputs, tables.n_cells))
    own = {m: booster.kept[0] for m, booster in boosters.items()}
    for m, table in chain.from_iterable(kept.items() for kept in group.gather(own)):
        values[m] = table
    return torch.from_numpy(values.reshape(-1, tables.n_cells).T.astype(np.float32))


def _sum_losses(boosters: Mapping[int, Booster], n_members: int, group: ProcessGroup) -> float:
    """Over all members, in their order: every process finds the same sum."""
    losses = torch.zeros(n_members, dtype=torch.float64)
    for m, booster in boosters.items():
        losses[m] = booster.held_out_loss()
    return float(group.sum(losses).sum())
