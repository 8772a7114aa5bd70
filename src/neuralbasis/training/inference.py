"""Inference: standard errors of shapes, tests of terms and concurvity, from one additive regression at a fitted model.

    z = constant + Σ_t B_t(x) β_t + noise          β_t ~ N(0, (P_t / τ² + R_t)⁻¹)

z and the weights of rows are the working response of the loss: the target of a regression, a Newton step of a logit.
`TermBasis` has the functions B_t and their priors. The posterior of a term is averaged over a grid of τ and over its
priors, weighted by their marginal likelihood. A term that rows say little about therefore keeps the width of all curves
that are compatible with the rows, instead of that of a single smoothing parameter.

In: a fitted model and its training rows. Out: the model; its shapes have standard errors, which include the difference
between a shape and this regression, and `Evidence`. Everything is in the unit of the loss until it enters the model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from ..encoding.layout import line_up
from ..model.additive_model import AdditiveModel
from ..model.shapes import AnyShape, Shape
from ..terms.term import Term
from .codes import Codes
from .design import Design, find_axes
from .evidence import describe_term, find_concurvity
from .regression import Regression
from .rows import Rows
from .term_basis import TermBasis, make_basis

MAX_PIECES = {1: 80, 2: 5, 3: 3}  # between knots of an axis, by order of the term
MAX_COEFFICIENTS = 1_000  # above, there are fewer pieces; with very many rows, above half of it


def infer(model: AdditiveModel, codes: Codes, rows: Rows) -> AdditiveModel:
    """The model with standard errors and evidence of its terms.

    Terms with very many levels, and interactions if they are too many, are taken as they are and get no evidence.

    rows : with the scores (N, M, K) of all members as `init`
    """
    with threadpool_limits(1):  # bits must not depend on the number of threads
        shapes, bases = choose_terms(model.shapes, find_limit(len(rows.target)))
        if not bases:
            return model
        design = Design(bases, model, codes, rows)
        design.give(_select(model, [shape for shape in model.shapes if shape not in shapes]), codes)
        regressions = [Regression(design, output) for output in range(model.n_outputs)]
        fits = [regression.test_terms(regression.fit()) for regression in regressions]
        first = regressions[0]
        overlaps = find_concurvity(bases, design.slices, first.matrix / first.variance, fits[0])
        described: dict[AnyShape, AnyShape] = {
            shape: describe_term(shape, basis, [fit[index] for fit in fits], codes.loss.unit, overlaps[index])
            for index, (shape, basis) in enumerate(zip(shapes, bases, strict=True))
        }
    return replace(model, shapes=tuple(described.get(shape, shape) for shape in model.shapes))


def _select(model: AdditiveModel, shapes: Sequence[AnyShape]) -> AdditiveModel:
    """A model of some shapes without an intercept."""
    return replace(model, shapes=tuple(shapes), intercept=np.zeros(model.n_outputs))


def find_p_values(model: AdditiveModel, codes: Codes, rows: Rows) -> dict[Term, float]:
    """p-values of the interactions, each tested alone beside all main effects; none if these are too many.

    With several classes, the smallest p-value times their number.
    """
    others = [shape for shape in model.shapes if len(shape.term) > 1]
    if not others:
        return {}
    found = {}
    with threadpool_limits(1):
        alone = [shape for shape in model.shapes if len(shape.term) == 1]
        mains, bases = choose_terms(alone, find_limit(len(rows.target)) // 2)
        if not bases:
            return {}
        design = Design(bases, replace(model, shapes=tuple(alone)), codes, rows)
        design.give(_select(model, [shape for shape in alone if shape not in mains]), codes)
        if not design.is_class:  # each interaction is tested beside all others, as they are
            design.give(_select(model, others), codes)
        regressions = [Regression(design, output) for output in range(codes.loss.n_outputs)]
        for regression in regressions:
            regression.fit()
        chosen = codes.numbers[design.chosen]
        layout = _select(model, others).layout
        positions = layout.encode(chosen, 1)
        for index, shape in enumerate(others):
            if not is_small(shape):
                continue
            basis = make_basis(shape.term, shape.axes, shape.weights, MAX_PIECES[min(len(shape.term), 3)])
            places = line_up(positions, find_axes(layout, index))
            functions = basis.read([each.astype(float) for each in places])
            own = _select(model, [shape]).score_numbers(chosen) / codes.loss.unit * (not design.is_class)
            chances = [each.test(basis, functions, own[:, output]) for output, each in enumerate(regressions)]
            found[shape.term] = min(1.0, min(chances) * len(chances))
    return found


def find_limit(n_rows: int) -> int:
    """Number of coefficients above which there are fewer pieces.

    >>> [find_limit(n_rows) for n_rows in (300, 3_000, 10_000, 1_000_000)]
    [1000, 1000, 632, 500]
    """
    return int(np.clip(np.sqrt(4e9 / n_rows), MAX_COEFFICIENTS / 2, MAX_COEFFICIENTS))


def choose_terms(shapes: Sequence[AnyShape], limit: int) -> tuple[list[Shape], list[TermBasis]]:
    """Shapes that take part in the regression, with their bases: all that are small, or main effects alone, or none."""
    small = [shape for shape in shapes if isinstance(shape, Shape) and is_small(shape)]
    for chosen in (small, [shape for shape in small if len(shape.term) == 1]):
        bases = fit_bases(chosen, limit)
        if bases is not None:
            return chosen, bases
    return [], []


def is_small(shape: AnyShape) -> bool:
    """Whether no axis of the shape has very many levels."""
    return all(axis.kind != "nominal" or len(axis.knots) <= MAX_COEFFICIENTS for axis in shape.axes)


def fit_bases(shapes: Sequence[Shape], limit: int) -> list[TermBasis] | None:
    """Bases of the shapes, with fewer pieces if they have more coefficients than `limit`; None if they are too many."""
    bases: list[TermBasis] = []
    if sum((shape.weights > 0).sum() > 1 for shape in shapes) > 2 * MAX_COEFFICIENTS:  # each has a coefficient
        return None
    for share in np.geomspace(1, 1 / 8, 7):
        pieces = {order: max(2, round(share * count)) for order, count in MAX_PIECES.items()}
        orders = [min(len(shape.term), 3) for shape in shapes]
        bases = [
            make_basis(shape.term, shape.axes, shape.weights, pieces[order])
            for shape, order in zip(shapes, orders, strict=True)
        ]
        if sum(basis.size for basis in bases) <= limit:
            return bases
    return bases if 0 < sum(basis.size for basis in bases) <= 2 * MAX_COEFFICIENTS else None
