"""Features of many pictures, batch by batch, in the order of a list of paths; and the file that stores them.

    paths, Backbone -> (b,) rows of the list, (b, C, h, w) float16 features
    feature store:     header | key (16 bytes) · numbers · checksum (4 bytes) | key · numbers · checksum | …

Threads decode the next batches while the network computes the current one. Memory does not grow with the pictures. A
feature store is an append-only file with one writer and any number of readers. The next run removes the partial record
that an interrupted one leaves. A record with a wrong checksum counts as absent. The name of the file contains the
digest of whatever computed the numbers.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..progress import open_bar
from .pictures import Picture, PictureError, read_picture

try:
    import fcntl
except ImportError:  # Windows: there is no lock
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from .backbone import Backbone

PREFETCHED_BATCHES = 2  # decoded while the network computes
Batch = dict[int, tuple[bytes | None, np.ndarray | Future[Picture]]]  # row -> key, and stored features or a picture
# Both are part of the file format: with other values, existing caches would not be found.
MAGIC = b"neuralbasis store 1\n"
SUFFIX = ".store"
KEY_BYTES, CHECKSUM_BYTES = 16, 4


class FeatureStore(AbstractContextManager["FeatureStore"]):
    """Arrays of one shape by key, in a file that is created if it does not exist, or read only."""

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
            size = self._file.seek(0, os.SEEK_END)
            self._offsets = self._find_records(path, size)
            if not is_read_only and size < len(self._header):
                self._file.truncate(0)
                self._append(self._header)
            elif not is_read_only:  # remove a partial record at the end
                self._file.truncate(size - (size - len(self._header)) % self._record_bytes)
        except BaseException:
            self._file.close()
            raise

    def _lock(self, path: str | os.PathLike[str]) -> None:
        """Refuse a second writer until the file is closed."""
        try:
            if fcntl is not None:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"{os.fspath(path)} is in use by another run; wait until it ends or choose another cache folder"
            ) from None
        except OSError:  # the file system has no locks
            pass

    def _find_records(self, path: str | os.PathLike[str], size: int) -> dict[bytes, int]:
        """Offset of each key's last record."""
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
        """Store an array; without a key or in a store that is read only, nothing is stored."""
        if key is None or not self._file.writable():
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
        if key is None or key not in self._offsets:
            return None
        self._file.seek(self._offsets[key])
        record = self._file.read(self._record_bytes)
        body, checksum = record[:-CHECKSUM_BYTES], record[-CHECKSUM_BYTES:]
        if zlib.crc32(body).to_bytes(CHECKSUM_BYTES, "little") != checksum or body[:KEY_BYTES] != key:
            del self._offsets[key]
            return None
        return np.frombuffer(body, self.dtype, offset=KEY_BYTES).reshape(self.shape)

    def __len__(self) -> int:
        return len(self._offsets)

    def __exit__(self, *_: object) -> None:
        self._file.close()


def picture_key(path: str | os.PathLike[str]) -> bytes | None:
    """Hash of a picture's path, size and modification time; None if the file does not exist."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):  # ValueError: the name contains NUL or cannot be encoded
        return None
    text = f"{os.path.abspath(path)}\0{status.st_size}\0{status.st_mtime_ns}"
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=KEY_BYTES).digest()


@dataclass(frozen=True)
class BatchOptions:
    """How pictures are processed: pictures per call of the network, threads that decode, and a progress bar."""

    batch_size: int = 16
    n_threads: int = 2
    verbose: bool = False


def open_grid_store(
    cache: str | os.PathLike[str] | None, backbone: Backbone, is_writer: bool
) -> AbstractContextManager[FeatureStore | None]:
    """The store of a backbone's features in a cache folder; None without a folder, or if a reader finds no file."""
    path = Path(cache or "") / f"grids-{backbone.digest[:16]}{SUFFIX}"
    if cache is None or not (is_writer or path.exists()):
        return nullcontext()
    return FeatureStore(path, backbone.shape, "f2", is_read_only=not is_writer)


def stream_grids(
    paths: Sequence[str | os.PathLike[str]], rows: Sequence[int], backbone: Backbone, options: BatchOptions,
    broken: dict[int, str], store: FeatureStore | None = None,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:  # fmt: skip
    """Features of the readable pictures in these rows of the list; reasons for the others are added to `broken`.

    `store` has features computed earlier; new ones are added unless it is read only.
    """
    pool, size = ThreadPoolExecutor(options.n_threads), options.batch_size

    def submit(row: int) -> tuple[bytes | None, np.ndarray | Future[Picture]]:
        key = None if store is None else picture_key(paths[row])
        stored = None if store is None else store.get(key)
        if stored is None:
            return key, pool.submit(read_picture, paths[row], backbone.side, backbone.resample)
        return key, stored

    batches = ({row: submit(row) for row in rows[start : start + size]} for start in range(0, len(rows), size))
    with open_bar(len(rows), "pictures", "picture", options.verbose) as bar:
        try:
            for batch in _prefetch(batches):
                found = _compute_batch(batch, backbone, broken, store)
                bar.update(len(batch))
                if found:
                    yield np.array(list(found)), np.stack(list(found.values()))
        finally:  # the caller may stop early
            pool.shutdown(cancel_futures=True)


def _prefetch(batches: Iterator[Batch]) -> Iterator[Batch]:
    """The batches, while the decoding of the next ones has started."""
    waiting: deque[Batch] = deque()
    for batch in batches:
        waiting.append(batch)
        if len(waiting) > PREFETCHED_BATCHES:
            yield waiting.popleft()
    yield from waiting


def _compute_batch(
    batch: Batch, backbone: Backbone, broken: dict[int, str], store: FeatureStore | None
) -> dict[int, np.ndarray]:
    """Features of the readable pictures by row; new ones are written to the store."""
    found, pixels = dict[int, np.ndarray](), dict[int, np.ndarray]()
    for row, (_, item) in batch.items():
        try:
            if isinstance(item, Future):
                pixels[row] = item.result().pixels
            else:
                found[row] = item
        except PictureError as error:
            broken[row] = str(error)
    if pixels:
        for row, features in zip(pixels, backbone.features(np.stack(list(pixels.values()))), strict=True):
            found[row] = features
            if store is not None:
                store.put(batch[row][0], features)
    return dict(sorted(found.items()))


def compute_logits(features: np.ndarray, coefficients: np.ndarray, intercepts: np.ndarray) -> np.ndarray:
    """(b, C, h, w) -> (b, K, h · w): linear classifiers at every patch."""
    flat = features.reshape(*features.shape[:2], -1).astype(np.float32)
    return coefficients @ flat + intercepts[:, None]
