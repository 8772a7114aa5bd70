"""The paper's part of the report: ours beside the published figures, and a list of all cells with their commands."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from ..baselines.networks import HIDDEN, N_BASES, SUBNET
from ..results.markdown import format_number, format_table
from ..results.source_versions import mark_older
from .results import (
    Record,
    Results,
    describe_epochs,
    evaluate_curve,
    format_minutes,
    format_values,
    is_at_least_as_good,
    is_reduced,
    list_versions,
    match_count,
    read_count,
)
from .stability import MODELS, measure_stability
from .tables import TABLES, Cell, Row, Table, find_job, read_data, read_table

DRAWN = ("shape_functions", "num_bases", "params", "params_multi_class")  # tables that `plots` draws
LEGEND = """\
Each cell is `ours / published`; **bold**: at least as good as published. One seed, or mean ± standard error (number of
seeds). Cells that would take hours were trained for fewer epochs than the paper's, as stated beside the figure. Rows:
`paper` has the paper's settings, `default` our defaults. `–`: not run, or not published; `no data`: the data set or
package was not available; *: our data differ from the paper's, no comparison. How each table was measured, with
commands and costs: [PAPER](results/PAPER.md)."""
FIT_LEGEND = """\
`paper`: our exact engine with the paper's settings; `paper, grid`: the same on our grid engine; `default`: our
estimators at their defaults; `large`: with a larger network and more terms. Published figures have standard deviations
over ten seeds, ours standard errors. The paper does not publish its rows or the seed of its splits, so test rows
differ. Our estimators, EBM and NODE-GAM get training and validation rows together, in raw columns. All others train on
the prepared training rows only."""
VARIANTS = {"grid": "paper, grid"}  # where the report names a variant differently
OURS = ("ours", "nbm")  # learners of this package


def write_paper_table(table: Table, results: Results) -> str:
    """A table of the paper: ours beside the published figures."""
    kinds: dict[str, Callable[[Table, Results], str]] = {
        "fit": write_fits, "throughput": write_throughput, "shapes": write_shapes, "ratios": write_ratios,
    }  # fmt: skip
    counts = results.count(first_cells(table))
    parts = [
        f"### {table.title} (`{table.label}`)",
        kinds[table.kind](table, results),
        table.note,
        f"![{table.title}](results/figures/{table.name}.png)" if counts.n_run and table.name in DRAWN else "",
    ]
    return "\n\n".join(part for part in parts if part)


def first_cells(table: Table) -> list[Cell]:
    """The cells of a table, each once."""
    return [cell for cell in table.list_cells() if cell.seed == 0]


def group_rows(table: Table, results: Results) -> list[tuple[Row, str, dict[str, Cell]]]:
    """Each row and variant with a figure: its cells by data set. A row without any figure has the variant ""."""
    groups = []
    for row in table.rows:
        found = [
            (row, variant, {
                cell.data: cell for cell in first_cells(table)
                if (cell.model, cell.options, cell.variant) == (row.model, row.options, variant)
            })
            for variant in row.minutes
        ]  # fmt: skip
        run = [group for group in found if any(results.find(cell) for cell in group[2].values())]
        groups += run or [(row, "", found[0][2])]
    return groups


def name_row(row: Row, variant: str, learner: str = "ours") -> str:
    names = [row.model, *[f"{SYMBOLS.get(name, name)} = {value:,}" for name, value in row.options.items()]]
    return ", ".join([*names, VARIANTS.get(variant, variant)] if variant and learner in OURS else names)


SYMBOLS = {"n_bases": "B", "n_subnets": "S"}


def write_fits(table: Table, results: Results) -> str:
    lines = []
    for row, variant, cells in group_rows(table, results):
        learner = find_job(next(iter(cells.values()))).learner
        verdicts = [
            is_at_least_as_good(results.find_values(cell), row, data) for data, cell in cells.items() if variant
        ]
        judged = [verdict for verdict in verdicts if verdict is not None]
        reached = f"{sum(judged)} of {len(judged)}" if judged else "–"
        figures = [write_fit(cells.get(data), row, data, results) for data in table.data]
        lines.append([name_row(row, variant, learner), *figures, reached])
    return format_table(["ours / published", *[head_column(data) for data in table.data], "reached"], lines)


def head_column(data: str) -> str:
    found = read_data()[data]
    return f"{found.name}{'*' if found.differs else ''}, {found.metric} {'↓' if found.lower_is_better else '↑'}"


def write_fit(cell: Cell | None, row: Row, data: str, results: Results) -> str:
    """Ours / published."""
    published = row.published.get(data)
    theirs = f"{published[0]:.{read_data()[data].places}f}" if published else "–"
    values = results.find_values(cell) if cell else []
    if cell is None or not values:
        return f"{write_absence(cell, data, results)} / {theirs}" if published else "–"
    text = format_values(values, data)
    ours = f"**{text}**" if is_at_least_as_good(values, row, data) else text
    records = results.find(cell)
    epochs = f" ({describe_epochs(cell, records)} epochs)" if is_reduced(cell, records) else ""
    return f"{ours}{mark_older(list_versions(records))}{epochs} / {theirs}"


def write_absence(cell: Cell | None, data: str, results: Results) -> str:
    if cell is None:
        return "no data" if data in results.absent else "–"
    if results.explain(cell).startswith("failed"):
        return "failed"
    return "no data" if results.find_absent(find_job(cell)) else "–"


def write_throughput(table: Table, results: Results) -> str:
    names = [read_data()[data].name for data in table.data]
    sizes = [[row.model, *[write_count(row, data, table, results) for data in table.data]] for row in table.rows]
    speeds = [
        [f"{row.model}, {variant}" if variant else row.model,
         *[write_speed(cells.get(data), row, data, results) for data in table.data]]
        for row, variant, cells in group_rows(table, results)
    ]  # fmt: skip
    return "\n\n".join([
        "Parameters in **bold** equal the published number after rounding or truncation.",
        format_table(["parameters, ours / published", *names], sizes),
        format_table(["rows/s, our CPU / published, V100", *names], speeds),
        explain_speeds(table, results),
    ])  # fmt: skip


def write_count(row: Row, data: str, table: Table, results: Results) -> str:
    if data not in row.parameters:
        return "–"
    records = [
        record for cell in first_cells(table) if (cell.model, cell.data) == (row.model, data)
        for record in results.find(cell) if record.get("parameters")
    ]  # fmt: skip
    if not records:
        return f"– / {row.parameters[data]}"
    count = records[-1]["parameters"]
    ours = f"{count:,}" if match_count(count, row.parameters[data]) == "differs" else f"**{count:,}**"
    return f"{ours}{mark_older(list_versions(records[-1:]))} / {row.parameters[data]}"


def write_speed(cell: Cell | None, row: Row, data: str, results: Results) -> str:
    published = row.throughput.get(data, "–")
    records = results.find(cell)[-1:] if cell else []
    if not records or records[0].get("rows_per_second") is None:
        return f"– / {published}" if published != "–" else "–"
    speed = records[0]["rows_per_second"]
    text = format_number(speed)
    ours = f"**{text}**" if published != "–" and speed >= read_count(published) else text
    return f"{ours}{mark_older(list_versions(records))} / {published}"


def explain_speeds(table: Table, results: Results) -> str:
    """The ratios of NBM to NAM, ours and the paper's, and why they differ."""
    rows = {row.model: row for row in table.rows}
    lines, slow = [], []
    for data in table.data:
        speeds = {
            (cell.model, cell.variant): records[-1].get("rows_per_second")
            for cell in first_cells(table) if cell.data == data and (records := results.find(cell))
        }  # fmt: skip
        nam, network, compiled = (
            speeds.get(kind) for kind in (("NAM", "network"), ("NBM", "network"), ("NBM", "compiled"))
        )
        if nam and network and compiled:
            published = read_count(rows["NBM"].throughput[data]) / read_count(rows["NAM"].throughput[data])
            ratios = [network / nam, compiled / nam, published]
            lines.append([read_data()[data].name, *[f"{format_number(ratio, 2)} ×" for ratio in ratios]])
            slow += [read_data()[data].name] if compiled < nam else []
    if not lines:
        return ""
    header = ["speed, as a multiple of NAM", "NBM network, our CPU", "NBM compiled, our CPU", "NBM, published, V100"]
    exceptions = f", but not on {', '.join(slow)}" if slow else ""
    return f"{SLOWER.format(exceptions=exceptions)}\n\n{format_table(header, lines)}\n\n{REASON}"


def count_products(*sizes: int) -> int:
    """Multiplications of one row in dense layers of these sizes.

    >>> count_products(1, 64, 64, 32, 1)
    6240
    """
    return sum(n_in * n_out for n_in, n_out in pairwise(sizes))


SLOWER = """\
**On our CPU, NBM as a network is slower than NAM. Only the compiled tables, which replace the network after a fit, are
faster{exceptions}.** The paper's NBM network is faster than its NAM."""
REASON = f"""\
On a CPU, time follows the arithmetic: for each value of a column the NBM network needs
{count_products(1, *HIDDEN, N_BASES[1]):,} multiplications, a network of NAM {count_products(1, *SUBNET, 1):,}.
Our NAM evaluates the networks of all columns in one batched product per layer, so their number costs little. The
paper's figures are of a GPU, where NAM is one small network per column in grouped convolutions, slower than one shared
network."""


def write_shapes(table: Table, results: Results) -> str:
    (data,) = table.data
    lines = []
    for row in table.rows:
        for variant in row.minutes:
            cell = next(cell for cell in first_cells(table) if (cell.model, cell.variant) == (row.model, variant))
            lines.append([name_row(row, variant), *write_stability(cell, row, results)])
    header = ["", "deviation, ours / published", "models", "epochs", "at distinct values", "at rows",
              read_data()[data].metric, "seconds per fit"]  # fmt: skip
    return format_table(header, lines)


def write_stability(cell: Cell, row: Row, results: Results) -> list[str]:
    published = row.published[cell.data][0]
    records = results.find(cell)
    found = measure_stability(records)
    if found is None:
        return [f"– / {published:.4f}", f"0 of {MODELS}", *["–"] * 5]
    even = found.overall["even steps"]
    is_reached = even <= published and found.n_models >= MODELS and not is_reduced(cell, records)
    text = f"**{format_number(even)}**" if is_reached else format_number(even)
    return [
        f"{text}{mark_older(list_versions(records))} / {published:.4f}", f"{found.n_models} of {MODELS}",
        describe_epochs(cell, records), format_number(found.overall["distinct values"]),
        format_number(found.overall["rows"]), format_number(found.value), format_number(found.fit_seconds),
    ]  # fmt: skip


def write_ratios(table: Table, results: Results) -> str:
    lines = []
    for row, _variant, cells in group_rows(table, results):
        records = results.find(next(iter(cells.values())))[-1:]
        counted = records[0]["ratios"] if records else {}
        older = mark_older(list_versions(records))
        lines.append([
            f"{row.model}, {row.options['n_outputs']:,} output{'s' if row.options['n_outputs'] > 1 else ''}{older}",
            *[f"{format_number(counted.get(str(size)))} / {format_number(evaluate_curve(row, size))}"
              for size in table.n_columns],
        ])  # fmt: skip
    return format_table(["counted / published curve", *[f"D = {size:,}" for size in table.n_columns]], lines)


def write_coverage(results: Results) -> str:
    """Numbers of cells by table, and what was not available."""
    lines, cells = [], []
    for name in TABLES:
        cells += first_cells(read_table(name))
        lines.append([read_table(name).title, *count_cells(results, first_cells(read_table(name)))])
    lines.append(["all", *count_cells(results, cells)])
    needed = [name for cell in cells for name in find_job(cell).needs if name in results.absent]
    reasons: dict[str, list[str]] = {}
    for name in dict.fromkeys(needed):
        title = read_data()[name].name if name in read_data() else "NODE-GAM" if name == "node_gam" else name
        reasons.setdefault(results.absent[name], []).append(title)
    missing = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    header = ["cells of the paper's tables", "all", "data and package available", "measured", "available, not run"]
    return f"{format_table(header, lines)}\n\nNot available: {missing}."


def count_cells(results: Results, cells: Sequence[Cell]) -> list[str]:
    counts = results.count(cells)
    return [str(number) for number in (counts.n_all, counts.n_able, counts.n_run, counts.n_able - counts.n_run)]


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
    parts = [f"## {table.title}", f"The paper's `{table.label}`. {' '.join(table.caption.split())}"]
    parts += [
        f"{read_data()[data].name}: {read_data()[data].differs}." for data in table.data if read_data()[data].differs
    ]
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
    if is_reduced(cell, records):
        cell = replace(cell, epochs=records[0]["job"]["options"]["epochs"])
    return [
        name_cell(cell), str(len(records)), find_median("fit_seconds"), find_median("peak_mb"), parameters,
        ", ".join(list_names(records)), records[-1]["date"], f"`{cell.command}`",
    ]  # fmt: skip


def list_names(records: Sequence[Mapping]) -> list[str]:
    return sorted({version.name for version in list_versions(records)})
