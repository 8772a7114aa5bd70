"""fit_source: the line of data of a table that is read in pieces, from files to an AdditiveModel.

source -> profile (axes) -> cache on disk -> bench (in memory for good) and pools -> stages of terms -> compile

Several processes share the pieces, and each has its own part of the cache. A table that fits in memory is read into it,
and takes the way of `fitting`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .. import kernels
from ..config import check_memory, count_numbers, make_plan, settle, warn_unread
from ..data.files import Source
from ..data.memory import Division, Load, count_rows_in_memory, divide_rows, read_limit
from ..data.target import check_weight_sum
from ..distributed.process_group import ProcessGroup, find_process_group
from ..encoding.cache_folder import CacheFolder
from ..encoding.disk_cache import Cache, make_cache
from ..encoding.loading import LoadedTable, read_sample_rows, read_table
from ..encoding.profile import Profile, Roles, make_profile
from ..model.additive_model import AdditiveModel
from ..model.summary import list_changed
from ..serialization.model_file import check_labels
from ..terms.term import Plan, Ranked
from .block_loader import BlockLoader
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .checkpoints import describe_fit
from .compile import compile_model
from .fit import check_saving, draw_seed, fit_terms, seeded_dropout, summarize
from .history import History
from .loop import training_threads
from .prepare import take_sample_rows
from .schedule import Trainer


def read_in_memory(
    parameters: Any, source: Source, roles: Roles, checkpointer: Checkpointer = NO_CHECKPOINTS
) -> LoadedTable | None:
    """The whole table, if a fit to it stays below the limit; not where every process has rows of its own."""
    group = find_process_group()
    if source.local and group.size > 1:
        return None
    limit = choose_limit(parameters, checkpointer, group)
    return read_table(source, roles, count_rows_in_memory(len(roles.features), limit))


def fit_source(
    parameters: Any, source: Source, roles: Roles, is_classifier: bool, checkpointer: Checkpointer = NO_CHECKPOINTS
) -> tuple[AdditiveModel, History, list[Ranked]]:
    """Fit with an estimator's parameters (checked before) in two passes over a source, and from its cache."""
    check_way(parameters, roles)
    with open_folder(parameters, source, find_process_group()) as folder:
        return fit_from_folder(parameters, source, roles, is_classifier, checkpointer, folder)


def fit_from_folder(
    parameters: Any, source: Source, roles: Roles, is_classifier: bool, checkpointer: Checkpointer, folder: CacheFolder
) -> tuple[AdditiveModel, History, list[Ranked]]:
    """The same, with the cache in this folder."""
    estimator, group, started = parameters, find_process_group(), time.monotonic()
    if group.rank == 0:
        warn_unread(parameters, list_changed(parameters), stacklevel=5)
    seed, threads = checkpointer.choose("seed", draw_seed(parameters, group)), kernels.count_threads(parameters.n_jobs)
    profile = make_profile(source, roles, is_classifier, parameters, group, threads, choose_folder(parameters))
    check_labels(profile.classes)
    check_weight_sum(profile.weight_sum)
    plan, rng = make_plan(parameters, roles.features, profile.classes, profile.n_rows), np.random.default_rng(seed)
    n_numbers = count_numbers(parameters, plan, profile.classes, profile.n_rows)
    parameters = settle(parameters, profile.n_rows, False, n_numbers, group.rank)
    limit = choose_limit(parameters, checkpointer, group)
    division = divide(parameters, profile, plan, limit, group)
    cache = find_cache(parameters, source, profile, division, seed, folder, group)
    supply = BlockLoader(cache, group, profile.n_rows, profile.weight_sum / profile.n_rows, seed, threads)
    with training_threads(), seeded_dropout(rng):
        start = take_sample_rows(read_sample_rows(cache, group), profile, plan, parameters, rng)
        check_memory(parameters, plan, start.objective.n_outputs, len(start.sample.y))
        check_saving(estimator, parameters, start)
        checkpointer.check(describe_fit(estimator.get_params(deep=False), roles.features, start.numbers, start.sample))
        known = parameters, start.encoder, start.numbers, start.sample, start.objective, start.rows, rng, group
        trainer = Trainer(*known, checkpointer, supply if division.n_pools else None)
        trainer.history.started = started
        ranking = fit_terms(trainer, plan)
        checkpointer.finish()
    summary = summarize(
        estimator, profile.n_rows, len(roles.features), roles.target, start.objective, trainer.history
    )  # fmt: skip
    rest = start.objective, profile.classes, parameters.n_jobs, summary
    model = compile_model(trainer.stages, start.encoder, *rest).measure(start.numbers, start.sample.weights)
    return model, trainer.history, ranking


def choose_limit(parameters: Any, checkpointer: Checkpointer, group: ProcessGroup) -> int:
    """Bytes that a process may hold: as given, or as the fit that goes on found them free."""
    limit = group.agree(read_limit(parameters.memory_limit))
    return checkpointer.choose("limit", limit) if parameters.memory_limit is None else limit


def check_way(parameters: Any, roles: Roles) -> None:
    """What a table must be in memory for."""
    if parameters.engine == "exact":
        raise ValueError(
            "engine='exact' needs the table in memory, but it is larger than memory_limit; set engine='grid'"
        )
    if isinstance(parameters.max_terms, int) and parameters.max_terms < len(roles.features):
        raise ValueError(
            f"max_terms={parameters.max_terms} needs the table in memory to choose among {len(roles.features):,} "
            "columns, but it is larger than memory_limit; list the columns to take in feature_names"
        )


def divide(parameters: Any, profile: Profile, plan: Plan, limit: int, group: ProcessGroup) -> Division:
    """How the rows are divided, so that every process stays below the limit."""
    n_columns, n_classes = len(profile.types), 1 if profile.classes is None else len(profile.classes)
    n_outputs = 1 if n_classes == 2 else n_classes
    more_axes = n_columns * (
        bool(plan.n_pairs or plan.list_requested(2)) + bool(plan.n_triples or plan.list_requested(3))
    )
    load = Load(n_columns, more_axes, parameters.outer_bags, parameters.outer_bags * n_outputs)
    return divide_rows(profile.n_rows, load, limit, group.size)


def find_cache(
    parameters: Any,
    source: Source,
    profile: Profile,
    division: Division,
    seed: int,
    folder: CacheFolder,
    group: ProcessGroup,
) -> Cache:
    """The cache, in the folder if this fit may write to it or finds it there, and otherwise apart from others."""

    def make() -> Cache:
        sizes, threads = (1 + division.n_pools, seed, group), kernels.count_threads(parameters.n_jobs)
        elsewhere = None if folder.is_own else folder.keep_apart
        return make_cache(
            source, profile, folder.path, *sizes, threads, parameters.verbose, division.n_sample, elsewhere
        )  # fmt: skip

    if not folder.is_own or folder.is_private:
        return make()
    make()
    folder.share()
    return make()  # is found, unless another fit replaced it before it was shared


@contextmanager
def open_folder(parameters: Any, source: Source, group: ProcessGroup) -> Iterator[CacheFolder]:
    """The folder of the cache, a temporary one if none is given; emptied at the end, unless the cache is to be kept.

    A fit with checkpoints that fails leaves the cache to the one that goes on.
    """
    path = choose_folder(parameters) or Path(tempfile.mkdtemp(prefix="neuralbasis-"))
    folder, is_over = CacheFolder(path, group), False
    try:
        if not group.agree(source.fingerprint()):  # nobody could tell whether a cache is one of these rows
            folder.keep_apart()
        yield folder
        is_over = True
    finally:
        folder.close(parameters.keep_cache or not (is_over or parameters.checkpoint_dir is None))


def choose_folder(parameters: Any) -> Path | None:
    """Where the cache lies: where it is requested, or beside the checkpoints; None for nowhere in particular."""
    if parameters.cache_dir is not None:
        return Path(parameters.cache_dir)
    return None if parameters.checkpoint_dir is None else Path(parameters.checkpoint_dir, "cache")
