"""The scale of a figure: which classes are drawn, and in which unit.

    score          contribution to the score
    reference      contribution to the score of a class minus the contribution to the score of a reference class
    probability    link⁻¹(intercept + contribution): the probability if all other contributions were 0

In: a GlobalExplanation and the options of a figure. Out: a `Scale`, which converts a term to a `ScaledTerm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..encoding.axis import Axis
from ..explain import GlobalExplanation, TermView
from ..losses.links import inverse_link
from .canvas import plain

MAX_CLASSES = 10
SCALES = ("score", "probability")


@dataclass(frozen=True, eq=False)
class ScaledTerm:
    """The numbers of one term on the scale of a figure.

    Parameters
    ----------
    term : the term
    mean : (c_1, …, c_o, k) value of each cell for the k drawn classes
    spread : standard deviation over the members, same shape; 0 if it is unknown
    members : (c_1, …, c_o, M, k) values of the members, or None
    base : (k,) value at a contribution of 0
    """

    term: TermView
    mean: np.ndarray
    spread: np.ndarray
    members: np.ndarray | None
    base: np.ndarray


@dataclass(frozen=True, eq=False)
class Scale:
    """Which classes are drawn, and in what unit.

    Parameters
    ----------
    explanation : the model
    outputs : indices of the drawn scores or probabilities
    kind : "score" or "probability"
    reference : index of the class that the others are compared with, or None
    """

    explanation: GlobalExplanation
    outputs: tuple[int, ...]
    kind: str = "score"
    reference: int | None = None

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
        return [plain(_list_labels(self.explanation)[output], 20) for output in self.outputs]

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
            return "contribution to score"
        classes = self.explanation.classes
        return "contribution to log odds" + ("" if classes is None else f" of {plain(classes[1], 20)}")

    @property
    def map_unit(self) -> str:
        """Label of the colour bar of a map, which shows the change that a term makes."""
        return "change in probability" if self.kind == "probability" else self.unit

    def select(self, *outputs: int) -> Scale:
        return replace(self, outputs=outputs)

    def apply(self, term: TermView, scores: np.ndarray | None = None) -> ScaledTerm:
        """Convert a term; `scores` (c_1, …, c_o, K), if given, replace its own and have no members or spread."""
        if scores is not None:
            mean = self._convert(scores)
            return ScaledTerm(term, mean, np.zeros_like(mean), None, self.base)
        mean, members = self._convert(term.scores), None
        if term.members is not None and term.members.shape[-2] > 1:
            members = self._convert(term.members)
        if self.kind == "score" and self.reference is None:
            spread = term.spread[..., list(self.outputs)]
        else:
            spread = np.zeros_like(mean) if members is None else members.std(axis=-2, ddof=1)
        return ScaledTerm(term, mean, spread, members, self.base)

    @property
    def base(self) -> np.ndarray:
        return self._convert(np.zeros((1, len(self.explanation.intercept))))[0]

    def _convert(self, scores: np.ndarray) -> np.ndarray:
        """Scores (…, K) -> drawn values (…, k)."""
        if self.kind == "probability":
            flat = (scores + self.explanation.intercept).reshape(-1, scores.shape[-1])
            scores = inverse_link(self.explanation.link, flat).reshape(*scores.shape[:-1], -1)
        drawn = scores[..., list(self.outputs)]
        return drawn if self.reference is None else drawn - scores[..., [self.reference]]


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
    known = _list_labels(explanation)
    if label not in known:
        raise ValueError(f"{argument} contains {label!r}; the model's classes are {known[:20]}")
    return known.index(label)


def _list_labels(explanation: Any) -> list[Any]:
    return list(explanation.outputs if explanation.classes is None else explanation.classes)


def add_mains(explanation: GlobalExplanation, term: TermView) -> np.ndarray:
    """(c_1, …, c_o, K) scores of a term plus the main effects of its columns, on the cells of the term."""
    total = np.array(term.scores)
    for d, (column, axis) in enumerate(zip(term.columns, term.axes, strict=True)):
        feature = (explanation.columns.index(column),)
        if feature in explanation.model.terms:
            main = explanation.find(explanation.model.terms.index(feature))
            shape = [1] * len(term.axes)
            shape[d] = axis.n_cells
            total += _read_main(main, axis).reshape(*shape, -1)
    return total


def _read_main(main: TermView, axis: Axis) -> np.ndarray:
    """(cells, K) a main effect at the cells of a coarser axis, whose knots are a subset of its own."""
    cells = 1 + np.searchsorted(main.axes[0].knots, axis.knots)
    return main.scores[np.r_[0, cells, main.axes[0].n_cells - 1]]


def find_pair(explanation: GlobalExplanation, pair: Any) -> TermView:
    term = explanation.find(pair)
    if len(term.columns) != 2:
        names = zip(explanation.names, explanation.model.terms, strict=True)
        pairs = [name for name, features in names if len(features) == 2]
        listed = ", ".join(repr(name) for name in pairs[:10]) or "none"
        raise ValueError(f"expected a pair; got {term.name!r}. The model's pairs are: {listed}")
    return term
