"""Pictures: a file of any kind -> a square of RGB bytes, and the size that it had.

Greyscale, palettes, transparency (on white), CMYK, 16 bits, EXIF rotation and large files are handled; a file that is
no picture, or not a whole one, is a `PictureError` with its name. A JPEG much larger than needed is decoded at a
fraction of its size. How a camera was held is read from what comes before the pixels. The home of PIL.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

try:
    from PIL import Image
except ImportError as error:
    raise ImportError("pictures need Pillow: pip install 'neuralbasis[vision]'", name="PIL") from error

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MAX_PIXELS = 1 << 27  # of a picture when it is decoded: 0.5 GB a thread, twice that where it is not RGB
BICUBIC = int(Image.Resampling.BICUBIC)
_DEEP = ("I", "I;16", "I;16L", "I;16B", "I;16N", "F")  # greys of more than 8 bits
_ORIENTATION = 0x0112  # EXIF's tag
_TURNS = {  # its values, and what makes such a picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_QUARTERS = tuple(_TURNS[value] for value in (5, 6, 7, 8))  # these exchange width and height
_WIDTH, _HEIGHT = 256, 257  # TIFF's tags
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
            (width, height), turn = _find_size(image), _find_turn(image)
            image.draft("RGB", (2 * side, 2 * side))
            if image.size[0] * image.size[1] > MAX_PIXELS:
                raise PictureError(f"has {width} × {height} pixels, more than can be decoded; make it smaller")
            image.load()
            square = _to_rgb(image).resize((side, side), Image.Resampling(resample))
            if turn is not None and not _is_tiff(image):  # PIL turns a TIFF as it decodes it
                square = square.transpose(turn)
            return Picture(np.asarray(square), (width, height))
    except PictureError as error:
        raise PictureError(f"{os.fspath(path)}: {error}") from None
    except Exception as error:  # decoders raise anything
        raise PictureError(f"{os.fspath(path)}: {_describe(error)}") from error


def picture_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Width and height as a person sees them, from the header only; (0, 0) if it cannot be read."""
    try:
        with _open(path) as image:
            return _find_size(image)
    except Exception:  # decoders raise anything
        return 0, 0


def list_pictures(folder: str | os.PathLike[str]) -> list[Path]:
    """The pictures in a folder and below it, also through links, by their suffixes, in the order of their names.

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
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not _leads_back(Path(root, name), folder)]
        yield from (Path(root, name) for name in names if name.lower().endswith(SUFFIXES) and not name.startswith("."))


def _leads_back(path: Path, top: Path) -> bool:
    """Is it a link to a folder that it lies in?"""
    if not path.is_symlink():
        return False
    above = [parent for parent in path.parents if parent == top or top in parent.parents]
    return os.path.realpath(path) in map(os.path.realpath, above)


def _open(path: str | os.PathLike[str]) -> Image.Image:
    """Only the header is read. PIL's limit is for pictures decoded whole; ours is checked behind `draft`."""
    # A pipe or a device would be read for ever.
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise PictureError("it is not a regular file")
    with _OPENING:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(path)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _is_tiff(image: Image.Image) -> bool:
    return hasattr(image, "tag_v2")


def _find_turn(image: Image.Image) -> Image.Transpose | None:
    """What makes it upright, from its header; one that cannot be read says nothing."""
    try:
        # Not `image.getexif`: that of a PNG decodes the whole picture.
        return _TURNS.get(Image.Image.getexif(image).get(_ORIENTATION, 1))
    except Exception:
        return None


def _find_size(image: Image.Image) -> tuple[int, int]:
    """Width and height when upright. Versions of PIL differ in whether `size` of a turned TIFF is that already."""
    tags = getattr(image, "tag_v2", None)
    width, height = image.size if tags is None else (tags[_WIDTH], tags[_HEIGHT])
    return (height, width) if _find_turn(image) in _QUARTERS else (width, height)


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in _DEEP:
        return _flatten_greys(image)
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        solid = image if image.mode == "RGBA" else image.convert("RGBA")
        ground = Image.new("RGB", solid.size, "white")
        ground.paste(solid, mask=solid)
        return ground
    return image if image.mode == "RGB" else image.convert("RGB")


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
