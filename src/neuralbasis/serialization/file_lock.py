"""Lock: keeps processes apart that use one folder, by an advisory lock on a file in it.

The operating system releases the lock of a process that ends, however it ends: a file that is left behind blocks
nobody. Where the system or the disk does not support locks, all are granted.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"


class FolderLock:
    """A lock on a folder, which is made if it is not there; many may share it, or one has it alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     one, other = FolderLock(folder), FolderLock(folder)
    ...     found = [one.take_alone(), other.take_alone()]
    ...     one.release()
    ...     found += [other.take_alone()]
    ...     other.release()
    >>> found
    [True, False, True]
    """

    def __init__(self, folder: str | os.PathLike[str], name: str = NAME):
        self.path, self.file = Path(folder, name), -1

    def take_alone(self) -> bool:
        """Take the lock alone, without waiting; False if another has it, and one that was shared may then be lost."""
        return fcntl is None or self._take(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def share(self) -> None:
        """Share the lock with others; waits while another has it alone, also where this one had it alone before."""
        if fcntl is not None:
            self._take(fcntl.LOCK_SH)

    def release(self) -> None:
        """Give the lock back; the last who has it removes the file."""
        if self.file < 0:
            return
        if self.is_last() and self._is_present():
            self.path.unlink(missing_ok=True)
        os.close(self.file)
        self.file = -1

    def is_last(self) -> bool:
        """Whether nobody else has the lock, which is then had alone; to be asked before `release`."""
        return fcntl is None or self._flock(fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _take(self, kind: int) -> bool:
        while True:
            if self.file < 0 and not self._open():
                continue
            if not self._flock(kind):
                return False
            if self._is_present():
                return True
            os.close(self.file)  # who had it before removed the file
            self.file = -1

    def _open(self) -> bool:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            self.file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:  # who had the lock removed the folder meanwhile
            return False
        return True

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
