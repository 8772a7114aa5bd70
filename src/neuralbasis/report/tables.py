"""The model as data of the page: plain values and packed arrays.

Tables and knots are packed as float64, because the page predicts with them. Arrays that are only drawn are packed as
16-bit steps between their minimum and maximum: spread, members, and the square roots of the weights, which keep a
single row visible beside cells with many thousands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..data.columns import level_text
from ..encoding.axis import Axis
from ..explain import GlobalExplanation, TermView, bands
from ..explain.point_masses import PointMass, list_point_masses, point_masses
from ..explain.sentences import describe_outputs
from ..model.additive_model import AdditiveModel
from ..model.shapes import LEVEL, QUANTILE, TiedShape
from ..model.summary import Summary, to_plain
from .page_model import PageModel

MAX_MEMBER_NUMBERS = 600_000  # of all terms, most important first: the file stays small enough to send
MAX_SENTENCES = 10_000
STEPS = 2**16 - 1
COVERAGE = 0.9  # of prediction intervals


class Pack:
    """Concatenated arrays; the page reads each kind as one typed array.

    Examples
    --------
    >>> pack = Pack()
    >>> pack.add_exact(np.zeros((2, 3))), pack.add_exact(np.ones(2)), pack.add_steps(np.array([-1.0, 1.0]))
    (0, 6, [0, -1.0, 3.0518...e-05])
    >>> pack.join("exact").tolist()
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0]
    """

    TYPES: Mapping[str, str] = {"exact": "<f8", "steps": "<u2"}

    def __init__(self) -> None:
        self._arrays: dict[str, list[np.ndarray]] = {kind: [] for kind in self.TYPES}
        self._sizes = dict.fromkeys(self.TYPES, 0)

    def _add(self, kind: str, array: np.ndarray) -> int:
        start = self._sizes[kind]
        self._arrays[kind].append(np.ascontiguousarray(array, dtype=self.TYPES[kind]).ravel())
        self._sizes[kind] += array.size
        return start

    def add_exact(self, array: np.ndarray) -> int:
        """Append an array; returns the index of its first number."""
        return self._add("exact", array)

    def add_steps(self, array: np.ndarray) -> list[float]:
        """Append a quantized array; returns the index of its first number, its minimum and the size of a step."""
        low, high = float(array.min()), float(array.max())
        step = (high - low) / STEPS
        steps = np.rint((array - low) / (step or 1.0))
        return [self._add("steps", steps), low, step]

    def join(self, kind: str) -> np.ndarray:
        return np.concatenate([np.empty(0, self.TYPES[kind]), *self._arrays[kind]])


class AxisList:
    """Axes of the page, each stored once: interactions share the coarser axis of a column."""

    def __init__(self, pack: Pack):
        self.items: list[dict[str, Any]] = []
        self._pack = pack
        self._known: dict[tuple[int | str, bytes], int] = {}

    def add(self, column: int | str, axis: Axis, knots: np.ndarray, /, **facts: Any) -> int:
        """Index of the axis of a column; `knots` are those that the page reads."""
        key = column, axis.knots.tobytes()
        if key not in self._known:
            self._known[key] = len(self.items)
            self.items.append({**facts, "knots": self._pack.add_exact(knots), "count": len(knots)})
        return self._known[key]


def describe_model(
    page_model: PageModel, explanation: GlobalExplanation, pack: Pack, title: str | None
) -> dict[str, Any]:
    """The data of the page, without rows."""
    model = page_model.model
    axes, indices = AxisList(pack), []
    has_sentences = len(model.shapes) * model.n_outputs <= MAX_SENTENCES
    for shape in model.shapes:
        pairs = zip(shape.term, shape.axes, strict=True)
        indices.append([axes.add(feature, axis, axis.knots, column=feature) for feature, axis in pairs])
    keeps = _choose_members(explanation.terms)
    mains = {view.columns[0]: point_masses(view) for view in explanation.terms if len(view.columns) == 1}
    terms = [
        {
            **describe_term(view, shape.term, own, keep, pack),
            "warning": bands.describe_concurvity(view, model.encoder.names),
            "masses": _describe_masses(list_point_masses(view, mains)),
            "sentences": describe_outputs(view) if has_sentences else None,
        }
        for view, shape, own, keep in zip(explanation.terms, model.shapes, indices, keeps, strict=True)
    ]
    own = {view.columns[0]: view.weights for view in explanation.terms if len(view.columns) == 1}
    target = None if model.summary is None else model.summary.target
    return {
        "title": title if title is not None else "The model" if target is None else f"What drives {target}",
        "target": target,
        "link": explanation.link,
        "classes": None if explanation.classes is None else [level_text(label) for label in explanation.classes],
        "outputs": [level_text(label) for label in explanation.outputs],
        "intercept": explanation.intercept.tolist(),
        "columns": [_describe_column(axis, own.get(axis.name)) for axis in model.encoder.axes],
        "axes": axes.items,
        "terms": terms,
        "wide": page_model.is_wide,
        "hidden": page_model.n_hidden,
        "allColumns": page_model.n_columns,
        "summary": None if model.summary is None else _describe_summary(model.summary),
        "interval": _describe_interval(model),
        "words": {
            "level": f"{100 * LEVEL:.0f} %",
            "each": bands.EACH_VALUE,
            "whole": bands.WHOLE_CURVE,
            "intervals": bands.INTERVALS,
            "members": bands.OVER_MEMBERS,
            "unclear": bands.NO_EFFECT,
        },
        "rows": None,
        "accuracy": None,
        "outcomes": None,
        "evidence": None,
    }


def _describe_interval(model: AdditiveModel) -> dict[str, Any] | None:
    """Centres of the regions of the score, and the quantiles of the residuals for the lower and the upper bound."""
    if len(model.residuals) != 1:
        return None
    (residuals,) = model.residuals
    quantiles = residuals.read(np.array([(1 - COVERAGE) / 2, (1 + COVERAGE) / 2]))
    return {"coverage": COVERAGE, "centres": residuals.centres.tolist(), "quantiles": quantiles.T.tolist()}


def _choose_members(views: Sequence[TermView]) -> list[bool]:
    """Which terms store their members: main effects without evidence, most important first, up to the limit."""
    keeps, room = [False] * len(views), MAX_MEMBER_NUMBERS
    for place in sorted(range(len(views)), key=lambda place: -views[place].importance):
        view = views[place]
        members = view.members if len(view.columns) == 1 and view.evidence is None else None
        if members is not None and members.shape[-2] > 1 and members.size <= room:
            keeps[place], room = True, room - members.size
    return keeps


def describe_term(
    view: TermView, columns: Sequence[int], axes: Sequence[int], has_members: bool, pack: Pack
) -> dict[str, Any]:
    members = np.moveaxis(view.members, -2, 0) if has_members and view.members is not None else None
    tied = view.shape if isinstance(view.shape, TiedShape) else None
    return {
        "name": view.name,
        "columns": list(columns),
        "axes": axes,
        "scores": pack.add_exact(view.scores if tied is None else tied.values),
        "mix": None if tied is None else [len(tied.mix), pack.add_exact(tied.mix.mean(axis=1))],
        "spread": pack.add_steps(view.spread),
        "weights": pack.add_steps(np.sqrt(view.weights)),
        "members": None if members is None else [len(members), *pack.add_steps(members)],
        "importance": view.importance,
        "importanceSpread": to_plain(view.importance_spread),
        "importances": view.importances.tolist(),
        **_describe_evidence(view),
    }


def _describe_masses(masses: Sequence[Sequence[PointMass]]) -> list[list[list[int]]]:
    """For each column: cell, and whether a mass is apart and joined."""
    return [[[mass.cell, int(mass.is_apart), int(mass.is_joined)] for mass in own] for own in masses]


def _describe_evidence(view: TermView) -> dict[str, Any]:
    """Widths of the bands as multiples of the spread, and texts for terms without a clear effect, one per score."""
    evidence, n_outputs = view.evidence, len(view.importances)
    if evidence is None:
        return {"each": 1.0, "whole": None, "effects": [""] * n_outputs, "importanceErrors": None}
    return {
        "each": QUANTILE,
        "whole": evidence.multipliers.tolist(),
        "effects": [bands.describe_effect(view, [output]) for output in range(n_outputs)],
        "importanceErrors": (QUANTILE * evidence.importance_errors).tolist(),
    }


def _describe_column(axis: Axis, weights: np.ndarray | None) -> dict[str, Any]:
    return {
        "name": axis.name,
        "levels": None if axis.levels is None else list(axis.levels),
        "ordinal": axis.kind == "ordinal",
        "low": float(axis.knots[0]),
        "high": float(axis.knots[-1]),
        "whole": bool((axis.knots == np.rint(axis.knots)).all()),
        "typical": _find_typical(axis, weights),
    }


def _find_typical(axis: Axis, weights: np.ndarray | None) -> float:
    """The most frequent level, or the median knot."""
    inner = np.ones(len(axis.knots)) if weights is None or not weights[1:-1].any() else weights[1:-1]
    if axis.is_level:
        return float(axis.knots[inner.argmax()])
    return float(axis.knots[np.searchsorted(np.cumsum(inner), inner.sum() / 2)])


def _describe_summary(found: Summary) -> dict[str, Any]:
    return {
        "estimator": found.estimator,
        "rows": found.n_rows,
        "columns": found.n_columns,
        "validation": found.validation,
        "constant": to_plain(found.history.get("constant")),
        "date": found.date,
        "versions": found.versions,
    }
