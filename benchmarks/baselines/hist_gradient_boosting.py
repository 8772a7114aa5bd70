"""scikit-learn's histogram gradient boosting with its defaults: not interpretable."""

from __future__ import annotations

from typing import Any

from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False) -> Any:
    kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
    return kind(random_state=seed, max_iter=5 if quick else 100).fit(X, y)
