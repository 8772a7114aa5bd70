"""Stability of shapes: their standard deviation over models of CA Housing that differ only in their seed.

    python -m benchmarks run stability --models 100 --bags 1 2 4 7

PAPER §4.5: 100 models of main effects, each shape centred; the standard deviation of each shape over the models,
averaged over columns. The paper does not state the points at which shapes are read. Even steps along the axis are
closest to a plot and are judged; distinct values and all training rows are reported as well. The seed also draws the
rows that our members hold out; the paper's models share theirs. The RMSE on test rows shows that stable shapes are not
merely flat. `--together` adds the members of a single model.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tqdm import tqdm

from neuralbasis.explain import Stability, stability

from .. import baselines
from ..datasets import Dataset
from ..harness import read_option
from ..results.markdown import format_number, format_verdict, print_table
from ..speed.resources import time_once
from .measure import Cell, score, split
from .targets import at_most

COLUMNS = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"]
PUBLISHED = {"NAM, paper": 0.9921, "NBM, paper": 0.1987}
TARGET = at_most(PUBLISHED["NBM, paper"])
HEADER = ["", "even steps", "distinct values", "rows", "RMSE", "seconds per fit", f"target {TARGET.text}"]


@dataclass(frozen=True)
class Result:
    """Models of one kind: deviations at even steps, distinct values and rows; RMSE and seconds of their fits."""

    name: str
    even: Stability
    distinct: Stability
    rows: Stability
    rmse: float
    seconds: float

    def to_cells(self) -> list[str]:
        found = [self.even.overall, self.distinct.overall, self.rows.overall, self.rmse, self.seconds]
        return [self.name, *map(format_number, found), format_verdict(TARGET.check(self.even.overall, None))]


def fit_models(train: Dataset, n_members: int, seeds: Sequence[int], given: argparse.Namespace) -> tuple[list, float]:
    """One model per seed, and the median seconds of a fit."""
    options = {"interactions": 0, "feature_names": COLUMNS, **dict(given.set), "outer_bags": n_members}
    learner, models, seconds = baselines.get("ours"), [], []
    for seed in tqdm(seeds, desc=f"{n_members} members", unit="model"):
        time, model = time_once(lambda s=seed: learner.fit(train.X, train.y, train.task, s, given.quick, **options))
        models.append(model)
        seconds.append(time)
    return models, statistics.median(seconds)


def compare(name: str, models: Any, train: Dataset, rmse: float, seconds: float) -> Result:
    """`models` is a list, or a single model with several members."""
    even, distinct = stability(models, weighted=False), stability(models, weighted=False, X=train.X)
    return Result(name, even, distinct, stability(models, X=train.X), rmse, seconds)


def study_bags(train: Dataset, test: Dataset, n_members: int, given: argparse.Namespace) -> Result:
    models, seconds = fit_models(train, n_members, range(given.models), given)
    rmse = statistics.fmean(score(model, test.X, test.y, test.task)["rmse"] for model in models)
    members = "1 member" if n_members == 1 else f"{n_members} members"
    return compare(f"{given.models} models of {members}", models, train, rmse, seconds)


def study_members(train: Dataset, test: Dataset, given: argparse.Namespace) -> Result:
    (model,), seconds = fit_models(train, given.models, [0], given)
    rmse = score(model, test.X, test.y, test.task)["rmse"]
    return compare(f"{given.models} members of one model (RMSE of their mean)", model, train, rmse, seconds)


def print_results(results: Sequence[Result]) -> None:
    blank = ["–"] * (len(HEADER) - 2)
    print_table(HEADER, [
        *[[name, format_number(figure, 4), *blank] for name, figure in PUBLISHED.items()],
        *[result.to_cells() for result in results],
    ])  # fmt: skip
    print("\nBy column, even steps:\n")
    shares = [result.even.by_column for result in results]
    rows = [[name, *[format_number(share[index]) for share in shares]] for index, name in enumerate(COLUMNS)]
    print_table(["column", *[result.name for result in results]], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=100, help="number of models of each kind")
    parser.add_argument(
        "--bags", nargs="+", type=int, default=[1, 2, 4, 7], help="numbers of members, one kind of model each"
    )
    parser.add_argument("--together", action="store_true", help="also the members of one large model")
    parser.add_argument("--set", nargs="+", type=read_option, default=[], metavar="NAME=VALUE", help="parameters")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, few steps, three models")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on a tiny table: the figures are meaningless.\n")
        given.models = min(given.models, 3)
    train, test = split(Cell("ca", "ours", quick=given.quick))
    print(", ".join(f"{name}={value!r}" for name, value in given.set) or "parameters at their defaults", end="\n\n")
    results = [study_bags(train, test, n_members, given) for n_members in given.bags]
    if given.together:
        results.append(study_members(train, test, given))
    print_results(results)


if __name__ == "__main__":
    main()
