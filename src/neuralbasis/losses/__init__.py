"""Losses: what training minimises (`loss`, with torch), and how a score becomes a prediction (`links`, without)."""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = dict.fromkeys(["Loss", "SquaredError", "LogLoss", "CrossEntropy", "choose_loss", "bound_curvature"], "loss")
_HOME |= dict.fromkeys(["LINKS", "inverse_link"], "links")
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)
