"""Seconds of a call, and memory in MB of this process and its child processes.

On Linux `ru_maxrss` starts at the size of the parent process and never falls. The kernel's high-water mark is therefore
reset and read instead. Child processes (EBM's workers, for example) are sampled five times a second; pages that
processes share count once. On other systems `ru_maxrss` of the process and of its largest child is used.
"""

from __future__ import annotations

import os
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

PROC = Path("/proc")
ON_LINUX = sys.platform == "linux"


def time_once(function: Callable[[], Result]) -> tuple[float, Result]:
    """Seconds of one call, and its result."""
    start = time.perf_counter()
    result = function()
    return time.perf_counter() - start, result


def median_seconds(function: Callable[[], object], n_calls: int) -> float:
    """Median over `n_calls` calls, after one call to warm up."""
    function()
    return statistics.median(time_once(function)[0] for _ in range(n_calls))


def resident_mb() -> float:
    """Resident memory of this process now."""
    return _field(PROC / "self/status", "VmRSS:") if ON_LINUX else _maxrss_mb(resource.RUSAGE_SELF)


class PeakMemory:
    """`with PeakMemory() as memory: …`, then `memory.mb` is the largest size while the block ran."""

    mb = 0.0

    def __enter__(self) -> PeakMemory:
        self._done = threading.Event()
        self._sampler = threading.Thread(target=self._sample, daemon=True)
        if ON_LINUX:
            _reset_high_water()
            self._sampler.start()
        return self

    def __exit__(self, *_error) -> None:
        self._done.set()
        if not ON_LINUX:
            self.mb = _maxrss_mb(resource.RUSAGE_SELF) + _maxrss_mb(resource.RUSAGE_CHILDREN)
            return
        self._sampler.join()
        self.mb = max(self.mb, _field(PROC / "self/status", "VmHWM:"))

    def _sample(self) -> None:
        while not self._done.wait(0.2):
            workers = _workers(os.getpid())
            if workers:
                self.mb = max(self.mb, resident_mb() + sum(_proportional_mb(worker) for worker in workers))


def _reset_high_water() -> None:
    try:
        (PROC / "self/clear_refs").write_text("5")
    except OSError:  # not permitted: the mark then includes earlier peaks
        return


def _workers(pid: int) -> list[int]:
    """All descendants of a process."""
    found: list[int] = []
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_workers(int(child))]
    except OSError:  # a process or thread has just ended
        return found
    return found


def _proportional_mb(pid: int) -> float:
    """Proportional set size: a page shared by k processes counts 1/k."""
    try:
        return _field(PROC / str(pid) / "smaps_rollup", "Pss:")
    except OSError:
        return 0.0


def _field(path: Path, name: str) -> float:
    """A field in kB of a file under /proc, in MB; 0 if it is absent."""
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


def _maxrss_mb(who: int) -> float:
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss / unit
