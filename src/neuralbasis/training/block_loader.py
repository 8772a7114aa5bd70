"""BlockLoader: the pools of a table that is larger than memory, encoded for a stage.

bucket of the cache -> blocks of numbers -> positions, targets, weights, and the scores of earlier stages -> Pool

Every pool overwrites the one before it: memory holds one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..distributed.process_group import ProcessGroup
from ..encoding.disk_cache import Block, Cache
from ..losses.loss import Loss
from .batches import Pool
from .engines import GridEngine
from .rows import Rows
from .stage import Stage


@dataclass(frozen=True, eq=False)
class BlockLoader:
    """The rows of a table that are not in its sample, in a cache on disk."""

    cache: Cache
    group: ProcessGroup
    n_rows: int  # all rows, including those of the sample
    mean_weight: float  # of all rows
    seed: int  # of the order of the pools
    threads: int

    def pools(self, grid: GridEngine, stages: Sequence[Stage], loss: Loss, rows: Rows) -> Pools:
        """An endless iterator over pools for a stage on this grid; `rows` are those of the sample."""

        def list_buckets() -> Iterator[int]:
            """All buckets again and again, in a new order in every pass."""
            rng, buckets = np.random.default_rng([self.seed, len(stages)]), np.arange(1, self.cache.counts.shape[1])
            while True:
                yield from rng.permutation(buckets).tolist()

        return Pools(_Buffer(self, grid, stages, loss, rows), list_buckets())


class Pools:
    """Pools of a sequence of buckets; a bucket that occurs twice in a row is read once."""

    def __init__(self, buffer: _Buffer, buckets: Iterator[int]):
        self.buffer, self.buckets, self.bucket = buffer, buckets, 0
        self.pool: Pool | None = None

    def __iter__(self) -> Pools:
        return self

    def __next__(self) -> Pool:
        bucket = next(self.buckets)
        if self.pool is None or bucket != self.bucket:
            self.pool, self.bucket = self.buffer.fill(bucket), bucket
        return self.pool

    def skip(self, count: int) -> None:
        """Skip pools without reading them."""
        for _ in range(count):
            next(self.buckets)


class _Buffer:
    """Memory for one pool.

    A pool is a random part of the table: its weights are divided by the mean weight of all rows. Rows of rare classes
    have as many copies as in the sample. Rows of the sample are in no pool.
    """

    def __init__(self, loader: BlockLoader, grid: GridEngine, stages: Sequence[Stage], loss: Loss, rows: Rows):
        self.loader, self.grid, self.stages, self.loss = loader, grid, stages, loss
        self.copies, self.mean_copies = None, float(rows.copies.mean())
        if loss.link != "identity" and bool((rows.copies != 1).any()):
            self.copies = np.full(max(2, loss.n_outputs), rows.copies.max(), dtype=np.uint8)  # of each class
            self.copies[rows.target.cpu().numpy().astype(np.int64)] = rows.copies
        size = int(loader.cache.counts[loader.cache.rank, 1:].max())
        n_members, n_outputs = rows.held_out.shape[1], loss.n_outputs
        self.positions = np.empty((size, len(grid.layout.axes)), dtype=np.float32)
        self.target = torch.empty(size, dtype=rows.target.dtype)
        self.shares = torch.empty(size, n_members)
        self.init = torch.empty(size, n_members, n_outputs) if stages else None

    def fill(self, bucket: int) -> Pool:
        """The pool of a bucket."""
        cache, device = self.loader.cache, self.grid.device
        counts = cache.counts[:, bucket]
        size, drawn = int(counts[cache.rank]), np.ones(int(counts[cache.rank]), dtype=np.uint8)
        for first in range(0, size, 1 << 17):
            own = slice(first, min(first + (1 << 17), size))
            self._put(cache.read(bucket, own.start, own.stop), own, drawn)
        if self.copies is not None:
            drawn = np.concatenate(self.loader.group.gather(drawn))
        return Pool(
            self.grid.read(self.positions[:size]),
            self.target[:size].to(device),
            self.shares[:size].to(device),
            None if self.init is None else self.init[:size].to(device),
            drawn if self.copies is not None else np.ones(int(counts.sum()), dtype=np.uint8),
            int(counts[: cache.rank].sum()),
        )

    def _put(self, block: Block, own: slice, drawn: np.ndarray) -> None:
        """Write the rows of a block to their places in the buffer."""
        threads = self.loader.threads
        self.positions[own] = self.grid.layout.encode(block.numbers, threads)
        self.target[own] = self.loss.encode(block.y)
        shares = block.weights / self.loader.mean_weight
        if self.copies is not None:
            drawn[own] = self.copies[block.y]
            shares = shares * self.mean_copies / drawn[own]
        self.shares[own] = torch.from_numpy(shares.astype(np.float32))[:, None]
        if self.init is not None:
            scores: Tensor | None = None
            for stage in self.stages:
                scores = stage.read(stage.grid.layout.encode(block.numbers, threads)).add_scores(scores)
            assert scores is not None
            self.init[own] = scores.cpu()
