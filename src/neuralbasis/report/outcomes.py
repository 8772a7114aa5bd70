"""Outcomes of the rows of a page, for each cell of a main effect: what was observed there, and what was predicted.

A row belongs to the nearest knot of a column, or to its level, to missing or to unseen. The page sums the cells of a
stretch of a curve: the number of rows behind it, their mean outcome and their mean prediction.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..data.columns import Columns
from ..encoding.axis import Axis
from ..losses.links import inverse_link
from ..model.interpolation import bracket_knots
from .page_model import PageModel
from .tables import Pack

MAX_OUTCOME_NUMBERS = 100_000  # of all terms: the file stays small enough to send


def describe_outcomes(page_model: PageModel, model: Any, table: Columns, y: Any, pack: Pack) -> dict[int, int]:
    """For the index of a main effect, where its numbers begin: counts (c,), outcomes (c, K), predictions (c, K).

    Empty for a wide model, and for a model with too many cells and classes.
    """
    small = page_model.model
    mains = [index for index, shape in enumerate(small.shapes) if len(shape.term) == 1]
    n_numbers = sum(small.shapes[index].axes[0].n_cells for index in mains) * (1 + 2 * model.n_outputs)
    if model.is_wide or n_numbers > MAX_OUTCOME_NUMBERS:
        return {}
    predicted = inverse_link(model.link, model.scores(table)).reshape(table.n_rows, -1)
    actual = _read_outcomes(model, np.asarray(y))
    if model.link == "logit":
        predicted = predicted[:, 1:]
    numbers = model.encoder.numbers(table, [page_model.features[small.shapes[index].term[0]] for index in mains])
    found = {}
    for index, column in zip(mains, np.asarray(numbers).T, strict=True):
        axis = small.shapes[index].axes[0]
        cells = find_cells(axis, column)
        sums = [_sum_by(cells, values, axis.n_cells) for values in (np.ones((len(cells), 1)), actual, predicted)]
        found[index] = pack.add_exact(np.concatenate([each.ravel() for each in sums]))
    return found


def _read_outcomes(model: Any, y: np.ndarray) -> np.ndarray:
    """(N, K) values, or whether a row is of each class; the second of two classes."""
    if model.classes is None:
        return y.astype(float).reshape(len(y), -1)
    classes = model.classes[1:] if model.link == "logit" else model.classes
    return (y[:, None] == classes).astype(float)


def find_cells(axis: Axis, values: np.ndarray) -> np.ndarray:
    """The cell of each encoded value: its nearest knot, or its level, missing or unseen.

    >>> from neuralbasis.encoding import continuous_axis
    >>> find_cells(continuous_axis("age", np.array([0.0, 10.0, 30.0])), np.array([np.nan, -5.0, 4.0, 29.0])).tolist()
    [0, 1, 1, 3]
    """
    known = np.where(np.isnan(values), axis.knots[0], values)
    left, right, share = bracket_knots(axis.knots, known)
    cells = np.where(share > 0.5, right, left) + 1
    if axis.is_level:
        cells = np.where(known == axis.knots[cells - 1], cells, axis.n_cells - 1)
    return np.where(np.isnan(values), 0, cells)


def _sum_by(cells: np.ndarray, values: np.ndarray, n_cells: int) -> np.ndarray:
    """(c, K) sums of values (N, K) over the rows of each cell."""
    return np.stack([np.bincount(cells, column, n_cells) for column in values.T], axis=1)
