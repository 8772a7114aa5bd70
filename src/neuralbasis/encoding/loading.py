"""Rows of a source or of its cache, read into memory.

A source with few rows is read whole (`read_table`). Otherwise bucket 0 of the cache is the sample that stays in memory,
the same rows in every process (`read_sample_rows`); the other buckets are loaded one at a time during training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ..data.counts import Roles
from ..data.files import Source
from ..data.parts import Communicator
from .disk_cache import Block, Cache


class LoadedTable(NamedTuple):
    """All rows of a source: the feature columns, y (N,), and weights (N,) or None."""

    features: pa.Table
    y: np.ndarray
    weights: np.ndarray | None


def read_sample_rows(cache: Cache, group: Communicator) -> Block:
    """The rows of bucket 0 of all processes, by rank."""
    own = cache.read(0)
    if group.size == 1:
        return own
    numbers = np.empty((int(cache.counts[:, 0].sum()), own.numbers.shape[1]), order="F")
    for index in range(numbers.shape[1]):  # one column at a time needs less memory
        numbers[:, index] = np.concatenate(group.gather(own.numbers[:, index]))
    return Block(numbers, np.concatenate(group.gather(own.y)), np.concatenate(group.gather(own.weights)))


def read_table(source: Source, roles: Roles, max_rows: int) -> LoadedTable | None:
    """All rows of a source, or None if there are more than `max_rows`."""
    if (source.n_rows or 0) > max_rows:
        return None
    batches, n_rows = [], 0
    for piece in source.pieces:
        for batch in source.read(piece, roles.names):
            batches.append(batch)
            n_rows += batch.num_rows
            if n_rows > max_rows:
                return None
    table = pa.Table.from_batches(batches)
    weights = None if roles.weight is None else _to_numpy(table[roles.weight])
    return LoadedTable(table.select(roles.features), _to_numpy(table[roles.target]), weights)


def _to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return plain.to_numpy()
