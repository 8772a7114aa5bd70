"""Merge: one model from several that were fitted in separate places on the same columns.

    f(x) = Σ_m d_m(x) f_m(x) / Σ_m d_m(x)          d_m: density of the rows that model m has seen, times its weight

Every term has its tables on the union of all knots and levels. Where only one model has seen rows, it alone speaks;
where none has, all speak by their numbers of rows. A model without a term says 0 there. Each model is centred over its
own rows, so first a constant moves between its main effects and its intercept until models agree as well as they can
where they have both seen rows. NumPy only: what is shared between places is fitted models, never rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from ..encoding.axis import Axis, level_axis
from ..encoding.encoder import Encoder
from ..terms.term import Term
from .additive_model import AdditiveModel, find_model
from .purify import Table, is_silent, purify
from .shapes import LowRankShape, Shape
from .summary import Summary, read_clock


def merge(models: Sequence[Any], weights: Sequence[float] | None = None) -> AdditiveModel:
    """One model that says what several models say, each where it has seen rows.

    Parameters
    ----------
    models : fitted estimators or models with the same columns, by name and kind, and the same link and classes
    weights : how much a row of each model counts, 1 by default; 0 leaves a model out

    Returns
    -------
    An `AdditiveModel`. Its spread is that of all members of all models around it, so that it is wide where the models
    disagree; tables of single members are not kept.

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
    _check_alike(found)
    first = found[0]
    axes = tuple(_join_axes([model.encoder.axes[d] for model in found]) for d in range(len(first.encoder.axes)))
    terms = sorted({term for model in found for term in model.terms}, key=lambda term: (len(term), term))
    rows = counts * [count_rows(model) for model in found]
    intercepts, shapes = np.stack([model.intercept for model in found]), []
    for term in terms:
        own, member_mask = _hear_all(term, [_find(model, term) for model in found], axes, rows, counts)
        if len(term) == 1:
            moves = _align(member_mask, _read_axis(*own, *own).widths)
            member_mask = [
                replace(voice, scores=voice.scores + move) for voice, move in zip(member_mask, moves, strict=True)
            ]
            intercepts -= moves
        shapes.append(_mix(term, own, member_mask, rows))
    shapes, intercept = centre_shapes(shapes, np.average(intercepts, axis=0, weights=rows))
    summary = _join_summaries([model.summary for model in found], counts)
    return AdditiveModel(Encoder(axes), intercept, tuple(shapes), first.link, first.classes, first.n_jobs, summary)


# What comes in


def _read_models(models: Sequence[Any], weights: Sequence[float] | None) -> tuple[list[AdditiveModel], np.ndarray]:
    """Models that count, their columns in the order of the first, and what a row of each counts."""
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
    for model in kept:
        if any(isinstance(shape, LowRankShape) for shape in model.shapes):
            raise ValueError("models of very wide sparse tables, whose terms are kept in factors, cannot be merged")
    return [kept[0], *[_reorder(model, kept[0].encoder.names) for model in kept[1:]]], counts[counts > 0]


def _reorder(model: AdditiveModel, names: Sequence[str]) -> AdditiveModel:
    """The same model with its columns in this order."""
    own = model.encoder.names
    if own == tuple(names):
        return model
    if set(own) != set(names):
        odd = sorted(set(own) ^ set(names))
        raise ValueError(f"models to merge must have the same columns; only some of them have {', '.join(odd)}")
    place = {feature: list(names).index(name) for feature, name in enumerate(own)}
    shapes = []
    for shape in model.shapes:
        term = [place[feature] for feature in shape.term]
        shapes.append(_turn(plain_shape(shape), term, np.argsort(term)))
    return replace(model, encoder=model.encoder.take([own.index(name) for name in names]), shapes=tuple(shapes))


def _turn(shape: Shape, term: Sequence[int], order: np.ndarray) -> Shape:
    """The table with its axes in another order."""
    whole = (*order, len(order))
    return Shape(
        tuple(term[d] for d in order),
        tuple(shape.axes[d] for d in order),
        shape.scores.transpose(whole),
        shape.spread.transpose(whole),
        shape.weights.transpose(order),
    )


def _check_alike(models: Sequence[AdditiveModel]) -> None:
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
    """A shape of any kind as one table, without those of its members."""
    return Shape(shape.term, shape.axes, shape.scores, shape.spread, shape.weights)


def _find(model: AdditiveModel, term: Term) -> Shape | None:
    index = model.terms.index(term) if term in model.terms else None
    return None if index is None else plain_shape(model.shapes[index])


def count_rows(model: AdditiveModel) -> float:
    """Training weight of a model: that of its term with most of it."""
    return max((float(shape.weights.sum()) for shape in model.shapes), default=1.0)


# Axes


def _join_axes(axes: Sequence[Axis], main: Axis | None = None) -> Axis:
    """The union of their knots; levels in the order of the column's main axis, or as they come.

    Places only matter in training: they are even.
    """
    first = axes[0]
    if not first.is_level:
        knots = np.unique(np.concatenate([axis.knots for axis in axes]))
        return replace(first, knots=knots, places=_even(len(knots)))
    names = list(dict.fromkeys(level for axis in axes for level in axis.levels or ()))
    mass = [sum(_mass_of(axis, name) for axis in axes) for name in names]
    if main is None:
        return level_axis(first.name, first.kind, names, np.array(mass))
    number = {level: index for index, level in enumerate(main.levels or ())}
    order = np.argsort([number[name] for name in names])
    joined = level_axis(first.name, first.kind, [names[k] for k in order], np.array(mass)[order])
    return replace(joined, knots=np.array([float(number[names[k]]) for k in order]))


def _even(count: int) -> np.ndarray:
    return np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])


def _mass_of(axis: Axis, level: str) -> float:
    levels = axis.levels or ()
    if level not in levels:
        return 0.0
    return 1.0 if axis.mass is None else float(axis.mass[levels.index(level)])


@dataclass(frozen=True)
class _Reading:
    """How the cells of one axis are read from another of the same column.

    values : (cells of the new axis, cells of the old) shares that sum to 1 in each row
    inside : (cells of the new axis,) are they where the old axis has knots of its own?
    widths : (cells of the old axis,) how much of the column a cell stands for
    """

    values: np.ndarray
    inside: np.ndarray
    widths: np.ndarray


def _read_axis(old: Axis, new: Axis) -> _Reading:
    n_old, n_new = old.n_cells, new.n_cells
    values, inside, widths = np.zeros((n_new, n_old)), np.ones(n_new, dtype=bool), np.ones(n_old)
    values[0, 0] = values[-1, -1] = 1.0
    cells = np.arange(1, n_new - 1)
    if old.is_level:
        number = {level: index for index, level in enumerate(old.levels or ())}
        place = np.array([number.get(level, n_old - 2) for level in new.levels or ()])
        values[cells, place + 1] = 1.0
        inside[cells] = place < n_old - 2
        return _Reading(values, inside, widths)
    position = np.interp(new.knots, old.knots, np.arange(1.0, n_old - 1))
    left = np.minimum(position.astype(int), n_old - 2)
    values[cells, left] += 1 - (position - left)
    values[cells, np.minimum(left + 1, n_old - 2)] += position - left
    inside[cells] = (new.knots >= old.knots[0]) & (new.knots <= old.knots[-1])
    if len(old.knots) > 1:
        gaps = np.diff(old.knots)
        widths[1:-1] = np.maximum((np.r_[gaps, gaps[-1]] + np.r_[gaps[0], gaps]) / 2, np.finfo(float).tiny)
    return _Reading(values, inside, widths)


# Terms


@dataclass(frozen=True)
class _Voice:
    """What one model says of a term on the joined axes.

    scores, spread : (c_1, …, c_o, K)
    density : (c_1, …, c_o) of the rows it has seen, 0 outside of its knots
    weights : (c_1, …, c_o) its rows, shared out to the cells
    """

    scores: np.ndarray
    spread: np.ndarray
    density: np.ndarray
    weights: np.ndarray


def _hear_all(
    term: Term, found: Sequence[Shape | None], mains: Sequence[Axis], rows: np.ndarray, counts: np.ndarray
) -> tuple[tuple[Axis, ...], list[_Voice]]:
    """The joined axes of a term, and what every model says on them; `counts` is what a row of each counts.

    A model without the term says 0, with its `rows` where those of the others are.
    """
    known = [shape for shape in found if shape is not None]
    axes = tuple(
        mains[feature] if len(term) == 1 else _join_axes([shape.axes[d] for shape in known], mains[feature])
        for d, feature in enumerate(term)
    )
    heard = {
        m: _hear(shape, axes, count)
        for m, (shape, count) in enumerate(zip(found, counts, strict=True)) if shape is not None
    }  # fmt: skip
    zero = np.zeros_like(next(iter(heard.values())).scores)
    usual, mass = sum(v.density for v in heard.values()), sum(v.weights for v in heard.values())
    total = sum(rows[m] for m in heard)
    member_mask = [
        heard.get(m) or _Voice(zero, zero, usual * row / total, mass * row / total) for m, row in enumerate(rows)
    ]
    return axes, member_mask


def _align(member_mask: Sequence[_Voice], widths: np.ndarray) -> np.ndarray:
    """(models, K) constants to add to what each says, that leave the least weighted squares around their mean."""
    mass = np.stack([voice.density for voice in member_mask]) * widths
    scores = np.stack([voice.scores for voice in member_mask])
    share = mass / np.maximum(mass.sum(axis=0), np.finfo(float).tiny)
    pull = np.einsum("mc,mck->mk", mass, scores - np.einsum("mc,mck->ck", share, scores))
    bonds = np.diag(mass.sum(axis=1)) - mass @ share.T
    moves = -np.linalg.pinv(bonds, rcond=1e-9, hermitian=True) @ pull
    return moves - np.average(moves, axis=0, weights=mass.sum(axis=1) if mass.any() else None)


def _mix(term: Term, axes: tuple[Axis, ...], member_mask: Sequence[_Voice], rows: np.ndarray) -> Shape:
    """Mean and spread of what the models say, by the density of their rows; by all their rows where nobody has any."""
    density = np.stack([voice.density for voice in member_mask])
    share = np.where(density.sum(axis=0) > 0, density, rows.reshape(-1, *[1] * len(axes)))
    share = (share / share.sum(axis=0))[..., None]
    scores = np.stack([voice.scores for voice in member_mask])
    mean = (share * scores).sum(axis=0)
    parts = np.sqrt(share) * np.hypot(np.stack([voice.spread for voice in member_mask]), scores - mean)
    return Shape(
        term, axes, mean, np.hypot.reduce(parts, axis=0), np.sum([voice.weights for voice in member_mask], axis=0)
    )


def _hear(shape: Shape, axes: Sequence[Axis], count: float) -> _Voice:
    readings = [_read_axis(old, new) for old, new in zip(shape.axes, axes, strict=True)]
    inside = reduce(np.multiply.outer, [reading.inside.astype(float) for reading in readings])
    density = count * shape.weights / reduce(np.multiply.outer, [reading.widths for reading in readings])
    return _Voice(
        _along(shape.scores, [reading.values for reading in readings]),
        _along(shape.spread, [reading.values for reading in readings]),
        _along(density, [reading.values for reading in readings]) * inside,
        _along(count * shape.weights, [_share_out(reading) for reading in readings]),
    )


def _share_out(reading: _Reading) -> np.ndarray:
    """(new cells, old cells): every old cell's rows go to the new cells that read it."""
    shares = reading.values * reading.inside[:, None]
    return shares / np.maximum(shares.sum(axis=0), np.finfo(float).tiny)


def _along(table: np.ndarray, matrices: Sequence[np.ndarray]) -> np.ndarray:
    """A matrix product along each of the first axes."""
    for d, matrix in enumerate(matrices):
        table = np.moveaxis(np.tensordot(matrix, table, (1, d)), 0, d)
    return table


def centre_shapes(shapes: Sequence[Shape], intercept: np.ndarray) -> tuple[list[Shape], np.ndarray]:
    """Purified over the rows of all models; levels that nobody has seen say nothing."""
    tables = [Table(shape.term, shape.axes, shape.scores, shape.weights) for shape in shapes]
    spread = {shape.term: shape.spread for shape in shapes}
    pure, intercept = purify(tables, intercept)
    made = []
    for table in sorted(pure, key=lambda table: (len(table.term), table.term)):
        silent = is_silent(table.axes, table.weights)[..., None]
        scores = np.where(silent, 0.0, table.values)
        made.append(Shape(table.term, table.axes, scores, spread.get(table.term, np.zeros_like(scores)), table.weights))
    return made, intercept


def _join_summaries(summaries: Sequence[Summary | None], counts: np.ndarray) -> Summary | None:
    """Rows added up; None if a model has none of its own."""
    known = [summary for summary in summaries if summary is not None]
    if len(known) < len(summaries):
        return None
    parameters = {"merged": [summary.n_rows for summary in known], "weights": counts.tolist()}
    return replace(
        known[0], parameters=parameters, n_rows=sum(summary.n_rows for summary in known), validation=None,
        history={"stage": [], "steps": [], "validation": [], "seconds": []}, date=read_clock(),
    )  # fmt: skip
