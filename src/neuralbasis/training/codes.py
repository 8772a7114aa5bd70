"""Codes: what training starts from. Axes of the columns that take part, their numbers in canonical rows, the target,
the rows that each member holds out, and the planned terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..data.sparse import SparseMatrix
from ..data.target import Sample
from ..encoding.encoder import Encoder
from ..encoding.layout import Layout
from ..losses.loss import Loss
from ..model.additive_model import AdditiveModel
from ..model.shapes import LowRankShape
from ..terms.term import Plan, Ranked, Term
from .block_loader import BlockLoader
from .rows import Rows


@dataclass(frozen=True, eq=False)
class Codes:
    """What training starts from.

    encoder : axes of the columns that take part
    numbers : (N, D) raw numbers of the rows on these axes
    sample, loss, rows : target, weights and given scores; what is minimised; the rows as tensors
    plan : terms to train
    classes : labels, None for a regression
    n_given, n_columns : rows and columns of the whole table, before rows of weight 0 are dropped
    features, whole : places of the columns in the whole table, and the axes of all; None if all columns take part
    loader : the rows that do not fit in memory; the rows here are then a random sample of the table
    wide : whether the table is very wide and sparse, with one axis for all columns
    layout : terms and knots of the model that is updated; None for a new model
    usual : prior mean of what is kept of the tables that learners propose
    """

    encoder: Encoder
    numbers: np.ndarray | SparseMatrix
    sample: Sample
    loss: Loss
    rows: Rows
    plan: Plan
    classes: np.ndarray | None
    n_given: int
    n_columns: int
    features: Sequence[int] | None = None
    whole: Encoder | None = None
    loader: BlockLoader | None = None
    wide: bool = False
    layout: Layout | None = None
    usual: float = 1.0

    @property
    def n_rows(self) -> int:
        """Rows that are trained on."""
        return len(self.numbers) if self.loader is None else self.loader.n_rows

    def widen(self, model: AdditiveModel) -> AdditiveModel:
        """A model of the columns that take part as one of the whole table."""
        if self.whole is None:
            return model
        tables = [shape for shape in model.shapes if not isinstance(shape, LowRankShape)]
        shapes = tuple(replace(shape, term=self._widen_term(shape.term)) for shape in tables)
        return replace(model, encoder=self.whole, shapes=shapes)

    def widen_ranked(self, ranked: Ranked) -> Ranked:
        return ranked._replace(features=self._widen_term(ranked.features))

    def _widen_term(self, term: Term) -> Term:
        return term if self.features is None else tuple(self.features[feature] for feature in term)
