"""The report of the laboratory as Markdown, and our targets with their verdicts."""

from __future__ import annotations

import os
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ..results.markdown import format_mean, format_number, format_table, format_verdict
from .comparison import (
    MIN_LOG_LOSS,
    Comparison,
    Place,
    Records,
    divide,
    find_means,
    list_comparisons,
    read_family,
    read_loss,
)
from .measure import Record
from .studies import read_values
from .targets import Target, at_least, at_least_ebm, at_most, at_most_ebm

FindSources = Callable[[Comparison], str]  # the mark of the source versions of a comparison
# metric -> decimals
FIGURES = {"loss": 4, "readability": 2, "auroc": 4, "average_precision": 4, "fit seconds": 2, "peak MB": 0}


@dataclass(frozen=True)
class Run:
    """Outcome of a run: records by learner, reasons by failed cell, places of cells that did not start, and reasons of
    learners and problems that are not available."""

    records: Mapping[str, Records]
    failed: Mapping[str, str] = field(default_factory=dict)
    missing: Sequence[Place] = ()
    absent: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Goal:
    """A target for two learners; `read` returns our figure, and the other's if the target compares."""

    name: str
    names: tuple[str, str]
    read: Callable[[Comparison], tuple[float | None, float | None]]
    target: Target


def read_shape_error(family: str) -> Callable[[Comparison], tuple[float | None, None]]:
    return lambda each: (each.shape_errors[family].mean if family in each.shape_errors else None, None)


def read_fraud(each: Comparison) -> tuple[float | None, float | None]:
    return find_means([pair for pair in each.pairs if pair.problem == "fraud"], "average_precision")


MAINS = ("ours mains", "EBM mains")
SHAPE_TARGETS = {"smooth": 0.7, "jumps": 1.0, "spikes": 1.0}
GOALS = (
    Goal("loss, geometric mean", ("ours", "EBM"), lambda each: (each.overall.mean, None), at_most(0.99)),
    Goal("share better or tied", ("ours", "EBM"), lambda each: (each.share, None), at_least(0.85)),
    Goal("loss, worst problem", ("ours", "EBM"), lambda each: (each.worst[1], None), at_most(1.02)),
    Goal("fit seconds", ("ours", "EBM"), lambda each: (each.seconds, None), at_most(1 / 5)),
    Goal("fit seconds", ("ours fast", "EBM"), lambda each: (each.seconds, None), at_most(1 / 20)),
    Goal("share better or tied", ("ours", "XGBoost"), lambda each: (each.share, None), at_least(0.6)),
    Goal("fraud, average precision", ("ours", "EBM"), read_fraud, at_least_ebm()),
    *[
        Goal(f"shape error, {family}", MAINS, read_shape_error(family), at_most(limit))
        for name, limit in SHAPE_TARGETS.items() for family in (name, f"{name}_binary")
    ],
    Goal("calibration error", ("ours", "EBM"), lambda each: each.means("calibration"), at_most_ebm()),
    Goal("change with the seed", ("ours", "EBM"), lambda each: (each.seed_change, None), at_most(1 / 2)),
    Goal("change with the seed", MAINS, lambda each: (each.seed_change, None), at_most(1 / 2)),
)  # fmt: skip


def write_report(run: Run, command: str) -> str:
    groups = list_comparisons(run.records)
    parts = [
        write_header(run, command),
        list_missing(run),
        section("Comparisons", write_summary(groups)),
        *[
            section(f"{each.title}, {group} problems", write_problems(each))
            for group, comparisons in groups.items() for each in comparisons
        ],
        *[
            section(f"Shapes of {each.title}, by family", write_shapes(each))
            for each in groups.get("generated", []) if each.shape_errors
        ],
        *[section(f"Figures: {metric.replace('_', ' ')}", write_figures(run.records, metric)) for metric in FIGURES],
        section("Targets", write_goals(groups)),
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part) + "\n"


def section(title: str, text: str) -> str:
    return f"## {title}\n\n{text}" if text else ""


def write_header(run: Run, command: str) -> str:
    records = [record for places in run.records.values() for record in places.values()]
    load = f"; load before a fit {statistics.median(r.load for r in records):.1f} (median)" if records else ""
    lines = [
        "# Laboratory",
        f"`{command}`",
        "; ".join([f"{os.cpu_count()} cores", *write_versions(records)]),
        f"{len(records)} cells measured, {len(run.failed)} failed, {len(run.missing)} missing{load}",
        "Ratios of losses (RMSE, log loss): below 1 the first learner is better. A problem is better or worse if "
        f"the 95 % interval over its splits excludes 1. Log losses below {MIN_LOG_LOSS:g} count as that value.",
    ]
    return "\n\n".join(lines)


def write_versions(records: Sequence[Record]) -> list[str]:
    """Each package with all versions among the records."""
    packages = dict.fromkeys(name for record in records for name in record.versions)
    found = {name: sorted({record.versions.get(name, "absent") for record in records}) for name in packages}
    return [f"{name} {' and '.join(versions)}" for name, versions in found.items()]


def list_missing(run: Run) -> str:
    """Cells that are not in the tables, with the reason."""
    lines = [f"- {name}: not run, {reason}" for name, reason in run.absent.items()]
    lines += [f"- {cell}: failed, {reason}" for cell, reason in run.failed.items()]
    for split in dict.fromkeys(split for _, split in run.missing):
        counts = Counter(problem for problem, at in run.missing if at == split)
        cells = ", ".join(f"{problem} ({count})" for problem, count in counts.items())
        lines.append(f"- split {split}, not started within the budget: {cells}")
    return "\n".join(lines)


def write_summary(groups: Mapping[str, Sequence[Comparison]], find_sources: FindSources | None = None) -> str:
    header = [
        "loss", "problems", "number", "geometric mean", "95 % interval", "of means", "better", "tied", "worse",
        "better or tied", "worst", "of", "fit seconds", "calibration", "theirs", "seed change", "readability",
    ]  # fmt: skip
    rows = [
        [*summarise(group, each), *([find_sources(each)] if find_sources else [])]
        for group, comparisons in groups.items() for each in comparisons
    ]  # fmt: skip
    return format_table([*header, *(["source"] if find_sources else [])], rows) if rows else ""


def summarise(group: str, each: Comparison) -> list[str]:
    problem, worst = each.worst
    return [
        each.title, group, str(len(each.problems)), f"{each.overall.mean:.3f}", each.overall.write_interval(),
        f"{each.of_means:.3f}", *[str(each.counts[verdict]) for verdict in ("better", "tied", "worse")],
        "–" if each.share is None else f"{each.share:.0%}", f"{worst:.3f}", problem, format_number(each.seconds),
        *[format_number(mean) for mean in each.means("calibration")], format_number(each.seed_change),
        format_number(each.readability),
    ]  # fmt: skip


def write_problems(each: Comparison) -> str:
    header = ["problem", "splits", *each.names, "ratio", "95 % interval", "verdict"]
    rows = []
    for problem, pairs in each.group(lambda problem: problem).items():
        ratio = each.problems[problem]
        ours = statistics.fmean(read_loss(pair.ours) for pair in pairs)
        theirs = statistics.fmean(read_loss(pair.theirs) for pair in pairs)
        losses = format_number(ours, 4), format_number(theirs, 4)
        rows.append([problem, str(len(pairs)), *losses, f"{ratio.mean:.3f}", ratio.write_interval(), ratio.verdict])
    return format_table(header, rows)


def write_shapes(each: Comparison) -> str:
    """Shape metrics by family. The ratio of errors is a geometric mean, the ratio of spreads is of means."""
    figures = ("error", "roughness", "spread")
    header = ["family", *[f"{figure}, {name}" for figure in figures for name in each.names]]
    rows = []
    for family, pairs in each.group(read_family).items():
        if family in each.shape_errors:
            means = [find_means(pairs, name) for name in ("shape_error", "roughness", "shape_spread")]
            ratio = each.shape_errors[family]
            numbers = [format_number(mean) for both in means for mean in both]
            rows.append(
                [family, *numbers, f"{ratio.mean:.3f}", ratio.write_interval(), format_number(divide(*means[2]))]
            )
    return format_table([*header, "ratio of errors", "95 % interval", "ratio of spreads"], rows)


def write_figures(records: Mapping[str, Records], metric: str) -> str:
    """Means over splits of one metric: one row per problem, one column per learner."""
    problems = dict.fromkeys(problem for places in records.values() for problem, _ in places)
    rows = []
    for problem in problems:
        found = [
            read_figures([record for (name, _), record in places.items() if name == problem], metric)
            for places in records.values()
        ]
        if any(found):
            rows.append([problem, *[format_mean(values, FIGURES[metric]) if values else "–" for values in found]])
    return format_table(["problem", *records], rows) if rows else ""


def read_figures(records: Sequence[Record], metric: str) -> list[float]:
    """AUROC is reported for two classes only: records with an average precision. Readability is in ours only."""
    if metric == "loss":
        return [read_loss(record) for record in records]
    if metric in ("auroc", "average_precision", "readability"):
        needed = "readability" if metric == "readability" else "average_precision"
        records = [record for record in records if needed in record.metrics]
    return read_values(records, metric)


def write_goals(groups: Mapping[str, Sequence[Comparison]], find_sources: FindSources | None = None) -> str:
    """Our targets that the run has figures for."""
    rows = []
    for goal in GOALS:
        for group, comparisons in groups.items():
            for each in comparisons:
                ours, theirs = goal.read(each) if each.names == goal.names else (None, None)
                met = goal.target.check(ours, theirs)
                if met is not None:
                    figures = format_number(ours), format_number(theirs)
                    source = [find_sources(each)] if find_sources else []
                    rows.append(
                        [goal.name, each.title, group, *figures, goal.target.text, *source, format_verdict(met)]
                    )
    header = [
        "target",
        "learners",
        "problems",
        "figure",
        "EBM",
        "target",
        *(["source"] if find_sources else []),
        "verdict",
    ]
    return format_table(header, rows) if rows else ""
