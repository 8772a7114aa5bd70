"""The commands `fit` and `tune`: open the data, read the options, fit, print the scores, save the model.

Modules that import pyarrow or torch are imported inside the commands, so `--help` stays fast.
"""

from __future__ import annotations

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import neuralbasis

from ..printable import escape
from ..settings import flatten, nest
from . import formatting
from .errors import CommandError, is_first_process
from .options import (
    AS_JSON,
    DROP_MISSING_TARGET,
    OUTPUT,
    TABLE,
    FitOptions,
    check_new,
    check_output,
    group_options,
    open_table,
    read_feature_types,
    read_interactions,
    read_settings,
    table_options,
    take_dialect,
)
from .terminal import echo

if TYPE_CHECKING:
    from .fitting import HoldoutResult
    from .tables import SourceTable

BYTES_PER_FILE_BYTE = 5  # numbers take about five times as much memory during a fit as in a file


model_options = group_options(
    click.option("--target", required=True, metavar="COLUMN", help="Column to predict."),
    click.option("--model", "path", type=OUTPUT, help="File to write; by default the data's name, .nbm."),
    click.option("--force", is_flag=True, help="Replace an existing model file."),
    click.option("--task", type=click.Choice(["auto", "regression", "classification"]), default="auto"),
    click.option(
        "--test-size", type=click.FloatRange(0, 1, max_open=True), default=0.2, help="Share of rows to hold out."
    ),
    DROP_MISSING_TARGET,
    click.option("--split-dates", is_flag=True, help="Use year, month, weekday and hour of dates, else left out."),
    click.option("--refit", is_flag=True, help="After scoring, fit again on all rows and save that model."),
    click.option("--weights", metavar="COLUMN", help="Column of row weights."),
    click.option("--exclude", multiple=True, metavar="COLUMN,…", help="Columns to leave out; 'a & b' for a pair."),
    click.option(
        "--feature-types", multiple=True, metavar="COLUMN=TYPE", help="continuous, nominal, ordinal or low<high."
    ),
    click.option("--interactions", metavar="WHICH", help="Number of pairs: 0, 10, 3x, auto; or 'a & b, a & c'."),
    click.option("--preset", type=click.Choice(["fast", "default", "best"]), help="Trade speed for accuracy."),
    click.option("--seed", type=int, default=42, help="Random seed; the same seed gives the same model."),
    click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any other parameter of the estimators."
    ),
)


def _check_data(context: click.Context, parameter: click.Parameter, paths: tuple[str, ...]) -> tuple[str, ...]:
    """Files must exist; folders, patterns and URLs are checked when they are opened."""
    for path in paths:
        if not (os.path.isdir(path) or glob.has_magic(path) or "://" in path):
            TABLE.convert(path, parameter, context)
    return paths


@click.command()
@click.argument("data", nargs=-1, required=True, type=click.Path(allow_dash=True), callback=_check_data)
@model_options
@click.option("--time-limit", type=float, metavar="SECONDS", help="Stop training after this time.")
@click.option("--memory-limit", metavar="SIZE", help="Such as 2GB: read a larger table in pieces, cached on disk.")
@click.option(
    "--checkpoint-dir", type=click.Path(file_okay=False), metavar="FOLDER", help="Save the state of training there."
)
@click.option("--resume", is_flag=True, help="Continue an interrupted fit with the same options from its checkpoints.")
@AS_JSON
@table_options
def fit(data: tuple[str, ...], path: str | None, force: bool, as_json: bool, **given: Any) -> None:
    """Fit a model, score it on held-out rows, save it.

    DATA is a file, or several files, folders or patterns, all Parquet or all CSV. If the table is larger than memory
    (by default, half of what is free), whole row groups or files are held out.

    \b
    neuralbasis fit houses.csv --target price
    neuralbasis fit credit.parquet --target default --model credit.nbm --exclude id --set outer_bags=14
    neuralbasis fit "sales/*.parquet" --target amount --memory-limit 2GB
    torchrun --nproc-per-node 4 -m neuralbasis fit "sales/*.parquet" --target amount --model sales.nbm
    """
    from .fitting import fit_and_evaluate

    path = _check_model(path, data, force)
    in_memory = len(data) == 1 and given["memory_limit"] is None and _is_small_file(data[0])
    table = open_table(data[0], given) if in_memory else _open_source(data, given)
    result = fit_and_evaluate(table, _read_options(given))
    if is_first_process():
        result.model.save(path)
        echo(_result_json(result, path) if as_json else _format_result(result, path))


@click.command()
@click.argument("data", type=TABLE)
@model_options
@click.option(
    "--trials", "n_trials", type=click.IntRange(1), default=20, help="Settings to try; the first are the given ones."
)
@click.option("--time-limit", type=float, metavar="SECONDS", help="Start no trial after this time.")
@click.option("--space", type=click.Choice(["default", "paper"]), default="default", help="Space of the settings.")
@click.option("--sampler", type=click.Choice(["random", "tpe"]), default="random", help="How to draw settings.")
@click.option("--storage", type=OUTPUT, help="File of trials; run again with it to continue.")
@AS_JSON
@table_options
def tune(data: str, path: str | None, force: bool, as_json: bool, **given: Any) -> None:
    """Search for better settings, then fit as `fit` does.

    Settings are compared on a fifth of the training rows. The scores are measured on other rows, which no trial uses.

    \b
    neuralbasis tune houses.csv --target price --trials 20
    neuralbasis tune credit.parquet --target default --time-limit 3600 --storage credit.trials
    """
    from .fitting import fit_and_evaluate

    path = _check_model(path, (data,), force)
    if given["storage"] is not None:
        check_output(given["storage"], data)
    table = open_table(data, given)
    search = {name: given.pop(name) for name in ("n_trials", "time_limit", "space", "sampler", "storage")}
    result = fit_and_evaluate(table, _read_options(given), search)
    result.model.save(path)
    tuning = result.tuning
    assert tuning is not None
    if as_json:
        echo(_result_json(result, path, trials=tuning.to_rows(), settings=tuning.best.settings))
    else:
        echo(f"{tuning}\n\n{_format_result(result, path)}")


def _open_source(paths: tuple[str, ...], given: dict[str, Any]) -> SourceTable:
    """A table in several files, or in one file that is read in pieces."""
    import pyarrow as pa

    from ..data.files import open_files
    from .tables import SourceTable, describe_file

    dialect = take_dialect(given)
    texts = [name for name, kind in read_feature_types(given["feature_types"]).items() if kind != "continuous"]
    try:
        source = open_files(paths, False, dialect.delimiter, dialect.encoding, dialect.nulls, texts, dialect.decimal)
    except ValueError as error:
        if not isinstance(error.__cause__, pa.ArrowInvalid):
            raise
        raise CommandError(
            describe_file(str(error).partition(" cannot be read (")[0], error.__cause__, dialect)
        ) from error
    names = [field.name for field in source.dataset.schema if pa.types.is_binary(field.type)]
    if names:  # texts of CSV files in another encoding
        files = {piece.path for piece in source.pieces if piece.path is not None}
        raise CommandError(describe_file(sorted(files)[0], UnicodeError(names[0]), dialect))
    return SourceTable(source, dialect)


def _is_small_file(path: str) -> bool:
    """Whether a path is standard input, or a file whose table fits into memory."""
    from ..data.memory import read_limit

    return path == "-" or (os.path.isfile(path) and BYTES_PER_FILE_BYTE * os.path.getsize(path) <= read_limit(None))


def _check_model(path: str | None, data: tuple[str, ...], force: bool) -> str:
    """Path of the model file; by default the name of the data, in the working directory."""
    if path is None:
        if "-" in data:
            raise click.UsageError("name the file to write with --model: standard input has no name")
        name = Path(data[0]).name.split(".")[0]
        if len(data) > 1 or not name or glob.has_magic(name):
            raise click.UsageError("name the file to write with --model: the data have several names")
        path = f"{name}.nbm"
    check_output(path, *data)
    check_new(path, "--model", force)
    return path


def _read_options(given: dict[str, Any]) -> FitOptions:
    """Options of `fit` or `tune`, with the parameters under the estimators' names."""
    known = neuralbasis.NeuralBasisRegressor().get_params(deep=False)
    settings = read_settings(given.pop("settings"), flatten(known))
    names = "preset", "time_limit", "memory_limit", "checkpoint_dir", "interactions"
    values = {name: given.pop(name, None) for name in names}
    parameters = {name: value for name, value in values.items() if value is not None}
    if "interactions" in parameters:
        parameters["interactions"] = read_interactions(parameters["interactions"])
    parameters = nest({"random_state": given.pop("seed"), **parameters, **settings})
    feature_types = read_feature_types(given.pop("feature_types"))
    return FitOptions(**given, feature_types=feature_types, parameters=parameters)


def _format_result(result: HoldoutResult, path: str) -> str:
    kinds = [axis.kind for axis in result.model.encoder.axes]
    counts = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    n_rows = result.n_train + result.n_held
    lines = [f"{result.task} of {escape(result.target)}: {n_rows:,} rows, {len(kinds)} columns ({counts})", ""]
    if result.metrics:
        lines += [formatting.format_metrics(f"{formatting.count_rows(result.n_held)} held out", result.metrics), ""]
    saved = f"saved {path}: {len(result.model.shapes)} terms,"
    if result.is_refitted:
        lines.append(
            f"{saved} fitted again on all {n_rows:,} rows; the scores are of the fit on {result.n_train:,} rows"
        )
    elif result.n_held:
        lines.append(f"{saved} fitted on the other {result.n_train:,} rows, as measured; --refit would use all rows")
    else:
        lines.append(f"{saved} fitted on all {n_rows:,} rows, none held out")
    return "\n".join(lines)


def _result_json(result: HoldoutResult, path: str, **others: Any) -> str:
    return formatting.format_json(
        {
            "model": path,
            "task": result.task,
            "target": result.target,
            "rows": {"train": result.n_train, "held_out": result.n_held},
            "refitted": result.is_refitted,
            "scores": formatting.list_metrics(result.metrics),
            "terms": list(result.model.term_names),
            **others,
        }
    )
