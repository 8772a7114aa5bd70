"""Targets of the paper's experiments and their verdicts, from the records of paper.jsonl."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..results.markdown import format_number, format_table, format_verdict
from ..results.source_versions import VersionIndex
from .results import (
    Record,
    Results,
    format_published,
    format_values,
    is_at_least_as_good,
    is_reduced,
    list_versions,
    match_count,
    read_count,
)
from .stability import MODELS, measure_stability
from .tables import Cell, Row, Table, find_job, read_data, read_table

REPRODUCED = ("ca_housing", "NBM", "paper")
BEATEN = ("ca_housing", "fico", "covertype", "newsgroups")
TIMED = ("ca_housing", "fico", "covertype")


@dataclass(frozen=True)
class Goal:
    """A target, our figure, the verdict, and the records behind the figure."""

    target: str
    figure: str
    verdict: str
    records: Sequence[Record] = ()


def write_targets(results: Results, index: VersionIndex) -> str:
    goals = [
        judge_reproduced(results), *judge_beaten(results), judge_parameters(results), *report_throughput(results),
        *judge_stability(results),
    ]  # fmt: skip
    rows = [[goal.target, goal.figure, index.mark(list_versions(goal.records)), goal.verdict] for goal in goals]
    return format_table(["target", "figure", "source", "verdict"], rows)


def find_cell(table: Table, data: str, model: str, variant: str) -> tuple[Row, Cell]:
    """The first cell of these names, and its row."""
    cell = next(cell for cell in table.list_cells() if (cell.data, cell.model, cell.variant) == (data, model, variant))
    return table.find_row(cell), cell


def judge_reproduced(results: Results) -> Goal:
    """Within two deviations of the published figure, or better."""
    row, cell = find_cell(read_table("comparison"), *REPRODUCED)
    mean, deviation = row.published[cell.data]
    values, options = results.find_values(cell), find_job(cell).options
    met = statistics.fmean(values) <= mean + 2 * deviation if values else None
    target = (
        f"exact engine with the paper's settings ({options['epochs']:,} epochs, batches of {options['batch_size']:,}): "
        f"NBM on CA Housing within two deviations of {format_published(row, cell.data)}, or better"
    )
    return Goal(target, format_values(values, cell.data), format_verdict(met), results.find(cell))


def judge_beaten(results: Results) -> Iterator[Goal]:
    """Our defaults reach the published figure."""
    for model in ("NBM", "NB²M"):
        for data in BEATEN:
            table = read_table("comparison")
            if not any(row.model == model and data in row.published for row in table.rows):
                continue
            row, cell = find_cell(table, data, model, "default")
            values, found = results.find_values(cell), read_data()[data]
            sign = "≤" if found.lower_is_better else "≥"
            limit = f"{found.metric} {sign} {row.published[data][0]:.{found.places}f}"
            target = f"{model} at our defaults, {found.name}: {limit}"
            verdict = format_verdict(is_at_least_as_good(values, row, data))
            yield Goal(target, format_values(values, data), verdict, results.find(cell))


def judge_parameters(results: Results) -> Goal:
    verdicts, used = [], []
    table = read_table("params_and_throughput")
    for row in table.rows:
        for data, published in row.parameters.items():
            lines = results.find(find_cell(table, data, row.model, "network")[1])
            verdicts.append(match_count(lines[-1]["parameters"], published) if lines else "not run")
            used += lines[-1:]
    n_equal = sum(verdict.startswith("equal") for verdict in verdicts)
    n_cut, n_missing = verdicts.count("equal, cut"), verdicts.count("not run")
    figure = f"{n_equal} of {len(verdicts)}, {n_cut} of them truncated, {n_missing} not run"
    met = None if "not run" in verdicts and "differs" not in verdicts else n_equal == len(verdicts)
    return Goal("numbers of parameters equal to the published ones", figure, format_verdict(met), used)


def report_throughput(results: Results) -> Iterator[Goal]:
    """Ratios without a verdict."""
    table = read_table("params_and_throughput")
    for data in TIMED:
        speeds, used = {}, []
        for model, variant in (("NAM", "network"), ("NBM", "network"), ("NBM", "compiled")):
            row, cell = find_cell(table, data, model, variant)
            lines = results.find(cell)
            speeds[model, variant] = lines[-1].get("rows_per_second") if lines else None
            used += lines[-1:]
        compiled, paper = speeds.pop(("NBM", "compiled")), read_count(row.throughput[data])
        ratios = [
            f"{format_number(compiled / speed, 2) if compiled and speed else '–'} × {model} network"
            for (model, _), speed in speeds.items()
        ]
        share = f"{format_number(compiled / paper, 2) if compiled else '–'} × the paper's V100 ({row.throughput[data]})"
        figure = "; ".join([f"{format_number(compiled)} rows/s", *ratios, share])
        yield Goal(f"compiled NBM, {read_data()[data].name}: rows per second", figure, "reported", used)


def judge_stability(results: Results) -> Iterator[Goal]:
    table = read_table("shape_functions")
    for row in table.rows:
        for variant in row.minutes:
            cell = find_cell(table, "ca_housing", row.model, variant)[1]
            records = results.find(cell)
            found = measure_stability(records)
            limit = row.published["ca_housing"][0]
            even = None if found is None else found.overall["even steps"]
            figure = "not run" if found is None else f"{format_number(even)} ({found.n_models} models)"
            is_complete = found is not None and found.n_models >= MODELS and not is_reduced(cell, records)
            met = even <= limit if is_complete else None
            target = f"stability, {row.model}, {variant}, {MODELS} models: at most the paper's {limit:.4f}"
            verdict = format_verdict(met) if row.model == "NBM" else "reported"
            yield Goal(target, figure, verdict, records)
