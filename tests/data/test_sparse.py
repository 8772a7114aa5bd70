"""Sparse tables of any format are read as their dense form would be; invalid ones raise."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data import SparseMatrix, read_columns
from neuralbasis.encoding import Encoder

NAN = float("nan")
FORMATS = ("csr", "csc", "coo", "bsr", "dok", "lil", "dia")
TABLE = np.array([[0, 2, 0, 1], [0, 0, 0, 0], [3, 0, 0, 1], [0, -2, 0, 5]], dtype=float)  # an empty row and column


def to_dense(columns) -> np.ndarray:
    return np.stack([column.numbers for column in columns], axis=1)


def assert_valid(table: SparseMatrix) -> None:
    assert (table.starts.dtype, table.column.dtype, table.value.dtype) == (np.int64, np.int32, np.float64)
    assert table.starts[0] == 0
    assert table.starts[-1] == len(table.column) == len(table.value)
    for row in range(len(table)):
        assert (np.diff(table.column[table.starts[row] : table.starts[row + 1]]) > 0).all()
    assert not np.isnan(table.value).any() if np.isnan(table.absent) else not (table.value == table.absent).any()


@pytest.mark.parametrize("kind", [sp.csr_matrix, sp.csr_array])
@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.int64, np.float32, np.float64, np.longdouble])
@pytest.mark.parametrize("form", FORMATS)
def test_every_format_and_type(form, dtype, kind):
    table = np.abs(TABLE).astype(dtype)
    columns = read_columns(kind(table).asformat(form))
    assert_valid(columns.sparse)
    np.testing.assert_array_equal(to_dense(columns), table.astype(float))
    assert (columns.n_rows, columns.named, columns.names[3]) == (4, False, "feature_0003")


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_unsorted_and_repeated_entries_are_read_as_scipy_does_without_changing_the_matrix(form, index):
    rng = np.random.default_rng(0)
    row, column, value = rng.integers(0, 9, 60), rng.integers(0, 7, 60), rng.integers(-2, 3, 60).astype(float)
    if form is sp.coo_array:
        X = sp.coo_array((value, (row.astype(index), column.astype(index))), shape=(9, 7))
        parts = [X.data, X.row, X.col]
    else:
        starts = np.r_[0, np.sort(rng.integers(0, 61, 8 if form is sp.csr_matrix else 6)), 60].astype(index)
        X = form((value, (column if form is sp.csr_matrix else row).astype(index), starts), shape=(9, 7))
        parts = [X.data, X.indices, X.indptr]
    before = [part.copy() for part in parts]
    columns = read_columns(X)
    assert_valid(columns.sparse)
    np.testing.assert_array_equal(to_dense(columns), X.toarray())
    for part, kept in zip(parts, before, strict=True):
        np.testing.assert_array_equal(part, kept)


def test_a_matrix_changed_in_place_is_checked_again():
    X = sp.csr_array(TABLE)
    assert X.has_canonical_format
    X.indices[:2] = X.indices[:2][::-1].copy()
    assert_valid(read_columns(X).sparse)
    np.testing.assert_array_equal(to_dense(read_columns(X)), X.toarray())


@settings(deadline=None, max_examples=200)
@given(st.data())
def test_any_entries(data):
    shape = data.draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    places = st.tuples(st.integers(0, shape[0] - 1), st.integers(0, shape[1] - 1))
    numbers = st.sampled_from([0.0, -0.0, 1.0, -1.0, 2.5, NAN])
    entries = data.draw(st.dictionaries(places, numbers, max_size=12))
    absent = data.draw(numbers)
    form = data.draw(st.sampled_from(["csr", "csc", "coo", "lil", "dok"]))
    if form in ("lil", "dok"):  # whether they keep zeros depends on how they were built
        entries = {place: value for place, value in entries.items() if value != 0}
    row, column = (np.array([place[k] for place in entries], dtype=int) for k in (0, 1))
    X = sp.coo_array((np.array(list(entries.values()), dtype=float), (row, column)), shape=shape).asformat(form)
    dense = np.full(shape, absent)
    for place, value in entries.items():
        dense[place] = value
    columns = read_columns(X, absent=absent)
    assert_valid(columns.sparse)
    np.testing.assert_array_equal(to_dense(columns), dense)
    rows = data.draw(st.lists(st.integers(0, shape[0] - 1), max_size=6))
    part = columns.sparse[np.array(rows, dtype=int)]
    assert_valid(part)
    np.testing.assert_array_equal([part.read_column(c) for c in range(shape[1])], dense[rows].T)
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, shape[0])] * 2)))
    part = columns.sparse[first:last]
    np.testing.assert_array_equal([part.read_column(c) for c in range(shape[1])], dense[first:last].T)
    chosen = data.draw(st.lists(st.integers(0, shape[1] - 1), unique=True, min_size=1))
    part = columns.select([columns.names[c] for c in chosen])
    assert_valid(part.sparse)
    np.testing.assert_array_equal(to_dense(part), dense[:, chosen])


def test_explicit_absent_values_are_absent_and_a_stored_zero_is_a_value():
    X = sp.csr_array((np.array([0.0, 7.0, 3.0]), np.array([0, 1, 0]), np.array([0, 2, 3])), shape=(2, 2))
    assert read_columns(X).sparse.value.tolist() == [7.0, 3.0]
    named = read_columns(X, absent=7.0).sparse
    assert (named.value.tolist(), named.absent, named.read_column(1).tolist()) == ([0.0, 3.0], 7.0, [7.0, 7.0])


def test_csr_arrays_are_not_copied():
    X = sp.csr_array(TABLE)
    table = read_columns(X).sparse
    assert np.shares_memory(table.value, X.data)
    assert np.shares_memory(table.column, X.indices)


# Frames


@pytest.mark.parametrize("fill", [0.0, NAN, 2.0])
def test_pandas_sparse_columns_stay_sparse(fill):
    frame = pd.DataFrame(TABLE, columns=list("abcd")).astype(pd.SparseDtype(float, fill))
    columns = read_columns(frame)
    assert_valid(columns.sparse)
    np.testing.assert_equal(columns.sparse.absent, fill)
    assert (columns.names, columns.named) == (("a", "b", "c", "d"), True)
    np.testing.assert_array_equal(to_dense(columns), TABLE)


def test_pandas_sparse_columns_of_other_kinds():
    table = pd.DataFrame({"a": [0, 2, 0], "b": [1, 0, 0]})
    assert read_columns(table.astype(pd.SparseDtype(int, 0))).sparse.value.tolist() == [1.0, 2.0]
    assert read_columns(table.astype(bool).astype(pd.SparseDtype(bool, False))).sparse.value.tolist() == [1.0, 1.0]
    mixed = table.astype({"a": pd.SparseDtype(int, 0), "b": pd.SparseDtype(int, 1)})
    for frame in (mixed, table.astype({"a": pd.SparseDtype(int, 0)})):
        columns = read_columns(frame)
        assert columns.sparse is None
        np.testing.assert_array_equal(to_dense(columns), table)


def test_polars_has_no_sparse_columns():
    assert read_columns(pl.DataFrame({"a": [0.0, 1.0]})).sparse is None


# Errors


def change_type(X, dtype):
    X.data = X.data.astype(dtype)  # SciPy's constructor does not accept all types
    return X


@pytest.mark.parametrize(
    ("X", "kind", "message"),
    [
        (sp.csr_array((0, 3)), ValueError, r"0 sample\(s\) \(shape=\(0, 3\)\)"),
        (sp.csr_array((3, 0)), ValueError, r"0 feature\(s\) \(shape=\(3, 0\)\)"),
        (sp.csr_array(TABLE + 1j), ValueError, "Complex data not supported: X holds complex128"),
        (change_type(sp.csr_array(TABLE), object), TypeError, "sparse matrix of numbers, got values of type object"),
        (sp.coo_array(np.arange(3.0)), ValueError, "2D sparse matrix, got 1 dim"),
        (sp.csr_array(np.where(TABLE == 5, np.inf, TABLE)), ValueError, "'feature_0003' holds an infinite .* in row 3"),
        (sp.csc_array(np.where(TABLE == 3, -np.inf, TABLE)), ValueError, "'feature_0000' holds an infinite .* row 2"),
    ],
)
def test_wrong_tables(X, kind, message):
    with pytest.raises(kind, match=message):
        read_columns(X)


def break_matrix(form, **parts):
    X = sp.csr_array(TABLE).asformat(form)
    for name, change in parts.items():
        change(getattr(X, name))
    return X


def put(index, value):
    return lambda array: array.__setitem__(index, value)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (break_matrix("csr", indices=put(0, 4)), "entry in column 4, but only 4 columns"),
        (break_matrix("csr", indices=put(0, -1)), "entry in column -1, but only 4 columns"),
        (break_matrix("csc", indices=put(0, 9)), "entry in row 9, but only 4 rows"),
        (break_matrix("bsr", indices=put(0, 99)), "entry in column 99"),
        (break_matrix("coo", row=put(0, 4)), "entry in row 4, but only 4 rows"),
        (break_matrix("coo", col=put(0, -3)), "entry in column -3, but only 4 columns"),
        (break_matrix("csr", indptr=put(1, 5)), "indptr must rise from 0 to at most 6 in 5 entries"),
        (break_matrix("csr", indptr=put(0, 1)), "indptr must rise from 0"),
        (break_matrix("csc", indptr=put(4, 100)), "indptr must rise .* than there are columns"),
    ],
)
def test_broken_matrices(X, message):
    with pytest.raises(ValueError, match=f"the sparse matrix is broken: .*{message}.*; build the matrix again"):
        read_columns(X)


@pytest.mark.parametrize("feature_type", ["nominal", "ordinal", ["0", "1"]])
def test_sparse_columns_cannot_be_levels(feature_type):
    columns = read_columns(sp.csr_array(TABLE))
    with pytest.raises(ValueError, match=r"feature_types of column 'feature_0001' is .* columns of a sparse table"):
        Encoder.fit(columns, feature_types=["auto", feature_type, "continuous", "auto"])
    encoder = Encoder.fit(read_columns(TABLE), feature_types=["auto", "nominal", "auto", "auto"])
    with pytest.raises(ValueError, match="column 'feature_0001' is nominal in this model"):
        encoder.numbers(columns)
