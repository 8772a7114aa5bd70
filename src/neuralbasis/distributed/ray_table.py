"""Tables on a Ray cluster.

Input: paths of files, or a Ray dataset. Output: the dataset, and a worker's shard of it as a `Source` for `fit`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ray.data

from ..data.files import Piece, Source

BATCH_ROWS = 1 << 16


def open_dataset(data: Any) -> Any:
    """Return a Ray dataset; paths, folders and globs of Parquet or CSV files are opened as one dataset.

    Examples
    --------
    >>> open_dataset({"age": [31]})
    Traceback (most recent call last):
    TypeError: expected paths of Parquet or CSV files, or a Ray dataset, not dict; convert a table in memory with ...
    """
    if isinstance(data, ray.data.Dataset):
        return data
    paths = [data] if isinstance(data, str | os.PathLike) else data
    is_paths = isinstance(paths, Sequence) and all(isinstance(path, str | os.PathLike) for path in paths)
    if not is_paths or not len(paths):
        raise TypeError(
            f"expected paths of Parquet or CSV files, or a Ray dataset, not {type(data).__name__}; convert a table in "
            "memory with ray.data.from_arrow"
        )
    files = [os.fspath(path) for path in paths]
    is_csv = files[0].lower().endswith((".csv", ".csv.gz"))
    return (ray.data.read_csv if is_csv else ray.data.read_parquet)(files)


class ShardSource(Source):
    """A worker's shard of a dataset, as one piece. Every pass reads it again, and all workers read at the same time."""

    local = True

    def __init__(self, shard: Any, names: Iterable[str]):
        self.shard, self.names, self.pieces = shard, tuple(names), (Piece(None, 0, None),)

    def read(self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
        requested = list(self.names if names is None else names)
        for block in self.shard.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from block.select(requested).to_batches(max_chunksize=batch_rows)
