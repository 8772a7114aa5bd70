"""One fit in a child process that other benchmarks kill or disturb: a generated table, checkpoints, a model file.

    python -m benchmarks.robustness.fit_process FOLDER [--stream] [--resume] [--rows 20000] [--steps 400]

The table is written once to FOLDER/data (Parquet), checkpoints go to FOLDER/state, the model to FOLDER/model.nbm. Every
process writes its id to FOLDER/pid.<rank>. Under torchrun the processes fit together.
"""

from __future__ import annotations

import argparse
import os
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

N_COLUMNS, N_FILES = 6, 4
EVERY = 0.2  # seconds between checkpoints
MEMORY = 1_200_000  # bytes for rows


def draw_table(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns (N, D), and a target of a sine, a jump, a product and noise."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, N_COLUMNS))
    return X, np.sin(6 * X[:, 0]) + (X[:, 1] > 0.4) + 2 * X[:, 2] * X[:, 3] + rng.normal(0, 0.3, n_rows)


def write_data(folder: Path, n_rows: int) -> None:
    """Write the table as Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    X, y = draw_table(n_rows, 0)
    table = pa.table({**{f"x{d}": X[:, d] for d in range(N_COLUMNS)}, "target": y})
    for number in range(N_FILES):
        first, last = number * n_rows // N_FILES, (number + 1) * n_rows // N_FILES
        pq.write_table(table.slice(first, last - first), folder / f"part-{number}.parquet", row_group_size=2000)


def make_estimator(folder: Path, n_steps: int | None = None):
    from neuralbasis import NeuralBasisRegressor

    return NeuralBasisRegressor(
        interactions=[("x2", "x3")], outer_bags=2, max_steps=n_steps or "auto", n_jobs=1, storage__memory_limit=MEMORY,
        storage__checkpoint_dir=folder / "state", storage__checkpoint_every=EVERY,
    )  # fmt: skip


def small_memory() -> AbstractContextManager[Any]:
    """Count only the memory of rows: a small table then exceeds a small `memory_limit`."""
    from neuralbasis.data import memory

    return patch.multiple(memory, BASE_BYTES=0, MIN_SAMPLE=1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stream", action="store_true", help="fit the files instead of a table in memory")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--steps", type=int)
    given = parser.parse_args()
    rank = os.environ.get("RANK", "0")
    (given.folder / f"pid.{rank}").write_text(str(os.getpid()))
    warnings.filterwarnings("ignore", message="there is no checkpoint")  # killed before the first checkpoint
    if given.stream:
        files = [given.folder / "data" / f"part-{number}.parquet" for number in range(N_FILES)]
        with small_memory():
            fitted = make_estimator(given.folder, given.steps).fit(files, "target", resume=given.resume)
    else:
        X, y = draw_table(given.rows, 0)
        table = {f"x{d}": X[:, d] for d in range(N_COLUMNS)}
        fitted = make_estimator(given.folder, given.steps).fit(table, y, resume=given.resume)
    if rank == "0":
        fitted.save(given.folder / "model.nbm")


if __name__ == "__main__":
    main()
