"""Figures of the paper's cells over seeds, read from the records, or the reason why a cell has none."""

from __future__ import annotations

import hashlib
import re
import statistics
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from .. import baselines
from ..results.markdown import format_mean
from ..results.provenance import read_versions
from ..results.source_versions import SourceVersion
from .tables import Cell, Job, Row, find_job, read_data

Record = Mapping[str, Any]  # a line of paper.jsonl
NO_DATA, NO_PACKAGE, NO_TIME = "data set not available", "package not installed", "not run yet"
SHORT = {NO_DATA: "no data", NO_PACKAGE: "no package", NO_TIME: "not run"}
REASONS = {"the data set is not here": NO_DATA, "the package is not here": NO_PACKAGE}  # as older records spell them
UNITS = {"": 1, "K": 1e3, "M": 1e6}
NETWORKS = "networks"  # the learner of jobs that count parameters of torch modules
WRITTEN_HERE = ("nam", "mlp", "nbm", NETWORKS)
LEARNERS = Path(baselines.__file__).resolve().parent


class Results:
    """Records by job; the latest of each seed counts. Records of quick runs are never looked up."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.done: dict[str, dict[int, Record]] = {}
        self.failed: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        for record in records:
            self._add(record)

    def _add(self, record: Record) -> None:
        if "absent" in record:
            self.absent[record["absent"]] = REASONS.get(record["reason"], record["reason"])
            return
        job = Job(**record["job"])
        if "failed" in record:
            self.failed[job.seedless] = f"{NO_TIME if 'limit' in record else 'failed'}: {record['failed']}"
            return
        self.done.setdefault(job.seedless, {})[job.seed] = record
        self.failed.pop(job.seedless, None)
        for name in job.needs:
            self.absent.pop(name, None)

    def find(self, cell: Cell) -> list[Record]:
        """Records of all seeds of a cell."""
        found = self.done.get(find_job(cell).seedless, {})
        return [found[seed] for seed in sorted(found)]

    def find_values(self, cell: Cell) -> list[float]:
        return [record["value"] for record in self.find(cell)]

    def explain(self, cell: Cell) -> str:
        """Why a cell has no figures."""
        job = find_job(cell)
        if job.seedless in self.failed:
            return self.failed[job.seedless]
        return next((self.absent[name] for name in job.needs if name in self.absent), NO_TIME)

    def explain_briefly(self, cell: Cell) -> str:
        return SHORT.get(self.explain(cell).partition(":")[0], "failed")


@lru_cache
def find_version(learner: str) -> str:
    """The present version of a learner's package; for networks of this folder with a hash of their files."""
    version = read_versions()[name_package(learner)]
    if learner not in WRITTEN_HERE:
        return version
    files = [LEARNERS / f"{name}.py" for name in (learner, "network_training", "networks")]
    source = b"".join(path.read_bytes() for path in dict.fromkeys(files) if path.exists())
    return f"{version}+{hashlib.sha256(source).hexdigest()[:8]}"


def name_package(learner: str) -> str:
    return "torch" if learner == NETWORKS else baselines.LIBRARIES[learner]


def list_versions(records: Sequence[Record]) -> list[SourceVersion]:
    """The versions that records were measured with."""
    found = []
    for record in records:
        learner, version = record["job"]["learner"], record["version"]
        found.append(SourceVersion(f"{name_package(learner)} {version}", version == find_version(learner)))
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
    """Mean ± deviation and the number of seeds."""
    text = format_mean(values, read_data()[data].places)
    return f"{text} ({len(values)})" if values else text


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
