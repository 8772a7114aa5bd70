"""Reading pictures: formats, modes, EXIF orientation, large and damaged files."""

from __future__ import annotations

import io
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest

Image = pytest.importorskip("PIL.Image")

from neuralbasis.vision import PictureError, list_pictures, read_picture  # noqa: E402
from neuralbasis.vision.pictures import picture_size  # noqa: E402

SIDE = 32
RED = (250, 0, 0)


def halves(mode: str = "RGB") -> Image.Image:
    """A picture of 60 × 40 pixels, red on the left and blue on the right."""
    pixels = np.zeros((40, 60, 3), dtype=np.uint8)
    pixels[:, :30, 0], pixels[:, 30:, 2] = 250, 250
    return Image.fromarray(pixels).convert(mode)


def side_colours(picture: np.ndarray) -> list[list[int]]:
    """Mean colours of the left, right, top and bottom thirds."""
    third = SIDE // 3
    sides = (picture[:, :third], picture[:, -third:], picture[:third], picture[-third:])
    return [part.reshape(-1, 3).mean(axis=0).round().astype(int).tolist() for part in sides]


KINDS = {
    "jpg": ("RGB", "CMYK", "YCbCr"),
    "png": ("RGB", "P", "RGBA"),
    "tif": ("RGB", "P", "CMYK", "RGBA", "YCbCr"),
    "gif": ("RGB", "P", "RGBA"),
    "webp": ("RGB", "RGBA"),
}


@pytest.mark.parametrize(("suffix", "mode"), [(suffix, mode) for suffix, modes in KINDS.items() for mode in modes])
def test_modes_and_containers(suffix: str, mode: str, tmp_path: Path) -> None:
    path = tmp_path / f"a.{suffix}"
    halves(mode).save(path)
    picture = read_picture(path, SIDE)
    left, right, *_ = side_colours(picture.pixels)
    assert picture.pixels.dtype == np.uint8
    assert picture.pixels.shape == (SIDE, SIDE, 3)
    assert picture.size == picture_size(path) == (60, 40)
    assert np.abs(np.subtract(left, (250, 0, 0))).max() <= 8
    assert np.abs(np.subtract(right, (0, 0, 250))).max() <= 8


def test_greys_of_all_depths(tmp_path: Path) -> None:
    Image.new("L", (20, 30), 77).save(tmp_path / "8.png")
    Image.fromarray(np.full((30, 20), 77 * 257, dtype=np.uint16)).save(tmp_path / "16.png")
    Image.new("1", (20, 30), 1).save(tmp_path / "1.png")
    Image.fromarray(np.linspace(-5, 5, 600, dtype=np.float32).reshape(30, 20)).save(tmp_path / "f.tif")
    assert (read_picture(tmp_path / "8.png", SIDE).pixels == 77).all()
    assert (read_picture(tmp_path / "16.png", SIDE).pixels == 77).all()
    assert (read_picture(tmp_path / "1.png", SIDE).pixels == 255).all()
    deep = read_picture(tmp_path / "f.tif", SIDE).pixels
    assert deep[0].mean() < 10
    assert deep[-1].mean() > 245


def test_transparency_becomes_white(tmp_path: Path) -> None:
    image = halves("RGBA")
    image.putalpha(Image.fromarray(np.repeat([[255] * 30 + [0] * 30], 40, axis=0).astype(np.uint8)))
    image.save(tmp_path / "a.png")
    palette = halves().convert("P", palette=Image.Palette.ADAPTIVE, colors=4)
    palette.info["transparency"] = int(np.asarray(palette)[0, -1])
    palette.save(tmp_path / "p.png", transparency=palette.info["transparency"])
    for name in ("a.png", "p.png"):
        left, right, *_ = side_colours(read_picture(tmp_path / name, SIDE).pixels)
        assert np.abs(np.subtract(left, (250, 0, 0))).max() <= 6
        assert right == [255, 255, 255]


@pytest.mark.parametrize("suffix", ["jpg", "png", "tif", "webp"])
@pytest.mark.parametrize(
    ("orientation", "side_of_red", "size"),
    [
        (1, 0, (60, 40)), (2, 1, (60, 40)), (3, 1, (60, 40)), (4, 0, (60, 40)),
        (5, 2, (40, 60)), (6, 2, (40, 60)), (7, 3, (40, 60)), (8, 3, (40, 60)),
    ],
)  # fmt: skip
def test_exif_orientation_is_applied(
    suffix: str, orientation: int, side_of_red: int, size: tuple[int, int], tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"a.{suffix}"
    halves().save(path, exif=exif)
    picture = read_picture(path, SIDE)
    assert picture.size == picture_size(path) == size
    assert np.abs(np.subtract(side_colours(picture.pixels)[side_of_red], RED)).max() <= 12


def test_invalid_exif_is_ignored(tmp_path: Path) -> None:
    halves().save(tmp_path / "a.jpg", exif=b"Exif\0\0invalid", dpi=(72, 72))
    picture = read_picture(tmp_path / "a.jpg", SIDE)
    assert picture.size == picture_size(tmp_path / "a.jpg") == (60, 40)
    assert np.abs(np.subtract(side_colours(picture.pixels)[0], RED)).max() <= 12


def test_the_size_is_read_from_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(png_of(60_000, 60_000))  # the file has no pixels; they would be 14 GB
    assert picture_size(tmp_path / "a.png") == (60_000, 60_000)


def test_a_large_jpeg_is_decoded_at_reduced_size(tmp_path: Path) -> None:
    halves().resize((12_000, 9_000)).save(tmp_path / "a.jpg", quality=30)  # above the size at which PIL warns
    picture = read_picture(tmp_path / "a.jpg", SIDE)
    assert picture.size == (12_000, 9_000)
    assert np.abs(np.subtract(side_colours(picture.pixels)[0], RED)).max() <= 8
    assert Image.MAX_IMAGE_PIXELS is not None


def png_of(width: int, height: int) -> bytes:
    """A PNG whose header states a size, without pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def jpeg_bytes() -> bytes:
    file = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (200, 200, 3), dtype=np.uint8)
    Image.fromarray(noise).save(file, "JPEG")
    return file.getvalue()


BROKEN = {
    "empty": (b"", "empty or not a picture"),
    "text": (b"not a picture at all", "empty or not a picture"),
    "cut": (jpeg_bytes()[:3000], "damaged or truncated"),
    "cut png": (png_of(50, 50), "damaged or truncated"),
    "texture": (b"DDS " + struct.pack("<31I", 124, 0x1007, 9, 9, *[0] * 14, 32, 4, *[0] * 11), "damaged or truncated"),
    "bomb": (png_of(60_000, 60_000), "60000 × 60000 pixels"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_damaged_files_are_named(name: str, tmp_path: Path) -> None:
    data, reason = BROKEN[name]
    path = tmp_path / "b.jpg"
    path.write_bytes(data)
    with pytest.raises(PictureError, match=reason) as caught:
        read_picture(path, SIDE)
    assert str(path) in str(caught.value)


def test_missing_files_and_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(PictureError, match="no such file"):
        read_picture(tmp_path / "absent.jpg", SIDE)
    with pytest.raises(PictureError, match="is a directory"):
        read_picture(tmp_path, SIDE)
    assert picture_size(tmp_path / "absent.jpg") == (0, 0)


def test_random_damage_raises_only_picture_errors(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    png = io.BytesIO()
    halves("P").save(png, "PNG")
    intact = [jpeg_bytes(), png.getvalue()]
    path = tmp_path / "a"
    n_read = 0
    for trial in range(120):
        data = bytearray(intact[trial % 2])
        for offset in rng.integers(len(data), size=rng.integers(1, 12)):
            data[offset] = rng.integers(256)
        path.write_bytes(bytes(data[: rng.integers(1, len(data) + 1)] if trial % 3 == 0 else data))
        try:
            assert read_picture(path, SIDE).pixels.shape == (SIDE, SIDE, 3)
            n_read += 1
        except PictureError:
            pass
    assert 0 < n_read < 120


def test_links_are_followed_without_cycles(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.jpg").write_bytes(b"")
    (tmp_path / "top" / "owl").mkdir(parents=True)
    (tmp_path / "top" / "owl" / "b.jpg").write_bytes(b"")
    (tmp_path / "top" / "crow").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "back").symlink_to(tmp_path / "top")
    (tmp_path / "top" / "owl" / "self").symlink_to(tmp_path / "top" / "owl")
    found = [p.relative_to(tmp_path / "top").as_posix() for p in list_pictures(tmp_path / "top")]
    assert found == ["crow/a.jpg", "owl/b.jpg"]


def test_pictures_are_listed_by_suffix(tmp_path: Path) -> None:
    for name in ("b.JPG", "a.png", "note.txt", ".hidden.jpg"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "c.webp").write_bytes(b"")
    assert [p.relative_to(tmp_path).as_posix() for p in list_pictures(tmp_path)] == ["a.png", "b.JPG", "below/c.webp"]
