"""Results of commands as aligned text, and as plain values for `--json`.

In: models, metrics and rows. Out: escaped text, or dicts of values that JSON can hold.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click
import numpy as np

import neuralbasis

from ..data.columns import level_text
from ..model.shapes import have_evidence
from ..model.summary import to_plain
from ..printable import escape, escape_json

if TYPE_CHECKING:
    from ..data.columns import Columns
    from ..encoding.axis import Axis
    from ..model.additive_model import AdditiveModel
    from .metrics import Metric

BAR_WIDTH = 24
MAX_NAME = 48
MAX_LISTED = 5000
MAX_DEPTH = 20  # of nested lists and dicts in JSON


def format_json(values: Mapping[str, Any]) -> str:
    """Indented JSON; numbers that are not finite become null."""
    return escape_json(json.dumps(to_plain(values, MAX_DEPTH), indent=2, ensure_ascii=False, allow_nan=False))


def count_rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"


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
    from ..model.scorecard import reachable_cells

    importances, n_terms = model.importances(), len(model.shapes)
    known = neuralbasis.explain.evidence(model) if have_evidence(model.shapes) else None
    terms = []
    for t in range(n_terms) if n_terms <= MAX_LISTED else np.argsort(-importances, kind="stable")[:MAX_LISTED]:
        table = model.shapes[t].scores[tuple(map(reachable_cells, model.shapes[t].axes))]
        found = {"name": model.term_names[t], "importance": importances[t], "min": table.min(), "max": table.max()}
        if known is not None:
            found["evidence"] = {
                name: v for name, v in known.data(int(t)).items() if name not in ("term", "importance", "meta")
            }
        terms.append(found)
    return {
        "link": model.link,
        "classes": model.classes,
        "intercept": model.intercept,
        "columns": [_list_axis(axis) for axis in model.encoder.axes],
        "n_terms": n_terms,
        "readability": None if known is None else neuralbasis.explain.readability(model).overall,
        "terms": terms,
        "summary": None if model.summary is None else vars(model.summary),
    }


def format_model(model: AdditiveModel) -> str:
    """How the model was fitted, its formula and terms, and their evidence and readability if it has evidence."""
    texts = [format_summary(model), str(model)]
    if have_evidence(model.shapes):
        texts += [str(neuralbasis.explain.evidence(model)), neuralbasis.explain.readability(model).summary]
    return "\n\n".join(texts)


def _list_axis(axis: Axis) -> dict[str, Any]:
    values = {"min": axis.knots[0], "max": axis.knots[-1]} if axis.levels is None else {"levels": axis.levels}
    return {"name": axis.name, "kind": axis.kind, **values}


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


def list_row(model: AdditiveModel, row: Columns) -> dict[str, Any]:
    """The prediction of a row and the contributions to its score, largest first."""
    found = neuralbasis.explain.explain_local(model, row).row(0)
    names, terms = model.encoder.names, model.terms
    own = 0 if model.n_outputs == 1 else slice(None)
    probabilities = None
    if model.classes is not None and found.probabilities is not None:
        probabilities = dict(zip(map(level_text, model.classes), found.probabilities, strict=True))
    return {
        "prediction": found.prediction,
        "probabilities": probabilities,
        "score": found.scores[own],
        "intercept": found.intercept[own],
        "contributions": [
            {
                "term": name,
                "values": dict(zip((names[feature] for feature in terms[t]), values, strict=True)),
                "contribution": contributions[own],
            }
            for t, name, values, contributions in zip(
                found.terms, found.names, found.values, found.contributions, strict=True
            )
        ],
    }


def format_row(model: AdditiveModel, row: Columns) -> str:
    """The prediction of a row and the contributions to the score of the predicted class, with bars."""
    found = neuralbasis.explain.explain_local(model, row).row(0)
    sizes = found.contributions[:, found.output]
    largest = max(np.abs(sizes).max(initial=0.0), 1e-300)
    rows, colours = [["intercept", format_number(found.intercept[found.output]), ""]], [""]
    for t, values, size in zip(found.terms, found.values, sizes, strict=True):
        cells = [_format_cell(model.encoder.axes[f], v) for f, v in zip(model.terms[t], values, strict=True)]
        bar = "█" * math.ceil(BAR_WIDTH * abs(size) / largest - 1e-9)  # rounding errors add no block
        rows.append([_truncate(" & ".join(cells)), f"{'+' if size > 0 else ''}{format_number(size)}", bar])
        colours.append("green" if size > 0 else "red")
    label = "score"
    if model.classes is not None:
        name = level_text(model.classes[1 if model.n_outputs == 1 else found.output])
        label = f"log odds of {name}" if model.link == "logit" else f"score of {name}"
    rows.append([label, format_number(found.scores[found.output]), ""])
    if found.probabilities is not None:
        place = 1 if model.n_outputs == 1 else found.output  # of the class whose score is summed above
        rows.append([f"probability of {name}", format_number(found.probabilities[place]), ""])
    rows.append(["prediction", _format_value(found.prediction), ""])
    return align(rows, left=(0, 2), colours=[*colours, *[""] * (len(rows) - len(colours))])


def _format_cell(axis: Axis, value: Any) -> str:
    is_unseen = axis.levels is not None and value is not None and value not in axis.levels
    return f"{axis.name} = {_format_value(value)}{' (never seen)' if is_unseen else ''}"


def _format_value(value: Any) -> str:
    if value is None:
        return "missing"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_NAME else f"{text[: MAX_NAME - 1]}…"


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


def align(rows: Sequence[Sequence[str]], left: Sequence[int] = (0,), colours: Sequence[str] = ()) -> str:
    """Escape and align cells in columns two spaces apart.

    left : indices of left-aligned columns; the others are right-aligned
    colours : colour of the last cell of each row, "" for none
    """
    texts = [[escape(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts, strict=True)]
    lines = []
    for row, colour in zip(texts, colours or [""] * len(texts), strict=True):
        sides = zip(row, widths, strict=True)
        cells = [cell.ljust(width) if k in left else cell.rjust(width) for k, (cell, width) in enumerate(sides)]
        last = cells.pop().rstrip()
        lines.append("  ".join([*cells, click.style(last, fg=colour) if colour else last]).rstrip())
    return "\n".join(lines)
