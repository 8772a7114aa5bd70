"""Hold out rows of a table, fit on the others and score: the work of `neuralbasis fit` and `tune`.

In: an open table and `FitOptions`. Out: a `HoldoutResult`. A table in memory is split by rows. A table
larger than memory is read in pieces (row groups or files), and whole pieces are held out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

import neuralbasis

from ..data import target as sample
from ..data.columns import level_text
from ..data.memory import count_rows_in_memory, read_limit
from ..data.text_numbers import parse_texts
from ..model.additive_model import AdditiveModel
from .batches import compute_metrics, evaluate_table, missing_target
from .errors import CommandError, note
from .metrics import Metric
from .options import FitOptions
from .tables import TEXT, AnyTable, SourceTable

if TYPE_CHECKING:
    from ..data.files import Source

MANY_LEVELS = 0.5  # levels per row above which a text column looks like an identifier of the rows
FEW_VALUES = 20  # at most this many distinct integers might be classes


@dataclass(frozen=True, eq=False)
class HoldoutResult:
    """A fitted model and its metrics on held-out rows; `metrics` is empty if none were held out."""

    model: AdditiveModel
    task: str
    target: str
    n_train: int
    n_held: int
    is_refitted: bool
    metrics: list[Metric]


@dataclass(frozen=True, eq=False)
class FileRows:
    """Columns, target and weights in memory."""

    X: pa.Table
    y: np.ndarray
    weights: np.ndarray | None

    def take(self, rows: np.ndarray) -> FileRows:
        weights = None if self.weights is None else self.weights[rows]
        return FileRows(self.X.take(rows), self.y[rows], weights)


def fit_and_evaluate(
    table: AnyTable, options: FitOptions, choose: Callable[[Any, FileRows], Any] = lambda estimator, _: estimator
) -> HoldoutResult:
    """Read the table, hold out rows, fit, score, and fit again on all rows if requested.

    `choose` takes the estimator and the training rows and returns the estimator to fit.
    """
    if isinstance(table, SourceTable) and exceeds_memory(table, options):
        return fit_out_of_core(table, options)
    rows, task = read_rows(table, options)
    is_held = hold_out(rows.y, options.test_size, task, options.parameters.get("random_state", 42))
    train, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
    train_rows = rows.take(train) if len(held) else rows
    estimator = choose(make_estimator(rows.X.column_names, task, options), train_rows)
    model = _fit(estimator, train_rows, options)
    metrics = _evaluate(model, train_rows, rows.take(held), options.target) if len(held) else []
    is_refitted = options.refit and len(held) > 0
    if is_refitted:
        model = _fit(_prepare_refit(estimator), rows, options)
    return HoldoutResult(model, task, options.target, len(train), len(held), is_refitted, metrics)


def exceeds_memory(table: SourceTable, options: FitOptions) -> bool:
    """Whether a table is too large to be fitted in memory."""
    limit = read_limit(options.parameters.get("memory_limit"))
    features = options.choose_features(table.names, table.place)
    return (table.source.n_rows or 0) > count_rows_in_memory(len(features), limit)


def fit_out_of_core(table: SourceTable, options: FitOptions) -> HoldoutResult:
    """`fit_and_evaluate` for a table larger than memory: pieces are held out, and the table is never read whole."""
    source, features = table.source, options.choose_features(table.names, table.place)
    task = detect_task(table, options)
    is_held = hold_out_pieces(source, options.test_size, options.parameters.get("random_state", 42))
    train, held = (
        source.take(piece for piece in source.pieces if is_held[piece.index] == side) for side in (False, True)
    )
    estimator = make_estimator(features, task, options).set_params(feature_names=features)
    model = estimator.fit(train, options.target, options.weights, resume=options.resume).model_
    metrics: list[Metric] = []
    if held.pieces:
        metrics, _ = evaluate_table(model, SourceTable(held, table.dialect), options.target, options.weights)
    is_refitted = options.refit and bool(held.pieces)
    if is_refitted:
        estimator = _prepare_refit(estimator)
        model = estimator.fit(source, options.target, options.weights, resume=options.resume).model_
    return HoldoutResult(model, task, options.target, train.n_rows or 0, held.n_rows or 0, is_refitted, metrics)


def hold_out_pieces(source: Source, share: float, seed: int) -> np.ndarray:
    """(pieces,) mask of pieces to hold out at random: about this share of the rows, at least one piece, never all."""
    n_rows = np.array([piece.n_rows or 1 for piece in source.pieces])
    order = np.random.default_rng(seed).permutation(len(n_rows))
    is_held = np.zeros(len(n_rows), dtype=bool)
    is_held[order] = np.cumsum(n_rows[order]) - n_rows[order] / 2 < share * n_rows.sum()
    is_held[order[0]] |= share > 0
    if share > 0 and is_held.all():
        note("the data are a single piece, so no rows are held out and there are no scores")
        return np.zeros(len(n_rows), dtype=bool)
    return is_held


def detect_task(table: SourceTable, options: FitOptions) -> str:
    """The requested task, or the one that fits the target: texts, booleans and two distinct numbers are classes."""
    if options.task != "auto":
        return options.task
    distinct: np.ndarray | None = None
    for batch in table.batches({options.target: TEXT}):
        column = batch.column(0)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return "regression" if pa.types.is_decimal(column.type) else "classification"
        found = pa.compute.unique(column).to_numpy(zero_copy_only=False)
        distinct = np.unique(found if distinct is None else np.concatenate([distinct, found]))
        if len(distinct) > FEW_VALUES:
            break
    values = np.empty(0) if distinct is None else distinct
    task = "classification" if len(values) == 2 else "regression"
    _note_few_values(values, options.target, task)
    return task


def read_rows(table: AnyTable, options: FitOptions) -> tuple[FileRows, str]:
    """Columns, target and weights of a file, and the task."""
    features = options.choose_features(table.names, table.place)
    others = [options.target, *([options.weights] if options.weights else [])]
    texts = [name for name, kind in options.feature_types.items() if kind != "continuous"]
    found = table.read([*features, *others], texts)
    if found.num_rows < 2:
        raise CommandError(f"{table.place} has {found.num_rows} rows; a model needs at least 2")
    for name in features:
        _check_texts(found[name], name, table.dialect.nulls, name in options.feature_types)
    y, task = read_target(found[options.target], options.target, options.task)
    weights = None
    if options.weights:
        weights = sample.check_weights(found[options.weights].to_numpy(), found.num_rows)
    return FileRows(found.select(features), y, weights), task


def read_target(column: pa.ChunkedArray, name: str, task: str) -> tuple[np.ndarray, str]:
    """(N,) numbers or labels, and the task; texts, booleans and two distinct numbers are classes."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise CommandError(missing_target(name, column.is_null().to_numpy()))
    if pa.types.is_temporal(column.type) or pa.types.is_nested(column.type):
        raise CommandError(f"target {name!r} must hold numbers or classes, but has the type {column.type}; convert it")
    is_label = not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    is_label = is_label and not pa.types.is_decimal(column.type)
    if is_label and task == "regression":
        raise CommandError(
            f"target {name!r} holds {level_text(column[0].as_py())!r}, but a regression needs numbers; correct it, or "
            "give --task classification"
        )
    values = np.array(column.to_pylist()) if is_label else column.cast(pa.float64()).to_numpy()
    if not is_label and np.isnan(values).any():
        raise CommandError(missing_target(name, np.isnan(values)))
    if task == "auto":
        task = "classification" if is_label or len(np.unique(values)) == 2 else "regression"
        _note_few_values(values, name, task)
    if task == "classification" and not is_label and (values == np.rint(values)).all():
        values = values.astype(np.int64)
    return values, task


def make_estimator(names: Sequence[str], task: str, options: FitOptions) -> Any:
    kind = neuralbasis.NeuralBasisRegressor if task == "regression" else neuralbasis.NeuralBasisClassifier
    return kind(
        feature_types=[options.feature_types.get(name, "auto") for name in names],
        exclude=options.excluded_terms(names) or None,
        verbose=sys.stderr.isatty(),
        **options.parameters,
    )


def hold_out(y: np.ndarray, share: float, task: str, seed: int) -> np.ndarray:
    """(N,) mask of rows to hold out, the same share of each class; raises if the share selects none."""
    is_held = sample.hold_out(y, share, task == "classification", seed)
    if share > 0 and not is_held.any():
        raise CommandError(
            f"--test-size {share} of {len(y)} rows holds none out; give a larger share, or 0 for no scores"
        )
    return is_held


def _fit(estimator: Any, rows: FileRows, options: FitOptions) -> AdditiveModel:
    model = estimator.fit(rows.X, rows.y, sample_weight=rows.weights, resume=options.resume).model_
    return replace(model, summary=replace(model.summary, target=options.target))


def _prepare_refit(estimator: Any) -> Any:
    """The estimator for the second fit, with a separate folder for its checkpoints."""
    folder = estimator.checkpoint_dir
    return estimator if folder is None else estimator.set_params(checkpoint_dir=Path(folder, "refit"))


def _evaluate(model: AdditiveModel, train: FileRows, held: FileRows, target: str) -> list[Metric]:
    """Metrics on the held-out rows; the constant model is fitted on the training rows."""
    weights = np.ones(len(held.y)) if held.weights is None else held.weights
    if model.classes is None:
        constant = np.average(train.y, weights=train.weights)
        return compute_metrics(model, target, held.y, model.predict(held.X), weights, constant)
    codes = np.searchsorted(model.classes, train.y)
    shares = np.bincount(codes, train.weights, len(model.classes))
    held_codes = np.searchsorted(model.classes, held.y).astype(float)
    return compute_metrics(model, target, held_codes, model.predict_proba(held.X), weights, shares / shares.sum())


def _check_texts(column: pa.ChunkedArray, name: str, missing: list[str], is_typed: bool) -> None:
    """Print a note on a text column that looks like an identifier, unless `--feature-types` lists it."""
    if is_typed or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    counts = {entry["values"]: entry["counts"] for entry in column.value_counts().to_pylist()}
    counts = {text: count for text, count in counts.items() if text is not None and text not in missing}
    total = sum(counts.values())
    are_numbers = parse_texts(list(counts), np.array(list(counts.values())))[1].look_like_numbers
    if not are_numbers and len(counts) > max(FEW_VALUES, MANY_LEVELS * total):
        note(
            f"column {name!r} has {len(counts):,} different texts in {total:,} rows; --exclude it if it identifies rows"
        )


def _note_few_values(values: np.ndarray, name: str, task: str) -> None:
    if (
        task == "regression"
        and len(distinct := np.unique(values)) <= FEW_VALUES
        and (distinct == np.rint(distinct)).all()
    ):
        note(
            f"target {name!r} has {len(distinct)} distinct integers and is read as numeric; --task classification "
            "reads them as classes"
        )
