"""Classification by concepts at the paper's sizes: bird species from 278 scores such as "has_wing_pattern::striped".

    python -m benchmarks run speed.concepts           # size of CUB, all defaults
    python -m benchmarks run speed.concepts.pairs     # size of CUB, all 38,503 pairs
    python -m benchmarks run speed.concepts.birds     # size of iNaturalist: one epoch of main effects

Scores are drawn, since images are not available. For CUB (`datasets.paper.cub`), classes, split and the share of a
class's images that show a concept are real. Further species combine the shares of two of CUB's classes. "accuracy of
the shares" is that of the classifier that knows all shares and the density of the scores, the best without
interactions.
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

PIECE = 20_000  # rows drawn and scored at a time


@dataclass(frozen=True)
class Case:
    """Size of a table, options of the fit, and targets: seconds, MB, and rows per second of prediction."""

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
    """Cost and accuracy of a fit, and the accuracy of the true distribution."""

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
    """Training and test rows, and the shares (classes, concepts) they were drawn from."""

    X: np.ndarray
    y: np.ndarray
    test_X: np.ndarray
    test_y: np.ndarray
    shares: np.ndarray


def read_shares() -> np.ndarray:
    """(200, 278) shares of CUB's images that show a concept; random ones if its files are not available."""
    folder = data_folder() / "cub"
    if not (folder / SHARES).exists():
        return np.random.default_rng(0).beta(0.2, 1.0, (200, 278))
    return np.loadtxt(folder / SHARES, ndmin=2)[:, find_concepts(folder / "attributes.txt")] / 100


def draw_birds(case: Case) -> Birds:
    """CUB's own rows if the case has its size; otherwise rows of the requested number of classes."""
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
        probabilities = shares[y[first : first + PIECE]]
        shown = rng.random(probabilities.shape, dtype=np.float32) < probabilities
        X[first : first + PIECE] = SHOWN * shown + rng.standard_normal(probabilities.shape, dtype=np.float32)
    return Birds(X[: case.n_rows], y[: case.n_rows], X[case.n_rows :], y[case.n_rows :], shares)


def score_by_shares(birds: Birds, n_rows: int = 2_000) -> float:
    """Accuracy of the classifier that uses the true densities of the scores."""
    X, shares = birds.test_X[:n_rows].astype(float), birds.shares.clip(1e-3, 1 - 1e-3)
    ratio = norm.pdf(X - SHOWN) / norm.pdf(X)
    found = np.stack([np.log1p(share * (ratio - 1)).sum(axis=1) for share in shares], axis=1)
    return float((found.argmax(axis=1) == birds.test_y[:n_rows]).mean())


def measure_here(case: Case) -> Figures:
    birds = draw_birds(case)
    small = NeuralBasisClassifier(max_steps=2, outer_bags=2, network__tied_classes=True, interactions=2)
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
        score_by_shares(birds),
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
            ["members (0: each class has its own tables)", str(found.n_members), "–", "–"],
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
    if unknown := set(given.cases) - set(CASES):
        parser.error(f"there is no case {sorted(unknown)[0]!r}; there are {', '.join(CASES)}")
    for name in given.cases:
        case = read_case(name, given)
        print_figures(case, Figures(**json.loads(run_child("benchmarks.speed.concepts", json.dumps(asdict(case))))))


if __name__ == "__main__":
    main()
