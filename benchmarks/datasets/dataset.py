"""Dataset: a table, its target, and which task it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Dataset:
    """X (N, D) an array of numbers, or a pandas frame where some columns hold levels (as dtype "category"); y (N,);
    task "regression" or "classification"."""

    name: str
    X: Any
    y: np.ndarray
    task: str
