"""The commands that check a table, and that merge, update and compare models."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import neuralbasis

from . import formatting
from .options import (
    AS_JSON,
    DROP_MISSING_TARGET,
    FORCE,
    MODEL,
    OUTPUT,
    TABLE,
    check_output,
    open_table,
    read_settings,
    table_options,
)
from .terminal import echo

if TYPE_CHECKING:
    from ..data.columns import Columns


@click.command()
@click.argument("data", type=TABLE)
@click.option("--target", metavar="COLUMN", help="Column to predict; also finds columns that give it away.")
@AS_JSON
@table_options
def check(data: str, target: str | None, as_json: bool, **given: Any) -> None:
    """Look for what misleads a model, and print the command that fits the table.

    Finds identifiers, codes for missing values, dates, currency, decimal commas, columns that give the target away,
    duplicate rows and columns, and constant or empty columns.

    \b
    neuralbasis check houses.csv --target price
    """
    from .check import check_table, format_checks

    table = open_table(data, given)
    table.require([target] if target else [])
    checks = check_table(table, data, target)
    if as_json:
        echo(formatting.format_json({**asdict(checks), "command": checks.command}))
    else:
        echo(format_checks(checks))


@click.command()
@click.argument("models", nargs=-1, required=True, type=MODEL)
@click.option("--output", "-o", type=OUTPUT, required=True, help="Model file to write.")
@click.option("--weight", "weights", type=float, multiple=True, help="Weight of a row of each model, in their order.")
@FORCE
def merge(models: tuple[str, ...], output: str, weights: tuple[float, ...], force: bool) -> None:
    """Merge models of the same columns, fitted on different rows, into one; no rows are needed.

    \b
    neuralbasis merge north.nbm south.nbm -o country.nbm
    """
    if len(models) < 2:
        raise click.UsageError("give two models or more")
    check_output(output, *models, force=force)
    found = neuralbasis.merge([neuralbasis.load(path) for path in models], list(weights) or None)
    found.save(output)
    n_rows = "" if found.summary is None else f" of {found.summary.n_rows:,} rows"
    echo(f"saved {output}: {len(models)} models{n_rows}, {len(found.shapes)} terms")


@click.command()
@click.argument("model", type=MODEL)
@click.argument("data", type=TABLE)
@click.option("--output", "-o", type=OUTPUT, required=True, help="Model file to write.")
@click.option("--target", metavar="COLUMN", help="Column of true values; by default the target of the fit.")
@click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Any parameter of the estimators.")
@DROP_MISSING_TARGET
@FORCE
@table_options
def update(
    model: str, data: str, output: str, target: str | None, settings: tuple[str, ...], drop_missing_target: bool,
    force: bool, **given: Any,
) -> None:  # fmt: skip
    """Correct a model with new rows; its terms stay.

    \b
    neuralbasis update houses.nbm this_year.csv -o houses_new.nbm
    """
    from dataclasses import replace

    from ..settings import flatten
    from .batches import read_whole

    check_output(output, model, data, force=force)
    fitted = neuralbasis.load(model)
    target = target or getattr(fitted.summary, "target", None)
    if target is None:
        raise click.UsageError("the model file has no name of a target: give --target")
    X, y = read_whole(fitted, open_table(data, given), target, drop_missing_target)
    known = flatten(neuralbasis.NeuralBasisRegressor().get_params(deep=False))
    found = neuralbasis.update(fitted, list_values(X), y, **read_settings(settings, known))
    if found.summary is not None:
        found = replace(found, summary=replace(found.summary, target=target))
    found.save(output)
    echo(f"saved {output}: corrected with {X.n_rows:,} rows of {data}, {len(found.shapes)} terms")


def list_values(columns: Columns) -> dict[str, np.ndarray]:
    """The numbers or texts of each column; None is missing."""
    found = {}
    for column in columns:
        if column.numbers is None:
            codes, levels = column.to_labels()
            found[column.name] = np.array([*levels, None], dtype=object)[codes]
        else:
            found[column.name] = column.numbers
    return found


@click.command()
@click.argument("first", type=MODEL)
@click.argument("second", type=MODEL)
@AS_JSON
def diff(first: str, second: str, as_json: bool) -> None:
    """Compare two models of the same columns term by term.

    The difference of a term is the mean distance of its two curves, over the training rows of the first model.

    \b
    neuralbasis diff last_year.nbm this_year.nbm
    """
    from .difference import compare_models

    rows = compare_models(neuralbasis.load(first), neuralbasis.load(second))
    if as_json:
        echo(formatting.format_json({"terms": [asdict(row) for row in rows]}))
        return
    cells = [["term", first, second, "difference", ""]]
    for row in rows:
        sizes = [formatting.format_number(np.nan if size is None else size) for size in (row.first, row.second)]
        cells.append([row.term, *sizes, formatting.format_number(row.difference), row.note])
    echo(formatting.align(cells, left=(0, 4)))
