"""Source: a table that is read in pieces, as often as requested: files, folders, Arrow datasets, iterables of batches.

A piece is a row group of a Parquet file, a CSV file, or all that an iterable gives; pieces have a fixed order. Types
are settled when a source is opened: those of Parquet files by their schemas, those of CSV files by a look at every row.
What cannot be read is an error that names the file and the row group. `read_column` turns Arrow's columns into ours.
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
from difflib import get_close_matches
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.fs

from ..printable import escape
from .columns import MISSING_TEXTS, Column, is_missing, level_text, read_columns

PARQUET, CSV = (".parquet", ".pq"), (".csv", ".csv.gz", ".tsv", ".tsv.gz")
BATCH_ROWS = 1 << 17
BLOCK_BYTES = 4 << 20  # of a CSV file, parsed at a time
HEAD_BYTES = 1 << 16
DELIMITERS = ",;\t|"
_BAD_VALUE = re.compile(r"column #(?P<column>\d+): .*?conversion error.*?invalid value '(?P<value>.*?)'", re.DOTALL)


@dataclass(frozen=True)
class Piece:
    """A row group of a Parquet file, a whole CSV file, or an iterable; `index` counts the pieces of a source."""

    path: str | None
    index: int
    n_rows: int | None
    row_group: int | None = None

    @property
    def place(self) -> str:
        """The piece in an error: its file, and row group."""
        file = self.path or "the table"
        return file if self.row_group is None else f"{file}, row group {self.row_group}"


class Source:
    """Names of the columns, and pieces that can be read again and again.

    `local` says that the pieces are this process's own; otherwise all processes see the same and share them.
    """

    names: tuple[str, ...]
    pieces: tuple[Piece, ...]
    local: bool = False

    def read(
        self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a piece, in batches of at most so many; all columns, or some."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """What changes when the data change; empty where nobody can tell."""
        return ""

    def take(self, pieces: Iterable[Piece]) -> Source:
        """A source of some of the pieces."""
        part = copy(self)
        part.pieces = tuple(pieces)
        return part

    @property
    def n_rows(self) -> int | None:
        """All rows; None where they are not known before they are read."""
        counts = [piece.n_rows for piece in self.pieces]
        return None if None in counts else sum(count for count in counts if count is not None)


class DatasetSource(Source):
    """Files, or an Arrow dataset with its own filter and partitions; `counts` are the rows of CSV files."""

    def __init__(self, dataset: Any, local: bool = False, counts: Mapping[str, int] | None = None):
        self.dataset, self.names, self.local = dataset, _check_names(dataset.schema.names), local
        self._fragments = _list_fragments(dataset)
        self.pieces = tuple(
            Piece(getattr(fragment, "path", None), index, _count_rows(fragment, counts or {}), _row_group(fragment))
            for index, fragment in enumerate(self._fragments)
        )

    def read(
        self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Iterator[pa.RecordBatch]:
        requested = list(self.names if names is None else names)
        fragment = self._fragments[piece.index]
        options: dict[str, Any] = {} if fragment is self.dataset else {"schema": self.dataset.schema}
        with explain(piece):
            yield from fragment.to_batches(columns=requested, batch_size=batch_rows, **options)

    def fingerprint(self) -> str:
        files = sorted({piece.path for piece in self.pieces if piece.path is not None})
        if not files or self._fragments[0] is self.dataset:  # rows in memory, or a filter that cannot be seen
            return ""
        found = self.dataset.filesystem.get_file_info(files)
        facts = [(info.path, info.size, info.mtime_ns) for info in found], [piece.index for piece in self.pieces]
        return hashlib.sha256(repr((facts, str(self.dataset.schema))).encode()).hexdigest()


class BatchSource(Source):
    """Anything that gives record batches (or tables) each time it is iterated, or a function that returns them."""

    def __init__(self, batches: Iterable[Any] | Callable[[], Iterable[Any]], local: bool = False):
        self._open, self.local = (batches if callable(batches) else lambda: batches), local
        first = next(iter(self._open()), None)
        if not isinstance(first, pa.RecordBatch | pa.Table):
            came = "nothing" if first is None else type(first).__name__
            raise TypeError(f"expected an iterable of Arrow record batches or tables, but it gives {came}")
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
    """The source that `fit` was given; None where it is a table in memory.

    Parameters
    ----------
    X : a path or glob of Parquet or CSV files, a folder, a list of paths, an Arrow dataset, an iterable of record
        batches that can be iterated again, or a function that returns one
    local : whether the rows are this process's own

    Examples
    --------
    >>> import pyarrow as pa
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
            "files, or a function that returns the batches anew"
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
) -> DatasetSource:
    """The source of files, globs and folders; all Parquet or all CSV, all with the same columns.

    The rest is about CSV files: the delimiter (None: the one that the first header holds most), texts that stand for no
    value, and columns that stay texts even if all of them could be read as numbers.
    """
    listed = [_expand(os.fspath(path)) for path in paths]
    filesystem, files, root = listed[0][0], [file for _, found, _ in listed for file in found], listed[0][2]
    if apart := [found[0] for other, found, _ in listed if other != filesystem]:
        raise ValueError(f"the files are in several stores, such as {files[0]} and {apart[0]}; copy them into one")
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise ValueError(f"the files are of several kinds, such as {files[0]} and {files[-1]}; give one kind at a time")
    if kinds == {"parquet"}:
        form = _parquet_format()
    else:
        form = _csv_format(delimiter or _find_delimiter(filesystem, files[0], encoding), encoding, missing)
    given = {"filesystem": filesystem, "format": form}
    if root is not None and len(listed) == 1:
        given |= {"partitioning": "hive", "partition_base_dir": root}
    first = _open_dataset(files[:1], given, files[0])
    schema, counts = _unify(files, given, first.schema), None
    if kinds == {"csv"}:
        kept = [field.with_type(pa.string()) if field.name in texts else field for field in schema]
        schema, counts = _settle_types(files, given, pa.schema(kept))
    return DatasetSource(pa.dataset.dataset(files, schema=schema, **given), local, counts)


def read_column(batch: pa.RecordBatch, name: str) -> Column:
    """A column of a batch as `columns.read_columns` would read it; single precision stays, and is not copied.

    Levels come as the batch lists them, also those that no row has.
    """
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
        place = np.array([*(-1 if is_missing(value) else index for index, value in enumerate(values)), -1], np.int32)
        return Column(name, None, place[codes], tuple(texts), array.type.ordered, is_declared)
    return read_columns(pa.table({name: array}))[0]


def is_text(kind: pa.DataType) -> bool:
    """Is a column of this type one of levels?"""
    return pa.types.is_dictionary(kind) or str(kind) in ("string", "large_string", "string_view")


def require_names(names: Iterable[str], came: Sequence[str], place: str) -> None:
    """Every name must be among those that came; the error names the nearest."""
    absent = [name for name in names if name not in came]
    if absent:
        close = get_close_matches(absent[0], came, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(map(repr, came[:20]))}"
        raise ValueError(f"{place} has no column {', '.join(map(repr, absent[:20]))}; {hint}")


@contextmanager
def explain(piece: Piece) -> Iterator[None]:
    """Errors of Arrow and of the system in terms of the file."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"{piece.place}: the file is gone; put it back, or fit on the files that are there"
        ) from error
    except (pa.ArrowException, OSError) as error:
        text = escape(" ".join(str(error).split()))
        raise ValueError(f"{piece.place} cannot be read ({text}); write the file anew, or leave it out") from error


def _check_names(names: Sequence[str]) -> tuple[str, ...]:
    if repeated := [name for name, count in Counter(names).items() if count > 1]:
        raise ValueError(f"the table has more than one column {repeated[0]!r}; rename them so that each comes once")
    return tuple(names)


def _list_fragments(dataset: Any) -> list[Any]:
    """Row groups and files; a dataset that is filtered shows no fragments and is one itself."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError:
        return [dataset]
    if isinstance(dataset, pa.dataset.InMemoryDataset):
        return [dataset]
    found: list[Any] = []
    for index, fragment in enumerate(fragments):
        with explain(Piece(getattr(fragment, "path", None), index, None)):
            found += fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]
    return found


def _row_group(fragment: Any) -> int | None:
    groups = getattr(fragment, "row_groups", None)
    return groups[0].id if groups else None


def _count_rows(fragment: Any, counts: Mapping[str, int]) -> int | None:
    groups = getattr(fragment, "row_groups", None)
    return counts.get(getattr(fragment, "path", "")) if groups is None else sum(group.num_rows for group in groups)


def _expand(path: str) -> tuple[Any, list[str], str | None]:
    """The file system, the files that a path, glob or folder stands for, and the folder."""
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
    files = sorted(entry.path for entry in inside if entry.is_file and entry.path.lower().endswith((*PARQUET, *CSV)))
    if not files:
        raise FileNotFoundError(f"the folder {path} has no Parquet or CSV file; check the path")
    return filesystem, files, path


def _kind(file: str) -> str:
    lower = file.lower()
    if lower.endswith(PARQUET):
        return "parquet"
    if lower.endswith(CSV):
        return "csv"
    raise ValueError(f"{file} is neither Parquet nor CSV by its name; expected {', '.join((*PARQUET, *CSV))}")


def _parquet_format() -> Any:
    checked = pa.dataset.ParquetFragmentScanOptions(page_checksum_verification=True)
    return pa.dataset.ParquetFileFormat(default_fragment_scan_options=checked)


def _csv_format(delimiter: str, encoding: str, missing: Sequence[str]) -> Any:
    return pa.dataset.CsvFileFormat(
        parse_options=pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        convert_options=pa.csv.ConvertOptions(null_values=list(missing), strings_can_be_null=True),
        read_options=pa.csv.ReadOptions(block_size=BLOCK_BYTES, encoding=encoding),
    )


def _find_delimiter(filesystem: Any, file: str, encoding: str) -> str:
    """The delimiter that the header holds most."""
    with explain(Piece(file, 0, None)), filesystem.open_input_stream(file) as stream:
        header = stream.read(HEAD_BYTES).decode(encoding, errors="replace").lstrip("\r\n").partition("\n")[0]
    return max(DELIMITERS, key=header.count)


def _open_dataset(files: list[str], given: Mapping[str, Any], place: str) -> Any:
    with explain(Piece(place, 0, None)):
        return pa.dataset.dataset(files, **given)


def _unify(files: Sequence[str], given: Mapping[str, Any], schema: Any) -> Any:
    """The schema of all files: the same columns, their types made one where both are numbers."""
    for file in files[1:]:
        came = _open_dataset([file], given, file).schema
        require_names(schema.names, came.names, file)
        require_names(came.names, schema.names, files[0])
        for field in came:
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
    """The type that holds both, None where there is none."""
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if pa.types.is_integer(one) and pa.types.is_integer(other):
        return pa.int64()
    is_number = [pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, other)]
    if all(is_number):
        return pa.float64()
    is_text = [pa.types.is_string(kind) or pa.types.is_large_string(kind) for kind in (one, other)]
    return pa.large_string() if all(is_text) else None


def _settle_types(files: Sequence[str], given: Mapping[str, Any], schema: Any) -> tuple[Any, dict[str, int]]:
    """The types of CSV columns after a look at every row (a text among numbers makes texts), and rows of each file."""
    counts: dict[str, int] = {}
    for file in files:
        names = _open_dataset([file], given, file).schema.names
        while True:
            try:
                with explain(Piece(file, 0, None)):
                    batches = pa.dataset.dataset([file], schema=schema, **given).to_batches(batch_size=BATCH_ROWS)
                    counts[file] = sum(batch.num_rows for batch in batches)
                break
            except ValueError as error:
                found = _BAD_VALUE.search(str(error.__cause__))
                if found is None:
                    raise
                place = schema.get_field_index(names[int(found["column"])])
                field = schema.field(place)
                wider = pa.float64() if pa.types.is_integer(field.type) else pa.string()
                schema = schema.set(place, field.with_type(wider))
    return schema, counts
