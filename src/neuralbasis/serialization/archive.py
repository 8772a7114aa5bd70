"""Archive: a zip of a few named entries and their SHA-256 sums; written at once or not at all, read within limits.

    {name: bytes} -> file -> {name: bytes}

The sums lie in an entry of their own, as `sha256sum --check` reads them. They detect a damaged file, not a forged one:
whoever reads the entries must not trust them. Nothing is unpacked to disk. An entry takes at most `MAX_RATIO` bytes of
memory for each of its bytes in the file (or `FREE_BYTES`), and all entries together at most `MAX_BYTES`.
"""

from __future__ import annotations

import hashlib
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from typing import BinaryIO

from .temporary_file import replace_when_done

SUMS = "SHA256SUMS"
MAX_BYTES = 1 << 31  # of the file, and of all its entries unpacked
MAX_ENTRIES = 32
MAX_DIRECTORY = 8192  # bytes of the zip's list of entries
MAX_RATIO = 50  # an entry unpacks to at most so many times its size in the file; what packs better is stored as it is
FREE_BYTES = 1 << 18  # … unless it is this small
TRIED_BYTES = 1 << 20  # of a long entry that are packed first, to see whether it is worth while

_END = struct.Struct("<4s4H2LH")  # the record that ends a zip
_HEADER_BYTES = 30  # before the name of an entry
_BROKEN = (  # what zipfile raises for broken zips
    zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OverflowError, RuntimeError, ValueError
)  # fmt: skip


class DocumentError(ValueError):
    """A file that is not, or no longer, a model that this version of neuralbasis can read."""


def write_archive(path: str | os.PathLike[str], entries: Mapping[str, bytes]) -> None:
    """Write entries to a file; the same entries give the same bytes. A file of that name is replaced when all is well.

    The new file is read back before it takes its place.
    """
    with replace_when_done(path) as file:
        _write_zip(file, {**entries, SUMS: _write_sums(entries)})
        file.flush()
        if read_archive(file) != entries:
            raise OSError(f"{os.fspath(path)} could not be written: what was read back is not what was written")


def read_archive(file: BinaryIO) -> dict[str, bytes]:
    """All entries of a file but the sums, which must be right."""
    _check_end(file)
    try:
        with zipfile.ZipFile(file) as archive:
            entries = {info.orig_filename: info for info in archive.infolist()}
            if len(entries) < len(archive.infolist()):
                raise DocumentError("two of its entries have the same name")
            _check_sizes(entries)
            _check_places(archive.infolist(), archive.start_dir)
            found = {name: _read_entry(archive, info) for name, info in entries.items()}
    except DocumentError:
        raise
    except _BROKEN as error:
        raise DocumentError(f"it is cut short or damaged ({error})") from None
    if found.pop(SUMS, None) != _write_sums(found):
        raise DocumentError(f"its contents do not agree with its checksums in {SUMS}: it is damaged, or was changed")
    return found


def _write_zip(file: BinaryIO, entries: Mapping[str, bytes]) -> None:
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in entries.items():
            info = zipfile.ZipInfo(name)  # of 1980, as zip counts: the bytes do not depend on the day
            info.create_system, info.external_attr = 3, 0o644 << 16  # nor on the machine
            info.compress_type = _choose_packing(data)
            archive.writestr(info, data)


def _choose_packing(data: bytes) -> int:
    """Packed, unless it unpacks to suspiciously much, or is long and hardly packs: large arrays are read at once."""
    if len(data) > TRIED_BYTES and len(zlib.compress(data[:TRIED_BYTES])) > 0.75 * TRIED_BYTES:
        return zipfile.ZIP_STORED
    return zipfile.ZIP_DEFLATED if len(data) <= _max_size(len(zlib.compress(data))) else zipfile.ZIP_STORED


def _write_sums(entries: Mapping[str, bytes]) -> bytes:
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in entries.items()]
    return "".join(lines).encode()


def _max_size(packed: int) -> int:
    """Bytes that so many packed ones may stand for."""
    return max(FREE_BYTES, MAX_RATIO * packed)


def _check_end(file: BinaryIO) -> None:
    """Refuse what zipfile would read at length or leave unread: long lists of entries, zip64, text before or behind."""
    size = file.seek(0, os.SEEK_END)
    if size > MAX_BYTES:
        raise DocumentError(f"it has {size:,} bytes; a model has at most {MAX_BYTES:,}")
    file.seek(max(0, size - _END.size - 20))
    tail = file.read(_END.size + 20)
    if len(tail) < _END.size or tail[-_END.size :][:4] != b"PK\5\6":
        raise DocumentError("it is cut short, or it is not a model of neuralbasis")
    _, disk, first_disk, here, count, length, start, comment = _END.unpack(tail[-_END.size :])
    is_whole = (disk, first_disk, comment) == (0, 0, 0) and here == count and start + length + _END.size == size
    if not is_whole or tail.startswith(b"PK\6\7") or count > MAX_ENTRIES or length > MAX_DIRECTORY:
        raise DocumentError("its list of entries is not one that neuralbasis writes")


def _check_places(infos: list[zipfile.ZipInfo], end: int) -> None:
    """Entries must fill the file one after another: packed sizes, which limit what is unpacked, are then real bytes."""
    place = 0
    for info in infos:
        if info.header_offset != place:
            name = f"{info.orig_filename!r:.80}"
            raise DocumentError(f"its entry {name} overlaps another one, or lies outside of the file")
        place += _HEADER_BYTES + len(info.orig_filename) + info.compress_size
    if place != end:
        raise DocumentError("its entries overlap one another, or do not fill the file")


def _check_sizes(entries: Mapping[str, zipfile.ZipInfo]) -> None:
    """Before anything is unpacked."""
    for name, info in entries.items():
        if info.flag_bits or info.extra or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DocumentError(f"its entry {name!r:.80} is encrypted or packed in another way than neuralbasis does")
        if info.file_size > _max_size(info.compress_size):
            raise DocumentError(f"its entry {name!r:.80} would unpack to {info.file_size:,} bytes, suspiciously many")
    total = sum(info.file_size for info in entries.values())
    if total > MAX_BYTES:
        raise DocumentError(f"it would unpack to {total:,} bytes; a model has at most {MAX_BYTES:,}")


def _read_entry(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> bytes:
    with archive.open(info) as stream:
        data = stream.read(info.file_size)  # without a number, an entry that lies about its size is unpacked whole
    if len(data) != info.file_size:
        raise DocumentError(f"its entry {info.orig_filename!r:.80} is shorter than it says")
    return data
