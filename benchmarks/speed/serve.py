"""Serving one model: file size, first row of a fresh process, one row of a warm process, and concurrent threads.

    python -m benchmarks run speed.serve --seconds 30

The model has all pairs of California Housing and is fitted briefly; its file and tables are as large as after a full
fit. The fresh process can import neither torch nor scikit-learn. Threads predict rows in turn and compare every result
with the one of a single thread.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from ..harness import ROOT
from ..results.markdown import format_number, format_verdict, print_table
from .predict import fit_models, load_data, make_rows
from .resources import median_seconds, time_once

N_PAIRS = 28
FRESH = """
import json, sys, time
start = time.perf_counter()

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("torch", "sklearn"):
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Refuse())
from benchmarks.speed.resources import PeakMemory
with PeakMemory() as memory:
    import neuralbasis
    model = neuralbasis.load(sys.argv[1])
    model.predict(json.loads(sys.argv[2]))
    seconds = time.perf_counter() - start
print(seconds, memory.mb)
"""


@dataclass(frozen=True)
class Sizes:
    """How much to measure."""

    n_rows: int = 2_000
    n_calls: int = 5_000
    n_processes: int = 5
    n_threads: int = 8


QUICK = Sizes(200, 20, 1, 2)


@dataclass(frozen=True)
class ServingFigure:
    """One row of the table; `most` and `least` are targets."""

    name: str
    value: float
    most: float | None = None
    least: float | None = None

    def to_row(self) -> list[str]:
        target = "–" if self.most is None else f"≤ {self.most:g}"
        met = None if self.most is None else self.value <= self.most
        if self.least is not None:
            target, met = f"≥ {self.least:g}", self.value >= self.least
        return [self.name, format_number(self.value), target, format_verdict(met)]


def measure_fresh(path: Path, row: dict[str, float], n_processes: int) -> list[ServingFigure]:
    """Medians over fresh processes that load the file and predict one row, after one to warm up."""
    command = [sys.executable, "-c", FRESH, str(path), json.dumps(row)]

    def start() -> str:
        return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout

    start()
    runs = [time_once(start) for _ in range(n_processes)]
    inside = [[float(number) for number in text.split()] for _, text in runs]
    return [
        ServingFigure("fresh process, seconds in all", statistics.median(seconds for seconds, _ in runs), most=1),
        ServingFigure("… of these: import, load, predict one row", statistics.median(seconds for seconds, _ in inside)),
        ServingFigure("… peak MB", statistics.median(peak for _, peak in inside), most=150),
    ]


def measure_rows(
    models: dict[str, Any], rows: np.ndarray, dicts: list[dict[str, float]], n_calls: int
) -> list[ServingFigure]:
    """Median microseconds of a warm call with one row, a different one each time."""
    model, wide = models["ours, model_"], np.repeat(rows, 2, axis=1)
    calls: dict[str, Callable[[int], Any]] = {
        "NumPy": lambda at: model.predict(rows[at : at + 1]),
        "NumPy, strided": lambda at: model.predict(wide[at : at + 1, ::2]),
        "dict": lambda at: model.predict(dicts[at]),
        "list of ten dicts": lambda at: model.predict(dicts[at : at + 10]),
    }
    if "EBM" in models:
        calls["EBM, NumPy"] = lambda at: models["EBM"].predict(rows[at : at + 1])
    found = {}
    for name, call in calls.items():
        order = count()
        found[name] = 1e6 * median_seconds(lambda call=call, order=order: call(next(order) % (len(rows) - 10)), n_calls)
    targets = {"NumPy": 30.0}
    figures = [
        ServingFigure(f"one row, {name}: microseconds", value, targets.get(name)) for name, value in found.items()
    ]
    if "EBM" in models:
        figures.append(ServingFigure("EBM ÷ ours, one row, NumPy", found["EBM, NumPy"] / found["NumPy"], least=10))
    return figures


def count_calls(model: Any, dicts: list[dict[str, float]], n_threads: int, seconds: float) -> tuple[float, int]:
    """Calls per second of all threads, and the number of wrong results."""
    expected = [model.predict(row).tolist() for row in dicts]
    ready = threading.Barrier(n_threads)

    def work(first: int) -> tuple[int, int]:
        n_calls = n_wrong = 0
        ready.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            at = (first + n_calls) % len(dicts)
            n_wrong += model.predict(dicts[at]).tolist() != expected[at]
            n_calls += 1
        return n_calls, n_wrong

    with ThreadPoolExecutor(n_threads) as pool:
        results = list(pool.map(work, range(0, 37 * n_threads, 37)))
    return sum(n_calls for n_calls, _ in results) / seconds, sum(n_wrong for _, n_wrong in results)


def measure_threads(model: Any, dicts: list[dict[str, float]], n_threads: int, seconds: float) -> list[ServingFigure]:
    alone, _ = count_calls(model, dicts, 1, seconds)
    together, n_wrong = count_calls(model, dicts, n_threads, seconds)
    return [
        ServingFigure("one thread, dicts: calls a second", alone),
        ServingFigure(f"{n_threads} threads, dicts: calls a second", together),
        ServingFigure(f"{n_threads} threads ÷ one", together / alone, least=1),
        ServingFigure(f"{n_threads} threads: wrong answers", n_wrong, most=0),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30.0, help="duration of the calls by one thread, and by all")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, few calls, a second of threads")
    given = parser.parse_args()
    sizes, seconds = (QUICK, min(given.seconds, 1.0)) if given.quick else (Sizes(), given.seconds)
    data = load_data(given.quick)
    models = fit_models(data.X, data.y, N_PAIRS)
    model, rows = models["ours, model_"], make_rows(data, sizes.n_rows)
    dicts = [dict(zip(model.encoder.names, row, strict=True)) for row in rows.tolist()]
    print(f"{data.name}: {rows.shape[1]} columns, {N_PAIRS} pairs\n")
    if "EBM" not in models:
        print("EBM: not run, the package interpret-core is not installed\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.nbm"
        model.save(path)
        figures = [ServingFigure("the file, MB", path.stat().st_size / 1e6, most=1)]
        figures += measure_fresh(path, dicts[0], sizes.n_processes)
    figures += measure_rows(models, rows, dicts, sizes.n_calls)
    figures += measure_threads(model, dicts, sizes.n_threads, seconds)
    print_table(["serving", "value", "target", "verdict"], [figure.to_row() for figure in figures])


if __name__ == "__main__":
    main()
