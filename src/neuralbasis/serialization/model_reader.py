"""Reader: the JSON values and array entries of a model file -> the fields of an `AdditiveModel`.

Nothing in a file is trusted. Every index is checked here, because the compiled loops of prediction follow it unchecked.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from reprlib import repr as shorten
from typing import Any

import numpy as np

from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..encoding.sparse_codes import CodeFinder
from ..model.factors import Factors
from ..model.residuals import Residuals
from ..model.shapes import Evidence, Shape, TiedShape, make_shapes
from ..model.summary import MAX_DEPTH, Summary
from .archive import DocumentError
from .arrays import ArrayReader, read_arrays
from .json_checks import is_shallow, read_record
from .records import (
    AxisRecord,
    ColumnRun,
    FactorsRecord,
    ModelRecord,
    ModelSizes,
    ResidualsRecord,
    count_numbers,
    read_classes,
    read_evidence,
    read_sizes,
)

Arrays = Mapping[str, ArrayReader]


def make_fields(record: ModelRecord, entries: dict[str, bytes]) -> dict[str, Any]:
    """Keyword arguments of an `AdditiveModel`. The entries are used up."""
    sizes = read_sizes(record)
    arrays = read_arrays(entries, record.arrays, count_numbers(sizes))
    columns = [axis for run in sizes.runs for axis in _make_columns(run, arrays)]
    pairs = [(columns[coarse.column], coarse) for coarse in sizes.coarse]
    axes = [*columns, *(_make_axis(own.name, own.kind, own.levels, coarse, arrays) for own, coarse in pairs)]
    encoder = Encoder(tuple(columns))
    tables = tuple(_make_tables(sizes, axes, arrays))
    factors = [_make_factors(part, encoder, arrays, sizes.n_outputs) for part in sizes.factors]
    terms = {frozenset(shape.term) for shape in tables}
    if terms and any(frozenset(term) in terms for part in factors for term in part.finder.features.tolist()):
        raise DocumentError("two of its terms have the same features")
    return {
        "encoder": encoder,
        "intercept": np.array(record.intercept, dtype=float),
        "shapes": (*tables, *make_shapes(factors, encoder)),
        "link": record.link,
        "classes": read_classes(record.link, sizes.n_outputs, record.classes),
        "summary": None if record.summary is None else _make_summary(record.summary),
        "residuals": tuple(_make_residuals(own, arrays) for own in sizes.residuals),
    }


def _make_columns(run: ColumnRun, arrays: Arrays) -> list[Axis]:
    """The axes of a run. They share their arrays."""
    first = _make_axis(run.names[0], run.kind, run.levels, run, arrays)
    if run.levels is not None and len(first.knots) != len(run.levels):
        raise DocumentError(f"knots of column {shorten(first.name)} are not its levels")
    return [Axis(name, first.kind, first.knots, first.places, first.levels, first.mass) for name in run.names]


def _make_axis(
    name: str, kind: str, levels: Sequence[str] | None, record: ColumnRun | AxisRecord, arrays: Arrays
) -> Axis:
    """An axis of a column with these levels. It keeps the levels whose indices are its knots."""
    knots, places = arrays["knots"].take(record.n_knots), arrays["places"].take(record.n_knots)
    if (knots[1:] <= knots[:-1]).any() or (places[1:] < places[:-1]).any():
        raise DocumentError(f"knots of column {shorten(name)} do not increase")
    if levels is not None:
        if knots[0] < 0 or knots[-1] >= len(levels) or (knots % 1 != 0).any():
            raise DocumentError(f"knots of column {shorten(name)} are not its levels")
        levels = tuple(levels[int(knot)] for knot in knots)
    return Axis(name, kind, knots, places, levels, arrays["mass"].take(record.n_knots) if record.has_mass else None)


def _make_tables(sizes: ModelSizes, axes: Sequence[Axis], arrays: Arrays) -> Iterator[Shape | TiedShape]:
    n_outputs, n_columns = sizes.n_outputs, len(sizes.axes) - len(sizes.coarse)
    for term in sizes.terms:
        features, own = tuple(term.features), tuple(axes[axis] for axis in term.axes)
        cells = [axis.n_cells for axis in own]
        weights = arrays["weights"].take(*cells)
        if term.tied:
            values, mix = arrays["tables"].take(*cells, term.tied[0]), arrays["mix"].take(*term.tied, n_outputs)
            shape: Shape | TiedShape = TiedShape(features, own, values, mix, weights)
        else:
            scores, spread = arrays["tables"].take(*cells, n_outputs), arrays["spread"].take(*cells, n_outputs)
            members = arrays["members"].take(*cells, term.n_members, n_outputs) if term.n_members else None
            evidence = None if term.evidence is None else _make_evidence(term.evidence, n_outputs, n_columns)
            shape = Shape(features, own, scores, spread, weights, members, evidence=evidence)
        yield shape.measure(arrays["sizes"].take(n_outputs)) if term.is_measured else shape


def _make_evidence(item: dict[str, Any], n_outputs: int, n_columns: int) -> Evidence:
    found = read_evidence(item, n_outputs, n_columns)
    return Evidence(
        np.array(found.p_values, dtype=float),
        np.array(found.multipliers, dtype=float),
        np.array(found.importance_errors, dtype=float),
        float(found.concurvity),
        None if found.partner is None else tuple(found.partner),
        float(found.partner_concurvity),
    )


def _make_factors(record: FactorsRecord, encoder: Encoder, arrays: Arrays, n_outputs: int) -> Factors:
    axis = _make_axis("", "continuous", None, AxisRecord(0, record.n_knots, False), arrays)
    absent = math.nan if record.absent is None else float(record.absent)
    if not math.isnan(absent) and absent not in axis.knots:
        raise DocumentError(f"the absent value {absent:g} of factors is not among their knots")
    finder = CodeFinder(axis, absent, arrays["features"].take(record.n_terms, record.order), len(encoder.axes))
    _check_features(finder.features, encoder.axes)
    bases = arrays["bases"].take(record.table_cells, record.n_bases)
    table = bases.reshape(*[finder.side] * record.order, record.n_bases)
    if any(np.moveaxis(table, d, 0)[finder.absent_cell].any() for d in range(record.order)):
        raise DocumentError("bases of factors must be zero at the absent value")
    shape = record.n_terms, record.n_bases, n_outputs
    factors = Factors(
        finder=finder,
        bases=bases,
        coefficients=arrays["coefficients"].take(*shape),
        deviations=arrays["deviations"].take(*shape),
        cells=arrays["cells"].take(record.n_cells),
        weights=arrays["cell_weights"].take(record.n_cells),
        cell_starts=np.r_[0, np.cumsum(arrays["cell_counts"].take(record.n_terms))],
        total=float(record.total),
        sizes=arrays["factor_sizes"].take(record.n_terms, n_outputs) if record.is_measured else None,
    )
    _check_cells(factors)
    return factors


def _check_features(features: np.ndarray, axes: Sequence[Axis]) -> None:
    """Continuous columns, terms sorted as a CodeFinder expects them, no feature or term twice."""
    if features.max() >= len(axes):
        raise DocumentError(f"factors have a feature {features.max():,}, but there are {len(axes):,} columns")
    is_level = np.fromiter((axis.is_level for axis in axes), dtype=bool, count=len(axes))
    if is_level[features].any():
        raise DocumentError("factors have a feature that is a column of levels")
    order = np.lexsort(features.T[::-1])
    if (np.diff(order) < 0).any():
        raise DocumentError("terms of factors are not sorted by their features")
    terms = np.sort(features, axis=1)
    if (terms[:, 1:] == terms[:, :-1]).any() or len(np.unique(terms, axis=0)) < len(terms):
        raise DocumentError("a term of factors has a feature twice, or two of them have the same features")


def _check_cells(factors: Factors) -> None:
    """Existing cells, increasing within a term, and no term with more weight than all training rows."""
    starts, cells = factors.cell_starts, factors.cells
    if starts[-1] != len(cells) or (len(cells) and cells.max() >= len(factors.bases)):
        raise DocumentError("factors have cells that their terms do not have")
    term = np.repeat(np.arange(len(factors)), np.diff(starts))
    if ((np.diff(cells) <= 0) & (np.diff(term) == 0)).any():
        raise DocumentError("cells of a term of factors do not increase")
    weights = np.bincount(term, factors.weights, minlength=len(factors))
    if weights.max(initial=0.0) > factors.total * (1 + 1e-6):
        raise DocumentError("a term of factors has more weight than all training rows")


def _make_residuals(record: ResidualsRecord, arrays: Arrays) -> Residuals:
    centres = arrays["residual_centres"].take(record.n_regions)
    probabilities = arrays["residual_probabilities"].take(record.n_probabilities)
    quantiles = arrays["residual_quantiles"].take(*record)
    if (centres[1:] <= centres[:-1]).any() or (probabilities[1:] <= probabilities[:-1]).any():
        raise DocumentError("centres or probabilities of its residuals do not increase")
    if (quantiles[:, 1:] < quantiles[:, :-1]).any():
        raise DocumentError("quantiles of its residuals decrease")
    return Residuals(centres, probabilities, quantiles)


def _make_summary(summary: dict[str, Any]) -> Summary:
    found = read_record(Summary, summary, "the summary")
    if not is_shallow(summary, MAX_DEPTH + 2):
        raise DocumentError("its summary is nested too deeply")
    return found
