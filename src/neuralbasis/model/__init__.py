"""The fitted model: NumPy arrays and compiled kernels, no torch.

`additive_model` (predictions), `shapes` and `factors` (tables, dense and low-rank), `predictor` (arrays for the
kernels), `predictions` (predictions as named columns), `purify`, `merge`, `summary` (how the model was fitted),
`residuals` (prediction intervals), `scorecard` and `term_table` (a model as text), `interpolation` (between knots, in
NumPy).
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
