"""Column and Columns: a table as plain named columns, independent of its container.

A column is either numbers (float64, NaN = missing) or labels (int32 codes into text levels, -1 = missing). A table of
numbers only may be one dense matrix or a `SparseMatrix`. Text stays text here; `Column.parse` reads it as numbers.
`frames.read_columns` makes `Columns` from arrays, data frames and mappings.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from ..suggestions import find_nearest
from .sparse import SparseMatrix
from .text_numbers import LEADING_ZERO, TextFacts, parse_texts


@dataclass(frozen=True, eq=False)
class Column:
    """One raw column: either numbers or labels.

    Attributes
    ----------
    name : str
    numbers : ndarray of shape (N,), float64, or None
        NaN is missing.
    codes : ndarray of shape (N,), int32, or None
        Indices into ``levels``; -1 is missing.
    levels : tuple of str or None
    ordered : bool
        Whether the table declares an order of the levels.
    declared : bool
        Whether the table declares the levels: its type is categorical, an enumeration or a dictionary.
    """

    name: str
    numbers: np.ndarray | None
    codes: np.ndarray | None = None
    levels: tuple[str, ...] | None = None
    ordered: bool = False
    declared: bool = False

    def parse(self, weights: np.ndarray | None = None) -> tuple[np.ndarray, TextFacts]:
        """(N,) The values as numbers, NaN where a text is not a number, and the facts of the texts, weighted by row.

        Examples
        --------
        >>> texts = Column("price", None, np.array([0, 1, 2, 1], dtype=np.int32), ("1,200", "40 %", "free"))
        >>> numbers, facts = texts.parse()
        >>> numbers, facts.n_others, facts.are_numbers
        (array([1200.,   40.,   nan,   40.]), 1.0, False)
        """
        if self.numbers is not None:
            return self.numbers, TextFacts()
        codes, levels = self.to_labels()
        numbers, facts = parse_texts(levels, weigh_codes(codes, len(levels), weights))
        return np.r_[numbers, np.nan][codes], facts  # code -1 (missing) picks the last

    def to_numbers(self, name: str | None = None) -> np.ndarray:
        """(N,) The values as numbers; raises an error that names the column if many of its texts are not numbers."""
        numbers, facts = self.parse()
        row = -1 if facts.other is None else int(np.argmax(self.codes == self.to_labels()[1].index(facts.other)))
        facts.require_numbers(name or self.name, f" in row {row:,} (0 is the first)")
        return numbers

    def to_labels(self) -> tuple[np.ndarray, tuple[str, ...]]:
        """Codes and levels; levels of numbers are sorted by value, and integer-valued floats are named as integers.

        Examples
        --------
        >>> Column("grade", np.array([3.0, np.nan, 2.5])).to_labels()
        (array([ 1, -1,  0], dtype=int32), ('2.5', '3'))
        """
        if self.numbers is None:
            assert self.codes is not None
            assert self.levels is not None
            return self.codes, self.levels
        present = ~np.isnan(self.numbers)
        values, places = np.unique(self.numbers[present], return_inverse=True)
        codes = np.full(len(self.numbers), -1, dtype=np.int32)
        codes[present] = places
        return codes, tuple(map(level_text, values.tolist()))


@dataclass(frozen=True, eq=False)
class Columns:
    """A table of N rows and D columns; exactly one of `matrix` (N, D), `columns` and `sparse` is given.

    `named` is False if the table has no names of its own and none were given.

    Examples
    --------
    >>> table = Columns(("age", "size"), 2, matrix=np.array([[31.0, 1.5], [45.0, 2.0]]))
    >>> table.select(["size", "age"]).names, table[1].numbers
    (('size', 'age'), array([1.5, 2. ]))
    """

    names: tuple[str, ...]
    n_rows: int
    matrix: np.ndarray | None = None
    columns: tuple[Column, ...] | None = None
    named: bool = True
    sparse: SparseMatrix | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Column:
        if self.matrix is not None:
            return Column(self.names[i], self.matrix[:, i].astype(np.float64, copy=False))
        if self.sparse is not None:
            return Column(self.names[i], self.sparse.read_column(i))
        assert self.columns is not None
        return self.columns[i]

    def __iter__(self) -> Iterator[Column]:
        return (self[i] for i in range(len(self)))

    def select(self, names: Iterable[str]) -> Columns:
        """The columns with these names, in this order."""
        names = tuple(names)
        if names == self.names:
            return self
        place = {name: i for i, name in enumerate(self.names)}
        if missing := [name for name in names if name not in place]:
            raise ValueError(describe_missing(missing, self.names))
        return self.take([place[name] for name in names])

    def take(self, indices: Sequence[int]) -> Columns:
        """The columns with these indices."""
        names = tuple(self.names[i] for i in indices)
        if self.matrix is not None:
            return Columns(names, self.n_rows, matrix=self.matrix[:, indices])
        if self.sparse is not None:
            return Columns(names, self.n_rows, sparse=self.sparse.select(indices))
        return Columns(names, self.n_rows, columns=tuple(self[i] for i in indices))


def is_missing(value: Any) -> bool:
    """Whether a Python object means "missing": None, NaN, NA, NaT or a masked value."""
    # By name: pandas' NA and NaT must be recognized without importing pandas.
    if type(value).__name__ in {"NoneType", "NAType", "NaTType", "MaskedConstant"}:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # a signaling NaN must not be compared
    # Only NaN and NumPy's NaT differ from themselves.
    return isinstance(value, (float, np.generic)) and bool(value != value)


def level_text(value: Any) -> str:
    """The name of a level. 3.0 becomes "3": pandas stores integers as floats beside a missing value.

    >>> level_text(3.0), level_text(2.5), level_text(True), level_text("red")
    ('3', '2.5', 'True', 'red')
    """
    if not isinstance(value, (float, np.floating, Decimal)):
        return str(value)
    number = float(value)
    return str(int(number)) if abs(number) < 2**53 and number.is_integer() else repr(number)


def find_level(text: str, index_of: Mapping[str, float]) -> float:
    """The index of a level, -1 if it is unknown; "3.0" also matches the level "3", and "nan" is missing (NaN).

    >>> find_level("3.0", {"2": 0.0, "3": 1.0}), find_level("03", {"3": 1.0})
    (1.0, -1.0)
    """
    index = index_of.get(text)
    if index is not None:
        return index
    if "_" in text or LEADING_ZERO.fullmatch(text):  # identifiers
        return -1.0
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return math.nan if math.isnan(number) else index_of.get(level_text(number), -1.0)


def weigh_codes(codes: np.ndarray, n_levels: int, weights: np.ndarray | None) -> np.ndarray:
    """(levels,) The weight of the rows of each level."""
    return np.bincount(codes + 1, weights, n_levels + 1)[1:]  # code -1 (missing) is first


def list_names(names: Collection[str], limit: int = 20) -> str:
    """Quoted names for a message, shortened to the first `limit`."""
    listed = ", ".join(map(repr, list(names)[:limit]))
    return listed if len(names) <= limit else f"{listed} and {len(names) - limit} more"


def describe_missing(missing: Sequence[str], given: Sequence[str]) -> str:
    """The error message for missing columns, with the nearest given name of each."""
    message = f"Missing column(s): {list_names(missing)}. The columns given: {list_names(given)}."
    near = {name: find_nearest(name, given) for name in missing[:20]}
    hints = [f"{found!r} may be {name!r}" for name, found in near.items() if found is not None]
    return f"{message} Add or rename: {', '.join(hints)}." if hints else f"{message} Add them."


def check_finite(name: str, values: np.ndarray) -> None:
    """Raise for infinite values; NaN is missing."""
    if np.isinf(values).any():
        raise ValueError(
            f"column {name!r} holds infinite values; neuralbasis expects finite numbers or missing values (NaN): "
            "replace them, for example with NaN or with the largest finite value"
        )


def distinct_values(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Distinct non-missing values in increasing order, and the weight of each."""
    if weights is None:
        distinct, counts = np.unique(values[~np.isnan(values)], return_counts=True)
        return distinct, counts.astype(float)
    known = ~np.isnan(values) & (weights > 0)
    distinct, inverse = np.unique(values[known], return_inverse=True)
    return distinct, np.bincount(inverse, weights[known], minlength=len(distinct))
