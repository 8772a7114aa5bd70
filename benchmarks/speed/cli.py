"""The command line on a large CSV file: rows per second and peak memory of `neuralbasis predict`.

    python -m benchmarks run speed.cli
    python -m benchmarks run speed.cli --gigabytes 0.2

The file has the eight columns of California Housing, resampled with noise, and an id column that is kept. It is written
block by block. For comparison, child processes read the first part of the file with pandas, with and without EBM's
predictions.
"""

from __future__ import annotations

import argparse
import os
import pickle
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from .. import baselines, datasets
from ..results.markdown import format_number, format_verdict, print_table
from .predict import load_data

BLOCK_ROWS = 100_000
PART_ROWS = 1_000_000
MIN_ROWS_A_SECOND, MAX_MB = 300_000, 500

# Each child process prints its own peak memory.
PEAK = """
with open("/proc/self/status") as status:
    print(next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM")))
"""
OURS = f"import sys\nfrom neuralbasis.cli import main\nmain(sys.argv[1:], standalone_mode=False)\n{PEAK}"
PANDAS = f"""
import pickle, sys
import pandas as pd
data, out, n_rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
model = pickle.load(open(sys.argv[4], "rb")) if len(sys.argv) > 4 else None
with open(out, "w") as file:
    for block in pd.read_csv(data, chunksize={BLOCK_ROWS}, nrows=n_rows):
        if model is not None:
            found = model.predict(block.drop(columns="id").to_numpy())
            pd.DataFrame({{"id": block["id"], "prediction": found}}).to_csv(file, index=False, header=False)
{PEAK}
"""


@dataclass(frozen=True)
class Run:
    """Rows, seconds and peak memory of one command."""

    name: str
    n_rows: int
    seconds: float
    peak_mb: float

    @property
    def speed(self) -> float:
        return self.n_rows / self.seconds


def write_rows(path: Path, data: datasets.Dataset, n_bytes: float) -> int:
    """Write resampled rows with noise until the file has `n_bytes`; returns the number of rows."""
    import pyarrow as pa
    import pyarrow.csv

    rng, n_rows = np.random.default_rng(0), 0
    noise = 0.01 * data.X.std(axis=0)
    names = [f"x{k}" for k in range(data.X.shape[1])]
    with open(path, "wb") as file:
        while file.tell() < n_bytes:
            rows = data.X[rng.integers(len(data.X), size=min(BLOCK_ROWS, int(n_bytes) // 50))]
            rows = (rows + noise * rng.normal(size=rows.shape)).round(6)
            block = {"id": np.arange(n_rows, n_rows + len(rows)), **dict(zip(names, rows.T, strict=True))}
            pa.csv.write_csv(pa.table(block), file, pa.csv.WriteOptions(include_header=n_rows == 0))
            n_rows += len(rows)
    return n_rows


def fit_ours(data: datasets.Dataset, path: Path) -> None:
    """A short fit with ten pairs: prediction speed does not depend on the length of the fit."""
    from neuralbasis import NeuralBasisRegressor

    names = [f"x{k}" for k in range(data.X.shape[1])]
    pairs = [(0, k) for k in range(1, len(names))] + [(1, 2), (1, 3), (2, 3)]
    model = NeuralBasisRegressor(feature_names=names, interactions=pairs, network__staged=False, max_steps=50)
    model.fit(data.X, data.y).save(path)


def fit_ebm(data: datasets.Dataset, path: Path) -> None:
    from interpret.glassbox import ExplainableBoostingRegressor

    ebm = ExplainableBoostingRegressor(interactions=10, outer_bags=1, max_rounds=50, n_jobs=1).fit(data.X, data.y)
    path.write_bytes(pickle.dumps(ebm))


def time_child(name: str, n_rows: int, code: str, *arguments: object) -> Run:
    command = [sys.executable, "-c", code, *map(str, arguments)]
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Run(name, n_rows, time.perf_counter() - start, float(done.stdout))


def measure(data: datasets.Dataset, folder: Path, n_bytes: float) -> list[Run]:
    table, model, out = folder / "rows.csv", folder / "model.nbm", folder / "out.csv"
    n_rows = write_rows(table, data, n_bytes)
    fit_ours(data, model)
    some, ours = folder / "some.csv", ["predict", model, table, "--keep", "id", "-o", out]
    with open(table) as file:
        some.write_text("".join(file.readlines(1 << 20)))
    time_child("warm", 1, OURS, "predict", model, some, "-o", out)  # compiles the loops and caches them
    runs = [time_child("neuralbasis predict", n_rows, OURS, *ours)]
    part = min(n_rows, PART_ROWS)
    if baselines.is_installed("ebm"):
        fit_ebm(data, folder / "ebm.pickle")
        runs.append(time_child("pandas and EBM", part, PANDAS, table, out, part, folder / "ebm.pickle"))
    runs.append(time_child("pandas reads", part, PANDAS, table, out, part))
    return runs


def print_runs(runs: list[Run]) -> None:
    rows = []
    for run in runs:
        is_ours = run is runs[0]
        met = run.speed >= MIN_ROWS_A_SECOND and run.peak_mb <= MAX_MB
        figures = [f"{run.n_rows:,}", format_number(run.speed), format_number(run.peak_mb)]
        rows.append([run.name, *figures, format_verdict(met if is_ours else None)])
    print_table(["command", "rows", "rows a second", "peak MB", f"≥ {MIN_ROWS_A_SECOND:,} and ≤ {MAX_MB} MB"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gigabytes", type=float, default=2.0, help="size of the CSV file")
    parser.add_argument("--quick", action="store_true", help="a file of 200 kB")
    given = parser.parse_args()
    n_bytes = 2e5 if given.quick else given.gigabytes * 1e9
    with tempfile.TemporaryDirectory() as folder:
        runs = measure(load_data(given.quick), Path(folder), n_bytes)
        size = os.path.getsize(Path(folder) / "rows.csv")
    print(f"a CSV file of {size / 1e9:.3g} GB\n")
    print_runs(runs)


if __name__ == "__main__":
    main()
