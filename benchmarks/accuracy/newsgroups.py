"""20 Newsgroups, 146,016 columns of words: our defaults, linear models and the paper's figures.

    python -m benchmarks run newsgroups

Fits on the paper's 9,899 documents and on all 11,314 training documents; scores on the 7,532 test documents. Every fit
runs in a child process. C of the logistic regression is chosen by accuracy on the paper's 1,415 validation documents;
its seconds are those of one fit. The last table lists the words with the largest contributions to some groups.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tqdm import tqdm

from .. import baselines, datasets
from ..results.markdown import format_mean, format_verdict, print_table
from .measure import CELLS, Cell, Record, find_done, measure
from .studies import read_values
from .targets import Target, at_least, at_most

TITLES = {"news": "the paper's split", "news_whole": "all training documents"}
C_VALUES = (1, 5, 20, 100, 500)
PUBLISHED = {"paper, NBM": 0.8446, "paper, linear": 0.8238, "paper, MLP": 0.8494}
GROUPS = ("sci.space", "rec.sport.hockey", "comp.graphics", "talk.politics.guns")
COLUMNS = {"accuracy": 4, "log_loss": 4, "fit seconds": 2, "peak MB": 0, "predict rows/s": 0}  # metric -> decimals


@dataclass(frozen=True)
class Candidate:
    """A learner with its options and seeds."""

    learner: str
    options: Mapping[str, Any] = field(default_factory=dict)
    seeds: Sequence[int] = (0,)

    def list_cells(self, key: str, quick: bool) -> list[Cell]:
        return [Cell(key, self.learner, 0, seed, quick, dict(self.options)) for seed in self.seeds]


def list_candidates(n_seeds: int, chosen_c: float) -> dict[str, Candidate]:
    return {
        "neuralbasis": Candidate("ours", seeds=range(n_seeds)),
        "LinearSVC": Candidate("linear_svc"),
        "logistic regression": Candidate("logistic"),
        f"logistic regression, C = {chosen_c:g}": Candidate("logistic", {"C": chosen_c}),
        "linear softmax, early stopping": Candidate("softmax"),
    }


def choose_c(given: argparse.Namespace) -> float:
    """C with the best accuracy on the validation documents; the smallest of ties."""
    found = {}
    for c in tqdm(C_VALUES[:2] if given.quick else C_VALUES, desc="C of logistic regression", unit="fit"):
        record = measure(Cell("news_validation", "logistic", quick=given.quick, options={"C": c}), given.out)
        found[c] = record.metrics["accuracy"]
    print("validation accuracy by C: " + ", ".join(f"{c:g}: {value:.4f}" for c, value in found.items()) + "\n")
    return max(found, key=found.__getitem__)


def measure_all(key: str, candidates: Mapping[str, Candidate], given: argparse.Namespace) -> dict[str, list[Record]]:
    """Records of each candidate on one set of documents."""
    ours = candidates["neuralbasis"].list_cells(key, given.quick)
    if not given.quick and any(find_done(cell, given.out) is None for cell in ours):
        measure(Cell(key, "ours", quick=True))  # compiles the loops and caches them on disk
    cells = {name: candidate.list_cells(key, given.quick) for name, candidate in candidates.items()}
    bar = tqdm(total=sum(map(len, cells.values())), desc=key, unit="fit")
    found: dict[str, list[Record]] = {}
    for name, own in cells.items():
        found[name] = []
        for cell in own:
            found[name].append(measure(cell, given.out))
            bar.update()
    bar.close()
    return found


def print_records(found: Mapping[str, list[Record]], published: Mapping[str, float]) -> None:
    rows = [[name, *[write_values(records, metric) for metric in COLUMNS]] for name, records in found.items()]
    rows += [[name, f"{accuracy:.4f}", *["–"] * (len(COLUMNS) - 1)] for name, accuracy in published.items()]
    titles = [metric.replace("_", " ").replace("rows", "documents") for metric in COLUMNS]
    print_table(["learner", *titles], rows)


def write_values(records: Sequence[Record], metric: str) -> str:
    """Mean over records; learners without probabilities have no log loss."""
    has = [record for record in records if metric != "log_loss" or metric in record.metrics]
    return format_mean(read_values(has, metric), COLUMNS[metric]) if has else "–"


def list_targets(svc_accuracy: float) -> list[tuple[str, str, Target]]:
    """Set of documents, metric and target; the target on all documents is LinearSVC's accuracy in the same run."""
    return [
        ("news", "accuracy", at_least(PUBLISHED["paper, NBM"])),
        ("news", "fit seconds", at_most(600)),
        ("news", "peak MB", at_most(3000)),
        ("news", "predict rows/s", at_least(45_000)),
        ("news_whole", "accuracy", Target(f"≥ {svc_accuracy:.4f}", lambda ours, _: ours >= svc_accuracy)),
    ]


def print_targets(found: Mapping[str, Mapping[str, list[Record]]]) -> None:
    svc = found["news_whole"]["LinearSVC"][0].metrics["accuracy"]
    rows = []
    for key, metric, target in list_targets(svc):
        value = statistics.fmean(read_values(found[key]["neuralbasis"], metric))
        what = f"{TITLES[key]}: {metric.replace('rows', 'documents')}"
        rows.append([what, f"{value:,.{COLUMNS[metric]}f}", target.text, format_verdict(target.check(value, None))])
    print_table(["neuralbasis", "mean", "target", "verdict"], rows)


def print_words(quick: bool, n_words: int = 12) -> None:
    """Words with the largest contributions to some groups, from one more fit on all training documents."""
    news, groups = datasets.NEWS["news_whole"](quick), ("group0", "group1") if quick else GROUPS
    X, y, names = news.data.X, news.data.y, news.words.tolist()
    model = baselines.get("ours").fit(X, y, news.data.task, 0, quick, feature_names=names)
    found = model.explain_global().by_class(n_words)
    rows = [[group, " ".join(word.name for word in found[group].raised_by)] for group in groups]
    print_table(["group", "words with the largest contributions"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3, help="number of our fits, each with another seed")
    parser.add_argument("--skip-words", action="store_true", help="skip the words, which need one more fit")
    parser.add_argument("--out", type=Path, help=f"file of records; results/{CELLS.name} by default")
    parser.add_argument("--quick", action="store_true", help="a few generated documents, nothing recorded")
    given = parser.parse_args()
    given.out = given.out or (None if given.quick else CELLS)
    problem = None if given.quick else datasets.find_missing_news()
    if problem:
        print(f"not run, {problem}")
        return
    if given.quick:
        print("Quick run on generated documents: the figures are meaningless.\n")
    candidates = list_candidates(1 if given.quick else given.seeds, choose_c(given))
    candidates = dict(list(candidates.items())[:2]) if given.quick else candidates
    found = {}
    for key, title in TITLES.items():
        found[key] = measure_all(key, candidates, given)
        first = found[key]["LinearSVC"][0]
        print(f"{title}: {first.n_rows:,} documents, {first.n_columns:,} columns\n")
        print_records(found[key], PUBLISHED if key == "news" else {})
        print()
    print_targets(found)
    if not given.skip_words:
        print()
        print_words(given.quick)


if __name__ == "__main__":
    main()
