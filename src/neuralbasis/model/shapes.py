"""Shapes: the table of one term, which a model consists of and its file stores.

`Shape` holds a plain table, `TiedShape` a few shapes that all classes mix, `LowRankShape` one term of `Factors`. All
three offer term, axes, scores, spread, weights, members, evidence and importances.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..readonly import freeze, freeze_fields
from ..terms.term import Term
from .factors import Factors

LEVEL = 0.95  # of bands and intervals
QUANTILE = NormalDist().inv_cdf((1 + LEVEL) / 2)  # half width of a band in standard errors


@dataclass(frozen=True, eq=False)
class Measured:
    """Mean absolute contribution (K,) over the training rows, and the tables it was measured with.

    Arrays of a shape are read-only, so the measurement is valid for a shape that holds the identical arrays.
    """

    sizes: np.ndarray
    tables: tuple[np.ndarray, ...]

    def __post_init__(self):
        freeze_fields(self, "sizes")


def find_sizes(measured: Measured | None, *tables: np.ndarray) -> np.ndarray | None:
    """(K,) measured sizes, None if they were measured with other tables."""
    if measured is None or not all(map(operator.is_, measured.tables, tables)):
        return None
    return measured.sizes


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the training rows say about one term.

    Parameters
    ----------
    p_values : (K,) chance of as strong an effect if the term had none
    multipliers : (K,) scores ± multiplier · error is a band that contains the whole curve with 95 % confidence
    importance_errors : (K,) standard error of the importance
    concurvity : share of the term's variance that all other terms together could express, 0 to 1
    partner : the main effect that could express most of it; None if there is none
    partner_concurvity : the share that the partner could express

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"]).model_
    >>> found = model.shapes[0].evidence
    >>> found.p_values.shape, 0 <= found.concurvity <= 1
    ((1,), True)
    """

    p_values: np.ndarray
    multipliers: np.ndarray
    importance_errors: np.ndarray
    concurvity: float = 0.0
    partner: Term | None = None
    partner_concurvity: float = 0.0

    def __post_init__(self):
        freeze_fields(self, "p_values", "multipliers", "importance_errors")


@dataclass(frozen=True, eq=False)
class Shape:
    """The table of one term.

    Parameters
    ----------
    term : the features, increasing
    axes : one axis per feature: the column's own axis for a main effect, a coarser one for an interaction
    scores : (c_1, …, c_o, K) contribution of each cell; along each axis: missing, knots, unseen
    spread : standard error of `scores`, same shape
    weights : (c_1, …, c_o) training weight of each cell
    members : (c_1, …, c_o, M, K) tables of the members, whose mean is `scores`; main effects only, otherwise None
    measured : mean absolute contribution over the training rows, None if not measured
    evidence : what the training rows say about the term, None if unknown
    """

    term: Term
    axes: tuple[Axis, ...]
    scores: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    members: np.ndarray | None = None
    measured: Measured | None = None
    evidence: Evidence | None = None

    def __post_init__(self):
        freeze_fields(self, "scores", "spread", "weights", "members")

    @property
    def importances(self) -> np.ndarray:
        """(K,) mean absolute contribution over the training rows, or over the cells if it was not measured."""
        sizes = self.measured_sizes
        return freeze(mean_size(self.scores, self.weights)) if sizes is None else sizes

    @property
    def measured_sizes(self) -> np.ndarray | None:
        """(K,) mean absolute contribution measured with this table, None if there is no measurement."""
        return find_sizes(self.measured, self.scores)

    def measure(self, sizes: np.ndarray) -> Shape:
        """A copy of the shape with its mean absolute contribution (K,) over the training rows."""
        return replace(self, measured=Measured(sizes, (self.scores,)))


@dataclass(frozen=True, eq=False)
class TiedShape:
    """The table of one term for many classes, which share a few shapes and weight them.

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
    evidence: None = None

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
    """One term of `Factors` with the interface of `Shape`; arrays are computed on access."""

    factors: Factors
    index: int
    axes: tuple[Axis, ...]
    members: None = None
    evidence: None = None

    @property
    def _features(self) -> np.ndarray:
        return self.factors.finder.features[self.index]

    @property
    def term(self) -> Term:
        return tuple(sorted(self._features.tolist()))

    @property
    def scores(self) -> np.ndarray:
        return self._to_table(self.factors.bases.astype(float) @ self.factors.coefficients[self.index])

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation over the members, assuming independent coefficients of different bases."""
        variance = self.factors.deviations[self.index].astype(float) ** 2
        return self._to_table(np.sqrt(self.factors.bases.astype(float) ** 2 @ variance))

    @property
    def importances(self) -> np.ndarray:
        """(K,) see `Factors.importances`."""
        return self.factors.importances[self.index]

    @property
    def weights(self) -> np.ndarray:
        cells = slice(*self.factors.cell_starts[self.index : self.index + 2])
        found = np.zeros(len(self.factors.bases))
        found[self.factors.cells[cells]] = self.factors.weights[cells]
        # Values very close to the absent value also fall into its cell.
        found[self.factors.absent_cell] += self.factors.total - found.sum()
        return self._to_table(found)

    def _to_table(self, cells: np.ndarray) -> np.ndarray:
        """Reshape (cells, …) to a table whose axes follow the increasing features."""
        order = np.argsort(self._features)
        table = cells.reshape(*self.factors.table_shape, *cells.shape[1:])
        return freeze(table.transpose(*order, *range(len(order), table.ndim)))


AnyShape = Shape | TiedShape | LowRankShape


def renumber(shape: Shape | TiedShape, numbers: Mapping[int, int]) -> Shape | TiedShape:
    """The shape with other numbers of its features, in the same order. A partner without a number is left out."""
    term = tuple(numbers[feature] for feature in shape.term)
    if isinstance(shape, TiedShape) or shape.evidence is None:
        return replace(shape, term=term)
    evidence, partner = shape.evidence, shape.evidence.partner
    if partner is not None and all(feature in numbers for feature in partner):
        evidence = replace(evidence, partner=tuple(numbers[feature] for feature in partner))
    elif partner is not None:
        evidence = replace(evidence, partner=None, partner_concurvity=0.0)
    return replace(shape, term=term, evidence=evidence)


def have_evidence(shapes: Sequence[AnyShape]) -> bool:
    """Whether every shape has evidence, and its spread is a standard error."""
    return len(shapes) > 0 and all(shape.evidence is not None for shape in shapes)


def mean_size(scores: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(…) mean of |scores| (c_1, …, c_o, …) over the cells, weighted by training weight.

    This overestimates the contribution of rows between two cells whose scores differ in sign.
    """
    is_used = weights > 0
    if not is_used.any():
        return np.zeros(scores.shape[weights.ndim :])
    return np.average(np.abs(scores[is_used]), axis=0, weights=weights[is_used])


def square_spreads(shapes: Sequence[AnyShape], encoder: Encoder) -> tuple[float, tuple[AnyShape, ...]]:
    """The largest spread, and shapes whose scores are the squared spreads in this unit.

    Squares in the unit of the target could overflow or underflow.
    """
    tables = [shape for shape in shapes if not isinstance(shape, LowRankShape)]
    spreads = [np.asarray(shape.spread) for shape in tables]
    factors = list(dict.fromkeys(shape.factors for shape in shapes if isinstance(shape, LowRankShape)))
    sizes = [float(values.max()) for values in (*spreads, *(part.deviations for part in factors))]
    unit = max(sizes, default=0.0) or 1.0
    squares = [
        Shape(shape.term, shape.axes, (spread / unit) ** 2, np.zeros_like(spread), shape.weights)
        for shape, spread in zip(tables, spreads, strict=True)
    ]
    squared = [
        replace(part, bases=part.bases**2, coefficients=(part.deviations / np.float32(unit)) ** 2, sizes=None)
        for part in factors
    ]
    return unit, (*squares, *make_shapes(squared, encoder))


def make_shapes(factors: Sequence[Factors], encoder: Encoder) -> tuple[LowRankShape, ...]:
    """One shape per term, in the order of the factors, on axes with the knots of the factors."""
    shapes: list[LowRankShape] = []
    for part in factors:
        axes = _find_axes(part.finder.axis, encoder)
        for index, features in enumerate(np.sort(part.finder.features, axis=1).tolist()):
            shapes.append(LowRankShape(part, index, tuple([axes[feature] for feature in features])))
    return tuple(shapes)


def _find_axes(own: Axis, encoder: Encoder) -> list[Axis]:
    """For every column an axis with the knots of `own`: the column's axis if its knots are equal, else a new one."""
    is_same: dict[int, bool] = {}  # by identity: columns often share one array of knots, which is compared once
    for axis in encoder.axes:
        if id(axis.knots) not in is_same:
            is_same[id(axis.knots)] = not axis.is_level and np.array_equal(axis.knots, own.knots)
    return [
        axis if is_same[id(axis.knots)] else Axis(axis.name, own.kind, own.knots, own.places) for axis in encoder.axes
    ]
