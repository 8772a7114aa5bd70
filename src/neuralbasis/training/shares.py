"""Shares: how much of every proposed table a model keeps. The one acceptance rule of a fit.

    score = start + Σ_proposals Σ_terms share · contribution                    0 ≤ share ≤ 1

Learners propose tables of terms, trained on the rows that each member learns from. All shares are fitted jointly and
once, on the rows that members hold out, by the log likelihood plus a normal prior: shares lie around their usual value,
with a deviation `COMMON` that the terms of a proposal have together and a deviation `OWN` of each term. Small tables
keep the usual shares; many rows move every share to where it predicts best, often to 0. If the held-out loss does not
fall, all shares are 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from scipy.linalg import block_diag
from scipy.optimize import lsq_linear
from torch import Tensor

from ..losses.loss import Loss
from .lookup import LookUp
from .rows import Rows

COMMON, OWN = 0.25, 0.2  # prior deviations of shares: of a proposal, and of its terms around it
MIN_SHARE = 0.05  # of the largest usual share; smaller shares are 0: what they add cannot be seen in a picture
MAX_ROWS = 20_000  # held-out rows that the shares are fitted on
MAX_TERMS = 500  # above, all terms of a proposal have one share
BLOCK_NUMBERS = 1 << 22  # contributions that are looked up at a time


class Proposed(Protocol):
    """What a learner proposes: contributions to which shares apply, and the prior means of these shares."""

    @property
    def usual(self) -> np.ndarray: ...
    def read(self, rows: np.ndarray, n_members: int, pooled: bool) -> Tensor: ...


@dataclass(frozen=True, eq=False)
class Proposal:
    """Tables of some terms, and a constant."""

    table: Tensor  # (cells, M · K)
    constant: Tensor  # (M · K,)
    lookup: LookUp  # how rows read the table
    usual: np.ndarray  # (1 + T,) prior means of the shares, first of the constant

    def read(self, rows: np.ndarray, n_members: int, pooled: bool) -> Tensor:
        """(rows, shares, M, K) the constant and the contributions of all terms; their sum if they are pooled."""
        found = self.lookup.gather(self.lookup.take(rows), self.table, True).double()
        whole = torch.cat([self.constant.double().expand(len(rows), 1, -1), found], dim=1)
        whole = whole.sum(dim=1, keepdim=True) if pooled else whole
        return whole.unflatten(2, (n_members, -1))


@dataclass(frozen=True, eq=False)
class SharedFit:
    """What was chosen: shares (1 + T,) of each proposal, and the held-out loss before and after."""

    shares: list[np.ndarray]
    before: float
    after: float

    @property
    def gains(self) -> bool:
        return self.after < self.before


def choose_shares(
    proposals: Sequence[Proposed], start: Tensor, rows: Rows, loss: Loss, width: float = 1.0
) -> SharedFit:
    """Fit the shares of all proposals to the rows that members hold out.

    start : (N, M, K) scores without the proposals
    width : factor of the prior deviations
    """
    pooled = sum(len(proposal.usual) for proposal in proposals) > MAX_TERMS
    usual = [proposal.usual.mean(keepdims=True) if pooled else proposal.usual for proposal in proposals]
    judge = _HeldOutRows(proposals, start, rows, loss, pooled)
    # Of each proposal the inverse of the covariance COMMON² + OWN² · I.
    common = [COMMON**2 / (OWN**2 + len(each) * COMMON**2) for each in usual]
    parts = [(np.eye(len(each)) - part) / OWN**2 for each, part in zip(usual, common, strict=True)]
    precision = block_diag(*parts) / width**2
    shares = judge.fit(np.concatenate(usual), precision)
    before, after = judge.loss(np.zeros_like(shares)), judge.loss(shares)
    if after >= before:
        shares, after = np.zeros_like(shares), before
    parts = np.split(shares, np.cumsum([len(each) for each in usual])[:-1])
    if pooled:
        parts = [np.full(len(proposal.usual), part[0]) for proposal, part in zip(proposals, parts, strict=True)]
    return SharedFit(parts, before, after)


class _HeldOutRows:
    """Rows that members hold out, and the contributions of each member to its own."""

    def __init__(self, proposals: Sequence[Proposed], start: Tensor, rows: Rows, loss: Loss, pooled: bool):
        held = np.flatnonzero(rows.held_out.any(dim=1).numpy())
        self.held = held[:: -(-len(held) // MAX_ROWS)]
        self.n_rows = rows.n_effective * len(held) / len(rows.target)
        self.proposals, self.start, self.rows, self.loss_of, self.pooled = proposals, start, rows, loss, pooled
        self.weights = rows.validation_parts(torch.from_numpy(self.held)).double()

    def fit(self, usual: np.ndarray, precision: np.ndarray) -> np.ndarray:
        """Shares with the largest posterior, by Newton's method within their bounds."""
        shares, is_linear = usual, self.loss_of.link == "identity"
        for _ in range(5):
            loss, slope, curvature = self._measure(shares)
            # To the unit of a log likelihood; a regression without loss leaves nothing to learn.
            scale = self.n_rows / (2 * max(loss, 1e-12) if is_linear else 1)
            root = np.linalg.cholesky(scale * curvature + precision).T
            pull = scale * slope + precision @ (shares - usual)
            shares = lsq_linear(root, root @ shares - np.linalg.solve(root.T, pull), bounds=(0, 1)).x
        return np.where(shares < MIN_SHARE * usual.max(), 0.0, shares)

    def loss(self, shares: np.ndarray) -> float:
        """Mean held-out loss at these shares."""
        return sum(float((self._losses(part, shares)[0] * self.weights[part]).sum()) for part in self._blocks(shares))

    def _measure(self, shares: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        """Mean held-out loss, its slope and its curvature."""
        total, slope, curvature = 0.0, np.zeros(len(shares)), np.zeros((len(shares), len(shares)))
        for part in self._blocks(shares):
            losses, scores, contributions = self._losses(part, shares)
            weight, target = self.weights[part], self.rows.target[self.held[part]]
            variance = self.loss_of.variance(scores)
            # Twice the diagonal bounds the curvature of several classes: steps never overshoot.
            bound = torch.ones_like(scores) if variance is None else variance * min(self.loss_of.n_outputs, 2)
            own = weight > 0
            mine = contributions.transpose(0, 1)[:, own].flatten(1)
            total += float((losses * weight).sum())
            slope += (mine @ (self.loss_of.slope(scores, target) * weight[..., None])[own].flatten()).numpy()
            curvature += ((mine * (bound * weight[..., None])[own].flatten()) @ mine.T).numpy()
        return total, slope, curvature

    def _blocks(self, shares: np.ndarray) -> list[np.ndarray]:
        step = max(1, BLOCK_NUMBERS // (len(shares) * self.start.shape[1] * self.start.shape[2]))
        return [np.arange(first, min(first + step, len(self.held))) for first in range(0, len(self.held), step)]

    def _losses(self, part: np.ndarray, shares: np.ndarray) -> tuple[Tensor, Tensor, Tensor]:
        """Losses (b, M), scores (b, M, K) and contributions (b, shares, M, K) of some held-out rows."""
        index, n_members = self.held[part], self.start.shape[1]
        contributions = torch.cat([each.read(index, n_members, self.pooled) for each in self.proposals], dim=1)
        scores = self.start[index].double() + torch.einsum("btmk,t->bmk", contributions, torch.from_numpy(shares))
        return self.loss_of.loss(scores, self.rows.target[index]), scores, contributions
