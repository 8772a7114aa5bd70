"""Terms: a whole model as records, one view a term with its table, its spread over the members, its importance.

Views are made when somebody asks for them, so that a model of a hundred thousand terms is looked at as quickly as one
of ten: `top` and `by_class` find the strongest, `search` those whose name holds a text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from ..data.frames import write_frame
from ..encoding.axis import Axis
from ..lazy import Lazy
from ..model.additive_model import AdditiveModel, find_model
from ..model.predictor import lean
from ..model.scorecard import find_term, reachable_cells
from ..model.shapes import AnyShape, LowRankShape, mean_size
from ..printable import escape
from ..readonly import freeze
from .explanation import Explanation, find_output, list_cells, squeeze


def explain_global(model: Any) -> GlobalExplanation:
    """Every term of a model: its table, its spread over the members, its importance.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator; an explanation is handed back as it is

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> fitted = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> explanation = explain_global(fitted)
    >>> explanation.names, explanation.find("colour").scores.shape  # missing, two levels, unseen; one output
    (('size', 'colour'), (4, 1))
    >>> explanation.data("size")["names"]
    [1.0, 2.0, 3.0, 4.0]
    """
    if isinstance(model, GlobalExplanation):
        return model
    model = find_model(model)
    return GlobalExplanation(model)


@dataclass(frozen=True, eq=False, repr=False)
class TermView:
    """One term, with everything that a picture needs.

    Parameters
    ----------
    index, name : its place in the model and its name, "age" or "age & income"
    columns : names of its columns
    shape : its table, from which `axes`, `scores`, `spread`, `weights` and `members` are read
    importances : (K,) mean |contribution| to each score over the training rows
    leanings : (K,) how far it speaks for each score, or against it, see `AdditiveModel.leanings`
    importance_spread : standard deviation of the importance over the members, for main effects; NaN where it is not
        known: for pairs and triples, and where there is one member only or none is kept
    low, high : range of the scores over the cells that rows can reach
    """

    index: int
    name: str
    columns: tuple[str, ...]
    shape: AnyShape
    importances: np.ndarray
    leanings: np.ndarray
    importance_spread: float
    low: float
    high: float

    @property
    def importance(self) -> float:
        """The mean of `importances` over the classes."""
        return float(self.importances.mean())

    @property
    def axes(self) -> tuple[Axis, ...]:
        return self.shape.axes

    @property
    def scores(self) -> np.ndarray:
        """(c_1, …, c_o, K) contribution of each cell; along each axis: missing, knots or levels, unseen."""
        return self.shape.scores

    @property
    def spread(self) -> np.ndarray:
        """Standard deviation of `scores` over the members, same shape."""
        return self.shape.spread

    @property
    def weights(self) -> np.ndarray:
        """(c_1, …, c_o) training weight on each cell."""
        return self.shape.weights

    @property
    def members(self) -> np.ndarray | None:
        """(c_1, …, c_o, M, K) tables of the members, None where only their spread is kept."""
        return self.shape.members

    def __repr__(self) -> str:
        return f"TermView({self.name!r}, importance {self.importance:.3g})"


class Leaning(NamedTuple):
    """How far a term speaks for a class (above 0) or against it."""

    name: str
    size: float

    def __str__(self) -> str:
        return f"{escape(self.name)} {f'{self.size:+.2g}'.replace('-', '−')}"


@dataclass(frozen=True)
class ClassView:
    """The terms that speak for a class most, and those that speak against it most, each the strongest first."""

    label: Any
    speaks_for: tuple[Leaning, ...]
    speaks_against: tuple[Leaning, ...]

    def __str__(self) -> str:
        sides = (("for", self.speaks_for), ("against", self.speaks_against))
        label = escape(str(self.label))
        return "\n".join(f"{word} {label}: {', '.join(map(str, found))}" for word, found in sides)


@dataclass(frozen=True, eq=False, repr=False)
class GlobalExplanation(Explanation):
    """A whole model; `terms` are in the model's order, `order` has the strongest first."""

    @cached_property
    def terms(self) -> Sequence[TermView]:
        """A view of each term, made when it is asked for."""
        return Lazy(cache(partial(_view_term, self.model)), len(self.model.shapes))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Indices of the terms by importance, the strongest first."""
        return tuple(np.argsort(-self.model.importances(), kind="stable").tolist())

    def find(self, term: Any) -> TermView:
        """The term of this name, index or tuple of columns."""
        return self.terms[find_term(self.model, term)]

    def search(self, text: str, n: int = 10) -> list[TermView]:
        """Terms whose name holds a text, in upper or lower case: first the name itself, then names that begin with it.

        Within each group the most important come first.
        """
        wanted = text.casefold()
        names = [name.casefold() for name in self.names]
        held = [t for t, name in enumerate(names) if wanted in name]
        importances = self.model.importances()
        held.sort(key=lambda t: (names[t] != wanted, not names[t].startswith(wanted), -importances[t], t))
        return self.terms_at(held[:n])

    def top(self, n: int = 10, class_: Any = None) -> list[TermView]:
        """The most important terms, or those that speak most for a class or against it: see their `leanings`."""
        if class_ is None:
            return self.terms_at(self.order[:n])
        return self.terms_at(np.argsort(-np.abs(self._lean_to(class_)), kind="stable")[:n])

    def by_class(self, n: int = 10) -> dict[Any, ClassView]:
        """For each class the n terms that speak for it most and the n that speak against it most.

        What a term of a wide or one-hot table says at values that most rows do not have counts: see
        `AdditiveModel.leanings`.

        Examples
        --------
        >>> import numpy as np
        >>> from neuralbasis import NeuralBasisClassifier
        >>> X = np.eye(3)[np.arange(90) % 3]
        >>> words = NeuralBasisClassifier(feature_names=["goal", "engine", "prayer"], max_steps=50, interactions=0)
        >>> found = explain_global(words.fit(X, np.array(["sport", "cars", "religion"])[np.arange(90) % 3])).by_class(1)
        >>> {label: view.speaks_for[0].name for label, view in found.items()}
        {'cars': 'engine', 'religion': 'prayer', 'sport': 'goal'}
        """
        return {label: self._view_class(label, n) for label in self._list_labels()}

    def terms_at(self, indices: Iterable[int]) -> list[TermView]:
        """Views of the terms with these indices."""
        return [self.terms[int(index)] for index in indices]

    def _list_labels(self) -> tuple[Any, ...]:
        return self.outputs if self.classes is None else self.classes

    def _view_class(self, label: Any, n: int) -> ClassView:
        found = self._lean_to(label)
        order = np.argsort(-found, kind="stable")
        ends = [t for t in order[:n] if found[t] > 0], [t for t in order[::-1][:n] if found[t] < 0]
        return ClassView(label, *(tuple(Leaning(self.names[t], float(found[t])) for t in end) for end in ends))

    def _lean_to(self, label: Any) -> np.ndarray:
        """(T,) leanings to one class; of two classes, the first is what speaks against the second."""
        output, sign = find_output(self.model, label)
        return sign * self._leanings[:, output]

    @cached_property
    def _leanings(self) -> np.ndarray:
        return self.model.leanings()

    def data(self, key: Any = None) -> dict[str, Any]:
        """Plain values in InterpretML's spelling.

        None gives the importances; a term, by name, index or tuple of columns, its curve or table; -1 everything, as
        "overall" and "specific". A curve has as many scores as names: it is linear between its knots. Bounds are one
        standard deviation over the members away. With three classes or more the scores have an axis for them, last.
        """
        if key is None:
            return self._list_importances()
        if isinstance(key, int | np.integer) and key == -1:
            return {"overall": self._list_importances(), "specific": [self.data(t) for t in range(len(self.terms))]}
        return _describe_term(self.find(key)) | self._describe_classes()

    def visualize(self, key: Any = None) -> Any:
        """A matplotlib figure: the importances, or the term that the key names."""
        from .. import plot

        return plot.importances(self) if key is None else plot.shape(self, key)

    def to_pandas(self, key: Any = None) -> Any:
        """A pandas frame: a line for each term, or for each cell of the term that the key names.

        A curve has the cells where it bends: between them it is linear.
        """
        if key is not None:
            return write_frame(self.model.scorecard(key).to_rows())
        return write_frame([self._list_term(term) for term in self.terms])

    def _list_importances(self) -> dict[str, Any]:
        scores = self.model.importances()
        spread = np.array([_spread_importance(shape) for shape in self.model.shapes])
        return {
            "type": "univariate",
            "names": list(self.names),
            "scores": scores.tolist(),
            "upper_bounds": (scores + spread).tolist(),
            "lower_bounds": (scores - spread).tolist(),
        }

    def _list_term(self, term: TermView) -> dict[str, Any]:
        line = {
            "term": term.name,
            "columns": term.columns,
            "importance": term.importance,
            "spread": term.importance_spread,
            "lowest": term.low,
            "highest": term.high,
        }
        if len(self.outputs) == 1:
            return line
        classes = zip(self.outputs, term.importances.tolist(), strict=True)
        return line | {f"importance for {output}": importance for output, importance in classes}

    def __repr__(self) -> str:
        return f"GlobalExplanation({len(self.terms)} terms, {self.link})"


def _view_term(model: AdditiveModel, index: int) -> TermView:
    return view_shape(model, index, model.shapes[index])


def view_shape(model: AdditiveModel, index: int, shape: AnyShape) -> TermView:
    """The view of a term that has this table, its own or that of some of its scores."""
    scores = shape.scores
    reachable = scores[tuple(reachable_cells(axis) for axis in shape.axes)]
    importances, leanings = _weigh(shape)
    return TermView(
        index=index,
        name=model.term_names[index],
        columns=tuple(model.encoder.axes[feature].name for feature in shape.term),
        shape=shape,
        importances=importances,
        leanings=leanings,
        importance_spread=_spread_importance(shape),
        low=float(reachable.min()),
        high=float(reachable.max()),
    )


def _weigh(shape: AnyShape) -> tuple[np.ndarray, np.ndarray]:
    """(K,) importances and (K,) leanings of a term."""
    if isinstance(shape, LowRankShape):
        return shape.factors.importances[shape.index], shape.factors.leanings[shape.index]
    return shape.importances, freeze(lean(shape.scores, shape.weights))


def _spread_importance(shape: AnyShape) -> float:
    """Standard deviation of the importance over the members, where their tables are kept: for main effects."""
    members = shape.members if len(shape.axes) == 1 else None
    return np.nan if members is None else _measure_spread(mean_size(members, shape.weights))


def _measure_spread(sizes: np.ndarray) -> float:
    """Standard deviation of the members' importances (M, K); unknown of a single member."""
    return float(sizes.mean(axis=1).std(ddof=1)) if len(sizes) > 1 else np.nan


def _describe_term(term: TermView) -> dict[str, Any]:
    """Knots and levels of one term; of a main effect also the missing value."""
    inner = (slice(1, -1),) * len(term.axes)
    names = [list_cells(axis) for axis in term.axes]
    scores, spread, weights = term.scores, term.spread, term.weights
    found = {
        **_name_sides(names),
        "scores": squeeze(scores[inner]),
        "scores_range": (term.low, term.high),
        "upper_bounds": squeeze((scores + spread)[inner]),
        "lower_bounds": squeeze((scores - spread)[inner]),
        "density": {"names": names[0] if len(names) == 1 else names, "scores": weights[inner]},
    }
    if len(names) == 1:
        found["missing"] = {
            "score": squeeze(scores[0]),
            "upper_bound": squeeze(scores[0] + spread[0]),
            "lower_bound": squeeze(scores[0] - spread[0]),
            "density": float(weights[0]),
        }
    return found


def _name_sides(names: Sequence[list[Any]]) -> dict[str, Any]:
    if len(names) == 1:
        return {"type": "univariate", "names": names[0]}
    if len(names) == 2:
        return {"type": "interaction", "left_names": names[0], "right_names": names[1]}
    return {"type": "interaction", "names": list(names)}
