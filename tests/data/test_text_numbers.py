"""Texts are parsed as numbers, and a column of them is numbers if nearly all are."""

from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis.data import Column, read_columns, read_rows

NAN = float("nan")
NUMBERS = {
    "1.5": 1.5, " +2 ": 2.0, "-1e3": -1000.0, ".5": 0.5, "5.": 5.0, "1,200": 1200.0, "-12,345,678.9": -12345678.9,
    "40%": 40.0, "40 %": 40.0, "1,200 %": 1200.0, "007": 7.0,
    "$5": 5.0, "-$1,200.50": -1200.5, "1,200 €": 1200.0, "1e400": np.inf,
}  # fmt: skip
NO_NUMBERS = ["red", "1_0", "10_2", "0x1F", "1,5", "12,34", "0,123", "1,2000", "%", "5 %%", "1 2", "--", "$", "$ 5 5"]


def parse_number(text):
    """The number that a column of this text holds; None if the text is neither a number nor missing."""
    (number,), facts = Column("x", None, np.zeros(1, dtype=np.int32), (text,)).parse()
    assert facts.n_numbers + facts.n_others == (0 if np.isnan(number) and not facts.n_others else 1)
    return None if facts.n_others else number


@pytest.mark.parametrize(("text", "number"), NUMBERS.items())
def test_texts_that_are_numbers(text, number):
    assert parse_number(text) == number


@pytest.mark.parametrize("text", ["", " ", "NA", "n/a", "N/A", "NaN", "-nan", "Null", "None", "<NA>", "?", "-", "."])
def test_texts_that_mean_a_missing_number(text):
    assert np.isnan(parse_number(text))


@pytest.mark.parametrize("text", NO_NUMBERS)
def test_texts_that_are_not_numbers(text):
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
    np.testing.assert_array_equal(numbers, [1200, 3, 3, NAN, NAN, NAN])
    assert astuple(facts) == (3.0, 1.0, False, "1,200", "low", 0.0, None)
    _, facts = column.parse(np.array([1, 2, 2, 9, 0.5, 9]))
    assert (facts.n_numbers, facts.n_others, facts.are_numbers) == (5.0, 0.5, True)
    _, more = Column("x", None, np.array([0, 1, 1], dtype=np.int32), ("07", "b")).parse()
    assert astuple(more) == (1.0, 2.0, True, None, "b", 0.0, None)
    assert astuple(facts + more) == (6.0, 2.5, True, "1,200", "low", 0.0, None)


@pytest.mark.parametrize(
    ("n_others", "texts", "is_number"),
    [(0, ["7"], True), (1, ["7"], True), (2, ["7"], False), (0, ["7", "007"], False), (0, ["01.5", "0", "-0"], True)],
)
def test_nearly_all_texts_must_be_numbers(n_others, texts, is_number):
    texts = [*texts, *(f"{i}" for i in range(10, 19 - len(texts) + 1)), *["low"] * n_others]
    _, facts = read_columns({"x": texts})[0].parse()
    assert facts.look_like_numbers == is_number


def test_missing_texts_alone_are_not_numbers():
    numbers, facts = read_columns({"x": ["NA", "?"]})[0].parse()
    assert (facts.are_numbers, facts.look_like_numbers) == (True, False)
    assert np.isnan(numbers).all()


def test_few_other_texts_are_missing_with_a_warning():
    texts = [*map(str, range(19)), "low"]
    column = read_columns({"size": texts})[0]
    match = "'size' holds numbers, but 1 of 20 values is not a number, 'low' in row 19 \\(0 is the first\\), and"
    with pytest.warns(UserWarning, match=match):
        found = column.to_numbers()
    np.testing.assert_array_equal(found, [*range(19), NAN])
    rows = [{"size": text, "kind": "a"} for text in texts]
    with pytest.warns(UserWarning, match="'size' holds numbers, but 1 of 20 values"):
        found = read_rows(rows, ["size", "kind"], [None, {"a": 0.0}])
    np.testing.assert_array_equal(found[:, 0], [*range(19), NAN])
    with pytest.raises(ValueError, match="Column 'size': expected numbers, got 'low'"):
        read_rows(rows[-1:], ["size", "kind"], [None, {"a": 0.0}])
