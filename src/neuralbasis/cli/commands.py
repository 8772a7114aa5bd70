"""The command group `neuralbasis` and the commands that read a fitted model.

A command parses its options and calls the module that does the work. That module is imported inside the command, since
pyarrow, torch and matplotlib are slow to import. `fit` and `tune` are in `fit_commands`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

import neuralbasis

from . import formatting
from .concepts import concepts
from .errors import CommandError, CommandGroup
from .fit_commands import fit, tune
from .model_commands import check, diff, merge, update
from .options import (
    AS_JSON,
    DROP_MISSING_TARGET,
    FILE,
    FOLDER,
    FORCE,
    MODEL,
    OUTPUT,
    TABLE,
    check_new,
    check_output,
    open_table,
    read_pairs,
    split_names,
    table_options,
    take_dialect,
)
from .terminal import echo, echo_exact, open_page

FORMATS = {"sql": ".sql", "onnx": ".onnx", "json": ".json", "python": ".py", "c": ".c", "excel": ".xlsx"}
BINARY = ("onnx", "excel")


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--debug", is_flag=True, envvar="NEURALBASIS_DEBUG", help="Show the traceback of an error.")
@click.version_option(neuralbasis.__version__, prog_name="neuralbasis")
def main(debug: bool) -> None:
    """Interpretable models of tables: fit, predict, explain, export.

    Tables are CSV (plain, .gz, or "-" for standard input), Parquet, Excel or JSON files. Models are .nbm files;
    predicting with them needs no torch. Start with `neuralbasis demo`.
    """


@main.command()
@click.option("--output", "-o", type=FOLDER, default="neuralbasis_demo", help="Folder to write to; it is created.")
@click.option("--force", is_flag=True, help="Replace the files of an earlier run.")
def demo(output: str, force: bool) -> None:
    """Fit simulated patients with known risks, and compare.

    Writes a page with the true and the found curves, the tables, the model and its page, and opens the first page in
    the browser if there is a screen. Takes less than 30 seconds on two cores and downloads nothing.
    """
    # Passive waiting: on a busy machine idle threads of torch and scikit-learn would spin against each other.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    from .demo import COMMANDS, demonstrate, list_results
    from .demo_page import write_page

    folder = Path(output)
    check_new(str(folder / "index.html"), "--output", force)
    folder.mkdir(parents=True, exist_ok=True)
    found = demonstrate(folder, lambda text: echo(text, err=True))
    write_page(folder / "index.html", found)
    echo(formatting.align(list_results(found.results), left=(0, 4)))
    echo(f"\nOpen {folder / 'index.html'}: the curves that were found beside the true ones.\n")
    echo(f"On your own table:\n\n{COMMANDS}")
    open_page(folder / "index.html")


main.add_command(check)
main.add_command(fit)
main.add_command(tune)


@main.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--output", "-o", type=FILE, default="-", help="CSV or Parquet by its suffix; - is standard output.")
@click.option("--proba", is_flag=True, help="Add the probability of each class.")
@click.option(
    "--interval",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    metavar="COVERAGE",
    help="Add bounds of the target of a regression, or of the probability of classes, such as 0.9.",
)
@click.option("--contributions", is_flag=True, help="Add the contribution of each term, the intercept and the score.")
@click.option("--keep", multiple=True, metavar="COLUMN,…", help="Columns of the data to copy to the output.")
@FORCE
@table_options
def predict(
    model: str, data: str, output: str, proba: bool, interval: float | None, contributions: bool,
    keep: tuple[str, ...], force: bool, **given: Any,
) -> None:  # fmt: skip
    """Predict every row of a table of any length in constant memory.

    \b
    neuralbasis predict houses.nbm new.csv -o predicted.csv --keep id
    neuralbasis predict houses.nbm new.csv -o predicted.csv --interval 0.9
    zcat new.csv.gz | neuralbasis predict houses.nbm - > predicted.csv
    """
    from .batches import predict_table
    from .outputs import check_format

    check_format(output)
    check_output(output, model, data, force=force)
    fitted = neuralbasis.load(model)
    if proba and fitted.classes is None:
        raise CommandError("--proba needs a model of classes; this one is a regression")
    table = open_table(data, given)
    n_rows = predict_table(fitted, table, output, split_names(keep, table.names), proba, contributions, interval)
    if output != "-":
        echo(f"{output}: {formatting.count_rows(n_rows)}", err=True)


@main.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--target", metavar="COLUMN", help="Column of true values; by default the target of the fit.")
@click.option("--weights", metavar="COLUMN", help="Column of row weights.")
@click.option(
    "--detection",
    type=MODEL,
    metavar="ANNOTATIONS",
    help="Rows are boxes: compare them with this MS-COCO file (.json).",
)
@click.option("--features", type=MODEL, help="detection: features of the boxes, .npz (sparse), .npy, CSV or Parquet.")
@click.option("--image-column", default="image_id", metavar="COLUMN", help="detection: picture of a box.")
@click.option("--box-columns", default="x,y,w,h", metavar="COLUMN,…", help="detection: left, top, width and height.")
@DROP_MISSING_TARGET
@AS_JSON
@table_options
def evaluate(
    model: str, data: str, target: str | None, weights: str | None, detection: str | None, features: str | None,
    image_column: str, box_columns: str, drop_missing_target: bool, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Score a model on a table with the target, or on candidate boxes of pictures.

    \b
    neuralbasis evaluate houses.nbm later.csv
    neuralbasis evaluate objects.nbm boxes.parquet --detection instances.json
    neuralbasis evaluate objects.nbm boxes.json --features features.npz --detection instances.json
    """
    from ..vision.detection import evaluate, read_annotations, read_boxes
    from .batches import detect_table, evaluate_table

    fitted = neuralbasis.load(model)
    if detection is not None:
        if target is not None or weights is not None:
            raise click.UsageError("--detection reads the truth from the annotations: leave --target and --weights out")
        box = [name.strip() for name in box_columns.split(",")]
        if len(box) != 4:
            raise click.UsageError(f"--box-columns must name four columns, not {box_columns!r}")
        if features is not None or data.endswith(".json"):
            boxes = read_boxes(data, features, image=image_column, box=box)
            found = evaluate(fitted, boxes, read_annotations(detection))
        else:
            found = detect_table(fitted, open_table(data, given), detection, image_column, box)
        echo(formatting.format_json(found.data()) if as_json else str(found))
        return
    target = target or getattr(fitted.summary, "target", None)
    if target is None:
        raise click.UsageError("the model file has no name of a target: give --target")
    metrics, n_rows = evaluate_table(fitted, open_table(data, given), target, weights, drop_missing_target)
    if as_json:
        echo(formatting.format_json({"target": target, "rows": n_rows, "scores": formatting.list_metrics(metrics)}))
    else:
        echo(formatting.format_metrics(f"{target}, {formatting.count_rows(n_rows)}", metrics))


@main.command()
@click.argument("model", type=MODEL)
@click.option("--term", help="Print this term's table: 'age', or 'age & income'.")
@AS_JSON
def show(model: str, term: str | None, as_json: bool) -> None:
    """Print a model, or the table of a term.

    A model is printed as its formula, with the range and importance of its terms, and with the test, the standard
    error and the concurvity of each term if the fit computed them.

    \b
    neuralbasis show houses.nbm
    neuralbasis show houses.nbm --term "age & income"
    """
    fitted = neuralbasis.load(model)
    if term is not None:
        card = fitted.scorecard(term)
        echo(formatting.format_json({"term": term, "cells": card.to_rows()}) if as_json else str(card))
    elif as_json:
        echo(formatting.format_json(formatting.list_model(fitted)))
    else:
        echo(formatting.format_model(fitted))


@main.command()
@click.argument("model", type=MODEL)
@click.argument("given", nargs=-1, metavar="[DATA | NAME=VALUE …]")
@click.option("--row", type=click.IntRange(0), default=0, help="Row of the data, counted from 0 as in Python.")
@click.option("--values", is_flag=True, help="Give the row as NAME=VALUE instead.")
@AS_JSON
@table_options
def explain(model: str, given: tuple[str, ...], row: int, values: bool, as_json: bool, **reading: Any) -> None:
    """Explain the prediction of a row.

    Prints the contribution of every term to the score, the largest first. With --values, columns that are not given
    are missing.

    \b
    neuralbasis explain houses.nbm new.csv --row 3
    neuralbasis explain houses.nbm --values age=31 income=5000
    """
    from .batches import find_row, read_row

    if not values and (len(given) != 1 or ("=" in given[0] and not os.path.exists(given[0]))):
        raise click.UsageError("give one table, with --row, or --values and the row as NAME=VALUE")
    fitted = neuralbasis.load(model)
    if values:
        found = read_row(fitted, read_pairs(given, "--values"), take_dialect(reading))
    else:
        data = TABLE.convert(given[0], None, click.get_current_context())
        found = find_row(fitted, open_table(str(data), reading), row)
    # Not `echo`: the cells are escaped already, and `echo` would escape the colours of the bars.
    list_row, format_row = formatting.list_row, formatting.format_row
    click.echo(formatting.format_json(list_row(fitted, found)) if as_json else format_row(fitted, found))


@main.command()
@click.argument("model", type=MODEL)
@click.option("--to", type=click.Choice(list(FORMATS)), help="Format; by default from the suffix of the output.")
@click.option("--output", "-o", type=FILE, default="-", help="- is standard output, for text formats.")
@click.option("--table", metavar="NAME", help="sql: table to select from.")
@click.option("--dialect", type=click.Choice(["sqlite", "duckdb"]), help="sql: dialect of the engine.")
@FORCE
def export(model: str, to: str | None, output: str, force: bool, **given: str | None) -> None:
    """Write a model for another engine.

    Formats are SQL, ONNX, JSON, Python, C and Excel. All of them predict what the model predicts.

    \b
    neuralbasis export houses.nbm -o houses.sql --table houses --dialect duckdb
    neuralbasis export houses.nbm --to python > houses.py
    """
    to = to or next((name for name, suffix in FORMATS.items() if output.endswith(suffix)), None)
    options = {name: value for name, value in given.items() if value is not None}
    if to is None:
        raise click.UsageError(f"give --to, or an output that ends in one of {', '.join(FORMATS.values())}")
    if (other := next((name for name, suffix in FORMATS.items() if output.endswith(suffix)), to)) != to:
        raise click.UsageError(f"--to {to} does not fit {output}, which names {other}")
    if options and to != "sql":
        raise click.UsageError(f"--{next(iter(options))} is for sql only")
    if output == "-" and to in BINARY:
        raise click.UsageError(f"{to} is a binary format: name a file with -o")
    check_output(output, model, force=force)
    write = getattr(neuralbasis.export, f"to_{to}")
    text = write(neuralbasis.load(model), None if output == "-" else output, **options)
    if output == "-":
        echo_exact(text if text.endswith("\n") else f"{text}\n")
    else:
        echo(f"saved {output}", err=True)


@main.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE, required=False)
@click.option("--output", "-o", type=OUTPUT, help="HTML file; by default the model's name, .html.")
@click.option("--target", metavar="COLUMN", help="Column of true values; by default the target of the fit, if there.")
@click.option("--row", "rows", type=click.IntRange(0), multiple=True, help="Row to explain, counted from 0.")
@click.option("--title", help="Heading of the page.")
@DROP_MISSING_TARGET
@FORCE
@table_options
def report(
    model: str, data: str | None, output: str | None, target: str | None, rows: tuple[int, ...], title: str | None,
    drop_missing_target: bool, force: bool, **given: Any,
) -> None:  # fmt: skip
    """Write a model as one interactive page.

    The page shows every shape, the importance of the terms, standard errors and a what-if panel. It is a single
    file that needs no network. With data, it also explains single rows; with their target, it shows scores.

    \b
    neuralbasis report houses.nbm
    neuralbasis report houses.nbm later.csv --row 3 -o houses.html
    """
    from .batches import describe_absent_row, read_whole

    if data is None and (target is not None or rows):
        raise click.UsageError(f"{'--target' if target is not None else '--row'} needs a table")
    output = output or f"{Path(model).name.split('.')[0]}.html"
    if Path(output).suffix.lower() not in (".html", ".htm"):
        raise CommandError(f"{output}: the page is HTML; name a file that ends in .html")
    check_output(output, model, *([data] if data else []), force=force)
    fitted = neuralbasis.load(model)
    X, y = None, None
    if data is not None:
        table = open_table(data, given)
        known = getattr(fitted.summary, "target", None)
        target = target or (known if known in table.names else None)
        X, y = read_whole(fitted, table, target, drop_missing_target)
        if rows and X.n_rows < table.n_read:
            raise CommandError(
                "--row counts all rows, but some were left out; leave --drop-missing-target or --row out"
            )
        if absent := [row for row in rows if row >= table.n_read]:
            raise CommandError(describe_absent_row(table, absent[0]))
    neuralbasis.report.write(output, fitted, X, y, list(rows) or None, title)
    echo(f"{output}: {os.path.getsize(output) / 1e6:.1f} MB", err=True)


@main.command()
@click.argument("model", type=MODEL)
@click.option("--output", "-o", type=OUTPUT, required=True, help="A .png, .svg or .pdf file.")
@click.option("--kind", type=click.Choice(["shapes", "importances", "grid"]), default="shapes")
@click.option("--term", "terms", multiple=True, help="shapes: term to draw, 'age' or 'age & income'.")
@click.option("-n", "count", type=click.IntRange(1), help="Number of terms, the most important first.")
@FORCE
def plot(model: str, output: str, kind: str, terms: tuple[str, ...], count: int | None, force: bool) -> None:
    """Draw a model.

    \b
    neuralbasis plot houses.nbm -o shapes.png
    neuralbasis plot houses.nbm -o age.pdf --term age --term "age & income"
    """
    if terms and (kind != "shapes" or count is not None):
        raise click.UsageError("--term names the shapes to draw; leave --kind and -n out")
    check_output(output, model, force=force)
    options: dict[str, Any] = {"terms": terms} if terms else {"n": count} if count else {}
    getattr(neuralbasis.plot, kind)(neuralbasis.load(model), path=output, **options)
    echo(f"saved {output}", err=True)


for command in (merge, update, diff, concepts):
    main.add_command(command)


@main.command()
@AS_JSON
def doctor(as_json: bool) -> None:
    """Check the installation.

    Prints versions, threads, compiled kernels and optional packages, then fits, saves and loads a small model. The exit
    code is 0 if that succeeds.
    """
    from .doctor import examine, format_report

    found = examine()
    echo(formatting.format_json(found) if as_json else formatting.align(format_report(found), left=(0, 1)))
    click.get_current_context().exit(0 if found["ok"] else 1)
