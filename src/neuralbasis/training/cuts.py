"""Cuts: a free part of pairs, for edges that no shared smooth function can say, and weak pairs, of cuts alone.

    f_ij = Σ_k u_k b_ijk + r_ij        r_ij = Σ_rounds step of the piece (x_i, x_j) falls in

Pairs are boosted on top of what the nets say, which stay as they are. In a round a pair's table is cut in four, by one
cut along one axis and one along the other on either side.

Weak pairs cannot be told from noise one by one, and a net of so many would learn the noise; but together they help, and
most in tables of few rows. Each member cuts pairs that it has chosen by the rows it learns from, so that those it holds
out are fair judges of them. First they are cut by chance, which makes a smooth shape of many cuts, then where it gains
most.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..losses.loss import Loss
from ..terms.term import Term
from .boosting import Pace, Tables, boost_members, find_tables
from .engines import GridEngine
from .free import accept, has_room
from .history import History
from .rows import Rows
from .stage import Stage

BY_CHANCE = Pace(rate=0.1, least=5.0, max_rounds=1000, patience=20, by_chance=True)
BY_GAIN = Pace(rate=0.1, least=5.0, max_rounds=300, patience=8)
NEARLY_ALL = 0.99  # of the variance of weak pairs: those beyond say next to nothing
MAX_WORK = 2e8  # of a round: larger tables do without


def cut(
    stage: Stage, rows: Rows, objective: Loss, history: History, threads: int, group: ProcessGroup = SINGLE_PROCESS
) -> Stage:
    """The stage with a free part of its pairs, if that surely lowers the validation loss."""
    tables = _find_pairs(stage.grid, rows, objective) if has_room(stage, rows) else None
    if tables is None:
        return stage
    scores, own = stage.add_scores(rows.init).cpu(), [tables] * stage.net.n_members
    found = _boost(own, scores, (BY_GAIN,), rows.cpu(), objective, history, threads, group)
    return stage.add_part(found) if found.any() else stage


def cut_weak(
    grid: GridEngine, choices: np.ndarray, rows: Rows, objective: Loss, history: History, threads: int,
    group: ProcessGroup = SINGLE_PROCESS,
) -> np.ndarray | None:  # fmt: skip
    """Tables (M, K, cells) of the grid's pairs, None if they do not help; each member cuts its choice of the terms
    (T, M)."""
    tables = _find_pairs(grid, rows, objective) if rows.all_validate else None
    if tables is None or rows.init is None:
        return None
    own = [tables.part(choice) for choice in choices[tables.terms].T]
    found = _boost(own, rows.init.cpu(), (BY_CHANCE, BY_GAIN), rows.cpu(), objective, history, threads, group)
    return found if found.any() else None


def _find_pairs(grid: GridEngine, rows: Rows, objective: Loss) -> Tables | None:
    """Those that can be cut, None if there are none or too many."""
    n_rows, n_members = rows.held_out.shape
    return find_tables(grid, 2, MAX_WORK / (n_rows * n_members * objective.n_outputs))


def _boost(
    tables: Sequence[Tables], scores: Tensor, paces: Sequence[Pace], rows: Rows, objective: Loss,
    history: History, threads: int, group: ProcessGroup,
) -> np.ndarray:  # fmt: skip
    """Members' tables (M, K, cells), boosted at one pace after the other; what does not surely help is 0."""
    found = np.zeros((*scores.shape[1:], tables[0].n_cells))
    for pace in paces:
        more, after = boost_members(tables, scores, rows, objective, pace, threads, group)
        before, now = (rows.validate(objective.loss(each, rows.target)) for each in (scores, after))
        if accept("cuts", before, now, history):
            found, scores = found + more, after
    return found


def keep_strongest(grid: GridEngine, tables: np.ndarray, count: int) -> tuple[list[Term], np.ndarray]:
    """The fewest of the grid's terms that hold nearly all of the variance, at most so many, and their tables."""
    layout, strengths = grid.layout, np.empty(len(grid.layout.terms))
    for index in range(len(strengths)):
        weight, values = grid.cell_weight[layout.cells_of(index)], tables[..., layout.cells_of(index)].mean(axis=0)
        middle = values @ weight / weight.sum()
        strengths[index] = ((values - middle[:, None]) ** 2 @ weight).sum()
    order = np.argsort(-strengths, kind="stable")
    enough = 1 + int(np.searchsorted(strengths[order].cumsum(), NEARLY_ALL * strengths.sum()))
    kept = sorted(order[: min(count, enough)])
    terms = [tuple(sorted(layout.terms[index])) for index in kept]
    return terms, np.concatenate([tables[..., layout.cells_of(index)] for index in kept], axis=-1)
