"""Shelf: a file of arrays of one shape, each under the key of a picture, that only grows.

    magic | key (16 bytes) · numbers · checksum (4 bytes) | key · numbers · checksum | …

A run that was stopped leaves whole records and perhaps part of one, which the next run cuts off; a record whose
checksum is wrong is not there. The key is of the picture's path, size and time of change; the file's name has the
digest of what made the numbers. One process writes to a shelf at a time.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from pathlib import Path
from types import TracebackType

import numpy as np

MAGIC = b"neuralbasis shelf 1\n"
KEY_BYTES, SUM_BYTES = 16, 4


class Shelf:
    """Arrays by key, on disk.

    Parameters
    ----------
    path : the file; it is made if it is not there
    shape, dtype : of every array

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, Shelf(f"{folder}/a.shelf", (2,), "f4") as shelf:
    ...     shelf.put(b"k" * 16, np.array([1, 2], "f4"))
    ...     shelf.get(b"k" * 16), shelf.get(b"j" * 16)
    (array([1., 2.], dtype=float32), None)
    """

    def __init__(self, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: str):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype).newbyteorder("<")
        self._n_bytes = int(np.prod(self.shape)) * self.dtype.itemsize
        self._head = MAGIC + f"{self.dtype.str} {self.shape}\n".encode().ljust(80)
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "ab+", buffering=0)  # noqa: SIM115
        try:
            self._places = self._open(path)
        except ValueError:
            self._file.close()
            raise

    def _open(self, path: str | os.PathLike[str]) -> dict[bytes, int]:
        """Where each key's record begins; whatever follows the last whole record is cut off."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if size < len(self._head):
            self._file.truncate(0)
            self._file.write(self._head)
            return {}
        if self._file.read(len(self._head)) != self._head:
            raise ValueError(
                f"{os.fspath(path)} is not a shelf of {self.shape} numbers; delete it, or choose another folder"
            )
        record = KEY_BYTES + self._n_bytes + SUM_BYTES
        n_records = (size - len(self._head)) // record
        self._file.truncate(len(self._head) + n_records * record)
        places = {}
        for k in range(n_records):
            place = len(self._head) + k * record
            self._file.seek(place)
            places[self._file.read(KEY_BYTES)] = place
        return places

    def put(self, key: bytes | None, numbers: np.ndarray) -> None:
        """Keep numbers; those of no key are forgotten."""
        if key is None:
            return
        body = key + np.ascontiguousarray(numbers, dtype=self.dtype).tobytes()
        self._places[key] = self._file.seek(0, os.SEEK_END)
        self._file.write(body + zlib.crc32(body).to_bytes(SUM_BYTES, "little"))

    def get(self, key: bytes | None) -> np.ndarray | None:
        """The numbers of a key; None if they are not there, or no longer what was written."""
        place = self._places.get(key) if key is not None else None
        if key is None or place is None:
            return None
        self._file.seek(place)
        record = self._file.read(KEY_BYTES + self._n_bytes + SUM_BYTES)
        body, sum_ = record[:-SUM_BYTES], record[-SUM_BYTES:]
        if zlib.crc32(body).to_bytes(SUM_BYTES, "little") != sum_ or body[:KEY_BYTES] != key:
            del self._places[key]
            return None
        return np.frombuffer(body, self.dtype, offset=KEY_BYTES).reshape(self.shape)

    def __contains__(self, key: bytes | None) -> bool:
        return key in self._places

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
    except OSError:
        return None
    told = f"{os.path.abspath(path)}\0{found.st_size}\0{found.st_mtime_ns}"
    return hashlib.blake2b(told.encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES).digest()
