"""The table of one term, reduced to the cells that a scorecard prints.

In: a shape. Out: a `TermTable`. It keeps every level, or the most frequent ones, and the knots at which the shape
bends; knots on a straight line between two others are dropped. `TermTable.error` bounds what this costs.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..encoding.axis import Axis
from .interpolation import interpolate_knots
from .shapes import AnyShape

STRAIGHT = 1e-12  # knots this close to a straight line are dropped, relative to the largest score


@dataclass(frozen=True, eq=False)
class TermTable:
    """The printed cells of one term."""

    columns: tuple[str, ...]
    axes: tuple[Axis, ...]
    cells: tuple[np.ndarray, ...]  # indices of the printed cells along each axis
    scores: np.ndarray  # (p_1, …, p_o, K) at the printed cells
    spread: np.ndarray  # (p_1, …, p_o, K)
    weights: np.ndarray  # (p_1, …, p_o) of training; a printed knot includes the weight of the dropped knots after it
    total: float  # training weight of all cells
    spec: str  # format specification of a score
    error: float  # largest difference between the model and the interpolated printed scores

    @property
    def name(self) -> str:
        return " & ".join(self.columns)


def make_term_table(shape: AnyShape, columns: Sequence[str], spec: str, max_rows: int | None) -> TermTable:
    """Select the printed cells of a shape; `max_rows` limits the knots or levels along each axis."""
    scores, spread = shape.scores, shape.spread
    cells = [
        _select_levels(axis, shape.weights, d, max_rows) if axis.is_level else _select_knots(axis, scores, d, max_rows)
        for d, axis in enumerate(shape.axes)
    ]
    grid = np.ix_(*cells)
    weights, total = shape.weights.astype(float), float(shape.weights.sum())
    for d, axis in enumerate(shape.axes):
        weights = weights.take(cells[d], axis=d) if axis.is_level else np.add.reduceat(weights, cells[d], axis=d)
    error = _measure_error(shape.axes, cells, scores)
    return TermTable(tuple(columns), shape.axes, tuple(cells), scores[grid], spread[grid], weights, total, spec, error)


def _select_levels(axis: Axis, weights: np.ndarray, d: int, max_rows: int | None) -> np.ndarray:
    """Cells of missing values, of the levels with the largest weight, and of unseen levels."""
    mass = np.moveaxis(weights, d, 0).reshape(axis.n_cells, -1).sum(axis=1)[1:-1]
    kept = np.sort(np.argsort(-mass, kind="stable")[:max_rows])
    return np.r_[0, kept + 1, axis.n_cells - 1]


def _select_knots(axis: Axis, scores: np.ndarray, d: int, max_rows: int | None) -> np.ndarray:
    """Cells of missing values and of the knots where the shape bends.

    Greedy: start with the two end knots, then add the knot with the largest interpolation error.
    """
    values = np.moveaxis(scores, d, 0)[1:-1].reshape(len(axis.knots), -1)
    kept = sorted({0, len(axis.knots) - 1})
    while len(kept) < (max_rows or len(axis.knots)):
        error = np.abs(interpolate_knots(axis.knots, axis.knots[kept], values[kept]) - values).max(axis=1)
        if error.max() <= STRAIGHT * np.abs(values).max():
            break
        insort(kept, int(error.argmax()))
    return np.r_[0, np.array(kept) + 1]


def _measure_error(axes: Sequence[Axis], cells: Sequence[np.ndarray], scores: np.ndarray) -> float:
    """Largest difference between the model and the interpolated printed cells; omitted levels do not count.

    Both are piecewise linear, so the largest difference lies on a knot.
    """
    printed = scores[np.ix_(*cells)]
    for d, (axis, kept) in enumerate(zip(axes, cells, strict=True)):
        if axis.is_level:
            scores = scores.take(kept, axis=d)
            continue
        scores = scores.take(range(axis.n_cells - 1), axis=d)
        moved = np.moveaxis(printed, d, 0)
        filled = np.concatenate([moved[:1], interpolate_knots(axis.knots, axis.knots[kept[1:] - 1], moved[1:])])
        printed = np.moveaxis(filled, 0, d)
    return float(np.abs(printed - scores).max())


def list_cells(table: TermTable, outputs: Sequence[Any]) -> Iterator[dict[str, Any]]:
    """One record per printed cell and output, see `Scorecard.to_rows`."""
    for place in np.ndindex(*table.weights.shape):
        row: dict[str, Any] = {"term": table.name}
        for d, axis in enumerate(table.axes):
            suffix = f"_{d + 1}" if d else ""
            row[f"kind{suffix}"], row[f"value{suffix}"] = _describe_cell(axis, int(table.cells[d][place[d]]))
        weight = float(table.weights[place])
        for k, output in enumerate(outputs):
            label = {"class": output} if len(outputs) > 1 else {}
            numbers = {"score": float(table.scores[(*place, k)]), "spread": float(table.spread[(*place, k)])}
            yield {**row, **label, **numbers, "weight": weight, "share": weight / (table.total or 1.0)}


def _describe_cell(axis: Axis, cell: int) -> tuple[str, float | str | None]:
    """Kind and value of a cell."""
    if cell == 0:
        return "missing", None
    if cell == axis.n_cells - 1:
        return "unseen", None
    return ("knot", float(axis.knots[cell - 1])) if axis.levels is None else ("level", axis.levels[cell - 1])
