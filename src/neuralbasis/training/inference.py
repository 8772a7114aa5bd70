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

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np
from scipy.linalg import eigh
from scipy.special import expit, logsumexp
from scipy.stats import ncx2
from threadpoolctl import threadpool_limits

from ..encoding.layout import Layout, line_up
from ..model.additive_model import AdditiveModel
from ..model.shapes import AnyShape, Shape
from ..terms.term import Term
from .codes import Codes
from .evidence import Posterior, describe_term, find_concurvity
from .rows import Rows
from .term_basis import TermBasis, make_basis

MAX_PIECES = {1: 40, 2: 5, 3: 3}  # between knots of an axis, by order of the term
MAX_COEFFICIENTS = 500  # above, there are fewer pieces
MAX_DESIGN = 2e7  # rows × coefficients; more rows are sampled for the information matrix
MAX_SWEEPS = 6
DEVIATIONS = np.geomspace(0.003, 3.0, 13)  # τ; 1 is the deviation of the target, or 2 in log odds


def infer(model: AdditiveModel, codes: Codes, rows: Rows) -> AdditiveModel:
    """The model with standard errors and evidence of its terms.

    Terms with very many levels, and interactions if they are too many, are taken as they are and get no evidence.

    rows : with the scores (N, M, K) of all members as `init`
    """
    with threadpool_limits(1):  # bits must not depend on the number of threads
        shapes, bases = choose_terms(model.shapes)
        if not bases:
            return model
        design = Design(bases, model, codes, rows)
        design.give(_select(model, [shape for shape in model.shapes if shape not in shapes]), codes)
        regressions = [Regression(design, output) for output in range(model.n_outputs)]
        fits = [regression.fit() for regression in regressions]
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
        mains, bases = choose_terms([shape for shape in model.shapes if len(shape.term) == 1])
        if not bases:
            return {}
        alone = [shape for shape in model.shapes if len(shape.term) == 1]
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
            places = line_up(positions, _find_axes(layout, index))
            functions = basis.read([each.astype(float) for each in places])
            own = _select(model, [shape]).score_numbers(chosen) / codes.loss.unit * (not design.is_class)
            chances = [each.test(basis, functions, own[:, output]) for output, each in enumerate(regressions)]
            found[shape.term] = min(1.0, min(chances) * len(chances))
    return found


def choose_terms(shapes: Sequence[AnyShape]) -> tuple[list[Shape], list[TermBasis]]:
    """Shapes that take part in the regression, with their bases: all that are small, or main effects alone, or none."""
    small = [shape for shape in shapes if isinstance(shape, Shape) and is_small(shape)]
    for chosen in (small, [shape for shape in small if len(shape.term) == 1]):
        bases = choose_bases(chosen)
        if bases is not None:
            return chosen, bases
    return [], []


def is_small(shape: AnyShape) -> bool:
    """Whether no axis of the shape has very many levels."""
    return all(axis.kind != "nominal" or len(axis.knots) <= MAX_COEFFICIENTS for axis in shape.axes)


def choose_bases(shapes: Sequence[Shape]) -> list[TermBasis] | None:
    """Bases of the shapes, with fewer pieces if coefficients are many; None if they are too many."""
    bases: list[TermBasis] = []
    for share in (1, 1 / 2, 1 / 4, 1 / 8):
        pieces = {order: max(2, round(share * count)) for order, count in MAX_PIECES.items()}
        orders = [min(len(shape.term), 3) for shape in shapes]
        bases = [
            make_basis(shape.term, shape.axes, shape.weights, pieces[order])
            for shape, order in zip(shapes, orders, strict=True)
        ]
        if sum(basis.size for basis in bases) <= MAX_COEFFICIENTS:
            return bases
    return bases if 0 < sum(basis.size for basis in bases) <= 4 * MAX_COEFFICIENTS else None


class Design:
    """Rows of the regression: their functions (n, p), target, weights, given scores and the present ones (N, K)."""

    def __init__(self, bases: Sequence[TermBasis], model: AdditiveModel, codes: Codes, rows: Rows):
        rows, layout, loss = rows.cpu(), model.layout, codes.loss
        self.bases, self.is_class = bases, codes.classes is not None
        index = {tuple(sorted(term)): number for number, term in enumerate(layout.terms)}
        self.axes = [_find_axes(layout, index[basis.term]) for basis in bases]
        self.positions = layout.encode(codes.numbers, 1)
        ends = np.cumsum([0, *[basis.size for basis in bases]]).tolist()
        self.slices = [slice(*pair) for pair in pairwise(ends)]
        self.size, self.n_rows = ends[-1], len(rows.target)
        self.target = rows.target.double().numpy()
        self.weights = rows.weights.double().numpy() * (rows.n_effective / self.n_rows)
        self.scores = (model.score_numbers(codes.numbers) - loss.shift) / loss.unit
        self.given = np.zeros_like(self.scores)
        if codes.rows.init is not None:
            self.given = codes.rows.init[:, 0].double().cpu().numpy()
            self.scores = self.scores + self.given
        self.scale = 2.0 if self.is_class else 1.0
        self.noise = None if self.is_class else find_noise(rows)
        self.chosen = np.arange(self.n_rows)
        if self.n_rows * self.size > MAX_DESIGN:
            drawn = np.random.default_rng(0).permutation(self.n_rows)
            self.chosen = np.sort(drawn[: int(MAX_DESIGN / self.size)])
        self.is_sampled = len(self.chosen) < self.n_rows
        self.functions = self.read(self.chosen)

    def give(self, model: AdditiveModel, codes: Codes) -> None:
        """Count the scores of these terms as given."""
        if model.shapes:
            self.given = self.given + model.score_numbers(codes.numbers) / codes.loss.unit

    def read(self, rows: np.ndarray) -> np.ndarray:
        """(n, p) functions of some rows."""
        found, positions = np.empty((len(rows), self.size)), self.positions[rows]
        for basis, axes, part in zip(self.bases, self.axes, self.slices, strict=True):
            found[:, part] = basis.read([each.astype(float) for each in line_up(positions, axes)])
        return found

    def row_blocks(self) -> Iterator[np.ndarray]:
        step = max(1, int(MAX_DESIGN / self.size / 4))
        for first in range(0, self.n_rows, step):
            yield np.arange(first, min(first + step, self.n_rows))


def _find_axes(layout: Layout, index: int) -> np.ndarray:
    """Axes of a term in the order of its features."""
    own = layout.term_axis[layout.term_start[index] :][: len(layout.terms[index])]
    return own[np.argsort(layout.terms[index])]


def find_noise(rows: Rows) -> float | None:
    """Mean squared residual of a regression over held-out rows; None if no row is held out."""
    assert rows.init is not None
    parts = rows.weights[:, None].double() * rows.held_out
    if not bool(parts.any()):
        return None
    squares = (rows.target[:, None].double() - rows.init[..., 0].double()) ** 2
    return float(np.clip(float((parts * squares).sum() / parts.sum()), 1e-8, 1.0))


class Regression:
    """The regression of one output."""

    def __init__(self, design: Design, output: int):
        self.design, self.output = design, output
        self.variance = design.noise or 1.0

    def fit(self) -> list[Posterior]:
        """Posteriors of all terms, after a few sweeps over their priors."""
        design, found = self.design, []
        priors = [basis.precision / design.scale**2 for basis in design.bases]
        self.scores = design.scores[:, self.output]
        moves = design.is_class and not design.is_sampled  # Newton steps from the present scores
        for sweep in range(MAX_SWEEPS):
            if sweep == 0 or moves:
                self._make_equations()
            precision = self.matrix / self.variance
            for prior, part in zip(priors, design.slices, strict=True):
                precision[part, part] += prior
            self.covariance = np.linalg.inv(precision)
            self.mean = self.covariance @ self.vector / self.variance
            if moves:
                fitted = (design.functions - self.middle) @ self.mean + self.level
                self.scores = np.clip(fitted + design.given[:, self.output], -15, 15)
            elif not design.is_class:
                self._update_variance()
            found = [
                find_posterior(basis, self.mean[part], self.covariance[part, part], prior, design.scale)
                for basis, part, prior in zip(design.bases, design.slices, priors, strict=True)
            ]
            is_same = all(np.array_equal(new.precision, old) for new, old in zip(found, priors, strict=True))
            priors = [posterior.precision for posterior in found]
            if sweep > 1 and is_same:
                break
        return [
            replace(posterior, p_value=self._find_p_value(basis, part, posterior))
            for basis, part, posterior in zip(design.bases, design.slices, found, strict=True)
        ]

    def _find_p_value(self, basis: TermBasis, part: slice, posterior: Posterior) -> float:
        """The score test of a term. For classes, its value is scaled by the ratio of the log likelihood that is lost
        without the term to the quadratic approximation of it, which misses strong effects of nearly separable classes
        (Hauck and Donner, 1977)."""
        pull = posterior.pull
        if self.design.is_class:
            without = self.covariance[:, part] @ np.linalg.solve(self.covariance[part, part], self.mean[part])
            weights, _, rest = self._residuals
            change = self._functions @ without
            lost = float(weights @ (change * rest + change**2 / 2))
            scores = self._functions @ self.mean + self.level + self._given
            gain = self._log_likelihood(scores) - self._log_likelihood(scores - change)
            if lost > 1e-9:
                pull = pull * np.sqrt(np.clip(gain / lost, 1.0, 100.0))
        return score_test(posterior.information, pull, basis.precision)

    def _log_likelihood(self, scores: np.ndarray) -> float:
        """Of the chosen rows at these scores, for two classes or this class against all others."""
        design, is_binary = self.design, self.design.scores.shape[1] == 1
        odds = scores if is_binary else scores - self._others[design.chosen]
        sign = np.where(design.target[design.chosen] == (1 if is_binary else self.output), 1.0, -1.0)
        return float(design.weights[design.chosen] @ -np.logaddexp(0.0, -sign * odds))

    def test(self, basis: TermBasis, functions: np.ndarray, own: np.ndarray) -> float:
        """p-value of a further term with these functions (n, q) of the chosen rows.

        own : (n,) contributions of the term that are part of the given scores
        """
        weights, weighted, rest = self._residuals
        rest = rest + own
        added = functions - weights @ functions / weights.sum()
        cross = weighted @ added
        information = (added.T * weights) @ added - cross.T @ self.covariance @ cross
        return score_test(_make_positive(information), added.T @ (weights * rest), basis.precision)

    @cached_property
    def _residuals(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of the chosen rows after the fit: weights (n,), weighted functions (p, n) and residuals (n,)."""
        weights = self.weights[self.design.chosen] / self.variance
        rest = self.response[self.design.chosen] - self.level - self._functions @ self.mean
        return weights, self._functions.T * weights, rest

    @cached_property
    def _functions(self) -> np.ndarray:
        """(n, p) centred functions of the chosen rows."""
        return self.design.functions - self.middle

    @property
    def _given(self) -> np.ndarray:
        return self.design.given[self.design.chosen, self.output]

    def _make_equations(self) -> None:
        """Information matrix (p, p) and vector (p,) of the working response at the present scores.

        Means of the response and of the functions are removed. All rows give the vector; the matrix may come from a
        sample of them.
        """
        design = self.design
        self.weights, self.response = weights, response = self._linearize()
        own = weights[design.chosen] * (weights.sum() / weights[design.chosen].sum())
        self.level = np.average(response, weights=weights)
        self.middle = own @ design.functions / own.sum()
        matrix = (design.functions.T * own) @ design.functions
        self.matrix = matrix - own.sum() * np.outer(self.middle, self.middle)
        pull = weights * (response - self.level)
        if design.is_sampled:
            self.vector = np.sum([pull[rows] @ design.read(rows) for rows in design.row_blocks()], axis=0)
        else:
            self.vector = pull @ design.functions

    def _linearize(self) -> tuple[np.ndarray, np.ndarray]:
        """Weights and working response (N,) without the given scores."""
        design, k = self.design, self.output
        if not design.is_class:
            return design.weights, design.target - design.given[:, 0]
        is_binary = design.scores.shape[1] == 1
        share = expit(np.clip(self.scores if is_binary else self.scores - self._others, -15, 15))
        curvature = np.maximum(share * (1 - share), 1e-3)
        error = (design.target == (1 if is_binary else k)) - share
        return design.weights * curvature, self.scores - design.given[:, k] + error / curvature

    @cached_property
    def _others(self) -> np.ndarray:
        """(N,) log of the sum of the exponentials of the other classes' scores."""
        return logsumexp(np.delete(self.design.scores, self.output, axis=1), axis=1)

    def _update_variance(self) -> None:
        """Residual variance of a regression, at most that of held-out rows and at least half of it."""
        design = self.design
        weights, n_used = design.weights[design.chosen], np.sum(self.covariance * self.matrix) / self.variance
        rest = self.response[design.chosen] - self.level - (design.functions - self.middle) @ self.mean
        found = weights @ rest**2 / weights.sum() / max(1 - (1 + n_used) / design.weights.sum(), 1e-3)
        limits = (1e-8, 1.0) if design.noise is None else (design.noise / 2, design.noise)
        self.variance = float(np.clip(found, *limits))


def find_posterior(
    basis: TermBasis, mean: np.ndarray, covariance: np.ndarray, precision: np.ndarray, scale: float
) -> Posterior:
    """Average the posterior of one term over its priors, given the posterior under the prior with this precision."""
    inverse = np.linalg.inv(covariance)
    information, pull = _make_positive(inverse - precision), inverse @ mean
    logs, means, covariances, precisions = [], [], [], []
    ratio = 1 / DEVIATIONS[:, None] ** 2
    # A flat prior of τ up to half of the target's deviation, with a long tail.
    habit = np.log(DEVIATIONS / (1 + (2 * DEVIATIONS) ** 2))
    for moving, fixed in [(moving / scale**2, fixed / scale**2) for moving, fixed in basis.priors]:
        whole, prior = information + fixed + moving, fixed + moving
        share, vectors = eigh(moving, whole)
        share_before = np.clip(eigh(moving, prior, eigvals_only=True), 0, 1)
        shrunk = 1 / np.maximum(1 - share + share * ratio, 1e-12)  # (deviations, q)
        before = np.log(np.maximum(1 - share_before + share_before * ratio, 1e-12)).sum(axis=1)
        volume = np.linalg.slogdet(prior)[1] - np.linalg.slogdet(whole)[1]
        turned = vectors.T @ pull
        logs.append(habit + (volume + before + np.log(shrunk).sum(axis=1) + shrunk @ turned**2) / 2)
        means.append((shrunk * turned) @ vectors.T)
        covariances.append((vectors * shrunk[:, None]) @ vectors.T)
        precisions += [fixed + moving * each for each in ratio[:, 0]]
    chances = np.exp(np.concatenate(logs) - logsumexp(np.concatenate(logs)))
    found = np.concatenate(means)
    average = chances @ found
    total = np.einsum("k,kij->ij", chances, np.concatenate(covariances))
    total += ((found - average).T * chances) @ (found - average)
    return Posterior(average, total, precisions[int(chances.argmax())], information, pull)


def _make_positive(matrix: np.ndarray) -> np.ndarray:
    """The matrix without the negative eigenvalues that rounding left in it."""
    values, vectors = eigh((matrix + matrix.T) / 2)
    return (vectors * np.maximum(values, 1e-12 * max(values[-1], 1e-300))) @ vectors.T


def score_test(information: np.ndarray, pull: np.ndarray, precision: np.ndarray) -> float:
    """Score test of a term's variance: the chance of as large a value of pullᵀ precision⁻¹ pull without an effect.

    Without an effect, `pull` is normal with covariance `information`, and the value is a sum of chi-squares weighted by
    eigenvalues. Its first four moments are matched by a noncentral chi-square (Liu, Tang and Zhang, 2009).
    """
    sizes = np.maximum(eigh(information, precision, eigvals_only=True), 0.0)
    largest = float(sizes[-1])
    if largest < 1e-9:  # a constant column: the rows say nothing
        return 1.0
    value, sizes = float(pull @ np.linalg.solve(precision, pull)) / largest, sizes / largest
    first, second, third, fourth = (float((sizes**power).sum()) for power in (1, 2, 3, 4))
    skew, tail = third / second**1.5, fourth / second**2
    root = 1 / (skew - np.sqrt(skew**2 - tail)) if skew**2 > tail else 1 / skew
    shift = max(skew * root**3 - root**2, 0.0) if skew**2 > tail else 0.0
    freedom = root**2 - 2 * shift
    at = (value - first) / np.sqrt(second) * root + freedom + shift
    return float(ncx2.sf(at, freedom, shift)) if at > 0 else 1.0
