"""A linear support vector machine, the usual choice for text. It has no probabilities."""

from __future__ import annotations

from typing import Any

from sklearn.svm import LinearSVC


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False) -> Any:
    return LinearSVC(random_state=seed).fit(X, y)
