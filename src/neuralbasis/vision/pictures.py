"""Pictures: an image file -> a square of RGB bytes and the original size.

Only this module imports PIL. It handles greyscale, palettes, transparency (on white), CMYK, 16 bits, EXIF orientation
and large files. An invalid or truncated file raises `PictureError` with its name. A JPEG much larger than needed is
decoded at a fraction of its size.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import NamedTuple

import numpy as np

try:
    from PIL import Image
except ImportError as error:
    raise ImportError("pictures need Pillow: pip install 'neuralbasis[vision]'", name="PIL") from error

SUFFIXES = (".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ppm", ".pgm")
MAX_PIXELS = 1 << 27  # of a decoded picture: 0.5 GB per thread, 1 GB if it is not RGB
BICUBIC = int(Image.Resampling.BICUBIC)
_ORIENTATION = 0x0112  # EXIF tag
_TRANSPOSES = {  # value of the tag -> operation that makes the picture upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_QUARTER_TURNS = tuple(_TRANSPOSES[value] for value in (5, 6, 7, 8))  # they exchange width and height
_WIDTH, _HEIGHT = 256, 257  # TIFF tags
_OPEN_LOCK = threading.Lock()


class PictureError(ValueError):
    """A file that cannot be read as a picture.

    Examples
    --------
    >>> try:
    ...     read_picture("no such file.jpg")
    ... except PictureError as error:
    ...     print("no such file.jpg" in str(error))
    True
    """


class Picture(NamedTuple):
    """A picture, resized for a backbone."""

    pixels: np.ndarray  # (side, side, 3) bytes, RGB
    size: tuple[int, int]  # width and height in pixels of the upright picture before resizing


def read_picture(path: str | os.PathLike[str], side: int = 448, resample: int = BICUBIC) -> Picture:
    """Read a picture and resize it to a square without cropping; `PictureError` if that is impossible.

    DIFF: the paper crops at random; without randomness a picture always has the same scores. ResNet's own processor
    also resizes without cropping from 384 pixels on.

    Parameters
    ----------
    path : image file
    side : width and height of the result in pixels
    resample : PIL's number of the filter

    Returns
    -------
    Picture
        With `pixels` (side, side, 3) and the original `size`.

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
            (width, height), transpose = _read_header(image)
            image.draft("RGB", (2 * side, 2 * side))
            if image.size[0] * image.size[1] > MAX_PIXELS:
                raise PictureError(
                    f"it has {width} × {height} pixels, more than the limit of {MAX_PIXELS:,}; make it smaller"
                )
            image.load()
            square = _to_rgb(image).resize((side, side), Image.Resampling(resample))
            upright = square if transpose is None else square.transpose(transpose)
            return Picture(np.asarray(upright), (width, height))
    except PictureError as error:
        raise PictureError(f"{os.fspath(path)}: {error}") from None
    except Exception as error:  # decoders raise many types
        raise PictureError(f"{os.fspath(path)}: {_describe(error)}") from error


def picture_size(path: str | os.PathLike[str]) -> tuple[int, int]:
    """Width and height of the upright picture, from the header only; (0, 0) if it cannot be read."""
    try:
        with _open(path) as image:
            return _read_header(image)[0]
    except Exception:  # decoders raise many types
        return 0, 0


def list_pictures(folder: str | os.PathLike[str]) -> list[Path]:
    """List the pictures of a folder and its subfolders by suffix, in the order of their names; links are followed.

    Parameters
    ----------
    folder : path

    Returns
    -------
    list of Path

    Examples
    --------
    >>> list_pictures("no such folder")
    Traceback (most recent call last):
    NotADirectoryError: expected a folder of pictures, got 'no such folder'
    """
    if not os.path.isdir(folder):
        raise NotADirectoryError(f"expected a folder of pictures, got {os.fspath(folder)!r}")
    found = []
    for root, folders, names in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if not _is_cycle(Path(root, name), Path(folder))]
        pictures = (name for name in names if name.lower().endswith(SUFFIXES) and not name.startswith("."))
        found += [Path(root, name) for name in pictures]
    return sorted(found)


def _is_cycle(path: Path, top: Path) -> bool:
    """Whether it is a link to a folder that contains it."""
    if not path.is_symlink():
        return False
    above = [parent for parent in path.parents if parent == top or top in parent.parents]
    return os.path.realpath(path) in map(os.path.realpath, above)


def _open(path: str | os.PathLike[str]) -> Image.Image:
    """Read the header. PIL's size limit assumes full decoding; `MAX_PIXELS` is checked after `draft` instead."""
    # Reading a pipe or a device would not end.
    if os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise PictureError("it is not a regular file")
    with _OPEN_LOCK:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(path)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _read_header(image: Image.Image) -> tuple[tuple[int, int], Image.Transpose | None]:
    """Width and height of the upright picture, and the operation that makes the loaded picture upright."""
    try:
        # The `getexif` of a PNG would decode the whole picture.
        transpose = _TRANSPOSES.get(Image.Image.getexif(image).get(_ORIENTATION, 1))
    except Exception:  # the header is invalid
        transpose = None
    # PIL rotates a TIFF when it is loaded, and its `size` before that depends on the version of PIL.
    tags = getattr(image, "tag_v2", None)
    width, height = image.size if tags is None else (tags[_WIDTH], tags[_HEIGHT])
    size = (height, width) if transpose in _QUARTER_TURNS else (width, height)
    return size, transpose if tags is None else None


def _to_rgb(image: Image.Image) -> Image.Image:
    if image.mode in ("I", "I;16", "I;16L", "I;16B", "I;16N", "F"):  # greyscale with more than 8 bits
        # 16 bits are scaled by their full range, others from their minimum to their maximum.
        values = np.asarray(image).astype(np.float32)
        is_16_bit = image.mode.startswith("I;16")
        low, high = (0.0, 65535.0) if is_16_bit else (float(values.min()), float(values.max()))
        scaled = (values - low) * (255.0 / max(high - low, 1e-12))
        return Image.fromarray(np.nan_to_num(scaled).clip(0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in ("RGBA", "LA", "PA", "La", "RGBa") or "transparency" in image.info:
        layer = image if image.mode == "RGBA" else image.convert("RGBA")
        background = Image.new("RGB", layer.size, "white")
        background.paste(layer, mask=layer)
        return background
    return image if image.mode == "RGB" else image.convert("RGB")


def _describe(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "there is no such file"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror.lower()
    text = " ".join(str(error).split())
    if "cannot identify" in text:
        return "it is empty or not a picture"
    return f"it is damaged or truncated ({text or type(error).__name__})"
