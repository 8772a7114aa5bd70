"""Growth of a fit of a sparse table with its entries, and with its columns at a fixed number of entries.

    python -m benchmarks run speed.sparse_growth

Generated CSR matrices, 50 entries per row, 20 classes, each in a child process. "fit" is a fit of main effects with one
epoch: one member, batches of 1,024 rows, no held-out rows. "epoch" is the training in it, "predict" the probabilities
of all rows. Ratios are to the first row of each part. Seconds should grow with the entries in the first part and stay
near 1 in the second. "added MB" is the peak of the fit minus the memory before it.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from tqdm import tqdm

from ..harness import run_child
from ..results.markdown import format_number, print_table
from .resources import PeakMemory, median_seconds, resident_mb, time_once

ENTRIES_A_ROW, N_CLASSES = 50, 20
PIECE = 10_000  # rows drawn at a time
ENTRIES, COLUMNS = (10**6, 10**7, 10**8), (10**3, 10**4, 10**5, 10**6)
FIXED_ENTRIES, FIXED_COLUMNS = 10**7, 10**5


@dataclass(frozen=True)
class SparseGrowth:
    """Seconds and MB for one table size."""

    n_entries: int
    n_columns: int
    fit_seconds: float
    epoch_seconds: float
    predict_seconds: float
    before_mb: float
    peak_mb: float

    @property
    def added_mb(self) -> float:
        return self.peak_mb - self.before_mb


def make_table(n_rows: int, n_columns: int, n_entries: int, seed: int = 0) -> tuple[Any, np.ndarray]:
    """`n_entries` entries per row, one in each of as many column ranges; the first columns of a range are frequent."""
    from scipy.sparse import csr_array

    rng, width = np.random.default_rng(seed), n_columns // n_entries
    weights = rng.standard_normal((n_columns, N_CLASSES), dtype=np.float32)
    columns = np.empty((n_rows, n_entries), dtype=np.int32)
    values, y = np.empty((n_rows, n_entries)), np.empty(n_rows, dtype=np.int8)
    for first in range(0, n_rows, PIECE):
        rows = slice(first, min(first + PIECE, n_rows))
        drawn = rng.random((2, rows.stop - first, n_entries))
        columns[rows] = np.arange(n_entries) * width + (width * drawn[0] ** 3).astype(np.int32)
        values[rows] = 1 - drawn[1] ** 2
        scores = np.einsum("ne,nek->nk", values[rows], weights[columns[rows]])
        y[rows] = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    starts = np.arange(n_rows + 1, dtype=np.int32) * n_entries
    return csr_array((values.ravel(), columns.ravel(), starts), shape=(n_rows, n_columns)), y


def measure_here(n_rows: int, n_columns: int, n_entries: int) -> SparseGrowth:
    """Measure one table size."""
    X, y = make_table(n_rows, n_columns, n_entries)
    fit_once(*make_table(200, n_columns, n_entries))  # loads the compiled loops
    before = resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: fit_once(X, y))
    return SparseGrowth(
        n_entries=X.nnz,
        n_columns=n_columns,
        fit_seconds=seconds,
        epoch_seconds=model.history_.seconds[-1],
        predict_seconds=median_seconds(lambda: model.predict_proba(X), 2),
        before_mb=before,
        peak_mb=memory.mb,
    )


def fit_once(X: Any, y: np.ndarray) -> Any:
    from neuralbasis import NeuralBasisClassifier

    options = {"outer_bags": 1, "batch_size": 1024, "validation_size": 0, "max_epochs": 1}
    return NeuralBasisClassifier(interactions=0, **options).fit(X, y)


def list_sizes(given: argparse.Namespace) -> dict[str, list[dict[str, int]]]:
    """Part -> its sizes."""
    if given.quick:
        sizes = [(200, 1000, 10), (400, 1000, 10)], [(300, 2000, 10)]
    else:
        entries = [count for count in ENTRIES if count <= given.max_entries]
        sizes = (
            [(count // ENTRIES_A_ROW, FIXED_COLUMNS, ENTRIES_A_ROW) for count in entries],
            [(FIXED_ENTRIES // ENTRIES_A_ROW, count, ENTRIES_A_ROW) for count in COLUMNS],
        )
    names = "n_rows", "n_columns", "n_entries"
    parts = [[dict(zip(names, size, strict=True)) for size in part] for part in sizes]
    return dict(zip(("entries", "columns"), parts, strict=True))


def print_growth(found: dict[str, list[SparseGrowth]]) -> None:
    timed = {"fit": "fit_seconds", "epoch": "epoch_seconds", "predict": "predict_seconds"}
    header = ["more", "entries", "columns", *[title for part in timed for title in (f"{part} s", "ratio")]]
    rows = []
    for part, lines in found.items():
        for line in lines:
            cells = [f"{line.n_entries:,}", f"{line.n_columns:,}"]
            for name in [*timed.values(), "added_mb"]:
                value, first = getattr(line, name), getattr(lines[0], name)
                cells += [format_number(value), f"{format_number(value / first if first else None)} ×"]
            rows.append([part, *cells, f"{line.peak_mb:,.0f}"])
    print_table([*header, "added MB", "ratio", "peak MB"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-entries", type=int, default=ENTRIES[-1], help="skip larger tables")
    parser.add_argument("--quick", action="store_true", help="tiny tables")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(asdict(measure_here(**json.loads(given.child)))))
        return
    parts, found = list_sizes(given), {}
    for part, sizes in parts.items():
        found[part] = [
            SparseGrowth(**json.loads(run_child("benchmarks.speed.sparse_growth", json.dumps(size))))
            for size in tqdm(sizes, desc=part, unit="size")
        ]
    print_growth(found)


if __name__ == "__main__":
    main()
