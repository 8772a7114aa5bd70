"""The test "no effect" on columns without an effect: share of p-values below 5 %, and the power on relevant columns.

    python -m benchmarks run no_effect --families smooth,noisy --seeds 10

Each table is a generated one with ten further columns: five drawn independently, and five that have a correlation of
0.9 with a relevant column and no effect of their own. Columns of levels are copied with 10 % of the rows redrawn. The
model has main effects only. The same columns are tested by an unpenalised model of B-splines and by pyGAM, where
statsmodels and pyGAM are installed: see `spline_tests`. The right share of irrelevant columns is 5 %. `±` is the
standard error over the tables.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import baselines
from ..datasets import load
from ..results.markdown import format_number, print_table
from . import spline_tests
from .shape_metrics import read_numbers

KINDS = ("smooth", "jumps", "correlated", "levels", "noisy", "missing")
FAMILIES = (*KINDS, *[f"{kind}_binary" for kind in KINDS])
LEVEL, CORRELATION, N_ADDED = 0.05, 0.9, 5  # N_ADDED of each kind
N_LEVELS, MISSING_SHARE = 10, 0.2
TESTS = ("ours", *spline_tests.PACKAGES)
HEADER = ["family", *[f"{kind}, {test}" for kind in ("independent", "correlated", "power") for test in TESTS]]


@dataclass(frozen=True, eq=False)
class Extended:
    """A table whose last columns have no effect: `n_relevant` relevant columns, then N_ADDED independent and N_ADDED
    correlated ones."""

    X: Any
    n_relevant: int

    def group(self, p_values: np.ndarray) -> dict[str, np.ndarray]:
        parts = np.split(p_values, [self.n_relevant, self.n_relevant + N_ADDED])
        return dict(zip(("power", "independent", "correlated"), parts, strict=True))


def add_columns(X: Any, rng: np.random.Generator) -> Extended:
    """Columns without effect; every other one has levels, or missing values, if the table has any."""
    columns = read_numbers(X)
    has_levels = any(values is None for values in columns)
    has_missing = any(values is not None and np.isnan(values).any() for values in columns)
    added: list[Any] = [draw_independent(j, len(X), has_levels, has_missing, rng) for j in range(N_ADDED)]
    for source in rng.permutation(len(columns))[:N_ADDED]:
        values = columns[source]
        added.append(copy_levels(X.iloc[:, source], rng) if values is None else draw_correlated(values, rng))
    if isinstance(X, np.ndarray):
        return Extended(np.column_stack([X, *added]), len(columns))
    return Extended(X.assign(**{f"added{j}": values for j, values in enumerate(added)}), len(columns))


def draw_independent(j: int, n_rows: int, has_levels: bool, has_missing: bool, rng: np.random.Generator) -> Any:
    import pandas as pd

    if has_levels and j % 2:
        return pd.Categorical.from_codes(rng.integers(N_LEVELS, size=n_rows), [f"level {k}" for k in range(N_LEVELS)])
    values = rng.normal(size=n_rows)
    return np.where(rng.random(n_rows) < MISSING_SHARE, np.nan, values) if has_missing and j % 2 else values


def draw_correlated(values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A column that has the correlation with a normal one; missing values are drawn first."""
    filled = np.where(np.isnan(values), rng.normal(size=len(values)), values)
    return CORRELATION * filled + math.sqrt(1 - CORRELATION**2) * rng.normal(size=len(values))


def copy_levels(column: Any, rng: np.random.Generator) -> Any:
    """The levels of another column; a part of the rows has the level of a random row."""
    rows = np.arange(len(column))
    drawn = np.where(rng.random(len(rows)) < CORRELATION, rows, rng.permutation(rows))
    return column.array[drawn]


def test_ours(model: Any, n_columns: int) -> np.ndarray:
    """p-values (D,) of a fitted model: 1 for a column without a term, NaN for a term without evidence."""
    p_values = np.ones(n_columns)
    for shape in model.model_.shapes:
        p_values[shape.term[0]] = math.nan if shape.evidence is None else shape.evidence.p_values[0]
    return p_values


def measure(key: str, seed: int, quick: bool) -> dict[str, float]:
    """Share of rejected columns of one table by "kind, test"; NaN without p-values."""
    data = load(key, quick, seed)
    table = add_columns(data.X, np.random.default_rng([seed, 1]))
    n_columns = table.X.shape[1]
    model = baselines.get("ours").fit(table.X, data.y, data.task, seed, quick, interactions=0)
    found = {test: spline_tests.test_columns(test, table.X, data.y, data.task) for test in spline_tests.PACKAGES}
    found["ours"] = test_ours(model, n_columns)
    return {
        f"{kind}, {test}": float(np.mean(part < LEVEL)) if np.isfinite(part).all() else math.nan
        for test, p_values in found.items()
        for kind, part in table.group(p_values).items()
    }


def describe(name: str, found: Sequence[dict[str, float]]) -> list[str]:
    """A line of the table: mean share and its standard error over the tables that have p-values."""
    cells = []
    for column in HEADER[1:]:
        shares = np.array([each[column] for each in found])
        shares = shares[np.isfinite(shares)]
        error = shares.std(ddof=1) / math.sqrt(len(shares)) if len(shares) > 1 else math.nan
        cells.append(f"{shares.mean():.3f} ± {format_number(error, 2)}" if len(shares) else "–")
    return [name, *cells]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--families", default=",".join(FAMILIES), help="with one score, with commas between them")
    parser.add_argument("--rows", type=int, default=1_000, help="number of training rows")
    parser.add_argument("--seeds", type=int, default=10, help="number of tables of each family")
    parser.add_argument("--first-seed", type=int, default=700)
    parser.add_argument("--quick", action="store_true", help="tables of 200 rows, few steps, two seeds")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    for test, reason in spline_tests.MISSING.items():
        print(f"No comparison with {test}: {reason}\n")
    seeds = range(given.first_seed, given.first_seed + (2 if given.quick else given.seeds))
    lines, everything = [], []
    for family in given.families.split(","):
        key = f"{family}/{given.rows}"
        found = [measure(key, seed, given.quick) for seed in tqdm(seeds, desc=key, unit="table")]
        lines.append(describe(family, found))
        everything += found
    print(
        f"Share of p-values below {LEVEL}: {len(seeds)} tables of each family, {given.rows:,} rows, "
        f"{N_ADDED} independent and {N_ADDED} correlated columns without effect in each:\n"
    )
    print_table(HEADER, [*lines, describe("all", everything)])


if __name__ == "__main__":
    main()
