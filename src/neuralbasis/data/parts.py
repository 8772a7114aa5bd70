"""Parts: how processes divide a pass over a source and still get the same result.

The pieces of a source are cut into `N_PARTS` consecutive parts, which a process reads one after the other. Random draws
and thinned sketches are made per part, so they do not depend on the number of processes (up to one process per part).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from .files import Piece, Source

N_PARTS = 24  # divisible by most small numbers of processes

Item = TypeVar("Item")


class Communicator(Protocol):
    """The processes of a fit; `distributed.process_group.ProcessGroup` implements it."""

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, by rank."""

    def agree(self, value: Any) -> Any:
        """The value of the first process."""


def assign_parts(source: Source, rank: int, size: int) -> list[tuple[int, list[Piece]]]:
    """The parts of a process: the index and the pieces of each. Parts increase with the rank."""
    if source.local:
        return [(rank, list(source.pieces))]
    n_parts = max(N_PARTS, size)
    weight = np.array([piece.n_rows or 1 for piece in source.pieces], dtype=float)
    part_of = ((np.cumsum(weight) - weight / 2) / weight.sum() * n_parts).astype(int)
    own = [part for part in range(n_parts) if part * size // n_parts == rank]
    return [(part, [source.pieces[index] for index in np.flatnonzero(part_of == part)]) for part in own]


def read_pieces(source: Source, pieces: Sequence[Piece], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of pieces in their order; another thread reads up to two of them before they are requested."""
    batches = (batch for piece in pieces for batch in source.read(piece, names))
    with ThreadPoolExecutor(1) as pool:
        waiting = deque(pool.submit(next, batches, None) for _ in range(2))
        try:
            while (batch := waiting.popleft().result()) is not None:
                waiting.append(pool.submit(next, batches, None))
                yield batch
        finally:
            for future in waiting:
                future.cancel()


def gather_results(group: Communicator, work: Callable[[], Item]) -> list[Item]:
    """The results of `work` in every process, by rank; if it fails in one process, all raise."""
    result, failure, reason = None, None, ""
    try:
        result = work()
    except Exception as error:
        failure, reason = error, f"{type(error).__name__}: {error}"
    found = group.gather((result, reason))
    if failure is not None:
        raise failure
    for rank, (_, reason) in enumerate(found):
        if reason:
            raise RuntimeError(f"process {rank} stopped with {reason}")
    return [result for result, _ in found]
