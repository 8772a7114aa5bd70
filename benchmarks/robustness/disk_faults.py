"""Make disks and files fail, and check what a fit reports and keeps.

    python -m benchmarks run robustness.disk_faults

Every case is a fit in a child process: a disk that is full while checkpoints or the cache are written, a missing file,
a damaged row group, a truncated cache, a truncated checkpoint. A fit must either complete or stop with a message that
names the file. Checkpoints stay valid, and after the repair the fit continues to its expected loss. One line per case;
the exit code is 1 if one failed.
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
from benchmarks.robustness.killed_fits import TOLERANCE, Setup, measure, start

FULL = 150_000  # largest file on a full disk, in bytes: enough for a model, too few for its checkpoints


@dataclass(frozen=True)
class Case:
    """A fault before the fit or after it was killed, words that the output must contain, whether the fit completes, and
    the repair after which it continues."""

    name: str
    is_stream: bool
    words: tuple[str, ...]
    completes: bool
    is_full: bool = False
    damage_before: Callable[[Path], None] | None = None
    damage_after: Callable[[Path], None] | None = None
    repair: Callable[[Path], None] | None = None


def damage(path: Path) -> None:
    """Overwrite the header of the first page of a Parquet file; a copy is kept.

    Changed values within a page would not be noticed: pages have no checksums by default.
    """
    data = bytearray(path.read_bytes())
    path.with_suffix(".good").write_bytes(data)
    data[4:404] = bytes(range(255, 55, -1)) * 2
    path.write_bytes(data)


def hide(path: Path) -> None:
    path.rename(path.with_suffix(".good"))


def restore(path: Path) -> None:
    path.with_suffix(".good").replace(path)


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def newest(folder: Path) -> Path:
    return sorted((folder / "state").glob("fit-*.checkpoint"))[-1]


def part(folder: Path) -> Path:
    return folder / "data" / "part-2.parquet"


CASES = [
    Case("disk full, checkpoints", False, ("training goes on",), completes=True, is_full=True),
    Case("disk full, cache", True, ("state/cache is full",), completes=False, is_full=True),
    Case(
        "file gone", True, ("part-2.parquet",), completes=False, damage_after=lambda folder: hide(part(folder)),
        repair=lambda folder: restore(part(folder)),
    ),
    Case(
        "row group damaged", True, ("part-2.parquet",), completes=False,
        damage_before=lambda folder: damage(part(folder)), repair=lambda folder: restore(part(folder)),
    ),
    Case(
        "cache truncated", True, (), completes=True,
        damage_after=lambda folder: truncate(folder / "state" / "cache" / "bucket-001.rank-0.bin"),
    ),
    Case(
        "checkpoint truncated", False, ("fit-", "cannot be read"), completes=True,
        damage_after=lambda folder: truncate(newest(folder)),
    ),
]  # fmt: skip


def run_case(case: Case, n_rows: int, n_steps: int, expected: float) -> list[str]:
    """Run a case; returns a list of problems."""
    setup = Setup(is_stream=case.is_stream, options=("--rows", str(n_rows), "--steps", str(n_steps)))
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        folder = Path(name)
        write_data(folder / "data", n_rows)
        if case.damage_before is not None:
            case.damage_before(folder)
        if case.damage_after is not None:
            start(setup, folder, False, lambda _seconds: len(list((folder / "state").glob("fit-*.checkpoint"))) == 2)
            case.damage_after(folder)
        with full_disk() if case.is_full else nullcontext():
            code, output = start(setup, folder, resume=case.damage_after is not None)
        problems = [f"no {words!r} in its output: {output[-2000:]}" for words in case.words if words not in output]
        if (code == 0) != case.completes:
            problems.append(f"ended with code {code}: {output[-2000:]}")
        if not case.completes:
            if case.repair is not None:
                case.repair(folder)
            code, output = start(setup, folder, resume=True)
            if code:
                return [*problems, f"did not continue: {output[-2000:]}"]
        if not (folder / "model.nbm").exists():
            return [*problems, "left no model"]
        loss = measure(folder / "model.nbm")
        return [*problems, *([f"loss {loss:.6f}"] if abs(loss / expected - 1) > TOLERANCE else [])]


@contextmanager
def full_disk() -> Iterator[None]:
    """Child processes started in this block cannot write files larger than `FULL` bytes."""
    import resource

    expected = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL, expected[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, expected)


def find_expected(is_stream: bool, n_rows: int, n_steps: int) -> float:
    """Loss of a fit without a fault."""
    with tempfile.TemporaryDirectory(prefix="fault-") as name:
        folder = Path(name)
        write_data(folder / "data", n_rows)
        setup = Setup(is_stream=is_stream, options=("--rows", str(n_rows), "--steps", str(n_steps)))
        code, output = start(setup, folder, resume=False)
        if code:
            raise RuntimeError(f"a fit failed without a fault: {output[-3000:]}")
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
    expected = {is_stream: find_expected(is_stream, given.rows, given.steps) for is_stream in (False, True)}
    is_ok = True
    for case in CASES:
        if given.cases is None or case.name in given.cases:
            problems = run_case(case, given.rows, given.steps, expected[case.is_stream])
            is_ok &= not problems
            print(f"{case.name:28}{'ok' if not problems else 'FAILED: ' + '; '.join(problems)}", flush=True)
    sys.exit(0 if is_ok else 1)


if __name__ == "__main__":
    main()
