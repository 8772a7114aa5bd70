"""For tests of sources: threads in the role of processes, a table with every type of column, and little memory."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet


def small_memory() -> AbstractContextManager[Any]:
    """No table fits in memory, a limit counts rows alone, and a sample may have as few as 256 rows."""
    return patch.multiple("neuralbasis.data.memory", BASE_BYTES=0, MIN_SAMPLE=256, CELL_BYTES=10**12)


class ThreadGroup:
    """One of several threads that exchange values like processes."""

    def __init__(self, rank: int, size: int, table: list[Any], gate: threading.Barrier):
        self.rank, self.size, self._table, self._gate = rank, size, table, gate

    def gather(self, value: Any) -> list[Any]:
        self._table[self.rank] = value
        self._gate.wait()
        found = list(self._table)
        self._gate.wait()
        return found

    def agree(self, value: Any) -> Any:
        return self.gather(value)[0]

    def barrier(self) -> None:
        self._gate.wait()


def run_group(size: int, work: Callable[[ThreadGroup], Any]) -> list[Any]:
    """The results of `work` in `size` processes, by rank."""
    table, gate = [None] * size, threading.Barrier(size, timeout=60)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(lambda rank: work(ThreadGroup(rank, size, table, gate)), range(size)))


def make_table(n_rows: int, seed: int = 0) -> pa.Table:
    """Numbers with few and many distinct values, missing values, texts, a dictionary, flags, two targets, weights."""
    rng = np.random.default_rng(seed)
    gaps = rng.random(n_rows) < 0.1
    colour = pa.DictionaryArray.from_arrays(rng.integers(0, 3, n_rows), pa.array(["red", "green", "blue"]))
    return pa.table({
        "single": rng.normal(size=n_rows).astype(np.float32),
        "double": pa.array(rng.exponential(size=n_rows), mask=gaps),
        "count": pa.array(rng.integers(-5, 300, n_rows), mask=gaps[::-1].copy()),
        "large": rng.integers(0, 50, n_rows) * 1_000_000_000_000,
        "flag": rng.random(n_rows) < 0.3,
        "city": pa.array(rng.choice(["Oslo", "Rome", "Bern", "Ålesund"], n_rows), mask=gaps),
        "colour": colour,
        "label": rng.choice(["no", "yes", "perhaps"], n_rows),
        "amount": rng.normal(size=n_rows),
        "weight": rng.integers(0, 4, n_rows).astype(float),
    })  # fmt: skip


FEATURES = ("single", "double", "count", "large", "flag", "city", "colour")


def write_files(table: pa.Table, folder: Path, n_files: int = 3, group_rows: int = 700) -> str:
    """Write the table to several files and return their glob."""
    folder.mkdir(parents=True, exist_ok=True)
    edges = np.linspace(0, table.num_rows, n_files + 1).astype(int)
    for number in range(n_files):
        part = table.slice(edges[number], edges[number + 1] - edges[number])
        pa.parquet.write_table(part, folder / f"part-{number}.parquet", row_group_size=group_rows)
    return f"{folder}/*.parquet"
