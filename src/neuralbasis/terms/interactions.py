"""Screen: which pairs and triples of columns are worth a term.

The residuals of the main effects are summed in a small histogram over the bins of a candidate's columns; what its
margins explain is taken out (rows and columns of a pair, pairs of a triple), and what is left is weighed against noise.
Histograms of residuals are the idea of FAST (Lou et al., 2013). DIFF: FAST takes the best cut of each of two columns;
here several views of the whole histogram compete, each by its excess over what noise would explain (`rank_terms`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix
from ..encoding.axis import Axis
from ..encoding.layout import line_up
from .term import Term

MAX_BINS = 16
TRIPLE_BINS = 6
# Views of a histogram besides itself, by the order of a term: grids of so many merged bins an axis, and products of
# polynomials up to a degree along each axis.
GRIDS = {2: (4, 2), 3: (3, 2)}
DEGREES = {2: (2, 1), 3: (1,)}
CAUTION = 4.0  # noise deviations that a view with more degrees of freedom must make good
CHANCE = 0.1  # of picking a term from noise, by the view of one degree of freedom
MIN_OUTPUTS = 16  # where work is limited, leave out rows rather than outputs beyond this
MAX_WORK = 2e10  # rows × candidates × outputs
MAX_SHADOWS = 4096  # candidates that are looked at again after a pick
BLOCK = 64  # at most so many terms are worked on at a time, fewer of many outputs
SINGULAR = 1e-9  # share of the total weight below which a pivot is zero


@dataclass(frozen=True, eq=False)
class Bins:
    """Few bins a column, with the bins of all rows.

    Parameters
    ----------
    codes : (D, N) uint8, bin of every row
    mass : (D, max_bins) weight of every bin
    n_known : (D,) number of bins of known values; they come first, along the axis or, for levels, heaviest first
    n_bins : (D,) number of bins: one more than `n_known` where values are missing
    ordered : (D,) whether neighbouring bins are alike
    """

    codes: np.ndarray
    mass: np.ndarray
    n_known: np.ndarray
    n_bins: np.ndarray
    ordered: np.ndarray

    @property
    def max_bins(self) -> int:
        return self.mass.shape[1]

    def labels(self, max_bins: int) -> np.ndarray:
        """(D, bins) bin of every bin if there were `max_bins`; -1: none. Missing has its own, unless there are two."""
        labels = np.full(self.mass.shape, -1)
        for column, (mass, n_known, n_bins) in enumerate(zip(self.mass, self.n_known, self.n_bins, strict=True)):
            own = int(n_bins > n_known and max_bins > 2)
            known = _group(mass[:n_known], max_bins - own, self.ordered[column])
            labels[column, :n_known] = known
            if own:
                labels[column, n_known] = known.max(initial=-1) + 1
        return labels

    def merge(self, max_bins: int) -> Bins:
        """The same rows in at most so many bins a column, three or more."""
        if max_bins >= self.max_bins:
            return self
        labels = self.labels(max_bins)
        codes = np.stack([label.astype(np.uint8)[code] for label, code in zip(labels, self.codes, strict=True)])
        mass = np.einsum("db,dbm->dm", self.mass, _indicate(labels, max_bins))
        n_bins = labels.max(axis=1) + 1
        return Bins(codes, mass, n_bins - (self.n_bins > self.n_known), n_bins, self.ordered)

    def take(self, rows: np.ndarray) -> Bins:
        """A part of the rows in the same bins."""
        return Bins(self.codes[:, rows], self.mass, self.n_known, self.n_bins, self.ordered)


def bin_columns(
    positions: np.ndarray | SparseMatrix,
    axes: Sequence[Axis],
    weights: np.ndarray | None = None,
    max_bins: int = MAX_BINS,
    threads: int = 1,
) -> Bins:
    """Positions (N, D) of the rows on the columns' own axes -> few bins a column.

    Values of a continuous or ordinal column are grouped along the axis, about equal in weight; few values have a bin
    each. Of a nominal column the heaviest levels have a bin each, the others share one. Missing values and levels never
    seen have a bin of their own where there are any.
    """
    n_rows, n_columns = len(positions), len(axes)
    codes = np.empty((n_columns, n_rows), dtype=np.uint8)
    mass = np.zeros((n_columns, max_bins))
    counts = np.zeros((2, n_columns), dtype=np.int64)

    def work(_part, first, last):
        for block in range(first, last, 16):  # whole cache lines of positions
            columns = range(block, min(block + 16, last))
            for column, values in zip(columns, line_up(positions, columns), strict=True):
                n_known, n_bins = _bin_column(values, axes[column], weights, max_bins, codes[column])
                counts[:, column] = n_known, n_bins
                mass[column] = np.bincount(codes[column], weights, minlength=max_bins)
        return -1

    kernels.share_rows(work, n_columns, threads, min_rows=1)
    ordered = np.array([axis.kind != "nominal" for axis in axes], dtype=bool)
    return Bins(codes, mass, counts[0], counts[1], ordered)


def _bin_column(
    values: np.ndarray, axis: Axis, weights: np.ndarray | None, max_bins: int, out: np.ndarray
) -> tuple[int, int]:
    """Write the bins of a column's rows; returns the number of known bins and of all."""
    known = (values >= 1) & (values <= len(axis.knots))
    has_missing = not known.all() and (weights is None or bool((weights[~known] > 0).any()))
    distinct, mass = _weigh_values(values[known], None if weights is None else weights[known])
    labels = _group(mass, max_bins - has_missing, axis.kind != "nominal")
    n_known = int(labels.max(initial=-1)) + 1
    if axis.kind == "nominal":
        label_of = np.zeros(axis.n_cells, dtype=np.uint8)
        label_of[distinct.astype(np.int64)] = labels
        out[:] = label_of[values.astype(np.int64)]
    else:
        out[:] = 0
        for start in distinct[np.flatnonzero(np.diff(labels)) + 1]:  # faster than a search among so few
            out += values >= start
    out[~known] = n_known if has_missing else 0
    return n_known, n_known + has_missing


def _weigh_values(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Distinct values of positive weight in increasing order, and the weight of each."""
    if len(values) == 0:
        return values, np.empty(0)
    order = None if weights is None else np.argsort(values)
    values = np.sort(values) if order is None else values[order]
    starts = np.flatnonzero(np.r_[True, values[1:] != values[:-1]])
    if weights is None:
        return values[starts], np.diff(np.r_[starts, len(values)]).astype(float)
    mass = np.add.reduceat(weights[order].astype(float), starts)
    return values[starts][mass > 0], mass[mass > 0]


def _group(mass: np.ndarray, max_groups: int, ordered: bool) -> np.ndarray:
    """Group of every entry: neighbours of about equal weight together, or the heaviest alone and the others together.

    >>> _group(np.array([9.0, 1.0, 1.0, 2.0, 3.0]), 3, ordered=True).tolist()
    [0, 1, 1, 1, 2]
    >>> _group(np.array([1.0, 9.0, 1.0, 2.0, 3.0]), 3, ordered=False).tolist()
    [2, 0, 2, 2, 1]
    """
    if not ordered:
        groups = np.empty(len(mass), dtype=np.int64)
        groups[np.argsort(-mass, kind="stable")] = np.minimum(np.arange(len(mass)), max_groups - 1)
        return groups
    if len(mass) <= max_groups:
        return np.arange(len(mass))
    total, begins = np.cumsum(mass), [0]
    for left in range(max_groups, 1, -1):  # what a heavy entry takes is no longer to be shared
        before = total[begins[-1] - 1] if begins[-1] else 0.0
        wanted = before + (total[-1] - before) / left
        end = int(np.searchsorted(total, wanted))
        if end > begins[-1] and wanted - total[end - 1] < total[end] - wanted:
            end -= 1
        if end >= len(mass) - 1:
            break
        begins.append(end + 1)
    return np.repeat(np.arange(len(begins)), np.diff([*begins, len(mass)]))


def list_triples(pairs: Iterable[Sequence[int]], strong: bool = True) -> list[Term]:
    """Triples all of whose pairs (strong heredity) or at least two (weak) are among `pairs`.

    >>> list_triples([(0, 1), (1, 2), (0, 2), (2, 3)])
    [(0, 1, 2)]
    >>> list_triples([(0, 1), (1, 2), (0, 2), (2, 3)], strong=False)
    [(0, 1, 2), (0, 2, 3), (1, 2, 3)]
    """
    known = {(min(pair), max(pair)) for pair in pairs}
    partners: dict[int, set[int]] = {}
    for a, b in known:
        partners.setdefault(a, set()).add(b)
        partners.setdefault(b, set()).add(a)
    found = {tuple(sorted((a, *two))) for a, others in partners.items() for two in combinations(sorted(others), 2)}
    return sorted(term for term in found if not strong or known.issuperset(combinations(term, 2)))


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
    """Strength of every candidate: the share of the residuals' variance that it explains and its margins do not.

    A histogram holds W, the weight of a cell, and S, the sum of weighted residuals in it, the part of the margins
    taken out. Noise of variance 1 explains Σ S² / W = f on average and deviates by √(2 f), f being the degrees of
    freedom. Heavy tails let noise deviate more in small cells: with W + κ / 2 instead of W, κ the excess kurtosis of
    the residuals, f = Σ W / (W + κ / 2) and the deviation is √(2 f) again. A strength is the largest

        [Σ S² / (W + κ / 2) - f - CAUTION · (√(2 f) - √2)] / N

    over several views of the histogram (coarser grids, products of polynomials): a coarse view finds what is smooth
    or weak, a fine one what is sharp. Noise has strengths about 0, whatever the bins, also below 0; a candidate that
    cannot interact, with a column of one bin say, has 0.

    Parameters
    ----------
    bins : of the columns, see `bin_columns`
    residuals : (N, K) negative gradient of the loss at the main effects: y - score, y - p, one-hot - p
    weights : (N,) of the rows, as in the loss; whole numbers count rows, others are relative
    candidates : (T, 2) pairs or (T, 3) triples of columns; None: all pairs
    variances : (N, K) expected squares of the residuals up to a factor, p (1 - p) for classes; None: alike in all rows
    max_work : limit of rows × candidates × outputs, beyond which a sample of the rows must do
    rng : draws that sample

    Each output is divided by its own deviation, the strength is the mean over the outputs. Where `max_work` asks for
    less, many outputs are first replaced by their leading principal directions, 16 or more.

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis.encoding.axis import continuous_axis
    >>> from neuralbasis.encoding.layout import lay_out
    >>> X = np.random.default_rng(0).normal(size=(2000, 3))
    >>> y = X[:, 0] * X[:, 2] + np.random.default_rng(1).normal(size=2000)  # the product is half of the variance
    >>> layout = lay_out([continuous_axis(name, column) for name, column in zip("abc", X.T)], [(0,), (1,), (2,)], {})
    >>> bins = bin_columns(layout.encode(X), layout.axes)
    >>> abs(rank_terms(bins, y[:, None], candidates=[(0, 1), (0, 2), (1, 2)]).round(2)).tolist()
    [0.0, 0.44, 0.0]
    """
    terms = _read_candidates(candidates, len(bins.codes))
    tally = _make_tally(bins, residuals, weights, variances, terms, threads, max_work, rng)
    return tally.measure(terms)


def find_reach(
    bins: Bins,
    residuals: np.ndarray,
    chance: float | np.ndarray,
    weights: np.ndarray | None = None,
    candidates: Sequence[Sequence[int]] | np.ndarray | None = None,
    variances: np.ndarray | None = None,
    max_work: float = MAX_WORK,
) -> np.ndarray:
    """Strength that the strongest of the candidates has by this chance if all are noise; see `rank_terms`.

    Chances above 1 are numbers of candidates that are as strong. The shape is that of the chances.
    """
    terms = _read_candidates(candidates, len(bins.codes))
    noise = _make_tally(bins, residuals, weights, variances, terms, 1, max_work, None).noise
    return np.zeros(np.shape(chance)) if noise is None or not len(terms) else noise.reach(len(terms), chance)


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
    """At most `n_terms` candidates, one after the other, each the strongest on what those before it leave.

    Where columns are correlated, a strong interaction casts shadows on the candidates that share a column with it, and
    they would crowd out a weaker interaction of its own. What a picked term explains is therefore taken out of the
    residuals before the next is picked: the mean of each cell, shrunk by as much as its strength tells.

    Parameters
    ----------
    min_strength : picking ends below it; None: what the strongest of so many candidates would rarely have by chance
    strengths : of the candidates, where `rank_terms` has measured them before
    Others : see `rank_terms`

    Returns
    -------
    terms : in the order of picking
    strengths : of each when it was picked, as shares of the variance at the beginning
    """
    terms = _read_candidates(candidates, len(bins.codes))
    tally = _make_tally(bins, residuals, weights, variances, terms, threads, max_work, rng)
    strengths = tally.measure(terms) if strengths is None else strengths
    if min_strength is None:
        min_strength = float(tally.noise.reach(len(terms))) if tally.noise is not None and len(terms) else 0.0
    leading = np.argsort(-strengths, kind="stable")[:MAX_SHADOWS]
    return _pick(tally, terms[leading], strengths[leading], n_terms, max(min_strength, 0.0))


def _pick(
    tally: _Tally, terms: np.ndarray, strengths: np.ndarray, n_terms: int, min_strength: float
) -> tuple[list[Term], np.ndarray]:
    measured = np.zeros(len(terms), dtype=np.int64)  # when so many had been picked
    picked: list[int] = []
    found: list[float] = []
    while len(picked) < min(n_terms, len(terms)):
        best = int(np.argmax(strengths))
        if strengths[best] <= min_strength:
            break
        if measured[best] < len(picked):  # strengths hardly grow: those behind need no second look yet
            again = np.argsort(-strengths, kind="stable")[: BLOCK * tally.threads]
            again = again[measured[again] < len(picked)]
            strengths[again], measured[again] = tally.measure(terms[again]), len(picked)
            continue
        picked.append(best)
        found.append(strengths[best])
        tally.take_out(terms[best], strengths[best])
        strengths[best], measured[best] = -np.inf, n_terms
    return [tuple(sorted(term)) for term in terms[picked].tolist()], np.array(found)


def _read_candidates(candidates: Sequence[Sequence[int]] | np.ndarray | None, n_columns: int) -> np.ndarray:
    """(T, 2) or (T, 3) columns of every candidate."""
    if candidates is None:
        return np.stack(np.triu_indices(n_columns, 1), axis=1)
    terms = np.array(candidates, dtype=np.int64, ndmin=2)
    if terms.size and (terms.shape[1] not in (2, 3) or terms.min() < 0 or terms.max() >= n_columns):
        raise ValueError(
            f"candidates must be all pairs or all triples of columns 0 … {n_columns - 1}, not {terms[:3].tolist()} …"
        )
    return terms if terms.size else terms.reshape(0, 2)


@dataclass(frozen=True)
class _Noise:
    """What noise does in a histogram.

    n_rows : what weights count
    shrink : κ / 2, added to the weight of a cell
    variance : of all outputs together
    first_variance : the same before anything was taken out
    n_outputs : how many independent outputs would vary as much
    """

    n_rows: float
    shrink: float
    variance: float
    first_variance: float
    n_outputs: float

    def reach(self, n_terms: int, chance: float | np.ndarray = CHANCE) -> np.ndarray:
        """Strength that so many candidates of noise exceed by this chance, one degree of freedom an output each."""
        from scipy.special import chdtri

        return (chdtri(self.n_outputs, chance / n_terms) - self.n_outputs) / (self.n_outputs * self.n_rows)


@dataclass(eq=False)
class _Tally:
    """Binned rows with the weights and residuals (N, 1 + K) that are counted in histograms."""

    bins: Bins
    data: np.ndarray
    noise: _Noise | None
    views: _Views
    threads: int

    def measure(self, terms: np.ndarray) -> np.ndarray:
        """Strengths of terms (T, order)."""
        strengths, noise = np.zeros(len(terms)), self.noise
        if noise is None:
            return strengths
        size = int(np.clip(8 * BLOCK / self.data.shape[1], 8, BLOCK))

        def work(_part, first, last):
            for start in range(first * size, min(last * size, len(terms)), size):
                part = terms[start : start + size]
                histogram = _count(part, self.bins, self.data)
                strengths[start : start + size] = _measure(histogram, part, self.views, noise)
            return -1

        kernels.share_rows(work, -(-len(terms) // size), self.threads, min_rows=1)
        return strengths

    def take_out(self, term: np.ndarray, strength: float) -> None:
        """Subtract a term's shrunken cell means from the residuals: their variance is the strength, that of rows 1."""
        assert self.noise is not None
        cells = _lay_out(_count(term[None], self.bins, self.data), len(term), self.bins.max_bins)
        rest = _fit_margins(cells[:, 0], cells[:, 1:], len(term)).remove_from(cells[:, 1:])
        means = rest / (cells[:, :1] + 1 / strength)
        gain = (means * (2 * rest - cells[:, :1] * means)).sum() / self.noise.n_rows
        self.noise = replace(self.noise, variance=self.noise.variance - gain)
        place = _find_cells(term, self.bins)
        self.data[:, 1:] -= self.data[:, :1] * means.reshape(means.shape[1], -1).T[place].astype(np.float32)


def _make_tally(
    bins: Bins,
    residuals: np.ndarray,
    weights: np.ndarray | None,
    variances: np.ndarray | None,
    terms: np.ndarray,
    threads: int,
    max_work: float,
    rng: np.random.Generator | None,
) -> _Tally:
    limit = max_work / max(len(terms), 1)  # rows × outputs
    max_outputs = max(int(limit / len(residuals)), MIN_OUTPUTS)
    n_rows = max(int(limit / min(residuals.shape[1], max_outputs)), 1)
    if n_rows < len(residuals):
        rows = np.sort((rng or np.random.default_rng(0)).permutation(len(residuals))[:n_rows])
        bins, residuals = bins.take(rows), residuals[rows]
        weights, variances = (None if values is None else values[rows] for values in (weights, variances))
    if terms.shape[1] == 3:
        bins = bins.merge(TRIPLE_BINS)
    data, noise = _normalise(residuals, weights, variances, max_outputs)
    return _Tally(bins, data, noise, _make_views(bins, terms.shape[1]), threads)


def _normalise(
    residuals: np.ndarray, weights: np.ndarray | None, variances: np.ndarray | None, max_outputs: int
) -> tuple[np.ndarray, _Noise | None]:
    """(N, 1 + K) weight and weighted residuals of variance 1, as the histograms sum them; no noise if all are 0."""
    weights = np.ones(len(residuals)) if weights is None else np.asarray(weights, dtype=float)
    if not (weights == np.floor(weights)).all():
        weights = weights * (np.count_nonzero(weights) / weights.sum())
    share = weights / max(weights.sum(), np.finfo(float).tiny)
    if variances is None:
        variances = np.ones((len(residuals), 1))
    if residuals.shape[1] > max_outputs:  # frequent and confused classes lead
        residuals = residuals @ np.linalg.eigh(_scatter(residuals, share))[1][:, -max_outputs:]
        variances = variances.sum(axis=1, keepdims=True)
    squares, mean = share @ np.square(residuals, dtype=float), share @ variances
    if not (squares.any() and mean.any()):
        return residuals, None
    outputs = residuals[:, squares > 0] / np.sqrt(squares[squares > 0])
    expected = (variances[:, mean > 0] / mean[mean > 0]).mean(axis=1)
    kurtosis = (share @ np.square(np.square(outputs))).mean() - 3 * (share @ np.square(expected))
    variance = float(outputs.shape[1])
    n_outputs = variance**2 / np.square(_scatter(outputs, share)).sum()
    noise = _Noise(weights.sum(), max(kurtosis / 2, 0.0), variance, variance, n_outputs)
    data = np.concatenate([expected[:, None], outputs], axis=1) * weights[:, None]
    return np.ascontiguousarray(data, dtype=np.float32), noise


def _scatter(outputs: np.ndarray, share: np.ndarray) -> np.ndarray:
    """(K, K) mean products of the outputs."""
    return (outputs * share[:, None]).T @ outputs


def _count(terms: np.ndarray, bins: Bins, data: np.ndarray) -> np.ndarray:
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


def _lay_out(histogram: np.ndarray, order: int, n_bins: int) -> np.ndarray:
    """(T, cells, C) -> (T, C, F, L): the last axis of a term apart from the others."""
    return np.swapaxes(histogram, 1, 2).reshape(len(histogram), -1, n_bins ** (order - 1), n_bins)


@dataclass(frozen=True, eq=False)
class _Views:
    """Matrices that make a view of a histogram, one a column.

    merges : grid -> (D, bins of the grid, bins) 1 where a bin belongs to a bin of the grid
    polynomials : (D, degrees, bins) values at the bins, without the constant
    degrees : for each view the products of polynomials that it uses
    """

    merges: dict[int, np.ndarray]
    polynomials: np.ndarray
    degrees: list[list[int]]


def _make_views(bins: Bins, order: int) -> _Views:
    grids = [grid for grid in GRIDS[order] if grid < bins.max_bins]
    merges = {grid: np.swapaxes(_indicate(bins.labels(grid), grid), 1, 2).copy() for grid in grids}
    is_known = np.arange(bins.max_bins) < bins.n_known[:, None]
    mass = np.where(is_known, bins.mass, 0.0)
    total = np.maximum(mass.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    rank = 2 * (np.cumsum(mass, axis=1) - mass / 2) / total - 1
    most = max(DEGREES[order])
    legendre = np.polynomial.legendre.legvander(rank, most)[..., 1:] * is_known[..., None]
    products = list(np.ndindex(*[most] * order))
    degrees = [[i for i, part in enumerate(products) if max(part) < degree] for degree in DEGREES[order]]
    return _Views(merges, np.swapaxes(legendre, 1, 2).copy(), degrees)


def _indicate(labels: np.ndarray, n_labels: int) -> np.ndarray:
    """(D, bins, labels) 1 where a bin has a label."""
    return (labels[..., None] == np.arange(n_labels)).astype(float)


def _measure(histogram: np.ndarray, terms: np.ndarray, views: _Views, noise: _Noise) -> np.ndarray:
    """Strength of every term from its histogram (T, cells, 1 + K): the best of its views."""
    order, n_bins = terms.shape[1], views.polynomials.shape[2]
    cells = _lay_out(histogram, order, n_bins)
    weight, n_outputs = cells[:, 0], cells.shape[1] - 1
    products = _kron([views.polynomials[column] for column in terms.T]).reshape(len(terms), -1, *weight.shape[1:])
    sums = np.concatenate([cells[:, 1:], weight[:, None] * products], axis=1)
    margins = _fit_margins(weight, sums, order)
    cells[:, 1:] = margins.remove_from(sums[:, :n_outputs])
    found = [_explain_cells(cells, margins.freedom, noise)]
    found += [_explain_products(products, sums, margins, chosen, noise) for chosen in views.degrees]
    for merge in views.merges.values():
        left, right = _kron([merge[column] for column in terms.T[:-1]]), np.swapaxes(merge[terms[:, -1]], 1, 2)
        coarse = left[:, None] @ cells @ right[:, None]
        margins = _fit_margins(coarse[:, 0], coarse[:, 1:], order)
        coarse[:, 1:] = margins.remove_from(coarse[:, 1:])
        found.append(_explain_cells(coarse, margins.freedom, noise))
    best = np.max(found, axis=0)
    return np.where(np.isfinite(best), best, 0.0)


def _kron(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Kronecker product of matrices (T, i, j), (T, k, l), … for each T: (T, i · k …, j · l …)"""
    found = parts[0]
    for part in parts[1:]:
        wide = found[:, :, None, :, None] * part[:, None, :, None, :]
        found = wide.reshape(len(part), found.shape[1] * part.shape[1], -1)
    return found


def _explain_cells(cells: np.ndarray, freedom: np.ndarray, noise: _Noise) -> np.ndarray:
    """Score of a grid: weight and what margins leave of the sums, (T, 1 + K, F, L); degrees of freedom (T,)."""
    weight = cells[:, 0]
    inverse = np.divide(1.0, weight + noise.shrink, out=np.zeros_like(weight), where=weight > 0)
    explained = (np.square(cells[:, 1:]).sum(axis=1) * inverse).sum(axis=(1, 2))
    kept = (weight * inverse).sum(axis=(1, 2)) / np.maximum(np.count_nonzero(weight, axis=(1, 2)), 1)
    return _score(explained, freedom * kept, noise)


def _explain_products(
    products: np.ndarray, sums: np.ndarray, margins: _Margins, chosen: list[int], noise: _Noise
) -> np.ndarray:
    """Score of the chosen products (T, Q, F, L) of polynomials, by least squares beside the margins.

    sums (T, K + Q, F, L): those of the outputs, then the weighted products themselves.
    """
    n_outputs = sums.shape[1] - products.shape[1]
    flat = products[:, chosen].reshape(len(products), len(chosen), -1)
    rows = [n_outputs + index for index in chosen]
    inner = flat @ np.swapaxes(sums.reshape(*sums.shape[:2], -1), 1, 2) - margins.explain(rows)  # (T, chosen, K + Q)
    target = inner[..., :n_outputs]
    solution, rank = _eliminate(inner[..., rows], target, SINGULAR * margins.total.sum(axis=1))
    return _score((target * solution).sum(axis=(1, 2)), rank, noise)


def _score(explained: np.ndarray, freedom: np.ndarray, noise: _Noise) -> np.ndarray:
    """(T,) cautious share of the variance; nothing where no freedom is left."""
    caution = CAUTION * (np.sqrt(2 * np.maximum(freedom, 1)) - np.sqrt(2)) / np.sqrt(noise.n_outputs)
    surplus = explained - noise.variance * (freedom + caution)
    return np.where(freedom > 0, surplus / (noise.first_variance * noise.n_rows), -np.inf)


@dataclass(frozen=True, eq=False)
class _Margins:
    """Least squares fit of a term's margins to sums (T, C, F, L), the last axis of the term apart from the others.

    Means of the first margin, over F, are taken out at once; the other margins, P of them for every F, hold the last
    axis and solve a small system of P · L unknowns.

    weight : (T, F, L), total : (T, F) its sums, share : (T, F, L) its parts of them
    links : (F, P) which of the other margins a cell has
    first : (T, C, F) sums of the first margin
    target, solution : (T, C, P · L) of the system
    freedom : (T,) degrees of freedom that are left
    """

    weight: np.ndarray
    total: np.ndarray
    share: np.ndarray
    links: np.ndarray
    first: np.ndarray
    target: np.ndarray
    solution: np.ndarray
    freedom: np.ndarray

    def remove_from(self, sums: np.ndarray) -> np.ndarray:
        """What is left of the leading sums (T, …, F, L)."""
        n_terms, n_sums, _, n_last = sums.shape
        fit = self.links @ self.solution[:, :n_sums].reshape(n_terms, n_sums, -1, n_last)
        means = _divide(self.first[:, :n_sums], self.total[:, None]) - (fit * self.share[:, None]).sum(axis=3)
        fit += means[..., None]
        fit *= self.weight[:, None]
        return sums - fit

    def explain(self, rows: list[int]) -> np.ndarray:
        """(T, rows, C) products of some of the sums with all sums, as far as the margins explain them."""
        first = _divide(self.first[:, rows], self.total[:, None]) @ np.swapaxes(self.first, 1, 2)
        return first + self.target[:, rows] @ np.swapaxes(self.solution, 1, 2)


def _divide(values: np.ndarray, by: np.ndarray) -> np.ndarray:
    """0 where nothing is to divide by."""
    return np.divide(values, by, out=np.zeros_like(values), where=by > 0)


def _fit_margins(weight: np.ndarray, sums: np.ndarray, order: int) -> _Margins:
    links = _link_margins(order, weight.shape[2])
    total, first = weight.sum(axis=2), sums.sum(axis=3)
    share = _divide(weight, total[..., None])
    spread = (links[:, :, None] * share[:, :, None]).reshape(*total.shape, -1)  # (T, F, P · L)
    target = (links.T @ sums).reshape(*sums.shape[:2], -1) - first @ spread
    system = _margin_system(weight, spread, links)
    solution, rank = _eliminate(system, np.swapaxes(target, 1, 2), SINGULAR * total.sum(axis=1))
    freedom = np.count_nonzero(weight, axis=(1, 2)) - np.count_nonzero(total, axis=1) - rank
    return _Margins(weight, total, share, links, first, target, np.swapaxes(solution, 1, 2), freedom)


def _margin_system(weight: np.ndarray, spread: np.ndarray, links: np.ndarray) -> np.ndarray:
    """(T, P · L, P · L) normal equations of the margins that hold the last axis, the first margin taken out."""
    (n_terms, n_first, n_last), n_links = weight.shape, links.shape[1]
    heavy = (links[:, :, None] * weight[:, :, None]).reshape(n_terms, n_first, -1)
    system = -(np.swapaxes(heavy, 1, 2) @ spread)
    both = (links[:, :, None] * links[:, None]).reshape(n_first, -1)  # (F, P · P)
    same = np.arange(n_last)
    diagonal = np.moveaxis(both.T @ weight, 2, 0).reshape(n_last, n_terms, n_links, n_links)
    system.reshape(n_terms, n_links, n_last, n_links, n_last)[:, :, same, :, same] += diagonal
    return system


def _link_margins(order: int, n_bins: int) -> np.ndarray:
    """(F, P) margins a cell of the first axes has besides its own: one of a pair, (a, ·) and (b, ·) of a triple."""
    if order == 2:
        return np.ones((n_bins, 1))
    return np.concatenate([np.repeat(np.eye(n_bins), n_bins, axis=0), np.tile(np.eye(n_bins), (n_bins, 1))], axis=1)


def _eliminate(system: np.ndarray, target: np.ndarray, tolerance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Solve symmetric systems (T, U, U) that may be singular, target (T, U, K); also their ranks.

    Gauss-Jordan without pivoting, safe for matrices without negative eigenvalues; an unknown whose pivot is at most
    the tolerance (T,) is 0.
    """
    size = system.shape[1]
    table = np.moveaxis(np.concatenate([system, target], axis=2), 0, 2).copy()  # long loops over T
    rank = np.zeros(len(system))
    for index in range(size):
        pivot = table[index, index].copy()
        regular = pivot > tolerance
        rank += regular
        row = table[index, index:]
        row *= np.divide(1.0, pivot, out=np.zeros_like(pivot), where=regular)
        factor = table[:, index].copy()
        factor[index] = 0.0
        table[:, index:] -= factor[:, None] * row
    return np.moveaxis(table[:, size:], 2, 0), rank
