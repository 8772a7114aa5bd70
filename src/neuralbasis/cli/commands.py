"""The commands and their options; each hands the work to the module that does it, which is imported only then."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

import neuralbasis

from ..printable import escape
from .concepts import concepts
from .failure import CommandGroup, Failure, is_first
from .options import Wishes, read_feature_types, read_interactions, read_pairs, read_settings, split_names
from .terminal import echo, echo_exact

TABLE = click.Path(exists=True, dir_okay=False, allow_dash=True)
MODEL = click.Path(exists=True, dir_okay=False)
FILE = click.Path(dir_okay=False, allow_dash=True)
FORMATS = {"sql": ".sql", "onnx": ".onnx", "json": ".json", "python": ".py", "c": ".c", "excel": ".xlsx"}
BINARY = ("onnx", "excel")
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def table_options(command: Callable) -> Callable:
    """How a CSV file is written: options of every command that reads one."""
    for option in (
        click.option("--missing", multiple=True, metavar="TEXT", help="A text that stands for no value, such as '?'."),
        click.option("--encoding", default="utf-8", help="Of a CSV file."),
        click.option("--delimiter", metavar="CHARACTER", help="Of a CSV file; found in the header by default."),
    ):
        command = option(command)
    return command


def model_options(command: Callable) -> Callable:
    """What to fit, and how: what `fit` and `tune` share."""
    for option in reversed((
        click.option("--target", required=True, metavar="COLUMN", help="What to predict."),
        click.option(
            "--model", "path", type=click.Path(dir_okay=False), help="File to write; by default the data's name, .nbm."
        ),
        click.option("--force", is_flag=True, help="Replace a model file that is there already."),
        click.option("--task", type=click.Choice(["auto", "regression", "classification"]), default="auto"),
        click.option(
            "--test-size", type=click.FloatRange(0, 1, max_open=True), default=0.2, help="Share of rows held out."
        ),
        click.option("--refit", is_flag=True, help="After the scores, fit again on all rows, and save that model."),
        click.option("--weights", metavar="COLUMN", help="Weights of the rows."),
        click.option("--exclude", multiple=True, metavar="COLUMN,…", help="Columns to leave out; 'a & b' for a pair."),
        click.option(
            "--feature-types", multiple=True, metavar="COLUMN=TYPE", help="continuous, nominal, ordinal or low<high."
        ),
        click.option("--interactions", metavar="WHICH", help="How many pairs: 0, 10, 3x, auto; or 'a & b, a & c'."),
        click.option("--preset", type=click.Choice(["fast", "default", "best"]), help="How much work to do."),
        click.option("--seed", type=int, default=42, help="Same seed, same model."),
        click.option(
            "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any other parameter of the estimators."
        ),
    )):  # fmt: skip
        command = option(command)
    return command


@click.group(cls=CommandGroup, context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--debug", is_flag=True, envvar="NEURALBASIS_DEBUG", help="Show the traceback of an error.")
@click.version_option(neuralbasis.__version__, prog_name="neuralbasis")
def main(debug: bool) -> None:
    """Interpretable models of tables: fit, predict, explain, export.

    Tables are CSV files (plain, .gz, or "-" for standard input) or Parquet files. Models are .nbm files, which need no
    torch to predict.
    """


def _check_data(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Files must be there; folders, patterns and addresses are looked at when they are opened."""
    for path in paths:
        if not (os.path.isdir(path) or glob.has_magic(path) or "://" in path):
            TABLE.convert(path, parameter, context)
    return paths


@main.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(allow_dash=True), callback=_check_data)
@model_options
@click.option("--time-limit", type=float, metavar="SECONDS", help="Stop training after so long.")
@click.option(
    "--memory-limit", metavar="SIZE", help="Such as 2GB: read a larger table in pieces, from a cache on disk."
)
@click.option(
    "--checkpoint-dir", type=click.Path(file_okay=False), metavar="FOLDER", help="Leave the state of training there."
)
@click.option("--resume", is_flag=True, help="Go on from there, where a fit with the same options was cut off.")
@AS_JSON
@table_options
def fit(data: tuple[str, ...], path: str | None, force: bool, as_json: bool, **given: Any) -> None:
    """Fit a model, say how it does on rows held out, save it.

    DATA is a file, or several files, folders or patterns, all Parquet or all CSV. Of a table that is larger than memory
    (by default, half of what is free), whole row groups or files are held out.

    \b
    neuralbasis fit houses.csv --target price
    neuralbasis fit credit.parquet --target default --model credit.nbm --exclude id --set outer_bags=14
    neuralbasis fit "sales/*.parquet" --target amount --memory-limit 2GB
    torchrun --nproc-per-node 4 -m neuralbasis fit "sales/*.parquet" --target amount --model sales.nbm
    """
    from .fitting import run_trial

    path = _check_model(path, data, force)
    is_plain = len(data) == 1 and (data[0] == "-" or os.path.isfile(data[0])) and given["memory_limit"] is None
    table = _open_table(data[0], given) if is_plain and not _is_large(data[0]) else _open_source(data, given)
    trial = run_trial(table, _read_wishes(given))
    if is_first():
        trial.model.save(path)
        echo(_write_trial_json(trial, path) if as_json else _write_trial(trial, path))


@main.command()
@click.argument("data", type=TABLE)
@model_options
@click.option(
    "--trials", "n_trials", type=click.IntRange(1), default=20, help="Settings to try, the first as they are."
)
@click.option("--time-limit", type=float, metavar="SECONDS", help="Begin no trial after so long.")
@click.option("--space", type=click.Choice(["default", "paper"]), default="default", help="What to draw settings from.")
@click.option("--sampler", type=click.Choice(["random", "tpe"]), default="random", help="How to draw them.")
@click.option("--storage", type=click.Path(dir_okay=False), help="File of trials; the same command goes on with it.")
@AS_JSON
@table_options
def tune(data: str, path: str | None, force: bool, as_json: bool, **given: Any) -> None:
    """Search for better settings, then fit as `fit` does.

    Settings are compared on a fifth of the rows to fit on; the scores are of other rows, which no trial has seen.

    \b
    neuralbasis tune houses.csv --target price --trials 20
    neuralbasis tune credit.parquet --target default --time-limit 3600 --storage credit.trials
    """
    from .outputs import check_output
    from .tuning import Plan, run_search

    path = _check_model(path, (data,), force)
    if given["storage"] is not None:
        check_output(given["storage"], data)
    table = _open_table(data, given)
    plan = Plan(*(given.pop(name) for name in ("n_trials", "time_limit", "space", "sampler", "storage")))
    trial, tuning = run_search(table, _read_wishes(given), plan)
    trial.model.save(path)
    if as_json:
        echo(_write_trial_json(trial, path, trials=tuning.to_rows(), settings=tuning.best.settings))
    else:
        echo(f"{tuning}\n\n{_write_trial(trial, path)}")


@main.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--output", "-o", type=FILE, default="-", help="CSV or Parquet by its suffix; - is standard output.")
@click.option("--proba", is_flag=True, help="Also the probability of each class.")
@click.option("--contributions", is_flag=True, help="Also each term's contribution, the intercept and the score.")
@click.option("--keep", multiple=True, metavar="COLUMN,…", help="Columns of the data to write as they are.")
@table_options
def predict(
    model: str, data: str, output: str, proba: bool, contributions: bool, keep: tuple[str, ...], **given: Any
) -> None:
    """Predict every row of a table, of any length, in little memory.

    \b
    neuralbasis predict houses.nbm new.csv -o predicted.csv --keep id
    zcat new.csv.gz | neuralbasis predict houses.nbm - > predicted.csv
    """
    from .batches import predict_table
    from .outputs import check_output

    check_output(output, model, data)
    fitted = neuralbasis.load(model)
    if proba and fitted.classes is None:
        raise Failure("--proba needs a model of classes; this one is a regression")
    table = _open_table(data, given)
    n_rows = predict_table(fitted, table, output, split_names(keep, table.names), proba, contributions)
    if output != "-":
        echo(f"{output}: {n_rows:,} rows", err=True)


@main.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--target", metavar="COLUMN", help="What was to be predicted; by default the target of the fit.")
@click.option("--weights", metavar="COLUMN", help="Weights of the rows.")
@click.option(
    "--detection",
    type=MODEL,
    metavar="ANNOTATIONS",
    help="Rows are boxes: how well they meet this MS-COCO file (.json).",
)
@click.option("--features", type=MODEL, help="detection: features of the boxes, .npz (sparse), .npy, CSV or Parquet.")
@click.option("--image-column", default="image_id", metavar="COLUMN", help="detection: the picture a box is of.")
@click.option("--box-columns", default="x,y,w,h", metavar="COLUMN,…", help="detection: left, top, width and height.")
@AS_JSON
@table_options
def evaluate(
    model: str, data: str, target: str | None, weights: str | None, detection: str | None, features: str | None,
    image_column: str, box_columns: str, as_json: bool, **given: Any,
) -> None:  # fmt: skip
    """Measure a model on a table that has the target, or on candidate boxes of pictures.

    \b
    neuralbasis evaluate houses.nbm later.csv
    neuralbasis evaluate objects.nbm boxes.parquet --detection instances.json
    neuralbasis evaluate objects.nbm boxes.json --features features.npz --detection instances.json
    """
    from . import pages
    from .batches import detect_boxes, detect_table, evaluate_table

    fitted = neuralbasis.load(model)
    if detection is not None:
        if target is not None or weights is not None:
            raise click.UsageError("--detection reads its truth from the annotations: leave --target and --weights out")
        box = [name.strip() for name in box_columns.split(",")]
        if len(box) != 4:
            raise click.UsageError(f"--box-columns must name four columns, not {box_columns!r}")
        if features is not None or data.endswith(".json"):
            found = detect_boxes(fitted, data, features, detection, image_column, box)
        else:
            found = detect_table(fitted, _open_table(data, given), detection, image_column, box)
        echo(pages.write_json(found.data()) if as_json else str(found))
        return
    target = target or getattr(fitted.summary, "target", None)
    if target is None:
        raise click.UsageError("the model does not know the name of its target: give --target")
    measures, n_rows = evaluate_table(fitted, _open_table(data, given), target, weights)
    if as_json:
        echo(pages.write_json({"target": target, "rows": n_rows, "scores": pages.list_measures(measures)}))
    else:
        echo(pages.write_measures(f"{target}, {n_rows:,} rows", measures))


@main.command()
@click.argument("model", type=MODEL)
@click.option("--term", help="Print this term's table: 'age', or 'age & income'.")
@AS_JSON
def show(model: str, term: str | None, as_json: bool) -> None:
    """Print a model, or the table of a term.

    A model is its formula, and the range and importance of its terms.

    \b
    neuralbasis show houses.nbm
    neuralbasis show houses.nbm --term "age & income"
    """
    from . import pages

    fitted = neuralbasis.load(model)
    if term is not None:
        card = fitted.scorecard(term)
        echo(pages.write_json({"term": term, "cells": card.to_rows()}) if as_json else str(card))
    elif as_json:
        echo(pages.write_json(pages.list_model(fitted)))
    else:
        echo(f"{pages.write_summary(fitted)}\n\n{fitted}")


@main.command()
@click.argument("model", type=MODEL)
@click.argument("given", nargs=-1, metavar="[DATA | NAME=VALUE …]")
@click.option("--row", type=click.IntRange(1), default=1, help="Which row of the data, counted from 1.")
@click.option("--values", is_flag=True, help="The row is given here, as NAME=VALUE.")
@AS_JSON
@table_options
def explain(model: str, given: tuple[str, ...], row: int, values: bool, as_json: bool, **reading: Any) -> None:
    """Say why a row has its prediction.

    Every term's contribution to the score, the largest first. With --values, a column that is not given is missing.

    \b
    neuralbasis explain houses.nbm new.csv --row 3
    neuralbasis explain houses.nbm --values age=31 income=5000
    """
    from . import pages
    from .batches import find_row, read_row
    from .tables import Dialect

    if not values and len(given) != 1:
        raise click.UsageError("give one table, with --row, or --values and the row as name=value")
    fitted = neuralbasis.load(model)
    if values:
        found = read_row(fitted, read_pairs(given, "--values"), Dialect(**reading).nulls)
    else:
        data = TABLE.convert(given[0], None, click.get_current_context())
        found = find_row(fitted, _open_table(str(data), reading), row)
    explanation = pages.Explanation(fitted, found)
    # Its cells are escaped already, and its bars have colours.
    click.echo(pages.write_json(explanation.to_dict()) if as_json else str(explanation))


@main.command()
@click.argument("model", type=MODEL)
@click.option("--to", type=click.Choice(list(FORMATS)), help="By default what the output's suffix says.")
@click.option("--output", "-o", type=FILE, default="-", help="- is standard output, for texts.")
@click.option("--table", metavar="NAME", help="sql: the table to select from.")
@click.option("--dialect", type=click.Choice(["sqlite", "duckdb"]), help="sql: the engine.")
def export(model: str, to: str | None, output: str, **options: str | None) -> None:
    """Write a model for another engine.

    SQL, ONNX, JSON, a Python file, a C file or an Excel workbook, all of which predict as the model does.

    \b
    neuralbasis export houses.nbm -o houses.sql --table houses --dialect duckdb
    neuralbasis export houses.nbm --to python > houses.py
    """
    from .outputs import check_output

    to = to or next((name for name, suffix in FORMATS.items() if output.endswith(suffix)), None)
    wishes = {name: value for name, value in options.items() if value is not None}
    if to is None:
        raise click.UsageError(f"give --to, or an output that ends in one of {', '.join(FORMATS.values())}")
    if wishes and to != "sql":
        raise click.UsageError(f"--{next(iter(wishes))} is for sql only")
    if output == "-" and to in BINARY:
        raise click.UsageError(f"{to} is no text: name a file with -o")
    check_output(output, model)
    write = getattr(neuralbasis.export, f"to_{to}")
    text = write(neuralbasis.load(model), None if output == "-" else output, **wishes)
    if output == "-":
        echo_exact(text if text.endswith("\n") else f"{text}\n")


@main.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE, required=False)
@click.option("--output", "-o", type=click.Path(dir_okay=False), help="HTML file; by default the model's name, .html.")
@click.option("--target", metavar="COLUMN", help="What came for these rows: the page says how well the model does.")
@click.option("--row", "rows", type=click.IntRange(1), multiple=True, help="A row to explain, counted from 1.")
@click.option("--title", help="Heading of the page.")
@table_options
def report(
    model: str, data: str | None, output: str | None, target: str | None, rows: tuple[int, ...], title: str | None,
    **given: Any,
) -> None:  # fmt: skip
    """Write a model as one interactive page.

    Every shape, what drives the prediction, how sure the model is, and a what-if panel, in a file that opens without a
    network. With data, also why single rows have their predictions; with their target, how well the model does.

    \b
    neuralbasis report houses.nbm
    neuralbasis report houses.nbm later.csv --target price -o houses.html
    """
    from .batches import read_whole
    from .outputs import check_output

    if data is None and (target is not None or rows):
        raise click.UsageError(f"{'--target' if target is not None else '--row'} needs a table")
    output = output or f"{Path(model).name.split('.')[0]}.html"
    check_output(output, model, *([data] if data else []))
    fitted = neuralbasis.load(model)
    X, y = (None, None) if data is None else read_whole(fitted, _open_table(data, given), target)
    neuralbasis.report.write(output, fitted, X, y, [row - 1 for row in rows] or None, title)
    echo(f"{output}: {os.path.getsize(output) / 1e6:.1f} MB", err=True)


@main.command()
@click.argument("model", type=MODEL)
@click.option("--output", "-o", type=click.Path(dir_okay=False), required=True, help="A .png, .svg or .pdf file.")
@click.option("--kind", type=click.Choice(["shapes", "importances", "grid"]), default="shapes")
@click.option("--term", "terms", multiple=True, help="shapes: a term to draw, 'age' or 'age & income'.")
@click.option("-n", "count", type=click.IntRange(1), help="How many terms, the most important first.")
def plot(model: str, output: str, kind: str, terms: tuple[str, ...], count: int | None) -> None:
    """Draw a model.

    \b
    neuralbasis plot houses.nbm -o shapes.png
    neuralbasis plot houses.nbm -o age.pdf --term age --term "age & income"
    """
    from .outputs import check_output

    if terms and (kind != "shapes" or count is not None):
        raise click.UsageError("--term names the shapes to draw; leave --kind and -n out")
    check_output(output, model)
    wishes: dict[str, Any] = {"terms": terms} if terms else {"n": count} if count else {}
    getattr(neuralbasis.plot, kind)(neuralbasis.load(model), path=output, **wishes)


main.add_command(concepts)


@main.command()
@AS_JSON
def doctor(as_json: bool) -> None:
    """Examine and test the installation.

    Versions, threads, compiled kernels, optional packages, and a tiny model fitted, saved and read. The exit code is 0
    if all is well.
    """
    from . import pages
    from .doctor import examine, write_report

    found = examine()
    echo(pages.write_json(found) if as_json else pages.align(write_report(found), left=(0, 1)))
    click.get_current_context().exit(0 if found["ok"] else 1)


def _open_table(path: str, given: dict[str, Any]) -> Any:
    """The table, its reading options taken out of those given."""
    from .tables import Dialect, read_file

    file = click.get_current_context().with_resource(click.open_file(path, "rb"))
    return read_file(path, file, Dialect(**{name: given.pop(name) for name in ("delimiter", "encoding", "missing")}))


def _open_source(paths: tuple[str, ...], given: dict[str, Any]) -> Any:
    """The table in several files, or in one that is read in pieces."""
    from ..data.files import open_files
    from .tables import Dialect, SourceTable

    dialect = Dialect(**{name: given.pop(name) for name in ("delimiter", "encoding", "missing")})
    texts = [name for name, kind in read_feature_types(given["feature_types"]).items() if kind != "continuous"]
    source = open_files(paths, False, dialect.delimiter, dialect.encoding, dialect.nulls, texts)
    return SourceTable(source, dialect)


def _is_large(path: str) -> bool:
    """May a file take more memory than there is? Numbers are about five times as large in a fit as in a file."""
    from ..data.memory import read_limit

    return path != "-" and 5 * os.path.getsize(path) > read_limit(None)


def _check_model(path: str | None, data: tuple[str, ...], force: bool) -> str:
    """Where the model goes: by default beside the work, under the data's name."""
    from .outputs import check_output

    path = path or _name_model(data)
    check_output(path, *data)
    if os.path.exists(path) and not force:
        raise Failure(f"{path} exists already; --force replaces it, --model names another file")
    return path


def _name_model(data: tuple[str, ...]) -> str:
    if "-" in data:
        raise click.UsageError("name the file to write with --model: standard input has no name")
    name = Path(data[0]).name.split(".")[0]
    if len(data) > 1 or not name or glob.has_magic(name):
        raise click.UsageError("name the file to write with --model: the data have several names")
    return f"{name}.nbm"


def _read_wishes(given: dict[str, Any]) -> Wishes:
    """What `fit` or `tune` was asked for, its parameters under the estimators' names."""
    settings = read_settings(given.pop("settings"), neuralbasis.NeuralBasisRegressor().get_params())
    names = "preset", "time_limit", "memory_limit", "checkpoint_dir", "interactions"
    spelled = {name: given.pop(name, None) for name in names}
    parameters = {name: value for name, value in spelled.items() if value is not None}
    if "interactions" in parameters:
        parameters["interactions"] = read_interactions(parameters["interactions"])
    parameters = {"random_state": given.pop("seed"), **parameters, **settings}
    feature_types = read_feature_types(given.pop("feature_types"))
    return Wishes(**given, feature_types=feature_types, parameters=parameters)


def _write_trial(trial: Any, path: str) -> str:
    from . import pages

    kinds = [axis.kind for axis in trial.model.encoder.axes]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    n_rows = trial.n_train + trial.n_held
    lines = [f"{trial.task} of {escape(trial.target)}: {n_rows:,} rows, {len(kinds)} columns ({counts})", ""]
    if trial.measures:
        lines += [pages.write_measures(f"{trial.n_held:,} rows held out", trial.measures), ""]
    saved = f"saved {path}: {len(trial.model.shapes)} terms,"
    if trial.is_refitted:
        lines.append(
            f"{saved} fitted again on all {n_rows:,} rows; the scores are of the fit on {trial.n_train:,} rows"
        )
    elif trial.n_held:
        lines.append(f"{saved} fitted on the other {trial.n_train:,} rows, as measured; --refit would use all rows")
    else:
        lines.append(f"{saved} fitted on all {n_rows:,} rows, none held out")
    return "\n".join(lines)


def _write_trial_json(trial: Any, path: str, **others: Any) -> str:
    from . import pages

    return pages.write_json(
        {
            "model": path,
            "task": trial.task,
            "target": trial.target,
            "rows": {"train": trial.n_train, "held_out": trial.n_held},
            "refitted": trial.is_refitted,
            "scores": pages.list_measures(trial.measures),
            "terms": list(trial.model.term_names),
            **others,
        }
    )
