"""Refinement: a free part beside the bases, for jumps and spikes that no shared smooth function can say.

    f_t = Σ_k h_k a_tk + r_t        r_t = chain + spikes
    price · Σ_j √(π_j (1 - π_j)) |chain_j+1 - chain_j| + price · Σ_j √(m_j (1 - m_j)) |spike_j|

A jump between two knots is priced by what chance alone would find there (π: share of the rows below it), a spike at a
frequent value likewise (m: its share), so tails are heard as well as the middle. The nets stay as they are. Block by
block, a column's part is refitted by Newton steps; the price falls from one that lets nothing through, and the rows
that members hold out choose where to stop, or to leave it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain as join

import numpy as np
import torch
from torch import Tensor

from .. import kernels
from ..data.sparse import SparseMatrix
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..encoding.layout import line_up
from ..losses.loss import Loss
from .free import accept, has_room
from .history import History
from .rows import Rows
from .stage import Stage

PRICES = 1.4 * 0.5 ** (np.arange(12) / 2)  # times the deviation of the summed slopes
N_SWEEPS, PATIENCE = 4, 2
MAX_NUMBERS = 2e7  # cells × members × outputs of the free parts: very wide tables do without
WIDTH = 1e-3  # jumps below this are priced like squares
BLOCK_NUMBERS = 1 << 22  # stored positions that are lined up at a time
MIN_KNOTS, MIN_SPIKE = 30, 0.005  # a spike is told from a chain of at least so many knots, and has this share of rows


@dataclass(frozen=True, eq=False)
class Chains:
    """Main effects that can be refined: their terms, axes and knots (F,), and shares for the prices (F, G).

    `positions` (F, N) of the rows, or stored ones on all axes.
    """

    terms: list[int]
    positions: np.ndarray | SparseMatrix
    axes: np.ndarray
    sizes: np.ndarray
    jump: np.ndarray
    spike: np.ndarray

    def take(self, own: np.ndarray | slice) -> Chains:
        """Some of them, numbered anew; all of them as they are."""
        if isinstance(own, slice):
            return self
        positions = self.positions if isinstance(self.positions, SparseMatrix) else self.positions[own]
        terms = [self.terms[index] for index in own]
        return Chains(terms, positions, self.axes[own], self.sizes[own], self.jump[own], self.spike[own])

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        """The main effects and the rows' positions (…, N): all at once, or some at a time where these are stored."""
        if not isinstance(self.positions, SparseMatrix):
            yield slice(None), self.positions
            return
        step = max(1, BLOCK_NUMBERS // len(self.positions))
        for first in range(0, len(self.terms), step):
            part = slice(first, first + step)
            yield part, line_up(self.positions, self.axes[part])


def find_chains(stage: Stage) -> Chains | None:
    """Main effects of columns with an order and at least three values."""
    grid, layout = stage.grid, stage.grid.layout
    found = [
        index for index, term in enumerate(layout.terms)
        if len(term) == 1 and layout.axes_of(index)[0].kind != "nominal" and len(layout.axes_of(index)[0].knots) > 2
    ]  # fmt: skip
    if not found:
        return None
    sizes = np.array([len(layout.axes_of(index)[0].knots) for index in found])
    jump, spike = np.zeros((len(found), sizes.max())), np.full((len(found), sizes.max()), np.inf)
    for f, index in enumerate(found):
        mass = grid.cell_weight[layout.cells_of(index)][1:-1]
        jump[f, : sizes[f] - 1], spike[f, : sizes[f]] = _find_deviations(mass / max(mass.sum(), np.finfo(float).tiny))
    axes = layout.term_axis[layout.term_start[found]]
    positions = grid.positions if isinstance(grid.positions, SparseMatrix) else line_up(grid.positions, axes)
    return Chains(found, positions, axes, sizes, jump, spike)


def _find_deviations(share: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of the summed slopes behind each knot but the last, and on each knot that is a frequent value, inf elsewhere."""
    below = np.cumsum(share)[:-1].clip(0, 1)
    is_frequent = (share > max(5 / len(share), MIN_SPIKE)) & (len(share) > MIN_KNOTS)
    spike = np.where(is_frequent, np.sqrt((share * (1 - share)).clip(min=0)), np.inf)
    return np.sqrt(np.maximum(below * (1 - below), 1e-9)), spike


class _Path:
    """All members on their way down the prices: the parts (M, K, F, G), and the rows' moves (M, N, K).

    Every process goes with some of the members.
    """

    def __init__(
        self, chains: Chains, scores: Tensor, rows: Rows, objective: Loss, member_mask: np.ndarray | None = None,
        group: ProcessGroup = SINGLE_PROCESS,
    ):  # fmt: skip
        self.chains, self.scores, self.rows, self.objective, self.group = chains, scores, rows, objective, group
        _, n_members, n_outputs = scores.shape
        self.members = range(n_members)[group.share(n_members)]
        self.chain = np.zeros((n_members, n_outputs, *chains.jump.shape))
        self.spike = np.zeros_like(self.chain)
        self.moved = np.zeros((n_members, n_outputs, len(scores)))
        self.weights = (rows.weights[:, None] * ~rows.held_out).double().numpy()
        self.own = (
            [slice(None)] * n_members if member_mask is None else [np.flatnonzero(voice) for voice in member_mask.T]
        )

    def member_scores(self, member: int) -> Tensor:
        """(N, 1, K)"""
        return self.scores[:, member : member + 1] + torch.from_numpy(self.moved[member].T[:, None]).float()

    def descend(self, member: int, price: float) -> None:
        """Refit one member at this price."""
        scores, weight, own = self.member_scores(member), self.weights[:, member], self.own[member]
        chains = self.chains.take(own)
        slope = self.objective.slope(scores, self.rows.target)[:, 0].double().numpy()
        variance = self.objective.variance(scores)
        n_outputs = slope.shape[1]
        for k in range(n_outputs):
            # Twice the diagonal bounds the curvature of several classes, so that steps never go too far.
            curvature = weight.copy() if variance is None else variance[:, 0, k].double().numpy() * weight
            curvature = np.maximum(curvature * (2 if n_outputs > 1 else 1), 1e-6 * weight)
            rows = np.ascontiguousarray(slope[:, k] * weight)
            unit = price * max(float(np.sqrt((rows**2).sum())), 1e-12)
            chain, spike = self.chain[member, k, own], self.spike[member, k, own]
            for part, positions in join.from_iterable(chains.blocks() for _ in range(N_SWEEPS)):
                kernels.refine_columns(
                    positions, chains.sizes[part], unit * chains.jump[part], unit * chains.spike[part], WIDTH, rows,
                    curvature, chain[part], spike[part], self.moved[member, k],
                )  # fmt: skip
            self.chain[member, k, own], self.spike[member, k, own] = chain, spike

    def descend_all(self, price: float, threads: int) -> None:
        def work(_part: int, first: int, last: int) -> int:
            for member in self.members[first:last]:
                self.descend(member, price)
            return -1

        kernels.share_rows(work, len(self.members), threads, 1)

    def validation_losses(self) -> Tensor:
        """(N,) parts of the validation loss."""
        losses = self.scores.new_zeros(self.scores.shape[:2])
        for member in self.members:
            losses[:, member] = self.objective.loss(self.member_scores(member), self.rows.target)[:, 0]
        return self.group.sum(self.rows.validate(losses))

    def gather(self, parts: np.ndarray) -> np.ndarray:
        """Parts (M, K, F, G) of all members, which other processes have gone with."""
        return self.group.sum(torch.from_numpy(parts)).numpy()


def refine(
    stage: Stage, rows: Rows, objective: Loss, history: History, threads: int, group: ProcessGroup = SINGLE_PROCESS
) -> Stage:
    """The stage with a free part, if that surely lowers the validation loss."""
    chains = find_chains(stage) if has_room(stage, rows) else None
    if chains is None:
        return stage
    if chains.jump.size * stage.net.n_members * objective.n_outputs > MAX_NUMBERS:
        return stage
    member_mask = (
        None
        if rows.member_mask is None
        else rows.member_mask[[stage.grid.layout.terms[t][0] for t in chains.terms]].numpy()
    )
    path = _Path(chains, stage.add_scores(rows.init).cpu(), rows.cpu(), objective, member_mask, group)
    before = best = path.validation_losses()
    kept, waited = path.chain, 0
    for price in PRICES:
        path.descend_all(float(price), threads)
        losses = path.validation_losses()
        if losses.sum() < best.sum():
            best, kept, waited = losses, path.chain + path.spike, 0
        elif (waited := waited + 1) > PATIENCE:
            break
    if not accept("refinement", before, best, history):
        return stage
    return stage.add_part(_lay_on_cells(stage, chains, path.gather(kept)))


def _lay_on_cells(stage: Stage, chains: Chains, parts: np.ndarray) -> np.ndarray:
    """Parts (M, K, F, G) -> tables (M, K, cells)."""
    tables = np.zeros((*parts.shape[:2], stage.grid.layout.n_cells))
    for f, index in enumerate(chains.terms):
        first = stage.grid.layout.cells_of(index).start + 1
        tables[..., first : first + chains.sizes[f]] = parts[:, :, f, : chains.sizes[f]]
    return tables
