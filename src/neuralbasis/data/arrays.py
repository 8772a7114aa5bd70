"""One column from a 1-D array of any type, or from Python objects.

In: an array of numbers, text or objects, perhaps masked. Out: a `Column`. Objects that are all real numbers become
numbers; any other text or object with a text form becomes labels. Dates, nested values, bytes and complex numbers
raise an error that names the column.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sized
from datetime import timedelta
from decimal import Decimal
from typing import Any

import numpy as np

from .columns import Column, is_missing, level_text

NUMERIC = "fiub"  # NumPy's letters for float, signed, unsigned, bool
REAL = (numbers.Real, Decimal, np.bool_)


def read_array(name: str, values: np.ndarray) -> Column:
    """One column from a 1-D array of any type."""
    check_real(f"column {name!r}", values)
    values = fill_masked(values)
    if values.dtype.kind in "mM":
        raise temporal_error(name, str(values.dtype))
    if values.dtype.kind in NUMERIC:
        return Column(name, np.asarray(values, dtype=np.float64))
    return read_objects(name, values.astype(object))


def read_objects(name: str, values: np.ndarray) -> Column:
    """One column from a 1-D array of Python objects."""
    present = np.ones(len(values), dtype=bool)
    if set(map(type, values)) != {str}:
        present = ~np.fromiter(map(is_missing, values), dtype=bool, count=len(values))
    items = values[present]
    kinds = set(map(type, items))
    check_types(name, kinds)
    if all(issubclass(kind, REAL) for kind in kinds):
        parsed = np.full(len(values), np.nan)
        parsed[present] = np.fromiter(map(to_float, items), dtype=np.float64, count=len(items))
        return Column(name, parsed)
    texts = items if kinds == {str} else list(map(level_text, items))
    levels = sorted(set(texts))
    index_of = {text: i for i, text in enumerate(levels)}
    codes = np.full(len(values), -1, dtype=np.int32)
    codes[present] = np.fromiter(map(index_of.__getitem__, texts), dtype=np.int32, count=len(texts))
    return Column(name, None, codes, tuple(levels))


def as_array(values: Any) -> np.ndarray:
    """A NumPy array of numbers, or else of unchanged objects (NumPy alone would convert a None beside text to text)."""
    try:
        array = np.asarray(values)
        if array.dtype.kind in NUMERIC + "c":
            return array
    except ValueError:
        pass  # ragged: an array of objects can hold it
    return np.array(values, dtype=object)


def fill_masked(array: np.ndarray) -> np.ndarray:
    """A masked array as a plain one, with NaN or None for masked values; other arrays unchanged."""
    if not isinstance(array, np.ma.MaskedArray):
        return array
    if array.dtype.kind in NUMERIC:
        return np.ma.filled(array.astype(np.float64), np.nan)
    filled = np.array(array.data, dtype=object)
    filled[np.ma.getmaskarray(array)] = None
    return filled


def to_float(value: Any) -> float:
    """A real number as float; integers beyond float64 become infinite, as float("1e400") does."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_real(what: str, values: Any) -> None:
    """Raise for arrays of complex numbers."""
    if values.dtype.kind == "c":
        raise ValueError(
            f"Complex data not supported: {what} holds {values.dtype} values. Give real and imaginary parts as columns."
        )


def check_types(name: str, kinds: set[type]) -> None:
    """Raise for types of values that are neither numbers nor usable as the name of a level."""
    for kind in kinds:
        if issubclass(kind, (*REAL, str)) and kind is not np.timedelta64:  # which NumPy calls an integer
            continue
        if issubclass(kind, numbers.Complex):
            raise ValueError(f"Complex data not supported: column {name!r} holds {kind.__name__} values.")
        # strftime: dates and times of the standard library, and pandas' Timestamp and Period.
        if hasattr(kind, "strftime") or issubclass(kind, (timedelta, np.datetime64, np.timedelta64)):
            raise temporal_error(name, kind.__name__)
        has_text = kind.__str__ is not object.__str__ or kind.__repr__ is not object.__repr__
        if issubclass(kind, (Iterable, Sized)) or not has_text:
            raise type_error(name, kind.__name__)


def temporal_error(name: str, kind: str) -> TypeError:
    """The error for dates and times."""
    return TypeError(
        f"Column {name!r}: expected numbers or labels, got dates or times ({kind}). Convert it to a number "
        "(such as days since a date) or to parts (such as the month or the hour)."
    )


def type_error(name: str, kind: str) -> TypeError:
    """The error for values that are neither numbers nor text."""
    return TypeError(
        f"Column {name!r} holds values of type {kind}: argument must be a string or a number. "
        "Convert the column to numbers or text, or leave it out."
    )
