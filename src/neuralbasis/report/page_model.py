"""The part of a model that a page stores: a model with some of the terms.

A page stores all terms, unless the model is wide or has too many numbers, such as hundreds of columns and hundreds of
classes. Then it stores the most important terms, and the terms that contribute most to the rows of the page.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ..data.columns import Columns
from ..model.additive_model import AdditiveModel
from ..model.shapes import AnyShape, LowRankShape, Shape, TiedShape, renumber

MAX_TERMS, MAX_ROW_TERMS = 200, 24  # most important terms of a wide model, and terms for each row
MAX_NUMBERS = 1_000_000  # in the tables of a wide model: the file stays small enough to send
MAX_TABLES = 2_000_000  # in the tables of any other model


@dataclass(frozen=True, eq=False)
class PageModel:
    """Some or all terms of a model.

    model : model of these terms and their columns, with dense tables
    features : indices of its columns in the whole model
    n_hidden : number of terms that are not on the page
    n_columns : number of columns of the whole model
    is_wide : whether terms are 0 where a value is absent
    """

    model: AdditiveModel
    features: tuple[int, ...]
    n_hidden: int
    n_columns: int
    is_wide: bool = False


def choose_page_model(model: AdditiveModel, rows: Columns | None) -> PageModel:
    """All terms, or some terms of a wide or large model; `rows` are the rows of the page."""
    n_columns = len(model.encoder.axes)
    if not model.is_wide and sum(_count_numbers(model, t) for t in range(len(model.shapes))) <= MAX_TABLES:
        return PageModel(model, tuple(range(n_columns)), 0, n_columns)
    chosen: list[Shape | TiedShape] = []
    room = MAX_NUMBERS if model.is_wide else MAX_TABLES
    for t in _rank_terms(model, rows):
        room -= _count_numbers(model, t)
        if chosen and room < 0:
            break
        chosen.append(_unfold(model.shapes[t]))
    features = tuple(sorted({feature for shape in chosen for feature in shape.term}))
    place = {feature: index for index, feature in enumerate(features)}
    shapes = tuple(renumber(shape, place) for shape in chosen)
    small = replace(model, encoder=model.encoder.take(features), shapes=shapes)
    return PageModel(small, features, len(model.shapes) - len(shapes), n_columns, model.is_wide)


def _count_numbers(model: AdditiveModel, t: int) -> int:
    return model.n_outputs * math.prod(axis.n_cells for axis in model.shapes[t].axes)


def _unfold(shape: AnyShape) -> Shape | TiedShape:
    """A low-rank term as a dense table."""
    if not isinstance(shape, LowRankShape):
        return shape
    return Shape(shape.term, shape.axes, shape.scores, shape.spread, shape.weights, shape.members)


def _rank_terms(model: AdditiveModel, rows: Columns | None) -> list[int]:
    """The terms with the largest contributions to each row, then the most important terms."""
    strongest = np.argsort(-model.importances(), kind="stable")[:MAX_TERMS].tolist()
    if rows is None:
        return strongest
    found = model.list_contributions(rows)
    own: list[int] = []
    for place in range(len(found)):
        terms, values = found.of_row(place)
        own += terms[np.argsort(-np.abs(values).max(axis=1), kind="stable")[:MAX_ROW_TERMS]].tolist()
    return list(dict.fromkeys([*own, *strongest]))
