"""Prediction: rows per second, latency of one row, and first row of a fresh process; ours, EBM's and the network's.

    python -m benchmarks run speed.predict
    python -m benchmarks run speed.predict.pairs
    python -m benchmarks run speed.predict.mixed

Rows are California Housing resampled with noise, float64. Models are fitted briefly; their tables are as large as after
a full fit. The network is the paper's, evaluated on every value of fewer rows, with its fastest number of threads. It
has main effects only and is omitted with `--pairs`, which gives both models the same pairs. `--mixed` predicts from a
pandas frame: half of the columns are numbers, the others are text with one level per decile. The network is omitted.
"""

from __future__ import annotations

import argparse
import pickle
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from itertools import combinations, count, islice
from pathlib import Path
from typing import Any

import numpy as np

from .. import baselines, datasets
from ..results.markdown import format_number, format_verdict, print_table
from .resources import median_seconds

FIRST_CALL = """
import sys, time
start = time.perf_counter()
import pickle
with open(sys.argv[1], "rb") as file:
    model, row = pickle.load(file)
model.predict(row)
print(time.perf_counter() - start, "torch" in sys.modules)
"""


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    n_rows: int = 1_000_000
    n_network_rows: int = 20_000
    n_calls: int = 2_000
    n_repeats: int = 5


QUICK = Sizes(2_000, 200, 20, 1)


@dataclass(frozen=True)
class Figure:
    """One row of the table: a value, and a ratio with its target."""

    name: str
    value: float
    against: str = "–"
    ratio: float | None = None
    target: float | None = None


def make_rows(data: datasets.Dataset, n_rows: int) -> np.ndarray:
    """Resampled rows with noise of a hundredth of each column's deviation."""
    rng = np.random.default_rng(0)
    drawn = data.X[rng.integers(len(data.X), size=n_rows)]
    return drawn + 0.01 * data.X.std(axis=0) * rng.normal(size=drawn.shape)


def make_frame(rows: np.ndarray, like: np.ndarray) -> Any:
    """A pandas frame: the first half of the columns as numbers, the others as text, by deciles of `like`."""
    import pandas as pd

    n_columns = rows.shape[1]
    frame = {f"number {column}": rows[:, column] for column in range(n_columns // 2)}
    levels = np.array([f"level {decile}" for decile in range(10)], dtype=object)
    for column in range(n_columns // 2, n_columns):
        edges = np.quantile(like[:, column], np.arange(1, 10) / 10)
        frame[f"text {column}"] = levels[np.searchsorted(edges, rows[:, column])]
    return pd.DataFrame(frame)


def fit_models(X: Any, y: np.ndarray, n_pairs: int) -> dict[str, Any]:
    """Short fits: prediction speed does not depend on the length of the fit."""
    from neuralbasis import NeuralBasisRegressor

    pairs = list(islice(combinations(range(X.shape[1]), 2), n_pairs)) or 0
    # not staged: pairs stay in the model even if a short fit gains nothing from them
    ours = NeuralBasisRegressor(interactions=pairs, network__staged=False, max_steps=50).fit(X, y)
    models = {"ours": ours, "ours, model_": ours.model_}
    if baselines.is_installed("ebm"):
        from interpret.glassbox import ExplainableBoostingRegressor

        ebm = ExplainableBoostingRegressor(interactions=pairs, outer_bags=1, max_rounds=50, n_jobs=1)
        models["EBM"] = ebm.fit(X, y)
    return models


def measure_network(rows: np.ndarray, n_repeats: int) -> float:
    """Rows per second of the paper's network on every value, a thousand rows at a time."""
    import torch

    from ..baselines.network_training import thread_counts
    from ..baselines.networks import PaperNetwork

    net, inputs = PaperNetwork(rows.shape[1], 1).eval(), torch.from_numpy(rows.astype(np.float32))

    def predict() -> None:
        with torch.no_grad():
            for part in inputs.split(1000):
                net(part)

    seconds = []
    for n_threads in thread_counts():
        torch.set_num_threads(n_threads)
        seconds.append(median_seconds(predict, n_repeats))
    return len(rows) / min(seconds)


def measure_throughput(models: dict[str, Any], rows: Any, sizes: Sizes, is_plain: bool) -> dict[str, float]:
    """Rows per second of one call; the network only for an array without pairs."""
    found = {}
    for name, model in models.items():
        found[name] = len(rows) / median_seconds(lambda model=model: model.predict(rows), sizes.n_repeats)
    if is_plain:
        found["network"] = measure_network(rows[: sizes.n_network_rows], min(3, sizes.n_repeats))
    return found


def measure_latency(models: dict[str, Any], rows: Any, sizes: Sizes) -> dict[str, float]:
    """Median seconds of a warm call with one row, a different one each time."""
    found = {}
    for name, model in models.items():
        order = count()

        def call(model=model, order=order):
            at = next(order) % len(rows)
            return model.predict(rows[at : at + 1])

        found[name] = median_seconds(call, sizes.n_calls)
    return found


def measure_first_call(models: dict[str, Any], row: Any, sizes: Sizes) -> dict[str, tuple[float, bool]]:
    """Seconds from import to the first prediction in a fresh process, without interpreter start."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for name, model in models.items():
            path = Path(folder) / "model.pickle"
            path.write_bytes(pickle.dumps((model, row)))
            command = [sys.executable, "-c", FIRST_CALL, str(path)]
            runs = [
                subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True) for _ in range(sizes.n_repeats)
            ]
            answers = [run.stdout.split() for run in runs]
            found[name] = statistics.median(float(seconds) for seconds, _ in answers), answers[0][1] == "True"
    return found


def compare_throughput(found: dict[str, float], is_plain: bool) -> list[Figure]:
    targets = {"EBM": 2.0 if is_plain else 1.0, "network": 200.0}
    figures = [Figure(name, found[name]) for name in ("ours", "ours, model_")]
    for name in ("EBM", "network"):
        if name in found:
            figures.append(Figure(name, found[name], "ours ÷ this", found["ours"] / found[name], targets[name]))
    return figures


def compare_latency(found: dict[str, float], is_plain: bool) -> list[Figure]:
    figures = []
    for name in ("ours", "ours, model_"):
        ratio = found["EBM"] / found[name] if "EBM" in found else None
        figures.append(Figure(name, found[name] * 1e6, "EBM ÷ this", ratio, 5.0 if is_plain else None))
    return figures + [Figure("EBM", found["EBM"] * 1e6)] * ("EBM" in found)


def print_figures(title: str, figures: list[Figure]) -> None:
    rows = []
    for f in figures:
        met = None if f.ratio is None or f.target is None else f.ratio >= f.target
        target = "–" if f.target is None else f"≥ {f.target:g} ×"
        rows.append([f.name, format_number(f.value), f.against, format_number(f.ratio), target, format_verdict(met)])
    print_table([title, "value", "ratio", "times", "target", "verdict"], rows)
    print()


def print_first_calls(found: dict[str, tuple[float, bool]]) -> None:
    rows = [[name, format_number(seconds), "yes" if torch else "no"] for name, (seconds, torch) in found.items()]
    print_table(["fresh process: import, unpickle, predict one row", "seconds", "imports torch"], rows)


def load_data(quick: bool) -> datasets.Dataset:
    """California Housing, or a generated table of the same shape if it is not available."""
    if quick or datasets.find_missing("ca"):
        return datasets.stand_in("ca", n_rows=None if quick else 20_640)
    return datasets.load("ca")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--pairs",
        type=int,
        default=0,
        choices=range(29),
        metavar="N",
        help="pairs of columns in the models, 28 at most",
    )
    parser.add_argument("--mixed", action="store_true", help="a pandas frame of numbers and text instead of an array")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, few calls")
    given = parser.parse_args()
    sizes = QUICK if given.quick else Sizes()
    data = load_data(given.quick)
    table, rows = data.X, make_rows(data, sizes.n_rows)
    if given.mixed:
        table, rows = make_frame(table, data.X), make_frame(rows, data.X)
    models = fit_models(table, data.y, given.pairs)
    also = [f"{given.pairs} pairs"] * bool(given.pairs) + ["a pandas frame, half of the columns text"] * given.mixed
    also = "; ".join(also) or f"the network on {sizes.n_network_rows:,} rows"
    is_plain = not given.pairs and not given.mixed
    print(f"{data.name}: {len(rows):,} rows × {rows.shape[1]} columns; {also}\n")
    if "EBM" not in models:
        print("EBM: not run, the package interpret-core is not installed\n")
    throughput, latency = measure_throughput(models, rows, sizes, is_plain), measure_latency(models, rows, sizes)
    print_figures("rows a second", compare_throughput(throughput, is_plain))
    print_figures("one row, microseconds", compare_latency(latency, is_plain))
    fresh = {"ours, model_": models["ours, model_"]} if given.quick else models
    print_first_calls(measure_first_call(fresh, rows[:1], sizes))


if __name__ == "__main__":
    main()
