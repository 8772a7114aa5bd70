"""Files of JSON lines. Several processes may append to one file; an incomplete last line is ignored and overwritten."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_lines(path: Path | None) -> list[dict[str, Any]]:
    """All complete lines; empty if the file does not exist."""
    if path is None or not path.exists():
        return []
    complete, _, _incomplete = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in complete.split(b"\n") if line]


def append_line(path: Path, fields: Mapping[str, Any]) -> None:
    """Append one line and flush it to disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another process must not append between the read and the truncation
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(fields, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
