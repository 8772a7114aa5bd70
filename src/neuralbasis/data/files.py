"""Source: a table that can be read several times, piece by piece.

In: files, folders, Arrow datasets, or iterables of record batches. Out: Arrow record batches, whose columns
`read_column` converts. A piece is a row group of a Parquet file, a CSV file, or a whole iterable. Types come from the
schemas of Parquet files and from every row of CSV files. Errors name the file and the row group.
"""

from __future__ import annotations

import glob
import hashlib
import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs

from ..printable import escape
from ..suggestions import suggest
from .columns import Column, is_missing, level_text
from .frames import read_columns
from .text_numbers import MISSING_TEXTS

SUFFIXES = (".parquet", ".pq", ".csv", ".csv.gz", ".tsv", ".tsv.gz")
BATCH_ROWS = 1 << 17


@dataclass(frozen=True)
class Piece:
    """A row group of a Parquet file, a whole CSV file, or an iterable; `index` counts the pieces of a source."""

    path: str | None
    index: int
    n_rows: int | None
    row_group: int | None = None

    @property
    def place(self) -> str:
        """The file and row group, for messages."""
        file = self.path or "the table"
        return file if self.row_group is None else f"{file}, row group {self.row_group}"


class Source:
    """A table in pieces that can be read several times."""

    names: tuple[str, ...]
    pieces: tuple[Piece, ...]
    local: bool = False  # whether the pieces are this process's alone; otherwise all processes divide the same pieces

    def read(
        self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a piece in batches of at most `batch_rows`; all columns, or the given ones."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """A text that changes when the data change; empty if changes cannot be detected."""
        return ""

    def take(self, pieces: Iterable[Piece]) -> Source:
        """A source of some of the pieces."""
        part = copy(self)
        part.pieces = tuple(pieces)
        return part

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if it is unknown before they are read."""
        counts = [piece.n_rows for piece in self.pieces]
        return None if None in counts else sum(count for count in counts if count is not None)


class DatasetSource(Source):
    """Files, or an Arrow dataset with its own filter and partitions; `counts` are the numbers of rows of CSV files."""

    def __init__(self, dataset: Any, local: bool = False, counts: Mapping[str, int] | None = None):
        self.dataset, self.names, self.local = dataset, _check_names(dataset.schema.names), local
        self._fragments, pieces = _list_fragments(dataset), []
        for index, fragment in enumerate(self._fragments):
            path, groups = getattr(fragment, "path", None), getattr(fragment, "row_groups", None)
            n_rows = (counts or {}).get(path or "") if groups is None else sum(group.num_rows for group in groups)
            pieces.append(Piece(path, index, n_rows, groups[0].id if groups else None))
        self.pieces = tuple(pieces)

    def read(
        self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        requested = list(self.names if names is None else names)
        fragment = self._fragments[piece.index]
        options: dict[str, Any] = {} if fragment is self.dataset else {"schema": self.dataset.schema}
        with name_piece_in_errors(piece):
            yield from fragment.to_batches(columns=requested, batch_size=batch_rows, **options)

    def fingerprint(self) -> str:
        files = sorted({piece.path for piece in self.pieces if piece.path is not None})
        if not files or self._fragments[0] is self.dataset:  # rows in memory, or a filter that cannot be inspected
            return ""
        found = self.dataset.filesystem.get_file_info(files)
        facts = [(info.path, info.size, info.mtime_ns) for info in found], [piece.index for piece in self.pieces]
        return hashlib.sha256(repr((facts, str(self.dataset.schema))).encode()).hexdigest()


class BatchSource(Source):
    """An iterable of record batches or tables that can be iterated several times, or a function that returns one."""

    def __init__(self, batches: Iterable[Any] | Callable[[], Iterable[Any]], local: bool = False):
        self._open, self.local = (batches if callable(batches) else lambda: batches), local
        first = next(iter(self._open()), None)
        if not isinstance(first, pa.RecordBatch | pa.Table):
            given = "nothing" if first is None else type(first).__name__
            raise TypeError(f"expected an iterable of Arrow record batches or tables, but it gives {given}")
        self.names = _check_names(first.schema.names)
        self.pieces = (Piece(None, 0, None),)

    def read(
        self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        requested = list(self.names if names is None else names)
        for number, item in enumerate(self._open()):
            require_names(requested, item.schema.names, f"batch {number} of the table (0 is the first)")
            table = pa.Table.from_batches([item]) if isinstance(item, pa.RecordBatch) else item
            yield from table.select(requested).to_batches(max_chunksize=batch_rows)


def open_source(X: Any, local: bool = False) -> Source | None:
    """The source of the first argument of `fit`; None if it is a table in memory.

    Parameters
    ----------
    X : path, glob, folder, list of paths, Arrow dataset, iterable of record batches, or function that returns one
        Files are Parquet or CSV. An iterable must allow several iterations.
    local : bool
        Whether the rows belong to this process alone.

    Examples
    --------
    >>> source = open_source([pa.record_batch({"age": [31, 45]}), pa.record_batch({"age": [27]})])
    >>> source.names, [batch.num_rows for batch in source.read(source.pieces[0])]
    (('age',), [2, 1])
    >>> open_source({"age": [31, 45]}) is None
    True
    """
    if isinstance(X, Source):
        return X
    if isinstance(X, str | os.PathLike):
        return open_files([X], local)
    if isinstance(X, pa.dataset.Dataset):
        return DatasetSource(X, local)
    if isinstance(X, pa.RecordBatchReader) or (isinstance(X, Iterator) and not hasattr(X, "__array__")):
        raise TypeError(
            f"a {type(X).__name__} can be read only once, but a table is read several times; give a list of batches, "
            "files, or a function that returns the batches each time it is called"
        )
    if isinstance(X, list | tuple) and len(X) > 0:
        if all(isinstance(item, str | os.PathLike) for item in X):
            return open_files(X, local)
        return BatchSource(X, local) if isinstance(X[0], pa.RecordBatch | pa.Table) else None
    tables = ("shape", "columns", "__array__", "__arrow_c_stream__", "__arrow_c_array__", "__len__")
    if isinstance(X, Mapping | str | bytes) or any(hasattr(type(X), name) for name in tables):
        return None
    return BatchSource(X, local) if callable(X) or hasattr(X, "__iter__") else None


def open_files(
    paths: Iterable[str | os.PathLike[str]],
    local: bool = False,
    delimiter: str | None = None,
    encoding: str = "utf8",
    missing: Sequence[str] = MISSING_TEXTS,
    texts: Collection[str] = (),
    decimal: str = ".",
) -> DatasetSource:
    """The source of files, globs and folders; all Parquet or all CSV, all with the same columns.

    Without a delimiter, CSV files have the most frequent one of the first header. `missing` are texts of CSV files that
    mean "missing"; the columns `texts` stay text even if all of their values are numbers. `decimal` is their mark.
    """
    listed = [_expand(os.fspath(path)) for path in paths]
    filesystem, files, root = listed[0][0], [file for _, found, _ in listed for file in found], listed[0][2]
    if elsewhere := [found[0] for other, found, _ in listed if other != filesystem]:
        raise ValueError(f"the files are in several stores, such as {files[0]} and {elsewhere[0]}; copy them into one")
    for file in files:
        if not file.lower().endswith(SUFFIXES):
            raise ValueError(f"{file} is neither Parquet nor CSV by its name; expected {', '.join(SUFFIXES)}")
    are_csv = not files[0].lower().endswith(SUFFIXES[:2])
    if any(file.lower().endswith(SUFFIXES[:2]) == are_csv for file in files):
        raise ValueError(f"the files are of several kinds, such as {files[0]} and {files[-1]}; give one kind at a time")
    if not are_csv:
        checked = pa.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
        form = pa.dataset.ParquetFileFormat(default_fragment_scan_options=checked)
    else:
        delimiter = delimiter or _find_delimiter(filesystem, files[0], encoding)
        form = pa.dataset.CsvFileFormat(
            parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                null_values=list(missing), strings_can_be_null=True, decimal_point=decimal
            ),
            read_options=pa.csv.ReadOptions(block_size=4 << 20, encoding=encoding),
        )
    options = {"filesystem": filesystem, "format": form}
    if root is not None and len(listed) == 1:
        options |= {"partitioning": "hive", "partition_base_dir": root}
    schema, counts = _unify(files, options), None
    if are_csv:
        kept = [field.with_type(pa.string()) if field.name in texts else field for field in schema]
        schema, counts = _find_csv_types(files, options, pa.schema(kept))
    return DatasetSource(pa.dataset.dataset(files, schema=schema, **options), local, counts)


def read_column(batch: pa.RecordBatch, name: str) -> Column:
    """A column as `read_columns` reads it, but float32 is kept, and levels are those of the batch, with unused ones."""
    array = batch.column(name)
    if pa.types.is_integer(array.type) or pa.types.is_floating(array.type):
        numbers = array.to_numpy(zero_copy_only=False)
        return Column(name, numbers if numbers.dtype == np.float32 else numbers.astype(np.float64, copy=False))
    is_declared = pa.types.is_dictionary(array.type)
    if pa.types.is_string(array.type) or pa.types.is_large_string(array.type):
        array = array.dictionary_encode()
    if pa.types.is_dictionary(array.type):
        values, codes = array.dictionary.to_pylist(), array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        texts = ["" if is_missing(value) else level_text(value) for value in values]
        index = np.array([*(-1 if is_missing(value) else i for i, value in enumerate(values)), -1], np.int32)
        return Column(name, None, index[codes], tuple(texts), array.type.ordered, is_declared)
    return read_columns(pa.table({name: array}))[0]


def is_text(kind: pa.DataType) -> bool:
    """Whether columns of this type hold labels."""
    return pa.types.is_dictionary(kind) or str(kind) in ("string", "large_string", "string_view")


def require_names(names: Iterable[str], available: Sequence[str], place: str) -> None:
    """Raise unless every name is available; the error suggests the nearest name."""
    missing = [name for name in names if name not in available]
    if missing:
        hint = suggest(missing[0], available, f"it has {', '.join(map(repr, available[:20]))}")
        raise ValueError(f"{place} has no column {', '.join(map(repr, missing[:20]))}; {hint}")


@contextmanager
def name_piece_in_errors(piece: Piece) -> Iterator[None]:
    """Replace errors of Arrow and of the system by ones that name the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{piece.place}: the file no longer exists; restore it, or fit on the files that exist"
        ) from error
    except (pa.ArrowException, OSError) as error:
        text = escape(" ".join(str(error).split()))
        raise ValueError(f"{piece.place} cannot be read ({text}); write the file again, or leave it out") from error


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"the table has more than one column {repeated[0]!r}; rename them: each name must be unique")
    return tuple(names)


def _list_fragments(dataset: Any) -> list[Any]:
    """Row groups and files; a filtered dataset does not list its fragments and is a single one."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        return [dataset]
    if isinstance(dataset, pa.dataset.InMemoryDataset):
        return [dataset]
    found: list[Any] = []
    for index, fragment in enumerate(fragments):
        with name_piece_in_errors(Piece(getattr(fragment, "path", None), index, None)):
            found += fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]
    return found


def _expand(path: str) -> tuple[Any, list[str], str | None]:
    """The file system, the files of a path, glob or folder, and the folder."""
    if "://" in path:
        filesystem, path = pa.fs.FileSystem.from_uri(path)
    else:
        filesystem, path = pa.fs.LocalFileSystem(), os.path.expanduser(path)
    if isinstance(filesystem, pa.fs.LocalFileSystem) and glob.has_magic(path) and not os.path.exists(path):
        files = sorted(file for file in glob.glob(path, recursive=True) if os.path.isfile(file))
        if not files:
            raise FileNotFoundError(f"no file matches {path}; check the folder and the pattern")
        return filesystem, files, None
    info = filesystem.get_file_info(path)
    if info.type == pa.fs.FileType.NotFound:
        raise FileNotFoundError(f"there is no file or folder {path}; check the path")
    if info.type != pa.fs.FileType.Directory:
        return filesystem, [path], None
    inside = filesystem.get_file_info(pa.fs.FileSelector(path, recursive=True))
    files = sorted(entry.path for entry in inside if entry.is_file and entry.path.lower().endswith(SUFFIXES))
    if not files:
        raise FileNotFoundError(f"the folder {path} has no Parquet or CSV file; check the path")
    return filesystem, files, path


def _find_delimiter(filesystem: Any, file: str, encoding: str) -> str:
    """The most frequent delimiter of the header."""
    with name_piece_in_errors(Piece(file, 0, None)), filesystem.open_input_stream(file) as stream:
        header = stream.read(1 << 16).decode(encoding, errors="replace").lstrip("\r\n").partition("\n")[0]
    return max(",;\t|", key=header.count)


def _read_schema(file: str, options: Mapping[str, Any]) -> Any:
    with name_piece_in_errors(Piece(file, 0, None)):
        return pa.dataset.dataset([file], **options).schema


def _unify(files: Sequence[str], options: Mapping[str, Any]) -> Any:
    """The schema of all files, which must have the same columns; different types of numbers are widened."""
    schema = _read_schema(files[0], options)
    for file in files[1:]:
        other = _read_schema(file, options)
        require_names(schema.names, other.names, file)
        require_names(other.names, schema.names, files[0])
        for field in other:
            known = schema.field(field.name)
            wider = _widen(known.type, field.type)
            if wider is None:
                raise ValueError(
                    f"column {field.name!r} is {known.type} in {files[0]}, but {field.type} in {file}; write the files "
                    "with the same types"
                )
            schema = schema.set(schema.get_field_index(field.name), known.with_type(wider))
    return schema


def _widen(one: Any, other: Any) -> Any:
    """The type that holds the values of both, or None."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    if all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, other)):
        return pa.float64()
    are_texts = all(pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in (one, other))
    return pa.large_string() if are_texts else None


def _find_csv_types(files: Sequence[str], options: Mapping[str, Any], schema: Any) -> tuple[Any, dict[str, int]]:
    """The schema of CSV files and the rows of each; a column becomes float64 or text if a value does not fit."""
    counts: dict[str, int] = {}
    for file in files:
        names = _read_schema(file, options).names
        while True:
            try:
                with name_piece_in_errors(Piece(file, 0, None)):
                    batches = pa.dataset.dataset([file], schema=schema, **options).to_batches(batch_size=BATCH_ROWS)
                    counts[file] = sum(batch.num_rows for batch in batches)
                break
            except ValueError as error:
                reason = str(error.__cause__)
                found = re.search(r"column #(\d+): .*?conversion error.*?invalid value '", reason, re.DOTALL)
                if found is None:
                    raise
                place = schema.get_field_index(names[int(found[1])])
                field = schema.field(place)
                wider = pa.float64() if pa.types.is_integer(field.type) else pa.string()
                schema = schema.set(place, field.with_type(wider))
    return schema, counts
