"""Explanation of a whole model: one view per term, with its table, standard errors and importance.

Views are created on access, which keeps models of a hundred thousand terms fast: `top` and `by_class` return the
strongest terms, `search` finds terms by name.
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
from ..model.card import write_card
from ..model.predictor import lean
from ..model.scorecard import find_term, reachable_cells
from ..model.shapes import AnyShape, Evidence, LowRankShape, Shape, mean_size
from ..printable import escape
from ..readonly import freeze
from .explanation import Explanation, find_output, list_cells, list_labels, squeeze


def explain_global(model: Any) -> GlobalExplanation:
    """Explain a whole model: table, standard errors and importance of every term.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator; a GlobalExplanation is returned unchanged

    Returns
    -------
    GlobalExplanation

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
    return GlobalExplanation(find_model(model))


@dataclass(frozen=True, eq=False, repr=False)
class TermView:
    """One term, with everything needed to draw it.

    Parameters
    ----------
    index, name : its index in the model and its name, "age" or "age & income"
    columns : names of its columns
    shape : its table, with `axes`, `scores`, `spread`, `weights` and `members`
    importances : (K,) mean |contribution| to each score over the training rows
    leanings : (K,) how much it raises (above 0) or lowers each score, see `AdditiveModel.leanings`
    importance_spread : standard error of the importance. A model without evidence has the standard deviation over the
        members instead, for main effects, and NaN if they are not stored
    low, high : range of the scores over cells that rows can reach

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> term = explain_global(model).find("size")
    >>> term.columns, term.scores.shape, term.low < 0 < term.high
    (('size',), (6, 1), True)
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
        """Mean of `importances` over the scores."""
        return float(self.importances.mean())

    @property
    def axes(self) -> tuple[Axis, ...]:
        """Axes of its columns."""
        return self.shape.axes

    @property
    def scores(self) -> np.ndarray:
        """(c_1, …, c_o, K) contribution of each cell; along each axis: missing, knots or levels, unseen."""
        return self.shape.scores

    @property
    def spread(self) -> np.ndarray:
        """Standard error of `scores`, same shape; without evidence, their standard deviation over the members."""
        return self.shape.spread

    @property
    def evidence(self) -> Evidence | None:
        """What the training rows say about the term, None if unknown."""
        return self.shape.evidence if isinstance(self.shape, Shape) else None

    @property
    def weights(self) -> np.ndarray:
        """(c_1, …, c_o) training weight on each cell."""
        return self.shape.weights

    @property
    def members(self) -> np.ndarray | None:
        """(c_1, …, c_o, M, K) tables of the members, None if they are not stored."""
        return self.shape.members

    def __repr__(self) -> str:
        return f"TermView({self.name!r}, importance {self.importance:.3g})"


class Leaning(NamedTuple):
    """A term that raises (`size` above 0) or lowers (below 0) the score of a class.

    Parameters
    ----------
    name : name of the term
    size : above 0 if the term raises the score, see `AdditiveModel.leanings`

    Examples
    --------
    >>> print(Leaning("striped wing", -0.25))
    striped wing −0.25
    """

    name: str
    size: float

    def __str__(self) -> str:
        return f"{escape(self.name)} {f'{self.size:+.2g}'.replace('-', '−')}"


@dataclass(frozen=True)
class ClassView:
    """The terms that raise the score of a class most, and the terms that lower it most, strongest first.

    Parameters
    ----------
    label : the class
    raised_by, lowered_by : the terms, strongest first

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.array(["cardinal", "creeper", "heron"])[np.arange(90) % 3]
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], max_steps=20, interactions=0)
    >>> _ = model.fit(X, kind)
    >>> view = explain_global(model).by_class(1)["heron"]
    >>> view.raised_by[0].name
    'long'
    """

    label: Any
    raised_by: tuple[Leaning, ...]
    lowered_by: tuple[Leaning, ...]

    def __str__(self) -> str:
        sides = (("for", self.raised_by), ("against", self.lowered_by))
        label = escape(str(self.label))
        return "\n".join(f"{word} {label}: {', '.join(map(str, found))}" for word, found in sides)


@dataclass(frozen=True, eq=False, repr=False)
class GlobalExplanation(Explanation):
    """A whole model; `terms` are in the order of the model, `order` sorts them by importance.

    Parameters
    ----------
    model : the model

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> whole = explain_global(model)
    >>> whole.terms[whole.order[0]].name, len(whole.terms)
    ('size', 2)
    """

    @cached_property
    def terms(self) -> Sequence[TermView]:
        """A view of each term, created on access."""
        return Lazy(cache(partial(view_term, self.model)), len(self.model.shapes))

    @cached_property
    def order(self) -> tuple[int, ...]:
        """Indices of the terms, most important first."""
        return tuple(np.argsort(-self.model.importances(), kind="stable").tolist())

    def find(self, term: Any) -> TermView:
        """The term with this name, index or tuple of columns."""
        return self.terms[find_term(self.model, term)]

    def search(self, text: str, n: int = 10) -> list[TermView]:
        """Terms whose name contains a text, ignoring case: exact matches, then names that start with it, then others.

        Each group is sorted by importance, most important first.
        """
        wanted = text.casefold()
        names = [name.casefold() for name in self.names]
        held = [t for t, name in enumerate(names) if wanted in name]
        importances = self.model.importances()
        held.sort(key=lambda t: (names[t] != wanted, not names[t].startswith(wanted), -importances[t], t))
        return self.terms_at(held[:n])

    def top(self, n: int = 10, class_: Any = None) -> list[TermView]:
        """The most important terms, or the terms that raise or lower the score of a class most, by their `leanings`."""
        if class_ is None:
            return self.terms_at(self.order[:n])
        return self.terms_at(np.argsort(-np.abs(self._class_leanings(class_)), kind="stable")[:n])

    def by_class(self, n: int = 10) -> dict[Any, ClassView]:
        """For each class, the n terms that raise its score most and the n terms that lower it most.

        `AdditiveModel.leanings` defines the strength: it counts contributions at values that most rows do not have,
        such as words in texts.

        Examples
        --------
        >>> import numpy as np
        >>> from neuralbasis import NeuralBasisClassifier
        >>> X = np.eye(3)[np.arange(90) % 3]
        >>> words = NeuralBasisClassifier(feature_names=["goal", "engine", "prayer"], max_steps=50, interactions=0)
        >>> found = explain_global(words.fit(X, np.array(["sport", "cars", "religion"])[np.arange(90) % 3])).by_class(1)
        >>> {label: view.raised_by[0].name for label, view in found.items()}
        {'cars': 'engine', 'religion': 'prayer', 'sport': 'goal'}
        """
        views = {}
        for label in list_labels(self.model):
            found = self._class_leanings(label)
            order = np.argsort(-found, kind="stable")
            ends = [t for t in order[:n] if found[t] > 0], [t for t in order[::-1][:n] if found[t] < 0]
            views[label] = ClassView(label, *(list_leanings(self.names, found, end) for end in ends))
        return views

    def terms_at(self, indices: Iterable[int]) -> list[TermView]:
        """Views of the terms with these indices."""
        return [self.terms[int(index)] for index in indices]

    def _class_leanings(self, label: Any) -> np.ndarray:
        """(T,) leanings of all terms for one class; the first of two classes has the negated score."""
        output, sign = find_output(self.model, label)
        return sign * self._leanings[:, output]

    @cached_property
    def _leanings(self) -> np.ndarray:
        return self.model.leanings()

    def data(self, key: Any = None) -> dict[str, Any]:
        """Plain values in the format of InterpretML.

        The key None returns the importances; a name, index or tuple of columns returns the curve or table of a term; -1
        returns everything, as "overall" and "specific". A curve has as many scores as names, since it is linear between
        its knots. Bounds are one standard error away. With three or more classes, the last axis of the scores is the
        class.
        """
        if key is None:
            return self._list_importances()
        if isinstance(key, int | np.integer) and key == -1:
            return {"overall": self._list_importances(), "specific": [self.data(t) for t in range(len(self.terms))]}
        return _describe_term(self.find(key)) | self._describe_classes()

    def visualize(self, key: Any = None) -> Any:
        """An interactive plotly figure: the importances, or the main effect or pair of the key; needs plotly."""
        from ..plot.interactive import visualize_global

        return visualize_global(self, key)

    def to_pandas(self, key: Any = None) -> Any:
        """A pandas data frame: one line for each term, or for each cell of the term of the key.

        A curve is listed at the cells where its slope changes; it is linear between them.
        """
        if key is not None:
            return write_frame(self.model.scorecard(key).to_rows())
        lines, outputs = [], self.outputs
        for term in self.terms:
            line = {
                "term": term.name,
                "columns": term.columns,
                "importance": term.importance,
                "spread": term.importance_spread,
                "lowest": term.low,
                "highest": term.high,
            }
            if len(outputs) > 1:
                line |= {f"importance for {name}": float(term.importances[k]) for k, name in enumerate(outputs)}
            lines.append(line)
        return write_frame(lines)

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

    def _repr_html_(self) -> str:
        return write_card(self.model, n_shapes=12)

    def __repr__(self) -> str:
        return f"GlobalExplanation({len(self.terms)} terms, {self.link})"


def list_leanings(names: Sequence[str], sizes: np.ndarray, terms: Iterable[int]) -> tuple[Leaning, ...]:
    return tuple(Leaning(names[t], float(sizes[t])) for t in terms)


def view_term(model: AdditiveModel, index: int, shape: AnyShape | None = None) -> TermView:
    """The view of a term; `shape`, if given, holds only some of its scores."""
    shape = model.shapes[index] if shape is None else shape
    reachable = shape.scores[tuple(reachable_cells(axis) for axis in shape.axes)]
    if isinstance(shape, LowRankShape):
        importances, leanings = shape.factors.importances[shape.index], shape.factors.leanings[shape.index]
    else:
        importances, leanings = shape.importances, freeze(lean(shape.scores, shape.weights))
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


def _spread_importance(shape: AnyShape) -> float:
    """Standard error of the importance; without evidence, the deviation over the members of a main effect, or NaN."""
    if shape.evidence is not None:
        return float(shape.evidence.importance_errors.mean())
    members = shape.members if len(shape.axes) == 1 else None
    if members is None or members.shape[-2] < 2:
        return np.nan
    return float(mean_size(members, shape.weights).mean(axis=1).std(ddof=1))


def _describe_term(term: TermView) -> dict[str, Any]:
    """Knots and levels of one term; for a main effect also the missing value."""
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
