"""Plain threads that share the rows of a kernel. Kernels release the GIL; numba's own threading is not used."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache

import numpy as np

FEW_ROWS = 64  # so few rows are predicted in less time than passing the GIL takes
MIN_ROWS = 4096  # per thread; a thread with fewer rows costs more than it saves


@lru_cache(maxsize=8)
def _pool(threads: int) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(threads, thread_name_prefix="neuralbasis")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a forked child does not inherit threads


def share_rows(work: Callable[[int, int, int], int], n_rows: int, threads: int, min_rows: int = MIN_ROWS) -> int:
    """Call `work(part, first, last)` on contiguous parts of the rows, one per thread; returns the largest result.

    The parts depend only on the numbers given, which keeps sums reproducible. Fewer threads are used if a part would
    have less than `min_rows` rows.

    >>> share_rows(lambda part, first, last: last - first, 10_000, threads=2)
    5000
    """
    threads = max(1, min(threads, n_rows // min_rows))
    return share_work(work, [k * n_rows // threads for k in range(threads + 1)])


def share_work(work: Callable[[int, int, int], int], edges: Sequence[int] | np.ndarray) -> int:
    """The same for the parts between given edges."""
    threads = len(edges) - 1
    if threads == 1:
        return work(0, edges[0], edges[1])
    others = [_pool(threads - 1).submit(work, k, edges[k], edges[k + 1]) for k in range(1, threads)]
    return max([work(0, edges[0], edges[1])] + [other.result() for other in others])


def count_threads(n_jobs: int | None) -> int:
    """Number of threads for scikit-learn's `n_jobs`: None and -1 mean all cores, -2 all but one."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None or n_jobs == 0:
        return cores
    return max(1, n_jobs if n_jobs > 0 else cores + 1 + n_jobs)
