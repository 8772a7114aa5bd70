"""Logistic regression of unscaled columns with scikit-learn's defaults; `C` is the inverse penalty."""

from __future__ import annotations

from typing import Any

from sklearn.linear_model import LogisticRegression


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False, C: float = 1.0) -> Any:
    return LogisticRegression(C=C, max_iter=1000, random_state=seed).fit(X, y)
