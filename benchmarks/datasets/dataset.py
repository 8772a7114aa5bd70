"""Dataset: a table, its target, and which task it is; a generated one also has test rows and the truth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Truth:
    """What a generated target was drawn from: score = intercept + Σ effects(X), effects (N, D).

    The score of a regression has normal noise of this deviation added; that of two classes is the logit, without noise.
    """

    effects: Callable[[Any], np.ndarray]
    intercept: float
    noise: float

    def scores(self, X: Any) -> np.ndarray:
        return self.intercept + self.effects(X).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Dataset:
    """X (N, D) an array of numbers, or a pandas frame where some columns hold levels (as dtype "category"); y (N,);
    task "regression" or "classification"; `test` and `truth` where the rows are generated."""

    name: str
    X: Any
    y: np.ndarray
    task: str
    test: Dataset | None = None
    truth: Truth | None = None
