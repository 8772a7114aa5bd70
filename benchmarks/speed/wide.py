"""A very wide dense table at all defaults: seconds, memory, recovery of planted columns, and test error.

    python -m benchmarks run speed.wide                        # 900 rows × 860,000 columns, 3 GB
    python -m benchmarks run speed.wide --rows 500 --columns 10000

Standard normal float32 columns, 20 of them with effects of several shapes and sizes; a fifth of the target's variance
is noise. The lasso gets the 2,000 columns with the largest correlation; its penalty is chosen on a fifth of the rows
that do not take part in this selection. Errors are on fresh rows, as shares of the target's variance; 0.2 is the
minimum.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from neuralbasis import NeuralBasisRegressor

from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, resident_mb, time_once

N_TRUE, N_FRESH, N_SCREENED = 20, 500, 2000
SMALLEST = 0.6  # smallest effect, relative to the largest
NOISE = 0.5  # deviation, relative to that of the effects
MAX_SECONDS, MAX_MB, MAX_RANK = 20 * 60, 14_000, 100
SHAPES = (
    lambda x: x,
    lambda x: 1.4 * np.sin(2 * x),
    lambda x: (x**2 - 1) / 1.4,
    np.sign,
    lambda x: 1.15 * np.tanh(2 * x),
    lambda x: 1.65 * np.abs(x) - 1.3,
    lambda x: np.where(x > 1, 2.0, -0.4),
)


@dataclass(frozen=True, eq=False)
class Wide:
    """Training rows, fresh rows, and the columns with effects."""

    X: np.ndarray
    y: np.ndarray
    fresh_X: np.ndarray
    fresh_y: np.ndarray
    true: np.ndarray


def make_wide(n_rows: int, n_columns: int, n_fresh: int, seed: int, smallest: float = SMALLEST) -> Wide:
    """Draw columns in blocks; effects have deviations between `smallest` and 1."""
    rng = np.random.default_rng(seed)
    X, fresh = (np.empty((n, n_columns), dtype=np.float32) for n in (n_rows, n_fresh))
    for first in range(0, n_columns, 10_000):
        width = min(10_000, n_columns - first)
        for part in (X, fresh):
            part[:, first : first + width] = rng.standard_normal((len(part), width), dtype=np.float32)
    true = np.sort(rng.choice(n_columns, N_TRUE, replace=False))
    sizes = rng.permutation(np.linspace(smallest, 1.0, N_TRUE))
    score = np.zeros(n_rows + n_fresh)
    for index, (column, size) in enumerate(zip(true, sizes, strict=True)):
        values = np.concatenate([X[:, column], fresh[:, column]]).astype(float)
        score += size * SHAPES[index % len(SHAPES)](values)
    y = score / score.std() + NOISE * rng.standard_normal(len(score))
    return Wide(X, y[:n_rows], fresh, y[n_rows:], true)


def share_of_variance(prediction: np.ndarray, y: np.ndarray) -> float:
    return float(((prediction - y) ** 2).mean() / y.var())


def rank_planted(model: NeuralBasisRegressor, true: np.ndarray) -> list[int]:
    """Ranks of the planted columns among the main effects by importance, from 1; columns without a term are omitted."""
    order = np.argsort(-model.term_importances(), kind="stable")
    mains = [model.term_features_[index][0] for index in order if len(model.term_features_[index]) == 1]
    return sorted(mains.index(column) + 1 for column in true if column in mains)


def measure_lasso(data: Wide) -> tuple[float, float]:
    """Seconds and error of a lasso on the columns with the largest correlation."""
    from sklearn.linear_model import Lasso, lasso_path

    def fit() -> tuple[Lasso, np.ndarray]:
        n_own = len(data.y) * 4 // 5
        X, y = data.X[:n_own], data.y[:n_own]
        chosen = screen(X, y)
        alphas, paths, _ = lasso_path(X[:, chosen], y - y.mean(), alphas=50)
        errors = ((data.X[n_own:, chosen] @ paths + y.mean() - data.y[n_own:, None]) ** 2).mean(axis=0)
        chosen = screen(data.X, data.y)
        return Lasso(alphas[errors.argmin()]).fit(data.X[:, chosen], data.y), chosen

    seconds, (lasso, chosen) = time_once(fit)
    return seconds, share_of_variance(lasso.predict(data.fresh_X[:, chosen]), data.fresh_y)


def screen(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The columns with the largest absolute correlation with the target."""
    centred = (y - y.mean()).astype(np.float32)
    blocks = [X[:, first : first + 10_000] for first in range(0, X.shape[1], 10_000)]
    strength = np.concatenate([abs(centred @ block) / block.std(axis=0) for block in blocks])
    return np.sort(np.argsort(-strength, kind="stable")[:N_SCREENED])


def measure(data: Wide) -> list[list[str]]:
    """Rows of the table: name, value, target, verdict."""
    small = data.X[:200, :600]
    NeuralBasisRegressor(max_steps=2).fit(small, data.y[:200])  # loads the compiled loops
    before = resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: NeuralBasisRegressor().fit(data.X, data.y))
    predicting, prediction = time_once(lambda: model.predict(data.fresh_X))
    ranks = rank_planted(model, data.true)
    lasso_seconds, lasso_error = measure_lasso(data)
    n_mains = sum(len(term) == 1 for term in model.term_features_)
    found = sum(rank <= MAX_RANK for rank in ranks)
    return [
        ["fit, seconds", format_number(seconds), f"≤ {MAX_SECONDS:,}", format_verdict(seconds <= MAX_SECONDS)],
        ["fit, peak MB with the table", format_number(memory.mb), f"≤ {MAX_MB:,}", format_verdict(memory.mb <= MAX_MB)],
        ["MB before the fit: the table and fresh rows", format_number(before), "–", "–"],
        ["main effects", str(n_mains), "–", "–"],
        ["interactions", str(len(model.term_features_) - n_mains), "–", "–"],
        [f"planted columns among the first {MAX_RANK}", str(found), f"{N_TRUE}", format_verdict(found == N_TRUE)],
        ["rank of the last of them", str(max(ranks, default=0)), "–", "–"],
        [f"predict {len(data.fresh_y):,} rows, seconds", format_number(predicting), "–", "–"],
        ["error on fresh rows", f"{share_of_variance(prediction, data.fresh_y):.3f}", "–", "–"],
        [f"error of a lasso ({lasso_seconds:,.0f} s)", f"{lasso_error:.3f}", "–", "–"],
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=900)
    parser.add_argument("--columns", type=int, default=860_000)
    parser.add_argument("--fresh", type=int, default=N_FRESH, help="rows to test on")
    parser.add_argument("--smallest", type=float, default=SMALLEST, help="smallest effect, the largest being 1")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="a small table")
    given = parser.parse_args()
    if given.quick:
        given.rows, given.columns = 300, 1_000
    print(f"{given.rows:,} rows × {given.columns:,} columns, effects from {given.smallest:g}, seed {given.seed}\n")
    data = make_wide(given.rows, given.columns, given.fresh, given.seed, given.smallest)
    print_table(["wide table", "value", "target", "verdict"], measure(data))


if __name__ == "__main__":
    main()
