"""One cell of a table: a learner on a split of a data set, fitted and scored in a fresh process.

    python -m benchmarks.measure --data ca --learner ours --set interactions=0 outer_bags=2 --out cells.jsonl

The fresh process makes its memory its own. Records are JSON lines appended to a file; a cell that the same version of
the learner's package has done is not run again. For neuralbasis, changed source is another version.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from . import baselines, datasets
from .clock import median_seconds, time_once
from .datasets import Dataset
from .memory import PeakMemory, resident_mb
from .shapes import score_seeds, score_shapes, spread_columns
from .versions import read_versions

ROOT = Path(__file__).resolve().parents[1]
CELLS = Path(__file__).resolve().parent / "cells.jsonl"
TEST_SIZE = 0.2


@dataclass(frozen=True)
class Cell:
    """What to measure; `options` are parameters of the learner's estimator, as JSON has them.

    The split seed draws the rows of a generated data set. So many refits with other seeds tell how much a seed changes.
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
    """What was measured: seconds, MB before `fit` and at its peak, test metrics, load of the machine before it, and
    the number of terms of a model that has terms."""

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

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, line: str) -> Record:
        fields = json.loads(line)
        cell = {"options": {"interactions": 0}, **fields.pop("cell")}  # older files have main effects only
        return cls(cell=Cell(**cell), **fields)


class ChildError(RuntimeError):
    """A fresh process that failed; the reason is its exit code and the last line of what it said."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command} failed, {reason}")
        self.reason = reason


class LateError(ChildError):
    """A fresh process that took too long and was ended."""


def measure(cell: Cell, out: Path | None = None) -> Record:
    """The cell's record: from the file if it is there, otherwise from a fresh process."""
    done = find_done(cell, out)
    if done is not None:
        return done
    record = Record.from_json(run_child("benchmarks.measure", json.dumps(asdict(cell))))
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("a", encoding="utf-8") as file:
            file.write(record.to_json() + "\n")
    return record


def find_done(cell: Cell, out: Path | None, any_version: bool = False) -> Record | None:
    """The latest record of this cell in a file, as `pick_done` has it."""
    return pick_done(cell, read_records(out), any_version)


def pick_done(cell: Cell, records: Sequence[Record], any_version: bool = False) -> Record | None:
    """The latest record of this cell with the present version of the learner's package, or with any."""
    package = baselines.LIBRARIES[cell.learner]
    same = [record for record in records if record.cell == cell]
    if not any_version:
        same = [record for record in same if record.versions.get(package) == read_versions()[package]]
    return same[-1] if same else None


def read_records(out: Path | None) -> list[Record]:
    """All records of a file; none if it is not there."""
    if out is None or not out.exists():
        return []
    return [Record.from_json(line) for line in out.read_text(encoding="utf-8").splitlines() if line]


def run_child(module: str, argument: str, limit: float | None = None) -> str:
    """Run `python -m module --child argument`; the last line it prints is its answer. It has so many seconds."""
    command = [sys.executable, "-m", module, "--child", argument]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise LateError(f"{module} {argument}", f"stopped after {limit:.0f} s") from None
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or ["it said nothing"]
        raise ChildError(f"{module} {argument}", f"exit code {done.returncode}: {last[0]}")
    return done.stdout.strip().splitlines()[-1]


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
        },
        versions=read_versions(),
        load=load,
        n_terms=len(model.term_features_) if hasattr(model, "term_features_") else None,
    )


def split(cell: Cell) -> tuple[Dataset, Dataset]:
    """Rows to train and to test on: those a data set brings, otherwise classes keep their shares."""
    from sklearn.model_selection import train_test_split

    data = datasets.load(cell.data, cell.quick, cell.split_seed)
    if data.test is not None:
        return data, data.test
    strata = None if data.task == "regression" else data.y
    parts = train_test_split(data.X, data.y, test_size=TEST_SIZE, random_state=cell.split_seed, stratify=strata)
    X_train, X_test, y_train, y_test = parts
    return replace(data, X=X_train, y=y_train), replace(data, X=X_test, y=y_test)


def score_terms(cell: Cell, models: Sequence[Any], test: Dataset) -> dict[str, float]:
    """Metrics of the shapes, where the truth is known and the model is of main effects."""
    if test.truth is None or cell.learner not in baselines.WITH_TERMS or cell.options.get("interactions") != 0:
        return {}
    contributions = baselines.get(cell.learner).contributions
    found = [spread_columns(contributions(model, test.X), model.term_features_, test.X.shape[1]) for model in models]
    return score_shapes(found, test.truth.effects(test.X), test.X)


def score(model: Any, X: Any, y: Any, task: str) -> dict[str, float]:
    """Metrics on test rows; AUROC of several classes is the mean of one against the rest."""
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


def calibration_error(happened: np.ndarray, probabilities: np.ndarray, n_bins: int = 10) -> float:
    """Mean distance of shares from probabilities (N, classes), over bins of equally many rows and over classes.

    >>> calibration_error(np.array([[True], [False]]), np.array([[0.9], [0.9]]), n_bins=1)
    0.4
    """
    gaps = []
    for hits, chances in zip(happened.T, probabilities.T, strict=True):
        order = np.argsort(chances, kind="stable")
        bins = [part for part in np.array_split(order, n_bins) if len(part)]
        gaps.append(sum(abs(hits[part].sum() - chances[part].sum()) for part in bins) / len(order))
    return float(np.mean(gaps))


def read_option(text: str) -> tuple[str, Any]:
    """A parameter of an estimator from the command line; what is no Python literal is text.

    >>> read_option("outer_bags=2"), read_option("interactions=all"), read_option("hidden=(64, 32)")
    (('outer_bags', 2), ('interactions', 'all'), ('hidden', [64, 32]))
    """
    name, equals, value = text.partition("=")
    if not (name.isidentifier() and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    try:
        return name, json.loads(json.dumps(ast.literal_eval(value)))  # as it will be read from a file
    except (ValueError, SyntaxError, TypeError):
        return name, value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", default="ca", help="a real data set, keel:name or r:name of other packages, or family/rows"
    )
    parser.add_argument("--learner", choices=sorted(baselines.LIBRARIES), default="ours")
    parser.add_argument("--split-seed", type=int, default=0)
    parser.add_argument("--model-seed", type=int, default=0)
    parser.add_argument("--refits", type=int, default=0, help="fits with other seeds, to compare")
    parser.add_argument("--set", nargs="+", type=read_option, default=[], metavar="NAME=VALUE", help="parameters")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table and hardly any fitting")
    parser.add_argument("--out", type=Path, help="file of JSON lines; without it the record is only printed")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(measure_here(Cell(**json.loads(given.child))).to_json())
        return
    seeds = given.split_seed, given.model_seed
    cell = Cell(given.data, given.learner, *seeds, given.quick, dict(given.set), given.refits)
    print(measure(cell, given.out).to_json())


if __name__ == "__main__":
    main()
