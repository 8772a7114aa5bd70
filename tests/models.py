"""Small models made by hand, rows that reach every kind of cell, and a slow reference for positions and look-ups."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, product

import numpy as np

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Anchor, Axis, Encoder, continuous_axis, lay_out, level_axis
from neuralbasis.model.shapes import Shape, TiedShape

MIXED = ("continuous", "nominal", "continuous", "ordinal", "continuous")
NUMERIC = ("continuous",) * 4
MAX_KNOTS = {2: 5, 3: 3}


def build_axes(rng: np.random.Generator, kinds: Sequence[str] = MIXED) -> tuple[Axis, ...]:
    """Axes "x0", "x1", …; a continuous one has 7 to 12 knots, another 6 or 7 levels of different mass."""
    axes = []
    for index, kind in enumerate(kinds):
        if kind == "continuous":
            axes.append(continuous_axis(f"x{index}", rng.normal(0, 10, rng.integers(7, 13))))
        else:
            levels = [f"level {k}" for k in range(rng.integers(6, 8))]
            axes.append(level_axis(f"x{index}", kind, levels, rng.permutation(len(levels)) + 1.0))
    return tuple(axes)


def all_terms(n_features: int, orders: Sequence[int]) -> list[tuple[int, ...]]:
    return [term for order in orders for term in combinations(range(n_features), order)]


def build_layout(
    rng: np.random.Generator,
    kinds: Sequence[str] = MIXED,
    orders: Sequence[int] = (1, 2, 3),
    anchors: Mapping[int, Anchor] | None = None,
):
    """Every term of the given orders over fresh axes."""
    return lay_out(build_axes(rng, kinds), all_terms(len(kinds), orders), MAX_KNOTS, anchors)


def build_model(
    rng: np.random.Generator,
    kinds: Sequence[str] = MIXED,
    orders: Sequence[int] = (1, 2, 3),
    n_outputs: int = 1,
    link: str = "identity",
    classes: np.ndarray | None = None,
    n_jobs: int | None = 1,
) -> AdditiveModel:
    """Random tables for every term of the given orders; half of the cells have no training weight.

    Main effects have three members.
    """
    layout = build_layout(rng, kinds, orders)
    shapes = []
    for index, term in enumerate(layout.terms):
        cells = layout.table_shape(index)
        weights = rng.integers(0, 9, cells) * (rng.random(cells) < 0.5) + np.eye(1, int(np.prod(cells))).reshape(cells)
        scores, spread = rng.normal(size=(*cells, n_outputs)), rng.random((*cells, n_outputs))
        deviations = rng.normal(size=(*cells, 3, n_outputs)) if len(term) == 1 else None
        members = (
            None
            if deviations is None
            else (scores[..., None, :] + deviations - deviations.mean(axis=-2, keepdims=True))
        )
        shapes.append(Shape(term, layout.axes_of(index), scores, spread, weights, members))
    encoder = Encoder(layout.axes[: len(kinds)])
    return AdditiveModel(encoder, rng.normal(size=n_outputs), tuple(shapes), link, classes, n_jobs)


def tie_model(rng: np.random.Generator, model: AdditiveModel, tied: Sequence[int], n_members: int = 3) -> AdditiveModel:
    """The same terms, those with these indices in factors, of one to three shapes each."""
    shapes: list[Shape | TiedShape] = list(model.shapes)
    for index in tied:
        shape, count = shapes[index], 1 + index % 3
        values = rng.normal(size=(*shape.weights.shape, count))
        mix = rng.normal(size=(count, n_members, model.n_outputs))
        shapes[index] = TiedShape(shape.term, shape.axes, values, mix, shape.weights)
    return AdditiveModel(model.encoder, model.intercept, tuple(shapes), model.link, model.classes, model.n_jobs)


def draw_numbers(rng: np.random.Generator, axes: Sequence[Axis], n_rows: int) -> np.ndarray:
    """Numbers (N, D) as an encoder gives them: between knots, on knots, out of range, missing, unseen levels."""
    numbers = np.empty((n_rows, len(axes)))
    for index, axis in enumerate(axes):
        if axis.is_level:
            values = rng.integers(-1, len(axis.knots), n_rows).astype(float)
        else:
            reach = np.ptp(axis.knots) + 1.0
            values = rng.uniform(axis.knots[0] - 0.2 * reach, axis.knots[-1] + 0.2 * reach, n_rows)
            values = np.where(rng.random(n_rows) < 0.3, rng.choice(axis.knots, n_rows), values)
        numbers[:, index] = np.where(rng.random(n_rows) < 0.1, np.nan, values)
    return numbers


def name_columns(axes: Sequence[Axis], numbers: np.ndarray) -> dict[str, np.ndarray]:
    """The table that an encoder with these axes reads as `numbers`."""
    return {axis.name: _raw_values(axis, numbers[:, index]) for index, axis in enumerate(axes)}


def _raw_values(axis: Axis, values: np.ndarray) -> np.ndarray:
    if not axis.is_level:
        return values
    names = dict(enumerate(axis.levels))
    return np.array([None if np.isnan(v) else names.get(int(v), "never seen") for v in values], dtype=object)


def slow_position(value: float, axis: Axis) -> float:
    """The definition of a position, one value at a time."""
    count = len(axis.knots)
    if np.isnan(value):
        return 0.0
    if axis.is_level:
        return axis.knots.tolist().index(value) + 1.0 if value in axis.knots else count + 1.0
    return float(np.interp(value, axis.knots, np.arange(1, count + 1)))


def slow_look_up(table: np.ndarray, positions: Sequence[float]) -> np.ndarray:
    """Multilinear interpolation of a table (c_1, …, c_o, K) at one position: (K,)"""
    total = np.zeros(table.shape[-1])
    for corner in product((0, 1), repeat=len(positions)):
        share, cell = 1.0, []
        for upper, position in zip(corner, positions, strict=True):
            part = position - np.floor(position)
            share *= part if upper else 1 - part
            cell.append(int(position) + upper)
        if share > 0:
            total += share * table[tuple(cell)]
    return total


def slow_contributions(model: AdditiveModel, numbers: np.ndarray) -> np.ndarray:
    """(N, T, K) by `slow_position` and `slow_look_up`."""
    out = np.empty((len(numbers), len(model.shapes), model.n_outputs))
    for row, values in enumerate(numbers):
        for index, shape in enumerate(model.shapes):
            places = [slow_position(values[f], axis) for f, axis in zip(shape.term, shape.axes, strict=True)]
            out[row, index] = slow_look_up(shape.scores, places)
    return out
