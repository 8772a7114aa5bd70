"""The scale of a figure: which classes are drawn, and in which unit.

    score          contribution to the score
    reference      contribution to the score of a class minus the contribution to the score of a reference class
    probability    link⁻¹(intercept + contribution): the probability if all other contributions were 0

The delta method gives bands of differences and of log odds; the errors of classes are added as if independent.

In: a GlobalExplanation and the options of a figure. Out: a `Scale`, which converts a term to a `ScaledTerm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, logsumexp, softmax

from ..explain import GlobalExplanation, TermView
from ..explain.bands import EACH_VALUE, OVER_MEMBERS, describe_effect
from ..explain.explanation import list_labels
from ..losses.links import inverse_link
from ..model.additive_model import AdditiveModel
from ..model.shapes import QUANTILE, Shape
from .canvas import plain

MAX_CLASSES = 10
SCALES = ("score", "probability")


class Band(NamedTuple):
    """Lower and upper ends (c_1, …, c_o, k)."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True, eq=False)
class ScaledTerm:
    """The numbers of one term on the scale of a figure, for the k drawn classes."""

    term: TermView
    mean: np.ndarray  # (c_1, …, c_o, k) value of each cell
    inner: Band  # described by `inner_name`
    members: np.ndarray | None  # (c_1, …, c_o, M, k); None where the outer band is known
    base: np.ndarray  # (k,) value at a contribution of 0
    outer: Band | None = None  # for the whole curve
    effect: str = ""  # says that the term has no clear effect
    inner_name: str = OVER_MEMBERS
    limits: tuple[float, float] = (-np.inf, np.inf)  # possible values


@dataclass(frozen=True, eq=False)
class Scale:
    """Which classes are drawn, and in what unit."""

    explanation: GlobalExplanation
    outputs: tuple[int, ...]  # indices of the drawn scores or probabilities
    kind: str = "score"  # or "probability"
    reference: int | None = None  # index of the class that the others are compared with

    @property
    def is_multiclass(self) -> bool:
        """Whether the model has one score for each class."""
        return len(self.explanation.intercept) > 1

    @property
    def colour_indices(self) -> tuple[int, ...]:
        """Indices into the colours for the drawn classes: a class has the same colour in every figure."""
        return self.outputs if self.is_multiclass else (0,)

    @property
    def labels(self) -> list[str]:
        """Names of the drawn classes."""
        return [plain(list_labels(self.explanation.model)[output], 20) for output in self.outputs]

    @property
    def class_note(self) -> str:
        """Second line of a title that names the drawn class of several; empty otherwise."""
        return f"\nfor {self.labels[0]}" if self.is_multiclass else ""

    @property
    def unit(self) -> str:
        """Axis label of the drawn numbers."""
        if self.kind == "probability":
            whose = "" if self.is_multiclass else f" of {self.labels[0]}"
            return f"probability{whose}, other terms at 0"
        if self.reference is not None:
            return f"contribution to log odds versus {plain(self.explanation.outputs[self.reference], 20)}"
        if self.explanation.link != "logit":
            return f"contribution to {'prediction' if self.explanation.link == 'identity' else 'score'}"
        classes = self.explanation.classes
        return "contribution to log odds" + ("" if classes is None else f" of {plain(classes[1], 20)}")

    def select(self, *outputs: int) -> Scale:
        return replace(self, outputs=outputs)

    def apply(self, term: TermView) -> ScaledTerm:
        scaled = self._scale(term)
        return replace(scaled, limits=(0.0, 1.0)) if self.kind == "probability" else scaled

    def _scale(self, term: TermView) -> ScaledTerm:
        mean, members = self._convert(term.scores), None
        base = self._convert(np.zeros((1, len(self.explanation.intercept))))[0]
        effect = describe_effect(term, self.outputs if self.is_multiclass and self.reference is None else None)
        if term.evidence is not None:
            inner, outer = self._find_bands(term, term.evidence.multipliers)
            return ScaledTerm(term, mean, inner, None, base, outer, effect, EACH_VALUE)
        if term.members is not None and term.members.shape[-2] > 1:
            members = self._convert(term.members)
        if self.kind == "score" and self.reference is None:
            return ScaledTerm(term, mean, self._convert_band(term, term.spread), members, base, None, effect)
        spread = np.zeros_like(mean) if members is None else members.std(axis=-2, ddof=1)
        return ScaledTerm(term, mean, Band(mean - spread, mean + spread), members, base, None, effect)

    def _find_bands(self, term: TermView, multipliers: np.ndarray) -> tuple[Band, Band]:
        """The bands for each value, and for the whole curve with the largest multiplier of the compared scores."""
        if self.reference is None and (self.kind == "score" or not self.is_multiclass):  # depends on one score
            halves = QUANTILE * term.spread, multipliers * term.spread
            return self._convert_band(term, halves[0]), self._convert_band(term, halves[1])
        drawn, classes = list(self.outputs), np.eye(len(multipliers))
        if self.reference is None:
            middle, shares = compare_with_others(term.scores + self.explanation.intercept, drawn)
            largest = multipliers.max()
        else:
            middle, shares = self._convert(term.scores), classes[self.reference]
            largest = np.maximum(multipliers[drawn], multipliers[self.reference])
        error = np.sqrt((((classes[drawn] - shares) * term.spread[..., None, :]) ** 2).sum(axis=-1))
        ends = [middle + factor * error for factor in (-QUANTILE, QUANTILE, -largest, largest)]
        low, high, lowest, highest = ends if self.kind == "score" else map(expit, ends)
        return Band(low, high), Band(lowest, highest)

    def _convert_band(self, term: TermView, half: np.ndarray) -> Band:
        return Band(self._convert(term.scores - half), self._convert(term.scores + half))

    def _convert(self, scores: np.ndarray) -> np.ndarray:
        """Scores (…, K) -> drawn values (…, k)."""
        if self.kind == "probability":
            flat = (scores + self.explanation.intercept).reshape(-1, scores.shape[-1])
            scores = inverse_link(self.explanation.link, flat).reshape(*scores.shape[:-1], -1)
        drawn = scores[..., list(self.outputs)]
        return drawn if self.reference is None else drawn - scores[..., [self.reference]]


def compare_with_others(scores: np.ndarray, outputs: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """Log odds (…, k) of some classes, and the share (…, k, K) of each class in the probability of the others."""
    others = np.repeat(scores[..., None, :], len(outputs), axis=-2)
    others[..., range(len(outputs)), outputs] = -np.inf
    return scores[..., outputs] - logsumexp(others, axis=-1), softmax(others, axis=-1)


def find_clear_cells(scaled: ScaledTerm) -> np.ndarray | None:
    """(c_1, …, c_o) whether the outer band of the first drawn class excludes a contribution of 0; None if unknown."""
    if scaled.outer is None:
        return None
    low, high, base = scaled.outer.low[..., 0], scaled.outer.high[..., 0], scaled.base[0]
    # Cells that no training row describes have a band of width 0.
    return ((low > base) | (high < base)) & (low < high)


def choose_scale(
    explanation: GlobalExplanation, classes: Sequence[Any] | None = None, kind: str = "score", reference: Any = None
) -> Scale:
    """Check the options of a figure and return their scale."""
    if kind not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}; got {kind!r}")
    if kind == "probability" and explanation.classes is None:
        raise ValueError("scale='probability' needs a classifier; this model is a regression: use scale='score'")
    if kind == "probability" and reference is not None:
        raise ValueError("reference compares scores; omit it with scale='probability'")
    if len(explanation.intercept) == 1:
        if classes is not None or reference is not None:
            raise ValueError(
                "classes and reference need three or more classes; this model has a single score: omit them"
            )
        return Scale(explanation, (int(kind == "probability"),), kind)
    compared = None if reference is None else find_class(explanation, reference, "reference")
    if classes is None:
        chosen = [output for output in range(len(explanation.intercept)) if output != compared][:MAX_CLASSES]
    else:
        chosen = [find_class(explanation, label, "classes") for label in classes]
    if not 1 <= len(chosen) <= MAX_CLASSES:
        raise ValueError(f"classes must name 1 to {MAX_CLASSES} classes; got {len(chosen)}")
    return Scale(explanation, tuple(chosen), kind, compared)


def find_class(explanation: Any, label: Any, argument: str) -> int:
    """Index of a class, in any kind of explanation."""
    known = list_labels(explanation.model)
    if label not in known:
        raise ValueError(f"{argument} contains {label!r}; the model's classes are {known[:20]}")
    return known.index(label)


def choose_class(explanation: GlobalExplanation, term: TermView, label: Any) -> list[Any] | None:
    """The label, or the class for which a term is strongest; None for a model with a single score."""
    if label is None and len(explanation.intercept) > 1:
        label = list_labels(explanation.model)[int(term.importances.argmax())]
    return None if label is None else [label]


def scale_alone(term: TermView) -> ScaledTerm:
    """A term with a single score, on the scale of this score."""
    scores, spread, evidence = term.scores, term.spread, term.evidence
    if evidence is None:
        members = None if term.members is None or term.members.shape[-2] < 2 else term.members
        return ScaledTerm(term, scores, Band(scores - spread, scores + spread), members, np.zeros(1))
    halves = QUANTILE * spread, evidence.multipliers * spread
    inner, outer = (Band(scores - half, scores + half) for half in halves)
    return ScaledTerm(term, scores, inner, None, np.zeros(1), outer, describe_effect(term), EACH_VALUE)


def add_mains(model: AdditiveModel, pair: TermView) -> TermView:
    """The pair with the main effects of its columns added to its scores; errors add as if they were independent."""
    total, variance = np.array(pair.scores), np.square(pair.spread)
    for d, feature in enumerate(model.terms[pair.index]):
        if (feature,) in model.terms:
            main = model.shapes[model.terms.index((feature,))]
            score, spread = (main.axes[0].carry(table, pair.axes[d]) for table in (main.scores, main.spread))
            total += np.expand_dims(score, 1 - d)
            variance += np.expand_dims(spread, 1 - d) ** 2
    shape = Shape(pair.shape.term, pair.axes, total, np.sqrt(variance), pair.weights, evidence=pair.evidence)
    return replace(pair, shape=shape)


def find_pair(explanation: GlobalExplanation, pair: Any, total: bool) -> TermView:
    """A pair; with `total`, the main effects of its columns are added to its scores."""
    term = explanation.find(pair)
    if len(term.columns) != 2:
        names = zip(explanation.names, explanation.model.terms, strict=True)
        pairs = [name for name, features in names if len(features) == 2]
        listed = ", ".join(repr(name) for name in pairs[:10]) or "none"
        raise ValueError(f"expected a pair; got {term.name!r}. The model's pairs are: {listed}")
    return add_mains(explanation.model, term) if total else term
