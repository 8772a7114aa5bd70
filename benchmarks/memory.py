"""Memory of this process and of the workers it starts, in MB.

On Linux `ru_maxrss` starts at the size of the process that started this one and never falls, so the high-water mark of
the kernel is reset and read instead. Workers (EBM's, say) are added by looking five times a second; pages that
processes share count once. Elsewhere `ru_maxrss` of the process and of its largest worker must do.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path

PROC = Path("/proc")
ON_LINUX = sys.platform == "linux"


def resident_mb() -> float:
    """What this process holds now."""
    return _field(PROC / "self/status", "VmRSS:") if ON_LINUX else _maxrss_mb(resource.RUSAGE_SELF)


class PeakMemory:
    """`with PeakMemory() as memory: …` then `memory.mb`: the largest size while the block ran."""

    mb = 0.0

    def __enter__(self) -> PeakMemory:
        self._done = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)
        if ON_LINUX:
            _reset_high_water()
            self._watcher.start()
        return self

    def __exit__(self, *_error) -> None:
        self._done.set()
        if not ON_LINUX:
            self.mb = _maxrss_mb(resource.RUSAGE_SELF) + _maxrss_mb(resource.RUSAGE_CHILDREN)
            return
        self._watcher.join()
        self.mb = max(self.mb, _field(PROC / "self/status", "VmHWM:"))

    def _watch(self) -> None:
        while not self._done.wait(0.2):
            workers = _workers(os.getpid())
            if workers:
                self.mb = max(self.mb, resident_mb() + sum(_shared_out_mb(worker) for worker in workers))


def _reset_high_water() -> None:
    try:
        (PROC / "self/clear_refs").write_text("5")
    except OSError:  # refused: the mark then also covers what came before
        return


def _workers(pid: int) -> list[int]:
    """All processes below this one."""
    found: list[int] = []
    try:
        for task in (PROC / str(pid) / "task").iterdir():
            for child in (task / "children").read_text().split():
                found += [int(child), *_workers(int(child))]
    except OSError:  # a process or thread that has just ended
        return found
    return found


def _shared_out_mb(pid: int) -> float:
    """Size of a process, where a page shared by k processes counts 1/k."""
    try:
        return _field(PROC / str(pid) / "smaps_rollup", "Pss:")
    except OSError:
        return 0.0


def _field(path: Path, name: str) -> float:
    """A field in kB of a file under /proc, in MB; 0 if it is not there."""
    for line in path.read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    return 0.0


def _maxrss_mb(who: int) -> float:
    unit = 1024**2 if sys.platform == "darwin" else 1024
    return resource.getrusage(who).ru_maxrss / unit
