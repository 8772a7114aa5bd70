"""CacheFolder: the folder of a fit's cache, which other fits may use at the same time.

One fit at a time writes to a folder. Fits that need the same cache read it together. A fit that needs another cache
while others read uses a private subfolder and removes it at the end. The system releases the locks of a killed process,
and the next fit that writes removes the files it left.
"""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

from ..data.parts import Communicator
from ..serialization.file_lock import FolderLock
from .disk_cache import remove_cache


class CacheFolder:
    """A folder locked by this fit, for all its processes.

    Attributes
    ----------
    path : Path
        Where the cache is; changes when the fit moves to a private folder.
    is_own : bool
        Whether this fit holds the folder alone and may write to it.
    """

    def __init__(self, path: Path, group: Communicator):
        self.path, self.group, self.is_own = path, group, False
        self.shared: Path | None = None  # the parent folder, if this one is private
        self._open()
        if not self.is_own:
            self.lock.share()
        elif group.rank == 0:
            remove_abandoned(path)

    @property
    def is_private(self) -> bool:
        """Whether no other fit uses the folder."""
        return self.shared is not None

    def _open(self) -> None:
        self.lock = FolderLock(self.path, f".lock.rank-{self.group.rank}")
        self.is_own = all(self.group.gather(self.lock.take_alone()))

    def share(self) -> None:
        """Let other fits read the folder."""
        self.lock.share()
        self.is_own = False

    def keep_apart(self) -> Path:
        """Move to a new private subfolder."""
        self.lock.release()
        self.shared, self.path = self.path, self.path / f"cache-{self.group.agree(secrets.token_hex(4))}"
        self._open()
        return self.path

    def close(self, keep: bool) -> None:
        """Release the folder; without `keep`, the last fit that uses it removes the cache."""
        if self.shared is not None or (not keep and self.lock.is_last()):
            remove_cache(self.path)
        self.lock.release()
        for path in (self.path, self.shared):
            if path is not None:
                with suppress(OSError):  # not empty, or removed already
                    path.rmdir()


def remove_abandoned(folder: Path) -> None:
    """Remove the private folders of killed fits."""
    for path in folder.glob("cache-*/.lock.rank-0"):
        lock = FolderLock(path.parent, path.name)
        if lock.take_alone():
            remove_cache(path.parent)
            for other in path.parent.glob(".lock.rank-*"):
                other.unlink(missing_ok=True)
            with suppress(OSError):
                path.parent.rmdir()
        lock.release()
