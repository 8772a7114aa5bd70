"""Ranking of planted pairs: the rank of the worst of three true pairs among all 435 pairs of 30 correlated columns.

    python -m benchmarks run planted --ebm-mains

Our ranking is `interaction_ranking_`, EBM's is FAST (`interpret.utils.measure_interactions`). At its defaults FAST does
not remove main effects; EBM itself calls it after fitting them, as `--ebm-mains` does. Our seconds are a fit of the
main effects and of three pairs; FAST's are the call, including the main effects before it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tqdm import tqdm

from .. import baselines
from ..datasets import Planted, plant_pairs
from ..results.markdown import format_number, format_verdict, print_table
from ..speed.resources import time_once
from .targets import at_most

TASKS = {"regression": 0, "2 classes": 2, "4 classes": 4}
TARGET = at_most(5)
Ranking = Sequence[tuple[int, ...]]
Ranker = Callable[[Planted, int, bool], Ranking]  # arguments: table, seed, quick


def rank_ours(planted: Planted, seed: int, quick: bool) -> Ranking:
    """The ranking precedes the training of pairs, whose number does not affect it."""
    data = planted.data
    model = baselines.get("ours").fit(data.X, data.y, data.task, seed, quick, interactions=len(planted.pairs))
    return [candidate.features for candidate in model.interaction_ranking_]


def rank_fast(planted: Planted, seed: int, quick: bool, mains: Any = None) -> Ranking:
    from interpret.utils import measure_interactions

    return [features for features, _ in measure_interactions(planted.data.X, planted.data.y, init_score=mains)]


def rank_after_mains(planted: Planted, seed: int, quick: bool) -> Ranking:
    data = planted.data
    mains = baselines.get("ebm").fit(data.X, data.y, data.task, seed, quick, interactions=0)
    return rank_fast(planted, seed, quick, mains)


def choose_rankers(given: argparse.Namespace) -> dict[str, Ranker]:
    rankers: dict[str, Ranker] = {"ours": rank_ours}
    if not baselines.is_installed("ebm"):
        print("EBM: not run, the package interpret-core is not installed\n")
    elif not given.skip_ebm:
        rankers["FAST"] = rank_fast
        if given.ebm_mains:
            rankers["FAST after mains"] = rank_after_mains
    return rankers


def find_worst(ranking: Ranking, pairs: Ranking) -> int:
    """Rank of the last true pair, from 1; a pair that is missing ranks behind all others."""
    places = {tuple(sorted(pair)): place for place, pair in enumerate(ranking, start=1)}
    return max(places.get(pair, len(ranking) + 1) for pair in pairs)


def write_case(task: str, seed: int, rankers: Mapping[str, Ranker], given: argparse.Namespace) -> list[str]:
    """One row of the table."""
    size = {"n_rows": 1000, "n_columns": 8} if given.quick else {}
    planted = plant_pairs(TASKS[task], seed, pair_deviation=given.pair_deviation, **size)
    ranks, seconds = [], []
    for ranker in rankers.values():
        time, ranking = time_once(lambda ranker=ranker: ranker(planted, seed, given.quick))
        ranks.append(find_worst(ranking, planted.pairs))
        seconds.append(format_number(time))
    met = TARGET.check(ranks[0], None)
    return [task, str(seed), *map(str, ranks), TARGET.text, format_verdict(met), *seconds]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="number of tables for each task")
    parser.add_argument(
        "--pair-deviation", type=float, default=0.3, help="deviation of each pair; that of all main effects is 1"
    )
    parser.add_argument("--skip-ebm", action="store_true", help="our ranking only")
    parser.add_argument("--ebm-mains", action="store_true", help="also FAST after EBM's main effects; slow")
    parser.add_argument("--quick", action="store_true", help="tiny tables, one for each task")
    given = parser.parse_args()
    if given.quick:
        print("Quick run on tiny tables: the figures are meaningless.\n")
    rankers = choose_rankers(given)
    for ranker in rankers.values():  # imports and compilation are not timed
        ranker(plant_pairs(0, seed=0, n_rows=200, n_columns=8), 0, True)
    cases = [(task, seed) for task in TASKS for seed in range(1 if given.quick else given.seeds)]
    rows = [write_case(task, seed, rankers, given) for task, seed in tqdm(cases, desc="planted pairs", unit="table")]
    titles = ["worst rank of three pairs", "seed", *rankers, "target", "verdict", *[f"{name} s" for name in rankers]]
    print_table(titles, rows)


if __name__ == "__main__":
    main()
