"""Rows given as mappings of name -> value, the fast path for predicting a few rows.

In: one mapping or a list of them. Out: numbers (N, D) as `Encoder.numbers` would give for a table of the same rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .arrays import REAL, check_types, read_objects, to_float
from .columns import describe_missing, find_level, is_missing, level_text
from .sparse import is_sparse
from .text_numbers import parse_number


def find_rows(X: Any) -> Sequence[Mapping[str, Any]] | None:
    """The rows, if `X` is a mapping of name -> single value or a list of mappings; None for any other table.

    Examples
    --------
    >>> find_rows({"age": 31})
    [{'age': 31}]
    >>> find_rows({"age": [31, 45]}) is None
    True
    """
    if isinstance(X, Mapping):  # SciPy's dok matrices are mappings too
        return [X] if any(map(_is_single, X.values())) and not is_sparse(X) else None
    return X if isinstance(X, (list, tuple)) and len(X) > 0 and isinstance(X[0], Mapping) else None


def read_rows(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], level_indices: Sequence[Mapping[str, float] | None]
) -> np.ndarray:
    """Numbers (N, D) of rows given as mappings.

    Parameters
    ----------
    rows : sequence of N mappings of name -> value
        None and NaN are missing values.
    names : sequence of D str
        The columns to read.
    level_indices : sequence of D mappings or None
        For each column the index of every level, None for a column of numbers.

    Returns
    -------
    ndarray of shape (N, D), float64
        NaN is missing, -1 a level that is not in `level_indices`.

    Examples
    --------
    >>> read_rows([{"age": 31, "city": "Oslo"}, {"age": None, "city": "Bern"}], ["age", "city"], [None, {"Oslo": 0.0}])
    array([[31.,  0.],
           [nan, -1.]])
    """
    unparsed: set[int] = set()
    found = np.array([_read_row(row, names, level_indices, unparsed) for row in rows], dtype=np.float64)
    for index in unparsed:  # the share of such texts among all rows decides between a warning and an error
        values = np.array([*(row[names[index]] for row in rows), None], dtype=object)[:-1]
        numbers = read_objects(names[index], values).to_numbers().numbers
        assert numbers is not None
        found[:, index] = numbers
    return found


def _is_single(value: Any) -> bool:
    return isinstance(value, str) or not (hasattr(value, "__len__") or hasattr(value, "__iter__"))


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
