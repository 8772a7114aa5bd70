"""The difference of two models, term by term.

    difference of a term = Σ_cells w |f(cell) − g(cell)| / Σ_cells w        w: training weights of the first model

In: two models. Out: one `TermDifference` per term of either, the largest first. The second model is evaluated at the
knots and levels of the first. Differences of pairs are measured on their tables in the same way.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import numpy as np

from ..data.columns import level_text
from ..encoding.axis import Axis
from ..model.additive_model import AdditiveModel
from ..model.shapes import AnyShape
from .errors import CommandError


@dataclass(frozen=True)
class TermDifference:
    """Importance of a term in each model, None if it is absent, and the mean distance of the two."""

    term: str
    first: float | None
    second: float | None
    difference: float
    note: str = ""


def compare_models(first: AdditiveModel, second: AdditiveModel) -> list[TermDifference]:
    """All terms of both models, the largest difference first."""
    _check_kind(first, second)
    sizes = [dict(zip(model.term_names, model.importances(), strict=True)) for model in (first, second)]
    found = []
    for name in dict.fromkeys([*first.term_names, *second.term_names]):
        own, other = sizes[0].get(name), sizes[1].get(name)
        if own is None or other is None:
            note = f"only in the {'first' if other is None else 'second'} model"
            found.append(TermDifference(name, own, other, float(own or other or 0.0), note))
        else:
            shape = first.shapes[first.term_names.index(name)]
            found.append(TermDifference(name, float(own), float(other), measure(shape, first, second, name)))
    return sorted(found, key=lambda row: -row.difference)


def measure(shape: AnyShape, first: AdditiveModel, second: AdditiveModel, name: str) -> float:
    """Mean distance of a term of both models over the cells with training rows of the first."""
    cells = list(product(*(_list_values(axis) for axis in shape.axes)))
    weights = np.asarray(shape.weights)[tuple(slice(0, 1 + len(_list_values(axis)[1:])) for axis in shape.axes)].ravel()
    kept = [place for place, weight in enumerate(weights) if weight > 0]
    names = dict.fromkeys([*first.encoder.names, *second.encoder.names])
    columns = {column: np.full(len(kept), None, dtype=object) for column in names}
    for k, axis in enumerate(shape.axes):
        columns[axis.name] = np.array([cells[place][k] for place in kept], dtype=object)
    scores = []
    for model in (first, second):
        rows = {column: columns[column] for column in model.encoder.names}
        scores.append(model.contributions(rows)[:, model.term_names.index(name)].reshape(len(kept), -1))
    distance = np.abs(scores[0] - scores[1]).mean(axis=1)
    return float(np.average(distance, weights=weights[kept])) if kept else 0.0


def _list_values(axis: Axis) -> list[float | str | None]:
    """Raw values of the cells of an axis but the last, which holds unseen values: missing, then knots or levels."""
    return [None, *(axis.knots.tolist() if axis.levels is None else axis.levels)]


def _check_kind(first: AdditiveModel, second: AdditiveModel) -> None:
    if first.is_wide or second.is_wide:
        raise CommandError("models of very wide sparse tables cannot be compared term by term; compare their scores")
    kinds = [
        (model.link, [] if model.classes is None else [level_text(label) for label in model.classes])
        for model in (first, second)
    ]
    if kinds[0] != kinds[1]:
        raise CommandError("the models have different targets or classes; compare models of one target")
