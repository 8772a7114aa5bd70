"""Stability: how much the main effects of several models differ.

    deviation of a column = mean over points x of the standard deviation of f_i(x) over the models

PAPER §4.5: compares models with different seeds and reports the mean over the columns. The paper does not define the
points; here they are the training rows, even steps along the column, or the rows of a table. Several models are first
merged into one model of main effects, with the models as its members.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..data.columns import Column, Columns
from ..data.frames import write_frame
from ..encoding.axis import Axis, level_axis
from ..encoding.encoder import Encoder
from ..model.additive_model import AdditiveModel, find_model
from ..model.shapes import AnyShape, Shape
from .explanation import Value, list_cells, name_outputs, plain_values

N_POINTS = 512  # points of even steps along a continuous column


def stability(models: Any, weighted: bool = True, X: Any = None) -> Stability:
    """Measure how much the main effects of several models differ: their standard deviation over the models.

    Shapes are compared without rescaling: each has mean 0 over its own training rows.

    Parameters
    ----------
    models : list of models or fitted estimators with the same columns and classes; or one model, whose members are
        compared (a member is less stable than the model, which is the mean of all members)
    weighted : whether points are weighted by the number of rows. False gives all points the same weight: every level,
        and even steps along a continuous column, as in a plot; missing values are left out
    X : table whose rows are the points, instead of the training rows; with weighted=False, its distinct values

    Returns
    -------
    Stability

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> models = [NeuralBasisRegressor(max_steps=20, random_state=seed).fit(X, X[:, 0]) for seed in (1, 2, 3)]
    >>> found = stability(models)
    >>> found.columns, found.n_models, bool(found.overall == found.by_column[0])
    (('feature_0000',), 3, True)
    """
    is_single = not isinstance(models, Iterable)
    found = [find_model(model) for model in ([models] if is_single else models)]
    model = found[0] if is_single else _merge(found)
    shapes = {name: shape for name, shape in _main_effects(model).items() if shape.members is not None}
    if not shapes:
        raise ValueError("this model does not store the tables of its members; pass a list of models instead")
    table: dict[str, Column] = {}
    if X is not None:
        columns = found[0].find_columns(X)
        found[0].encoder.numbers(columns)  # raises if the table does not match the model
        table = dict(zip(found[0].encoder.names, columns, strict=True))
    points, weights, curves = [], [], []
    for name, shape in shapes.items():
        counts = _choose_points(shape, weighted, table.get(name))
        points.append(tuple(counts))
        weights.append(np.array(list(counts.values()), dtype=float))
        curves.append(_read_members(shape, points[-1]))
    if len(curves[0]) < 2:
        raise ValueError("stability compares two or more models, or the members of one model; got 1")
    return Stability(model, tuple(shapes), tuple(points), tuple(weights), tuple(curves))


@dataclass(frozen=True, eq=False, repr=False)
class Stability:
    """The main effects of several models, and how much they differ.

    Parameters
    ----------
    model : the model whose members are compared: the given model, or the mean of the given models
    columns : names of the compared columns
    points : for each column, the values at which its shapes are compared
    weights : for each column, (P,) weights of the points
    curves : for each column, (models, P, K) shapes at the points

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9}
    >>> found = stability(NeuralBasisRegressor(max_steps=20).fit(table, table["size"]))
    >>> found.columns, found.n_models, found.curves[0].shape[:2] == (7, len(found.points[0]))
    (('size',), 7, True)
    """

    model: AdditiveModel
    columns: tuple[str, ...]
    points: tuple[tuple[Value, ...], ...]
    weights: tuple[np.ndarray, ...]
    curves: tuple[np.ndarray, ...]

    @property
    def n_models(self) -> int:
        """Number of compared models."""
        return len(self.curves[0])

    @property
    def deviations(self) -> tuple[np.ndarray, ...]:
        """For each column, (P, K) standard deviation of the shapes over the models."""
        return tuple(curves.std(axis=0, ddof=1) for curves in self.curves)

    @property
    def by_column(self) -> np.ndarray:
        """(columns,) mean standard deviation over the points and the classes."""
        parts = zip(self.deviations, self.weights, strict=True)
        return np.array([np.average(deviation.mean(axis=1), weights=weights) for deviation, weights in parts])

    @property
    def overall(self) -> float:
        """The mean over the columns, as in the paper."""
        return float(self.by_column.mean())

    def visualize(self, key: Any = None) -> Any:
        """A matplotlib figure: the deviations, or the shapes of one column with a faint line for each model."""
        from .. import plot

        return plot.stability(self) if key is None else plot.shape(self.model, key)

    def to_pandas(self) -> Any:
        """A pandas data frame: one line for each column."""
        parts = zip(self.columns, self.by_column.tolist(), strict=True)
        return write_frame([{"column": name, "deviation": deviation} for name, deviation in parts])

    def __repr__(self) -> str:
        return f"Stability({self.n_models} models, {len(self.columns)} columns, deviation {self.overall:.4g})"


def _merge(models: Sequence[AdditiveModel]) -> AdditiveModel:
    """The mean of the main effects that all models share, with the models as members."""
    if not models:
        raise ValueError("stability compares two or more models, or the members of one model; got none")
    outputs = [name_outputs(model) for model in models]
    other = next((labels for labels in outputs if labels != outputs[0]), None)
    if other is not None:
        raise ValueError(f"stability compares models with the same classes; got {outputs[0]} and {other}")
    mains = [_main_effects(model) for model in models]
    names = [name for name in mains[0] if all(name in shapes for shapes in mains)]
    if not names:
        raise ValueError("stability compares main effects; the models have no main effect in common")
    shapes = [_merge_shapes([one[name] for one in mains], feature) for feature, name in enumerate(names)]
    intercept = np.mean([model.intercept for model in models], axis=0)
    encoder = Encoder(tuple(shape.axes[0] for shape in shapes))
    return AdditiveModel(encoder, intercept, tuple(shapes), models[0].link, models[0].classes, models[0].n_jobs)


def _main_effects(model: AdditiveModel) -> dict[str, AnyShape]:
    return {model.encoder.names[shape.term[0]]: shape for shape in model.shapes if len(shape.term) == 1}


def _merge_shapes(shapes: Sequence[AnyShape], feature: int) -> Shape:
    """One shape on the union of the knots or levels: every shape is exact there, and linear between them."""
    axis = _merge_axes([shape.axes[0] for shape in shapes])
    cells, tables, weights = list_cells(axis), [], []
    for shape in shapes:
        inner = _read_curve(shape.axes[0], shape.scores, cells)
        tables.append(np.concatenate([shape.scores[:1], inner, shape.scores[-1:]]))
        own = dict(zip(list_cells(shape.axes[0]), shape.weights[1:-1].tolist(), strict=True))
        weights.append([shape.weights[0], *(own.get(value, 0.0) for value in cells), shape.weights[-1]])
    members = np.stack(tables, axis=1)  # (cells, M, K)
    spread = members.std(axis=1, ddof=1) if len(shapes) > 1 else np.zeros_like(members[:, 0])
    return Shape((feature,), (axis,), members.mean(axis=1), spread, np.mean(weights, axis=0), members)


def _merge_axes(axes: Sequence[Axis]) -> Axis:
    first = axes[0]
    if len({axis.is_level for axis in axes}) > 1:
        raise ValueError(
            f"column {first.name!r} has levels in one model and numbers in another; fit all with the same feature_types"
        )
    if first.is_level:
        return level_axis(first.name, first.kind, list(dict.fromkeys(v for axis in axes for v in list_cells(axis))))
    knots = np.unique(np.concatenate([axis.knots for axis in axes]))
    return replace(first, knots=knots, places=np.linspace(0.0, 1.0, len(knots)) if len(knots) > 1 else first.places)


def _read_members(shape: AnyShape, points: Sequence[Value]) -> np.ndarray:
    """(M, P, K) shapes of the members at the points."""
    members = np.asarray(shape.members)
    found = _read_curve(shape.axes[0], members.reshape(len(members), -1), points)
    return np.moveaxis(found.reshape(len(points), *members.shape[1:]), 1, 0)


def _read_curve(axis: Axis, scores: np.ndarray, points: Sequence[Value]) -> np.ndarray:
    """(P, C) values of a table (cells, C) at the points, by the interpolation of the model."""
    shape = Shape((0,), (axis,), scores, np.zeros_like(scores), np.zeros(len(scores)))
    alone = AdditiveModel(Encoder((axis,)), np.zeros(scores.shape[1]), (shape,), "identity")
    if axis.is_level:
        codes = {level: code for code, level in enumerate(dict.fromkeys(str(v) for v in points if v is not None))}
        own = np.array([codes.get(str(v), -1) for v in points], dtype=np.int32)
        column = Column(axis.name, None, own, tuple(codes))
    else:
        column = Column(axis.name, np.array(points, dtype=float))  # None becomes NaN
    return alone.contributions(Columns((axis.name,), len(points), columns=(column,)))[:, 0]


def _choose_points(shape: AnyShape, weighted: bool, column: Column | None) -> dict[Value, float]:
    """Points of a main effect, and their weights; missing comes first, numbers are in ascending order."""
    axis, counts = shape.axes[0], dict[Value, float]()
    if column is not None:
        found = Counter(plain_values(axis, column))
        order = list(found) if axis.is_level else sorted(found, key=lambda value: (value is not None, value))
        counts = {value: float(found[value]) for value in order}
    elif weighted or axis.is_level:
        counts = {None: float(shape.weights[0])} if shape.weights[0] > 0 else {}
        counts |= zip(list_cells(axis), shape.weights[1:-1].tolist(), strict=True)
    else:
        steps = np.linspace(0.0, 1.0, N_POINTS)  # two products: the difference of huge knots would overflow
        counts = dict.fromkeys((axis.knots[0] * (1 - steps) + axis.knots[-1] * steps).tolist(), 1.0)
    if not weighted:
        counts = {value: 1.0 for value in counts if value is not None}
    if not counts:
        raise ValueError(f"column {axis.name!r} of X has only missing values; omit X or add other rows")
    return counts if any(counts.values()) else dict.fromkeys(counts, 1.0)
