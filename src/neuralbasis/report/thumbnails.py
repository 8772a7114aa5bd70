"""Thumbnails: small pictures as data URLs inside the page.

In: arrays (height, width, 3) of 0 … 255. Out: PNG, written here because nothing else in the page needs an image
library. The total size of all thumbnails is bounded: many pictures become smaller.
"""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence

import numpy as np

SIGNATURE = b"\x89PNG\r\n\x1a\n"
TRUECOLOUR = 2
UP = 2  # filter: each pixel minus the pixel above, which compresses better


def encode_thumbnails(pictures: Sequence[np.ndarray], sides: Sequence[int], max_bytes: int) -> list[str]:
    """A data URL for each picture; the longer side has the first of `sides` for which all fit into `max_bytes`."""
    files: list[bytes] = []
    for side in sides:
        files = [write_png(shrink(picture, side)) for picture in pictures]
        if sum(map(len, files)) <= max_bytes:
            break
    return [f"data:image/png;base64,{base64.b64encode(file).decode()}" for file in files]


def shrink(picture: np.ndarray, max_side: int) -> np.ndarray:
    """Downsample a picture to at most `max_side` pixels per side, by the mean of merged pixels.

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
    """A picture (height, width, 3) as a PNG file."""
    height, width, _ = picture.shape
    lines = picture.reshape(height, -1)
    above = np.vstack([np.zeros_like(lines[:1]), lines[:-1]])
    filtered = np.hstack([np.full((height, 1), UP, np.uint8), lines - above])  # bytes wrap around, as PNG requires
    header = struct.pack(">IIBBBBB", width, height, 8, TRUECOLOUR, 0, 0, 0)
    parts = (b"IHDR", header), (b"IDAT", zlib.compress(filtered.tobytes(), 9)), (b"IEND", b"")
    return SIGNATURE + b"".join(_chunk(kind, data) for kind, data in parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
