"""Bands of main effects against the truth of generated tables: coverage of pointwise and simultaneous bands of 95 %.

    python -m benchmarks run bands --families smooth,jumps --sizes 300,3000 --seeds 3

Fits the default model, with pairs. Contributions, standard errors and true effects are read at the test rows; each
contribution and each effect is centred on these rows. Columns of the table:

    pointwise      share of rows inside score ± 1.96 · error, mean over the columns
    whole curve    share of main effects with all test rows inside score ± multiplier · error
    99 % of rows   share of main effects with at least 99 % of the test rows inside the simultaneous band
    error / RMSE   mean standard error over the root mean square distance from the truth; 1 is the right scale
    shape error    root mean square distance from the truth over the root mean square of the truth
    pairs          number of pairs in the model; the truth has none
    evidence       share of main effects with a simultaneous band; only these count in the two columns of whole curves

Test rows outside the range of the training rows and on both sides of a jump count as well: a table interpolates between
knots, and no band contains both sides of a jump inside one interval. `±` is the standard error over the seeds.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import baselines
from ..datasets import load
from ..results.markdown import format_number, print_table
from .shape_metrics import root_mean_square, spread_columns

FAMILIES = (
    "smooth", "jumps", "spikes", "tails", "integers", "correlated", "levels", "missing", "noisy", "smooth_binary",
    "jumps_binary", "correlated_binary", "missing_binary",
)  # fmt: skip
QUANTILE = 1.96
HEADER = [
    "family", "rows", "pointwise", "whole curve", "99 % of rows", "error / RMSE", "shape error", "pairs", "evidence",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class MainEffects:
    """Contributions and standard errors (N, D) of test rows; multipliers (D,), NaN without evidence."""

    contributions: np.ndarray
    errors: np.ndarray
    multipliers: np.ndarray


def read_main_effects(model: Any, X: Any) -> MainEffects:
    """The main effects of a fitted estimator with one score; a column without a term is 0 ± 0."""
    shapes = [shape for shape in model.model_.shapes if len(shape.term) == 1]
    terms, n_columns = [shape.term for shape in shapes], X.shape[1]

    def read(tables: Sequence[np.ndarray]) -> np.ndarray:
        own = [replace(shape, scores=table, members=None) for shape, table in zip(shapes, tables, strict=True)]
        found = replace(model.model_, shapes=tuple(own)).contributions(X)[..., 0]
        return spread_columns(found, terms, n_columns)

    multipliers = np.full(n_columns, np.nan)
    for shape in shapes:
        if shape.evidence is not None:
            multipliers[shape.term[0]] = shape.evidence.multipliers[0]
    return MainEffects(read([s.scores for s in shapes]), read([s.spread for s in shapes]), multipliers)


def measure(key: str, seed: int, quick: bool) -> list[float]:
    """The figures of one generated table, in the order of the header."""
    data = load(key, quick, seed)
    model = baselines.get("ours").fit(data.X, data.y, data.task, seed, quick)
    effects = read_main_effects(model, data.test.X)
    truth = data.truth.effects(data.test.X)
    truth = truth - truth.mean(axis=0)
    gaps = effects.contributions - effects.contributions.mean(axis=0) - truth
    known = np.isfinite(effects.multipliers)
    inside = (np.abs(gaps) <= effects.multipliers * effects.errors).mean(axis=0)[known]
    return [
        float((np.abs(gaps) <= QUANTILE * effects.errors).mean()),
        float((inside == 1).mean()) if known.any() else math.nan,
        float((inside >= 0.99).mean()) if known.any() else math.nan,
        float(effects.errors.mean() / root_mean_square(gaps)),
        root_mean_square(gaps) / root_mean_square(truth),
        float(sum(len(term) > 1 for term in model.term_features_)),
        float(known.mean()),
    ]


def describe(family: str, rows: str, found: Sequence[Sequence[float]]) -> list[str]:
    """A line of the table: means over the seeds; seeds without evidence do not count in whole curves."""
    columns = [[value for value in values if math.isfinite(value)] for values in zip(*found, strict=True)]
    means = [statistics.fmean(values) if values else math.nan for values in columns]
    error = statistics.stdev(columns[0]) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    shares = [f"{mean:.2f}" if math.isfinite(mean) else "–" for mean in means]
    others = [shares[1], shares[2], shares[3], format_number(means[4], 2), format_number(means[5], 2), shares[6]]
    return [family, rows, f"{means[0]:.3f} ± {format_number(error, 1)}", *others]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES), help="with one score, with commas between them")
    parser.add_argument("--sizes", default="300,3000", help="numbers of training rows, with commas between them")
    parser.add_argument("--seeds", type=int, default=3, help="number of tables of each family and size")
    parser.add_argument("--first-seed", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="tables of 200 rows, few steps, two seeds")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    seeds = range(given.first_seed, given.first_seed + (2 if given.quick else given.seeds))
    lines = []
    for family in given.families.split(","):
        for rows in given.sizes.split(","):
            key = f"{family}/{rows}"
            found = [measure(key, seed, given.quick) for seed in tqdm(seeds, desc=key, unit="table")]
            lines.append(describe(family, rows, found))
    print(f"Bands of 95 % around main effects, {len(seeds)} tables of each family and size, default model:\n")
    print_table(HEADER, lines)


if __name__ == "__main__":
    main()
