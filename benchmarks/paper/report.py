"""The paper's part of the report: measured rows of each table, and a list of all cells with their commands."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence

from ..results.markdown import format_number, format_table
from ..results.source_versions import VersionIndex
from .results import (
    Record,
    Results,
    evaluate_curve,
    format_minutes,
    format_published,
    format_values,
    is_at_least_as_good,
    list_versions,
    match_count,
)
from .stability import measure_stability
from .tables import Cell, Row, Table, read_data

DRAWN = ("shape_functions", "num_bases", "params", "params_multi_class")  # tables that `plots` draws
FIT_LEGEND = (
    "Mean ± standard deviation over seeds, number of seeds in parentheses. **Bold**: reaches the published figure. The "
    "paper does not publish its rows or the seed of its splits, so test rows differ. Our estimators (`default`, "
    "`large`), EBM and NODE-GAM get training and validation rows together, in raw columns. All others train on the "
    "prepared training rows only."
)


def write_paper_table(table: Table, results: Results, index: VersionIndex) -> str:
    """A table of the paper with its measured rows; the published row stands above ours."""
    kinds: dict[str, Callable[[Table, Results, VersionIndex], str]] = {
        "fit": write_fits, "throughput": write_throughput, "shapes": write_shapes, "ratios": write_ratios,
    }  # fmt: skip
    cells = first_cells(table)
    n_run = sum(bool(results.find(cell)) for cell in cells)
    parts = [
        f"### {table.title}",
        f"The paper's `{table.label}`. {' '.join(table.caption.split())} Measured: {n_run} of {len(cells)} cells.",
        kinds[table.kind](table, results, index) if n_run else "",
        f"![{table.title}](results/figures/{table.name}.png)" if n_run and table.name in DRAWN else "",
    ]
    return "\n\n".join(part for part in parts if part)


def first_cells(table: Table) -> list[Cell]:
    """The cells of a table, each once."""
    return [cell for cell in table.list_cells() if cell.seed == 0]


def group_rows(table: Table, results: Results) -> list[tuple[Row, str, dict[str, Cell]]]:
    """Each row and variant with a measured cell: its cells by data set."""
    found = [
        (row, variant, {
            cell.data: cell for cell in first_cells(table)
            if (cell.model, cell.options, cell.variant) == (row.model, row.options, variant)
        })
        for row in table.rows for variant in row.minutes
    ]  # fmt: skip
    return [group for group in found if any(results.find(cell) for cell in group[2].values())]


def name_row(row: Row, variant: str) -> str:
    return ", ".join([row.model, *[f"{name}={value}" for name, value in row.options.items()], variant])


def write_fits(table: Table, results: Results, index: VersionIndex) -> str:
    lines, last, groups = [], None, group_rows(table, results)
    data_sets = [
        data for data in table.data if any(results.find(group[2][data]) for group in groups if data in group[2])
    ]
    for row, variant, cells in groups:
        if row is not last:
            lines.append([name_row(row, "published"), *[format_published(row, data) for data in data_sets]])
            lines += write_sizes(row, table, results, data_sets)
            last = row
        lines.append([name_row(row, variant), *[write_fit(cells.get(data), row, results, index) for data in data_sets]])
    header = ["model", *[head_column(data) for data in data_sets]]
    differing = [
        f"{read_data()[data].name}*: {read_data()[data].differs}." for data in data_sets if read_data()[data].differs
    ]
    return "\n\n".join([format_table(header, lines), *differing])


def write_sizes(row: Row, table: Table, results: Results, data_sets: Sequence[str]) -> list[list[str]]:
    """Published and counted parameters and published rows per second, where the paper's table has them."""
    if not row.parameters:
        return []
    cells = [cell for cell in first_cells(table) if (cell.model, cell.options) == (row.model, row.options)]
    counted = {cell.data: count for cell in cells if (count := read_field(results, cell, "parameters"))}
    return [
        [name_row(row, "parameters, published"), *[row.parameters.get(data, "–") for data in data_sets]],
        [name_row(row, "parameters, counted"), *[write_count(counted.get(data), row, data) for data in data_sets]],
        [name_row(row, "rows/s, published, V100"), *[row.throughput.get(data, "–") for data in data_sets]],
    ]


def head_column(data: str) -> str:
    found = read_data()[data]
    return f"{found.name}{'*' if found.differs else ''}, {found.metric} {'↓' if found.lower_is_better else '↑'}"


def write_fit(cell: Cell | None, row: Row, results: Results, index: VersionIndex) -> str:
    if cell is None:
        return "–"
    values = results.find_values(cell)
    if not values:
        return results.explain_briefly(cell)
    text = format_values(values, cell.data)
    mark = index.mark(list_versions(results.find(cell)))
    return f"**{text}** {mark}" if is_at_least_as_good(values, row, cell.data) else f"{text} {mark}"


def write_throughput(table: Table, results: Results, index: VersionIndex) -> str:
    lines, last = [], None
    for row, variant, cells in group_rows(table, results):
        if row is not last:
            lines += write_sizes(row, table, results, table.data)
            last = row
        speeds = [write_speed(cells.get(data), results, index) for data in table.data]
        lines.append([f"{row.model}, rows/s, {variant}", *speeds])
    return format_table(["", *[read_data()[data].name for data in table.data]], lines)


def read_field(results: Results, cell: Cell, name: str) -> float | None:
    """A figure of the latest record of a cell."""
    records = results.find(cell)
    return records[-1].get(name) if records else None


def write_count(count: float | None, row: Row, data: str) -> str:
    if data not in row.parameters:
        return "–"
    return "not run" if count is None else f"{count:,.0f} ({match_count(count, row.parameters[data])})"


def write_speed(cell: Cell | None, results: Results, index: VersionIndex) -> str:
    if cell is None:
        return "–"
    records = results.find(cell)
    if not records:
        return "not run"
    speed = records[-1].get("rows_per_second")
    return "–" if speed is None else f"{format_number(speed)} {index.mark(list_versions(records[-1:]))}"


def write_shapes(table: Table, results: Results, index: VersionIndex) -> str:
    (data,) = table.data
    lines = []
    for row, variant, cells in group_rows(table, results):
        records = results.find(cells[data])
        found, published = measure_stability(records), f"{row.published[data][0]:.4f}"
        if found is not None:
            figures = [format_number(found.overall[reading]) for reading in ("even steps", "distinct values", "rows")]
            fits = format_number(found.value), format_number(found.fit_seconds), index.mark(list_versions(records))
            lines.append([name_row(row, variant), str(found.n_models), published, *figures, *fits])
    metric = read_data()[data].metric
    header = ["", "models", "published", "even steps", "distinct values", "rows", metric, "seconds per fit", "source"]
    return format_table(header, lines) if lines else ""


def write_ratios(table: Table, results: Results, index: VersionIndex) -> str:
    lines = []
    for row, _variant, cells in group_rows(table, results):
        title = f"{row.model}, {row.options['n_outputs']:,} outputs"
        records = results.find(next(iter(cells.values())))[-1:]
        counted = records[0]["ratios"]
        lines += [
            [f"{title}, curve", *[format_number(evaluate_curve(row, size)) for size in table.n_columns], "–"],
            [f"{title}, counted", *[format_number(counted.get(str(size))) for size in table.n_columns],
             index.mark(list_versions(records))],
        ]  # fmt: skip
    return format_table(["ratio", *[f"D = {size:,}" for size in table.n_columns], "source"], lines)


def write_cells(table: Table, results: Results) -> str:
    """All cells of a table: the command and cost of those that were run, the reason for the others."""
    cells = first_cells(table)
    run = [cell for cell in cells if results.find(cell)]
    reasons = [
        (results.explain(cell), f"{name_cell(cell)} (about {format_minutes(cell.minutes)})")
        for cell in cells if not results.find(cell)
    ]  # fmt: skip
    obstacles = [
        (record["obstacle"], name_cell(cell))
        for cell in cells for record in results.find(cell) if "obstacle" in record
    ]  # fmt: skip
    parts = [f"## {table.title}"]
    if run:
        header = ["cell", "seeds", "fit s", "peak MB", "parameters", "version", "measured", "command"]
        parts.append(format_table(header, [describe_cell(cell, results.find(cell)) for cell in run]))
    if obstacles:
        parts.append(f"Rows per second not measured:\n\n{write_reasons(obstacles)}")
    if reasons:
        parts.append(f"Not run:\n\n{write_reasons(reasons)}")
    return "\n\n".join(parts)


def write_reasons(found: Sequence[tuple[str, str]]) -> str:
    """One line per reason with the names it applies to.

    >>> write_reasons([("no data", "a"), ("no time", "b"), ("no data", "c")])
    '- no data: a; c\\n- no time: b'
    """
    names: dict[str, list[str]] = {}
    for reason, name in found:
        names.setdefault(reason, []).append(name)
    return "\n".join(f"- {reason}: {'; '.join(held)}" for reason, held in names.items())


def name_cell(cell: Cell) -> str:
    data = read_data()[cell.data].name if cell.data in read_data() else ""
    return ", ".join(part for part in (cell.model, cell.variant + cell.format_options(", "), data) if part)


def describe_cell(cell: Cell, records: Sequence[Record]) -> list[str]:
    def find_median(field: str) -> str:
        values = [record[field] for record in records if record.get(field) is not None]
        return format_number(statistics.median(values)) if values else "–"

    parameters = next((f"{record['parameters']:,}" for record in records if record.get("parameters")), "–")
    return [
        name_cell(cell), str(len(records)), find_median("fit_seconds"), find_median("peak_mb"), parameters,
        ", ".join(list_names(records)), records[-1]["date"], f"`{cell.command}`",
    ]  # fmt: skip


def list_names(records: Sequence[Mapping]) -> list[str]:
    return sorted({version.name for version in list_versions(records)})
