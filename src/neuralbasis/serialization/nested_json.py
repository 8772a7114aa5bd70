"""Nested: plain values and arrays, one in the other, in one file: the state of a fit, for resuming it later.

    {"step": 7, "values": array, "parts": [...]} -> archive of state.json and arrays.bin -> the same

`state.json` gives the dtype and shape of every array, `arrays.bin` holds their bytes in the order in which they occur:
what is read is never larger than the file's entries. No pickle: nothing in a file is executed. The archive's SHA-256
sums find accidental damage, which raises `DocumentError`. They do not protect from a file that was forged together with
its sums: whoever reads the content must check it before using it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from .archive import DocumentError, read_archive, write_archive

FORMAT = 2  # raise it with every change of the layout; files of another format are not read
MAX_VALUES = 4_000_000  # in state.json, about: a value takes up to a hundred bytes of memory
DTYPES = {"<f4", "<f8", "<i4", "<i8", "|u1", "|b1"}


def write_nested(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write nested plain values and arrays to one file."""
    arrays: list[np.ndarray] = []
    text = json.dumps({"format": FORMAT, **_pack(content, arrays)}).encode()
    _check_size(text)
    write_archive(path, {"state.json": text, "arrays.bin": b"".join(array.tobytes() for array in arrays)})


def read_nested(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_nested` wrote; a `DocumentError` if the file is damaged or of another format."""
    with open(path, "rb") as file:
        entries = read_archive(file)
    try:
        text = entries["state.json"]
        _check_size(text)
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("format") != FORMAT:
            raise DocumentError("it was written by another version of neuralbasis")
        arrays = _Arrays(entries["arrays.bin"])
        found = _unpack(content, arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"it is not a state of neuralbasis ({type(error).__name__}: {error})") from None
    if arrays.place < len(arrays.data):
        raise DocumentError("it holds more bytes than its arrays have")
    return found


def _check_size(text: bytes) -> None:
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise DocumentError(f"its state.json has more than {MAX_VALUES:,} values")


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    """Move arrays to the list; their dtype and shape stand for them."""
    if isinstance(value, np.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        if little.dtype.str not in DTYPES:
            raise TypeError(f"a state cannot hold an array of {value.dtype}")
        arrays.append(little)
        return {"array": [little.dtype.str, list(value.shape)]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _pack(item, arrays) for name, item in value.items()}
    return [_pack(item, arrays) for item in value] if isinstance(value, (list, tuple)) else value


def _unpack(value: Any, arrays: _Arrays) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return arrays.take(*value["array"])
        return {name: _unpack(item, arrays) for name, item in value.items()}
    return [_unpack(item, arrays) for item in value] if isinstance(value, list) else value


class _Arrays:
    """Bytes of which one array after the other is taken: together they are as large as the bytes."""

    def __init__(self, data: bytes):
        self.data, self.place = data, 0

    def take(self, kind: str, shape: list[int]) -> np.ndarray:
        if kind not in DTYPES or any(type(side) is not int or side < 0 for side in shape):
            raise ValueError(f"no array of {kind!r:.40} and shape {shape!r:.80}")
        count, dtype = prod(shape), np.dtype(kind)
        first, self.place = self.place, self.place + count * dtype.itemsize
        if self.place > len(self.data):
            raise ValueError("an array is cut short")
        found = np.frombuffer(self.data, dtype, count, first).reshape(shape)
        return found.astype(dtype.newbyteorder("="))  # a copy that can be written to
