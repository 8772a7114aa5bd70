"""fit: the whole way from a table to a fitted model, the same for every kind of table.

    table.open     any source: memory, files, new rows of a fitted model   -> names, rows, classes
    plan           what users request                                      -> terms
    resolve        parameters                                              -> FitConfig, every "auto" a number
    encode         columns                                                 -> axes, codes, target
    train          codes and target                                        -> an ensemble of tables
    compile        the ensemble                                            -> AdditiveModel

Everything random is drawn from one generator, in this order. No other function repeats these steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import numpy as np
import torch
from sklearn.utils import check_random_state

from ..config import FitConfig, warn_unread
from ..distributed.process_group import ProcessGroup, find_process_group
from ..model.additive_model import AdditiveModel
from ..model.summary import Summary, find_versions, read_clock, to_plain
from ..terms.term import Ranked
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .checkpoints import describe_fit, open_checkpoints
from .codes import Codes
from .defaults import count_numbers, make_plan
from .history import History
from .limits import check_memory, check_saving
from .loop import training_threads
from .run import Run
from .schedule import train
from .tables import TrainingTable


@dataclass(frozen=True, eq=False)
class FitResult:
    """What a fit gives: the model, how training went, and all interactions that were ranked."""

    model: AdditiveModel
    history: History
    ranking: list[Ranked]


def fit(
    table: TrainingTable, config: FitConfig, checkpointer: Checkpointer = NO_CHECKPOINTS, stacklevel: int = 5
) -> FitResult:
    """Fit a model to a table; an interrupted fit resumes from what the checkpointer has kept.

    `stacklevel` is the caller that a warning points at.
    """
    group, history = find_process_group(), History()
    seed = checkpointer.choose("seed", draw_seed(config, group))
    rng = np.random.default_rng(seed)
    with table.open(config, group, seed, checkpointer) as source:
        plan = make_plan(config, source.names, source.classes, source.n_rows)
        kind = source.kind(config, plan)
        if group.rank == 0:
            warn_unread(config, kind, stacklevel)
        n_numbers = count_numbers(config, plan, source.classes, source.n_rows)
        config = config.resolve(source.n_rows, kind == "wide", n_numbers, group.rank)
        with training_threads(), seeded_dropout(rng):
            codes = source.encode(config, plan, rng)
            check_memory(config, codes)
            check_saving(config, codes)
            checkpointer.check(describe_fit(config.given, source.names, codes.numbers, codes.sample))
            ensemble = train(codes, Run(config, rng, group, checkpointer, history))
            checkpointer.finish()
        model = source.compile(ensemble, codes, config, summarize(config, source.target, codes, history))
    return FitResult(model, history, [codes.widen_ranked(ranked) for ranked in ensemble.ranking])


def draw_seed(config: FitConfig, group: ProcessGroup) -> int:
    """One seed for all processes."""
    return group.agree(check_random_state(config.random_state).randint(2**31))


def open_checkpointer(config: FitConfig, resume: bool) -> Checkpointer:
    """Where the state of a fit is kept; nowhere without a `checkpoint_dir`."""
    return open_checkpoints(
        config.checkpoint_dir, config.checkpoint_every, resume, find_process_group(), config.given
    )  # fmt: skip


def summarize(config: FitConfig, target: str | None, codes: Codes, history: History) -> Summary:
    """What was fitted, to which rows, and how training went."""
    events = {name: value for name, value in asdict(history).items() if name != "started"}
    return Summary(
        estimator=config.estimator,
        parameters=to_plain(config.given),
        n_rows=codes.n_given,
        n_columns=codes.n_columns,
        target=target,
        shift=codes.loss.shift,
        unit=codes.loss.unit,
        validation=to_plain(history.validation[history.best]) if history.best >= 0 else None,
        history=to_plain(events),
        date=read_clock(),
        versions=find_versions(),
    )


@contextmanager
def seeded_dropout(rng: np.random.Generator) -> Iterator[None]:
    """Seed torch's global generator, which dropout draws from; the caller's state is restored afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.spawn(1)[0].integers(2**31)))  # a child: other draws stay as they are
        yield
