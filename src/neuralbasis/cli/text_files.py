"""What is wrong with a CSV file that cannot be read: the line and the cause.

In: the path of the file, "-" for standard input. Out: the end of a message that starts with the name of the file. The
file is read again, since Arrow does not count lines; standard input cannot be read again, and its line stays unknown.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Any


def describe_encoding(path: str, encoding: str) -> str:
    """A text that is not in the stated encoding, and the likely one."""
    is_default = encoding.lower().replace("-", "") == "utf8"
    if path != "-":
        with _open(path) as file:
            for number, line in enumerate(file, 1):
                try:
                    line.decode(encoding)
                except UnicodeError as error:
                    found = line[error.start : error.start + 1] if isinstance(error, UnicodeDecodeError) else b""
                    likely = "latin-1"
                    if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
                        likely = "utf-16"
                    elif b"\x80" <= found <= b"\x9f":
                        likely = "cp1252"
                    hint = f"try --encoding {likely}" if is_default else "try another --encoding"
                    return f": line {number} is not {encoding} (byte 0x{found.hex()}); {hint}"
    return f": the text is not {encoding}; try {'--encoding latin-1' if is_default else 'another --encoding'}"


def describe_ragged(path: str, encoding: str, delimiter: str, n_columns: int) -> str:
    """A line with more or fewer values than the header has names."""
    if path != "-":
        with _open(path) as file, _no_size_limit():
            reader = csv.reader((line.decode(encoding, errors="replace") for line in file), delimiter=delimiter)
            line = 1
            for row in reader:
                if row and len(row) != n_columns and reader.line_num > line and next(reader, None) is None:
                    return f": a quoted value that starts in line {line} does not end; close its quote"
                if row and len(row) != n_columns:
                    return (
                        f": line {line} has {len(row)} values, but the header has {n_columns} names; correct that "
                        f"line, quote values that contain {delimiter!r}, or give another --delimiter"
                    )
                line = reader.line_num + 1
    return f": a line has more or fewer values than the {n_columns} names of the header; correct it"


@contextmanager
def _no_size_limit() -> Iterator[None]:
    """Read values of any length; the limit of the csv module is global."""
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _open(path: str) -> IO[bytes]:
    opened: Any = gzip.open if path.endswith(".gz") else open
    return opened(path, "rb")
