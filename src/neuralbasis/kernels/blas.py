"""BLAS with one thread, while our own threads share the rows.

The threads of BLAS spin while they wait for work and take CPU time from ours: look-ups between matrix products took
twice as long.
"""

from __future__ import annotations

import os
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


class _SingleThread:
    """Counts the users of single-threaded BLAS; the first one sets the limit, the last one restores the old limits."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock, self.count = Lock(), 0

    def __enter__(self) -> None:
        with self.lock:
            if self.count == 0:
                _free_limits()
                self.limit = _find_blas().limit(limits=1)
            self.count += 1

    def __exit__(self, *_error: object) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                _free_limits()
                self.limit.restore_original_limits()
                _free_limits()


_SINGLE_THREAD = _SingleThread()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SINGLE_THREAD.reset)  # another thread may hold the lock at the fork


def hold_blas() -> _SingleThread:
    """Context that limits BLAS to one thread, in the whole process, until the last thread has left it."""
    return _SINGLE_THREAD


@cache
def _find_blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _free_limits() -> None:
    """Allow this thread to set limits: newer versions of threadpoolctl reserve that to the first thread."""
    for library in _find_blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
