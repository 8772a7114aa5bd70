"""Resampling: a table of a term on other axes of the same columns, for merging models.

In: the axes of several models. Out: their joint axis, and matrices that move tables and training weights to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..encoding.axis import Axis, level_axis


def join_axes(axes: Sequence[Axis], main: Axis | None = None) -> Axis:
    """The union of the knots or levels; levels follow the column's `main` axis, or the order of the models.

    Places are evenly spaced, since only training reads them.
    """
    first = axes[0]
    if not first.is_level:
        knots = np.unique(np.concatenate([axis.knots for axis in axes]))
        return replace(first, knots=knots, places=_even(len(knots)))
    names = list(dict.fromkeys(level for axis in axes for level in axis.levels or ()))
    mass = [sum(_mass_of(axis, name) for axis in axes) for name in names]
    if main is None:
        return level_axis(first.name, first.kind, names, np.array(mass))
    number = {level: index for index, level in enumerate(main.levels or ())}
    order = np.argsort([number[name] for name in names])
    joined = level_axis(first.name, first.kind, [names[k] for k in order], np.array(mass)[order])
    return replace(joined, knots=np.array([float(number[names[k]]) for k in order]))


def _even(count: int) -> np.ndarray:
    return np.linspace(0.0, 1.0, count) if count > 1 else np.array([0.5])


def _mass_of(axis: Axis, level: str) -> float:
    levels = axis.levels or ()
    if level not in levels:
        return 0.0
    return 1.0 if axis.mass is None else float(axis.mass[levels.index(level)])


@dataclass(frozen=True)
class Resampling:
    """How the cells of a new axis are interpolated from those of an old axis of the same column.

    values : (new cells, old cells) weights that sum to 1 in each row
    inside : (new cells,) whether the cell lies within the knots or levels of the old axis
    widths : (old cells,) length of the column that a cell covers; 1 for levels
    """

    values: np.ndarray
    inside: np.ndarray
    widths: np.ndarray


def resample_axis(old: Axis, new: Axis) -> Resampling:
    n_old, n_new = old.n_cells, new.n_cells
    values, inside, widths = np.zeros((n_new, n_old)), np.ones(n_new, dtype=bool), np.ones(n_old)
    values[0, 0] = values[-1, -1] = 1.0
    cells = np.arange(1, n_new - 1)
    if old.is_level:
        number = {level: index for index, level in enumerate(old.levels or ())}
        place = np.array([number.get(level, n_old - 2) for level in new.levels or ()])
        values[cells, place + 1] = 1.0
        inside[cells] = place < n_old - 2
        return Resampling(values, inside, widths)
    position = np.interp(new.knots, old.knots, np.arange(1.0, n_old - 1))
    left = np.minimum(position.astype(int), n_old - 2)
    values[cells, left] += 1 - (position - left)
    values[cells, np.minimum(left + 1, n_old - 2)] += position - left
    inside[cells] = (new.knots >= old.knots[0]) & (new.knots <= old.knots[-1])
    if len(old.knots) > 1:
        gaps = np.diff(old.knots)
        widths[1:-1] = np.maximum((np.r_[gaps, gaps[-1]] + np.r_[gaps[0], gaps]) / 2, np.finfo(float).tiny)
    return Resampling(values, inside, widths)


def distribute(step: Resampling) -> np.ndarray:
    """(new cells, old cells) shares in which the weight of an old cell goes to the new cells that read it."""
    shares = step.values * step.inside[:, None]
    return shares / np.maximum(shares.sum(axis=0), np.finfo(float).tiny)


def multiply_axes(table: np.ndarray, matrices: Sequence[np.ndarray]) -> np.ndarray:
    """A matrix product along each of the first axes."""
    for d, matrix in enumerate(matrices):
        table = np.moveaxis(np.tensordot(matrix, table, (1, d)), 0, d)
    return table
