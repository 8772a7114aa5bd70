"""Memory: how many bytes a fit may use, and how the rows of a larger table are divided to stay within that limit.

The *sample* is a random subset of the rows that stays in memory. Evaluation, refinement and the search for interactions
use it. All other rows are divided at random into *pools*, of which one at a time is in memory.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

MIN_SAMPLE = 1 << 14  # rows
BASE_BYTES = (420 + 260) << 20  # Python, torch and compiled loops; batches, tables, and blocks being loaded
CELL_BYTES = 40  # per value of a table that is fitted in memory, working copies included


@dataclass(frozen=True)
class Division:
    """Rows in the sample, and the number of pools for the others; no pools if the sample holds all rows."""

    n_sample: int
    n_pools: int


@dataclass(frozen=True)
class Load:
    """What determines the memory per row: columns, further axes of interactions, members, members × outputs."""

    n_columns: int
    n_more_axes: int
    n_members: int
    n_channels: int

    @property
    def sample_bytes(self) -> int:
        """Bytes per row of the sample: numbers, positions and a copy by column; scores, losses, steps per channel."""
        return 20 * self.n_columns + 4 * self.n_more_axes + 12 * self.n_members + 36 * self.n_channels + 80

    @property
    def pool_bytes(self) -> int:
        """Bytes per row of a pool: positions, shares, scores of earlier stages, target, order of drawing."""
        return 4 * (self.n_columns + self.n_more_axes + self.n_members + self.n_channels) + 32


def divide_rows(n_rows: int, load: Load, limit: int, n_processes: int = 1) -> Division:
    """The largest sample and fewest pools within `limit` bytes per process; powers of 2: a cache serves many limits."""
    room = limit - BASE_BYTES
    n_sample = 1 << 20  # rows; more would not improve what the sample is used for
    while n_sample > MIN_SAMPLE and n_sample * load.sample_bytes > room / 2:
        n_sample //= 2
    left = room - n_sample * load.sample_bytes
    if left < MIN_SAMPLE * load.pool_bytes:
        least = BASE_BYTES + 2 * MIN_SAMPLE * load.sample_bytes
        raise ValueError(
            f"memory_limit leaves {limit / 1e9:.2f} GB, but a fit to {load.n_columns:,} columns needs about "
            f"{least / 1e9:.2f} GB; raise it, or use fewer columns"
        )
    if n_rows <= n_sample:
        return Division(n_rows, 0)
    n_pools = 1
    while (n_rows - n_sample) / n_processes / n_pools * load.pool_bytes > left:
        n_pools *= 2
    return Division(n_sample, n_pools)


def count_rows_in_memory(n_columns: int, limit: int) -> int:
    """Rows of a table that can be fitted in memory within `limit` bytes."""
    return max(0, limit - BASE_BYTES) // (CELL_BYTES * n_columns)


def read_limit(limit: Any) -> int:
    """Bytes of a `memory_limit`: a number, a text, or None for half of the free memory, shared by local processes.

    >>> read_limit("2GB"), read_limit("1.5 GiB"), read_limit(10**9)
    (2000000000, 1610612736, 1000000000)
    """
    if limit is None:
        return find_free_memory() // 2 // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if isinstance(limit, str):
        found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?)b?\s*", limit.lower())
        if found is not None and (found[2] or not found[3]):
            return int(float(found[1]) * (1024 if found[3] else 1000) ** " kmgt".index(found[2] or " "))
    elif isinstance(limit, (int, float, np.integer)) and not isinstance(limit, bool) and 0 < limit < float("inf"):
        return int(limit)
    raise ValueError(f"memory_limit must be None, a number of bytes or a text such as '2GB', not {limit!r}")


def find_free_memory() -> int:
    """Bytes that this process may still allocate: the free memory of the machine, within the limit of its container."""
    free = _read_field(Path("/proc/meminfo"), "MemAvailable:") * 1024
    if not free and hasattr(os, "sysconf"):
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
    limit, used = (_read_field(Path("/sys/fs/cgroup", name)) for name in ("memory.max", "memory.current"))
    return min(free, limit - used) if limit else free


def _read_field(path: Path, name: str = "") -> int:
    """A number in a system file, after the field's name if it has one; 0 if it is not there."""
    try:
        lines = [line.removeprefix(name).split()[0] for line in path.read_text().splitlines() if line.startswith(name)]
    except (OSError, IndexError):
        return 0
    return int(lines[0]) if lines and lines[0].isdigit() else 0
