"""Arrays of a model file: one `.npy` entry holds the numbers of all axes, terms or factors, one after the other.

Each array has a list of allowed types, of which the smallest that is exact is written, and a range that every number
must lie in. Headers are compared, never parsed. An array without numbers has no entry.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from reprlib import repr as shorten
from typing import Any, NamedTuple

import numpy as np

from .archive import DocumentError
from .records import MAX_COLUMNS, MAX_SCORE, MAX_TABLE, MAX_WEIGHT


class ArrayType(NamedTuple):
    """Types that a file may use, smallest first, the range of the numbers, and the type in memory."""

    types: tuple[str, ...]
    low: float
    high: float
    memory: str = "f8"


_FLOATS = ("<f4", "<f8")
_INTEGERS = ("|u1", "<u2", "<u4")
_COUNTS = (*_INTEGERS, *_FLOATS)
MAX_BASE, MAX_COEFFICIENT = 1e9, 1e25  # a sum of MAX_BASES products of the two is finite in single precision
ARRAYS = {
    "knots": ArrayType(_FLOATS, -np.finfo(float).max, np.finfo(float).max),
    "places": ArrayType(_FLOATS, 0.0, 1.0),
    "mass": ArrayType(_COUNTS, 0.0, MAX_WEIGHT),
    "weights": ArrayType(_COUNTS, 0.0, MAX_WEIGHT),
    "tables": ArrayType(_FLOATS, -MAX_SCORE, MAX_SCORE),
    "spread": ArrayType(_COUNTS, 0.0, MAX_SCORE),
    "members": ArrayType(_FLOATS, -MAX_SCORE, MAX_SCORE),
    "mix": ArrayType(_FLOATS, -MAX_WEIGHT, MAX_WEIGHT),
    "sizes": ArrayType(_FLOATS, 0.0, MAX_SCORE),
    "bases": ArrayType(("<f4",), -MAX_BASE, MAX_BASE, "f4"),
    "features": ArrayType(_INTEGERS, 0, MAX_COLUMNS, "i8"),
    "coefficients": ArrayType(("<f4",), -MAX_COEFFICIENT, MAX_COEFFICIENT, "f4"),
    "deviations": ArrayType(("<f4",), 0.0, MAX_COEFFICIENT, "f4"),
    "factor_sizes": ArrayType(_FLOATS, 0.0, MAX_SCORE),
    "cells": ArrayType(_INTEGERS, 0, MAX_TABLE, "i8"),
    "cell_counts": ArrayType(_INTEGERS, 0, MAX_TABLE, "i8"),
    "cell_weights": ArrayType(_COUNTS, 0.0, MAX_WEIGHT),
    "residual_centres": ArrayType(_FLOATS, -MAX_SCORE, MAX_SCORE),
    "residual_probabilities": ArrayType(_FLOATS, 0.0, 1.0),
    "residual_quantiles": ArrayType(_FLOATS, -MAX_SCORE, MAX_SCORE),
}


def write_arrays(pieces: Mapping[str, Sequence[np.ndarray]]) -> tuple[dict[str, str], dict[str, bytes]]:
    """The type of each array, and the entries that hold the arrays; `pieces` has their parts in order, of any shape."""
    types, entries = {}, {}
    for name, (allowed, _, _, memory) in ARRAYS.items():
        parts = (np.asarray(piece, dtype=memory).ravel() for piece in pieces[name])
        values = np.concatenate([np.empty(0, memory), *parts])
        if len(values):
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                exact = (kind for kind in allowed if (values.astype(kind) == values).all())
                types[name] = kind = next(exact, allowed[-1])
                entries[f"{name}.npy"] = _write_header(kind, len(values)) + values.astype(kind).tobytes()
    return types, entries


def _write_header(kind: str, length: int) -> bytes:
    """The first 128 bytes of a `.npy` file."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': ({length},), }}"
    return b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + text.ljust(117).encode() + b"\n"


class ArrayReader:
    """Takes an array piece by piece. An array without a type is empty."""

    def __init__(self, name: str, data: bytes, kind: str | None):
        _, low, high, memory = ARRAYS[name]
        offset = 0 if kind is None else len(_write_header(kind, 0))
        with np.errstate(invalid="ignore"):  # signalling NaN
            self.values = np.frombuffer(data, kind or memory, offset=offset).astype(memory)
        self.start = 0
        if not ((self.values >= low) & (self.values <= high)).all():
            raise DocumentError(f"array {name!r} holds numbers outside {low:g} to {high:g}")

    def take(self, *shape: int) -> np.ndarray:
        """The next numbers, in this shape."""
        start, self.start = self.start, self.start + math.prod(shape)
        return self.values[start : self.start].reshape(shape)


def read_arrays(
    entries: dict[str, bytes], types: Mapping[str, Any], lengths: Mapping[str, int]
) -> dict[str, ArrayReader]:
    """A reader for every name of `ARRAYS`, with the types of the JSON and the lengths that it implies.

    The entries (of the archive, without the JSON) are used up.
    """
    needed = [name for name in ARRAYS if lengths[name] or name in types]
    if types.keys() != set(needed) or entries.keys() != {f"{name}.npy" for name in needed}:
        raise DocumentError(f"it must hold document.json and the arrays {', '.join(needed)}, and nothing else")
    for name, kind in types.items():
        if kind not in ARRAYS[name].types:
            raise DocumentError(f"array {name!r} cannot have the type {shorten(kind)}")
        data, header = entries[f"{name}.npy"], _write_header(kind, lengths[name])
        if not data.startswith(header) or len(data) != len(header) + lengths[name] * np.dtype(kind).itemsize:
            raise DocumentError(f"array {name!r} does not hold the {lengths[name]:,} numbers that the model needs")
    return {name: ArrayReader(name, entries.pop(f"{name}.npy", b""), types.get(name)) for name in ARRAYS}
