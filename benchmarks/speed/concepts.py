"""Models on concepts at the paper's sizes: birds told by 278 scores of concepts such as "has_wing_pattern::striped".

    python -m benchmarks run speed.concepts                    # all three, each in a process of its own
    python -m benchmarks run speed.concepts cub pairs          # CUB's size: main effects at all defaults; all 38,503 pairs
    python -m benchmarks run speed.concepts birds              # iNaturalist's size: one epoch of main effects
    python -m benchmarks run speed.concepts birds --rows 20000 --classes 300

Scores are drawn: without pictures there are none. CUB's (`datasets.paper.cub`) have its real classes, split and shares
of a class's pictures that show a concept. Further birds are made of these: each has every concept's share from one of
two of CUB's classes. "the shares" tells classes by the shares that the scores were drawn from, as well as can be done.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, replace

import numpy as np
from scipy.stats import norm

from neuralbasis import NeuralBasisClassifier

from ..datasets import paper
from ..datasets.paper.cub import SHARES, SHOWN, find_concepts
from ..datasets.paper.source import data_folder
from ..harness import run_child
from ..results.markdown import format_number, format_verdict, print_table
from .resources import PeakMemory, median_seconds, resident_mb, time_once

PIECE = 20_000  # rows that are drawn, and judged, at a time


@dataclass(frozen=True)
class Case:
    """What is fitted to how many rows, and what it should take at most: seconds, MB; and rows/s that it predicts."""

    title: str
    n_rows: int
    n_test: int
    n_columns: int
    n_classes: int
    options: dict
    max_seconds: float
    max_mb: float
    min_speed: float | None = None


CASES = {
    "cub": Case("CUB's size, main effects and pairs at all defaults", 5_994, 5_794, 278, 200, {}, 120, 4_000),
    "pairs": Case("CUB's size, all pairs", 5_994, 5_794, 278, 200, {"interactions": "all"}, 1_800, 10_000),
    "birds": Case(
        "iNaturalist's size, main effects, one epoch", 414_847, 100_000, 278, 1_486,
        {"interactions": 0, "max_epochs": 1}, 600, 8_000, 74_000,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Figures:
    """What a fit took and reached, beside what the shares themselves tell."""

    fit_seconds: float
    before_mb: float
    peak_mb: float
    n_members: int
    n_terms: int
    rows_per_second: float
    accuracy: float
    log_loss: float
    best_accuracy: float


@dataclass(frozen=True, eq=False)
class Birds:
    """Rows to fit and to test on, and the shares (classes, concepts) that they were drawn from."""

    X: np.ndarray
    y: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray
    shares: np.ndarray


def read_shares() -> np.ndarray:
    """(200, 278) shares of CUB's pictures that show a concept; drawn ones where its files are absent."""
    folder = data_folder() / "cub"
    if not (folder / SHARES).exists():
        return np.random.default_rng(0).beta(0.2, 1.0, (200, 278))
    return np.loadtxt(folder / SHARES, ndmin=2)[:, find_concepts(folder / "attributes.txt")] / 100


def draw_birds(case: Case) -> Birds:
    """CUB's own rows where the case has its size; otherwise rows of as many classes as are requested."""
    shares, rng = read_shares()[:, : case.n_columns], np.random.default_rng(1)
    if case.n_classes == len(shares) and case.n_columns == 278 and not paper.find_missing("cub"):
        splits = paper.load("cub")
        train, valid, test = splits.parts
        return Birds(np.concatenate([train.X, valid.X]), np.r_[train.y, valid.y], test.X, test.y, shares)
    if case.n_classes > len(shares):
        parents = rng.integers(len(shares), size=(case.n_classes, 2))
        mixed = np.where(rng.random((case.n_classes, shares.shape[1])) < 0.5, *shares[parents].swapaxes(0, 1))
        shares = np.concatenate([shares, mixed[len(shares) :]])
    shares, n_rows = shares[: case.n_classes], case.n_rows + case.n_test
    y = rng.permutation(np.arange(n_rows) % case.n_classes)
    X = np.empty((n_rows, shares.shape[1]), dtype=np.float32)
    for first in range(0, n_rows, PIECE):
        chances = shares[y[first : first + PIECE]]
        shown = rng.random(chances.shape, dtype=np.float32) < chances
        X[first : first + PIECE] = SHOWN * shown + rng.standard_normal(chances.shape, dtype=np.float32)
    return Birds(X[: case.n_rows], y[: case.n_rows], X[case.n_rows :], y[case.n_rows :], shares)


def judge_by_shares(birds: Birds, n_rows: int = 2_000) -> float:
    """Accuracy of telling rows by the densities that they were drawn from."""
    X, chances = birds.test_X[:n_rows].astype(float), birds.shares.clip(1e-3, 1 - 1e-3)
    ratio = norm.pdf(X - SHOWN) / norm.pdf(X)
    found = np.stack([np.log1p(share * (ratio - 1)).sum(axis=1) for share in chances], axis=1)
    return float((found.argmax(axis=1) == birds.test_y[:n_rows]).mean())


def measure_here(case: Case) -> Figures:
    birds = draw_birds(case)
    small = NeuralBasisClassifier(max_steps=2, outer_bags=2, tied_classes=True, interactions=2)
    small.fit(birds.X[:300, :5], birds.y[:300] % 3).predict(birds.X[:300, :5])  # loads the compiled loops
    before = resident_mb()
    with PeakMemory() as memory:
        seconds, model = time_once(lambda: NeuralBasisClassifier(random_state=0, **case.options).fit(birds.X, birds.y))
    speed = len(birds.test_X) / median_seconds(lambda: model.predict(birds.test_X), 3)
    accuracy = float((model.predict(birds.test_X) == birds.test_y).mean())
    pieces = [slice(first, first + PIECE) for first in range(0, len(birds.test_y), PIECE)]
    losses = np.concatenate([
        -np.log(model.predict_proba(birds.test_X[some])[np.arange(len(birds.test_y[some])), birds.test_y[some]])
        for some in pieces
    ])  # fmt: skip
    n_members = model.model_.shapes[0].mix.shape[1] if hasattr(model.model_.shapes[0], "mix") else 0
    return Figures(
        seconds, before, memory.mb, n_members, len(model.model_.shapes), speed, accuracy, float(losses.mean()),
        judge_by_shares(birds),
    )  # fmt: skip


def print_figures(case: Case, found: Figures) -> None:
    print(f"{case.title}: {case.n_rows:,} rows × {case.n_columns} concepts (drawn), {case.n_classes:,} classes\n")
    limit = None if case.min_speed is None else found.rows_per_second >= case.min_speed
    print_table(
        ["concepts", "value", "target", "verdict"],
        [
            ["fit, seconds", format_number(found.fit_seconds), f"≤ {case.max_seconds:,g}",
             format_verdict(found.fit_seconds <= case.max_seconds)],
            ["fit, peak MB with the table", format_number(found.peak_mb), f"≤ {case.max_mb:,g}",
             format_verdict(found.peak_mb <= case.max_mb)],
            ["MB before the fit", format_number(found.before_mb), "–", "–"],
            ["predict, rows/s", format_number(found.rows_per_second),
             "–" if case.min_speed is None else f"≥ {case.min_speed:,g}", format_verdict(limit)],
            ["terms", f"{found.n_terms:,}", "–", "–"],
            ["members (0: each class has tables of its own)", str(found.n_members), "–", "–"],
            ["accuracy", f"{found.accuracy:.4f}", "–", "–"],
            ["log loss", f"{found.log_loss:.4f}", "–", "–"],
            ["accuracy of the shares", f"{found.best_accuracy:.4f}", "–", "–"],
        ],
    )  # fmt: skip
    print()


def read_case(name: str, given: argparse.Namespace) -> Case:
    case = CASES[name]
    if given.quick:
        options = {"tied_classes": True, **({} if "max_epochs" in case.options else {"max_steps": 4}), **case.options}
        return replace(case, n_rows=600, n_test=300, n_columns=6, n_classes=60, options=options)
    requested = {"n_rows": given.rows, "n_columns": given.columns, "n_classes": given.classes}
    return replace(case, **{name: value for name, value in requested.items() if value is not None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", type=int)
    parser.add_argument("--classes", type=int)
    parser.add_argument("--quick", action="store_true", help="tiny tables")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        print(json.dumps(asdict(measure_here(Case(**json.loads(given.child))))))
        return
    if strange := set(given.cases) - set(CASES):
        parser.error(f"there is no case {sorted(strange)[0]!r}; there are {', '.join(CASES)}")
    for name in given.cases:
        case = read_case(name, given)
        print_figures(case, Figures(**json.loads(run_child("benchmarks.speed.concepts", json.dumps(asdict(case))))))


if __name__ == "__main__":
    main()
