"""Any table to plain named columns; the only module that knows data frames.

In: a NumPy array (plain, structured or masked), a SciPy sparse matrix, a pandas or polars frame, an Arrow table, a
mapping of name -> 1-D array, or a list of rows. Out: ``Columns``, where each column is either numbers (float64, NaN =
missing) or labels (int32 codes into text levels, -1 = missing). What is sparse stays sparse: see `stored`. Text stays
text here, in every container; `Column.parse` reads it as numbers and reports how many texts are numbers. Text whose
levels the table does not declare is numbers to a fit if nearly all of it is (`encoder.settle_texts`). A column without
a single value is numbers, all NaN.
"""

from __future__ import annotations

import math
import numbers
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from ..printable import escape
from .sparse import SparseMatrix, read_entries, read_sparse

if TYPE_CHECKING:
    from narwhals import DataFrame, Series

_NUMERIC = "fiub"  # NumPy's letters for float, signed, unsigned, bool
_REAL = (numbers.Real, Decimal, np.bool_)
# By name: pandas' NA and NaT must be known without importing pandas.
_MISSING = {"NoneType", "NAType", "NaTType", "MaskedConstant"}
MISSING_TEXTS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "-nan", "-NaN", "null", "NULL")  # of a CSV file
# Texts that stand for a missing value in a column of numbers, besides NaN, in lower case.
_MISSING_NUMBERS = {text.lower() for text in MISSING_TEXTS} | {"none", "?", "-", "."}
NEARLY_ALL = 0.9  # share of numbers from which text is read as numbers
_THOUSANDS = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]*)?")
_PADDED = re.compile(r"\s*[+-]?0[0-9]+\s*")  # an identifier such as a ZIP code
_MAX_LISTED = 20
_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
    "or array.reshape(1, -1) if it contains a single sample."
)


@dataclass(frozen=True)
class TextFacts:
    """What the texts of a column are.

    Attributes
    ----------
    n_numbers, n_others : float
        Weight of the texts that are numbers, and of those that are neither numbers nor missing.
    is_padded : bool
        Whether some text is an integer with a leading zero, which identifiers have and numbers do not.
    formatted, other : str or None
        Examples of a number with separators or a percent sign, and of a text that is not a number.
    """

    n_numbers: float = 0.0
    n_others: float = 0.0
    is_padded: bool = False
    formatted: str | None = None
    other: str | None = None

    def __add__(self, more: TextFacts) -> TextFacts:
        return TextFacts(
            self.n_numbers + more.n_numbers,
            self.n_others + more.n_others,
            self.is_padded or more.is_padded,
            self.formatted if self.formatted is not None else more.formatted,
            self.other if self.other is not None else more.other,
        )

    @property
    def are_numbers(self) -> bool:
        """Whether nearly all texts that are not missing are numbers."""
        return self.n_numbers >= NEARLY_ALL * (self.n_numbers + self.n_others)

    @property
    def look_like_numbers(self) -> bool:
        """The same of a column of which nothing else is known: some texts are numbers, none is an identifier."""
        return self.are_numbers and self.n_numbers > 0 and not self.is_padded

    def require_numbers(self, name: str) -> None:
        """Warn of some texts that are not numbers, refuse many."""
        if not self.are_numbers:
            raise ValueError(
                f"Column {name!r}: expected numbers, got {self.other!r}. Correct or remove such values, "
                "or declare the column categorical in feature_types."
            )
        if self.n_others > 0:
            warnings.warn(f"column {name!r} holds numbers, but {self._describe_others()}", stacklevel=2)

    def warn_of_numbers(self, name: str) -> None:
        """Inform that a fit reads the texts of a column as numbers."""
        parts = [f"column {name!r} holds numbers as text and is read as numbers"]
        if self.formatted is not None:
            parts.append(f"{self.formatted!r} is read as {parse_number(self.formatted):.12g}")
        if self.n_others > 0:
            parts.append(self._describe_others())
        warnings.warn(
            f"{'; '.join(parts)}; to keep the texts as labels, set its feature_types to 'nominal'", stacklevel=2
        )

    def _describe_others(self) -> str:
        total = self.n_numbers + self.n_others
        is_count = self.n_others.is_integer() and total.is_integer()
        share = f"{self.n_others:,.0f} of {total:,.0f}" if is_count else f"{self.n_others / total:.2%} of the"
        return f"{share} values are not numbers, such as {self.other!r}, and are read as missing"


@dataclass(frozen=True, eq=False)
class Column:
    """One raw column: either numbers or labels.

    Attributes
    ----------
    name : str
    numbers : ndarray of shape (N,), float64, or None
        NaN is missing.
    codes : ndarray of shape (N,), int32, or None
        Places in ``levels``; -1 is missing.
    levels : tuple of str or None
    ordered : bool
        Whether the table declares an order of its levels.
    declared : bool
        Whether the table declares the levels: its type is categorical, an enumeration or a dictionary.
    """

    name: str
    numbers: np.ndarray | None
    codes: np.ndarray | None = None
    levels: tuple[str, ...] | None = None
    ordered: bool = False
    declared: bool = False

    def parse(self, weights: np.ndarray | None = None) -> tuple[Column, TextFacts]:
        """The column as numbers, NaN where a text is not a number, and the facts of its texts in rows of these weights.

        Examples
        --------
        >>> texts = Column("price", None, np.array([0, 1, 2, 1], dtype=np.int32), ("1,200", "40 %", "free"))
        >>> column, facts = texts.parse()
        >>> column.numbers, facts.n_others, facts.are_numbers
        (array([1200.,   40.,   nan,   40.]), 1.0, False)
        """
        if self.codes is None or self.levels is None:
            return self, TextFacts()
        known = self.codes >= 0
        mass = np.bincount(self.codes[known], None if weights is None else weights[known], len(self.levels))
        numbers, facts = parse_texts(self.levels, mass)
        return Column(self.name, np.r_[numbers, np.nan][self.codes]), facts  # code -1 (missing) picks the last

    def to_numbers(self) -> Column:
        """The column as numbers, its levels parsed; text that is hardly numbers is refused.

        Examples
        --------
        >>> Column("size", None, np.array([1, -1, 0], dtype=np.int32), ("10", "2.5")).to_numbers().numbers
        array([ 2.5,  nan, 10. ])
        """
        column, facts = self.parse()
        facts.require_numbers(self.name)
        return column

    def to_labels(self) -> Column:
        """The column as labels, its levels sorted by value; an integer-valued float is written as an integer.

        Examples
        --------
        >>> column = Column("grade", np.array([3.0, np.nan, 2.5])).to_labels()
        >>> column.levels, column.codes
        (('2.5', '3'), array([ 1, -1,  0], dtype=int32))
        """
        if self.numbers is None:
            return self
        present = ~np.isnan(self.numbers)
        values, places = np.unique(self.numbers[present], return_inverse=True)
        codes = np.full(len(self.numbers), -1, dtype=np.int32)
        codes[present] = places
        return Column(self.name, None, codes, tuple(map(level_text, values.tolist())))


@dataclass(frozen=True, eq=False)
class Columns:
    """A table: one ``matrix`` of shape (N, D), float32 or float64 as it came, a tuple of D ``columns``, or ``stored``
    entries; one of them."""

    names: tuple[str, ...]
    n_rows: int
    matrix: np.ndarray | None = None
    columns: tuple[Column, ...] | None = None
    named: bool = True  # False where the table has no names of its own and none were given
    stored: SparseMatrix | None = None

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, i: int) -> Column:
        if self.matrix is not None:
            return Column(self.names[i], self.matrix[:, i].astype(np.float64, copy=False))
        if self.stored is not None:
            return Column(self.names[i], self.stored.read_column(i))
        assert self.columns is not None
        return self.columns[i]

    def __iter__(self) -> Iterator[Column]:
        return (self[i] for i in range(len(self)))

    def select(self, names: Iterable[str]) -> Columns:
        """The columns of these names, in this order; other columns are left out.

        Examples
        --------
        >>> table = read_columns({"age": [31, 45], "city": ["Oslo", "Rome"]})
        >>> table.select(["city", "age"]).names
        ('city', 'age')
        """
        names = tuple(names)
        if names == self.names:
            return self
        place = {name: i for i, name in enumerate(self.names)}
        if missing := [name for name in names if name not in place]:
            raise ValueError(_describe_missing(missing, self.names))
        return self.take([place[name] for name in names])

    def take(self, places: Sequence[int]) -> Columns:
        """The columns at these places."""
        names = tuple(self.names[i] for i in places)
        if self.matrix is not None:
            return Columns(names, self.n_rows, matrix=self.matrix[:, places])
        if self.stored is not None:
            return Columns(names, self.n_rows, stored=self.stored.select(places))
        return Columns(names, self.n_rows, columns=tuple(self[i] for i in places))


def read_columns(X: Any, names: Sequence[str] | None = None, absent: float = 0.0) -> Columns:
    """Read a table.

    Parameters
    ----------
    X : array, sparse matrix, data frame, Arrow table, mapping of name -> 1-D array, or list of rows
        N rows, D columns. A pandas frame of nothing but sparse columns with one fill value stays sparse.
    names : sequence of D str, optional
        Names for the columns, instead of the table's own. A table without names has ``feature_0000``, ...
    absent : float
        What a SciPy sparse matrix holds where it stores nothing; a frame has its own fill value.

    Returns
    -------
    Columns

    Examples
    --------
    >>> table = read_columns([[1.5, "red"], [None, "blue"]], names=["size", "colour"])
    >>> table[0].numbers
    array([1.5, nan])
    >>> table[1].levels, table[1].codes
    (('blue', 'red'), array([1, 0], dtype=int32))
    """
    if _is_sparse(X):
        return _read_sparse(X, names, absent)
    if isinstance(X, np.ndarray):
        return _read_ndarray(X, names)
    if isinstance(X, Mapping):
        return _read_mapping(X, names)
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes, bytearray, memoryview)):
        return _read_ndarray(_read_rows(X), names)
    frame = _as_frame(X)
    if frame is not None:
        return _read_frame(frame, names)
    if hasattr(X, "__array__"):
        return _read_ndarray(np.asarray(X), names)
    raise TypeError(
        "Expected a table (a NumPy array, a SciPy sparse matrix, a pandas or polars data frame, an Arrow table, a "
        f"mapping of name -> 1-D array, or a list of rows), got {type(X).__name__}. Convert it to one of these."
    )


def find_rows(X: Any) -> Sequence[Mapping[str, Any]] | None:
    """Rows given as mappings of name -> value: one, or a list of them; None for any other table.

    Examples
    --------
    >>> find_rows({"age": 31})
    [{'age': 31}]
    >>> find_rows({"age": [31, 45]}) is None
    True
    """
    if isinstance(X, Mapping):  # so is one of SciPy's sparse matrices
        return [X] if any(map(_is_single, X.values())) and not _is_sparse(X) else None
    return X if isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping) else None


def read_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], places: Sequence[Mapping[str, float] | None]
) -> np.ndarray:
    """Numbers (N, D) of rows given as mappings; the quick way for few rows.

    Parameters
    ----------
    rows : mappings of name -> value; None and NaN are missing values
    names : the columns to read
    places : for each column the number of every level, None for a column of numbers

    Returns
    -------
    ndarray of shape (N, D), float64
        NaN is missing, -1 a level that is not in `places`.

    Examples
    --------
    >>> read_rows([{"age": 31, "city": "Oslo"}, {"age": None, "city": "Bern"}], ["age", "city"], [None, {"Oslo": 0.0}])
    array([[31.,  0.],
           [nan, -1.]])
    """
    odd: set[int] = set()
    found = np.array([_read_row(row, names, places, odd) for row in rows], dtype=np.float64)
    for index in odd:  # among other texts, some may be numbers
        values = np.array([*(row[names[index]] for row in rows), None], dtype=object)[:-1]
        numbers = _read_objects(names[index], values).to_numbers().numbers
        assert numbers is not None
        found[:, index] = numbers
    return found


def write_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas frame of records, one line each; pandas is imported when somebody asks for one."""
    try:
        import pandas
    except ImportError as error:
        raise ImportError("a frame needs pandas: pip install pandas") from error
    return pandas.DataFrame(list(rows))


def read_frame(path: str) -> Any:
    """The table in a CSV (.csv, .csv.gz) or Parquet (.parquet, .pq) file, as an Arrow table."""
    import narwhals

    read = narwhals.read_parquet if path.endswith((".parquet", ".pq")) else narwhals.read_csv
    try:
        return read(path, backend="pyarrow").to_native()
    except ValueError as error:  # Arrow's errors of contents are such
        reason = escape(str(error))
        raise ValueError(f"{path}: expected a table in CSV or Parquet, but it cannot be read: {reason}") from error


def _read_row(
    row: Mapping[str, Any], names: Sequence[str], places: Sequence[Mapping[str, float] | None], odd: set[int]
) -> list[float]:
    """The numbers of a row; columns of numbers that hold other text are noted as odd."""
    if not isinstance(row, Mapping):
        raise TypeError(f"Expected every row to be a mapping of name -> value, got {type(row).__name__}.")
    try:
        values = [row[name] for name in names]
    except KeyError:
        missing = [name for name in names if name not in row]
        raise ValueError(_describe_missing(missing, [str(name) for name in row])) from None
    found: list[float] = []
    for name, value, known in zip(names, values, places, strict=True):
        if known is None:
            number = value if type(value) is float else _read_number(name, value)
            if number is None:
                odd.add(len(found))
            found.append(math.nan if number is None else number)
        else:
            place = known.get(value) if type(value) is str else None
            found.append(_read_level(name, value, known) if place is None else place)
    return found


def _read_number(name: str, value: Any) -> float | None:
    if type(value) is int:
        return _to_float(value)
    if is_missing(value):
        return math.nan
    _check_kinds(name, {type(value)})
    return _to_float(value) if isinstance(value, _REAL) else parse_number(level_text(value))


def _read_level(name: str, value: Any, known: Mapping[str, float]) -> float:
    if is_missing(value):
        return math.nan
    _check_kinds(name, {type(value)})
    text = level_text(value)
    if isinstance(value, _REAL):  # True is 1 in an array
        return known.get(level_text(_to_float(value)), known.get(text, -1.0))
    return find_level(text, known)


def find_level(text: str, known: Mapping[str, float]) -> float:
    """The number of a level, -1 for one that is not known; "3.0" also stands for the level "3", "nan" for missing.

    >>> find_level("3.0", {"2": 0.0, "3": 1.0}), find_level("03", {"3": 1.0})
    (1.0, -1.0)
    """
    place = known.get(text)
    if place is not None:
        return place
    if "_" in text or _PADDED.fullmatch(text):  # identifiers
        return -1.0
    try:
        number = float(text)
    except ValueError:
        return -1.0
    return math.nan if math.isnan(number) else known.get(level_text(number), -1.0)


def parse_number(text: str) -> float | None:
    """The number that a text writes, NaN where it stands for a missing value, None for any other text.

    Thousands may be separated by commas; a percentage is read as the number before its sign.

    >>> [parse_number(text) for text in (" +1,200.5", "40 %", "1e3", "N/A", "12_0", "0x1F", "1,5")]
    [1200.5, 40.0, 1000.0, nan, None, None, None]
    """
    try:
        return None if "_" in text else float(text)  # Python reads "10_2" as 102; in a table it is an identifier
    except ValueError:
        pass
    text = text.strip()
    if text.lower() in _MISSING_NUMBERS:
        return math.nan
    plain = text.removesuffix("%").rstrip()
    if _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    if plain == text:
        return None
    try:
        return float(plain)
    except ValueError:
        return None


def parse_texts(texts: Sequence[str], mass: np.ndarray) -> tuple[np.ndarray, TextFacts]:
    """The numbers of texts, NaN for missing and other texts, and the facts of texts of these weights."""
    found = [parse_number(text) for text in texts]
    numbers = np.array([math.nan if number is None else number for number in found], dtype=np.float64)
    is_other = np.array([number is None for number in found], dtype=bool) & (mass > 0)
    is_number = ~np.isnan(numbers) & (mass > 0)
    others, parsed = np.flatnonzero(is_other).tolist(), [texts[index] for index in np.flatnonzero(is_number).tolist()]
    facts = TextFacts(
        n_numbers=float(mass[is_number].sum()),
        n_others=float(mass[is_other].sum()),
        is_padded=any(map(_PADDED.fullmatch, parsed)),
        formatted=next((text for text in parsed if "," in text or "%" in text), None),
        other=texts[others[0]] if others else None,
    )
    return numbers, facts


def _is_single(value: Any) -> bool:
    return isinstance(value, str) or not (hasattr(value, "__len__") or hasattr(value, "__iter__"))


def _read_ndarray(X: np.ndarray, names: Sequence[str] | None) -> Columns:
    if X.dtype.names is not None:
        return _read_mapping({field: X[field] for field in X.dtype.names}, names)
    _check_real("X", X)
    _check_two_dimensional(X)
    n_rows, n_columns = X.shape
    _check_not_empty(n_rows, n_columns)
    named = names is not None
    names = _number_columns(n_columns, names)
    X = _fill_masked(X)
    if X.dtype.kind in _NUMERIC:
        single = X.dtype == np.float32  # a wide table of them would not fit in memory twice over
        return Columns(names, n_rows, matrix=X if single else np.asarray(X, dtype=np.float64), named=named)
    columns = tuple(_read_array(name, X[:, i]) for i, name in enumerate(names))
    return Columns(names, n_rows, columns=columns, named=named)


def _is_sparse(X: Any) -> bool:
    """A matrix of SciPy, told without importing it."""
    return hasattr(X, "tocsr") and hasattr(X, "nnz")


def _read_sparse(X: Any, names: Sequence[str] | None, absent: float) -> Columns:
    if len(X.shape) != 2:
        raise ValueError(f"Expected a 2D sparse matrix, got {len(X.shape)} dimension(s). Give it rows and columns.")
    _check_real("X", X)
    if X.dtype.kind not in _NUMERIC:
        raise TypeError(f"Expected a sparse matrix of numbers, got values of type {X.dtype}. Convert it to numbers.")
    n_rows, n_columns = X.shape
    _check_not_empty(n_rows, n_columns)
    named, names = names is not None, _number_columns(n_columns, names)
    return Columns(names, n_rows, named=named, stored=read_sparse(X, names, absent))


def _read_rows(rows: Sequence[Any]) -> np.ndarray:
    array = _as_array(rows)
    lengths = {len(row) for row in rows if isinstance(row, Sized) and not isinstance(row, (str, Mapping))}
    if array.ndim == 1 and len(lengths) > 1:
        raise ValueError(
            "Expected 2D array, got rows of different lengths: "
            f"from {min(lengths)} to {max(lengths)} values. Give every row one value per column."
        )
    return array


def _read_mapping(X: Mapping[Any, Any], names: Sequence[str] | None) -> Columns:
    names = _name_columns(list(X), names)
    arrays = [values if isinstance(values, np.ndarray) else _as_array(values) for values in X.values()]
    for name, array in zip(names, arrays, strict=True):
        if array.ndim != 1:
            raise ValueError(f"Column {name!r}: expected a 1-D sequence of values, got {array.ndim} dimension(s).")
        if len(array) != len(arrays[0]):
            raise ValueError(
                f"Column {name!r} has {len(array)} value(s) but column {names[0]!r} has {len(arrays[0])}. "
                "Give every column one value per row."
            )
    n_rows = len(arrays[0]) if arrays else 0
    _check_not_empty(n_rows, len(arrays))
    columns = tuple(_read_array(name, array) for name, array in zip(names, arrays, strict=True))
    return Columns(names, n_rows, columns=columns)


def _as_frame(X: Any) -> DataFrame[Any] | None:
    """X as a narwhals frame, or None if it is not a data frame."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as error:
        raise ValueError(f"{error}\nRename the columns so that each name comes once.") from None
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    if isinstance(frame, nw.DataFrame):
        return frame
    # Arrow's record batches; the schema tells them from Arrow's arrays, which stream too.
    if hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema"):
        return nw.from_arrow(X, backend="pyarrow")
    return None


def _read_frame(frame: DataFrame[Any], names: Sequence[str] | None) -> Columns:
    n_rows, n_columns = frame.shape
    names = _name_columns(frame.columns, names)
    _check_not_empty(n_rows, n_columns)
    stored = _read_sparse_columns(frame, names)
    if stored is not None:
        return Columns(names, n_rows, stored=stored)
    columns = tuple(_read_series(name, series) for name, series in zip(names, frame.iter_columns(), strict=True))
    return Columns(names, n_rows, columns=columns)


def _read_sparse_columns(frame: DataFrame[Any], names: Sequence[str]) -> SparseMatrix | None:
    """pandas columns that are all sparse, of numbers and with one fill value; None for any other frame."""
    native = frame.to_native()
    if not hasattr(native, "sparse"):  # pandas' own answer: all columns are sparse
        return None
    arrays = [series.array for _, series in native.items()]
    fills = np.array([array.fill_value for array in arrays], dtype=object)
    if any(array.sp_values.dtype.kind not in _NUMERIC for array in arrays) or any(map(_is_odd_fill, fills)):
        return None
    absent = float(fills[0])
    if not all(fill == absent or (fill != fill and absent != absent) for fill in map(float, fills)):
        return None
    entries = [(array.sp_index.to_int_index().indices, array.sp_values) for array in arrays]
    return read_entries(entries, len(native), names, absent)


def _is_odd_fill(fill: Any) -> bool:
    return not isinstance(fill, _REAL) or math.isinf(fill)


def _read_series(name: str, series: Series[Any]) -> Column:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    native = getattr(series.to_native(), "dtype", None)
    # narwhals calls pandas' object columns text after a look at their first values only.
    if isinstance(native, np.dtype) and native.kind == "O":
        return _read_array(name, series.to_numpy())
    if dtype.is_temporal():
        raise _temporal_error(name, str(dtype))
    if dtype.is_nested():
        raise _value_error(name, str(dtype))
    if isinstance(dtype, (nw.String, nw.Categorical, nw.Enum)):
        return _read_labels(name, series)
    # These come out of to_numpy as Python objects, or not at all.
    if isinstance(dtype, (nw.Boolean, nw.Decimal, nw.Int128, nw.UInt128)):
        series = series.cast(nw.Float64)
    return _read_array(name, series.to_numpy())


def _read_labels(name: str, series: Series[Any]) -> Column:
    import narwhals.stable.v2 as nw

    arrow_type = getattr(series.to_native(), "type", None)
    ordered = isinstance(series.dtype, nw.Enum) or getattr(arrow_type, "ordered", False)
    declared, is_declared = _find_declared_levels(series), not isinstance(series.dtype, nw.String)
    if "string_view" in str(arrow_type):  # Arrow can neither look it up nor, in a dictionary, cast it
        series = nw.new_series(name, series.to_list(), nw.String, backend="pyarrow")
    values = series.unique().drop_nulls().to_list()
    if values:
        codes = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32).to_numpy()
        return _label(name, np.nan_to_num(codes, nan=-1).astype(np.int32), values, declared, ordered, is_declared)
    if declared is None:
        return Column(name, np.full(len(series), np.nan))
    return _label(name, np.full(len(series), -1), [], declared, ordered, is_declared)


def _find_declared_levels(series: Series[Any]) -> list[Any] | None:
    """The levels in the table's own order; None where it has no such order."""
    import narwhals.stable.v2 as nw

    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    native = series.to_native()
    is_arrow = hasattr(getattr(native, "type", None), "index_type")
    # Polars keeps the levels of a Categorical in the order in which the process met them: not a declaration.
    if is_arrow or (not series.implementation.is_polars() and hasattr(native, "cat")):
        return series.cat.get_categories().to_list()
    return None


def _label(
    name: str, codes: np.ndarray, values: list[Any], declared: list[Any] | None, ordered: bool, is_declared: bool
) -> Column:
    """Labels from codes into values, levels in the declared order if there is one; equal texts are one level."""
    texts = [None if is_missing(value) else level_text(value) for value in values]
    used = {text for text in texts if text is not None}
    if declared is None:
        levels = sorted(used)
    else:
        order = dict.fromkeys(level_text(value) for value in declared if not is_missing(value))
        levels = [text for text in order if ordered or text in used]
    place = {text: i for i, text in enumerate(levels)}
    # Code -1 (missing) picks the last entry.
    places = np.array([*(-1 if text is None else place[text] for text in texts), -1], dtype=np.int32)
    return Column(name, None, places[codes], tuple(levels), ordered, is_declared)


def _read_array(name: str, values: np.ndarray) -> Column:
    """One column from a 1-D array of any type."""
    _check_real(f"column {name!r}", values)
    values = _fill_masked(values)
    if values.dtype.kind in "mM":
        raise _temporal_error(name, str(values.dtype))
    if values.dtype.kind in _NUMERIC:
        return Column(name, np.asarray(values, dtype=np.float64))
    return _read_objects(name, values.astype(object))


def _read_objects(name: str, values: np.ndarray) -> Column:
    present = np.ones(len(values), dtype=bool)
    if set(map(type, values)) != {str}:
        present = ~np.fromiter(map(is_missing, values), dtype=bool, count=len(values))
    items = values[present]
    kinds = set(map(type, items))
    _check_kinds(name, kinds)
    if all(issubclass(kind, _REAL) for kind in kinds):
        parsed = np.full(len(values), np.nan)
        parsed[present] = np.fromiter(map(_to_float, items), dtype=np.float64, count=len(items))
        return Column(name, parsed)
    texts = items if kinds == {str} else list(map(level_text, items))
    levels = sorted(set(texts))
    place = {text: i for i, text in enumerate(levels)}
    codes = np.full(len(values), -1, dtype=np.int32)
    codes[present] = np.fromiter(map(place.__getitem__, texts), dtype=np.int32, count=len(texts))
    return Column(name, None, codes, tuple(levels))


def _as_array(values: Any) -> np.ndarray:
    """A NumPy array of numbers, or else of untouched objects (NumPy alone would write a None beside text as text)."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in _NUMERIC + "c":
            return array
    except ValueError:
        pass  # ragged: an array of objects can hold it
    return np.array(values, dtype=object)


def _fill_masked(array: np.ndarray) -> np.ndarray:
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if array.dtype.kind in _NUMERIC:
        return np.ma.filled(array.astype(np.float64), np.nan)
    filled = np.array(array.data, dtype=object)
    filled[np.ma.getmaskarray(array)] = None
    return filled


def is_missing(value: Any) -> bool:
    if type(value).__name__ in _MISSING:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()  # a signaling NaN must not be compared
    # Only NaN and NumPy's NaT differ from themselves.
    return isinstance(value, (float, np.generic)) and bool(value != value)


def level_text(value: Any) -> str:
    """The name of a level: 3.0 is "3", so that integers stored as floats beside a missing value keep their name."""
    if not isinstance(value, (float, np.floating, Decimal)):
        return str(value)
    number = float(value)
    return str(int(number)) if abs(number) < 2**53 and number.is_integer() else repr(number)


def _to_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer beyond float64: infinite, as float("1e400") is
        return math.inf if value > 0 else -math.inf


def _number_columns(count: int, names: Sequence[str] | None) -> tuple[str, ...]:
    """The given names, or numbers."""
    return _name_columns([f"feature_{i:04d}" for i in range(count)], names)


def _name_columns(came: Sequence[Any], names: Sequence[str] | None) -> tuple[str, ...]:
    if names is not None and (not isinstance(names, Iterable) or isinstance(names, (str, Mapping, Set))):
        raise ValueError(f"feature_names must be a list of one name per column, not {names!r}.")
    chosen = tuple(map(str, came if names is None else names))
    if len(chosen) != len(came):
        raise ValueError(f"Expected one name per column: {len(came)} column(s), got {len(chosen)} name(s).")
    if len(set(chosen)) < len(chosen):
        repeated = [name for name, count in Counter(chosen).items() if count > 1]
        raise ValueError(
            f"Expected unique column names, got more than once: {list_names(repeated)}. "
            "Rename the columns so that each name comes once."
        )
    return chosen


def list_names(names: Collection[str]) -> str:
    """At most a line of them, quoted."""
    listed = ", ".join(map(repr, list(names)[:_MAX_LISTED]))
    return listed if len(names) <= _MAX_LISTED else f"{listed} and {len(names) - _MAX_LISTED} more"


def _describe_missing(missing: Sequence[str], came: Sequence[str]) -> str:
    message = f"Missing column(s): {list_names(missing)}. The columns that came: {list_names(came)}."
    close = {name: get_close_matches(name, came, n=1) for name in missing[:_MAX_LISTED]}
    hints = [f"{found[0]!r} may be {name!r}" for name, found in close.items() if found]
    return f"{message} Add or rename: {', '.join(hints)}." if hints else f"{message} Add them."


def _check_two_dimensional(X: np.ndarray) -> None:
    # scikit-learn's texts: its estimator checks, and its users, know them.
    if X.ndim < 2:
        kind = "scalar" if X.ndim == 0 else "1D"
        raise ValueError(f"Expected 2D array, got {kind} array instead:\narray={X}.\n{_RESHAPE}")
    if X.ndim > 2:
        raise ValueError(f"Found array with dim {X.ndim}, while dim <= 2 is required.")


def _check_not_empty(n_rows: int, n_columns: int) -> None:
    for count, unit in ((n_rows, "sample(s)"), (n_columns, "feature(s)")):
        if count == 0:
            shape = (n_rows, n_columns)
            raise ValueError(
                f"Found array with 0 {unit} (shape={shape}) while a minimum of 1 is required. "
                "The table is empty: check how it was read or filtered."
            )


def _check_real(what: str, values: Any) -> None:
    if values.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {what} holds {values.dtype} values. Give real and imaginary parts as columns."
        )


def _check_kinds(name: str, kinds: set[type]) -> None:
    """Refuse values that are neither numbers nor fit to be the name of a level."""
    for kind in kinds:
        if issubclass(kind, (*_REAL, str)) and kind is not np.timedelta64:  # which NumPy calls an integer
            continue
        if issubclass(kind, numbers.Complex):
            raise ValueError(f"Complex data not supported: column {name!r} holds {kind.__name__} values.")
        # strftime: dates and times of the standard library, and pandas' Timestamp and Period.
        if hasattr(kind, "strftime") or issubclass(kind, (timedelta, np.datetime64, np.timedelta64)):
            raise _temporal_error(name, kind.__name__)
        has_text = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
        if issubclass(kind, (Iterable, Sized)) or not has_text:
            raise _value_error(name, kind.__name__)


def _temporal_error(name: str, kind: str) -> TypeError:
    return TypeError(
        f"Column {name!r}: expected numbers or labels, got dates or times ({kind}). Convert it to a number "
        "(such as days since a date) or to parts (such as the month or the hour)."
    )


def _value_error(name: str, kind: str) -> TypeError:
    return TypeError(
        f"Column {name!r} holds values of type {kind}: argument must be a string or a number. "
        "Convert the column to numbers or text, or leave it out."
    )
