"""Tuning: the gain of a search at our defaults, measured on rows that had no part in it.

    python -m benchmarks run tuning --problems german,abalone,telco,heloc --splits 2 --trials 12

For each problem and split: `neuralbasis.tune` on the training rows, then test losses of the chosen settings and of the
defaults, both fitted on all training rows. A run continues an earlier one, whatever its version; `--out` names another
file to measure again.
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, tune

from ..harness import RESULTS
from ..results.jsonl import append_line, read_lines
from ..results.markdown import format_number, print_table
from ..results.provenance import read_versions
from .measure import Cell, score, split

CELLS = RESULTS / "tuning.jsonl"
QUICK = {"max_steps": 5, "outer_bags": 2}


def measure_gain(data: str, split_seed: int, n_trials: int, quick: bool = False) -> dict[str, Any]:
    """One cell: validation and test losses of the defaults and of the chosen settings, and all trials."""
    train, test = split(Cell(data, "ours", split_seed, quick=quick))
    kind, loss = (NeuralBasisRegressor, "rmse") if train.task == "regression" else (NeuralBasisClassifier, "log_loss")
    estimator, started = kind(random_state=split_seed, **(QUICK if quick else {})), time.monotonic()
    found = tune(estimator, train.X, train.y, n_trials=n_trials, random_state=split_seed, verbose=not quick)
    tuned = score(found.estimator, test.X, test.y, test.task)[loss]
    return {
        "data": data,
        "split": split_seed,
        "n_trials": n_trials,
        "loss": loss,
        "seconds": time.monotonic() - started,
        "validation": {"defaults": found.trials[0].loss, "tuned": found.best.loss},
        "test": {"defaults": score(estimator.fit(train.X, train.y), test.X, test.y, test.task)[loss], "tuned": tuned},
        "settings": dict(found.best.settings),
        "trials": [{name: _plain(value) for name, value in row.items()} for row in found.to_rows()],
        "versions": read_versions(),
    }


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def write_gains(cells: Sequence[dict[str, Any]]) -> list[list[str]]:
    """One row per problem: tuned losses over those of the defaults, geometric means over splits."""
    lines = []
    for data in dict.fromkeys(cell["data"] for cell in cells):
        same = [cell for cell in cells if cell["data"] == data]
        shares = [[cell[rows]["tuned"] / cell[rows]["defaults"] for cell in same] for rows in ("validation", "test")]
        means = [format_number(statistics.geometric_mean(share), 4) for share in shares]
        ends = f"{min(shares[1]):.3f} … {max(shares[1]):.3f}"
        lines.append([data, str(len(same)), *means, ends, format_number(sum(cell["seconds"] for cell in same), 3)])
    return lines


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--problems", default="german,abalone,telco,heloc", help="names of data sets, with commas")
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--first-split", type=int, default=200)
    parser.add_argument("--trials", type=int, default=12)
    parser.add_argument("--out", type=Path, default=CELLS)
    parser.add_argument("--quick", action="store_true", help="a tiny generated table, one split, nothing recorded")
    given = parser.parse_args(arguments)
    known = [] if given.quick else read_lines(given.out)
    cells = []
    for seed in range(given.first_split, given.first_split + (1 if given.quick else given.splits)):
        for data in given.problems.split(","):
            place = {"data": data, "split": seed, "n_trials": given.trials}
            cell = next((cell for cell in known if place.items() <= cell.items()), None)
            if cell is None:
                cell = measure_gain(data, seed, given.trials, given.quick)
                if not given.quick:
                    append_line(given.out, cell)
            cells.append(cell)
    header = ["tuned / defaults", "splits", "validation loss", "test loss", "test, splits", "seconds"]
    print_table(header, write_gains(cells))


if __name__ == "__main__":
    main()
