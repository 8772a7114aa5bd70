"""Hold out rows of a table, fit on the others and score: the work of `neuralbasis fit` and `tune`.

In: an open table and `FitOptions`. Out: a `HoldoutResult`. A table in memory is split by rows. A table larger than
memory is read in pieces (row groups or files), and whole pieces are held out.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute

import neuralbasis

from ..data.columns import level_text
from ..data.memory import count_rows_in_memory, read_limit
from ..data.target import Sample, check_weights, hold_out
from ..data.text_numbers import parse_texts
from ..model.additive_model import AdditiveModel
from .batches import compute_metrics, count_rows, evaluate_table, missing_target
from .dates import OTHER_DATE, split_date
from .errors import CommandError, note
from .metrics import Metric
from .options import FitOptions
from .tables import Dialect, OpenTable, SourceTable

if TYPE_CHECKING:
    from ..data.files import Source
    from ..estimators import Estimator
    from ..tuning.tuner import Tuning

MANY_LEVELS = 0.5  # levels per row above which a text column looks like an identifier of the rows
FEW_ROWS = 50  # below, a note warns of the model
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
    tuning: Tuning | None = None


@dataclass(frozen=True, eq=False)
class FileRows:
    """Columns, target and weights in memory."""

    X: pa.Table
    y: np.ndarray
    weights: np.ndarray | None

    def take(self, rows: np.ndarray) -> FileRows:
        weights = None if self.weights is None else self.weights[rows]
        return FileRows(self.X.take(rows), self.y[rows], weights)


def fit_and_evaluate(table: OpenTable, options: FitOptions, search: Mapping[str, Any] | None = None) -> HoldoutResult:
    """Read the table, hold out rows, fit, score, and fit again on all rows if requested.

    `search` are parameters of `neuralbasis.tune`, which then chooses the settings on the training rows.
    """
    features = options.choose_features(table.names, table.place)
    limit = read_limit(options.parameters.get("storage__memory_limit"))
    if isinstance(table, SourceTable) and (table.n_rows or 0) > count_rows_in_memory(len(features), limit):
        return fit_out_of_core(table, features, options)
    rows, task = read_rows(table, features, options)
    features = rows.X.column_names
    if len(rows.y) < FEW_ROWS:
        note(f"{len(rows.y)} rows are too few for curves that can be trusted; read the bands, or collect more rows")
    is_held = hold_out(rows.y, options.test_size, task == "classification", options.seed)
    has_held = bool(is_held.any())
    if options.test_size > 0 and not has_held:
        share = f"--test-size {options.test_size} of {len(is_held)} rows"
        raise CommandError(f"{share} holds none out; give a larger share, or 0 for no scores")
    train = rows.take(np.flatnonzero(~is_held)) if has_held else rows
    estimator, tuning = make_estimator(features, task, options), None
    if search is not None:
        tuning = neuralbasis.tune(
            estimator.set_params(verbose=False),  # the search has the only progress bar
            train.X,
            train.y,
            sample_weight=train.weights,
            random_state=options.seed,
            refit=False,
            verbose=sys.stderr.isatty(),
            **search,
        )
        estimator = tuning.estimator
    model = _fit(estimator, train, options)
    metrics = _evaluate(model, train, rows.take(np.flatnonzero(is_held))) if has_held else []
    is_refitted = options.refit and has_held
    if is_refitted:
        model = _fit(_prepare_refit(estimator), rows, options)
    n_train, n_held = len(train.y), int(is_held.sum())
    return HoldoutResult(model, task, options.target, n_train, n_held, is_refitted, metrics, tuning)


def fit_out_of_core(table: SourceTable, features: Sequence[str], options: FitOptions) -> HoldoutResult:
    """`fit_and_evaluate` for a table larger than memory: pieces are held out, and the table is never read whole."""
    source, task = table.source, detect_task(table, options)
    is_held = hold_out_pieces(source, options.test_size, options.seed)
    train, held = (source.take(p for p in source.pieces if is_held[p.index] == side) for side in (False, True))
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
    distinct = np.empty(0)
    for batch in table.batches([options.target]):
        column = batch.column(0)
        if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return "regression" if pa.types.is_decimal(column.type) else "classification"
        found = pa.compute.unique(column).to_numpy(zero_copy_only=False)
        distinct = np.unique(np.concatenate([distinct, found]))
        if len(distinct) > FEW_VALUES:
            break
    return choose_task(distinct, options.target)


def read_rows(table: OpenTable, features: Sequence[str], options: FitOptions) -> tuple[FileRows, str]:
    """Columns, target and weights of a file, and the task."""
    others = [options.target, *([options.weights] if options.weights else [])]
    texts = [name for name, kind in options.feature_types.items() if kind != "continuous"]
    found = table.read([*features, *others], texts)
    if options.drop_missing_target:
        found = drop_missing_target(found, options.target)
    if found.num_rows < 2:
        raise CommandError(f"{table.place} has {found.num_rows} rows; a model needs at least 2")
    found, features = choose_columns(found, features, options, table.dialect)
    if not features:
        raise CommandError(f"{table.place} has no column with values that a model can use; see the notes above")
    y, task = read_target(found[options.target], options.target, options.task)
    weights = None
    if options.weights:
        weights = check_weights(found[options.weights].to_numpy(), found.num_rows)
    return FileRows(found.select(features), y, weights), task


def drop_missing_target(found: pa.Table, target: str) -> pa.Table:
    """The rows with a target; prints a note if some have none."""
    is_known = pa.compute.is_null(found[target], nan_is_null=True).to_numpy() == 0
    if not is_known.all():
        note(f"{count_rows(~is_known)} without a value of the target {target!r} left out")
    return found.filter(pa.array(is_known))


def choose_columns(
    found: pa.Table, features: Sequence[str], options: FitOptions, dialect: Dialect
) -> tuple[pa.Table, list[str]]:
    """The table with the parts of dates, and the columns to use; a note names each column that is left out."""
    used: list[str] = []
    for name in features:
        column = found[name]
        kind = column.type
        if column.null_count == len(column):
            note(f"column {name!r} has no value in any row and is left out")
        elif name in options.feature_types:
            used.append(name)
        elif (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and options.split_dates:
            for part, values in split_date(name, column).items():
                found = found.append_column(part, values)
                used.append(part)
        elif pa.types.is_temporal(kind):
            note(f"column {name!r} holds dates or times and is left out; --split-dates uses the parts of dates")
        elif not _is_date_text(column, name, dialect):
            _check_texts(column, name, dialect.nulls)
            used.append(name)
    return found, used


def read_target(column: pa.ChunkedArray, name: str, task: str) -> tuple[np.ndarray, str]:
    """(N,) numbers or labels, and the task; texts, booleans and two distinct numbers are classes."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        raise CommandError(missing_target(name, column.is_null().to_numpy()))
    if pa.types.is_temporal(column.type) or pa.types.is_nested(column.type):
        raise CommandError(f"target {name!r} must hold numbers or classes, but has the type {column.type}; convert it")
    column = _parse_target(column, name, task)
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
        task = "classification" if is_label else choose_task(values, name)
    if task == "classification" and not is_label and (values == np.rint(values)).all():
        values = values.astype(np.int64)
    return values, task


def _parse_target(column: pa.ChunkedArray, name: str, task: str) -> pa.ChunkedArray:
    """Texts such as "$1,200" or "40 %" as numbers; other columns unchanged."""
    if task == "classification" or not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    coded = column.combine_chunks().dictionary_encode()
    texts = coded.dictionary.to_pylist()
    mass = np.bincount(coded.indices.to_numpy(), minlength=len(texts)).astype(float)
    numbers, facts = parse_texts(texts, mass)
    if facts.have_decimal_commas:
        raise CommandError(_describe_commas("target", name, facts.comma))
    if not facts.look_like_numbers or facts.n_others or np.isnan(numbers).any():
        return column
    note(f"target {name!r} holds numbers as text, such as {facts.formatted!r}, and is read as numbers")
    return pa.chunked_array([pa.array(numbers).take(coded.indices)])


def _describe_commas(what: str, name: str, text: str | None) -> str:
    return f"{what} {name!r} holds numbers with a decimal comma, such as {text!r}; --decimal , reads them"


def choose_task(values: np.ndarray, name: str) -> str:
    """Two distinct numbers are classes; prints a note on other targets that might be classes."""
    distinct = np.unique(values)
    if len(distinct) == 2:
        return "classification"
    if len(distinct) <= FEW_VALUES and (distinct == np.rint(distinct)).all():
        note(
            f"target {name!r} has {len(distinct)} distinct integers and is read as numeric; --task classification "
            "reads them as classes"
        )
    return "regression"


def make_estimator(names: Sequence[str], task: str, options: FitOptions) -> Estimator:
    kind = neuralbasis.NeuralBasisRegressor if task == "regression" else neuralbasis.NeuralBasisClassifier
    return kind(
        feature_types=[options.feature_types.get(name, "auto") for name in names],
        exclude=options.excluded_terms(names) or None,
        verbose=sys.stderr.isatty(),
        **options.parameters,
    )


def _fit(estimator: Estimator, rows: FileRows, options: FitOptions) -> AdditiveModel:
    model = estimator.fit(rows.X, rows.y, sample_weight=rows.weights, resume=options.resume).model_
    return replace(model, summary=replace(model.summary, target=options.target))


def _prepare_refit(estimator: Estimator) -> Estimator:
    """The estimator for the second fit, with a separate folder for its checkpoints."""
    folder = estimator.get_params()["storage__checkpoint_dir"]
    return estimator if folder is None else estimator.set_params(storage__checkpoint_dir=Path(folder, "refit"))


def _evaluate(model: AdditiveModel, train: FileRows, held: FileRows) -> list[Metric]:
    """Metrics on the held-out rows; the constant model is fitted on the training rows."""
    predictions = model.predict(held.X) if model.classes is None else model.predict_proba(held.X)
    samples = [
        Sample(
            rows.y if model.classes is None else np.searchsorted(model.classes, rows.y),
            check_weights(rows.weights, len(rows.y)),
        )
        for rows in (held, train)
    ]
    return compute_metrics(model, predictions, *samples)


def count_texts(column: pa.ChunkedArray, missing: Collection[str]) -> dict[str, int]:
    """The number of rows of each text; empty for a column of another type."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return {}
    counts = {entry["values"]: entry["counts"] for entry in column.value_counts().to_pylist()}
    return {text: count for text, count in counts.items() if text is not None and text not in missing}


def _is_date_text(column: pa.ChunkedArray, name: str, dialect: Dialect) -> bool:
    """Whether nearly all texts are dates in a form that is not read; prints a note."""
    texts = count_texts(column, dialect.nulls)
    dates = [text for text in texts if OTHER_DATE.fullmatch(text.strip())]
    if not texts or len(dates) < 0.9 * len(texts):
        return False
    note(
        f"column {name!r} holds dates as text, such as {dates[0]!r}, and is left out; written as 2024-03-15, "
        "--split-dates would use their parts"
    )
    return True


def _check_texts(column: pa.ChunkedArray, name: str, missing: list[str]) -> None:
    """Print a note on a text column that looks like an identifier; raise for decimal commas."""
    counts = count_texts(column, missing)
    total = sum(counts.values())
    facts = parse_texts(list(counts), np.array(list(counts.values())))[1]
    if facts.have_decimal_commas:
        raise CommandError(
            f"{_describe_commas('column', name, facts.comma)}, --feature-types {name}=nominal keeps them as labels"
        )
    if not facts.look_like_numbers and len(counts) > max(FEW_VALUES, MANY_LEVELS * total):
        note(
            f"column {name!r} has {len(counts):,} different texts in {total:,} rows; --exclude it if it identifies rows"
        )
