"""Apply a model to a table batch by batch: predict, evaluate, read single rows.

In: a model and an open table. Out: files, metrics or rows. Memory does not grow with the table, except in
`evaluate_table` and `detect_table`, which keep the target and the prediction of every row, and in `read_whole`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import click
import numpy as np
import pyarrow as pa

from ..data.columns import Column, Columns, level_text, list_names
from ..data.target import Sample, check_weights
from ..encoding.axis import Axis, level_axis
from ..encoding.encoder import Encoder
from ..model.additive_model import AdditiveModel
from ..model.predictions import output_arrays, output_names
from ..model.residuals import require_residuals
from ..vision.detection import Boxes, Detection, evaluate, read_annotations
from .dates import find_date_parts, name_dates
from .errors import CommandError, note, require_names
from .formatting import count_rows
from .metrics import Metric, classification_metrics, regression_metrics
from .outputs import open_output
from .tables import Dialect, OpenTable, read_batch, respell

BAR_STEPS = 1000  # of a progress bar


def predict_table(
    model: AdditiveModel, table: OpenTable, path: str, keep: Sequence[str], proba: bool, contributions: bool,
    interval: float | None = None,
) -> int:  # fmt: skip
    """Write the kept columns and the predictions of all rows; return the number of rows.

    `proba` adds the probabilities of the classes, `contributions` all contributions, the intercept and the score,
    `interval` the bounds of this coverage.
    """
    more = [*["probability"] * proba, *["contributions", "score"] * contributions]
    suffixes = [name.removeprefix("score") for name in output_names(model, ["score"])]
    names = ["prediction", *output_names(model, more)]
    if interval is not None:
        names[1:1] = [f"{bound}{suffix}" for suffix in suffixes for bound in ("lower", "upper")]
        require_residuals(model.residuals)  # raises before anything is read
    if repeated := [name for name in keep if name in names]:
        raise CommandError(
            f"--keep: the output already has a column {list_names(repeated)}; rename that column in {table.place}"
        )
    dates = find_date_parts(model.encoder.names, table.names)
    table.require([*keep, *name_dates((name for name in model.encoder.names if name not in dates), table.names)])
    n_rows = 0
    with open_output(path, [*keep, *names]) as output:
        for batch, rows in read_batches(table, model.encoder.axes, keep, is_shown=path != "-"):
            bounds = () if interval is None else model.predict_interval(rows, interval).reshape(len(batch), -1).T
            found = [*output_arrays(model, rows, ["prediction"]), *bounds, *output_arrays(model, rows, more)]
            arrays = [*map(batch.column, keep), *map(pa.array, found)]
            output.write(pa.RecordBatch.from_arrays(arrays, [*keep, *names]))
            n_rows += batch.num_rows
    return n_rows


def evaluate_table(
    model: AdditiveModel, table: OpenTable, target: str, weights: str | None = None, drop_missing: bool = False
) -> tuple[list[Metric], int]:
    """Metrics of the model on a table, next to the best constant for these rows, and the number of rows."""
    axis = _target_axis(model, target)
    if target in model.encoder.names:
        raise CommandError(f"column {target!r} is a feature of the model and cannot be its target; name another column")
    y, texts, predictions, mass = [], [], [], []
    for batch, rows in read_batches(table, (*model.encoder.axes, axis), numbers=[weights] if weights else []):
        y.append(_read_target(rows, axis))
        texts.append(batch.column(target))
        columns = rows.select(model.encoder.names)
        predictions.append(model.predict(columns) if model.classes is None else model.predict_proba(columns))
        mass.append(batch.column(weights).to_numpy(zero_copy_only=False) if weights else np.ones(batch.num_rows))
    if not y:
        raise CommandError(f"{table.place} has no rows to evaluate")
    truth, found, every = (np.concatenate(parts) for parts in (y, predictions, mass))
    written = pa.concat_arrays(texts)
    if drop_missing and not np.isnan(truth).all():
        kept = keep_known(target, truth)
        truth, found, every, written = truth[kept], found[kept], every[kept], written.filter(pa.array(kept))
    check_target(model, target, truth, written)
    sample = Sample(truth, check_weights(every, len(truth)))
    return compute_metrics(model, found, sample, train=sample), len(truth)


def detect_table(model: AdditiveModel, table: OpenTable, path: str, image: str, box: Sequence[str]) -> Detection:
    """Evaluate a table of candidate boxes, scored by the model, against the annotations in a file."""
    if model.classes is None:
        raise CommandError("--detection needs a model of classes; this one is a regression")
    annotations = read_annotations(path)
    images, corners, found = [], [], []
    for batch, rows in read_batches(table, model.encoder.axes, [image], box):
        found.append(model.predict_proba(rows))
        images += batch.column(image).to_pylist()
        corners.append(np.column_stack([batch.column(name).to_numpy(zero_copy_only=False) for name in box]))
    if not found:
        raise CommandError(f"{table.place} has no rows to evaluate")
    boxes = Boxes(table.place, np.array(images, dtype=object), np.concatenate(corners))
    return evaluate(dict(zip(model.classes.tolist(), np.concatenate(found).T, strict=True)), boxes, annotations)


def compute_metrics(model: AdditiveModel, predictions: np.ndarray, sample: Sample, train: Sample) -> list[Metric]:
    """Metrics of predictions (N,) of values, or of probabilities (N, classes) of classes, given by their indices.

    The constant model is the mean of the training rows, or the shares of their classes.
    """
    if model.classes is None:
        constant = float(np.average(train.y, weights=train.weights))
        return regression_metrics(sample.y, predictions, constant, sample.weights)
    shares = np.bincount(train.y.astype(int), train.weights, len(model.classes))
    return classification_metrics(sample.y.astype(int), predictions, shares / shares.sum(), sample.weights)


def check_target(model: AdditiveModel, target: str, y: np.ndarray, texts: pa.Array) -> None:
    """Raise if a value (or index of a class) is missing, or a class is unknown; `texts` are as in the table."""
    if np.isnan(y).any():
        raise CommandError(missing_target(target, np.isnan(y)))
    if model.classes is not None and (y < 0).any():
        row = int(np.argmax(y < 0))
        known = list_names([level_text(label) for label in model.classes])
        raise CommandError(
            f"target {target!r} holds {level_text(texts[row].as_py())!r} in row {row:,} (0 is the first), a class that "
            f"the model does not know; it knows {known}"
        )


def read_whole(
    model: AdditiveModel, table: OpenTable, target: str | None, drop_missing: bool = False
) -> tuple[Columns, np.ndarray | None]:
    """All rows of a table, or those with a target, and the values or labels of the target if one is named."""
    axes = model.encoder.axes if target is None else (*model.encoder.axes, _target_axis(model, target))
    batches = list(show_progress(table, [axis.name for axis in axes]))
    if not batches:
        raise CommandError(f"{table.place} has no rows")
    (whole,) = pa.Table.from_batches(batches).combine_chunks().to_batches()
    table.first_row = 0
    rows = read_batch(whole, axes, table)
    table.note_odd()
    columns = rows.select(model.encoder.names)
    if target is None:
        return columns, None
    y, texts = _read_target(rows, axes[-1]), whole.column(target)
    if drop_missing and not np.isnan(y).all() and not (kept := keep_known(target, y)).all():
        columns, y, texts = keep_rows(columns, kept), y[kept], texts.filter(pa.array(kept))
    check_target(model, target, y, texts)
    return columns, y if model.classes is None else model.classes[y.astype(int)]


def keep_rows(columns: Columns, kept: np.ndarray) -> Columns:
    """The rows in a mask."""
    found = []
    for column in columns:
        numbers, codes = (None if values is None else values[kept] for values in (column.numbers, column.codes))
        found.append(replace(column, numbers=numbers, codes=codes))
    return Columns(columns.names, int(kept.sum()), columns=tuple(found))


def missing_target(target: str, is_missing: np.ndarray) -> str:
    """Error message for missing values of the target."""
    first = f"first in row {np.argmax(is_missing):,} (0 is the first)"
    rows = count_rows(is_missing.sum())
    return f"target {target!r} is missing in {rows}, {first}; --drop-missing-target leaves such rows out"


def keep_known(target: str, y: np.ndarray) -> np.ndarray:
    """(N,) mask of the rows with a target; prints a note if some have none."""
    is_missing = np.isnan(y)
    if is_missing.any():
        note(f"{count_rows(is_missing.sum())} without a value of the target {target!r} left out")
    return ~is_missing


def find_row(model: AdditiveModel, table: OpenTable, number: int) -> Columns:
    """One row of a table, counted from 0 as in Python."""
    before = 0
    for batch in table.batches(model.encoder.names):
        if number < before + batch.num_rows:
            table.first_row = number
            return read_batch(batch.slice(number - before, 1), model.encoder.axes, table)
        before += batch.num_rows
    raise CommandError(describe_absent_row(table, number))


def describe_absent_row(table: OpenTable, number: int) -> str:
    """Error message for a row beyond the end of a table that was read."""
    n_rows = table.n_read
    rows = f"has {n_rows:,} rows, from 0 to {n_rows - 1:,}" if n_rows else "has no rows"
    return f"{table.place} {rows}; there is no row {number:,}"


def read_row(model: AdditiveModel, values: Mapping[str, str], dialect: Dialect) -> Columns:
    """One row from texts by column; columns that are not given are missing."""
    names = model.encoder.names
    require_names(values, names, "the model")
    if absent := [name for name in names if name not in values]:
        note(f"not given, so read as missing: {list_names(absent)}")
    columns = [Column(name, None, np.zeros(1, np.int32), (values.get(name, ""),)) for name in names]
    table = OpenTable("the row", dialect)
    found = [respell(column, axis, table) for column, axis in zip(columns, model.encoder.axes, strict=True)]
    return Columns(names, 1, columns=tuple(found))


def read_batches(
    table: OpenTable,
    axes: Sequence[Axis],
    texts: Sequence[str] = (),
    numbers: Sequence[str] = (),
    is_shown: bool = True,
) -> Iterator[tuple[pa.RecordBatch, Columns]]:
    """Batches with the columns of these axes and others, and the columns of the axes in the model's spelling."""
    for batch in show_progress(table, [*texts, *(axis.name for axis in axes)], numbers, is_shown):
        yield batch, read_batch(batch, axes, table)
    table.note_odd()


def show_progress(
    table: OpenTable, texts: Sequence[str], numbers: Sequence[str] = (), is_shown: bool = True
) -> Iterator[pa.RecordBatch]:
    """Batches with at least one row, with a progress bar on a terminal."""
    hidden = not is_shown or table.progress is None or not sys.stderr.isatty()
    with click.progressbar(length=BAR_STEPS, file=sys.stderr, hidden=hidden) as bar:
        for batch in table.batches(texts, numbers):
            if batch.num_rows:
                yield batch
            bar.update(int(BAR_STEPS * (table.progress or 0)) - bar.pos)


def _target_axis(model: AdditiveModel, target: str) -> Axis:
    """Axis of the target: continuous, or with the classes of the model as levels."""
    if model.classes is None:
        return Axis(target, "continuous", np.array([-1.0, 1.0]), np.array([0.0, 1.0]))
    return level_axis(target, "nominal", [level_text(label) for label in model.classes])


def _read_target(rows: Columns, axis: Axis) -> np.ndarray:
    """(N,) values or indices of classes; NaN is missing, -1 an unknown class."""
    return Encoder((axis,)).numbers(rows.select([axis.name]))[:, 0]
