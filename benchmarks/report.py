"""Write RESULTS.md whole from the lines that the benchmarks left: the paper beside ours, and what was not run.

    python -m benchmarks.report

Reads `paper.jsonl` (benchmarks.run), `laboratory.jsonl` (benchmarks.accuracy.laboratory) and `records.jsonl`
(benchmarks.record), and measures nothing. It also draws the figures.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .accuracy import comparison, laboratory
from .accuracy.report import write_goals, write_summary
from .goals import write_targets
from .journal import read_lines
from .measure import Record, read_records
from .record import BENCHMARKS
from .results import (
    Results,
    draw_curve,
    is_at_least_as_good,
    match_count,
    write_minutes,
    write_published,
    write_values,
)
from .stability import measure_stability
from .table import write_number, write_table
from .tables import TABLES, Cell, Row, Table, read_data, read_file, read_table

FOLDER = Path(__file__).resolve().parent
FIRST_SPLIT = 300  # of the laboratory: nothing was chosen by these
INTRODUCTION = """\
# Results

Written by `python -m benchmarks.report` from the lines of `paper.jsonl`, `laboratory.jsonl` and `records.jsonl`, never
by hand. All accuracies are of rows that the model was not fitted on. Machines are shared and noisy: trust ratios within
a table, not seconds across tables."""
FIT_LEGEND = (
    "Mean ± standard deviation over seeds, with the number of seeds in brackets. **Bold**: at the published figure or "
    "better. The rows and the seed of the paper's splits are not published, so that test rows differ from its. Our "
    "estimators (`default`, `large`), EBM and NODE-GAM hold rows out themselves: they are given the training and the "
    "validation rows together, in raw columns. All others train on the prepared training rows only."
)


def write_report(lines: Sequence[Mapping], records: Sequence[Mapping], cells: Sequence[Record]) -> str:
    """The whole text."""
    results = Results(lines)
    latest = {record["name"]: record for record in records}
    order = [*BENCHMARKS, *latest]
    others = [latest[name] for name in dict.fromkeys(order) if name in latest and name != "laboratory"]
    parts = [
        INTRODUCTION,
        "## Targets\n\n" + write_targets(results),
        *[write_paper_table(read_table(name), results) for name in TABLES],
        write_settings(),
        write_laboratory(cells, latest.get("laboratory", {})),
        "## Other benchmarks\n\nWhat their commands printed, the latest of each.",
        *[write_record(record, "###") for record in others],
    ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def write_paper_table(table: Table, results: Results) -> str:
    kinds: dict[str, Callable[[Table, Results], str]] = {
        "fit": write_fits, "throughput": write_throughput, "shapes": write_shapes, "ratios": write_ratios,
    }  # fmt: skip
    picture = FOLDER / "figures" / f"{table.name}.png"
    parts = [
        f"## {table.title}",
        f"The paper's `{table.label}`. {' '.join(table.caption.split())}",
        kinds[table.kind](table, results),
        f"![{table.title}](figures/{picture.name})" if picture.exists() else "",
        write_details(table, results),
    ]
    return "\n\n".join(part for part in parts if part)


def first_cells(table: Table) -> list[Cell]:
    """The cells of a table, each once."""
    return [cell for cell in table.list_cells() if cell.seed == 0]


def group_rows(table: Table) -> list[tuple[Row, str, dict[str, Cell]]]:
    """Rows of the table with each of their variants: its cells by data set."""
    return [
        (row, variant, {
            cell.data: cell for cell in first_cells(table)
            if (cell.model, cell.options, cell.variant) == (row.model, row.options, variant)
        })
        for row in table.rows for variant in row.minutes
    ]  # fmt: skip


def name_row(row: Row, variant: str) -> str:
    return ", ".join([row.model, *[f"{name}={value}" for name, value in row.options.items()], variant])


def write_fits(table: Table, results: Results) -> str:
    """The paper's row above ours of each model."""
    lines, last = [], None
    for row, variant, cells in group_rows(table):
        if row is not last:
            lines.append([name_row(row, "published"), *[write_published(row, data) for data in table.data]])
            lines += write_sizes(row, table, results)
            last = row
        lines.append([name_row(row, variant), *[write_fit(cells.get(data), row, results) for data in table.data]])
    header = ["model", *[head_column(data) for data in table.data]]
    differing = [
        f"{read_data()[data].name}*: {read_data()[data].differs}." for data in table.data if read_data()[data].differs
    ]
    return "\n\n".join([write_table(header, lines), FIT_LEGEND, *differing])


def write_sizes(row: Row, table: Table, results: Results) -> list[list[str]]:
    """Lines of a row's parameters, where the paper's table has them, and of its rows a second."""
    if not row.parameters:
        return []
    cells = [cell for cell in first_cells(table) if (cell.model, cell.options) == (row.model, row.options)]
    counted = {cell.data: count for cell in cells if (count := read_field(results, cell, "parameters"))}
    return [
        [name_row(row, "parameters, published"), *[row.parameters.get(data, "–") for data in table.data]],
        [name_row(row, "parameters, counted"), *[write_count(counted.get(data), row, data) for data in table.data]],
        [name_row(row, "rows/s, published, V100"), *[row.throughput.get(data, "–") for data in table.data]],
    ]


def head_column(data: str) -> str:
    found = read_data()[data]
    return f"{found.name}{'*' if found.differs else ''}, {found.metric} {'↓' if found.lower_is_better else '↑'}"


def write_fit(cell: Cell | None, row: Row, results: Results) -> str:
    if cell is None:
        return "–"
    values = results.find_values(cell)
    text = write_values(values, cell.data) if values else results.mark(cell)
    return f"**{text}**" if is_at_least_as_good(values, row, cell.data) else text


def write_throughput(table: Table, results: Results) -> str:
    lines, last = [], None
    for row, variant, cells in group_rows(table):
        if row is not last:
            lines += write_sizes(row, table, results)
            last = row
        speeds = [write_speed(cells.get(data), results) for data in table.data]
        lines.append([f"{row.model}, rows/s, {variant}", *speeds])
    written = write_table(["", *[read_data()[data].name for data in table.data]], lines)
    obstacles = [
        (line["obstacle"], name_cell(cell))
        for cell in first_cells(table) for line in results.find(cell) if "obstacle" in line
    ]  # fmt: skip
    return f"{written}\n\nRows a second not measured:\n\n{write_reasons(obstacles)}" if obstacles else written


def read_field(results: Results, cell: Cell, name: str) -> float | None:
    """A figure of the latest line of a cell."""
    lines = results.find(cell)
    return lines[-1].get(name) if lines else None


def write_count(count: float | None, row: Row, data: str) -> str:
    if data not in row.parameters:
        return "–"
    return "not run" if count is None else f"{count:,.0f} ({match_count(count, row.parameters[data])})"


def write_speed(cell: Cell | None, results: Results) -> str:
    if cell is None:
        return "–"
    speed = read_field(results, cell, "rows_per_second")
    return "not run" if not results.find(cell) else write_number(speed)


def write_shapes(table: Table, results: Results) -> str:
    (data,) = table.data
    lines = []
    for row, variant, cells in group_rows(table):
        found = measure_stability(results.find(cells[data]))
        published = f"{row.published[data][0]:.4f}"
        if found is None:
            lines.append([name_row(row, variant), "0", published, *["not run"] * 3, "–", "–"])
            continue
        figures = [write_number(found.overall[reading]) for reading in ("even steps", "distinct values", "rows")]
        fits = write_number(found.value), write_number(found.fit_seconds)
        lines.append([name_row(row, variant), str(found.n_models), published, *figures, *fits])
    metric = read_data()[data].metric
    header = ["", "models", "published", "even steps", "distinct values", "rows", metric, "seconds a fit"]
    return write_table(header, lines)


def write_ratios(table: Table, results: Results) -> str:
    lines = []
    for row, _variant, cells in group_rows(table):
        classes = f"{row.model}, {row.options['n_outputs']:,} outputs"
        found = results.find(next(iter(cells.values())))
        counted = found[-1]["ratios"] if found else {}
        lines += [
            [f"{classes}, curve", *[write_number(draw_curve(row, size)) for size in table.n_columns]],
            [f"{classes}, counted", *[write_number(counted.get(str(size))) for size in table.n_columns]],
        ]
    return write_table(["ratio", *[f"D = {size:,}" for size in table.n_columns]], lines)


def write_details(table: Table, results: Results) -> str:
    """How to rerun each cell, what it took; and why the others were not run."""
    cells = first_cells(table)
    run = [cell for cell in cells if results.find(cell)]
    reasons = [
        (results.explain(cell), f"{name_cell(cell)} (about {write_minutes(cell.minutes)})")
        for cell in cells if not results.find(cell)
    ]  # fmt: skip
    parts = []
    if run:
        header = ["cell", "seeds", "fit s", "peak MB", "parameters", "neuralbasis", "measured", "command"]
        parts.append(write_table(header, [write_detail(cell, results.find(cell)) for cell in run]))
    if reasons:
        parts.append(f"Not run:\n\n{write_reasons(reasons)}")
    return (
        "<details><summary>The cells, and the commands that run them again</summary>\n\n"
        + "\n\n".join(parts)
        + "\n\n</details>"
    )


def write_reasons(found: Sequence[tuple[str, str]]) -> str:
    """One line a reason, with all that it holds for.

    >>> write_reasons([("no data", "a"), ("no time", "b"), ("no data", "c")])
    '- no data: a; c\\n- no time: b'
    """
    names: dict[str, list[str]] = {}
    for reason, name in found:
        names.setdefault(reason, []).append(name)
    return "\n".join(f"- {reason}: {'; '.join(held)}" for reason, held in names.items())


def name_cell(cell: Cell) -> str:
    data = read_data()[cell.data].name if cell.data in read_data() else ""
    return ", ".join(part for part in (cell.model, cell.variant + cell.write_options(", "), data) if part)


def write_detail(cell: Cell, lines: Sequence[Mapping]) -> list[str]:
    def middle(field: str) -> str:
        values = [line[field] for line in lines if line.get(field) is not None]
        return write_number(statistics.median(values)) if values else "–"

    versions = sorted({line["versions"]["neuralbasis"].partition("+")[2] for line in lines})
    parameters = next((f"{line['parameters']:,}" for line in lines if line.get("parameters")), "–")
    return [
        name_cell(cell), str(len(lines)), middle("fit_seconds"), middle("peak_mb"), parameters, ", ".join(versions),
        lines[-1]["date"], f"`{cell.command}`",
    ]  # fmt: skip


def write_settings() -> str:
    """The appendix's settings, which the variants `paper` and `grid` take."""
    found = read_file("optimal_hyper")
    models = ("NBM", "NB²M")
    names = list(next(iter(found["NBM"].values())))
    lines = [
        [f"{model}, {read_data()[data].name}", *[f"{settings[name]:g}" for name in names]]
        for model in models for data, settings in found[model].items()
    ]  # fmt: skip
    caption = f"The paper's `{found['label']}`. {' '.join(found['caption'].split())}"
    return "\n\n".join([f"## {found['title']}", caption, write_table(["model, data", *names], lines)])


def write_laboratory(cells: Sequence[Record], record: Mapping[str, Any]) -> str:
    """Comparisons and targets of the splits by which nothing was chosen."""
    names = {(learner, repr(options)): name for name, (learner, options) in laboratory.LEARNERS.items()}
    records: dict[str, dict[comparison.Place, Record]] = {}
    for found in cells:
        cell = found.cell
        name = names.get((cell.learner, repr(cell.options)))
        if name and cell.split_seed >= FIRST_SPLIT and not cell.quick:
            records.setdefault(name, {})[cell.data, cell.split_seed] = found
    groups = comparison.list_comparisons(records)
    parts = ["## The laboratory", record.get("note", "")]
    if groups:
        parts += [write_summary(groups), write_goals(groups)]
    return "\n\n".join(part for part in [*parts, record.get("after", "")] if part)


def write_record(record: Mapping[str, Any], heading: str) -> str:
    """A record: title, command, where and when, the note, what was printed, remarks."""
    source = (
        f"; commit {record['commit']}{', changed' if record.get('changed') else ''}" if record.get("commit") else ""
    )
    copied = "; copied from an earlier report" if record.get("transcribed") else ""
    parts = [
        f"{heading} {record['title']}",
        f"`{record['command']}`",
        f"{record['date']}; {record['machine']}{source}{copied}.",
        record.get("note", ""),
        record["output"].strip(),
        record.get("after", ""),
    ]
    return "\n\n".join(part for part in parts if part)


def main() -> None:
    from .pictures import draw_pictures

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the lines are and RESULTS.md goes")
    folder = parser.parse_args().folder
    lines = read_lines(folder / "paper.jsonl")
    draw_pictures(Results(lines), folder / "figures")
    text = write_report(lines, read_lines(folder / "records.jsonl"), read_records(folder / "laboratory.jsonl"))
    (folder / "RESULTS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
