"""Writer: a model -> the JSON values and the array entries of its file.

Consecutive columns with equal axes become one `ColumnRun`, and all terms of one order of a wide model are a few large
arrays, so a model of a hundred thousand columns is written and read in one piece.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, Protocol

import numpy as np

from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..model.factors import Factors
from ..model.residuals import Residuals
from ..model.shapes import AnyShape, Evidence, LowRankShape, Shape, TiedShape
from ..model.summary import Summary
from .archive import DocumentError
from .arrays import write_arrays
from .records import (
    AxisRecord,
    ColumnRun,
    EvidenceRecord,
    FactorsRecord,
    ResidualsRecord,
    TermRecord,
    describe_classes,
)

Pieces = dict[str, list[np.ndarray]]  # parts of each array, in order


class SavableModel(Protocol):
    """The attributes of `AdditiveModel` that a file holds. That module imports this package, not the other way."""

    @property
    def encoder(self) -> Encoder: ...
    @property
    def intercept(self) -> np.ndarray: ...
    @property
    def shapes(self) -> Sequence[AnyShape]: ...
    @property
    def link(self) -> str: ...
    @property
    def classes(self) -> np.ndarray | None: ...
    @property
    def summary(self) -> Summary | None: ...
    @property
    def residuals(self) -> Sequence[Residuals]: ...


def describe_model(model: SavableModel) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Fields of a `ModelRecord` except the versions, and the entries that hold the arrays."""
    tables, factors = _split_shapes(model.shapes)
    columns = model.encoder.axes
    runs, own = _find_runs(columns), set(columns)  # axes are compared by identity
    pairs = [pair for shape in tables for pair in zip(shape.axes, shape.term, strict=True)]
    coarse = {axis: column for axis, column in pairs if axis not in own}
    index_of = {axis: index for index, axis in enumerate([*columns, *coarse])}
    axes = [*(run[0] for run in runs), *coarse, *(part.finder.axis for part in factors)]
    pieces = {"knots": [axis.knots for axis in axes], "places": [axis.places for axis in axes]}
    pieces["mass"] = [axis.mass for axis in axes if axis.mass is not None]
    pieces |= _collect_tables(tables) | _collect_factors(factors) | _collect_residuals(model.residuals)
    types, arrays = write_arrays(pieces)
    content = {
        "link": model.link,
        "intercept": np.asarray(model.intercept, dtype=float).tolist(),
        "classes": None if model.classes is None else describe_classes(model.classes),
        "columns": [_describe_run(run) for run in runs],
        "axes": [_describe_coarse(axis, column, columns[column]) for axis, column in coarse.items()],
        "terms": [_describe_term(shape, [index_of[axis] for axis in shape.axes]) for shape in tables],
        "factors": [_describe_factors(part) for part in factors],
        "arrays": types,
        "summary": None if model.summary is None else asdict(model.summary),
        "residuals": [ResidualsRecord(*own.quantiles.shape)._asdict() for own in model.residuals],
    }
    return content, arrays


def describe_columns(axes: Sequence[Axis]) -> list[dict[str, Any]]:
    """The columns as JSON values: one `ColumnRun` for consecutive columns whose axes differ only in name."""
    return [_describe_run(run) for run in _find_runs(axes)]


def _split_shapes(shapes: Sequence[AnyShape]) -> tuple[list[Shape | TiedShape], list[Factors]]:
    """Terms stored as tables, and the factors of the terms after them."""
    tables = [shape for shape in shapes if not isinstance(shape, LowRankShape)]
    others = shapes[len(tables) :]
    factors = list(dict.fromkeys(shape.factors for shape in others if isinstance(shape, LowRankShape)))
    expected = [(id(part), index) for part in factors for index in range(len(part))]
    if [(id(getattr(shape, "factors", None)), getattr(shape, "index", -1)) for shape in others] != expected:
        raise DocumentError("terms of factors must follow all tables, each of them once and in their order")
    return tables, factors


def _find_runs(axes: Sequence[Axis]) -> list[list[Axis]]:
    runs: list[list[Axis]] = []
    for axis in axes:
        if runs:
            last = runs[-1][-1]
            pairs = [(last.knots, axis.knots), (last.places, axis.places), (last.mass, axis.mass)]
            same = (a is b or (a is not None and b is not None and np.array_equal(a, b)) for a, b in pairs)
        if runs and (last.kind, last.levels) == (axis.kind, axis.levels) and all(same):
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


def _collect_tables(shapes: Sequence[Shape | TiedShape]) -> Pieces:
    plain = [shape for shape in shapes if isinstance(shape, Shape)]
    return {
        "weights": [shape.weights for shape in shapes],
        "tables": [shape.values if isinstance(shape, TiedShape) else shape.scores for shape in shapes],
        "spread": [_round(shape.spread) for shape in plain],
        "members": [_round(shape.members) for shape in plain if shape.members is not None],
        "mix": [shape.mix for shape in shapes if isinstance(shape, TiedShape)],
        "sizes": [sizes for shape in shapes if (sizes := shape.measured_sizes) is not None],
    }


def _collect_factors(factors: Sequence[Factors]) -> Pieces:
    if any(array.dtype != np.float32 for part in factors for array in (part.bases, part.coefficients)):
        raise DocumentError("bases and coefficients of factors must be in single precision (float32)")
    return {
        "bases": [part.bases for part in factors],
        "features": [part.finder.features for part in factors],
        "coefficients": [part.coefficients for part in factors],
        "deviations": [part.deviations for part in factors],
        "factor_sizes": [part.sizes for part in factors if part.sizes is not None],
        "cells": [part.cells for part in factors],
        "cell_counts": [np.diff(part.cell_starts) for part in factors],
        "cell_weights": [part.weights for part in factors],
    }


def _collect_residuals(residuals: Sequence[Residuals]) -> Pieces:
    names = ("centres", "probabilities", "quantiles")
    return {f"residual_{name}": [getattr(own, name) for own in residuals] for name in names}


def _round(values: np.ndarray) -> np.ndarray:
    """Single precision for error bars, where it keeps seven digits of the largest."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        rounded = values.astype(np.float32).astype(float)
        return rounded if (abs(rounded - values) <= 1e-6 * abs(values).max()).all() else values


def _describe_run(run: Sequence[Axis]) -> dict[str, Any]:
    first = run[0]
    levels = None if first.levels is None else list(first.levels)
    names = [axis.name for axis in run]
    return ColumnRun(names, first.kind, levels, len(first.knots), first.mass is not None)._asdict()


def _describe_coarse(axis: Axis, column: int, own: Axis) -> dict[str, Any]:
    """A coarser axis has the name and kind of its column, and those levels that are its knots."""
    levels = None if own.levels is None else tuple(own.levels[int(knot)] for knot in axis.knots)
    if (axis.name, axis.kind, axis.levels) != (own.name, own.kind, levels):
        raise DocumentError(f"an axis of column {own.name!r} has another name, kind or other levels than the column")
    return AxisRecord(column, len(axis.knots), axis.mass is not None)._asdict()


def _describe_term(shape: Shape | TiedShape, axes: list[int]) -> dict[str, Any]:
    features, is_measured = [int(f) for f in shape.term], shape.measured_sizes is not None
    if isinstance(shape, TiedShape):
        return TermRecord(features, axes, 0, list(shape.mix.shape[:2]), is_measured, None)._asdict()
    n_members = 0 if shape.members is None else shape.members.shape[-2]
    evidence = None if shape.evidence is None else _describe_evidence(shape.evidence)
    return TermRecord(features, axes, n_members, None, is_measured, evidence)._asdict()


def _describe_evidence(evidence: Evidence) -> dict[str, Any]:
    return EvidenceRecord(
        p_values=evidence.p_values.tolist(),
        multipliers=evidence.multipliers.tolist(),
        importance_errors=evidence.importance_errors.tolist(),
        concurvity=float(evidence.concurvity),
        partner=None if evidence.partner is None else [int(feature) for feature in evidence.partner],
        partner_concurvity=float(evidence.partner_concurvity),
    )._asdict()


def _describe_factors(part: Factors) -> dict[str, Any]:
    n_terms, n_bases, _ = part.coefficients.shape
    return FactorsRecord(
        order=part.order,
        n_terms=n_terms,
        n_bases=n_bases,
        n_knots=len(part.finder.axis.knots),
        n_cells=len(part.cells),
        absent=None if math.isnan(part.finder.absent) else float(part.finder.absent),
        total=float(part.total),
        is_measured=part.sizes is not None,
    )._asdict()
