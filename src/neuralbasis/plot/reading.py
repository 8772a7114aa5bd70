"""Reading: the numbers of the records, on the scale on which they are drawn.

    score          contribution to the score, 0 where a term says nothing
    reference      contribution to the score of a class less that to the score of a reference class
    probability    link⁻¹(intercept + contribution): the probability if all other contributions were 0

In: a GlobalExplanation. Out: a `Scale`, which turns one of its terms into a `Reading` that a panel draws.
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
class Reading:
    """What a panel draws of one term.

    Parameters
    ----------
    term : the record
    mean : (c_1, …, c_o, k) drawn value of each cell for the k drawn classes
    spread : standard deviation over the members, same shape; 0 where it is not known
    members : (c_1, …, c_o, M, k) values of the members, or None
    base : (k,) value where the term says nothing
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
    explanation : the records
    outputs : columns of the scores, or of the probabilities, that are drawn
    kind : "score" or "probability"
    reference : column of the class that all others are compared with, or None
    """

    explanation: GlobalExplanation
    outputs: tuple[int, ...]
    kind: str = "score"
    reference: int | None = None

    @property
    def is_many(self) -> bool:
        """Whether the model has a score a class."""
        return len(self.explanation.intercept) > 1

    @property
    def orders(self) -> tuple[int, ...]:
        """Places of the drawn classes in the row of colours: a class has the same one in every figure."""
        return self.outputs if self.is_many else (0,)

    @property
    def labels(self) -> list[str]:
        """Names of the drawn classes."""
        return [plain(_list_labels(self.explanation)[output], 20) for output in self.outputs]

    @property
    def unit(self) -> str:
        """What the drawn numbers are, in words."""
        if self.kind == "probability":
            whose = "" if self.is_many else f" of {self.labels[0]}"
            return f"probability{whose}, all else at 0"
        if self.reference is not None:
            return f"contribution to log odds against {plain(self.explanation.outputs[self.reference], 20)}"
        if self.explanation.link != "logit":
            return "contribution to score"
        classes = self.explanation.classes
        return "contribution to log odds" + ("" if classes is None else f" of {plain(classes[1], 20)}")

    @property
    def map_unit(self) -> str:
        """The same of a map, which shows what a term changes."""
        return "change of probability" if self.kind == "probability" else self.unit

    def only(self, *outputs: int) -> Scale:
        return replace(self, outputs=outputs)

    def read(self, term: TermView, scores: np.ndarray | None = None) -> Reading:
        """A term on this scale; `scores` (c_1, …, c_o, K) instead of its own have neither members nor spread."""
        if scores is not None:
            mean = self._convert(scores)
            return Reading(term, mean, np.zeros_like(mean), None, self.base)
        mean, members = self._convert(term.scores), None
        if term.members is not None and term.members.shape[-2] > 1:
            members = self._convert(term.members)
        if self.kind == "score" and self.reference is None:
            spread = term.spread[..., list(self.outputs)]
        else:
            spread = np.zeros_like(mean) if members is None else members.std(axis=-2, ddof=1)
        return Reading(term, mean, spread, members, self.base)

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
    """Check what the user asked for."""
    if kind not in SCALES:
        raise ValueError(f"scale must be one of {SCALES}, not {kind!r}")
    if kind == "probability" and explanation.classes is None:
        raise ValueError("scale='probability' needs a model of classes; this one is a regression: leave it out")
    if kind == "probability" and reference is not None:
        raise ValueError("reference compares scores; leave it out with scale='probability'")
    if len(explanation.intercept) == 1:
        if classes is not None or reference is not None:
            raise ValueError(
                "classes and reference need a model of three classes or more; this one has a single score: leave "
                "them out"
            )
        return Scale(explanation, (int(kind == "probability"),), kind)
    compared = None if reference is None else find_class(explanation, reference, "reference")
    if classes is None:
        chosen = [output for output in range(len(explanation.intercept)) if output != compared][:MAX_CLASSES]
    else:
        chosen = [find_class(explanation, label, "classes") for label in classes]
    if not 1 <= len(chosen) <= MAX_CLASSES:
        raise ValueError(f"classes must name 1 to {MAX_CLASSES} classes, not {len(chosen)}")
    return Scale(explanation, tuple(chosen), kind, compared)


def find_class(explanation: Any, label: Any, argument: str) -> int:
    """Which class a label means, in any kind of explanation."""
    known = _list_labels(explanation)
    if label not in known:
        raise ValueError(f"{argument} holds {label!r}; the model's classes are {known[:20]}")
    return known.index(label)


def _list_labels(explanation: Any) -> list[Any]:
    return list(explanation.outputs if explanation.classes is None else explanation.classes)


def add_mains(explanation: GlobalExplanation, term: TermView) -> np.ndarray:
    """(c_1, …, c_o, K) scores of a term and of the main effects of its columns together, on the term's cells."""
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
    """(cells, K) a main effect at the cells of a coarser axis of the same column, all of whose knots are its own."""
    cells = 1 + np.searchsorted(main.axes[0].knots, axis.knots)
    return main.scores[np.r_[0, cells, main.axes[0].n_cells - 1]]


def find_pair(explanation: GlobalExplanation, pair: Any) -> TermView:
    term = explanation.find(pair)
    if len(term.columns) != 2:
        names = zip(explanation.names, explanation.model.terms, strict=True)
        pairs = [name for name, features in names if len(features) == 2]
        listed = ", ".join(repr(name) for name in pairs[:10]) or "none"
        raise ValueError(f"expected a pair, not {term.name!r}; the model's pairs are: {listed}")
    return term
