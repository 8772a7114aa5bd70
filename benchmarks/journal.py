"""A file of JSON lines that survives a process killed while it wrote: half a last line is not read, and cut off before
the next line is added."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def read_lines(path: Path | None) -> list[dict[str, Any]]:
    """All whole lines; none if the file is not there."""
    if path is None or not path.exists():
        return []
    whole, _, _torn = path.read_bytes().rpartition(b"\n")
    return [json.loads(line) for line in whole.split(b"\n") if line]


def append_line(path: Path, fields: Mapping[str, Any]) -> None:
    """Add a line and wait until it is on disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)
        file.write(json.dumps(fields, ensure_ascii=False).encode() + b"\n")
        file.flush()
        os.fsync(file.fileno())
