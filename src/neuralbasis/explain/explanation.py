"""What all explanations share: properties of their model, the class of a score, raw values as plain Python values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.columns import Column, Columns
from ..data.records import find_rows
from ..encoding.axis import Axis
from ..model.additive_model import AdditiveModel
from ..model.scorecard import output_labels

Value = float | str | None  # a raw value: of a continuous column, a level, or missing


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Properties of the explained model."""

    model: AdditiveModel

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the table's columns."""
        return self.model.encoder.names

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the terms, in the model's order."""
        return self.model.term_names

    @property
    def intercept(self) -> np.ndarray:
        """(K,) score of a row whose contributions are all 0."""
        return self.model.intercept

    @property
    def link(self) -> str:
        """ "identity", "logit" or "mlogit"."""
        return self.model.link

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """Labels of the classes; None for a regression."""
        return None if self.model.classes is None else tuple(self.model.classes.tolist())

    @property
    def outputs(self) -> tuple[str, ...]:
        """Labels of the K scores: the classes, or "score" for a single score."""
        return name_outputs(self.model)

    def _describe_classes(self) -> dict[str, Any]:
        return {} if self.classes is None else {"meta": {"label_names": list(self.classes)}}


def name_outputs(model: AdditiveModel) -> tuple[str, ...]:
    return tuple(map(str, output_labels(model)))


def list_labels(model: AdditiveModel) -> list[Any]:
    """The classes, or the names of the scores of a regression."""
    return list(name_outputs(model)) if model.classes is None else model.classes.tolist()


def find_output(model: AdditiveModel, label: Any) -> tuple[int, int]:
    """Index of the score of a class, and its sign: -1 for the first of two classes, which share one score."""
    labels = list_labels(model)
    if label not in labels:
        raise ValueError(f"the model has no class {label!r}; its classes are {labels[:20]}")
    place = labels.index(label)
    return (place, 1) if len(labels) == model.n_outputs else (0, 1 if place else -1)


def read_table(model: AdditiveModel, X: Any) -> Columns:
    """The model's columns of any table that `predict` accepts; in rows given as dicts, absent keys are missing."""
    mappings = find_rows(X)
    if mappings is not None:
        X = {name: [row.get(name) for row in mappings] for name in model.encoder.names}
    return model.find_columns(X)


def plain_values(axis: Axis, column: Column) -> tuple[Value, ...]:
    """Raw values of a column: numbers or names of levels, None for missing."""
    if axis.is_level:
        codes, levels = column.to_labels()
        names = (*levels, None)  # code -1 is missing and selects the last
        return tuple(names[code] for code in codes)
    numbers, _ = column.parse()  # the model has already warned about text or rejected it
    return tuple(None if number != number else number for number in numbers.tolist())


def list_cells(axis: Axis) -> list[Any]:
    """Raw values of the knots, or names of the levels."""
    return axis.knots.tolist() if axis.levels is None else list(axis.levels)


def squeeze(values: np.ndarray) -> Any:
    """Values (…, K) without the last axis if K is 1; a single number as a float."""
    found = values[..., 0] if values.shape[-1] == 1 else values
    return float(found) if found.ndim == 0 else found


def to_python(value: Any) -> Any:
    """A NumPy scalar as a Python value, ready for JSON; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value
