"""Validation: targets and tables as users give them, checked for the estimators. Needs scikit-learn, but not torch.

In: tables and targets of any kind. Out: `Columns`, and arrays of numbers or class codes.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_n_features, column_or_1d, validate_data

from .data.columns import Columns, describe_missing, is_missing
from .data.frames import read_columns
from .data.records import find_rows
from .data.target import MAX_TARGET, read_floats
from .settings import StorageConfig

if TYPE_CHECKING:
    from .data.files import Source
    from .parameters import EstimatorParameters


def find_source(X: Any) -> Source | None:
    """The source that X is; None for arrays, frames and mappings, which are tables in memory."""
    if hasattr(X, "shape") or hasattr(X, "columns") or isinstance(X, Mapping):
        return None
    from .data.files import open_source

    return open_source(X)


def require_names(y: Any, sample_weight: Any, init_score: Any) -> None:
    """The target and the weights of a source must be names of its columns."""
    if init_score is not None:
        raise ValueError("init_score needs a table in memory: a source of rows has no scores to start from")
    for name, value in (("y", y), ("sample_weight", sample_weight)):
        if not isinstance(value, str) and not (value is None and name == "sample_weight"):
            raise ValueError(
                f"X is a source of rows, so {name} must be the name of one of its columns, not {type(value).__name__}"
            )


def _check_n_rows(n_rows: int, validation_size: float) -> None:
    """A model needs two rows, and some to train on."""
    if n_rows < 2:
        raise ValueError("X has n_samples=1: a model needs at least 2 rows")
    if validation_size >= n_rows:
        raise ValueError(f"validation_size={validation_size!r} leaves no row to train on: X has {n_rows} rows")


def read_target(y: Any, n_rows: int, estimator: str) -> np.ndarray:
    """(N,) target without missing values."""
    if y is None:
        raise ValueError(f"{estimator} requires y to be passed, but the target y is None")
    y = column_or_1d(y, warn=True)
    if y.dtype == object and any(map(is_missing, y)):
        raise ValueError("Input y contains NaN or another missing value; leave out the rows without a target")
    _require_finite(y)
    if len(y) != n_rows:
        raise ValueError(f"X and y have inconsistent numbers of samples: [{n_rows}, {len(y)}]")
    return y


def read_numbers(y: np.ndarray) -> np.ndarray:
    """The target of a regression."""
    y = read_floats(y, "y of a regression")
    _require_finite(y)
    if np.abs(y).max() > MAX_TARGET:
        raise ValueError(f"y holds values beyond ±{MAX_TARGET:.0e}, whose squares overflow; rescale it")
    return y


def find_classes(y: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sorted labels of the rows with a weight."""
    kinds = {type(label) for label in y} if y.dtype == object else set()
    if len(kinds) > 1 and str in kinds:
        names = sorted(kind.__name__ for kind in kinds)
        raise ValueError(f"y mixes labels of the types {', '.join(names)}; write all of them as text, or as numbers")
    check_classification_targets(y)
    return np.unique(y[weights > 0])


def encode_classes(y: np.ndarray, found: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """(N,) index of each row's class, of which `find_classes` found some; rows of weight 0 may have other labels."""
    if len(new := found[~np.isin(found, classes)]):
        raise ValueError(
            f"y has the class {new.tolist()[0]!r}, but the classes of the model are {classes.tolist()[:20]}; fit a new "
            "model to add a class, or leave these rows out"
        )
    return np.searchsorted(classes, y).clip(max=len(classes) - 1)


def read_prediction_table(estimator: EstimatorParameters, X: Any, has_names: bool) -> Any:
    """Columns of a table at prediction: by name in any order, if it has the names of the training table, else all.

    Further columns of a table with names are left out.

    Parameters
    ----------
    has_names : whether the training table had names, which are then required
    """
    if find_rows(X) is not None:
        return X
    columns, names = read_columns(X, absent=StorageConfig.read(estimator.storage).absent_value), _frame_names(X)
    if columns.named and names is None:  # a mapping: columns are found by name
        return columns
    if names and len(set(names)) == len(names) and set(names).issuperset(estimator.feature_names_in_):
        return columns
    if has_names:
        _check_names(estimator, X, names)
        return columns
    _check_n_features(estimator, X, reset=False)
    if names and estimator.feature_names is None:
        kind = type(estimator).__name__
        warnings.warn(f"X has feature names, but {kind} was fitted without feature names", stacklevel=4)
    return replace(columns, named=False)  # columns are found by position


def _check_names(estimator: EstimatorParameters, X: Any, names: Sequence[str] | None) -> None:
    """scikit-learn's check of names; its error also lists the columns that came and the nearest name of each."""
    try:
        validate_data(estimator, X, reset=False, skip_check_array=True)
    except ValueError as error:
        if not names:
            raise
        # scikit-learn's words first: its estimator checks, and its users, know them.
        missing = [name for name in estimator.feature_names_in_ if name not in set(names)]
        hint = describe_missing(missing, names) if missing else "feature_names_in_ lists the columns in their order."
        raise ValueError(f"{str(error).rstrip()}\n{hint}") from None


def read_training_table(estimator: EstimatorParameters, X: Any) -> tuple[Columns, bool]:
    """Columns of a table, and whether predictions require their names."""
    columns = read_columns(X, estimator.feature_names, StorageConfig.read(estimator.storage).absent_value)
    _check_n_rows(columns.n_rows, estimator.validation_size)
    return columns, columns.named and estimator.feature_names is None and _frame_names(X) != []


def _frame_names(X: Any) -> list[str] | None:
    """Names of a data frame's columns; as in scikit-learn, none if any is not text. None for other tables."""
    names = getattr(X, "column_names", getattr(X, "columns", None))
    if names is None:
        return None
    return list(names) if all(isinstance(name, str) for name in names) else []


def _require_finite(y: np.ndarray) -> None:
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        first = int(np.argmin(np.isfinite(y)))
        # scikit-learn's words first: its estimator checks, and its users, know them.
        kind = "NaN" if np.isnan(y[first]) else "infinity"
        raise ValueError(
            f"Input y contains {kind}, first in row {first} (0 is the first), {int((~np.isfinite(y)).sum()):,} in all; "
            "leave out the rows without a finite target"
        )
