"""Checks of single parameters: `require` raises an error that states what was expected and what came."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Real
from typing import Any

import numpy as np

EXPECTED: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "flag": (lambda v: isinstance(v, (bool, np.bool_, int)), "True or False"),
    "amount": (lambda v: is_number(v) and v >= 0, "a number of at least 0"),
    "positive": (lambda v: is_number(v) and v > 0, "a number above 0"),
    "share": (lambda v: is_number(v) and 0 <= v < 1, "a number from 0 to below 1"),
    "seconds": (lambda v: is_number(v) and v >= 0, "seconds of at least 0"),
    "sizes": (
        lambda v: isinstance(v, Sequence) and all(is_integer(size) and size > 0 for size in v),
        "a sequence of positive integers",
    ),
}


def require(name: str, value: Any, is_right: str | Callable[[Any], bool], expected: str = "", others: str = "") -> None:
    """Raise an error if a value is wrong.

    Parameters
    ----------
    is_right, expected : a function and what it accepts, in words; or one of the names in `EXPECTED`
    others : further values that are accepted, in words: "None or " accepts None
    """
    if isinstance(is_right, str):
        is_right, expected = EXPECTED[is_right]
    if not (is_right(value) or (others == "None or " and value is None)):
        raise ValueError(f"{name} must be {others}{expected}, not {value!r}")


def require_integer(name: str, value: Any, smallest: int, others: str = "") -> None:
    """Raise an error if a value is no integer of at least `smallest`; see `require`."""
    expected = f"an integer of at least {smallest}"
    require(name, value, lambda v: is_integer(v) and v >= smallest, expected, others)


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)
