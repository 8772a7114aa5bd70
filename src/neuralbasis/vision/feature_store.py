"""Shelf: a file of arrays of one shape, each under the key of a picture, that only grows.

    magic | key (16 bytes) · numbers · checksum (4 bytes) | key · numbers · checksum | …

A run that was stopped leaves whole records and perhaps part of one, which the next run cuts off; a record whose
checksum is wrong is not there. The key is of the picture's path, size and time of change; the file's name has the
digest of what made the numbers. One run writes to a shelf at a time, which a lock sees to; others may read it.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from types import TracebackType

import numpy as np

try:
    import fcntl
except ImportError:  # Windows: two runs are kept apart by whoever starts them
    fcntl = None  # type: ignore[assignment]

MAGIC = b"neuralbasis shelf 1\n"
KEY_BYTES, SUM_BYTES = 16, 4


class Shelf:
    """Arrays by key, on disk.

    Parameters
    ----------
    path : the file; it is made if it is not there
    shape, dtype : of every array
    is_read_only : whether to take what is there and change nothing

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Shelf(f"{folder}/a.shelf", (2,), "f4") as shelf:
    ...     shelf.put(b"k" * 16, np.array([1, 2], "f4"))
    ...     shelf.get(b"k" * 16), shelf.get(b"j" * 16)
    (array([1., 2.], dtype=float32), None)
    """

    def __init__(self, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: str, is_read_only: bool = False):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype).newbyteorder("<")
        self._n_record = KEY_BYTES + int(np.prod(self.shape)) * self.dtype.itemsize + SUM_BYTES
        self._head = MAGIC + f"{self.dtype.str} {self.shape}\n".encode().ljust(80)
        if not is_read_only:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "rb" if is_read_only else "ab+", buffering=0)  # noqa: SIM115
        try:
            if not is_read_only:
                self._lock(path)
            self._places = self._find_records(path)
            if not is_read_only:
                self._mend()
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: str | os.PathLike[str]) -> None:
        """Until the file is closed, nobody else writes to it."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{os.fspath(path)} is in use by another run; wait until it has ended, or choose another folder"
            ) from None
        except OSError:  # a file system without locks
            return

    def _mend(self) -> None:
        """Begin a file that has no head, and cut off what follows the last whole record."""
        beyond = self._file.seek(0, os.SEEK_END) - len(self._head)
        if beyond < 0:
            self._file.truncate(0)
            self._append(self._head)
        else:
            self._file.truncate(len(self._head) + beyond // self._n_record * self._n_record)

    def _find_records(self, path: str | os.PathLike[str]) -> dict[bytes, int]:
        """Where each key's record begins."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if size < len(self._head):
            return {}
        if self._file.read(len(self._head)) != self._head:
            raise ValueError(
                f"{os.fspath(path)} is not a shelf of {self.shape} numbers; delete it, or choose another folder"
            )
        places = {}
        for place in range(len(self._head), size - self._n_record + 1, self._n_record):
            self._file.seek(place)
            places[self._file.read(KEY_BYTES)] = place
        return places

    def put(self, key: bytes | None, numbers: np.ndarray) -> None:
        """Keep numbers; those of no key are forgotten."""
        if key is None:
            return
        body = key + np.ascontiguousarray(numbers, dtype=self.dtype).tobytes()
        self._places[key] = self._append(body + zlib.crc32(body).to_bytes(SUM_BYTES, "little"))

    def _append(self, data: bytes) -> int:
        """Write all of it at the end, or nothing; where it begins."""
        place, left = self._file.seek(0, os.SEEK_END), memoryview(data)
        try:
            while len(left):  # a full disk takes a part before it refuses
                left = left[self._file.write(left) :]
        except BaseException:
            self._file.truncate(place)
            raise
        return place

    def get(self, key: bytes | None) -> np.ndarray | None:
        """The numbers of a key; None if they are not there, or no longer what was written."""
        place = self._places.get(key) if key is not None else None
        if key is None or place is None:
            return None
        self._file.seek(place)
        record = self._file.read(self._n_record)
        body, sum_ = record[:-SUM_BYTES], record[-SUM_BYTES:]
        if zlib.crc32(body).to_bytes(SUM_BYTES, "little") != sum_ or body[:KEY_BYTES] != key:
            del self._places[key]
            return None
        return np.frombuffer(body, self.dtype, offset=KEY_BYTES).reshape(self.shape)

    def __len__(self) -> int:
        return len(self._places)

    def __enter__(self) -> Shelf:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def picture_key(path: str | os.PathLike[str]) -> bytes | None:
    """The key of a picture: its path, size and time of change; None if there is no such file."""
    try:
        found = os.stat(path)
    except (OSError, ValueError):  # a name with NUL, or one that cannot be encoded, names no file
        return None
    told = f"{os.path.abspath(path)}\0{found.st_size}\0{found.st_mtime_ns}"
    return hashlib.blake2b(told.encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES).digest()
