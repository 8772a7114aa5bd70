"""Nested JSON: lists, dicts, plain values and arrays in one file, for the state of a fit.

    {"step": 7, "values": array, "parts": [...]} -> archive of state.json and arrays.bin -> the same

`state.json` has the dtype and shape of every array, `arrays.bin` their bytes in order of occurrence. Reading takes no
more memory than the entries and executes nothing. Damage raises a `DocumentError`. The checksums do not protect from
forged files: callers must check the content before they use it.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from math import prod
from typing import Any, BinaryIO

import numpy as np

from .archive import DocumentError, read_archive, write_archive
from .json_checks import MAX_VALUES  # a value takes up to a hundred bytes of memory

FORMAT = 2  # raise it with every change; files of other formats are refused
DTYPES = {"<f4", "<f8", "<i4", "<i8", "|u1", "|b1"}


def write_nested(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Write a dict of plain values, arrays, and lists and dicts of these."""
    arrays: list[np.ndarray] = []
    text = json.dumps({"format": FORMAT, **_pack(content, arrays)}).encode()
    _check_size(text)
    write_archive(path, {"state.json": text, "arrays.bin": b"".join(array.tobytes() for array in arrays)})


def read_nested(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read what `write_nested` wrote. A file that is damaged or has another format raises a `DocumentError`."""
    with open(path, "rb") as file:
        entries = read_archive(file)
    try:
        text = entries["state.json"]
        _check_size(text)
        content = json.loads(text)
        if not isinstance(content, dict) or content.pop("format") != FORMAT:
            raise DocumentError("it was written by another version of neuralbasis")
        arrays = io.BytesIO(entries["arrays.bin"])
        found = _unpack(content, arrays)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        if isinstance(error, DocumentError):
            raise
        raise DocumentError(f"it is not a state of neuralbasis ({type(error).__name__}: {error})") from None
    if arrays.read(1):
        raise DocumentError("its arrays.bin holds more bytes than its arrays")
    return found


def _check_size(text: bytes) -> None:
    if sum(map(text.count, (b",", b"[", b"{"))) > MAX_VALUES:
        raise DocumentError(f"its state.json has more than {MAX_VALUES:,} values")


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    """Plain values, with arrays moved to the list and replaced by their dtype and shape."""
    if isinstance(value, np.ndarray):
        little = value.astype(value.dtype.newbyteorder("<"), copy=False)
        if little.dtype.str not in DTYPES:
            raise TypeError(f"a state cannot hold an array of {value.dtype}; expected one of {sorted(DTYPES)}")
        arrays.append(little)
        return {"array": [little.dtype.str, list(value.shape)]}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _pack(item, arrays) for name, item in value.items()}
    return [_pack(item, arrays) for item in value] if isinstance(value, (list, tuple)) else value


def _unpack(value: Any, arrays: BinaryIO) -> Any:
    """Plain values with their arrays, which are taken from the bytes one after the other."""
    if isinstance(value, list):
        return [_unpack(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if value.keys() != {"array"}:
        return {name: _unpack(item, arrays) for name, item in value.items()}
    kind, shape = value["array"]
    if kind not in DTYPES or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"no array of {kind!r:.40} and shape {shape!r:.80}")
    dtype = np.dtype(kind)
    data = arrays.read(prod(shape) * dtype.itemsize)
    if len(data) < prod(shape) * dtype.itemsize:
        raise ValueError("an array is truncated")
    return np.frombuffer(data, dtype).reshape(shape).astype(dtype.newbyteorder("="))  # a writable copy
