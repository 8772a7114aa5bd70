"""Cuts: a free part of pairs beside the bases, for edges that no shared smooth function can say.

    f_ij = Σ_k u_k b_ijk + r_ij        r_ij = Σ_rounds step of the piece (x_i, x_j) falls in

In a round of boosting every pair's table is cut in four pieces, by one cut along one axis and one along the other on
either side, and each piece moves by a part of its Newton step. The nets stay as they are. Every member stops where its
held-out rows lose least; the part is kept if all of them together confirm it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..history import History
from ..layout import line_up
from ..objective import Objective
from .loop import standard_error
from .rows import Rows
from .stage import Stage

RATE, MAX_ROUNDS, PATIENCE = 0.1, 300, 8
RIDGE, LEAST = 4.0, 5.0  # rows that are added to a piece, and that it needs at least; counted by what they tell at best
SURE = 2.0  # standard errors that the validation loss has to fall by
MAX_NUMBERS = 2e8  # rows × pairs × members × outputs of a round: larger tables do without


@dataclass(frozen=True, eq=False)
class Pairs:
    """Pairs that can be cut.

    terms, offsets : of each pair its term, and where its table starts among all their cells
    axes : (P, 2)
    positions, cells : (A, N) of the rows on the axes, and the cells nearest to them
    sizes, nominal : (A,) cells of each axis, and whether they have no order
    """

    terms: list[int]
    axes: np.ndarray
    offsets: np.ndarray
    positions: np.ndarray
    cells: np.ndarray
    sizes: np.ndarray
    nominal: np.ndarray
    n_cells: int


def find_pairs(stage: Stage, max_pairs: float = math.inf) -> Pairs | None:
    """Pairs of columns without an anchor; None if there are none, or too many."""
    grid, layout = stage.grid, stage.grid.layout
    found = [
        index for index, term in enumerate(layout.terms)
        if len(term) == 2 and not any(feature in layout.anchors for feature in term)
    ]  # fmt: skip
    if not 0 < len(found) <= max_pairs:
        return None
    axes = np.array([layout.term_axis[layout.term_start[index] :][:2] for index in found])
    used, places = np.unique(axes, return_inverse=True)
    sizes = np.array([layout.axes[axis].n_cells for axis in used])
    places = places.reshape(axes.shape)
    counts = sizes[places].prod(axis=1)
    positions = line_up(grid.positions, used)
    return Pairs(
        found, places, np.r_[0, np.cumsum(counts)[:-1]], positions, np.rint(positions).astype(np.uint16), sizes,
        np.array([layout.axes[axis].kind == "nominal" for axis in used]), int(counts.sum()),
    )  # fmt: skip


class _Member:
    """One member: its tables (K, cells), and its scores (N, K) and held-out rows as they follow."""

    def __init__(self, pairs: Pairs, scores: Tensor, rows: Rows, objective: Objective):
        self.pairs, self.scores, self.rows, self.objective = pairs, scores, rows, objective
        self.held = torch.nonzero(rows.held_out[:, 0])[:, 0]
        self.weights = (rows.weights * ~rows.held_out[:, 0]).double().numpy()
        self.tables = np.zeros((scores.shape[1], pairs.n_cells))

    def boost(self) -> tuple[np.ndarray, Tensor]:
        """The tables where the held-out rows lose least, and their losses there."""
        best_losses, best, waited = self.losses(), np.zeros_like(self.tables), 0
        shares = self.rows.weights[self.held]
        for _ in range(MAX_ROUNDS):
            self.cut()
            losses = self.losses()
            if (losses * shares).sum() < (best_losses * shares).sum():
                best_losses, best, waited = losses, self.tables.copy(), 0
            elif (waited := waited + 1) > PATIENCE:
                break
        return best, best_losses

    def losses(self) -> Tensor:
        """Of the held-out rows."""
        return self.objective.loss(self.scores[self.held, None], self.rows.target[self.held])[:, 0].double()

    def cut(self) -> None:
        """One round over all pairs and outputs."""
        pairs, scores = self.pairs, self.scores[:, None]
        slopes = self.objective.slope(scores, self.rows.target)[:, 0].double().numpy()
        variance = self.objective.variance(scores)
        unit = 1.0 if variance is None else 0.25  # the most that a row can tell
        for k in range(slopes.shape[1]):
            curvature = self.weights.copy() if variance is None else variance[:, 0, k].double().numpy() * self.weights
            moved = np.zeros(len(slopes))
            kernels.cut_pairs(
                pairs.positions, pairs.cells, pairs.axes, pairs.sizes, pairs.nominal, RIDGE * unit, LEAST * unit, RATE,
                slopes[:, k] * self.weights, curvature, self.tables[k], pairs.offsets, moved,
            )  # fmt: skip
            self.scores[:, k] += torch.from_numpy(moved)


def cut(stage: Stage, rows: Rows, objective: Objective, history: History, threads: int) -> Stage:
    """The stage with a free part of its pairs, if that surely lowers the validation loss."""
    pairs = find_pairs(stage, MAX_NUMBERS / (len(rows.target) * stage.net.n_members * objective.n_outputs))
    if pairs is None or stage.net.tied or not bool(rows.held_out.any(dim=0).all()):
        return stage
    host = replace(rows, target=rows.target.cpu(), weights=rows.weights.cpu(), held_out=rows.held_out.cpu())
    tables, before, after = _boost_members(pairs, stage.add_scores(rows.init).cpu(), host, objective, threads)
    parts = (host.weights[:, None] * host.held_out).double()
    parts = parts / parts.sum(dim=0) / parts.shape[1]
    gain = ((before - after) * parts).sum(dim=1)
    if float(gain.sum()) <= SURE * standard_error(gain):
        return stage
    history.add("cuts", 0, float((after * parts).sum()), keep=True)
    return replace(stage, rest=_spread_over_cells(stage, pairs, tables))


def _boost_members(
    pairs: Pairs, scores: Tensor, rows: Rows, objective: Objective, threads: int
) -> tuple[np.ndarray, Tensor, Tensor]:
    """Tables (M, K, cells), and the losses (N, M) of held-out rows before and after, 0 elsewhere."""
    n_rows, n_members, n_outputs = scores.shape
    tables = np.zeros((n_members, n_outputs, pairs.n_cells))
    before, after = torch.zeros(2, n_rows, n_members, dtype=torch.float64)

    def work(_part: int, first: int, last: int) -> int:
        for m in range(first, last):
            member = _Member(pairs, scores[:, m].clone(), rows.part(m, m + 1), objective)
            before[member.held, m] = member.losses()
            tables[m], after[member.held, m] = member.boost()
        return -1

    kernels.share_rows(work, n_members, threads, 1)
    return tables, before, after


def _spread_over_cells(stage: Stage, pairs: Pairs, tables: np.ndarray) -> Tensor:
    """Tables (M, K, cells of the pairs) beside the free part there is, as the flat table (cells, M · K)."""
    flat = tables.reshape(-1, pairs.n_cells).T
    rest = torch.zeros(stage.grid.layout.n_cells, flat.shape[1]) if stage.rest is None else stage.rest.cpu().clone()
    for index, first in zip(pairs.terms, pairs.offsets, strict=True):
        cells = stage.grid.layout.cells_of(index)
        rest[cells] += torch.from_numpy(flat[first : first + cells.stop - cells.start]).float()
    return rest.to(stage.grid.device)
