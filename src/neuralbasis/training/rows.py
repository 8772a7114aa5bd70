"""Rows: the sample as tensors, with the rows that each member holds out and how often each row is drawn."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..data.target import Sample
from ..losses.loss import Loss


@dataclass(frozen=True, eq=False)
class Rows:
    """Training rows beside their positions, on the device of the net."""

    target: Tensor  # (N,)
    weights: Tensor  # (N,) with mean 1
    held_out: Tensor  # (N, M) rows that each member validates on
    n_effective: float  # number of observations
    information: float  # of a row, see `Loss.information`
    copies: np.ndarray  # (N,) how often a row is drawn in an epoch
    init: Tensor | None = None  # (N, 1 or M, K) given scores
    member_mask: Tensor | None = None  # (D, M) columns that each member uses; None: all

    @property
    def all_validate(self) -> bool:
        """Whether every member holds rows out."""
        return bool(self.held_out.any(dim=0).all())

    def shares(self) -> Tensor:
        """(N, M) weight of each row in each member's loss, with mean 1 over the rows it learns from."""
        shares = self.weights[:, None] * ~self.held_out
        shares = shares / shares.mean(0).clamp(min=1e-12)
        drawn = torch.from_numpy(self.copies / self.copies.mean()).to(shares)
        return shares / drawn[:, None]

    def part(self, first: int, last: int) -> Rows:
        """The same rows for members first … last - 1."""
        init = self.init if self.init is None or self.init.shape[1] == 1 else self.init[:, first:last]
        member_mask = None if self.member_mask is None else self.member_mask[:, first:last]
        return replace(self, held_out=self.held_out[:, first:last], init=init, member_mask=member_mask)

    def take(self, index: Tensor) -> tuple[Tensor, Tensor | None]:
        return self.target[index], None if self.init is None else self.init[index]

    def cpu(self) -> Rows:
        """The same rows on the CPU, for compiled loops."""
        init = None if self.init is None else self.init.cpu()
        return replace(
            self, target=self.target.cpu(), weights=self.weights.cpu(), held_out=self.held_out.cpu(), init=init
        )

    def with_held_out_scores(self) -> Rows:
        """The same rows with one score each: the mean over the members that hold the row out, over all if none does."""
        assert self.init is not None
        counts = (self.held_out | ~self.held_out.any(dim=1, keepdim=True))[:, :, None].to(self.init)
        return replace(self, init=(self.init * counts).sum(dim=1, keepdim=True) / counts.sum(dim=1, keepdim=True))

    def mean_residual(self) -> Tensor:
        """(M, 1) mean residual of a regression at the given scores, over the rows that each member learns from."""
        assert self.init is not None
        shares = self.weights[:, None] * ~self.held_out
        return ((shares * (self.target[:, None] - self.init[:, 0])).sum(dim=0) / shares.sum(dim=0))[:, None]

    def validation_parts(self, index: Tensor | slice = slice(None)) -> Tensor:
        """(N, M) weight of each loss in the validation loss: the mean over members of each member's mean over the rows
        it holds out. `index` must contain all rows that are held out."""
        parts = self.weights[index, None] * self.held_out[index]
        return parts / parts.sum(dim=0) / parts.shape[1]


def place_rows(
    sample: Sample, loss: Loss, n_members: int, validation_size: float, rng: np.random.Generator, device,
    copies: bool = True,
) -> Rows:  # fmt: skip
    """The sample as tensors, with rows held out for each member; `copies` draws rare classes more often."""
    strata = sample.y if loss.link != "identity" else np.zeros(len(sample.y))
    held = hold_out(strata, n_members, validation_size, rng)
    weights = torch.from_numpy((sample.weights / sample.weights.mean()).astype(np.float32))
    init = None if sample.init is None else loss.encode_init(sample.init)[:, None].to(device)
    target, held_out = loss.encode(sample.y).to(device), torch.from_numpy(held).to(device)
    times = copy_rare(strata) if copies else np.ones(len(strata), dtype=np.int64)
    return Rows(target, weights.to(device), held_out, sample.n_effective, loss.information(sample), times, init)


def hold_out(
    strata: np.ndarray, n_members: int, share: float, rng: np.random.Generator, max_rows: int = 50_000
) -> np.ndarray:
    """(N, M) rows that each member validates on: disjoint parts while they last, balanced over `strata`."""
    n_rows = len(strata)
    held = np.zeros((n_rows, n_members), dtype=bool)
    size = min(round(share * n_rows) if share < 1 else int(share), max_rows, n_rows - 1)
    if size < 1:
        return held
    parts = max(2, math.ceil(n_rows / size))
    for member in range(n_members):
        if member % parts == 0:  # by stratum, shuffled within it: every k-th row is a balanced sample
            order = np.lexsort((rng.random(n_rows), strata))
        held[order[member % parts :: parts], member] = True
    return held


def copy_rare(strata: np.ndarray) -> np.ndarray:
    """(N,) how often to draw each row: rows of a rare class more often, with a lower weight each time.

    A batch of 8,192 rows with 0.17 % positives has 14 of them, whose noise dominates its gradient. Drawing them more
    often keeps the expected gradient and removes most of that noise.
    """
    _, inverse, count = np.unique(strata, return_inverse=True, return_counts=True)
    rare = min(0.05, 0.5 / len(count))  # with very many classes, a small share is not rare
    copies = np.clip(rare * len(strata) / count, 1, 50).astype(np.int64)
    return copies[inverse]


def standard_error(parts: Tensor) -> float:
    """Standard error of the sum of independent parts."""
    return float(parts.std()) * math.sqrt(len(parts)) if len(parts) > 1 else 0.0
