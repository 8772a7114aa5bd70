"""fit_model: the line of data, from raw columns and a target to an AdditiveModel. Everything random is drawn here.

columns -> encoder -> numbers -> stages of terms (layout -> positions -> net -> train) -> compile

Of a very wide table, columns are chosen first; the line then goes on with a table of these alone.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from . import kernels
from .axis import silent_axis
from .columns import Columns
from .compile import compile_model
from .encoder import Encoder
from .history import History
from .model import AdditiveModel
from .objective import Objective, choose_objective
from .recipe import check_memory, count_terms, make_plan, settle
from .sample import Sample, order_rows, tidy_rows
from .select import Selection, select_columns
from .summary import Summary, find_versions, read_clock, to_plain
from .terms import Plan, Ranked, Term
from .train import Rows, place_rows, training_threads
from .trainer import Trainer


def fit_model(
    parameters: Any, columns: Columns, sample: Sample, classes: np.ndarray | None, target: str | None = None
) -> tuple[AdditiveModel, History, list[Ranked]]:
    """Fit with an estimator's parameters (checked before); `classes` are labels, None for a regression.

    `target` is the target's name, if it has one.
    """
    estimator, started, parameters = parameters, time.monotonic(), settle(parameters, columns.n_rows)
    rng = np.random.default_rng(check_random_state(parameters.random_state).randint(2**31))
    plan = make_plan(parameters, columns.names, classes)
    must_choose = len(plan.features) > count_terms(parameters, columns.n_rows)
    with training_threads(), seeded_dropout(rng):
        start = (choose_columns if must_choose else take_columns)(columns, sample, classes, plan, parameters, rng)
        check_memory(parameters, start.plan, start.objective.n_outputs)
        trainer = Trainer(parameters, start.encoder, start.numbers, start.sample, start.objective, start.rows, rng)
        trainer.history.started = started
        ranking = (fit_stages if parameters.staged else fit_together)(trainer, start.plan)
    summary = summarize(estimator, columns, target, start.objective, trainer.history)
    model = compile_model(trainer.stages, start.encoder, start.objective, classes, parameters.n_jobs, summary)
    return start.widen(model), trainer.history, [start.widen_ranked(ranked) for ranked in ranking]


@dataclass(frozen=True, eq=False)
class Start:
    """What training starts from: axes of the columns that take part, their numbers in tidy rows, targets, and the plan.

    `features` are these columns' places in the whole table, `whole` the axes of all; None: all columns take part.
    """

    encoder: Encoder
    numbers: np.ndarray
    sample: Sample
    objective: Objective
    rows: Rows
    plan: Plan
    features: Sequence[int] | None = None
    whole: Encoder | None = None

    def widen(self, model: AdditiveModel) -> AdditiveModel:
        """A model of the columns that take part as one of the whole table."""
        if self.whole is None:
            return model
        shapes = tuple(replace(shape, term=self._widen_term(shape.term)) for shape in model.shapes)
        return replace(model, encoder=self.whole, shapes=shapes)

    def widen_ranked(self, ranked: Ranked) -> Ranked:
        return ranked._replace(features=self._widen_term(ranked.features))

    def _widen_term(self, term: Term) -> Term:
        return term if self.features is None else tuple(self.features[feature] for feature in term)


def take_columns(
    columns: Columns, sample: Sample, classes: np.ndarray | None, plan: Plan, parameters: Any, rng: np.random.Generator
) -> Start:
    """Start with all columns."""
    encoder = fit_encoder(columns, sample, parameters)
    numbers, tidy = tidy_rows(encoder.numbers(columns), sample, encoder.names)
    objective = choose_objective(tidy, classes)
    rows = place_rows(tidy, objective, parameters.outer_bags, parameters.validation_size, rng, parameters.device)
    return Start(encoder, numbers, tidy, objective, rows, plan)


def choose_columns(
    columns: Columns, sample: Sample, classes: np.ndarray | None, plan: Plan, parameters: Any, rng: np.random.Generator
) -> Start:
    """Start with the columns that say most, and those of listed interactions; the others are not even given an axis."""
    is_plain = columns.matrix is not None and parameters.feature_types is None
    whole = None if is_plain else fit_encoder(columns, sample, parameters)
    numbers = columns.matrix if whole is None else whole.numbers(columns)
    assert numbers is not None
    order, tidy = order_rows(numbers, sample, columns.names)
    objective = choose_objective(tidy, classes)
    rows = place_rows(tidy, objective, parameters.outer_bags, parameters.validation_size, rng, parameters.device)
    found = select_columns(
        numbers, np.arange(len(numbers))[order], -objective.first_slope(tidy), tidy.weights,
        choose_judges(rows, tidy, objective, parameters, rng), columns.names, plan.features,
        None if parameters.max_terms == "auto" else parameters.max_terms, kernels.count_threads(parameters.n_jobs),
        rng.spawn(1)[0],
    )  # fmt: skip
    plan, features = plan.restrict(found.features.tolist())
    few = columns.take(features)
    encoder = fit_encoder(few, sample, parameters) if whole is None else whole.take(features)
    if whole is None:
        axes = dict(zip(features, encoder.axes, strict=True))
        whole = Encoder(tuple(axes.get(f) or silent_axis(name) for f, name in enumerate(columns.names)))
    if bool(rows.held_out.any()):
        rows = replace(rows, voices=spread_voices(found, features))
    return Start(encoder, encoder.numbers(few)[order], tidy, objective, rows, plan, features, whole)


def fit_encoder(columns: Columns, sample: Sample, parameters: Any) -> Encoder:
    weights = None if (sample.weights == 1).all() else sample.weights
    return Encoder.fit(columns, weights, parameters.feature_types, parameters.scaling, parameters.max_bins)


def choose_judges(
    rows: Rows, sample: Sample, objective: Objective, parameters: Any, rng: np.random.Generator
) -> np.ndarray:
    """(N, M) rows that each member holds out; where it holds out none, columns are chosen without a seventh of them."""
    if not bool(rows.held_out.any()):
        child = rng.spawn(1)[0]
        rows = place_rows(sample, objective, max(3, parameters.outer_bags), 1 / 7, child, parameters.device)
    return rows.held_out.cpu().numpy()


def spread_voices(found: Selection, features: Sequence[int]) -> torch.Tensor | None:
    """(features, M) which member speaks of which column: those it chose, and all that only interactions need."""
    chosen = dict(zip(found.features.tolist(), found.voices, strict=True))
    everyone = np.ones(found.voices.shape[1], dtype=bool)
    voices = np.stack([chosen.get(feature, everyone) for feature in features])
    return None if voices.all() else torch.from_numpy(voices)


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
