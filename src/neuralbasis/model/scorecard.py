"""Scorecard: a model as text that a person can check with a pocket calculator.

    score = intercept + one number from each table              prediction = link⁻¹(score)

In: an AdditiveModel. Out: `scorecard`, a record that prints the table of one term or of all and lists its cells, and
`describe`, the model as a formula with the range and the importance of its terms. `AdditiveModel` lends both as
methods, so this module reads a model's attributes and does not import it.
"""

from __future__ import annotations

import operator
from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from textwrap import wrap
from typing import Any

import numpy as np

from ..data.columns import level_text
from ..encoding.axis import Axis
from ..printable import escape
from .shapes import AnyShape

WIDTH = 100  # characters of a line
MAX_NAME = 30
MAX_TERMS = 20
MAX_TABLES = 2000
MAX_BAR = 20
MISSING, UNSEEN = "missing", "any other"
STRAIGHT = 1e-12  # of a table's largest score: knots that lie so near to a straight line are merged
DIGITS = 5  # of the largest contribution

Row = tuple[Sequence[str], Sequence[str], Sequence[str]]  # texts of the first, the middle and the last columns


def scorecard(model: Any, term: Any = None, max_rows: int | None = None) -> Scorecard:
    """The table of one term, or those of all terms, for reading and for computing a prediction by hand.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    term : its name ("age", "age & income"), its index, or a tuple of columns; None takes all terms
    max_rows : knots or levels to keep along each axis, for a quick look; the text says what this costs. None prints
        every knot where a shape bends

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
            f"{model.term_names[0]!r}), or print the model to see the strongest"
        )
    names, spec = model.encoder.names, number_format(_largest(model, chosen))
    tables = [_draw_up(model.shapes[t], [names[f] for f in model.terms[t]], spec, max_rows) for t in chosen]
    heading = _heading(model, spec) if term is None else ""
    return Scorecard(tuple(tables), output_labels(model), heading)


def describe(model: Any) -> str:
    """The model as a formula, and the range and importance of its terms: the text of `print(model)`.

    Every row's contribution lies between its term's lowest and highest score. The importance is the mean of
    |contribution| over the training rows.

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
    names = [_shorten(model.term_names[t], MAX_NAME) for t in shown]
    hidden = len(order) - len(shown)
    lines = [*_formula(model, shown, names, hidden), "", *_term_table(model, shown, names, importances)]
    if hidden:
        lines.append(f"… and {hidden:,} more")
    return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Table:
    """One term as it is printed.

    Parameters
    ----------
    columns : names of the term's columns
    axes : its axes
    cells : for each axis the cells that are printed
    scores, spread : (p_1, …, p_o, K) at these cells
    weights : (p_1, …, p_o) training weight; for a continuous column, that of the knots up to the next printed one
    total : training weight of all cells
    spec : format of a score
    error : largest difference between the model and what is printed, where knots are left out
    """

    columns: tuple[str, ...]
    axes: tuple[Axis, ...]
    cells: tuple[np.ndarray, ...]
    scores: np.ndarray
    spread: np.ndarray
    weights: np.ndarray
    total: float
    spec: str
    error: float

    @property
    def name(self) -> str:
        return " & ".join(self.columns)


@dataclass(frozen=True, eq=False, repr=False)
class Scorecard:
    """Tables of terms; `print` shows them, `to_rows` lists their cells.

    Parameters
    ----------
    tables : one a term
    outputs : labels of the K scores
    heading : how the tables make a prediction; empty for a single term
    """

    tables: tuple[Table, ...]
    outputs: tuple[Any, ...]
    heading: str = ""

    def __str__(self) -> str:
        outputs = _name_outputs(self.outputs)
        texts = ["\n".join(_print_table(table, outputs)) for table in self.tables]
        return "\n\n".join([self.heading, *texts] if self.heading else texts)

    __repr__ = __str__

    def to_rows(self) -> list[dict[str, Any]]:
        """The cells as records, in full precision: `pandas.DataFrame(card.to_rows())` is a frame.

        A record has the term, for each of its columns the cell's kind ("missing", "knot", "level", "unseen") and value,
        the class where there are several, score, spread over the members, training weight and its share.
        """
        return [row for table in self.tables for row in _list_cells(table, self.outputs)]


def find_term(model: Any, term: Any) -> int:
    """Index of the term that a name, an index or a tuple of columns means."""
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
    """What a score is, in words."""
    if model.link == "logit":
        return f"log odds of {_label(model.classes[1])}" if model.classes is not None else "log odds"
    return "score of a class" if model.link == "mlogit" else "prediction"


def number_format(largest: float, digits: int = DIGITS) -> str:
    """The format that gives a number of this size so many digits, and smaller ones the same decimals.

    >>> [format(number, number_format(30.0)) for number in (30.0, -0.5)]
    ['30.000', '-0.500']
    """
    magnitude = int(np.floor(np.log10(largest))) if largest > 0 else 0
    return f".{max(digits - 1 - magnitude, 0)}f" if -6 <= magnitude <= 12 else f".{digits}g"


def reachable_cells(axis: Axis) -> slice:
    """The cells that a row can stand on: a continuous column has no unseen level."""
    return slice(None) if axis.is_level else slice(-1)


def _reachable(shape: AnyShape) -> np.ndarray:
    return shape.scores[tuple(reachable_cells(axis) for axis in shape.axes)]


def _largest(model: Any, chosen: Sequence[int] | np.ndarray) -> float:
    """Largest score of all terms; of the chosen ones only, where there are too many to look at them all."""
    looked_at = chosen if len(model.shapes) > MAX_TABLES else range(len(model.shapes))
    return max((float(np.abs(_reachable(model.shapes[t])).max()) for t in looked_at), default=0.0)


def output_labels(model: Any) -> tuple[Any, ...]:
    """Labels of the K scores: the classes, or "score" where there is one."""
    if model.n_outputs == 1:
        return ("score",)
    return tuple(range(model.n_outputs)) if model.classes is None else tuple(model.classes.tolist())


def _name_outputs(labels: Sequence[Any]) -> list[str]:
    return [_shorten(str(label), MAX_NAME) for label in labels]


def _label(label: Any) -> str:
    text = _shorten(str(label), MAX_NAME)
    return f'"{text}"' if isinstance(label, str) else text


def _shorten(text: str, width: int) -> str:
    """On one line, control characters escaped, the middle of a long text left out.

    >>> _shorten("total of outstanding debts in thousands", 20)
    'total of o…thousands'
    """
    text = escape(text)
    tail = (width - 1) // 2
    return text if len(text) <= width else f"{text[: width - 1 - tail]}…{text[-tail:]}"


def _write(number: float, spec: str) -> str:
    text = format(number, spec)
    return text.lstrip("-") if float(text) == 0 else text


def _heading(model: Any, spec: str) -> str:
    """How to come from the tables to a prediction."""
    tables = f"one number from each of the {len(model.shapes)} tables below"
    if model.n_outputs == 1:
        first = [f"{score_name(model)} = {_write(model.intercept[0], spec)} + {tables}"]
    else:
        named = zip(_name_outputs(output_labels(model)), model.intercept, strict=True)
        starts = "; ".join(f"{name}: {_write(start, spec)}" for name, start in named)
        first = [f"{score_name(model)} = its intercept + {tables}", *wrap(f"intercepts: {starts}", WIDTH)]
    legend = "± is the spread over the members; rows and share are those of the training table"
    return "\n".join([*first, *_link_words(model), legend])


def _link_words(model: Any) -> list[str]:
    if model.link == "logit":
        of = f" of {_label(model.classes[1])}" if model.classes is not None else ""
        return [f"probability{of} = 1 / (1 + exp(-log odds))"]
    if model.link == "mlogit":
        return [f"probability of a class = exp(its score) / sum of exp(score) over the {model.n_outputs} classes"]
    return []


def _formula(model: Any, shown: np.ndarray, names: Sequence[str], hidden: int) -> list[str]:
    spec = number_format(max(float(np.abs(model.intercept).max()), _largest(model, shown)), DIGITS - 1)
    start = _write(model.intercept[0], spec) if model.n_outputs == 1 else "intercept of the class"
    # A name must not be broken: wrap knows the no-break space as a letter.
    terms = [f"+\u00a0f({name})".replace(" ", "\u00a0") for name in names]
    terms += [f"+\u00a0…\u00a0({hidden:,}\u00a0more)"] if hidden else []
    text = " ".join([f"{score_name(model)} = {start}", *terms])
    lines = wrap(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return [*(line.replace("\u00a0", " ") for line in lines), *_link_words(model)]


def _term_table(model: Any, shown: np.ndarray, names: Sequence[str], importances: np.ndarray) -> list[str]:
    """One line a term: name, kind, range, importance and its bar."""
    spec = number_format(_largest(model, shown), DIGITS - 1)
    strength = number_format(float(importances.max(initial=0.0)), DIGITS - 1)
    rows = [("term", "kind", "lowest", "highest", "importance", "")]
    for t, name in zip(shown, names, strict=True):
        scores, bar = _reachable(model.shapes[t]), round(MAX_BAR * importances[t] / (importances.max() or 1.0))
        low, high = _write(scores.min(), spec), _write(scores.max(), spec)
        rows.append((name, _kind(model.shapes[t].axes), low, high, _write(importances[t], strength), "#" * bar))
    return _align(rows, "<<>>><")


def _kind(axes: Sequence[Axis]) -> str:
    return axes[0].kind if len(axes) == 1 else {2: "pair", 3: "triple"}.get(len(axes), f"{len(axes)} columns")


def _align(rows: Sequence[Sequence[str]], sides: str) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(sides))]
    cells = [[f"{text:{side}{width}}" for text, side, width in zip(row, sides, widths, strict=True)] for row in rows]
    return ["  ".join(row).rstrip() for row in cells]


def _draw_up(shape: AnyShape, columns: Sequence[str], spec: str, max_rows: int | None) -> Table:
    """Choose the cells of a term that are printed."""
    scores, spread = shape.scores, shape.spread
    cells = [
        _keep_levels(axis, shape.weights, d, max_rows) if axis.is_level else _keep_knots(axis, scores, d, max_rows)
        for d, axis in enumerate(shape.axes)
    ]
    grid = np.ix_(*cells)
    weights, total = shape.weights.astype(float), float(shape.weights.sum())
    for d, axis in enumerate(shape.axes):
        weights = weights.take(cells[d], axis=d) if axis.is_level else np.add.reduceat(weights, cells[d], axis=d)
    error = _measure_error(shape.axes, cells, scores)
    return Table(tuple(columns), shape.axes, tuple(cells), scores[grid], spread[grid], weights, total, spec, error)


def _keep_levels(axis: Axis, weights: np.ndarray, d: int, max_rows: int | None) -> np.ndarray:
    """Missing, all levels or the heaviest of them, unseen."""
    mass = np.moveaxis(weights, d, 0).reshape(axis.n_cells, -1).sum(axis=1)[1:-1]
    kept = np.sort(np.argsort(-mass, kind="stable")[:max_rows])
    return np.r_[0, kept + 1, axis.n_cells - 1]


def _keep_knots(axis: Axis, scores: np.ndarray, d: int, max_rows: int | None) -> np.ndarray:
    """Missing and the knots where the shape bends: from the ends on, always the knot that is missed most."""
    values = np.moveaxis(scores, d, 0)[1:-1].reshape(len(axis.knots), -1)
    kept = sorted({0, len(axis.knots) - 1})
    while len(kept) < (max_rows or len(axis.knots)):
        missed = np.abs(_read_off(axis.knots, axis.knots[kept], values[kept]) - values).max(axis=1)
        if missed.max() <= STRAIGHT * np.abs(values).max():
            break
        insort(kept, int(missed.argmax()))
    return np.r_[0, np.array(kept) + 1]


def _read_off(at: np.ndarray, knots: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Values (P, …) at the points `at` of a polyline with values (G, …) at its knots; constant outside."""
    if len(knots) == 1:
        return np.repeat(values, len(at), axis=0)
    at = np.clip(at, knots[0], knots[-1])
    right = np.clip(np.searchsorted(knots, at), 1, len(knots) - 1)
    low, high = knots[right - 1], knots[right]
    unit = np.where(np.maximum(-low, high) > 1, 0.5, 1.0)  # halves: the range of huge knots must not overflow
    share = (at * unit - low * unit) / (high * unit - low * unit)
    share = share.reshape(-1, *[1] * (values.ndim - 1))
    return (1 - share) * values[right - 1] + share * values[right]


def _measure_error(axes: Sequence[Axis], cells: Sequence[np.ndarray], scores: np.ndarray) -> float:
    """Largest difference between the model and its printed cells; it lies on a knot. Levels left out do not count."""
    printed = scores[np.ix_(*cells)]
    for d, (axis, kept) in enumerate(zip(axes, cells, strict=True)):
        if axis.is_level:
            scores = scores.take(kept, axis=d)
            continue
        scores = scores.take(range(axis.n_cells - 1), axis=d)
        moved = np.moveaxis(printed, d, 0)
        filled = np.concatenate([moved[:1], _read_off(axis.knots, axis.knots[kept[1:] - 1], moved[1:])])
        printed = np.moveaxis(filled, 0, d)
    return float(np.abs(printed - scores).max())


def _list_cells(table: Table, outputs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    for place in np.ndindex(*table.weights.shape):
        row: dict[str, Any] = {"term": table.name}
        for d, axis in enumerate(table.axes):
            suffix = f"_{d + 1}" if d else ""
            row[f"kind{suffix}"], row[f"value{suffix}"] = _name_cell(axis, int(table.cells[d][place[d]]))
        weight = float(table.weights[place])
        for k, output in enumerate(outputs):
            label = {"class": output} if len(outputs) > 1 else {}
            numbers = {"score": float(table.scores[(*place, k)]), "spread": float(table.spread[(*place, k)])}
            yield {**row, **label, **numbers, "weight": weight, "share": weight / (table.total or 1.0)}


def _name_cell(axis: Axis, cell: int) -> tuple[str, Any]:
    if cell == 0:
        return "missing", None
    if cell == axis.n_cells - 1:
        return "unseen", None
    return ("knot", float(axis.knots[cell - 1])) if axis.levels is None else ("level", axis.levels[cell - 1])


def _print_table(table: Table, outputs: Sequence[str]) -> list[str]:
    lines = [f"{_shorten(table.name, WIDTH - 20)}: {_kind(table.axes)}"]
    if len(table.axes) > 1:
        lines += _print_grids(table, outputs)
    elif table.axes[0].is_level:
        lines += _print_levels(table, outputs)
    else:
        lines += _print_ranges(table, outputs)
    return lines + _notes(table)


def _notes(table: Table) -> list[str]:
    """What is left out, and how far the printed table is from the model's."""
    notes = []
    for axis, cells, column in zip(table.axes, table.cells, table.columns, strict=True):
        if axis.is_level and (hidden := axis.n_cells - len(cells)):
            notes.append(f"left out: the {hidden} rarest of the levels of {_shorten(column, MAX_NAME)}")
    if table.error > STRAIGHT * np.abs(table.scores).max():
        notes.append(f"thinned for reading: up to {table.error:.2g} from the model's score")
    return notes


def _print_ranges(table: Table, outputs: Sequence[str]) -> list[str]:
    """A line for each piece of a polyline: its ends and the scores there."""
    at, scores, spec = _write_knots(table, 0), table.scores, table.spec
    ends = [("missing", "", 0, 0), ("below", at[0], 1, 1)]
    ends += [(at[i], at[i + 1], i + 1, i + 2) for i in range(len(at) - 1)]
    ends += [(at[-1], "above", len(at), len(at))]
    rows = []
    for start, stop, left, right in ends:
        texts = [_write_piece(scores[left, k], scores[right, k], left != right, spec) for k in range(len(outputs))]
        spread = _write(table.spread[[left, right]].max(), spec)
        rows.append(([start, stop], texts, [spread, *_write_weight(table, left if start != "below" else None)]))
    rule = "between two ends: score = left + (value - from) / (to - from) × (right - left)"
    return [*_print_blocks((["from", "to"], outputs, ["±", "rows", "share"]), rows), *([rule] if len(at) > 1 else [])]


def _print_levels(table: Table, outputs: Sequence[str]) -> list[str]:
    rows = []
    for place, name in enumerate(_name_ticks(table, 0)):
        texts = [_write(score, table.spec) for score in table.scores[place]]
        spread = _write(table.spread[place].max(), table.spec)
        rows.append(([name], texts, [spread, *_write_weight(table, place)]))
    return _print_blocks((["level"], outputs, ["±", "rows", "share"]), rows)


def _print_grids(table: Table, outputs: Sequence[str]) -> list[str]:
    """A grid of the last two columns for each output and each cell of the columns before them."""
    ticks = [_name_ticks(table, d) for d in range(len(table.axes))]
    *leading, down, across = [_shorten(column, MAX_NAME) for column in table.columns]
    lines = [f"± at most {_write(table.spread.max(), table.spec)}; between two values, in proportion along each column"]
    for place, k in product(np.ndindex(*table.weights.shape[:-2]), range(len(outputs))):
        where = [f"{column} = {ticks[d][place[d]]}" for d, column in enumerate(leading)]
        title = ", ".join([*where, *([outputs[k]] if len(outputs) > 1 else [])])
        grid = table.scores[(*place, slice(None), slice(None), k)]
        texts = [[_write(score, table.spec) for score in scores] for scores in grid]
        rows: list[Row] = [([name], row, []) for name, row in zip(ticks[-2], texts, strict=True)]
        lines += [f"[{title}]"] if title else []
        lines += _print_blocks(([f"{down} \\ {across}"], ticks[-1], []), rows)
    return lines


def _print_blocks(header: Row, rows: Sequence[Row]) -> list[str]:
    """Lines of first, middle and last columns; as many middle ones at a time as a line holds, the others below."""
    parts = zip(header, *rows, strict=True)
    widths = [[max(map(len, texts)) + 2 for texts in zip(*part, strict=True)] for part in parts]
    room = max(WIDTH - sum(widths[0]) - sum(widths[2]), 0)
    lines: list[str] = []
    first = 0
    while first < len(header[1]):
        count = max(1, int((np.cumsum(widths[1][first:]) <= room).sum()))
        chosen = slice(first, first + count)
        block = [[*head, *middle[chosen], *tail] for head, middle, tail in (header, *rows)]
        lines += [""] * bool(lines) + _align(block, "<" * len(header[0]) + ">" * (count + len(header[2])))
        first += count
    return lines


def _write_piece(left: float, right: float, is_sloped: bool, spec: str) -> str:
    return f"{_write(left, spec)} to {_write(right, spec)}" if is_sloped else _write(left, spec)


def _write_weight(table: Table, place: int | None) -> list[str]:
    """Rows and their share; none below the smallest knot."""
    if place is None:
        return ["", ""]
    weight = float(table.weights[place])
    return [f"{weight:.0f}" if table.total >= 1 else f"{weight:.3g}", f"{100 * weight / (table.total or 1.0):.1f}%"]


def _name_ticks(table: Table, d: int) -> list[str]:
    """Names of the printed cells of an axis."""
    axis = table.axes[d]
    if axis.levels is None:
        return [MISSING, *_write_knots(table, d)]
    levels = [_shorten(axis.levels[cell - 1], MAX_NAME) for cell in table.cells[d][1:-1]]
    return [MISSING, *(repr(level) if level in (MISSING, UNSEEN) else level for level in levels), UNSEEN]


def _write_knots(table: Table, d: int) -> list[str]:
    """Knots with as many digits as the printed scores need, and at least so many that they differ."""
    knots = table.axes[d].knots[table.cells[d][1:] - 1]
    values = np.moveaxis(table.scores, d, 0)[1:].reshape(len(knots), -1)
    unit = float(table.spec[1:-1]) if table.spec.endswith("f") else DIGITS - 1 - np.log10(np.abs(values).max() or 1.0)
    for digits in range(1, 18):
        rounded = np.array([float(f"{knot:.{digits - 1}e}") for knot in knots])
        if not np.isfinite(rounded).all() or (np.diff(rounded) <= 0).any():
            continue
        missed = np.abs(_read_off(knots, rounded, values) - values).max()
        moved = np.abs(_read_off(rounded, knots, values) - values).max()
        if max(missed, moved) <= 0.1 * 10.0**-unit:
            break
    return [level_text(knot) for knot in rounded]
