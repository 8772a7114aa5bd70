"""Generated tables: stand-ins with the columns of a real set, for quick runs, and smooth tables of any size."""

from __future__ import annotations

from typing import Any

import numpy as np

from .dataset import Dataset
from .packaged import TABLES

# key -> rows, columns, classes (0 for regression), share of binary columns
STAND_INS = {
    "ca": (400, 8, 0, 0.0),
    "covertype": (600, 54, 7, 44 / 54),
    "heloc": (400, 23, 2, 0.0),
    "fraud": (600, 30, 2, 0.0),
    "cancer": (300, 30, 2, 0.0),
    "magic": (400, 10, 2, 0.0),
    "bike": (400, 12, 0, 3 / 12),
    "telco": (400, 19, 2, 16 / 19),
    "german": (400, 20, 2, 13 / 20),
    "abalone": (400, 8, 0, 1 / 8),
    "covertype_part": (600, 54, 7, 44 / 54),
    "diabetes": (300, 10, 0, 0.0),
    "digits": (600, 64, 10, 0.0),
    "iris": (150, 4, 3, 0.0),
    "wine": (180, 13, 3, 0.0),
    **{
        key: (min(table.n_rows, 400), table.n_columns, table.n_classes, table.n_levels / table.n_columns)
        for key, table in TABLES.items()
    },
}
# the binary columns hold text
WITH_LEVELS = ("telco", "german", "abalone", *[key for key, table in TABLES.items() if table.n_levels])


def stand_in(key: str, n_rows: int | None = None, seed: int = 0) -> Dataset:
    """A table with the columns and classes of a real set, small unless `n_rows` is given."""
    rows, n_columns, n_classes, binary_share = STAND_INS[key]
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows or rows, n_columns))
    n_binary = round(binary_share * n_columns)
    if n_binary:
        X[:, -n_binary:] = X[:, -n_binary:] > 0.8
    table = _write_levels(X, n_binary) if key in WITH_LEVELS else X
    task = "classification" if n_classes else "regression"
    return Dataset(f"{key} (generated)", table, draw_target(rng, X, n_classes), task)


def draw_target(rng: np.random.Generator, X: np.ndarray, n_classes: int) -> np.ndarray:
    """y (N,) from the first two columns and noise; classes are equally frequent and numbered from 0."""
    score = np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=len(X))
    if n_classes == 0:
        return score
    cuts = np.quantile(score, np.linspace(0, 1, n_classes + 1)[1:-1])
    return np.searchsorted(cuts, score)


def _write_levels(X: np.ndarray, n_binary: int) -> Any:
    """A pandas frame whose last columns hold "yes" and "no"."""
    import pandas as pd

    table = pd.DataFrame(X, columns=[f"x{column}" for column in range(X.shape[1])])
    for name in table.columns[-n_binary:]:
        table[name] = table[name].map({0.0: "no", 1.0: "yes"}).astype("category")
    return table


def smooth_table(n_rows: int, n_columns: int, seed: int = 0) -> Dataset:
    """Normal float32 columns; the target is a sum of sines of the first ten columns and noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_columns), dtype=np.float32)
    waves = np.arange(1, 1 + min(10, n_columns), dtype=np.float32)
    y = np.sin(X[:, : len(waves)] * waves / 3).sum(axis=1) + 0.5 * rng.standard_normal(n_rows, dtype=np.float32)
    return Dataset(f"generated {n_rows} × {n_columns}", X, y.astype(float), "regression")
