"""Temporary file: written beside its target, which it replaces when it is complete.

A reader finds the old file or the new one, never a part of it. The new file keeps the permissions of the old one. If a
process is killed, its temporary file remains until the next write to the same target removes it.
"""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO, cast

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where abandoned files stay
    fcntl = None  # type: ignore[assignment]


@contextmanager
def replace_when_done(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a temporary file for writing and reading. It replaces the target if the block ends without an error.

    The new file has the mode, the group and, where the system permits it, the owner of the old one; without an old one,
    the umask decides. Only users who may read the target can read the temporary file. A link is followed, and a device
    or pipe is written directly.
    """
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe
        with open(path, "wb") as device:
            yield cast(BinaryIO, device)
        return
    target = os.path.realpath(path)
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {os.fspath(path)!r}: the folder {folder!r} does not exist")
    prefix = f".{os.fsdecode(os.fsencode(name)[:200])}."  # most systems allow 255 bytes in all
    _remove_abandoned(folder, prefix)
    replaced = os.stat(target) if os.path.exists(target) else None
    file, temporary = _open_locked(os.path.join(folder, prefix), 0o666 if replaced is None else 0o600)
    try:
        with file:
            yield file
            file.flush()
            if replaced is not None:
                _copy_permissions(replaced, file.fileno())
            os.fsync(file.fileno())
            if os.name == "posix":  # still locked: no other process takes it for abandoned
                os.replace(temporary, target)
        if os.name != "posix":  # pragma: no cover - an open file cannot be moved
            os.replace(temporary, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _open_locked(prefix: str, mode: int) -> tuple[BinaryIO, str]:
    """A new file, locked while it is open, and its path."""
    while True:
        path = f"{prefix}{secrets.token_hex(4)}.part"
        file = open(path, "xb+", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        _lock(file.fileno(), wait=True)  # another process may hold it for a moment, to remove it as abandoned
        if os.path.exists(path):
            return cast(BinaryIO, file), path
        file.close()


def _lock(descriptor: int, wait: bool = False) -> bool:
    """Lock an open file. False if another process has locked it, or the file system has no locks."""
    if fcntl is None:  # pragma: no cover - Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


def _remove_abandoned(folder: str, prefix: str) -> None:
    """Remove temporary files of the same target that no process has locked."""
    pattern = re.compile(re.escape(prefix) + r"[0-9a-f]{8}\.part")
    with suppress(OSError):  # the folder may not be readable
        for name in filter(pattern.fullmatch, os.listdir(folder)):
            with suppress(OSError), open(os.path.join(folder, name), "rb+") as file:
                if _lock(file.fileno()):
                    os.unlink(os.path.join(folder, name))


def _copy_permissions(replaced: os.stat_result, descriptor: int) -> None:
    """Copy mode, group and owner. If the group cannot be kept, drop the group's rights."""
    if os.name != "posix":  # pragma: no cover
        return
    mode = replaced.st_mode & 0o777
    with suppress(PermissionError):
        os.fchown(descriptor, -1, replaced.st_gid)
    with suppress(PermissionError):
        os.fchown(descriptor, replaced.st_uid, -1)
    if os.fstat(descriptor).st_gid != replaced.st_gid:
        mode &= ~stat.S_IRWXG
    os.fchmod(descriptor, mode)
