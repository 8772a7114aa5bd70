"""Linear classifiers of all concepts, fitted together, and the calibration of their scores.

    min over a, b   Σ_r w_rk log(1 + exp(−y_rk (a_k · x_r + b_k))) + ½ λ_k |a_k|²         for all K concepts k

Features are projected to their principal axes, where the Hessian is nearly diagonal. L-BFGS then converges in about a
dozen steps; it keeps one state per concept, and all concepts share the matrix products. λ decreases along a path, each
solution starting from the last, and every concept selects the λ with the smallest loss on held-out patches.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit

from ..kernels import count_threads
from ..kernels.blas import hold_blas

RIDGES = (1.0, 0.1, 0.01, 0.001, 0.0001)
MAX_STEPS = 15
TOLERANCE = 1e-4  # relative decrease of the objective in a step
MEMORY = 6  # steps that L-BFGS keeps
CHUNK = 2048  # rows per task of a thread
SAMPLE = 16_384  # rows used to compute the principal axes
_SUFFICIENT_DECREASE = 1e-4  # Armijo condition of the line search
_BACKTRACKING = 0.3


class Classifiers(NamedTuple):
    """(K, C) float32 coefficients, (K,) float32 intercepts and (K,) selected λ."""

    coefficients: np.ndarray
    intercepts: np.ndarray
    ridges: np.ndarray


def fit_classifiers(
    features: np.ndarray, weights: np.ndarray, held_features: np.ndarray, held_weights: np.ndarray,
    ridges: tuple[float, ...] = RIDGES, max_axes: int = 512,
) -> Classifiers:  # fmt: skip
    """Classifiers of K concepts on features (R, C); λ is relative to a mean feature variance of 1.

    Weights (R, K) float32 are positive for rows with the concept and negative without; absolute values sum to 1.
    Held-out rows select λ.
    """
    every = np.arange(weights.shape[1])
    path, losses = [], []
    with hold_blas(), ThreadPoolExecutor(count_threads(None)) as pool:  # results do not depend on the thread count
        centre, directions, variances = _find_axes(features, max_axes, pool)
        rows, held_rows = (_project(part, centre, directions, pool) for part in (features, held_features))
        theta = np.zeros((len(every), rows.shape[1]), dtype=np.float32)
        for ridge in sorted(ridges, reverse=True):
            theta = _minimise(ClassifierLoss(rows, weights, ridge, pool), theta, variances)
            path.append(theta)
            losses.append(ClassifierLoss(held_rows, held_weights, 0.0, pool).evaluate(theta, every)[0])
        is_measured = (held_weights > 0).any(axis=0) & (held_weights < 0).any(axis=0)
        chosen = np.array(losses).argmin(axis=0)
        fallback = int(np.median(chosen[is_measured])) if is_measured.any() else len(path) // 2
        chosen = np.where(is_measured, chosen, fallback)
        best = np.array(path)[chosen, every]
        coefficients = best[:, :-1] @ directions.T
        intercepts = best[:, -1] - coefficients @ centre
    return Classifiers(coefficients, intercepts, np.sort(ridges)[::-1][chosen])


def _find_axes(
    features: np.ndarray, max_axes: int, pool: ThreadPoolExecutor
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Centre and directions of the principal axes z = (x − centre) · directions, and the variances of z.

    The axes are those of a sample of rows, scaled to a mean feature variance of 1.
    """
    step = max(1, -(-len(features) // SAMPLE))
    sample = features[::step].astype(np.float32)
    centre = sample.mean(axis=0, dtype=float).astype(np.float32)
    sample -= centre
    covariance = np.zeros((sample.shape[1],) * 2)
    for part in pool.map(lambda chunk: sample[chunk].T @ sample[chunk], _list_chunks(len(sample))):
        covariance += part
    covariance /= max(len(sample), 1)
    variances, vectors = np.linalg.eigh(covariance)
    order = np.argsort(-variances)[: min(max_axes, max(len(sample) - 1, 1))]
    mean = max(float(np.trace(covariance)) / len(covariance), 1e-12)
    kept = order[variances[order] > 1e-7 * mean]
    kept = kept if len(kept) else order[:1]
    directions = (vectors[:, kept] / np.sqrt(mean)).astype(np.float32)
    return centre, directions, np.maximum(variances[kept], 0) / mean


def _project(features: np.ndarray, centre: np.ndarray, directions: np.ndarray, pool: ThreadPoolExecutor) -> np.ndarray:
    """(R, q + 1): features on the principal axes, and a one for the intercept."""
    rows = np.ones((len(features), directions.shape[1] + 1), dtype=np.float32)

    def work(chunk: slice) -> None:
        rows[chunk, :-1] = (features[chunk].astype(np.float32) - centre) @ directions

    list(pool.map(work, _list_chunks(len(features))))
    return rows


def _list_chunks(n_rows: int) -> list[slice]:
    return [slice(start, start + CHUNK) for start in range(0, n_rows, CHUNK)]


class ClassifierLoss:
    """Loss and gradient of all concepts. Threads process chunks of rows; the sums are added in a fixed order."""

    def __init__(self, rows: np.ndarray, weights: np.ndarray, ridge: float, pool: ThreadPoolExecutor):
        self._rows, self._weights, self._pool = rows, weights, pool
        self.penalty = np.full(rows.shape[1], ridge, dtype=np.float32)
        self.penalty[-1] = 1e-6  # keeps the intercept finite if the data have no loss

    def evaluate(self, theta: np.ndarray, concepts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss (k,) and gradient (k, q + 1) of some concepts at their coefficients (k, q + 1)."""
        is_all = len(concepts) == self._weights.shape[1]

        def work(chunk: slice) -> tuple[np.ndarray, np.ndarray]:
            rows = self._rows[chunk]
            weights = self._weights[chunk] if is_all else self._weights[chunk][:, concepts]
            margin = np.sign(weights) * (rows @ theta.T)
            # log(1 + exp(−m)) without overflow
            loss = np.einsum("rk,rk->k", np.abs(weights), np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin))))
            return loss.astype(float), -(weights * expit(-margin)).T @ rows

        gradient = self.penalty * theta
        loss = 0.5 * np.einsum("kq,kq->k", gradient, theta).astype(float)
        for chunk_loss, chunk_gradient in self._pool.map(work, _list_chunks(len(self._rows))):
            loss += chunk_loss
            gradient += chunk_gradient
        return loss, gradient


def _minimise(objective: ClassifierLoss, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """L-BFGS for each concept; converged concepts are skipped."""
    theta = theta.copy()
    scale = (1 / (0.25 * np.append(variances, 1.0) + objective.penalty)).astype(np.float32)
    active = np.arange(len(theta))
    loss, gradient = objective.evaluate(theta, active)
    history = _History(*theta.shape)
    for _ in range(MAX_STEPS):
        old_theta, old_loss, old_gradient = theta[active], loss[active], gradient[active]
        direction = -history.apply(old_gradient, scale, active)
        decrease = np.einsum("kq,kq->k", old_gradient, direction)
        length, left = 1.0, np.arange(len(active))
        for _ in range(6):  # backtracking; a concept whose loss does not decrease stays where it is
            tried = old_theta[left] + np.float32(length) * direction[left]
            new_loss, new_gradient = objective.evaluate(tried, active[left])
            is_accepted = new_loss <= old_loss[left] + _SUFFICIENT_DECREASE * length * decrease[left]
            done = active[left[is_accepted]]
            theta[done], loss[done] = tried[is_accepted], new_loss[is_accepted]
            gradient[done] = new_gradient[is_accepted]
            left = left[~is_accepted]
            if not len(left):
                break
            length *= _BACKTRACKING
        history.push(active, theta[active] - old_theta, gradient[active] - old_gradient, scale)
        active = active[old_loss - loss[active] > TOLERANCE * np.maximum(loss[active], 1e-3)]
        if not len(active):
            break
    return theta


class _History:
    """The last steps and gradient changes of all concepts: the L-BFGS approximation of the inverse Hessian."""

    def __init__(self, n_concepts: int, n_numbers: int):
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._factor = np.ones((n_concepts, 1), dtype=np.float32)
        self._shape = (n_concepts, n_numbers)

    def push(self, active: np.ndarray, step: np.ndarray, change: np.ndarray, scale: np.ndarray) -> None:
        steps, changes = np.zeros((2, *self._shape), dtype=np.float32)
        steps[active], changes[active] = step, change
        product = np.einsum("kq,kq->k", steps, changes)
        size = np.einsum("kq,q,kq->k", changes, scale, changes)
        is_positive = product > 1e-10 * size
        weight = np.where(is_positive, 1 / np.where(is_positive, product, 1), 0).astype(np.float32)
        self._factor[is_positive] = (product[is_positive] / size[is_positive])[:, None]
        self._steps = [*self._steps[-MEMORY + 1 :], (steps, changes, weight)]

    def apply(self, gradient: np.ndarray, scale: np.ndarray, active: np.ndarray) -> np.ndarray:
        """The two-loop recursion of L-BFGS."""
        found, alphas = gradient.copy(), []
        for steps, changes, weight in reversed(self._steps):
            alpha = weight[active] * np.einsum("kq,kq->k", steps[active], found)
            found -= alpha[:, None] * changes[active]
            alphas.append(alpha)
        found *= scale * self._factor[active]
        for (steps, changes, weight), alpha in zip(self._steps, reversed(alphas), strict=True):
            beta = weight[active] * np.einsum("kq,kq->k", changes[active], found)
            found += (alpha - beta)[:, None] * steps[active]
        return found


def calibrate(scores: np.ndarray, truth: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(K, 2) slope a and shift b of each concept; 1 / (1 + exp(−(a · score + b))) is the probability of the concept.

    Platt scaling of scores (N, K): logistic regression on one number, with targets slightly inside 0 and 1; a is never
    negative. `truth` (N, K) is 1 present, 0 absent, -1 unknown. For a column without positives or without negatives, a
    is 1 and b sets the mean probability to the share (K,) of the concept in other pictures.
    """
    found = np.ones((scores.shape[1], 2))
    for k, (column, labels) in enumerate(zip(scores.T.astype(float), truth.T, strict=True)):
        is_known = (labels >= 0) & np.isfinite(column)
        n_present, n_absent = int((labels[is_known] == 1).sum()), int((labels[is_known] == 0).sum())
        if n_present and n_absent:
            target = np.where(labels[is_known] == 1, (n_present + 1) / (n_present + 2), 1 / (n_absent + 2))
            found[k] = _fit_platt(column[is_known], target)
        else:
            found[k, 1] = _fit_shift(column[np.isfinite(column)], float(shares[k]))
    return found


def _fit_shift(scores: np.ndarray, share: float) -> float:
    """The shift that gives the scores a mean probability of `share`; without scores, that of a score of 0."""
    scores = scores if len(scores) else np.zeros(1)
    low, high = logit(share) - scores.max() - 1, logit(share) - scores.min() + 1  # brackets the solution
    return float(brentq(lambda shift: expit(scores + shift).mean() - share, low, high))


def _fit_platt(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Newton steps on (a, b), halved until the loss decreases."""
    centre, spread = scores.mean(), max(scores.std(), 1e-6)
    rows = np.stack([(scores - centre) / spread, np.ones_like(scores)])  # (2, n)
    share = target.mean()
    theta = np.array([0.0, np.log(share / (1 - share))])

    def loss_at(theta: np.ndarray) -> float:
        margin = theta @ rows
        return float(np.mean(np.logaddexp(0, margin) - target * margin))

    loss = loss_at(theta)
    for _ in range(30):
        probability = expit(theta @ rows)
        gradient = rows @ (probability - target) / len(scores)
        hessian = (rows * (probability * (1 - probability))) @ rows.T / len(scores) + 1e-9 * np.eye(2)
        step = np.linalg.solve(hessian, gradient)
        while loss_at(theta - step) > loss and np.abs(step).max() > 1e-9:
            step /= 2
        theta = theta - step
        before, loss = loss, loss_at(theta)
        if before - loss < 1e-10:
            break
    slope, shift = max(theta[0], 1e-3) / spread, theta[1]
    return np.array([slope, shift - slope * centre])
