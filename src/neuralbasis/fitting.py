"""fit_model: the line of data, from raw columns and a target to an AdditiveModel. Everything random is drawn here.

columns -> encoder -> numbers -> stages of terms (layout -> positions -> net -> train) -> compile
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from .columns import Columns
from .compile import compile_model
from .encoder import Encoder
from .history import History
from .model import AdditiveModel
from .objective import Objective, choose_objective
from .recipe import check_memory, make_plan, settle
from .sample import Sample, tidy_rows
from .summary import Summary, find_versions, read_clock, to_plain
from .terms import Plan, Ranked
from .train import place_rows, training_threads
from .trainer import Trainer


def fit_model(
    parameters: Any, columns: Columns, sample: Sample, classes: np.ndarray | None, target: str | None = None
) -> tuple[AdditiveModel, History, list[Ranked]]:
    """Fit with an estimator's parameters (checked before); `classes` are labels, None for a regression.

    `target` is the target's name, if it has one.
    """
    estimator = parameters
    rng = np.random.default_rng(check_random_state(parameters.random_state).randint(2**31))
    weights = None if (sample.weights == 1).all() else sample.weights
    encoder = Encoder.fit(columns, weights, parameters.feature_types, parameters.scaling, parameters.max_bins)
    plan = make_plan(parameters, encoder.names, classes)
    parameters = settle(parameters, columns.n_rows)
    numbers, sample = tidy_rows(encoder.numbers(columns), sample, encoder.names)
    objective = choose_objective(sample, classes)
    check_memory(parameters, plan, objective.n_outputs)
    with training_threads(), seeded_dropout(rng):
        rows = place_rows(sample, objective, parameters.outer_bags, parameters.validation_size, rng, parameters.device)
        trainer = Trainer(parameters, encoder, numbers, sample, objective, rows, rng)
        ranking = fit_stages(trainer, plan) if parameters.staged else fit_together(trainer, plan)
    summary = summarize(estimator, columns, target, objective, trainer.history)
    model = compile_model(trainer.stages, encoder, objective, classes, parameters.n_jobs, summary)
    return model, trainer.history, ranking


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
    scout = replace(trainer, stages=[], history=History(), knots={})
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
