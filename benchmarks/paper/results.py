"""Figures of the paper's cells over seeds, read from the records, or the reason why a cell has none."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import baselines
from ..results.markdown import format_error
from ..results.provenance import hash_files, is_same_source, read_versions
from ..results.source_versions import SourceVersion
from .tables import Cell, Job, Row, find_job, read_data, read_file

Record = Mapping[str, Any]  # a line of paper.jsonl
NOT_RUN = "not run yet"
UNITS = {"": 1, "K": 1e3, "M": 1e6}
NETWORKS = "networks"  # the learner of jobs that count parameters of torch modules
UNTRAINED = ("throughput", "ratios")  # kinds of jobs that need the networks but not their training
FILES = {
    "nam": ("nam", "network_training", "networks"),
    "mlp": ("mlp", "network_training", "networks"),
    "nbm": ("nbm",),
    NETWORKS: ("networks",),
}  # files of this repository that decide the figures of a learner, beside its package
LEARNERS = Path(baselines.__file__).resolve().parent


class Results:
    """Records by job; the latest of each seed counts. Records of quick runs are never looked up."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.done: dict[str, dict[int, Record]] = {}
        self.by_epochs: dict[str, dict[int, dict[int, Record]]] = {}  # job without epochs -> epochs -> seed -> record
        self.failed: dict[str, str] = {}
        self.absent: dict[str, str] = {**read_file("absent")["data"], **read_file("absent")["learner"]}
        for record in records:
            self._add(record)

    def _add(self, record: Record) -> None:
        job = Job(**record["job"])
        if "failed" in record:
            self.failed[job.seedless] = f"{NOT_RUN if 'limit' in record else 'failed'}: {record['failed']}"
            return
        self.done.setdefault(job.seedless, {})[job.seed] = record
        if "epochs" in job.options:
            found = self.by_epochs.setdefault(omit_epochs(job), {})
            found.setdefault(job.options["epochs"], {})[job.seed] = record
        self.failed.pop(job.seedless, None)
        for name in job.needs:
            self.absent.pop(name, None)

    def find(self, cell: Cell) -> list[Record]:
        """Records of all seeds of a cell. If none has all epochs, those with the most epochs count."""
        job = find_job(cell)
        found = self.done.get(job.seedless, {})
        if not found and (shorter := self.by_epochs.get(omit_epochs(job))):
            found = shorter[max(shorter)]
        return [found[seed] for seed in sorted(found)]

    def find_values(self, cell: Cell) -> list[float]:
        return [record["value"] for record in self.find(cell)]

    def explain(self, cell: Cell) -> str:
        """Why a cell has no figures."""
        job = find_job(cell)
        return self.failed.get(job.seedless) or self.find_absent(job) or NOT_RUN

    def find_absent(self, job: Job) -> str | None:
        """Why the recorded runs could not run a job; None if data and package are available."""
        return next((self.absent[name] for name in job.needs if name in self.absent), None)

    def count(self, cells: Sequence[Cell]) -> Counts:
        n_run = sum(bool(self.find(cell)) for cell in cells)
        n_able = sum(bool(self.find(cell)) or self.find_absent(find_job(cell)) is None for cell in cells)
        return Counts(len(cells), n_able, n_run)


@dataclass(frozen=True)
class Counts:
    """Numbers of cells: all, those whose data and package are available, and those with a figure."""

    n_all: int
    n_able: int
    n_run: int


def omit_epochs(job: Job) -> str:
    """What a job has in common with the same job of other seeds and epochs."""
    return replace(job, options={key: value for key, value in job.options.items() if key != "epochs"}).seedless


def is_reduced(cell: Cell, records: Sequence[Record]) -> bool:
    """Whether the records have fewer epochs than the cell."""
    return any(record["job"]["options"].get("epochs") != find_job(cell).options.get("epochs") for record in records)


def describe_epochs(cell: Cell, records: Sequence[Record]) -> str:
    """`all`, or the numbers of epochs of the records and of the table."""
    if not is_reduced(cell, records):
        return "all"
    return f"{records[0]['job']['options']['epochs']:,} of {find_job(cell).options['epochs']:,}"


@lru_cache
def find_version(learner: str, kind: str = "fit") -> str:
    """The present version of what decides a learner's figures: its package, and a hash of files of this repository.

    The version of neuralbasis contains a hash of its source.
    """
    learner = name_source(learner, kind)
    version = read_versions()[name_package(learner)]
    if learner not in FILES:
        return version
    return f"{version}+{hash_files([LEARNERS / f'{name}.py' for name in FILES[learner]])}"


def name_source(learner: str, kind: str) -> str:
    """The key of what decides a figure: untrained networks depend on their module only."""
    return NETWORKS if kind in UNTRAINED and learner in FILES else learner


def name_package(learner: str) -> str:
    return "torch" if learner == NETWORKS else baselines.LIBRARIES[learner]


def is_current(learner: str, kind: str, version: str) -> bool:
    """Whether a figure was measured with the present source, or with the installed release of another package.

    Our learners: the hash of neuralbasis, and of their file here. Networks of torch: the hash of their files. The
    figures of a package that is not installed cannot be compared and count as current.
    """
    source, present = name_source(learner, kind), find_version(learner, kind)
    package = name_package(source)
    if package == "neuralbasis":
        return is_same_source(version, present)
    if source in FILES:
        return version.rpartition("+")[2] == present.rpartition("+")[2]
    return version == present or read_versions()[package] == "absent"


def list_versions(records: Sequence[Record]) -> list[SourceVersion]:
    """The versions that records were measured with."""
    found = []
    for record in records:
        learner, kind, version = record["job"]["learner"], record["job"]["kind"], record["version"]
        package = name_package(learner)
        if version.startswith(record["versions"]["torch"]):
            package = "torch"
        found.append(SourceVersion(f"{package} {version}", is_current(learner, kind, version)))
    return found


def format_minutes(minutes: float) -> str:
    """
    >>> format_minutes(0.3), format_minutes(20), format_minutes(900)
    ('1 min', '20 min', '15 h')
    """
    return f"{max(round(minutes), 1)} min" if minutes < 100 else f"{round(minutes / 60)} h"


def format_published(row: Row, data: str) -> str:
    """Published mean ± deviation; a dash where the paper has none."""
    figures = row.published.get(data)
    if not figures:
        return "–"
    places = read_data()[data].places
    return " ± ".join(f"{figure:.{places}f}" for figure in figures)


def format_values(values: Sequence[float], data: str) -> str:
    """Mean; of several seeds also ± standard error and their number."""
    return format_error(values, read_data()[data].places)


def is_at_least_as_good(values: Sequence[float], row: Row, data: str) -> bool | None:
    """Whether the mean reaches the published one; None if they cannot be compared."""
    if not values or not row.published.get(data) or read_data()[data].differs:
        return None
    places = read_data()[data].places
    ours, theirs = round(statistics.fmean(values), places), row.published[data][0]
    return ours <= theirs if read_data()[data].lower_is_better else ours >= theirs


def read_count(text: str) -> float:
    """
    >>> read_count("54K"), read_count("0.5M"), read_count("99")
    (54000.0, 500000.0, 99.0)
    """
    number, unit = re.fullmatch(r"([\d.]+)([KM]?)", text).groups()
    return float(number) * UNITS[unit]


def match_count(count: float, text: str) -> str:
    """Whether a published count equals this one after rounding or truncation.

    >>> match_count(64_661, "65K"), match_count(243_784, "243K"), match_count(70_000, "54K")
    ('equal', 'equal, cut', 'differs')
    """
    number, unit = re.fullmatch(r"([\d.]+)([KM]?)", text).groups()
    places = len(number.partition(".")[2])
    step = UNITS[unit] / 10**places
    published = round(float(number) * 10**places)
    if round(count / step) == published:
        return "equal"
    return "equal, cut" if int(count / step) == published else "differs"


def evaluate_curve(row: Row, n_columns: int) -> float:
    """The ratio as the paper's figure draws it."""
    n_terms = n_columns * (n_columns - 1) if "²" in row.model else n_columns
    return row.curve["top"] / (row.curve["network"] / n_terms + row.curve["term"])
