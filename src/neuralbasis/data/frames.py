"""Tables in memory to `Columns`; the only module that reads data frames.

In: what `read_columns` lists. Out: `Columns`. Sparse tables stay sparse, and text stays text. Objects that are all real
numbers become numbers, others with a text form become labels. Dates, nested values, bytes and complex numbers raise an
error that names the column. A column without a single value is all NaN.
"""

from __future__ import annotations

import math
import numbers
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set, Sized
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from ..printable import escape
from .columns import Column, Columns, is_missing, level_text, list_names
from .sparse import SparseMatrix, is_sparse, read_entries, read_sparse

if TYPE_CHECKING:
    from narwhals import DataFrame, Series

NUMERIC = "fiub"  # NumPy's letters for float, signed, unsigned, bool
REAL = (numbers.Real, Decimal, np.bool_)


def read_columns(X: Any, names: Sequence[str] | None = None, absent: float = 0.0) -> Columns:
    """Read a table.

    Parameters
    ----------
    X : NumPy array, SciPy sparse matrix, pandas or polars frame, Arrow table, mapping of name -> 1-D array, or rows
        Arrays may be structured or masked. A pandas frame with all columns sparse and one fill value stays sparse.
    names : sequence of D str, optional
        Names for the columns, instead of the table's own. Without any, columns are ``feature_0000``, ...
    absent : float
        The value of the entries that a SciPy sparse matrix does not store; a frame has its own fill value.

    Examples
    --------
    >>> table = read_columns([[1.5, "red"], [None, "blue"]], names=["size", "colour"])
    >>> table[0].numbers
    array([1.5, nan])
    >>> table[1].levels, table[1].codes
    (('blue', 'red'), array([1, 0], dtype=int32))
    """
    if is_sparse(X):
        return _read_sparse_matrix(X, names, absent)
    if isinstance(X, np.ndarray):
        return _read_ndarray(X, names)
    if isinstance(X, Mapping):
        return _read_mapping(X, names)
    if isinstance(X, Sequence) and not isinstance(X, (str, bytes, bytearray, memoryview)):
        array = as_array(X)
        lengths = {len(row) for row in X if isinstance(row, Sized) and not isinstance(row, (str, Mapping))}
        if array.ndim == 1 and len(lengths) > 1:
            raise ValueError(
                "Expected 2D array, got rows of different lengths: "
                f"from {min(lengths)} to {max(lengths)} values. Give every row one value per column."
            )
        return _read_ndarray(array, names)
    if (frame := _as_frame(X)) is not None:
        return _read_frame(frame, names)
    if hasattr(X, "__array__"):
        return _read_ndarray(np.asarray(X), names)
    raise TypeError(
        "Expected a table (a NumPy array, a SciPy sparse matrix, a pandas or polars data frame, an Arrow table, a "
        f"mapping of name -> 1-D array, or a list of rows), got {type(X).__name__}. Convert it to one of these."
    )


def write_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """A pandas frame of records, one row each; pandas is imported on the first call."""
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
    except ValueError as error:  # Arrow raises ValueError for invalid contents
        reason = escape(str(error))
        raise ValueError(f"{path}: expected a table in CSV or Parquet, but it cannot be read: {reason}") from error


def _read_ndarray(X: np.ndarray, names: Sequence[str] | None) -> Columns:
    if X.dtype.names is not None:
        return _read_mapping({field: X[field] for field in X.dtype.names}, names)
    check_real("X", X)
    # scikit-learn's messages: its estimator checks compare them, and its users know them.
    if X.ndim < 2:
        raise ValueError(
            f"Expected 2D array, got {'scalar' if X.ndim == 0 else '1D'} array instead:\narray={X}.\n"
            "Reshape your data either using array.reshape(-1, 1) if your data has a single feature "
            "or array.reshape(1, -1) if it contains a single sample."
        )
    if X.ndim > 2:
        raise ValueError(f"Found array with dim {X.ndim}, while dim <= 2 is required.")
    n_rows, n_columns = X.shape
    named, names = names is not None, _choose_names(n_columns, names, n_rows)
    X = fill_masked(X)
    if X.dtype.kind in NUMERIC:
        is_single = X.dtype == np.float32  # kept: a wide table might not fit in memory in double precision
        return Columns(names, n_rows, matrix=X if is_single else np.asarray(X, dtype=np.float64), named=named)
    columns = tuple(read_array(name, X[:, i]) for i, name in enumerate(names))
    return Columns(names, n_rows, columns=columns, named=named)


def _read_sparse_matrix(X: Any, names: Sequence[str] | None, absent: float) -> Columns:
    if len(X.shape) != 2:
        raise ValueError(f"Expected a 2D sparse matrix, got {len(X.shape)} dimension(s). Give it rows and columns.")
    check_real("X", X)
    if X.dtype.kind not in NUMERIC:
        raise TypeError(f"Expected a sparse matrix of numbers, got values of type {X.dtype}. Convert it to numbers.")
    n_rows, n_columns = X.shape
    named, names = names is not None, _choose_names(n_columns, names, n_rows)
    return Columns(names, n_rows, named=named, sparse=read_sparse(X, names, absent))


def _read_mapping(X: Mapping[Any, Any], names: Sequence[str] | None) -> Columns:
    arrays = [values if isinstance(values, np.ndarray) else as_array(values) for values in X.values()]
    names = _choose_names(list(X), names, max(map(np.size, arrays), default=0))
    for name, array in zip(names, arrays, strict=True):
        if array.ndim != 1:
            raise ValueError(f"Column {name!r}: expected a 1-D sequence of values, got {array.ndim} dimension(s).")
        if len(array) != len(arrays[0]):
            raise ValueError(
                f"Column {name!r} has {len(array)} value(s) but column {names[0]!r} has {len(arrays[0])}. "
                "Give every column one value per row."
            )
    columns = tuple(read_array(name, array) for name, array in zip(names, arrays, strict=True))
    return Columns(names, len(arrays[0]), columns=columns)


def _as_frame(X: Any) -> DataFrame[Any] | None:
    """X as a narwhals frame, or None if it is not a data frame."""
    import narwhals.stable.v2 as nw
    from narwhals.exceptions import DuplicateError

    try:
        frame = nw.from_native(X, pass_through=True)
    except DuplicateError as error:
        raise ValueError(f"{error}\nRename the columns: each name must be unique.") from None
    if isinstance(frame, nw.LazyFrame):
        return frame.collect()
    if isinstance(frame, nw.DataFrame):
        return frame
    # Arrow's record batches; Arrow's arrays stream too, but have no schema.
    if hasattr(X, "__arrow_c_stream__") and hasattr(X, "schema"):
        return nw.from_arrow(X, backend="pyarrow")
    return None


def _read_frame(frame: DataFrame[Any], names: Sequence[str] | None) -> Columns:
    n_rows = len(frame)
    names = _choose_names(frame.columns, names, n_rows)
    if (sparse := _read_sparse_columns(frame, names)) is not None:
        return Columns(names, n_rows, sparse=sparse)
    columns = tuple(_read_series(name, series) for name, series in zip(names, frame.iter_columns(), strict=True))
    return Columns(names, n_rows, columns=columns)


def _read_sparse_columns(frame: DataFrame[Any], names: Sequence[str]) -> SparseMatrix | None:
    """pandas columns that are all sparse and numeric with one fill value; None for any other frame."""
    native = frame.to_native()
    if not hasattr(native, "sparse"):  # pandas has this accessor if all columns are sparse
        return None
    arrays = [series.array for _, series in native.items()]
    fills = np.array([array.fill_value for array in arrays], dtype=object)
    is_numeric = all(array.sp_values.dtype.kind in NUMERIC for array in arrays)
    if not is_numeric or any(not isinstance(fill, REAL) or math.isinf(fill) for fill in fills):
        return None
    absent = float(fills[0])
    if not all(fill == absent or (fill != fill and absent != absent) for fill in map(float, fills)):
        return None
    entries = [(array.sp_index.to_int_index().indices, array.sp_values) for array in arrays]
    return read_entries(entries, len(native), names, absent)


def _read_series(name: str, series: Series[Any]) -> Column:
    import narwhals.stable.v2 as nw

    dtype = series.dtype
    native = getattr(series.to_native(), "dtype", None)
    # narwhals calls pandas' object columns text after checking only their first values.
    if isinstance(native, np.dtype) and native.kind == "O":
        return read_array(name, series.to_numpy())
    if dtype.is_temporal():
        raise temporal_error(name, str(dtype))
    if dtype.is_nested():
        raise type_error(name, str(dtype))
    if isinstance(dtype, (nw.String, nw.Categorical, nw.Enum)):
        return _read_labels(name, series)
    # to_numpy gives Python objects for these types, or fails.
    if isinstance(dtype, (nw.Boolean, nw.Decimal, nw.Int128, nw.UInt128)):
        series = series.cast(nw.Float64)
    return read_array(name, series.to_numpy())


def _read_labels(name: str, series: Series[Any]) -> Column:
    import narwhals.stable.v2 as nw

    arrow_type = getattr(series.to_native(), "type", None)
    ordered = isinstance(series.dtype, nw.Enum) or getattr(arrow_type, "ordered", False)
    order, is_declared = _find_declared_levels(series), not isinstance(series.dtype, nw.String)
    if "string_view" in str(arrow_type):  # Arrow can neither look it up nor, in a dictionary, cast it
        series = nw.new_series(name, series.to_list(), nw.String, backend="pyarrow")
    values = series.unique().drop_nulls().to_list()
    codes = np.full(len(series), -1, dtype=np.int32)
    if values:
        found = series.replace_strict(values, list(range(len(values))), return_dtype=nw.Int32).to_numpy()
        codes = np.nan_to_num(found, nan=-1).astype(np.int32)
    elif order is None:
        return Column(name, np.full(len(series), np.nan))
    texts = [None if is_missing(value) else level_text(value) for value in values]  # equal texts become one level
    levels = sorted({text for text in texts if text is not None})
    if order is not None:
        used, declared = set(levels), [level_text(value) for value in order if not is_missing(value)]
        levels = [text for text in dict.fromkeys(declared) if ordered or text in used]
    index_of = {text: i for i, text in enumerate(levels)}
    indices = np.array([*(-1 if text is None else index_of[text] for text in texts), -1], dtype=np.int32)
    return Column(name, None, indices[codes], tuple(levels), ordered, is_declared)  # code -1 (missing) picks the last


def _find_declared_levels(series: Series[Any]) -> list[Any] | None:
    """The levels in the order that the table declares; None if it declares none."""
    import narwhals.stable.v2 as nw

    if isinstance(series.dtype, nw.Enum):
        return list(series.dtype.categories)
    native = series.to_native()
    is_arrow = hasattr(getattr(native, "type", None), "index_type")
    # Polars lists the levels of a Categorical in the order in which the process first saw them: not a declaration.
    if is_arrow or (not series.implementation.is_polars() and hasattr(native, "cat")):
        return series.cat.get_categories().to_list()
    return None


def _choose_names(own: Sequence[Any] | int, names: Sequence[str] | None, n_rows: int) -> tuple[str, ...]:
    """The given names, or the table's own (or numbers, if it has only a number of columns); one per column, unique."""
    if names is not None and (not isinstance(names, Iterable) or isinstance(names, (str, Mapping, Set))):
        raise ValueError(f"feature_names must be a list of one name per column, not {names!r}.")
    own = [f"feature_{i:04d}" for i in range(own)] if isinstance(own, int) else own
    chosen = tuple(map(str, own if names is None else names))
    if len(chosen) != len(own):
        raise ValueError(f"Expected one name per column: {len(own)} column(s), got {len(chosen)} name(s).")
    if len(set(chosen)) < len(chosen):
        repeated = [name for name, count in Counter(chosen).items() if count > 1]
        raise ValueError(
            f"Expected unique column names, got more than once: {list_names(repeated)}. "
            "Rename the columns: each name must be unique."
        )
    if n_rows == 0 or not chosen:
        raise ValueError(
            f"Found array with 0 {'sample' if n_rows == 0 else 'feature'}(s) (shape={(n_rows, len(chosen))}) while a "
            "minimum of 1 is required. The table is empty: check how it was read or filtered."
        )
    return chosen


def read_array(name: str, values: np.ndarray) -> Column:
    """One column from a 1-D array of any type."""
    check_real(f"column {name!r}", values)
    values = fill_masked(values)
    if values.dtype.kind in "mM":
        raise temporal_error(name, str(values.dtype))
    if values.dtype.kind in NUMERIC:
        return Column(name, np.asarray(values, dtype=np.float64))
    return read_objects(name, values.astype(object))


def read_objects(name: str, values: np.ndarray) -> Column:
    """One column from a 1-D array of Python objects."""
    present = np.ones(len(values), dtype=bool)
    if set(map(type, values)) != {str}:
        present = ~np.fromiter(map(is_missing, values), dtype=bool, count=len(values))
    items = values[present]
    kinds = set(map(type, items))
    check_types(name, kinds)
    if all(issubclass(kind, REAL) for kind in kinds):
        parsed = np.full(len(values), np.nan)
        parsed[present] = np.fromiter(map(to_float, items), dtype=np.float64, count=len(items))
        return Column(name, parsed)
    texts = items if kinds == {str} else list(map(level_text, items))
    levels = sorted(set(texts))
    index_of = {text: i for i, text in enumerate(levels)}
    codes = np.full(len(values), -1, dtype=np.int32)
    codes[present] = np.fromiter(map(index_of.__getitem__, texts), dtype=np.int32, count=len(texts))
    return Column(name, None, codes, tuple(levels))


def as_array(values: Any) -> np.ndarray:
    """A NumPy array of numbers, or else of unchanged objects (NumPy alone would convert a None beside text to text)."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in NUMERIC + "c":
            return array
    except ValueError:
        pass  # ragged: an array of objects can hold it
    return np.array(values, dtype=object)


def fill_masked(array: np.ndarray) -> np.ndarray:
    """A masked array as a plain one, with NaN or None for masked values; other arrays unchanged."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if array.dtype.kind in NUMERIC:
        return np.ma.filled(array.astype(np.float64), np.nan)
    filled = np.array(array.data, dtype=object)
    filled[np.ma.getmaskarray(array)] = None
    return filled


def to_float(value: Any) -> float:
    """A real number as float; integers beyond float64 become infinite, as float("1e400") does."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_real(what: str, values: Any) -> None:
    """Raise for arrays of complex numbers."""
    if values.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {what} holds {values.dtype} values. Give real and imaginary parts as columns."
        )


def check_types(name: str, kinds: set[type]) -> None:
    """Raise for types of values that are neither numbers nor usable as the name of a level."""
    for kind in kinds:
        if issubclass(kind, (*REAL, str)) and kind is not np.timedelta64:  # which NumPy calls an integer
            continue
        if issubclass(kind, numbers.Complex):
            raise ValueError(f"Complex data not supported: column {name!r} holds {kind.__name__} values.")
        # strftime: dates and times of the standard library, and pandas' Timestamp and Period.
        if hasattr(kind, "strftime") or issubclass(kind, (timedelta, np.datetime64, np.timedelta64)):
            raise temporal_error(name, kind.__name__)
        has_text = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
        if issubclass(kind, (Iterable, Sized)) or not has_text:
            raise type_error(name, kind.__name__)


def temporal_error(name: str, kind: str) -> TypeError:
    """The error for dates and times."""
    return TypeError(
        f"Column {name!r}: expected numbers or labels, got dates or times ({kind}). Convert it to a number "
        "(such as days since a date) or to parts (such as the month or the hour)."
    )


def type_error(name: str, kind: str) -> TypeError:
    """The error for values that are neither numbers nor text."""
    return TypeError(
        f"Column {name!r} holds values of type {kind}: argument must be a string or a number. "
        "Convert the column to numbers or text, or leave it out."
    )
