"""InterpretML's Explainable Boosting Machine with its defaults on all cores."""

from __future__ import annotations

from typing import Any

from interpret.glassbox import ExplainableBoostingClassifier, ExplainableBoostingRegressor


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None, **options: Any
) -> Any:
    kind = ExplainableBoostingRegressor if task == "regression" else ExplainableBoostingClassifier
    limits = {"n_jobs": 1, "outer_bags": 2, "max_rounds": 20} if quick else {}
    return kind(**{"n_jobs": -1, "random_state": seed, **options, **limits}).fit(X, y)


def contributions(model: Any, X: Any) -> Any:
    """(N, T), with three classes or more (N, T, K)."""
    return model.eval_terms(X)
