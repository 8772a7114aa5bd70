"""Folder: where the cache of a fit lies, when other fits may use the same folder at the same time.

One fit at a time writes to a folder. Fits that find there what they need read it together; one that needs something
else while others read takes a folder of its own inside, which it removes at its end. The locks of a process that is
killed are gone with it, and the next fit that writes removes what it left.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..serialization.file_lock import FolderLock
from .disk_cache import remove_cache


class CacheFolder:
    """A folder that this fit holds, for all its processes.

    path : where the cache is; changes when the fit keeps apart from others
    is_own : whether this fit has the folder alone, and may write to it
    """

    def __init__(self, path: Path, group: Any):
        self.path, self.group, self.is_own = path, group, False
        self.shared: Path | None = None  # the folder that others have, where this one is inside it
        self._open()
        if not self.is_own:
            self.lock.share()
        elif group.rank == 0:
            remove_left(path)

    @property
    def is_private(self) -> bool:
        """Whether no other fit looks into the folder."""
        return self.shared is not None

    def _open(self) -> None:
        self.lock = FolderLock(self.path, f".lock.rank-{self.group.rank}")
        self.is_own = all(self.group.gather(self.lock.take_alone()))

    def share(self) -> None:
        """Let others read."""
        self.lock.share()
        self.is_own = False

    def keep_apart(self) -> Path:
        """Go to a new folder inside, which nobody else uses."""
        self.lock.release()
        self.shared, self.path = self.path, self.path / f"cache-{self.group.agree(secrets.token_hex(4))}"
        self._open()
        return self.path

    def close(self, keep: bool) -> None:
        """Give the folder back; without `keep` the last fit that uses it removes the cache."""
        if self.shared is not None or (not keep and self.lock.is_last()):
            remove_cache(self.path)
        self.lock.release()
        for path in (self.path, self.shared):
            if path is not None:
                with suppress(OSError):  # files are in it, or it is gone
                    path.rmdir()


def remove_left(folder: Path) -> None:
    """Remove folders of fits that were killed."""
    for path in folder.glob("cache-*/.lock.rank-0"):
        lock = FolderLock(path.parent, path.name)
        if lock.take_alone():
            remove_cache(path.parent)
            for other in path.parent.glob(".lock.rank-*"):
                other.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()
        lock.release()
