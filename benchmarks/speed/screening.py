"""Screening of all pairs: seconds and memory on a wide table, and ours against InterpretML's on a smaller one.

    python -m benchmarks run speed.screening

Generated correlated columns with two planted pairs; both screen the target minus its mean. The wide table is screened
from encoded codes, as in a fit; the comparison starts from raw columns on both sides.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neuralbasis.data.frames import read_columns
from neuralbasis.encoding.axis import Axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.encoding.layout import lay_out
from neuralbasis.kernels import count_threads
from neuralbasis.terms.binning import bin_columns
from neuralbasis.terms.interactions import pick_terms, rank_terms

from .. import baselines
from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, median_seconds, resident_mb, time_once

PLANTED = {(0, 1), (2, 3)}
MAX_SECONDS, MAX_MB = 60.0, 2000.0


@dataclass(frozen=True)
class Sizes:
    """Rows and columns of the wide table and of the compared one, and repetitions."""

    wide: tuple[int, int] = (100_000, 500)
    both: tuple[int, int] = (20_000, 60)
    n_repeats: int = 3


QUICK = Sizes((2000, 24), (600, 8), 1)


def make_table(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns with correlation 0.3, and a target with a product and an exclusive or."""
    rng = np.random.default_rng(0)
    X = np.sqrt(0.3) * rng.standard_normal((n_rows, 1)) + np.sqrt(0.7) * rng.standard_normal((n_rows, n_columns))
    y = X[:, 0] * X[:, 1] + np.sign(X[:, 2] * X[:, 3]) + rng.standard_normal(n_rows)
    return X, y - y.mean()


def place_rows(X: np.ndarray, threads: int) -> tuple[np.ndarray, tuple[Axis, ...]]:
    """Positions (N, D) and the axes of the columns."""
    columns = read_columns(X)
    encoder = Encoder.fit(columns)
    layout = lay_out(encoder.axes, [(feature,) for feature in range(len(encoder.axes))], {})
    return layout.encode(encoder.numbers(columns), threads), encoder.axes


def screen_raw(X: np.ndarray, y: np.ndarray, threads: int) -> np.ndarray:
    positions, axes = place_rows(X, threads)
    return rank_terms(bin_columns(positions, axes, threads=threads), y[:, None], threads=threads)


def measure_wide(sizes: Sizes, threads: int) -> list[list[str]]:
    """Rows of the table: step, seconds or MB, target, verdict."""
    X, y = make_table(*sizes.wide)
    screen_raw(X[:500, :4], y[:500], threads)  # loads the compiled loop
    positions, axes = place_rows(X, threads)
    residuals = y[:, None].astype(np.float32)
    del X
    before, start = resident_mb(), time.process_time()
    with PeakMemory() as memory:
        binning, bins = time_once(lambda: bin_columns(positions, axes, threads=threads))
        ranking, strengths = time_once(lambda: rank_terms(bins, residuals, threads=threads))
    cpu = time.process_time() - start
    picking, (picked, _) = time_once(lambda: pick_terms(bins, residuals, 10, threads=threads))
    seconds, mb = binning + ranking, memory.mb
    found = "yes" if set(picked[:2]) == PLANTED else "no"
    return [
        ["bins", format_number(binning), "–", "–", "–"],
        [f"strengths of {len(strengths):,} pairs", format_number(ranking), "–", "–", "–"],
        ["both, seconds", format_number(seconds), "–", f"≤ {MAX_SECONDS:g}", format_verdict(seconds <= MAX_SECONDS)],
        ["both, seconds of all cores together", format_number(cpu), "–", "–", "–"],
        ["both, peak MB", format_number(mb), format_number(before), f"≤ {MAX_MB:,.0f}", format_verdict(mb <= MAX_MB)],
        [f"strengths, then 10 picked; planted first: {found}", format_number(picking), "–", "–", "–"],
    ]


def time_both(sizes: Sizes, threads: int) -> dict[str, float]:
    """Seconds of each implementation from raw columns."""
    X, y = make_table(*sizes.both)
    implementations: dict[str, Callable] = {
        "ours, 1 thread": lambda: screen_raw(X, y, 1),
        f"ours, {threads} threads": lambda: screen_raw(X, y, threads),
    }
    if baselines.is_installed("ebm"):
        from interpret.utils import measure_interactions

        scores = np.zeros(len(y))
        implementations["interpret.utils.measure_interactions"] = lambda: measure_interactions(
            X, y, init_score=scores, objective="rmse"
        )
    return {name: median_seconds(call, sizes.n_repeats) for name, call in implementations.items()}


def print_both(seconds: dict[str, float]) -> None:
    best = min(value for name, value in seconds.items() if name.startswith("ours"))
    rows = [[name, format_number(value), f"{format_number(value / best)} ×"] for name, value in seconds.items()]
    print_table(["all pairs, from raw columns", "seconds", "÷ our best"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="tiny tables")
    given = parser.parse_args()
    sizes, threads = QUICK if given.quick else Sizes(), count_threads(None)
    print(f"{sizes.wide[0]:,} rows × {sizes.wide[1]} columns, {threads} threads\n")
    print_table(["screening", "value", "MB before", "target", "verdict"], measure_wide(sizes, threads))
    print(f"\n{sizes.both[0]:,} rows × {sizes.both[1]} columns\n")
    print_both(time_both(sizes, threads))
    if not baselines.is_installed("ebm"):
        print("\nmeasure_interactions: not run, the package interpret-core is not installed")


if __name__ == "__main__":
    main()
