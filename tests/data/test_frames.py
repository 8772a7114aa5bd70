"""Data frames, Arrow tables and mappings give the same columns; errors name the column and the remedy."""

import datetime
import os
import re
import subprocess
import sys
from collections import OrderedDict
from decimal import Decimal

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data import read_columns
from tests.plain_columns import plain

NAN = float("nan")


def read_one(values, kind=None):
    """The single column of a table."""
    table = read_columns({"x": values} if kind is None else kind({"x": values}))
    assert table.names == ("x",)
    assert len(table) == 1
    return plain(table[0])


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
def test_frames_declare_their_types(kind):
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


def test_a_late_number_in_a_pandas_object_column_is_read():
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


def test_categories_with_equal_texts_are_one_level():
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
    # An Arrow dictionary declares the order of its levels.
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
def test_dates_and_times_raise(kind, values, type_name):
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
def test_nested_and_binary_columns_raise(kind, values, type_name):
    with pytest.raises(TypeError, match=rf"Column 'x' .* {type_name}.*argument must be a string or a number"):
        read_columns(kind({"x": values}))


def test_declared_levels_are_marked():
    frame = pd.DataFrame({"a": pd.Categorical(["1", "2"]), "b": ["1", "2"], "c": pd.array(["1", "2"], dtype="string")})
    assert [column.declared for column in read_columns(frame)] == [True, False, False]
    frame = pl.DataFrame({"a": pl.Series(["1", "2"], dtype=pl.Categorical), "b": ["1", "2"]})
    assert [column.declared for column in read_columns(frame)] == [True, False]
    table = pa.table({"a": pa.array(["1", "2"]).dictionary_encode(), "b": ["1", "2"]})
    assert [column.declared for column in read_columns(table)] == [True, False]


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


# Mappings and other objects


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
def test_objects_that_are_not_tables(X):
    with pytest.raises(TypeError, match=f"Expected a table .* got {type(X).__name__}"):
        read_columns(X)


# Laws


@st.composite
def tables(draw):
    n_rows = draw(st.integers(1, 6))
    # Texts start with a letter: mappings and frames read "1" differently.
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


# Optional libraries


def run_python(code):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)


def test_reading_arrays_imports_no_frame_library():
    code = """
import sys, numpy as np
from neuralbasis.data import read_columns
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
from neuralbasis.data import read_columns
X = frames.DataFrame({{"a": [1.5, None], "b": ["u", None], "c": [True, False]}})
a, b, c = read_columns(X)
print(a.numbers.tolist(), b.levels, b.codes.tolist(), c.numbers.tolist())
"""
    assert run_python(code).stdout.strip() == "[1.5, nan] ('u',) [0, -1] [1.0, 0.0]"
