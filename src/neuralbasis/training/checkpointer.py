"""Checkpoints: the state of a fit in a folder, to resume it after an interruption.

    fit-000007.checkpoint        an archive of two entries: state.json and arrays.bin, see `serialization.nested_json`

The loop calls a checkpointer when a run begins, after every round of batches and when it ends. The runs of a fit always
follow one another in the same order, and the seed reproduces everything between them: a file holds the states of
finished runs and of the current one, a description of the fit, and the seed. Files are written atomically. The last two
are kept; if the newest is damaged, the one before it is read. The first process reads and writes, and sends what it
reads to the others. The last file of a finished fit is marked, and the next fit replaces it. One fit at a time uses a
folder.

SHA-256 sums detect accidental damage; a damaged file is skipped with a warning. They do not detect forgery: a forged
file can change the resulting model, but not execute code or access other memory: `check_form` compares every state with
that of the run (keys, types, dtypes, shapes), and every `restore` checks ranges; both raise `StateError`.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from .. import __version__
from ..data.sparse import SparseMatrix
from ..data.target import Sample
from ..distributed.process_group import ProcessGroup
from ..model.summary import to_plain
from ..printable import escape
from ..serialization.archive import DocumentError
from ..serialization.file_lock import FolderLock
from ..serialization.nested_json import read_nested, write_nested

# Parameters that may change when a fit resumes: they concern the run, not the model.
FREE = {
    "n_jobs", "verbose", "callbacks", "time_limit", "device", "checkpoint_dir", "checkpoint_every", "cache_dir",
    "keep_cache", "warm_start",
}  # fmt: skip


class StateError(ValueError):
    """A state that does not fit the run to resume."""


class RunState(Protocol):
    """The state of a run; `check_form` compares a file with `form` before `restore`."""

    def form(self) -> dict[str, Any]: ...
    def capture(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any], is_over: bool) -> None: ...


class Checkpointer:
    """Keeps nothing; `Checkpoints` writes to disk."""

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """The fit is over or has failed: other fits may use the same folder."""

    def choose(self, _name: str, value: int) -> int:
        """A choice that a fit makes once: this value, or that of the resumed fit."""
        return value

    def check(self, _fit: dict[str, Any]) -> None:
        """Refuse to resume another fit than the one described."""

    def begin(self, _state: RunState) -> bool:
        """A run begins: restore its kept state, if there is one; True if that run was over."""
        return False

    def note(self, _state: RunState) -> None:
        """A round of batches is done."""

    def end(self, _state: RunState) -> None:
        """The run is over."""

    def finish(self) -> None:
        """The fit is over."""


NO_CHECKPOINTS = Checkpointer()


def require(is_right: bool, problem: str) -> None:
    if not is_right:
        raise StateError(problem)


def require_bounded(tensors: Iterable[Tensor]) -> None:
    """Refuse values of the best state that are not finite, or whose products would overflow."""
    limit = 1e15  # its square fits single precision; contributions are in units of the target's deviation
    is_bounded = all(bool((tensor.abs() < limit).all()) for tensor in tensors)
    require(is_bounded, f"the best values are not finite, or beyond ±{limit:.0e}")


def check_form(value: Any, form: Any, name: str = "its content") -> None:
    """Refuse nested plain values and arrays whose keys, types, dtypes or shapes differ from the example `form`.

    Where the content varies, a type stands for one plain value, a list of one type for any number of them, and a dtype
    for an array of one dimension.

    >>> check_form({"step": 7, "losses": [0.5, 0.25]}, {"step": int, "losses": [float]})
    >>> check_form({"kept": np.zeros(3)}, {"kept": np.ones(4)})
    Traceback (most recent call last):
    ...
    neuralbasis.training.checkpointer.StateError: its content['kept'] is float64 (3,), but float64 (4,) was expected
    """
    if isinstance(form, type):
        require(type(value) is form, f"{name} is {_describe_form(value)}, but {form.__name__} was expected")
    elif isinstance(form, np.dtype):
        is_right = isinstance(value, np.ndarray) and value.dtype == form and value.ndim == 1
        require(is_right, f"{name} is {_describe_form(value)}, but {form} of one dimension was expected")
    elif isinstance(form, list) and len(form) == 1 and isinstance(form[0], type):
        require(isinstance(value, list), f"{name} is {_describe_form(value)}, but a list was expected")
        for index, item in enumerate(value):
            check_form(item, form[0], f"{name}[{index}]")
    else:
        came, expected = _describe_form(value), _describe_form(form)
        require(came == expected, f"{name} is {came:.200}, but {expected:.200} was expected")
        keys = form if isinstance(form, dict) else range(len(form)) if isinstance(form, list) else ()
        for key in keys:
            check_form(value[key], form[key], f"{name}[{key!r}]")


def _describe_form(value: Any) -> str:
    """The form of one value, without its items."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, dict):
        return f"a dict of {sorted(value)}"
    return f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__


class CheckpointError(ValueError):
    """A checkpoint of another fit than the one to resume, or a folder that another fit uses."""


def open_checkpoints(
    folder: Any, every: float, resume: bool, group: ProcessGroup, parameters: Mapping[str, object]
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
            content = read_nested(path)
            under_way = None if content.get("under_way") is None else dict
            fit = {"version": str, "parameters": dict, "columns": [str], "rows": int, "values": str}
            # The states of runs are checked when they are restored.
            check_form(content, {"choices": dict, "fit": fit, "over": [dict], "under_way": under_way, "is_done": bool})
            return {**content, "path": path}
        except (OSError, DocumentError, StateError) as error:
            warnings.warn(f"{path} cannot be read, so the checkpoint before it is tried: {error}", stacklevel=2)
    warnings.warn(f"there is no checkpoint in {folder} to resume from: the fit starts from the beginning", stacklevel=2)
    return None


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
            self.files = [*self.files, path][-2:]
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
    parameters: Mapping[str, object], names: Sequence[str], numbers: np.ndarray | SparseMatrix, sample: Sample
) -> dict[str, Any]:
    """What must be the same when a fit resumes: version, parameters, columns and, by a digest, rows and target."""
    digest = hashlib.sha256()
    some = numbers[np.arange(0, len(numbers), max(1, len(numbers) // 1000))]
    arrays = [some.column, some.value] if isinstance(some, SparseMatrix) else [some]
    for array in [*arrays, sample.y, sample.weights, *([] if sample.init is None else [sample.init])]:
        digest.update(np.ascontiguousarray(array).data)
    known = {"version": __version__, "parameters": _describe(parameters), "columns": list(names)}
    return {**known, "rows": len(numbers), "values": digest.hexdigest()}


def _describe(parameters: Mapping[str, object]) -> Any:
    """Parameters that the model depends on, as they are read from a file."""
    return json.loads(json.dumps(to_plain({name: value for name, value in parameters.items() if name not in FREE})))


def _find_difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """The first difference between two fits."""
    if old["version"] != new["version"]:
        return f"version {old['version']} instead of {new['version']}"
    if old["columns"] != new["columns"]:
        odd = sorted(set(old["columns"]) ^ set(new["columns"])) or ["in another order"]
        return f"of other columns: {escape(', '.join(odd[:5]))}"
    if old["rows"] != new["rows"]:
        return f"rows {old['rows']} instead of {new['rows']}"
    before, now = old["parameters"], new["parameters"]
    for name in sorted({*before, *now}):
        if name not in before or name not in now or before[name] != now[name]:
            return f"with {name}={before.get(name)!r} instead of {now.get(name)!r}"
    return "of rows with other values"
