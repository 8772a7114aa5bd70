"""Growth of a fit of main effects with rows and columns: seconds and peak memory.

    python -m benchmarks run speed.growth

Generated float32 tables, each in a child process. "fit" is a fit without interactions and otherwise with defaults; its
number of steps is bounded. "encode" is a fit without its training (reading, encoding, compiling the tables), "epoch" is
one pass over the rows with the default network, batches of 1,024 rows and one member, "predict" a prediction of all
rows. The last three must be linear.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass

from tqdm import tqdm

from .. import datasets
from ..harness import run_child
from ..results.markdown import format_number, print_table
from .resources import PeakMemory, median_seconds, resident_mb, time_once

SIZES = [(10**4, 30), (10**5, 30), (10**6, 30), (10**5, 10), (10**5, 100), (10**5, 1000)]
QUICK_SIZES = [(500, 5)]
MIN_TIMED_ROWS = 10**5  # timed epochs cover at least this many rows; fewer would measure noise


@dataclass(frozen=True)
class Growth:
    """Seconds and MB for one table size."""

    n_rows: int
    n_columns: int
    fit_seconds: float
    steps: int
    before_mb: float
    peak_mb: float
    encode_seconds: float
    epoch_seconds: float
    predict_seconds: float

    def per_million(self, seconds: float) -> str:
        return format_number(seconds / (self.n_rows * self.n_columns / 1e6))


def measure_here(n_rows: int, n_columns: int, quick: bool) -> Growth:
    from neuralbasis import NeuralBasisRegressor

    data = datasets.smooth_table(n_rows, n_columns)
    limit = {"max_steps": 5} if quick else {}
    NeuralBasisRegressor(interactions=0, max_steps=2).fit(data.X[:200], data.y[:200])  # loads the compiled loops
    before = resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: NeuralBasisRegressor(interactions=0, **limit).fit(data.X, data.y))
    n_epochs = 1 if quick else max(1, MIN_TIMED_ROWS // n_rows)
    one = NeuralBasisRegressor(
        interactions=0, network__batch_size=1024, network__max_epochs=n_epochs, outer_bags=1, validation_size=0
    )
    whole, one = time_once(lambda: one.fit(data.X, data.y))
    training = one.history_.seconds[-1]
    return Growth(
        n_rows=n_rows,
        n_columns=n_columns,
        fit_seconds=seconds,
        steps=model.history_.steps[-1],
        before_mb=before,
        peak_mb=memory.mb,
        encode_seconds=whole - training,
        epoch_seconds=training / n_epochs,
        predict_seconds=median_seconds(lambda: model.predict(data.X), 3),
    )


def print_growth(found: list[Growth]) -> None:
    header = ["rows", "columns", "fit s", "steps", "MB before", "peak MB"]
    header += [title for part in ("encode", "epoch", "predict") for title in (f"{part} s", "s / 10⁶ cells")]
    rows = []
    for g in found:
        row = [f"{g.n_rows:,}", f"{g.n_columns:,}", format_number(g.fit_seconds), f"{g.steps:,}"]
        row += [f"{g.before_mb:,.0f}", f"{g.peak_mb:,.0f}"]
        for seconds in (g.encode_seconds, g.epoch_seconds, g.predict_seconds):
            row += [format_number(seconds), g.per_million(seconds)]
        rows.append(row)
    print_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one tiny table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(asdict(measure_here(**json.loads(given.child)))))
        return
    found = []
    for n_rows, n_columns in tqdm(QUICK_SIZES if given.quick else SIZES, desc="growth", unit="size"):
        size = {"n_rows": n_rows, "n_columns": n_columns, "quick": given.quick}
        found.append(Growth(**json.loads(run_child("benchmarks.speed.growth", json.dumps(size)))))
    print_growth(found)


if __name__ == "__main__":
    main()
