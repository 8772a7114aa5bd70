"""Merge the factors of wide models: one set of bases for all, and coefficients averaged term by term.

    f_t = Σ_m share_mt f_mt          share: of the training rows in which the features of term t are present

The bases of all models span a space that a few orthonormal bases describe. Every model has exact coefficients on these,
so the merged terms are the means of the models' terms.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..encoding.axis import Axis
from ..encoding.sparse_codes import CodeFinder
from .factors import Factors, join_cells
from .resampling import join_axes, multiply_axes, resample_axis


def merge_factors(parts: Sequence[Factors | None], rows: np.ndarray, counts: np.ndarray) -> Factors:
    """Merge the factors of one order; None for a model without terms of this order, whose contributions are 0.

    rows : (models,) weighted number of rows
    counts : (models,) weight of one row
    """
    known = [part for part in parts if part is not None]
    finder = _join_finders([part.finder for part in known])
    bases, turns = _join_bases(known, finder.axis)
    places = [_find_terms(finder.features, part) for part in parts]
    shares = _find_shares(parts, places, rows, counts, len(finder.features))
    shape = len(finder.features), bases.shape[1], known[0].coefficients.shape[2]
    moved, turn = [], iter(turns)
    for part, place in zip(parts, places, strict=True):
        values, variances = np.zeros((2, *shape))
        if part is not None:
            values[place], variances[place] = _turn(part, next(turn))
        moved.append((values, variances))
    mean = sum(share[:, None, None] * values for share, (values, _) in zip(shares, moved, strict=True))
    variance = sum(
        share[:, None, None] * (own + (values - mean) ** 2) for share, (values, own) in zip(shares, moved, strict=True)
    )
    cells = [
        (place, _move_cells(part, finder.axis), part, count)
        for part, place, count in zip(parts, places, counts, strict=True) if part is not None
    ]  # fmt: skip
    arrays = join_cells(len(finder.features), cells, len(bases)) | {"total": float(rows.sum())}
    return Factors(finder, bases, mean.astype(np.float32), np.sqrt(variance).astype(np.float32), **arrays)


def _join_finders(finders: Sequence[CodeFinder]) -> CodeFinder:
    """All terms, on an axis with the knots of all."""
    first = finders[0]
    if any(not np.array_equal(finder.absent, first.absent, equal_nan=True) for finder in finders):
        raise ValueError("models of sparse tables must have the same absent_value to be merged")
    features = np.unique(np.concatenate([finder.features for finder in finders]), axis=0)
    return CodeFinder(join_axes([finder.axis for finder in finders]), first.absent, features, first.n_columns)


def _join_bases(parts: Sequence[Factors], axis: Axis) -> tuple[np.ndarray, list[np.ndarray]]:
    """Orthonormal bases (cells, R) that span those of all models, and for each a matrix (R, B) to coefficients on them.

    Both are piecewise linear, so a basis has the same values on the joint axis.
    """
    tables = []
    for part in parts:
        moves = [resample_axis(part.finder.axis, axis).values] * part.order
        tables.append(multiply_axes(part.bases.reshape(*part.table_shape, -1), moves))
    stacked = np.concatenate([table.reshape(-1, table.shape[-1]) for table in tables], axis=1)
    bases, values, turned = np.linalg.svd(stacked, full_matrices=False)
    rank = max(1, int((values > 1e-6 * values[0]).sum()))  # smaller ones are rounding errors of single precision
    bases = np.where(stacked.any(axis=1, keepdims=True), bases[:, :rank], 0.0)  # exactly 0 at the absent value
    ends = np.cumsum([table.shape[-1] for table in tables])[:-1]
    return bases.astype(np.float32), np.split(values[:rank, None] * turned[:rank], ends, axis=1)


def _turn(part: Factors, turn: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (T, R, K) on other bases and their variances, without covariances."""
    coefficients = np.einsum("rb,tbk->trk", turn, part.coefficients)
    return coefficients, np.einsum("rb,tbk->trk", turn**2, part.deviations.astype(float) ** 2)


def _find_terms(features: np.ndarray, part: Factors | None) -> np.ndarray:
    """Index of each term of the factors among all terms."""
    if part is None:
        return np.empty(0, dtype=np.int64)
    joined, inverse = np.unique(np.concatenate([features, part.finder.features]), axis=0, return_inverse=True)
    assert len(joined) == len(features)
    return inverse.ravel()[len(features) :]


def _find_shares(
    parts: Sequence[Factors | None], places: Sequence[np.ndarray], rows: np.ndarray, counts: np.ndarray, n_terms: int
) -> np.ndarray:
    """(models, T) shares by the rows in which a term is not 0; by all rows where there are none.

    A model without a term has as many such rows as the others, in relation to all its rows.
    """
    present, has_term = np.zeros((len(parts), n_terms)), np.zeros((len(parts), n_terms), dtype=bool)
    for m, (part, place) in enumerate(zip(parts, places, strict=True)):
        if part is not None:
            term = np.repeat(place, np.diff(part.cell_starts))
            present[m], has_term[m, place] = counts[m] * np.bincount(term, part.weights, minlength=n_terms), True
    rate = present.sum(axis=0) / (has_term * rows[:, None]).sum(axis=0)
    present = np.where(has_term, present, rows[:, None] * rate)
    present = np.where(present.any(axis=0), present, rows[:, None])
    return present / present.sum(axis=0)


def _move_cells(part: Factors, axis: Axis) -> np.ndarray:
    """The factors' cells on an axis that has all their knots."""
    own = part.finder.axis
    along = np.r_[0, 1 + np.searchsorted(axis.knots, own.knots), axis.n_cells - 1]
    moved = [along[place] for place in np.unravel_index(part.cells, part.table_shape)]
    return np.ravel_multi_index(moved, (axis.n_cells,) * part.order)
