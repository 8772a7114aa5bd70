"""Regression: one additive regression for each output, with priors of its terms found from the rows.

    z = constant + Σ_t B_t(x) β_t + noise          β_t ~ N(0, (P_t / τ² + R_t)⁻¹)

In: a `Design`. Out: a `Posterior` of each term, averaged over its priors and over τ, and p-values of "no effect".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
from scipy.linalg import block_diag, eigh
from scipy.special import expit, logsumexp
from scipy.stats import ncx2

from .design import Design
from .evidence import Posterior
from .term_basis import TermBasis

MAX_SWEEPS = 6
MAX_P_VALUE, MIN_OVERLAP = 0.1, 0.1  # priors of other terms are found again for p-values below and overlaps above
DEVIATIONS = np.geomspace(0.003, 3.0, 13)  # τ; 1 is the deviation of the target, or 2 in log odds
USUAL = DEVIATIONS / (1 + (2 * DEVIATIONS) ** 2)  # relative chances: flat up to half of the deviation, a long tail
N_USUAL = 6  # number of terms that these chances count as


class Regression:
    """The regression of one output."""

    def __init__(self, design: Design, output: int):
        self.design, self.output = design, output
        self.variance = design.noise or 1.0

    def fit(self) -> list[Posterior]:
        """Posteriors of all terms, after a few sweeps over their priors."""
        design, found = self.design, []
        self.usual = USUAL
        self.priors = priors = [basis.precision / design.scale**2 for basis in design.bases]
        self.scores, self.damping = design.scores[:, self.output], np.ones(design.n_rows)
        moves = design.is_class and not design.is_sampled  # Newton steps from the present scores
        for sweep in range(MAX_SWEEPS):
            if sweep == 0 or moves:
                self._make_equations()
            precision, self.priors = self.matrix / self.variance, priors
            for prior, part in zip(priors, design.slices, strict=True):
                precision[part, part] += prior
            self.covariance = np.linalg.inv(precision)
            self.mean = self.covariance @ self.vector / self.variance
            if moves:
                centred = design.functions - self.middle
                fitted = centred @ self.mean + self.level
                # expit(damping · score) is about the mean of expit over the posterior of the score (MacKay, 1992).
                centred = centred.astype(np.float32)
                variance = ((centred @ self.covariance.astype(np.float32)) * centred).sum(axis=1, dtype=float)
                self.damping = 1 / np.sqrt(1 + np.pi / 8 * np.maximum(variance, 0.0))
                self.scores = np.clip(fitted + design.given[:, self.output], -15, 15)
            elif not design.is_class:
                self._update_variance()
            found = [
                find_posterior(basis, self.mean[part], self.covariance[part, part], prior, design.scale, self.usual)
                for basis, part, prior in zip(design.bases, design.slices, priors, strict=True)
            ]
            # Effects of one table are of similar size: where most are small, a further one is likely to be small.
            self.usual = N_USUAL * USUAL / USUAL.sum() + sum(each.sizes for each in found)
            is_same = all(np.allclose(new.precision, old, rtol=0.1) for new, old in zip(found, priors, strict=True))
            priors = [posterior.precision for posterior in found]
            if sweep > 1 and is_same:
                break
        return found

    def test_terms(self, found: Sequence[Posterior]) -> list[Posterior]:
        """The posteriors with p-values."""
        return [replace(each, p_value=self._find_p_value(index, each)) for index, each in enumerate(found)]

    def _find_p_value(self, index: int, posterior: Posterior) -> float:
        """The score test of a term. For classes, its value is scaled by the ratio of the log likelihood that is lost
        without the term to the quadratic approximation of it, which misses strong effects of nearly separable classes
        (Hauck and Donner, 1977)."""
        basis, part = self.design.bases[index], self.design.slices[index]
        scale = 1.0
        if self.design.is_class:
            without = self.covariance[:, part] @ np.linalg.solve(self.covariance[part, part], self.mean[part])
            weights, _, rest = self._residuals
            change = self._functions @ without
            lost = float(weights @ (change * rest + change**2 / 2))
            scores = self._functions @ self.mean + self.level + self._given
            gain = self._log_likelihood(scores) - self._log_likelihood(scores - change)
            if lost > 1e-9:
                scale = float(np.sqrt(np.clip(gain / lost, 1.0, 100.0)))
        first = score_test(posterior.information, scale * posterior.pull, basis.precision)
        if first > MAX_P_VALUE:
            return first
        information, pull = self._leave_out(index)
        return max(first, score_test(information, scale * pull, basis.precision))

    def _leave_out(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        """Information and pull of a term if the priors of terms that overlap with it come from a fit without it.

        Two copies of a column share an effect. Without the second, the first has a wider prior, which explains all.
        """
        design, mean, covariance = self.design, self.mean, self.covariance
        part = design.slices[index]
        reach = self.matrix[:, part] @ mean[part] / self.variance
        whole = float(mean[part] @ reach[part])
        solved = np.linalg.solve(covariance[part, part], np.c_[covariance[part], mean[part]])
        changed, changes = [], []
        for basis, own, prior in zip(design.bases, design.slices, self.priors, strict=True):
            precision = self.matrix[own, own] / self.variance + prior
            if own == part or reach[own] @ np.linalg.solve(precision, reach[own]) < MIN_OVERLAP * whole:
                continue
            left = covariance[own, own] - covariance[own, part] @ solved[:, own]
            rest = mean[own] - covariance[own, part] @ solved[:, -1]
            changes.append(find_posterior(basis, rest, left, prior, design.scale, self.usual).precision - prior)
            changed.append(np.arange(own.start, own.stop))
        places = np.concatenate([np.empty(0, dtype=int), *changed])
        change = block_diag(*changes) if changes else np.empty((0, 0))
        inner = np.linalg.solve(
            np.eye(len(places)) + change @ covariance[np.ix_(places, places)],
            change @ np.c_[covariance[places, part], mean[places]],
        )
        across = covariance[part][:, places] @ inner
        inverse = np.linalg.inv(covariance[part, part] - across[:, :-1])
        return _make_positive(inverse - self.priors[index]), inverse @ (mean[part] - across[:, -1])

    def _log_likelihood(self, scores: np.ndarray) -> float:
        """Of the chosen rows, for two classes or this class against all others; its slope is that of `_linearize`."""
        design, is_binary = self.design, self.design.scores.shape[1] == 1
        odds = scores if is_binary else scores - self._others[design.chosen]
        sign = np.where(design.target[design.chosen] == (1 if is_binary else self.output), 1.0, -1.0)
        damping = self.damping[design.chosen]
        return float(design.weights[design.chosen] / damping @ -np.logaddexp(0.0, -sign * damping * odds))

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
        scaled = design.functions * np.sqrt(own)[:, None]
        matrix = scaled.T @ scaled
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
        share = expit(self.damping * np.clip(self.scores if is_binary else self.scores - self._others, -15, 15))
        curvature = np.maximum(self.damping * share * (1 - share), 1e-3)
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
    basis: TermBasis, mean: np.ndarray, covariance: np.ndarray, precision: np.ndarray, scale: float,
    usual: np.ndarray = USUAL,
) -> Posterior:  # fmt: skip
    """Average the posterior of one term over its priors, given the posterior under the prior with this precision.

    While other terms are inferred, the term has the likeliest of its priors and the mean of τ² under it. The
    likeliest τ would be too small for terms about which the rows say little, and the bands of the others too narrow.

    usual : relative chance of each τ
    """
    inverse = np.linalg.inv(covariance)
    information, pull = _make_positive(inverse - precision), inverse @ mean
    ratio = 1 / DEVIATIONS[:, None] ** 2
    logs, turns, priors = [], [], [*basis.priors, *basis.adapt_prior(mean, covariance)]
    for prior in priors:
        whole = information + prior.whole / scale**2
        share, vectors = eigh(prior.moving / scale**2, whole)
        shrunk = 1 / np.maximum(1 - share + share * ratio, 1e-12)  # (deviations, q)
        before = np.log(np.maximum(1 - prior.shares + prior.shares * ratio, 1e-12)).sum(axis=1)
        volume = prior.log_determinant - 2 * len(mean) * np.log(scale) - np.linalg.slogdet(whole)[1]
        turned = vectors.T @ pull
        evidence = (volume + before + np.log(shrunk).sum(axis=1) + shrunk @ turned**2) / 2
        logs.append(prior.log_chance + np.log(usual) + evidence)
        turns.append((vectors, shrunk, turned))
    chances = np.exp(np.array(logs) - logsumexp(logs))  # (priors, deviations)
    found = np.concatenate([(shrunk * turned) @ vectors.T for vectors, shrunk, turned in turns])
    average = chances.ravel() @ found
    total = ((found - average).T * chances.ravel()) @ (found - average)
    for own, (vectors, shrunk, _) in zip(chances, turns, strict=True):
        total += (vectors * (own @ shrunk)) @ vectors.T
    likelier = int(chances.sum(axis=1).argmax())
    deviation = chances[likelier] @ DEVIATIONS**2 / chances[likelier].sum()
    precision = (priors[likelier].fixed + priors[likelier].moving / deviation) / scale**2
    return Posterior(average, total, precision, information, pull, chances.sum(axis=0))


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
