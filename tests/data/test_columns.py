"""columns: every kind of table gives the same plain columns, and every refusal names the column and the way out."""

import datetime
import enum
import os
import re
import subprocess
import sys
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data.columns import Column, Columns
from neuralbasis.data.frames import read_columns
from neuralbasis.data.records import find_rows, read_rows
from neuralbasis.data.text_numbers import TextFacts, parse_number
from neuralbasis.encoding.axis import Axis, level_axis
from neuralbasis.encoding.encoder import Encoder

NAN = float("nan")
TEXT_DTYPES = ["U2", object, *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else [])]


def plain(column):
    """A column as Python values: (values, levels, ordered), with None for missing."""
    if column.numbers is not None:
        assert column.numbers.dtype == np.float64
        assert column.codes is None
        assert column.levels is None
        return [None if np.isnan(value) else value for value in column.numbers.tolist()], None, False
    assert column.codes.dtype == np.int32
    assert all(type(level) is str for level in column.levels)
    values = [None if code == -1 else column.levels[code] for code in column.codes.tolist()]
    return values, column.levels, column.ordered


def read_one(values, kind=None):
    """The single column of a table."""
    table = read_columns({"x": values} if kind is None else kind({"x": values}))
    assert table.names == ("x",)
    assert len(table) == 1
    return plain(table[0])


def object_column(*values):
    array = np.empty((len(values), 1), dtype=object)
    for i, value in enumerate(values):
        array[i, 0] = value
    return array


# NumPy arrays


@pytest.mark.parametrize(
    "dtype", ["f2", "f8", "g", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "bool", ">f4", ">f8", ">i4"]
)
def test_numeric_arrays_become_a_float64_matrix(dtype):
    X = np.array([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    table = read_columns(X)
    assert table.names == ("feature_0000", "feature_0001", "feature_0002")
    assert (table.n_rows, table.columns) == (2, None)
    assert table.matrix.dtype == np.dtype("float64")
    assert table.matrix.dtype.isnative
    assert table.matrix.tolist() == [[0.0, 1.0, 1.0], [1.0, 0.0, 1.0]]


def test_single_precision_is_kept_and_its_columns_are_float64():
    X = np.array([[0.1, 1.0], [np.nan, 0.0]], dtype=np.float32)
    table = read_columns(X)
    assert np.shares_memory(table.matrix, X)
    assert table[0].numbers.dtype == np.dtype("float64")
    np.testing.assert_array_equal(table[0].numbers, [np.float32(0.1), np.nan])
    assert np.shares_memory(table.select(["feature_0000", "feature_0001"]).matrix, X)


@pytest.mark.parametrize("order", ["C", "F"])
def test_float64_is_not_copied(order):
    X = np.asarray(np.arange(6.0).reshape(2, 3), order=order)
    X.flags.writeable = False
    table = read_columns(X)
    assert np.shares_memory(table.matrix, X)
    assert table.matrix.strides == X.strides
    assert np.shares_memory(table[1].numbers, X)
    assert table[1].numbers.tolist() == [1.0, 4.0]


def test_converted_arrays_keep_their_order():
    assert read_columns(np.ones((3, 2), dtype=np.int32, order="F")).matrix.flags.f_contiguous
    assert read_columns(np.ones((3, 2), dtype=np.int32, order="C")).matrix.flags.c_contiguous


def test_matrix_columns_are_reached_by_place():
    table = read_columns(np.array([[1.0, 2.0], [3.0, np.inf]]), names=["a", "b"])
    assert [column.name for column in table] == ["a", "b"]
    assert table[-1].name == "b"
    assert table[-1].numbers.tolist() == [2.0, np.inf]
    with pytest.raises(IndexError):
        table[2]


def test_structured_array_fields_are_names():
    X = np.array([(1, "a"), (2, "b")], dtype=[("size", "i4"), ("city", "U3")])
    table = read_columns(X)
    assert table.names == ("size", "city")
    assert plain(table[0])[0] == [1.0, 2.0]
    assert plain(table[1]) == (["a", "b"], ("a", "b"), False)


def test_structured_array_with_a_wide_field():
    with pytest.raises(ValueError, match=r"Column 'y': expected a 1-D sequence of values, got 2 dimension"):
        read_columns(np.array([(1, [1, 2])], dtype=[("x", "i4"), ("y", "i4", 2)]))


def test_masked_values_are_missing():
    mask = [[0, 1], [0, 0]]
    numbers = read_columns(np.ma.array([[1, 2], [3, 4]], mask=mask)).matrix
    np.testing.assert_array_equal(numbers, [[1.0, NAN], [3.0, 4.0]])
    texts = read_columns(np.ma.array([["a", "b"], ["c", "d"]], mask=mask))
    assert [plain(column)[0] for column in texts] == [["a", "c"], [None, "d"]]
    assert read_one(np.ma.array([1, 2], mask=[1, 0]))[0] == [None, 2.0]


@pytest.mark.parametrize(
    ("X", "texts"),
    [
        (np.ones(3), ["Expected 2D array, got 1D array instead", "Reshape your data"]),
        (np.float64(3), ["Expected 2D array, got scalar array instead", "Reshape your data"]),
        (np.array("a"), ["Expected 2D array, got scalar array instead", "Reshape your data"]),
        (np.ones((1, 2, 3)), ["Found array with dim 3"]),
        (np.ones((2, 2), dtype=complex), ["Complex data not supported"]),
        (np.ones((0, 3)), ["Found array with 0 sample(s) (shape=(0, 3)) while a minimum of 1 is required."]),
        (np.ones((3, 0)), ["0 feature(s) (shape=(3, 0)) while a minimum of 1 is required."]),
        ([1.0, 2.0], ["Expected 2D array, got 1D array instead"]),
        (["a", "b"], ["Expected 2D array, got 1D array instead"]),
        ([], ["Expected 2D array, got 1D array instead"]),
        ([[]], ["0 feature(s) (shape=(1, 0))"]),
        ([[[1.0]]], ["Found array with dim 3"]),
        ([[1j]], ["Complex data not supported"]),
        ([[1j, "a"]], ["Complex data not supported", "'feature_0000'"]),
        ([[1, 2], [3]], ["rows of different lengths: from 1 to 2"]),
        (pd.Series([1.0]), ["Expected 2D array, got 1D array instead"]),
        (pl.Series([1.0]), ["Expected 2D array, got 1D array instead"]),
        (pa.chunked_array([[1.0]]), ["Expected 2D array, got 1D array instead"]),
        (pd.DataFrame({"x": [1j]}), ["Complex data not supported"]),
        (pd.DataFrame({"x": []}), ["0 sample(s) (shape=(0, 1))"]),
        (pd.DataFrame(index=range(3)), ["0 feature(s) (shape=(3, 0))"]),
        (pl.DataFrame(), ["0 sample(s) (shape=(0, 0))"]),
        ({}, ["0 sample(s) (shape=(0, 0))"]),
        ({"x": []}, ["0 sample(s) (shape=(0, 1))"]),
    ],
)
def test_wrong_shapes_and_complex_numbers(X, texts):
    with pytest.raises(ValueError) as caught:
        read_columns(X)
    assert all(text in str(caught.value) for text in texts)


def test_array_likes_are_read_as_arrays():
    class ArrayLike:
        def __array__(self, dtype=None, copy=None):
            return np.array([[1, 2]], dtype=dtype)

    assert read_columns(ArrayLike()).matrix.tolist() == [[1.0, 2.0]]


# Arrays of objects or text, and lists of rows


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, 2.5, True, np.float32(0.5), np.int8(3), np.True_, Decimal("1.5"), Fraction(1, 4)], None),
        (
            [None, NAN, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN"), Decimal("sNaN"), 1],
            [None] * 8 + [1.0],
        ),
        ([None, pd.NA], [None, None]),
        ([10**400, -(10**400), 1], [np.inf, -np.inf, 1.0]),
    ],
)
def test_objects_that_are_numbers(values, expected):
    expected = [float(value) for value in values] if expected is None else expected
    assert plain(read_columns(object_column(*values))[0]) == (expected, None, False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["b", "a", "b"], ["b", "a", "b"]),
        (["a", None, NAN, pd.NA, pd.NaT], ["a", None, None, None, None]),
        (["a", 3.0, 3, 2.5, Decimal("3.0"), np.float64(3)], ["a", "3", "3", "2.5", "3", "3"]),
        (["a", 1e300, np.inf, -0.0], ["a", "1e+300", "inf", "0"]),
        (["a", True, 1], ["a", "True", "1"]),
        (["10_2", "3"], ["10_2", "3"]),
        (["", "1"], ["", "1"]),
        ([True, "2"], ["True", "2"]),
        (["1", " 2.5 ", 4, 0.5], ["1", " 2.5 ", "4", "0.5"]),
        ([np.str_("a"), "a"], ["a", "a"]),
        ([Colour.RED, None], ["Colour.RED", None]),
    ],
)
def test_objects_that_are_labels(values, expected):
    levels = tuple(sorted({text for text in expected if text is not None}))
    assert plain(read_columns(object_column(*values))[0]) == (expected, levels, False)


@pytest.mark.parametrize("dtype", TEXT_DTYPES)
def test_text_arrays_are_read_column_by_column(dtype):
    table = read_columns(np.array([["a", "10"], ["b", "9"]], dtype=dtype), names=["city", "size"])
    assert table.matrix is None
    assert plain(table[0]) == (["a", "b"], ("a", "b"), False)
    assert plain(table[1]) == (["10", "9"], ("10", "9"), False)
    assert plain(table[1].to_numbers()) == ([10.0, 9.0], None, False)


@pytest.mark.parametrize("rows", [[[1, "a"], [None, "b"]], ((1, "a"), (None, "b"))])
def test_lists_of_rows(rows):
    table = read_columns(rows, names=["size", "city"])
    assert [plain(column)[0] for column in table] == [[1.0, None], ["a", "b"]]


def test_a_missing_value_beside_text_stays_missing():
    # np.array(["a", nan]) alone would write the text "nan".
    assert plain(read_columns([["a"], [NAN], [None]])[0]) == (["a", None, None], ("a",), False)


def test_lists_of_numbers_become_a_matrix():
    np.testing.assert_array_equal(read_columns([[1, True], [2.5, False]]).matrix, [[1.0, 1.0], [2.5, 0.0]])
    assert read_columns([np.array([1, 2]), np.array([3, 4])]).matrix.tolist() == [[1.0, 2.0], [3.0, 4.0]]


@pytest.mark.parametrize("value", [{"a": 1}, [1], {1}, (1,), b"a", bytearray(b"a"), np.ones(2), object()])
@pytest.mark.parametrize("kind", [dict, lambda columns: pd.DataFrame(columns, dtype=object)], ids=["dict", "pandas"])
def test_values_that_are_neither_numbers_nor_text(value, kind):
    values = np.full(200, "text", dtype=object)
    values[150:151] = object_column(value)[:, 0]
    with pytest.raises(TypeError, match=f"Column 'x' .* {type(value).__name__}: argument must be a string or a number"):
        read_columns(kind({"x": values}))


def test_bytes_arrays_are_refused():
    with pytest.raises(TypeError, match="Column 'feature_0000' holds values of type bytes: argument must be"):
        read_columns(np.array([[b"a"]]))


# Data frames

FRAME_KINDS = [
    pd.DataFrame,
    pl.DataFrame,
    pl.LazyFrame,
    pa.table,
    pa.RecordBatch.from_pydict,
    lambda columns: narwhals.from_native(pl.DataFrame(columns)),
]


@pytest.mark.parametrize("kind", FRAME_KINDS)
def test_frames_state_their_types(kind):
    table = read_columns(kind({"size": [1.5, None], "age": [3, 4], "adult": [True, False], "code": ["2", None]}))
    assert table.names == ("size", "age", "adult", "code")
    assert table.n_rows == 2
    assert table.matrix is None
    assert [plain(column)[0] for column in table] == [[1.5, None], [3.0, 4.0], [1.0, 0.0], ["2", None]]


@pytest.mark.parametrize(
    "series",
    [
        pd.Series([1, None], dtype="Int64"),
        pd.Series([1, None], dtype="Float64"),
        pd.Series([True, None], dtype="boolean"),
        pd.Series([1, None], dtype=pd.ArrowDtype(pa.int64())),
        pd.Series([True, None], dtype=pd.ArrowDtype(pa.bool_())),
        pd.Series([Decimal(1), None], dtype=pd.ArrowDtype(pa.decimal128(5, 2))),
        pd.Series([Decimal(1), None], dtype=object),
        pd.Series([True, None], dtype=object),
        pd.Series([1.0, NAN], dtype="float16"),
        pd.Series(pd.arrays.SparseArray([1.0, NAN])),
    ],
    ids=lambda series: str(series.dtype),
)
def test_pandas_numbers(series):
    assert plain(read_columns(series.to_frame("x"))[0]) == ([1.0, None], None, False)


def test_pandas_sparse_integers():
    assert read_one(pd.arrays.SparseArray([0, 2]), pd.DataFrame)[0] == [0.0, 2.0]


@pytest.mark.parametrize(
    "dtype",
    [pl.Float32, pl.Int8, pl.UInt8, pl.Int64, pl.Int128, pl.UInt64, pl.Boolean, pl.Decimal(5, 2)],
    ids=str,
)
def test_polars_numbers(dtype):
    frame = pl.DataFrame({"x": pl.Series([1, None]).cast(dtype)})
    assert plain(read_columns(frame)[0]) == ([1.0, None], None, False)
    if dtype != pl.Int128:
        assert plain(read_columns(frame.to_arrow())[0]) == ([1.0, None], None, False)


def test_integers_beyond_float64_are_rounded():
    for kind in (pd.DataFrame, pl.DataFrame, pa.table, dict):
        assert read_one([2**53 + 1, 1], kind)[0] == [2.0**53, 1.0]


def test_frame_floats_are_not_copied():
    frame = pd.DataFrame(np.ones((3, 2)), columns=["a", "b"])
    assert np.shares_memory(read_columns(frame)[1].numbers, frame["b"].to_numpy())


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame({"x": [None, None]}),
        pd.DataFrame({"x": pd.Series([None, None], dtype="str")}),
        pd.DataFrame({"x": pd.Series([pd.NA, NAN], dtype=object)}),
        pl.DataFrame({"x": [None, None]}),
        pl.DataFrame({"x": pl.Series([None, None], dtype=pl.String)}),
        pa.table({"x": pa.nulls(2)}),
        pa.table({"x": pa.nulls(2, pa.string())}),
        {"x": [None, None]},
    ],
)
def test_columns_without_a_value_are_numbers(X):
    assert plain(read_columns(X)[0]) == ([None, None], None, False)


@pytest.mark.parametrize(
    "series",
    [
        pd.Series(["b", None, "a"], dtype=dtype)
        for dtype in ("str", "string", pd.StringDtype("python"), object, pd.ArrowDtype(pa.string()))
    ]
    + [pd.Series(pd.array(["b", None, "a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))))],
    ids=lambda series: str(series.dtype),
)
def test_pandas_text(series):
    assert plain(read_columns(series.to_frame("x"))[0]) == (["b", None, "a"], ("a", "b"), False)


@pytest.mark.parametrize("text_type", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_arrow_text(text_type):
    assert read_one(pa.array(["b", None, "a"], text_type), pa.table) == (["b", None, "a"], ("a", "b"), False)


def test_pandas_objects_are_not_parsed():
    assert read_one(pd.Series(["1", None, "2"], dtype=object), pd.DataFrame) == (["1", None, "2"], ("1", "2"), False)
    assert read_one(pd.Series(["1", 2.0], dtype=object), pd.DataFrame) == (["1", "2"], ("1", "2"), False)
    assert read_one(pd.Series([1, None, 2.5], dtype=object), pd.DataFrame)[0] == [1.0, None, 2.5]


def test_a_late_number_in_a_pandas_object_column_is_seen():
    values = pd.Series(["a"] * 150 + [3.0], dtype=object)
    assert read_one(values, pd.DataFrame)[1] == ("3", "a")


@pytest.mark.parametrize(
    ("values", "levels", "expected", "written"),
    [
        (["b", None, "a"], ["b", "u", "a"], ["b", None, "a"], ["b", "u", "a"]),
        ([3, None, 10], [10, 4, 3], ["3", None, "10"], ["10", "4", "3"]),
        ([3.0, None, 2.5], [3.0, 1.0, 2.5], ["3", None, "2.5"], ["3", "1", "2.5"]),
        ([True, None, True], [True, False], ["True", None, "True"], ["True", "False"]),
        ([None, None], ["a", "b"], [None, None], ["a", "b"]),
    ],
)
@pytest.mark.parametrize("ordered", [False, True])
@pytest.mark.parametrize("to_arrow", [False, True])
def test_categories_keep_the_declared_order(values, levels, expected, written, ordered, to_arrow):
    frame = pd.DataFrame({"x": pd.Categorical(values, categories=levels, ordered=ordered)})
    used = tuple(level for level in written if ordered or level in expected)
    table = read_columns(pa.Table.from_pandas(frame) if to_arrow else frame)
    assert plain(table[0]) == (expected, used, ordered)


def test_pandas_intervals():
    bins = pd.cut(pd.Series([0.5, None, 2.5]), [0, 1, 2, 3])
    expected = (["(0, 1]", None, "(2, 3]"], ("(0, 1]", "(1, 2]", "(2, 3]"), True)
    assert read_one(bins, pd.DataFrame) == expected


def test_categories_written_alike_are_one_level():
    assert read_one(pd.Categorical([1, "1", "x"]), pd.DataFrame) == (["1", "1", "x"], ("1", "x"), False)


@pytest.mark.parametrize("newest", [None, pl.CompatLevel.newest()])
def test_polars_enum_and_categorical(newest):
    frame = pl.DataFrame(
        {
            "rank": pl.Series(["low", None, "high"], dtype=pl.Enum(["low", "mid", "high"])),
            "city": pl.Series(["b", None, "a"], dtype=pl.Categorical),
        }
    )
    rank = (["low", None, "high"], ("low", "mid", "high"), True)
    assert [plain(column) for column in read_columns(frame)] == [rank, (["b", None, "a"], ("a", "b"), False)]
    # An Arrow dictionary does state an order of its levels.
    through_arrow = read_columns(frame.to_arrow(compat_level=newest))
    assert plain(through_arrow[0]) == rank
    assert plain(through_arrow[1])[0] == ["b", None, "a"]


def test_polars_categorical_does_not_depend_on_earlier_columns():
    earlier = pl.Series(["zz", "yy", "xx"], dtype=pl.Categorical)
    frame = pl.DataFrame({"x": pl.Series(["xx", "yy"], dtype=pl.Categorical)})
    assert plain(read_columns(frame)[0])[1] == ("xx", "yy")
    assert earlier.len() == 3


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.DictionaryArray.from_arrays([0, 1, None], ["q", None]), (["q", None, None], ("q",), False)),
        (pa.DictionaryArray.from_arrays([0, 1, None], ["q", "q"]), (["q", "q", None], ("q",), False)),
        (
            pa.chunked_array([pa.array(t).dictionary_encode() for t in (["b"], [None, "a"])]),
            (["b", None, "a"], ("b", "a"), False),
        ),
    ],
    ids=["null level", "repeated level", "two chunks"],
)
def test_arrow_dictionaries(array, expected):
    assert read_one(array, pa.table) == expected


DATES = [
    (pd.DataFrame, pd.to_datetime(["2020-01-01", None]), "Datetime"),
    (pd.DataFrame, pd.to_datetime(["2020-01-01", None], utc=True), "Datetime"),
    (pd.DataFrame, pd.to_timedelta([1, 2], unit="D"), "Duration"),
    (pd.DataFrame, pd.period_range("2020", periods=2, freq="D"), "Period"),
    (pd.DataFrame, pd.Series([datetime.date(2020, 1, 1), None], dtype=object), "date"),
    (pl.DataFrame, [datetime.date(2020, 1, 1), None], "Date"),
    (pl.DataFrame, [datetime.time(1), None], "Time"),
    (pl.DataFrame, [datetime.timedelta(1), None], "Duration"),
    (pa.table, [datetime.datetime(2020, 1, 1), None], "Datetime"),
    (dict, [datetime.datetime(2020, 1, 1), None], "datetime"),
    (dict, [datetime.timedelta(1), None], "timedelta"),
    (dict, np.array(["2020-01-01"], dtype="M8[ns]"), "datetime64[ns]"),
    (dict, [np.datetime64("2020-01-01"), "a"], "datetime64"),
]


@pytest.mark.parametrize(("kind", "values", "type_name"), DATES)
def test_dates_and_times_are_refused(kind, values, type_name):
    expected = rf"Column 'x': .* got dates or times \({re.escape(type_name)}.*\). Convert it to a number .* month"
    with pytest.raises(TypeError, match=expected):
        read_columns(kind({"x": values}))


@pytest.mark.parametrize(
    ("kind", "values", "type_name"),
    [
        (pl.DataFrame, [[1], None], "List"),
        (pl.DataFrame, pl.Series([[1, 2]], dtype=pl.Array(pl.Int64, 2)), "Array"),
        (pl.DataFrame, [{"a": 1}, None], "Struct"),
        (pl.DataFrame, [b"a", None], "bytes"),
        (pl.DataFrame, pl.Series([object()], dtype=pl.Object), "object"),
        (pa.table, [[1], None], "List"),
        (pa.table, [{"a": 1}, None], "Struct"),
        (pa.table, [b"a", None], "bytes"),
        (pd.DataFrame, [[1], None], "list"),
        (dict, [[1], [1, 2]], "list"),
    ],
)
def test_nested_and_binary_columns_are_refused(kind, values, type_name):
    with pytest.raises(TypeError, match=rf"Column 'x' .* {type_name}.*argument must be a string or a number"):
        read_columns(kind({"x": values}))


# Names


def test_names_rename_the_columns_of_any_table():
    for X in ([[1.0, 2.0]], {"a": [1.0], "b": [2.0]}, pd.DataFrame({"a": [1.0], "b": [2.0]})):
        table = read_columns(X, names=["u", "v"])
        assert table.names == ("u", "v") == tuple(column.name for column in table)
        assert [plain(column)[0] for column in table] == [[1.0], [2.0]]


@pytest.mark.parametrize("X", [np.ones((1, 2)), {"a": [1], "b": [2]}, pl.DataFrame({"a": [1], "b": [2]})])
def test_wrong_names(X):
    with pytest.raises(ValueError, match=r"one name per column: 2 column\(s\), got 1 name"):
        read_columns(X, names=["a"])
    with pytest.raises(ValueError, match=r"unique column names, got more than once: 'u'\. Rename"):
        read_columns(X, names=["u", "u"])


def test_names_that_are_not_text():
    assert read_columns(pd.DataFrame([[1, 2]])).names == ("0", "1")
    columns = pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")])
    assert read_columns(pd.DataFrame([[1, 2]], columns=columns)).names == ("('a', 'x')", "('a', 'y')")


@pytest.mark.parametrize(
    "X",
    [
        pd.DataFrame([[1, 2, 3]], columns=["a", "b", "a"]),
        pa.table([pa.array([1])] * 3, names=["a", "b", "a"]),
        {"b": [1], 1: [1], "1": [1]},
        pd.DataFrame([[1, 2, 3]], columns=["b", 1, "1"]),
    ],
)
def test_duplicate_names(X):
    with pytest.raises(ValueError, match=r"(?s)unique column names.*'[a1]'.*Rename") as caught:
        read_columns(X)
    assert "'b'" not in str(caught.value)


# Mappings and refusals


def test_mappings():
    X = OrderedDict(
        a=np.array([1, 2]), b=[True, None], c=("x", None), d=["1", "2"], e=pd.Series(["u", "v"]), f=pl.Series([1, None])
    )
    table = read_columns(X)
    assert table.names == tuple("abcdef")
    assert table.n_rows == 2
    expected = [[1.0, 2.0], [1.0, None], ["x", None], ["1", "2"], ["u", "v"], [1.0, None]]
    assert [plain(column)[0] for column in table] == expected


@pytest.mark.parametrize(
    ("X", "text"),
    [
        ({"a": [1, 2], "b": [1]}, r"Column 'b' has 1 value\(s\) but column 'a' has 2"),
        ({"a": 1}, r"Column 'a': expected a 1-D sequence of values, got 0 dimension"),
        ({"a": [[1], [2]]}, r"Column 'a': expected a 1-D sequence of values, got 2 dimension"),
    ],
)
def test_wrong_mappings(X, text):
    with pytest.raises(ValueError, match=text):
        read_columns(X)


@pytest.mark.parametrize("X", [None, "abc", b"abc", 3, {1, 2}, iter([[1]]), object])
def test_things_that_are_not_tables(X):
    with pytest.raises(TypeError, match=f"Expected a table .* got {type(X).__name__}"):
        read_columns(X)


# Numbers <-> labels


def test_to_labels_is_sorted_by_value():
    column = Column("x", np.array([10.0, NAN, 9.0, 2.5, 10.0, -0.0, 0.0, 2.0**53, np.inf])).to_labels()
    assert column.levels == ("0", "2.5", "9", "10", "9007199254740992.0", "inf")
    assert column.codes.tolist() == [3, -1, 2, 1, 3, 0, 0, 4, 5]
    assert column.codes.dtype == np.int32
    assert (column.name, column.numbers, column.ordered) == ("x", None, False)
    assert column.to_labels() is column


def test_to_numbers_parses_the_levels():
    labels = read_columns(pd.DataFrame({"x": ["2.5", None, "10"]}))[0]
    assert plain(labels)[1] == ("10", "2.5")
    column = labels.to_numbers()
    assert column.name == "x"
    assert plain(column) == ([2.5, None, 10.0], None, False)
    assert column.to_numbers() is column


NUMBERS = {
    "1.5": 1.5, " +2 ": 2.0, "-1e3": -1000.0, ".5": 0.5, "5.": 5.0, "1,200": 1200.0, "-12,345,678.9": -12345678.9,
    "40%": 40.0, "40 %": 40.0, "1,200 %": 1200.0, "007": 7.0, "1e400": np.inf,
}  # fmt: skip
NO_NUMBERS = ["red", "1_0", "10_2", "0x1F", "1,5", "12,34", "0,123", "1,2000", "%", "5 %%", "1 2", "--", "$5"]


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_texts_that_are_numbers(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "N/A", "NaN", "-nan", "Null", "None", "<NA>", "?", "-", "."])
def test_texts_that_stand_for_a_missing_number(text):
    assert np.isnan(parse_number(text))


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_texts_that_are_no_numbers(text):
    assert parse_number(text) is None


@given(st.integers(-(10**15), 10**15))
def test_separated_thousands_are_read_as_the_number(value):
    assert parse_number(f"{value:,}") == value


@given(st.text(max_size=8))
def test_any_text_is_a_number_missing_or_other(text):
    number = parse_number(text)
    assert number is None or isinstance(number, float)


def test_facts_of_texts():
    column = Column("x", None, np.array([0, 1, 1, 2, 3, -1], dtype=np.int32), ("1,200", "3", "NA", "low", "unused"))
    numbers, facts = column.parse()
    np.testing.assert_array_equal(numbers.numbers, [1200, 3, 3, NAN, NAN, NAN])
    assert facts == TextFacts(3.0, 1.0, False, "1,200", "low")
    _, facts = column.parse(np.array([1, 2, 2, 9, 0.5, 9]))
    assert (facts.n_numbers, facts.n_others, facts.are_numbers) == (5.0, 0.5, True)
    assert facts + TextFacts(1.0, 2.0, True, None, "b") == TextFacts(6.0, 2.5, True, "1,200", "low")


@pytest.mark.parametrize(
    ("n_others", "texts", "is_number"),
    [(0, ["7"], True), (1, ["7"], True), (2, ["7"], False), (0, ["7", "007"], False), (0, ["01.5", "0", "-0"], True)],
)
def test_the_rule_for_texts(n_others, texts, is_number):
    texts = [*texts, *(f"{i}" for i in range(10, 19 - len(texts) + 1)), *["low"] * n_others]
    _, facts = read_columns({"x": texts})[0].parse()
    assert facts.look_like_numbers == is_number


def test_only_missing_texts_are_no_numbers():
    column, facts = read_columns({"x": ["NA", "?"]})[0].parse()
    assert (facts.are_numbers, facts.look_like_numbers) == (True, False)
    assert np.isnan(column.numbers).all()


def test_few_other_texts_are_missing_with_a_warning():
    texts = [*map(str, range(19)), "low"]
    column = read_columns({"size": texts})[0]
    with pytest.warns(
        UserWarning, match="'size' holds numbers, but 1 of 20 values are not numbers, such as 'low', and"
    ):
        found = column.to_numbers().numbers
    np.testing.assert_array_equal(found, [*range(19), NAN])
    rows = [{"size": text, "kind": "a"} for text in texts]
    with pytest.warns(UserWarning, match="'size' holds numbers, but 1 of 20 values"):
        found = read_rows(rows, ["size", "kind"], [None, {"a": 0.0}])
    np.testing.assert_array_equal(found[:, 0], [*range(19), NAN])
    with pytest.raises(ValueError, match="Column 'size': expected numbers, got 'low'"):
        read_rows(rows[-1:], ["size", "kind"], [None, {"a": 0.0}])


def test_declared_levels_are_known_as_such():
    frame = pd.DataFrame({"a": pd.Categorical(["1", "2"]), "b": ["1", "2"], "c": pd.array(["1", "2"], dtype="string")})
    assert [column.declared for column in read_columns(frame)] == [True, False, False]
    frame = pl.DataFrame({"a": pl.Series(["1", "2"], dtype=pl.Categorical), "b": ["1", "2"]})
    assert [column.declared for column in read_columns(frame)] == [True, False]
    table = pa.table({"a": pa.array(["1", "2"]).dictionary_encode(), "b": ["1", "2"]})
    assert [column.declared for column in read_columns(table)] == [True, False]


@pytest.mark.parametrize("text", ["red", "1_0"])
def test_to_numbers_names_what_is_not_a_number(text):
    with pytest.raises(ValueError, match=f"Column 'x': expected numbers, got '{text}'.*feature_types"):
        read_columns(pd.DataFrame({"x": ["1", text]}))[0].to_numbers()


def test_columns_without_a_value_convert_both_ways():
    column = read_columns({"x": [None, None]})[0]
    labels = column.to_labels()
    assert plain(labels) == ([None, None], (), False)
    assert plain(labels.to_numbers()) == plain(column)


@given(st.lists(st.none() | st.floats(allow_nan=False), min_size=1))
def test_numbers_survive_labels(values):
    column = Column("x", np.array([NAN if value is None else value for value in values]))
    np.testing.assert_array_equal(column.to_labels().to_numbers().numbers, column.numbers)


# select


@pytest.mark.parametrize("X", [np.array([[1.0, 2.0, 3.0]]), {"a": [1.0], "b": [2.0], "c": [3.0]}])
def test_select_by_name(X):
    table = read_columns(X, names=["a", "b", "c"])
    chosen = table.select(["c", "a"])
    assert chosen.names == ("c", "a")
    assert chosen.n_rows == 1
    assert [(column.name, column.numbers.tolist()) for column in chosen] == [("c", [3.0]), ("a", [1.0])]
    assert (chosen.matrix is None) == (table.matrix is None)
    assert table.select(["a", "b", "c"]) is table


def test_select_names_what_is_missing():
    table = read_columns({"age": [1], "income": [2]})
    with pytest.raises(ValueError) as caught:
        table.select(["age", "incomes", "zebra"])
    assert str(caught.value) == (
        "Missing column(s): 'incomes', 'zebra'. The columns given: 'age', 'income'. "
        "Add or rename: 'income' may be 'incomes'."
    )
    with pytest.raises(ValueError, match=r"Missing column\(s\): 'zebra'\. .* Add them\.$"):
        table.select(["zebra"])


def test_select_shortens_long_lists():
    with pytest.raises(ValueError, match=r"'feature_0019' and 10 more\."):
        read_columns(np.ones((1, 30))).select(["zebra"])


@given(st.permutations(range(5)), st.booleans())
def test_select_is_a_permutation(order, as_matrix):
    X = np.arange(15.0).reshape(3, 5)
    names = [f"c{i}" for i in range(5)]
    table = read_columns(X if as_matrix else dict(zip(names, X.T, strict=True)), names=names)
    chosen = table.select(names[i] for i in order)
    np.testing.assert_array_equal(np.column_stack([column.numbers for column in chosen]), X[:, order])
    back = chosen.select(names)
    np.testing.assert_array_equal(np.column_stack([column.numbers for column in back]), X)


# Laws


@st.composite
def tables(draw):
    n_rows = draw(st.integers(1, 6))
    # Texts start with a letter: a mapping would read "1" as a number, which frames do not.
    texts = st.text(max_size=3).map("x".__add__)
    kinds = (st.floats(width=64, allow_nan=False), st.integers(-(2**60), 2**60), st.booleans(), texts)
    return {
        f"c{i}": draw(st.lists(st.none() | kind, min_size=n_rows, max_size=n_rows))
        for i, kind in enumerate(draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=4)))
    }


@settings(deadline=None)
@given(tables())
def test_all_kinds_of_table_agree(X):
    expected = [plain(column) for column in read_columns(X)]
    rows = list(zip(*X.values(), strict=True))
    frames = [pd.DataFrame(X), pl.DataFrame(X), pl.LazyFrame(X), pa.table(X), pa.RecordBatch.from_pydict(X)]
    for table in [*map(read_columns, frames), read_columns(rows, names=list(X))]:
        assert isinstance(table, Columns)
        assert table.names == tuple(X)
        assert table.n_rows == len(rows)
        assert [plain(column) for column in table] == expected


@settings(deadline=None)
@given(st.lists(st.none() | st.sampled_from("dcba"), min_size=1), st.permutations("abcd"), st.booleans())
def test_all_kinds_of_categorical_agree(values, levels, ordered):
    frame = pd.DataFrame({"x": pd.Categorical(values, categories=levels, ordered=ordered)})
    used = tuple(level for level in levels if ordered or level in values)
    assert plain(read_columns(frame)[0]) == (values, used, ordered)
    assert plain(read_columns(pa.Table.from_pandas(frame))[0]) == (values, used, ordered)
    if ordered:
        enumerated = pl.DataFrame({"x": pl.Series(values, dtype=pl.Enum(levels))})
        assert plain(read_columns(enumerated)[0]) == (values, used, True)


class Colour(enum.Enum):
    RED = 1


LEVELS = ["a", "1", "2.5", "-3", "1e+300", "Colour.RED"]
MISSING = [None, NAN, pd.NA, pd.NaT, np.float64(NAN), Decimal("NaN")]
NUMBERS = [1, 1.0, True, False, 2.5, -3, np.int8(-3), np.float32(2.5), np.bool_(True), Decimal("2.5"), Fraction(5, 2)]
NUMBERS += [10**300, 1e300, 2**60]
TEXTS = ["a", "1", "1.0", " 1 ", "2.50", "1_0", "b", "", "nan", np.str_("a"), Colour.RED]


@pytest.mark.parametrize("value", [*MISSING, *NUMBERS, *TEXTS], ids=repr)
@pytest.mark.parametrize("kind", ["continuous", "nominal"])
def test_a_row_reads_as_a_table_of_one_row(kind, value):
    axis = level_axis("x", "nominal", LEVELS) if kind == "nominal" else Axis("x", kind, np.zeros(1), np.zeros(1))
    known = [{level: float(k) for k, level in enumerate(LEVELS)} if kind == "nominal" else None]
    try:
        expected = Encoder((axis,)).numbers(read_columns({"x": [value]}))
    except ValueError as error:
        with pytest.raises(ValueError, match=re.escape(str(error))):
            read_rows([{"x": value}], ["x"], known)
    else:
        np.testing.assert_array_equal(read_rows([{"x": value}], ["x"], known), expected)


@pytest.mark.parametrize(
    "value",
    [datetime.date(2024, 1, 1), [1], b"a", np.timedelta64(1), object(), {"a": 1}, 1j],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("known", [None, {"a": 0.0}])
def test_values_that_no_row_may_hold(known, value):
    with pytest.raises((TypeError, ValueError), match=r"[Cc]olumn 'x'"):
        read_rows([{"x": value}], ["x"], [known])


def test_a_level_that_looks_like_a_number_is_found_by_its_own_text():
    assert read_rows([{"x": "007"}, {"x": "7"}, {"x": 7}], ["x"], [{"007": 0.0, "7": 1.0}]).tolist() == [[0], [1], [1]]


def test_rows_and_columns_are_told_apart():
    row = {"a": 1.0, "b": "x", "c": [1, 2]}
    assert find_rows(row) == [row]
    assert find_rows([row, row]) == [row, row]
    assert find_rows({"a": pd.NA}) == [{"a": pd.NA}]
    assert find_rows(OrderedDict(a=np.float32(1))) == [{"a": 1.0}]
    for table in (
        {"a": [1.0]},
        {"a": np.ones(2)},
        {"a": range(3)},
        {},
        [],
        [[1.0]],
        np.ones((2, 2)),
        "text",
        pd.DataFrame(row),
    ):
        assert find_rows(table) is None


def test_rows_must_all_be_mappings():
    with pytest.raises(TypeError, match="Expected every row to be a mapping of name -> value, got list"):
        read_rows([{"x": 1.0}, [2.0]], ["x"], [None])


def test_missing_columns_of_a_row_are_named():
    with pytest.raises(ValueError, match=r"Missing column\(s\): 'age', 'city'. The columns given: 'ages', '3'. Add or"):
        read_rows([{"ages": 1, 3: 4}], ["age", "city"], [None, None])


def run_python(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)


def test_numpy_users_do_not_pay_for_frames():
    code = """
import sys, numpy as np
from neuralbasis.data.frames import read_columns
read_columns(np.ones((2, 2))), read_columns([[1, "a"]]), read_columns({"x": [1]})
print({"narwhals", "pandas", "polars", "pyarrow", "torch", "numba"} & set(sys.modules))
"""
    assert run_python(code).stdout.strip() == "set()"


@pytest.mark.parametrize(("library", "absent"), [("polars", ("pandas", "pyarrow")), ("pandas", ("polars", "pyarrow"))])
def test_one_frame_library_is_enough(library, absent):
    code = f"""
import sys
sys.modules.update(dict.fromkeys({absent}))
import {library} as frames
from neuralbasis.data.frames import read_columns
X = frames.DataFrame({{"a": [1.5, None], "b": ["u", None], "c": [True, False]}})
a, b, c = read_columns(X)
print(a.numbers.tolist(), b.levels, b.codes.tolist(), c.numbers.tolist())
"""
    assert run_python(code).stdout.strip() == "[1.5, nan] ('u',) [0, -1] [1.0, 0.0]"
