"""What the lines of `paper.jsonl` say of a cell: its figures over the seeds, or why there are none."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from .table import write_mean
from .tables import Cell, Job, Row, find_job, read_data

Line = Mapping[str, Any]
NO_DATA, NO_PACKAGE, NO_TIME = "the data set is not here", "the package is not here", "no time yet"
UNITS = {"": 1, "K": 1e3, "M": 1e6}


class Results:
    """Lines by job: the latest of each seed; those of quick runs are never asked for."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.done: dict[str, dict[int, Line]] = {}
        self.failed: dict[str, str] = {}
        self.absent: dict[str, str] = {}
        for line in lines:
            self._add(line)

    def _add(self, line: Line) -> None:
        if "absent" in line:
            self.absent[line["absent"]] = line["reason"]
            return
        job = Job(**line["job"])
        if "failed" in line:
            self.failed[job.seedless] = f"{NO_TIME if 'limit' in line else 'failed'}: {line['failed']}"
            return
        self.done.setdefault(job.seedless, {})[job.seed] = line
        self.failed.pop(job.seedless, None)
        for name in job.needs:  # they have come
            self.absent.pop(name, None)

    def find(self, cell: Cell) -> list[Line]:
        """Lines of all seeds of a cell."""
        found = self.done.get(find_job(cell).seedless, {})
        return [found[seed] for seed in sorted(found)]

    def find_values(self, cell: Cell) -> list[float]:
        return [line["value"] for line in self.find(cell)]

    def explain(self, cell: Cell) -> str:
        """Why a cell has no figures."""
        job = find_job(cell)
        if job.seedless in self.failed:
            return self.failed[job.seedless]
        return next((self.absent[name] for name in job.needs if name in self.absent), NO_TIME)

    def mark(self, cell: Cell) -> str:
        """The same in a word or two."""
        marks = {NO_DATA: "no data", NO_PACKAGE: "no package", NO_TIME: "not run"}
        return marks.get(self.explain(cell).partition(":")[0], "failed")


def write_minutes(minutes: float) -> str:
    """
    >>> write_minutes(0.3), write_minutes(20), write_minutes(900)
    ('1 min', '20 min', '15 h')
    """
    return f"{max(round(minutes), 1)} min" if minutes < 100 else f"{round(minutes / 60)} h"


def write_published(row: Row, data: str) -> str:
    """Mean ± deviation as the paper has them; a dash where it has none."""
    figures = row.published.get(data)
    if not figures:
        return "–"
    places = read_data()[data].places
    return " ± ".join(f"{figure:.{places}f}" for figure in figures)


def write_values(values: Sequence[float], data: str) -> str:
    """Mean ± deviation, and of how many seeds."""
    text = write_mean(values, read_data()[data].places)
    return f"{text} ({len(values)})" if values else text


def is_at_least_as_good(values: Sequence[float], row: Row, data: str) -> bool | None:
    """Is the mean at the published one or better? None where there is nothing to compare."""
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
    """How a published count was made from this one: rounded, cut, or not at all.

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


def draw_curve(row: Row, n_columns: int) -> float:
    """The ratio as the paper's figure draws it."""
    n_terms = n_columns * (n_columns - 1) if "²" in row.model else n_columns
    return row.curve["top"] / (row.curve["network"] / n_terms + row.curve["term"])
