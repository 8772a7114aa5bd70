"""One cell of a table: a learner on one split of a data set, fitted and scored in a child process.

    python -m benchmarks run measure --data ca --learner ours --set interactions=0 outer_bags=2 --out cells.jsonl

The child process makes memory measurable. Records are JSON lines; a cell that the same version of the learner's package
has already measured is not run again. For neuralbasis, changed source is another version.
"""

from __future__ import annotations

import argparse
import json
import math
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import baselines, datasets
from ..datasets import Dataset
from ..harness import RESULTS, read_option, run_child
from ..results.jsonl import append_line, read_lines
from ..results.provenance import read_versions
from ..speed.resources import PeakMemory, median_seconds, resident_mb, time_once
from .shape_metrics import score_seeds, score_shapes, spread_columns

CELLS = RESULTS / "cells.jsonl"
TEST_SIZE = 0.2


@dataclass(frozen=True)
class Cell:
    """What to measure; `options` are JSON-compatible parameters of the learner's estimator.

    The split seed also draws the rows of a generated data set. `refits` is the number of further fits with other seeds,
    which measure how much predictions change with the seed.
    """

    data: str
    learner: str
    split_seed: int = 0
    model_seed: int = 0
    quick: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    refits: int = 0


@dataclass(frozen=True)
class Record:
    """What was measured: seconds, MB before `fit` and at its peak, test metrics, load average before the fit, and the
    number of terms if the model has terms."""

    cell: Cell
    n_rows: int
    n_columns: int
    fit_seconds: float
    before_mb: float
    peak_mb: float
    predict_rows_per_second: float
    metrics: dict[str, float]
    versions: dict[str, str]
    load: float
    n_terms: int | None = None

    @classmethod
    def from_fields(cls, fields: dict[str, Any]) -> Record:
        cell = {"options": {"interactions": 0}, **fields.pop("cell")}  # older files have main effects only
        return cls(cell=Cell(**cell), **fields)


def measure(cell: Cell, out: Path | None = None) -> Record:
    """The record of a cell: from the file if it exists there, otherwise from a child process."""
    done = find_done(cell, out)
    if done is not None:
        return done
    record = Record.from_fields(json.loads(run_child("benchmarks.accuracy.measure", json.dumps(asdict(cell)))))
    if out is not None:
        append_line(out, asdict(record))
    return record


def find_done(cell: Cell, out: Path | None, any_version: bool = False) -> Record | None:
    """The latest record of this cell in a file; see `pick_done`."""
    return pick_done(cell, read_records(out), any_version)


def pick_done(cell: Cell, records: Sequence[Record], any_version: bool = False) -> Record | None:
    """The latest record of this cell, measured with the present version of the learner's package or with any."""
    package = baselines.LIBRARIES[cell.learner]
    same = [record for record in records if record.cell == cell]
    if not any_version:
        same = [record for record in same if record.versions.get(package) == read_versions()[package]]
    return same[-1] if same else None


def read_records(out: Path | None) -> list[Record]:
    """All records of a file; empty if it does not exist."""
    return [Record.from_fields(fields) for fields in read_lines(out)]


def measure_here(cell: Cell) -> Record:
    """Fit and score in this process."""
    learner = baselines.get(cell.learner)
    train, test = split(cell)

    def fit(refit: int = 0) -> Any:
        return learner.fit(train.X, train.y, train.task, cell.model_seed + refit, quick=cell.quick, **cell.options)

    load, before = os.getloadavg()[0], resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(fit)
    predict = getattr(model, "predict_proba", model.predict)
    speed = len(test.y) / median_seconds(lambda: predict(test.X), 3)
    models = [model, *[fit(refit) for refit in range(1, cell.refits + 1)]]
    return Record(
        cell=cell,
        n_rows=len(train.y),
        n_columns=train.X.shape[1],
        fit_seconds=seconds,
        before_mb=before,
        peak_mb=memory.mb,
        predict_rows_per_second=speed,
        metrics={
            **score(model, test.X, test.y, test.task),
            **score_seeds(models, test),
            **score_terms(cell, models, test),
            **score_readability(cell, model),
        },
        versions=read_versions(),
        load=load,
        n_terms=len(model.term_features_) if hasattr(model, "term_features_") else None,
    )


def split(cell: Cell) -> tuple[Dataset, Dataset]:
    """Training and test rows: the data set's own, otherwise 80/20, stratified by class."""
    from sklearn.model_selection import train_test_split

    data = datasets.load(cell.data, cell.quick, cell.split_seed)
    if data.test is not None:
        return data, data.test
    strata = None if data.task == "regression" else data.y
    parts = train_test_split(data.X, data.y, test_size=TEST_SIZE, random_state=cell.split_seed, stratify=strata)
    X_train, X_test, y_train, y_test = parts
    return replace(data, X=X_train, y=y_train), replace(data, X=X_test, y=y_test)


def score_terms(cell: Cell, models: Sequence[Any], test: Dataset) -> dict[str, float]:
    """Metrics of the shapes, if the true effects are known and the model has main effects only."""
    if test.truth is None or cell.learner not in baselines.WITH_TERMS or cell.options.get("interactions") != 0:
        return {}
    contributions = baselines.get(cell.learner).contributions
    found = [spread_columns(contributions(model, test.X), model.term_features_, test.X.shape[1]) for model in models]
    return score_shapes(found, test.truth.effects(test.X), test.X)


def score_readability(cell: Cell, model: Any) -> dict[str, float]:
    """The readability of our model, if it has standard errors; see `neuralbasis.explain.readability`."""
    if cell.learner != "ours" or any(shape.evidence is None for shape in model.model_.shapes):
        return {}
    from neuralbasis import explain

    return {"readability": explain.readability(model).overall}


def score(model: Any, X: Any, y: Any, task: str) -> dict[str, float]:
    """Metrics on test rows; AUROC of several classes is the mean over one-versus-rest."""
    from sklearn import metrics

    if task == "regression":
        return {"rmse": math.sqrt(metrics.mean_squared_error(y, model.predict(X)))}
    if not hasattr(model, "predict_proba"):
        return {"accuracy": float(metrics.accuracy_score(y, model.predict(X)))}
    probabilities = model.predict_proba(X)
    two = probabilities.shape[1] == 2
    found = {
        "log_loss": metrics.log_loss(y, probabilities, labels=model.classes_),
        "auroc": metrics.roc_auc_score(y, probabilities[:, 1] if two else probabilities, multi_class="ovr"),
        "accuracy": metrics.accuracy_score(y, model.predict(X)),
    }
    if two:
        found["average_precision"] = metrics.average_precision_score(y == model.classes_[1], probabilities[:, 1])
    found["calibration"] = calibration_error(y[:, None] == model.classes_, probabilities)
    return {name: float(value) for name, value in found.items()}


def calibration_error(is_class: np.ndarray, probabilities: np.ndarray, n_bins: int = 10) -> float:
    """Mean absolute gap between frequencies and probabilities (N, K), over bins of equal size and over classes.

    >>> calibration_error(np.array([[True], [False]]), np.array([[0.9], [0.9]]), n_bins=1)
    0.4
    """
    gaps = []
    for own, predicted in zip(is_class.T, probabilities.T, strict=True):
        order = np.argsort(predicted, kind="stable")
        bins = [part for part in np.array_split(order, n_bins) if len(part)]
        gaps.append(sum(abs(own[part].sum() - predicted[part].sum()) for part in bins) / len(order))
    return float(np.mean(gaps))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default="ca", help="a real data set, keel:name or r:name from other packages, or family/rows"
    )
    parser.add_argument("--learner", choices=sorted(baselines.LIBRARIES), default="ours")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--model-seed", type=int, default=0)
    parser.add_argument("--refits", type=int, default=0, help="further fits with other seeds")
    parser.add_argument("--set", nargs="+", type=read_option, default=[], metavar="NAME=VALUE", help="parameters")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, very few steps")
    parser.add_argument("--out", type=Path, help="file of records; without it the record is only printed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(asdict(measure_here(Cell(**json.loads(given.child))))))
        return
    seeds = given.split_seed, given.model_seed
    cell = Cell(given.data, given.learner, *seeds, given.quick, dict(given.set), given.refits)
    print(json.dumps(asdict(measure(cell, given.out))))


if __name__ == "__main__":
    main()
