"""TermBasis: hat functions of one term between few knots of its axes, and the priors of their coefficients.

    f(x) = B(x) β          β ~ N(0, (P / τ² + R)⁻¹)

In: the axes of a term and the training weights of their cells. Out: functions B at cells and rows, and pairs P, R. P
penalises first or second differences between knots, distances from a Gaussian process, or levels of a nominal column;
functions drawn from it have variance τ² over the rows. R does not depend on τ: it holds the missing cell, and the
slopes of the second prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy.linalg import eigh

from ..encoding.axis import Axis
from ..terms.term import Term

LENGTH = 0.15  # over which effects vary under the Gaussian process, as a share of the axis
FREEDOM = 3.0  # degrees of freedom of differences between neighbouring knots, if each has a variance of its own


@dataclass(frozen=True, eq=False)
class Prior:
    """β ~ N(0, (P / τ² + R)⁻¹) with P = `moving` and R = `fixed`, both (q, q).

    log_chance : logarithm of the prior's own chance, relative to the other priors of the term
    """

    moving: np.ndarray
    fixed: np.ndarray
    log_chance: float = 0.0

    @property
    def whole(self) -> np.ndarray:
        """(q, q) precision at τ = 1."""
        return self.moving + self.fixed

    @cached_property
    def shares(self) -> np.ndarray:
        """(q,) eigenvalues of P relative to P + R."""
        return np.clip(eigh(self.moving, self.whole, eigvals_only=True), 0, 1)

    @cached_property
    def log_determinant(self) -> float:
        """Of P + R."""
        return float(np.linalg.slogdet(self.whole)[1])


@dataclass(frozen=True, eq=False)
class TermBasis:
    """The functions of one term.

    Parameters
    ----------
    term : its features
    hats : for each axis (cells, q_d) hat functions; those of an interaction are products of one per axis
    margins : the same, centred over the rows
    priors : of the coefficients
    rises : (r, q) differences of neighbouring coefficients over the root of their distance; none for levels and
        interactions
    covariance : (q, q) of the functions over the rows; None without `rises`
    """

    term: Term
    hats: tuple[np.ndarray, ...]
    margins: tuple[np.ndarray, ...]
    priors: tuple[Prior, ...]
    rises: np.ndarray | None = None
    covariance: np.ndarray | None = None

    @property
    def size(self) -> int:
        """q, the number of coefficients."""
        return len(self.priors[0].moving)

    @property
    def precision(self) -> np.ndarray:
        """(q, q) of the first prior at τ = 1."""
        return self.priors[0].whole

    @cached_property
    def cells(self) -> np.ndarray:
        """(cells, q) functions at all cells of the table."""
        return reduce(np.kron, self.margins)

    def read(self, positions: Sequence[np.ndarray]) -> np.ndarray:
        """(N, q) functions of rows at positions (N,) on each axis."""
        found = []
        for margin, position in zip(self.margins, positions, strict=True):
            left = position.astype(np.int64)
            right, share = np.minimum(left + 1, len(margin) - 1), (position - left)[:, None]
            found.append((1 - share) * margin[left] + share * margin[right])
        return reduce(lambda low, high: (low[:, :, None] * high[:, None]).reshape(len(low), -1), found)

    def find_deviations(self, covariance: np.ndarray) -> np.ndarray:
        """(cells,) standard deviations of the term, interpolated between those at knots.

        Between two knots, a curve is less certain than the straight line between them.
        """
        knots = reduce(np.kron, [own[hat.argmax(axis=0)] for own, hat in zip(self.margins, self.hats, strict=True)])
        variance = ((knots @ covariance) * knots).sum(axis=1)
        return reduce(np.kron, self.hats) @ np.sqrt(np.maximum(variance, 0.0))

    def adapt_prior(self, mean: np.ndarray, covariance: np.ndarray) -> list[Prior]:
        """A prior of first differences with a variance at each place, found from the present posterior; for jumps.

        The variances have a scaled inverse chi-square prior, as in a Student t distribution of the differences.
        """
        if self.rises is None or self.covariance is None:
            return []
        squares = (self.rises @ mean) ** 2 + ((self.rises @ covariance) * self.rises).sum(axis=1)
        ratios = (FREEDOM + squares / squares.mean()) / (FREEDOM + 1)
        log_chance = -FREEDOM / 2 * float(np.sum(np.log(ratios) + 1 / ratios - 1))
        fixed = self.priors[0].fixed
        n_knots = int((np.diag(fixed) == 0).sum())
        moving = _add_ridge(((self.rises.T / ratios) @ self.rises)[:n_knots, :n_knots])
        return [Prior(_scale(moving, self.covariance), fixed, log_chance)]


def make_basis(term: Term, axes: Sequence[Axis], weights: np.ndarray, n_pieces: int) -> TermBasis:
    """The functions of a term with about `n_pieces` pieces along each axis.

    weights : (c_1, …, c_o) training weight of each cell

    Examples
    --------
    >>> from neuralbasis.encoding.axis import continuous_axis
    >>> axis = continuous_axis("age", np.arange(100.0))
    >>> basis = make_basis((0,), [axis], np.r_[0.0, np.ones(100), 0.0], 4)
    >>> basis.cells.shape, basis.read([np.array([1.0, 30.5])]).shape
    ((102, 5), (2, 5))
    """
    dims = range(weights.ndim)
    margins_of = [weights.sum(axis=tuple(e for e in dims if e != d)) for d in dims]
    hats = tuple(_make_hats(axis, own, n_pieces) for axis, own in zip(axes, margins_of, strict=True))
    margins = tuple(_centre(own, mass) for own, mass in zip(hats, margins_of, strict=True))
    parts = [_make_priors(*part) for part in zip(axes, hats, margins, margins_of, strict=True)]
    if len(parts) > 1:
        whole = reduce(np.kron, [priors[0].whole for priors, *_ in parts])
        return TermBasis(term, hats, margins, (Prior(whole, np.zeros_like(whole)),))
    return TermBasis(term, hats, margins, *parts[0])


def _make_hats(axis: Axis, weights: np.ndarray, n_pieces: int) -> np.ndarray:
    """(cells, q) functions of an axis: one per knot, and one for the missing cell if rows are there; one per level."""
    if axis.kind == "nominal":
        used = np.r_[1 : len(weights) - 1, 0]
        return np.eye(len(weights))[:, used[weights[used] > 0]]
    places = axis.places[choose_knots(weights[1:-1], n_pieces)]
    hats = np.zeros((len(weights), len(places) + int(weights[0] > 0)))
    hats[1:-1, : len(places)] = np.stack([np.interp(axis.places, places, row) for row in np.eye(len(places))], axis=1)
    hats[0, len(places) :] = 1.0
    return hats


def _centre(hats: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The functions with mean 0 over the rows. An unseen level contributes nothing."""
    margin = hats - weights @ hats / max(float(weights.sum()), 1e-300)
    margin[-1] = 0.0
    return margin


def _make_priors(
    axis: Axis, hats: np.ndarray, margin: np.ndarray, weights: np.ndarray
) -> tuple[tuple[Prior, ...], np.ndarray | None, np.ndarray | None]:
    """Priors of the functions of an axis, `rises` and `covariance` of `TermBasis`."""
    covariance = (margin.T * weights) @ margin / max(float(weights.sum()), 1e-300)
    if axis.kind == "nominal":
        levels = np.eye(hats.shape[1])
        return (Prior(_scale(levels, covariance), np.zeros_like(levels)),), None, None
    n_knots = hats.shape[1] - int(weights[0] > 0)
    places = axis.places[hats[1:-1, :n_knots].argmax(axis=0)]
    alone = np.diag((np.arange(hats.shape[1]) >= n_knots).astype(float))
    rises, *bends = _find_differences(places)
    first = Prior(_scale(_add_ridge(rises.T @ rises), covariance), alone)
    if not bends:
        return (first,), None, None
    process = np.exp(-0.5 * ((places[:, None] - places) / LENGTH) ** 2) + 1e-6 * np.eye(n_knots)
    second = Prior(_scale(bends[0].T @ bends[0], covariance), first.whole)
    smooth = Prior(_scale(np.linalg.inv(process), covariance), alone)
    padded = np.pad(rises, ((0, 0), (0, hats.shape[1] - n_knots)))
    return (first, second, smooth), padded, covariance


def _find_differences(places: np.ndarray) -> list[np.ndarray]:
    """First and second differences between knots, whose squares add up to integrals of squared derivatives; only the
    first for two knots or less."""
    gaps = np.diff(places)[:, None]
    slopes = np.diff(np.eye(len(places)), axis=0) / gaps
    bends = np.diff(slopes, axis=0) / np.sqrt((places[2:] - places[:-2]) / 2)[:, None]
    return [slopes * np.sqrt(gaps), bends][: 1 if len(places) < 3 else 2]


def _add_ridge(penalty: np.ndarray) -> np.ndarray:
    return penalty + 1e-4 * max(float(np.trace(penalty)), 1.0) / len(penalty) * np.eye(len(penalty))


def _scale(penalty: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """The penalty whose functions have variance 1 over the rows, with zeros for further coefficients."""
    size, whole = len(penalty), np.zeros_like(covariance)
    values, vectors = eigh(penalty)
    used = values > 1e-10 * values[-1]
    variance = float(np.sum(((covariance[:size, :size] @ vectors) * vectors)[:, used] / values[used]))
    whole[:size, :size] = penalty * (variance if variance > 1e-12 else 1.0)  # 0 for a constant column
    return whole


def choose_knots(weights: np.ndarray, n_pieces: int) -> np.ndarray:
    """Indices of knots with equal weight between them; frequent values and their neighbours are among them.

    >>> choose_knots(np.array([1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 2).tolist()
    [0, 3, 5]
    >>> choose_knots(np.array([1.0, 1.0, 1.0, 1.0, 9.0, 1.0, 1.0]), 2).tolist()
    [0, 3, 4, 5, 6]
    """
    last, total = len(weights) - 1, weights.sum()
    if last <= n_pieces:
        return np.arange(last + 1)
    middle = np.cumsum(weights) - weights / 2
    even = np.searchsorted(middle, total * np.arange(1, n_pieces) / n_pieces)
    heavy = np.flatnonzero(weights > total / n_pieces)
    return np.unique(np.clip(np.r_[0, even, heavy - 1, heavy, heavy + 1, last], 0, last))
