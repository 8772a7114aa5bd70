"""Rows given as mappings are read as a table of the same rows would be."""

import datetime
import enum
import re
from collections import OrderedDict
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from neuralbasis.data import find_rows, read_columns, read_rows
from neuralbasis.encoding import Axis, Encoder, level_axis

NAN = float("nan")


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
def test_invalid_values_name_the_column(known, value):
    with pytest.raises((TypeError, ValueError), match=r"[Cc]olumn 'x'"):
        read_rows([{"x": value}], ["x"], [known])


def test_a_level_that_looks_like_a_number_is_found_by_its_own_text():
    assert read_rows([{"x": "007"}, {"x": "7"}, {"x": 7}], ["x"], [{"007": 0.0, "7": 1.0}]).tolist() == [[0], [1], [1]]


def test_rows_are_distinguished_from_columns():
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
