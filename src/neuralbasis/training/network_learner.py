"""NetworkLearner: tables of terms from the paper's shared bases, trained on what earlier stages leave."""

from __future__ import annotations

from collections.abc import Sequence

from ..terms.term import Term
from .codes import Codes
from .defaults import count_active, make_net, make_settings, see_all_rows
from .engines import ExactEngine, GridEngine
from .loop import train_net
from .rows import Rows
from .run import Run
from .stage import Stage


def learn_network(
    codes: Codes, run: Run, grid: GridEngine, rows: Rows, before: Sequence[Stage], title: str | None = None
) -> tuple[Stage, bool]:
    """Train a network for the terms of a grid.

    Parameters
    ----------
    grid : terms and their knots
    rows : with the scores of earlier stages
    before : these stages; rows that are loaded from disk need their scores
    title : of the stage in the history; by default the kind of its terms

    Returns
    -------
    the stage, and whether it lowers the held-out loss; the first stage always does
    """
    config, loss = run.config, codes.loss
    terms: Sequence[Term] = grid.layout.terms
    net = make_net(config, grid, loss, None if before else codes.sample, rows.n_effective, run.rng)
    if rows.member_mask is not None:
        net.set_member_mask(*grid.find_member_mask(rows.member_mask))
    order = max(len(term) for term in terms) if before else 1
    n_drawn = round(rows.copies.mean() * codes.n_rows)
    active = count_active(grid.layout)
    settings = make_settings(config, codes.n_rows, n_drawn, order, active, net.tied, rows.information, title)
    blocks = None
    if codes.loader is not None:
        settings = see_all_rows(settings, n_drawn)
        blocks = codes.loader.pools(grid, before, loss, rows)
    engine = grid if config.engine == "grid" else ExactEngine(grid)
    improved = train_net(
        net, grid, engine, rows, loss, settings, run.history, run.rng, run.group, blocks, run.checkpointer
    )
    return Stage.of(net, grid), improved
