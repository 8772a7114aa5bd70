"""The cache holds every row once, exactly and in random order; incomplete or outdated caches are written again."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from neuralbasis.data import open_source, read_columns
from neuralbasis.encoding import ProfileOptions, choose_roles, make_cache, make_profile, remove_cache
from neuralbasis.encoding import disk_cache as cache_module
from tests.stream_tables import FEATURES, make_table, run_group, write_files


def prepare(X: Any, target: str = "amount", weight: str | None = None, is_classifier: bool = False,
            features: Any = FEATURES, **given: Any) -> tuple[Any, Any]:  # fmt: skip
    source = open_source(X)
    assert source is not None
    roles = choose_roles(source, target, weight, features)
    return source, run_group(
        1, lambda group: make_profile(source, roles, is_classifier, ProfileOptions(**given), group, 2)
    )[0]


def write(source: Any, profile: Any, folder: Path, n_buckets: int = 4, seed: int = 0, size: int = 1,
          **given: Any) -> list[Any]:  # fmt: skip
    return run_group(size, lambda group: make_cache(source, profile, folder, n_buckets, seed, group, 2, **given))


def read_bucket(caches: list[Any], bucket: int) -> np.ndarray:
    """(n, D + 2) rows of all processes, with target and weight."""
    blocks = [cache.read(bucket) for cache in caches]
    return np.concatenate([np.c_[block.numbers, block.y, block.weights] for block in blocks])


def read_rows(caches: list[Any]) -> np.ndarray:
    return np.concatenate([read_bucket(caches, bucket) for bucket in range(caches[0].counts.shape[1])])


def ordered(rows: np.ndarray) -> np.ndarray:
    return rows[np.lexsort(rows.T)]


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("target", ["amount", "label"])
def test_every_row_is_stored_once_and_exactly(tmp_path: Path, target: str, weight: str | None) -> None:
    table = make_table(5000)
    source, profile = prepare(write_files(table, tmp_path / "table"), target, weight, target == "label")
    cache = write(source, profile, tmp_path / "cache")[0]
    numbers = profile.encoder.numbers(read_columns(table.select(FEATURES)))
    y = table["amount"].to_numpy() if target == "amount" else np.unique(table["label"], return_inverse=True)[1]
    weights = table["weight"].to_numpy() if weight else np.ones(5000)
    known = np.c_[numbers, y, weights][weights > 0]
    np.testing.assert_array_equal(ordered(read_rows([cache])), ordered(known))
    assert cache.n_rows == len(known)
    block = cache.read(0)
    assert (block.numbers.dtype, block.y.dtype) == (np.float64, np.int64 if target == "label" else np.float64)


def test_a_range_of_rows_is_a_slice_of_the_bucket(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "FLUSH_BYTES", 20_000)  # many chunks
    cache = write(*prepare(write_files(make_table(5000), tmp_path / "table")), tmp_path / "cache")[0]
    whole = cache.read(1)
    assert len(cache.chunks[1]) > 5
    for first, last in ((0, 1), (3, 700), (600, 601), (len(whole.y) - 5, len(whole.y)), (10, 10)):
        part = cache.read(1, first, last)
        np.testing.assert_array_equal(part.numbers, whole.numbers[first:last])
        np.testing.assert_array_equal(part.y, whole.y[first:last])


@pytest.mark.parametrize("size", [2, 3])
def test_the_number_of_processes_does_not_change_the_buckets(tmp_path: Path, size: int) -> None:
    source, profile = prepare(write_files(make_table(9000), tmp_path / "table"))
    one, many = write(source, profile, tmp_path / "one"), write(source, profile, tmp_path / "many", size=size)
    assert [cache.rank for cache in many] == list(range(size))
    assert (many[0].counts == many[-1].counts).all()
    assert many[0].n_rows == one[0].n_rows == 9000
    assert (many[0].counts.sum(axis=1) > 2000).all()
    for bucket in range(4):
        np.testing.assert_array_equal(read_bucket(many, bucket), read_bucket(one, bucket))


def test_processes_without_rows_take_part(tmp_path: Path) -> None:
    source, profile = prepare(write_files(make_table(1000), tmp_path / "table", n_files=1, group_rows=600))
    caches = write(source, profile, tmp_path / "cache", size=5)
    assert sorted(caches[0].counts.sum(axis=1).tolist()) == [0, 0, 0, 400, 600]
    np.testing.assert_array_equal(read_rows(caches), read_rows(write(source, profile, tmp_path / "one")))
    idle = next(cache for cache in caches if cache.counts[cache.rank].sum() == 0)
    assert idle.read(0).numbers.shape == (0, len(FEATURES))


def test_buckets_are_random_samples_of_all_rows(tmp_path: Path) -> None:
    n_rows = 30_000
    batch = pa.table({"x": np.arange(float(n_rows)), "y": np.zeros(n_rows)})
    source = open_source([batch])
    assert source is not None
    roles = choose_roles(source, "y")
    profile = run_group(1, lambda group: make_profile(source, roles, False, ProfileOptions(), group, 1))[0]
    cache = write(source, profile, tmp_path / "a", first_bucket_rows=6000)[0]
    assert abs(cache.counts[0, 0] - 6000) < 5 * np.sqrt(6000)
    assert (np.abs(cache.counts[0, 1:] - 8000) < 5 * np.sqrt(8000)).all()
    for bucket in range(4):
        x = cache.read(bucket).numbers[:, 0]
        counts = np.histogram(x, 10, (0, n_rows))[0]
        assert ((counts - len(x) / 10) ** 2 / (len(x) / 10)).sum() < 35  # χ² with 9 degrees of freedom
        assert abs(np.corrcoef(x, np.arange(len(x)))[0, 1]) < 0.1
    same, other = write(source, profile, tmp_path / "b"), write(source, profile, tmp_path / "c", seed=1)
    again = write(source, profile, tmp_path / "d")
    np.testing.assert_array_equal(read_rows(same), read_rows(again))
    assert not np.array_equal(read_bucket(same, 1)[:100], read_bucket(other, 1)[:100])


@pytest.mark.parametrize(
    ("n_buckets", "n_first", "shares"),
    [(4, None, [0.25] * 4), (3, 50, [0.5, 0.25, 0.25]), (3, 500, [1.0, 0.0, 0.0]), (1, 50, [1.0])],
)
def test_shares_of_buckets(tmp_path: Path, n_buckets: int, n_first: int | None, shares: list[float]) -> None:
    source, profile = prepare(write_files(make_table(100), tmp_path))
    cache = write(source, profile, tmp_path / "cache", n_buckets, first_bucket_rows=n_first)[0]
    assert json.loads((tmp_path / "cache" / "manifest.rank-0.json").read_text())["key"]["shares"] == shares
    assert ((cache.counts[0] > 0) <= (np.array(shares) > 0)).all()


def test_every_type_holds_its_numbers_and_missing_values(tmp_path: Path) -> None:
    ends = {"int8": (-127.0, 127.0), "int16": (-128.0, 32767.0), "int32": (1.0 - 2**31, 2.0**31 - 1)}
    ends |= {"float32": (0.5, 2.0**33), "float64": (0.1, 1e300)}
    columns = {kind: [*values, np.nan, 0.0] for kind, values in ends.items()}
    source, profile = prepare([pa.record_batch({**columns, "y": [0.0, 1.0, 2.0, 3.0]})], "y", features=None)
    assert profile.types == tuple(columns)
    block = write(source, profile, tmp_path, n_buckets=1)[0].read(0)
    np.testing.assert_array_equal(block.numbers[np.argsort(block.y)].T, list(columns.values()))


def stamp(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


def test_an_unchanged_cache_is_used_again(tmp_path: Path) -> None:
    files, folder = write_files(make_table(3000), tmp_path / "table"), tmp_path / "cache"
    rows = read_rows(write(*prepare(files), folder))
    before = stamp(folder)
    for source, profile in (prepare(files), prepare(files, max_bins=17)):
        np.testing.assert_array_equal(read_rows(write(source, profile, folder)), rows)
        assert stamp(folder) == before
    assert write(*prepare(files), folder, seed=1)
    assert stamp(folder) != before


@pytest.mark.parametrize("change", ["file", "weight", "buckets", "levels"])
def test_an_outdated_cache_is_written_again(tmp_path: Path, change: str) -> None:
    files, folder = write_files(make_table(3000), tmp_path / "table"), tmp_path / "cache"
    write(*prepare(files), folder)
    before, given, more = stamp(folder), {}, {}
    if change == "file":
        write_files(make_table(3000, seed=1), tmp_path / "table")
    if change == "weight":
        given = {"weight": "weight"}
    if change == "buckets":
        more = {"n_buckets": 3}
    if change == "levels":
        given = {"feature_types": ["auto"] * 5 + [["Rome", "Oslo", "Bern"], "auto"]}
    source, profile = prepare(files, **given)
    cache = write(source, profile, folder, **more)[0]
    assert stamp(folder) != before
    assert cache.n_rows == profile.n_rows
    if change == "levels":
        assert -1.0 in cache.read(0).numbers[:, 5]  # Ålesund was not requested
    if change == "buckets":
        assert len(list(folder.glob("bucket-*"))) == 3


def test_the_cache_of_a_table_without_files_is_always_written_again(tmp_path: Path) -> None:
    source, profile = prepare([make_table(2000)])
    write(source, profile, tmp_path)
    before = stamp(tmp_path)
    write(source, profile, tmp_path)
    assert stamp(tmp_path) != before


def damage_truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 10)


def damage_bytes(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    ("damage", "words"),
    [(damage_truncate, "is truncated"), (damage_bytes, "was changed"), (Path.unlink, "no longer exists")],
    ids=["truncated", "altered", "gone"],
)
def test_a_damaged_file_is_named(tmp_path: Path, damage: Any, words: str) -> None:
    source, profile = prepare(write_files(make_table(3000), tmp_path / "table"))
    folder = tmp_path / "cache"
    cache = write(source, profile, folder)[0]
    cache.read(1)
    damage(folder / "bucket-002.rank-0.bin")
    with pytest.raises(ValueError, match=rf"bucket-002\.rank-0\.bin {words}.*remove the folder .*cache and fit again"):
        cache.read(2)
    fresh = write(source, profile, folder)[0]
    if damage is damage_bytes:  # the size is right, so only reading detects the wrong checksum
        with pytest.raises(ValueError, match="was changed"):
            fresh.read(2)
    else:
        assert fresh.read(2).numbers.shape == (cache.counts[0, 2], len(FEATURES))


@pytest.mark.parametrize("text", ["", "{", "[]", json.dumps({"key": 1})])
def test_a_cache_without_a_valid_manifest_is_written_again(tmp_path: Path, text: str) -> None:
    source, profile = prepare(write_files(make_table(3000), tmp_path / "table"))
    rows = read_rows(write(source, profile, tmp_path / "cache"))
    (tmp_path / "cache" / "manifest.rank-0.json").write_text(text)
    np.testing.assert_array_equal(read_rows(write(source, profile, tmp_path / "cache")), rows)


def test_a_failed_write_leaves_no_files(tmp_path: Path) -> None:
    table = make_table(3000)
    source, profile = prepare(write_files(table, tmp_path / "table"))
    (tmp_path / "table" / "part-2.parquet").unlink()
    profile = replace(profile, fingerprint=source.fingerprint())
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "notes.txt").write_text("mine")
    with pytest.raises(FileNotFoundError, match=r"part-2\.parquet, row group 0: the file no longer exists"):
        write(source, profile, tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["notes.txt"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_raises_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, profile = prepare(write_files(make_table(3000), tmp_path / "table"))
    find = cache_module.bucket_path
    monkeypatch.setattr(
        cache_module, "bucket_path", lambda folder, b, rank: Path("/dev/full") if b == 2 else find(folder, b, rank)
    )
    with pytest.raises(OSError, match=r"the disk of the cache .*cache is full; free some space, or set cache_dir"):
        write(source, profile, tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_table_that_changes_between_passes_raises(tmp_path: Path) -> None:
    parts = make_table(2000).to_batches(max_chunksize=500)
    source, profile = prepare(lambda: iter(parts))
    parts.pop()
    with pytest.raises(ValueError, match="had 2,000 rows when it was read first, and 1,500 when it was read again"):
        write(source, profile, tmp_path / "cache")
    source, profile = prepare(write_files(make_table(2000), tmp_path / "table"))
    os.utime(tmp_path / "table" / "part-0.parquet", ns=(1, 1))
    with pytest.raises(ValueError, match="the files of the table changed while they were read; fit again"):
        write(source, profile, tmp_path / "cache")


@pytest.mark.parametrize(
    ("column", "first", "second", "words"),
    [
        ("x", [1, 2, 100], [1, 2, 300], "the column 'x' has a value"),  # 300 would wrap to 44
        ("x", [1, 2, 100], [1, 2, -128], "the column 'x' has a value"),  # would read as missing
        ("x", [1.0, 2.0, None], [1.0, 2.5, None], "the column 'x' has a value"),  # would be truncated to 2
        ("x", [0.5, 0.25, 0.125], [0.5, 0.25, 0.1], "the column 'x' has a value"),  # 0.1 in single precision
        ("x", [0.5, 0.25, 0.125], [0.5, 0.25, 1e300], "the column 'x' has a value"),  # infinite in single precision
        ("level", ["a", "b", "a"], ["a", "c", "a"], "the column 'level' has a level"),
        ("y", [0, 1, 1], [0, 1, 2], "the target 'y' has a value"),
        ("y", [0, 1, 1], ["0", "1", "no"], "the target 'y' has a value"),
        ("y", ["no", "yes", "no"], ["no", "yes", None], "the target 'y' has a value"),
    ],
)
def test_a_source_with_other_values_in_the_second_pass_raises(
    tmp_path: Path, column: str, first: list[Any], second: list[Any], words: str
) -> None:
    known = {"x": [1, 2, 3], "level": ["a", "b", "a"], "y": [0, 1, 1]}
    batches = [pa.record_batch(known | {column: first})]
    source = open_source(lambda: batches)
    assert source is not None
    profile = run_group(
        1, lambda group: make_profile(source, choose_roles(source, "y"), True, ProfileOptions(), group, 1)
    )[0]
    write(source, profile, tmp_path / "same")
    batches[0] = pa.record_batch(known | {column: second})
    with pytest.raises(ValueError, match=rf"{words} in the second pass .* give a source that returns the same rows"):
        write(source, profile, tmp_path / "other")


def test_a_level_that_was_not_requested_is_not_a_change(tmp_path: Path) -> None:
    given = {"feature_types": ["auto"] * 5 + [["Rome", "Oslo", "Bern"], "auto"]}
    source, profile = prepare([make_table(2000)], **given)
    assert not profile.closed[5]
    assert -1.0 in write(source, profile, tmp_path)[0].read(0).numbers[:, 5]


def test_removing_a_cache_leaves_other_files(tmp_path: Path) -> None:
    write(*prepare([make_table(2000)]), tmp_path / "cache")
    (tmp_path / "cache" / "notes.txt").write_text("mine")
    remove_cache(tmp_path / "cache")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["notes.txt"]
    (tmp_path / "cache" / "notes.txt").unlink()
    remove_cache(tmp_path / "cache")
    assert not (tmp_path / "cache").exists()
    remove_cache(tmp_path / "cache")
