"""Draft: a file is written beside its target and replaces it when it is complete.

A reader finds the old file or the new one, never a part. The new file keeps the permissions of the one it replaces. A
process that is killed leaves a temporary file behind, which the next one that writes to the same target removes.
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
except ImportError:  # pragma: no cover - Windows, where abandoned temporary files stay
    fcntl = None  # type: ignore[assignment]

MAX_NAME = 200  # bytes of the target's name in that of the temporary file; most systems allow 255 in all


@contextmanager
def replace_when_done(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file beside the target, to write and to read back, which replaces it if the block ends without an error.

    Mode, group and (where the system permits it) owner are those of the file that is replaced; a new file gets what the
    process's umask allows. Nobody can read the temporary file who could not read the target.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     target = pathlib.Path(folder, "note.txt")
    ...     with replace_when_done(target) as file:
    ...         _ = file.write(b"whole")
    ...     target.read_text()
    'whole'
    """
    if os.path.exists(path) and not os.path.isfile(path):  # a device or a pipe has no other name
        with open(path, "wb") as device:
            yield cast(BinaryIO, device)
        return
    target = os.path.realpath(path)  # through a link
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {os.fspath(path)!r}: the folder {folder!r} does not exist")
    prefix = f".{os.fsdecode(os.fsencode(name)[:MAX_NAME])}."
    _remove_abandoned(folder, prefix)
    replaced = os.stat(target) if os.path.exists(target) else None
    file, draft = _open_locked(os.path.join(folder, prefix), 0o666 if replaced is None else 0o600)
    try:
        with file:
            yield file
            file.flush()
            if replaced is not None:
                _copy_permissions(replaced, file.fileno())
            os.fsync(file.fileno())
            if os.name == "posix":  # still locked, so nobody takes it for an abandoned one
                os.replace(draft, target)
        if os.name != "posix":  # pragma: no cover - an open file cannot be moved
            os.replace(draft, target)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)


def _open_locked(prefix: str, mode: int) -> tuple[BinaryIO, str]:
    """A new file, locked for as long as it is open, and its path."""
    while True:
        path = f"{prefix}{secrets.token_hex(4)}.part"
        file = open(path, "xb+", opener=lambda name, flags: os.open(name, flags, mode))  # noqa: SIM115
        _lock(file.fileno())
        if os.path.exists(path):  # another process may have removed it before it was locked
            return cast(BinaryIO, file), path
        file.close()


def _lock(descriptor: int) -> bool:
    """Lock an open file; False if another process holds it, or the file system has no locks."""
    if fcntl is None:  # pragma: no cover - Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _remove_abandoned(folder: str, prefix: str) -> None:
    """Remove temporary files of the same target that no living process has locked."""
    pattern = re.compile(re.escape(prefix) + r"[0-9a-f]{8}\.part")
    with suppress(OSError):  # a folder may be closed to readers
        for name in filter(pattern.fullmatch, os.listdir(folder)):
            with suppress(OSError), open(os.path.join(folder, name), "rb+") as file:
                if _lock(file.fileno()):
                    os.unlink(os.path.join(folder, name))


def _copy_permissions(replaced: os.stat_result, descriptor: int) -> None:
    """Mode, group and owner of a replaced file. A group that cannot be kept gives its rights to no other group."""
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
