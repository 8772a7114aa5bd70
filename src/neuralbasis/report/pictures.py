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
from ..encoding.axis import Axis
from ..explain import ClassExplanation, PictureExplanation, TermView
from ..model.additive_model import AdditiveModel
from ..model.shapes import Shape
from .tables import Pack, describe_term
from .thumbnails import encode_thumbnails

MAX_KNOTS = {1: 96, 2: 24, 3: 10}  # of a drawn table, by its number of columns
MAX_EXAMPLES = 6  # pictures per class
EXAMPLE_SIDES, PICTURE_SIDES = (160, 120, 96, 72, 56, 40), (448, 320, 240, 160, 120, 96)  # pixels
MAX_EXAMPLE_BYTES, MAX_PICTURE_BYTES = 5_000_000, 3_000_000  # of all examples, of all pictures


def describe_pictures(records: Sequence[Any], model: AdditiveModel, shown: Sequence[str], pack: Pack) -> dict[str, Any]:
    """The data of some classes and pictures; `shown` are the names of the terms on the page."""
    classes, pictures = _sort_records(records, model)
    places = {name: index for index, name in enumerate(shown)}
    drawn_terms = _DrawnTerms(pack, places)
    found = {"classes": [_describe_class(record, drawn_terms) for record in classes]}
    _add_examples(found["classes"], classes)
    found["pictures"] = [_describe_picture(record, places, pack) for record in pictures]
    addresses = encode_thumbnails([record.picture for record in pictures], PICTURE_SIDES, MAX_PICTURE_BYTES)
    for own, address in zip(found["pictures"], addresses, strict=True):
        own["address"] = address
    return found | {"axes": drawn_terms.axes}


def _sort_records(
    records: Sequence[Any], model: AdditiveModel
) -> tuple[list[ClassExplanation], list[PictureExplanation]]:
    classes, pictures = [], []
    for record in records:
        if isinstance(record, ClassExplanation):
            classes.append(record)
        elif isinstance(record, PictureExplanation):
            pictures.append(record)
        else:
            raise TypeError(
                "pictures must contain results of explain.explain_class and explain.explain_picture; got "
                f"{type(record).__name__}"
            )
        if record.model is not model and record.names != model.term_names:
            raise ValueError(f"pictures contains {record!r} of another model; explain it with the model of the page")
    return classes, pictures


def _describe_class(record: ClassExplanation, drawn_terms: _DrawnTerms) -> dict[str, Any]:
    return {
        "label": level_text(record.label),
        "rows": record.n_rows,
        "rival": None if record.rival is None else level_text(record.rival),
        "apart": [[one.name, one.size] for one in record.tells_apart],
        "for": [drawn_terms.add(term, record.gains[term.index]) for term in record.terms_for],
        "against": [drawn_terms.add(term, record.losses[term.index]) for term in record.terms_against],
    }


def _add_examples(described: Sequence[dict[str, Any]], classes: Sequence[ClassExplanation]) -> None:
    shown = [record.pictures[:MAX_EXAMPLES] for record in classes]
    pictures = [picture for some in shown for picture in some]
    addresses = iter(encode_thumbnails(pictures, EXAMPLE_SIDES, MAX_EXAMPLE_BYTES))
    for own, some in zip(described, shown, strict=True):
        own["examples"] = [next(addresses) for _ in some]


def _describe_picture(record: PictureExplanation, places: dict[str, int], pack: Pack) -> dict[str, Any]:
    row, sights = record.row, record.sights
    grids = [sight.heat for sight in sights if sight.heat is not None]
    low, high = (min(map(np.min, grids)), max(map(np.max, grids))) if grids else (0.0, 0.0)
    strengths = iter(pack.add_steps((grid - low) / ((high - low) or 1.0)) for grid in grids)
    label = record.outputs[record.output] if record.classes is None else record.classes[_find_label(record)]
    return {
        "label": level_text(label),
        "prediction": row.prediction if record.classes is None else level_text(row.prediction),
        "probability": None if row.probabilities is None else float(row.probabilities[_find_label(record)]),
        "actual": None if row.actual is None else level_text(row.actual),
        "size": [*record.picture.shape[1::-1]],
        "grid": [*grids[0].shape] if grids else None,
        "intercept": float(row.intercept[record.output]),
        "score": float(row.scores[record.output]),
        "others": len(row.names) - len(sights),
        "sights": [
            {
                "name": sight.name,
                "link": places.get(sight.name),
                "values": list(sight.values),
                "contribution": sight.contribution,
                "heat": None if sight.heat is None else next(strengths),
            }
            for sight in sights
        ],
    }


def _find_label(record: PictureExplanation) -> int:
    """Index of the class whose score is explained: the second of two classes."""
    return 1 if len(record.intercept) == 1 else record.output


class _DrawnTerms:
    """Small tables of single classes, and their axes, each stored once."""

    def __init__(self, pack: Pack, places: dict[str, int]):
        self.axes: list[dict[str, Any]] = []
        self._pack, self._places = pack, places
        self._known: dict[tuple[str, bytes], int] = {}

    def add(self, term: TermView, gain: float) -> dict[str, Any]:
        """Store a term for drawing, with its mean contribution."""
        small = _reduce_knots(term)
        indices = {id(axis): self._find_axis(axis) for axis in small.axes}
        has_members = small.members is not None and small.members.shape[-2] > 1
        found = describe_term(small, range(len(small.axes)), indices, has_members, self._pack)
        return found | {"gain": float(gain), "link": self._places.get(term.name)}

    def _find_axis(self, axis: Axis) -> int:
        key = axis.name, axis.knots.tobytes()
        if key not in self._known:
            self._known[key] = len(self.axes)
            levels = None if axis.levels is None else list(axis.levels)
            # The page looks up a level by its knot; a coarser axis has knots of levels that it does not list.
            knots = axis.knots if levels is None else np.arange(len(levels))
            start = self._pack.add_exact(knots)
            self.axes.append({"name": axis.name, "levels": levels, "knots": start, "count": len(knots)})
        return self._known[key]


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
        weights = _gather(weights, np.searchsorted((cells[1:] + cells[:-1]) / 2, np.arange(count + 2)), len(cells), d)
    return replace(term, shape=Shape(tuple(range(len(axes))), tuple(axes), scores, spread, weights, members))


def _gather(weights: np.ndarray, owners: np.ndarray, count: int, axis: int) -> np.ndarray:
    """Sum weights along an axis by owner."""
    moved = np.moveaxis(weights, axis, 0)
    found = np.zeros((count, *moved.shape[1:]))
    np.add.at(found, owners, moved)
    return np.moveaxis(found, 0, axis)
