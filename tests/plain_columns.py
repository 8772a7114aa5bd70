"""Columns as Python values, for comparisons in tests."""

import numpy as np


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
