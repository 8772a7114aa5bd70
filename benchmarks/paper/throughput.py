"""Rows per second by the paper's rule, on the CPU: NAM and NBM as networks, and our compiled model.

    python -m benchmarks run paper.throughput --data ca_housing fico --models nam nbm compiled

PAPER §4.4: the largest batch up to 8,192 rows that fits into memory, mean of 100 runs, inference only. Slow models get
fewer runs; the record has their number. Networks are untrained, since their speed does not depend on their weights; the
compiled model is fitted briefly to generated rows. Networks run on one thread and on all, and the faster counts; the
compiled model runs on all.
"""

from __future__ import annotations

import argparse
import gc
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ..baselines.network_training import thread_counts
from ..baselines.networks import AdditiveNetwork, NeuralAdditive, PaperNetwork, make_network
from ..results.markdown import format_number, print_table
from .results import read_count
from .tables import format_model, read_data, read_table

TABLE = read_table("params_and_throughput")
MAX_BATCH, MAX_RUNS = 8192, 100
MEMORY = 4e9  # bytes that the values of a batch may take


@dataclass(frozen=True)
class Size:
    """Columns and outputs of a data set; for a sparse one, the entries per row."""

    n_columns: int
    n_outputs: int
    entries: int = 0


@dataclass(frozen=True)
class Kind:
    """A learner (a network or the compiled model) with terms up to an order."""

    learner: str
    order: int


ENTRIES = {"newsgroups": 150}  # per row
SIZES = {
    data: Size(read_data()[data].n_columns, read_data()[data].n_outputs, ENTRIES.get(data, 0)) for data in TABLE.data
}
MODELS = {
    "nam": Kind("nam", 1), "nbm": Kind("nbm", 1), "compiled": Kind("compiled", 1),
    "na2m": Kind("nam", 2), "nb2m": Kind("nbm", 2), "compiled2": Kind("compiled", 2),
}  # fmt: skip
# rows per second on a V100
PUBLISHED = {
    format_model(row.model).lower(): {data: read_count(text) for data, text in row.throughput.items()}
    for row in TABLE.rows
}


def find_obstacle(model: str, data: str) -> str | None:
    """Why this is not measured; None if it is."""
    kind, size = MODELS[model], SIZES[data]
    if size.entries and kind.order > 1:
        return "pairs of 146,016 columns are too many, also in the paper"
    if size.entries and kind.learner != "compiled":
        return "the networks read dense rows"
    if data == "inaturalist" and model == "compiled2":
        return "tables of 38,503 pairs and 1,486 classes do not fit into memory"
    return None


def measure_throughput(model: str, data: str, quick: bool = False, limit: float = 60.0) -> dict[str, Any]:
    """Fields of a record: rows_per_second, batch, runs, mean seconds of a run, threads, and the arguments.

    Parameters
    ----------
    model : one of `MODELS`
    data : one of `SIZES`; only the numbers of columns and outputs matter
    quick : a small batch and few runs
    limit : seconds for the runs with one number of threads
    """
    problem = find_obstacle(model, data)
    if problem:
        raise ValueError(f"{model} on {data} is not measured: {problem}")
    kind, size = MODELS[model], SIZES[data]
    make = make_compiled if kind.learner == "compiled" else make_inference
    predict, batch, threads = make(kind, size, 64 if quick else MAX_BATCH)
    found = [time_runs(predict, n_threads, 3 if quick else MAX_RUNS, limit) for n_threads in threads]
    seconds, runs, n_threads = min(found)
    return {
        "model": model, "data": data, "n_columns": size.n_columns, "n_outputs": size.n_outputs, "order": kind.order,
        "rows_per_second": batch / seconds, "batch": batch, "runs": runs, "seconds": seconds, "threads": n_threads,
        "limit": limit, "published": PUBLISHED.get(model, {}).get(data),
    }  # fmt: skip


def time_runs(predict: Callable[[], Any], n_threads: int, max_runs: int, limit: float) -> tuple[float, int, int]:
    """Mean seconds of the runs that start within the limit, after one to warm up; numbers of runs and of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    predict()
    start, runs = time.perf_counter(), 0
    while runs < max_runs and (runs == 0 or time.perf_counter() - start < limit):
        predict()
        runs += 1
    torch.set_num_threads(before)
    return (time.perf_counter() - start) / runs, runs, n_threads


def make_inference(kind: Kind, size: Size, max_batch: int) -> tuple[Callable[[], Any], int, list[int]]:
    """A call of an untrained network with random rows, its batch size, and numbers of threads to try."""
    torch.manual_seed(0)
    net = make_network(kind.learner, size.n_columns, size.n_outputs, order=kind.order).eval()
    batch = fit_batch(net, max_batch)
    rows = torch.rand(batch, size.n_columns)

    def predict() -> torch.Tensor:
        with torch.inference_mode():
            return net(rows)

    return predict, batch, thread_counts()


def fit_batch(net: AdditiveNetwork, max_batch: int) -> int:
    """The largest power of two of rows, up to the limit, with which the two widest layers fit into memory."""
    widest = {NeuralAdditive: 64 + 64, PaperNetwork: 256 + 256}[type(net)]
    most = MEMORY / (4 * widest * max(map(len, net.terms)))
    return min(max_batch, 2 ** max(0, int(np.log2(most))))


def make_compiled(kind: Kind, size: Size, max_batch: int) -> tuple[Callable[[], Any], int, list[int]]:
    """The same for the compiled model, on torch's number of threads."""
    model, rows = fit_briefly(kind, size), make_rows(size, max_batch, np.random.default_rng(1))
    return lambda: model.scores(rows), max_batch, [torch.get_num_threads()]


def fit_briefly(kind: Kind, size: Size) -> Any:
    """Two steps on generated rows; the tables are as large as after a full fit."""
    from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor

    rng, n_rows = np.random.default_rng(0), max(2000, 2 * size.n_outputs)
    X, y = make_rows(size, n_rows, rng), np.arange(n_rows) % size.n_outputs
    pairs = "all" if kind.order > 1 else 0
    settings = {"interactions": pairs, "network": {"staged": False}, "outer_bags": 1, "max_steps": 2,
                "validation_size": 0, "boosted_steps": False, "max_terms": None,
                "n_jobs": torch.get_num_threads()}  # fmt: skip
    if size.n_outputs == 1:
        return NeuralBasisRegressor(**settings).fit(X, rng.normal(size=n_rows)).model_
    return NeuralBasisClassifier(**settings).fit(X, y).model_


def make_rows(size: Size, n_rows: int, rng: np.random.Generator) -> Any:
    """Random rows: an array, or a CSR matrix for a sparse set."""
    if not size.entries:
        return rng.random((n_rows, size.n_columns))
    from scipy.sparse import csr_matrix

    index = np.sort(rng.integers(size.n_columns, size=(n_rows, size.entries)), axis=1)
    starts = np.arange(0, index.size + 1, size.entries)
    found = csr_matrix((rng.random(index.size), index.ravel(), starts), shape=(n_rows, size.n_columns))
    found.sum_duplicates()
    return found


def print_records(records: Sequence[dict[str, Any]]) -> None:
    header = ["data", "model", "rows/s", "paper's V100", "batch", "runs", "threads"]
    lines = [
        [
            record["data"],
            record["model"],
            format_number(record["rows_per_second"]),
            format_number(record["published"]),
            f"{record['batch']:,}",
            str(record["runs"]),
            str(record["threads"]),
        ]
        for record in records
    ]
    print_table(header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--models", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the runs of a model")
    parser.add_argument("--quick", action="store_true", help="small batches, few runs")
    parser.add_argument("--json", action="store_true", help="print one JSON line per record instead of a table")
    given = parser.parse_args()
    records = []
    for data in given.data:
        for model in given.models:
            if find_obstacle(model, data) is None:
                records.append(measure_throughput(model, data, given.quick, given.limit))
                gc.collect()
                if given.json:
                    print(json.dumps(records[-1]), flush=True)
    if not given.json:
        print_records(records)


if __name__ == "__main__":
    main()
