"""Records: what `document.json` of a model file holds, and how many numbers the arrays beside it must have.

In: values of the JSON. Out: a `ModelRecord` and `ModelSizes`, both checked. Arrays are read only afterwards, with the
lengths that `count_numbers` gives, so a file cannot request more memory than its own size. The limits are checked
before training, when a file is written and when it is read. Class labels keep their NumPy type.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from reprlib import repr as shorten
from typing import Any, NamedTuple

import numpy as np

from ..encoding.axis import KINDS
from ..lazy import Lazy
from ..losses.links import LINKS
from .archive import DocumentError
from .json_checks import check_list, read_record

MAX_COLUMNS = 1 << 20
MAX_KNOTS = 1 << 22  # of one axis: positions above 2^24 are not exact in single precision
MAX_TERMS = 1 << 21  # stored as factors; the size of the JSON limits the terms stored as tables
MAX_ORDER = 6  # a row reads 2^order cells of a term
MAX_TABLE = 1 << 26  # numbers in the full table of a term that is stored as factors
MAX_BASES = 10_000
MAX_LABELS = 1 << 24  # characters of all class labels, each as long as the longest
MAX_SCORE = 1e200  # no sum of scores and no product with a weight overflows
MAX_WEIGHT = 1e100

LABEL_TYPES: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "object": (str, bool, int, float)}
LABEL_TYPES |= {f"{sign}int{bits}": (int,) for sign in ("", "u") for bits in (8, 16, 32, 64)}
LABEL_TYPES |= {f"float{bits}": (float,) for bits in (16, 32, 64)}


class ModelRecord(NamedTuple):
    """All of `document.json`. `neuralbasis` is the version that wrote the file; `arrays` has the type of each array."""

    format: int
    neuralbasis: str
    link: str
    intercept: list[float]
    classes: dict[str, Any] | None
    columns: list[Any]
    axes: list[Any]
    terms: list[Any]
    factors: list[Any]
    arrays: dict[str, str]
    summary: dict[str, Any] | None
    residuals: list[Any]


class ColumnRun(NamedTuple):
    """Consecutive columns that share one axis, whose knots are stored once."""

    names: list[str]
    kind: str
    levels: list[str] | None
    n_knots: int
    has_mass: bool


class AxisRecord(NamedTuple):
    """An axis of one column: its own, or a coarser one of an interaction."""

    column: int
    n_knots: int
    has_mass: bool


class TermRecord(NamedTuple):
    """A term stored as a table."""

    features: list[int]
    axes: list[int]
    n_members: int  # whose tables are stored
    tied: list[int] | None  # numbers of shapes and members if classes are tied
    is_measured: bool  # whether an importance is stored
    evidence: dict[str, Any] | None  # an `EvidenceRecord`


class EvidenceRecord(NamedTuple):
    """What the training rows say about a term, see `shapes.Evidence`."""

    p_values: list[float]
    multipliers: list[float]
    importance_errors: list[float]
    concurvity: float
    partner: list[int] | None
    partner_concurvity: float


class FactorsRecord(NamedTuple):
    """All terms of one order, stored as factors."""

    order: int
    n_terms: int
    n_bases: int
    n_knots: int
    n_cells: int  # with training rows, over all terms
    absent: float | None  # value of the sparse columns, None for a missing value
    total: float  # weight of all training rows
    is_measured: bool

    @property
    def table_cells(self) -> int:
        return (self.n_knots + 2) ** self.order


class ResidualsRecord(NamedTuple):
    """Sizes of the quantiles of residuals of one output."""

    n_regions: int
    n_probabilities: int


class ModelSizes(NamedTuple):
    """Everything that determines how many numbers a model has. `axes` lists those of all columns, then `coarse`."""

    runs: list[ColumnRun]
    coarse: list[AxisRecord]
    axes: Sequence[AxisRecord]
    terms: list[TermRecord]
    factors: list[FactorsRecord]
    n_outputs: int
    residuals: list[ResidualsRecord]


def read_sizes(record: ModelRecord) -> ModelSizes:
    """The checked sizes of a model."""
    n_outputs = len(check_list(record.intercept, "the intercept", (int, float)))
    if max(map(abs, record.intercept)) > MAX_SCORE:
        raise DocumentError(f"the intercept is beyond ±{MAX_SCORE:g}")
    runs = _read_runs(record.columns)
    coarse = [read_record(AxisRecord, item, "an axis") for item in record.axes]
    axes = _list_axes(runs, coarse)
    terms, factors = _read_terms(record.terms, axes), _read_factors(record.factors, n_outputs)
    if not {axis for term in terms for axis in term.axes}.issuperset(range(len(axes) - len(coarse), len(axes))):
        raise DocumentError("an axis belongs to no term")
    every: list[ColumnRun | AxisRecord | FactorsRecord] = [*runs, *coarse, *factors]
    if any(axis.n_knots > MAX_KNOTS for axis in every):
        raise DocumentError(f"an axis has more than {MAX_KNOTS:,} knots")
    return ModelSizes(runs, coarse, axes, terms, factors, n_outputs, _read_residuals(record.residuals, n_outputs))


def _read_runs(columns: list[Any]) -> list[ColumnRun]:
    runs = [read_record(ColumnRun, item, "a column") for item in columns]
    names = check_list([name for run in runs for name in run.names], "names of columns", (str,), unique=True)
    if len(names) > MAX_COLUMNS:
        raise DocumentError(f"it has {len(names):,} columns; a model has at most {MAX_COLUMNS:,}")
    if not all(run.names for run in runs):
        raise DocumentError("one of its axes belongs to no column")
    for run in runs:
        name = run.names[0]
        if run.kind not in KINDS or (run.levels is None) != (run.kind == "continuous"):
            raise DocumentError(f"column {shorten(name)} has kind {shorten(run.kind)}, which contradicts its levels")
        if run.levels is not None:
            check_list(run.levels, f"levels of column {shorten(name)}", (str,), unique=True)
        if run.n_knots < 1:
            raise DocumentError(f"column {shorten(name)} has no knots")
    return runs


def _list_axes(runs: Sequence[ColumnRun], coarse: Sequence[AxisRecord]) -> Sequence[AxisRecord]:
    """All axes that tables may have, those of the columns first. Each is made when it is read: columns are many."""
    ends = list(accumulate(len(run.names) for run in runs))
    if any(not (0 <= axis.column < ends[-1] and axis.n_knots > 0) for axis in coarse):
        raise DocumentError("an axis belongs to no column, or has no knots")

    def find(index: int) -> AxisRecord:
        if index >= ends[-1]:
            return coarse[index - ends[-1]]
        run = runs[bisect_right(ends, index)]
        return AxisRecord(index, run.n_knots, run.has_mass)

    return Lazy(find, ends[-1] + len(coarse))


def _read_terms(items: list[Any], axes: Sequence[AxisRecord]) -> list[TermRecord]:
    terms = [read_record(TermRecord, item, "a term") for item in items]
    for term in terms:
        features, tied = term.features, term.tied
        check_list(features, "features of a term", (int,), unique=True)
        check_list(term.axes, "axes of a term", (int,))
        if len(term.axes) > MAX_ORDER or any(not 0 <= axis < len(axes) for axis in term.axes):
            raise DocumentError(f"a term has too many features, or an axis that does not exist: {shorten(features)}")
        if features != [axes[axis].column for axis in term.axes]:
            raise DocumentError(f"the axes of a term are not those of its features {shorten(features)}")
        if tied is not None and (len(check_list(tied, "sizes of tied classes", (int,))) != 2 or min(tied) < 1):
            raise DocumentError(f"tied classes need a number of shapes and one of members, not {shorten(tied)}")
        if term.n_members < 0 or (term.n_members and tied):
            raise DocumentError(f"a term cannot have {term.n_members:,} members")
        if term.evidence is not None and tied:
            raise DocumentError("a term of tied classes has evidence")
    if len({frozenset(term.features) for term in terms}) < len(terms):
        raise DocumentError("two of its terms have the same features")
    return terms


def read_evidence(item: dict[str, Any], n_outputs: int, n_columns: int) -> EvidenceRecord:
    """The checked evidence of a term."""
    found = read_record(EvidenceRecord, item, "evidence")
    limits = {"p_values": 1.0, "multipliers": MAX_WEIGHT, "importance_errors": MAX_SCORE}
    for name, limit in limits.items():
        numbers = check_list(getattr(found, name), f"{name} of evidence", (int, float))
        if len(numbers) != n_outputs or not all(0 <= number <= limit for number in numbers):
            raise DocumentError(f"{name} of evidence must be {n_outputs} numbers from 0 to {limit:g}")
    if not (0 <= found.concurvity <= 1 and 0 <= found.partner_concurvity <= 1):
        raise DocumentError("concurvity of evidence must be a number from 0 to 1")
    if found.partner is not None:
        partner = check_list(found.partner, "partner of evidence", (int,), unique=True)
        if len(partner) > MAX_ORDER or not all(0 <= feature < n_columns for feature in partner):
            raise DocumentError(f"partner of evidence has a feature that does not exist: {shorten(partner)}")
    return found


def _read_factors(items: list[Any], n_outputs: int) -> list[FactorsRecord]:
    found = [read_record(FactorsRecord, item, "factors") for item in items]
    for factors in found:
        smallest = min(factors.n_terms, factors.n_bases, factors.n_knots)
        if not (1 <= factors.order <= MAX_ORDER and factors.n_bases <= MAX_BASES and smallest >= 1):
            raise DocumentError(f"factors of {shorten(factors)} have an order or a size outside of the limits")
        is_large = factors.table_cells * n_outputs > MAX_TABLE
        if is_large or not 0 < factors.total <= MAX_WEIGHT or factors.n_cells < 0:
            raise DocumentError(f"factors of {shorten(factors)} are larger than those of any model, or have no rows")
    if len({factors.order for factors in found}) < len(found) or sum(f.n_terms for f in found) > MAX_TERMS:
        raise DocumentError(f"it has two factors of the same order, or more than {MAX_TERMS:,} terms in factors")
    return found


def _read_residuals(items: list[Any], n_outputs: int) -> list[ResidualsRecord]:
    if len(items) not in (0, n_outputs):
        raise DocumentError(f"it has residuals of {len(items):,} outputs, but {n_outputs:,} outputs")
    found, limit = [read_record(ResidualsRecord, item, "the residuals") for item in items], 1000
    for own in found:
        if not (1 <= own.n_regions <= limit and 2 <= own.n_probabilities <= limit):
            raise DocumentError(f"residuals have 1 to {limit:,} regions and 2 to {limit:,} probabilities, not {own}")
    return found


def count_numbers(sizes: ModelSizes) -> dict[str, int]:
    """Length of every array."""
    cells = [(math.prod(sizes.axes[axis].n_knots + 2 for axis in term.axes), term) for term in sizes.terms]
    axes: list[ColumnRun | AxisRecord] = [*sizes.runs, *sizes.coarse]
    factors, n_outputs = sizes.factors, sizes.n_outputs
    n_knots = sum(axis.n_knots for axis in axes) + sum(part.n_knots for part in factors)
    n_coefficients = sum(part.n_terms * part.n_bases for part in factors) * n_outputs
    n_cells = sum(part.n_cells for part in factors)
    return {
        "knots": n_knots,
        "places": n_knots,
        "mass": sum(axis.n_knots for axis in axes if axis.has_mass),
        "weights": sum(count for count, _ in cells),
        "tables": sum(count * (term.tied[0] if term.tied else n_outputs) for count, term in cells),
        "spread": sum(count * n_outputs for count, term in cells if not term.tied),
        "members": sum(count * term.n_members * n_outputs for count, term in cells),
        "mix": sum(math.prod(term.tied) * n_outputs for term in sizes.terms if term.tied),
        "sizes": sum(n_outputs for term in sizes.terms if term.is_measured),
        "bases": sum(part.table_cells * part.n_bases for part in factors),
        "features": sum(part.n_terms * part.order for part in factors),
        "coefficients": n_coefficients,
        "deviations": n_coefficients,
        "factor_sizes": sum(part.n_terms * n_outputs for part in factors if part.is_measured),
        "cells": n_cells,
        "cell_counts": sum(part.n_terms for part in factors),
        "cell_weights": n_cells,
        "residual_centres": sum(own.n_regions for own in sizes.residuals),
        "residual_probabilities": sum(own.n_probabilities for own in sizes.residuals),
        "residual_quantiles": sum(math.prod(own) for own in sizes.residuals),
    }


class ClassesRecord(NamedTuple):
    """Class labels in JSON."""

    dtype: str
    labels: list[Any]


def describe_classes(classes: np.ndarray) -> dict[str, Any]:
    """Labels as JSON values."""
    kind = "str" if classes.dtype.kind == "U" else classes.dtype.name
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes.tolist()]
    odd = [label for label in labels if type(label) not in LABEL_TYPES.get(kind, ())]
    if odd or kind not in LABEL_TYPES:
        raise DocumentError(f"classes must be text, numbers or booleans, not {odd[:1]} ({classes.dtype})")
    return ClassesRecord(kind, labels)._asdict()


def read_classes(link: str, n_outputs: int, classes: Any) -> np.ndarray | None:
    """Labels in their own type. Their number must match the link."""
    if link not in LINKS or (link == "logit" and n_outputs != 1):
        raise DocumentError(f"link {shorten(link)} does not go with {n_outputs} outputs; links are {', '.join(LINKS)}")
    if classes is None:
        return None
    kind, labels = read_record(ClassesRecord, classes, "the classes")
    check_list(labels, "labels of classes", LABEL_TYPES.get(kind, ()), unique=True)
    if len(labels) != {"logit": 2, "mlogit": n_outputs}.get(link):
        raise DocumentError(f"link {shorten(link)} with {n_outputs} outputs does not go with {len(labels)} classes")
    if kind == "str" and len(labels) * max(map(len, labels)) > MAX_LABELS:  # NumPy pads text to the longest label
        raise DocumentError(f"labels of classes are too long: more than {MAX_LABELS:,} characters")
    try:
        with np.errstate(over="raise"):
            found = np.array(labels, dtype=kind)
    except (OverflowError, FloatingPointError):
        found = np.empty(0)
    if found.tolist() != labels:  # out of range, rounded, or text that ends in NUL, which NumPy drops
        raise DocumentError(f"labels of classes do not fit into {kind}: {shorten(labels)}")
    return found
