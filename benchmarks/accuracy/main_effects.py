"""Main effects beside EBM's main effects and the paper's figures: accuracy, seconds and memory of a fit.

    python -m benchmarks.accuracy.main_effects --only ca,heloc

Every split is 80/20 and stratified by class. Published figures are of the paper's own splits. EBM on CoverType takes
very long and runs only with `--ebm-covertype`; once in the file of cells it is shown without.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from .. import baselines, datasets
from ..measure import CELLS, Cell, Record, find_done, measure
from ..table import judge, print_table, write_mean, write_number
from .targets import Target, at_least, at_least_ebm, at_most, at_most_part_of_ebm

PLACES = {"fit seconds": 2, "peak MB": 0, "predict rows/s": 0}  # decimals; metrics have 4
Results = Mapping[str, list[Record]]  # learner -> its records on one data set


@dataclass(frozen=True)
class Line:
    """One line of the table: a metric, the paper's figures, our target."""

    metric: str
    target: Target | None = None
    paper_nbm: float | None = None
    paper_ebm: float | None = None


@dataclass(frozen=True)
class Study:
    """One data set: which splits, which model seeds, which lines."""

    name: str
    splits: Sequence[int]
    seeds: Sequence[int]
    lines: Sequence[Line]


PREDICT = Line("predict rows/s")  # closes every study
STUDIES = {
    "ca": Study("CA Housing", (0,), (0, 1, 2), (
        Line("rmse", at_most(0.5480), 0.5638, 0.5586), Line("fit seconds", at_most_part_of_ebm(4)), Line("peak MB"),
    )),
    "covertype": Study("CoverType", (0,), (0,), (
        Line("accuracy", at_least(0.740), 0.7369, 0.7392), Line("fit seconds", at_most(240)),
        Line("peak MB", at_most(2500)),
    )),
    "heloc": Study("FICO HELOC", range(5), (0,), (
        Line("auroc", at_least_ebm(), 0.8048, 0.7985), Line("log_loss"), Line("fit seconds"), Line("peak MB"),
    )),
    "fraud": Study("Credit fraud", (0,), (0,), (
        Line("auroc", at_least_ebm(), 0.9829), Line("average_precision", at_least_ebm()), Line("fit seconds"),
        Line("peak MB"),
    )),
    "cancer": Study("Breast cancer", range(5), (0,), (
        Line("auroc", at_least_ebm(0.002)), Line("log_loss"), Line("fit seconds", at_most(3)), Line("peak MB"),
    )),
}  # fmt: skip


def list_cells(key: str, study: Study, learners: Sequence[str], quick: bool) -> list[Cell]:
    splits, seeds = (study.splits[:1], study.seeds[:1]) if quick else (study.splits, study.seeds)
    return [Cell(key, name, split, seed, quick) for name in learners for split in splits for seed in seeds]


def run_study(key: str, study: Study, given: argparse.Namespace) -> Results:
    """Measure what is missing; a learner that is not to run is looked up only."""
    results: dict[str, list[Record]] = {name: [] for name in given.learners}
    cells = list_cells(key, study, given.learners, given.quick)
    ours_to_do = any(cell.learner == "ours" and find_done(cell, given.out) is None for cell in cells)
    if ours_to_do and not given.quick:
        measure(Cell(key, "ours", quick=True))  # leaves the compiled loops on disk, as after a first use
    for cell in (bar := tqdm(cells, desc=study.name, unit="fit")):
        bar.set_postfix_str(cell.learner)
        if may_run(cell, given):
            results[cell.learner].append(measure(cell, given.out))
        elif (done := find_done(cell, given.out)) is not None:
            results[cell.learner].append(done)
    return results


def may_run(cell: Cell, given: argparse.Namespace) -> bool:
    too_long = cell.learner == "ebm" and cell.data == "covertype" and not given.ebm_covertype
    return baselines.is_installed(cell.learner) and not too_long


def read_values(records: Sequence[Record], metric: str) -> list[float]:
    """The metric of every record."""
    fields = {"fit seconds": "fit_seconds", "peak MB": "peak_mb", "predict rows/s": "predict_rows_per_second"}
    if metric in fields:
        return [getattr(record, fields[metric]) for record in records]
    return [record.metrics[metric] for record in records]


def write_line(study: Study, line: Line, results: Results) -> list[str]:
    values = {name: read_values(records, line.metric) for name, records in results.items()}
    means = {name: statistics.fmean(found) if found else None for name, found in values.items()}
    ours, ebm = means.get("ours"), means.get("ebm")
    ratio = ours / ebm if ours is not None and ebm else None
    met = line.target.check(ours, ebm) if line.target else None
    return [
        study.name,
        line.metric.replace("_", " "),
        *[write_mean(found, PLACES.get(line.metric, 4)) for found in values.values()],
        write_number(ratio),
        write_number(line.paper_nbm, 4),
        write_number(line.paper_ebm, 4),
        line.target.text if line.target else "–",
        judge(met),
    ]


def print_results(found: Mapping[str, Results], studies: Mapping[str, Study], learners: Sequence[str]) -> None:
    titles = [{"ebm": "EBM"}.get(name, name) for name in learners]
    header = ["set", "metric", *titles, "ours / EBM", "paper NBM", "paper EBM", "target", "verdict"]
    rows = [write_line(studies[key], line, found[key]) for key in found for line in (*studies[key].lines, PREDICT)]
    print_table(header, rows)


def move_splits(study: Study, first: int) -> Study:
    """The same study on other splits, as many as it has fits: none of them was looked at while defaults were chosen."""
    return replace(study, splits=range(first, first + len(study.splits) * len(study.seeds)), seeds=(0,))


def choose_studies(given: argparse.Namespace) -> dict[str, Study]:
    """The chosen data sets that can be read here; says which cannot."""
    studies = {**STUDIES, "fraud": replace(STUDIES["fraud"], splits=range(given.fraud_splits))}
    if given.first_split:
        studies = {key: move_splits(study, given.first_split) for key, study in studies.items()}
    chosen = {}
    for key in given.only:
        problem = None if given.quick else datasets.find_missing(key)
        if problem:
            print(f"{studies[key].name}: not run, {problem}\n")
        else:
            chosen[key] = studies[key]
    return chosen


def parse_arguments() -> argparse.Namespace:
    def names_from(known):
        return lambda text: [pick(name.strip(), known) for name in text.split(",")]

    def pick(name, known):
        if name not in known:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of {', '.join(known)}")
        return name

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", type=names_from(STUDIES), default=list(STUDIES), help="data sets, with commas")
    parser.add_argument("--learners", type=names_from(baselines.LIBRARIES), default=["ours", "ebm"])
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split; 0: the published ones")
    parser.add_argument("--fraud-splits", type=int, default=1, help="number of splits of credit fraud")
    parser.add_argument("--ebm-covertype", action="store_true", help="also fit EBM on CoverType: very long")
    parser.add_argument(
        "--out", type=Path, help=f"file of cells, JSON lines; {CELLS.name} beside the benchmarks if not given"
    )
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, one split, nothing kept")
    given = parser.parse_args()
    given.out = given.out or (None if given.quick else CELLS)
    return given


def main() -> None:
    given = parse_arguments()
    studies = choose_studies(given)
    if given.quick:
        print("Quick run on generated tables: the figures mean nothing.\n")
    found = {key: run_study(key, study, given) for key, study in studies.items()}
    if not baselines.is_installed("ebm"):
        print("EBM: not run, the package interpret-core is not installed\n")
    print_results(found, studies, given.learners)


if __name__ == "__main__":
    main()
