"""NetworkLearner: tables of terms from the paper's shared bases, trained on what earlier stages leave."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
import torch

from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..losses.loss import Loss
from ..networks.basis_net import BasisNet
from .batches import Batches, Pool, share_pool
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .codes import Codes, Run
from .defaults import choose_tied, make_net, make_settings
from .engines import ExactEngine, GridEngine
from .history import History
from .loop import run_loop
from .members import Members, Settings
from .present import PresentMembers, PresentValues, reads_present
from .rows import Rows
from .stage import Stage


def learn_network(
    codes: Codes, run: Run, grid: GridEngine, rows: Rows, before: Sequence[Stage], title: str | None = None
) -> tuple[Stage, bool]:
    """Train a network for the terms of a grid, on rows with the scores of the stages `before`.

    Returns the stage, and whether it lowers the held-out loss; the first stage always does. `title` names it in the
    history.
    """
    config, loss, layout = run.config, codes.loss, grid.layout
    tied = choose_tied(config, len(layout.terms), loss.n_outputs)
    is_exact = config.network.engine == "exact"
    by_row = is_exact and (tied or loss.n_outputs == 1) and reads_present(grid, rows)
    net = make_net(config, grid, loss, None if before else codes.sample, rows.n_effective, run.rng, bare=by_row)
    if rows.member_mask is not None:
        net.set_member_mask(*grid.find_member_mask(rows.member_mask))
    order = max(len(term) for term in layout.terms) if before else 1
    n_drawn = round(rows.copies.mean() * codes.n_rows)
    # Mean number of interactions that contribute to a row.
    n_active = sum(1 - layout.anchored_share(index) for index, term in enumerate(layout.terms) if len(term) > 1)
    settings = make_settings(
        config, codes.n_rows, n_drawn, order, n_active, net.tied, rows.information, title,
        len(layout.terms),
    )  # fmt: skip
    pools = None
    if codes.loader is not None:  # draw every row at least once
        settings = replace(settings, max_steps=max(settings.max_steps, math.ceil(n_drawn / settings.batch_size)))
        pools = codes.loader.pools(grid, before, loss, rows)
    if by_row:
        return _learn_present(net, grid, rows, loss, settings, run)
    engine = ExactEngine(grid) if is_exact else grid
    improved = train_net(
        net, grid, engine, rows, loss, settings, run.history, run.rng, run.group, pools, run.checkpointer
    )
    return Stage(grid, net.intercept.detach(), net=net), improved


def _learn_present(
    net: BasisNet, grid: GridEngine, rows: Rows, loss: Loss, settings: Settings, run: Run
) -> tuple[Stage, bool]:
    """Train the terms of a large sparse table on its present values."""
    generator = torch.Generator().manual_seed(int(run.rng.integers(2**31)))
    members = PresentMembers(net, PresentValues.of(grid), rows, loss, settings, generator, run.threads)
    batches = Batches(repeat(rows), settings.batch_size, settings.max_steps, run.rng)
    improved = run_loop(members, batches, settings, run.history, run.group, run.checkpointer)
    return members.make_stage(grid), improved


def train_net(
    net: BasisNet, grid: GridEngine, engine: GridEngine | ExactEngine, rows: Rows, loss: Loss,
    settings: Settings, history: History, rng: np.random.Generator, group: ProcessGroup = SINGLE_PROCESS,
    pools: Iterator[Pool] | None = None, checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> bool:  # fmt: skip
    """Fit `net` in place and extend the history; False if a stage after the first does not lower the held-out loss.

    The net is validated on `rows` and trained on `pools`, by default the same rows.
    """
    if pools is None:
        pools = repeat(share_pool(engine, rows, group))
    batches = Batches(pools, settings.batch_size, settings.max_steps, rng)
    with Members(net, grid, engine, rows, loss, settings, group) as members:
        return run_loop(members, batches, settings, history, group, checkpointer)
