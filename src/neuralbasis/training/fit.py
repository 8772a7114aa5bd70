"""fit: the whole way from a table to a fitted model, the same for every kind of table.

    table.open     any source: memory, files, new rows of a fitted model   -> names, rows, classes
    plan           what users request                                      -> terms
    resolve        parameters                                              -> FitConfig, every "auto" a number
    encode         columns                                                 -> axes, codes, target
    train          codes and target                                        -> an ensemble of tables
    compile        the ensemble                                            -> AdditiveModel
    residuals      scores of members for the rows they held out            -> prediction intervals

Everything random is drawn from one generator, in this order. No other function repeats these steps.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

import numpy as np
import torch
from sklearn.utils import check_random_state

from ..config import FitConfig, warn_unread
from ..distributed.process_group import find_process_group
from ..model.additive_model import AdditiveModel
from ..model.summary import Summary, find_versions, read_clock, to_plain
from ..serialization.model_file import check_columns, check_labels, check_size
from ..terms.term import Ranked
from .checkpointer import NO_CHECKPOINTS, Checkpointer, describe_fit, open_checkpoints
from .codes import Codes, Run
from .defaults import WIDE_BASES, WIDE_KNOTS, choose_tied, count_channels, count_numbers, make_plan
from .history import History
from .loop import training_threads
from .residuals import measure_residuals
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
    seed = group.agree(check_random_state(config.random_state).randint(2**31))  # one for all processes
    seed = checkpointer.choose("seed", seed)
    rng = np.random.default_rng(seed)
    with table.open(config, group, seed, checkpointer) as source:
        plan = make_plan(config, source.names, source.classes, source.n_rows)
        kinds = source.kinds(config, plan)
        if group.rank == 0:
            warn_unread(config, kinds, stacklevel)
        n_numbers = count_numbers(config, plan, source.classes, source.n_rows)
        config = config.resolve(source.n_rows, "wide" in kinds, n_numbers, group.rank)
        with training_threads(), seeded_dropout(rng):
            codes = source.encode(config, plan, rng)
            check_memory(config, codes)
            check_saving(config, codes)
            checkpointer.check(describe_fit(config.given, source.names, codes.numbers, codes.sample))
            ensemble = train(codes, Run(config, rng, group, checkpointer, history))
            checkpointer.finish()
        model = source.compile(ensemble, codes, config, summarize(config, source.target, codes, history))
        model = replace(model, residuals=measure_residuals(codes, ensemble.rows))
    return FitResult(model, history, [codes.widen_ranked(ranked) for ranked in ensemble.ranking])


def open_checkpointer(config: FitConfig, resume: bool) -> Checkpointer:
    """Where the state of a fit is kept; nowhere without a `checkpoint_dir`."""
    group = find_process_group()
    return open_checkpoints(config.storage.checkpoint_dir, config.storage.checkpoint_every, resume, group, config.given)


def check_memory(config: FitConfig, codes: Codes) -> None:
    """Refuse more terms, or more scores of main effects to screen interactions with, than memory could hold."""
    plan, n_outputs, n_rows = codes.plan, codes.loss.n_outputs, len(codes.sample.y)
    # The smallest useful table with what training holds beside it; then scores beside those of the members.
    bytes_per_term, bytes_per_score = 16 * 4 * 8, 28 + 4 * config.outer_bags
    here = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else math.inf
    for order, kind, count in ((2, "pairs", plan.n_pairs), (3, "triples", plan.n_triples)):
        n_terms = min(math.comb(len(plan.features), order), count)
        needed = bytes_per_term * n_terms * count_channels(config, n_terms, n_outputs)
        if needed > here:
            raise ValueError(
                f"{n_terms:,} {kind} of {len(plan.features):,} columns would take about {needed / 1e9:,.0f} GB, but "
                f"this machine has {here / 1e9:,.0f} GB; ask for a number of {kind}, such as 100, or list them by name"
            )
    needed = bytes_per_score * n_rows * n_outputs
    has_scores = config.network.staged or plan.must_search
    if (plan.listed or plan.n_pairs or plan.n_triples) and has_scores and needed > here:
        raise ValueError(
            f"interactions build on the scores of main effects, which for {n_rows:,} rows and {n_outputs:,} classes "
            f"would take about {needed / 1e9:,.0f} GB, but this machine has {here / 1e9:,.0f} GB; set interactions=0, "
            "or list them and set staged=False, which trains all terms at once"
        )


def check_saving(config: FitConfig, codes: Codes) -> None:
    """Refuse a model that no file could hold."""
    check_labels(codes.classes)
    plan, n_outputs, n_features = codes.plan, codes.loss.n_outputs, len(codes.plan.features)
    n_found = [min(math.comb(n_features, order), n) for order, n in ((2, 2 * plan.n_pairs), (3, plan.n_triples))]
    n_terms = n_features + len(plan.listed) + sum(n_found)  # weak pairs are as many as strong ones
    whole = codes.encoder if codes.whole is None else codes.whole
    check_columns(whole.axes, config.given, 0 if codes.wide else n_terms)
    if codes.wide:
        orders = [1, *map(len, plan.listed), *(order for order, count in zip((2, 3), n_found, strict=True) if count)]
        n_interactions = len(plan.listed) + sum(n_found)
        n_numbers = WIDE_BASES[1] * n_features + max(WIDE_BASES[2], WIDE_BASES[3]) * n_interactions
        check_size(8.0 * n_numbers * n_outputs, max((WIDE_KNOTS[order] + 3) ** order for order in orders) * n_outputs)
    elif not choose_tied(config, n_terms, n_outputs):
        n_cells = sum(codes.encoder.axes[feature].n_cells for feature in plan.features)
        check_size(n_cells * n_outputs * (12.0 + 4.0 * config.outer_bags))  # scores, spread, members


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
