"""Classes with examples, and pictures with their concepts, as data of the page.

In: results of `explain_class` and `explain_picture`. Out: plain values and packed arrays. The shapes of a class are
stored as small tables with fewer knots, because they are only drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..data.columns import level_text
from ..explain import ClassExplanation, PictureExplanation, TermView
from ..model.additive_model import AdditiveModel
from ..model.shapes import Shape
from .tables import AxisList, Pack, describe_term
from .thumbnails import encode_thumbnails

MAX_KNOTS = {1: 96, 2: 24, 3: 10}  # of a drawn table, by its number of columns
MAX_EXAMPLES = 6  # pictures per class
EXAMPLE_SIDES, PICTURE_SIDES = (160, 120, 96, 72, 56, 40), (448, 320, 240, 160, 120, 96)  # pixels
MAX_EXAMPLE_BYTES, MAX_PICTURE_BYTES = 5_000_000, 3_000_000  # of all examples, of all pictures


def describe_pictures(records: Sequence[Any], model: AdditiveModel, shown: Sequence[str], pack: Pack) -> dict[str, Any]:
    """The data of some classes and pictures; `shown` are the names of the terms on the page."""
    for record in records:
        _check_record(record, model)
    classes = [record for record in records if isinstance(record, ClassExplanation)]
    pictures = [record for record in records if isinstance(record, PictureExplanation)]
    places, axes = {name: index for index, name in enumerate(shown)}, AxisList(pack)
    examples = [record.pictures[:MAX_EXAMPLES] for record in classes]
    small = iter(encode_thumbnails([each for some in examples for each in some], EXAMPLE_SIDES, MAX_EXAMPLE_BYTES))
    large = encode_thumbnails([record.picture for record in pictures], PICTURE_SIDES, MAX_PICTURE_BYTES)
    return {
        "classes": [
            {**_describe_class(record, places, axes, pack), "examples": [next(small) for _ in some]}
            for record, some in zip(classes, examples, strict=True)
        ],
        "pictures": [
            {**_describe_picture(record, places, pack), "address": address}
            for record, address in zip(pictures, large, strict=True)
        ],
        "axes": axes.items,
    }


def _check_record(record: Any, model: AdditiveModel) -> None:
    if not isinstance(record, (ClassExplanation, PictureExplanation)):
        raise TypeError(
            "pictures must contain results of explain.explain_class and explain.explain_picture; got "
            f"{type(record).__name__}"
        )
    if record.model is not model and record.names != model.term_names:
        raise ValueError(f"pictures contains {record!r} of another model; explain it with the model of the page")


def _describe_class(record: ClassExplanation, places: dict[str, int], axes: AxisList, pack: Pack) -> dict[str, Any]:
    def draw(term: TermView, gains: np.ndarray) -> dict[str, Any]:
        gain = {"gain": float(gains[term.index]), "link": places.get(term.name)}
        return _describe_drawn_term(_reduce_knots(term), axes, pack) | gain

    return {
        "label": level_text(record.label),
        "rows": record.n_rows,
        "rival": None if record.rival is None else level_text(record.rival),
        "apart": [[one.name, one.size] for one in record.distinguished_by],
        "for": [draw(term, record.gains) for term in record.terms_for],
        "against": [draw(term, record.losses) for term in record.terms_against],
    }


def _describe_drawn_term(term: TermView, axes: AxisList, pack: Pack) -> dict[str, Any]:
    indices = []
    for axis in term.axes:
        # The page looks up a level by its knot; a coarser axis has knots of levels that it does not list.
        knots = axis.knots if axis.levels is None else np.arange(float(len(axis.levels)))
        indices.append(axes.add(axis.name, axis, knots, name=axis.name, levels=axis.levels))
    has_members = term.evidence is None and term.members is not None and term.members.shape[-2] > 1
    return describe_term(term, range(len(indices)), indices, has_members, pack)


def _describe_picture(record: PictureExplanation, places: dict[str, int], pack: Pack) -> dict[str, Any]:
    row, terms = record.row, record.terms
    grids = [term.heat for term in terms if term.heat is not None]
    low, high = (min(map(np.min, grids)), max(map(np.max, grids))) if grids else (0.0, 0.0)
    place = 1 if len(record.intercept) == 1 else record.output  # two classes share the score of the second
    return {
        "label": level_text(record.outputs[record.output] if record.classes is None else record.classes[place]),
        "prediction": row.prediction if record.classes is None else level_text(row.prediction),
        "probability": None if row.probabilities is None else float(row.probabilities[place]),
        "actual": None if row.actual is None else level_text(row.actual),
        "size": [*record.picture.shape[1::-1]],
        "grid": [*grids[0].shape] if grids else None,
        "intercept": float(row.intercept[record.output]),
        "score": float(row.scores[record.output]),
        "others": len(row.names) - len(terms),
        "terms": [
            {
                "name": term.name,
                "link": places.get(term.name),
                "values": list(term.values),
                "contribution": term.contribution,
                "heat": None if term.heat is None else pack.add_steps((term.heat - low) / ((high - low) or 1.0)),
            }
            for term in terms
        ],
    }


def _reduce_knots(term: TermView) -> TermView:
    """The same term with fewer knots; training weight moves to the nearest remaining knot."""
    scores, spread, weights, members = term.scores, term.spread, term.weights, term.members
    axes = []
    for d, axis in enumerate(term.axes):
        limit, count = MAX_KNOTS[len(term.axes)], len(axis.knots)
        if axis.is_level or count <= limit:
            axes.append(axis)
            continue
        kept = np.unique(np.linspace(0, count - 1, limit).round().astype(int))
        axes.append(replace(axis, knots=axis.knots[kept], places=axis.places[kept]))
        cells = np.r_[0, kept + 1, count + 1]
        scores, spread = scores.take(cells, d), spread.take(cells, d)
        members = None if members is None else members.take(cells, d)
        weights = np.add.reduceat(weights, np.r_[0, (cells[1:] + cells[:-1]) // 2 + 1], axis=d)
    own = tuple(range(len(axes)))
    shape = Shape(own, tuple(axes), scores, spread, weights, members, evidence=term.evidence)
    return replace(term, shape=shape)
