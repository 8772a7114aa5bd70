"""Readability of shapes: turning points that the truth does not have, and variation of shapes on real tables.

    python -m benchmarks run readability --families smooth,jumps --data ca --ebm-pairs

Generated tables: turning points of a main effect along the sorted test rows whose rise and fall exceed 1 % of the
shape's range, beyond those of the true effect, and the root mean square distance from the truth over the root mean
square of the truth. Columns of levels have no order and count in the distance only.

Real tables have a further column of noise. `wiggle` is the total variation of a shape along the sorted test rows over
its range: 1 for a monotone shape. The special codes of HELOC, -7 to -9, count as values. Ranges are in the unit of the
score. EBM has main effects only unless --ebm-pairs is given; the losses of our main effects alone are reported as well.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import baselines
from ..datasets import Dataset, draw_rows, find_missing, load
from ..datasets.real import read_heloc
from ..results.markdown import format_number, print_table
from .measure import score
from .shape_metrics import read_numbers, root_mean_square, spread_columns
from .stability import COLUMNS as CA_COLUMNS

FAMILIES = (
    "smooth", "jumps", "spikes", "tails", "integers", "correlated", "missing", "noisy", "smooth_binary", "jumps_binary",
)  # fmt: skip
MIN_SWING = 0.01  # of the range
NOISE = "noise"
# names of the columns that are reported
REPORTED = {
    "ca": ("MedInc", "HouseAge", "AveOccup", "Latitude"),
    "heloc": ("ExternalRiskEstimate", "AverageMInFile", "NetFractionRevolvingBurden", "PercentTradesNeverDelq"),
    "telco": ("tenure", "MonthlyCharges", "TotalCharges"),
}


@dataclass(frozen=True)
class Learner:
    """A learner with its options and the name of its columns in tables."""

    title: str
    name: str
    options: dict[str, Any]

    def fit(self, data: Dataset, seed: int, quick: bool) -> Any:
        return baselines.get(self.name).fit(data.X, data.y, data.task, seed, quick, **self.options)

    def read_main_effects(self, model: Any, X: Any) -> np.ndarray:
        """(N, D) contributions of the main effects; 0 where a column has no term."""
        found = baselines.get(self.name).contributions(model, X)
        mains = [index for index, term in enumerate(model.term_features_) if len(term) == 1]
        return spread_columns(found[:, mains], [model.term_features_[index] for index in mains], X.shape[1])


def count_turns(curve: np.ndarray) -> int:
    """Number of turning points with a swing above MIN_SWING of the range on both sides.

    >>> count_turns(np.array([0.0, 1.0, 0.5, 2.0])), count_turns(np.array([0.0, 1.0, 0.999, 2.0]))
    (2, 0)
    """
    smallest = MIN_SWING * np.ptp(curve)
    low = high = float(curve[0])
    direction, turns = 0, 0
    for value in map(float, curve):
        low, high = min(low, value), max(high, value)
        if direction <= 0 and value - low > smallest:
            turns += direction < 0
            direction, high = 1, value
        elif direction >= 0 and high - value > smallest:
            turns += direction > 0
            direction, low = -1, value
    return turns


def sort_curve(values: np.ndarray, effect: np.ndarray) -> np.ndarray:
    """The effect along the distinct values of a column, without missing ones."""
    known = ~np.isnan(values)
    _, rows = np.unique(values[known], return_index=True)
    return effect[known][rows]


def measure_wiggle(curve: np.ndarray) -> float:
    """Total variation over range: 1 for a monotone curve, 0 for a constant one.

    >>> measure_wiggle(np.array([0.0, 1.0, 0.5, 2.0])), measure_wiggle(np.zeros(3))
    (1.5, 0.0)
    """
    return float(np.abs(np.diff(curve)).sum() / max(np.ptp(curve), 1e-12))


def measure_family(learner: Learner, data: Dataset, seed: int, quick: bool) -> tuple[float, float]:
    """Mean number of further turning points per ordered column, and the distance from the truth."""
    model = learner.fit(data, seed, quick)
    found, truth = learner.read_main_effects(model, data.test.X), data.truth.effects(data.test.X)
    extra = []
    for column, values in enumerate(read_numbers(data.test.X)):
        if values is not None:
            ours, true = (count_turns(sort_curve(values, effects[:, column])) for effects in (found, truth))
            extra.append(max(0, ours - true))
    gaps = found - found.mean(axis=0) - (truth - truth.mean(axis=0))
    return statistics.fmean(extra), root_mean_square(gaps) / root_mean_square(truth - truth.mean(axis=0))


def study_families(families: Sequence[str], learners: Sequence[Learner], given: argparse.Namespace) -> None:
    seeds = range(given.first_seed, given.first_seed + (1 if given.quick else given.seeds))
    lines = []
    for family in tqdm(families, unit="family"):
        tables = [(seed, load(f"{family}/{given.rows}", given.quick, seed)) for seed in seeds]
        found = [[measure_family(each, data, seed, given.quick) for seed, data in tables] for each in learners]
        means = [[statistics.fmean(values) for values in zip(*each, strict=True)] for each in found]
        lines.append([family, *[f"{turns:.2f}" for turns, _ in means], *[format_number(each) for _, each in means]])
    titles = [learner.title for learner in learners]
    print(f"\nGenerated tables of {given.rows:,} rows, {len(seeds)} of each family:\n")
    header = ["family", *[f"further turns, {title}" for title in titles], *[f"shape error, {t}" for t in titles]]
    print_table(header, lines)


def load_real(key: str, quick: bool, n_rows: int, seed: int) -> tuple[Dataset, list[str]]:
    """A real table with a column of noise, its training and test rows, and the names of its columns."""
    data = load(key, quick)
    frame = read_heloc().X if key == "heloc" and not quick else data.X
    names = list(frame) if hasattr(frame, "columns") else list(CA_COLUMNS) if key == "ca" else []
    names = names or [f"x{column}" for column in range(data.X.shape[1])]
    noise = np.random.default_rng(seed).normal(size=len(data.y))
    X = np.column_stack([data.X, noise]) if isinstance(data.X, np.ndarray) else data.X.assign(**{NOISE: noise})
    return draw_rows(replace(data, X=X), min(n_rows, int(0.8 * len(data.y))), seed), [*names, NOISE]


def describe_real(key: str, learners: Sequence[Learner], given: argparse.Namespace) -> tuple[list, list]:
    """Lines of both tables: wiggle and range of the reported columns, and the loss of all learners."""
    data, names = load_real(key, given.quick, given.real_rows, given.first_seed)
    models = [learner.fit(data, 0, given.quick) for learner in learners]
    found = [learner.read_main_effects(model, data.test.X) for learner, model in zip(learners, models, strict=True)]
    values, lines = read_numbers(data.test.X), []
    for name in (*REPORTED[key], NOISE):
        if name in names:
            column = names.index(name)
            curves = [sort_curve(values[column], effects[:, column]) for effects in found]
            wiggles = [format_number(measure_wiggle(curve)) for curve in curves]
            lines.append([key, name, *wiggles, *[format_number(np.ptp(curve)) for curve in curves]])
    metric = "rmse" if data.task == "regression" else "log_loss"
    losses = [score(model, data.test.X, data.test.y, data.task)[metric] for model in models]
    return lines, [key, f"{len(data.y):,}", metric.replace("_", " "), *[format_number(loss, 4) for loss in losses]]


def study_real(keys: Sequence[str], learners: Sequence[Learner], given: argparse.Namespace) -> None:
    shapes, losses = [], []
    for key in tqdm(keys, unit="table"):
        problem = None if given.quick else find_missing(key)
        if problem:
            print(f"\n{key} is skipped: {problem}")
            continue
        lines, loss = describe_real(key, learners, given)
        shapes += lines
        losses.append(loss)
    titles = [learner.title for learner in learners]
    print("\nReal tables with a column of noise, wiggle and range of shapes:\n")
    print_table(["data", "column", *[f"wiggle, {title}" for title in titles], *[f"range, {t}" for t in titles]], shapes)
    print("\nLoss on the test rows:\n")
    print_table(["data", "rows", "metric", *titles], losses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES), help="with one score, with commas between them")
    parser.add_argument("--data", default=",".join(REPORTED), help=f"real tables, of {', '.join(REPORTED)}")
    parser.add_argument("--rows", type=int, default=3_000, help="number of training rows of generated tables")
    parser.add_argument("--real-rows", type=int, default=8_000, help="training rows, at most 80 %% of a real table")
    parser.add_argument("--seeds", type=int, default=1, help="number of tables of each family")
    parser.add_argument("--first-seed", type=int, default=900)
    parser.add_argument("--ebm-pairs", action="store_true", help="EBM with its pairs, which takes several times longer")
    parser.add_argument("--quick", action="store_true", help="tiny tables, few steps, one seed")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    ours, mains = Learner("ours", "ours", {}), Learner("ours, no pairs", "ours", {"interactions": 0})
    ebm = Learner("EBM", "ebm", {}) if given.ebm_pairs else Learner("EBM, no pairs", "ebm", {"interactions": 0})
    others = [ebm] if baselines.is_installed("ebm") else []
    if not others:
        print("No comparison with EBM: the package interpret-core is not installed (extra 'benchmarks').")
    study_families(given.families.split(","), [ours, *others], given)
    study_real(given.data.split(","), [ours, mains, *others], given)


if __name__ == "__main__":
    main()
