"""Guide tables: they map a value to the few knots around it, which shortens the search for its position.

In: knots of axes. Out: one flat table for all axes and a line (start, scale, last bucket) per axis. A value v lies in
bucket j = (v - start) · scale, clipped to 0 … last bucket, and between the knots guide[j] and guide[j + 1].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

MANY_AXES, FEW_KNOTS = 2048, 32
BUCKETS, MAX_BUCKETS = 16, 2048  # of a guide table: per knot, and at most
MAX_COMPARED = 4096  # knots used to compare ranges of the buckets
_LOW, _HIGH = (0.0, 0.1, 0.25), [share / 20 for share in range(10, 21)]  # candidate ranges, as shares of the knots


def join_guides(knots: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The guide tables of A axes in one array, where each starts (A,), and their lines (A, 3).

    With very many axes, those with equally few knots share a table of one bucket: their search costs little, and guide
    tables that exceed the processor's cache would not help.
    """
    few = 2 if len(knots) <= MANY_AXES else FEW_KNOTS
    start_of: dict[int, int] = {}
    tables: list[np.ndarray] = []
    starts, lines, size = np.empty(len(knots), dtype=np.int64), np.zeros((len(knots), 3)), 0
    for index, axis_knots in enumerate(knots):
        count = len(axis_knots)
        start = start_of.get(count)
        if start is None:
            table, lines[index] = make_guide(axis_knots, few)
            tables.append(table)
            start, size = size, size + len(table)
            if count <= few:
                start_of[count] = start
        starts[index] = start
    return np.concatenate(tables), starts, lines


def make_guide(knots: np.ndarray, few: int = 2) -> tuple[np.ndarray, tuple[float, float, float]]:
    """The guide table of one axis (buckets + 1 entries) and its line value -> bucket (start, scale, last bucket).

    There are `BUCKETS` buckets per knot, at most `MAX_BUCKETS`; up to `few` knots share one bucket. Buckets are even
    over a range of knots, and the outermost also hold the values outside. Among several ranges, the one that leaves the
    fewest knots to search is chosen, so long tails do not crowd the bulk into one bucket. Rounding is harmless, since
    the same monotone line maps knots and values to buckets.
    """
    last = len(knots) - 1
    if last < few:
        return np.array([0, max(last - 1, 0)], dtype=np.int32), (0.0, 0.0, 0.0)
    n_buckets = min(BUCKETS * len(knots), MAX_BUCKETS)
    some = knots[:: -(-len(knots) // MAX_COMPARED)]
    ranges = [(int(last * low), math.ceil(last * high)) for low in _LOW for high in _HIGH]
    low, high = knots[np.array(ranges).T]
    lines = _make_lines(low, high, n_buckets)
    best = int(np.argmin(_count_search(_find_buckets(some, lines, n_buckets))))
    size = np.bincount(_find_buckets(knots, lines[best : best + 1], n_buckets)[0], minlength=n_buckets)
    before = np.r_[0, np.cumsum(size)]  # knots in earlier buckets
    start, scale = lines[best].tolist()
    return np.clip(before - 1, 0, last - 1).astype(np.int32), (start, scale, n_buckets - 1.0)


def _make_lines(low: np.ndarray, high: np.ndarray, n_buckets: int) -> np.ndarray:
    """(L, 2) Start and scale of each line, which maps low to the first bucket and high to the last."""
    with np.errstate(over="ignore", divide="ignore"):
        scale = (n_buckets - 1) / (high - low)
    return np.where(np.isfinite(scale)[:, None], np.stack([low, scale], axis=1), 0.0)  # 0 · (value - 0) is never NaN


def _find_buckets(knots: np.ndarray, lines: np.ndarray, n_buckets: int) -> np.ndarray:
    """(L, G) Bucket of every knot by each line."""
    with np.errstate(over="ignore", invalid="ignore"):
        places = (knots - lines[:, :1]) * lines[:, 1:]
    return np.nan_to_num(places, nan=0.0).clip(0, n_buckets - 1).astype(np.int64)


def _count_search(buckets: np.ndarray) -> np.ndarray:
    """(L,) Steps of binary searches for all knots within their buckets."""
    is_first = np.ones(buckets.shape, dtype=bool)
    is_first[:, 1:] = buckets[:, 1:] != buckets[:, :-1]
    first = np.flatnonzero(is_first)
    size = np.diff(np.r_[first, buckets.size])
    return np.add.reduceat(size * np.log2(1 + size), np.searchsorted(first, np.arange(len(buckets)) * buckets.shape[1]))
