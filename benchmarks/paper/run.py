"""Run cells of the paper's tables, each in a child process, and record their figures.

    python -m benchmarks run paper.comparison --data ca_housing --model NBM --variant paper --seed 0
    python -m benchmarks run paper --budget 2h

Without options all cells are run, in the order of their seed and priority. With a budget, a cell starts only if it
should end in time and take at most a third of the budget, by what similar cells took before. A cell that is done or has
failed is not run again as long as the version is the same: the source for our learners, the package for others
(`--any-version` accepts every version, `--again` always runs). A cell that ran out of time is tried again with a limit
that is half as long again. A killed run can be continued. `--list` shows the plan.

The 100 models of each row of shape_functions are run in pieces of a few models. The report states how many were run.
`--epochs` shortens cells that would take hours; the report states the epochs beside their figures.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

from .. import baselines
from ..datasets.paper import find_missing
from ..harness import (
    RESULTS,
    ChildError,
    ChildTimeoutError,
    format_seconds,
    hide_folders,
    read_option,
    read_seconds,
    run_child,
)
from ..results.jsonl import append_line, read_lines
from ..results.provenance import describe_origin, read_versions
from .results import NETWORKS, find_version, is_current
from .tables import TABLES, Cell, Job, find_job, read_data, read_file, read_model, read_table

RECORDS = RESULTS / "paper.jsonl"
MAX_SHARE = 1 / 3  # of the budget, for one cell
MIN_LIMIT, LIMIT_FACTOR = 120.0, 4.0  # time limit of a cell: seconds at least, multiple of its estimate
QUICK_SECONDS = 10.0

Line = dict[str, Any]


def list_cells(given: argparse.Namespace) -> list[Cell]:
    """The cells that the options select, in the order of work."""
    options = None if given.set is None else dict(given.set)
    cells = [
        cell for table in given.tables or TABLES for cell in read_table(table).list_cells(given.quick)
        if (not given.data or cell.data in given.data)
        and (not given.model or cell.model in given.model)
        and (not given.variant or cell.variant in given.variant)
        and (not given.seed or cell.seed in given.seed)
        and (options is None or cell.options == options)
    ]  # fmt: skip
    if given.epochs is not None:
        cells = [limit_epochs(cell, given.epochs) for cell in cells]
    return sorted(cells, key=lambda cell: (cell.seed, -cell.value, cell.minutes))


def limit_epochs(cell: Cell, epochs: int) -> Cell:
    """The cell with fewer epochs; the report states them."""
    full = find_job(cell).options.get("epochs")
    if full is None:
        raise ValueError(f"--epochs is for cells that are trained for a number of epochs, not for {cell.title}")
    if epochs >= full:
        return cell
    return replace(cell, epochs=epochs, minutes=cell.minutes * epochs / full)


def find_absent(cells: Sequence[Cell]) -> dict[str, str]:
    """Data sets and learners that are not available, with the reason."""
    jobs = [find_job(cell) for cell in cells]
    absent = {}
    for data in dict.fromkeys(job.data for job in jobs if job.reads_data and not job.quick):
        if problem := find_missing(data):
            absent[data] = problem
    for learner in dict.fromkeys(job.learner for job in jobs):
        if learner != NETWORKS and not baselines.is_installed(learner):
            absent[learner] = f"the package {baselines.LIBRARIES[learner]} is not installed"
    return absent


@dataclass
class History:
    """Earlier records: which jobs are done, and how long they took."""

    lines: list[Line] = field(default_factory=list)
    any_version: bool = False

    def __post_init__(self) -> None:
        self.by_job: dict[str, list[Line]] = {}
        for line in self.lines:
            self._index(line)

    def add(self, line: Line) -> None:
        self.lines.append(line)
        self._index(line)

    def _index(self, line: Line) -> None:
        if "job" in line:
            job = Job(**line["job"])
            self.by_job.setdefault(job.key, []).append(line)
            self.by_job.setdefault(f"any seed {job.seedless}", []).append(line)

    def find_done(self, job: Job) -> Line | None:
        """The latest record of this job, failed or not, with the present version."""
        same = self.by_job.get(job.key, [])
        if not self.any_version:
            same = [line for line in same if is_current(job.learner, job.kind, line["version"])]
        return same[-1] if same else None

    def estimate(self, cell: Cell, job: Job) -> float:
        """Seconds: the median of other seeds, or the table's estimate times the error of earlier estimates."""
        before = self.by_job.get(f"any seed {job.seedless}", [])
        late = [line["limit"] * 1.5 for line in before if "limit" in line]
        if took := [line["seconds"] for line in before if "failed" not in line]:
            return float(median(took))
        if late:
            return float(max(late))
        if job.quick:
            return QUICK_SECONDS
        return cell.minutes * 60 * self.find_pace(job)

    def find_pace(self, job: Job) -> float:
        """Median ratio of actual to estimated time of the learner's jobs of this kind, or of all learners' jobs."""
        done = [line for line in self.lines if "minutes" in line and "failed" not in line and not line["job"]["quick"]]
        alike = [line for line in done if line["job"]["kind"] == job.kind]
        own = [line for line in alike if line["job"]["learner"] == job.learner] or alike
        ratios = [line["seconds"] / (60 * line["minutes"]) for line in own]
        return min(max(median(ratios), 0.1), 10.0) if ratios else 1.0


@dataclass
class Budget:
    """Seconds that a run may take; None is unlimited."""

    seconds: float | None
    start: float = field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        return float("inf") if self.seconds is None else self.seconds - (time.monotonic() - self.start)

    @property
    def largest(self) -> float:
        return float("inf") if self.seconds is None else self.seconds * MAX_SHARE

    def find_limit(self, estimate: float) -> float | None:
        if self.seconds is None:
            return None
        return max(min(self.left, max(MIN_LIMIT, LIMIT_FACTOR * estimate)), 1.0)


def is_finished(done: Line | None, limit: float | None) -> bool:
    """Whether a job needs no run; after a timeout it does if the limit is now at least half as long again."""
    if done is None:
        return False
    return "limit" not in done or (limit is not None and limit < 1.5 * done["limit"])


def run_cells(cells: Sequence[Cell], out: Path | None, history: History, budget: Budget, again: bool) -> Counter[str]:
    """Run the cells that are not done and fit into the budget; returns counts of outcomes."""
    counts: Counter[str] = Counter()
    for number, cell in enumerate(cells, start=1):
        job = find_job(cell)
        estimate = history.estimate(cell, job)
        limit = budget.find_limit(estimate)
        if not again and is_finished(history.find_done(job), limit):
            counts["done before"] += 1
            continue
        if estimate > min(budget.left, budget.largest):
            counts["did not fit into the budget"] += 1
            continue
        left = "" if budget.seconds is None else f"; {format_seconds(budget.left)} left"
        log(f"[{number} of {len(cells)}] {cell.title}: about {format_seconds(estimate)}{left}")
        line = run_cell(cell, job, limit)
        history.add(line)
        if out is not None:
            append_line(out, line)
        log("    " + write_outcome(line))
        counts["failed" if "failed" in line else "run"] += 1
    return counts


def run_cell(cell: Cell, job: Job, limit: float | None) -> Line:
    """The record of a cell, measured in a child process."""
    place = {name: value for name, value in asdict(cell).items() if name not in ("value", "minutes", "quick")}
    for cached in (read_versions, find_version):  # the child process reads the source as it is now
        cached.cache_clear()
    version, origin, start = find_version(job.learner, job.kind), describe_origin(), time.monotonic()
    fields: Line = {}
    try:
        fields = json.loads(run_child("benchmarks.paper.jobs", json.dumps(asdict(job)), limit))
    except ChildTimeoutError as error:
        fields = {"failed": error.reason, "limit": limit}
    except ChildError as error:
        fields = {"failed": hide_folders(error.reason)}
    seconds = time.monotonic() - start
    return {
        "cell": place, "job": asdict(job), "version": version, **fields, "seconds": seconds, "minutes": cell.minutes,
        **origin,
    }  # fmt: skip


def write_outcome(line: Mapping[str, Any]) -> str:
    took = f"{line['seconds']:.0f} s"
    if "failed" in line:
        return f"failed after {took}: {line['failed']}"
    return f"{line['metric']} {line['value']:.4f}, {took}" if "metric" in line else took


def log(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def split_absent(cells: Sequence[Cell], absent: Mapping[str, str]) -> tuple[list[Cell], int]:
    """Cells that can run, and the number of the others."""
    able = [cell for cell in cells if not absent.keys() & set(find_job(cell).needs)]
    return able, len(cells) - len(able)


def show_plan(cells: Sequence[Cell], history: History, write: Callable[[str], None] = print) -> None:
    """One line per cell: its estimated time, or "done" or "failed"."""
    for cell in cells:
        job = find_job(cell)
        done, estimate = history.find_done(job), format_seconds(history.estimate(cell, job))
        state = estimate if done is None or "limit" in done else "failed" if "failed" in done else "done"
        write(f"{state:>12}  {cell.command.removesuffix(' --again')}")


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = list(read_file("models"))
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"of {', '.join(TABLES)}; all if not given")
    parser.add_argument("--data", nargs="+", choices=[*read_data(), "any"], metavar="NAME", help="data sets")
    known = f"of {', '.join(models)}; NB2M is NB²M"
    parser.add_argument("--model", nargs="+", type=read_model, choices=models, metavar="NAME", help=known)
    parser.add_argument(
        "--variant", nargs="+", metavar="NAME", help="paper, grid, default, …: see paper/tables/models.toml"
    )
    parser.add_argument("--seed", nargs="+", type=int, metavar="N")
    parser.add_argument("--set", nargs="+", type=read_option, metavar="NAME=VALUE", help="options of a row, n_bases=5")
    parser.add_argument("--budget", type=read_seconds, metavar="TIME", help="duration such as 90s, 20m or 2h")
    parser.add_argument(
        "--epochs", type=int, metavar="N", help="fewer epochs than the table has; the report states them"
    )
    parser.add_argument("--again", action="store_true", help="also run cells that are done")
    parser.add_argument("--any-version", action="store_true", help="accept records of any version")
    parser.add_argument("--list", action="store_true", help="show the plan with estimated times")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, few steps, nothing recorded")
    parser.add_argument("--out", type=Path, help=f"file of records; results/{RECORDS.name} by default")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser()
    given = parser.parse_args(arguments)
    if unknown := sorted(set(given.tables) - set(TABLES)):
        parser.error(f"there is no table {', '.join(unknown)}; tables are {', '.join(TABLES)}")
    out = given.out or (None if given.quick else RECORDS)
    history = History(read_lines(out), given.any_version)
    try:
        cells = list_cells(given)
    except ValueError as error:
        parser.error(str(error))
    if not cells:
        parser.error("no cell matches these options; --list shows all")
    absent = find_absent(cells)
    if given.list:
        show_plan(split_absent(cells, absent)[0], history)
        return
    for name, reason in absent.items():
        log(f"skipped: {name}: {reason}")
    able, n_absent = split_absent(cells, absent)
    counts = run_cells(able, out, history, Budget(given.budget), given.again)
    log(", ".join(f"{count} {name}" for name, count in [*counts.items(), ("skipped", n_absent)] if count))


if __name__ == "__main__":
    main()
