"""Fit models to two bundled data sets, compare them with a linear model and boosted trees, and plot their shapes.

Run `make demo`; nothing is downloaded. Figures, report pages and model files are written to demo_output/.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score, roc_auc_score, root_mean_squared_error
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import neuralbasis

OUTPUT = Path("demo_output")

NEXT_STEPS = """\
On your own table:

    import pandas as pd, neuralbasis
    table = pd.read_csv("your_table.csv")                       # text columns and missing values need no preparation
    model = neuralbasis.NeuralBasisClassifier().fit(table.drop(columns="target"), table["target"])
    neuralbasis.plot.shapes(model, n=6, path="shapes.png")      # NeuralBasisRegressor for numbers
    neuralbasis.report.write("model.html", model)               # one self-contained page

or, from a shell:  neuralbasis fit your_table.csv --target target && neuralbasis report your_table.nbm
"""


@dataclass(frozen=True)
class Task:
    """A data set, split 80/20, with the models to compare and the metrics to print."""

    name: str
    arrays: list[np.ndarray]  # X_train, X_test, y_train, y_test
    models: dict[str, Any]
    metrics: tuple[str, str]


def split(data: Any, stratify: bool) -> list[np.ndarray]:
    y = data.target
    return train_test_split(data.data, y, test_size=0.2, random_state=0, stratify=y if stratify else None)


def breast_cancer() -> Task:
    data = load_breast_cancer()
    models = {
        "neuralbasis": neuralbasis.NeuralBasisClassifier(feature_names=list(data.feature_names), verbose=True),
        "LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression()),
        "HistGradientBoosting": HistGradientBoostingClassifier(random_state=0),
    }
    return Task("breast_cancer", split(data, stratify=True), models, ("AUROC", "log loss"))


def diabetes() -> Task:
    data = load_diabetes(scaled=False)
    models = {
        "neuralbasis": neuralbasis.NeuralBasisRegressor(feature_names=list(data.feature_names), verbose=True),
        "Ridge": make_pipeline(StandardScaler(), Ridge()),
        "HistGradientBoosting": HistGradientBoostingRegressor(random_state=0),
    }
    return Task("diabetes", split(data, stratify=False), models, ("R2", "RMSE"))


def fit(model: Any, task: Task) -> float:
    """Fit a model and return the seconds it took."""
    X_train, _, y_train, _ = task.arrays
    begin = time.perf_counter()
    model.fit(X_train, y_train)
    return time.perf_counter() - begin


def score(model: Any, task: Task) -> tuple[float, float]:
    """The task's two metrics on the test rows."""
    _, X_test, _, y_test = task.arrays
    if task.metrics[0] == "AUROC":
        probability = model.predict_proba(X_test)[:, 1]
        return roc_auc_score(y_test, probability), log_loss(y_test, probability)
    prediction = model.predict(X_test)
    return r2_score(y_test, prediction), root_mean_squared_error(y_test, prediction)


def compare(task: Task) -> None:
    seconds = {name: fit(model, task) for name, model in task.models.items()}
    X_train, X_test, _, _ = task.arrays
    print(f"\n{task.name}: {len(X_train)} training rows, {len(X_test)} test rows, {X_train.shape[1]} columns")
    print(f"  {'':<22}{task.metrics[0]:>10}{task.metrics[1]:>10}{'fit s':>8}")
    for name, model in task.models.items():
        first, second = score(model, task)
        print(f"  {name:<22}{first:>10.4f}{second:>10.4f}{seconds[name]:>8.2f}")


def write_outputs(task: Task) -> None:
    """Write a figure of the strongest shapes, a report page with the test rows, and the model file."""
    model, (_, X_test, _, y_test) = task.models["neuralbasis"], task.arrays
    figure, page, file = (OUTPUT / f"{task.name}.{suffix}" for suffix in ("png", "html", "nbm"))
    neuralbasis.plot.shapes(model, n=6, path=figure)
    neuralbasis.report.write(page, model, X_test, y_test, title=f"What drives {task.name.replace('_', ' ')}")
    model.save(file)
    print(f"  six strongest shapes: {figure}\n  report page: {page}\n  model: {file}\n")


def main() -> None:
    OUTPUT.mkdir(exist_ok=True)
    for make_task in (breast_cancer, diabetes):
        task = make_task()
        compare(task)
        write_outputs(task)
    print("neuralbasis and the linear model are interpretable term by term; the boosted trees are not.")
    print("The first fit on a machine also compiles the inner loops and caches them on disk.\n")
    print(NEXT_STEPS)


if __name__ == "__main__":
    main()
