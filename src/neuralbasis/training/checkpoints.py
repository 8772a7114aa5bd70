"""Checkpoints: the state of a fit in a folder, to resume it after an interruption.

    fit-000007.checkpoint        an archive of two entries: state.json and arrays.bin, see `serialization.nested_json`

A file holds the states of finished runs and of the current one, a description of the fit, and the seed, which
reproduces all that lies between runs. Files are written atomically. The last two are kept; if the newest is damaged,
the one before it is read. The first process reads and writes, and sends what it reads to the others. The last file of a
finished fit is marked as such, and the next fit replaces it. One fit at a time uses a folder.

SHA-256 sums in a file detect accidental damage; a damaged file is skipped with a warning. They do not detect forgery: a
forged file can change the resulting model. It cannot execute code or access other memory: every state is compared with
that of the run before it is used (keys, types, dtypes, shapes, and the range of all indices), and one that does not fit
raises `CheckpointError`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from .. import __version__
from ..data.sparse import SparseMatrix
from ..data.target import Sample, take_rows
from ..distributed.process_group import ProcessGroup
from ..model.summary import to_plain
from ..printable import escape
from ..serialization.archive import DocumentError
from ..serialization.file_lock import FolderLock
from ..serialization.nested_json import read_nested, write_nested
from .checkpointer import NO_CHECKPOINTS, Checkpointer, RunState, StateError, check_form

KEPT = 2  # files
ABSENT = object()
MAX_ROWS = 1000  # that enter the digest of a table
# Parameters that may change when a fit resumes: they concern the run, not the model.
FREE = {
    "n_jobs", "verbose", "callbacks", "time_limit", "device", "checkpoint_dir", "checkpoint_every", "cache_dir",
    "keep_cache", "warm_start",
}  # fmt: skip
_FIT = {"version": str, "parameters": dict, "columns": [str], "rows": int, "values": str}
_CONTENT = {"choices": dict, "fit": _FIT, "over": [dict], "is_done": bool}


class CheckpointError(ValueError):
    """A checkpoint of another fit than the one to resume, or a folder that another fit uses."""


def open_checkpoints(
    folder: Any, every: float, resume: bool, group: ProcessGroup, parameters: Mapping[str, Any]
) -> Checkpointer:
    """A checkpointer that writes to this folder every `every` seconds; one that keeps nothing without a folder."""
    if folder is None:
        if resume:
            raise ValueError("resume=True needs the folder of an earlier fit's checkpoints; give checkpoint_dir")
        return NO_CHECKPOINTS
    lock = FolderLock(folder)
    try:
        found = group.agree(_read_newest(Path(folder), resume, lock) if group.rank == 0 else None)
        if isinstance(found, Exception):
            raise found
    except BaseException:  # also a warning that is an error
        lock.release()
        raise
    if found is not None and found["is_done"] and found["fit"]["parameters"] != _describe(parameters):
        found = None  # a new fit begins, with choices of its own
    return Checkpoints(Path(folder), every, group, found, lock)


def _read_newest(folder: Path, resume: bool, lock: FolderLock) -> Any:
    """The newest content that can be read; or an error, which all processes raise."""
    try:
        if not lock.take_alone():
            return CheckpointError(
                f"another fit is writing to checkpoint_dir={os.fspath(folder)!r}; give another folder, or wait until "
                "that fit has ended"
            )
        for partial in folder.glob(".fit-*.part"):  # of a process that was killed while it wrote
            partial.unlink(missing_ok=True)
    except OSError as error:
        return OSError(f"checkpoint_dir={os.fspath(folder)!r} is not a folder that can be written to: {error}")
    if not resume:
        return None
    for path in reversed(list_checkpoints(folder)):
        try:
            return {**_read_content(path), "path": path}
        except (OSError, DocumentError, StateError) as error:
            warnings.warn(f"{path} cannot be read, so the checkpoint before it is tried: {error}", stacklevel=2)
    warnings.warn(f"there is no checkpoint in {folder} to resume from: the fit starts from the beginning", stacklevel=2)
    return None


def _read_content(path: Path) -> dict[str, Any]:
    """The content of a file; the states of runs in it are not checked yet."""
    content = read_nested(path)
    under_way = None if content.get("under_way") is None else dict
    check_form(content, {**_CONTENT, "under_way": under_way})
    return content


class Checkpoints(Checkpointer):
    """Writes the state of a fit to a folder; `found` is the content of a file to resume from, or None."""

    def __init__(self, folder: Path, every: float, group: ProcessGroup, found: dict[str, Any] | None, lock: FolderLock):
        self.folder, self.every, self.group, self.found, self.lock = folder, every, group, found, lock
        self.source = None if found is None else found["path"]
        self.over: list[dict[str, Any]] = []  # states of finished runs
        self.was_over = False  # whether the current run was finished before
        self.choices: dict[str, Any] = {}
        self.fit: dict[str, Any] = {}
        self.files = [] if found is None else [found["path"]]  # of this fit that are kept
        self.written = time.monotonic()

    def close(self) -> None:
        self.lock.release()

    def choose(self, name: str, value: int) -> int:
        self.choices[name] = value if self.found is None else self.found["choices"].get(name, value)
        if type(self.choices[name]) is not int or not 0 <= self.choices[name] < 2**63:
            raise self._refuse(f"its {name} is {self.choices[name]!r:.80}")
        return self.choices[name]

    def check(self, fit: dict[str, Any]) -> None:
        self.fit = json.loads(json.dumps(fit))  # as it will be read
        if self.found is None or self.found["fit"] == self.fit:
            return
        if self.found["is_done"]:
            self.found, self.files = None, []
            return
        raise CheckpointError(
            f"{self.folder} holds the checkpoint of another fit ({_find_difference(self.found['fit'], self.fit)}); "
            "fit with resume=False to replace it, or give another checkpoint_dir"
        )

    def begin(self, state: RunState) -> bool:
        found, place = self.found, len(self.over)
        self.was_over = found is not None and place < len(found["over"])
        if found is not None and self.was_over:
            self.over.append(found["over"][place])
            self._restore(state, self.over[place], is_over=True)
        elif found is not None:
            self.found = None
            if found["under_way"] is not None:
                self._restore(state, found["under_way"], is_over=False)
        return self.was_over

    def _restore(self, state: RunState, found: dict[str, Any], is_over: bool) -> None:
        try:
            check_form(found, state.form(), "its state")
            state.restore(found, is_over)
        except StateError as error:
            raise self._refuse(str(error)) from None

    def _refuse(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.source} is damaged, or was changed: {what}; remove the file to go on from the checkpoint before "
            "it, or fit with resume=False"
        )

    def note(self, state: RunState) -> None:
        if self.group.agree(time.monotonic() - self.written >= self.every):
            self._write(state.capture())  # all processes: each has a part of the state

    def end(self, state: RunState) -> None:
        if not self.was_over:
            self.over.append(deepcopy(state.capture()))  # the next run may train the same arrays
            self._write()

    def finish(self) -> None:
        self._write(is_done=True)

    def _write(self, under_way: dict[str, Any] | None = None, is_done: bool = False) -> None:
        """Write a file and remove all but the last two; if that fails, warn, keep the old files and train on."""
        if self.group.rank > 0:
            return
        there = list_checkpoints(self.folder)
        path = self.folder / f"fit-{_number(there[-1]) + 1 if there else 1:06d}.checkpoint"
        content = {
            "choices": self.choices, "fit": self.fit, "over": self.over, "under_way": under_way, "is_done": is_done,
        }  # fmt: skip
        try:
            write_nested(path, content)
            self.files = [*self.files, path][-KEPT:]
            for other in set(there) - set(self.files):
                other.unlink(missing_ok=True)
        except (OSError, DocumentError) as error:
            warnings.warn(
                f"no checkpoint could be written to {self.folder}, but training goes on: {error}", stacklevel=2
            )
        self.written = time.monotonic()


def list_checkpoints(folder: str | os.PathLike[str]) -> list[Path]:
    """Files of checkpoints in a folder, the newest last."""
    return sorted((path for path in Path(folder).glob("fit-*.checkpoint") if _number(path) >= 0), key=_number)


def _number(path: Path) -> int:
    digits = path.stem.removeprefix("fit-")
    return int(digits) if digits.isdecimal() else -1


def describe_fit(
    parameters: Mapping[str, Any], names: Sequence[str], numbers: np.ndarray | SparseMatrix, sample: Sample
) -> dict[str, Any]:
    """What must be the same when a fit resumes: version, parameters, columns and, by a digest, rows and target."""
    digest = hashlib.sha256()
    step = max(1, len(numbers) // MAX_ROWS)
    some = take_rows(numbers, np.arange(0, len(numbers), step))
    arrays = [some.column, some.value] if isinstance(some, SparseMatrix) else [some]
    for array in [*arrays, sample.y, sample.weights, *([] if sample.init is None else [sample.init])]:
        digest.update(np.ascontiguousarray(array).data)
    return {
        "version": __version__,
        "parameters": _describe(parameters),
        "columns": list(names),
        "rows": len(numbers),
        "values": digest.hexdigest(),
    }


def _describe(parameters: Mapping[str, Any]) -> Any:
    """Parameters that the model depends on, as they are read from a file."""
    return json.loads(json.dumps(to_plain({name: value for name, value in parameters.items() if name not in FREE})))


def _find_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first difference between two fits."""
    for part in ("version", "columns", "rows", "parameters"):
        if part == "parameters" and old[part] != new[part]:
            names = sorted({*old[part], *new[part]})
            name = next(name for name in names if old[part].get(name, ABSENT) != new[part].get(name, ABSENT))
            return f"with {name}={old[part].get(name)!r} instead of {new[part].get(name)!r}"
        if old[part] != new[part] and part == "columns":
            odd = sorted(set(old[part]) ^ set(new[part])) or ["in another order"]
            return f"of other columns: {escape(', '.join(odd[:5]))}"
        if old[part] != new[part]:
            return f"{part} {old[part]} instead of {new[part]}"
    return "of rows with other values"
