"""InterpretML's Explainable Boosting Machine with its defaults on all cores, main effects only."""

from __future__ import annotations

from typing import Any

from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False) -> Any:
    kind = ExplainableBoostingRegressor if task == "regression" else ExplainableBoostingClassifier
    options = {"n_jobs": 1, "outer_bags": 2, "max_rounds": 20} if quick else {"n_jobs": -1}
    return kind(interactions=0, random_state=seed, **options).fit(X, y)
