"""Explanation of one class: terms that raise or lower its score, and terms that separate it from the next class.

    gain of a term = mean of f over rows of the class               f: contribution to the score of the class
    loss of a term = Σ w exp(-f) f / Σ w exp(-f)                    over training rows with weights w

Most terms raise the score of rows of the class, or the model would be wrong, so terms that lower it show on other rows.
The loss weights each training row by exp(-f), the odds against the class that the term gives it. If no rows of the
class are given, the gain is the mean weighted by exp(f). A term counts as raising the score if its gain is positive and
its mean weighted by exp(f) is at least its absolute loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from ..data.columns import Columns
from ..data.frames import write_frame
from ..model.additive_model import AdditiveModel, find_model
from ..model.shapes import AnyShape, Evidence, Shape, TiedShape
from ..printable import escape
from .explanation import Explanation, Value, find_output, plain_values, read_table, to_python
from .pictures import read_picture
from .terms import ClassView, Leaning, TermView, list_leanings, view_term

MAX_CONTRIBUTIONS = 1 << 23  # rows × terms × scores; above, only the score of the class is computed


def explain_class(
    model: Any, label: Any, X: Any = None, n_terms: int = 4, pictures: Iterable[Any] = ()
) -> ClassExplanation:
    """Explain one class: the terms that raise its score most, and the terms that lower it most.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator of a classifier
    label : the class
    X : rows of this class, any table that `predict` accepts; None estimates them from the training rows
    n_terms : number of terms that raise the score, and of terms that lower it
    pictures : examples of the class to display, arrays (height, width, 3) or (height, width) of 0 … 255

    Returns
    -------
    ClassExplanation

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.arange(90) % 3
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], max_steps=50, interactions=0)
    >>> model.fit(X, np.array(["cardinal", "creeper", "heron"])[kind])
    NeuralBasisClassifier(...)
    >>> found = explain_class(model, "creeper", X[kind == 1], n_terms=1)
    >>> found.raised_by[0].name, found.n_rows, found.rival in ("cardinal", "heron")
    ('striped', 30, True)
    """
    found = find_model(model)
    if found.classes is None:
        raise ValueError("explain_class needs a classifier; this model is a regression: use explain_global")
    if n_terms < 1:
        raise ValueError(f"n_terms must be 1 or more; got {n_terms!r}")
    output, sign = find_output(found, label)
    table = None if X is None else read_table(found, X)
    raised, lowered = _estimate(found, output, sign)
    gains = raised if table is None else _average(found, table, output, sign)
    rival = None if table is None else _find_rival(found, table, output, sign)
    return ClassExplanation(
        model=found,
        label=to_python(label),
        n_terms=n_terms,
        gains=gains,
        losses=lowered,
        is_for=(raised >= -lowered) & (gains > 0),
        rival=rival,
        rival_gains=None if table is None else _average(found, table, *find_output(found, rival)),
        table=table,
        pictures=tuple(map(read_picture, pictures)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class ClassExplanation(Explanation):
    """One class of a classifier, and the terms that raise or lower its score.

    Parameters
    ----------
    model, label : the model and the class
    n_terms : number of terms that raise the score, and of terms that lower it
    gains : (T,) mean contribution of each term to the score of the class, over rows of the class
    losses : (T,) mean contribution over training rows that the term makes less likely to be of the class
    is_for : (T,) whether the term raises the score of the class
    rival : the class with the next highest mean score on the rows of the class; None without rows
    rival_gains : (T,) mean contribution of each term to the score of the rival, over the same rows
    table : rows of the class, or None
    pictures : arrays (height, width, 3) of 0 … 255

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.array(["cardinal", "creeper", "heron"])[np.arange(90) % 3]
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], max_steps=20, interactions=0)
    >>> _ = model.fit(X, kind)
    >>> found = explain_class(model, "heron", X[kind == "heron"])
    >>> found.raised_by[0].name, found.n_rows
    ('long', 30)
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
        """Number of given rows of the class."""
        return 0 if self.table is None else self.table.n_rows

    @property
    def raised_by(self) -> tuple[Leaning, ...]:
        """The terms that raise the score of the class most: largest gains first."""
        return list_leanings(self.names, self.gains, self._order_for)

    @property
    def lowered_by(self) -> tuple[Leaning, ...]:
        """The terms that lower the score of the class most: largest losses first."""
        return list_leanings(self.names, self.losses, self._order_against)

    @property
    def distinguished_by(self) -> tuple[Leaning, ...]:
        """The terms that raise the score of the class most above the score of the rival; empty without rows."""
        if self.rival_gains is None:
            return ()
        lead = self.gains - self.rival_gains
        return list_leanings(self.names, lead, self._rank(lead))

    @cached_property
    def terms_for(self) -> tuple[TermView, ...]:
        """Views of the terms that raise the score of the class; their tables have this score only."""
        return tuple(map(self.view, self._order_for))

    @cached_property
    def terms_against(self) -> tuple[TermView, ...]:
        """Views of the terms that lower the score of the class."""
        return tuple(map(self.view, self._order_against))

    @property
    def _order_for(self) -> list[int]:
        return self._rank(np.where(self.is_for, self.gains, 0.0))

    @property
    def _order_against(self) -> list[int]:
        return self._rank(np.where(self.is_for, 0.0, -self.losses))

    def view(self, term: int) -> TermView:
        """The view of a term, for the score of this class only."""
        shape = take_output(self.model.shapes[term], *find_output(self.model, self.label))
        return view_term(self.model, term, shape)

    def values(self, term: TermView) -> tuple[tuple[Value, ...], ...]:
        """The values of each column of a term in the rows of the class; empty without rows."""
        if self.table is None:
            return tuple(() for _ in term.columns)
        features = self.model.terms[term.index]
        return tuple(plain_values(self.model.encoder.axes[f], self.table[f]) for f in features)

    def data(self) -> Mapping[str, Any]:
        """Plain values: the class, its rival, and names and sizes of the strongest terms."""
        sides = {"for": self.raised_by, "against": self.lowered_by, "apart": self.distinguished_by}
        return {"class": self.label, "rows": self.n_rows, "rival": self.rival} | {
            side: {"names": [one.name for one in found], "scores": [one.size for one in found]}
            for side, found in sides.items()
        }

    def visualize(self) -> Any:
        """A matplotlib figure: the pictures, and the shapes of the strongest terms."""
        from .. import plot

        return plot.class_shapes(self)

    def to_pandas(self) -> Any:
        """A pandas data frame: one line for each term; terms that raise the score, then the others, strongest first."""
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

    def __str__(self) -> str:
        apart = f"\nfrom {escape(str(self.rival))}: {', '.join(map(str, self.distinguished_by))}"
        return f"{ClassView(self.label, self.raised_by, self.lowered_by)}{apart if self.distinguished_by else ''}"

    def __repr__(self) -> str:
        return f"ClassExplanation({self.label!r}, {self.n_rows} rows)"


def take_output(shape: AnyShape, output: int, sign: int = 1) -> Shape | TiedShape:
    """The table of a term for one score; sign -1 negates it, for the first of two classes."""
    if isinstance(shape, TiedShape):
        return replace(shape, mix=sign * shape.mix[..., [output]])
    members = None if shape.members is None else sign * shape.members[..., [output]]
    scores, spread = sign * shape.scores[..., [output]], shape.spread[..., [output]]
    evidence = _take_evidence(shape.evidence, output) if isinstance(shape, Shape) else None
    return Shape(shape.term, shape.axes, scores, spread, shape.weights, members, evidence=evidence)


def _take_evidence(evidence: Evidence | None, output: int) -> Evidence | None:
    if evidence is None:
        return None
    own = {name: getattr(evidence, name)[[output]] for name in ("p_values", "multipliers", "importance_errors")}
    return replace(evidence, **own)


def _average(model: AdditiveModel, table: Columns, output: int, sign: int) -> np.ndarray:
    """(T,) mean contribution to one score over the rows."""
    if model.is_wide:
        found = model.list_contributions(table)
        return sign * np.bincount(found.term, found.value[:, output], len(model.shapes)) / len(found)
    if table.n_rows * len(model.shapes) * model.n_outputs <= MAX_CONTRIBUTIONS:
        return sign * model.contributions(table)[..., output].mean(axis=0)
    # With hundreds of columns, all their pairs and hundreds of classes, all scores would not fit in memory.
    alone = replace(
        model,
        intercept=model.intercept[[output]],
        shapes=tuple(take_output(shape, output, sign) for shape in model.shapes),
        link="identity",
        classes=None,
    )
    return alone.contributions(table)[..., 0].mean(axis=0)


def _find_rival(model: AdditiveModel, table: Columns, output: int, sign: int) -> Any:
    """The other class with the highest mean score over the rows."""
    assert model.classes is not None
    labels = model.classes.tolist()
    if model.n_outputs == 1:
        return labels[0 if sign > 0 else 1]
    mean = model.scores(table).mean(axis=0)
    mean[output] = -np.inf
    return labels[int(mean.argmax())]


def _estimate(model: AdditiveModel, output: int, sign: int) -> np.ndarray:
    """(2, T) mean contribution of each term over training rows, weighted by exp(contribution) and by its inverse."""
    found = []
    for shape in model.shapes:
        is_tied, weights = isinstance(shape, TiedShape), shape.weights
        scores = take_output(shape, output).scores[..., 0] if is_tied else shape.scores[..., output]
        rows = sign * scores[weights > 0], weights[weights > 0]
        found.append([_tilted_mean(*rows, 1), _tilted_mean(*rows, -1)])
    return np.array(found).reshape(-1, 2).T


def _tilted_mean(scores: np.ndarray, weights: np.ndarray, side: int) -> float:
    """Mean of the scores, weighted by weights · exp(side · scores).

    >>> rows = np.array([2.0, -1.0]), np.array([1.0, 2.0])
    >>> round(_tilted_mean(*rows, 1), 3), round(_tilted_mean(*rows, -1), 3), _tilted_mean(np.array([]), np.array([]), 1)
    (1.728, -0.927, 0.0)
    """
    if not len(scores):
        return 0.0
    odds = weights * np.exp(side * scores - (side * scores).max())
    return float(odds @ scores / odds.sum())
