"""Merge models that were fitted separately on the same columns into one.

    f(x) = Σ_m d_m(x) f_m(x) / Σ_m d_m(x)          d_m: density of model m's training rows, times the model's weight

In: fitted models. Out: one `AdditiveModel` whose tables lie on the union of all knots and levels. Where no model has
training rows, models are weighted by their number of rows. A model without a term contributes 0 to it. Every model is
centred over its own rows, so constants are first moved between main effects and intercepts to minimize the
disagreement of the models where their rows overlap. Only fitted models are needed, never their rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..terms.term import Term
from .additive_model import AdditiveModel, find_model
from .density import is_silent, smooth_density
from .merge_factors import merge_factors
from .purify import Table, purify
from .resampling import distribute, join_axes, multiply_axes, resample_axis
from .shapes import AnyShape, Shape, make_shapes
from .summary import Summary, read_clock

_Merged = tuple[Encoder, np.ndarray, tuple[AnyShape, ...]]


def merge(models: Sequence[Any], weights: Sequence[float] | None = None) -> AdditiveModel:
    """Merge fitted models into one, each weighted by the density of its training rows.

    Parameters
    ----------
    models : fitted estimators or models with the same columns (name and kind), link and classes
    weights : weight of one row of each model, 1 by default; 0 leaves a model out

    Returns
    -------
    AdditiveModel
        Its spread includes the disagreement between the models. Tables of single members are not kept.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, merge
    >>> x = np.linspace(0, 1, 200)[:, None]
    >>> low = NeuralBasisRegressor(max_steps=50).fit(x[:100], x[:100, 0])
    >>> high = NeuralBasisRegressor(max_steps=50).fit(x[100:], x[100:, 0])
    >>> both = merge([low, high])
    >>> len(both.encoder.axes[0].knots), both.summary.n_rows
    (200, 200)
    """
    found, counts = _read_models(models, weights)
    if len(found) == 1:
        return found[0]
    _check_compatible(found)
    first, summary = found[0], _join_summaries([model.summary for model in found], counts)
    encoder, intercept, shapes = (_merge_wide if first.is_wide else _merge_tables)(found, counts)
    return AdditiveModel(encoder, intercept, shapes, first.link, first.classes, first.n_jobs, summary)


def _merge_tables(models: Sequence[AdditiveModel], counts: np.ndarray) -> _Merged:
    axes = tuple(join_axes(own) for own in zip(*(model.encoder.axes for model in models), strict=True))
    terms = sorted({term for model in models for term in model.terms}, key=lambda term: (len(term), term))
    rows = counts * [count_rows(model) for model in models]
    intercepts, shapes = np.stack([model.intercept for model in models]), []
    for term in terms:
        own, tables = _resample_term(term, [_find(model, term) for model in models], axes, rows, counts)
        if len(term) == 1:
            moves = _align(tables, resample_axis(*own, *own).widths)
            tables = [replace(table, scores=table.scores + move) for table, move in zip(tables, moves, strict=True)]
            intercepts -= moves
        shapes.append(_average(term, own, tables, rows))
    shapes, intercept = centre_shapes(shapes, np.average(intercepts, axis=0, weights=rows))
    return Encoder(axes), intercept, tuple(shapes)


def _merge_wide(models: Sequence[AdditiveModel], counts: np.ndarray) -> _Merged:
    """Terms of a wide model are not centred but 0 where a value is absent: the intercept is the score of such a row."""
    rows = counts * [model.factors[0].total for model in models]
    by_order = [{part.order: part for part in model.factors} for model in models]
    orders = sorted({order for found in by_order for order in found})
    factors = [merge_factors([found.get(order) for found in by_order], rows, counts) for order in orders]
    axis = factors[0].finder.axis
    encoder = Encoder(tuple(replace(axis, name=name) for name in models[0].encoder.names))
    intercept = np.average([model.intercept for model in models], axis=0, weights=rows)
    return encoder, intercept, make_shapes(factors, encoder)


def _read_models(models: Sequence[Any], weights: Sequence[float] | None) -> tuple[list[AdditiveModel], np.ndarray]:
    """Models of positive weight, their columns in the order of the first, and these weights."""
    if not isinstance(models, Iterable):
        raise TypeError(f"merge expected a list of models, such as [first, second], not {type(models).__name__}")
    found = [find_model(model) for model in models]
    if not found:
        raise ValueError("merge expected at least one model, but the list is empty")
    counts = np.ones(len(found)) if weights is None else np.asarray(weights, dtype=float)
    if counts.shape != (len(found),) or not np.isfinite(counts).all() or (counts < 0).any() or not counts.any():
        raise ValueError(
            f"weights must be one number of at least 0 for each of the {len(found)} models, not all 0; got {weights!r}"
        )
    kept = [model for model, count in zip(found, counts, strict=True) if count > 0]
    if len({model.is_wide for model in kept}) > 1:
        raise ValueError(
            "models of very wide sparse tables keep their terms in factors and can only be merged with each other; fit "
            "one model on all rows instead"
        )
    return [kept[0], *[_reorder(model, kept[0].encoder.names) for model in kept[1:]]], counts[counts > 0]


def _reorder(model: AdditiveModel, names: Sequence[str]) -> AdditiveModel:
    """The same model with its columns in this order."""
    own = model.encoder.names
    if own == tuple(names):
        return model
    if set(own) != set(names):
        odd = sorted(set(own) ^ set(names))
        raise ValueError(f"models to merge must have the same columns; only some of them have {', '.join(odd)}")
    number = {name: index for index, name in enumerate(names)}
    place = np.array([number[name] for name in own])
    encoder = model.encoder.take(np.argsort(place).tolist())
    if model.is_wide:
        return replace(model, encoder=encoder, shapes=make_shapes([f.renumber(place) for f in model.factors], encoder))
    shapes = []
    for shape in model.shapes:
        term = place[list(shape.term)].tolist()
        shapes.append(_transpose(plain_shape(shape), term, np.argsort(term)))
    return replace(model, encoder=encoder, shapes=tuple(shapes))


def _transpose(shape: Shape, term: Sequence[int], order: np.ndarray) -> Shape:
    """The same shape with its axes in another order."""
    whole = (*order, len(order))
    return Shape(
        tuple(term[d] for d in order),
        tuple(shape.axes[d] for d in order),
        shape.scores.transpose(whole),
        shape.spread.transpose(whole),
        shape.weights.transpose(order),
    )


def _check_compatible(models: Sequence[AdditiveModel]) -> None:
    first = models[0]
    for model in models[1:]:
        if model.link != first.link:
            raise ValueError(f"models to merge must have the same link; one has {first.link!r}, one {model.link!r}")
        if first.classes is not None and not np.array_equal(first.classes, np.asarray(model.classes)):
            raise ValueError(
                "models to merge must have the same classes; one has "
                f"{first.classes.tolist()}, one {np.asarray(model.classes).tolist()}"
            )
        for axis, other in zip(first.encoder.axes, model.encoder.axes, strict=True):
            if axis.kind != other.kind:
                raise ValueError(
                    f"column {axis.name!r} is {axis.kind} in one model and {other.kind} in another; fit both with the "
                    "same feature_types"
                )


def plain_shape(shape: Any) -> Shape:
    """A shape of any kind as one plain table, without the tables of its members."""
    return Shape(shape.term, shape.axes, shape.scores, shape.spread, shape.weights)


def _find(model: AdditiveModel, term: Term) -> Shape | None:
    index = model.terms.index(term) if term in model.terms else None
    return None if index is None else plain_shape(model.shapes[index])


def count_rows(model: AdditiveModel) -> float:
    """Training weight of a model: the largest total weight of its terms."""
    return max((float(shape.weights.sum()) for shape in model.shapes), default=1.0)


@dataclass(frozen=True)
class _ResampledTable:
    """One model's table of a term, resampled on the joined axes.

    scores, spread : (c_1, …, c_o, K)
    density : (c_1, …, c_o) density of the training rows, 0 outside the model's own knots
    weights : (c_1, …, c_o) training weight, distributed over the new cells
    """

    scores: np.ndarray
    spread: np.ndarray
    density: np.ndarray
    weights: np.ndarray


def _resample_term(
    term: Term, found: Sequence[Shape | None], mains: Sequence[Axis], rows: np.ndarray, counts: np.ndarray
) -> tuple[tuple[Axis, ...], list[_ResampledTable]]:
    """The joined axes of a term, and the table of every model on them.

    rows : (models,) weighted number of rows
    counts : (models,) weight of one row

    A model without the term has a table of zeros; its rows are distributed like those of the other models.
    """
    known = [shape for shape in found if shape is not None]
    axes = tuple(
        mains[feature] if len(term) == 1 else join_axes([shape.axes[d] for shape in known], mains[feature])
        for d, feature in enumerate(term)
    )
    own = {
        m: _resample(shape, axes, count)
        for m, (shape, count) in enumerate(zip(found, counts, strict=True)) if shape is not None
    }  # fmt: skip
    zero = np.zeros_like(next(iter(own.values())).scores)
    density, weights = sum(table.density for table in own.values()), sum(table.weights for table in own.values())
    total = sum(rows[m] for m in own)
    tables = [
        own.get(m) or _ResampledTable(zero, zero, density * n_rows / total, weights * n_rows / total)
        for m, n_rows in enumerate(rows)
    ]
    return axes, tables


def _align(tables: Sequence[_ResampledTable], widths: np.ndarray) -> np.ndarray:
    """(models, K) constants to add to the tables that minimize the weighted squares around their mean."""
    mass = np.stack([table.density for table in tables]) * widths
    scores = np.stack([table.scores for table in tables])
    share = mass / np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    gradient = np.einsum("mc,mck->mk", mass, scores - np.einsum("mc,mck->ck", share, scores))
    hessian = np.diag(mass.sum(axis=1)) - mass @ share.T
    moves = -np.linalg.pinv(hessian, rcond=1e-9, hermitian=True) @ gradient
    return moves - np.average(moves, axis=0, weights=mass.sum(axis=1) if mass.any() else None)


def _average(term: Term, axes: tuple[Axis, ...], tables: Sequence[_ResampledTable], rows: np.ndarray) -> Shape:
    """Mean and spread over the models, weighted by density; by number of rows where no model has rows."""
    density = np.stack([table.density for table in tables])
    share = np.where(density.sum(axis=0) > 0, density, rows.reshape(-1, *[1] * len(axes)))
    share = (share / share.sum(axis=0))[..., None]
    scores = np.stack([table.scores for table in tables])
    mean = (share * scores).sum(axis=0)
    spread = np.sqrt(share) * np.hypot(np.stack([table.spread for table in tables]), scores - mean)
    return Shape(term, axes, mean, np.hypot.reduce(spread, axis=0), np.sum([table.weights for table in tables], axis=0))


def _resample(shape: Shape, axes: Sequence[Axis], count: float) -> _ResampledTable:
    """A shape on other axes; `count` is the weight of one row."""
    steps = [resample_axis(old, new) for old, new in zip(shape.axes, axes, strict=True)]
    inside = reduce(np.multiply.outer, [step.inside.astype(float) for step in steps])
    density = count * shape.weights / reduce(np.multiply.outer, [step.widths for step in steps])
    return _ResampledTable(
        multiply_axes(shape.scores, [step.values for step in steps]),
        multiply_axes(shape.spread, [step.values for step in steps]),
        multiply_axes(density, [step.values for step in steps]) * inside,
        multiply_axes(count * shape.weights, [distribute(step) for step in steps]),
    )


def centre_shapes(shapes: Sequence[Shape], intercept: np.ndarray) -> tuple[list[Shape], np.ndarray]:
    """Purify shapes over the density of their rows; cells without a basis and without rows are set to 0."""
    tables = [Table(shape.term, shape.axes, shape.scores, shape.weights) for shape in shapes]
    spread = {shape.term: shape.spread for shape in shapes}
    pure, intercept = purify(tables, intercept, smooth_density)
    centred = []
    for table in sorted(pure, key=lambda table: (len(table.term), table.term)):
        scores = np.where(is_silent(table.axes, table.weights)[..., None], 0.0, table.values)
        own = spread.get(table.term, np.zeros_like(scores))
        centred.append(Shape(table.term, table.axes, scores, own, table.weights))
    return centred, intercept


def _join_summaries(summaries: Sequence[Summary | None], counts: np.ndarray) -> Summary | None:
    """One summary with the total number of rows; None if any model has none."""
    known = [summary for summary in summaries if summary is not None]
    if len(known) < len(summaries):
        return None
    parameters = {"merged": [summary.n_rows for summary in known], "weights": counts.tolist()}
    return replace(
        known[0], parameters=parameters, n_rows=sum(summary.n_rows for summary in known), validation=None,
        history={"stage": [], "steps": [], "validation": [], "seconds": []}, date=read_clock(),
    )  # fmt: skip
