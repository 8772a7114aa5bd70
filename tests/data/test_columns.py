"""Column converts between numbers and labels; Columns selects by name."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis.data import Column, read_columns
from tests.plain_columns import plain

NAN = float("nan")


# Numbers and labels


def test_to_labels_is_sorted_by_value():
    codes, levels = Column("x", np.array([10.0, NAN, 9.0, 2.5, 10.0, -0.0, 0.0, 2.0**53, np.inf])).to_labels()
    assert levels == ("0", "2.5", "9", "10", "9007199254740992.0", "inf")
    assert codes.tolist() == [3, -1, 2, 1, 3, 0, 0, 4, 5]
    assert codes.dtype == np.int32
    assert Column("x", None, codes, levels).to_labels() == (codes, levels)


def test_to_numbers_parses_the_levels():
    labels = read_columns(pd.DataFrame({"x": ["2.5", None, "10"]}))[0]
    assert plain(labels)[1] == ("10", "2.5")
    numbers = labels.to_numbers()
    np.testing.assert_array_equal(numbers, [2.5, NAN, 10.0])
    assert Column("x", numbers).to_numbers() is numbers


@pytest.mark.parametrize("text", ["red", "1_0"])
def test_to_numbers_names_the_column_and_the_text(text):
    with pytest.raises(ValueError, match=f"Column 'x': expected numbers, got '{text}'.*feature_types"):
        read_columns(pd.DataFrame({"x": ["1", text]}))[0].to_numbers()


def test_columns_without_a_value_convert_both_ways():
    column = read_columns({"x": [None, None]})[0]
    codes, levels = column.to_labels()
    assert (codes.tolist(), levels) == ([-1, -1], ())
    assert np.isnan(Column("x", None, codes, levels).to_numbers()).all()


@given(st.lists(st.none() | st.floats(allow_nan=False), min_size=1))
def test_numbers_survive_labels(values):
    column = Column("x", np.array([NAN if value is None else value for value in values]))
    np.testing.assert_array_equal(Column("x", None, *column.to_labels()).to_numbers(), column.numbers)


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


def test_select_names_the_missing_columns():
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
