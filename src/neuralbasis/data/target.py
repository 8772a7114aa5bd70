"""Sample: target, weights and given scores of the rows, checked and brought into a canonical order.

Rows of weight 0 are dropped. On small tables a row of weight 3 becomes three rows, and all rows are sorted before
anything random is drawn. A weight is then exactly a repetition, and the order of rows and columns does not matter.
Rows are sorted by a digest of their values, which is the same for a dense and a sparse table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import kernels
from .sparse import SparseMatrix

SMALL_TABLE = 10_000  # rows
MAX_TARGET = 1e150  # its square does not overflow
MIN_DEVIATION = 1e-290  # of a target; below, doubles lose digits


@dataclass(frozen=True, eq=False)
class Sample:
    """Target y (N,), weights (N,), and given scores init (N, K) or None."""

    y: np.ndarray
    weights: np.ndarray
    init: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> Sample:
        """The sample of some rows."""
        return Sample(self.y[rows], self.weights[rows], None if self.init is None else self.init[rows])

    @property
    def n_effective(self) -> float:
        """Number of observations: integer weights count rows, other weights are relative."""
        return float(self.weights.sum()) if is_whole(self.weights) else float(len(self.weights))


def is_whole(weights: np.ndarray) -> bool:
    """Whether all weights are integers."""
    return bool((weights == np.floor(weights)).all())


def tidy_rows(
    numbers: np.ndarray | SparseMatrix, sample: Sample, names: Sequence[str]
) -> tuple[np.ndarray | SparseMatrix, Sample]:
    """Drop rows of weight 0; repeat and sort the rows of a small table. Columns are identified by name."""
    rows, sample = order_rows(numbers, sample, names)
    return numbers[rows], sample


def order_rows(
    numbers: np.ndarray | SparseMatrix, sample: Sample, names: Sequence[str]
) -> tuple[np.ndarray | slice, Sample]:
    """The rows that `tidy_rows` takes (a slice if all, in order), and their sample."""
    rows = np.flatnonzero(sample.weights > 0)
    sample = sample.take(rows) if len(rows) < len(numbers) else sample
    if is_whole(sample.weights) and sample.weights.sum() <= SMALL_TABLE:
        copies = np.repeat(np.arange(len(rows)), sample.weights.astype(int))
        rows, sample = rows[copies], replace(sample.take(copies), weights=np.ones(len(copies)))
    if len(rows) <= SMALL_TABLE:
        init = [] if sample.init is None else list(sample.init.T)
        order = np.lexsort([sample.weights, *init, sample.y, digest_rows(numbers, names)[rows]])
        return rows[order], sample.take(order)
    return slice(None) if len(rows) == len(numbers) else rows, sample


def digest_rows(numbers: np.ndarray | SparseMatrix, names: Sequence[str]) -> np.ndarray:
    """(N,) The sum modulo 2⁶⁴ of a digest of every value and the rank of its column's name; 0 has the digest 0."""
    keys, digests = np.empty(len(names), dtype=np.uint64), np.zeros(len(numbers), dtype=np.uint64)
    ranked = sorted(range(len(names)), key=names.__getitem__)
    keys[ranked] = np.random.SeedSequence(0).generate_state(len(names), np.uint64)
    with np.errstate(over="ignore"):
        if isinstance(numbers, SparseMatrix):
            absent = np.float64(numbers.absent).view(np.uint64)
            entries = numbers.starts, numbers.column, numbers.value.view(np.uint64)
            kernels.digest_stored(0, len(numbers), *entries, absent, keys, digests)
        else:
            step = max(1, (1 << 22) // len(names))  # 32 MB in double precision
            for first in range(0, len(numbers), step):
                block = np.ascontiguousarray(numbers[first : first + step], dtype=np.float64)
                kernels.digest_rows(0, len(block), block.view(np.uint64), keys, digests[first : first + step])
    return digests


def hold_out(y: np.ndarray, share: float, is_class: bool, seed: int) -> np.ndarray:
    """(N,) Which rows to hold out: at random, the same share of each class, and never a whole class."""
    order = np.random.default_rng(seed).permutation(len(y))
    if is_class:
        order = order[np.argsort(np.unique(y, return_inverse=True)[1][order], kind="stable")]
    is_held = np.zeros(len(y), dtype=bool)
    is_held[order] = np.diff(np.floor(np.arange(len(y) + 1) * share)) > 0
    return is_held & np.isin(y, y[~is_held]) if is_class else is_held


def read_floats(values: Any, name: str) -> np.ndarray:
    """An array of float64; raises an error that names the argument if it does not hold real numbers."""
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "mMc":  # NumPy would read dates as nanoseconds and drop imaginary parts
            return array.astype(float)
        given = f"values of type {array.dtype}"
    except (TypeError, ValueError) as error:
        given = f"something else ({error})"
    raise ValueError(f"{name} must hold numbers, but holds {given}; convert it to numbers")


def check_weights(weights: Any, n_rows: int) -> np.ndarray:
    """(N,) Weights: finite, non-negative, not all zero; very small or large ones are scaled by a power of 2."""
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
    exponent = int(np.frexp(checked.max())[1])
    return checked if abs(exponent) <= 53 else np.ldexp(checked, -exponent)  # larger integers are not exact


def find_deviation(values: np.ndarray, weights: np.ndarray) -> float:
    """Root of the weighted mean square; scaled by a power of 2 first, since squares of small values underflow."""
    exponent = int(np.frexp(np.abs(values).max())[1])
    square = np.average(np.ldexp(values, -exponent) ** 2, weights=weights)
    return float(np.ldexp(np.sqrt(square), exponent))


def check_weight_sum(total: float) -> None:
    """Raise for weights whose sum a model file cannot hold."""
    if not 1e-50 <= total <= 1e50:  # sums over several fits and products with scores do not overflow
        raise ValueError(
            f"sample_weight sums to {total:g}; expected a sum from 1e-50 to 1e+50: divide all weights by their mean"
        )


def check_init_score(scores: Any, n_rows: int, n_outputs: int = 1) -> np.ndarray | None:
    """(N, K) Given scores, or None."""
    if scores is None:
        return None
    checked = read_floats(scores, "init_score")
    if checked.ndim == 1:
        checked = checked[:, None]
    if checked.shape != (n_rows, n_outputs):
        raise ValueError(f"init_score must have shape {(n_rows, n_outputs)}, but has {np.shape(scores)}")
    if not np.isfinite(checked).all():
        raise ValueError("init_score holds NaN or infinite values; scores must be finite")
    if np.abs(checked).max(initial=0.0) > MAX_TARGET:
        raise ValueError(f"init_score holds values beyond ±{MAX_TARGET:.0e}, whose squares overflow; rescale it")
    return checked
