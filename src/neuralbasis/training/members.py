"""Members: the members of an ensemble, trained side by side on several threads.

Members are independent while they train: each has its own weights, held-out rows and penalties. They are split into
groups that train on the same batches, each group in its own thread. With one thread, or with several processes, which
communicate in every step, all groups advance together. The number of groups depends on the problem and never on the
threads: matrix products of another size round differently, and a seed must give one model on any machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from dataclasses import dataclass, field
from itertools import chain, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from .. import kernels
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..losses.loss import Loss
from ..networks.basis_net import BasisNet, Points
from .batches import Pool
from .checkpointer import require, require_bounded
from .engines import ExactEngine, GridEngine
from .penalties import Penalty, Smoothness, adapt_smoothness
from .rows import Rows

N_GROUPS = 2  # the overhead of calls would dominate a step of smaller groups


@dataclass(frozen=True)
class Settings:
    """How to train. Steps count batches, rounds count checkpoints; the estimators document what users set."""

    learning_rate: float = 1e-2
    weight_decay: float = 1e-5
    batch_size: int = 1024
    max_steps: int = 1000
    n_checkpoints: int = 25
    early_stopping_rounds: int = 8
    early_stopping_tolerance: float | None = 0.0
    smoothness: Smoothness = field(default_factory=lambda: {1: (3.0, 3.0), 2: (3.0, 3.0), 3: (3.0, 3.0)})
    output_penalty: float = 0.0
    # DIFF: AdamW's second beta is usually 0.999, too slow for a few hundred steps; the paper has no warm-up and keeps
    # the last weights.
    beta: float = 0.99
    warm_up: float = 0.05  # share of the steps
    averaging: float = 0.05
    time_limit: float | None = None
    verbose: bool = False
    callbacks: Sequence[Callable] = ()
    stage: str = "main effects"


class Members:
    """All members of `net` in groups; as a context manager, it ends their threads."""

    def __init__(
        self, net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, rows: Rows, loss: Loss,
        settings: Settings, processes: ProcessGroup = SINGLE_PROCESS,
    ):  # fmt: skip
        self.net, self.processes, n_groups = net, processes, count_groups(net, engine)
        self.edges = np.linspace(0, net.n_members, n_groups + 1).astype(int).tolist()
        held = np.flatnonzero(rows.held_out.any(dim=1).cpu().numpy())
        smoothness = adapt_smoothness(settings.smoothness, rows.n_effective, rows.information)
        penalty = Penalty(grid, rows.n_effective, smoothness, settings.output_penalty)
        n_threads = min(n_groups, grid.threads) if processes.size == 1 else 1
        grid = grid.with_threads(grid.threads // n_threads)
        self.groups = [
            MemberGroup(
                net.part(*ends) if n_groups > 1 else net, grid, rows.part(*ends), copy(penalty), loss, settings, held,
                processes, number,
            )
            for number, ends in enumerate(pairwise(self.edges))
        ]  # fmt: skip
        self.groups_by_thread = [self.groups] if n_threads == 1 else [[group] for group in self.groups]
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
        return self.groups[0].step

    def advance(self, pool: Pool, batches: Sequence[np.ndarray], noise: float) -> None:
        """Train all members on these batches of a pool."""
        if pool is not self.pool:
            self.pool = pool
            for group, ends in zip(self.groups, pairwise(self.edges), strict=True):
                group.pool = pool if len(self.groups) == 1 else pool.part(*ends, group.grid.threads)

        def work(groups: Sequence[MemberGroup]) -> None:
            for rows in batches:
                for group in groups:
                    group.refresh(noise)
                compute_gradients(groups, rows)
                for group in groups:
                    group.move()

        self._each(work)

    def validation_losses(self) -> Tensor:
        """(held-out rows,) parts of the validation loss of the averaged nets: the mean over members of their losses."""
        found = self._each(lambda groups: [group.validation_losses() * group.net.n_members for group in groups])
        return torch.stack(list(chain.from_iterable(found))).sum(dim=0) / self.net.n_members

    def keep(self) -> None:
        """Keep the averaged values."""
        for group in self.groups:
            group.kept = group.optimizer.average.clone()

    def restore(self) -> None:
        """Set the whole net to the kept values."""
        self.processes.spread({group.number: [group.kept] for group in self.groups})
        for group, first in zip(self.groups, self.edges, strict=False):
            group.optimizer.values.copy_(group.kept)
            if group.net is not self.net:
                self.net.absorb(group.net, first)
        self.net.eval()

    def state(self) -> dict[str, Any]:
        """The state of all groups, whichever process owns them: all processes must call this at once."""
        return {"groups": [group.state() for group in self.groups]}

    def resume(self, state: dict[str, Any]) -> None:
        steps = state["groups"][0]["step"]
        for group, found in zip(self.groups, state["groups"], strict=True):
            require(found["step"] == found["optimizer"]["steps"] == steps, "groups differ in steps")
            group.resume(found)

    def _each(self, work: Callable[[Sequence[MemberGroup]], Any]) -> list[Any]:
        """Results of `work` for the groups of each thread; the first runs in this thread."""
        first, *others = self.groups_by_thread
        if self.threads is None:
            return [work(first)]
        submitted = [self.threads.submit(work, groups) for groups in others]
        return [work(first), *[future.result() for future in submitted]]


def count_groups(net: BasisNet, engine: GridEngine | ExactEngine) -> int:
    """Groups of members; one if they cannot be separated: dropout draws from one global stream of random numbers, and
    the exact engine looks points up for all members."""
    if isinstance(engine, ExactEngine) or engine.device.type != "cpu" or net.basis_dropout:
        return 1
    for basis in net.bases.values():
        tensors = [*basis.parameters(), *basis.buffers()]
        has_copies = all(tensor.shape[:1] == (basis.n_copies,) for tensor in tensors)
        if getattr(basis, "dropout", 0.0) or not getattr(basis, "separable", False) or not has_copies:
            return 1
    return min(net.n_members, N_GROUPS)


@dataclass(eq=False)
class MemberGroup:
    """Some members with their net, penalty and optimiser; the process that owns the group moves its net."""

    net: BasisNet
    grid: GridEngine
    rows: Rows  # those that members hold out for validation
    penalty: Penalty
    loss: Loss
    settings: Settings
    held: np.ndarray  # indices of the rows that any member of the ensemble holds out
    processes: ProcessGroup = SINGLE_PROCESS
    number: int = 0
    step: int = 0
    kept: Tensor = field(default_factory=lambda: torch.empty(0))
    pool: Pool = field(init=False)  # rows that batches are drawn from

    def __post_init__(self) -> None:
        settings, net = self.settings, self.net
        self.held_weights = self.rows.validation_parts(torch.from_numpy(self.held).to(self.grid.device))
        averaging = settings.averaging * settings.max_steps
        self.optimizer = FlatAdamW(net.parameters(), settings.weight_decay, averaging, settings.beta)
        net.train()

    @property
    def is_owned(self) -> bool:
        return self.processes.owns(self.number)

    def refresh(self, noise: float) -> None:
        """Update the weights of the penalties every 10 steps."""
        if self.is_owned and self.penalty.adapts and self.step % 10 == 0:
            with torch.no_grad():
                self.penalty.refresh(self.net.table(self.grid.points), noise, self.step / self.settings.max_steps)

    def move(self) -> None:
        """Take a step along the gradients."""
        self.step += 1
        if self.is_owned:
            share = schedule(self.step / self.settings.max_steps, self.settings.warm_up)
            self.optimizer.step(self.settings.learning_rate * share)

    def state(self) -> dict[str, Any]:
        if self.step == 0:
            self.refresh(1.0)  # the state includes weights of penalties from the first step on
        parts = {"optimizer": self.optimizer.state(), "penalty": self.penalty.state()}
        return self.processes.agree({"step": self.step, **parts, "kept": self.kept.cpu().numpy()}, self.number)

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
        current = values.clone()
        values.copy_(self.optimizer.average)
        self.net.eval()
        (table,), lookup = make_tables([self], self.grid.points), self.grid.lookup
        own, step = self.processes.share(len(self.held)), self.net.block_rows
        found = table.new_zeros(len(self.held), dtype=lookup.sums)
        for first in range(own.start, own.stop, step):
            some = slice(first, min(first + step, own.stop))
            index = self.held[some]
            target, init = self.rows.take(torch.from_numpy(index).to(self.grid.device))
            scores = self.net.combine(lookup.gather(lookup.take(index), table, self.net.tied).to(lookup.sums))
            losses = self.loss.loss(scores if init is None else scores + init, target)
            found[some] = (losses * self.held_weights[some]).sum(1)
        values.copy_(current)
        self.net.train()
        return self.processes.sum(found)


def compute_gradients(groups: Sequence[MemberGroup], rows: np.ndarray) -> None:
    """One batch: the tables forward, the rows' gradients as histograms over their cells, and back through the nets.

    Every process has histograms of the rows it holds. Their sum is that of the batch; the owner of a group gets it.
    """
    pool, size = groups[0].pool, len(rows)
    held = pool.hold(rows)
    points, lookup, index = pool.engine.batch(held)
    taken, where = lookup.take(index), torch.from_numpy(held).to(pool.target.device)
    target, tables, found = pool.target[where], make_tables(groups, points), {}
    for group, table in zip(groups, tables, strict=True):
        net, init = group.net, group.pool.init
        parts = lookup.gather(taken, table.detach(), net.tied).to(lookup.sums)
        with torch.no_grad():
            scores = net.combine(parts)
        slope = group.loss.slope(scores if init is None else scores + init[where], target)
        pull, own = net.pull(parts, slope * (group.pool.shares[where] / size)[..., None])
        found[group.number] = [lookup.scatter(taken, pull, len(table)), *own]
    sums = groups[0].processes.collect(found)
    for group, table in zip(groups, tables, strict=True):
        if group.is_owned:
            total, *own = sums[group.number]
            values, grad = table.detach(), total.to(table.dtype)
            group.net.add_gradients(own)
            if isinstance(pool.engine, GridEngine):
                group.penalty.add_gradient(values, grad)
            else:
                times = lookup.scatter(taken, values.new_ones(size, 1, 1), len(values))
                group.penalty.add_exact_gradient(values, grad, times / size)
            WithGradient.apply(table, grad).backward()


def make_tables(groups: Sequence[MemberGroup], points: Points) -> list[Tensor]:
    """The nets' tables, evaluated by their owners and sent to all processes with all else that scores depend on."""
    tables, sent = [], {}
    for group in groups:
        net = group.net
        tables.append(
            net.table(points) if group.is_owned else net.zero.new_empty(len(points.source), net.zero.shape[1])
        )
        sent[group.number] = [tensor.detach() for tensor in (tables[-1], net.intercept, *net.mixes.values())]
    groups[0].processes.spread(sent)
    return tables


class FlatAdamW:
    """AdamW (decoupled weight decay) on one flat vector; every parameter is a view of it.

    `average` is the exponential mean of the values over `averaging` steps; it is kept, not the last values.
    torch.optim would import torch's compiler (seconds in a fresh process) and loop over tensors.
    """

    epsilon = 1e-8
    moving = "values", "mean", "square", "average"

    def __init__(self, parameters: Iterable[nn.Parameter], weight_decay: float, averaging: float, beta: float = 0.99):
        self.betas = 0.9, beta
        self.parameters = [p for p in parameters if p.numel() and p.requires_grad]
        self.values = torch.cat([p.detach().reshape(-1) for p in self.parameters])
        self.grad, self.mean, self.square = (torch.zeros_like(self.values) for _ in range(3))
        sizes = [p.numel() for p in self.parameters]
        for p, value, grad in zip(self.parameters, self.values.split(sizes), self.grad.split(sizes), strict=True):
            p.data, p.grad = value.view_as(p), grad.view_as(p)
        self.weight_decay, self.averaging, self.steps = weight_decay, averaging, 0
        self.average = self.values.clone()

    def state(self) -> dict[str, Any]:
        return {"steps": self.steps, **{name: getattr(self, name).cpu().numpy() for name in self.moving}}

    def restore(self, state: dict[str, Any]) -> None:
        require(0 <= state["steps"] < 2**31, "the optimiser's number of steps is out of range")
        self.steps = state["steps"]
        for name in self.moving:
            getattr(self, name).copy_(torch.from_numpy(state[name]))

    def step(self, rate: float) -> None:
        """Move along the accumulated gradients, then set them to 0."""
        self.steps += 1
        (first, second), share = self.betas, 1 / min(self.steps, self.averaging + 1)
        bias = 1 - first**self.steps, 1 - second**self.steps
        if kernels.NUMBA and self.values.device.type == "cpu":
            arrays = (array.numpy() for array in (self.grad, self.mean, self.square, self.values, self.average))
            kernels.step_adam(*arrays, first, second, *bias, rate, rate * self.weight_decay, self.epsilon, share)
            return
        self.mean.lerp_(self.grad, 1 - first)
        self.square.mul_(second).addcmul_(self.grad, self.grad, value=1 - second)
        self.values.mul_(1 - rate * self.weight_decay)
        scale = (self.square / bias[1]).sqrt_().add_(self.epsilon)
        self.values.addcdiv_(self.mean, scale, value=-rate / bias[0])
        self.average.lerp_(self.values, share)
        self.grad.zero_()


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


def schedule(progress: float, warm_up: float = 0.05) -> float:
    """Share of the learning rate: a cosine to zero, with a linear warm-up over this share of the steps."""
    return min(1.0, progress / warm_up if warm_up else 1.0) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
