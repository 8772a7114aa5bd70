"""Dataset: a table, its target, and which task it is."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class Dataset:
    """X (N, D) numbers, y (N,), task "regression" or "classification"."""

    name: str
    X: np.ndarray
    y: np.ndarray
    task: str
