"""Search for parameters of an estimator on held-out rows: `tuner` (the public `tune`) and `search` (its loop)."""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = {"DEFAULT_SPACE": "tuner", "Tuning": "tuner", "tune": "tuner"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)
