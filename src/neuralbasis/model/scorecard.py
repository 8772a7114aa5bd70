"""A model as text from which predictions can be computed by hand.

    score = intercept + one number from each table              prediction = link⁻¹(score)

In: an `AdditiveModel`. Out: `scorecard`, a record that prints the tables of one or all terms and lists their cells, and
`describe`, the formula of the model with the range and the importance of each term. `AdditiveModel` has both as
methods and imports this module, so this module does not import `AdditiveModel`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product
from textwrap import wrap
from typing import Any

import numpy as np

from ..data.columns import level_text
from ..encoding.axis import Axis
from ..printable import escape
from .html import write_text_card
from .interpolation import interpolate_knots
from .shapes import AnyShape, have_evidence
from .term_table import CLOSE, STRAIGHT, TermTable, list_cells, make_term_table

WIDTH = 100  # characters per line
MAX_NAME = 30
MAX_TERMS = 20
MAX_TABLES = 2000
MAX_BAR = 20
MISSING, UNSEEN = "missing", "any other"
DIGITS = 5  # significant digits of the largest contribution

Row = tuple[Sequence[str], Sequence[str], Sequence[str]]  # texts of the leading, the middle and the trailing columns


def scorecard(model: Any, term: Any = None, max_rows: int | None = None) -> Scorecard:
    """The tables of one term or of all terms, for reading and for predicting by hand.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    term : name ("age", "age & income"), index, or tuple of columns; None selects all terms
    max_rows : largest number of knots or levels along each axis: those between which linear interpolation follows the
        shape best where the training rows are. The text states the mean and the largest error. None prints every level
        and every knot where a shape bends; a long table then names a smaller number that is close

    Returns
    -------
    Scorecard

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["time"], max_steps=20).fit(X, X[:, 0])
    >>> card = scorecard(model, "time", max_rows=3)
    >>> print(card)
    time: continuous
    from ...
    >>> lowest = card.to_rows()[1]
    >>> lowest["value"], lowest["score"] == model.term_scores_[0][1].item()
    (0.0, True)
    """
    model = getattr(model, "model_", model)
    if max_rows is not None and operator.index(max_rows) < 2:
        raise ValueError(f"max_rows must be at least 2, the two ends of a range, or None for all; got {max_rows}")
    chosen = range(len(model.shapes)) if term is None else [find_term(model, term)]
    if len(chosen) > MAX_TABLES:
        raise ValueError(
            f"the model has {len(chosen):,} terms, too many to print their tables; name one, as in scorecard(term="
            f"{model.term_names[0]!r}), or print the model to see the most important terms"
        )
    names, spec = model.encoder.names, number_format(_largest_score(model, chosen))
    tables = [
        make_term_table(model.shapes[t], [names[f] for f in model.terms[t]], spec, max_rows, term is not None)
        for t in chosen
    ]
    heading = _format_heading(model, spec) if term is None else ""
    return Scorecard(tuple(tables), output_labels(model), heading)


def describe(model: Any) -> str:
    """The formula of a model, and the range and importance of its terms. `print(model)` prints this text.

    Contributions of a term lie between its lowest and highest score. Its importance is the mean of |contribution|
    over the training rows.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["time"], max_steps=20).fit(X, X[:, 0])
    >>> print(describe(model))
    prediction = 0... + f(time)
    <BLANKLINE>
    term  kind        lowest  highest  importance
    time  continuous ...
    """
    model = getattr(model, "model_", model)
    importances = model.importances()
    order = np.argsort(-importances, kind="stable")
    shown = order[:MAX_TERMS]
    names = [shorten(model.term_names[t]) for t in shown]
    hidden = len(order) - len(shown)
    lines = [*_format_formula(model, shown, names, hidden), "", *_format_terms(model, shown, names, importances)]
    if hidden:
        lines.append(f"… and {hidden:,} more")
    return "\n".join(lines)


@dataclass(frozen=True, eq=False, repr=False)
class Scorecard:
    """Tables of terms. `print` shows them, `to_rows` lists their cells.

    Parameters
    ----------
    tables : one per term
    outputs : labels of the K scores
    heading : how to compute a prediction from the tables; empty for a single term
    """

    tables: tuple[TermTable, ...]
    outputs: tuple[Any, ...]
    heading: str = ""

    def __str__(self) -> str:
        outputs = [shorten(str(label)) for label in self.outputs]
        texts = ["\n".join(_format_table(table, outputs)) for table in self.tables]
        return "\n\n".join([self.heading, *texts] if self.heading else texts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        outputs = [shorten(str(label)) for label in self.outputs]
        texts = [_format_table(table, outputs) for table in self.tables]
        return write_text_card(self.heading, [(lines[0], "\n".join(lines[1:])) for lines in texts])

    def to_rows(self) -> list[dict[str, Any]]:
        """The printed cells as records in full precision, such as for `pandas.DataFrame(card.to_rows())`.

        A record holds the term; the kind ("missing", "knot", "level", "unseen") and the value of the cell for each
        column; the class if there are several; score, its standard error "spread", training weight and its share.
        """
        return [row for table in self.tables for row in list_cells(table, self.outputs)]


def find_term(model: Any, term: Any) -> int:
    """Index of a term given by name, by index or by a tuple of columns."""
    names = model.encoder.names
    if isinstance(term, str):
        found = model.term_index.get(term)
    elif isinstance(term, Iterable):
        wanted = {names.index(c) if isinstance(c, str) and c in names else c for c in term}
        found = next((index for index, features in enumerate(model.terms) if set(features) == wanted), None)
    else:
        index = operator.index(term)
        found = index % len(model.terms) if -len(model.terms) <= index < len(model.terms) else None
    if found is None:
        listed = ", ".join(repr(name) for name in model.term_names[:MAX_TERMS])
        more = f" and {len(model.terms) - MAX_TERMS} more" if len(model.terms) > MAX_TERMS else ""
        raise ValueError(f"the model has no term {term!r}; its terms, 0 … {len(model.terms) - 1}, are {listed}{more}")
    return found


def score_name(model: Any) -> str:
    """What the score of a model means, in words."""
    if model.link != "logit":
        return "score of a class" if model.link == "mlogit" else "prediction"
    if model.classes is None:
        return "log odds"
    label, text = model.classes[1], shorten(str(model.classes[1]))
    return f'log odds of "{text}"' if isinstance(label, str) else f"log odds of {text}"


def number_format(largest: float, digits: int = DIGITS) -> str:
    """Format specification that gives `largest` this many significant digits, and smaller numbers the same decimals.

    >>> [format(number, number_format(30.0)) for number in (30.0, -0.5)]
    ['30.000', '-0.500']
    """
    magnitude = int(np.floor(np.log10(largest))) if largest > 0 else 0
    return f".{max(digits - 1 - magnitude, 0)}f" if -6 <= magnitude <= 12 else f".{digits}g"


def reachable_cells(axis: Axis) -> slice:
    """Cells that a row can occupy. A continuous column never occupies the unseen cell."""
    return slice(None) if axis.is_level else slice(-1)


def reachable_scores(shape: AnyShape) -> np.ndarray:
    return shape.scores[tuple(reachable_cells(axis) for axis in shape.axes)]


def _largest_score(model: Any, chosen: Sequence[int] | np.ndarray) -> float:
    """Largest absolute score of all terms; of the chosen terms only if the model has more than `MAX_TABLES`."""
    terms = chosen if len(model.shapes) > MAX_TABLES else range(len(model.shapes))
    return max((float(np.abs(reachable_scores(model.shapes[t])).max()) for t in terms), default=0.0)


def output_labels(model: Any) -> tuple[Any, ...]:
    """Labels of the K scores: the classes, or "score" if K is 1."""
    if model.n_outputs == 1:
        return ("score",)
    return tuple(range(model.n_outputs)) if model.classes is None else tuple(model.classes.tolist())


def shorten(text: str, width: int = MAX_NAME) -> str:
    """Escape control characters and replace the middle of a long text by an ellipsis.

    >>> shorten("total of outstanding debts in thousands", 20)
    'total of o…thousands'
    """
    text = escape(text)
    tail = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - tail]}…{text[-tail:]}"


def _format_number(number: float, spec: str) -> str:
    text = format(number, spec)
    return text.lstrip("-") if float(text) == 0 else text


def _format_heading(model: Any, spec: str) -> str:
    """How to compute a prediction from the tables."""
    tables = f"one number from each of the {len(model.shapes)} tables below"
    if model.n_outputs == 1:
        first = [f"{score_name(model)} = {_format_number(model.intercept[0], spec)} + {tables}"]
    else:
        named = zip(output_labels(model), model.intercept, strict=True)
        starts = "; ".join(f"{shorten(str(label))}: {_format_number(start, spec)}" for label, start in named)
        first = [f"{score_name(model)} = its intercept + {tables}", *wrap(f"intercepts: {starts}", WIDTH)]
    error = "standard error of the score" if have_evidence(model.shapes) else "spread over the members"
    legend = f"± is the {error}; rows and share are those of the training table"
    return "\n".join([*first, *_link_lines(model), legend])


def _link_lines(model: Any) -> list[str]:
    if model.link == "logit":
        return [f"{score_name(model).replace('log odds', 'probability', 1)} = 1 / (1 + exp(-log odds))"]
    if model.link == "mlogit":
        return [f"probability of a class = exp(its score) / sum of exp(score) over the {model.n_outputs} classes"]
    return []


def _format_formula(model: Any, shown: np.ndarray, names: Sequence[str], hidden: int) -> list[str]:
    spec = number_format(max(float(np.abs(model.intercept).max()), _largest_score(model, shown)), DIGITS - 1)
    start = _format_number(model.intercept[0], spec) if model.n_outputs == 1 else "intercept of the class"
    # `wrap` does not break at a no-break space, so names stay on one line.
    terms = [f"+\u00a0f({name})".replace(" ", "\u00a0") for name in names]
    terms += [f"+\u00a0…\u00a0({hidden:,}\u00a0more)"] if hidden else []
    text = " ".join([f"{score_name(model)} = {start}", *terms])
    lines = wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [*(line.replace("\u00a0", " ") for line in lines), *_link_lines(model)]


def _format_terms(model: Any, shown: np.ndarray, names: Sequence[str], importances: np.ndarray) -> list[str]:
    """One line per term: name, kind, range, importance and a bar."""
    spec = number_format(_largest_score(model, shown), DIGITS - 1)
    importance_spec = number_format(float(importances.max(initial=0.0)), DIGITS - 1)
    rows = [("term", "kind", "lowest", "highest", "importance", "")]
    for t, name in zip(shown, names, strict=True):
        scores, bar = reachable_scores(model.shapes[t]), round(MAX_BAR * importances[t] / (importances.max() or 1.0))
        low, high = _format_number(scores.min(), spec), _format_number(scores.max(), spec)
        importance = _format_number(importances[t], importance_spec)
        rows.append((name, _term_kind(model.shapes[t].axes), low, high, importance, "#" * bar))
    return align(rows, "<<>>><")


def _term_kind(axes: Sequence[Axis]) -> str:
    return axes[0].kind if len(axes) == 1 else {2: "pair", 3: "triple"}.get(len(axes), f"{len(axes)} columns")


def align(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    """Lines of cells in columns, each aligned to its side: "<" or ">"."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(sides))]
    cells = [[f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def _format_table(table: TermTable, outputs: Sequence[str]) -> list[str]:
    lines = [f"{shorten(table.name, WIDTH - 20)}: {_term_kind(table.axes)}"]
    if len(table.axes) > 1:
        lines += _format_grids(table, outputs)
    elif table.axes[0].is_level:
        levels = [([label], [place]) for place, label in enumerate(_cell_labels(table, 0))]
        lines += _format_lines(table, ["level"], levels, outputs)
    else:
        lines += _format_ranges(table, outputs)
    return lines + _omission_notes(table)


def _omission_notes(table: TermTable) -> list[str]:
    """What the printed table omits, and its largest error."""
    notes = []
    for axis, cells, column in zip(table.axes, table.cells, table.columns, strict=True):
        if axis.is_level and (hidden := axis.n_cells - len(cells)):
            notes.append(f"left out: the {hidden} rarest levels of {shorten(column)}")
    if table.error > STRAIGHT * np.abs(table.scores).max():
        mean = f"{table.mean_error:.2g} on average over the training rows, up to {table.error:.2g} from the model's"
        notes.append(f"thinned: printed scores are {mean}")
    if table.suggestion is not None:
        word = "too coarse to predict with" if table.is_coarse else "a long table"
        mean = f"a mean error of at most {100 * CLOSE:.0f} % of the mean |score|"
        notes.append(f"{word}: max_rows={table.suggestion} has {mean}")
    return notes


def _format_ranges(table: TermTable, outputs: Sequence[str]) -> list[str]:
    """One line per linear segment: its ends and the scores there."""
    at = _format_knots(table, 0)
    ends = [(["missing", ""], [0]), (["below", at[0]], [1])]
    ends += [([at[i], at[i + 1]], [i + 1, i + 2]) for i in range(len(at) - 1)]
    ends += [([at[-1], "above"], [len(at)])]
    rule = "between two ends: score = left + (value - from) / (to - from) × (right - left)"
    return [*_format_lines(table, ["from", "to"], ends, outputs), *([rule] if len(at) > 1 else [])]


def _format_lines(
    table: TermTable, names: Sequence[str], ends: Sequence[tuple[list[str], list[int]]], outputs: Sequence[str]
) -> list[str]:
    """Lines given by their labels and cells, one or two: scores, largest standard error, rows and their share."""
    rows = []
    for labels, places in ends:
        texts = [
            " to ".join(_format_number(table.scores[p, k], table.spec) for p in places) for k in range(len(outputs))
        ]
        weight, digits = float(table.weights[places[0]]), ".0f" if table.total >= 1 else ".3g"
        rates = [f"{weight:{digits}}", f"{100 * weight / (table.total or 1.0):.1f}%"]
        spread = _format_number(table.spread[places].max(), table.spec)
        is_below = len(labels) == 2 and labels[0] == "below"  # the next line has its rows
        rows.append((labels, texts, [spread, *(["", ""] if is_below else rates)]))
    return _format_blocks((names, outputs, ["±", "rows", "share"]), rows)


def _format_grids(table: TermTable, outputs: Sequence[str]) -> list[str]:
    """A grid over the last two columns, for each output and each cell of the preceding columns."""
    labels = [_cell_labels(table, d) for d in range(len(table.axes))]
    *leading, down, across = [shorten(column) for column in table.columns]
    lines = [f"± at most {_format_number(table.spread.max(), table.spec)}; interpolate linearly along each column"]
    for place, k in product(np.ndindex(*table.weights.shape[:-2]), range(len(outputs))):
        where = [f"{column} = {labels[d][place[d]]}" for d, column in enumerate(leading)]
        title = ", ".join([*where, *([outputs[k]] if len(outputs) > 1 else [])])
        grid = table.scores[(*place, slice(None), slice(None), k)]
        texts = [[_format_number(score, table.spec) for score in scores] for scores in grid]
        rows: list[Row] = [([name], row, []) for name, row in zip(labels[-2], texts, strict=True)]
        lines += [f"[{title}]"] if title else []
        lines += _format_blocks(([f"{down} \\ {across}"], labels[-1], []), rows)
    return lines


def _format_blocks(header: Row, rows: Sequence[Row]) -> list[str]:
    """Align the columns; middle columns that do not fit into a line follow in further blocks."""
    parts = zip(header, *rows, strict=True)
    widths = [[max(map(len, texts)) + 2 for texts in zip(*part, strict=True)] for part in parts]
    room = max(WIDTH - sum(widths[0]) - sum(widths[2]), 0)
    lines: list[str] = []
    first = 0
    while first < len(header[1]):
        count = max(1, int((np.cumsum(widths[1][first:]) <= room).sum()))
        chosen = slice(first, first + count)
        block = [[*head, *middle[chosen], *tail] for head, middle, tail in (header, *rows)]
        lines += [""] * bool(lines) + align(block, "<" * len(header[0]) + ">" * (count + len(header[2])))
        first += count
    return lines


def _cell_labels(table: TermTable, d: int) -> list[str]:
    """Labels of the printed cells along an axis."""
    axis = table.axes[d]
    if axis.levels is None:
        return [MISSING, *_format_knots(table, d)]
    levels = [shorten(axis.levels[cell - 1]) for cell in table.cells[d][1:-1]]
    return [MISSING, *(repr(level) if level in (MISSING, UNSEEN) else level for level in levels), UNSEEN]


def _format_knots(table: TermTable, d: int) -> list[str]:
    """Knots with the fewest digits that keep them distinct and change no printed score."""
    knots = table.axes[d].knots[table.cells[d][1:] - 1]
    values = np.moveaxis(table.scores, d, 0)[1:].reshape(len(knots), -1)
    is_fixed = table.spec.endswith("f")
    decimals = float(table.spec[1:-1]) if is_fixed else DIGITS - 1 - np.log10(np.abs(values).max() or 1.0)
    for digits in range(1, 18):
        rounded = np.array([float(f"{knot:.{digits - 1}e}") for knot in knots])
        if not np.isfinite(rounded).all() or (np.diff(rounded) <= 0).any():
            continue
        forward = np.abs(interpolate_knots(knots, rounded, values) - values).max()
        backward = np.abs(interpolate_knots(rounded, knots, values) - values).max()
        if max(forward, backward) <= 0.1 * 10.0**-decimals:
            break
    return [level_text(knot) for knot in rounded]
