"""Binning: columns in few bins, for the screening of interactions.

Input: positions of the rows on the columns' axes. Output: `Bins`, at most 16 bins per column by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..data.sparse import SparseMatrix
from ..encoding.axis import Axis
from ..encoding.layout import line_up


@dataclass(frozen=True, eq=False)
class Bins:
    """Binned columns."""

    codes: np.ndarray  # (D, N) uint8, bin of every row
    mass: np.ndarray  # (D, max_bins) weight of every bin
    n_known: (
        np.ndarray
    )  # (D,) bins of known values; they come first, in the order of the axis, or nominal of the weight
    n_bins: np.ndarray  # (D,) number of bins: one more than `n_known` if values are missing
    ordered: np.ndarray  # (D,) whether neighbouring bins hold similar values

    @property
    def max_bins(self) -> int:
        return self.mass.shape[1]

    def coarse_labels(self, max_bins: int) -> np.ndarray:
        """(D, bins) coarse bin of every bin, -1 for none.

        Missing values have their own coarse bin if `max_bins` is above 2, otherwise none.
        """
        labels = np.full(self.mass.shape, -1)
        for column, (mass, n_known, n_bins) in enumerate(zip(self.mass, self.n_known, self.n_bins, strict=True)):
            has_missing = int(n_bins > n_known and max_bins > 2)
            known = _group_by_mass(mass[:n_known], max_bins - has_missing, self.ordered[column])
            labels[column, :n_known] = known
            if has_missing:
                labels[column, n_known] = known.max(initial=-1) + 1
        return labels

    def merge(self, max_bins: int) -> Bins:
        """Merge neighbouring bins until no column has more than `max_bins`, which is at least 3."""
        if max_bins >= self.max_bins:
            return self
        labels = self.coarse_labels(max_bins)
        codes = np.stack([label.astype(np.uint8)[code] for label, code in zip(labels, self.codes, strict=True)])
        mass = np.einsum("db,dbm->dm", self.mass, one_hot(labels, max_bins))
        n_bins = labels.max(axis=1) + 1
        return Bins(codes, mass, n_bins - (self.n_bins > self.n_known), n_bins, self.ordered)

    def take(self, rows: np.ndarray) -> Bins:
        """Select rows; the bins and their weights stay."""
        return Bins(self.codes[:, rows], self.mass, self.n_known, self.n_bins, self.ordered)


def bin_columns(
    positions: np.ndarray | SparseMatrix,
    axes: Sequence[Axis],
    weights: np.ndarray | None = None,
    max_bins: int = 16,
    threads: int = 1,
) -> Bins:
    """Bin columns, given the positions (N, D) of the rows on the columns' own axes.

    Continuous and ordinal columns have bins of about equal weight along the axis; a column with few distinct values has
    one bin per value. In nominal columns the heaviest levels have a bin each and the others share one. Missing values
    and unseen levels share a separate bin.
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
    """Write the bins of one column to `out`; returns the number of bins of known values and of all bins."""
    known = (values >= 1) & (values <= len(axis.knots))
    has_missing = not known.all() and (weights is None or bool((weights[~known] > 0).any()))
    distinct, mass = _sum_weights(values[known], None if weights is None else weights[known])
    labels = _group_by_mass(mass, max_bins - has_missing, axis.kind != "nominal")
    n_known = int(labels.max(initial=-1)) + 1
    if axis.kind == "nominal":
        label_of = np.zeros(axis.n_cells, dtype=np.uint8)
        label_of[distinct.astype(np.int64)] = labels
        out[:] = label_of[values.astype(np.int64)]
    else:
        out[:] = 0
        for start in distinct[np.flatnonzero(np.diff(labels)) + 1]:  # faster than a binary search among 16
            out += values >= start
    out[~known] = n_known if has_missing else 0
    return n_known, n_known + has_missing


def _sum_weights(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
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


def _group_by_mass(mass: np.ndarray, max_groups: int, ordered: bool) -> np.ndarray:
    """Group of every entry: neighbours in groups of about equal weight, or the heaviest alone and the others together.

    >>> _group_by_mass(np.array([9.0, 1.0, 1.0, 2.0, 3.0]), 3, ordered=True).tolist()
    [0, 1, 1, 1, 2]
    >>> _group_by_mass(np.array([1.0, 9.0, 1.0, 2.0, 3.0]), 3, ordered=False).tolist()
    [2, 0, 2, 2, 1]
    """
    if not ordered:
        groups = np.empty(len(mass), dtype=np.int64)
        groups[np.argsort(-mass, kind="stable")] = np.minimum(np.arange(len(mass)), max_groups - 1)
        return groups
    if len(mass) <= max_groups:
        return np.arange(len(mass))
    total, begins = np.cumsum(mass), [0]
    for n_left in range(max_groups, 1, -1):  # a heavy entry exceeds its share: divide the remaining weight again
        before = total[begins[-1] - 1] if begins[-1] else 0.0
        target = before + (total[-1] - before) / n_left
        end = int(np.searchsorted(total, target))
        if end > begins[-1] and target - total[end - 1] < total[end] - target:
            end -= 1
        if end >= len(mass) - 1:
            break
        begins.append(end + 1)
    return np.repeat(np.arange(len(begins)), np.diff([*begins, len(mass)]))


def one_hot(labels: np.ndarray, n_labels: int) -> np.ndarray:
    """(D, bins) labels -> (D, bins, labels), 1 where a bin has the label; -1 gives zeros."""
    return (labels[..., None] == np.arange(n_labels)).astype(float)
