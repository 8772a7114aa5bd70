"""Results of commands as aligned text, and as plain values for `--json`.

In: models, metrics and rows. Out: escaped text, or dicts of values that JSON can hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import click
import numpy as np

from ..data.columns import Columns, level_text
from ..encoding.axis import Axis
from ..model.additive_model import AdditiveModel
from ..model.scorecard import reachable_cells
from ..printable import escape, escape_json
from .metrics import Metric

BAR_WIDTH = 24
MAX_NAME = 48
MAX_LISTED = 5000


def format_json(values: Mapping[str, Any]) -> str:
    """Indented JSON; numbers that are not finite become null."""
    return escape_json(json.dumps(_plain(values), indent=2, ensure_ascii=False, allow_nan=False))


def format_metrics(title: str, metrics: Sequence[Metric]) -> str:
    """One line per metric: value, interval, value of the constant model."""
    rows = [[title, "model", "95 % interval", "constant model"]]
    for m in metrics:
        interval = f"{format_number(m.low)} … {format_number(m.high)}" if math.isfinite(m.low) else "–"
        rows.append([m.name, format_number(m.value), interval, format_number(m.constant)])
    return align(rows)


def list_metrics(metrics: Sequence[Metric]) -> dict[str, dict[str, float]]:
    return {m.name: {"value": m.value, "low": m.low, "high": m.high, "constant": m.constant} for m in metrics}


def list_model(model: AdditiveModel) -> dict[str, Any]:
    """Columns, terms with importance and range, link and classes; at most the `MAX_LISTED` most important terms."""
    importances, n_terms = model.importances(), len(model.shapes)
    listed = range(n_terms) if n_terms <= MAX_LISTED else np.argsort(-importances, kind="stable")[:MAX_LISTED]
    return {
        "link": model.link,
        "classes": None if model.classes is None else list(model.classes),
        "intercept": list(model.intercept),
        "columns": [_list_axis(axis) for axis in model.encoder.axes],
        "n_terms": n_terms,
        "terms": [_list_term(model, t, importances[t]) for t in listed],
        "summary": None if model.summary is None else vars(model.summary),
    }


def _list_term(model: AdditiveModel, t: int, importance: float) -> dict[str, Any]:
    shape = model.shapes[t]
    table = shape.scores[tuple(map(reachable_cells, shape.axes))]
    return {"name": model.term_names[t], "importance": importance, "min": table.min(), "max": table.max()}


def format_summary(model: AdditiveModel) -> str:
    """How the model was fitted, in one line."""
    found = model.summary
    if found is None:
        return "built by hand, not fitted"
    target = "" if found.target is None else f" of {found.target}"
    what = "regression" if model.classes is None else f"{len(model.classes)} classes"
    return escape(
        f"{what}{target}, fitted on {found.n_rows:,} rows × {found.n_columns} columns, {found.date}, "
        f"neuralbasis {found.versions.get('neuralbasis', '?')}"
    )


class RowExplanation:
    """The prediction of one row and the contributions to the score of the predicted class, largest first.

    For a wide model, only terms whose features the row has.
    """

    def __init__(self, model: AdditiveModel, row: Columns):
        self.model, self.prediction = model, model.predict(row)[0]
        terms, self.contributions = model.list_contributions(row).of_row(0)  # (T, K)
        self.terms = terms.tolist()
        self.scores = model.scores(row)[0]
        self.probabilities = None if model.classes is None else model.predict_proba(row)[0]
        self.values = _row_values(model, row, self.terms)
        self.output = int(self.scores.argmax()) if model.n_outputs > 1 else 0
        self.order = np.argsort(-np.abs(self.contributions[:, self.output]), kind="stable")

    def to_dict(self) -> dict[str, Any]:
        names, terms = self.model.encoder.names, self.model.terms
        is_single = self.model.n_outputs == 1
        return {
            "prediction": self.prediction,
            "probabilities": self._name_classes(self.probabilities),
            "score": self.scores[0] if is_single else list(self.scores),
            "intercept": self.model.intercept[0] if is_single else list(self.model.intercept),
            "contributions": [
                {
                    "term": self.model.term_names[self.terms[place]],
                    "values": {names[f]: self.values[f] for f in terms[self.terms[place]]},
                    "contribution": self.contributions[place, 0] if is_single else list(self.contributions[place]),
                }
                for place in self.order
            ],
        }

    def __str__(self) -> str:
        found, names = self.contributions[:, self.output], self.model.encoder.names
        largest = max(np.abs(found).max(initial=0.0), 1e-300)
        rows = [["intercept", format_number(self.model.intercept[self.output]), ""]]
        colours: list[str | None] = [None]
        for size, t in ((found[place], self.terms[place]) for place in self.order):
            values = [f"{names[f]} = {self._format_cell(f)}" for f in self.model.terms[t]]
            text = f"{'+' if size > 0 else ''}{format_number(size)}"
            rows.append([_truncate(" & ".join(values)), text, format_bar(abs(size) / largest)])
            colours.append("green" if size > 0 else "red")
        rows.append([self._name_score(), format_number(self.scores[self.output]), ""])
        rows.append(["prediction", _format_value(self.prediction), self._format_probability()])
        return align(rows, left=(0, 2), colours=[*colours, None, None])

    def _format_cell(self, feature: int) -> str:
        value, levels = self.values[feature], self.model.encoder.axes[feature].levels
        is_unseen = levels is not None and value is not None and value not in levels
        return f"{_format_value(value)} (never seen)" if is_unseen else _format_value(value)

    def _name_score(self) -> str:
        if self.model.classes is None:
            return "score"
        label = level_text(self.model.classes[1 if self.model.n_outputs == 1 else self.output])
        return f"log odds of {label}" if self.model.link == "logit" else f"score of {label}"

    def _format_probability(self) -> str:
        if self.probabilities is None:
            return ""
        return f"probability {format_number(self.probabilities.max())}"

    def _name_classes(self, values: np.ndarray | None) -> dict[str, float] | None:
        if values is None or self.model.classes is None:
            return None
        return dict(zip(map(level_text, self.model.classes), values, strict=True))


def format_number(value: float) -> str:
    """Four significant digits; a dash if the value is not finite.

    >>> format_number(0.123456), format_number(123456.7), format_number(float("nan"))
    ('0.1235', '123,457', '–')
    >>> format_number(0.97), format_number(1234.0)
    ('0.9700', '1234')
    """
    if not math.isfinite(value):
        return "–"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:#.4g}".removesuffix(".")


def format_bar(share: float) -> str:
    """A bar of this share of the full width; any share above 0 shows at least one block."""
    return "█" * math.ceil(BAR_WIDTH * min(share, 1.0) - 1e-9)


def align(
    rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), colours: Sequence[str | None] | None = None
) -> str:
    """Escape and align cells in columns two spaces apart.

    left : indices of left-aligned columns; the others are right-aligned
    colours : colour of the last cell of each row
    """
    texts = [[escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row, colour in zip(texts, colours or [None] * len(texts), strict=True):
        sides = zip(row, widths, strict=True)
        cells = [cell.ljust(width) if k in left else cell.rjust(width) for k, (cell, width) in enumerate(sides)]
        cells[-1] = cells[-1].rstrip()
        lines.append("  ".join([*cells[:-1], click.style(cells[-1], fg=colour) if colour else cells[-1]]).rstrip())
    return "\n".join(lines)


def _row_values(model: AdditiveModel, row: Columns, terms: Sequence[int]) -> dict[int, Any]:
    """Value of each column of these terms: a number, the text of a level, or None for missing."""
    values: dict[int, Any] = {}
    for feature in {feature for t in terms for feature in model.terms[t]}:
        column, axis = row[feature], model.encoder.axes[feature]
        labels = column.to_labels() if axis.is_level else column
        if labels.codes is None or labels.levels is None or not axis.is_level:
            value = column.to_numbers().numbers
            values[feature] = None if value is None or np.isnan(value[0]) else float(value[0])
        else:
            values[feature] = None if labels.codes[0] < 0 else labels.levels[labels.codes[0]]
    return values


def _format_value(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _list_axis(axis: Axis) -> dict[str, Any]:
    found = {"name": axis.name, "kind": axis.kind}
    if axis.levels is not None:
        return {**found, "levels": list(axis.levels)}
    return {**found, "min": axis.knots[0], "max": axis.knots[-1]}


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


def _plain(value: Any) -> Any:
    """Convert to values that JSON can hold: Python numbers instead of NumPy's, None instead of NaN."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
