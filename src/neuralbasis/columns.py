"""Any table to plain named columns; the only module that knows data frames.

In: a NumPy array (plain, structured or masked), a SciPy sparse matrix, a pandas or polars frame, an Arrow table, a
mapping of name -> 1-D array, or a list of rows. Out: ``Columns``, where each column is either numbers (float64, NaN =
missing) or labels (int32 codes into text levels, -1 = missing). What is sparse stays sparse: see `stored`. Frames state
their types, so their text stays text; arrays of objects do not, so a column of texts such as "1.5" is read as numbers.
A column without a single value is numbers, all NaN.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set, Sized
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from .printable import escape
from .stored import Stored, read_entries, read_matrix

if TYPE_CHECKING:
    from narwhals import DataFrame, Series

_NUMERIC = "fiub"  # NumPy's letters for float, signed, unsigned, bool
_REAL = (numbers.Real, Decimal, np.bool_)
# By name: pandas' NA and NaT must be known without importing pandas.
_MISSING = {"NoneType", "NAType", "NaTType", "MaskedConstant"}
MISSING_TEXTS = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "nan", "NaN", "-nan", "-NaN", "null", "NULL")  # of a CSV file
_MAX_LISTED = 20
_RESHAPE = (
    "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
    "or array.reshape(1, -1) if it contains a single sample."
)


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
    """

    name: str
    numbers: np.ndarray | None
    codes: np.ndarray | None = None
    levels: tuple[str, ...] | None = None
    ordered: bool = False

    def to_numbers(self) -> Column:
        """The column as numbers, its levels parsed.

        Examples
        --------
        >>> Column("size", None, np.array([1, -1, 0], dtype=np.int32), ("10", "2.5")).to_numbers().numbers
        array([ 2.5,  nan, 10. ])
        """
        if self.codes is None or self.levels is None:
            return self
        parsed = [_parse_level(self.name, level) for level in self.levels]
        # Code -1 (missing) picks the last entry.
        return Column(self.name, np.array([*parsed, np.nan])[self.codes])

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
    stored: Stored | None = None

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
    return np.array([_read_row(row, names, places) for row in rows], dtype=np.float64)


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
    row: Mapping[str, Any], names: Sequence[str], places: Sequence[Mapping[str, float] | None]
) -> list[float]:
    if not isinstance(row, Mapping):
        raise TypeError(f"Expected every row to be a mapping of name -> value, got {type(row).__name__}.")
    try:
        values = [row[name] for name in names]
    except KeyError:
        missing = [name for name in names if name not in row]
        raise ValueError(_describe_missing(missing, [str(name) for name in row])) from None
    found = []
    for name, value, known in zip(names, values, places, strict=True):
        if known is None:
            found.append(value if type(value) is float else _read_number(name, value))
        else:
            number = known.get(value) if type(value) is str else None
            found.append(_read_level(name, value, known) if number is None else number)
    return found


def _read_number(name: str, value: Any) -> float:
    if type(value) is int:
        return _to_float(value)
    if is_missing(value):
        return math.nan
    _check_kinds(name, {type(value)})
    return _to_float(value) if isinstance(value, _REAL) else _parse_level(name, level_text(value))


def _read_level(name: str, value: Any, known: Mapping[str, float]) -> float:
    """The number of a value that is not itself the text of a level: "3.0" is read as 3, as in an array."""
    if is_missing(value):
        return math.nan
    _check_kinds(name, {type(value)})
    text = level_text(value)
    try:
        number = _to_float(value if isinstance(value, _REAL) else text)
    except ValueError:
        return known.get(text, -1.0)
    return math.nan if math.isnan(number) else known.get(level_text(number), known.get(text, -1.0))


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
    columns = tuple(_read_array(name, X[:, i], parse_text=True) for i, name in enumerate(names))
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
    return Columns(names, n_rows, named=named, stored=read_matrix(X, names, absent))


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
    columns = tuple(_read_array(name, array, parse_text=True) for name, array in zip(names, arrays, strict=True))
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


def _read_sparse_columns(frame: DataFrame[Any], names: Sequence[str]) -> Stored | None:
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
        return _read_array(name, series.to_numpy(), parse_text=False)
    if dtype.is_temporal():
        raise _temporal_error(name, str(dtype))
    if dtype.is_nested():
        raise _value_error(name, str(dtype))
    if isinstance(dtype, (nw.String, nw.Categorical, nw.Enum)):
        return _read_labels(name, series)
    # These come out of to_numpy as Python objects, or not at all.
    if isinstance(dtype, (nw.Boolean, nw.Decimal, nw.Int128, nw.UInt128)):
        series = series.cast(nw.Float64)
    return _read_array(name, series.to_numpy(), parse_text=False)


def _read_labels(name: str, series: Series[Any]) -> Column:
    import narwhals.stable.v2 as nw

    arrow_type = getattr(series.to_native(), "type", None)
    ordered = isinstance(series.dtype, nw.Enum) or getattr(arrow_type, "ordered", False)
    declared = _find_declared_levels(series)
    if "string_view" in str(arrow_type):  # Arrow can neither look it up nor, in a dictionary, cast it
        series = nw.new_series(name, series.to_list(), nw.String, backend="pyarrow")
    values = series.unique().drop_nulls().to_list()
    if values:
        codes = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32).to_numpy()
        return _label(name, np.nan_to_num(codes, nan=-1).astype(np.int32), values, declared, ordered)
    if declared is None:
        return Column(name, np.full(len(series), np.nan))
    return _label(name, np.full(len(series), -1), [], declared, ordered)


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


def _label(name: str, codes: np.ndarray, values: list[Any], declared: list[Any] | None, ordered: bool) -> Column:
    """Labels from codes into values; values that are written alike are one level."""
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
    return Column(name, None, places[codes], tuple(levels), ordered)


def _read_array(name: str, values: np.ndarray, parse_text: bool) -> Column:
    """One column from a 1-D array of any type."""
    _check_real(f"column {name!r}", values)
    values = _fill_masked(values)
    if values.dtype.kind in "mM":
        raise _temporal_error(name, str(values.dtype))
    if values.dtype.kind in _NUMERIC:
        return Column(name, np.asarray(values, dtype=np.float64))
    return _read_objects(name, values.astype(object), parse_text)


def _read_objects(name: str, values: np.ndarray, parse_text: bool) -> Column:
    present = np.ones(len(values), dtype=bool)
    if set(map(type, values)) != {str}:
        present = ~np.fromiter(map(is_missing, values), dtype=bool, count=len(values))
    items = values[present]
    kinds = set(map(type, items))
    _check_kinds(name, kinds)
    if all(issubclass(kind, (*_REAL, str) if parse_text else _REAL) for kind in kinds):
        try:
            parsed = np.full(len(values), np.nan)
            parsed[present] = np.fromiter(map(_to_float, items), dtype=np.float64, count=len(items))
            return Column(name, parsed)
        except ValueError:
            pass  # a text that is not a number: the column is labels
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
    # Only NaN and NumPy's NaT differ from themselves.
    return isinstance(value, (float, np.generic, Decimal)) and bool(value != value)


def level_text(value: Any) -> str:
    """The name of a level: 3.0 is "3", so that integers stored as floats beside a missing value keep their name."""
    if not isinstance(value, (float, np.floating, Decimal)):
        return str(value)
    number = float(value)
    return str(int(number)) if abs(number) < 2**53 and number.is_integer() else repr(number)


def _to_float(value: Any) -> float:
    # Python reads "10_2" as 102; in a table it is an identifier.
    if isinstance(value, str) and "_" in value:
        raise ValueError(value)
    try:
        return float(value)
    except OverflowError:  # an integer beyond float64: infinite, as float("1e400") is
        return math.inf if value > 0 else -math.inf


def _parse_level(name: str, level: str) -> float:
    try:
        return _to_float(level)
    except ValueError:
        raise ValueError(
            f"Column {name!r}: expected numbers, got {level!r}. Correct or remove such values, "
            "or declare the column categorical in feature_types."
        ) from None


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
