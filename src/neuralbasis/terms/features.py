"""Selection: which columns of a very wide table get a term.

With many columns and few rows, the best of the columns fit noise, and rows that helped to choose a column cannot tell
whether it helps. So every member chooses for itself, without the rows that it holds out, and speaks of its own columns
only; the rows it holds out stay honest judges, and what few members chose weighs little in their mean.
A member follows a path: the column that explains most of what is left, then all columns so far fitted together, then
the next (orthogonal matching pursuit). The held-out rows of all members say how long the paths should be.
Columns are read once, in blocks, and cut into few bins: a byte a cell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import chdtri

from .. import kernels
from ..data.sparse import SparseMatrix
from ..data.target import is_whole
from ..encoding.axis import continuous_axis

N_BINS = 2 * kernels.N_GROUPS  # of known values; one more is for missing ones
DEGREES = np.array([1, 2, kernels.N_GROUPS - 1, 1])  # degrees of freedom of the views: line, parabola, groups, jump
N_TRIED = np.array([1, 1, 1, N_BINS - 1])  # a jump may be anywhere
BLOCK_CELLS = 1 << 22  # cells cut into bins at a time
MAX_ROWS = 20_000  # rows that take part, beyond which a sample must do
MAX_OUTPUTS = 8  # leading directions of the residuals of many classes
MAX_LEADING = 2000  # columns that a member looks at again after a pick; the others wait for the next round
ROUNDS = 5, 10, 20, 40, 80, 160, 320, 640  # picks after which all columns are looked at again
RIDGES = 0.03, 0.3, 1.0  # of the joint fit, times the variance of a contrast: strong effects, or many weak ones
MAX_SHARE = 0.5  # contrasts for each row of the joint fit
MIN_VOTES = 2  # members that chose a column
STRETCH = 2.0  # times as long as paths that fit best by themselves: the net shrinks what says little


@dataclass(frozen=True, eq=False)
class Selection:
    """features : (F,) chosen columns, increasing; member_mask : (F, M) whether a member chose the column"""

    features: np.ndarray
    member_mask: np.ndarray


@dataclass(frozen=True, eq=False)
class Cells:
    """codes (D, N): bin of every row, `N_BINS` where it is missing; reach (2, views): see `kernels.find_view`"""

    codes: np.ndarray
    reach: np.ndarray
    threads: int = 1

    def weigh(self, data: np.ndarray, n_members: int) -> np.ndarray:
        """Strengths (D, M) of the columns for the rows' data (N, M · (1 + K)): weights and weighted residuals."""
        strengths = np.empty((len(self.codes), n_members))

        def work(_part, first, last):
            return kernels.weigh_columns(first, last, self.codes, data, self.reach, strengths)

        kernels.share_rows(work, len(self.codes), self.threads, min_rows=256)
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
    """Choose columns by what they say about the residuals, apart for each member.

    Parameters
    ----------
    numbers : (any, D) raw values of the columns, NaN for missing, float32 or float64
    rows : (N,) rows of `numbers` that take part, in the order of what follows
    residuals : (N, K) negative gradient of the loss at the constant model
    weights : (N,) of the rows
    held_out : (N, M) rows that a member must not see
    names : of the columns; equal columns are taken in the order of names
    candidates : columns that may be chosen; None: all
    max_terms : number of columns to choose; None: as many as the held-out rows confirm
    rng : draws the rows that take part where there are very many

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(200, 1000)).astype(np.float32)
    >>> y = X[:, 7] + np.abs(X[:, 30]) + 0.3 * rng.normal(size=200)
    >>> held_out = np.arange(200)[:, None] % 5 == np.arange(3)
    >>> names = [f"c{i}" for i in range(1000)]
    >>> found = select_columns(X, np.arange(200), y[:, None], np.ones(200), held_out, names, max_terms=2)
    >>> found.features.tolist(), found.member_mask.all()
    ([7, 30], np.True_)
    """
    if len(rows) > MAX_ROWS:
        part = np.sort((rng or np.random.default_rng(0)).choice(len(rows), MAX_ROWS, replace=False))
        rows, residuals, weights, held_out = rows[part], residuals[part], weights[part], held_out[part]
    by_name = np.array(sorted(range(len(names)) if candidates is None else candidates, key=names.__getitem__))
    weights = weights if is_whole(weights) else weights / weights.mean()
    residuals = _lead(residuals, weights)
    degrees = max(1, residuals.shape[1] - 1) * np.stack([DEGREES, DEGREES + 1])
    reach = np.asarray(chdtri(degrees, np.minimum(0.5, 1 / len(by_name)) / N_TRIED))
    cells = Cells(cut_columns(numbers, rows, weights, names, by_name, threads), reach, threads)
    trials = [[_Path.begin(residuals, weights, held, ridge) for held in held_out.T] for ridge in RIDGES]
    lengths = [_follow(paths, cells, max_terms) for paths in trials]
    best = int(np.argmin([_mean_losses(paths).min() for paths in trials]))
    chosen = sorted(_elect(trials[best], lengths[best], max_terms), key=by_name.__getitem__)
    member_mask = [[column in path.picked[: lengths[best]] for path in trials[best]] for column in chosen]
    return Selection(by_name[chosen], np.array(member_mask, dtype=bool))


def _elect(paths: Sequence[_Path], length: int, max_terms: int | None) -> list[int]:
    """Columns with the most votes, those picked earlier first; without a requested number, all with enough votes."""
    votes = _count_votes(paths, length)
    ranks = {
        column: sum(path.picked.index(column) if column in path.picked[:length] else length for path in paths)
        for column in votes
    }
    ranked = sorted(votes, key=lambda column: (-votes[column], ranks[column], column))
    if max_terms is not None:
        return ranked[:max_terms]
    return [column for column in ranked if _is_elected(votes[column], paths)] or ranked[:1]


def _count_votes(paths: Sequence[_Path], length: int) -> Counter[int]:
    return Counter(column for path in paths for column in path.picked[:length])


def _is_elected(votes: int, paths: Sequence[_Path]) -> bool:
    """What a single member of several chose is mostly noise."""
    return votes >= min(MIN_VOTES, len(paths))


def _lead(residuals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Centred residuals; those of very many classes along their leading directions."""
    centred = residuals - np.average(residuals, axis=0, weights=weights)
    if centred.shape[1] <= MAX_OUTPUTS:
        return centred
    directions = np.linalg.eigh((centred * weights[:, None]).T @ centred)[1]
    return centred @ directions[:, -MAX_OUTPUTS:]


def cut_columns(
    numbers: np.ndarray | SparseMatrix,
    rows: np.ndarray,
    weights: np.ndarray,
    names: Sequence[str],
    by_name: np.ndarray,
    threads: int,
) -> np.ndarray:
    """Bins of the columns `by_name`, in that order: values of about equal weight, the last bin is missing."""
    codes = np.empty((len(by_name), len(rows)), dtype=np.uint8)
    place = np.full(len(names), -1)
    place[by_name] = np.arange(len(by_name))
    share = None if (weights == weights[0]).all() else weights
    step = max(1, BLOCK_CELLS // len(numbers))

    def work(_part, first, last):
        for begin in range(first, last, step):
            columns = slice(begin, min(begin + step, last))
            values = numbers.read_block(columns) if isinstance(numbers, SparseMatrix) else numbers[:, columns]
            if not np.isfinite(values).all():
                _refuse(values, values[rows], names[columns])
            where = place[columns]
            codes[where[where >= 0]] = _cut(np.ascontiguousarray(values[rows].T[where >= 0]), share)
        return -1

    kernels.share_rows(work, len(names), threads, min_rows=256)
    return codes


def _refuse(values: np.ndarray, seen: np.ndarray, names: Sequence[str]) -> None:
    """The error of an axis for a column with infinite values, or with missing ones only."""
    wrong = np.isinf(values).any(axis=0) | np.isnan(seen).all(axis=0)
    if wrong.any():
        column = int(np.argmax(wrong))
        continuous_axis(names[column], values[:, column].astype(float))


def _cut(values: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
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
    for k in range(N_BINS - 1):  # above an edge counts twice, on it once: a rare lowest value is told from the next
        codes += values > edges[:, k : k + 1]
        codes += values >= edges[:, k : k + 1]
    codes //= 2
    codes[np.isnan(values)] = N_BINS
    return codes


def _follow(paths: Sequence[_Path], cells: Cells, max_terms: int | None) -> int:
    """Lead all members along their paths; returns the length at which they should end."""
    for n_picks in ROUNDS:
        data = np.ascontiguousarray(np.concatenate([path.data() for path in paths], axis=1))
        strengths = cells.weigh(data, len(paths))

        def work(_part, first, last, strengths=strengths, n_picks=n_picks):
            for index in range(first, last):
                paths[index].advance(cells, strengths[:, index], n_picks)
            return -1

        kernels.share_rows(work, len(paths), cells.threads, min_rows=1)
        length = min(len(path.picked) for path in paths)
        if max_terms is not None:
            enough = [n for n in range(length + 1) if _count_elected(paths, n) >= max_terms]
            if enough or length < n_picks:
                return enough[0] if enough else length
            continue
        best = max(1, round(STRETCH * int(np.argmin(_mean_losses(paths)))))
        if best <= length or length < n_picks:
            return min(best, length)
    return length


def _mean_losses(paths: Sequence[_Path]) -> np.ndarray:
    """Of held-out rows, for every length that all members have reached."""
    length = min(len(path.losses) for path in paths)
    return np.mean([path.losses[:length] for path in paths], axis=0)


def _count_elected(paths: Sequence[_Path], length: int) -> int:
    return sum(_is_elected(votes, paths) for votes in _count_votes(paths, length).values())


@dataclass(eq=False)
class _Path:
    """One member: what its columns so far leave of the residuals, and the loss of the rows it holds out."""

    target: np.ndarray  # (N, K)
    ridge: float
    weights: np.ndarray  # (N,), 0 where held out
    judges: np.ndarray  # (N,), 0 where not
    left: np.ndarray
    design: np.ndarray  # (N, contrasts)
    picked: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    is_full: bool = False

    @classmethod
    def begin(cls, residuals: np.ndarray, weights: np.ndarray, held: np.ndarray, ridge: float) -> _Path:
        own, judges = np.where(held, 0.0, weights), np.where(held, weights, 0.0)
        left = residuals - np.average(residuals, axis=0, weights=own)
        path = cls(left, ridge, own, judges, left, np.empty((len(left), 0)))
        path.losses.append(path.loss())
        return path

    def loss(self) -> float:
        return float((self.judges[:, None] * self.left**2).sum() / max(self.judges.sum(), 1e-12))

    def data(self) -> np.ndarray:
        """(N, 1 + K) weights and weighted residuals, scaled to what noise of variance 1 would be."""
        n_outputs = self.left.shape[1]
        square = np.average(self.left**2, axis=0, weights=self.weights)
        scale = np.sqrt(max(1, n_outputs - 1) / n_outputs / np.maximum(square, 1e-300))
        return np.concatenate([self.weights[:, None], self.weights[:, None] * self.left * scale], axis=1)

    def advance(self, cells: Cells, strengths: np.ndarray, n_picks: int) -> None:
        """Pick columns among the strongest until there are `n_picks`."""
        leading = np.sort(np.argsort(-strengths, kind="stable")[:MAX_LEADING])
        few = Cells(cells.codes[leading], cells.reach)
        waiting = ~np.isin(leading, self.picked)
        while len(self.picked) < n_picks and waiting.any() and not self.is_full:
            found = np.where(waiting, few.weigh(self.data(), 1)[:, 0], -np.inf)
            best = int(np.argmax(found))
            waiting[best] = False
            self.add(int(leading[best]), few.codes[best], cells.reach)

    def add(self, column: int, codes: np.ndarray, reach: np.ndarray) -> None:
        """Fit all contrasts so far together with those of this column's best view."""
        sums = np.zeros((N_BINS + 1, self.left.shape[1] + 1))
        np.add.at(sums, codes, self.data())
        contrasts = _contrast(codes, kernels.find_view(sums, reach)[1], self.weights)
        self.design = np.concatenate([self.design, contrasts], axis=1)
        weighted = self.design * self.weights[:, None]
        square = weighted.T @ self.design
        square[np.diag_indices_from(square)] += self.ridge * self.weights.sum()
        self.left = self.target - self.design @ np.linalg.solve(square, weighted.T @ self.target)
        self.picked.append(column)
        self.losses.append(self.loss())
        self.is_full = self.design.shape[1] > MAX_SHARE * np.count_nonzero(self.weights)


def _contrast(codes: np.ndarray, view: int, weights: np.ndarray) -> np.ndarray:
    """(N, contrasts) of mean 0 and deviation 1 that a view consists of, and one of missing values."""
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
