"""The table of one term, reduced to the cells that a scorecard prints.

In: a shape. Out: a `TermTable`. It keeps every level, or the most frequent ones, and the knots at which the shape
bends; knots on a straight line between two others are dropped. With a limit on their number, `thinning` chooses the
knots. `TermTable.error` bounds what this costs, and `TermTable.mean_error` is its mean over the training rows.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..encoding.axis import Axis
from .interpolation import interpolate_knots
from .shapes import AnyShape
from .thinning import choose_knots

STRAIGHT = 1e-12  # knots this close to a straight line are dropped, relative to the largest score
MANY_LINES = 30  # longer tables suggest a number of knots
CLOSE, COARSE = 0.05, 0.2  # mean error as a share of the mean |score|
CANDIDATES = 48  # more knots than requested, of which the best are chosen


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
    mean_error: float  # its mean over the training rows
    size: float  # mean |score| over the training rows
    suggestion: int | None = None  # a number of knots with a mean error of at most CLOSE of `size`

    @property
    def is_coarse(self) -> bool:
        """Whether the printed table differs much from the model."""
        return self.mean_error > COARSE * self.size

    @property
    def name(self) -> str:
        return " & ".join(self.columns)


def make_term_table(
    shape: AnyShape, columns: Sequence[str], spec: str, max_rows: int | None, suggests: bool = False
) -> TermTable:
    """Select the printed cells of a shape; `max_rows` limits the knots or levels along each axis.

    `suggests` : whether to look for a better `max_rows`
    """
    scores, spread = shape.scores, shape.spread
    cells = [
        _select_levels(axis, shape.weights, d, max_rows) if axis.is_level else _select_knots(shape, d, max_rows)
        for d, axis in enumerate(shape.axes)
    ]
    grid = np.ix_(*cells)
    weights, total = shape.weights.astype(float), float(shape.weights.sum())
    for d, axis in enumerate(shape.axes):
        weights = weights.take(cells[d], axis=d) if axis.is_level else np.add.reduceat(weights, cells[d], axis=d)
    found = TermTable(
        tuple(columns), shape.axes, tuple(cells), scores[grid], spread[grid], weights, total, spec,
        *_measure_errors(shape, cells),
    )  # fmt: skip
    return replace(found, suggestion=_suggest_rows(shape, found)) if suggests else found


def _select_levels(axis: Axis, weights: np.ndarray, d: int, max_rows: int | None) -> np.ndarray:
    """Cells of missing values, of the levels with the largest weight, and of unseen levels."""
    mass = np.moveaxis(weights, d, 0).reshape(axis.n_cells, -1).sum(axis=1)[1:-1]
    kept = np.sort(np.argsort(-mass, kind="stable")[:max_rows])
    return np.r_[0, kept + 1, axis.n_cells - 1]


def _select_knots(shape: AnyShape, d: int, max_rows: int | None) -> np.ndarray:
    """Cells of missing values and of the knots where the shape bends, the best `max_rows` of them."""
    chosen = _find_bends(shape, d, max_rows)
    if max_rows is not None and len(chosen) > max_rows:
        chosen = _thin(shape, d, chosen, max_rows)[max_rows]
    return np.r_[0, chosen + 1]


def _find_bends(shape: AnyShape, d: int, max_rows: int | None) -> np.ndarray:
    """Knots where the shape bends, of which `max_rows` will be chosen: only the strongest are then needed.

    Greedy: start with the two end knots, then add the knot with the largest interpolation error.
    """
    knots, values, _ = _read_axis(shape, d)
    kept = sorted({0, len(knots) - 1})
    while len(kept) < (len(knots) if max_rows is None else min(len(knots), max_rows + CANDIDATES)):
        error = np.abs(interpolate_knots(knots, knots[kept], values[kept]) - values).max(axis=1)
        if error.max() <= STRAIGHT * np.abs(values).max():
            break
        insort(kept, int(error.argmax()))
    return np.array(kept)


def _thin(shape: AnyShape, d: int, bends: np.ndarray, most: int) -> dict[int, np.ndarray]:
    """The best 2, 3, … `most` of some knots."""
    knots, values, weights = _read_axis(shape, d)
    found = choose_knots(knots[bends], values[bends], np.add.reduceat(weights, bends), most)
    return {count: bends[chosen] for count, chosen in found.items()}


def _read_axis(shape: AnyShape, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Knots (G,), scores (G, C) and training weights (G,) along one axis."""
    knots = shape.axes[d].knots
    values = np.moveaxis(shape.scores, d, 0)[1:-1].reshape(len(knots), -1)
    weights = np.moveaxis(shape.weights, d, 0)[1:-1].reshape(len(knots), -1).sum(axis=1).astype(float)
    return knots, values, weights


def _measure_errors(shape: AnyShape, cells: Sequence[np.ndarray]) -> tuple[float, float, float]:
    """Largest and mean difference between the model and the interpolated printed cells, and the mean |score|.

    Omitted levels do not count. Both are piecewise linear, so the largest difference lies on a knot.
    """
    scores, weights = shape.scores, shape.weights
    printed = scores[np.ix_(*cells)]
    for d, (axis, kept) in enumerate(zip(shape.axes, cells, strict=True)):
        if axis.is_level:
            scores, weights = (table.take(kept, axis=d) for table in (scores, weights))
            continue
        scores, weights = (table.take(range(axis.n_cells - 1), axis=d) for table in (scores, weights))
        moved = np.moveaxis(printed, d, 0)
        filled = np.concatenate([moved[:1], interpolate_knots(axis.knots, axis.knots[kept[1:] - 1], moved[1:])])
        printed = np.moveaxis(filled, 0, d)
    errors, total = np.abs(printed - scores), float(weights.sum()) or 1.0
    means = [float((weights * table.mean(axis=-1)).sum()) / total for table in (errors, np.abs(scores))]
    return float(errors.max()), means[0], means[1]


def _suggest_rows(shape: AnyShape, table: TermTable) -> int | None:
    """A number of knots for a long table, or for one that is too coarse."""
    is_long = len(table.cells[0]) > MANY_LINES
    if len(shape.axes) > 1 or shape.axes[0].is_level or not (is_long or table.is_coarse):
        return None
    for count, chosen in _thin(shape, 0, _find_bends(shape, 0, MANY_LINES), MANY_LINES).items():
        if _measure_errors(shape, [np.r_[0, chosen + 1]])[1] <= CLOSE * table.size:
            return count
    return None


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
