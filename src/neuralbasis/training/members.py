"""Members: the members shared out among threads, each part with all that trains it.

Members never meet while they are trained: each has weights, held-out rows and penalties of its own. So they are dealt
into parts that go through the same batches, each in a thread of its own. Where there is one thread, or where processes
meet in every step, all parts go in step. How many parts there are depends on the problem alone, never on the threads:
products of another size round differently, and a seed should give one model on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..losses.loss import Loss
from ..networks.basis_net import BasisNet, Points
from .batches import Pool
from .checkpointer import require, require_bounded
from .engines import ExactEngine, GridEngine
from .lookup import LookUp
from .optimizer import FlatAdamW
from .penalties import Penalty, Smoothness, adapt_smoothness
from .rows import Rows

REFRESH = 10  # steps after which penalties are weighed anew
N_PARTS = 2  # more would be too small: a step of main effects is mostly calls


@dataclass(frozen=True)
class Settings:
    """How to train. Steps and rounds count batches and checkpoints; see the estimators for what users set."""

    learning_rate: float = 1e-2
    weight_decay: float = 1e-5
    batch_size: int = 1024
    max_steps: int = 1000
    n_checkpoints: int = 25
    early_stopping_rounds: int = 8
    early_stopping_tolerance: float | None = 0.0
    smoothness: Smoothness = field(default_factory=lambda: {1: (3.0, 3.0), 2: (3.0, 3.0), 3: (3.0, 3.0)})
    output_penalty: float = 0.0
    averaging: float = 0.05
    time_limit: float | None = None
    verbose: bool = False
    callbacks: Sequence[Callable] = ()
    stage: str = "main effects"


class Members:
    """All members of `net`, dealt into parts; a context that ends their threads."""

    def __init__(
        self, net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, rows: Rows, objective: Loss,
        settings: Settings, group: ProcessGroup = SINGLE_PROCESS,
    ):  # fmt: skip
        self.net, self.group, n_parts = net, group, count_parts(net, engine)
        self.edges = np.linspace(0, net.n_members, n_parts + 1).astype(int).tolist()
        held = np.flatnonzero(rows.held_out.any(dim=1).cpu().numpy())
        smoothness = adapt_smoothness(settings.smoothness, rows.n_effective, rows.information)
        penalty = Penalty(grid, rows.n_effective, smoothness, settings.output_penalty)
        n_threads = min(n_parts, grid.threads) if group.size == 1 else 1
        share, known = grid.with_threads(grid.threads // n_threads), (objective, settings, held, group)
        self.parts = [
            Part(net.part(*e) if n_parts > 1 else net, share, rows.part(*e), copy(penalty), *known, number)
            for number, e in enumerate(pairwise(self.edges))
        ]
        self.strands = [self.parts] if n_threads == 1 else [[part] for part in self.parts]
        self.pool: Pool | None = None
        self.threads = ThreadPoolExecutor(n_threads - 1) if n_threads > 1 else None
        self.validates = len(held) > 0

    def __enter__(self) -> Members:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.threads is not None:
            self.threads.shutdown(cancel_futures=True)

    @property
    def steps(self) -> int:
        return self.parts[0].step

    def advance(self, pool: Pool, batches: Sequence[np.ndarray], noise: float) -> None:
        """Train all members on these batches of a pool."""
        if pool is not self.pool:
            self._take(pool)
        self._each(lambda parts: advance(parts, batches, noise))

    def validation_losses(self) -> Tensor:
        """(held-out rows,) parts of the averaged nets' validation loss: the mean over members of each one's loss."""
        found = self._each(lambda parts: [part.validation_losses() * part.net.n_members for part in parts])
        return torch.stack(list(chain.from_iterable(found))).sum(dim=0) / self.net.n_members

    def keep(self) -> None:
        """Remember the averaged values."""
        for part in self.parts:
            part.kept = part.optimizer.average.clone()

    def restore(self) -> None:
        """Give the whole net what was kept."""
        self.group.spread({part.number: [part.kept] for part in self.parts})
        for part, first in zip(self.parts, self.edges, strict=False):
            part.optimizer.values.copy_(part.kept)
            if part.net is not self.net:
                self.net.absorb(part.net, first)
        self.net.eval()

    def state(self) -> dict[str, Any]:
        """The state of all parts, wherever they are at home: all processes ask for it at once."""
        return {"parts": [part.state() for part in self.parts]}

    def resume(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        for part, found in zip(self.parts, state["parts"], strict=True):
            require(found["step"] == found["optimizer"]["steps"] == state["parts"][0]["step"], "parts differ in steps")
            part.resume(found)

    def _take(self, pool: Pool) -> None:
        """Give every part its members' share of a pool."""
        self.pool = pool
        for part, ends in zip(self.parts, pairwise(self.edges), strict=True):
            part.pool = pool if len(self.parts) == 1 else pool.part(*ends, part.grid.threads)

    def _each(self, work: Callable[[Sequence[Part]], Any]) -> list[Any]:
        """What `work` gives for each strand of parts that go in step, the first in this thread."""
        if self.threads is None:
            return [work(parts) for parts in self.strands]
        others = [self.threads.submit(work, parts) for parts in self.strands[1:]]
        return [work(self.strands[0]), *[other.result() for other in others]]


def count_parts(net: BasisNet, engine: GridEngine | ExactEngine) -> int:
    """One if members cannot be separated: dropout draws from one global stream, the exact engine looks points up for
    all of them."""
    if isinstance(engine, ExactEngine) or engine.device.type != "cpu":
        return 1
    random = net.basis_dropout or any(getattr(basis, "dropout", 0.0) for basis in net.bases.values())
    return 1 if random or not all(map(_is_separable, net.bases.values())) else min(net.n_members, N_PARTS)


def _is_separable(basis: nn.Module) -> bool:
    """Does it say so, and do all its tensors lead with the copies?"""
    tensors = [*basis.parameters(), *basis.buffers()]
    return getattr(basis, "separable", False) and all(t.shape[:1] == (basis.n_copies,) for t in tensors)


@dataclass(eq=False)
class Part:
    """Some members: their net, the rows they are judged by, penalty and optimiser; `held` are the rows that any of the
    crew holds out, `pool` has those that batches are drawn from. The net is evaluated and moved at home."""

    net: BasisNet
    grid: GridEngine
    rows: Rows
    penalty: Penalty
    objective: Loss
    settings: Settings
    held: np.ndarray
    group: ProcessGroup = SINGLE_PROCESS
    number: int = 0
    step: int = 0
    kept: Tensor = field(default_factory=lambda: torch.empty(0))
    pool: Pool = field(init=False)

    def __post_init__(self) -> None:
        settings, net = self.settings, self.net
        self.held_weights = self.rows.validation_parts(torch.from_numpy(self.held).to(self.grid.device))
        self.optimizer = FlatAdamW(net.parameters(), settings.weight_decay, settings.averaging * settings.max_steps)
        net.train()

    @property
    def is_home(self) -> bool:
        return self.group.owns(self.number)

    def refresh(self, noise: float) -> None:
        """Weigh penalties anew, when it is time to."""
        if self.is_home and self.step % REFRESH == 0:
            with torch.no_grad():
                self.penalty.refresh(self.net.table(self.grid.points), noise, self.step / self.settings.max_steps)

    def read(self, batch: Batch, table: Tensor) -> list[Tensor]:
        """The gradient that the rows of a batch give the table, a histogram over its cells, and all else in scores."""
        net, pool, lookup, where = self.net, self.pool, batch.lookup, batch.where
        parts = lookup.gather(batch.taken, table, net.tied).to(lookup.sums)
        with torch.no_grad():
            scores = net.combine(parts)
        slope = self.objective.slope(scores if pool.init is None else scores + pool.init[where], batch.target)
        pull, own = net.pull(parts, slope * (pool.shares[where] / batch.size)[..., None])
        return [lookup.scatter(batch.taken, pull, len(table)), *own]

    def add_gradients(self, batch: Batch, table: Tensor, total: Tensor, *own: Tensor) -> None:
        """Those of all rows and of the penalty, back through the net."""
        self.net.add_gradients(own)
        values, grad = table.detach(), total.to(table.dtype)
        if isinstance(self.pool.engine, GridEngine):
            self.penalty.add_gradient(values, grad)
        else:
            times = batch.lookup.scatter(batch.taken, values.new_ones(batch.size, 1, 1), len(values))
            self.penalty.add_exact_gradient(values, grad, times / batch.size)
        WithGradient.apply(table, grad).backward()

    def move(self) -> None:
        """A step along the gradients."""
        self.step += 1
        if self.is_home:
            self.optimizer.step(self.settings.learning_rate * schedule(self.step / self.settings.max_steps))

    def state(self) -> dict[str, Any]:
        if self.step == 0:
            self.refresh(1.0)  # penalties have weights from the first step on
        optimizer, penalty = self.optimizer.state(), self.penalty.state()
        kept = self.kept.cpu().numpy()
        state = {"step": self.step, "optimizer": optimizer, "penalty": penalty, "kept": kept}
        return self.group.agree(state, self.number)

    def resume(self, state: dict[str, Any]) -> None:
        self.step, self.kept = state["step"], torch.from_numpy(state["kept"]).to(self.grid.device)
        self.optimizer.values.copy_(self.kept)
        with torch.no_grad():
            require_bounded([self.kept, self.net.eval().table(self.grid.points)])
        self.net.train()
        self.optimizer.restore(state["optimizer"])
        self.penalty.restore(state["penalty"])

    @torch.no_grad()
    def validation_losses(self) -> Tensor:
        """(held-out rows,) parts of the mean validation loss of these members, at the averaged values."""
        if not len(self.held):
            return torch.empty(0)
        values = self.optimizer.values
        present = values.clone()
        values.copy_(self.optimizer.average)
        self.net.eval()
        (table,), lookup = make_tables([self], self.grid.points), self.grid.lookup
        own, step = self.group.share(len(self.held)), self.net.block_rows
        found = table.new_zeros(len(self.held), dtype=lookup.sums)
        for first in range(own.start, own.stop, step):
            some = slice(first, min(first + step, own.stop))
            index = self.held[some]
            target, init = self.rows.take(torch.from_numpy(index).to(self.grid.device))
            scores = self.net.combine(lookup.gather(lookup.take(index), table, self.net.tied).to(lookup.sums))
            losses = self.objective.loss(scores if init is None else scores + init, target)
            found[some] = (losses * self.held_weights[some]).sum(1)
        values.copy_(present)
        self.net.train()
        return self.group.sum(found)


@dataclass(frozen=True, eq=False)
class Batch:
    """What a process holds of a batch: its rows in the pool, their positions and targets; `size` counts all rows."""

    size: int
    where: Tensor
    points: Points
    lookup: LookUp
    taken: Any
    target: Tensor


def take_batch(pool: Pool, rows: np.ndarray) -> Batch:
    held = pool.hold(rows)
    points, lookup, index = pool.engine.batch(held)
    where = torch.from_numpy(held).to(pool.target.device)
    return Batch(len(rows), where, points, lookup, lookup.take(index), pool.target[where])


def advance(parts: Sequence[Part], batches: Sequence[np.ndarray], noise: float) -> None:
    """A step of parts that go in step, for every batch of rows."""
    for rows in batches:
        for part in parts:
            part.refresh(noise)
        compute_gradients(parts, rows)
        for part in parts:
            part.move()


def compute_gradients(parts: Sequence[Part], rows: np.ndarray) -> None:
    """One batch: the tables forward, the rows' gradients as histograms over their cells, and back through the nets.

    Every process has histograms of the rows it holds; their sum is the whole batch's, and goes back at home.
    """
    batch = take_batch(parts[0].pool, rows)
    tables = make_tables(parts, batch.points)
    found = {part.number: part.read(batch, table.detach()) for part, table in zip(parts, tables, strict=True)}
    sums = parts[0].group.collect(found)
    for part, table in zip(parts, tables, strict=True):
        if part.is_home:
            part.add_gradients(batch, table, *sums[part.number])


def make_tables(parts: Sequence[Part], points: Points) -> list[Tensor]:
    """The nets' tables, evaluated at home and known to all processes, with what else scores need."""
    tables = [part.net.table(points) if part.is_home else part.net.blank_table(points) for part in parts]
    known = {part.number: [table.detach(), *part.net.outer] for part, table in zip(parts, tables, strict=True)}
    parts[0].group.spread(known)
    return tables


class WithGradient(torch.autograd.Function):
    """A number whose gradient with respect to the table is given.

    `table.backward(grad)` would do, but torch then imports its symbolic shapes, a second in a fresh process.
    """

    @staticmethod
    def forward(ctx, table: Tensor, grad: Tensor) -> Tensor:
        ctx.save_for_backward(grad)
        return table.new_zeros(())

    @staticmethod
    def backward(ctx, _one: Tensor) -> tuple[Tensor, None]:
        return *ctx.saved_tensors, None


def schedule(progress: float) -> float:
    """Share of the learning rate: 5 % linear warm-up, then a cosine to zero."""
    return min(1.0, progress / 0.05) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
