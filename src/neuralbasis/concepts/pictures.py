"""Pictures: a file of any kind -> a square of RGB bytes, and the size that it had.

Greyscale, palettes, transparency (on white), CMYK, 16 bits, EXIF rotation and large files are handled; a file that is
no picture, or not a whole one, is a `PictureError` with its name. A JPEG much larger than needed is decoded at a
fraction of its size. The home of PIL.
"""

from __future__ import annotations

import os
import struct
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MAX_PIXELS = 1 << 27  # of a picture when it is decoded: 400 MB
BICUBIC = int(Image.Resampling.BICUBIC)
_DEEP = ("I", "I;16", "I;16L", "I;16B", "I;16N", "F")  # greys of more than 8 bits
_BROKEN = (  # what decoders raise for broken files
    OSError, ValueError, TypeError, SyntaxError, EOFError, IndexError, KeyError, AttributeError, OverflowError,
    MemoryError, struct.error, zlib.error, Warning,
)  # fmt: skip
_ORIENTATION, _TURNED = 0x0112, (5, 6, 7, 8)  # EXIF's tag, and its values that exchange width and height
_OPENING = threading.Lock()


class PictureError(ValueError):
    """A file that cannot be read as a picture."""


class Picture(NamedTuple):
    """A picture as a backbone wants it.

    pixels : (side, side, 3) bytes, RGB
    size : width and height in pixels before it was resized, turned as a person sees it
    """

    pixels: np.ndarray
    size: tuple[int, int]


def read_picture(path: str | os.PathLike[str], side: int = 448, resample: int = BICUBIC) -> Picture:
    """A picture, resized to a square without cutting anything off.

    DIFF: the paper crops at random; a fixed rule gives a picture the same scores every time. Warping to the square is
    what the processor of ResNet does from 384 pixels on.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Image.new("L", (30, 20), 200).save(f"{folder}/grey.png")
    ...     picture = read_picture(f"{folder}/grey.png", side=8)
    >>> picture.pixels.shape, picture.pixels[0, 0].tolist(), picture.size
    ((8, 8, 3), [200, 200, 200], (30, 20))
    """
    try:
        with _open(path) as image:
            width, height = image.size
            image.draft("RGB", (2 * side, 2 * side))
            if image.size[0] * image.size[1] > MAX_PIXELS:
                raise PictureError(f"has {width} × {height} pixels, more than can be decoded; make it smaller")
            is_turned = image.getexif().get(_ORIENTATION, 1) in _TURNED
            square = _to_rgb(ImageOps.exif_transpose(image)).resize((side, side), Image.Resampling(resample))
            return Picture(np.asarray(square), (height, width) if is_turned else (width, height))
    except PictureError as error:
        raise PictureError(f"{os.fspath(path)}: {error}") from None
    except _BROKEN as error:
        raise PictureError(f"{os.fspath(path)}: {_describe(error)}") from error


def picture_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Width and height as a person sees them, from the header only; (0, 0) if it cannot be read."""
    try:
        with _open(path) as image:
            width, height = image.size
            return (height, width) if image.getexif().get(_ORIENTATION, 1) in _TURNED else (width, height)
    except _BROKEN:
        return 0, 0


def list_pictures(folder: str | os.PathLike[str]) -> list[Path]:
    """The pictures in a folder and below it, by their suffixes, in the order of their names.

    Examples
    --------
    >>> list_pictures("no such folder")
    Traceback (most recent call last):
    NotADirectoryError: expected a folder of pictures, got 'no such folder'
    """
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"expected a folder of pictures, got {os.fspath(folder)!r}")
    return sorted(_walk(Path(folder)))


def _walk(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (Path(root, name) for name in names if name.lower().endswith(SUFFIXES) and not name.startswith("."))


def _open(path: str | os.PathLike[str]) -> Image.Image:
    """Only the header is read. PIL's limit is for pictures decoded whole; ours is checked behind `draft`."""
    with _OPENING:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(path)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in _DEEP:
        return _flatten_greys(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        solid = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", solid.size, "white"), solid).convert("RGB")
    return image.convert("RGB")


def _flatten_greys(image: Image.Image) -> Image.Image:
    """16 bits by their upper 8; whole numbers and fractions of any range from their darkest to their lightest."""
    values = np.asarray(image).astype(np.float32)
    if image.mode.startswith("I;16"):
        low, high = 0.0, 65535.0
    else:
        low, high = float(values.min()), float(values.max())
    scaled = (values - low) * (255.0 / max(high - low, 1e-12))
    return Image.fromarray(np.nan_to_num(scaled).clip(0, 255).astype(np.uint8)).convert("RGB")


def _describe(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = " ".join(str(error).split())
    if "cannot identify" in text:
        return "it is empty or no picture"
    return f"it is broken or cut short ({text or type(error).__name__})"
