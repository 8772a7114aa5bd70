"""Trials: fit on a part of a table, measure on the rest; what `neuralbasis fit` and `tune` do."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

import neuralbasis

from ..data import target as sample
from ..data.columns import level_text
from ..data.memory import count_rows_in_memory, read_limit
from ..data.text_numbers import parse_texts
from ..model.additive_model import AdditiveModel
from .batches import evaluate_table, measure, missing_target
from .failure import Failure, note
from .measures import Measure
from .options import Wishes
from .tables import TEXT, AnyTable, SourceTable

MANY_LEVELS = 0.5  # levels a row from which a column looks like a name of the rows
FEW_VALUES = 20  # whole numbers that might be classes


@dataclass(frozen=True, eq=False)
class Trial:
    """A fitted model and how it did on rows that it had not seen; no measures where none were held out."""

    model: AdditiveModel
    task: str
    target: str
    n_train: int
    n_held: int
    is_refitted: bool
    measures: list[Measure]


@dataclass(frozen=True, eq=False)
class Rows:
    """A table to fit on: columns, target, weights."""

    X: pa.Table
    y: np.ndarray
    weights: np.ndarray | None

    def take(self, rows: np.ndarray) -> Rows:
        weights = None if self.weights is None else self.weights[rows]
        return Rows(self.X.take(rows), self.y[rows], weights)


def run_trial(
    table: AnyTable, wishes: Wishes, choose: Callable[[Any, Rows], Any] = lambda estimator, _: estimator
) -> Trial:
    """Read the table, hold rows out, fit, measure, and fit again on all rows if that is requested.

    `choose` makes of the estimator the one to fit, from the rows to fit on.
    """
    if is_beyond_memory(table, wishes):
        return run_stream_trial(table, wishes)
    rows, task = read_rows(table, wishes)
    is_held = hold_out(rows.y, wishes.test_size, task, wishes.parameters.get("random_state", 42))
    train, held = np.flatnonzero(~is_held), np.flatnonzero(is_held)
    estimator = choose(make_estimator(rows.X.column_names, task, wishes), rows.take(train) if len(held) else rows)
    model = _fit(estimator, rows.take(train) if len(held) else rows, wishes)
    measures = _measure(model, rows.take(train), rows.take(held), wishes.target) if len(held) else []
    is_refitted = wishes.refit and len(held) > 0
    if is_refitted:
        model = _fit(_turn_to_refit(estimator), rows, wishes)
    return Trial(model, task, wishes.target, len(train), len(held), is_refitted, measures)


def is_beyond_memory(table: AnyTable, wishes: Wishes) -> bool:
    """Is it a source, and too large to be fitted in memory?"""
    if not isinstance(table, SourceTable):
        return False
    limit = read_limit(wishes.parameters.get("memory_limit"))
    features = wishes.choose_features(table.names, table.place)
    return (table.source.n_rows or 0) > count_rows_in_memory(len(features), limit)


def run_stream_trial(table: Any, wishes: Wishes) -> Trial:
    """The same for a table beyond memory: whole pieces are held out, and nothing is read into memory at once."""
    source, features = table.source, wishes.choose_features(table.names, table.place)
    task = find_task(table, wishes)
    is_held = hold_pieces(source, wishes.test_size, wishes.parameters.get("random_state", 42))
    train, held = (
        source.take(piece for piece in source.pieces if is_held[piece.index] == side) for side in (False, True)
    )
    estimator = make_estimator(features, task, wishes).set_params(feature_names=features)
    model = estimator.fit(train, wishes.target, wishes.weights, resume=wishes.resume).model_
    measures: list[Measure] = []
    if held.pieces:
        measures, _ = evaluate_table(model, SourceTable(held, table.dialect), wishes.target, wishes.weights)
    is_refitted = wishes.refit and bool(held.pieces)
    if is_refitted:
        estimator = _turn_to_refit(estimator)
        model = estimator.fit(source, wishes.target, wishes.weights, resume=wishes.resume).model_
    return Trial(model, task, wishes.target, train.n_rows or 0, held.n_rows or 0, is_refitted, measures)


def hold_pieces(source: Any, share: float, seed: int) -> np.ndarray:
    """(pieces,) which to hold out: at random, about a share of the rows and at least one; never all of them."""
    n_rows = np.array([piece.n_rows or 1 for piece in source.pieces])
    order = np.random.default_rng(seed).permutation(len(n_rows))
    is_held = np.zeros(len(n_rows), dtype=bool)
    is_held[order] = np.cumsum(n_rows[order]) - n_rows[order] / 2 < share * n_rows.sum()
    is_held[order[0]] |= share > 0
    if share > 0 and is_held.all():
        note("the data are one piece, so none is held out: there will be no scores")
        return np.zeros(len(n_rows), dtype=bool)
    return is_held


def find_task(table: Any, wishes: Wishes) -> str:
    """What is requested, or what the target asks for: texts, truth values and two numbers are classes."""
    if wishes.task != "auto":
        return wishes.task
    distinct: np.ndarray | None = None
    for batch in table.batches({wishes.target: TEXT}):
        column = batch.column(0)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return "regression" if pa.types.is_decimal(column.type) else "classification"
        found = pa.compute.unique(column).to_numpy(zero_copy_only=False)
        distinct = np.unique(found if distinct is None else np.concatenate([distinct, found]))
        if len(distinct) > FEW_VALUES:
            break
    values = np.empty(0) if distinct is None else distinct
    task = "classification" if len(values) == 2 else "regression"
    _note_few_values(values, wishes.target, task)
    return task


def read_rows(table: AnyTable, wishes: Wishes) -> tuple[Rows, str]:
    """Columns, target and weights of a file, and the task."""
    features = wishes.choose_features(table.names, table.place)
    others = [wishes.target, *([wishes.weights] if wishes.weights else [])]
    texts = [name for name, kind in wishes.feature_types.items() if kind != "continuous"]
    found = table.read([*features, *others], texts)
    if found.num_rows < 2:
        raise Failure(f"{table.place} has {found.num_rows} rows; a model needs at least 2")
    for name in features:
        _check_texts(found[name], name, table.dialect.nulls, name in wishes.feature_types)
    y, task = read_target(found[wishes.target], wishes.target, wishes.task)
    weights = None
    if wishes.weights:
        weights = sample.check_weights(found[wishes.weights].to_numpy(), found.num_rows)
    return Rows(found.select(features), y, weights), task


def read_target(column: pa.ChunkedArray, name: str, task: str) -> tuple[np.ndarray, str]:
    """(N,) numbers or labels, and "regression" or "classification": texts, truth values and two numbers are classes."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise Failure(missing_target(name, column.is_null().to_numpy()))
    if pa.types.is_temporal(column.type) or pa.types.is_nested(column.type):
        raise Failure(f"target {name!r} must hold numbers or classes, but is of type {column.type}; convert it")
    is_label = not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type))
    is_label = is_label and not pa.types.is_decimal(column.type)
    if is_label and task == "regression":
        raise Failure(
            f"target {name!r} holds {level_text(column[0].as_py())!r}, a regression needs numbers: correct it, or give "
            "--task classification"
        )
    values = np.array(column.to_pylist()) if is_label else column.cast(pa.float64()).to_numpy()
    if not is_label and np.isnan(values).any():
        raise Failure(missing_target(name, np.isnan(values)))
    if task == "auto":
        task = "classification" if is_label or len(np.unique(values)) == 2 else "regression"
        _note_few_values(values, name, task)
    if task == "classification" and not is_label and (values == np.rint(values)).all():
        values = values.astype(np.int64)
    return values, task


def make_estimator(names: Sequence[str], task: str, wishes: Wishes) -> Any:
    kind = neuralbasis.NeuralBasisRegressor if task == "regression" else neuralbasis.NeuralBasisClassifier
    return kind(
        feature_types=[wishes.feature_types.get(name, "auto") for name in names],
        exclude=wishes.excluded_terms(names) or None,
        verbose=sys.stderr.isatty(),
        **wishes.parameters,
    )


def hold_out(y: np.ndarray, share: float, task: str, seed: int) -> np.ndarray:
    """Which rows to hold out (N,), of each class the same share; some, if a share is requested."""
    is_held = sample.hold_out(y, share, task == "classification", seed)
    if share > 0 and not is_held.any():
        raise Failure(f"--test-size {share} of {len(y)} rows holds none out; give a larger share, or 0 for no scores")
    return is_held


def _fit(estimator: Any, rows: Rows, wishes: Wishes) -> AdditiveModel:
    model = estimator.fit(rows.X, rows.y, sample_weight=rows.weights, resume=wishes.resume).model_
    return replace(model, summary=replace(model.summary, target=wishes.target))


def _turn_to_refit(estimator: Any) -> Any:
    """The same estimator for a second fit, whose checkpoints have a folder of their own."""
    folder = estimator.checkpoint_dir
    return estimator if folder is None else estimator.set_params(checkpoint_dir=Path(folder, "refit"))


def _measure(model: AdditiveModel, train: Rows, held: Rows, target: str) -> list[Measure]:
    """On the rows held out; the constant model knows the training rows only."""
    weights = np.ones(len(held.y)) if held.weights is None else held.weights
    if model.classes is None:
        constant = np.average(train.y, weights=train.weights)
        return measure(model, target, held.y, model.predict(held.X), weights, constant)
    codes = np.searchsorted(model.classes, train.y)
    shares = np.bincount(codes, train.weights, len(model.classes))
    held_codes = np.searchsorted(model.classes, held.y).astype(float)
    return measure(model, target, held_codes, model.predict_proba(held.X), weights, shares / shares.sum())


def _check_texts(column: pa.ChunkedArray, name: str, missing: list[str], is_wished: bool) -> None:
    """Remark on texts that name the rows, unless the user has said what they are or they are read as numbers."""
    if is_wished or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return
    counts = {entry["values"]: entry["counts"] for entry in column.value_counts().to_pylist()}
    counts = {text: count for text, count in counts.items() if text is not None and text not in missing}
    total = sum(counts.values())
    are_numbers = parse_texts(list(counts), np.array(list(counts.values())))[1].look_like_numbers
    if not are_numbers and len(counts) > max(FEW_VALUES, MANY_LEVELS * total):
        note(
            f"column {name!r} has {len(counts):,} different texts in {total:,} rows; --exclude it if it names the rows"
        )


def _note_few_values(values: np.ndarray, name: str, task: str) -> None:
    if (
        task == "regression"
        and len(distinct := np.unique(values)) <= FEW_VALUES
        and (distinct == np.rint(distinct)).all()
    ):
        note(f"target {name!r} has {len(distinct)} whole numbers, read as amounts; --task classification reads classes")
