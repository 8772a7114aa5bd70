"""NODE-GAM and NODE-GA²M through the package `nodegam` (0.3.0), with its defaults on the CPU.

It scales columns and holds out rows itself. It is in no extra of this project: it depends on some sixty packages and an
older SciPy. Install it with `pip install nodegam` into a separate environment; it works with torch 2.13.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def fit(
    X: Any, y: Any, task: str, seed: int, quick: bool = False, validation: tuple[Any, Any] | None = None,
    order: int = 1, **options: Any,
) -> Any:  # fmt: skip
    """`order` is 1 or 2; other options are parameters of its estimators."""
    package, table = import_package(), to_frame(X)
    levels = list(table.select_dtypes("category")) or None
    limits = {"max_steps": 20, "report_frequency": 10, "anneal_steps": 5} if quick else {}
    settings = {
        "in_features": table.shape[1], "cat_features": levels, "seed": seed, "ga2m": int(order > 1), "device": "cpu",
        "verbose": 0, **options, **limits,
    }  # fmt: skip
    with temporary_working_folder():
        if task == "regression":
            model = package.NodeGAMRegressor(**settings)
            model.fit(table, np.asarray(y, dtype=float))
            return Regressor(model)
        classes, codes = np.unique(y, return_inverse=True)
        model = package.NodeGAMClassifier(**settings, num_classes=1 if len(classes) == 2 else len(classes))
        model.fit(table, codes)
        return Classifier(model, classes)


def import_package() -> Any:
    try:
        from nodegam import sklearn
    except ImportError as error:
        raise ImportError(
            f"NODE-GAM is the package 'nodegam', which cannot be imported here ({error}); install it with "
            "`pip install nodegam` into a separate environment, since it changes the versions of other packages"
        ) from error
    return sklearn


@contextmanager
def temporary_working_folder() -> Iterator[None]:
    """Work in a temporary folder: nodegam writes checkpoints to the working folder."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def to_frame(X: Any) -> Any:
    import pandas as pd

    return X if isinstance(X, pd.DataFrame) else pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])


class Regressor:
    """Predicts from any table, not only from frames."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def predict(self, X: Any) -> np.ndarray:
        return np.asarray(self.model.predict(to_frame(X)), dtype=float).ravel()


class Classifier:
    """Predicts the user's classes; nodegam has numbered classes, and its `predict` returns scores."""

    def __init__(self, model: Any, classes: np.ndarray) -> None:
        self.model, self.classes_ = model, classes

    def predict_proba(self, X: Any) -> np.ndarray:
        probabilities = self.model.predict_proba(to_frame(X)).astype(float)
        return probabilities / probabilities.sum(axis=1, keepdims=True)

    def predict(self, X: Any) -> np.ndarray:
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
