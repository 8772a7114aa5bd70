"""Cache: the second pass over a source: its rows as numbers on disk, dealt at random into buckets.

Rows are collected in memory until they are many (a flush), shuffled, and cut into the buckets' shares; each bucket
gets one chunk of each flush: column after column, every column in the smallest type that holds it exactly. A bucket is
therefore a random sample of all rows. Every process writes its own rows to its own files. The manifest, with a checksum
of every chunk, is written last: a cache without one is not whole and is made anew.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ..data.counts import drop_rows, read_target
from ..data.files import Source, read_column
from ..data.writers import deal_lanes, gather_results, read_pieces
from ..progress import open_bar
from .encoder import column_numbers
from .profile import Profile, index_labels

FORMAT = 1  # of the manifest and of the chunks; a cache of another format is made anew
FLUSH_BYTES = 64 << 20
FULL = errno.ENOSPC, errno.EDQUOT, errno.EFBIG  # no room on the disk, for the user, or in a file


@dataclass(frozen=True, eq=False)
class Block:
    """Rows of a cache: numbers (n, D) as the kernels read them, y (n,) targets or class indices, weights (n,)"""

    numbers: np.ndarray
    y: np.ndarray
    weights: np.ndarray


@dataclass(frozen=True)
class Chunk:
    """Rows that lie together in a file, from `offset` on."""

    offset: int
    n_rows: int
    checksum: int


@dataclass(frozen=True, eq=False)
class Cache:
    """The rows of this process on disk, and how many all processes have.

    Parameters
    ----------
    folder : where the files are
    rank : this process
    counts : (processes, buckets) rows of each process in each bucket
    types : of all columns: the features, the target, the weight if there is one
    is_classifier : whether targets are indices of classes
    has_weights : whether the last column is a weight
    chunks : those of each bucket, in their order
    """

    folder: Path
    rank: int
    counts: np.ndarray
    types: tuple[str, ...]
    is_classifier: bool
    has_weights: bool
    chunks: tuple[tuple[Chunk, ...], ...]
    _sound: set[tuple[int, int]] = field(default_factory=set)  # chunks whose checksum was found right

    @property
    def n_rows(self) -> int:
        """Of all processes."""
        return int(self.counts.sum())

    def read(self, bucket: int, first: int = 0, last: int | None = None) -> Block:
        """Rows first … last - 1 of a bucket, of those that this process holds."""
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

    def _read_chunk(self, bucket: int, number: int, rows: slice, columns: Sequence[np.ndarray], start: int) -> None:
        """Put rows of a chunk into columns, from `start` on."""
        chunk, path = self.chunks[bucket][number], bucket_path(self.folder, bucket, self.rank)
        row_bytes = sum(np.dtype(kind).itemsize for kind in self.types)
        data = np.empty(chunk.n_rows * row_bytes, dtype=np.uint8)
        try:
            with open(path, "rb", buffering=0) as file:
                file.seek(chunk.offset)
                n_read = _fill(file, data.data)
        except FileNotFoundError as error:
            raise _damage(path, "is gone") from error
        if n_read < len(data):
            raise _damage(path, "is cut short")
        if (bucket, number) not in self._sound:
            if zlib.crc32(data.data) != chunk.checksum:
                raise _damage(path, f"was changed (chunk {number} has another checksum)")
            self._sound.add((bucket, number))
        offset, stop = 0, start + rows.stop - rows.start
        for kind, column in zip(self.types, columns, strict=True):
            size = chunk.n_rows * np.dtype(kind).itemsize
            unpack(data[offset : offset + size].view(kind)[rows], column[start:stop])
            offset += size


def make_cache(
    source: Source,
    profile: Profile,
    folder: str | os.PathLike[str],
    n_buckets: int,
    seed: int,
    group: Any,
    threads: int,
    verbose: bool = False,
    first_bucket_rows: int | None = None,
    elsewhere: Callable[[], Path] | None = None,
) -> Cache:
    """The cache of a source; one that is there already is taken if nothing has changed.

    Parameters
    ----------
    folder : made if it is not there; files of an older cache in it are replaced
    n_buckets : random parts of all rows
    first_bucket_rows : about so many rows, of all processes, go to bucket 0; the other buckets share the rest evenly
    elsewhere : gives the folder to write to instead, where `folder` may only be read
    """
    folder = Path(folder)
    shares = share_rows(profile.n_rows, n_buckets, first_bucket_rows)
    types = (*profile.types, profile.target_type, *(["float64"] if profile.roles.weight is not None else []))
    key = describe_cache(profile, types, shares, seed, group)
    gather_results(group, lambda: require_unchanged(source, profile))
    known = group.gather(read_manifest(folder, group.rank, key) if profile.fingerprint else None)
    if any(chunks is None for chunks in known):
        folder = folder if elsewhere is None else elsewhere()
        known = gather_results(
            group, lambda: write_cache(source, profile, folder, types, shares, seed, group, threads, verbose, key)
        )
    counts = np.array([[sum(chunk.n_rows for chunk in bucket) for bucket in chunks] for chunks in known if chunks])
    if counts.sum() != profile.n_rows:
        raise ValueError(
            f"the table had {profile.n_rows:,} rows when it was read first, and {counts.sum():,} when it was read "
            "again; give a source that returns the same rows each time"
        )
    own = known[group.rank]
    assert own is not None
    is_classifier, has_weights = profile.classes is not None, profile.roles.weight is not None
    return Cache(folder, group.rank, counts, types, is_classifier, has_weights, own)


def remove_cache(folder: str | os.PathLike[str]) -> None:
    """Remove the files of a cache, and its folder if nothing else is in it."""
    folder = Path(folder)
    for pattern in ("bucket-*.rank-*.bin", "manifest.rank-*.json*", "profile.rank-*.*", ".profile.rank-*.part"):
        for path in folder.glob(pattern):
            path.unlink(missing_ok=True)
    with suppress(OSError):  # other files are in it, or it is gone
        folder.rmdir()


def share_rows(n_rows: int, n_buckets: int, first_bucket_rows: int | None) -> np.ndarray:
    """(buckets,) the share of all rows that each gets."""
    if first_bucket_rows is None or n_buckets == 1:
        return np.full(n_buckets, 1 / n_buckets)
    first = min(1.0, first_bucket_rows / n_rows)
    return np.r_[first, np.full(n_buckets - 1, (1 - first) / (n_buckets - 1))]


def bucket_path(folder: Path, bucket: int, rank: int) -> Path:
    return folder / f"bucket-{bucket:03d}.rank-{rank}.bin"


def manifest_path(folder: Path, rank: int) -> Path:
    return folder / f"manifest.rank-{rank}.json"


def require_unchanged(source: Source, profile: Profile) -> None:
    """The files must be those that were surveyed: other values may not fit in the types of the cache."""
    if source.fingerprint() != profile.fingerprint:
        raise ValueError("the files of the table changed while they were read; fit again when they are whole")


def describe_cache(profile: Profile, types: Sequence[str], shares: np.ndarray, seed: int, group: Any) -> dict[str, Any]:
    """All that the bytes of a cache depend on."""
    levels = [axis.levels for axis in profile.encoder.axes]
    labels = None if profile.classes is None else profile.classes.tolist()
    digest = hashlib.sha256(json.dumps([levels, labels]).encode()).hexdigest()
    roles = profile.roles
    return {
        "format": FORMAT,
        "source": profile.fingerprint,
        "columns": [*roles.features, roles.target, roles.weight],
        "types": list(types),
        "levels": digest,
        "rows": profile.n_rows,
        "shares": shares.tolist(),
        "seed": seed,
        "processes": [group.rank, group.size],
    }


Chunks = tuple[tuple[Chunk, ...], ...]


def read_manifest(folder: Path, rank: int, key: dict[str, Any]) -> Chunks | None:
    """The chunks of a whole cache of this description; None if there is none."""
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
    source: Source, profile: Profile, folder: Path, types: Sequence[str], shares: np.ndarray, seed: int, group: Any,
    threads: int, verbose: bool, key: dict[str, Any],
) -> Chunks:  # fmt: skip
    """Write the rows of this process's lanes, then the manifest."""
    lanes = deal_lanes(source, group.rank, group.size)
    total = sum(piece.n_rows or 0 for _, pieces in lanes for piece in pieces)
    bar = open_bar(total, "cache", "row", verbose and group.rank == 0)
    with _clean_up(folder, group.rank, len(shares)), bar, ThreadPoolExecutor(threads) as pool, ExitStack() as stack:
        files = [stack.enter_context(open(bucket_path(folder, b, group.rank), "wb", 0)) for b in range(len(shares))]
        writer = Writer(profile, types, shares, files, pool)
        for lane, pieces in lanes:
            writer.start(np.random.default_rng([seed, lane]))
            for batch in read_pieces(source, pieces, profile.roles.names):
                writer.add(batch)
                bar.update(batch.num_rows)
            writer.flush()
        require_unchanged(source, profile)
        chunks = tuple(map(tuple, writer.chunks))
        sizes = [os.fstat(file.fileno()).st_size for file in files]
        manifest = {"key": key, "sizes": sizes, "chunks": [[list(vars(c).values()) for c in b] for b in chunks]}
        path = manifest_path(folder, group.rank)
        path.with_suffix(".json.part").write_text(json.dumps(manifest))
        os.replace(path.with_suffix(".json.part"), path)
    return chunks


class Writer:
    """Rows that wait for the next flush, and the chunks that were written."""

    def __init__(
        self, profile: Profile, types: Sequence[str], shares: np.ndarray, files: Sequence[Any], pool: Executor
    ):
        self.profile, self.types, self.shares, self.files, self.pool = profile, types, shares, files, pool
        self.chunks: list[list[Chunk]] = [[] for _ in files]
        self.max_rows = max(1, FLUSH_BYTES // sum(np.dtype(kind).itemsize for kind in types))
        self._waiting: list[list[np.ndarray]] = [[] for _ in types]
        self._n_waiting = 0
        self._rng = np.random.default_rng(0)

    def start(self, rng: np.random.Generator) -> None:
        """Begin a lane, whose rows are dealt by this generator."""
        self._rng = rng

    def add(self, batch: pa.RecordBatch) -> None:
        batch, weights = drop_rows(batch, self.profile.roles)
        packed = self.pool.map(lambda index: self._pack(batch, weights, index), range(len(self.types)))
        for waiting, column in zip(self._waiting, packed, strict=True):
            waiting.append(column)
        self._n_waiting += batch.num_rows
        if self._n_waiting >= self.max_rows:
            self.flush()

    def flush(self) -> None:
        """Shuffle the rows that wait and deal them."""
        if self._n_waiting == 0:
            return
        order = self._rng.permutation(self._n_waiting)
        edges = np.r_[0, np.cumsum(self._rng.multinomial(self._n_waiting, self.shares))].tolist()
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
            # The profile has judged the texts of all batches.
            numbers = column_numbers(axis, column if axis.is_level else column.parse()[0])
            if profile.closed[index] and (numbers == -1).any():
                raise _other_rows(f"the column {name!r} has a level")
        elif index == len(axes):
            name, array = profile.roles.target, batch.column(profile.roles.target)
            numbers = read_target(name, array) if profile.classes is None else index_labels(array, profile.classes)
        else:
            assert weights is not None
            name, numbers = str(profile.roles.weight), weights
        packed = pack(numbers, self.types[index])
        if packed.dtype != numbers.dtype:
            is_feature, returned = index < len(axes), np.empty_like(numbers)
            unpack(packed, returned)
            if not np.array_equal(returned, numbers, equal_nan=is_feature):
                raise _other_rows(f"the {'column' if is_feature else 'target'} {name!r} has a value")
        return packed


def pack(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Numbers in the type of a cache; of integers the smallest stands for missing."""
    if numbers.dtype.kind == "f" and np.dtype(kind).kind == "i":
        missing = np.isnan(numbers)
        if missing.any():
            numbers = np.where(missing, float(np.iinfo(kind).min), numbers)
    with np.errstate(invalid="ignore", over="ignore"):  # what does not fit is found by those who unpack it again
        return numbers.astype(kind, copy=False)


def unpack(packed: np.ndarray, out: np.ndarray) -> None:
    """The numbers that were packed, into an array of doubles or of integers."""
    out[:] = packed
    if packed.dtype.kind == "i" and out.dtype.kind == "f":
        missing = packed == np.iinfo(packed.dtype).min
        if missing.any():
            out[missing] = np.nan


@contextmanager
def _clean_up(folder: Path, rank: int, n_buckets: int) -> Iterator[None]:
    """Begin without files of an older cache; leave none if the work stops halfway."""

    def remove() -> None:
        manifest_path(folder, rank).unlink(missing_ok=True)
        for path in folder.glob(f"bucket-*.rank-{rank}.bin"):
            path.unlink(missing_ok=True)

    folder.mkdir(parents=True, exist_ok=True)
    remove()
    try:
        yield
    except BaseException as error:
        remove()
        if isinstance(error, OSError) and error.errno in FULL:
            raise OSError(
                error.errno,
                f"the disk of the cache {folder} is full; free some space, or set cache_dir to another disk",
            ) from error
        raise


def _fill(file: Any, view: memoryview) -> int:
    """Read until the view is full or the file ends; returns the number of bytes."""
    n_read = 0
    while n_read < len(view) and (part := file.readinto(view[n_read:])):
        n_read += part
    return n_read


def _other_rows(what: str) -> ValueError:
    return ValueError(
        f"{what} in the second pass over the table that it did not have in the first; give a source that returns the "
        "same rows each time"
    )


def _damage(path: Path, what: str) -> ValueError:
    return ValueError(f"the cache file {path} {what}; remove the folder {path.parent} and fit again")
