"""Feature store: an append-only file of arrays of one shape, each stored under the key of a picture.

    header | key (16 bytes) · numbers · checksum (4 bytes) | key · numbers · checksum | …

An interrupted run leaves complete records and at most one partial record, which the next run removes. A record with a
wrong checksum counts as absent. The key is a hash of the picture's path, size and modification time; the file name
contains the digest of whatever computed the numbers. A lock allows one writer and any number of readers.
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
except ImportError:  # Windows: there is no lock
    fcntl = None  # type: ignore[assignment]

# Both are part of the file format: with other values, existing caches would not be found.
MAGIC = b"neuralbasis shelf 1\n"
SUFFIX = ".shelf"
KEY_BYTES, CHECKSUM_BYTES = 16, 4


class FeatureStore:
    """Arrays by key, on disk.

    Parameters
    ----------
    path : file, created if it does not exist
    shape, dtype : of every array
    is_read_only : open an existing file without changing it

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder, FeatureStore(f"{folder}/a{SUFFIX}", (2,), "f4") as store:
    ...     store.put(b"k" * 16, np.array([1, 2], "f4"))
    ...     store.get(b"k" * 16), store.get(b"j" * 16)
    (array([1., 2.], dtype=float32), None)
    """

    def __init__(self, path: str | os.PathLike[str], shape: tuple[int, ...], dtype: str, is_read_only: bool = False):
        self.shape, self.dtype = tuple(shape), np.dtype(dtype).newbyteorder("<")
        self._record_bytes = KEY_BYTES + int(np.prod(self.shape)) * self.dtype.itemsize + CHECKSUM_BYTES
        self._header = MAGIC + f"{self.dtype.str} {self.shape}\n".encode().ljust(80)
        if not is_read_only:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "rb" if is_read_only else "ab+", buffering=0)  # noqa: SIM115
        try:
            if not is_read_only:
                self._lock(path)
            self._offsets = self._find_records(path)
            if not is_read_only:
                self._repair()
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: str | os.PathLike[str]) -> None:
        """Refuse a second writer until the file is closed."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{os.fspath(path)} is in use by another run; wait until it ends or choose another cache folder"
            ) from None
        except OSError:  # the file system has no locks
            return

    def _repair(self) -> None:
        """Write a missing header and remove a partial record at the end."""
        n_bytes = self._file.seek(0, os.SEEK_END) - len(self._header)
        if n_bytes < 0:
            self._file.truncate(0)
            self._append(self._header)
        else:
            self._file.truncate(len(self._header) + n_bytes // self._record_bytes * self._record_bytes)

    def _find_records(self, path: str | os.PathLike[str]) -> dict[bytes, int]:
        """Offset of each key's last record."""
        size = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        if size < len(self._header):
            return {}
        if self._file.read(len(self._header)) != self._header:
            raise ValueError(
                f"{os.fspath(path)} is not a feature store of arrays of shape {self.shape}; delete it or choose "
                "another cache folder"
            )
        offsets = {}
        for offset in range(len(self._header), size - self._record_bytes + 1, self._record_bytes):
            self._file.seek(offset)
            offsets[self._file.read(KEY_BYTES)] = offset
        return offsets

    def put(self, key: bytes | None, numbers: np.ndarray) -> None:
        """Store an array; without a key, nothing is stored."""
        if key is None:
            return
        body = key + np.ascontiguousarray(numbers, dtype=self.dtype).tobytes()
        self._offsets[key] = self._append(body + zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little"))

    def _append(self, data: bytes) -> int:
        """Write all bytes at the end, or none; return their offset."""
        offset, left = self._file.seek(0, os.SEEK_END), memoryview(data)
        try:
            while len(left):  # a full disk accepts a part before it fails
                left = left[self._file.write(left) :]
        except BaseException:
            self._file.truncate(offset)
            raise
        return offset

    def get(self, key: bytes | None) -> np.ndarray | None:
        """The array of a key; None if it is absent or damaged."""
        offset = self._offsets.get(key) if key is not None else None
        if key is None or offset is None:
            return None
        self._file.seek(offset)
        record = self._file.read(self._record_bytes)
        body, checksum = record[:-CHECKSUM_BYTES], record[-CHECKSUM_BYTES:]
        if zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little") != checksum or body[:KEY_BYTES] != key:
            del self._offsets[key]
            return None
        return np.frombuffer(body, self.dtype, offset=KEY_BYTES).reshape(self.shape)

    def __len__(self) -> int:
        return len(self._offsets)

    def __enter__(self) -> FeatureStore:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def picture_key(path: str | os.PathLike[str]) -> bytes | None:
    """Hash of a picture's path, size and modification time; None if the file does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: the name contains NUL or cannot be encoded
        return None
    text = f"{os.path.abspath(path)}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES).digest()
