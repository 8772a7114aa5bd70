"""Fits of several processes, which `test_processes` runs under torchrun.

`python fit_together.py FOLDER`: every process fits the same models and writes their tables to the folder, which also
holds the table that is fitted from files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.distributed.process_group import find_process_group

QUICK = {
    "network__hidden": (16, 16),
    "network__n_bases": 8,
    "network__n_interaction_bases": 8,
    "n_jobs": 1,
    "random_state": 0,
    "outer_bags": 3,
}
FITS = {
    "regression": (NeuralBasisRegressor, {"interactions": 2, "max_steps": 60}),
    "binary": (NeuralBasisClassifier, {"interactions": 0, "max_steps": 60}),
    "classes": (NeuralBasisClassifier, {"interactions": [(0, 1), (2, 4)], "max_steps": 60}),
    "tied": (NeuralBasisClassifier, {"interactions": 1, "max_steps": 60, "network__tied_classes": True}),
    "weak": (NeuralBasisRegressor, {"interactions": "auto", "max_steps": 60}),
    "network__dropout": (
        NeuralBasisClassifier,
        {"interactions": 0, "max_steps": 30, "network__dropout": 0.2, "network__batch_norm": True},
    ),
}


def draw(task: str, n_rows: int = 3000) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Five columns, one of levels, one with missing values; a pair, a jump, and a rare class."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    level = rng.choice(list("abcd"), n_rows)
    score = np.sin(2 * X[:, 0]) + X[:, 0] * X[:, 1] + (X[:, 2] > 0.3) + 0.5 * (level == "c")
    X[rng.random(n_rows) < 0.1, 3] = np.nan
    table = {f"x{i}": X[:, i] for i in range(4)} | {"level": level}
    noisy = score + 0.3 * rng.normal(size=n_rows)
    if task == "regression":
        return table, noisy
    return table, np.array(["low", "mid", "high"])[np.digitize(noisy, [0, 1.5])] if task == "classes" else noisy > 3.2


def draw_weak_pairs(n_rows: int = 400, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Weak products of all pairs of eight columns: few exceed noise, together they are a large part of the target."""
    rng = np.random.default_rng(seed)
    X = rng.choice([-1.0, 1.0], size=(n_rows, 8))
    products = [X[:, i] * X[:, j] for i in range(8) for j in range(i)]
    return X, 0.3 * np.sum(products, axis=0) + X[:, 0] + 1.5 * rng.normal(size=n_rows)


def fit_tables(task: str) -> dict[str, np.ndarray]:
    """Tables of all terms, the intercept, and the quantiles of the residuals."""
    kind, parameters = FITS[task]
    return read_tables(kind(**QUICK, **parameters).fit(*(draw_weak_pairs() if task == "weak" else draw(task))))


def fit_files(folder: Path) -> dict[str, np.ndarray]:
    """Tables of a fit to files, if memory holds a sample of 1,000 rows and a third of the others."""
    with pytest.MonkeyPatch.context() as patch:
        division = SimpleNamespace(n_sample=1000, n_pools=3)  # the same for any number of processes
        patch.setattr("neuralbasis.training.tables.divide_rows", lambda *_given: division)
        patch.setattr("neuralbasis.training.tables.count_rows_in_memory", lambda *_given: 0)
        model = NeuralBasisClassifier(**QUICK, interactions=[("x0", "x1")], max_steps=60)
        return read_tables(model.fit(folder / "table", "target"))


def read_tables(model) -> dict[str, np.ndarray]:
    tables = dict(zip(model.term_names_, model.term_scores_, strict=True)) | {"intercept": np.array(model.intercept_)}
    return tables | {f"residuals {k}": residuals.quantiles for k, residuals in enumerate(model.model_.residuals)}


def write_table(folder: Path) -> None:
    X, y = draw("binary", 5000)
    (folder / "table").mkdir()
    pyarrow.parquet.write_table(pa.table({**X, "target": y}), folder / "table" / "all.parquet", row_group_size=100)


def count_bytes(n_rows: int, n_steps: int) -> tuple[int, int]:
    """Bytes that this process sent in so many steps, and numbers that were exchanged: cells and intercepts."""
    before, knots = find_process_group().sent, {f"x{i}": [-1.0, 0.0, 1.0] for i in range(4)}
    parameters = {"max_steps": n_steps, "interactions": 0, "validation_size": 0, "knots": knots}
    model = NeuralBasisRegressor(**QUICK, **parameters).fit(*draw("regression", n_rows))
    n_cells = sum(shape.scores.size for shape in model.model_.shapes)
    return find_process_group().sent - before, n_steps * QUICK["outer_bags"] * (n_cells + 1)


def main(folder: Path) -> None:
    rank = os.environ["RANK"]
    for task in FITS:
        np.savez(folder / f"{task}-{rank}.npz", **fit_tables(task))
    np.savez(folder / f"files-{rank}.npz", **fit_files(folder))
    np.savez(folder / f"bytes-{rank}.npz", few=count_bytes(3000, 5), many=count_bytes(6000, 5))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
