"""Tables written batch by batch as CSV or Parquet.

Output goes to a temporary file that replaces the target when it is complete, or to standard output.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from ..serialization.temporary_file import replace_when_done
from .errors import CommandError
from .terminal import echo_exact

GROUP_ROWS, GROUP_BYTES = 1 << 16, 1 << 27  # size of a Parquet row group, whichever limit is reached first
OTHER_FORMATS = {
    ".xlsx": "Excel", ".xls": "Excel", ".xlsm": "Excel", ".ods": "OpenDocument", ".json": "JSON", ".jsonl": "JSON",
    ".tsv": "tab-separated text", ".feather": "Feather", ".arrow": "Arrow",
}  # fmt: skip
STRUCTURAL = '[",\r\n]'  # texts with these characters must be quoted in CSV


def check_format(path: str) -> None:
    """Raise for a name of another format: a CSV under it would mislead the program that opens it."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in OTHER_FORMATS:
        raise CommandError(
            f"{path}: tables are written as CSV or Parquet, not as {OTHER_FORMATS[suffix]}; name a file that ends in "
            f".csv{', which Excel opens' if suffix.startswith('.xl') else ''}"
        )


@contextmanager
def open_output(path: str, names: Sequence[str]) -> Iterator[CsvOutput | ParquetOutput]:
    """Open an output for batches with these columns: a file, its format given by its suffix, or "-" (stdout)."""
    if path == "-":
        yield CsvOutput(_write_to_terminal if sys.stdout.isatty() else sys.stdout.buffer.write, names)
        sys.stdout.flush()
        return
    with replace_when_done(path) as file:
        if path.endswith((".parquet", ".pq")):
            output = ParquetOutput(file, names)
            yield output
            output.close()
        elif path.endswith(".gz"):
            with gzip.GzipFile(fileobj=file, mode="wb", compresslevel=4, mtime=0) as packed:
                yield CsvOutput(packed.write, names)
        else:
            yield CsvOutput(file.write, names)


def _write_to_terminal(data: bytes | memoryview) -> None:
    echo_exact(bytes(data).decode())


class CsvOutput:
    """CSV writer that quotes texts only in batches that need it."""

    def __init__(self, write: Callable[[Any], Any], names: Sequence[str]):
        self._write, header = write, io.StringIO()
        csv.writer(header, lineterminator="\n").writerow(names)
        self._write(header.getvalue().encode())

    def write(self, batch: pa.RecordBatch) -> None:
        style = "needed" if any(map(_must_quote, batch.columns)) else "none"
        options = pa.csv.WriteOptions(include_header=False, quoting_style=style, batch_size=8192)
        block = pa.BufferOutputStream()
        pa.csv.write_csv(batch, block, options)
        self._write(memoryview(block.getvalue()))


class ParquetOutput:
    """Parquet writer that collects batches until they fill a row group."""

    def __init__(self, file: Any, names: Sequence[str]):
        self._file, self._names = file, names
        self._writer: Any = None
        self._pending: list[pa.RecordBatch] = []
        self._n_rows = self._n_bytes = 0

    def write(self, batch: pa.RecordBatch) -> None:
        self._pending.append(batch)
        self._n_rows, self._n_bytes = self._n_rows + batch.num_rows, self._n_bytes + batch.nbytes
        if self._n_rows >= GROUP_ROWS or self._n_bytes >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        if self._writer is None and not self._pending:  # no rows, so the types are unknown
            self.write(pa.RecordBatch.from_arrays([pa.array([], pa.float64()) for _ in self._names], self._names))
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        if self._pending:
            self._writer = self._writer or pa.parquet.ParquetWriter(self._file, self._pending[0].schema)
            self._writer.write_table(pa.Table.from_batches(self._pending))
            self._pending, self._n_rows, self._n_bytes = [], 0, 0


def _must_quote(column: pa.Array) -> bool:
    is_text = pa.types.is_string(column.type) or pa.types.is_large_string(column.type)
    return is_text and bool(pa.compute.any(pa.compute.match_substring_regex(column, STRUCTURAL)).as_py())
