"""Transformations of a target, so that a page shows dollars for a model of log dollars.

In: a model, and the transformation of its target by name or as scikit-learn's `TransformedTargetRegressor`. Out: the
model of the transformed target and the name; values in either unit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]

FUNCTIONS: Mapping[str, tuple[Function, Function]] = {  # name: transformation, inverse
    "log": (np.log, np.exp),
    "log1p": (np.log1p, np.expm1),
    "log2": (np.log2, np.exp2),
    "log10": (np.log10, lambda scores: np.power(10.0, scores)),
    "sqrt": (np.sqrt, lambda scores: np.square(np.maximum(scores, 0.0))),
}


def find_transform(model: Any, transform: str | None) -> tuple[Any, str | None]:
    """The model of the transformed target, and the name of the transformation; None if there is none."""
    if hasattr(model, "regressor_") and hasattr(model, "func"):
        if transform is not None:
            raise ValueError("transform is given, but the model is a TransformedTargetRegressor, which has its own")
        model, transform = model.regressor_, getattr(model.func, "__name__", repr(model.func))
    if transform is not None and transform not in FUNCTIONS:
        raise ValueError(f"transform must be one of {', '.join(FUNCTIONS)}, got {transform!r}")
    return model, transform


def apply_transform(name: str, values: np.ndarray) -> np.ndarray:
    """Values of the target as the model predicts them."""
    with np.errstate(divide="ignore", invalid="ignore"):
        found = FUNCTIONS[name][0](np.asarray(values, dtype=float))
    if not np.isfinite(found).all():
        wrong = np.asarray(values)[~np.isfinite(found)][0]
        raise ValueError(f"y contains {wrong}, which has no {name}; with transform, y is the target itself")
    return found


def invert_transform(name: str | None, scores: np.ndarray) -> np.ndarray:
    """Scores of the model in the unit of the target.

    >>> invert_transform("log1p", np.array([0.0, np.log(5.0)])).round(12).tolist()
    [0.0, 4.0]
    """
    return scores if name is None else FUNCTIONS[name][1](scores)
