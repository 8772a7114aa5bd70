"""Classes: what speaks for one class and what speaks against it, and what tells it from the class next to it.

    gain of a term = mean over the rows of the class of what the term adds to the score of the class
    loss of a term = mean of the same over the rows that the term turns away from the class

Most terms speak for the rows of the class, or the model would be wrong: what speaks against it is seen on others. These
are the training rows, each counted by the odds exp(-f) against the class that the term itself gives it; counted by
exp(f) they are those that it draws to the class, and stand for the rows of the class where none are given. A term is
for the class if it gains, and draws more than it turns away. Shapes, members and density are the model's, of this class
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..data.columns import Columns
from ..data.frames import write_frame
from ..model.additive_model import AdditiveModel, find_model
from ..model.shapes import AnyShape, Shape, TiedShape
from ..printable import escape
from .explanation import Explanation, Value, find_output, plain_values, read_table, to_python
from .pictures import read_picture
from .terms import Leaning, TermView, view_shape

MANY_NUMBERS = 1 << 23  # contributions to all scores; above, a model of one score is worth making


def explain_class(
    model: Any, label: Any, X: Any = None, n_terms: int = 4, pictures: Iterable[Any] = ()
) -> ClassExplanation:
    """What speaks for a class most, and what speaks against it most.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator, of classes
    label : the class
    X : rows of this class, any table that `predict` reads; None estimates what its rows are like from the training rows
    n_terms : how many terms on each side
    pictures : examples of the class, arrays (height, width, 3) or (height, width) of 0 … 255, to be shown beside it

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.arange(90) % 3
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], max_steps=50, interactions=0)
    >>> model.fit(X, np.array(["cardinal", "creeper", "heron"])[kind])
    NeuralBasisClassifier(...)
    >>> found = explain_class(model, "creeper", X[kind == 1], n_terms=1)
    >>> found.speaks_for[0].name, found.n_rows, found.rival in ("cardinal", "heron")
    ('striped', 30, True)
    """
    found = find_model(model)
    if found.classes is None:
        raise ValueError("explain_class needs a model of classes; this one is a regression: use explain_global")
    if n_terms < 1:
        raise ValueError(f"n_terms must be 1 or more, not {n_terms!r}")
    output, sign = find_output(found, label)
    table = None if X is None else read_table(found, X)
    drawn, turned = (_estimate(found, output, sign, side) for side in (1, -1))
    gains = drawn if table is None else _average(found, table, output, sign)
    rival = None if table is None else _find_rival(found, table, output, sign)
    return ClassExplanation(
        model=found,
        label=to_python(label),
        n_terms=n_terms,
        gains=gains,
        losses=turned,
        is_for=(drawn >= -turned) & (gains > 0),
        rival=rival,
        rival_gains=None if table is None else _average(found, table, *find_output(found, rival)),
        table=table,
        pictures=tuple(map(read_picture, pictures)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class ClassExplanation(Explanation):
    """One class of a model.

    Parameters
    ----------
    model, label : the model and the class
    n_terms : how many terms on each side
    gains : (T,) what each term contributes to the score of the class, in the mean over its rows
    losses : (T,) the same over the rows that the term turns away from it
    is_for : (T,) whether the term is for the class
    rival : the class whose score comes next on the rows of the class; None where there are none
    rival_gains : (T,) what each term contributes to the score of that class, over the same rows
    table : the rows, or None
    pictures : arrays (height, width, 3) of 0 … 255
    """

    label: Any
    n_terms: int
    gains: np.ndarray
    losses: np.ndarray
    is_for: np.ndarray
    rival: Any
    rival_gains: np.ndarray | None
    table: Columns | None
    pictures: tuple[np.ndarray, ...]

    @property
    def n_rows(self) -> int:
        """Rows of the class that were given."""
        return 0 if self.table is None else self.table.n_rows

    @property
    def speaks_for(self) -> tuple[Leaning, ...]:
        """Of the terms that are for the class those with the largest gains, the strongest first."""
        return self._name(self.gains, self._order_for)

    @property
    def speaks_against(self) -> tuple[Leaning, ...]:
        """Of the others those with the largest losses, the strongest first."""
        return self._name(self.losses, self._order_against)

    @property
    def tells_apart(self) -> tuple[Leaning, ...]:
        """The terms that lift the class above its rival most; empty where there are no rows."""
        if self.rival_gains is None:
            return ()
        lead = self.gains - self.rival_gains
        return self._name(lead, self._rank(lead))

    @cached_property
    def terms_for(self) -> tuple[TermView, ...]:
        """Views of what speaks for the class; their tables have one score, that of the class."""
        return tuple(map(self.view, self._order_for))

    @cached_property
    def terms_against(self) -> tuple[TermView, ...]:
        """The same of what speaks against it."""
        return tuple(map(self.view, self._order_against))

    @property
    def _order_for(self) -> list[int]:
        return self._rank(np.where(self.is_for, self.gains, 0.0))

    @property
    def _order_against(self) -> list[int]:
        return self._rank(np.where(self.is_for, 0.0, -self.losses))

    def view(self, term: int) -> TermView:
        """The term with this index, of this class alone."""
        shape = take_output(self.model.shapes[term], *find_output(self.model, self.label))
        return view_shape(self.model, term, shape)

    def values(self, term: TermView) -> tuple[tuple[Value, ...], ...]:
        """For each column of a term its values in the rows of the class; empty where there are no rows."""
        if self.table is None:
            return tuple(() for _ in term.columns)
        features = self.model.terms[term.index]
        return tuple(plain_values(self.model.encoder.axes[f], self.table[f]) for f in features)

    def data(self) -> Mapping[str, Any]:
        """Plain values: the class, its rival, and the sizes of the named terms."""
        sides = {"for": self.speaks_for, "against": self.speaks_against, "apart": self.tells_apart}
        return {"class": self.label, "rows": self.n_rows, "rival": self.rival} | {
            side: {"names": [one.name for one in found], "scores": [one.size for one in found]}
            for side, found in sides.items()
        }

    def visualize(self) -> Any:
        """A matplotlib figure: the pictures, and the shapes of the strongest terms."""
        from .. import plot

        return plot.class_shapes(self)

    def to_pandas(self) -> Any:
        """A pandas frame: a line for each term, those for the class and then the others, each the strongest first."""
        order = np.lexsort((np.where(self.is_for, -self.gains, self.losses), ~self.is_for)).tolist()
        columns = {"gain": self.gains, "loss": self.losses}
        if self.rival_gains is not None:
            columns[f"gain of {self.rival}"] = self.rival_gains
        return write_frame(
            [{"term": self.names[t]} | {name: float(sizes[t]) for name, sizes in columns.items()} for t in order]
        )

    def _rank(self, sizes: np.ndarray) -> list[int]:
        order = np.argsort(-sizes, kind="stable")[: self.n_terms].tolist()
        return [t for t in order if sizes[t] > 0]

    def _name(self, sizes: np.ndarray, terms: Sequence[int]) -> tuple[Leaning, ...]:
        return tuple(Leaning(self.names[t], float(sizes[t])) for t in terms)

    def __str__(self) -> str:
        lines = [("for", self.speaks_for), ("against", self.speaks_against)]
        label = escape(str(self.label))
        texts = [f"{word} {label}: {', '.join(map(str, found))}" for word, found in lines]
        if self.tells_apart:
            texts.append(f"from {escape(str(self.rival))}: {', '.join(map(str, self.tells_apart))}")
        return "\n".join(texts)

    def __repr__(self) -> str:
        return f"ClassExplanation({self.label!r}, {self.n_rows} rows)"


def take_output(shape: AnyShape, output: int, sign: int = 1) -> Shape | TiedShape:
    """One score of a term's table, or what speaks against it."""
    if isinstance(shape, TiedShape):
        return replace(shape, mix=sign * shape.mix[..., [output]])
    members = None if shape.members is None else sign * shape.members[..., [output]]
    scores, spread = sign * shape.scores[..., [output]], shape.spread[..., [output]]
    return Shape(shape.term, shape.axes, scores, spread, shape.weights, members)


def _average(model: AdditiveModel, table: Columns, output: int, sign: int) -> np.ndarray:
    """(T,) mean contribution to one score over rows."""
    if model.is_wide:
        found = model.list_contributions(table)
        return sign * np.bincount(found.term, found.value[:, output], len(model.shapes)) / len(found)
    if table.n_rows * len(model.shapes) * model.n_outputs <= MANY_NUMBERS:
        return sign * model.contributions(table)[..., output].mean(axis=0)
    # One score alone: all pairs of a few hundred columns, times hundreds of classes, would not fit.
    alone = replace(
        model,
        intercept=model.intercept[[output]],
        shapes=tuple(take_output(shape, output, sign) for shape in model.shapes),
        link="identity",
        classes=None,
    )
    return alone.contributions(table)[..., 0].mean(axis=0)


def _find_rival(model: AdditiveModel, table: Columns, output: int, sign: int) -> Any:
    """The other class whose score is highest in the mean over rows."""
    assert model.classes is not None
    labels = model.classes.tolist()
    if model.n_outputs == 1:
        return labels[0 if sign > 0 else 1]
    mean = model.scores(table).mean(axis=0)
    mean[output] = -np.inf
    return labels[int(mean.argmax())]


def _estimate(model: AdditiveModel, output: int, sign: int, side: int) -> np.ndarray:
    """(T,) what each term contributes to the rows that it draws to a class (side 1), or turns away (side -1)."""
    return np.array([_draw(*_read_cells(shape, output, sign), side) for shape in model.shapes])


def _read_cells(shape: AnyShape, output: int, sign: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores and weights of the cells that training rows stand on."""
    weights = shape.weights
    scores = take_output(shape, output).scores[..., 0] if isinstance(shape, TiedShape) else shape.scores[..., output]
    return sign * scores[weights > 0], weights[weights > 0]


def _draw(scores: np.ndarray, weights: np.ndarray, side: int) -> float:
    """
    >>> rows = np.array([2.0, -1.0]), np.array([1.0, 2.0])
    >>> round(_draw(*rows, 1), 3), round(_draw(*rows, -1), 3), _draw(np.array([]), np.array([]), 1)
    (1.728, -0.927, 0.0)
    """
    if not len(scores):
        return 0.0
    odds = weights * np.exp(side * scores - (side * scores).max())
    return float(odds @ scores / odds.sum())
