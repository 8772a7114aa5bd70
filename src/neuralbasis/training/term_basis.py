"""TermBasis: hat functions of one term between few knots of its axes, and the priors of their coefficients.

    f(x) = B(x) β          β ~ N(0, (P / τ² + R)⁻¹)

In: the axes of a term and the training weights of their cells. Out: functions B at cells and rows, and pairs P, R. P
penalises first or second differences between knots, or levels of a nominal column; functions drawn from it have
variance τ² over the rows. R does not depend on τ: it holds the missing cell, and the slopes of the second prior.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np
from scipy.linalg import eigh

from ..encoding.axis import Axis
from ..terms.term import Term

Prior = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class TermBasis:
    """The functions of one term.

    Parameters
    ----------
    term : its features
    margins : for each axis (cells, q_d) hat functions, centred; those of an interaction are products of one per axis
    priors : pairs P, R of (q, q) matrices
    """

    term: Term
    margins: tuple[np.ndarray, ...]
    priors: tuple[Prior, ...]

    @property
    def size(self) -> int:
        """q, the number of coefficients."""
        return len(self.priors[0][0])

    @property
    def precision(self) -> np.ndarray:
        """(q, q) of the first prior at τ = 1."""
        return self.priors[0][0] + self.priors[0][1]

    @cached_property
    def prior_sizes(self) -> list[tuple[np.ndarray, float]]:
        """For each prior the eigenvalues (q,) of P relative to P + R, and the logarithm of the determinant of P + R."""
        wholes = [moving + fixed for moving, fixed in self.priors]
        return [
            (np.clip(eigh(moving, whole, eigvals_only=True), 0, 1), float(np.linalg.slogdet(whole)[1]))
            for (moving, _), whole in zip(self.priors, wholes, strict=True)
        ]

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
    parts = [_make_margin(axis, own, n_pieces) for axis, own in zip(axes, margins_of, strict=True)]
    margins = tuple(margin for margin, *_ in parts)
    if len(parts) > 1:
        whole = reduce(np.kron, [first + alone for _, first, _, alone in parts])
        return TermBasis(term, margins, ((whole, np.zeros_like(whole)),))
    _, first, second, alone = parts[0]
    return TermBasis(term, margins, ((first, alone),) if second is None else ((first, alone), (second, first + alone)))


def _make_margin(
    axis: Axis, weights: np.ndarray, n_pieces: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray]:
    """Functions (cells, q) of an axis, penalties (q, q) of first and second differences, and of the missing cell.

    Levels have no second differences. An unseen level contributes nothing.
    """
    if axis.kind == "nominal":
        used = np.r_[1 : len(weights) - 1, 0]
        used = used[weights[used] > 0]
        margin, n_knots = np.eye(len(weights))[:, used], len(used)
        penalties = [np.eye(n_knots)]
    else:
        knots = choose_knots(weights[1:-1], n_pieces)
        places, n_knots = axis.places[knots], len(knots)
        margin = np.zeros((len(weights), n_knots + int(weights[0] > 0)))
        margin[1:-1, :n_knots] = np.stack([np.interp(axis.places, places, row) for row in np.eye(n_knots)], axis=1)
        margin[0, n_knots:] = 1.0
        penalties = _penalize_differences(places)
    total = max(float(weights.sum()), 1e-300)
    margin = margin - weights @ margin / total
    covariance = (margin.T * weights) @ margin / total
    margin[-1] = 0.0
    alone = np.diag((np.arange(margin.shape[1]) >= n_knots).astype(float))
    first, *others = [_scale(penalty, covariance) for penalty in penalties]
    return margin, first, others[0] if others else None, alone


def _penalize_differences(places: np.ndarray) -> list[np.ndarray]:
    """Integrals of the squared first and second derivative as matrices; only the first for two knots or less."""
    size, gaps = len(places), np.diff(places)
    slopes = np.diff(np.eye(size), axis=0) / gaps[:, None]
    first = (slopes.T * gaps) @ slopes
    first += 1e-4 * max(float(np.trace(first)), 1.0) / size * np.eye(size)
    if size < 3:
        return [first]
    bends = np.diff(slopes, axis=0)
    return [first, (bends.T / ((places[2:] - places[:-2]) / 2)) @ bends]


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
