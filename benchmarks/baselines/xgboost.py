"""XGBoost with its defaults on all cores: a model that cannot be read.

With validation rows it learns more slowly and stops where these lose no more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from xgboost import XGBClassifier, XGBRegressor

STOPPED = {"n_estimators": 5000, "learning_rate": 0.05, "early_stopping_rounds": 50}


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None, **options: Any
) -> Any:
    """Options are parameters of XGBoost's estimators."""
    stopped = {} if validation is None else STOPPED
    rounds = {"n_estimators": 5} if quick else {}
    settings = {"random_state": seed, "enable_categorical": True, "n_jobs": -1, **stopped, **options, **rounds}
    if task != "regression":
        return _Classifier(**settings).fit(X, y, validation)
    return XGBRegressor(**settings).fit(X, y, eval_set=None if validation is None else [validation], verbose=False)


class _Classifier:
    """Classes are numbered from 0, as XGBoost wants them; a fitted model answers in the user's classes."""

    def __init__(self, **settings: Any) -> None:
        self.model = XGBClassifier(**settings)

    def fit(self, X: Any, y: Any, validation: tuple[Any, Any] | None = None) -> _Classifier:
        self.classes_, codes = np.unique(y, return_inverse=True)
        held = None if validation is None else [(validation[0], np.searchsorted(self.classes_, validation[1]))]
        self.model.fit(X, codes, eval_set=held, verbose=False)
        return self

    def predict_proba(self, X: Any) -> Any:
        chances = self.model.predict_proba(X).astype(float)  # they come as float32
        return chances / chances.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> Any:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
