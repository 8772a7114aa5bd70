"""Large text files of numbers, plain or compressed (gz, bz2, zip), read in pieces into one float32 array.

`read_table` reads one number per column, `read_svmlight` lines "target qid:1 column:value …". Both get the expected
number of rows, so the array never grows; errors name a truncated or damaged file.
"""

from __future__ import annotations

import bz2
import gzip
import io
import pickle
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np

PIECE_ROWS = 200_000
PIECE_LINES = 10_000
BROKEN = (ValueError, EOFError, OSError, KeyError, zlib.error, zipfile.BadZipFile, pickle.UnpicklingError)


@contextmanager
def naming(path: Path, what: str) -> Iterator[None]:
    """Convert errors into one that names the file and what was expected."""
    try:
        yield
    except BROKEN as error:
        raise ValueError(f"{path}: expected {what}: {error}; the file may be truncated: place it again") from error


@contextmanager
def open_compressed(path: Path, member: str = "") -> Iterator[IO[bytes]]:
    """The bytes of a file, or of a member of a zip file."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(member) as file:
            yield file
        return
    opener = {".gz": gzip.open, ".bz2": bz2.open}.get(path.suffix, open)
    with opener(path, "rb") as file:
        yield file


def read_table(path: Path, n_rows: int, n_columns: int) -> np.ndarray:
    """(rows, columns) float32 of lines without a header, separated by commas."""
    import pandas as pd

    found = np.empty((n_rows, n_columns), np.float32)
    expected = f"{n_rows:,} lines of {n_columns} numbers separated by commas"
    with naming(path, expected), pd.read_csv(path, header=None, dtype=np.float32, chunksize=PIECE_ROWS) as pieces:
        for rows, piece in _place(pieces, n_rows):
            if piece.shape[1] != n_columns:
                raise ValueError(f"a line has {piece.shape[1]} values")
            found[rows] = piece.to_numpy()
            complete = np.isfinite(found[rows]).all(axis=1)
            if not complete.all():
                raise ValueError(f"line {rows.start + int(np.argmin(complete)) + 1:,} has too few values")
    return found


def read_svmlight(
    path: Path, n_rows: int, n_columns: int, member: str = ""
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Columns (rows, columns) float32, targets (rows,), and queries (rows,), 0 where lines have none."""
    X = np.empty((n_rows, n_columns), np.float32)
    y, queries = np.empty(n_rows), np.zeros(n_rows, int)
    where = path / member if member else path
    with naming(where, f"{n_rows:,} lines of a target and column:value"), open_compressed(path, member) as file:
        for rows, piece in _place(iter(lambda: list(islice(file, PIECE_LINES)), []), n_rows):
            y[rows], queries[rows] = _parse(piece, X[rows])
    return X, y, queries


def _parse(lines: list[bytes], X: np.ndarray) -> tuple[np.ndarray, np.ndarray | int]:
    """Targets and queries of these lines; their columns are written to X."""
    from sklearn.datasets import load_svmlight_file

    text = io.BytesIO(b"".join(lines))
    values, y, queries = load_svmlight_file(
        text, n_features=X.shape[1], dtype=np.float32, zero_based=False, query_id=True
    )
    if len(y) != len(lines):
        raise ValueError(f"{len(lines) - len(y)} lines are empty")
    values.toarray(out=X)
    return y, queries if len(queries) else 0


def _place(pieces: Iterable[Any], n_rows: int) -> Iterator[tuple[slice, Any]]:
    """The rows of each piece."""
    n_done = 0
    for piece in pieces:
        if n_done + len(piece) > n_rows:
            raise ValueError("the file has more lines")
        yield slice(n_done, n_done + len(piece)), piece
        n_done += len(piece)
    if n_done < n_rows:
        raise ValueError(f"the file has only {n_done:,} lines")
