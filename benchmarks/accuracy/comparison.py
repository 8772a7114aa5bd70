"""Comparison of two learners on the splits that both have.

The loss of a record is its RMSE or log loss. A problem's figure is the geometric mean of the ratios of the two losses
over its splits, with a 95 % interval from resampled splits. The figure of many problems is the geometric mean of
theirs, with an interval from resampled problems. The geometric mean of the ratios of mean losses is given as well: in
it, a split without an error has no more weight than any other. Below 1 the first learner is better.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .. import datasets
from .measure import Record

N_RESAMPLES = 10_000
MIN_LOG_LOSS = 1e-3  # smaller values count as this: their ratios are meaningless
COMPARISONS = (
    ("ours", "EBM"), ("ours mains", "EBM mains"), ("ours", "XGBoost"), ("ours", "HistGradientBoosting"),
    ("ours mains", "linear"), ("ours fast", "EBM"), ("ours fast mains", "EBM mains"), ("ours best", "EBM"),
)  # fmt: skip
GROUPS = {
    "real": lambda key: not (datasets.is_generated(key) or datasets.is_drawn(key) or key in datasets.TABLES),
    "choosing": lambda key: key in datasets.CHOOSING,
    "judging": lambda key: key in datasets.JUDGING,
    "drawn": datasets.is_drawn,
    "generated": datasets.is_generated,
}

Place = tuple[str, int]  # problem, split
Records = Mapping[Place, Record]


@dataclass(frozen=True)
class Ratio:
    """A geometric mean, with two values or more also its 95 % interval."""

    mean: float
    low: float | None = None
    high: float | None = None

    @property
    def verdict(self) -> str:
        if self.low is None or self.high is None:
            return "–"
        return "better" if self.high < 1 else "worse" if self.low > 1 else "tied"

    def write_interval(self) -> str:
        return "–" if self.low is None else f"{self.low:.3f} to {self.high:.3f}"


def find_ratio(ratios: Sequence[float]) -> Ratio:
    """Geometric mean of ratios; the interval is a bootstrap of the mean logarithm."""
    logs = np.log(ratios)
    mean = float(np.exp(logs.mean()))
    if len(logs) < 2:
        return Ratio(mean)
    draws = np.random.default_rng(0).integers(len(logs), size=(N_RESAMPLES, len(logs)))
    low, high = np.exp(np.percentile(logs[draws].mean(axis=1), [2.5, 97.5]))
    return Ratio(mean, float(low), float(high))


def read_loss(record: Record) -> float:
    metrics = record.metrics
    return metrics["rmse"] if "rmse" in metrics else max(metrics["log_loss"], MIN_LOG_LOSS)


@dataclass(frozen=True)
class Pair:
    """Records of two learners on one split of a problem."""

    problem: str
    ours: Record
    theirs: Record


@dataclass(frozen=True)
class Comparison:
    """Two learners on the splits that both have."""

    names: tuple[str, str]
    pairs: Sequence[Pair]

    @property
    def title(self) -> str:
        return " / ".join(self.names)

    @cached_property
    def problems(self) -> dict[str, Ratio]:
        return {
            problem: find_ratio([read_loss(pair.ours) / read_loss(pair.theirs) for pair in pairs])
            for problem, pairs in self.group(lambda problem: problem).items()
        }

    @cached_property
    def overall(self) -> Ratio:
        return find_ratio([ratio.mean for ratio in self.problems.values()])

    @cached_property
    def of_means(self) -> float:
        """Geometric mean over problems of (our mean loss / their mean loss)."""
        sums = [
            (sum(read_loss(pair.ours) for pair in pairs), sum(read_loss(pair.theirs) for pair in pairs))
            for pairs in self.group(lambda problem: problem).values()
        ]
        return statistics.geometric_mean(ours / theirs for ours, theirs in sums)

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(ratio.verdict for ratio in self.problems.values())

    @property
    def share(self) -> float | None:
        """Share of the problems with a verdict that are better or tied."""
        n_judged = self.counts["better"] + self.counts["tied"] + self.counts["worse"]
        return 1 - self.counts["worse"] / n_judged if n_judged else None

    @property
    def worst(self) -> tuple[str, float]:
        return max(((problem, ratio.mean) for problem, ratio in self.problems.items()), key=lambda found: found[1])

    @property
    def seconds(self) -> float:
        """Our total fit seconds over theirs."""
        return sum(pair.ours.fit_seconds for pair in self.pairs) / sum(pair.theirs.fit_seconds for pair in self.pairs)

    @property
    def seed_change(self) -> float | None:
        """Our mean change with the seed over theirs."""
        return divide(*self.means("seed_change"))

    def group(self, name: Callable[[str], str]) -> dict[str, list[Pair]]:
        """Pairs grouped by a name derived from the problem."""
        found: dict[str, list[Pair]] = {}
        for pair in self.pairs:
            found.setdefault(name(pair.problem), []).append(pair)
        return found

    def means(self, metric: str) -> tuple[float | None, float | None]:
        """Means of a metric over the pairs that have it."""
        return find_means(self.pairs, metric)

    @property
    def readability(self) -> float | None:
        """Mean of the first learner over the records that have it: 0 if its curves have at most two turns."""
        found = [pair.ours.metrics["readability"] for pair in self.pairs if "readability" in pair.ours.metrics]
        return statistics.fmean(found) if found else None

    @cached_property
    def shape_errors(self) -> dict[str, Ratio]:
        """Family -> ratio of the shape errors."""
        found = {}
        for family, pairs in self.group(read_family).items():
            both = [(pair.ours.metrics, pair.theirs.metrics) for pair in pairs]
            ratios = [a["shape_error"] / b["shape_error"] for a, b in both if "shape_error" in a and "shape_error" in b]
            if ratios:
                found[family] = find_ratio(ratios)
        return found


def find_means(pairs: Sequence[Pair], metric: str) -> tuple[float | None, float | None]:
    both = [(pair.ours.metrics.get(metric), pair.theirs.metrics.get(metric)) for pair in pairs]
    both = [pair for pair in both if None not in pair]
    return tuple(statistics.fmean(values) for values in zip(*both, strict=True)) if both else (None, None)


def divide(ours: float | None, theirs: float | None) -> float | None:
    return ours / theirs if ours is not None and theirs else None


def read_family(problem: str) -> str:
    return problem.partition("/")[0]


def compare(records: Mapping[str, Records], names: tuple[str, str]) -> Comparison:
    ours, theirs = (records.get(name, {}) for name in names)
    return Comparison(names, [Pair(place[0], ours[place], theirs[place]) for place in ours if place in theirs])


def list_comparisons(records: Mapping[str, Records]) -> dict[str, list[Comparison]]:
    """All comparisons with records, by group of problems."""
    found = {}
    for group, belongs in GROUPS.items():
        chosen = {
            name: {place: record for place, record in places.items() if belongs(place[0])}
            for name, places in records.items()
        }
        tried = [(name, name.partition(": ")[0]) for name in chosen if ": " in name]
        found[group] = [each for each in (compare(chosen, names) for names in (*COMPARISONS, *tried)) if each.pairs]
    return {group: comparisons for group, comparisons in found.items() if comparisons}
