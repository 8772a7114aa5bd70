"""Apply a model to a table batch by batch: predict, evaluate, read single rows.

In: a model and an open table. Out: files, metrics or rows. Memory does not grow with the table, except in
`evaluate_table` and `detect_table`, which keep the target and the prediction of every row, and in `read_whole`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click
import numpy as np
import pyarrow as pa

from ..data.columns import Column, Columns, level_text, list_names
from ..data.target import check_weights
from ..encoding.axis import Axis, level_axis
from ..encoding.encoder import Encoder
from ..model.additive_model import AdditiveModel
from ..model.predictions import output_arrays, output_names
from ..vision.detection import Boxes, Detection, evaluate, read_annotations, read_boxes
from .errors import CommandError, note, require_names
from .metrics import Metric, classification_metrics, regression_metrics
from .outputs import open_output
from .tables import NUMBER, TEXT, AnyTable, needed_types, read_batch, respell

BAR_STEPS = 1000  # of a progress bar


def predict_table(
    model: AdditiveModel, table: AnyTable, path: str, keep: Sequence[str], proba: bool, contributions: bool
) -> int:
    """Write the kept columns and the predictions of all rows; return the number of rows.

    `proba` adds the probabilities of the classes, `contributions` all contributions, the intercept and the score.
    """
    outputs = ["prediction", *["probability"] * proba, *["contributions", "score"] * contributions]
    names = output_names(model, outputs)
    if repeated := [name for name in keep if name in names]:
        raise CommandError(
            f"--keep: the output already has a column {list_names(repeated)}; rename that column in {table.place}"
        )
    types = {**dict.fromkeys(keep, TEXT), **needed_types(model.encoder.axes)}
    table.require(types)
    n_rows = 0
    with open_output(path, [*keep, *names]) as output:
        for batch in show_progress(table, types, is_shown=path != "-"):
            rows = read_batch(batch, model.encoder.axes, table.dialect.nulls)
            arrays = [*map(batch.column, keep), *map(pa.array, output_arrays(model, rows, outputs))]
            output.write(pa.RecordBatch.from_arrays(arrays, [*keep, *names]))
            n_rows += batch.num_rows
    return n_rows


def evaluate_table(
    model: AdditiveModel, table: AnyTable, target: str, weights: str | None = None
) -> tuple[list[Metric], int]:
    """Metrics of the model on a table, next to the best constant for these rows, and the number of rows."""
    axis = _target_axis(model, target)
    axes = (*model.encoder.axes, axis)
    if target in model.encoder.names:
        raise CommandError(f"column {target!r} is a feature of the model and cannot be its target; name another column")
    types = {**needed_types(axes), **({weights: NUMBER} if weights else {})}
    y, predictions, mass = [], [], []
    for batch in show_progress(table, types):
        rows = read_batch(batch, axes, table.dialect.nulls)
        y.append(Encoder((axis,)).numbers(rows.select([target]))[:, 0])
        columns = rows.select(model.encoder.names)
        predictions.append(model.predict(columns) if model.classes is None else model.predict_proba(columns))
        mass.append(batch.column(weights).to_numpy(zero_copy_only=False) if weights else np.ones(batch.num_rows))
    if not y:
        raise CommandError(f"{table.place} has no rows to evaluate")
    truth, found = np.concatenate(y), np.concatenate(predictions)
    return compute_metrics(model, target, truth, found, np.concatenate(mass)), len(truth)


def detect_table(model: AdditiveModel, table: AnyTable, path: str, image: str, box: Sequence[str]) -> Detection:
    """Evaluate a table of candidate boxes, scored by the model, against the annotations in a file."""
    if model.classes is None:
        raise CommandError("--detection needs a model of classes; this one is a regression")
    annotations, axes = read_annotations(path), model.encoder.axes
    types = {image: TEXT, **dict.fromkeys(box, NUMBER), **needed_types(axes)}
    images, corners, found = [], [], []
    for batch in show_progress(table, types):
        found.append(model.predict_proba(read_batch(batch, axes, table.dialect.nulls)))
        images += batch.column(image).to_pylist()
        corners.append(np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in box]))
    if not found:
        raise CommandError(f"{table.place} has no rows to evaluate")
    boxes = Boxes(table.place, np.array(images, dtype=object), np.concatenate(corners))
    return evaluate(dict(zip(model.classes.tolist(), np.concatenate(found).T, strict=True)), boxes, annotations)


def detect_boxes(
    model: AdditiveModel, path: str, features: str | None, truth: str, image: str, box: Sequence[str]
) -> Detection:
    """Evaluate boxes whose features are in a separate file, which is read whole; sparse features stay sparse."""
    return evaluate(model, read_boxes(path, features, image=image, box=box), read_annotations(truth))


def compute_metrics(
    model: AdditiveModel,
    target: str,
    y: np.ndarray,
    predictions: np.ndarray,
    weights: np.ndarray,
    constant: Any = None,
) -> list[Metric]:
    """Metrics of predictions (N,), or of probabilities (N, classes).

    y : (N,) values, or indices of classes; NaN is missing, -1 an unknown class
    constant : prediction or class shares of the constant model; by default the best for these rows
    """
    weights = check_weights(weights, len(y))
    check_target(model, target, y)
    if model.classes is None:
        constant = np.average(y, weights=weights) if constant is None else constant
        return regression_metrics(y, predictions, constant, weights)
    codes = y.astype(int)
    shares = np.bincount(codes, weights, len(model.classes)) / weights.sum() if constant is None else constant
    return classification_metrics(codes, predictions, shares, weights)


def check_target(model: AdditiveModel, target: str, y: np.ndarray) -> None:
    """Raise if a value (or index of a class) is missing, or a class is unknown to the model."""
    if np.isnan(y).any():
        raise CommandError(missing_target(target, np.isnan(y)))
    if model.classes is not None and (y < 0).any():
        row = int(np.argmax(y < 0)) + 1
        known = list_names([level_text(label) for label in model.classes])
        raise CommandError(
            f"target {target!r} holds a class that the model does not know, first in row {row}; the model knows {known}"
        )


def read_whole(model: AdditiveModel, table: AnyTable, target: str | None) -> tuple[Columns, np.ndarray | None]:
    """All rows of a table, and the values or labels of the target if one is named."""
    axes = model.encoder.axes if target is None else (*model.encoder.axes, _target_axis(model, target))
    batches = list(show_progress(table, needed_types(axes)))
    if not batches:
        raise CommandError(f"{table.place} has no rows")
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    rows = read_batch(whole, axes, table.dialect.nulls)
    columns = rows.select(model.encoder.names)
    if target is None:
        return columns, None
    y = Encoder(axes[-1:]).numbers(rows.select([target]))[:, 0]
    check_target(model, target, y)
    return columns, y if model.classes is None else model.classes[y.astype(int)]


def missing_target(target: str, is_missing: np.ndarray) -> str:
    """Error message for missing values of the target."""
    rows = "1 row" if is_missing.sum() == 1 else f"{is_missing.sum():,} rows"
    return f"target {target!r} is missing in {rows}, first in row {np.argmax(is_missing) + 1:,}; drop these rows"


def find_row(model: AdditiveModel, table: AnyTable, number: int) -> Columns:
    """One row of a table, counted from 1."""
    before = 0
    for batch in table.batches(needed_types(model.encoder.axes)):
        if number <= before + batch.num_rows:
            return read_batch(batch.slice(number - before - 1, 1), model.encoder.axes, table.dialect.nulls)
        before += batch.num_rows
    raise CommandError(f"{table.place} has {before:,} rows; there is no row {number:,}")


def read_row(model: AdditiveModel, values: Mapping[str, str], missing: Sequence[str]) -> Columns:
    """One row from texts by column; columns that are not given are missing."""
    names = model.encoder.names
    require_names(values, names, "the model")
    if absent := [name for name in names if name not in values]:
        note(f"not given, so read as missing: {list_names(absent)}")
    columns = [Column(name, None, np.zeros(1, np.int32), (values.get(name, ""),)) for name in names]
    found = [respell(column, axis, missing) for column, axis in zip(columns, model.encoder.axes, strict=True)]
    return Columns(names, 1, columns=tuple(found))


def show_progress(table: AnyTable, types: Mapping[str, pa.DataType], is_shown: bool = True) -> Iterator[pa.RecordBatch]:
    """Batches with at least one row, with a progress bar on a terminal."""
    hidden = not is_shown or table.progress is None or not sys.stderr.isatty()
    with click.progressbar(length=BAR_STEPS, file=sys.stderr, hidden=hidden) as bar:
        for batch in table.batches(types):
            if batch.num_rows:
                yield batch
            bar.update(int(BAR_STEPS * (table.progress or 0)) - bar.pos)


def _target_axis(model: AdditiveModel, target: str) -> Axis:
    """Axis of the target: continuous, or with the classes of the model as levels."""
    if model.classes is None:
        return Axis(target, "continuous", np.array([-1.0, 1.0]), np.array([0.0, 1.0]))
    return level_axis(target, "nominal", [level_text(label) for label in model.classes])
