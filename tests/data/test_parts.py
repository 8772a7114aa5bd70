"""Processes divide a source into the same parts, read ahead, and stop together."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from neuralbasis.data import assign_parts, gather_results, open_source, read_pieces


def write_parquet(folder: Path, n_files: int) -> None:
    """Files of two row groups with four and two rows."""
    for number in range(n_files):
        pa.parquet.write_table(pa.table({"age": range(6)}), folder / f"part-{number:02d}.parquet", row_group_size=4)


def read_all(table: Any) -> Iterator[pa.RecordBatch]:
    source = open_source(table)
    assert source is not None
    return read_pieces(source, source.pieces, ["age"])


def test_parts_hold_all_pieces_in_order(tmp_path: Path) -> None:
    write_parquet(tmp_path, n_files=20)
    source = open_source(tmp_path)
    assert source is not None
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
    def fail():
        yield ages
        raise OSError("disk")

    ages = pa.record_batch({"age": range(6)})
    found = read_all(fail)
    assert next(found) == ages
    with pytest.raises(OSError, match="disk"):
        next(found)
    endless = read_all(lambda: itertools.repeat(ages))
    assert next(endless) == ages
    endless.close()  # stops the other thread
    write_parquet(tmp_path, n_files=25)
    assert [age for batch in read_all(tmp_path) for age in batch["age"].to_pylist()] == [*range(6)] * 25


def test_an_error_in_one_process_stops_all() -> None:
    class Two:
        rank, size = 0, 2

        def gather(self, value):
            return [value, (None, "ValueError: no such column")]

    with pytest.raises(RuntimeError, match="process 1 stopped with ValueError: no such column"):
        gather_results(Two(), lambda: 1)
    with pytest.raises(ZeroDivisionError):
        gather_results(Two(), lambda: 1 // 0)
