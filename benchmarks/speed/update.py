"""Update with new rows against a fit of all rows: seconds and held-out loss.

    python -m benchmarks run speed.update [--rows 500000]

A generated regression of ten columns with all defaults, in a child process. "fit" uses the first rows, "update"
continues its model with the new ones (the last tenth, and the last half), "refit" starts again with all rows.
"""

from __future__ import annotations

import argparse
import json

from .. import datasets
from ..harness import run_child
from ..results.markdown import format_number, print_table
from .resources import time_once

SHARES = 0.1, 0.5
N_COLUMNS, N_TEST = 10, 50_000


def measure_here(n_rows: int, share: float, quick: bool) -> list[list[str]]:
    """Rows of the table at one share of new rows."""
    from neuralbasis import NeuralBasisRegressor, update

    data = datasets.smooth_table(n_rows + N_TEST, N_COLUMNS)
    first, limit = round((1 - share) * n_rows), {"max_steps": 5} if quick else {}
    test, truth = data.X[n_rows:], data.y[n_rows:]
    NeuralBasisRegressor(max_steps=2).fit(data.X[:200], data.y[:200])  # loads the compiled loops
    before, fitted = time_once(lambda: NeuralBasisRegressor(**limit).fit(data.X[:first], data.y[:first]))
    new = data.X[first:n_rows], data.y[first:n_rows]
    seconds, updated = time_once(lambda: update(fitted, *new, **limit))
    whole, refitted = time_once(lambda: NeuralBasisRegressor(**limit).fit(data.X[:n_rows], data.y[:n_rows]))
    found = [("fit", first, before, fitted), ("update", n_rows - first, seconds, updated)]
    return [
        [f"{share:.0%}", name, f"{count:,}", format_number(taken), f"{((m.predict(test) - truth) ** 2).mean():.5f}"]
        for name, count, taken, m in [*found, ("refit", n_rows, whole, refitted)]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--quick", action="store_true", help="few rows and steps")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(measure_here(**json.loads(given.child))))
        return
    n_rows, rows = 2000 if given.quick else given.rows, []
    for share in SHARES[: 1 if given.quick else None]:
        task = {"n_rows": n_rows, "share": share, "quick": given.quick}
        rows += json.loads(run_child("benchmarks.speed.update", json.dumps(task)))
    print_table(["new rows", "what", "rows", "seconds", "mean squared error"], rows)


if __name__ == "__main__":
    main()
