"""Prediction intervals: coverage and width on test rows, of `predict_interval` and of CV+ around the same model.

    python -m benchmarks run intervals --data diabetes,abalone --splits 5

`predict_interval` reads the residuals of rows that members held out and needs one fit. CV+ (Barber et al., 2021) fits
seven models, each without a seventh of the rows, so it runs on the two small tables only. The low and the high half are
those of the predictions. Widths are in the unit of the target. `±` is the standard error over the splits.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.model_selection import KFold
from tqdm import tqdm

from .. import baselines
from ..datasets import Dataset
from ..results.markdown import format_number, print_table
from ..speed.resources import time_once
from .measure import Cell, split

DATA = ("diabetes", "abalone", "bike", "ca")
REFITTED = ("diabetes", "abalone")
HEADER = ["data", "intervals", "coverage", "low half", "high half", "mean width", "seconds"]


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


def measure_cv_plus(train: Dataset, test: Dataset, coverage: float, quick: bool) -> Interval:
    """CV+: order statistics of the predictions of the folds' models, moved by the residuals of the fold's rows."""

    def fit_folds() -> tuple[np.ndarray, np.ndarray]:
        centres, errors = [], []
        for inner, outer in KFold(7, shuffle=True, random_state=0).split(train.y):
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


def describe(data: str, method: str, found: Sequence[Sequence[float]]) -> list[str]:
    coverage, low, high, width, seconds = zip(*found, strict=True)
    error = statistics.stdev(coverage) / math.sqrt(len(coverage)) if len(coverage) > 1 else math.nan
    shares = [f"{statistics.fmean(values):.3f}" for values in (coverage, low, high)]
    times = [format_number(statistics.fmean(values)) for values in (width, seconds)]
    return [data, method, f"{shares[0]} ± {format_number(error, 2)}", *shares[1:], *times]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=",".join(DATA), help="regression data sets, with commas between them")
    parser.add_argument("--coverage", type=float, default=0.9)
    parser.add_argument("--splits", type=int, default=5, help="number of splits into training and test rows")
    parser.add_argument("--first-split", type=int, default=300, help="seed of the first split")
    parser.add_argument("--quick", action="store_true", help="tiny generated tables, few steps, two splits")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    seeds = range(given.first_split, given.first_split + (2 if given.quick else given.splits))
    lines = []
    for data in given.data.split(","):
        methods = {"held-out rows": measure_held_out} | ({"CV+, 7 folds": measure_cv_plus} if data in REFITTED else {})
        for name, method in methods.items():
            found = []
            for seed in tqdm(seeds, desc=f"{data}, {name}", unit="split"):
                train, test = split(Cell(data, "ours", seed, quick=given.quick))
                found.append(method(train, test, given.coverage, given.quick).measure())
            lines.append(describe(data, name, found))
    print(f"Intervals of {100 * given.coverage:g} % on {len(seeds)} splits of 80 % training and 20 % test rows:\n")
    print_table(HEADER, lines)


if __name__ == "__main__":
    main()
