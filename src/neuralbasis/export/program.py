"""An additive model as one file: scores, predictions and contributions of rows, without dependencies.

    score = INTERCEPT + one number from each term's table          prediction = inverse link of the score

A row is a mapping of column -> value. None and NaN are missing; a level is a text or a number.
As a command: python FILE rows.csv > predictions.csv. Without a file, rows come from standard input. An empty cell is
missing. Written by neuralbasis for Python 3.8 and later.
"""

from __future__ import annotations

import csv
import math
import sys
from bisect import bisect_right
from itertools import product

# AXES: (column, knots, None) or (column, None, levels). Cell 0 of an axis is the missing value, the next cells are the
# knots or levels, and the last cell is for unseen levels.
# TERMS: (name, axes, strides, table). The offset of a cell in the table is the sum of its indices times the strides,
# times the number of outputs.
# [interval
# CENTRES: score of each region of held-out rows. QUANTILES: what to add to a score in each region, for both bounds.
# interval]
LINK: str = "identity"
CLASSES: list | None = None
INTERCEPT: list[float] = [0.0]
COVERAGE: float | None = None
CENTRES: list[float] = []
QUANTILES: list[list[float]] = []
AXES: list[tuple] = []
TERMS: list[tuple] = []


def predict(row):
    """The predicted value of a regression, or the most probable class."""
    return _predict(scores(row))


def predict_many(rows):
    """Predictions of many rows."""
    return [predict(row) for row in rows]


# [interval
def interval(row):
    """Lower and upper bound of the target, or of the probability of the second class, at a coverage of COVERAGE."""
    return _find_bounds(scores(row)[0])


# interval]
def probabilities(row):
    """Probabilities of all classes, in the order of CLASSES."""
    return _probabilities(scores(row))


def scores(row):
    """One score per output: the intercept plus all contributions."""
    totals = list(INTERCEPT)
    for _, values in contributions(row):
        for output, value in enumerate(values):
            totals[output] += value
    return totals


def contributions(row):
    """(name of the term, one number per output) for every term."""
    cells = [_find_cells(axis, row) for axis in range(len(AXES))]
    return [(name, _look_up(strides, table, [cells[axis] for axis in axes])) for name, axes, strides, table in TERMS]


def _find_cells(axis, row):
    """The cells of an axis around a row's value, each with its weight."""
    column, knots, _ = AXES[axis]
    if column not in row:
        raise ValueError(f"the row has no column {column!r}")
    value = row[column]
    if value is None or value != value:
        return [(0, 1.0)]
    if knots is None:
        cell_of = _LEVEL_CELLS[axis]
        return [(cell_of.get(_level_text(value), len(cell_of) + 1), 1.0)]
    number = _to_number(column, value)
    if number != number:
        return [(0, 1.0)]
    if number <= knots[0]:
        return [(1, 1.0)]
    if number >= knots[-1]:
        return [(len(knots), 1.0)]
    cell = bisect_right(knots, number)
    low, high = knots[cell - 1], knots[cell]
    if high - low > 1e308:  # the difference may overflow
        number, low, high = number / 2, low / 2, high / 2
    share = (number - low) / (high - low)
    return [(cell, 1.0 - share), (cell + 1, share)] if share > 0 else [(cell, 1.0)]


_LEVEL_CELLS = [levels and {level: cell + 1 for cell, level in enumerate(levels)} for _, _, levels in AXES]


def _level_text(value):
    """The level of a text or number: 3.0 is "3"."""
    if isinstance(value, str):
        return value
    number = float(value)
    return str(int(number)) if abs(number) < 2**53 and number.is_integer() else repr(number)


def _to_number(column, value):
    try:
        if isinstance(value, str) and "_" in value:  # Python would read 10_2 as 102
            raise ValueError
        number = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"column {column!r}: expected a number, got {value!r}") from None
    if math.isinf(number):
        raise ValueError(f"column {column!r}: expected a finite number or a missing value, got {value!r}")
    return number


def _look_up(strides, table, cells):
    """Interpolate a table, one number per output."""
    width = len(INTERCEPT)
    totals = [0.0] * width
    for corner in product(*cells):
        weight, first = 1.0, 0
        for axis, (cell, share) in enumerate(corner):
            weight *= share
            first += cell * strides[axis]
        for output in range(width):
            totals[output] += weight * table[first * width + output]
    return totals


def _predict(totals):
    if CLASSES is None:
        return totals[0]
    winner = int(totals[0] > 0) if LINK == "logit" else totals.index(max(totals))
    return CLASSES[winner]


# [interval
def _find_bounds(score):
    """The score plus one quantile for each bound, linear between the centres and constant outside."""
    inside = min(max(score, CENTRES[0]), CENTRES[-1])
    right = min(bisect_right(CENTRES, inside), len(CENTRES) - 1)
    left = max(right - 1, 0)
    low, high = CENTRES[left], CENTRES[right]
    if high - low > 1e308:  # the difference may overflow
        inside, low, high = inside / 2, low / 2, high / 2
    share = (inside - low) / (high - low) if left < right else 0.0
    bounds = [score + (1.0 - share) * own[left] + share * own[right] for own in QUANTILES]
    return bounds if CLASSES is None else [_probabilities([bound])[1] for bound in bounds]


# interval]
def _probabilities(totals):
    if CLASSES is None:
        raise ValueError("a regression has no probabilities")
    if LINK == "logit":
        totals = [0.0, totals[0]]
    odds = [math.exp(total - max(totals)) for total in totals]  # never overflows
    return [odd / sum(odds) for odd in odds]


def _name_results():
    names = ["score", "probability"] if LINK == "logit" else []
    if CLASSES is not None and LINK != "logit":
        names = [f"{what}_{label}" for what in ("score", "probability") for label in CLASSES]
    # [interval
    if COVERAGE is not None:
        return [*names, "prediction", "lower", "upper"]
    # interval]
    return [*names, "prediction"]


def _find_results(row):
    totals, values = scores(row), []
    if CLASSES is not None:
        values = [*totals, *_probabilities(totals)[LINK == "logit" :]]
    # [interval
    if COVERAGE is not None:
        return [*values, _predict(totals), *_find_bounds(totals[0])]
    # interval]
    return [*values, _predict(totals)]


def main(arguments):
    """Read rows as CSV from a file or standard input, and write one line of results per row."""
    if len(arguments) > 1:
        sys.exit(f"usage: python {sys.argv[0]} [rows.csv] > predictions.csv")
    with open(arguments[0] if arguments else 0, encoding="utf-8-sig", newline="") as source:
        _write_results(csv.DictReader(source))


def _write_results(rows):
    with open(1, "w", encoding="utf-8", newline="", closefd=False) as target:  # standard output
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(_name_results())
        for number, row in enumerate(rows, 1):
            try:
                writer.writerow(_find_results({column: text or None for column, text in row.items()}))
            except ValueError as error:
                sys.exit(f"row {number}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
