"""Draft: a file is written beside its place and takes it when it is complete: whole, or absent, or as it was."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, cast


@contextmanager
def replace_when_done(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file beside the target, to write and to read back, which replaces it when all went well.

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
        with open(path, "wb") as file:
            yield cast(BinaryIO, file)
        return
    target = os.path.realpath(path)  # through a link
    folder, name = os.path.split(target)
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"cannot write {os.fspath(path)!r}: the folder {folder!r} does not exist")
    draft = os.path.join(folder, f".{name[:200]}.{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb+") as file:
            yield cast(BinaryIO, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    finally:
        if os.path.exists(draft):
            os.unlink(draft)
