"""Tuning: a search over parameters with held-out rows. `tuner` is the public part, `search` the loop behind it."""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = {"DEFAULT_SPACE": "tuner", "Tuning": "tuner", "tune": "tuner"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)
