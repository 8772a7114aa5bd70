"""SparseMatrix: a table most of whose values are one absent value, kept row by row (CSR) and never made dense.

In: any SciPy sparse matrix or array, or columns of (row, value) lists; broken index arrays are refused.
Out: `SparseMatrix`, whose entries are sorted, summed where they came twice, finite or missing, and never equal to the
absent value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class SparseMatrix:
    """Rows as lists of (column, value); every other value of the table is the absent one.

    Parameters
    ----------
    starts : (N + 1,) int64, where the entries of each row start
    column : (entries,) int32, increasing within a row of a table
    value : (entries,), NaN is missing
    absent : what a table holds everywhere else, or (D,) one for each column
    n_columns : D

    Examples
    --------
    >>> import numpy as np
    >>> table = SparseMatrix(np.array([0, 1, 3]), np.array([2, 0, 1], np.int32), np.array([5.0, 6.0, 7.0]), 0.0, 3)
    >>> len(table), table.read_column(1).tolist(), table.take(np.array([1, 1])).value.tolist()
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
        """(entries,) row of every entry."""
        return np.repeat(np.arange(len(self)), np.diff(self.starts))

    def take(self, rows: np.ndarray) -> SparseMatrix:
        """These rows, in this order."""
        begins, counts = self.starts[rows], np.diff(self.starts)[rows]
        starts = np.r_[0, np.cumsum(counts)]
        entries = np.arange(starts[-1]) + np.repeat(begins - starts[:-1], counts)
        return replace(self, starts=starts, column=self.column[entries], value=self.value[entries])

    def take_slice(self, first: int, last: int) -> SparseMatrix:
        """Rows first … last - 1, without a copy of their entries."""
        starts = self.starts[first : last + 1]
        entries = slice(starts[0], starts[-1])
        return replace(self, starts=starts - starts[0], column=self.column[entries], value=self.value[entries])

    def select(self, columns: Sequence[int] | np.ndarray) -> SparseMatrix:
        """These columns, in this order."""
        place = np.full(self.n_columns, -1, dtype=np.int32)
        place[columns] = np.arange(len(columns))
        column = place[self.column]
        keep = column >= 0
        row, column, value = self.row[keep], column[keep], self.value[keep]
        order = np.lexsort((column, row))
        starts = np.searchsorted(row, np.arange(len(self) + 1))  # rows are in order before and after
        absent = self.absent if np.ndim(self.absent) == 0 else self.absent[columns]
        return SparseMatrix(starts, column[order], value[order], absent, len(columns))

    def by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same entries column by column: where each column starts (D + 1,), their rows and values."""
        return self._by_column

    @cached_property
    def _by_column(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        from scipy.sparse import csr_array

        turned = csr_array((self.value, self.column, self.starts), shape=(len(self), self.n_columns)).tocsc()
        return turned.indptr, turned.indices, turned.data

    def read_column(self, column: int) -> np.ndarray:
        """(N,) all values of one column."""
        starts, rows, values = self.by_column()
        entries = slice(starts[column], starts[column + 1])
        found = np.full(len(self), self.absent_of(column), dtype=self.value.dtype)
        found[rows[entries]] = values[entries]
        return found

    def read_block(self, columns: slice) -> np.ndarray:
        """(N, columns) all values of a few columns side by side."""
        starts, rows, values = self.by_column()
        first, last, _ = columns.indices(self.n_columns)
        entries = slice(starts[first], starts[last])
        column = np.repeat(np.arange(last - first), np.diff(starts[first : last + 1]))
        absent = self.absent if np.ndim(self.absent) == 0 else self.absent[first:last]
        found = np.broadcast_to(np.asarray(absent, dtype=float), (len(self), last - first)).copy()
        found[rows[entries], column] = values[entries]
        return found

    def absent_of(self, column: int) -> float:
        return self.absent if np.ndim(self.absent) == 0 else self.absent[column]


def is_present(numbers: np.ndarray, absent: float) -> np.ndarray:
    """Where values are other than the absent one, which may be NaN."""
    return ~np.isnan(numbers) if absent != absent else numbers != absent


def to_sparse(numbers: np.ndarray, absent: float) -> SparseMatrix:
    """Rows (N, D) with all their values, kept without the absent one."""
    row, column = np.nonzero(is_present(numbers, absent))
    starts = np.searchsorted(row, np.arange(len(numbers) + 1))
    return SparseMatrix(
        starts, column.astype(np.int32), numbers[row, column].astype(np.float64), absent, numbers.shape[1]
    )


def read_sparse(X: Any, names: Sequence[str], absent: float) -> SparseMatrix:
    """A SciPy sparse matrix of any format and real type; `names` are its columns'. The matrix is not changed."""
    matrix = _to_rows(X)
    starts, column, value = (np.asarray(part) for part in (matrix.indptr, matrix.indices, matrix.data))
    entries = slice(0, int(starts[-1]))  # SciPy allows room behind the last entry
    return _settle(starts, column[entries], value[entries], absent, names)


def read_entries(
    columns: Sequence[tuple[np.ndarray, np.ndarray]], n_rows: int, names: Sequence[str], absent: float
) -> SparseMatrix:
    """Columns given as rows and values of their entries, each row once."""
    from scipy.sparse import csc_array

    starts = np.r_[0, np.cumsum([len(rows) for rows, _ in columns])]
    row, value = (np.concatenate(parts) for parts in zip(*columns, strict=True))
    matrix = csc_array((value.astype(np.float64), row, starts), shape=(n_rows, len(columns))).tocsr()
    return _settle(matrix.indptr, matrix.indices, matrix.data, absent, names)


def _settle(
    starts: np.ndarray, column: np.ndarray, value: np.ndarray, absent: float, names: Sequence[str]
) -> SparseMatrix:
    """Numbers as float64, without the absent value."""
    value = np.asarray(value, dtype=np.float64)
    is_absent = np.isnan(value) if absent != absent else value == absent
    if is_absent.any():
        starts = np.r_[0, np.cumsum(~is_absent)][starts]
        column, value = column[~is_absent], value[~is_absent]
    infinite = np.flatnonzero(np.isinf(value))
    if len(infinite):
        row = int(np.searchsorted(starts, infinite[0], side="right")) - 1
        raise ValueError(
            f"column {names[column[infinite[0]]]!r} holds an infinite value in row {row} (0 is the first); neuralbasis "
            "expects finite numbers or missing values (NaN): replace it before fitting or predicting"
        )
    return SparseMatrix(starts.astype(np.int64), column.astype(np.int32, copy=False), value, float(absent), len(names))


def _to_rows(X: Any) -> Any:
    """X as a CSR matrix with sorted columns, each once in a row; what is broken is refused before SciPy reads it."""
    form = X.format
    if form in ("csr", "csc", "bsr"):
        _check_compressed(X)
        matrix = X.tocsr()
    elif form == "lil":
        matrix = X.tocsr()
        _check_compressed(matrix)
    else:
        listed = X.tocoo()
        _check_range(listed.row, X.shape[0], "row")
        _check_range(listed.col, X.shape[1], "column")
        matrix = listed.tocsr()
    # SciPy remembers whether it has looked, not whether it still holds.
    step = np.diff(matrix.indices[: matrix.indptr[-1]])
    inside = np.ones(len(step) + 1, dtype=bool)
    inside[matrix.indptr[(matrix.indptr > 0) & (matrix.indptr < matrix.indptr[-1])] - 1] = False
    if (step[inside[:-1]] <= 0).any():
        matrix = type(matrix)((matrix.data, matrix.indices, matrix.indptr), shape=matrix.shape, copy=True)
        matrix.sum_duplicates()
    return matrix


def _check_compressed(X: Any) -> None:
    """Starts that never fall, and indices within the matrix."""
    starts, indices = np.asarray(X.indptr), np.asarray(X.indices)
    height, width = getattr(X, "blocksize", (1, 1))
    n_rows, n_columns = X.shape[0] // height, X.shape[1] // width
    n_lines, n_places, unit = (n_columns, n_rows, "row") if X.format == "csc" else (n_rows, n_columns, "column")
    sound = len(starts) == n_lines + 1 and starts[0] == 0 and (np.diff(starts) >= 0).all()
    if not sound or starts[-1] > min(len(indices), len(X.data)):
        raise ValueError(
            f"the sparse matrix is broken: indptr must rise from 0 to at most {len(indices)} in {n_lines + 1} entries, "
            "one more than there are " + ("columns" if X.format == "csc" else "rows") + "; build the matrix anew"
        )
    _check_range(indices[: starts[-1]], n_places, unit)


def _check_range(indices: np.ndarray, size: int, unit: str) -> None:
    outside = np.flatnonzero((indices < 0) | (indices >= size))
    if len(outside):
        raise ValueError(
            f"the sparse matrix is broken: it has an entry in {unit} {indices[outside[0]]}, but only {size} {unit}s "
            "(0 is the first); build the matrix anew"
        )
