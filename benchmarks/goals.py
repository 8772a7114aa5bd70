"""The targets of the paper's experiments, judged from the lines of `paper.jsonl`."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from .results import (
    NO_DATA,
    NO_PACKAGE,
    Results,
    is_at_least_as_good,
    match_count,
    read_count,
    write_published,
    write_values,
)
from .stability import measure_stability
from .table import judge, write_number, write_table
from .tables import TABLES, Cell, Row, Table, find_job, read_data, read_table

REPRODUCED = ("ca_housing", "NBM", "paper")
BEATEN = ("ca_housing", "fico", "covertype", "newsgroups")
TIMED = ("ca_housing", "fico", "covertype")
MODELS = 100  # of fewer, the spread is told but not judged

Goal = tuple[str, str, str]  # target, figure, verdict


def write_targets(results: Results) -> str:
    goals = [
        judge_reproduced(results), *judge_beaten(results), judge_parameters(results), *tell_throughput(results),
        *judge_stability(results), count_cells(results),
    ]  # fmt: skip
    return write_table(["target", "figure", "verdict"], goals)


def find_cell(table: Table, data: str, model: str, variant: str) -> tuple[Row, Cell]:
    """The first cell of these names, and its row."""
    cell = next(cell for cell in table.list_cells() if (cell.data, cell.model, cell.variant) == (data, model, variant))
    return table.find_row(cell), cell


def judge_reproduced(results: Results) -> Goal:
    """Two deviations of the published figure, or better."""
    row, cell = find_cell(read_table("comparison"), *REPRODUCED)
    mean, deviation = row.published[cell.data]
    values, options = results.find_values(cell), find_job(cell).options
    met = statistics.fmean(values) <= mean + 2 * deviation if values else None
    target = (
        f"exact engine, the paper's settings ({options['epochs']:,} epochs, batches of {options['batch_size']:,}): "
        f"NBM on CA Housing within two deviations of {write_published(row, cell.data)}, or better"
    )
    return target, write_values(values, cell.data), judge(met)


def judge_beaten(results: Results) -> Iterator[Goal]:
    """Our defaults at the published figure or better."""
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
            yield target, write_values(values, data), judge(is_at_least_as_good(values, row, data))


def judge_parameters(results: Results) -> Goal:
    verdicts = []
    table = read_table("params_and_throughput")
    for row in table.rows:
        for data, published in row.parameters.items():
            lines = results.find(find_cell(table, data, row.model, "network")[1])
            verdicts.append(match_count(lines[-1]["parameters"], published) if lines else "not run")
    n_equal = sum(verdict.startswith("equal") for verdict in verdicts)
    figure = (
        f"{n_equal} of {len(verdicts)}, {verdicts.count('equal, cut')} of them cut, {verdicts.count('not run')} not run"
    )
    met = None if "not run" in verdicts and "differs" not in verdicts else n_equal == len(verdicts)
    return "parameters equal to the published rounding", figure, judge(met)


def tell_throughput(results: Results) -> Iterator[Goal]:
    """Ratios that are reported, not judged."""
    table = read_table("params_and_throughput")
    for data in TIMED:
        speeds = {}
        for model, variant in (("NAM", "network"), ("NBM", "network"), ("NBM", "compiled")):
            row, cell = find_cell(table, data, model, variant)
            lines = results.find(cell)
            speeds[model, variant] = lines[-1].get("rows_per_second") if lines else None
        compiled, paper = speeds.pop(("NBM", "compiled")), read_count(row.throughput[data])
        ratios = [
            f"{write_number(compiled / speed, 2) if compiled and speed else '–'} × {model} as a network"
            for (model, _), speed in speeds.items()
        ]
        share = f"{write_number(compiled / paper, 2) if compiled else '–'} × the paper's V100 ({row.throughput[data]})"
        figure = "; ".join([f"{write_number(compiled)} rows/s", *ratios, share])
        yield f"compiled NBM, {read_data()[data].name}: rows a second beside networks", figure, "reported"


def judge_stability(results: Results) -> Iterator[Goal]:
    table = read_table("shape_functions")
    for row in table.rows:
        for variant in row.minutes:
            cell = find_cell(table, "ca_housing", row.model, variant)[1]
            found = measure_stability(results.find(cell))
            limit = row.published["ca_housing"][0]
            even = None if found is None else found.overall["even steps"]
            figure = "not run" if found is None else f"{write_number(even)} ({found.n_models} models)"
            met = None if found is None or found.n_models < MODELS else even <= limit
            target = f"stability, {row.model}, {variant}, {MODELS} models: at most the paper's {limit:.4f}"
            yield target, figure, judge(met) if row.model == "NBM" else "reported"


def count_cells(results: Results) -> Goal:
    """How much of what data and packages allow has a figure."""
    cells = [cell for name in TABLES for cell in read_table(name).list_cells() if cell.seed == 0]
    able = [cell for cell in cells if results.find(cell) or results.explain(cell) not in (NO_DATA, NO_PACKAGE)]
    n_run = sum(bool(results.find(cell)) for cell in able)
    figure = f"{n_run} of {len(able)} cells that data and packages allow have a figure, of {len(cells)} in all"
    return "everything that data allow", figure, "reported"
