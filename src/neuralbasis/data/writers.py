"""Lanes: how a pass over a source is cut, so that processes can share it and find the same.

The pieces of a source are cut into lanes, which are read one after the other. What is drawn at random, or thinned, is
drawn and thinned lane by lane: it does not depend on the number of processes, as long as there are no more than lanes.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from .files import Piece, Source

LANES = 24  # divisible by most small numbers of processes
AHEAD = 2  # batches that wait while others are worked on

Item = TypeVar("Item")


def deal_lanes(source: Source, rank: int, size: int) -> list[tuple[int, list[Piece]]]:
    """The lanes of a process: the number of each and its pieces; the lanes of process 0 come before those of 1 …"""
    if source.local:
        return [(rank, list(source.pieces))]
    n_lanes = max(LANES, size)
    weight = np.array([piece.n_rows or 1 for piece in source.pieces], dtype=float)
    lane = ((np.cumsum(weight) - weight / 2) / weight.sum() * n_lanes).astype(int)
    own = [number for number in range(n_lanes) if number * size // n_lanes == rank]
    return [(number, [source.pieces[index] for index in np.flatnonzero(lane == number)]) for number in own]


def read_pieces(source: Source, pieces: Sequence[Piece], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Batches of pieces in their order, read ahead while the last one is worked on."""
    return read_ahead(batch for piece in pieces for batch in source.read(piece, names))


def read_ahead(items: Iterable[Item], depth: int = AHEAD) -> Iterator[Item]:
    """The items, made by another thread, a few of them before they are asked for."""
    waiting: queue.Queue[Any] = queue.Queue(depth)
    stopped, end = threading.Event(), object()

    def put(item: Any) -> None:
        while not stopped.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return
            except queue.Full:
                continue

    def work() -> None:
        try:
            for item in items:
                put((item, None))
                if stopped.is_set():
                    return
            put((end, None))
        except BaseException as error:
            put((end, error))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            item, error = waiting.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        stopped.set()
        thread.join()


def gather_results(group: Any, work: Callable[[], Item]) -> list[Item]:
    """What the work of every process gave, in their order; if one fails, all stop with its reason."""
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
