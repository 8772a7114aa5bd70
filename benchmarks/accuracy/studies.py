"""Studies: learners on the splits of data sets, as a table of figures with published figures and targets.

A script defines its studies and calls `run_studies`; `make_parser` adds the options they share. Every split is 80/20
and stratified by class, every fit runs in a child process.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .. import baselines, datasets
from ..results.markdown import format_mean, format_number, format_verdict, print_table
from .measure import CELLS, Cell, Record, find_done, measure
from .targets import Target

PLACES = {"fit seconds": 2, "peak MB": 0, "predict rows/s": 0, "terms": 0}  # decimals; metrics have 4
FIELDS = {
    "fit seconds": "fit_seconds", "peak MB": "peak_mb", "predict rows/s": "predict_rows_per_second", "terms": "n_terms",
}  # fmt: skip
Results = Mapping[str, list[Record]]  # learner -> its records on one data set


@dataclass(frozen=True)
class Line:
    """One row of the table: a metric, our target, and published figures in the order of their columns."""

    metric: str
    target: Target | None = None
    published: Sequence[float | None] = ()


@dataclass(frozen=True)
class Study:
    """One data set: which splits, which model seeds, which lines.

    options : parameters of learners that have terms
    looked_up : learners that do not run and are shown only if a record exists
    """

    name: str
    splits: Sequence[int]
    seeds: Sequence[int]
    lines: Sequence[Line]
    options: Mapping[str, Any] = field(default_factory=dict)
    looked_up: Sequence[str] = ()

    def list_cells(self, key: str, learners: Sequence[str], quick: bool) -> list[Cell]:
        splits, seeds = (self.splits[:1], self.seeds[:1]) if quick else (self.splits, self.seeds)
        return [
            Cell(key, name, split, seed, quick, dict(self.options) if name in baselines.WITH_TERMS else {})
            for name in learners for split in splits for seed in seeds
        ]  # fmt: skip


PREDICT = Line("predict rows/s")  # the last row of every study


def make_parser(text: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--out", type=Path, help=f"file of records; results/{CELLS.name} by default")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, one split, nothing recorded")
    return parser


def add_choices(parser: argparse.ArgumentParser, keys: Sequence[str]) -> None:
    """Options that choose among data sets and learners."""
    parser.add_argument("--only", type=names_from(keys), default=list(keys), help="data sets, with commas")
    parser.add_argument("--learners", type=names_from(baselines.LIBRARIES), default=["ours", "ebm"])


def names_from(known: Collection[str]) -> Callable[[str], list[str]]:
    """A parser of comma-separated names."""

    def pick(name: str) -> str:
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return name

    return lambda text: [pick(name.strip()) for name in text.split(",")]


def run_studies(studies: Mapping[str, Study], given: argparse.Namespace, published: Sequence[str]) -> None:
    """Measure missing cells and print the table; `published` names the columns of published figures."""
    given.out = given.out or (None if given.quick else CELLS)
    chosen = choose_studies(studies, given)
    if given.quick:
        print("Quick run on generated tables: the figures are meaningless.\n")
    found = {key: run_study(key, study, given) for key, study in chosen.items()}
    if "ebm" in given.learners and not baselines.is_installed("ebm"):
        print("EBM: not run, the package interpret-core is not installed\n")
    titles = [{"ebm": "EBM"}.get(name, name) for name in given.learners]
    header = ["set", "metric", *titles, "ours / EBM", *published, "target", "verdict"]
    rows = [
        write_line(chosen[key], line, results, len(published))
        for key, results in found.items() for line in (*chosen[key].lines, PREDICT)
    ]  # fmt: skip
    print_table(header, rows)


def choose_studies(studies: Mapping[str, Study], given: argparse.Namespace) -> dict[str, Study]:
    """The chosen data sets that are available; prints the reason for the others."""
    chosen = {}
    for key in given.only:
        study = move_splits(studies[key], given.first_split) if given.first_split else studies[key]
        problem = None if given.quick else datasets.find_missing(key)
        if problem:
            print(f"{study.name}: not run, {problem}\n")
        else:
            chosen[key] = study
    return chosen


def move_splits(study: Study, first: int) -> Study:
    """The same study on as many other splits as it has fits."""
    return replace(study, splits=range(first, first + len(study.splits) * len(study.seeds)), seeds=(0,))


def run_study(key: str, study: Study, given: argparse.Namespace) -> Results:
    """Measure missing cells; learners that must not run are only looked up."""
    results: dict[str, list[Record]] = {name: [] for name in given.learners}
    cells = study.list_cells(key, given.learners, given.quick)
    ours_to_do = any(cell.learner == "ours" and find_done(cell, given.out) is None for cell in cells)
    if ours_to_do and not given.quick:
        measure(Cell(key, "ours", quick=True))  # compiles the loops and caches them on disk
    for cell in (bar := tqdm(cells, desc=study.name, unit="fit")):
        bar.set_postfix_str(cell.learner)
        if baselines.is_installed(cell.learner) and cell.learner not in study.looked_up:
            results[cell.learner].append(measure(cell, given.out))
        elif (done := find_done(cell, given.out)) is not None:
            results[cell.learner].append(done)
    return results


def read_values(records: Sequence[Record], metric: str) -> list[float]:
    """The metric of every record; None values are dropped."""
    if metric in FIELDS:
        values = [getattr(record, FIELDS[metric]) for record in records]
    else:
        values = [record.metrics[metric] for record in records]
    return [value for value in values if value is not None]


def write_line(study: Study, line: Line, results: Results, n_published: int) -> list[str]:
    values = {name: read_values(records, line.metric) for name, records in results.items()}
    means = {name: statistics.fmean(found) if found else None for name, found in values.items()}
    ours, ebm = means.get("ours"), means.get("ebm")
    ratio = ours / ebm if ours is not None and ebm else None
    met = line.target.check(ours, ebm) if line.target else None
    published = [*line.published, *[None] * n_published][:n_published]
    return [
        study.name,
        line.metric.replace("_", " "),
        *[format_mean(found, PLACES.get(line.metric, 4)) for found in values.values()],
        format_number(ratio),
        *[format_number(figure, 4) for figure in published],
        line.target.text if line.target else "–",
        format_verdict(met),
    ]
