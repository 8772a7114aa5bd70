"""Classifiers: the linear classifiers of all concepts at once.

    min over a, b   Σ_r w_rk log(1 + exp(−y_rk (a_k · x_r + b_k))) + ½ λ_k |a_k|²         for all K concepts k together

Features are turned to their principal axes, where the curvature is nearly diagonal: a quasi-Newton method (L-BFGS, one
for each concept, all in the same matrix products) is there in a dozen steps. λ goes from strong to weak, each time on
from the last solution, and each concept keeps the one that cells of other pictures like best.
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
TOLERANCE = 1e-4  # of the objective, in a step
MEMORY = 6  # steps that the curvature is guessed from
CHUNK = 2048  # rows at a time
SAMPLE = 16_384  # rows that the principal axes are found from
_SLOPE = 1e-4  # share of the decrease that the slope promises
_SHORTER = 0.3


class Classifiers(NamedTuple):
    """coefficients : (K, C) float32; intercepts : (K,) float32; ridges : (K,) the λ that was chosen"""

    coefficients: np.ndarray
    intercepts: np.ndarray
    ridges: np.ndarray


class Axes(NamedTuple):
    """Principal axes: z = (x − centre) · turn; the variances of z sum to at most the number of features."""

    centre: np.ndarray
    turn: np.ndarray
    variances: np.ndarray


def fit_classifiers(
    features: np.ndarray,
    weights: np.ndarray,
    held_features: np.ndarray,
    held_weights: np.ndarray,
    ridges: tuple[float, ...] = RIDGES,
    max_axes: int = 512,
) -> Classifiers:
    """Classifiers of K concepts.

    Parameters
    ----------
    features : (R, C), of any precision
    weights : (R, K) float32, > 0 yes, < 0 no, in total 1 a concept
    held_features, held_weights : the same of other pictures, which choose λ
    ridges : values of λ, where the variance of a feature is 1 on average
    max_axes : principal axes that are used

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 3)).astype("f4")
    >>> w = np.sign(X[:, :2]) / 400
    >>> found = fit_classifiers(X[:300], w[:300], X[300:], w[300:])
    >>> np.argmax(found.coefficients, axis=1).tolist()
    [0, 1]
    """
    every = np.arange(weights.shape[1])
    path, losses = [], []
    with hold_blas(), ThreadPoolExecutor(count_threads(None)) as pool:  # the same on any number of threads
        axes = find_axes(features, max_axes, pool)
        turned, held = _turn(features, axes, pool), _turn(held_features, axes, pool)
        theta = np.zeros((len(every), turned.shape[1]), dtype=np.float32)
        for ridge in sorted(ridges, reverse=True):
            theta = _minimise(ClassifierLoss(turned, weights, ridge, pool), theta, axes.variances)
            path.append(theta)
            losses.append(ClassifierLoss(held, held_weights, 0.0, pool).evaluate(theta, every)[0])
        chosen = _choose_ridges(np.array(losses), held_weights)
        best = np.array(path)[chosen, every]
        coefficients = best[:, :-1] @ axes.turn.T
        intercepts = best[:, -1] - coefficients @ axes.centre
    return Classifiers(coefficients, intercepts, np.sort(ridges)[::-1][chosen])


def _choose_ridges(losses: np.ndarray, held_weights: np.ndarray) -> np.ndarray:
    """The best of each concept; what most others like where no cell held out could judge."""
    is_judged = (held_weights > 0).any(axis=0) & (held_weights < 0).any(axis=0)
    best = losses.argmin(axis=0)
    usual = int(np.median(best[is_judged])) if is_judged.any() else len(losses) // 2
    return np.where(is_judged, best, usual)


def find_axes(features: np.ndarray, max_axes: int, pool: ThreadPoolExecutor) -> Axes:
    """Principal axes of a sample of rows, scaled so that features have variance 1 on average."""
    step = max(1, -(-len(features) // SAMPLE))
    sample = features[::step].astype(np.float32)
    centre = sample.mean(axis=0, dtype=float).astype(np.float32)
    sample -= centre
    covariance = np.zeros((sample.shape[1],) * 2)
    for part in pool.map(lambda chunk: sample[chunk].T @ sample[chunk], _list_chunks(len(sample))):
        covariance += part
    covariance /= max(len(sample), 1)
    variances, turn = np.linalg.eigh(covariance)
    order = np.argsort(-variances)[: min(max_axes, max(len(sample) - 1, 1))]
    mean = max(float(np.trace(covariance)) / len(covariance), 1e-12)
    kept = order[variances[order] > 1e-7 * mean]
    kept = kept if len(kept) else order[:1]
    scaled = (turn[:, kept] / np.sqrt(mean)).astype(np.float32)
    return Axes(centre, scaled, np.maximum(variances[kept], 0) / mean)


class ClassifierLoss:
    """The loss of all concepts and its slope: threads share chunks of rows, whose sums are added in one order."""

    def __init__(self, turned: np.ndarray, weights: np.ndarray, ridge: float, pool: ThreadPoolExecutor):
        self._turned, self._weights, self._pool = turned, weights, pool
        self.penalty = np.full(turned.shape[1], ridge, dtype=np.float32)
        self.penalty[-1] = 1e-6  # the intercept is free, but finite where there is no loss at all
        self._chunks = _list_chunks(len(turned))

    def evaluate(self, theta: np.ndarray, concepts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Loss (k,) and slope (k, q + 1) of some concepts at their coefficients (k, q + 1)."""
        is_all = len(concepts) == self._weights.shape[1]

        def work(chunk: slice) -> tuple[np.ndarray, np.ndarray]:
            rows = self._turned[chunk]
            weights = self._weights[chunk] if is_all else self._weights[chunk][:, concepts]
            margin = np.sign(weights) * (rows @ theta.T)
            pull = expit(-margin)
            # log(1 + exp(−m)) without overflow; where m is large and pull is 0, the loss is 0 too.
            loss = np.einsum("rk,rk->k", np.abs(weights), np.maximum(-margin, 0) + np.log1p(np.exp(-np.abs(margin))))
            return loss.astype(float), -(weights * pull).T @ rows

        slope = self.penalty * theta
        loss = 0.5 * np.einsum("kq,kq->k", slope, theta).astype(float)
        for part, more in self._pool.map(work, self._chunks):
            loss += part
            slope += more
        return loss, slope


def _minimise(objective: ClassifierLoss, theta: np.ndarray, variances: np.ndarray) -> np.ndarray:
    """L-BFGS for each concept; those that have arrived rest."""
    theta = theta.copy()
    scale = (1 / (0.25 * np.append(variances, 1.0) + objective.penalty)).astype(np.float32)
    active = np.arange(len(theta))
    loss, slope = objective.evaluate(theta, active)
    history = _History(len(theta), theta.shape[1])
    for _ in range(MAX_STEPS):
        direction = -history.apply(slope[active], scale, active)
        moved, new_loss, new_slope = _search(objective, theta, loss, slope, direction, active)
        history.push(active, moved - theta[active], new_slope - slope[active], scale)
        is_moving = loss[active] - new_loss > TOLERANCE * np.maximum(new_loss, 1e-3)
        theta[active], loss[active], slope[active] = moved, new_loss, new_slope
        active = active[is_moving]
        if not len(active):
            break
    return theta


def _search(
    objective: ClassifierLoss,
    theta: np.ndarray,
    loss: np.ndarray,
    slope: np.ndarray,
    direction: np.ndarray,
    active: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A step of each active concept along its direction, shortened until its loss falls; none if it does not."""
    start = theta[active]
    found, found_loss, found_slope = start.copy(), loss[active].copy(), slope[active].copy()
    promised = np.einsum("kq,kq->k", slope[active], direction)
    length, left = 1.0, np.arange(len(active))
    for _ in range(6):
        tried = start[left] + np.float32(length) * direction[left]
        new_loss, new_slope = objective.evaluate(tried, active[left])
        is_fine = new_loss <= loss[active[left]] + _SLOPE * length * promised[left]
        done = left[is_fine]
        found[done], found_loss[done], found_slope[done] = tried[is_fine], new_loss[is_fine], new_slope[is_fine]
        left = left[~is_fine]
        if not len(left):
            break
        length *= _SHORTER
    return found, found_loss, found_slope


class _History:
    """The last steps of all concepts and how their slopes changed: a guess of the inverse curvature."""

    def __init__(self, n_concepts: int, n_numbers: int):
        self._steps: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._factor = np.ones((n_concepts, 1), dtype=np.float32)
        self._shape = (n_concepts, n_numbers)

    def push(self, active: np.ndarray, step: np.ndarray, change: np.ndarray, scale: np.ndarray) -> None:
        steps, changes = np.zeros((2, *self._shape), dtype=np.float32)
        steps[active], changes[active] = step, change
        product = np.einsum("kq,kq->k", steps, changes)
        size = np.einsum("kq,q,kq->k", changes, scale, changes)
        is_sound = product > 1e-10 * size
        weight = np.where(is_sound, 1 / np.where(is_sound, product, 1), 0).astype(np.float32)
        self._factor[is_sound] = (product[is_sound] / size[is_sound])[:, None]
        self._steps = [*self._steps[-MEMORY + 1 :], (steps, changes, weight)]

    def apply(self, slope: np.ndarray, scale: np.ndarray, active: np.ndarray) -> np.ndarray:
        """The two loops of L-BFGS."""
        found, alphas = slope.copy(), []
        for steps, changes, weight in reversed(self._steps):
            alpha = weight[active] * np.einsum("kq,kq->k", steps[active], found)
            found -= alpha[:, None] * changes[active]
            alphas.append(alpha)
        found *= scale * self._factor[active]
        for (steps, changes, weight), alpha in zip(self._steps, reversed(alphas), strict=True):
            beta = weight[active] * np.einsum("kq,kq->k", changes[active], found)
            found += (alpha - beta)[:, None] * steps[active]
        return found


def _turn(features: np.ndarray, axes: Axes, pool: ThreadPoolExecutor) -> np.ndarray:
    """(R, q + 1): features on the principal axes, and a one for the intercept."""
    turned = np.ones((len(features), axes.turn.shape[1] + 1), dtype=np.float32)

    def work(chunk: slice) -> None:
        turned[chunk, :-1] = (features[chunk].astype(np.float32) - axes.centre) @ axes.turn

    list(pool.map(work, _list_chunks(len(features))))
    return turned


def _list_chunks(n_rows: int) -> list[slice]:
    return [slice(start, start + CHUNK) for start in range(0, n_rows, CHUNK)]


def calibrate(scores: np.ndarray, truth: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """(K, 2) slope a and shift b of each concept, so that 1 / (1 + exp(−(a · score + b))) is the share of yes.

    Platt's method: logistic regression on one number, with targets a little inside 0 and 1. Where a column has no yes
    or no no, a is 1 and b makes the mean over all rows the share that is known from elsewhere; a is never negative.

    Parameters
    ----------
    scores : (N, K)        truth : (N, K), 1 yes, 0 no, -1 unknown
    shares : (K,) of yes among other rows, between 0 and 1

    Examples
    --------
    >>> scores = np.repeat([-1.0, 1.0], 500)[:, None]
    >>> truth = (np.random.default_rng(0).random((1000, 1)) < np.where(scores > 0, 0.8, 0.1)).astype(int)
    >>> found = calibrate(scores, truth, np.array([0.45]))
    >>> np.round(expit(found[0, 0] * np.array([-1, 1]) + found[0, 1]), 1)
    array([0.1, 0.8])
    """
    found = np.ones((scores.shape[1], 2))
    for k, (column, answers) in enumerate(zip(scores.T.astype(float), truth.T, strict=True)):
        is_known = (answers >= 0) & np.isfinite(column)
        n_yes, n_no = int((answers[is_known] == 1).sum()), int((answers[is_known] == 0).sum())
        if n_yes and n_no:
            target = np.where(answers[is_known] == 1, (n_yes + 1) / (n_yes + 2), 1 / (n_no + 2))
            found[k] = _fit_platt(column[is_known], target)
        else:
            found[k, 1] = _fit_shift(column[np.isfinite(column)], float(shares[k]))
    return found


def _fit_shift(scores: np.ndarray, share: float) -> float:
    """What to add to scores so that the mean of their probabilities is a share; without scores, what 0 needs.

    >>> round(float(expit(np.array([3.0, 5.0]) + _fit_shift(np.array([3.0, 5.0]), 0.2)).mean()), 6)
    0.2
    """
    scores = scores if len(scores) else np.zeros(1)
    wanted = logit(share)
    low, high = wanted - scores.max() - 1, wanted - scores.min() + 1  # here all are below the share, and above it
    return float(brentq(lambda shift: expit(scores + shift).mean() - share, low, high))


def _fit_platt(scores: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Newton steps on (a, b), halved as long as the loss does not fall."""
    centre, spread = scores.mean(), max(scores.std(), 1e-6)
    rows = np.stack([(scores - centre) / spread, np.ones_like(scores)])  # (2, n)
    share = target.mean()
    theta = np.array([0.0, np.log(share / (1 - share))])

    def loss_at(theta: np.ndarray) -> float:
        margin = theta @ rows
        return float(np.mean(np.logaddexp(0, margin) - target * margin))

    loss = loss_at(theta)
    for _ in range(30):
        chance = expit(theta @ rows)
        slope = rows @ (chance - target) / len(scores)
        curve = (rows * (chance * (1 - chance))) @ rows.T / len(scores) + 1e-9 * np.eye(2)
        step = np.linalg.solve(curve, slope)
        while loss_at(theta - step) > loss and np.abs(step).max() > 1e-9:
            step /= 2
        theta = theta - step
        before, loss = loss, loss_at(theta)
        if before - loss < 1e-10:
            break
    slope_, shift = max(theta[0], 1e-3) / spread, theta[1]
    return np.array([slope_, shift - slope_ * centre])
