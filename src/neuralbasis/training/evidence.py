"""Evidence of single terms from the posterior of a regression: standard errors, bands of whole curves, concurvity.

In: a shape and the posterior of its coefficients. Out: the shape with standard errors and `Evidence`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from ..model.shapes import QUANTILE, Evidence, Shape
from ..terms.term import Term
from .term_basis import TermBasis

MAX_DRAWN = 2_500  # cells, those with most rows, in which curves are drawn from the posterior


@dataclass(frozen=True, eq=False)
class Posterior:
    """Coefficients of one term.

    Parameters
    ----------
    mean, covariance : (q,), (q, q)
    precision : (q, q) of the prior while other terms are inferred
    information : (q, q) what the rows say about the coefficients if all other terms are unknown
    pull : (q,) slope of the log likelihood at 0, all other terms fitted
    sizes : chance of each τ of the grid
    p_value : chance of as strong an effect if there is none
    """

    mean: np.ndarray
    covariance: np.ndarray
    precision: np.ndarray
    information: np.ndarray
    pull: np.ndarray
    sizes: np.ndarray
    p_value: float = 1.0


def describe_term(
    shape: Shape, basis: TermBasis, posteriors: Sequence[Posterior], unit: float, overlap: tuple
) -> Shape:
    """The shape with standard errors, in the unit of the target, and the evidence of each output."""
    weights, functions = shape.weights.ravel(), basis.cells
    used = np.argsort(-weights, kind="stable")[: min(int((weights > 0).sum()), MAX_DRAWN)]
    draws = np.random.default_rng(0).normal(size=(basis.size, 500))
    has_levels = len(shape.term) == 1 and shape.axes[0].kind == "nominal"
    errors, multipliers, sizes = [], [], []
    for output, posterior in enumerate(posteriors):
        scores = shape.scores[..., output].ravel() / unit
        gap = scores - functions @ posterior.mean
        gap = np.where(functions.any(axis=1), gap - np.average(gap, weights=weights), 0.0)
        deviations = basis.find_deviations(posterior.covariance)
        if has_levels:  # the effect of an unseen level is one more draw from the prior
            deviations[weights <= 0] = posterior.precision[0, 0] ** -0.5
        error = np.hypot(deviations, gap / QUANTILE)
        values, vectors = eigh(posterior.covariance)
        drawn = functions[used] @ (vectors * np.sqrt(np.maximum(values, 0.0))) @ draws
        top = np.max(np.abs(drawn) / np.maximum(error[used], 1e-12)[:, None], axis=0, initial=0.0)
        errors.append(unit * error.reshape(shape.weights.shape))
        multipliers.append(max(QUANTILE, float(np.quantile(top, 0.95))))
        drawn += scores[used, None]
        sizes.append(unit * float(np.average(np.abs(drawn), axis=0, weights=weights[used]).std()))
    p_values = np.array([posterior.p_value for posterior in posteriors])
    evidence = Evidence(p_values, np.array(multipliers), np.array(sizes), *overlap)
    return replace(shape, spread=np.stack(errors, axis=-1), evidence=evidence)


def find_concurvity(
    bases: Sequence[TermBasis], slices: Sequence[slice], matrix: np.ndarray, found: Sequence[Posterior]
) -> list[tuple[float, Term | None, float]]:
    """For each term the share of the information on its curve that is lost because all other terms are unknown too,
    the main effect that causes most of it, and the share that is lost by this one alone."""
    parts = list(zip(bases, slices, found, strict=True))
    singles = [
        (basis.term, part, matrix[part, part] + own.precision) for basis, part, own in parts if len(basis.term) == 1
    ]
    overlaps: list[tuple[float, Term | None, float]] = []
    for basis, part, own in parts:
        whole = float(own.mean @ matrix[part, part] @ own.mean)
        if whole <= 1e-9:
            overlaps.append((0.0, None, 0.0))
            continue
        lost = 1 - float(own.mean @ own.information @ own.mean) / whole
        shares: dict[Term, float] = {}
        for term, other, precision in singles:
            if term[0] not in basis.term:
                reach = matrix[other, part] @ own.mean
                shares[term] = float(reach @ np.linalg.solve(precision, reach)) / whole
        best = max(shares, key=shares.__getitem__, default=None)
        overlaps.append((min(max(lost, 0.0), 1.0), best, 0.0 if best is None else min(shares[best], 1.0)))
    return overlaps
