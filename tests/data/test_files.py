"""Sources of files, datasets and batches; errors name the file, the row group and the column."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest

from neuralbasis.data import Column, open_files, open_source, read_column, read_columns

AGES = [31, 45, 27, 60, 18, 52]


def write_parquet(folder: Path, count: int = 3, **columns: Any) -> list[Path]:
    """Files of two row groups, with four and two rows."""
    table = pa.table({"age": AGES, "city": list("abcabc"), **columns})
    paths = [folder / f"part-{number}.parquet" for number in range(count)]
    for path in paths:
        pa.parquet.write_table(table, path, row_group_size=4, write_page_checksum=True)
    return paths


def read_all(source: Any, names: list[str] | None = None) -> pa.Table:
    return pa.Table.from_batches([batch for piece in source.pieces for batch in source.read(piece, names)])


def open_table(X: Any) -> Any:
    source = open_source(X)
    assert source is not None
    return source


def test_parquet_pieces_are_row_groups(tmp_path: Path) -> None:
    write_parquet(tmp_path)
    source = open_table(f"{tmp_path}/*.parquet")
    assert source.names == ("age", "city")
    assert [piece.n_rows for piece in source.pieces] == [4, 2] * 3
    assert [piece.row_group for piece in source.pieces] == [0, 1] * 3
    assert source.n_rows == 18
    assert read_all(source)["age"].to_pylist() == AGES * 3
    assert [batch["age"].to_pylist() for batch in source.read(source.pieces[1], ["age"])] == [AGES[4:]]


def test_a_path_a_folder_a_glob_and_a_list_are_the_same(tmp_path: Path) -> None:
    paths = write_parquet(tmp_path)
    found = [
        open_table(X) for X in (str(tmp_path), tmp_path, f"{tmp_path}/part-*.parquet", paths, list(map(str, paths)))
    ]
    assert all(read_all(source).equals(read_all(found[0])) for source in found)
    assert len({source.fingerprint() for source in found}) == 1
    assert open_table(paths[0]).n_rows == 6


def test_a_folder_of_partitions_has_their_columns(tmp_path: Path) -> None:
    table = pa.table({"age": AGES, "year": [2020, 2020, 2021, 2021, 2021, 2020]})
    pa.parquet.write_to_dataset(table, tmp_path, partition_cols=["year"])
    found = read_all(open_table(tmp_path), ["age", "year"]).to_pandas().sort_values("age")
    assert found["age"].tolist() == sorted(AGES)
    assert found["year"].tolist() == [2021, 2021, 2020, 2020, 2020, 2021]


def test_a_dataset_keeps_its_filter_and_partitions(tmp_path: Path) -> None:
    write_parquet(tmp_path)
    dataset = pa.dataset.dataset(str(tmp_path))
    assert read_all(open_table(dataset))["age"].to_pylist() == AGES * 3
    filtered = open_table(dataset.filter(pa.dataset.field("age") > 40))
    assert read_all(filtered)["age"].to_pylist() == [45, 60, 52] * 3
    assert filtered.n_rows is None
    assert filtered.fingerprint() == ""
    in_memory = open_table(pa.dataset.dataset(pa.table({"age": AGES})))
    assert read_all(in_memory)["age"].to_pylist() == AGES


class Batches:
    """An iterable that allows several iterations."""

    def __iter__(self):
        yield pa.record_batch({"age": AGES[:4]})
        yield pa.table({"age": AGES[4:]})


@pytest.mark.parametrize("X", [Batches(), list(Batches()), lambda: iter(Batches())], ids=["class", "list", "function"])
def test_batches_can_be_read_several_times(X: Any) -> None:
    source = open_table(X)
    for _ in range(2):
        assert read_all(source)["age"].to_pylist() == AGES
    assert [batch.num_rows for batch in source.read(source.pieces[0], batch_rows=3)] == [3, 1, 2]
    assert source.fingerprint() == ""


@pytest.mark.parametrize("X", [iter(Batches()), pa.table({"age": AGES}).to_reader()], ids=["generator", "reader"])
def test_an_iterator_raises(X: Any) -> None:
    with pytest.raises(TypeError, match="can be read only once, but a table is read several times; give a list"):
        open_source(X)


def test_an_iterable_of_other_objects_raises() -> None:
    with pytest.raises(TypeError, match="Arrow record batches or tables, but it gives int"):
        open_source(lambda: iter([1, 2]))
    with pytest.raises(TypeError, match="it gives nothing"):
        open_source(lambda: iter([]))


TABLES = [
    np.zeros((3, 2)), [[1, 2], [3, 4]], {"age": AGES}, [{"age": 31}], pd.DataFrame({"age": AGES}),
    pl.DataFrame({"age": AGES}), pl.LazyFrame({"age": AGES}), pa.table({"age": AGES}),
    pa.record_batch({"age": AGES}), [],
]  # fmt: skip


@pytest.mark.parametrize("X", TABLES, ids=lambda X: type(X).__name__)
def test_tables_in_memory_are_not_sources(X: Any) -> None:
    assert open_source(X) is None


def test_all_rows_determine_the_types_of_csv_files(tmp_path: Path) -> None:
    """Integers before a late decimal, numbers before a late text, and a file with only missing values."""
    many = 400_000  # more than Arrow reads to infer types
    late = "".join(f"{i % 7},{i % 5},x\n" for i in range(many)) + "1.5,n/b,NA\n"
    (tmp_path / "a.csv").write_text("size,mixed,text\n" + late)
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("size,mixed,text\n2,,y\nNA,,y\n")
    source = open_table(tmp_path)
    table = read_all(source)
    assert [str(kind) for kind in table.schema.types] == ["double", "string", "string"]
    assert table.num_rows == many + 3
    assert table["size"].to_pylist()[-4:] == [float((many - 1) % 7), 1.5, 2.0, None]
    assert table["mixed"].to_pylist()[-4:] == [str((many - 1) % 5), "n/b", None, None]
    assert table["text"].null_count == 1


def test_csv_files_of_another_dialect(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("zip;größe\n007;1\n010;?\n".encode("latin-1"))
    source = open_files([tmp_path / "a.csv"], encoding="latin-1", missing=["?"], texts=["zip"])
    assert read_all(source).to_pydict() == {"zip": ["007", "010"], "größe": [1, None]}
    assert [piece.n_rows for piece in source.pieces] == [2]


def test_some_pieces_are_a_source(tmp_path: Path) -> None:
    write_parquet(tmp_path)
    source = open_table(tmp_path)
    part = source.take(source.pieces[1::2])
    assert read_all(part)["age"].to_pylist() == AGES[4:] * 3
    assert (part.n_rows, source.n_rows) == (6, 18)
    assert part.fingerprint() != source.fingerprint()
    assert open_source(part) is part


def test_numbers_of_several_files_become_one_type(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"x": pa.array([1, 2], pa.int32())}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"x": [1.5, 2.5]}), tmp_path / "b.parquet")
    assert read_all(open_table(tmp_path))["x"].to_pylist() == [1.0, 2.0, 1.5, 2.5]


def test_files_that_differ_are_named(tmp_path: Path) -> None:
    pa.parquet.write_table(pa.table({"x": [1, 2], "y": [1, 2]}), tmp_path / "a.parquet")
    pa.parquet.write_table(pa.table({"x": ["1", "2"], "y": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"column 'x' is int64 in .*a\.parquet, but string in .*b\.parquet"):
        open_source(tmp_path)
    pa.parquet.write_table(pa.table({"x": [1, 2]}), tmp_path / "b.parquet")
    with pytest.raises(ValueError, match=r"b\.parquet has no column 'y'; it has 'x'"):
        open_source(tmp_path)
    (tmp_path / "c.csv").write_text("x\n1\n")
    with pytest.raises(ValueError, match="of several kinds"):
        open_source(tmp_path)


def test_repeated_column_names_raise(tmp_path: Path) -> None:
    table = pa.table([[1, 2], [3, 4]], names=["x", "x"])
    pa.parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read .*duplicate field names"):
        open_source(tmp_path)
    with pytest.raises(ValueError, match="the table has more than one column 'x'; rename them"):
        open_source([table])


def test_missing_files_are_named(tmp_path: Path) -> None:
    for path, words in (
        (tmp_path / "none.parquet", "there is no file or folder"),
        (f"{tmp_path}/*.parquet", "no file matches"),
        (tmp_path, "has no Parquet or CSV file"),
    ):
        with pytest.raises(FileNotFoundError, match=words):
            open_source(path)
    (tmp_path / "notes.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"notes\.txt is neither Parquet nor CSV by its name"):
        open_source(tmp_path / "notes.txt")


def test_a_removed_file_is_named(tmp_path: Path) -> None:
    paths = write_parquet(tmp_path)
    source = open_table(tmp_path)
    paths[1].unlink()
    with pytest.raises(FileNotFoundError, match=r"part-1\.parquet, row group 0: the file no longer exists; restore it"):
        read_all(source)


def test_a_corrupt_row_group_is_named(tmp_path: Path) -> None:
    path = tmp_path / "big.parquet"
    table = pa.table({"x": np.random.default_rng(0).random(10_000)})
    pa.parquet.write_table(table, path, row_group_size=5_000, write_page_checksum=True)
    start = pa.parquet.read_metadata(path).row_group(1).column(0).data_page_offset
    data = bytearray(path.read_bytes())
    data[start + 2_000 : start + 2_050] = bytes(50)
    path.write_bytes(data)
    source = open_table(path)
    assert sum(batch.num_rows for batch in source.read(source.pieces[0])) == 5_000
    with pytest.raises(ValueError, match=r"big\.parquet, row group 1 cannot be read .*write the file again"):
        list(source.read(source.pieces[1]))


def test_an_invalid_parquet_file_is_named(tmp_path: Path) -> None:
    write_parquet(tmp_path)
    (tmp_path / "part-9.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(ValueError, match=r"part-9\.parquet cannot be read"):
        open_source(tmp_path)


def test_the_fingerprint_changes_with_the_files(tmp_path: Path) -> None:
    paths = write_parquet(tmp_path)
    before = open_table(tmp_path).fingerprint()
    assert open_table(tmp_path).fingerprint() == before
    os.utime(paths[0], ns=(1, 1))
    touched = open_table(tmp_path).fingerprint()
    assert touched != before
    assert open_table(paths[:2]).fingerprint() != touched


ARRAYS = {
    "doubles": pa.array([1.5, None, -2.0]),
    "singles": pa.array([1.5, 2.5, -2.0], pa.float32()),
    "singles with nulls": pa.array([1.5, None, -2.0], pa.float32()),
    "integers": pa.array([3, None, 7]),
    "bytes": pa.array([3, 0, 7], pa.uint8()),
    "flags": pa.array([True, None, False]),
    "decimals": pa.array([1.25, None, 2.5]).cast(pa.decimal128(5, 2)),
    "texts": pa.array(["b", None, "a"]),
    "large texts": pa.array(["b", None, "a"], pa.large_string()),
    "views": pa.array(["b", None, "a"], pa.string_view()),
    "dictionary": pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["z", "a", "unused"])),
    "ordered": pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array(["low", "high", "top"]), ordered=True),
    "dictionary of numbers": pa.DictionaryArray.from_arrays(pa.array([1, None, 0]), pa.array([3.0, 2.5])),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_a_column_of_a_batch_is_read_as_in_memory(name: str) -> None:
    batch = pa.record_batch({"x": ARRAYS[name]})
    column, known = read_column(batch, "x"), read_columns(pa.Table.from_batches([batch]))[0]
    if known.numbers is not None:
        assert column.numbers is not None
        np.testing.assert_array_equal(column.numbers, known.numbers)
    else:
        assert list_texts(column) == list_texts(known)
        assert column.ordered == known.ordered


def list_texts(column: Column) -> list[str | None]:
    assert column.codes is not None
    assert column.levels is not None
    return [None if code < 0 else column.levels[code] for code in column.codes]


def test_files_in_several_stores_are_named(monkeypatch):
    local = pa.fs.LocalFileSystem()
    stores = {"a.parquet": local, "b.parquet": pa.fs.SubTreeFileSystem("/", local)}
    monkeypatch.setattr("neuralbasis.data.files._expand", lambda path: (stores[path], [path], None))
    with pytest.raises(ValueError, match=r"in several stores, such as a\.parquet and b\.parquet"):
        open_source(list(stores))
