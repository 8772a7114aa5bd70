"""A linear model on standardised columns, gaps filled with the mean, levels one-hot."""

from __future__ import annotations

from typing import Any

from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler


def fit(X: Any, y: Any, task: str, seed: int, quick: bool = False) -> Any:
    last = Ridge(random_state=seed) if task == "regression" else LogisticRegression(max_iter=1000, random_state=seed)
    levels = list(X.select_dtypes("category")) if hasattr(X, "select_dtypes") else []
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), levels), remainder=make_pipeline(SimpleImputer(), StandardScaler())
    )
    return make_pipeline(columns, last).fit(X, y)
