"""XGBoost with its defaults on all cores: a model that cannot be read."""

from __future__ import annotations

from typing import Any

from xgboost import XGBClassifier, XGBRegressor


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False) -> Any:
    """Classes are numbered from 0, as XGBoost wants them; a fitted model answers in the user's classes."""
    rounds = {"n_estimators": 5} if quick else {}
    settings = {"random_state": seed, "enable_categorical": True, "n_jobs": -1, **rounds}
    return XGBRegressor(**settings).fit(X, y) if task == "regression" else _Classifier(**settings).fit(X, y)


class _Classifier:
    def __init__(self, **settings: Any) -> None:
        self.model = XGBClassifier(**settings)

    def fit(self, X: Any, y: Any) -> _Classifier:
        import numpy as np

        self.classes_, codes = np.unique(y, return_inverse=True)
        self.model.fit(X, codes)
        return self

    def predict_proba(self, X: Any) -> Any:
        chances = self.model.predict_proba(X).astype(float)  # they come as float32
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
