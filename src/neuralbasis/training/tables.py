"""Tables that can be fitted: rows in memory, and files that are larger than memory.

A table opens to a source, which knows the names of its columns, its rows and its classes, encodes itself on axes, and
compiles what was trained to a model. `fit` asks nothing else of it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from .. import kernels
from ..config import FitConfig
from ..data.columns import Columns
from ..data.files import Source
from ..data.memory import Division, Load, count_rows_in_memory, divide_rows, read_limit
from ..data.sparse import SparseMatrix, is_present, to_sparse
from ..data.target import Sample, check_weight_sum, order_rows, tidy_rows
from ..distributed.process_group import ProcessGroup, find_process_group
from ..encoding.axis import Axis, unused_axis
from ..encoding.disk_cache import Cache, CacheFolder, make_cache
from ..encoding.encoder import Encoder, settle_texts
from ..encoding.profile import LoadedTable, Profile, ProfileOptions, Roles, make_profile, read_table
from ..encoding.sparse_codes import pool_axis
from ..losses.loss import Loss, choose_loss
from ..model.additive_model import AdditiveModel
from ..model.summary import Summary
from ..terms.features import select_columns
from ..terms.term import Plan
from .block_loader import BlockLoader
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .codes import Codes
from .defaults import WIDE_KNOTS, choose_tied, count_terms
from .present import has_few_present
from .rows import Rows, place_rows
from .schedule import Ensemble


class TableSource(Protocol):
    """A table that has been opened."""

    @property
    def names(self) -> Sequence[str]: ...
    @property
    def n_rows(self) -> int: ...
    @property
    def classes(self) -> np.ndarray | None: ...  # None for a regression
    @property
    def target(self) -> str | None: ...  # name of the target, if it has one
    def kinds(self, config: FitConfig, plan: Plan) -> Collection[str]: ...  # "wide", "update": see `config.UNREAD`
    def encode(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes: ...
    def compile(self, ensemble: Ensemble, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel: ...


class TrainingTable(Protocol):
    """A table that can be fitted."""

    def open(
        self, config: FitConfig, group: ProcessGroup, seed: int, checkpointer: Checkpointer
    ) -> AbstractContextManager[TableSource]: ...


class InMemory:
    """Names and rows of a table whose columns are in memory."""

    columns: Columns

    @property
    def names(self) -> Sequence[str]:
        return self.columns.names

    @property
    def n_rows(self) -> int:
        return self.columns.n_rows


@dataclass(frozen=True, eq=False)
class MemoryTable(InMemory):
    """Columns in memory with their target; every process has all of them."""

    columns: Columns
    sample: Sample
    classes: np.ndarray | None
    target: str | None = None

    @contextmanager
    def open(
        self, config: FitConfig, group: ProcessGroup, seed: int, checkpointer: Checkpointer
    ) -> Iterator[MemoryTable]:
        """The same table with text columns read as numbers where they hold numbers."""
        columns = settle_texts(self.columns, config.feature_types, self.sample.weights)
        check_processes(config, columns, group)
        yield replace(self, columns=columns)

    def kinds(self, config: FitConfig, plan: Plan) -> Collection[str]:
        return ["wide"] if self._is_wide(config, plan) else []

    def encode(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        if self._is_wide(config, plan):
            return self._share_axis(config, plan, rng)
        if config.network.engine == "exact" and self._has_few_present(config, plan):
            return replace(self, columns=self._store(config))._encode_present(config, plan, rng)
        return self._encode(config, plan, rng)

    def _encode_present(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        """Codes of a large sparse table for the exact engine: with main effects alone, no column is left out."""
        plain = replace(plan, n_pairs=0) if plan.is_automatic and not plan.n_triples else plan
        n_outputs = 1 if self.classes is None or len(self.classes) == 2 else len(self.classes)
        has_one_shape = n_outputs == 1 or choose_tied(config, len(plan.features), n_outputs)
        has_mains_only = not (plain.listed or plain.n_pairs or plain.n_triples)
        if has_one_shape and has_mains_only and config.max_terms == "auto":
            config = replace(config, max_terms=None)
        return self._encode(config, plain if has_one_shape else plan, rng)

    def _encode(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        """Codes of columns with axes of their own."""
        if len(plan.features) > count_terms(config, self.n_rows):
            return self._select_columns(config, plan, rng)
        encoder = fit_encoder(self.columns, self.sample, config)
        numbers, tidy = tidy_rows(encoder.numbers(self.columns), self.sample, encoder.names)
        return self._make_codes(encoder, numbers, tidy, plan, *place_sample(tidy, self.classes, config, rng))

    def compile(self, ensemble: Ensemble, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        return codes.widen(ensemble.compile(codes, config, summary))

    def _make_codes(
        self, encoder: Encoder, numbers: np.ndarray | SparseMatrix, sample: Sample, plan: Plan, loss: Loss, rows: Rows
    ) -> Codes:
        known = self.classes, self.n_rows, len(self.columns)
        return Codes(encoder, numbers, sample, loss, rows, plan, *known)

    def _is_wide(self, config: FitConfig, plan: Plan) -> bool:
        """Whether terms are trained in low rank: 20,000 terms × outputs, and at most a tenth of the values present.

        The rule reads what the table holds, not its container. Other bases, engines and scalings need whole tables.
        """
        columns, n_classes = self.columns, 2 if self.classes is None else len(self.classes)
        network = config.network
        plain = network.scaling is None and network.engine == "grid" and network.basis == "mlp"
        plain = plain and not network.tied_classes and str(config.device) == "cpu"
        if not plain or columns.columns is not None or config.feature_types is not None:
            return False
        if (len(plan.features) + len(plan.listed)) * max(1, n_classes - 1) < 20_000:
            return False
        return self._count_present(config) <= (1 - 0.9) * columns.n_rows * len(columns)

    def _has_few_present(self, config: FitConfig, plan: Plan) -> bool:
        """Whether the exact engine reads present values only, see `present.has_few_present`."""
        if self.columns.columns is not None or config.feature_types is not None or str(config.device) != "cpu":
            return False
        n_columns = len(self.columns)
        return len(plan.features) >= 1000 and has_few_present(self._count_present(config), self.n_rows, n_columns)

    def _count_present(self, config: FitConfig) -> int:
        if self.columns.sparse is not None:
            return len(self.columns.sparse.value)
        assert self.columns.matrix is not None
        return int(is_present(self.columns.matrix, config.storage.absent_value).sum())

    def _store(self, config: FitConfig) -> Columns:
        """The columns as a sparse matrix."""
        if self.columns.sparse is not None:
            return self.columns
        assert self.columns.matrix is not None
        return replace(self.columns, matrix=None, sparse=to_sparse(self.columns.matrix, config.storage.absent_value))

    def _share_axis(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        """Codes of a very wide sparse table: one axis for all columns."""
        if plan.is_automatic and not plan.n_triples:
            plan = replace(plan, n_pairs=0)  # pairs of a wide table are searched on request only
        stored = self._store(config).sparse
        assert stored is not None
        weights = None if (self.sample.weights == 1).all() else self.sample.weights
        axis = pool_axis(stored, weights, max_knots=min(config.max_bins, WIDE_KNOTS[1]))
        encoder = Encoder(tuple(Axis(name, axis.kind, axis.knots, axis.places) for name in self.names))
        numbers, tidy = tidy_rows(stored, self.sample, self.names)
        loss, rows = place_sample(tidy, self.classes, config, rng)
        low, high = 1e-25, 1e15
        if not low <= loss.unit <= high:
            raise ValueError(
                f"the target's standard deviation is {loss.unit:.1e}, but a model of a very wide sparse table keeps "
                f"its coefficients in single precision, from {low:.0e} to {high:.0e}; multiply the target by a constant"
            )
        return replace(self._make_codes(encoder, numbers, tidy, plan, loss, rows), wide=True)

    def _select_columns(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        """Codes of the columns with the strongest effects and of listed interactions; others get no axis."""
        columns, is_plain = self.columns, self.columns.columns is None and config.feature_types is None
        whole = None if is_plain else fit_encoder(columns, self.sample, config)
        plain = columns.matrix if columns.sparse is None else columns.sparse
        numbers = plain if whole is None else whole.numbers(columns)
        assert numbers is not None
        order, tidy = order_rows(numbers, self.sample, columns.names)
        loss, rows = place_sample(tidy, self.classes, config, rng)
        split = rows
        if not bool(rows.held_out.any()):  # hold a seventh out for the selection alone
            child = rng.spawn(1)[0]
            split = place_rows(tidy, loss, max(3, config.outer_bags), 1 / 7, child, config.device)
        found = select_columns(
            numbers, np.arange(columns.n_rows)[order], -loss.first_slope(tidy), tidy.weights,
            split.held_out.cpu().numpy(), columns.names, plan.features,
            None if isinstance(config.max_terms, str) else config.max_terms, kernels.count_threads(config.n_jobs),
            rng.spawn(1)[0],
        )  # fmt: skip
        plan, features = plan.restrict(found.features.tolist())
        few = columns.take(features)
        encoder = fit_encoder(few, self.sample, config) if whole is None else whole.take(features)
        if whole is None:
            axes = dict(zip(features, encoder.axes, strict=True))
            whole = Encoder(tuple(axes.get(f) or unused_axis(name) for f, name in enumerate(columns.names)))
        if bool(rows.held_out.any()):  # members use the columns they selected, and all that only interactions need
            selected = dict(zip(found.features.tolist(), found.member_mask, strict=True))
            everyone = np.ones(found.member_mask.shape[1], dtype=bool)
            mask = np.stack([selected.get(feature, everyone) for feature in features])
            rows = replace(rows, member_mask=None if mask.all() else torch.from_numpy(mask))
        codes = self._make_codes(encoder, encoder.numbers(few)[order], tidy, plan, loss, rows)
        return replace(codes, features=features, whole=whole)


@dataclass(frozen=True, eq=False)
class FileTable:
    """Files that are larger than memory: two passes, then training from a cache on disk."""

    source: Source
    roles: Roles

    @contextmanager
    def open(
        self, config: FitConfig, group: ProcessGroup, seed: int, checkpointer: Checkpointer
    ) -> Iterator[CachedTable]:
        """The first pass: axes, rows and classes. What needs the whole table in memory is refused."""
        n_columns = len(self.roles.features)
        if config.network.engine == "exact":
            raise ValueError(
                "engine='exact' needs the table in memory, but it is larger than memory_limit; set engine='grid'"
            )
        if isinstance(config.max_terms, int) and config.max_terms < n_columns:
            raise ValueError(
                f"max_terms={config.max_terms} needs the table in memory to choose among {n_columns:,} columns, but it "
                "is larger than memory_limit; list the columns to take in feature_names"
            )
        with open_folder(config, self.source, group) as folder:
            threads, path = kernels.count_threads(config.n_jobs), config.storage.cache_path
            options = ProfileOptions(
                config.feature_types, config.network.axis_scaling, config.max_bins, bool(config.verbose)
            )
            profile = make_profile(self.source, self.roles, config.classifier, options, group, threads, path)
            check_weight_sum(profile.weight_sum)
            limit = choose_limit(config, checkpointer, group)
            yield CachedTable(self.source, profile, folder, group, seed, limit)


@dataclass(frozen=True, eq=False)
class CachedTable:
    """Files after the first pass."""

    source: Source
    profile: Profile
    folder: CacheFolder
    group: ProcessGroup
    seed: int
    limit: int

    @property
    def names(self) -> Sequence[str]:
        return self.profile.roles.features

    @property
    def n_rows(self) -> int:
        return self.profile.n_rows

    @property
    def classes(self) -> np.ndarray | None:
        return self.profile.classes

    @property
    def target(self) -> str:
        return self.profile.roles.target

    def kinds(self, config: FitConfig, plan: Plan) -> Collection[str]:
        return []

    def encode(self, config: FitConfig, plan: Plan, rng: np.random.Generator) -> Codes:
        """The second pass: numbers on disk; a random sample of the rows stays in memory and stands for all."""
        profile, division = self.profile, self._divide(config, plan)
        cache = self._find_cache(config, division)
        block = cache.read_sample(self.group)
        numbers, tidy = tidy_rows(block.numbers, Sample(block.y, block.weights), profile.encoder.names)
        if profile.classes is not None and len(found := np.unique(tidy.y)) < 2:
            raise ValueError(
                f"all of {len(tidy.y):,} random rows have class {profile.classes[found[0]]!r} of the target "
                f"{self.target!r}; give more memory, or fewer rows of this class"
            )
        loss, rows = place_sample(tidy, profile.classes, config, rng)
        weight = profile.weight_sum / tidy.weights.sum() if len(tidy.y) < profile.n_rows else 1.0
        rows = replace(rows, n_effective=profile.weight_sum if profile.whole_weights else float(profile.n_rows))
        tidy = replace(tidy, weights=weight * tidy.weights)
        mean_weight, threads = profile.weight_sum / profile.n_rows, kernels.count_threads(config.n_jobs)
        loader = BlockLoader(cache, self.group, profile.n_rows, mean_weight, self.seed, threads)
        return Codes(
            profile.encoder, numbers, tidy, loss, rows, plan, profile.classes, profile.n_rows, len(self.names),
            loader=loader if division.n_pools else None,
        )  # fmt: skip

    def compile(self, ensemble: Ensemble, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        return ensemble.compile(codes, config, summary)

    def _divide(self, config: FitConfig, plan: Plan) -> Division:
        """How many rows stay in memory, and into how many parts the others are divided."""
        n_columns, n_classes = len(self.profile.types), 1 if self.classes is None else len(self.classes)
        n_outputs = 1 if n_classes == 2 else n_classes
        has_pairs, has_triples = plan.n_pairs or plan.list_requested(2), plan.n_triples or plan.list_requested(3)
        more_axes = n_columns * (bool(has_pairs) + bool(has_triples))
        load = Load(n_columns, more_axes, config.outer_bags, config.outer_bags * n_outputs)
        return divide_rows(self.n_rows, load, self.limit, self.group.size)

    def _find_cache(self, config: FitConfig, division: Division) -> Cache:
        """The cache: in the folder if this fit may write there or finds it there, otherwise in a private folder."""
        folder = self.folder

        def make() -> Cache:
            sizes, threads = (1 + division.n_pools, self.seed, self.group), kernels.count_threads(config.n_jobs)
            elsewhere = None if folder.is_own else folder.keep_apart
            return make_cache(
                self.source, self.profile, folder.path, *sizes, threads, config.verbose, division.n_sample, elsewhere
            )  # fmt: skip

        if not folder.is_own or folder.is_private:
            return make()
        make()
        folder.share()
        return make()  # found, unless another fit replaced it before it was shared


def read_in_memory(
    config: FitConfig, source: Source, roles: Roles, checkpointer: Checkpointer = NO_CHECKPOINTS
) -> LoadedTable | None:
    """The whole table if a fit to it stays below the limit; None if not, or if every process has rows of its own."""
    group = find_process_group()
    if source.local and group.size > 1:
        return None
    limit = choose_limit(config, checkpointer, group)
    return read_table(source, roles, count_rows_in_memory(len(roles.features), limit))


def choose_limit(config: FitConfig, checkpointer: Checkpointer, group: ProcessGroup) -> int:
    """Bytes that a process may hold: as given, or what was free when the fit began."""
    limit = group.agree(read_limit(config.storage.memory_limit))
    return checkpointer.choose("limit", limit) if config.storage.memory_limit is None else limit


def check_processes(config: FitConfig, columns: Columns, group: ProcessGroup) -> None:
    """All processes of a fit must have the same table in memory."""
    sizes = group.gather((columns.n_rows, columns.names))
    if other := next((size for size in sizes if size != sizes[0]), None):
        raise ValueError(
            f"{group.size} processes fit one model together, so all of them must have the same table, but one has "
            f"{sizes[0][0]:,} rows × {len(sizes[0][1]):,} columns and another {other[0]:,} × {len(other[1]):,}"
        )
    if group.size > 1 and config.network.engine == "exact":
        raise ValueError(
            "engine='exact' trains in one process: its tables are those of a batch; set engine='grid', or start one "
            f"process instead of {group.size}"
        )


@contextmanager
def open_folder(config: FitConfig, source: Source, group: ProcessGroup) -> Iterator[CacheFolder]:
    """The folder of the cache, a temporary one if none is given; emptied at the end unless the cache is to be kept.

    A fit with checkpoints that fails leaves the cache for the fit that resumes it.
    """
    path = config.storage.cache_path or Path(tempfile.mkdtemp(prefix="neuralbasis-"))
    folder, is_over = CacheFolder(path, group), False
    try:
        if not group.agree(source.fingerprint()):  # no way to know whether a cache holds these rows
            folder.keep_apart()
        yield folder
        is_over = True
    finally:
        folder.close(config.storage.keep_cache or not (is_over or config.storage.checkpoint_dir is None))


def place_sample(
    sample: Sample, classes: np.ndarray | None, config: FitConfig, rng: np.random.Generator
) -> tuple[Loss, Rows]:
    """The loss, and the rows as tensors with those that each member holds out."""
    loss = choose_loss(sample, classes)
    copies = not config.network.plain_training
    return loss, place_rows(sample, loss, config.outer_bags, config.validation_size, rng, config.device, copies)


def fit_encoder(columns: Columns, sample: Sample, config: FitConfig) -> Encoder:
    weights = None if (sample.weights == 1).all() else sample.weights
    return Encoder.fit(columns, weights, config.feature_types, config.network.axis_scaling, config.max_bins)
