"""Sample: what training needs of a table besides positions: target, weights, given scores; checked and made canonical.

Rows of weight 0 are dropped. On small tables a row of weight 3 becomes three rows and all rows are sorted, before
anything random is drawn: a weight then equals repetition exactly, and the order of rows and columns does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

SMALL_TABLE = 10_000  # rows


@dataclass(frozen=True, eq=False)
class Sample:
    """target y (N,), weights (N,), init (N, K) given scores or None"""

    y: np.ndarray
    weights: np.ndarray
    init: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Sample:
        return Sample(self.y[rows], self.weights[rows], None if self.init is None else self.init[rows])

    @property
    def n_effective(self) -> float:
        """Number of observations: whole-number weights count rows, other weights are relative."""
        return float(self.weights.sum()) if is_whole(self.weights) else float(len(self.weights))


def is_whole(weights: np.ndarray) -> bool:
    return bool((weights == np.floor(weights)).all())


def tidy_rows(numbers: np.ndarray, sample: Sample, names: Sequence[str]) -> tuple[np.ndarray, Sample]:
    """Drop rows of weight 0; repeat and sort the rows of a small table, columns compared in the order of names."""
    rows, sample = order_rows(numbers, sample, names)
    return numbers[rows], sample


def order_rows(numbers: np.ndarray, sample: Sample, names: Sequence[str]) -> tuple[np.ndarray | slice, Sample]:
    """The rows that `tidy_rows` takes, all of them as a slice, and their sample."""
    rows: np.ndarray | slice = slice(None)
    keep = sample.weights > 0
    if not keep.all():
        rows, sample = np.flatnonzero(keep), sample.take(keep)
    if is_whole(sample.weights) and sample.weights.sum() <= SMALL_TABLE:
        copies = np.repeat(np.arange(len(sample.y)), sample.weights.astype(int))
        rows, sample = np.arange(len(numbers))[rows][copies], sample.take(copies)
        sample = replace(sample, weights=np.ones(len(copies)))
    if len(sample.y) <= SMALL_TABLE:
        rows = np.arange(len(numbers))[rows]
        order = _sort_rows(numbers, rows, sample, sorted(range(len(names)), key=names.__getitem__))
        rows, sample = rows[order], sample.take(order)
    return rows, sample


def _sort_rows(numbers: np.ndarray, rows: np.ndarray, sample: Sample, by_name: Sequence[int]) -> np.ndarray:
    """Sorted by the last column, then the one before it and so on; a few of very many columns tell the rows apart."""
    for count in (64, 4096):
        if count < len(by_name):
            last = numbers[rows[:, None], by_name[-count:]]
            order = np.lexsort(last.T)
            above, below = last[order[:-1]], last[order[1:]]
            if ((above != below) & ~(np.isnan(above) & np.isnan(below))).any(axis=1).all():
                return order
    init = [] if sample.init is None else list(sample.init.T)
    return np.lexsort([sample.weights, *init, sample.y, *numbers[rows][:, by_name].T])


def read_floats(values: Any, name: str) -> np.ndarray:
    """An array of float64; an error that names the argument where it does not hold real numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "mMc":  # NumPy would read dates as nanoseconds and drop imaginary parts
            return array.astype(float)
        came = f"values of type {array.dtype}"
    except (TypeError, ValueError) as error:
        came = f"something else ({error})"
    raise ValueError(f"{name} must hold numbers, but holds {came}; convert it to numbers")


def check_weights(weights: Any, n_rows: int) -> np.ndarray:
    """(N,) finite, non-negative, not all zero."""
    if weights is None:
        return np.ones(n_rows)
    if np.isscalar(weights):
        weights = np.full(n_rows, weights)
    checked = read_floats(weights, "sample_weight")
    if checked.ndim != 1:
        raise ValueError(f"Sample weights must be 1D array or scalar; sample_weight has {checked.ndim} dimensions")
    if len(checked) != n_rows:
        raise ValueError(f"sample_weight has {len(checked)} entries, but X has {n_rows} rows")
    if not np.isfinite(checked).all():
        raise ValueError("sample_weight holds NaN or infinite values; weights must be finite")
    if (checked < 0).any():
        raise ValueError("sample_weight holds negative values; weights must be 0 or more")
    if not (checked > 0).any():
        raise ValueError("sample_weight must contain at least one non-zero number; all weights are 0")
    return checked


def check_init_score(scores: Any, n_rows: int, n_outputs: int = 1) -> np.ndarray | None:
    """(N, K) given scores, or None."""
    if scores is None:
        return None
    checked = read_floats(scores, "init_score")
    if checked.ndim == 1:
        checked = checked[:, None]
    if checked.shape != (n_rows, n_outputs):
        raise ValueError(f"init_score must have shape {(n_rows, n_outputs)}, but has {np.shape(scores)}")
    if not np.isfinite(checked).all():
        raise ValueError("init_score holds NaN or infinite values; scores must be finite")
    return checked
