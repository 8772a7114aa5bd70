"""Selection of features: which columns of a wide table get a term.

Input: raw columns and the residuals of the constant model. Output: `Selection`, the columns and the members that
use each. Every member selects columns without the rows that it holds out, which therefore remain a fair validation set.
A member runs orthogonal matching pursuit: it adds the column that explains most of its residuals, refits all columns so
far together, and repeats. The mean loss of the held-out rows decides how many columns are added. Columns are read once,
in blocks, and stored in few bins, one byte per value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from .. import kernels
from ..data.sparse import SparseMatrix
from ..data.target import is_whole
from ..encoding.axis import continuous_axis

N_BINS = 2 * kernels.N_GROUPS  # bins of known values; missing values have one more
MAX_ROWS = 20_000  # a sample of this size is used if there are more rows


@dataclass(frozen=True, eq=False)
class Selection:
    """Selected columns."""

    features: np.ndarray  # (F,) columns, increasing
    member_mask: np.ndarray  # (F, M) whether a member selected the column


@dataclass(frozen=True, eq=False)
class BinnedColumns:
    """Columns in few bins."""

    codes: np.ndarray  # (D, N) bin of every row, `N_BINS` for missing values
    noise_limits: np.ndarray  # (2, views) see `kernels.find_view`
    threads: int = 1

    def measure(self, data: np.ndarray, n_members: int) -> np.ndarray:
        """Strengths (D, M) of the columns, given weights and weighted residuals (N, M · (1 + K))."""
        strengths = np.empty((len(self.codes), n_members))
        arrays = self.codes, data, self.noise_limits, strengths
        n_columns, threads = len(self.codes), self.threads
        kernels.share_rows(lambda _, *part: kernels.weigh_columns(*part, *arrays), n_columns, threads, min_rows=256)
        return strengths


def select_columns(
    numbers: np.ndarray | SparseMatrix,
    rows: np.ndarray,
    residuals: np.ndarray,
    weights: np.ndarray,
    held_out: np.ndarray,
    names: Sequence[str],
    candidates: Sequence[int] | None = None,
    max_terms: int | None = None,
    threads: int = 1,
    rng: np.random.Generator | None = None,
) -> Selection:
    """Select the columns that explain the residuals, separately for each member.

    Parameters
    ----------
    numbers : (any, D) raw values of the columns, NaN for missing values, float32 or float64
    rows : (N,) rows of `numbers` to use; the arrays below follow this order
    residuals : (N, K) negative gradient of the loss at the constant model
    held_out : (N, M) rows that a member must not use
    names : of the columns; ties between equal columns are resolved in the order of names
    candidates : columns that may be selected; None: all
    max_terms : number of columns to select; None: as many as the held-out rows support
    """
    if len(rows) > MAX_ROWS:
        part = np.sort((rng or np.random.default_rng(0)).choice(len(rows), MAX_ROWS, replace=False))
        rows, residuals, weights, held_out = rows[part], residuals[part], weights[part], held_out[part]
    by_name = np.array(sorted(range(len(names)) if candidates is None else candidates, key=names.__getitem__))
    weights = weights if is_whole(weights) else weights / weights.mean()
    residuals = _centre(residuals, weights)
    codes = bin_raw_columns(numbers, rows, weights, names, by_name, threads)
    columns = BinnedColumns(codes, _limit_noise(len(codes), residuals.shape[1]), threads)
    ridges = 0.03, 0.3, 1.0  # times the variance of a contrast: few strong or many weak effects
    trials = [[_Pursuit(residuals, weights, held, ridge) for held in held_out.T] for ridge in ridges]
    lengths = [_run(pursuits, columns, max_terms) for pursuits in trials]
    best = int(np.argmin([_mean_losses(pursuits).min() for pursuits in trials]))
    pursuits, length = trials[best], lengths[best]
    count = max(1, _count_elected(pursuits, length)) if max_terms is None else max_terms
    chosen = sorted(_rank_picked(pursuits, length)[:count], key=by_name.__getitem__)
    member_mask = [[column in pursuit.picked[:length] for pursuit in pursuits] for column in chosen]
    return Selection(by_name[chosen], np.array(member_mask, dtype=bool))


def _limit_noise(n_columns: int, n_outputs: int) -> np.ndarray:
    """(2, views) amounts that the strongest of all columns explains if all are noise, see `kernels.find_view`."""
    freedom = np.array([1, 2, kernels.N_GROUPS - 1, 1])  # of a line, a parabola, groups, a jump
    n_tried = np.array([1, 1, 1, N_BINS - 1])  # variants of each view: a jump may be at any edge
    rate = np.minimum(0.5, 1 / n_columns) / n_tried
    return np.asarray(chdtri(max(1, n_outputs - 1) * np.stack([freedom, freedom + 1]), rate))


def _count_votes(pursuits: Sequence[_Pursuit], length: int) -> Counter[int]:
    return Counter(column for pursuit in pursuits for column in pursuit.picked[:length])


def _count_elected(pursuits: Sequence[_Pursuit], length: int) -> int:
    """Columns with enough votes: one that only one of several members selects is usually noise."""
    return sum(votes >= min(2, len(pursuits)) for votes in _count_votes(pursuits, length).values())


def _rank_picked(pursuits: Sequence[_Pursuit], length: int) -> list[int]:
    """Columns by decreasing number of votes, earlier picks first."""
    votes = _count_votes(pursuits, length)
    ranks = {
        column: sum(p.picked.index(column) if column in p.picked[:length] else length for p in pursuits)
        for column in votes
    }
    return sorted(votes, key=lambda column: (-votes[column], ranks[column], column))


def _centre(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Centred residuals; those of many classes along their leading principal directions."""
    centred = residuals - np.average(residuals, axis=0, weights=weights)
    max_outputs = 8
    if centred.shape[1] <= max_outputs:
        return centred
    directions = np.linalg.eigh((centred * weights[:, None]).T @ centred)[1]
    return centred @ directions[:, -max_outputs:]


def bin_raw_columns(
    numbers: np.ndarray | SparseMatrix,
    rows: np.ndarray,
    weights: np.ndarray,
    names: Sequence[str],
    by_name: np.ndarray,
    threads: int,
) -> np.ndarray:
    """Bins (columns, N) of the columns `by_name`, in that order: equal weight per bin, missing values last."""
    codes = np.empty((len(by_name), len(rows)), dtype=np.uint8)
    place = np.full(len(names), -1)
    place[by_name] = np.arange(len(by_name))
    row_weights = None if (weights == weights[0]).all() else weights
    step = max(1, (1 << 22) // len(numbers))  # columns binned at a time, about 4 million values

    def work(_part, first, last):
        for begin in range(first, last, step):
            columns = slice(begin, min(begin + step, last))
            values = numbers.read_block(columns) if isinstance(numbers, SparseMatrix) else numbers[:, columns]
            if not np.isfinite(values).all():
                _check_columns(values, values[rows], names[columns])
            where = place[columns]
            codes[where[where >= 0]] = _bin_values(np.ascontiguousarray(values[rows].T[where >= 0]), row_weights)
        return -1

    kernels.share_rows(work, len(names), threads, min_rows=256)
    return codes


def _check_columns(values: np.ndarray, used: np.ndarray, names: Sequence[str]) -> None:
    """Raise the error of an axis for the first column that has infinite values, or only missing ones in used rows."""
    wrong = np.isinf(values).any(axis=0) | np.isnan(used).all(axis=0)
    if wrong.any():
        column = int(np.argmax(wrong))
        continuous_axis(names[column], values[:, column].astype(float))


def _bin_values(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Bins of values (columns, N)."""
    if weights is None:
        ordered = np.sort(values, axis=1)  # NaN last
        n_known = values.shape[1] - np.isnan(ordered).sum(axis=1)
        ends = np.ceil(n_known[:, None] * np.arange(1, N_BINS) / N_BINS).astype(np.int64) - 1
    else:
        order = np.argsort(values, axis=1, kind="stable")
        ordered = np.take_along_axis(values, order, axis=1)
        total = np.cumsum(np.where(np.isnan(ordered), 0.0, weights[order]), axis=1)
        ends = np.stack([(total < total[:, -1:] * k / N_BINS).sum(axis=1) for k in range(1, N_BINS)], axis=1)
    edges = np.take_along_axis(ordered, np.clip(ends, 0, values.shape[1] - 1), axis=1)
    codes = np.zeros(values.shape, dtype=np.uint8)
    for k in range(N_BINS - 1):  # 2 above an edge, 1 on it: a rare lowest value differs from the next value
        codes += values > edges[:, k : k + 1]
        codes += values >= edges[:, k : k + 1]
    codes //= 2
    codes[np.isnan(values)] = N_BINS
    return codes


def _run(pursuits: Sequence[_Pursuit], columns: BinnedColumns, max_terms: int | None) -> int:
    """Advance the pursuits of all members; returns the number of steps to keep."""
    for n_steps in (5 << k for k in range(8)):  # after this many steps, all columns are measured again
        data = np.ascontiguousarray(np.concatenate([pursuit.data() for pursuit in pursuits], axis=1))
        strengths = columns.measure(data, len(pursuits))

        def work(_part, first, last, strengths=strengths, n_steps=n_steps):
            for index in range(first, last):
                pursuits[index].advance(columns, strengths[:, index], n_steps)
            return -1

        kernels.share_rows(work, len(pursuits), columns.threads, min_rows=1)
        length = min(len(pursuit.picked) for pursuit in pursuits)
        if max_terms is not None:
            enough = [n for n in range(length + 1) if _count_elected(pursuits, n) >= max_terms]
            if enough or length < n_steps:
                return enough[0] if enough else length
            continue
        # Twice the best number of steps: the network shrinks weak columns further.
        best = max(1, 2 * int(np.argmin(_mean_losses(pursuits))))
        if best <= length or length < n_steps:
            return min(best, length)
    return length


def _mean_losses(pursuits: Sequence[_Pursuit]) -> np.ndarray:
    """Mean loss of the held-out rows after each step that all members have made."""
    length = min(len(pursuit.losses) for pursuit in pursuits)
    return np.mean([pursuit.losses[:length] for pursuit in pursuits], axis=0)


class _Pursuit:
    """Orthogonal matching pursuit of one member: its picked columns, their residuals, the loss of its held-out rows."""

    def __init__(self, residuals: np.ndarray, weights: np.ndarray, held_out: np.ndarray, ridge: float):
        self.ridge = ridge
        self.weights, self.held_out_weights = np.where(held_out, 0.0, weights), np.where(held_out, weights, 0.0)
        self.target = self.residuals = residuals - np.average(residuals, axis=0, weights=self.weights)  # (N, K)
        self.design = np.empty((len(residuals), 0))  # (N, contrasts)
        self.picked: list[int] = []
        self.losses = [self.loss()]
        self.is_full = False

    def loss(self) -> float:
        total = (self.held_out_weights[:, None] * self.residuals**2).sum()
        return float(total / max(self.held_out_weights.sum(), 1e-12))

    def data(self) -> np.ndarray:
        """(N, 1 + K) weights and weighted residuals, scaled to noise of variance 1."""
        n_outputs = self.residuals.shape[1]
        square = np.average(self.residuals**2, axis=0, weights=self.weights)
        scale = np.sqrt(max(1, n_outputs - 1) / n_outputs / np.maximum(square, 1e-300))
        return np.concatenate([self.weights[:, None], self.weights[:, None] * self.residuals * scale], axis=1)

    def advance(self, columns: BinnedColumns, strengths: np.ndarray, n_steps: int) -> None:
        """Add the strongest columns until there are `n_steps`."""
        # The 2000 strongest columns are measured again after every step; all others are measured once per round.
        leading = np.sort(np.argsort(-strengths, kind="stable")[:2000])
        few = BinnedColumns(columns.codes[leading], columns.noise_limits)
        waiting = ~np.isin(leading, self.picked)
        while len(self.picked) < n_steps and waiting.any() and not self.is_full:
            found = np.where(waiting, few.measure(self.data(), 1)[:, 0], -np.inf)
            best = int(np.argmax(found))
            waiting[best] = False
            self.add(int(leading[best]), few.codes[best], columns.noise_limits)

    def add(self, column: int, codes: np.ndarray, noise_limits: np.ndarray) -> None:
        """Add the contrasts of this column's best view and refit all contrasts together."""
        sums = np.zeros((N_BINS + 1, self.residuals.shape[1] + 1))
        np.add.at(sums, codes, self.data())
        contrasts = _make_contrasts(codes, kernels.find_view(sums, noise_limits)[1], self.weights)
        self.design = np.concatenate([self.design, contrasts], axis=1)
        weighted = self.design * self.weights[:, None]
        square = weighted.T @ self.design
        square[np.diag_indices_from(square)] += self.ridge * self.weights.sum()
        self.residuals = self.target - self.design @ np.linalg.solve(square, weighted.T @ self.target)
        self.picked.append(column)
        self.losses.append(self.loss())
        self.is_full = 2 * self.design.shape[1] > int(np.count_nonzero(self.weights))  # two rows per contrast


def _make_contrasts(codes: np.ndarray, view: int, weights: np.ndarray) -> np.ndarray:
    """(N, contrasts) of a view, with mean 0 and standard deviation 1, and one contrast for missing values."""
    missing = codes == N_BINS
    place = np.where(missing, 0.0, codes - np.average(codes, weights=weights * ~missing) if not missing.all() else 0.0)
    if view == 2:
        parts = [codes // (N_BINS // kernels.N_GROUPS) == group for group in range(1, kernels.N_GROUPS)]
    elif view > 2:
        parts = [~missing & (codes > view - 3)]
    else:
        parts = [place, place**2][: view + 1]
    raw = np.stack([*parts, missing], axis=1).astype(float)
    centred = raw - np.average(raw, axis=0, weights=weights)
    deviation = np.sqrt(np.average(centred**2, axis=0, weights=weights))
    return centred[:, deviation > 1e-9] / deviation[deviation > 1e-9]
