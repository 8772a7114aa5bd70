"""Free parts: what shared smooth bases cannot say, beside them in the tables of a trained stage.

    f_t = share · Σ_k h_k a_tk + r_t

Every member finds its part on the rows it learns from, and the rows it holds out say how far to go. A part that is
added to the bases is kept only if the held-out rows of all members together surely gain. Of a whole model beside them,
the share is chosen by

    -log p(held-out rows | share) + (share - usual)² / (2 WIDTH²)

since few rows hardly tell one share from another, and would choose another one for every seed.
"""

from __future__ import annotations

import math

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from ..losses.loss import Loss
from .history import History
from .rows import Rows, standard_error
from .stage import Stage

SURE = 2.0  # standard errors that the validation loss has to fall by
WIDTH = 0.25  # how far shares are from the usual one
WHOLE = 0.95  # a larger share leaves the model as it is


def has_room(stage: Stage, rows: Rows) -> bool:
    """Every member must hold rows out, and tied classes have no table of their own to add to."""
    return not stage.net.tied and rows.all_validate


def accept(name: str, before: Tensor, after: Tensor, history: History) -> bool:
    """Does the validation loss, given by its parts (N,), surely fall? Then the history tells of it."""
    gain = before - after
    is_sure = float(gain.sum()) > SURE * standard_error(gain)
    if is_sure:
        history.add(name, 0, float(after.sum()), keep=True)
    return is_sure


def choose_share(
    name: str, scores: Tensor, others: Tensor, rows: Rows, objective: Loss, history: History, usual: float
) -> float:
    """How much of the scores (N, M, K) to keep beside those of another model, of which held-out rows are read alone.

    Below 1 the history tells of it.
    """
    held = torch.nonzero(rows.held_out, as_tuple=True)
    target, parts = rows.target[held[0]], rows.validation_parts()[held]
    before, after = scores[held][:, None], others[held][:, None]

    def find_loss(share: float) -> float:
        losses = objective.loss(share * before + (1 - share) * after, target)[:, 0]
        return float((losses.double() * parts).sum())

    def find_cost(share: float) -> float:
        return objective.surprise(find_loss(share), rows.n_validated) + (share - usual) ** 2 / (2 * WIDTH**2)

    share = float(minimize_scalar(find_cost, bounds=(0, 1), method="bounded").x)
    loss = find_loss(share)
    if share > WHOLE or not math.isfinite(loss):
        return 1.0
    history.add(name, 0, loss, keep=True)
    return share
