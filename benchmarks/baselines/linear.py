"""A linear model of standardised columns, missing values replaced by the mean, levels one-hot; sparse columns
unchanged.

The penalty is scikit-learn's default; with validation rows it is the best of four on them.
"""

from __future__ import annotations

from typing import Any

from scipy.sparse import issparse
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

INVERSE_PENALTIES = (0.1, 1.0, 10.0, 100.0)


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None
) -> Any:  # fmt: skip
    if validation is None or quick:
        return make(X, task, seed, 1.0).fit(X, y)
    models = [make(X, task, seed, inverse_penalty).fit(X, y) for inverse_penalty in INVERSE_PENALTIES]
    return max(models, key=lambda model: model.score(*validation))


def make(X: Any, task: str, seed: int, inverse_penalty: float) -> Any:
    """The pipeline; the penalty is 1 / inverse_penalty."""
    if task == "regression":
        last: Any = Ridge(alpha=1 / inverse_penalty, random_state=seed)
    else:
        last = LogisticRegression(C=inverse_penalty, max_iter=1000, random_state=seed)
    if issparse(X):
        return last
    levels = list(X.select_dtypes("category")) if hasattr(X, "select_dtypes") else []
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), levels), remainder=make_pipeline(SimpleImputer(), StandardScaler())
    )
    return make_pipeline(columns, last)
