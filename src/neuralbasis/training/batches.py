"""Batches: the batches of a stage, drawn from pools.

A pool is the set of rows that batches are drawn from at a time: all rows of a table in memory, or a random part of a
larger one. Several processes share every pool: each holds some of its rows, all draw the same batches, and each trains
on its own rows of them. Pools follow one another; a table in memory repeats the same pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from torch import Tensor

from ..distributed.process_group import ProcessGroup
from .checkpointer import StateError, require
from .engines import ExactEngine, GridEngine
from .rows import Rows


@dataclass(frozen=True, eq=False)
class Pool:
    """Rows of a pool that this process holds, with their targets, weights and scores."""

    engine: GridEngine | ExactEngine
    target: Tensor  # (N,)
    shares: Tensor  # (N, M) weight of each row in each member's loss, with mean 1 over the table
    init: Tensor | None  # (N, 1 or M, K) scores of earlier stages
    copies: np.ndarray  # (all rows of the pool,) how often each is drawn
    first: int = 0  # index of the first of these rows in the pool

    def hold(self, batch: np.ndarray) -> np.ndarray:
        """The rows of a batch that this process holds, as indices into them."""
        if len(self.target) == len(self.copies):
            return batch
        return batch[(batch >= self.first) & (batch < self.first + len(self.target))] - self.first

    def part(self, first: int, last: int, threads: int) -> Pool:
        """The same rows for members first … last - 1, read on `threads` threads."""
        init = self.init if self.init is None or self.init.shape[1] == 1 else self.init[:, first:last]
        assert isinstance(self.engine, GridEngine)
        return replace(self, engine=self.engine.with_threads(threads), shares=self.shares[:, first:last], init=init)


def share_pool(engine: GridEngine | ExactEngine, rows: Rows, group: ProcessGroup) -> Pool:
    """The pool of a table that every process has; each process holds its part of the rows."""
    shares, own = rows.shares(), group.share(len(rows.target))
    if group.size == 1:
        return Pool(engine, rows.target, shares, rows.init, rows.copies)
    assert isinstance(engine, GridEngine)
    init = None if rows.init is None else rows.init[own]
    return Pool(engine.take(own), rows.target[own], shares[own], init, rows.copies, own.start)


class Batches:
    """Draws batches: every row of a pool as often as it has copies, then from the next pool.

    Rows left after the last batch come first in the next draw from the same pool; another pool drops them.
    """

    def __init__(self, pools: Iterator[Pool | Rows], size: int, n_steps: int, rng: np.random.Generator):
        self.pools, self.max_size, self.steps_left, self.rng = pools, size, n_steps, rng
        self.pool: Pool | Rows | None = None
        self.size, self.n_pools, self.n_drawn = 1, 0, 0  # pools so far, and batches of the current one
        self.waiting: np.ndarray = np.empty(0, dtype=np.int32)
        self.shuffled_from: Any = None  # rows left before the last shuffle, and the generator's state

    def draw(self, count: int) -> list[np.ndarray]:
        """At most `count` batches, all from `pool`; at least one until all steps are done."""
        count = min(count, self.steps_left)
        if count and len(self.waiting) < self.size:
            before, self.pool = self.pool, next(self.pools)
            self.n_pools += 1
            self._shuffle(self.waiting if self.pool is before else self.waiting[:0], self.pool.copies)
        count = min(count, len(self.waiting) // self.size)
        drawn, self.waiting = np.split(self.waiting, [count * self.size])
        self.steps_left -= count
        self.n_drawn += count
        return list(drawn.astype(np.int64).reshape(count, self.size))

    def _shuffle(self, left: np.ndarray, copies: np.ndarray) -> None:
        self.shuffled_from, self.n_drawn = (left, self.rng.bit_generator.state), 0
        drawn = np.repeat(np.arange(len(copies), dtype=np.int32 if len(copies) < 2**31 else np.int64), copies)
        self.rng.shuffle(drawn)
        self.size = min(self.max_size, len(drawn))
        self.waiting = np.concatenate([left, drawn], dtype=drawn.dtype, casting="same_kind")

    def state(self) -> dict[str, Any]:
        """What another `Batches` of the same pools needs to continue from here; small for pools of any size."""
        left, rng = self.shuffled_from
        counts = {name: getattr(self, name) for name in ("n_pools", "n_drawn", "steps_left")}
        return {**counts, "left": left.astype(np.int64), "rng": rng}

    def form(self) -> dict[str, Any]:
        """The form of a state."""
        rng = self.rng.bit_generator.state
        return {"n_pools": int, "n_drawn": int, "steps_left": int, "left": np.dtype(np.int64), "rng": rng}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a state; earlier pools are skipped without reading them if they allow it."""
        n_done, n_pools, n_drawn = self.steps_left - state["steps_left"], state["n_pools"], state["n_drawn"]
        require(state["steps_left"] >= 0 and 1 <= n_pools <= n_done, "the number of batches or pools is out of range")
        self.n_pools, self.steps_left = n_pools, state["steps_left"]
        if hasattr(self.pools, "skip"):
            self.pools.skip(n_pools - 1)
        self.pool = next(self.pools)
        set_generator(self.rng, state["rng"])
        left, copies = state["left"], self.pool.copies
        is_inside = len(left) == 0 or (left.min() >= 0 and left.max() < len(copies))
        require(is_inside, f"a row number is out of range: the pool has {len(copies):,} rows")
        require(bool((np.bincount(left, minlength=len(copies)) <= copies).all()), "a row number occurs too often")
        self._shuffle(left, copies)
        require(0 < n_drawn <= min(n_done, len(self.waiting) // self.size), "the number of batches is out of range")
        self.n_drawn, self.waiting = n_drawn, self.waiting[n_drawn * self.size :]


def set_generator(rng: np.random.Generator, state: dict[str, Any]) -> None:
    """Set a generator to a state from a file."""
    try:
        rng.bit_generator.state = state
    except (ValueError, TypeError, OverflowError) as error:
        raise StateError(f"the state of a random generator is wrong ({error})") from None
