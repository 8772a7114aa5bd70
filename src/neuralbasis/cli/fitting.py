"""Hold out rows of a table, fit on the others and score: the work of `neuralbasis fit` and `tune`.

In: an open table and `FitOptions`. Out: a `HoldoutResult`. A table in memory is split by rows. A table larger than
memory is read in pieces (row groups or files), and whole pieces are held out.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
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
from ..data.text_numbers import TextFacts, parse_texts
from ..model.additive_model import AdditiveModel
from .batches import compute_metrics, evaluate_table, missing_target
from .dates import OTHER_DATE, split_date
from .errors import CommandError, note
from .formatting import count_rows
from .metrics import Metric
from .options import FitOptions
from .tables import OpenTable, SourceTable, is_number, is_text, require_finite

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
    table.require([options.target, *([options.weights] if options.weights else [])])
    features = options.choose_features(table.names, table.place)
    limit = read_limit(options.parameters.get("storage__memory_limit"))
    if isinstance(table, SourceTable) and (table.n_rows or 0) > count_rows_in_memory(len(features), limit):
        return fit_out_of_core(table, features, options)
    rows, task = read_rows(table, features, options)
    features = rows.X.column_names
    if table.header_doubt:
        note(f"{table.place}: {table.header_doubt}")
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
    if table.dialect.missing and any(piece.row_group is not None for piece in table.source.pieces):
        raise CommandError("--missing cannot be used with Parquet files larger than memory; write empty values instead")
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
    require_rows(table, found.num_rows)
    column = parse_target(found[options.target], options.target, options.task)
    found = found.set_column(found.column_names.index(options.target), options.target, column)
    found, features = choose_columns(found, features, options)
    if not features:
        raise CommandError(f"{table.place} has no column with values that a model can use; see the notes above")
    if options.drop_missing_target:
        found = drop_missing_target(found, options.target)
        require_rows(table, found.num_rows, " with a target")
    y, task = read_target(found[options.target], options.target, options.task)
    weights = None if options.weights is None else read_weights(found[options.weights], options.weights)
    return FileRows(found.select(features), y, weights), task


def require_rows(table: OpenTable, n_rows: int, what: str = "") -> None:
    if n_rows < 2:
        found = f"{'one row' if n_rows else 'no rows'}{what}"
        raise CommandError(f"{table.place} has {found}; a model needs at least two, and 50 or more to be of use")


def read_weights(column: pa.ChunkedArray, name: str) -> np.ndarray:
    """(N,) weights of the rows; errors name their column."""
    try:
        return check_weights(column.to_numpy(), len(column))
    except ValueError as error:
        raise CommandError(f"column {name!r} cannot be used as --weights: {error}") from error


def drop_missing_target(found: pa.Table, target: str) -> pa.Table:
    """The rows with a target; prints a note if some have none."""
    is_known = pa.compute.is_null(found[target], nan_is_null=True).to_numpy() == 0
    if not is_known.all():
        note(f"{count_rows((~is_known).sum())} without a value of the target {target!r} left out")
    return found.filter(pa.array(is_known))


def choose_columns(found: pa.Table, features: Sequence[str], options: FitOptions) -> tuple[pa.Table, list[str]]:
    """The table with the parts of dates, and the columns to use; a note names each column that is left out.

    Texts that are numbers, such as "$1,200", become numbers.
    """
    used: list[str] = []
    for name in features:
        column = found[name]
        kind = column.type
        if column.null_count == len(column):
            note(f"column {name!r} has no value in any row and is left out")
        elif options.feature_types.get(name, "continuous") != "continuous":
            used.append(name)
        elif not name.strip() and counts_rows(column):
            note("a column without a name numbers the rows and is left out")
        elif (pa.types.is_date(kind) or pa.types.is_timestamp(kind)) and options.split_dates:
            for part, values in split_date(name, column).items():
                found = found.append_column(part, values)
                used.append(part)
        elif pa.types.is_date(kind) or pa.types.is_timestamp(kind):
            note(f"column {name!r} holds dates and is left out; --split-dates uses their parts")
        elif pa.types.is_temporal(kind):
            note(f"column {name!r} holds times of day and is left out; a number such as the hour can be used")
        elif not _is_date_text(column, name):
            column = read_texts(column, name, name in options.feature_types)
            found = found.set_column(found.column_names.index(name), name, column)
            used.append(name)
    return found, used


def counts_rows(column: pa.ChunkedArray) -> bool:
    """Whether integers go up or down by one from row to row."""
    if not pa.types.is_integer(column.type) or column.null_count or len(column) < FEW_VALUES:
        return False
    steps = np.diff(column.to_numpy())
    return bool((steps == 1).all() or (steps == -1).all())


def parse_column(column: pa.ChunkedArray) -> tuple[np.ndarray, TextFacts, int]:
    """Texts as numbers (N,), NaN for missing and other texts, their facts, and the first row of the other text."""
    coded = column.combine_chunks().dictionary_encode()
    texts, codes = coded.dictionary.to_pylist(), coded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    numbers, facts = parse_texts(texts, np.bincount(codes + 1, minlength=len(texts) + 1)[1:].astype(float))
    row = 0 if facts.other is None else int(np.argmax(codes == texts.index(facts.other)))
    return np.r_[numbers, np.nan][codes], facts, row


def read_texts(column: pa.ChunkedArray, name: str, is_requested: bool) -> pa.ChunkedArray:
    """A text column as numbers if nearly all texts are numbers, or if numbers are requested; other columns unchanged.

    Prints a note on such a column, and on one that looks like an identifier; raises for decimal commas.
    """
    if not is_text(column.type):
        if is_number(column.type):
            require_finite(name, column.cast(pa.float64()).to_numpy())
            if counts_rows(column):
                note(f"column {name!r} numbers the rows; --exclude it unless their order matters")
        return column
    numbers, facts, row = parse_column(column)
    keep, place = f"--feature-types {shlex.quote(f'{name}=nominal')}", f" in row {row:,} (0 is the first)"
    if facts.have_decimal_commas and not facts.are_numbers:
        raise CommandError(f"{_describe_commas('column', name, facts.comma)}, {keep} keeps them as labels")
    if is_requested and not facts.are_numbers:
        text = f"column {name!r} must hold numbers, but holds {facts.other!r}{place}"
        raise CommandError(f"{text}; correct it, or pass {keep}")
    if is_requested or facts.look_like_numbers:
        require_finite(name, numbers)
        text = facts.describe(name, place)
        if facts.formatted is None and not facts.n_others:
            blank = column.filter(pa.array(np.isnan(numbers))).drop_null()
            text += f"; {blank[0].as_py()!r} and the like count as missing" if len(blank) else ""
        note(f"{text}; {keep} keeps the texts as labels")
        return pa.chunked_array([pa.array(numbers)])
    n_levels, total = pa.compute.count_distinct(column).as_py(), len(column) - column.null_count
    if n_levels > max(FEW_VALUES, MANY_LEVELS * total):
        note(f"column {name!r} has {n_levels:,} different texts in {total:,} rows; --exclude it if it identifies rows")
    return column


def parse_target(column: pa.ChunkedArray, name: str, task: str) -> pa.ChunkedArray:
    """Texts such as "$1,200" or "40 %" as numbers; other columns unchanged."""
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if task == "classification" or not is_text(column.type):
        return column
    numbers, facts, row = parse_column(column)
    if facts.have_decimal_commas:
        raise CommandError(_describe_commas("target", name, facts.comma))
    if facts.n_others and len(np.unique(numbers[~np.isnan(numbers)])) > FEW_VALUES:
        total = facts.n_numbers + facts.n_others
        raise CommandError(
            f"target {name!r} holds {facts.other!r} in row {row:,} (0 is the first), but numbers in "
            f"{facts.n_numbers:,.0f} of {total:,.0f} rows; correct it, pass --missing {shlex.quote(str(facts.other))} "
            "to read it as missing, or give --task classification"
        )
    if not facts.look_like_numbers or facts.n_others:
        return column
    example = "" if facts.formatted is None else f", such as {facts.formatted!r},"
    note(f"target {name!r} holds numbers as text{example} and is read as numbers")
    return pa.chunked_array([pa.array(numbers, from_pandas=True)])


def read_target(column: pa.ChunkedArray, name: str, task: str) -> tuple[np.ndarray, str]:
    """(N,) numbers or labels, and the task; texts, booleans and two distinct numbers are classes."""
    if column.null_count:
        raise CommandError(missing_target(name, column.is_null().to_numpy()))
    if pa.types.is_temporal(column.type) or pa.types.is_nested(column.type):
        raise CommandError(f"target {name!r} must hold numbers or classes, but has the type {column.type}; convert it")
    is_label = not (is_number(column.type) or pa.types.is_decimal(column.type))
    if is_label and task == "regression":
        raise CommandError(
            f"target {name!r} holds {level_text(column[0].as_py())!r}, but a regression needs numbers; correct it, or "
            "give --task classification"
        )
    values = np.array(column.to_pylist()) if is_label else column.cast(pa.float64()).to_numpy()
    if not is_label and np.isnan(values).any():
        raise CommandError(missing_target(name, np.isnan(values)))
    if not is_label and (is_infinite := np.isinf(values)).any():
        row = f"row {np.argmax(is_infinite):,} (0 is the first)"
        raise CommandError(f"target {name!r} holds an infinite value in {row}; correct it, or leave the row out")
    distinct = np.unique(values)
    if len(distinct) < 2:
        raise CommandError(
            f"target {name!r} is {level_text(distinct[0])} in every row; a model needs at least two different values"
        )
    if task == "auto":
        task = "classification" if is_label else choose_task(values, name)
    if task == "classification" and len(distinct) > max(FEW_VALUES, MANY_LEVELS * len(values)):
        raise CommandError(
            f"target {name!r} has {len(distinct):,} different values in {len(values):,} rows, but classes must repeat; "
            "name another column with --target" + ("" if is_label else ", or give --task regression")
        )
    if task == "classification" and not is_label and (values == np.rint(values)).all():
        values = values.astype(np.int64)
    return values, task


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


def count_texts(column: pa.ChunkedArray) -> dict[str, int]:
    """The number of rows of each text; empty for a column of another type."""
    if not is_text(column.type):
        return {}
    counts = {entry["values"]: entry["counts"] for entry in column.value_counts().to_pylist()}
    return {text: count for text, count in counts.items() if text is not None}


def _is_date_text(column: pa.ChunkedArray, name: str) -> bool:
    """Whether nearly all texts are dates in a form that is not read; prints a note."""
    texts = count_texts(column)
    dates = [text for text in texts if OTHER_DATE.fullmatch(text.strip())]
    if not texts or len(dates) < 0.9 * len(texts):
        return False
    note(
        f"column {name!r} holds dates as text, such as {dates[0]!r}, and is left out; written as 2024-03-15, "
        "--split-dates would use their parts"
    )
    return True
