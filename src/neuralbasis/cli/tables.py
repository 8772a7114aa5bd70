"""CSV files, Parquet files and standard input, read whole (`fit`) or in batches (all other commands).

In: an open file and the columns to read. Out: Arrow tables and batches, and `Columns` for a model. Only the columns of
the model are parsed, and their types come from the model, not from the first rows. Equivalent spellings are one level:
3.0 is 3, TRUE is true.
"""

from __future__ import annotations

import csv
import gzip
import io
import os
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet

from ..data.columns import Column, Columns, level_text, list_names
from ..data.frames import read_columns
from ..data.text_numbers import MISSING_TEXTS
from ..encoding.axis import Axis
from .errors import CommandError, require_names

if TYPE_CHECKING:
    from ..data.files import Source

NUMBER, TEXT = pa.float64(), pa.string()
BLOCK_BYTES = 2 << 20  # bytes of CSV to parse at a time, and the longest possible line; Arrow reads up to 32 ahead
BATCH_ROWS = 1 << 16  # rows of a Parquet file to read at a time
HEAD_BYTES = 1 << 16
DELIMITERS = ",;\t|"
TRUE, FALSE = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")
_BAD_VALUE = re.compile(r"column #(?P<column>\d+): .*invalid value '(?P<value>.*)'", re.DOTALL)


@dataclass(frozen=True)
class Dialect:
    """Format of a CSV file.

    delimiter : None selects the most frequent of `DELIMITERS` in the header
    missing : texts to read as missing values, in addition to `MISSING_TEXTS`
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    missing: Sequence[str] = ()

    @property
    def nulls(self) -> list[str]:
        return [*MISSING_TEXTS, *self.missing]


class CsvTable:
    """A CSV file, plain or gzip, or standard input ("-"). It can be read only once."""

    def __init__(self, path: str, file: IO[bytes], dialect: Dialect):
        self.place = "standard input" if path == "-" else path
        self._file, self._size = file, None if path == "-" else os.path.getsize(path)
        self.dialect = dialect
        with self._explain():
            stream: Any = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
            head = _read_head(stream)
            self._stream = io.BufferedReader(_PrefixedStream(head, stream))
            self.delimiter, self.names = _read_header(head, dialect)
        if not self.names:
            raise CommandError(f"{self.place} is empty; a CSV file must start with the names of its columns")

    @property
    def progress(self) -> float | None:
        """Share of the file that was read, None if its size is unknown."""
        return self._file.tell() / max(self._size, 1) if self._size is not None else None

    def read(self, names: Sequence[str], texts: Collection[str] = ()) -> pa.Table:
        """Read these columns of all rows; types are inferred, except for columns in `texts`."""
        self.require(names)
        convert = self._convert(names, dict.fromkeys(texts, TEXT), strings_can_be_null=True)
        with self._explain():
            return pa.csv.read_csv(self._stream, convert_options=convert, **self._options())

    def batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        """Read columns of these types in batches; texts are not converted."""
        self.require(types)
        convert = self._convert(list(types), types, strings_can_be_null=False)
        with self._explain():
            yield from pa.csv.open_csv(self._stream, convert_options=convert, **self._options())

    def require(self, names: Iterable[str]) -> None:
        """Raise unless the file has each of these columns exactly once."""
        names = list(names)
        if len(self.names) == 1:
            hint = f"{self.place} (its first line, {self.names[0]!r}, is a single column: check --delimiter)"
            require_names(names, self.names, hint)
        require_names(names, self.names, self.place)
        require_once(names, self.names, self.place)

    def _convert(self, names: Sequence[str], types: Mapping[str, pa.DataType], **options: Any) -> Any:
        return pa.csv.ConvertOptions(
            include_columns=list(names), column_types=dict(types), null_values=self.dialect.nulls, **options
        )

    def _options(self) -> dict[str, Any]:
        return {
            "read_options": pa.csv.ReadOptions(block_size=BLOCK_BYTES, encoding=self.dialect.encoding),
            "parse_options": pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
        }

    @contextmanager
    def _explain(self) -> Iterator[None]:
        """Translate errors of Arrow and gzip into a `CommandError` that names file and column."""
        try:
            yield
        except (pa.ArrowInvalid, UnicodeError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            text = " ".join(str(error).split())
            if found := _BAD_VALUE.search(str(error)):
                name, value = self.names[int(found["column"])], found["value"]
                text = (
                    f"column {name!r} must hold numbers, but holds {value!r}; correct it, or pass --missing {value!r} "
                    "to read it as missing"
                )
            elif "UTF8" in text or isinstance(error, UnicodeError):
                text = f"the text is not {self.dialect.encoding}; name its encoding with --encoding, such as latin-1"
            raise CommandError(f"{self.place}: {text}") from error


class ParquetTable:
    """A Parquet file; its own column types are kept."""

    def __init__(self, path: str, file: IO[bytes], dialect: Dialect):
        self.place, self.dialect = path, dialect
        with self._explain():
            self._file = pa.parquet.ParquetFile(file)
        self.names = self._file.schema_arrow.names
        self._n_read = 0

    @property
    def progress(self) -> float | None:
        return self._n_read / max(self._file.metadata.num_rows, 1)

    def read(self, names: Sequence[str], texts: Collection[str] = ()) -> pa.Table:
        self.require(names)
        with self._explain():
            return self._file.read(list(names)).select(list(names))

    def batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self.require(types)
        with self._explain():
            for batch in self._file.iter_batches(BATCH_ROWS, columns=list(types)):
                self._n_read += batch.num_rows
                yield batch.select(list(types))

    def require(self, names: Iterable[str]) -> None:
        names = list(names)
        require_names(names, self.names, self.place)
        require_once(names, self.names, self.place)

    @contextmanager
    def _explain(self) -> Iterator[None]:
        try:
            yield
        except (pa.ArrowInvalid, OSError) as error:
            raise CommandError(
                f"{self.place} is not a Parquet file that can be read: {' '.join(str(error).split())}"
            ) from error


class SourceTable:
    """Several files, or one larger than memory. Unlike the other tables, it can be read several times."""

    def __init__(self, source: Source, dialect: Dialect):
        self.source, self.dialect, self.names, self.place = source, dialect, list(source.names), "the data"
        self._n_read = 0

    @property
    def progress(self) -> float | None:
        return self._n_read / max(self.source.n_rows or 0, 1)

    def read(self, names: Sequence[str], texts: Collection[str] = ()) -> pa.Table:
        self.require(names)
        batches = [batch for piece in self.source.pieces for batch in self.source.read(piece, list(names))]
        return pa.Table.from_batches(batches).unify_dictionaries()

    def batches(self, types: Mapping[str, pa.DataType]) -> Iterator[pa.RecordBatch]:
        self.require(types)
        for piece in self.source.pieces:
            for batch in self.source.read(piece, list(types), BATCH_ROWS):
                self._n_read += batch.num_rows
                yield batch

    def require(self, names: Iterable[str]) -> None:
        require_names(list(names), self.names, self.place)


AnyTable = CsvTable | ParquetTable | SourceTable


def read_file(path: str, file: IO[bytes], dialect: Dialect) -> CsvTable | ParquetTable:
    """The table in an open file; .parquet and .pq are Parquet, all other suffixes CSV."""
    return (ParquetTable if path.endswith((".parquet", ".pq")) else CsvTable)(path, file, dialect)


def require_once(names: Iterable[str], available: Sequence[str], place: str) -> None:
    """Raise if one of these columns occurs more than once."""
    count = Counter(available)
    if repeated := [name for name in names if count[name] > 1]:
        raise CommandError(f"{place} has more than one column {list_names(repeated)}; give each column a unique name")


def needed_types(axes: Iterable[Axis]) -> dict[str, pa.DataType]:
    """Types in which the columns of a model are read: text, which `read_batch` converts to numbers."""
    return {axis.name: TEXT for axis in axes}


def read_batch(batch: pa.RecordBatch, axes: Sequence[Axis], missing: Collection[str]) -> Columns:
    """The model's columns of a batch, with levels in the model's spelling."""
    arrays = {axis.name: _parse_numbers(batch.column(axis.name), axis, missing) for axis in axes}
    found = read_columns(pa.table(arrays))
    columns = tuple(respell(column, axis, missing) for column, axis in zip(found, axes, strict=True))
    return Columns(found.names, found.n_rows, columns=columns)


def _parse_numbers(array: pa.Array, axis: Axis, missing: Collection[str]) -> pa.Array:
    """Fast parsing of a numeric column read as text; unchanged if Arrow cannot parse all texts (see `respell`)."""
    if axis.is_level or not pa.types.is_string(array.type):
        return array
    is_missing = pa.compute.is_in(array, value_set=pa.array(list(missing), pa.string()))
    try:
        return pa.compute.if_else(is_missing, None, array).cast(NUMBER)
    except pa.ArrowInvalid:
        return array


def respell(column: Column, axis: Axis, missing: Collection[str]) -> Column:
    """Convert a column to the levels of an axis in their spelling, or to numbers; texts in `missing` become missing.

    >>> from neuralbasis.encoding.axis import level_axis
    >>> column = Column("grade", None, np.array([0, 1, 2]), ("3.0", "NA", "4"))
    >>> found = respell(column, level_axis("grade", "nominal", ["3", "4"]), MISSING_TEXTS)
    >>> found.levels, found.codes.tolist()
    (('3', '4'), [0, -1, 1])
    """
    if axis.levels is not None:
        column, known = column.to_labels(), set(axis.levels)
    else:
        known = {"0", "1"} if _is_flag(axis) else set()
    if column.codes is None or column.levels is None:
        return column
    kept = [text for text in column.levels if text not in missing]
    place = {text: code for code, text in enumerate(kept)}
    places = np.array([*(place.get(text, -1) for text in column.levels), -1], dtype=np.int32)
    levels = tuple(next((s for s in _spellings(text, known) if s in known), text) for text in kept)
    respelled = Column(column.name, None, places[column.codes], levels)
    if axis.is_level:
        return respelled
    numbers, facts = respelled.parse()
    if not facts.are_numbers:
        raise CommandError(
            f"column {axis.name!r} must hold numbers, but holds {facts.other!r}; correct it, or pass --missing "
            f"{facts.other!r} to read it as missing"
        )
    facts.require_numbers(axis.name)
    return numbers


def _spellings(text: str, known: Collection[str]) -> Iterator[str]:
    yield text
    if "." in text:
        try:
            yield level_text(float(text))
        except ValueError:
            return
    if known and set(known) <= {*TRUE, *FALSE}:
        yield from next((group for group in (TRUE, FALSE) if text in group), ())


def _is_flag(axis: Axis) -> bool:
    return not axis.is_level and set(axis.knots) <= {0.0, 1.0}


class _PrefixedStream(io.RawIOBase):
    """A stream whose first bytes were read before."""

    def __init__(self, head: bytes, rest: Any):
        self._head, self._rest = head, rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        part = part or self._rest.read(len(buffer))
        buffer[: len(part)] = part
        return len(part)


def _read_head(stream: Any) -> bytes:
    head = b""
    while len(head) < HEAD_BYTES and (part := stream.read(HEAD_BYTES - len(head))):
        head += part
    return head


def _read_header(head: bytes, dialect: Dialect) -> tuple[str, list[str]]:
    """The delimiter and the names of the columns."""
    is_cut = len(head) == HEAD_BYTES  # possibly within a multi-byte character
    encoding = "utf-8-sig" if dialect.encoding.lower().replace("-", "") == "utf8" else dialect.encoding
    text = head.decode(encoding, errors="ignore" if is_cut else "replace").lstrip("\r\n")
    first = text.splitlines()[0] if text else ""
    delimiter = dialect.delimiter or max(DELIMITERS, key=first.count)
    return delimiter, next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
