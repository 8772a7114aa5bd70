"""Links: score <-> prediction. A score is what contributions and intercept sum to; (N, K) with K outputs."""

from __future__ import annotations

import numpy as np

LINKS = ("identity", "logit", "mlogit")


def inverse_link(link: str, scores: np.ndarray) -> np.ndarray:
    """Scores (N, K) -> predictions: values (N,), or probabilities of all classes (N, 2 or K).

    Examples
    --------
    >>> inverse_link("logit", np.array([[0.0]])).tolist()
    [[0.5, 0.5]]
    """
    if link == "identity":
        return scores[:, 0] if scores.shape[1] == 1 else scores
    if link == "logit":
        tail = np.exp(-np.abs(scores[:, 0]))  # never overflows
        positive = np.where(scores[:, 0] >= 0, 1.0, tail) / (1.0 + tail)
        return np.column_stack([1.0 - positive, positive])
    if link == "mlogit":
        odds = np.exp(scores - scores.max(axis=1, keepdims=True))
        return odds / odds.sum(axis=1, keepdims=True)
    raise ValueError(f"link must be one of {LINKS}, not {link!r}")
