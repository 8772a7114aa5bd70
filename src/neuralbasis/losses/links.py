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


def find_log_odds(scores: np.ndarray) -> np.ndarray:
    """(N, K) log odds of each class against all others; the scores themselves if K is 1, that is with two classes.

    >>> find_log_odds(np.log([[1.0, 2.0, 5.0], [1e-300, 1.0, 1e-300]])).round(3).tolist()
    [[-1.946, -1.099, 0.511], [-690.776, 690.082, -690.776]]
    """
    if scores.shape[1] == 1:
        return scores
    scores = scores - scores.max(axis=1, keepdims=True)
    odds, best = np.exp(scores), scores.argmax(axis=1)[:, None]
    found = scores - np.log(np.maximum(odds.sum(axis=1, keepdims=True) - odds, 1.0))  # the best class is among them
    np.put_along_axis(scores, best, -np.inf, axis=1)
    np.put_along_axis(found, best, -np.logaddexp.reduce(scores, axis=1, keepdims=True), axis=1)
    return found
