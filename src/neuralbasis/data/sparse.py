"""SparseMatrix: a table in which most values equal one absent value, stored by rows (CSR) and never made dense.

In: any SciPy sparse matrix or array, or columns given as (rows, values); invalid index arrays raise an error.
Out: `SparseMatrix`. Its entries are sorted, duplicates are summed, values are finite or missing (NaN), and no entry
equals the absent value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Rows as lists of (column, value); every value without an entry is the absent one.

    Parameters
    ----------
    starts : ndarray of shape (N + 1,), int64
        Where the entries of each row start.
    column, value : ndarray of shape (entries,), int32 and float
        Columns increase within a row; the value NaN is missing.
    absent : float or ndarray of shape (D,)
        The value of all other cells, one for the table or one per column.
    n_columns : int

    Examples
    --------
    >>> import numpy as np
    >>> table = SparseMatrix(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([5.0, 6.0, 7.0]), 0.0, 3)
    >>> len(table), table.read_column(1).tolist(), table[np.array([1, 1])].value.tolist()
    (2, [0.0, 7.0], [6.0, 7.0, 6.0, 7.0])
    """

    starts: np.ndarray
    column: np.ndarray
    value: np.ndarray
    absent: Any
    n_columns: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def row(self) -> np.ndarray:
        """(entries,) The row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def __getitem__(self, rows: np.ndarray | slice) -> SparseMatrix:
        """These rows, in this order; the entries of consecutive rows (a slice) are not copied."""
        if isinstance(rows, slice):
            if rows == slice(None):
                return self
            first, last, _ = rows.indices(len(self))
            starts = self.starts[first : last + 1] - self.starts[first]
            entries: Any = slice(self.starts[first], self.starts[last])
        else:
            starts, entries = find_entries(self.starts, rows)
        return replace(self, starts=starts, column=self.column[entries], value=self.value[entries])

    def select(self, columns: Sequence[int] | np.ndarray) -> SparseMatrix:
        """These columns, in this order."""
        place = np.full(self.n_columns, -1, dtype=np.int32)
        place[columns] = np.arange(len(columns))
        column = place[self.column]
        keep = column >= 0
        row, column, value = self.row[keep], column[keep], self.value[keep]
        order = np.lexsort((column, row))
        starts = np.searchsorted(row, np.arange(len(self) + 1))
        return SparseMatrix(starts, column[order], value[order], self.absent_of(columns), len(columns))

    @cached_property
    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The entries sorted by column: where each column starts (D + 1,), their rows and their values."""
        from scipy.sparse import csr_array

        matrix = csr_array((self.value, self.column, self.starts), shape=(len(self), self.n_columns)).tocsc()
        return matrix.indptr, matrix.indices, matrix.data

    def read_column(self, column: int) -> np.ndarray:
        """(N,) All values of one column."""
        starts, rows, values = self.by_column
        entries = slice(starts[column], starts[column + 1])
        found = np.full(len(self), self.absent_of(column), dtype=self.value.dtype)
        found[rows[entries]] = values[entries]
        return found

    def read_block(self, columns: slice) -> np.ndarray:
        """(N, columns) All values of a range of columns."""
        starts, rows, values = self.by_column
        first, last, _ = columns.indices(self.n_columns)
        entries = slice(starts[first], starts[last])
        column = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        found = np.broadcast_to(np.asarray(self.absent_of(columns), float), (len(self), last - first)).copy()
        found[rows[entries], column] = values[entries]
        return found

    def absent_of(self, columns: Any) -> Any:
        """The absent value of one column, or of several unless the table has a single one."""
        return self.absent if np.ndim(self.absent) == 0 else self.absent[columns]


def find_entries(starts: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """For some rows of a CSR table: where the entries of each start after they are taken, and the entries to take."""
    counts = np.diff(starts)[rows]
    new_starts = np.r_[0, np.cumsum(counts)]
    return new_starts, np.arange(new_starts[-1]) + np.repeat(starts[rows] - new_starts[:-1], counts)


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy sparse matrix or array; does not import SciPy."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def is_present(numbers: np.ndarray, absent: float) -> np.ndarray:
    """Where values differ from the absent one, which may be NaN."""
    return ~np.isnan(numbers) if absent != absent else numbers != absent


def to_sparse(numbers: np.ndarray, absent: float) -> SparseMatrix:
    """A dense table (N, D) as a sparse one."""
    row, column = np.nonzero(is_present(numbers, absent))
    starts, value = np.searchsorted(row, np.arange(len(numbers) + 1)), numbers[row, column].astype(np.float64)
    return SparseMatrix(starts, column.astype(np.int32), value, absent, numbers.shape[1])


def read_sparse(X: Any, names: Sequence[str], absent: float) -> SparseMatrix:
    """Read a SciPy sparse matrix of any format and real type, without changing it; `names` are for errors."""
    if X.format in ("csr", "csc", "bsr"):
        _check_compressed(X)  # before SciPy reads the indices
        matrix = X.tocsr()
    elif X.format == "lil":
        matrix = X.tocsr()
        _check_compressed(matrix)
    else:
        triplets = X.tocoo()
        _check_range(triplets.row, X.shape[0], "row")
        _check_range(triplets.col, X.shape[1], "column")
        matrix = triplets.tocsr()
    # SciPy caches its own check for sorted columns, which is wrong after a change in place.
    step = np.diff(matrix.indices[: matrix.indptr[-1]])
    inside = np.ones(len(step) + 1, dtype=bool)
    inside[matrix.indptr[(matrix.indptr > 0) & (matrix.indptr < matrix.indptr[-1])] - 1] = False
    if (step[inside[:-1]] <= 0).any():
        matrix = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
    starts, column, value = (np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    entries = slice(0, int(starts[-1]))  # SciPy allows unused room behind the last entry
    return _canonicalize(starts, column[entries], value[entries], absent, names)


def read_entries(
    columns: Sequence[tuple[np.ndarray, np.ndarray]], n_rows: int, names: Sequence[str], absent: float
) -> SparseMatrix:
    """Read columns given as (rows, values) of their entries, each row at most once."""
    from scipy.sparse import csc_array

    starts = np.r_[0, np.cumsum([len(rows) for rows, _ in columns])]
    row, value = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    matrix = csc_array((value.astype(np.float64), row, starts), shape=(n_rows, len(columns))).tocsr()
    return _canonicalize(matrix.indptr, matrix.indices, matrix.data, absent, names)


def _canonicalize(
    starts: np.ndarray, column: np.ndarray, value: np.ndarray, absent: float, names: Sequence[str]
) -> SparseMatrix:
    """Values as float64, without entries that equal the absent value."""
    value = np.asarray(value, dtype=np.float64)
    keep = is_present(value, absent)
    if not keep.all():
        starts = np.r_[0, np.cumsum(keep)][starts]
        column, value = column[keep], value[keep]
    infinite = np.flatnonzero(np.isinf(value))
    if len(infinite):
        row = int(np.searchsorted(starts, infinite[0], side="right")) - 1
        raise ValueError(
            f"column {names[column[infinite[0]]]!r} holds an infinite value in row {row} (0 is the first); neuralbasis "
            "expects finite numbers or missing values (NaN): replace it before fitting or predicting"
        )
    return SparseMatrix(starts.astype(np.int64), column.astype(np.int32, copy=False), value, float(absent), len(names))


def _check_compressed(X: Any) -> None:
    """Raise unless starts increase and indices lie within the matrix."""
    starts, indices = np.asarray(X.indptr), np.asarray(X.indices)
    height, width = getattr(X, "blocksize", (1, 1))
    n_rows, n_columns = X.shape[0] // height, X.shape[1] // width
    n_lines, n_places, unit = (n_columns, n_rows, "row") if X.format == "csc" else (n_rows, n_columns, "column")
    is_valid = len(starts) == n_lines + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    if not is_valid or starts[-1] > min(len(indices), len(X.data)):
        raise ValueError(
            f"the sparse matrix is broken: indptr must rise from 0 to at most {len(indices)} in {n_lines + 1} entries, "
            "one more than there are " + ("columns" if X.format == "csc" else "rows") + "; build the matrix again"
        )
    _check_range(indices[: starts[-1]], n_places, unit)


def _check_range(indices: np.ndarray, size: int, unit: str) -> None:
    outside = np.flatnonzero((indices < 0) | (indices >= size))
    if len(outside):
        raise ValueError(
            f"the sparse matrix is broken: it has an entry in {unit} {indices[outside[0]]}, but only {size} {unit}s "
            "(0 is the first); build the matrix again"
        )
