"""One thread a product, while threads of our own share the rows.

The threads of BLAS wait for more work in a loop, in the way of ours: look-ups between products took twice as long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock

from threadpoolctl import ThreadpoolController


class _Hold:
    """How many hold BLAS now; the first takes its threads away, the last gives them back."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.lock, self.count = Lock(), 0

    def enter(self) -> None:
        with self.lock:
            if self.count == 0:
                _free_limits()
                self.limit = _find_blas().limit(limits=1)
            self.count += 1

    def leave(self) -> None:
        with self.lock:
            self.count -= 1
            if self.count == 0:
                _free_limits()
                self.limit.restore_original_limits()
                _free_limits()


_HOLD = _Hold()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_HOLD.reset)  # the lock may have been another thread's


@contextmanager
def hold_blas() -> Iterator[None]:
    """BLAS has one thread in here, in the whole process, whichever threads come and go in between."""
    _HOLD.enter()
    try:
        yield
    finally:
        _HOLD.leave()


@cache
def _find_blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


def _free_limits() -> None:
    """Newer versions of threadpoolctl let one thread alone set limits, until it says that it is done."""
    for library in _find_blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)
