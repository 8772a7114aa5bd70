"""Explanations of rows: the contribution of every term to every score.

In a wide model, a term contributes exactly 0 where its value is absent. Only the terms of values that are present are
computed and listed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape
from typing import Any

import numpy as np

from ..data.columns import Columns, is_missing, level_text
from ..data.frames import write_frame
from ..data.records import find_rows
from ..data.sparse import SparseMatrix
from ..data.text_numbers import parse_number
from ..encoding.axis import Axis
from ..lazy import Lazy
from ..model.additive_model import AdditiveModel, find_model
from ..model.card import write_bars
from ..model.factors import Contributions
from ..model.html import wrap_card
from ..model.scorecard import score_name
from .explanation import Explanation, Value, plain_values, squeeze, to_python

MANY_COLUMNS = 10_000  # above, only columns that are part of a term are read
MAX_CARDS, MAX_BARS = 5, 8  # rows and terms that a notebook shows


def explain_local(model: Any, X: Any, y: Any = None) -> LocalExplanation:
    """Explain the predictions of rows: the contribution of every term to the score of every row.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    X : rows, any table that `AdditiveModel.predict` accepts
    y : (N,) actual classes or values, optional; shown beside the predictions

    Returns
    -------
    LocalExplanation

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> fitted = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> explanation = explain_local(fitted, [{"size": 2.5, "colour": "red"}, {"size": None, "colour": "blue"}])
    >>> explanation.values
    ((2.5, 'red'), (None, 'blue'))
    >>> row = explanation.row(0)
    >>> bool(abs(row.contributions.sum() + row.intercept[0] - row.prediction) < 1e-12)
    True
    """
    model = find_model(model)
    rows = find_rows(X)
    table = model.find_columns(X) if rows is None else X
    contributions = model.list_contributions(table) if model.is_wide else model.contributions(table)
    return LocalExplanation(
        model=model,
        values=_read_values(model, table, rows),
        contributions=contributions,
        scores=model.scores(table),
        predictions=model.predict(table),
        probabilities=None if model.classes is None else model.predict_proba(table),
        actual=_check_actual(y, len(contributions)),
    )


@dataclass(frozen=True, eq=False, repr=False)
class RowView:
    """One row; its terms are sorted by their contribution to the score of the predicted class, strongest first.

    Parameters
    ----------
    index : index of the row in the table
    output : index of the score that the terms are sorted by
    score_name, chance : what that score is, such as 'log odds of "yes"', and in words the probability of its class
    terms, names : (T,) indices and names of the terms; in a wide model, only terms of values that are present
    values : (T,) raw values of each term's columns
    contributions : (T, K)
    intercept, scores : (K,)
    prediction, probabilities, actual : of this row, see `LocalExplanation`

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> row = explain_local(model, {"size": [4.0], "colour": ["red"]}).row(0)
    >>> row.names[0], row.values[0], row.contributions.shape
    ('size', (4.0,), (2, 1))
    """

    index: int
    output: int
    score_name: str
    chance: str
    terms: tuple[int, ...]
    names: tuple[str, ...]
    values: tuple[tuple[Value, ...], ...]
    contributions: np.ndarray
    intercept: np.ndarray
    scores: np.ndarray
    prediction: Any
    probabilities: np.ndarray | None
    actual: Any

    def _repr_html_(self) -> str:
        return wrap_card(self.write_html())

    def write_html(self) -> str:
        """The prediction and the largest contributions of the row, as HTML without style."""
        actual = "" if self.actual is None else f", actual {_show(self.actual)}"
        contributions = self.contributions[:, self.output].tolist()
        rows = [
            (name, ", ".join(map(_show, values)), size, f"{size:+.3g}".replace("-", "−"))
            for name, values, size in zip(self.names[:MAX_BARS], self.values, contributions, strict=False)
        ]
        rest = sum(contributions[MAX_BARS:])
        if len(contributions) > MAX_BARS:
            rows.append((f"{len(contributions) - MAX_BARS} others", "", rest, f"{rest:+.3g}".replace("-", "−")))
        start, score = float(self.intercept[self.output]), float(self.scores[self.output])
        title = f"Row {self.index}: prediction {_show(self.prediction)}{actual}"
        path = f"{self.score_name} {score:.4g} = intercept {start:.4g} + the contributions{self.chance}"
        path = path.replace("-", "−")
        table = write_bars(rows, ("term", "value", "contribution"))
        return f"<div><b>{escape(title)}</b><br/><small>{escape(path)}</small>{table}</div>"

    def __repr__(self) -> str:
        return f"RowView({self.index}, prediction {self.prediction!r})"


@dataclass(frozen=True, eq=False, repr=False)
class LocalExplanation(Explanation):
    """Rows of a table and the contribution of each term to their scores.

    Parameters
    ----------
    model : the model
    values : for each row, the raw value of each column: a number, the name of a level, or None for missing; with very
        many columns, a mapping of column indices to the values that are present and part of a term
    contributions : (N, T, K); in a wide model, a record of those that are not 0, see `factors.Contributions`
    scores : (N, K) intercept plus contributions
    predictions : (N,) values, or labels of classes
    probabilities : (N, classes), None for a regression
    actual : (N,) actual classes or values, None if not given

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> rows = explain_local(model, {"size": [4.0, None], "colour": ["red", "green"]}, [4.0, 2.0])
    >>> bool(abs(rows.contributions.sum(axis=1) + rows.intercept - rows.scores).max() < 1e-12), rows.actual.tolist()
    (True, [4.0, 2.0])
    """

    values: Sequence[Any]
    contributions: np.ndarray | Contributions
    scores: np.ndarray
    predictions: np.ndarray
    probabilities: np.ndarray | None
    actual: np.ndarray | None

    def row(self, index: int) -> RowView:
        """One row, its terms sorted by absolute contribution."""
        i = self._find_row(index)
        output = int(self.scores[i].argmax())
        listed, contributions = self._list_terms(i)
        strongest = np.argsort(-np.abs(contributions[:, output]), kind="stable")
        order = listed[strongest].tolist()
        terms, names = self.model.terms, self.names
        name, chance = score_name(self.model), ""
        if self.classes is not None and self.probabilities is not None:
            place = 1 if len(self.classes) == 2 and self.scores.shape[1] == 1 else output  # of the class of the score
            label = _show(self.classes[place])
            name = name if self.scores.shape[1] == 1 else f"score of {label}"
            chance = f"; probability of {label} {float(self.probabilities[i][place]):.3f}"
        return RowView(
            index=i,
            output=output,
            score_name=name,
            chance=chance,
            terms=tuple(order),
            names=tuple(names[t] for t in order),
            values=tuple(tuple(self.values[i][feature] for feature in terms[t]) for t in order),
            contributions=contributions[strongest],
            intercept=self.intercept,
            scores=self.scores[i],
            prediction=to_python(self.predictions[i]),
            probabilities=None if self.probabilities is None else self.probabilities[i],
            actual=None if self.actual is None else to_python(self.actual[i]),
        )

    def data(self, key: int | None = None) -> dict[str, Any]:
        """Plain values in the format of InterpretML: of one row, or for None and -1 of all rows, as "specific"."""
        if key is None or key == -1:
            return {"overall": None, "specific": [self._describe_row(i) for i in range(len(self.scores))]}
        return self._describe_row(self._find_row(key))

    def visualize(self, key: int | None = None) -> Any:
        """An interactive plotly figure of one row: its contributions, from the intercept to the score; needs plotly."""
        from ..plot.interactive import visualize_local

        if key is None and len(self.scores) > 1:
            raise ValueError(f"visualize draws one row; pass a key from 0 … {len(self.scores) - 1}")
        return visualize_local(self, 0 if key is None else self._find_row(key))

    def to_pandas(self) -> Any:
        """A pandas data frame: one line for each row and term, and for each of three or more classes.

        The contributions of a row (and class) plus the intercept are its score.
        """
        terms, names, outputs = self.model.terms, self.names, self.outputs
        lines = []
        for i in range(len(self.scores)):
            listed, contributions = self._list_terms(i)
            values, prediction = self.values[i], to_python(self.predictions[i])
            for place, k in np.ndindex(contributions.shape):
                t = listed[place]
                line = {"row": i, "term": names[t], "value": _join_values([values[f] for f in terms[t]])}
                line |= {"class": outputs[k]} if len(outputs) > 1 else {}
                line |= {"contribution": float(contributions[place, k]), "score": float(self.scores[i, k])}
                lines.append(line | {"prediction": prediction})
        return write_frame(lines)

    def _list_terms(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the listed terms of a row, and their contributions (t, K)."""
        if isinstance(self.contributions, Contributions):
            return self.contributions.of_row(i)
        return np.arange(self.contributions.shape[1]), self.contributions[i]

    def _find_row(self, index: int) -> int:
        count, found = len(self.scores), operator.index(index)
        if not -count <= found < count:
            raise ValueError(f"there is no row {index}; the explanation has rows 0 … {count - 1}")
        return found % count

    def _describe_row(self, i: int) -> dict[str, Any]:
        listed, contributions = self._list_terms(i)
        terms, values = [self.model.terms[t] for t in listed], self.values[i]
        return {
            "type": "univariate",
            "names": [self.names[t] for t in listed],
            "scores": squeeze(contributions),
            "values": [values[term[0]] if len(term) == 1 else "" for term in terms],
            "extra": {"names": ["Intercept"], "scores": [squeeze(self.intercept)], "values": [1]},
            "perf": self._describe_performance(i),
        } | self._describe_classes()

    def _describe_performance(self, i: int) -> dict[str, Any]:
        """The prediction and the actual value; for a classifier, each with its probability."""
        predicted = to_python(self.predictions[i])
        actual = np.nan if self.actual is None else to_python(self.actual[i])
        found = {"is_classification": self.classes is not None, "actual": actual, "predicted": predicted}
        if self.classes is None or self.probabilities is None:
            return found | {"actual_score": actual, "predicted_score": predicted}
        chances = dict(zip(self.classes, self.probabilities[i].tolist(), strict=True))
        known = np.nan if self.actual is None else chances.get(actual, 0.0)
        return found | {"actual_score": known, "predicted_score": chances[predicted]}

    def _repr_html_(self) -> str:
        more = len(self.scores) - MAX_CARDS
        note = f"<small>and {more:,} more rows: row(i) shows one of them</small>" if more > 0 else ""
        return wrap_card("".join(self.row(i).write_html() for i in range(min(len(self.scores), MAX_CARDS))) + note)

    def __repr__(self) -> str:
        return f"LocalExplanation({len(self.scores)} rows, {len(self.model.shapes)} terms, {self.link})"


def _show(value: Any) -> str:
    """A raw value or a prediction as short text."""
    if isinstance(value, float):
        return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"
    return "missing" if value is None else str(value)


def _read_values(model: AdditiveModel, table: Any, rows: Sequence[Mapping[str, Any]] | None) -> Sequence[Any]:
    axes = model.encoder.axes
    if model.is_wide and not any(axis.is_level for axis in axes):
        matrix = model.store(table)
        return Lazy(partial(_SparseRow, matrix), len(matrix))
    if rows is None and len(axes) > MANY_COLUMNS:
        used = sorted({feature for term in model.terms for feature in term})
        values = _read_table([axes[feature] for feature in used], table.take(used))
        return [dict(zip(used, row, strict=True)) for row in values]
    if rows is None:
        return _read_table(axes, table)
    return tuple(tuple(_plain_value(axis, row[axis.name]) for axis in axes) for row in rows)


class _SparseRow(Mapping[int, Value]):
    """Raw values of a row of a wide table by column index: iterates over values that are present, looks up all."""

    def __init__(self, matrix: SparseMatrix, index: int):
        own = slice(matrix.starts[index], matrix.starts[index + 1])
        values = [None if value != value else value for value in matrix.value[own].tolist()]
        self._matrix, self._present = matrix, dict(zip(matrix.column[own].tolist(), values, strict=True))

    def __len__(self) -> int:
        return len(self._present)

    def __iter__(self) -> Iterator[int]:
        return iter(self._present)

    def __getitem__(self, column: int) -> Value:
        return self._present.get(column, float(self._matrix.absent_of(column)))

    def __repr__(self) -> str:
        return repr(self._present)


def _read_table(axes: Sequence[Axis], columns: Columns) -> tuple[tuple[Value, ...], ...]:
    return tuple(zip(*[plain_values(axis, column) for axis, column in zip(axes, columns, strict=True)], strict=True))


def _plain_value(axis: Axis, value: Any) -> Value:
    if is_missing(value):
        return None
    if axis.is_level:
        return level_text(value)
    number = parse_number(value) if isinstance(value, str) else float(value)
    return None if number is None or number != number else number  # text that is not a number counts as missing


def _join_values(values: Sequence[Value]) -> Value:
    """The raw value of a main effect; the values of an interaction as text."""
    if len(values) == 1:
        return values[0]
    return " & ".join("missing" if value is None else level_text(value) for value in values)


def _check_actual(y: Any, n_rows: int) -> np.ndarray | None:
    if y is None:
        return None
    actual = np.asarray(y)
    if actual.ndim == 2 and actual.shape[1] == 1:  # a column vector, which `fit` accepts
        actual = actual[:, 0]
    if actual.shape != (n_rows,):
        raise ValueError(f"y must have one value for each of the {n_rows} rows of X; got shape {actual.shape}")
    return actual
