"""fit_model: the line of data, from raw columns and a target to an AdditiveModel. Everything random is drawn here.

columns -> start (axes, tidy rows, plan) -> stages of terms (layout -> positions -> net -> train) -> compile

A table of which nearly all values are absent takes the way of `wide` instead.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from ..config import WIDE_BASES, WIDE_KNOTS, check_memory, choose_tied, count_numbers, make_plan, settle, warn_unread
from ..data.columns import Columns
from ..data.target import Sample
from ..distributed.process_group import ProcessGroup, find_process_group
from ..encoding.encoder import settle_texts
from ..losses.loss import Loss
from ..model.additive_model import AdditiveModel
from ..model.summary import Summary, find_versions, list_changed, read_clock, to_plain
from ..serialization.model_file import check_columns, check_labels, check_size
from ..terms.term import Plan, Ranked, mark_chosen
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .checkpoints import describe_fit, open_checkpoints
from .compile import compile_model
from .history import History
from .loop import training_threads
from .prepare import Start, is_wide, make_start
from .schedule import Trainer
from .wide import WideTrainer, compile_factors


def fit_model(
    parameters: Any,
    columns: Columns,
    sample: Sample,
    classes: np.ndarray | None,
    target: str | None = None,
    checkpointer: Checkpointer = NO_CHECKPOINTS,
) -> tuple[AdditiveModel, History, list[Ranked]]:
    """Fit with an estimator's parameters (checked before); `classes` are labels, None for a regression.

    `target` is the target's name, if it has one. The checkpointer remembers how far a fit has come.
    """
    check_labels(classes)
    columns = settle_texts(columns, parameters.feature_types, sample.weights)
    estimator, group, started = parameters, meet(parameters, columns), time.monotonic()
    rng = np.random.default_rng(checkpointer.choose("seed", draw_seed(parameters, group)))
    plan = make_plan(parameters, columns.names, classes, columns.n_rows)
    wide = is_wide(parameters, columns, plan, classes)
    if group.rank == 0:
        warn_unread(parameters, list_changed(parameters), "wide" if wide else "", stacklevel=5)
    n_numbers = count_numbers(parameters, plan, classes, columns.n_rows)
    parameters = settle(parameters, columns.n_rows, wide, n_numbers, group.rank)
    with training_threads(), seeded_dropout(rng):
        start = make_start(columns, sample, classes, plan, parameters, wide, rng)
        check_memory(parameters, start.plan, start.objective.n_outputs, columns.n_rows)
        check_saving(estimator, parameters, start, wide)
        checkpointer.check(describe_fit(estimator.get_params(deep=False), columns.names, start.numbers, start.sample))
        known = (
            parameters,
            start.encoder,
            start.numbers,
            start.sample,
            start.objective,
            start.rows,
            rng,
            group,
            checkpointer,
        )
        trainer = WideTrainer(*known) if wide else Trainer(*known)
        trainer.history.started = started
        ranking = fit_terms(trainer, start.plan)
        checkpointer.finish()
    summary = summarize(estimator, columns.n_rows, len(columns), target, start.objective, trainer.history)
    rest = start.objective, classes, parameters.n_jobs, summary
    if isinstance(trainer, WideTrainer):
        return compile_factors(trainer, *rest), trainer.history, ranking
    model = compile_model(trainer.stages, start.encoder, *rest).measure(start.numbers, start.sample.weights)
    return start.widen(model), trainer.history, [start.widen_ranked(ranked) for ranked in ranking]


def check_saving(estimator: Any, parameters: Any, start: Start, wide: bool = False) -> None:
    """Refuse, before training, a model that no file could hold; `parameters` are settled."""
    plan, n_outputs, n_features = start.plan, start.objective.n_outputs, len(start.plan.features)
    n_found = [min(math.comb(n_features, order), n) for order, n in ((2, 2 * plan.n_pairs), (3, plan.n_triples))]
    n_terms = n_features + len(plan.listed) + sum(n_found)  # weak pairs are as many as strong ones
    whole = start.encoder if start.whole is None else start.whole
    check_columns(whole.axes, estimator.get_params(deep=False), 0 if wide else n_terms)
    if wide:
        orders = [1, *map(len, plan.listed)]
        n_numbers = WIDE_BASES[1] * n_features + sum(WIDE_BASES[len(term)] for term in plan.listed)
        check_size(8.0 * n_numbers * n_outputs, max((WIDE_KNOTS[order] + 3) ** order for order in orders) * n_outputs)
    elif not choose_tied(parameters, n_terms, n_outputs):
        n_cells = sum(start.encoder.axes[feature].n_cells for feature in plan.features)
        check_size(n_cells * n_outputs * (12.0 + 4.0 * parameters.outer_bags))  # scores, spread, members


def open_checkpointer(parameters: Any, resume: bool) -> Checkpointer:
    """Who remembers how far a fit has come."""
    given = parameters.get_params(deep=False)
    return open_checkpoints(parameters.checkpoint_dir, parameters.checkpoint_every, resume, find_process_group(), given)


def draw_seed(parameters: Any, group: ProcessGroup) -> int:
    """One seed for all processes."""
    return group.agree(check_random_state(parameters.random_state).randint(2**31))


def meet(parameters: Any, columns: Columns) -> ProcessGroup:
    """The processes that fit this table together; each has all of it."""
    group = find_process_group()
    came = group.gather((columns.n_rows, columns.names))
    if other := next((each for each in came if each != came[0]), None):
        raise ValueError(
            f"{group.size} processes fit one model together, so all of them must have the same table, but one has "
            f"{came[0][0]:,} rows × {len(came[0][1]):,} columns and another {other[0]:,} × {len(other[1]):,}"
        )
    if group.size > 1 and parameters.engine == "exact":
        raise ValueError(
            "engine='exact' trains in one process: its tables are those of a batch; set engine='grid', or start one "
            f"process instead of {group.size}"
        )
    return group


def fit_terms(trainer: Trainer | WideTrainer, plan: Plan) -> list[Ranked]:
    """Train what is planned, in the way that is requested; returns the interactions that were looked at."""
    if isinstance(trainer, WideTrainer):
        trainer.fit(plan)
        return []
    return fit_stages(trainer, plan) if trainer.parameters.staged else fit_together(trainer, plan)


def fit_stages(trainer: Trainer, plan: Plan) -> list[Ranked]:
    """Main effects, then pairs, then triples, each on what the ones before leave."""
    trainer.add_stage(plan.mains)
    pairs, ranking = trainer.choose(plan, 2, plan.n_pairs)
    trainer.add_stage([*plan.mains, *pairs] if pairs else [], bool(plan.list_requested(2)))
    ranking = mark_chosen(ranking, trainer.add_weak_pairs(plan))
    triples, ranked_triples = trainer.choose(plan, 3, plan.n_triples, pairs)
    trainer.add_stage(triples, bool(plan.list_requested(3)))
    return ranking + ranked_triples


def fit_together(trainer: Trainer, plan: Plan) -> list[Ranked]:
    """All terms at once; where interactions are to be found, a first model of main effects finds them."""
    scout = replace(trainer, stages=[], history=History(), knots={}, n_heard=0)
    if plan.must_search:
        scout.add_stage(plan.mains)
    pairs, ranking = scout.choose(plan, 2, plan.n_pairs)
    triples, ranked_triples = scout.choose(plan, 3, plan.n_triples, pairs)
    trainer.add_stage([*plan.mains, *pairs, *triples])
    return ranking + ranked_triples


def summarize(
    estimator: Any, n_rows: int, n_columns: int, target: str | None, objective: Loss, history: History
) -> Summary:
    """What was fitted, to what, and how it went."""
    events = {name: value for name, value in asdict(history).items() if name != "started"}
    return Summary(
        estimator=type(estimator).__name__,
        parameters=to_plain(estimator.get_params(deep=False)),
        n_rows=n_rows,
        n_columns=n_columns,
        target=target,
        shift=objective.shift,
        unit=objective.unit,
        validation=to_plain(history.validation[history.best]) if history.best >= 0 else None,
        history=to_plain(events),
        date=read_clock(),
        versions=find_versions(),
    )


@contextmanager
def seeded_dropout(rng: np.random.Generator) -> Iterator[None]:
    """torch's global generator, which dropout draws from, seeded by `rng`; the caller's state comes back."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(rng.spawn(1)[0].integers(2**31)))  # a child: other draws stay as they are
        yield
