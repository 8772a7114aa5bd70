"""HTML report of a model: seconds to write it, its size, seconds until a browser shows it and until it responds.

    python -m benchmarks run speed.html_report

Models are fitted briefly on generated rows; their tables are as large as after a full fit. "open" is the time from
navigation to the second frame after loading in headless Chromium; "respond" is one change of a value in the what-if
panel. Both are medians and empty without a browser.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.browser import Browser, browser_version, find_browser

from ..results.markdown import format_number, format_verdict, print_table
from .resources import median_seconds


@dataclass(frozen=True)
class Case:
    """Columns and pairs of a model, and its targets."""

    n_columns: int
    n_pairs: int
    max_megabytes: float
    max_write_seconds: float | None = None
    max_open_seconds: float | None = None


MODELS = {
    "30 terms": Case(20, 10, 6.0, max_write_seconds=2.0),
    "2,000 terms": Case(1950, 50, 15.0, max_open_seconds=2.0),
}
QUICK = {"3 terms": Case(2, 1, 6.0)}
CHANGE = """(() => {
  const slider = document.querySelector(".field [type=range]"), start = performance.now();
  for (let i = 0; i < 20; i++) {
    slider.value = i % 2 ? slider.min : slider.max;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
  return (performance.now() - start) / 20000;
})()"""


def fit_model(n_columns: int, n_pairs: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A fitted model, its rows and targets."""
    from neuralbasis import NeuralBasisRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, n_columns))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, :10]).sum(axis=1)
    pairs = list(islice(combinations(range(n_columns), 2), n_pairs))
    return NeuralBasisRegressor(interactions=pairs, network__staged=False, max_steps=20, outer_bags=8).fit(X, y), X, y


def open_page(path: Path, n_repeats: int) -> tuple[float, float]:
    """Median seconds to open, and to respond to a change."""
    opened, responded = [], []
    with Browser() as browser:
        for _ in range(n_repeats):
            page = browser.open(path)
            page.settle()
            opened.append(page.run("performance.now()") / 1000)
            responded.append(page.run(CHANGE))
    return statistics.median(opened), statistics.median(responded)


def measure(name: str, case: Case, n_repeats: int) -> list[str]:
    from neuralbasis import report

    model, X, y = fit_model(case.n_columns, case.n_pairs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.html")
        writing = median_seconds(lambda: report.write(path, model, X, y), n_repeats)
        megabytes = path.stat().st_size / 1e6
        opening, responding = open_page(path, n_repeats) if find_browser() else (None, None)
    is_met = megabytes <= case.max_megabytes
    is_met &= case.max_write_seconds is None or writing <= case.max_write_seconds
    is_met &= case.max_open_seconds is None or opening is None or opening <= case.max_open_seconds
    return [
        name,
        format_number(writing),
        format_number(megabytes),
        format_number(opening),
        format_number(responding),
        format_verdict(is_met),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model, once")
    given = parser.parse_args()
    models, n_repeats = (QUICK, 1) if given.quick else (MODELS, 5)
    rows = [measure(name, case, n_repeats) for name, case in models.items()]
    print_table(["report of a model with", "write, s", "size, MB", "open, s", "respond, s", "targets"], rows)
    print(f"\nbrowser: {browser_version()}")


if __name__ == "__main__":
    main()
