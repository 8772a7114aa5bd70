"""The page of a model: seconds to write it, its size, seconds until a browser shows it and it answers.

    python -m benchmarks run speed.html_report

Models are fitted briefly on generated rows: their tables have the size of a full fit's. "Open" is the time from the
navigation to the second frame after loading, in headless Chromium, median of several; "answer" is one change of a
value in the what-if panel. Without a browser these two stay empty.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from itertools import combinations, islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.browser import Browser, browser_version, find_browser

from ..results.markdown import format_number, format_verdict, print_table
from .resources import median_seconds

# name -> columns, pairs, megabytes and seconds that are requested for: to write, to open
MODELS = {
    "30 terms": (20, 10, 6.0, 2.0, None),
    "2,000 terms": (1950, 50, 15.0, None, 2.0),
}
QUICK = {"3 terms": (2, 1, 6.0, None, None)}
CHANGE = """(() => {
  const slider = document.querySelector(".field [type=range]"), start = performance.now();
  for (let i = 0; i < 20; i++) {
    slider.value = i % 2 ? slider.min : slider.max;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  }
  return (performance.now() - start) / 20000;
})()"""


def fit_model(n_columns: int, n_pairs: int) -> tuple[Any, np.ndarray, np.ndarray]:
    """A fitted model, rows and what came for them."""
    from neuralbasis import NeuralBasisRegressor

    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, n_columns))
    y = X[:, 0] * X[:, 1] + np.sin(X[:, :10]).sum(axis=1)
    pairs = list(islice(combinations(range(n_columns), 2), n_pairs))
    return NeuralBasisRegressor(interactions=pairs, staged=False, max_steps=20, outer_bags=8).fit(X, y), X, y


def open_page(path: Path, n_repeats: int) -> tuple[float, float]:
    """Median seconds to open, and to answer a change."""
    opened, answered = [], []
    with Browser() as browser:
        for _ in range(n_repeats):
            page = browser.open(path)
            page.settle()
            opened.append(page.run("performance.now()") / 1000)
            answered.append(page.run(CHANGE))
    return statistics.median(opened), statistics.median(answered)


def measure(name: str, wishes: tuple[int, int, float, float | None, float | None], n_repeats: int) -> list[str]:
    from neuralbasis import report

    n_columns, n_pairs, most_megabytes, most_writing, most_opening = wishes
    model, X, y = fit_model(n_columns, n_pairs)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.html")
        writing = median_seconds(lambda: report.write(path, model, X, y), n_repeats)
        megabytes = path.stat().st_size / 1e6
        opening, answering = open_page(path, n_repeats) if find_browser() else (None, None)
    is_met = megabytes <= most_megabytes and (most_writing is None or writing <= most_writing)
    if most_opening is not None:
        is_met = is_met and (opening is None or opening <= most_opening)
    return [
        name,
        format_number(writing),
        format_number(megabytes),
        format_number(opening),
        format_number(answering),
        format_verdict(is_met),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small model, once")
    given = parser.parse_args()
    models, n_repeats = (QUICK, 1) if given.quick else (MODELS, 5)
    rows = [measure(name, wishes, n_repeats) for name, wishes in models.items()]
    print_table(["page of a model with", "write, s", "size, MB", "open, s", "answer, s", "wishes"], rows)
    print(f"\nbrowser: {browser_version()}")


if __name__ == "__main__":
    main()
