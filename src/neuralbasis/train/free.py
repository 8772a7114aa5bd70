"""Free parts: what shared smooth bases cannot say, beside them in the tables of a trained stage.

    f_t = share · Σ_k h_k a_tk + r_t

Every member finds its part on the rows it learns from, and the rows it holds out say how far to go. A part is kept only
if the held-out rows of all members together surely gain.
"""

from __future__ import annotations

from torch import Tensor

from ..history import History
from .rows import Rows, standard_error
from .stage import Stage

SURE = 2.0  # standard errors that the validation loss has to fall by


def has_room(stage: Stage, rows: Rows) -> bool:
    """Every member must hold rows out, and tied classes have no table of their own to add to."""
    return not stage.net.tied and bool(rows.held_out.any(dim=0).all())


def accept(name: str, before: Tensor, after: Tensor, history: History, sure: float = SURE) -> bool:
    """Does the validation loss, given by its parts (N,), surely fall? Then the history tells of it."""
    gain = before - after
    is_sure = float(gain.sum()) > sure * standard_error(gain)
    if is_sure:
        history.add(name, 0, float(after.sum()), keep=True)
    return is_sure
