"""Let disks and files fail, and see what a fit says and keeps: python -m benchmarks run robustness.disk_faults

Every case is a real fit in a process of its own: a disk that is full while checkpoints or the cache are written, a file
that is gone, a row group that is damaged, a cache and a checkpoint that are cut short. A fit must either come to its
end, or stop with a message that names the file; checkpoints stay good, and once the fault is gone the fit goes on to
its usual loss. A line a case; ends with code 1 if one did not.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from benchmarks.robustness.fit_process import write_data
from benchmarks.robustness.killed_fits import TOLERANCE, Way, measure, start

FULL = 150_000  # bytes that a file may have on a disk that is full: enough for a model, too few for its checkpoints


@dataclass(frozen=True)
class Case:
    """What fails, before a fit begins or after it was killed; which words must be in its output; whether it ends well,
    and what to do for it to go on."""

    name: str
    is_stream: bool
    words: tuple[str, ...]
    ends_well: bool
    is_full: bool = False
    break_before: Callable[[Path], None] | None = None
    break_after: Callable[[Path], None] | None = None
    mend: Callable[[Path], None] | None = None


def damage(path: Path) -> None:
    """Other bytes where the first page of a Parquet file begins; a copy is kept.

    Other numbers within a page would go unseen: files have no checksums of pages unless their writer requested them.
    """
    data = bytearray(path.read_bytes())
    path.with_suffix(".good").write_bytes(data)
    data[4:404] = bytes(range(255, 55, -1)) * 2
    path.write_bytes(data)


def hide(path: Path) -> None:
    path.rename(path.with_suffix(".good"))


def bring_back(path: Path) -> None:
    path.with_suffix(".good").replace(path)


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def newest(folder: Path) -> Path:
    return sorted((folder / "state").glob("fit-*.checkpoint"))[-1]


def part(folder: Path) -> Path:
    return folder / "data" / "part-2.parquet"


CASES = [
    Case("disk full, checkpoints", False, ("training goes on",), ends_well=True, is_full=True),
    Case("disk full, cache", True, ("state/cache is full",), ends_well=False, is_full=True),
    Case(
        "file gone", True, ("part-2.parquet",), ends_well=False, break_after=lambda folder: hide(part(folder)),
        mend=lambda folder: bring_back(part(folder)),
    ),
    Case(
        "row group damaged", True, ("part-2.parquet",), ends_well=False,
        break_before=lambda folder: damage(part(folder)), mend=lambda folder: bring_back(part(folder)),
    ),
    Case(
        "cache cut short", True, (), ends_well=True,
        break_after=lambda folder: cut_short(folder / "state" / "cache" / "bucket-001.rank-0.bin"),
    ),
    Case(
        "checkpoint cut short", False, ("fit-", "cannot be read"), ends_well=True,
        break_after=lambda folder: cut_short(newest(folder)),
    ),
]  # fmt: skip


def face(case: Case, n_rows: int, n_steps: int, usual: float) -> list[str]:
    """What went wrong that should not have; nothing if all is well."""
    way = Way(is_stream=case.is_stream, options=("--rows", str(n_rows), "--steps", str(n_steps)))
    with tempfile.TemporaryDirectory(prefix="drill-") as name:
        folder = Path(name)
        write_data(folder / "data", n_rows)
        if case.break_before is not None:
            case.break_before(folder)
        if case.break_after is not None:
            start(way, folder, False, lambda _seconds: len(list((folder / "state").glob("fit-*.checkpoint"))) == 2)
            case.break_after(folder)
        with full_disk() if case.is_full else nullcontext():
            code, output = start(way, folder, resume=case.break_after is not None)
        wrong = [f"no {words!r} in its output: {output[-2000:]}" for words in case.words if words not in output]
        if (code == 0) != case.ends_well:
            wrong.append(f"ended with code {code}: {output[-2000:]}")
        if not case.ends_well:
            if case.mend is not None:
                case.mend(folder)
            code, output = start(way, folder, resume=True)
            if code:
                return [*wrong, f"did not go on: {output[-2000:]}"]
        if not (folder / "model.nbm").exists():
            return [*wrong, "left no model"]
        loss = measure(folder / "model.nbm")
        return [*wrong, *([f"loss {loss:.6f}"] if abs(loss / usual - 1) > TOLERANCE else [])]


@contextmanager
def full_disk() -> Iterator[None]:
    """Children started meanwhile cannot write files of more than `FULL` bytes."""
    import resource

    usual = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, usual[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, usual)


def find_usual(is_stream: bool, n_rows: int, n_steps: int) -> float:
    """Loss of a fit to which nothing happens."""
    with tempfile.TemporaryDirectory(prefix="drill-") as name:
        folder = Path(name)
        write_data(folder / "data", n_rows)
        way = Way(is_stream=is_stream, options=("--rows", str(n_rows), "--steps", str(n_steps)))
        code, output = start(way, folder, resume=False)
        if code:
            raise RuntimeError(f"a fit failed by itself: {output[-3000:]}")
        return measure(folder / "model.nbm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8000)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--cases", nargs="+", choices=[case.name for case in CASES])
    parser.add_argument("--quick", action="store_true", help="two cases, few steps")
    given = parser.parse_args()
    if given.quick:
        given.cases, given.steps = ["disk full, checkpoints", "row group damaged"], 60
    usual = {is_stream: find_usual(is_stream, given.rows, given.steps) for is_stream in (False, True)}
    is_sound = True
    for case in CASES:
        if given.cases is None or case.name in given.cases:
            wrong = face(case, given.rows, given.steps, usual[case.is_stream])
            is_sound &= not wrong
            print(f"{case.name:28}{'well' if not wrong else 'NOT WELL: ' + '; '.join(wrong)}", flush=True)
    sys.exit(0 if is_sound else 1)


if __name__ == "__main__":
    main()
