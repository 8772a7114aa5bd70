"""Nested: plain values and arrays, one in the other, in one file: what a fit leaves behind to go on later.

    {"step": 7, "values": array, "parts": [...]} -> archive of state.json and arrays.npz -> the same

No pickle: nothing in a file is executed. A damaged file is a `DocumentError`.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .archive import DocumentError, read_archive, write_archive

FORMAT = 1


def write_nested(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    """Nested plain values and arrays -> one file."""
    arrays: list[np.ndarray] = []
    text = json.dumps({"format": FORMAT, **_pack(content, arrays)})
    packed = io.BytesIO()
    np.savez(packed, *arrays)
    write_archive(path, {"state.json": text.encode(), "arrays.npz": packed.getvalue()})


def read_nested(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `write_nested` wrote; nothing in the file is executed. A `DocumentError` if it is damaged."""
    with open(path, "rb") as file:
        entries = read_archive(file)
    try:
        content = json.loads(entries["state.json"])
        if content.pop("format") != FORMAT:
            raise DocumentError("it was written by another version of neuralbasis")
        with np.load(io.BytesIO(entries["arrays.npz"]), allow_pickle=False) as arrays:
            return _unpack(content, arrays)
    except (KeyError, TypeError, ValueError) as error:
        raise DocumentError(f"it is not a state of neuralbasis ({error})") from None


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    """Arrays go to the list, and their numbers stand for them."""
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, Mapping):
        return {name: _pack(item, arrays) for name, item in value.items()}
    return [_pack(item, arrays) for item in value] if isinstance(value, (list, tuple)) else value


def _unpack(value: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return arrays[f"arr_{value['array']}"]
        return {name: _unpack(item, arrays) for name, item in value.items()}
    return [_unpack(item, arrays) for item in value] if isinstance(value, list) else value
