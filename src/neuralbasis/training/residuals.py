"""Residuals of a fit: every row is scored by the members that held it out."""

from __future__ import annotations

import numpy as np

from ..model.residuals import Residuals
from .codes import Codes
from .rows import Rows


def measure_residuals(codes: Codes, rows: Rows) -> Residuals | None:
    """Quantiles of target minus score over held-out rows; None for classes, or if no row was held out.

    rows : with the scores (N, M, 1) of all members as `init`
    """
    held_out = rows.held_out.cpu().numpy()
    held = held_out.any(axis=1)
    if codes.classes is not None or not held.any():
        return None
    assert rows.init is not None
    loss, sample = codes.loss, codes.sample
    held_out, members = held_out[held], rows.init[..., 0].cpu().numpy()[held].astype(float)  # (n, M)
    # Members that learned from a row know its noise: regions of their scores would divide the rows by residual. Rows
    # are therefore ordered by the scores of the members that held them out.
    scores = np.where(held_out, members, 0.0).sum(axis=1) / held_out.sum(axis=1) * loss.unit + loss.shift
    # Weights of a sample of the rows add up to all rows, which have not been scored.
    n_rows = len(sample.y) if codes.loader is not None else sample.n_effective
    weights = sample.weights[held] * (n_rows / sample.weights.sum())
    return Residuals.measure(scores, sample.y[held] - scores, weights)
