"""Screening of interactions: which pairs and triples of columns are worth a term.

Input: binned columns and the residuals of the main effects. Output: a strength per candidate (`rank_terms`), or
the picked terms (`pick_terms`). A histogram sums the residuals over the bins of a candidate's columns, its margins are
removed, and the remainder is compared with noise. Histograms of residuals are the idea of FAST (Lou et al., 2013).
DIFF: FAST takes the best cut of each of the two columns. Here several views of the whole histogram compete, each by its
excess over noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .. import kernels
from .binning import Bins
from .margins import fit_margins
from .strength import NoiseLevel, Views, make_views, measure_strengths, split_last_axis, standardize
from .term import Term

MAX_WORK = 2e10  # rows × candidates × outputs
BLOCK = 64  # most terms measured at a time; fewer if there are many outputs


def list_triples(pairs: Iterable[Sequence[int]]) -> list[Term]:
    """Triples with all three pairs among `pairs`."""
    known = {(min(pair), max(pair)) for pair in pairs}
    partners: dict[int, set[int]] = {}
    for a, b in known:
        partners.setdefault(a, set()).add(b)
        partners.setdefault(b, set()).add(a)
    found = {tuple(sorted((a, *two))) for a, others in partners.items() for two in combinations(sorted(others), 2)}
    return sorted(term for term in found if known.issuperset(combinations(term, 2)))


def rank_terms(
    bins: Bins,
    residuals: np.ndarray,
    weights: np.ndarray | None = None,
    candidates: Sequence[Sequence[int]] | np.ndarray | None = None,
    variances: np.ndarray | None = None,
    threads: int = 1,
    max_work: float = MAX_WORK,
    rng: np.random.Generator | None = None,
) -> np.ndarray:
    """Strength of every candidate: the share of the residuals' variance that it explains beyond its margins.

    A histogram holds W, the weight of a cell, and S, its sum of weighted residuals after the margins are removed. Noise
    of variance 1 explains Σ S² / W = f on average, with standard deviation √(2 f); f is the number of degrees of
    freedom. Heavy tails increase the deviation in small cells. With W + κ / 2 instead of W, where κ is the excess
    kurtosis of the residuals, f = Σ W / (W + κ / 2) and the deviation is √(2 f) again. A strength is the largest

        [Σ S² / (W + κ / 2) - f - CAUTION · (√(2 f) - √2)] / N

    over several views of the histogram (coarser grids, products of polynomials). Coarse views find smooth or weak
    effects, fine views sharp ones. Noise has strengths around 0, positive or negative, for any number of bins. A
    candidate that cannot interact has strength 0, for example one with a constant column.

    Parameters
    ----------
    residuals : (N, K) negative gradient of the loss at the main effects: y - score, y - p, one-hot - p
    weights : (N,) of the rows, as in the loss; integers count rows, other weights are relative
    candidates : (T, 2) pairs or (T, 3) triples of columns; None: all pairs
    variances : (N, K) expected squares of the residuals up to a factor, p (1 - p) for classes; None: equal in all rows
    max_work : limit of rows × candidates × outputs; above it, a sample of the rows is used

    Returns
    -------
    strengths : (T,) mean over the outputs, each divided by its own standard deviation. If `max_work` requires it, many
        outputs are first replaced by their leading principal directions, at least 16.
    """
    screening = _prepare(bins, residuals, weights, variances, candidates, threads, max_work, rng)
    return screening.measure(screening.terms)


def noise_threshold(
    bins: Bins,
    residuals: np.ndarray,
    rate: float | np.ndarray,
    weights: np.ndarray | None = None,
    candidates: Sequence[Sequence[int]] | np.ndarray | None = None,
    variances: np.ndarray | None = None,
    max_work: float = MAX_WORK,
) -> np.ndarray:
    """Strength that the strongest candidate exceeds at this rate if all candidates are noise; see `rank_terms`.

    Rates above 1 are expected numbers of candidates above the threshold. The result has the shape of `rate`.
    """
    return _prepare(bins, residuals, weights, variances, candidates, 1, max_work, None).threshold(rate)


def pick_terms(
    bins: Bins,
    residuals: np.ndarray,
    n_terms: int,
    weights: np.ndarray | None = None,
    candidates: Sequence[Sequence[int]] | np.ndarray | None = None,
    variances: np.ndarray | None = None,
    threads: int = 1,
    max_work: float = MAX_WORK,
    rng: np.random.Generator | None = None,
    min_strength: float | None = None,
    strengths: np.ndarray | None = None,
) -> tuple[list[Term], np.ndarray]:
    """Pick at most `n_terms` candidates one after another, each the strongest on the residuals of the previous ones.

    If columns are correlated, a strong interaction also raises the strengths of candidates that share a column with it,
    which would displace a weaker, independent interaction. Therefore the effect of a picked term, the mean of each
    cell shrunk according to the strength, is subtracted from the residuals before the next pick.

    Picking ends at `min_strength`; None: at the strength that the strongest of all candidates exceeds at a rate of 0.1
    if all are noise. `strengths` are those of `rank_terms`, if it has already measured them; other parameters as there.
    Returns the terms in the order of picking, and the strength of each when it was picked, as a share of the initial
    variance.
    """
    screening = _prepare(bins, residuals, weights, variances, candidates, threads, max_work, rng)
    strengths = screening.measure(screening.terms) if strengths is None else strengths
    min_strength = max(float(screening.threshold(0.1)) if min_strength is None else min_strength, 0.0)
    leading = np.argsort(-strengths, kind="stable")[:4096]  # the others are not measured again after a pick
    terms, strengths = screening.terms[leading], strengths[leading]
    measured = np.zeros(len(terms), dtype=np.int64)  # number of picks before the last measurement
    picked: list[int] = []
    found: list[float] = []
    while len(picked) < min(n_terms, len(terms)):
        best = int(np.argmax(strengths))
        if strengths[best] <= min_strength:
            break
        if measured[best] < len(picked):  # strengths rarely grow after a pick: measure the leading ones only
            again = np.argsort(-strengths, kind="stable")[: BLOCK * threads]
            again = again[measured[again] < len(picked)]
            strengths[again], measured[again] = screening.measure(terms[again]), len(picked)
            continue
        picked.append(best)
        found.append(strengths[best])
        screening.subtract(terms[best], strengths[best])
        strengths[best], measured[best] = -np.inf, n_terms
    return [tuple(sorted(term)) for term in terms[picked].tolist()], np.array(found)


def _check_candidates(candidates: Sequence[Sequence[int]] | np.ndarray | None, n_columns: int) -> np.ndarray:
    """(T, 2) or (T, 3) columns of every candidate."""
    if candidates is None:
        return np.stack(np.triu_indices(n_columns, 1), axis=1)
    terms = np.array(candidates, dtype=np.int64, ndmin=2)
    if terms.size and (terms.shape[1] not in (2, 3) or terms.min() < 0 or terms.max() >= n_columns):
        raise ValueError(
            f"candidates must be all pairs or all triples of columns 0 … {n_columns - 1}, not {terms[:3].tolist()} …"
        )
    return terms if terms.size else terms.reshape(0, 2)


@dataclass(eq=False)
class _Screening:
    """Candidates, binned rows, and their weights and residuals (N, 1 + K), from which picked terms are subtracted."""

    terms: np.ndarray
    bins: Bins
    data: np.ndarray
    noise: NoiseLevel | None
    views: Views
    threads: int

    def threshold(self, rate: float | np.ndarray) -> np.ndarray:
        """Strength that the strongest candidate exceeds at this rate if all are noise."""
        if self.noise is None or not len(self.terms):
            return np.zeros(np.shape(rate))
        return self.noise.threshold(len(self.terms), rate)

    def measure(self, terms: np.ndarray) -> np.ndarray:
        """Strengths of terms (T, order)."""
        strengths, noise = np.zeros(len(terms)), self.noise
        if noise is None:
            return strengths
        size = int(np.clip(8 * BLOCK / self.data.shape[1], 8, BLOCK))

        def work(_part, first, last):
            for start in range(first * size, min(last * size, len(terms)), size):
                part = terms[start : start + size]
                histogram = _sum_cells(part, self.bins, self.data)
                strengths[start : start + size] = measure_strengths(histogram, part, self.views, noise)
            return -1

        kernels.share_rows(work, -(-len(terms) // size), self.threads, min_rows=1)
        return strengths

    def subtract(self, term: np.ndarray, strength: float) -> None:
        """Subtract a term's cell means from the residuals, shrunk for a variance of `strength` against 1 per row."""
        assert self.noise is not None
        cells = split_last_axis(_sum_cells(term[None], self.bins, self.data), len(term), self.bins.max_bins)
        rest = fit_margins(cells[:, 0], cells[:, 1:], len(term)).remove_from(cells[:, 1:])
        means = rest / (cells[:, :1] + 1 / strength)
        gain = (means * (2 * rest - cells[:, :1] * means)).sum() / self.noise.n_rows
        self.noise = replace(self.noise, variance=self.noise.variance - gain)
        row_cells = _find_cells(term, self.bins)
        self.data[:, 1:] -= self.data[:, :1] * means.reshape(means.shape[1], -1).T[row_cells].astype(np.float32)


def _prepare(
    bins: Bins,
    residuals: np.ndarray,
    weights: np.ndarray | None,
    variances: np.ndarray | None,
    candidates: Sequence[Sequence[int]] | np.ndarray | None,
    threads: int,
    max_work: float,
    rng: np.random.Generator | None,
) -> _Screening:
    """Sample rows and project outputs to stay below `max_work`, then standardize the residuals."""
    terms = _check_candidates(candidates, len(bins.codes))
    limit = max_work / max(len(terms), 1)  # rows × outputs
    max_outputs = max(int(limit / len(residuals)), 16)  # rather sample rows than keep fewer outputs
    n_rows = max(int(limit / min(residuals.shape[1], max_outputs)), 1)
    if n_rows < len(residuals):
        rows = np.sort((rng or np.random.default_rng(0)).permutation(len(residuals))[:n_rows])
        bins, residuals = bins.take(rows), residuals[rows]
        weights, variances = (None if values is None else values[rows] for values in (weights, variances))
    if terms.shape[1] == 3:
        bins = bins.merge(6)
    data, noise = standardize(residuals, weights, variances, max_outputs)
    return _Screening(terms, bins, data, noise, make_views(bins, terms.shape[1]), threads)


def _sum_cells(terms: np.ndarray, bins: Bins, data: np.ndarray) -> np.ndarray:
    """(T, cells, 1 + K) sums of the data over the cells of every term."""
    histogram = np.zeros((len(terms), bins.max_bins ** terms.shape[1], data.shape[1]))
    if kernels.NUMBA:
        kernels.count_cells(0, len(terms), terms, bins.codes, bins.max_bins, data, histogram)
        return histogram
    for term, table in zip(terms, histogram, strict=True):
        cells = _find_cells(term, bins)
        for channel, values in enumerate(data.T):
            table[:, channel] = np.bincount(cells, values, minlength=len(table))
    return histogram


def _find_cells(term: np.ndarray, bins: Bins) -> np.ndarray:
    """(N,) cell of every row in a term's table."""
    return np.ravel_multi_index(tuple(bins.codes[term]), (bins.max_bins,) * len(term))
