"""Profile and cache of a table on disk, compared with Arrow reading it: rows per second.

python -m benchmarks run speed.disk_passes [--rows 2000000] [--columns 28] [--threads 2] [--folder FOLDER]
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from neuralbasis import NeuralBasisClassifier
from neuralbasis.data.files import open_source
from neuralbasis.data.sketches import NumberSketch
from neuralbasis.encoding.disk_cache import make_cache
from neuralbasis.encoding.profile import choose_roles, make_profile

FILE_ROWS = 1_000_000
GROUP_ROWS = 1 << 17


class OneProcess:
    """A process group of one process."""

    rank, size = 0, 1

    def gather(self, value):
        return [value]

    def agree(self, value):
        return value

    def barrier(self):
        pass


def write_table(folder: str | Path, n_rows: int, n_columns: int = 28, seed: int = 0) -> list[Path]:
    """Write a table like Higgs as Parquet files: float32 columns, two classes, main effects only.

    Every file has its own seed: a longer table begins with the rows of a shorter one. Existing files with the right
    number of rows are kept.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, first in enumerate(range(0, n_rows, FILE_ROWS)):
        path, size = folder / f"part-{number:04d}.parquet", min(FILE_ROWS, n_rows - first)
        if not path.exists() or pa.parquet.read_metadata(path).num_rows != size:
            part = path.with_suffix(".part")
            pa.parquet.write_table(make_rows(size, n_columns, [seed, number]), part, row_group_size=GROUP_ROWS)
            part.rename(path)
        paths.append(path)
    return paths


def make_rows(n_rows: int, n_columns: int, seed: list[int]) -> pa.Table:
    rng = np.random.default_rng(seed)
    columns = {f"x{index:02d}": draw_column(rng, n_rows, index) for index in range(n_columns)}
    score = true_score(np.column_stack(list(columns.values())))
    columns["target"] = (rng.random(n_rows) < 1 / (1 + np.exp(-score))).astype(np.int8)
    return pa.table(columns)


def draw_column(rng: np.random.Generator, n_rows: int, index: int) -> np.ndarray:
    """Normal, log-normal and uniform columns in turn; every seventh has three values."""
    if index % 7 == 6:
        return rng.integers(0, 3, n_rows).astype(np.float32)
    normal = rng.standard_normal(n_rows, dtype=np.float32)
    return (normal, np.exp(normal), rng.random(n_rows, dtype=np.float32) * 2 - 1)[index % 3]


def true_score(X: np.ndarray) -> np.ndarray:
    """Sum of one shape per column, with decreasing size."""
    score = np.zeros(len(X))
    for index, x in enumerate(X.T.astype(float)):
        shape = (np.sin(2 * x), np.tanh(3 * (x - 0.5)), 0.5 * np.minimum(x, 2.0) ** 2 - 0.5)[index % 3]
        score += shape / (1 + 0.3 * index)
    return score


def read_files(paths: list[Path]) -> None:
    for path in paths:
        for _ in pa.parquet.ParquetFile(path).iter_batches(GROUP_ROWS):
            pass


class Clock:
    """Wall seconds and processor seconds since the last call of `lap`."""

    def __init__(self):
        self.lap()

    def lap(self) -> tuple[float, float]:
        self.before, before = (time.perf_counter(), time.process_time()), getattr(self, "before", (0.0, 0.0))
        return self.before[0] - before[0], self.before[1] - before[1]


def compare_sketches(n_rows: int = 1_000_000) -> None:
    """Our column sketch against KLL of Apache DataSketches: time, largest rank error, reproducibility."""
    try:
        from datasketches import kll_doubles_sketch
    except ImportError:
        print("datasketches is not installed: sketches are not compared")
        return
    values = np.random.default_rng(0).normal(size=n_rows)
    known = np.sort(values)
    makers = {"ours": NumberSketch, "KLL, k = 4096": lambda: kll_doubles_sketch(4096)}
    for name, make in makers.items():
        begin, found = time.process_time(), []
        for _ in range(2):
            sketch = make()
            for first in range(0, n_rows, GROUP_ROWS):
                getattr(sketch, "add", getattr(sketch, "update", None))(values[first : first + GROUP_ROWS])
            points = sketch.points() if name == "ours" else np.array(sorted(sketch)).T
            found.append(points)
        cost = (time.process_time() - begin) / (2 * n_rows)
        middle = np.cumsum(points[1]) - points[1] / 2
        error = np.abs(np.searchsorted(known, points[0]) - middle).max() / n_rows
        same = all(np.array_equal(one, other) for one, other in zip(*found, strict=True))
        repeats = "repeats exactly" if same else "differs between runs"
        print(f"{name:14s} {1e9 * cost:5.0f} ns a value, rank error ≤ {error:.3%}, {len(middle):,} points, {repeats}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--columns", type=int, default=28)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--buckets", type=int, default=16)
    parser.add_argument("--folder", help="folder of the table; by default a temporary one")
    parser.add_argument("--quick", action="store_true", help="a small table")
    given = parser.parse_args()
    if given.quick:
        given.rows = 20_000
    pa.set_cpu_count(given.threads)
    with tempfile.TemporaryDirectory() as scratch:
        paths = write_table(given.folder or f"{scratch}/table", given.rows, given.columns)
        group, parameters = OneProcess(), NeuralBasisClassifier()
        read_files(paths[:1])
        clock = Clock()
        read_files(paths)
        times = {"Arrow reads": clock.lap()}
        source = open_source([str(path) for path in paths])
        roles = choose_roles(source, "target")
        profile = make_profile(source, roles, True, parameters, group, given.threads)
        times["profile"] = clock.lap()
        make_cache(source, profile, f"{scratch}/cache", given.buckets, 0, group, given.threads)
        times["cache"] = clock.lap()
        size = sum(path.stat().st_size for path in Path(f"{scratch}/cache").iterdir())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{given.rows:,} rows, {given.columns} columns, {given.threads} threads")
    for what, (wall, cpu) in times.items():
        rates = f"{given.rows / wall / 1e6:6.2f} million rows/s, {given.rows / cpu / 1e6:6.2f} a second of one core"
        print(f"{what:12s} {wall:7.2f} s  {rates}")
    print(
        f"cache {size / given.rows:.0f} bytes a row; peak memory {peak:,.0f} MB; rank error {profile.error.max():.4%}"
    )
    compare_sketches(20_000 if given.quick else 1_000_000)


if __name__ == "__main__":
    main()
