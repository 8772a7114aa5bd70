"""Archive: a zip of a few named entries with their SHA-256 sums, replaced whole or not at all, read within limits.

    {name: bytes} -> file -> {name: bytes}

An entry of its own holds the sums in the format of `sha256sum --check`. They detect a damaged file, not a forged one,
so readers must check the entries. Nothing is unpacked to disk. An entry takes at most `MAX_RATIO` bytes of memory for
each of its bytes in the file (or `FREE_BYTES`), and all entries together at most `MAX_BYTES`.
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
MAX_RATIO = 50  # of an entry's size to its size in the file; data that compresses better is stored uncompressed
FREE_BYTES = 1 << 18  # entries up to this size may exceed MAX_RATIO

_END = struct.Struct("<4s4H2LH")  # the last record of a zip


class DocumentError(ValueError):
    """A file that this version of neuralbasis cannot read: damaged, forged, newer, or of another kind."""


def write_archive(path: str | os.PathLike[str], entries: Mapping[str, bytes]) -> None:
    """Write entries to a file. Equal entries give equal bytes.

    The new file is read back before it replaces an older one.
    """
    with replace_when_done(path) as file:
        with zipfile.ZipFile(file, "w") as archive:
            for name, data in {**entries, SUMS: _write_sums(entries)}.items():
                info = zipfile.ZipInfo(name)  # dated 1980: the bytes must depend neither on the day …
                info.create_system, info.external_attr = 3, 0o644 << 16  # … nor on the machine
                info.compress_type = _choose_compression(data)
                archive.writestr(info, data)
        file.flush()
        if read_archive(file) != entries:
            raise OSError(f"{os.fspath(path)} could not be written: the bytes read back differ from those written")


def read_archive(file: BinaryIO) -> dict[str, bytes]:
    """All entries of a file except the sums, which must be right."""
    _check_end(file)
    found = {}
    try:
        with zipfile.ZipFile(file) as archive:
            _check_entries(archive)
            for info in archive.infolist():
                with archive.open(info) as stream:  # without a limit, a forged size would unpack all of it
                    found[info.orig_filename] = data = stream.read(info.file_size)
                if len(data) != info.file_size:
                    raise DocumentError(f"its entry {info.orig_filename!r:.80} is shorter than its stated size")
    except DocumentError:
        raise
    except (
        zipfile.BadZipFile, zlib.error, struct.error, EOFError, NotImplementedError, OverflowError, RuntimeError,
        ValueError,
    ) as error:  # fmt: skip
        raise DocumentError(f"it is truncated or damaged ({error})") from None
    if found.pop(SUMS, None) != _write_sums(found):
        raise DocumentError(f"its contents do not agree with its checksums in {SUMS}: it is damaged, or was changed")
    return found


def _choose_compression(data: bytes) -> int:
    """Stored if it is long and compresses badly, or compresses so well that `read_archive` would refuse it."""
    tried = 1 << 20  # first bytes of a long entry, which show whether compression is worth its time
    if len(data) > tried and len(zlib.compress(data[:tried])) > 0.75 * tried:
        return zipfile.ZIP_STORED
    return zipfile.ZIP_DEFLATED if len(data) <= _max_size(len(zlib.compress(data))) else zipfile.ZIP_STORED


def _write_sums(entries: Mapping[str, bytes]) -> bytes:
    lines = [f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in entries.items()]
    return "".join(lines).encode()


def _max_size(n_packed: int) -> int:
    """Largest size of an entry with so many bytes in the file."""
    return max(FREE_BYTES, MAX_RATIO * n_packed)


def _check_end(file: BinaryIO) -> None:
    """Refuse long lists of entries, zip64, and bytes before or after the zip, all of which zipfile accepts."""
    size = file.seek(0, os.SEEK_END)
    if size > MAX_BYTES:
        raise DocumentError(f"it has {size:,} bytes; the limit is {MAX_BYTES:,}")
    file.seek(max(0, size - _END.size - 20))
    tail = file.read(_END.size + 20)
    if len(tail) < _END.size or tail[-_END.size :][:4] != b"PK\5\6":
        raise DocumentError("it is truncated, or it is not a file of neuralbasis")
    _, disk, first_disk, here, count, length, start, comment = _END.unpack(tail[-_END.size :])
    is_whole = (disk, first_disk, comment) == (0, 0, 0) and here == count and start + length + _END.size == size
    if not is_whole or tail.startswith(b"PK\6\7") or count > 32 or length > 8192:
        raise DocumentError("its list of entries is not one that neuralbasis writes")


def _check_entries(archive: zipfile.ZipFile) -> None:
    """Check the stated sizes before anything is unpacked.

    Entries must fill the file without gaps. Only then are their packed sizes, which limit memory, real bytes.
    """
    infos, offset = archive.infolist(), 0
    if len({info.orig_filename for info in infos}) < len(infos):
        raise DocumentError("two of its entries have the same name")
    for info in infos:
        entry = f"its entry {info.orig_filename!r:.80}"
        if info.flag_bits or info.extra or info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DocumentError(f"{entry} is encrypted, or compressed by another method than deflate")
        if info.file_size > _max_size(info.compress_size):
            raise DocumentError(
                f"{entry} would unpack to {info.file_size:,} bytes, more than {MAX_RATIO} times its size"
            )
        if info.header_offset != offset:
            raise DocumentError(f"{entry} overlaps another one, or is outside of the file")
        offset += 30 + len(info.orig_filename) + info.compress_size  # 30 bytes come before the name
    if (total := sum(info.file_size for info in infos)) > MAX_BYTES:
        raise DocumentError(f"it would unpack to {total:,} bytes; the limit is {MAX_BYTES:,}")
    if offset != archive.start_dir:
        raise DocumentError("its entries overlap one another, or do not fill the file")
