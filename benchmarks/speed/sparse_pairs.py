"""A sparse table with 100,000 pairs, like the paper's Common Objects: one epoch, memory, prediction.

    python -m benchmarks run speed.sparse_pairs
    python -m benchmarks run speed.sparse_pairs --rows 20000 --pairs 10000

Generated rows with 97 % absent values and planted main effects and pairs. The model has the pairs that occur together
most often, as a user would choose them. All learners make one pass over the rows, each in a child process, with their
default batches and learning rates. "the truth" is the distribution that the rows were drawn from.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass
from typing import Any

from tqdm import tqdm

from .. import baselines
from ..accuracy.measure import score
from ..accuracy.targets import at_least, at_most
from ..datasets.objects import Objects, draw_objects, find_frequent_pairs, make_world
from ..harness import run_child
from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, median_seconds, resident_mb, time_once

PAIRS, MAINS, LINEAR = "neuralbasis, pairs", "neuralbasis, main effects", "linear softmax"
# title -> field, target
TARGETS = {
    "fit s": ("fit_seconds", at_most(300)),
    "peak MB": ("peak_mb", at_most(12_000)),
    "predict rows/s": ("rows_per_second", at_least(20_000)),
}
PLANTED_SHARE = 100  # one of this many pairs is planted


@dataclass(frozen=True)
class Sizes:
    """Sizes of the training and test tables and of the model."""

    n_rows: int = 200_000
    n_test: int = 20_000
    n_columns: int = 2618
    n_classes: int = 115
    n_pairs: int = 100_000
    sparsity: float = 0.97


QUICK = Sizes(1500, 300, 500, 45, 100, 0.95)


@dataclass(frozen=True)
class Figures:
    """Cost and accuracy of a learner; for the truth only the last two fields are known."""

    learner: str
    n_terms: int
    fit_seconds: float
    before_mb: float
    peak_mb: float
    rows_per_second: float
    accuracy: float
    log_loss: float


def measure_here(learner: str, sizes: Sizes, quick: bool) -> tuple[Figures, Figures]:
    """The learner's figures, and the truth's."""
    world = make_world(sizes.n_columns, sizes.n_classes, sizes.sparsity, max(1, sizes.n_pairs // PLANTED_SHARE))
    train, test = draw_objects(world, sizes.n_rows, seed=1), draw_objects(world, sizes.n_test, seed=2)
    pairs = find_frequent_pairs(train.X, sizes.n_pairs).tolist() if learner == PAIRS else []
    fit_once(learner, Objects(train.X[:200], train.y[:200], 0.0, 0.0), pairs[:2])  # loads the compiled loops
    before = resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: fit_once(learner, train, pairs))
    speed = sizes.n_test / median_seconds(lambda: model.predict_proba(test.X), 1 if quick else 3)
    found = score(model, test.X, test.y, "classification")
    n_terms, n_true = sizes.n_columns + len(pairs), sizes.n_columns + len(world.pairs)
    return (
        Figures(learner, n_terms, seconds, before, memory.mb, speed, found["accuracy"], found["log_loss"]),
        Figures("the truth", n_true, *[float("nan")] * 4, test.accuracy, test.log_loss),
    )


def fit_once(learner: str, table: Objects, pairs: list[list[int]]) -> Any:
    """One pass over the rows."""
    if learner == LINEAR:
        return baselines.get("softmax").fit(table.X, table.y, "classification", 0, max_epochs=1, validate=False)
    requested: Any = [tuple(pair) for pair in pairs] or 0
    return baselines.get("ours").fit(table.X, table.y, "classification", 0, interactions=requested, max_epochs=1)


def print_figures(found: list[Figures]) -> None:
    rows = []
    for line in found:
        numbers = [format_number(line.fit_seconds), *[write_mb(mb) for mb in (line.before_mb, line.peak_mb)]]
        rates = [format_number(line.rows_per_second), f"{line.accuracy:.4f}", f"{line.log_loss:.4f}"]
        rows.append([line.learner, f"{line.n_terms:,}", *numbers, *rates])
    header = ["one epoch", "terms", "fit s", "MB before", "peak MB", "predict rows/s", "accuracy", "log loss"]
    print_table(header, rows)


def write_mb(mb: float) -> str:
    return "–" if mb != mb else f"{mb:,.0f}"


def print_targets(line: Figures) -> None:
    rows = []
    for title, (name, target) in TARGETS.items():
        value = getattr(line, name)
        rows.append([title, format_number(value), target.text, format_verdict(target.check(value, None))])
    print_table([line.learner, "value", "target", "verdict"], rows)


def read_sizes(given: argparse.Namespace) -> Sizes:
    if given.quick:
        return QUICK
    return Sizes(given.rows, given.test_rows, given.columns, given.classes, given.pairs, given.sparsity)


def main() -> None:
    defaults = Sizes()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=defaults.n_rows)
    parser.add_argument("--test-rows", type=int, default=defaults.n_test)
    parser.add_argument("--columns", type=int, default=defaults.n_columns)
    parser.add_argument("--classes", type=int, default=defaults.n_classes)
    parser.add_argument("--pairs", type=int, default=defaults.n_pairs)
    parser.add_argument("--sparsity", type=float, default=defaults.sparsity, help="share of absent values")
    parser.add_argument("--quick", action="store_true", help="a tiny table")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        requested = json.loads(given.child)
        found = measure_here(requested["learner"], Sizes(**requested["sizes"]), requested["quick"])
        print(json.dumps([asdict(figures) for figures in found]))
        return
    sizes, lines = read_sizes(given), []
    for learner in tqdm((PAIRS, MAINS, LINEAR), desc="sparse pairs", unit="learner"):
        requested = {"learner": learner, "sizes": asdict(sizes), "quick": given.quick}
        own, truth = (
            Figures(**line) for line in json.loads(run_child("benchmarks.speed.sparse_pairs", json.dumps(requested)))
        )
        lines.append(own)
    absent = f"{sizes.sparsity:.0%} absent"
    print(f"{sizes.n_rows:,} rows × {sizes.n_columns:,} columns, {sizes.n_classes} classes, {absent}\n")
    print_figures([*lines, truth])
    print()
    print_targets(lines[0])


if __name__ == "__main__":
    main()
