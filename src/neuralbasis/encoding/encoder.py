"""Encoder: the axes of all columns, fitted on training rows; converts columns to numbers.

In: `Columns`. Out: numbers (N, D), which the kernels read: raw values of continuous columns, level indices of the
others, NaN for missing values, -1 for unseen levels. The columns of a sparse table are continuous, and its numbers are
the table itself.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any

import numpy as np

from ..data.columns import Column, Columns, check_finite, find_level, is_missing, level_text, list_names, weigh_codes
from ..data.sparse import SparseMatrix
from ..suggestions import suggest
from .axis import KINDS, Axis, continuous_axes, continuous_axis, given_axis, level_axis


@dataclass(frozen=True, eq=False)
class Encoder:
    """The main axis of every column, fitted on the training rows.

    Examples
    --------
    >>> from neuralbasis.data.frames import read_columns
    >>> columns = read_columns({"size": [1.0, 2.0, 4.0], "colour": ["red", "blue", None]})
    >>> encoder = Encoder.fit(columns)
    >>> encoder.names, [axis.kind for axis in encoder.axes]
    (('size', 'colour'), ['continuous', 'nominal'])
    >>> encoder.numbers(columns).tolist()
    [[1.0, 1.0], [2.0, 0.0], [4.0, nan]]
    """

    axes: tuple[Axis, ...]

    @classmethod
    def fit(
        cls,
        columns: Columns,
        weights: np.ndarray | None = None,
        feature_types: Sequence[Any] | Mapping[str, Any] | None = None,
        scaling: str = "quantile",
        max_knots: int = 193,
    ) -> Encoder:
        """Fit one axis per column; `feature_types` is as in the estimators. See also `settle_texts`."""
        types, knots = read_feature_types(feature_types, columns.names)
        weights = None if weights is None else _round_weights(weights)
        if columns.sparse is not None:
            for name, feature_type in zip(columns.names, types, strict=True):
                if not (isinstance(feature_type, str) and feature_type in ("auto", "continuous")):
                    raise ValueError(
                        f"feature_types of column {name!r} is {feature_type!r}, but columns of a sparse table are "
                        "numbers, 'auto' or 'continuous'; for levels give a dense table, such as a data frame or "
                        "X.toarray()"
                    )
            starts, distinct, mass = _weigh_values(columns.sparse, weights)
            axes = continuous_axes(columns.names, starts, distinct, mass, scaling, max_knots)
            given = {name: given_axis(name, values, scaling, max_knots) for name, values in knots.items()}
            return cls(tuple(given.get(axis.name, axis) for axis in axes))
        axes = [
            fit_axis(column, feature_type, weights, scaling, max_knots, knots.get(column.name))
            for column, feature_type in zip(columns, types, strict=True)
        ]
        return cls(tuple(axes))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(axis.name for axis in self.axes)

    def take(self, features: Sequence[int]) -> Encoder:
        """The encoder of some columns."""
        return Encoder(tuple(self.axes[feature] for feature in features))

    def numbers(self, columns: Columns, features: Sequence[int] | None = None) -> Any:
        """(N, D) Numbers of columns in this encoder's order, or of `features`; sparse if the table is sparse."""
        if len(columns) != len(self.axes):
            raise ValueError(f"the model has {len(self.axes)} columns, but the table has {len(columns)}")
        if features is not None:
            return self.take(features).numbers(columns.take(features))
        if columns.sparse is not None:
            if odd := next((axis for axis in self.axes if axis.is_level), None):
                raise ValueError(
                    f"column {odd.name!r} is {odd.kind} in this model, but columns of a sparse table are continuous "
                    "numbers; give a dense table, such as a data frame or X.toarray()"
                )
            return columns.sparse
        if columns.matrix is not None and not any(axis.is_level for axis in self.axes):
            return columns.matrix.astype(np.float64, copy=False)
        numbers = np.empty((columns.n_rows, len(self.axes)), order="F")
        for index, (axis, column) in enumerate(zip(self.axes, columns, strict=True)):
            numbers[:, index] = column_numbers(axis, column)
        return numbers


def read_feature_types(
    feature_types: Sequence[Any] | Mapping[str, Any] | None, names: Sequence[str]
) -> tuple[list[Any], dict[str, Sequence[float]]]:
    """The requested type of each column, and by name the knots of those with a list of numbers."""
    n_columns = len(names)
    if isinstance(feature_types, Mapping):
        if unknown := [name for name in feature_types if name not in names]:
            hint = suggest(unknown[0], names, "name columns of the table")
            raise ValueError(f"feature_types names the column {unknown[0]!r}, which the table does not have; {hint}")
        feature_types = [feature_types.get(name, "auto") for name in names]
    if isinstance(feature_types, (str, Set)) or not isinstance(feature_types, (Iterable, type(None))):
        raise ValueError(
            f"feature_types must be a list of one entry per column, or a mapping of columns, not {feature_types!r}"
        )
    types: list[Any] = ["auto"] * n_columns if feature_types is None else list(feature_types)
    if len(types) != n_columns:
        raise ValueError(f"feature_types has {len(types)} entries, but the table has {n_columns} columns")
    knots = {}
    for index, (name, feature_type) in enumerate(zip(names, types, strict=True)):
        if _lists_numbers(feature_type):
            if not np.isfinite(feature_type).all() or (np.diff(feature_type) <= 0).any():
                raise ValueError(
                    f"feature_types of column {name!r} lists numbers, which are cut points and must be finite and "
                    f"increasing, not {list(feature_type)[:20]}; to list levels, write them as text"
                )
            types[index], knots[name] = "continuous", feature_type
    return types, knots


def _lists_numbers(feature_type: Any) -> bool:
    """Whether a requested type is a list of numbers; booleans are levels."""
    if not isinstance(feature_type, (list, tuple, np.ndarray)) or np.ndim(feature_type) != 1 or len(feature_type) == 0:
        return False
    return all(isinstance(value, Real) and not isinstance(value, (bool, np.bool_)) for value in feature_type)


def settle_texts(
    columns: Columns, feature_types: Sequence[Any] | Mapping[str, Any] | None, weights: np.ndarray | None
) -> Columns:
    """The columns for a fit: text columns in which nearly all texts are numbers become numbers, with a warning.

    Columns with declared levels or a requested type are read as such.
    """
    if columns.columns is None:
        return columns
    types, _ = read_feature_types(feature_types, columns.names)
    settled = list(columns)
    for index, (column, feature_type) in enumerate(zip(columns, types, strict=True)):
        may_be_numbers = ("continuous",) if column.declared else ("continuous", "auto")
        if column.codes is not None and isinstance(feature_type, str) and feature_type in may_be_numbers:
            numbers, facts = column.parse(weights)
            if facts.settle(column.name, feature_type == "continuous"):
                settled[index] = Column(column.name, numbers)
    return replace(columns, columns=tuple(settled))


def _round_weights(weights: np.ndarray) -> np.ndarray:
    """Round weights to a grid on which all sums are exact, in any order.

    Integers stay, others change by 10⁻¹⁵ of the sum. The total minus the sum over some rows then equals the sum over
    the other rows bit for bit.
    """
    unit = 2.0 ** (np.floor(np.log2(weights.sum())) - 50)
    return np.where(weights > 0, np.maximum(np.rint(weights / unit), 1) * unit, 0.0)


def _weigh_values(table: SparseMatrix, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Distinct non-missing values of all columns and the weight of each: starts (D + 1,), values, weights."""
    starts, row, value = table.by_column
    column = np.repeat(np.arange(table.n_columns), np.diff(starts))
    row_weights = np.ones(len(table)) if weights is None else weights
    mass = row_weights[row]
    absent_mass = row_weights.sum() - np.bincount(column, mass, minlength=table.n_columns)
    others = np.flatnonzero(absent_mass > 0) if table.absent == table.absent else np.empty(0, int)
    keep = (mass > 0) & ~np.isnan(value)
    column, value = np.r_[column[keep], others], np.r_[value[keep], np.full(len(others), table.absent)]
    mass = np.r_[mass[keep], absent_mass[others]]
    order = np.lexsort((value, column))
    column, value = column[order], value[order]
    is_first = np.ones(len(order), dtype=bool)
    is_first[1:] = (column[1:] != column[:-1]) | (value[1:] != value[:-1])
    first = np.flatnonzero(is_first)
    sizes = np.bincount(column[first], minlength=table.n_columns)
    total = np.add.reduceat(mass[order], first) if len(first) else np.empty(0)
    return np.r_[0, np.cumsum(sizes)], value[first], total


def fit_axis(
    column: Column,
    feature_type: Any = "auto",
    weights: np.ndarray | None = None,
    scaling: str = "quantile",
    max_knots: int = 193,
    knots: Sequence[float] | None = None,
) -> Axis:
    """The axis of one column. Instead of all rows, `column` may hold its distinct values, with their weights."""
    if isinstance(feature_type, (list, tuple)):
        axis = level_axis(column.name, "ordinal", _requested_levels(column, feature_type))
        warn_if_unseen(axis, column, weights)
        return axis
    if not isinstance(feature_type, str) or feature_type not in ("auto", *KINDS):
        raise ValueError(
            f"feature_types of column {column.name!r} must be 'auto', one of {KINDS}, a list of ordered levels "
            f"(text) or of cut points (numbers), not {feature_type!r}"
        )
    if feature_type == "auto":
        feature_type = "continuous" if column.numbers is not None else "ordinal" if column.ordered else "nominal"
    if feature_type == "continuous":
        values = column.to_numbers()
        if weights is not None and np.isinf(values).any():
            weights = None  # infinite values are errors even in rows of weight 0
        if knots is None:
            return continuous_axis(column.name, values, weights, scaling, max_knots)
        check_finite(column.name, values)
        return given_axis(column.name, knots, scaling, max_knots)
    codes, levels = column.to_labels()
    mass = weigh_codes(codes, len(levels), weights)
    # Ordered levels are kept even if no row has them.
    keep = np.arange(len(levels)) if column.ordered else np.flatnonzero(mass > 0)
    return level_axis(column.name, feature_type, [levels[index] for index in keep], mass[keep])


def _requested_levels(column: Column, requested: Sequence[Any]) -> list[str]:
    """Names of the requested levels: none missing, none repeated, at least one of them in the column."""
    if any(map(is_missing, requested)):
        raise ValueError(f"feature_types of column {column.name!r} lists a missing value as a level: {requested!r}")
    # 1.0 is the level "1", and so is True in a column of numbers.
    are_flags = [column.numbers is not None and isinstance(level, (bool, np.bool_)) for level in requested]
    levels = [level_text(float(level) if flag else level) for level, flag in zip(requested, are_flags, strict=True)]
    if repeated := [level for level, count in Counter(levels).items() if count > 1]:
        raise ValueError(f"feature_types of column {column.name!r} lists levels more than once: {repeated}")
    _, present = column.to_labels()
    if set(levels).isdisjoint(present):
        raise ValueError(
            f"feature_types of column {column.name!r} lists the levels {levels[:20]}, but the column holds none of "
            f"them: {list(present[:20])}"
        )
    return levels


def column_numbers(axis: Axis, column: Column) -> np.ndarray:
    """(N,) Raw values of a continuous column, or indices of levels (NaN missing, -1 unseen)."""
    if axis.levels is None:
        return column.to_numbers(axis.name)
    codes, levels = column.to_labels()
    return np.r_[_find_levels(axis, levels), np.nan][codes]  # code -1 (missing) picks the last


def _find_levels(axis: Axis, levels: Sequence[str]) -> np.ndarray:
    return np.array([find_level(level, axis.places_of_levels) for level in levels], dtype=float)


def warn_if_unseen(axis: Axis, column: Column, weights: np.ndarray | None = None) -> None:
    """Warn if the levels of most rows are unseen: the table probably has another coding."""
    codes, levels = column.to_labels()
    is_unseen = _find_levels(axis, levels) == -1
    if not is_unseen.any():
        return
    mass = weigh_codes(codes, len(levels), weights)
    share = mass[is_unseen].sum() / max(mass.sum(), np.finfo(float).tiny)
    if share > 0.5:
        example = levels[int(np.argmax(mass * is_unseen))]
        warnings.warn(
            f"column {axis.name!r}: {share:.1%} of the values are levels that the model does not know, such as "
            f"{example!r}; it knows {list_names(axis.levels or ())}. Check how the table writes this column, or the "
            "levels in feature_types",
            stacklevel=2,
        )
