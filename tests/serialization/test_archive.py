"""archive: bytes come back, a target is replaced whole or not at all, and no zip is read beyond its limits."""

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

from neuralbasis.serialization import archive
from neuralbasis.serialization.archive import DocumentError, read_archive, write_archive

ENTRIES = {"document.json": b'{"format": 1}', "knots.npy": bytes(range(256)) * 9, "empty.npy": b""}


def list_sums(entries):
    return "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in entries.items()).encode()


def pack(entries, sums=None, method=zipfile.ZIP_DEFLATED):
    """Any zip, with right sums unless others are given."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        for name, data in {**entries, "SHA256SUMS": list_sums(entries) if sums is None else sums}.items():
            zipped.writestr(name, data)
    return file.getvalue()


def unpack(data):
    return read_archive(io.BytesIO(data))


# Writing


@given(st.dictionaries(st.sampled_from(["a.npy", "b.npy", "c.json"]), st.binary(max_size=300)))
def test_bytes_come_back(tmp_path_factory, entries):
    path = tmp_path_factory.mktemp("archive") / "file"
    write_archive(path, entries)
    with open(path, "rb") as file:
        assert read_archive(file) == entries


def test_the_same_entries_give_the_same_bytes(tmp_path):
    write_archive(tmp_path / "one", ENTRIES)
    write_archive(tmp_path / "two", ENTRIES)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    assert {info.date_time for info in zipfile.ZipFile(tmp_path / "one").infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_any_zip_program_reads_it_and_sha256sum_can_check_it(tmp_path):
    write_archive(tmp_path / "file", ENTRIES)
    with zipfile.ZipFile(tmp_path / "file") as zipped:
        assert zipped.testzip() is None
        assert {name: zipped.read(name) for name in ENTRIES} == ENTRIES
        assert zipped.read("SHA256SUMS") == list_sums(ENTRIES)


def test_an_older_file_is_replaced_and_nothing_else_stays(tmp_path):
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


def test_others_may_read_it_as_far_as_the_mask_allows(tmp_path):
    (tmp_path / "plain").write_text("")
    write_archive(tmp_path / "file", ENTRIES)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_failed_write_leaves_the_older_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_archive(path, ENTRIES)
    before = path.read_bytes()
    monkeypatch.setattr(archive, "MAX_BYTES", 2000)
    with pytest.raises(DocumentError, match="it would unpack to"):
        write_archive(path, ENTRIES)
    assert os.listdir(tmp_path) == ["file"]
    assert path.read_bytes() == before


@pytest.mark.parametrize("where", ["no folder/file", "."])
def test_errors_of_the_system_stay_what_they_are(tmp_path, where):
    with pytest.raises(OSError, match=r"no folder|directory|denied|busy"):
        write_archive(tmp_path / where, ENTRIES)
    assert os.listdir(tmp_path) == []


def test_zeros_are_stored_rather_than_packed_suspiciously_well(tmp_path):
    entries = {"zeros.npy": bytes(1 << 20)}
    write_archive(tmp_path / "file", entries)
    assert unpack((tmp_path / "file").read_bytes()) == entries


# Damaged files


def test_every_truncation_is_noticed():
    whole = pack(ENTRIES)
    for length in range(len(whole)):
        with pytest.raises(DocumentError, match=r"cut short|list of entries"):
            unpack(whole[:length])


def test_every_flipped_bit_of_the_contents_is_noticed():
    whole = pack(ENTRIES)
    unnoticed = 0
    for index in range(len(whole)):
        try:
            found = unpack(whole[:index] + bytes([whole[index] ^ 1 << index % 8]) + whole[index + 1 :])
        except DocumentError:
            continue
        unnoticed += 1
        assert found == ENTRIES  # a date, or the version that is needed to unpack
    assert unnoticed < len(whole) / 4


@pytest.mark.parametrize(
    "sums", [b"", list_sums({}), list_sums(ENTRIES)[:-1], list_sums(ENTRIES | {"knots.npy": b"other"})]
)
def test_wrong_sums(sums):
    with pytest.raises(DocumentError, match="its contents do not agree with its checksums in SHA256SUMS"):
        unpack(pack(ENTRIES, sums))


@pytest.mark.parametrize("data", [b"", b"PK", b"hello" * 99, bytes(5000), b"\x80\x04\x95" + bytes(50)])
def test_other_files(data):
    with pytest.raises(DocumentError, match="it is cut short, or it is not a model of neuralbasis"):
        unpack(data)


# Hostile files


def patch_directory(data, name, offset, value, code="<L"):
    """Change a field of an entry in the zip's list of entries."""
    at = data.rindex(b"PK\1\2", 0, data.rindex(name))
    return data[: at + offset] + struct.pack(code, value) + data[at + offset + struct.calcsize(code) :]


def peak_bytes(data):
    """Memory that a refusal takes."""
    tracemalloc.start()
    try:
        with pytest.raises(DocumentError):
            unpack(data)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_bomb_is_not_unpacked():
    data = pack({"tables.npy": bytes(300 << 20)})
    assert len(data) < 400_000
    with pytest.raises(DocumentError, match=r"'tables.npy' would unpack to 314,572,800 bytes, suspiciously many"):
        unpack(data)
    assert peak_bytes(data) < 1 << 20


@pytest.mark.parametrize("claimed", [2**31 - 1, 314_572_800 // 50 + 1])
def test_a_bomb_that_lies_about_its_packed_size_is_not_unpacked(claimed):
    data = patch_directory(pack({"tables.npy": bytes(300 << 20)}), b"tables.npy", 20, claimed)
    with pytest.raises(DocumentError, match=r"overlaps another one, or lies outside of the file"):
        unpack(data)
    assert peak_bytes(data) < 1 << 20


def test_a_last_entry_that_claims_more_bytes_than_the_file_has():
    data = pack(ENTRIES)
    with pytest.raises(DocumentError, match="overlap one another, or do not fill the file"):
        unpack(patch_directory(data, b"SHA256SUMS", 20, 1 << 20))


def test_a_bomb_that_lies_about_its_size_is_unpacked_no_further_than_it_says():
    data = patch_directory(pack({"tables.npy": bytes(100 << 20)}), b"tables.npy", 24, 1000)
    assert peak_bytes(data) < 4 << 20


def test_an_entry_shorter_than_it_says():
    data = patch_directory(pack(ENTRIES), b"knots.npy", 24, 5000)
    with pytest.raises(DocumentError, match=r"shorter than it says|damaged"):
        unpack(data)


def test_entries_that_overlap():
    """All names lead to one packed block, as in a bomb without recursion."""
    data = pack({"a.npy": bytes(200_000), "b.npy": bytes(200_000), "c.npy": bytes(200_000)})
    for name in (b"b.npy", b"c.npy"):
        data = patch_directory(data, name, 42, 0)
    with pytest.raises(DocumentError, match=r"'b.npy' overlaps another one"):
        unpack(data)
    assert peak_bytes(data) < 1 << 20


def test_too_many_bytes_in_all(monkeypatch):
    monkeypatch.setattr(archive, "MAX_BYTES", 100_000)
    with pytest.raises(DocumentError, match=r"it would unpack to 150,\d+ bytes; a model has at most 100,000"):
        unpack(pack({"a.npy": bytes(75_000), "b.npy": bytes(75_000)}))
    with pytest.raises(DocumentError, match="it has 100,001 bytes; a model has at most 100,000"):
        unpack(bytes(100_001))


def test_too_many_entries():
    with pytest.raises(DocumentError, match="its list of entries is not one that neuralbasis writes"):
        unpack(pack({f"{k}.npy": b"" for k in range(40)}))


@pytest.mark.parametrize("around", [(b"#!/bin/sh\n", b""), (b"", b"behind"), (b"PK\5\6" + bytes(18), b"")])
def test_bytes_before_or_behind(around):
    with pytest.raises(DocumentError, match=r"list of entries|not a model"):
        unpack(around[0] + pack(ENTRIES) + around[1])


def test_a_comment():
    file = io.BytesIO(pack(ENTRIES))
    with zipfile.ZipFile(file, "a") as zipped:
        zipped.comment = b"x" * 100
    with pytest.raises(DocumentError, match=r"list of entries|not a model"):
        unpack(file.getvalue())


def test_a_second_list_of_entries_in_the_64_bit_form():
    data = pack(ENTRIES)
    end = data[-22:]
    far = struct.pack("<4sLQL", b"PK\6\7", 0, 0, 1)
    with pytest.raises(DocumentError, match="its list of entries is not one that neuralbasis writes"):
        unpack(data[:-22] + far + end)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_equal_names():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as zipped:
        for data in (b"one", b"two"):
            zipped.writestr("a.npy", data)
    with pytest.raises(DocumentError, match="two of its entries have the same name"):
        unpack(file.getvalue())


@pytest.mark.parametrize(("offset", "value"), [(8, 1), (8, 0x20), (8, 0x40), (8, 0x800), (10, 12), (10, 14), (10, 99)])
def test_encrypted_and_foreign_entries(offset, value):
    data = patch_directory(pack(ENTRIES), b"knots.npy", offset, value, "<H")
    with pytest.raises(DocumentError, match=r"'knots.npy' is encrypted or packed in another way"):
        unpack(data)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_other_ways_to_pack(method):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as zipped:
        zipped.writestr("a.npy", b"one")
    with pytest.raises(DocumentError, match=r"'a.npy' is encrypted or packed in another way"):
        unpack(file.getvalue())


def test_names_are_only_names():
    """A path is a name like any other: nothing is written, and the reader of the entries knows no such name."""
    entries = {"../../etc/passwd": b"x", "/absolute": b"y", "C:\\windows": b"z"}
    assert unpack(pack(entries)) == entries


def test_a_packed_stream_that_ends_early():
    packed = zlib.compress(bytes(1000))
    with pytest.raises(DocumentError, match=r"cut short|damaged|not a model"):
        unpack(packed)
