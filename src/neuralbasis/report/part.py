"""Part: the terms of a model that a page shows, as a model of their own.

Of a wide model these are the strongest, and those that contribute most to the rows of the page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..columns import Columns
from ..encoder import Encoder
from ..model import AdditiveModel
from ..shape import Shape

MAX_TERMS, MAX_ROW_TERMS = 200, 24  # of a wide model, and for each row
MAX_NUMBERS = 1_000_000  # in their tables: a page stays a file one can send


@dataclass(frozen=True, eq=False)
class Part:
    """Some terms of a model.

    Parameters
    ----------
    model : a model of these terms and their columns, with plain tables
    features : which columns of the whole model they are
    n_hidden : terms that are not shown
    n_columns : of the whole model
    is_wide : are its terms 0 where a value is absent?
    """

    model: AdditiveModel
    features: tuple[int, ...]
    n_hidden: int
    n_columns: int
    is_wide: bool = False


def choose_part(model: AdditiveModel, rows: Columns | None) -> Part:
    """All terms, or some of a wide model; `rows` are those of the page."""
    n_columns = len(model.encoder.axes)
    if not model.is_wide:
        return Part(model, tuple(range(n_columns)), 0, n_columns)
    chosen: list[Shape] = []
    room = MAX_NUMBERS
    for t in _rank_terms(model, rows):
        shape = model.shapes[t]
        scores = shape.scores
        if chosen and scores.size > room:
            break
        chosen.append(Shape(shape.term, shape.axes, scores, shape.spread, shape.weights, shape.members))
        room -= scores.size
    features = tuple(sorted({feature for shape in chosen for feature in shape.term}))
    place = {feature: index for index, feature in enumerate(features)}
    shapes = tuple(replace(shape, term=tuple(place[feature] for feature in shape.term)) for shape in chosen)
    encoder = Encoder(tuple(model.encoder.axes[feature] for feature in features))
    small = replace(model, encoder=encoder, shapes=shapes)
    return Part(small, features, len(model.shapes) - len(shapes), n_columns, is_wide=True)


def _rank_terms(model: AdditiveModel, rows: Columns | None) -> list[int]:
    """The strongest terms of each row, by their largest contribution to a score, and then those of all rows."""
    strongest = np.argsort(-model.importances(), kind="stable")[:MAX_TERMS].tolist()
    if rows is None:
        return strongest
    found = model.list_contributions(rows)
    own: list[int] = []
    for place in range(len(found)):
        terms, values = found.of_row(place)
        own += terms[np.argsort(-np.abs(values).max(axis=1), kind="stable")[:MAX_ROW_TERMS]].tolist()
    return list(dict.fromkeys([*own, *strongest]))
