"""fit_model: the line of data, from raw columns and a target to an AdditiveModel. Everything random is drawn here.

columns -> start (axes, tidy rows, plan) -> stages of terms (layout -> positions -> net -> train) -> compile

A table of which nearly all values are absent takes the way of `wide` instead.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from .columns import Columns
from .compile import compile_model
from .history import History
from .model import AdditiveModel
from .objective import Objective
from .recipe import check_memory, count_numbers, make_plan, settle
from .sample import Sample
from .start import is_wide, make_start
from .summary import Summary, find_versions, read_clock, to_plain
from .terms import Plan, Ranked
from .train import training_threads
from .trainer import Trainer
from .wide import WideTrainer, compile_factors


def fit_model(
    parameters: Any, columns: Columns, sample: Sample, classes: np.ndarray | None, target: str | None = None
) -> tuple[AdditiveModel, History, list[Ranked]]:
    """Fit with an estimator's parameters (checked before); `classes` are labels, None for a regression.

    `target` is the target's name, if it has one.
    """
    estimator, started = parameters, time.monotonic()
    rng = np.random.default_rng(check_random_state(parameters.random_state).randint(2**31))
    plan = make_plan(parameters, columns.names, classes, columns.n_rows)
    wide = is_wide(parameters, columns, plan, classes)
    parameters = settle(parameters, columns.n_rows, wide, count_numbers(parameters, plan, classes, columns.n_rows))
    with training_threads(), seeded_dropout(rng):
        start = make_start(columns, sample, classes, plan, parameters, wide, rng)
        check_memory(parameters, start.plan, start.objective.n_outputs, columns.n_rows)
        known = parameters, start.encoder, start.numbers, start.sample, start.objective, start.rows, rng
        trainer = WideTrainer(*known) if wide else Trainer(*known)
        trainer.history.started = started
        ranking = fit_terms(trainer, start.plan)
    summary = summarize(estimator, columns, target, start.objective, trainer.history)
    rest = start.objective, classes, parameters.n_jobs, summary
    if isinstance(trainer, WideTrainer):
        return compile_factors(trainer, *rest), trainer.history, ranking
    model = compile_model(trainer.stages, start.encoder, *rest)
    return start.widen(model), trainer.history, [start.widen_ranked(ranked) for ranked in ranking]


def fit_terms(trainer: Trainer | WideTrainer, plan: Plan) -> list[Ranked]:
    """Train what is planned, in the way that is wished; returns the interactions that were looked at."""
    if isinstance(trainer, WideTrainer):
        trainer.fit(plan)
        return []
    return fit_stages(trainer, plan) if trainer.parameters.staged else fit_together(trainer, plan)


def fit_stages(trainer: Trainer, plan: Plan) -> list[Ranked]:
    """Main effects, then pairs, then triples, each on what the ones before leave."""
    trainer.add_stage(plan.mains)
    pairs, ranking = trainer.choose(plan, 2, plan.n_pairs)
    trainer.add_stage([*plan.mains, *pairs] if pairs else [], bool(plan.list_wished(2)))
    triples, ranked_triples = trainer.choose(plan, 3, plan.n_triples, pairs)
    trainer.add_stage(triples, bool(plan.list_wished(3)))
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


def summarize(estimator: Any, columns: Columns, target: str | None, objective: Objective, history: History) -> Summary:
    """What was fitted, to what, and how it went."""
    events = {name: value for name, value in asdict(history).items() if name != "started"}
    return Summary(
        estimator=type(estimator).__name__,
        parameters=to_plain(estimator.get_params(deep=False)),
        n_rows=columns.n_rows,
        n_columns=len(columns),
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
