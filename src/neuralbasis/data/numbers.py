"""Numbers of one raw column: the check for infinite values, and distinct values with their weights."""

from __future__ import annotations

import numpy as np


def check_finite(name: str, values: np.ndarray) -> None:
    """Raise for infinite values; NaN is missing."""
    if np.isinf(values).any():
        raise ValueError(
            f"column {name!r} holds infinite values; neuralbasis expects finite numbers or missing values (NaN): "
            "replace them, for example with NaN or with the largest finite value"
        )


def distinct_values(values: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Distinct non-missing values in increasing order, and the weight of each."""
    if weights is None:
        ordered = np.sort(values)  # NaN sorts last
        ordered = ordered[: len(ordered) - int(np.isnan(ordered).sum())]
        starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]]) if len(ordered) else np.empty(0, int)
        return ordered[starts], np.diff(np.r_[starts, len(ordered)]).astype(float)
    known = ~np.isnan(values)
    known &= weights > 0
    distinct, inverse = np.unique(values[known], return_inverse=True)
    return distinct, np.bincount(inverse, weights[known], minlength=len(distinct))
