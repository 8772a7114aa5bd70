"""Dataset: a table, its target and its task; a generated one also has test rows and the true effects."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class Truth:
    """The distribution of a generated target: score = intercept + Σ effects(X), effects (N, D).

    A regression adds normal noise of deviation `noise` to the score; with two classes the score is the logit.
    """

    effects: Callable[[Any], np.ndarray]
    intercept: float
    noise: float

    def scores(self, X: Any) -> np.ndarray:
        return self.intercept + self.effects(X).sum(axis=1)


@dataclass(frozen=True, eq=False)
class Dataset:
    """X (N, D) is an array of numbers, or a pandas frame whose columns of levels have dtype "category"; y (N,); task is
    "regression" or "classification"; `test` and `truth` are set for generated rows."""

    name: str
    X: Any
    y: np.ndarray
    task: str
    test: Dataset | None = None
    truth: Truth | None = None
