"""Tables on a cluster: files that Ray Data reads, or a dataset of the user's own; and a worker's shard as a Source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import ray.data

from ..data.files import Piece, Source

BATCH_ROWS = 1 << 16


def open_dataset(data: Any) -> Any:
    """A Ray dataset as it is; paths, folders and globs of Parquet or CSV files as one.

    Examples
    --------
    >>> open_dataset({"age": [31]})
    Traceback (most recent call last):
    TypeError: expected paths of Parquet or CSV files, or a Ray dataset, not dict; ray.data.from_arrow makes one of ...
    """
    if isinstance(data, ray.data.Dataset):
        return data
    paths = [data] if isinstance(data, str | os.PathLike) else data
    is_paths = isinstance(paths, Sequence) and all(isinstance(path, str | os.PathLike) for path in paths)
    if not is_paths or not len(paths):
        raise TypeError(
            f"expected paths of Parquet or CSV files, or a Ray dataset, not {type(data).__name__}; ray.data.from_arrow "
            "makes one of a table in memory"
        )
    files = [os.fspath(path) for path in paths]
    is_csv = files[0].lower().endswith((".csv", ".csv.gz"))
    return (ray.data.read_csv if is_csv else ray.data.read_parquet)(files)


class ShardSource(Source):
    """A worker's shard of a dataset, as one piece; every pass reads it anew, all workers at the same time."""

    local = True

    def __init__(self, shard: Any, names: Iterable[str]):
        self.shard, self.names, self.pieces = shard, tuple(names), (Piece(None, 0, None),)

    def read(self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
        requested = list(self.names if names is None else names)
        for block in self.shard.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from block.select(requested).to_batches(max_chunksize=batch_rows)
