"""Check a table before a fit: what a person should know about its columns, and the command that follows from it.

In: a table and the name of its target. Out: `Finding`s in plain words, and the options of `fit` that answer them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..data.text_numbers import LEADING_ZERO, parse_number, parse_texts
from .dates import OTHER_DATE
from .errors import CommandError
from .fitting import (
    FEW_ROWS,
    FEW_VALUES,
    MANY_LEVELS,
    count_texts,
    counts_rows,
    parse_column,
    parse_target,
    read_target,
    require_rows,
)
from .formatting import count_rows
from .tables import Dialect, OpenTable, is_number, is_text

CODES = (-7, -8, -9, -99, -999, -9999, -99999, 9, 99, 999, 9999, 99999, 999999)
NEARLY_PERFECT = 0.98  # R² or accuracy of one column alone
MAX_ROWS = 20_000  # read by the search for leaks


@dataclass(frozen=True)
class Finding:
    """One sentence about a column, and what it asks of the fit."""

    kind: str
    text: str
    exclude: str | None = None
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Checks:
    """All findings about a table; `reading` are the options that it was read with."""

    path: str
    target: str | None
    n_rows: int
    n_columns: int
    findings: tuple[Finding, ...] = field(default_factory=tuple)
    reading: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that fits the table after these findings."""
        excluded = list(dict.fromkeys(found.exclude for found in self.findings if found.exclude is not None))
        options = list(dict.fromkeys(option for found in self.findings for option in found.options))
        words = ["neuralbasis", "fit", self.path, "--target", self.target or "COLUMN", *self.reading, *options]
        for name in excluded:
            words += ["--exclude", name]
        return shlex.join(words)


def check_table(table: OpenTable, path: str, target: str | None) -> Checks:
    """Read a table whole and look for what misleads a model."""
    names = list(table.names)
    found = table.read(names)
    rows = found.num_rows
    require_rows(table, rows)
    findings = [] if rows >= FEW_ROWS else [Finding("few rows", f"{rows} rows are too few for curves to trust")]
    if table.header_doubt:
        findings.append(Finding("header", table.header_doubt))
    if target is not None:
        try:
            column = parse_target(found[target], target, "auto")
            found = found.set_column(names.index(target), target, column)
            findings += check_target(column, target)
        except CommandError as error:
            options = ("--decimal", ",") if "--decimal ," in error.message else ()
            findings.append(Finding("target", error.message, options=options))
    texts = table.first_texts()
    for name in names:
        if name != target:
            findings += check_column(found[name], name)
            if is_number(found[name].type) and any(map(LEADING_ZERO.fullmatch, texts.get(name, []))):
                text = f"column {name!r} holds codes with leading zeros, which are names rather than numbers"
                findings.append(Finding("code", text, options=("--feature-types", f"{name}=nominal")))
    findings += find_codes(found, [name for name in names if name != target])
    findings += find_duplicates(found, [name for name in names if name != target])
    if target is not None and all(finding.kind != "target" for finding in findings):
        settled = {target, *(finding.exclude for finding in findings)}
        findings += find_leaks(found, [name for name in names if name.strip() and name not in settled], target)
    return Checks(path, target, rows, len(names), tuple(findings), list_options(table.dialect))


def list_options(dialect: Dialect) -> tuple[str, ...]:
    """The options that read a table in this format."""
    found = [] if dialect.delimiter is None else ["--delimiter", dialect.delimiter]
    found += [] if dialect.encoding == Dialect.encoding else ["--encoding", dialect.encoding]
    found += [] if dialect.decimal == Dialect.decimal else ["--decimal", dialect.decimal]
    return (*found, *(f"--missing={text}" for text in dialect.missing))


def check_target(column: pa.ChunkedArray, name: str) -> list[Finding]:
    """Missing values; raises what a fit would raise about the others."""
    is_known = pc.invert(pc.is_null(column, nan_is_null=True))
    n_missing = len(column) - (pc.sum(is_known).as_py() or 0)
    if n_missing == len(column):
        raise CommandError(f"target {name!r} has no value in any row; name another column with --target")
    read_target(column.filter(is_known), name, "auto")
    text = f"target {name!r} is missing in {count_rows(n_missing)}, which the fit must leave out"
    return [Finding("missing target", text, options=("--drop-missing-target",))] if n_missing else []


def check_column(column: pa.ChunkedArray, name: str) -> Iterator[Finding]:
    """Findings about one column by itself."""
    present, distinct = len(column) - column.null_count, count_distinct(column)
    if present == 0:
        yield Finding("empty", f"column {name!r} has no value in any row", exclude=name)
    elif not name.strip() and counts_rows(column):
        yield Finding("identifier", "a column without a name numbers the rows: the fit leaves it out")
    elif pa.types.is_floating(column.type) and (is_infinite := np.isinf(column.to_numpy())).any():
        text = f"column {name!r} holds an infinite value in row {np.argmax(is_infinite):,} (0 is the first)"
        yield Finding("infinite", text, options=("--missing=inf",))
    elif distinct == 1:
        value = column.drop_null()[0].as_py()
        yield Finding("constant", f"column {name!r} is {value!r} in every row with a value", exclude=name)
    elif pa.types.is_time(column.type):
        text = f"column {name!r} holds times of day; a number such as the hour can be used"
        yield Finding("time", text, exclude=name)
    elif pa.types.is_temporal(column.type):
        text = f"column {name!r} holds dates: year, month, weekday and hour can be used, the date itself cannot"
        yield Finding("date", text, options=("--split-dates",))
    elif pa.types.is_integer(column.type) and distinct == present > FEW_VALUES:
        if counts_rows(column) or name.lower().endswith("id"):
            text = f"column {name!r} has a different integer in every row: it seems to number the rows"
            yield Finding("identifier", text, exclude=name)
    else:
        yield from _check_texts(count_texts(column), name)


def _check_texts(counts: dict[str, int], name: str) -> Iterator[Finding]:
    if not counts:
        return
    mass, n_rows = np.array(list(counts.values()), dtype=float), sum(counts.values())
    facts = parse_texts(list(counts), mass)[1]
    dates = [text for text in counts if OTHER_DATE.fullmatch(text.strip())]
    if len(dates) >= 0.9 * len(counts):
        text = f"column {name!r} holds dates such as {dates[0]!r}; write them as 2024-03-15 to use their parts"
        yield Finding("date", text, exclude=name)
    elif facts.have_decimal_commas and not facts.are_numbers:
        text = f"column {name!r} holds numbers with a decimal comma, such as {facts.comma!r}"
        yield Finding("decimal comma", text, options=("--decimal", ","))
    elif facts.look_like_numbers and facts.n_others:
        yield Finding("other texts", facts.describe(name))
    elif facts.look_like_numbers and facts.formatted is not None:
        number = parse_number(facts.formatted)
        text = f"column {name!r} holds numbers as text: {facts.formatted!r} is read as {number:.12g}"
        yield Finding("currency or percent", text)
    elif not facts.look_like_numbers and len(counts) > max(FEW_VALUES, MANY_LEVELS * n_rows):
        text = f"column {name!r} has {len(counts):,} different texts in {n_rows:,} rows: it seems to identify them"
        yield Finding("identifier", text, exclude=name)


def count_distinct(column: pa.ChunkedArray) -> int:
    return 0 if pa.types.is_null(column.type) else pc.count_distinct(column, mode="only_valid").as_py()


def find_codes(table: pa.Table, names: Sequence[str]) -> Iterator[Finding]:
    """Repeated codes such as -9 or 999, far from all other values of their column."""
    values = {name: read_numbers(table[name]) for name in names if is_number(table[name].type)}
    found: dict[str, list[int]] = {}
    for name, numbers in values.items():
        numbers = numbers[~np.isnan(numbers)]
        others = numbers[~np.isin(numbers, CODES)]
        if len(others) == 0:
            continue
        low, high = others.min(), others.max()
        is_far = [code for code in CODES if (code < 0 <= low) or (code > 0 and code > high + (high - low))]
        if codes := [code for code in is_far if (numbers == code).sum() > 1]:
            found[name] = codes
    for name, codes in found.items():
        listed = " and ".join(map(str, codes))
        is_safe = [c for c in codes if not any((v == c).any() and c not in found.get(k, ()) for k, v in values.items())]
        text = f"column {name!r} holds {listed}, far from its other values: probably a code for a missing value"
        yield Finding("code for missing", text, options=tuple(f"--missing={code}" for code in is_safe))


def find_duplicates(table: pa.Table, names: Sequence[str]) -> Iterator[Finding]:
    """Rows that occur several times, and columns with the same values."""
    n_rows = table.num_rows
    n_distinct = table.group_by(table.column_names).aggregate([([], "count_all")]).num_rows
    if n_distinct < n_rows:
        count = n_rows - n_distinct
        rows = "1 row repeats" if count == 1 else f"{count:,} rows repeat"
        text = f"{rows} an earlier row in every column: held-out scores may be too good"
        yield Finding("duplicate rows", text)
    kept: list[str] = []
    for name in names:
        same = next((other for other in kept if table[other].equals(table[name])), None)
        if same is None:
            kept.append(name)
        elif table[name].null_count < n_rows and count_distinct(table[name]) > 1:
            yield Finding("duplicate column", f"column {name!r} equals column {same!r} in every row", exclude=name)


def find_leaks(table: pa.Table, names: Sequence[str], target: str) -> Iterator[Finding]:
    """Columns that predict the target almost perfectly by themselves, measured by trees on rows they did not see."""
    from sklearn.model_selection import cross_val_score
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    table = table.filter(pc.invert(pc.is_null(table[target], nan_is_null=True)))
    if table.num_rows < FEW_ROWS:
        return
    table = table.take(np.random.default_rng(0).permutation(table.num_rows)[:MAX_ROWS])
    is_regression = is_number(table[target].type) and count_distinct(table[target]) > FEW_VALUES
    y = read_numbers(table[target]) if is_regression else read_codes(table[target])
    _, counts = np.unique(y, return_counts=True)
    if len(counts) < 2 or (not is_regression and counts.min() < 3):
        return
    leaf = max(2, table.num_rows // 200)
    tree = (DecisionTreeRegressor if is_regression else DecisionTreeClassifier)(min_samples_leaf=leaf, random_state=0)
    score, word = ("r2", "R²") if is_regression else ("balanced_accuracy", "accuracy over the classes")
    for name in names:
        kind = table[name].type
        if pa.types.is_temporal(kind) or pa.types.is_nested(kind) or pa.types.is_null(kind):
            continue
        X = read_numbers(table[name]) if is_number(kind) else read_codes(table[name])
        if is_text(kind) and (parsed := parse_column(table[name]))[1].look_like_numbers:
            X = parsed[0]
        quality = cross_val_score(tree, X[:, None], y, scoring=score, cv=3).mean()
        if quality > NEARLY_PERFECT:
            size = f"{word} {quality:.3f}"
            text = (
                f"column {name!r} alone predicts the target almost perfectly ({size}): is it known before the target?"
            )
            yield Finding("leak", text, exclude=name)


def read_numbers(column: pa.ChunkedArray) -> np.ndarray:
    """(N,) NaN for missing and infinite values."""
    numbers = column.cast(pa.float64()).to_numpy()
    return np.where(np.isinf(numbers), np.nan, numbers)


def read_codes(column: pa.ChunkedArray) -> np.ndarray:
    return column.combine_chunks().dictionary_encode().indices.fill_null(-1).to_numpy(zero_copy_only=False)


def format_checks(checks: Checks) -> str:
    """Counts, one line per finding, and the command to paste."""
    head = f"{checks.path}: {count_rows(checks.n_rows)}, {checks.n_columns} columns"
    lines = [f"- {found.text}" for found in checks.findings] or ["- nothing that would mislead a model"]
    return "\n".join([head, "", *lines, "", "To fit it:", "", f"  {checks.command}"])
