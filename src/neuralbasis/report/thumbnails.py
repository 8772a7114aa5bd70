"""Thumbnails: small pictures as data addresses, so that a page stays one file that one can send.

In: arrays (height, width, 3) of 0 … 255. Out: PNG, written here, for nothing else of the page needs a library of
pictures. All thumbnails of a page together have a bounded size: where they are many they become smaller.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TRUECOLOUR = 2
UP = 2  # each pixel less the one above: fewer different bytes


def encode_thumbnails(pictures: Sequence[np.ndarray], sides: Sequence[int], max_bytes: int) -> list[str]:
    """A data address for each picture; its longer side has the first of these sizes with which all have room."""
    files: list[bytes] = []
    for side in sides:
        files = [write_png(shrink(picture, side)) for picture in pictures]
        if sum(map(len, files)) <= max_bytes:
            break
    return [f"data:image/png;base64,{base64.b64encode(file).decode()}" for file in files]


def shrink(picture: np.ndarray, max_side: int) -> np.ndarray:
    """A picture whose sides are at most so long: means of the pixels that fall together.

    >>> shrink(np.array([[[0], [2], [4], [6]]], np.uint8), 2).ravel().tolist()
    [1, 5]
    """
    times = max_side / max(picture.shape[:2])
    if times >= 1:
        return picture
    found = picture.astype(float)
    for axis in (0, 1):
        size = picture.shape[axis]
        edges = np.linspace(0, size, max(1, round(size * times)) + 1).astype(int)
        counts = np.diff(edges).reshape(-1, *[1] * (2 - axis))
        found = np.add.reduceat(found, edges[:-1], axis=axis) / counts
    return np.rint(found).astype(np.uint8)


def write_png(picture: np.ndarray) -> bytes:
    """A whole PNG file of a picture (height, width, 3)."""
    height, width, _ = picture.shape
    lines = picture.reshape(height, -1)
    above = np.vstack([np.zeros_like(lines[:1]), lines[:-1]])
    filtered = np.hstack([np.full((height, 1), UP, np.uint8), lines - above])  # bytes wrap round, as they must
    header = struct.pack(">IIBBBBB", width, height, 8, TRUECOLOUR, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b"")
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
