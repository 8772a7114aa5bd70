"""XGBoost with its defaults on all cores: not interpretable.

With validation rows it learns more slowly and stops early by their loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xgboost import XGBClassifier, XGBRegressor

EARLY_STOPPING = {"n_estimators": 5000, "learning_rate": 0.05, "early_stopping_rounds": 50}


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None, **options: Any
) -> Any:
    """Options are parameters of XGBoost's estimators."""
    stopping = {} if validation is None else EARLY_STOPPING
    rounds = {"n_estimators": 5} if quick else {}
    settings = {"random_state": seed, "enable_categorical": True, "n_jobs": -1, **stopping, **options, **rounds}
    if task != "regression":
        return _Classifier(**settings).fit(X, y, validation)
    return XGBRegressor(**settings).fit(X, y, eval_set=None if validation is None else [validation], verbose=False)


class _Classifier:
    """Numbers classes from 0, as XGBoost requires; a fitted model predicts the user's classes."""

    def __init__(self, **settings: Any) -> None:
        self.model = XGBClassifier(**settings)

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> _Classifier:
        self.classes_, codes = np.unique(y, return_inverse=True)
        held = None if validation is None else [(validation[0], np.searchsorted(self.classes_, validation[1]))]
        self.model.fit(X, codes, eval_set=held, verbose=False)
        return self

    def predict_proba(self, X: Any) -> Any:
        probabilities = self.model.predict_proba(X).astype(float)  # XGBoost returns float32
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
