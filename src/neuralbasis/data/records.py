"""Rows given as mappings of name -> value, the fast path for predicting a few rows.

In: one mapping or a list of them. Out: numbers (N, D) as `Encoder.numbers` would give for a table of the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .columns import describe_missing, find_level, is_missing, level_text
from .frames import REAL, check_types, read_objects, to_float
from .sparse import is_sparse
from .text_numbers import parse_number


def find_rows(X: Any) -> Sequence[Mapping[str, Any]] | None:
    """The rows, if `X` is a mapping of name -> single value or a list of mappings; None for any other table."""
    if isinstance(X, Mapping):  # SciPy's dok matrices are mappings too
        is_series = [not isinstance(v, str) and (hasattr(v, "__len__") or hasattr(v, "__iter__")) for v in X.values()]
        return None if all(is_series) or is_sparse(X) else [X]
    return X if isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping) else None


def read_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], level_indices: Sequence[Mapping[str, float] | None]
) -> np.ndarray:
    """(N, D) Numbers of rows given as mappings; NaN is missing, -1 an unknown level.

    `level_indices` has for each column the index of every level, None for a column of numbers.

    >>> read_rows([{"age": 31, "city": "Oslo"}, {"age": None, "city": "Bern"}], ["age", "city"], [None, {"Oslo": 0.0}])
    array([[31.,  0.],
           [nan, -1.]])
    """
    unparsed: set[int] = set()
    found = np.array([_read_row(row, names, level_indices, unparsed) for row in rows], dtype=np.float64)
    for index in unparsed:  # the share of such texts among all rows decides between a warning and an error
        values = np.array([*(row[names[index]] for row in rows), None], dtype=object)[:-1]
        found[:, index] = read_objects(names[index], values).to_numbers()
    return found


def _read_row(
    row: Mapping[str, Any],
    names: Sequence[str],
    level_indices: Sequence[Mapping[str, float] | None],
    unparsed: set[int],
) -> list[float]:
    """The numbers of a row; adds to `unparsed` the columns of numbers whose text is not a number."""
    if not isinstance(row, Mapping):
        raise TypeError(f"Expected every row to be a mapping of name -> value, got {type(row).__name__}.")
    try:
        values = [row[name] for name in names]
    except KeyError:
        missing = [name for name in names if name not in row]
        raise ValueError(describe_missing(missing, [str(name) for name in row])) from None
    found: list[float] = []
    for name, value, index_of in zip(names, values, level_indices, strict=True):
        if index_of is None:
            number = value if type(value) is float else _read_number(name, value)
            if number is None:
                unparsed.add(len(found))
            found.append(math.nan if number is None else number)
        else:
            index = index_of.get(value) if type(value) is str else None
            found.append(_read_level(name, value, index_of) if index is None else index)
    return found


def _read_number(name: str, value: Any) -> float | None:
    if type(value) is int:
        return to_float(value)
    if is_missing(value):
        return math.nan
    check_types(name, {type(value)})
    return to_float(value) if isinstance(value, REAL) else parse_number(level_text(value))


def _read_level(name: str, value: Any, index_of: Mapping[str, float]) -> float:
    if is_missing(value):
        return math.nan
    check_types(name, {type(value)})
    text = level_text(value)
    if isinstance(value, REAL):  # True is 1 in an array
        return index_of.get(level_text(to_float(value)), index_of.get(text, -1.0))
    return find_level(text, index_of)
