"""Shape: one term's table, plain or in factors. What a model is made of, and what its file holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .axis import Axis
from .encoder import Encoder
from .factors import Factors
from .terms import Term


@dataclass(frozen=True, eq=False)
class Shape:
    """One term's table.

    Parameters
    ----------
    term : the features, increasing
    axes : one axis a feature: the column's own for a main effect, a coarser one for an interaction
    scores : (c_1, …, c_o, K) contribution of each cell; along each axis: missing, knots, unseen
    spread : standard deviation of `scores` over the members, same shape
    weights : (c_1, …, c_o) training weight that fell on each cell
    members : (c_1, …, c_o, M, K) tables of all members, whose mean is `scores`; kept for main effects, None elsewhere
    """

    term: Term
    axes: tuple[Axis, ...]
    scores: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    members: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class TiedShape:
    """One term's table in factors, for many classes: all classes share a few shapes and weigh them.

    Parameters
    ----------
    term, axes, weights : see `Shape`
    values : (c_1, …, c_o, C) shapes
    mix : (C, M, K) weight of each shape in each class of each member
    """

    term: Term
    axes: tuple[Axis, ...]
    values: np.ndarray
    mix: np.ndarray
    weights: np.ndarray

    @property
    def scores(self) -> np.ndarray:
        return self.values @ self.mix.mean(axis=1)

    @property
    def members(self) -> np.ndarray:
        return np.tensordot(self.values, self.mix, 1)

    @property
    def spread(self) -> np.ndarray:
        members = self.members
        return members.std(axis=-2, ddof=1) if self.mix.shape[1] > 1 else np.zeros_like(members[..., 0, :])


@dataclass(frozen=True, eq=False)
class FactoredShape:
    """One term of `Factors`, read as a `Shape`: the same names, made when somebody asks."""

    factors: Factors
    index: int
    axes: tuple[Axis, ...]
    members: None = None

    @property
    def _features(self) -> np.ndarray:
        return self.factors.finder.features[self.index]

    @property
    def term(self) -> Term:
        return tuple(sorted(self._features.tolist()))

    @property
    def scores(self) -> np.ndarray:
        return self._turn(self.factors.bases.astype(float) @ self.factors.coefficients[self.index])

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation over the members, as if their coefficients of different bases were independent."""
        variance = self.factors.deviations[self.index].astype(float) ** 2
        return self._turn(np.sqrt(self.factors.bases.astype(float) ** 2 @ variance))

    @property
    def weights(self) -> np.ndarray:
        cells = slice(*self.factors.cell_starts[self.index : self.index + 2])
        found = np.zeros(len(self.factors.bases))
        found[self.factors.cells[cells]] = self.factors.weights[cells]
        # Values very near to the absent one stand on its cell as well.
        found[self.factors.absent_cell] += self.factors.total - found.sum()
        return self._turn(found)

    def _turn(self, cells: np.ndarray) -> np.ndarray:
        """Cells (cells, …) as a table whose axes follow the increasing features."""
        order = np.argsort(self._features)
        table = cells.reshape(*self.factors.table_shape, *cells.shape[1:])
        return table.transpose(*order, *range(len(order), table.ndim))


AnyShape = Shape | TiedShape | FactoredShape


def make_shapes(factors: Sequence[Factors], encoder: Encoder) -> tuple[FactoredShape, ...]:
    """One shape a term, in the order of the factors. Its axes have the knots of the factors and the names of columns.

    Columns whose own axis has these knots lend it: very many columns often share one.
    """
    shapes: list[FactoredShape] = []
    for part in factors:
        axes = _find_axes(part.finder.axis, encoder)
        for index, features in enumerate(np.sort(part.finder.features, axis=1).tolist()):
            shapes.append(FactoredShape(part, index, tuple([axes[feature] for feature in features])))
    return tuple(shapes)


def _find_axes(own: Axis, encoder: Encoder) -> list[Axis]:
    """An axis with the knots of `own` for every column."""
    is_same: dict[int, bool] = {}  # by identity: arrays that columns share are compared once
    for axis in encoder.axes:
        if id(axis.knots) not in is_same:
            is_same[id(axis.knots)] = not axis.is_level and np.array_equal(axis.knots, own.knots)
    return [
        axis if is_same[id(axis.knots)] else Axis(axis.name, own.kind, own.knots, own.places) for axis in encoder.axes
    ]
