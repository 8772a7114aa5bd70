"""Summary: how a model was fitted, as plain values that JSON can hold. The model and its file keep it.

`to_plain` converts parameters to such values.
"""

from __future__ import annotations

import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from .. import __version__

PACKAGES = ("numpy", "torch", "scikit-learn")
MAX_DEPTH = 8  # nesting of lists; deeper values are replaced by the name of their type


@dataclass(frozen=True)
class Summary:
    """How a model was fitted. All values can be written as JSON; numbers that are not finite are None.

    Parameters
    ----------
    estimator : name of the estimator's class
    parameters : parameters of the estimator; callables and other objects are replaced by their name
    n_rows, n_columns : size of the training table
    target : name of the target, None if it had none
    shift, unit : mean and standard deviation of a regression target, 0 and 1 for classes. The loss was computed on
        `(target - shift) / unit`; tables and intercept of the model are in the unit of the target
    validation : mean loss of the members on their held-out rows, None without such rows
    history : the lists "stage", "steps", "validation" and "seconds" with one item per checkpoint; "best", the index of
        the checkpoint that was kept; "stopped_by"; and "constant", the validation loss of the constant model
    date : end of the fit, ISO 8601 in UTC
    versions : versions of neuralbasis, Python and the packages of `PACKAGES`

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> summary = NeuralBasisRegressor(max_steps=20).fit([[1.0], [2.0], [3.0]] * 9, [3.0, 4.0, 5.0] * 9).model_.summary
    >>> summary.n_rows, summary.shift, summary.parameters["max_steps"]
    (27, 4.0, 20)
    """

    estimator: str
    parameters: dict[str, Any]
    n_rows: int
    n_columns: int
    target: str | None
    shift: float
    unit: float
    validation: float | None
    history: dict[str, Any]
    date: str
    versions: dict[str, str]


def read_clock() -> str:
    """The current time, ISO 8601 in UTC."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def find_versions() -> dict[str, str]:
    """Versions of neuralbasis, Python and the packages of `PACKAGES` that are installed."""
    found = {"neuralbasis": __version__, "python": platform.python_version()}
    return found | {package: number for package in PACKAGES if (number := find_version(package)) is not None}


def find_version(package: str) -> str | None:
    """Version of a package; None if it is absent, or installed under another name."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def to_plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Convert a value to one that JSON can hold.

    >>> to_plain({"hidden": (64, 32), "rate": np.float32(0.5), "limit": float("inf"), "basis": np.sin})
    {'hidden': [64, 32], 'rate': 0.5, 'limit': None, 'basis': 'sin'}
    """
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) < 1 << 63 else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if depth > 0 and isinstance(value, Mapping):
        return {str(key): to_plain(item, depth - 1) for key, item in value.items()}
    if depth > 0 and isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item, depth - 1) for item in value]
    return getattr(value, "__name__", type(value).__name__)
