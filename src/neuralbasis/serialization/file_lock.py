"""Folder lock: coordinates processes that use one folder, by an advisory lock on a file in it.

The operating system releases the lock when a process ends, even if it is killed, so a file that is left behind blocks
nobody. Where the system or the file system has no locks, every request succeeds.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]


class FolderLock:
    """A lock on a folder, which is created if needed. One holder has it exclusively, or several share it."""

    def __init__(self, folder: str | os.PathLike[str], name: str = ".lock"):
        self.path, self.file = Path(folder, name), -1

    def take_alone(self) -> bool:
        """Request the lock exclusively, without waiting. After False, a lock that was shared may be lost."""
        return fcntl is None or self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def share(self) -> None:
        """Share the lock. Waits while another process has it exclusively; downgrades an exclusive lock."""
        if fcntl is not None:
            self._take(fcntl.LOCK_SH)

    def release(self) -> None:
        """Release the lock. The last holder removes the file."""
        if self.file < 0:
            return
        if self.is_last() and self._is_present():
            self.path.unlink(missing_ok=True)
        os.close(self.file)
        self.file = -1

    def is_last(self) -> bool:
        """Whether no other process holds the lock. If so, it becomes exclusive. Call it before `release`."""
        return fcntl is None or self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _take(self, kind: int) -> bool:
        while True:
            if self.file < 0:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                try:
                    self.file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
                except FileNotFoundError:  # another holder removed the folder meanwhile
                    continue
            if not self._flock(kind):
                return False
            if self._is_present():
                return True
            os.close(self.file)  # the previous holder removed the file
            self.file = -1

    def _flock(self, kind: int) -> bool:
        try:
            fcntl.flock(self.file, kind)
        except OSError as error:
            return error.errno not in (errno.EWOULDBLOCK, errno.EACCES)
        return True

    def _is_present(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self.file), os.stat(self.path))
        except FileNotFoundError:
            return False
