"""Residuals of a fit: every row is scored by the members that held it out."""

from __future__ import annotations

import numpy as np

from ..losses.links import find_log_odds
from ..model.residuals import Residuals
from .codes import Codes
from .rows import Rows


def measure_residuals(codes: Codes, rows: Rows) -> tuple[Residuals, ...]:
    """Residuals of each output over held-out rows; none if no row was held out or scored, or with over 100 classes.

    rows : with the scores (N, M, K) of all members as `init`
    """
    held_out = rows.held_out.cpu().numpy()
    held = held_out.any(axis=1)
    loss, sample = codes.loss, codes.sample
    if not held.any() or rows.init is None or loss.n_outputs > 100:
        return ()
    held_out, members = held_out[held], rows.init.cpu().numpy()[held]  # (n, M), (n, M, K)
    # Members that learned from a row know its noise: regions of their scores would divide the rows by residual. Rows
    # are therefore ordered by the scores of the members that held them out.
    own = held_out / held_out.sum(axis=1, keepdims=True)
    scores = np.einsum("nm,nmk->nk", own, members) * loss.unit + loss.shift
    # Weights of a sample of the rows add up to all rows, which have not been scored.
    n_rows = len(sample.y) if codes.loader is not None else sample.n_effective
    y, weights = sample.y[held], sample.weights[held] * (n_rows / sample.weights.sum())
    if codes.classes is None:
        return (Residuals.measure(scores[:, 0], y - scores[:, 0], weights),)
    classes = [1] if loss.n_outputs == 1 else range(loss.n_outputs)
    return tuple(
        Residuals.measure_shares(odds, y == k, weights)
        for k, odds in zip(classes, find_log_odds(scores).T, strict=True)
    )
