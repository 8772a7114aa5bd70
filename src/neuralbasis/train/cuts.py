"""Cuts: a free part of pairs, for edges that no shared smooth function can say.

    f_ij = Σ_k u_k b_ijk + r_ij        r_ij = Σ_rounds step of the piece (x_i, x_j) falls in

Pairs are boosted on top of what the nets say, which stay as they are. In a round a pair's table is cut in four, by one
cut along one axis and one along the other on either side.
"""

from __future__ import annotations

from ..history import History
from ..objective import Objective
from .boosting import Pace, boost_members, find_tables
from .free import accept, has_room
from .group import ALONE, Group
from .rows import Rows
from .stage import Stage

PACE = Pace(rate=0.1, least=5.0, max_rounds=300, patience=8)
MAX_WORK = 2e8  # of a round: larger tables do without


def cut(stage: Stage, rows: Rows, objective: Objective, history: History, threads: int, group: Group = ALONE) -> Stage:
    """The stage with a free part of its pairs, if that surely lowers the validation loss."""
    tables = find_tables(stage.grid, 2, MAX_WORK / (len(rows.target) * stage.net.n_members * objective.n_outputs))
    if tables is None or not has_room(stage, rows):
        return stage
    rows = rows.cpu()
    scores = stage.add_scores(rows.init).cpu()
    found, after = boost_members(tables, scores, rows, objective, PACE, threads, group)
    before, now = (rows.validate(objective.loss(each, rows.target)) for each in (scores, after))
    return stage.add_part(found) if accept("cuts", before, now, history) else stage
