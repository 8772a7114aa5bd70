"""The fitted model: NumPy arrays and compiled loops, no torch.

`additive_model` (predictions), `shapes` (tables), `predictor` (arrays for the kernels), `purify`, `merge`, `summary`,
`scorecard`.
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = {
    "AdditiveModel": "additive_model",
    "find_model": "additive_model",
    "load": "additive_model",
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    return find_name(__name__, _HOME, name)
