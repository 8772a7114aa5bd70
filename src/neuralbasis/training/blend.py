"""Blend: two more models of the main effects, boosted from nothing, in which jumps need not undo a smooth shape first.

    f_i = share · Σ_k h_k a_ik + (1 - share) · r_i        r_i = Σ_rounds step of the piece x_i falls in

One is cut by chance: many such cuts make a smooth shape, of which few rows are enough. The other is cut where it gains
most, so that a jump has its place. Both are cut between knots that are finer than those of the bases. One share for all
terms and members is chosen by the held-out rows, for one model after the other. Where a blend is kept, the stage's axes
keep of the finer knots what its shapes need.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..data.sparse import SparseMatrix
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..encoding.axis import Axis
from ..encoding.layout import Layout, lay_out
from ..losses.loss import Loss
from .boosting import FEW_ROWS, Pace, boost_members, find_tables
from .engines import GridEngine
from .free import choose_share, has_room
from .history import History
from .rows import Rows
from .stage import Stage

BY_CHANCE = Pace(rate=0.2, least=2.0, max_rounds=300, patience=20, by_chance=True)
BY_GAIN = Pace(rate=0.2, least=15.0, max_rounds=300, patience=8)
USUAL = {BY_CHANCE: 0.75, BY_GAIN: 0.95}  # shares that are kept of the model before, where nothing speaks against it
PARTS = 8  # knots that are added between two, at most
BEND = 0.05  # in the unit of the scores: what shapes may say between knots that are not kept
MAX_WORK = 4e7  # of a round: larger tables do without


def blend(
    stage: Stage, numbers: np.ndarray | SparseMatrix, make_grid: Callable[[Layout], GridEngine], rows: Rows,
    objective: Loss, history: History, threads: int, group: ProcessGroup = SINGLE_PROCESS,
) -> Stage:  # fmt: skip
    """The stage with boosted main effects in it, if that lowers the validation loss; `numbers` are (N, D)."""
    layout, net = stage.grid.layout, stage.net
    if any(len(term) > 1 for term in layout.terms) or not has_room(stage, rows):
        return stage
    if len(numbers) * len(layout.terms) * net.n_members * objective.n_outputs > MAX_WORK:
        return stage
    axes = [subdivide(axis, _read_column(numbers, index)) for index, axis in enumerate(layout.axes)]
    fine, rows = make_grid(lay_out(axes, layout.terms, {})), rows.cpu()
    scores = stage.add_scores(rows.init).cpu()
    start = net.intercept.detach().cpu() + (0.0 if rows.init is None else rows.init)
    tables = find_tables(fine, 1)
    assert tables is not None
    blended = stage.move(fine)
    for pace in (BY_CHANCE, BY_GAIN) if len(numbers) <= FEW_ROWS else (BY_GAIN,):
        found, boosted = boost_members(
            [tables] * net.n_members, start.expand(scores.shape), rows, objective, pace, threads, group
        )
        if not found.any():
            continue
        share = choose_share("blend", scores, boosted, rows, objective, history, USUAL[pace])
        if share < 1:
            blended, scores = blended.mix(share, found), share * scores + (1 - share) * boosted
    if blended.share == stage.share:
        return stage
    return blended.move(make_grid(lay_out(thin_axes(blended, layout.axes), layout.terms, {})))


def _read_column(numbers: np.ndarray | SparseMatrix, column: int) -> np.ndarray:
    return numbers.read_column(column) if isinstance(numbers, SparseMatrix) else numbers[:, column]


def subdivide(axis: Axis, values: np.ndarray) -> Axis:
    """The axis with more knots, at values of the column: of those between two knots the first of even parts."""
    if axis.is_level:
        return axis
    distinct = np.setdiff1d(values[~np.isnan(values)], axis.knots)
    _, start, count = np.unique(np.searchsorted(axis.knots, distinct), return_index=True, return_counts=True)
    rank = np.arange(len(distinct)) - np.repeat(start, count)
    part = rank * PARTS // np.repeat(count, count)
    return axis.add_knots(distinct[(rank == 0) | (np.diff(part, prepend=-1) != 0)])


def thin_axes(stage: Stage, axes: Sequence[Axis]) -> list[Axis]:
    """These axes with the stage's knots between two of theirs, wherever its free part bends there."""
    layout, thin = stage.grid.layout, list(axes)
    assert stage.rest is not None
    table = stage.rest.unflatten(1, (stage.net.n_members, -1)).mean(dim=1).cpu().numpy()
    for index, (feature,) in enumerate(layout.terms):
        axis, knots = layout.axes[feature], axes[feature].knots
        known, values = np.isin(axis.knots, knots), table[layout.cells_of(index)][1:-1]
        lines = np.stack([np.interp(axis.knots, knots, each) for each in values[known].T], axis=1)
        bend = np.zeros(len(knots) + 1)
        between = np.searchsorted(knots, axis.knots)
        np.maximum.at(bend, between, np.abs(values - lines).max(axis=1))
        thin[feature] = axes[feature].add_knots(axis.knots[bend[between] > BEND])
    return thin
