"""Margins: removes from histograms what the lower-order terms explain (row and column effects of a pair, pairs of a
triple), by weighted least squares, for many histograms at once.

Input: weights (T, F, L) and sums (T, C, F, L) of the cells; L is the last axis of a term, F its other axes,
flattened. Output: `Margins`, with the residual sums and the remaining degrees of freedom.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

SINGULAR = 1e-9  # share of the total weight below which a pivot counts as zero


@dataclass(frozen=True, eq=False)
class Margins:
    """Least squares fit of the margins of T terms to sums (T, C, F, L).

    The means of the first margin, over F, are eliminated directly. The other margins, P for every F, contain the last
    axis; they solve a small system with P · L unknowns.
    """

    weight: np.ndarray  # (T, F, L)
    total: np.ndarray  # (T, F) sums of the weight over L
    share: np.ndarray  # (T, F, L) weight / total
    links: np.ndarray  # (F, P) which of the other margins a cell belongs to
    first: np.ndarray  # (T, C, F) sums of the first margin
    target: np.ndarray  # (T, C, P · L) of the system
    solution: np.ndarray  # (T, C, P · L) of the system
    freedom: np.ndarray  # (T,) remaining degrees of freedom

    def remove_from(self, sums: np.ndarray) -> np.ndarray:
        """Residual of the leading sums (T, …, F, L)."""
        n_terms, n_sums, _, n_last = sums.shape
        fit = self.links @ self.solution[:, :n_sums].reshape(n_terms, n_sums, -1, n_last)
        means = divide(self.first[:, :n_sums], self.total[:, None]) - (fit * self.share[:, None]).sum(axis=3)
        fit += means[..., None]
        fit *= self.weight[:, None]
        return sums - fit

    def explained_products(self, rows: list[int]) -> np.ndarray:
        """(T, rows, C) inner products of some of the sums with all sums, restricted to the span of the margins."""
        first = divide(self.first[:, rows], self.total[:, None]) @ np.swapaxes(self.first, 1, 2)
        return first + self.target[:, rows] @ np.swapaxes(self.solution, 1, 2)


def fit_margins(weight: np.ndarray, sums: np.ndarray, order: int) -> Margins:
    """Fit the margins of terms of this order to sums (T, C, F, L) with weights (T, F, L)."""
    links = _link_margins(order, weight.shape[2])
    total, first = weight.sum(axis=2), sums.sum(axis=3)
    share = divide(weight, total[..., None])
    spread = (links[:, :, None] * share[:, :, None]).reshape(*total.shape, -1)  # (T, F, P · L)
    target = (links.T @ sums).reshape(*sums.shape[:2], -1) - first @ spread
    system = _normal_equations(weight, spread, links)
    solution, rank = solve_singular(system, np.swapaxes(target, 1, 2), SINGULAR * total.sum(axis=1))
    freedom = np.count_nonzero(weight, axis=(1, 2)) - np.count_nonzero(total, axis=1) - rank
    return Margins(weight, total, share, links, first, target, np.swapaxes(solution, 1, 2), freedom)


def divide(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """0 where the divisor is 0."""
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def _normal_equations(weight: np.ndarray, spread: np.ndarray, links: np.ndarray) -> np.ndarray:
    """(T, P · L, P · L) normal equations of the margins that contain the last axis, the first margin eliminated."""
    (n_terms, n_first, n_last), n_links = weight.shape, links.shape[1]
    weighted_links = (links[:, :, None] * weight[:, :, None]).reshape(n_terms, n_first, -1)
    system = -(np.swapaxes(weighted_links, 1, 2) @ spread)
    both = (links[:, :, None] * links[:, None]).reshape(n_first, -1)  # (F, P · P)
    same = np.arange(n_last)
    diagonal = np.moveaxis(both.T @ weight, 2, 0).reshape(n_last, n_terms, n_links, n_links)
    system.reshape(n_terms, n_links, n_last, n_links, n_last)[:, :, same, :, same] += diagonal
    return system


def _link_margins(order: int, n_bins: int) -> np.ndarray:
    """(F, P) margins that contain the last axis, per cell of the other axes: one for a pair, (a, ·) and (b, ·) for a
    triple."""
    if order == 2:
        return np.ones((n_bins, 1))
    return np.concatenate([np.repeat(np.eye(n_bins), n_bins, axis=0), np.tile(np.eye(n_bins), (n_bins, 1))], axis=1)


def solve_singular(system: np.ndarray, target: np.ndarray, tolerance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve symmetric systems (T, U, U) that may be singular, target (T, U, K); returns the solutions and the ranks.

    Gauss-Jordan elimination without pivoting, which is stable for positive semidefinite matrices. An unknown whose
    pivot is at most the tolerance (T,) is 0.
    """
    size = system.shape[1]
    table = np.moveaxis(np.concatenate([system, target], axis=2), 0, 2).copy()  # T last: long inner loops
    rank = np.zeros(len(system))
    for index in range(size):
        pivot = table[index, index].copy()
        regular = pivot > tolerance
        rank += regular
        row = table[index, index:]
        row *= np.divide(1.0, pivot, out=np.zeros_like(pivot), where=regular)
        factor = table[:, index].copy()
        factor[index] = 0.0
        table[:, index:] -= factor[:, None] * row
    return np.moveaxis(table[:, size:], 2, 0), rank
