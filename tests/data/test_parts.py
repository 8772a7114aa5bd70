"""Processes divide a source into the same parts, read ahead, and stop together."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from neuralbasis.data.files import Source, open_source
from neuralbasis.data.parts import assign_parts, gather_results, read_ahead, read_pieces


def write_parquet(folder: Path, n_files: int) -> None:
    """Files of two row groups with four and two rows."""
    for number in range(n_files):
        pa.parquet.write_table(pa.table({"age": range(6)}), folder / f"part-{number:02d}.parquet", row_group_size=4)


def open_folder(folder: Path) -> Source:
    source = open_source(folder)
    assert source is not None
    return source


def test_parts_hold_all_pieces_in_order(tmp_path: Path) -> None:
    write_parquet(tmp_path, n_files=20)
    source = open_folder(tmp_path)
    for size in (1, 2, 3, 5, 24, 30):
        parts = [assign_parts(source, rank, size) for rank in range(size)]
        assigned = [piece.index for own in parts for _, pieces in own for piece in pieces]
        assert assigned == list(range(40))
        numbers = [number for own in parts for number, _ in own]
        assert numbers == list(range(max(24, size)))
    rows = [
        sum(piece.n_rows or 0 for _, pieces in assign_parts(source, rank, 3) for piece in pieces) for rank in range(3)
    ]
    assert max(rows) - min(rows) <= 8


def test_reading_ahead_keeps_order_and_raises_errors(tmp_path: Path) -> None:
    assert list(read_ahead(iter(range(50)))) == list(range(50))

    def fail():
        yield 1
        raise OSError("disk")

    found = read_ahead(fail())
    assert next(found) == 1
    with pytest.raises(OSError, match="disk"):
        next(found)
    endless = read_ahead(iter(int, 1))
    assert next(endless) == 0
    endless.close()  # stops the other thread
    write_parquet(tmp_path, n_files=3)
    source = open_folder(tmp_path)
    batches = read_pieces(source, source.pieces, ["age"])
    assert [age for batch in batches for age in batch["age"].to_pylist()] == [*range(6)] * 3


def test_an_error_in_one_process_stops_all() -> None:
    class Two:
        rank, size = 0, 2

        def gather(self, value):
            return [value, (None, "ValueError: no such column")]

    with pytest.raises(RuntimeError, match="process 1 stopped with ValueError: no such column"):
        gather_results(Two(), lambda: 1)
    with pytest.raises(ZeroDivisionError):
        gather_results(Two(), lambda: 1 // 0)
