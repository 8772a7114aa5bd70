"""Small tables in which most values are absent."""

from __future__ import annotations

import numpy as np

from neuralbasis.stored import Stored


def store(table: np.ndarray, absent: float = 0.0) -> Stored:
    row, column = np.nonzero(table != absent)
    starts = np.searchsorted(row, np.arange(len(table) + 1))
    return Stored(starts, column.astype(np.int32), table[row, column], absent, table.shape[1])


def draw_table(seed: int, n_rows: int = 40, n_columns: int = 6, share: float = 0.4) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.where(rng.random((n_rows, n_columns)) < share, rng.integers(1, 30, (n_rows, n_columns)) / 10, 0.0)
