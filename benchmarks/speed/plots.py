"""Seconds to plot a model of 20 columns and 10 pairs and to write the plot as PNG.

    python -m benchmarks run speed.plots

The first plot of a process also imports matplotlib and reads its font; the others are medians.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..results.markdown import format_number, format_verdict, print_table
from .resources import median_seconds, time_once

MAX_SECONDS = 3.0


def fit_model(n_rows: int, n_columns: int, n_pairs: int) -> Any:
    """A short fit: plotting does not depend on the length of the fit."""
    from neuralbasis import NeuralBasisRegressor

    X = np.random.default_rng(0).normal(size=(n_rows, n_columns))
    y = X.sum(axis=1) + X[:, 0] * X[:, 1]
    pairs = [(0, k) for k in range(1, n_pairs + 1)]
    return NeuralBasisRegressor(interactions=pairs, network__staged=False, max_steps=30, outer_bags=8).fit(X, y)


def list_figures(model: Any, folder: Path) -> dict[str, Callable[[], Any]]:
    from neuralbasis import plot

    return {
        "grid: all 30 terms": lambda: plot.grid(model, folder / "grid.png"),
        "shapes: the six strongest": lambda: plot.shapes(model, path=folder / "shapes.png"),
        "importances": lambda: plot.importances(model, path=folder / "importances.png"),
        "waterfall of a row": lambda: plot.waterfall(model, np.zeros((1, 20)), path=folder / "waterfall.png"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=5, help="number of calls for the median")
    parser.add_argument("--quick", action="store_true", help="few rows and one call")
    given = parser.parse_args()
    model = fit_model(200 if given.quick else 10_000, 20, 10)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        figures = list_figures(model, Path(folder))
        first, _ = time_once(figures["grid: all 30 terms"])
        rows.append(["grid, first in a process", format_number(first), format_verdict(first <= MAX_SECONDS)])
        for name, draw in figures.items():
            seconds = time_once(draw)[0] if given.quick else median_seconds(draw, given.calls)
            rows.append([name, format_number(seconds), format_verdict(seconds <= MAX_SECONDS)])
    print_table(["figure, written as PNG", "seconds", f"≤ {MAX_SECONDS:g} s"], rows)


if __name__ == "__main__":
    main()
