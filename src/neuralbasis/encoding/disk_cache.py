"""Cache: the rows of a source as numbers on disk, divided at random into buckets; the second pass over a source.

In: a `Source` and its `Profile`. Out: a `Cache`, from which blocks of rows are read. Up to `FLUSH_BYTES` of rows are
collected, shuffled and divided among the buckets, each of which is therefore a random sample of all rows. A flush
appends one chunk to every bucket, by column, in the smallest exact types. Every process writes its own rows and, at
last, its manifest; a cache without a manifest is incomplete and is written again. `CacheFolder` locks the folder.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..data.counts import drop_rows, read_target
from ..data.files import Source, read_column
from ..data.parts import Communicator, assign_parts, gather_results, read_pieces
from ..progress import open_bar
from ..serialization.file_lock import FolderLock
from .encoder import column_numbers
from .profile import Profile, index_labels

FLUSH_BYTES = 64 << 20


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a cache: numbers (n, D) as the kernels read them, y (n,) targets or class indices, weights (n,)."""

    numbers: np.ndarray
    y: np.ndarray
    weights: np.ndarray


class Chunk(NamedTuple):
    """Consecutive rows of a bucket file, starting at byte `offset`."""

    offset: int
    n_rows: int
    checksum: int


Chunks = tuple[tuple[Chunk, ...], ...]  # of each bucket


@dataclass(frozen=True, eq=False)
class Cache:
    """The rows of this process on disk, and the number of rows of every process."""

    folder: Path
    rank: int
    counts: np.ndarray  # (processes, buckets) rows
    types: tuple[str, ...]  # on disk: of the features, the target, and the weight if there is one
    is_classifier: bool  # whether targets are indices of classes
    has_weights: bool  # whether the last column is a weight
    chunks: Chunks
    _verified: set[tuple[int, int]] = field(default_factory=set)  # (bucket, chunk) with a correct checksum

    @property
    def n_rows(self) -> int:
        """Number of rows of all processes."""
        return int(self.counts.sum())

    def read(self, bucket: int, first: int = 0, last: int | None = None) -> Block:
        """Rows first … last - 1 of this process in a bucket."""
        last = int(self.counts[self.rank, bucket]) if last is None else last
        n_features = len(self.types) - 1 - self.has_weights
        numbers = np.empty((last - first, n_features), order="F")
        y = np.empty(last - first, dtype=np.int64 if self.is_classifier else np.float64)
        weights = np.ones(last - first)
        columns = [*numbers.T, y, *([weights] if self.has_weights else [])]
        begin = 0
        for number, chunk in enumerate(self.chunks[bucket]):
            low, high = max(first - begin, 0), min(last - begin, chunk.n_rows)
            if low < high:
                self._read_chunk(bucket, number, slice(low, high), columns, begin + low - first)
            begin += chunk.n_rows
        return Block(numbers, y, weights)

    def read_sample(self, group: Communicator) -> Block:
        """The rows of bucket 0 of all processes, by rank: the sample that stays in memory."""
        own = self.read(0)
        if group.size == 1:
            return own
        numbers = np.empty((int(self.counts[:, 0].sum()), own.numbers.shape[1]), order="F")
        for index in range(numbers.shape[1]):  # one column at a time needs less memory
            numbers[:, index] = np.concatenate(group.gather(own.numbers[:, index]))
        return Block(numbers, np.concatenate(group.gather(own.y)), np.concatenate(group.gather(own.weights)))

    def _read_chunk(self, bucket: int, number: int, rows: slice, columns: Sequence[np.ndarray], start: int) -> None:
        """Copy rows of a chunk into columns, starting at index `start`."""
        chunk, path = self.chunks[bucket][number], bucket_path(self.folder, bucket, self.rank)
        ends = np.cumsum([chunk.n_rows * np.dtype(kind).itemsize for kind in self.types])
        data = np.empty(ends[-1], dtype=np.uint8)
        try:
            with open(path, "rb") as file:
                file.seek(chunk.offset)
                n_read = file.readinto(data.data)
        except FileNotFoundError as error:
            raise _damage(path, "no longer exists") from error
        if n_read < len(data):
            raise _damage(path, "is truncated")
        if (bucket, number) not in self._verified:
            if zlib.crc32(data.data) != chunk.checksum:
                raise _damage(path, f"was changed (chunk {number} has another checksum)")
            self._verified.add((bucket, number))
        stop = start + rows.stop - rows.start
        for kind, column, packed in zip(self.types, columns, np.split(data, ends[:-1]), strict=True):
            unpack(packed.view(kind)[rows], column[start:stop])


def make_cache(
    source: Source,
    profile: Profile,
    folder: str | os.PathLike[str],
    n_buckets: int,
    seed: int,
    group: Communicator,
    threads: int,
    verbose: bool = False,
    first_bucket_rows: int | None = None,
    elsewhere: Callable[[], Path] | None = None,
) -> Cache:
    """The cache of a source; an existing one is used if nothing has changed, an older one is replaced.

    Bucket 0 holds about `first_bucket_rows` rows of all processes, if given; the other buckets divide the rest evenly.
    `elsewhere` returns the folder to write to, if `folder` may only be read.
    """
    folder = Path(folder)
    key = describe_cache(profile, share_rows(profile.n_rows, n_buckets, first_bucket_rows), seed, group)
    gather_results(group, lambda: require_unchanged(source, profile))
    chunks = group.gather(read_manifest(folder, group.rank, key) if profile.fingerprint else None)
    if any(own is None for own in chunks):
        folder = folder if elsewhere is None else elsewhere()
        chunks = gather_results(group, lambda: write_cache(source, profile, key, folder, group, threads, verbose))
    counts = np.array([[sum(chunk.n_rows for chunk in bucket) for bucket in own] for own in chunks if own])
    if counts.sum() != profile.n_rows:
        raise ValueError(
            f"the table had {profile.n_rows:,} rows when it was read first, and {counts.sum():,} when it was read "
            "again; give a source that returns the same rows each time"
        )
    is_classifier, has_weights = profile.classes is not None, profile.roles.weight is not None
    return Cache(folder, group.rank, counts, tuple(key["types"]), is_classifier, has_weights, chunks[group.rank])


def remove_cache(folder: str | os.PathLike[str]) -> None:
    """Remove the files of a cache, and its folder if it is then empty."""
    folder = Path(folder)
    _remove(folder, "bucket-*.rank-*.bin", "manifest.rank-*.json*", "profile.rank-*.*", ".profile.rank-*.part")
    _remove_if_empty(folder)


def _remove(folder: Path, *patterns: str) -> None:
    for path in chain.from_iterable(map(folder.glob, patterns)):
        path.unlink(missing_ok=True)


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):  # not empty, or removed already
        folder.rmdir()


def share_rows(n_rows: int, n_buckets: int, first_bucket_rows: int | None) -> np.ndarray:
    """(buckets,) The share of all rows in each bucket."""
    if first_bucket_rows is None or n_buckets == 1:
        return np.full(n_buckets, 1 / n_buckets)
    first = min(1.0, first_bucket_rows / n_rows)
    return np.r_[first, np.full(n_buckets - 1, (1 - first) / (n_buckets - 1))]


def bucket_path(folder: Path, bucket: int, rank: int) -> Path:
    """The file of a process's rows in a bucket."""
    return folder / f"bucket-{bucket:03d}.rank-{rank}.bin"


def manifest_path(folder: Path, rank: int) -> Path:
    """The file that lists a process's chunks."""
    return folder / f"manifest.rank-{rank}.json"


def require_unchanged(source: Source, profile: Profile) -> None:
    """Raise if the files changed since the first pass: other values may not fit in the types of the cache."""
    if source.fingerprint() != profile.fingerprint:
        raise ValueError("the files of the table changed while they were read; fit again when they no longer change")


def describe_cache(profile: Profile, shares: np.ndarray, seed: int, group: Communicator) -> dict[str, Any]:
    """Everything that the bytes of a process's cache files depend on."""
    roles = profile.roles
    labels = None if profile.classes is None else profile.classes.tolist()
    levels = json.dumps([[axis.levels for axis in profile.encoder.axes], labels])
    return {
        "format": 1,  # of the manifest and the chunks; a cache of another format is written again
        "source": profile.fingerprint,
        "columns": [*roles.features, roles.target, roles.weight],
        "types": [*profile.types, profile.target_type, *([] if roles.weight is None else ["float64"])],
        "levels": hashlib.sha256(levels.encode()).hexdigest(),
        "rows": profile.n_rows,
        "shares": shares.tolist(),
        "seed": seed,
        "processes": [group.rank, group.size],
    }


def read_manifest(folder: Path, rank: int, key: dict[str, Any]) -> Chunks | None:
    """The chunks of a complete cache with this description; None if there is none."""
    try:
        found = json.loads(manifest_path(folder, rank).read_text())
        if found["key"] != key:
            return None
        chunks = tuple(tuple(Chunk(*chunk) for chunk in bucket) for bucket in found["chunks"])
        sizes = [bucket_path(folder, bucket, rank).stat().st_size for bucket in range(len(chunks))]
        return chunks if sizes == found["sizes"] else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_cache(
    source: Source,
    profile: Profile,
    key: dict[str, Any],
    folder: Path,
    group: Communicator,
    threads: int,
    verbose: bool,
) -> Chunks:
    """Write the rows of this process's parts, then the manifest; `key` describes the cache."""
    parts, rank = assign_parts(source, group.rank, group.size), group.rank
    total = sum(piece.n_rows or 0 for _, pieces in parts for piece in pieces)
    bar = open_bar(total, "cache", "row", verbose and rank == 0)
    with _clean_up(folder, rank), bar, ThreadPoolExecutor(threads) as pool, ExitStack() as stack:
        paths = [bucket_path(folder, bucket, rank) for bucket in range(len(key["shares"]))]
        files = [stack.enter_context(open(path, "wb", 0)) for path in paths]
        writer = BucketWriter(profile, key["types"], key["shares"], files, pool)
        for part, pieces in parts:
            writer.rng = np.random.default_rng([key["seed"], part])
            for batch in read_pieces(source, pieces, profile.roles.names):
                writer.add(batch)
                bar.update(batch.num_rows)
            writer.flush()
        require_unchanged(source, profile)
        chunks = tuple(map(tuple, writer.chunks))
        sizes = [os.fstat(file.fileno()).st_size for file in files]
        manifest = {"key": key, "sizes": sizes, "chunks": chunks}
        path = manifest_path(folder, rank)
        path.with_suffix(".json.part").write_text(json.dumps(manifest))
        os.replace(path.with_suffix(".json.part"), path)
    return chunks


class BucketWriter:
    """Collects rows, and divides them among the bucket files at every flush."""

    def __init__(
        self, profile: Profile, types: Sequence[str], shares: Sequence[float], files: Sequence[Any], pool: Executor
    ):
        self.profile, self.types, self.shares, self.files, self.pool = profile, types, shares, files, pool
        self.rng = np.random.default_rng(0)  # shuffles the rows; each part of the source has its own
        self.chunks: list[list[Chunk]] = [[] for _ in files]
        self.max_rows = max(1, FLUSH_BYTES // sum(np.dtype(kind).itemsize for kind in types))
        self._waiting: list[list[np.ndarray]] = [[] for _ in types]
        self._n_waiting = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Collect the rows of a batch."""
        batch, weights = drop_rows(batch, self.profile.roles)
        packed = self.pool.map(lambda index: self._pack(batch, weights, index), range(len(self.types)))
        for waiting, column in zip(self._waiting, packed, strict=True):
            waiting.append(column)
        self._n_waiting += batch.num_rows
        if self._n_waiting >= self.max_rows:
            self.flush()

    def flush(self) -> None:
        """Shuffle the collected rows and write them."""
        if self._n_waiting == 0:
            return
        order = self.rng.permutation(self._n_waiting)
        edges = np.r_[0, np.cumsum(self.rng.multinomial(self._n_waiting, self.shares))].tolist()
        columns = list(self.pool.map(lambda parts: np.concatenate(parts)[order], self._waiting))
        self._waiting, self._n_waiting = [[] for _ in self.types], 0
        parts = [[column[first:last] for column in columns] for first, last in pairwise(edges)]
        list(self.pool.map(self._write, range(len(parts)), parts))

    def _write(self, bucket: int, columns: Sequence[np.ndarray]) -> None:
        if len(columns[0]) == 0:
            return
        data = np.concatenate([column.view(np.uint8) for column in columns]).data
        offset, rest = self.files[bucket].tell(), data
        while len(rest):
            rest = rest[self.files[bucket].write(rest) :]
        self.chunks[bucket].append(Chunk(offset, len(columns[0]), zlib.crc32(data)))

    def _pack(self, batch: pa.RecordBatch, weights: np.ndarray | None, index: int) -> np.ndarray:
        """A column of a batch: a feature, the target, or the weight."""
        profile, axes = self.profile, self.profile.encoder.axes
        if index < len(axes):
            axis, name = axes[index], axes[index].name
            column = read_column(batch, name)
            # No check of single batches: the profile has checked the texts of all batches together.
            numbers = column_numbers(axis, column) if axis.is_level else column.parse()[0]
            if profile.closed[index] and (numbers == -1).any():
                raise _changed_rows(f"the column {name!r} has a level")
        elif index == len(axes):
            name, array = profile.roles.target, batch.column(profile.roles.target)
            numbers = read_target(name, array) if profile.classes is None else index_labels(array, profile.classes)
        else:
            assert weights is not None
            name, numbers = str(profile.roles.weight), weights
        packed = pack(numbers, self.types[index])
        if packed.dtype != numbers.dtype:
            is_feature, unpacked = index < len(axes), np.empty_like(numbers)
            unpack(packed, unpacked)
            if not np.array_equal(unpacked, numbers, equal_nan=is_feature):
                raise _changed_rows(f"the {'column' if is_feature else 'target'} {name!r} has a value")
        return packed


def pack(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers in a type of the cache; the smallest integer means "missing"."""
    if numbers.dtype.kind == "f" and np.dtype(kind).kind == "i":
        missing = np.isnan(numbers)
        if missing.any():
            numbers = np.where(missing, float(np.iinfo(kind).min), numbers)
    with np.errstate(invalid="ignore", over="ignore"):  # callers find what does not fit by unpacking it
        return numbers.astype(kind, copy=False)


def unpack(packed: np.ndarray, out: np.ndarray) -> None:
    """Write packed numbers into an array of doubles or of integers."""
    out[:] = packed
    if packed.dtype.kind == "i" and out.dtype.kind == "f":
        missing = packed == np.iinfo(packed.dtype).min
        if missing.any():
            out[missing] = np.nan


@contextmanager
def _clean_up(folder: Path, rank: int) -> Iterator[None]:
    """Remove the files of an older cache first, and those of this cache if writing fails."""
    patterns = f"manifest.rank-{rank}.json", f"bucket-*.rank-{rank}.bin"
    folder.mkdir(parents=True, exist_ok=True)
    _remove(folder, *patterns)
    try:
        yield
    except BaseException as error:
        _remove(folder, *patterns)
        # no room on the disk, in the quota, or in a file
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            reason = f"the disk of the cache {folder} is full; free some space, or set cache_dir to another disk"
            raise OSError(error.errno, reason) from error
        raise


def _changed_rows(what: str) -> ValueError:
    return ValueError(
        f"{what} in the second pass over the table that it did not have in the first; give a source that returns the "
        "same rows each time"
    )


def _damage(path: Path, what: str) -> ValueError:
    return ValueError(f"the cache file {path} {what}; remove the folder {path.parent} and fit again")


class CacheFolder:
    """The folder of a fit's cache, locked for all its processes; other fits may use it at the same time.

    One fit at a time writes to a folder (`is_own`). Fits that need the same cache read it together. A fit that needs
    another cache while others read uses a private subfolder (`path` changes) and removes it at the end. The system
    releases the locks of a killed process, and the next fit that writes removes the files it left.
    """

    def __init__(self, path: Path, group: Communicator):
        self.path, self.group = path, group
        self.is_private = False  # whether no other fit uses the folder
        self._open()
        if not self.is_own:
            self.lock.share()
        elif group.rank == 0:
            remove_abandoned(path)

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
        self.path, self.is_private = self.path / f"cache-{self.group.agree(secrets.token_hex(4))}", True
        self._open()
        return self.path

    def close(self, keep: bool) -> None:
        """Release the folder; without `keep`, the last fit that uses it removes the cache."""
        if self.is_private or (not keep and self.lock.is_last()):
            remove_cache(self.path)
        self.lock.release()
        for path in (self.path, self.path.parent)[: 1 + self.is_private]:
            _remove_if_empty(path)


def remove_abandoned(folder: Path) -> None:
    """Remove the private folders of killed fits."""
    for path in folder.glob("cache-*/.lock.rank-0"):
        lock = FolderLock(path.parent, path.name)
        if lock.take_alone():
            remove_cache(path.parent)
            _remove(path.parent, ".lock.rank-*")
            _remove_if_empty(path.parent)
        lock.release()
