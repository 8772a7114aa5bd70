"""Boosting: tables of main effects or pairs that grow from nothing, round by round.

In a round every table is cut in pieces, a column's one after the other in up to five, a pair's in four, and each piece
moves by a part of its Newton step. Members go on together until the rows that they hold out lose: what these say of one
member alone is mostly chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..encoding.layout import Layout, line_up
from ..losses.loss import Loss, bound_curvature
from .engines import GridEngine
from .rows import Rows

RIDGE = 4.0  # rows that are added to a piece; counted, as in `Pace`, by what they tell at best
FEW_ROWS = 10_000  # more gain nothing by cuts by chance, and bear some pairs of noise
KERNELS = {1: kernels.cut_columns, 2: kernels.cut_pairs}


@dataclass(frozen=True)
class Pace:
    """How to boost: the part of a Newton step, rows that a piece needs, rounds at most, and rounds without a gain;
    whether tables are cut by chance, not where it gains most: many such cuts make a smooth shape."""

    rate: float
    least: float
    max_rounds: int
    patience: int
    by_chance: bool = False


@dataclass(frozen=True, eq=False)
class Tables:
    """Terms of one order that can be cut.

    terms, offsets : of each its index in the layout, and where its table starts among all cells there
    axes : (P, order)
    positions, cells : (A, N) of the rows on the axes, and the cells nearest to them
    sizes, nominal : (A,) cells of each axis, and whether they have no order
    n_cells : of the layout
    """

    order: int
    terms: list[int]
    offsets: np.ndarray
    axes: np.ndarray
    positions: np.ndarray
    cells: np.ndarray
    sizes: np.ndarray
    nominal: np.ndarray
    n_cells: int

    def part(self, which: np.ndarray) -> Tables:
        """Some of the terms, (P,) of bool."""
        terms = [term for term, is_there in zip(self.terms, which, strict=True) if is_there]
        return replace(self, terms=terms, offsets=self.offsets[which], axes=self.axes[which])


def find_tables(grid: GridEngine, order: int, max_terms: float = math.inf) -> Tables | None:
    """Terms of this order whose columns have no anchor; None if there are none, or too many."""
    layout = grid.layout
    found = [index for index, term in enumerate(layout.terms) if len(term) == order and not _is_anchored(layout, term)]
    if not 0 < len(found) <= max_terms:
        return None
    axes = np.array([layout.term_axis[layout.term_start[index] :][:order] for index in found])
    used, places = np.unique(axes, return_inverse=True)
    sizes = np.array([layout.axes[axis].n_cells for axis in used])
    positions = line_up(grid.positions, used)
    cells = np.rint(positions).astype(np.uint16 if sizes.max() < 2**16 else np.uint32)
    nominal = np.array([layout.axes[axis].kind == "nominal" for axis in used])
    return Tables(
        order, found, layout.term_offset[found], places.reshape(axes.shape), positions, cells, sizes, nominal,
        layout.n_cells,
    )  # fmt: skip


def _is_anchored(layout: Layout, term: tuple[int, ...]) -> bool:
    return any(feature in layout.anchors for feature in term)


class Booster:
    """One member: its tables (K, cells), and its scores (N, K) as they follow; `kept` are those that were kept last."""

    def __init__(self, tables: Tables, scores: Tensor, rows: Rows, objective: Loss, pace: Pace):
        self.tables, self.scores, self.rows, self.objective, self.pace = tables, scores, rows, objective, pace
        self.held = torch.nonzero(rows.held_out[:, 0])[:, 0]
        self.weights = (rows.weights * ~rows.held_out[:, 0]).double().numpy()
        self.rounds, self.is_careful = 0, False
        self.told_first = self._sum_curvature()
        self.found = np.zeros((scores.shape[1], tables.n_cells))
        self.keep()

    def keep(self) -> None:
        self.kept = self.found.copy(), self.scores.clone()

    def loss(self) -> float:
        """Of the held-out rows."""
        losses = self.objective.loss(self.scores[self.held, None], self.rows.target[self.held])[:, 0]
        return float((losses.double() * self.rows.weights[self.held]).sum())

    def _learned_loss(self) -> float:
        """Of the rows that the member learns from."""
        losses = self.objective.loss(self.scores[:, None], self.rows.target)[:, 0]
        return float(losses.double().numpy() @ self.weights)

    def cut(self, seed: int) -> None:
        """One round over all tables and outputs; the seed, above 0, is of cuts by chance.

        Newton steps go too far where rows of a rare class are surely wrong, since their curvature is next to nothing. A
        member whose first round does harm on the rows it learns from goes back, and takes a bound of it from then on.
        """
        if self.rounds == 0:
            scores, before = self.scores.clone(), self._learned_loss()
        self._cut(seed)
        if self.rounds == 0 and self._learned_loss() > before:
            self.scores, self.found, self.is_careful = scores, np.zeros_like(self.found), True
            self.told_first = self._sum_curvature()
            self._cut(seed)
        self.rounds += 1

    def _cut(self, seed: int) -> None:
        """The surer the scores are, the less a row tells, and the fewer of what would do at first make a piece: else
        nothing is left to cut where classes separate."""
        tables, pace = self.tables, self.pace
        slopes = self.objective.slope(self.scores[:, None], self.rows.target)[:, 0].double().numpy()
        curvature = self._find_curvature()
        least = pace.least * self.unit * np.minimum(curvature.sum(axis=1) / self.told_first, 1) ** 2
        for k, bend in enumerate(curvature):
            moved = np.zeros(len(slopes))
            with np.errstate(over="ignore"):  # where numba is absent, chance is drawn by numbers that wrap around
                KERNELS[tables.order](
                    tables.positions, tables.cells, tables.axes, tables.sizes, tables.nominal, RIDGE * self.unit,
                    least[k], pace.rate, slopes[:, k] * self.weights, bend, self.found[k], tables.offsets, moved,
                    seed if pace.by_chance else 0,
                )  # fmt: skip
            self.scores[:, k] += torch.from_numpy(moved)

    @property
    def unit(self) -> float:
        """The most that a row can tell."""
        return 1.0 if self.objective.link == "identity" else 0.25

    def _find_curvature(self) -> np.ndarray:
        """(K, N) of the loss, by what the rows weigh."""
        variance = self.objective.variance(self.scores[:, None])
        if variance is None:
            return np.tile(self.weights, (self.scores.shape[1], 1))
        if self.is_careful:
            variance = bound_curvature(variance)
        return variance[:, 0].T.double().numpy() * self.weights

    def _sum_curvature(self) -> np.ndarray:
        """(K,) what all rows tell."""
        return np.maximum(self._find_curvature().sum(axis=1), 1e-12)


def boost_members(
    tables: Sequence[Tables], scores: Tensor, rows: Rows, objective: Loss, pace: Pace, threads: int,
    group: ProcessGroup = SINGLE_PROCESS,
) -> tuple[np.ndarray, Tensor]:  # fmt: skip
    """Tables (M, K, cells) of members that start from these scores (N, M, K), where their held-out rows together lose
    least, and the scores with them. A member cuts its own tables. Every process boosts some of the members."""
    n_members, n_outputs = scores.shape[1:]
    boosters = {
        m: Booster(tables[m], scores[:, m].clone(), rows.part(m, m + 1), objective, pace)
        for m in range(n_members)[group.share(n_members)]
    }
    lowest, waited = _sum_losses(boosters, n_members, group), 0
    for number in range(1, pace.max_rounds + 1):
        _cut_members(boosters, number * n_members, threads)
        if (loss := _sum_losses(boosters, n_members, group)) < lowest:
            lowest, waited = loss, 0
            for booster in boosters.values():
                booster.keep()
        elif (waited := waited + 1) > pace.patience:
            break
    found, after = np.zeros((n_members, n_outputs, tables[0].n_cells)), scores.clone()
    own = {m: booster.kept for m, booster in boosters.items()}
    for m, (table, moved) in chain.from_iterable(kept.items() for kept in group.gather(own)):
        found[m], after[:, m] = table, moved
    return found, after


def _cut_members(boosters: Mapping[int, Booster], seed: int, threads: int) -> None:
    """One round of each."""
    members = list(boosters)

    def work(_part: int, first: int, last: int) -> int:
        for m in members[first:last]:
            boosters[m].cut(seed + m)
        return -1

    kernels.share_rows(work, len(members), threads, 1)


def _sum_losses(boosters: Mapping[int, Booster], n_members: int, group: ProcessGroup) -> float:
    """Over all members, in their order: every process finds the same."""
    losses = torch.zeros(n_members, dtype=torch.float64)
    for m, booster in boosters.items():
        losses[m] = booster.loss()
    return float(group.sum(losses).sum())
