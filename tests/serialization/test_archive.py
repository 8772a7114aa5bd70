"""Archive: entries are read back unchanged, a target is replaced whole or not at all, and limits hold for any zip."""

from __future__ import annotations

import hashlib
import io
import os
import stat
import struct
import tracemalloc
import zipfile
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis.serialization import DocumentError, archive, read_archive, write_archive

ENTRIES = {"document.json": b'{"format": 1}', "knots.npy": bytes(range(256)) * 9, "empty.npy": b""}


def list_sums(entries):
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in entries.items()).encode()


def pack(entries, sums=None, method=zipfile.ZIP_DEFLATED):
    """A zip of any entries, with correct checksums unless others are given."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        for name, data in {**entries, "SHA256SUMS": list_sums(entries) if sums is None else sums}.items():
            zipped.writestr(name, data)
    return file.getvalue()


def unpack(data):
    return read_archive(io.BytesIO(data))


# Writing


@given(st.dictionaries(st.sampled_from(["a.npy", "b.npy", "c.json"]), st.binary(max_size=300)))
def test_entries_are_read_back_unchanged(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("archive") / "file"
    write_archive(path, entries)
    with open(path, "rb") as file:
        assert read_archive(file) == entries


def test_equal_entries_give_equal_bytes(tmp_path):
    write_archive(tmp_path / "one", ENTRIES)
    write_archive(tmp_path / "two", ENTRIES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert {info.date_time for info in zipfile.ZipFile(tmp_path / "one").infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_other_zip_programs_and_sha256sum_can_read_it(tmp_path):
    write_archive(tmp_path / "file", ENTRIES)
    with zipfile.ZipFile(tmp_path / "file") as zipped:
        assert zipped.testzip() is None
        assert {name: zipped.read(name) for name in ENTRIES} == ENTRIES
        assert zipped.read("SHA256SUMS") == list_sums(ENTRIES)


def test_an_older_file_is_replaced_without_leftovers(tmp_path):
    path = tmp_path / "file"
    path.write_text("older")
    write_archive(path, ENTRIES)
    assert os.listdir(tmp_path) == ["file"]
    assert unpack(path.read_bytes()) == ENTRIES


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").write_text("older")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_archive(tmp_path / "link", ENTRIES)
    assert (tmp_path / "link").is_symlink()
    assert unpack((tmp_path / "real").read_bytes()) == ENTRIES


def test_the_mode_of_a_new_file_follows_the_umask(tmp_path):
    (tmp_path / "plain").write_text("")
    write_archive(tmp_path / "file", ENTRIES)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_failed_write_keeps_the_older_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_archive(path, ENTRIES)
    before = path.read_bytes()
    monkeypatch.setattr(archive, "MAX_BYTES", 2000)
    with pytest.raises(DocumentError, match="it would unpack to"):
        write_archive(path, ENTRIES)
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", ["no folder/file", "."])
def test_system_errors_are_not_replaced(tmp_path, where):
    with pytest.raises(OSError, match=r"no folder|directory|denied|busy"):
        write_archive(tmp_path / where, ENTRIES)
    assert os.listdir(tmp_path) == []


def test_zeros_are_stored_uncompressed(tmp_path):
    entries = {"zeros.npy": bytes(1 << 20)}
    write_archive(tmp_path / "file", entries)
    assert unpack((tmp_path / "file").read_bytes()) == entries


# Damaged files


def test_every_truncation_is_detected():
    whole = pack(ENTRIES)
    for length in range(len(whole)):
        with pytest.raises(DocumentError, match=r"truncated|list of entries"):
            unpack(whole[:length])


def test_every_flipped_bit_of_the_contents_is_detected():
    whole = pack(ENTRIES)
    undetected = 0
    for index in range(len(whole)):
        try:
            found = unpack(whole[:index] + bytes([whole[index] ^ 1 << index % 8]) + whole[index + 1 :])
        except DocumentError:
            continue
        undetected += 1
        assert found == ENTRIES  # the bit belongs to a date or a version number
    assert undetected < len(whole) / 4


@pytest.mark.parametrize(
    "sums", [b"", list_sums({}), list_sums(ENTRIES)[:-1], list_sums(ENTRIES | {"knots.npy": b"other"})]
)
def test_wrong_checksums_are_refused(sums):
    with pytest.raises(DocumentError, match="its contents do not agree with its checksums in SHA256SUMS"):
        unpack(pack(ENTRIES, sums))


@pytest.mark.parametrize("data", [b"", b"PK", b"hello" * 99, bytes(5000), b"\x80\x04\x95" + bytes(50)])
def test_other_files_are_refused(data):
    with pytest.raises(DocumentError, match="it is truncated, or it is not a file of neuralbasis"):
        unpack(data)


# Forged files


def patch_directory(data, name, offset, value, code="<L"):
    """The zip with one field of an entry changed in the list of entries."""
    at = data.rindex(b"PK\1\2", 0, data.rindex(name))
    return data[: at + offset] + struct.pack(code, value) + data[at + offset + struct.calcsize(code) :]


def peak_bytes(data):
    """Peak memory of a refusal."""
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError):
            unpack(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_zip_bomb_is_not_unpacked():
    data = pack({"tables.npy": bytes(300 << 20)})
    assert len(data) < 400_000
    with pytest.raises(DocumentError, match=r"'tables.npy' would unpack to 314,572,800 bytes, more than 50 times its"):
        unpack(data)
    assert peak_bytes(data) < 1 << 20


@pytest.mark.parametrize("stated", [2**31 - 1, 314_572_800 // 50 + 1])
def test_a_zip_bomb_with_a_forged_packed_size_is_not_unpacked(stated):
    data = patch_directory(pack({"tables.npy": bytes(300 << 20)}), b"tables.npy", 20, stated)
    with pytest.raises(DocumentError, match=r"overlaps another one, or is outside of the file"):
        unpack(data)
    assert peak_bytes(data) < 1 << 20


def test_a_last_entry_with_a_forged_packed_size_is_refused():
    data = pack(ENTRIES)
    with pytest.raises(DocumentError, match="overlap one another, or do not fill the file"):
        unpack(patch_directory(data, b"SHA256SUMS", 20, 1 << 20))


def test_a_zip_bomb_with_a_forged_size_is_unpacked_to_that_size_at_most():
    data = patch_directory(pack({"tables.npy": bytes(100 << 20)}), b"tables.npy", 24, 1000)
    assert peak_bytes(data) < 4 << 20


def test_an_entry_shorter_than_its_stated_size_is_refused():
    data = patch_directory(pack(ENTRIES), b"knots.npy", 24, 5000)
    with pytest.raises(DocumentError, match=r"shorter than its stated size|damaged"):
        unpack(data)


def test_overlapping_entries_are_refused():
    """All names refer to one packed block, as in a zip bomb without recursion."""
    data = pack({"a.npy": bytes(200_000), "b.npy": bytes(200_000), "c.npy": bytes(200_000)})
    for name in (b"b.npy", b"c.npy"):
        data = patch_directory(data, name, 42, 0)
    with pytest.raises(DocumentError, match=r"'b.npy' overlaps another one"):
        unpack(data)
    assert peak_bytes(data) < 1 << 20


def test_too_many_bytes_are_refused(monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 100_000)
    with pytest.raises(DocumentError, match=r"it would unpack to 150,\d+ bytes; the limit is 100,000"):
        unpack(pack({"a.npy": bytes(75_000), "b.npy": bytes(75_000)}))
    with pytest.raises(DocumentError, match="it has 100,001 bytes; the limit is 100,000"):
        unpack(bytes(100_001))


def test_too_many_entries_are_refused():
    with pytest.raises(DocumentError, match="its list of entries is not one that neuralbasis writes"):
        unpack(pack({f"{k}.npy": b"" for k in range(40)}))


@pytest.mark.parametrize("around", [(b"#!/bin/sh\n", b""), (b"", b"after"), (b"PK\5\6" + bytes(18), b"")])
def test_bytes_before_or_after_are_refused(around):
    with pytest.raises(DocumentError, match=r"list of entries|not a file"):
        unpack(around[0] + pack(ENTRIES) + around[1])


def test_a_zip_comment_is_refused():
    file = io.BytesIO(pack(ENTRIES))
    with zipfile.ZipFile(file, "a") as zipped:
        zipped.comment = b"x" * 100
    with pytest.raises(DocumentError, match=r"list of entries|not a file"):
        unpack(file.getvalue())


def test_a_zip64_list_of_entries_is_refused():
    data = pack(ENTRIES)
    end = data[-22:]
    far = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    with pytest.raises(DocumentError, match="its list of entries is not one that neuralbasis writes"):
        unpack(data[:-22] + far + end)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_equal_names_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for data in (b"one", b"two"):
            zipped.writestr("a.npy", data)
    with pytest.raises(DocumentError, match="two of its entries have the same name"):
        unpack(file.getvalue())


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (8, 0x20), (8, 0x40), (8, 0x800), (10, 12), (10, 14), (10, 99)])
def test_encrypted_entries_and_other_flags_are_refused(offset, value):
    data = patch_directory(pack(ENTRIES), b"knots.npy", offset, value, "<H")
    with pytest.raises(DocumentError, match=r"'knots.npy' is encrypted, or compressed by another method"):
        unpack(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_compressions_are_refused(method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        zipped.writestr("a.npy", b"one")
    with pytest.raises(DocumentError, match=r"'a.npy' is encrypted, or compressed by another method"):
        unpack(file.getvalue())


def test_a_path_as_a_name_writes_nothing():
    """The name stays a key of the result, which its reader does not know."""
    entries = {"../../etc/passwd": b"x", "/absolute": b"y", "C:\\windows": b"z"}
    assert unpack(pack(entries)) == entries


def test_a_stream_without_a_zip_is_refused():
    packed = zlib.compress(bytes(1000))
    with pytest.raises(DocumentError, match=r"truncated|damaged"):
        unpack(packed)
