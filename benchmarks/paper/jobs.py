"""Computations behind the cells of the paper's tables, each in a child process; the answer is the fields of a record.

    python -m benchmarks.paper.jobs --child '{"kind": "fit", "data": "fico", "learner": "linear", "options": {}}'

fit: metrics of a learner on the test rows. throughput: parameters and rows per second. shapes: shapes of models with
different seeds, at points of each column. ratios: parameters of one network over those of another.

Our estimators, EBM and NODE-GAM hold out rows themselves: they get training and validation rows together, in raw
columns. The others get the table as the paper prepares it, train on the training rows and may stop early by the
validation rows.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
import time
from typing import Any

import numpy as np

from .. import baselines
from ..accuracy.measure import score
from ..accuracy.shape_metrics import spread_columns
from ..datasets.paper import Part, Splits, load, prepare
from ..speed.resources import PeakMemory, resident_mb, time_once
from .tables import GIVEN_ALL_ROWS, Job, read_data

N_POINTS = 40  # points at which a shape is recorded
NETWORKS = ("nam", "nbm", "mlp")
MODELS_OF_THROUGHPUT = {
    ("nam", 1): "nam", ("nbm", 1): "nbm", ("ours", 1): "compiled",
    ("nam", 2): "na2m", ("nbm", 2): "nb2m", ("ours", 2): "compiled2",
}  # fmt: skip


def compute(job: Job) -> dict[str, Any]:
    """Fields of the record of a job."""
    kinds = {"fit": fit, "throughput": find_throughput, "shapes": find_shapes, "ratios": find_ratios}
    return kinds[job.kind](job)


def fit(job: Job) -> dict[str, Any]:
    splits = read_splits(job)
    load_before, before = os.getloadavg()[0], resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: fit_model(job, splits, job.seed))
    metrics = find_metrics(model, splits.test, splits.task)
    metric = read_data()[job.data].metric
    return {
        "n_rows": len(splits.train.y), "n_columns": splits.train.X.shape[1], "metric": metric, "value": metrics[metric],
        "metrics": metrics, "fit_seconds": seconds, "before_mb": before, "peak_mb": memory.mb, "load": load_before,
        "parameters": count_parameters(job, splits),
    }  # fmt: skip


def read_splits(job: Job) -> Splits:
    """The parts as the learner gets them."""
    splits = load(job.data, job.quick)
    if job.learner not in GIVEN_ALL_ROWS:
        return prepare(splits)
    train, valid = splits.train, splits.valid
    joined = Part(stack_rows(train.X, valid.X), np.concatenate([train.y, valid.y]))
    return Splits(splits.name, splits.task, joined, valid, splits.test, splits.recipe)


def stack_rows(first: Any, second: Any) -> Any:
    """Concatenate the rows of two frames, arrays or sparse matrices."""
    if hasattr(first, "columns"):
        import pandas as pd

        return pd.concat([first, second], ignore_index=True)
    if hasattr(first, "indptr"):
        from scipy import sparse

        return sparse.vstack([first, second], format="csr")
    return np.concatenate([first, second])


def fit_model(job: Job, splits: Splits, seed: int) -> Any:
    validation = None if job.learner in GIVEN_ALL_ROWS else (splits.valid.X, splits.valid.y)
    learner, train = baselines.get(job.learner), splits.train
    given = {} if validation is None else {"validation": validation}
    return learner.fit(train.X, train.y, splits.task, seed, quick=job.quick, **given, **job.options)


def find_metrics(model: Any, test: Part, task: str) -> dict[str, float]:
    """The metrics of all benchmarks, also under the paper's names."""
    found = score(model, test.X, test.y, task)
    if task == "regression":
        return found | {"mse": found["rmse"] ** 2}
    if not hasattr(model, "predict_proba"):
        return found | {"error": 1 - found["accuracy"]}
    return found | {"error": 1 - found["accuracy"], "mAP": find_mean_precision(model, test)}


def find_mean_precision(model: Any, test: Part) -> float:
    """Mean over the classes with rows of the one-versus-rest average precision."""
    from sklearn.metrics import average_precision_score

    chances = model.predict_proba(test.X)
    present = [k for k, name in enumerate(model.classes_) if (test.y == name).any()]
    return statistics.fmean(average_precision_score(test.y == model.classes_[k], chances[:, k]) for k in present)


def count_parameters(job: Job, splits: Splits) -> int | None:
    """Number of parameters of the published form of a network."""
    if job.learner not in NETWORKS:
        return None
    from ..baselines import networks

    n_classes = 1 if splits.task == "regression" else len(np.unique(splits.train.y))
    n_outputs = 1 if n_classes == 2 else n_classes
    return networks.count_parameters(job.learner, splits.train.X.shape[1], n_outputs, **keep_structure(job.options))


def keep_structure(options: dict[str, Any]) -> dict[str, Any]:
    """Options of a network's structure, without those of its training."""
    return {name: options[name] for name in ("order", "n_bases", "n_subnets", "units", "shape") if name in options}


def find_throughput(job: Job) -> dict[str, Any]:
    """Rows per second if it can be measured, and the parameters of a network."""
    from ..baselines import networks
    from . import throughput

    data, order = read_data()[job.data], job.options["order"]
    model = MODELS_OF_THROUGHPUT[job.learner, order]
    found: dict[str, Any] = {}
    if job.learner in NETWORKS:
        found["parameters"] = networks.count_parameters(job.learner, data.n_columns, data.n_outputs, order=order)
    if obstacle := throughput.find_obstacle(model, job.data):
        return found | {"rows_per_second": None, "obstacle": obstacle}
    measured = throughput.measure_throughput(model, job.data, job.quick)
    return found | {name: measured[name] for name in ("rows_per_second", "batch", "runs", "threads")}


def find_shapes(job: Job) -> dict[str, Any]:
    """PAPER §4.5: shapes centred over the rows, (models, readings, columns, points)."""
    splits = read_splits(job)
    tables = place_points(np.asarray(splits.train.X, dtype=float))
    seeds = range(job.seed * job.together, (job.seed + 1) * job.together)
    shapes, metrics, seconds = [], [], []
    for seed in seeds:
        time_of_fit, model = time_once(lambda s=seed: fit_model(job, splits, s))
        means = read_shapes(job, model, splits.train.X).mean(axis=0)
        found = [read_shapes(job, model, like(splits.train.X, table)) - means for table in tables.values()]
        shapes.append(np.round([each.T for each in found], 3).tolist())
        metrics.append(find_metrics(model, splits.test, splits.task))
        seconds.append(time_of_fit)
    metric = read_data()[job.data].metric
    return {
        "seeds": list(seeds), "readings": list(tables), "shapes": shapes, "metric": metric,
        "points": np.round(tables["even steps"].T, 6).tolist(),
        "density": [count_rows(column) for column in np.asarray(splits.train.X, dtype=float).T],
        "value": statistics.fmean(found[metric] for found in metrics), "fit_seconds": statistics.median(seconds),
    }  # fmt: skip


def place_points(table: np.ndarray) -> dict[str, np.ndarray]:
    """Tables (P, D) of points per column: even steps, quantiles of distinct values, quantiles of rows."""
    shares = (np.arange(N_POINTS) + 0.5) / N_POINTS
    distinct = [np.quantile(np.unique(column), shares, method="nearest") for column in table.T]
    return {
        "even steps": np.linspace(table.min(axis=0), table.max(axis=0), N_POINTS),
        "distinct values": np.column_stack(distinct),
        "rows": np.quantile(table, shares, axis=0, method="nearest"),
    }


def like(X: Any, table: np.ndarray) -> Any:
    """The table with the type of X."""
    if not hasattr(X, "columns"):
        return table.astype(X.dtype)
    import pandas as pd

    return pd.DataFrame(table, columns=X.columns)


def read_shapes(job: Job, model: Any, X: Any) -> np.ndarray:
    """Contributions of the columns, (N, D)."""
    contributions = baselines.get(job.learner).contributions(model, X)
    return spread_columns(np.asarray(contributions), model.term_features_, X.shape[1])


def count_rows(column: np.ndarray) -> list[float]:
    """Histogram of a column with twenty bins, scaled to a maximum of 1."""
    counts = np.histogram(column, bins=20)[0]
    return np.round(counts / counts.max(), 4).tolist()


def find_ratios(job: Job) -> dict[str, Any]:
    """Parameters of the first network over those of the second, by number of columns."""
    recipes = {"NAM": ("nam", 1), "NBM": ("nbm", 1), "NA²M": ("nam", 2), "NB²M": ("nbm", 2)}
    ratios = {}
    for n_columns in job.options["n_columns"]:
        first, second = (
            count_terms(*recipes[name], n_columns, job.options["n_outputs"]) for name in job.options["models"]
        )
        ratios[str(n_columns)] = first / second
    return {"ratios": ratios}


def count_terms(learner: str, order: int, n_columns: int, n_outputs: int) -> int:
    """Parameters of a network, extrapolated from small ones: every column and every pair adds the same number.

    A list of all pairs of 100,000 columns would not fit into memory.
    """
    from ..baselines import networks

    two, three, four = (networks.count_parameters(learner, size, n_outputs, order=order) for size in (2, 3, 4))
    of_pair = four - 2 * three + two
    of_column = three - two - 2 * of_pair
    alone = two - 2 * of_column - of_pair
    return alone + of_column * n_columns + of_pair * n_columns * (n_columns - 1) // 2


def end_with_parent() -> None:
    """Exit when the parent process was killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--child", required=True, metavar="JSON", help="the job")
    job = Job(**json.loads(parser.parse_args().child))
    end_with_parent()
    with PeakMemory() as memory:
        fields = compute(job)
    print(json.dumps({"peak_mb": memory.mb, **fields}, ensure_ascii=False))


if __name__ == "__main__":
    main()
