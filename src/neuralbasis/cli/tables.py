"""Tables in CSV, Parquet, Excel and JSON files and on standard input, read whole (`fit`) or in batches.

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
from ..data.text_numbers import MISSING_TEXTS, parse_number
from ..data.workbooks import READERS
from ..encoding.axis import Axis
from .dates import add_date_parts, find_date_parts, find_dates, name_dates
from .errors import CommandError, note, require_names
from .text_files import describe_encoding, describe_ragged

if TYPE_CHECKING:
    from ..data.files import Source

NUMBER, TEXT = pa.float64(), pa.string()
BLOCK_BYTES = 2 << 20  # bytes of CSV to parse at a time, and the longest possible line; Arrow reads up to 32 ahead
BATCH_ROWS = 1 << 16  # rows of a Parquet file to read at a time
HEAD_BYTES = 1 << 16
DELIMITERS = ",;\t|"
TRUE, FALSE = ("1", "true", "True", "TRUE"), ("0", "false", "False", "FALSE")
SWAP = str.maketrans(",.", ".,")
COMMA_NUMBER = re.compile(r"\s*[+-]?[$€£¥]?\s*(?:[0-9]+|[1-9][0-9]{0,2}(?:\.[0-9]{3})+)(?:,[0-9]+)?\s*[%$€£¥]?\s*")
_BAD_VALUE = re.compile(r"column #(?P<column>\d+): .*invalid value '(?P<value>.*)'", re.DOTALL)


@dataclass(frozen=True)
class Dialect:
    """Format of a CSV file.

    delimiter : None selects the most frequent of `DELIMITERS` in the header
    missing : texts to read as missing values, in addition to `MISSING_TEXTS`
    decimal : decimal mark of numbers, "." or ","; with a comma, a point separates thousands
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    missing: Sequence[str] = ()
    decimal: str = "."

    @property
    def nulls(self) -> list[str]:
        return [*MISSING_TEXTS, *self.missing]


class OpenTable:
    """A table to read whole or in batches; `place` names it in messages. All but `SourceTable` are read only once."""

    names: Sequence[str]
    n_rows: int | None = None
    errors: tuple[type[Exception], ...] = ()  # errors of reading that become a `CommandError`

    def __init__(self, place: str, dialect: Dialect):
        self.place, self.dialect = place, dialect
        self.n_read = self.first_row = 0  # rows read, and the first of the present batch
        self.odd: dict[str, tuple[int, str, int]] = {}  # column of numbers -> count of other texts, the first, its row

    @property
    def progress(self) -> float | None:
        """Share of the table that was read, None if its size is unknown."""
        return self.n_read / max(self.n_rows or 0, 1)

    def require(self, names: Iterable[str]) -> None:
        """Raise unless the table has each of these columns exactly once."""
        names, count = list(dict.fromkeys(names)), Counter(self.names)
        hint = f"; {self.header_doubt}" if self.header_doubt else ""
        require_names(names, self.names, self.place, hint=hint)
        if repeated := [name for name in names if count[name] > 1]:
            message = f"has more than one column {list_names(repeated)}{hint or '; give each column a unique name'}"
            raise CommandError(f"{self.place} {message}")

    @property
    def header_doubt(self) -> str:
        """What to do if the names of the columns look like values; otherwise empty."""
        numbers = {name: parse_number(name) for name in self.names}
        are_values = [
            n for n, x in numbers.items() if x is not None and (x % 1 > 0 or (x == x and self.names.count(n) > 1))
        ]
        if not are_values:
            return ""
        text = f"its first line holds values such as {are_values[0]!r}"
        return f"{text}: write a line with the names of the columns above it"

    def note_odd(self) -> None:
        """Print a note on each column of numbers in which other texts were read as missing."""
        for name, (count, text, row) in self.odd.items():
            place = f"{text!r} in row {row:,} (0 is the first)"
            found = f"a value that is not a number, {place}, which counts"
            if count > 1:
                found = f"{count:,} values that are not numbers, first {place}, which count"
            note(f"column {name!r} holds {found} as missing; correct it, or confirm it with --missing {text!r}")

    def first_texts(self) -> dict[str, list[str]]:
        """Texts of the first rows as they are written; empty if the table has types of its own."""
        return {}

    def read(self, names: Sequence[str], texts: Collection[str] = ()) -> pa.Table:
        """Read these columns of all rows; types of a CSV file are inferred, except for columns in `texts`."""
        self.require(names)
        with self.explain_errors():
            found = self._read(list(names), texts)
        arrays = [mask_missing(column, self.dialect) for column in found.columns]
        arrays = [column if name in texts else find_dates(column) for name, column in zip(names, arrays, strict=True)]
        return pa.table(arrays, names=found.column_names)

    def batches(self, texts: Iterable[str], numbers: Iterable[str] = ()) -> Iterator[pa.RecordBatch]:
        """Read these columns in batches; a CSV file has texts, which are not converted, and numbers."""
        dates = find_date_parts(texts, self.names)
        columns = [name for name in texts if name not in dates] + [name for name, _ in dates.values()]
        types = {**dict.fromkeys(columns, TEXT), **dict.fromkeys(numbers, NUMBER)}
        self.require(name_dates(types, self.names))
        with self.explain_errors():
            for batch in self._read_batches(types):
                self.first_row, self.n_read = self.n_read, self.n_read + batch.num_rows
                yield add_date_parts(batch, dates, self.dialect.nulls)

    @contextmanager
    def explain_errors(self) -> Iterator[None]:
        """Translate errors of Arrow and gzip into a `CommandError` that names file and column."""
        try:
            yield
        except self.errors as error:
            raise CommandError(f"{self.place}{self._describe(error)}") from error

    def _describe(self, error: Exception) -> str:
        return f": {' '.join(str(error).split())}"

    def _read(self, names: list[str], texts: Collection[str]) -> pa.Table:
        raise NotImplementedError

    def _read_batches(self, types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        raise NotImplementedError


class CsvTable(OpenTable):
    """A CSV file, plain or gzip, or standard input ("-")."""

    errors = (pa.ArrowInvalid, UnicodeError, EOFError, zlib.error, gzip.BadGzipFile)

    def __init__(self, path: str, file: IO[bytes], dialect: Dialect):
        super().__init__("standard input" if path == "-" else path, dialect)
        self._path, self._file, self._size = path, file, None if path == "-" else os.path.getsize(path)
        with self.explain_errors():
            stream: Any = gzip.GzipFile(fileobj=file) if path.endswith(".gz") else file
            head = stream.read(HEAD_BYTES)
            self._stream = io.BufferedReader(_PrefixedStream(head, stream))
            self.delimiter, self.names = _read_header(head, dialect)
            self._head = head
        if not self.names:
            raise CommandError(f"{self.place} is empty; a CSV file must start with the names of its columns")

    @property
    def progress(self) -> float | None:
        return self._file.tell() / max(self._size, 1) if self._size is not None else None

    def first_texts(self) -> dict[str, list[str]]:
        lines = self._head.decode(self.dialect.encoding, errors="replace").splitlines()[1:-1]  # the last may be cut
        rows = [row for row in csv.reader(lines, delimiter=self.delimiter) if len(row) == len(self.names)]
        return dict(zip(self.names, map(list, zip(*rows, strict=True)), strict=False))

    def require(self, names: Iterable[str]) -> None:
        names = list(names)
        if len(self.names) == 1:
            hint = f"{self.place} (its first line, {self.names[0]!r}, is a single column: check --delimiter)"
            require_names(names, self.names, hint)
        super().require(names)

    def _read(self, names: list[str], texts: Collection[str]) -> pa.Table:
        found = pa.csv.read_csv(self._stream, **self._options(names, dict.fromkeys(texts, TEXT), True))
        if any(pa.types.is_binary(kind) for kind in found.schema.types):  # texts that are not in this encoding
            raise UnicodeError("a value")
        arrays = [self._use_points(column.combine_chunks()) for column in found.columns]
        return pa.table(arrays, names=found.column_names) if self.dialect.decimal == "," else found

    def _read_batches(self, types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        for batch in pa.csv.open_csv(self._stream, **self._options(list(types), types, False)):
            yield pa.RecordBatch.from_arrays(list(map(self._use_points, batch.columns)), batch.schema.names)

    def _use_points(self, array: pa.Array) -> pa.Array:
        """Texts such as 1.200,50 as 1,200.50 if the decimal mark is a comma."""
        if self.dialect.decimal == "." or not pa.types.is_string(array.type):
            return array
        coded = array.dictionary_encode()
        texts = [
            text and (text.translate(SWAP) if COMMA_NUMBER.fullmatch(text) else text)
            for text in coded.dictionary.to_pylist()
        ]
        return pa.array(texts, TEXT).take(coded.indices)

    def _options(self, names: list[str], types: Mapping[str, pa.DataType], has_missing_texts: bool) -> dict[str, Any]:
        return {
            "read_options": pa.csv.ReadOptions(block_size=BLOCK_BYTES, encoding=self.dialect.encoding),
            "parse_options": pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
            "convert_options": pa.csv.ConvertOptions(
                include_columns=names,
                column_types=dict(types),
                null_values=self.dialect.nulls,
                decimal_point=self.dialect.decimal,
                strings_can_be_null=has_missing_texts,
            ),
        }

    def _describe(self, error: Exception) -> str:
        if found := _BAD_VALUE.search(str(error)):
            return f": {_describe_text(self.names[int(found['column'])], found['value'])}"
        if isinstance(error, gzip.BadGzipFile):
            return " is not compressed with gzip; give it a name that ends in .csv"
        if "UTF8" in str(error) or isinstance(error, UnicodeError):
            return describe_encoding(self._path, self.dialect.encoding)
        if "Expected" in str(error) and "columns" in str(error):
            return describe_ragged(self._path, self.dialect.encoding, self.delimiter, len(self.names))
        return super()._describe(error)


class ParquetTable(OpenTable):
    """A Parquet file; its own column types are kept."""

    errors = (pa.ArrowInvalid, OSError)

    def __init__(self, path: str, file: IO[bytes], dialect: Dialect):
        super().__init__(path, dialect)
        with self.explain_errors():
            self._file = pa.parquet.ParquetFile(file)
        self.names, self.n_rows = self._file.schema_arrow.names, self._file.metadata.num_rows

    def _read(self, names: list[str], texts: Collection[str]) -> pa.Table:
        return self._file.read(names).select(names)

    def _read_batches(self, types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        batches = self._file.iter_batches(BATCH_ROWS, columns=list(types))
        return (batch.select(list(types)) for batch in batches)

    def _describe(self, error: Exception) -> str:
        return (
            f" is not a Parquet file that can be read{super()._describe(error).rstrip('.')}; write it again, or as CSV"
        )


class SourceTable(OpenTable):
    """Several files, or one larger than memory."""

    def __init__(self, source: Source, dialect: Dialect):
        super().__init__("the data", dialect)
        self.source, self.names, self.n_rows = source, source.names, source.n_rows

    def _read(self, names: list[str], texts: Collection[str]) -> pa.Table:
        batches = [batch for piece in self.source.pieces for batch in self.source.read(piece, names)]
        return pa.Table.from_batches(batches).unify_dictionaries()

    def _read_batches(self, types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        pieces = self.source.pieces
        return (batch for piece in pieces for batch in self.source.read(piece, list(types), BATCH_ROWS))


class WholeTable(OpenTable):
    """A table that was read whole, from Excel or JSON; its own column types are kept."""

    def __init__(self, path: str, table: pa.Table, dialect: Dialect):
        super().__init__(path, dialect)
        self._table, self.names, self.n_rows = table, table.column_names, table.num_rows

    def _read(self, names: list[str], texts: Collection[str]) -> pa.Table:
        return self._table.select(names)

    def _read_batches(self, types: Mapping[str, pa.DataType]) -> Iterable[pa.RecordBatch]:
        return self._table.select(list(types)).combine_chunks().to_batches(BATCH_ROWS)


def read_file(path: str, file: IO[bytes], dialect: Dialect) -> OpenTable:
    """The table in an open file: Parquet, Excel or JSON by its suffix, CSV with any other."""
    suffix = os.path.splitext(path)[1].lower()
    if suffix in (".parquet", ".pq"):
        return ParquetTable(path, file, dialect)
    if suffix in READERS:
        return WholeTable(path, READERS[suffix](path), dialect)
    if suffix in (".xls", ".ods", ".sas7bdat", ".sav", ".dta"):
        raise CommandError(f"{path} is a {suffix} file, which cannot be read; save the table as CSV or .xlsx")
    return CsvTable(path, file, dialect)


def is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_large_string(kind)


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def describe_file(path: str, error: Exception, dialect: Dialect) -> str:
    """Why Arrow cannot read one of several files."""
    with open(path, "rb") as file:
        table = read_file(path, file, dialect)
    return f"{path}{table._describe(error)}"


def mask_missing(array: Any, dialect: Dialect) -> Any:
    """A column of a table with types of its own, without the texts and numbers that `--missing` names."""
    kind = array.type
    if is_text(kind):
        values: Any = pa.array(dialect.nulls, kind)
    elif dialect.missing and is_number(kind):
        numbers = [number for number in map(parse_number, dialect.missing) if number is not None]
        values = pa.array([number for number in numbers if pa.types.is_floating(kind) or number.is_integer()]).cast(
            kind
        )
    else:
        return array
    return pa.compute.if_else(pa.compute.is_in(array, values), None, array)


def read_batch(batch: pa.RecordBatch, axes: Sequence[Axis], table: OpenTable) -> Columns:
    """The model's columns of a batch of the table, with levels in the model's spelling."""
    arrays = {axis.name: _parse_numbers(mask_missing(batch.column(axis.name), table.dialect), axis) for axis in axes}
    found = read_columns(pa.table(arrays))
    columns = tuple(respell(column, axis, table) for column, axis in zip(found, axes, strict=True))
    return Columns(found.names, found.n_rows, columns=columns)


def _parse_numbers(array: pa.Array, axis: Axis) -> pa.Array:
    """Fast parsing of a numeric column read as text; unchanged if Arrow cannot parse all texts (see `respell`)."""
    if axis.is_level or not pa.types.is_string(array.type):
        return array
    try:
        return array.cast(NUMBER)
    except pa.ArrowInvalid:
        return array


def respell(column: Column, axis: Axis, table: OpenTable) -> Column:
    """Convert a column of a batch to the levels of an axis in their spelling, or to numbers.

    >>> from neuralbasis.encoding.axis import level_axis
    >>> column = Column("grade", None, np.array([0, 1, 2]), ("3.0", "NA", "4"))
    >>> found = respell(column, level_axis("grade", "nominal", ["3", "4"]), OpenTable("grades.csv", Dialect()))
    >>> found.levels, found.codes.tolist()
    (('3', '4'), [0, -1, 1])
    """
    if axis.levels is None and column.numbers is not None:
        require_finite(axis.name, column.numbers, table.first_row)
        return column
    flags = ("0", "1") if set(axis.knots) <= {0.0, 1.0} else ()
    known = set(flags if axis.levels is None else axis.levels)
    codes, texts = column.to_labels()
    kept = [text for text in texts if text not in table.dialect.nulls]
    place = {text: code for code, text in enumerate(kept)}
    places = np.array([*(place.get(text, -1) for text in texts), -1], dtype=np.int32)
    levels = tuple(next((s for s in _spellings(text, known) if s in known), text) for text in kept)
    respelled = Column(column.name, None, places[codes], levels)
    if axis.is_level:
        return respelled
    numbers, facts = respelled.parse()
    require_finite(axis.name, numbers, table.first_row)
    if facts.other is not None:
        assert respelled.codes is not None
        row = table.first_row + int(np.argmax(respelled.codes == levels.index(facts.other)))
        if not facts.are_numbers:
            raise CommandError(_describe_text(axis.name, facts.other, f" in row {row:,} (0 is the first)"))
        count, text, first = table.odd.get(axis.name, (0, facts.other, row))
        table.odd[axis.name] = count + int(facts.n_others), text, first
    return Column(column.name, numbers)


def require_finite(name: str, numbers: np.ndarray, first_row: int = 0) -> None:
    """Raise for an infinite value; `first_row` is the row of the first number."""
    if (is_infinite := np.isinf(numbers)).any():
        row = first_row + int(np.argmax(is_infinite))
        raise CommandError(
            f"column {name!r} holds an infinite value in row {row:,} (0 is the first); correct it, or pass "
            "--missing inf to read it as missing"
        )


def _describe_text(name: str, text: str | None, place: str = "") -> str:
    if text is not None and COMMA_NUMBER.fullmatch(text):
        remedy = "--decimal , reads numbers with a decimal comma"
    else:
        remedy = f"correct it, or pass --missing {text!r} to read it as missing"
    return f"column {name!r} must hold numbers, but holds {text!r}{place}; {remedy}"


def _spellings(text: str, known: Collection[str]) -> Iterator[str]:
    yield text
    if "." in text:
        try:
            yield level_text(float(text))
        except ValueError:
            return
    if known and set(known) <= {*TRUE, *FALSE}:
        yield from next((group for group in (TRUE, FALSE) if text in group), ())


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


def _read_header(head: bytes, dialect: Dialect) -> tuple[str, list[str]]:
    """The delimiter and the names of the columns."""
    is_cut = len(head) == HEAD_BYTES  # possibly within a multi-byte character
    encoding = "utf-8-sig" if dialect.encoding.lower().replace("-", "") == "utf8" else dialect.encoding
    text = head.decode(encoding, errors="ignore" if is_cut else "replace").lstrip("\r\n")
    first = text.splitlines()[0] if text else ""
    if "\ufffd" in first:
        raise UnicodeError("the names of the columns")
    delimiter = dialect.delimiter or max(DELIMITERS, key=first.count)
    return delimiter, next(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), [])
