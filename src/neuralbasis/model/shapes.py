"""Shape: one term's table, plain or in factors. What a model is made of, and what its file holds."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..readonly import freeze, freeze_fields
from ..terms.term import Term
from .factors import Factors


@dataclass(frozen=True, eq=False)
class Measured:
    """Mean absolute contribution (K,) over the training rows, and the tables that it was measured with.

    Arrays of a shape never change, so the measurement holds for a shape whose tables are these very arrays.
    """

    sizes: np.ndarray
    tables: tuple[np.ndarray, ...]

    def __post_init__(self):
        freeze_fields(self, "sizes")


def find_sizes(measured: Measured | None, *tables: np.ndarray) -> np.ndarray | None:
    """(K,) what was measured with these very tables."""
    is_known = measured is not None and all(map(operator.is_, measured.tables, tables))
    return measured.sizes if measured is not None and is_known else None


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
    measured : mean absolute contribution over the training rows, None where they are not at hand
    """

    term: Term
    axes: tuple[Axis, ...]
    scores: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    members: np.ndarray | None = None
    measured: Measured | None = None

    def __post_init__(self):
        freeze_fields(self, "scores", "spread", "weights", "members")

    @property
    def importances(self) -> np.ndarray:
        """(K,) mean absolute contribution over the training rows; over the cells of a table that was changed since."""
        sizes = self.measured_sizes
        return freeze(mean_size(self.scores, self.weights)) if sizes is None else sizes

    @property
    def measured_sizes(self) -> np.ndarray | None:
        """(K,) what was measured with this very table."""
        return find_sizes(self.measured, self.scores)

    def measure(self, sizes: np.ndarray) -> Shape:
        """The same shape with its mean absolute contribution (K,) over the training rows."""
        return replace(self, measured=Measured(sizes, (self.scores,)))


@dataclass(frozen=True, eq=False)
class TiedShape:
    """One term's table in factors, for many classes: all classes share a few shapes and weigh them.

    Parameters
    ----------
    term, axes, weights, measured : see `Shape`
    values : (c_1, …, c_o, C) shapes
    mix : (C, M, K) weight of each shape in each class of each member
    """

    term: Term
    axes: tuple[Axis, ...]
    values: np.ndarray
    mix: np.ndarray
    weights: np.ndarray
    measured: Measured | None = None

    def __post_init__(self):
        freeze_fields(self, "values", "mix", "weights")

    @property
    def importances(self) -> np.ndarray:
        """(K,) see `Shape.importances`."""
        sizes = self.measured_sizes
        return freeze(mean_size(self.scores, self.weights)) if sizes is None else sizes

    @property
    def measured_sizes(self) -> np.ndarray | None:
        """(K,) see `Shape.measured_sizes`."""
        return find_sizes(self.measured, self.values, self.mix)

    def measure(self, sizes: np.ndarray) -> TiedShape:
        """See `Shape.measure`."""
        return replace(self, measured=Measured(sizes, (self.values, self.mix)))

    @property
    def scores(self) -> np.ndarray:
        return freeze(self.values @ self.mix.mean(axis=1))

    @property
    def members(self) -> np.ndarray:
        return freeze(np.tensordot(self.values, self.mix, 1))

    @property
    def spread(self) -> np.ndarray:
        members = self.members
        return freeze(members.std(axis=-2, ddof=1) if self.mix.shape[1] > 1 else np.zeros(members[..., 0, :].shape))


@dataclass(frozen=True, eq=False)
class LowRankShape:
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
    def importances(self) -> np.ndarray:
        """(K,) see `Factors.importances`."""
        return self.factors.importances[self.index]

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
        return freeze(table.transpose(*order, *range(len(order), table.ndim)))


AnyShape = Shape | TiedShape | LowRankShape


def mean_size(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(…) mean of |scores| (c_1, …, c_o, …) over the cells, by their training weight.

    A row between two cells whose scores differ in sign contributes less than this mean assumes.
    """
    seen = weights > 0
    if not seen.any():
        return np.zeros(scores.shape[weights.ndim :])
    return np.average(np.abs(scores[seen]), axis=0, weights=weights[seen])


def make_shapes(factors: Sequence[Factors], encoder: Encoder) -> tuple[LowRankShape, ...]:
    """One shape a term, in the order of the factors. Its axes have the knots of the factors and the names of columns.

    Columns whose own axis has these knots lend it: very many columns often share one.
    """
    shapes: list[LowRankShape] = []
    for part in factors:
        axes = _find_axes(part.finder.axis, encoder)
        for index, features in enumerate(np.sort(part.finder.features, axis=1).tolist()):
            shapes.append(LowRankShape(part, index, tuple([axes[feature] for feature in features])))
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
