"""NumPy arrays, Python objects and lists of rows as columns."""

import enum
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from neuralbasis.data import read_columns
from tests.plain_columns import plain

NAN = float("nan")
TEXT_DTYPES = ["U2", object, *([np.dtypes.StringDType()] if hasattr(np.dtypes, "StringDType") else [])]


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


def test_matrix_columns_are_accessed_by_index():
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
    assert plain(read_columns({"x": np.ma.array([1, 2], mask=[1, 0])})[0])[0] == [None, 2.0]


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
    assert table[1].to_numbers().tolist() == [10.0, 9.0]


@pytest.mark.parametrize("rows", [[[1, "a"], [None, "b"]], ((1, "a"), (None, "b"))])
def test_lists_of_rows(rows):
    table = read_columns(rows, names=["size", "city"])
    assert [plain(column)[0] for column in table] == [[1.0, None], ["a", "b"]]


def test_a_missing_value_beside_text_stays_missing():
    # np.array(["a", nan]) alone would convert the NaN to the text "nan".
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


def test_bytes_arrays_raise():
    with pytest.raises(TypeError, match="Column 'feature_0000' holds values of type bytes: argument must be"):
        read_columns(np.array([[b"a"]]))
