"""Bench: what of a table is read into memory for good: all rows where they are few, or a random part of them.

The bench is bucket 0 of a cache, the same rows in every process. The other buckets are pools, which come and go.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ..data.files import Source
from .disk_cache import Block, Cache
from .profile import Roles


def read_sample_rows(cache: Cache, group: Any) -> Block:
    """The rows of bucket 0, of all processes in their order; a column at a time."""
    own = cache.read(0)
    if group.size == 1:
        return own
    numbers = np.empty((int(cache.counts[:, 0].sum()), own.numbers.shape[1]), order="F")
    for index in range(numbers.shape[1]):
        numbers[:, index] = np.concatenate(group.gather(own.numbers[:, index]))
    return Block(numbers, np.concatenate(group.gather(own.y)), np.concatenate(group.gather(own.weights)))


Parts = tuple[pa.Table, np.ndarray, np.ndarray | None]


def read_parts(source: Source, roles: Roles, max_rows: int) -> Parts | None:
    """All rows of a source as features, target and weights, if there are no more than so many."""
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
    return table.select(roles.features), _to_numpy(table[roles.target]), weights


def _to_numpy(column: pa.ChunkedArray) -> np.ndarray:
    plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return plain.to_numpy()
