"""Codes: what training starts from. Axes of the columns that take part, their numbers in canonical rows, the target,
the rows that each member holds out, and the planned terms. `Run`: what every step of a fit needs beside the data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .. import kernels
from ..config import FitConfig
from ..data.sparse import SparseMatrix
from ..data.target import Sample
from ..distributed.process_group import SINGLE_PROCESS, ProcessGroup
from ..encoding.axis import Axis
from ..encoding.encoder import Encoder
from ..encoding.layout import Layout, lay_out
from ..losses.loss import Loss
from ..model.additive_model import AdditiveModel
from ..model.factors import Factors
from ..model.shapes import LowRankShape, renumber
from ..terms.term import Plan, Ranked, Term
from .block_loader import BlockLoader
from .checkpointer import NO_CHECKPOINTS, Checkpointer
from .history import History
from .rows import Rows


@dataclass(frozen=True, eq=False)
class Run:
    """What every step of a fit needs: parameters, random numbers, processes, checkpoints, and the history it writes."""

    config: FitConfig
    rng: np.random.Generator
    group: ProcessGroup = SINGLE_PROCESS
    checkpointer: Checkpointer = NO_CHECKPOINTS
    history: History = field(default_factory=History)

    @property
    def threads(self) -> int:
        return kernels.count_threads(self.config.n_jobs)

    @property
    def is_over(self) -> bool:
        """Whether no further stage may be trained."""
        return self.history.stopped_by in ("time_limit", "callback")


@dataclass(frozen=True, eq=False)
class Codes:
    """What training starts from."""

    encoder: Encoder  # axes of the columns that take part
    numbers: np.ndarray | SparseMatrix  # (N, D) raw numbers of the rows on these axes
    sample: Sample  # target, weights and given scores
    loss: Loss
    rows: Rows  # the sample as tensors
    plan: Plan  # terms to train
    classes: np.ndarray | None  # labels, None for a regression
    n_given: int  # rows of the whole table, before rows of weight 0 are dropped
    n_columns: int  # columns of the whole table
    features: Sequence[int] | None = None  # places of the columns in the whole table; None if all take part
    whole: Encoder | None = None  # axes of the whole table; None if all columns take part
    loader: BlockLoader | None = None  # rows that do not fit in memory; the rows here are then a random sample
    wide: bool = False  # very wide and sparse, with one axis for all columns
    layout: Layout | None = None  # terms and knots of the model that is updated; None for a new model
    factors: Sequence[Factors] = ()  # of the wide model that is updated
    usual: float = 1.0  # prior mean of what is kept of the tables that learners propose
    found_positions: list[Any] = field(default_factory=list)  # of `find_positions`, which computes them once

    @property
    def n_rows(self) -> int:
        """Rows that are trained on."""
        return len(self.numbers) if self.loader is None else self.loader.n_rows

    def find_positions(self, threads: int, features: Sequence[int] | None = None) -> Any:
        """(N, D) positions of the rows on the own axes of all columns or of some; sparse for sparse numbers."""
        if self.wide and features is not None:  # without the axes of all columns
            assert isinstance(self.numbers, SparseMatrix)
            return self._locate([self.encoder.axes[f] for f in features], self.numbers.select(features), threads)
        if not self.found_positions:
            self.found_positions.append(self._locate(self.encoder.axes, self.numbers, threads))
        found = self.found_positions[0]
        if features is None or len(features) == len(self.encoder.axes):
            return found
        return found[:, features] if isinstance(found, np.ndarray) else found.select(features)

    def _locate(self, axes: Sequence[Axis], numbers: np.ndarray | SparseMatrix, threads: int) -> Any:
        return lay_out(axes, [(feature,) for feature in range(len(axes))], {}).encode(numbers, threads)

    def encode(self, layout: Layout, threads: int) -> Any:
        """Positions (N, A) of the rows on the axes of a layout; those on the columns' own axes are found only once."""
        n_own = len(self.encoder.axes)
        has_own = all(axis is own for axis, own in zip(layout.axes, self.encoder.axes, strict=False))
        if has_own and len(layout.axes) == n_own:
            return self.find_positions(threads)
        if not has_own or isinstance(self.numbers, SparseMatrix):
            return layout.encode(self.numbers, threads)
        own = slice(n_own, None)
        others = replace(
            layout, axes=layout.axes[own], axis_column=layout.axis_column[own], axis_start=layout.axis_start[own],
            axis_level=layout.axis_level[own], guide_start=layout.guide_start[own], guide_line=layout.guide_line[own],
        )  # fmt: skip
        return np.concatenate([self.find_positions(threads), others.encode(self.numbers, threads)], axis=1)

    def widen(self, model: AdditiveModel) -> AdditiveModel:
        """A model of the columns that take part as one of the whole table."""
        if self.whole is None:
            return model
        tables = [shape for shape in model.shapes if not isinstance(shape, LowRankShape)]
        features = range(len(self.whole.axes)) if self.features is None else self.features
        numbers = dict(enumerate(features))
        return replace(model, encoder=self.whole, shapes=tuple(renumber(shape, numbers) for shape in tables))

    def widen_ranked(self, ranked: Ranked) -> Ranked:
        return ranked._replace(features=self._widen_term(ranked.features))

    def _widen_term(self, term: Term) -> Term:
        return term if self.features is None else tuple(self.features[feature] for feature in term)
