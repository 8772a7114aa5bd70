"""The table of the README: neuralbasis and EBM at their defaults, on the same rows and in one run.

    python -m benchmarks run readme_table           measures what is missing, then writes the table into README.md
    python -m benchmarks.accuracy.readme_table --again --sets diabetes,heloc

All four learners of a data set run one after another on one machine, and a set is measured again as a whole if the
source of neuralbasis has changed: seconds are then comparable. A test compares the README with these records and with
the present source.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from ..harness import RESULTS
from ..results.jsonl import append_line
from ..results.provenance import is_same_source, read_versions
from .laboratory import LEARNERS, warm_up
from .measure import Cell, Record, measure, read_records

RECORDS = RESULTS / "readme.jsonl"
SPLIT = 300
SETS = {
    "diabetes": "Diabetes, RMSE",
    "abalone": "Abalone, RMSE",
    "telco": "Telco churn, log loss",
    "heloc": "FICO HELOC, log loss",
    "ca": "California Housing, RMSE",
}  # smallest first; rows are split 80 / 20 by seed SPLIT
ORDER = ("ours mains", "ours", "EBM mains", "EBM")


def list_cells(key: str) -> dict[str, Cell]:
    found = {name: LEARNERS[name] for name in ORDER}
    return {name: Cell(key, learner, SPLIT, options=options) for name, (learner, options) in found.items()}


def find_records(records: Sequence[Record], key: str) -> dict[str, Record]:
    """The newest record of each learner on a set; only complete sets of the present source."""
    found: dict[str, Record] = {}
    for name, cell in list_cells(key).items():
        same = [record for record in records if record.cell == cell]
        if same and is_same_source(same[-1].versions["neuralbasis"], read_versions()["neuralbasis"]):
            found[name] = same[-1]
    return found if len(found) == len(ORDER) else {}


def write_table(records: Sequence[Record]) -> str:
    """Rows of the table: the test losses, and the seconds of fits with pairs."""
    lines = [
        "| test loss | neuralbasis | with pairs | EBM | with pairs | fit with pairs, ours / EBM |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for key, title in SETS.items():
        found = find_records(records, key)
        if not found:
            lines.append(f"| {title} | not measured with this version | | | | |")
            continue
        losses = [found[name].metrics.get("rmse", found[name].metrics.get("log_loss", 0.0)) for name in ORDER]
        seconds = f"{found['ours'].fit_seconds:.1f} s / {found['EBM'].fit_seconds:.0f} s"
        lines.append(f"| {title} | {' | '.join(f'{loss:.4g}' for loss in losses)} | {seconds} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", help=f"with commas, of {', '.join(SETS)}; all by default")
    parser.add_argument("--again", action="store_true", help="measure sets that are measured already")
    given = parser.parse_args()
    warm_up()
    for key in given.sets.split(",") if given.sets else SETS:
        if given.again or not find_records(read_records(RECORDS), key):
            for name, cell in list_cells(key).items():
                record = measure(cell)
                append_line(RECORDS, asdict(record))
                print(f"{key}, {name}: {record.metrics}, {record.fit_seconds:.1f} s", flush=True)
    from ..results.doc_figures import write_documents

    write_documents()
    print(write_table(read_records(RECORDS)))


if __name__ == "__main__":
    main()
