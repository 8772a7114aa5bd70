"""The demonstration: fit simulated patients whose true risks are known, and compare with other models.

In: a folder. Out: the tables as CSV, the model, its page, and `index.html`, which draws the true curves beside the
curves that the model found. Nothing is downloaded. The curves are invented; the story of asthma follows a real table of
pneumonia patients (Caruana et al., KDD 2015), where asthmatics died less often because they were treated at once.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import neuralbasis

from ..model.additive_model import AdditiveModel

TARGET, TITLE = "died", "Pneumonia: which patients are at risk?"
N_TRAIN, N_TEST, N_NEW = 6000, 6000, 200  # rows; the new ones are a small table to try commands on

COMMANDS = """\
neuralbasis check your_table.csv --target your_column
neuralbasis fit your_table.csv --target your_column
neuralbasis report your_table.nbm"""

# Column -> its true contribution to the log odds.
EFFECTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "age": lambda age: 0.045 * np.maximum(age - 50, 0) + 0.9 * (age >= 85),
    "temperature": lambda celsius: 0.55 * np.abs(celsius - 38.4) ** 1.5,
    "oxygen": lambda percent: 0.22 * np.maximum(92 - percent, 0),
    "urea": lambda mmol: 0.7 * np.log(mmol / 6),
    "systolic_pressure": lambda mmhg: 0.035 * np.maximum(105 - mmhg, 0),
    "asthma": lambda answer: np.where(answer == "yes", -0.9, 0.0),
    "arrival": lambda route: np.where(route == "ambulance", 0.5, 0.0),
}
INTERCEPT = -3.0


def pair_effect(age: np.ndarray | float, celsius: np.ndarray) -> np.ndarray:
    """The true interaction: the old are endangered by a low temperature, the young by fever."""
    return -0.4 * (age - 62) / 19 * (celsius - 38.2) / 0.9


@dataclass(frozen=True, eq=False)
class Patients:
    """Simulated patients: columns, outcomes ("yes" or "no"), true probabilities of "yes"."""

    columns: dict[str, np.ndarray]
    y: np.ndarray
    truth: np.ndarray

    def to_arrow(self, n_rows: int | None = None) -> pa.Table:
        """The columns and the target; NaN becomes missing."""
        arrays = {name: pa.array(values, from_pandas=True) for name, values in self.columns.items()}
        return pa.table({**arrays, TARGET: self.y}).slice(0, n_rows)


@dataclass(frozen=True)
class Result:
    """Quality of a model on the test rows, and the seconds of its fit."""

    name: str
    log_loss: float
    auroc: float
    seconds: float | None
    note: str = ""


@dataclass(frozen=True, eq=False)
class Demonstration:
    """Everything that the page shows."""

    model: AdditiveModel
    train: Patients
    results: tuple[Result, ...]


def simulate(n_rows: int, seed: int) -> Patients:
    """Draw patients; 8 % of the oxygen values are missing."""
    rng = np.random.default_rng(seed)
    age = np.clip(18 + 77 * rng.beta(2.2, 1.6, n_rows), 18, 95).round()
    columns = {
        "age": age,
        "temperature": np.clip(38.2 + 0.9 * rng.normal(size=n_rows), 35, 41.5).round(1),
        "systolic_pressure": np.clip(rng.normal(128, 22, n_rows), 70, 210).round(),
        "urea": np.exp(rng.normal(1.75 + 0.006 * (age - 60), 0.5, n_rows)).round(1),
        "oxygen": np.clip(98 - rng.gamma(2, 2.0, n_rows), 75, 100).round(),
        "asthma": np.where(rng.random(n_rows) < 0.15, "yes", "no"),
        "arrival": rng.choice(["ambulance", "family doctor", "walk-in"], n_rows, p=[0.35, 0.4, 0.25]),
    }
    score = INTERCEPT + sum(EFFECTS[name](values) for name, values in columns.items())
    truth = 1 / (1 + np.exp(-score - pair_effect(age, columns["temperature"])))
    y = np.where(rng.random(n_rows) < truth, "yes", "no")
    columns["oxygen"] = np.where(rng.random(n_rows) < 0.08, np.nan, columns["oxygen"])
    return Patients(columns, y, truth)


def demonstrate(folder: Path, tell: Callable[[str], None]) -> Demonstration:
    """Fit and compare, and write all files but `index.html`; `tell` prints a line."""
    train, test = simulate(N_TRAIN, seed=0), simulate(N_TEST, seed=1)
    tell(f"{N_TRAIN:,} simulated patients with pneumonia; the first fit on a machine compiles for about 15 seconds")
    estimator = neuralbasis.NeuralBasisClassifier(preset="fast", verbose=False)
    few = {name: values[:N_NEW] for name, values in train.columns.items()}  # compiles, no part of the seconds below
    neuralbasis.NeuralBasisClassifier(preset="fast", max_steps=2).fit(few, train.y[:N_NEW]).predict_proba(few)
    results = [score_fit("neuralbasis", estimator, train.columns, test.columns, train, test, "preset fast: 3 models")]
    results += compare_peers(train, test)
    results.append(Result("the true risks", *score_probabilities(test.y, test.truth), None, "no model can do better"))
    assert estimator.model_.summary is not None
    model = replace(estimator.model_, summary=replace(estimator.model_.summary, target=TARGET))
    found = Demonstration(model, train, tuple(sorted(results, key=lambda result: result.log_loss)))
    pa.csv.write_csv(train.to_arrow(), folder / "patients.csv")
    pa.csv.write_csv(test.to_arrow(N_NEW), folder / "new_patients.csv")
    model.save(folder / "patients.nbm")
    rows = test.to_arrow(N_NEW)
    neuralbasis.report.write(folder / "model.html", model, rows.drop_columns([TARGET]), test.y[:N_NEW], title=TITLE)
    return found


def compare_peers(train: Patients, test: Patients) -> list[Result]:
    """Logistic regression, boosted trees and, if it is installed, EBM on the same rows; texts become indicators."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    linear = make_pipeline(SimpleImputer(), StandardScaler(), LogisticRegression())
    trees = HistGradientBoostingClassifier(early_stopping=True, random_state=0)
    matrices = make_matrix(train.columns), make_matrix(test.columns)
    results = [
        score_fit("logistic regression", linear, *matrices, train, test, "scikit-learn, standardized"),
        score_fit("boosted trees", trees, *matrices, train, test, "scikit-learn, early stopping"),
    ]
    if find_spec("interpret"):
        from interpret.glassbox import ExplainableBoostingClassifier

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that its pictures do not show missing values
            ebm = ExplainableBoostingClassifier(outer_bags=3, n_jobs=1)
            results.append(score_fit("EBM", ebm, train.columns, test.columns, train, test, "InterpretML, 3 bags"))
    return results


def make_matrix(columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Numbers as they are, an indicator of every level but the first."""
    found = []
    for values in columns.values():
        found += [values] if values.dtype.kind == "f" else [values == level for level in np.unique(values)[1:]]
    return np.column_stack(found).astype(float)


def score_fit(name: str, model: Any, X: Any, X_test: Any, train: Patients, test: Patients, note: str) -> Result:
    begin = time.perf_counter()
    model.fit(X, train.y)
    seconds = time.perf_counter() - begin
    probabilities = model.predict_proba(X_test)[:, list(model.classes_).index("yes")]
    return Result(name, *score_probabilities(test.y, probabilities), seconds, note)


def list_results(results: Sequence[Result]) -> list[list[str]]:
    """The comparison as cells of a table, with a header."""
    rows = [["model", "log loss", "AUROC", "seconds", ""]]
    for r in results:
        seconds = "" if r.seconds is None else f"{r.seconds:.1f}"
        rows.append([r.name, f"{r.log_loss:.4f}", f"{r.auroc:.4f}", seconds, r.note])
    return rows


def score_probabilities(y: np.ndarray, probabilities: np.ndarray) -> tuple[float, float]:
    """Log loss and AUROC."""
    from sklearn.metrics import log_loss, roc_auc_score

    return float(log_loss(y == "yes", probabilities)), float(roc_auc_score(y == "yes", probabilities))
