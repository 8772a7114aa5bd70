"""FICO over several splits: AUROC of ours and of EBM on the same rows, with standard errors.

    python -m benchmarks run paper.fico_splits

A single split of FICO has 2,092 test rows, and its AUROC moves more with the split than the learners differ. Each split
is 80/20, stratified by class; split 0 has the test rows of the paper's tables. Columns are prepared as in the paper (39
columns, scaled by the training rows). Both learners are at their defaults, with main effects only and with pairs, and
hold out rows of the 80 % themselves. Splits share rows, so the standard errors are somewhat too small.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

from .. import baselines
from ..accuracy.measure import score
from ..datasets.paper import Splits, load, prepare
from ..datasets.paper.fico import read_rows
from ..datasets.paper.splits import TEST_SHARE, draw, take
from ..results.markdown import format_error, format_number, print_table
from ..speed.resources import time_once
from .jobs import stack_rows
from .tables import read_table

TASK, PLACES = "classification", 4
LEARNERS = ("ours", "ebm")
KINDS: dict[str, dict[str, Any]] = {"main effects": {"interactions": 0}, "with pairs": {}}  # options of both learners
PUBLISHED = {"main effects": ("NBM", "EBM"), "with pairs": ("NB²M", "EB²M")}  # rows of the paper's comparison
Scores = dict[tuple[str, str], list[float]]  # (kind, learner) -> AUROC of each split


def read_table_rows(quick: bool) -> tuple[Any, np.ndarray]:
    """All rows in raw columns, in the order of the file; with `quick` generated ones."""
    if not quick:
        return read_rows()
    splits = load("fico", quick=True)
    X = stack_rows(splits.train.X, splits.test.X)
    return X, np.concatenate([splits.train.y, splits.test.y])


def list_splits(seeds: Sequence[int], quick: bool) -> Iterator[Splits]:
    X, y = read_table_rows(quick)
    for seed in seeds:
        rest, test = draw(np.arange(len(y)), TEST_SHARE, y, TASK, seed)
        train, held = take(X, y, rest), take(X, y, test)
        yield prepare(Splits("FICO", TASK, train, held, held, "minmax"))


def fit_splits(seeds: Sequence[int], quick: bool) -> tuple[Scores, Scores]:
    """AUROC and seconds of all fits; the seed of a model is that of its split."""
    found: Scores = {(kind, learner): [] for kind in KINDS for learner in LEARNERS}
    seconds: Scores = {place: [] for place in found}
    for seed, splits in zip(seeds, tqdm(list_splits(seeds, quick), total=len(seeds), unit="split"), strict=True):
        for kind, learner in found:
            fit, train = baselines.get(learner).fit, splits.train
            took, model = time_once(
                lambda fit=fit, train=train, seed=seed, kind=kind: fit(
                    train.X, train.y, TASK, seed, quick, **KINDS[kind]
                )
            )
            found[kind, learner].append(score(model, splits.test.X, splits.test.y, TASK)["auroc"])
            seconds[kind, learner].append(took)
    return found, seconds


def print_results(seeds: Sequence[int], found: Scores, seconds: Scores) -> None:
    rows = {row.model: row for row in read_table("comparison").rows}
    lines = []
    for kind in KINDS:
        ours, ebm = found[kind, "ours"], found[kind, "ebm"]
        gains = [first - second for first, second in zip(ours, ebm, strict=True)]
        published = [f"{rows[model].published['fico'][0]:.{PLACES}f}" for model in PUBLISHED[kind]]
        times = [format_number(statistics.median(seconds[kind, learner])) for learner in LEARNERS]
        lines.append([
            kind, format_error(ours, PLACES), format_error(ebm, PLACES), format_error(gains, PLACES),
            f"{sum(gain > 0 for gain in gains)} of {len(gains)}", " / ".join(published), " / ".join(times),
        ])  # fmt: skip
    print(f"AUROC, mean ± standard error over {len(seeds)} splits 80/20 of FICO (number of splits), 39 columns:\n")
    print_table(
        ["FICO", "ours", "EBM", "ours - EBM, paired", "ours ahead", "published, NBM / EBM", "seconds, ours / EBM"],
        lines,
    )
    print("\nAUROC by split:\n")
    header = [f"{'EBM' if learner == 'ebm' else learner}, {kind}" for kind, learner in found]
    print_table(
        ["split", *header],
        [[str(seed), *[f"{scores[at]:.{PLACES}f}" for scores in found.values()]] for at, seed in enumerate(seeds)],
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=10, help="number of splits")
    parser.add_argument("--first-split", type=int, default=0, help="seed of the first split")
    parser.add_argument("--quick", action="store_true", help="two splits of generated rows, few steps")
    given = parser.parse_args()
    seeds = range(given.first_split, given.first_split + (2 if given.quick else given.splits))
    print_results(seeds, *fit_splits(seeds, given.quick))


if __name__ == "__main__":
    main()
