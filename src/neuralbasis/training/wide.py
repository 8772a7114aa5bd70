"""WideTrainer: trains wide sparse tables, in which nearly all values are one absent value.

sparse matrix -> one shared axis -> sparse codes -> LowRankNet -> Factors -> AdditiveModel

All columns share the axis, and every term is zero where a feature is absent: a row costs as much as it has stored
values. Interactions must be requested by name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
import torch

from .. import kernels
from ..config import FitConfig
from ..data.sparse import SparseMatrix
from ..encoding.axis import Axis
from ..encoding.sparse_codes import CodeFinder, SparseCodes, coarsen_axis
from ..model.additive_model import AdditiveModel
from ..model.factors import Factors
from ..model.shapes import make_shapes
from ..model.summary import Summary
from ..terms.term import Plan, Ranked, Term
from .batches import Batches
from .codes import Codes
from .defaults import WIDE_GAIN, WIDE_KNOTS, make_learning_rates, make_wide_basis, make_wide_settings
from .loop import run_loop
from .low_rank import LowRankMembers, LowRankNet, count_mass
from .run import Run


class WideTrainer:
    """Trains all terms of a wide table at once; see `Trainer` for other tables."""

    def __init__(self, codes: Codes, run: Run):
        assert isinstance(codes.numbers, SparseMatrix)
        self.config, self.encoder, self.matrix, self.sample = run.config, codes.encoder, codes.numbers, codes.sample
        self.loss, self.rows, self.rng, self.group = codes.loss, codes.rows, run.rng, run.group
        self.checkpointer, self.history = run.checkpointer, run.history
        self.ranking: list[Ranked] = []
        self.threads = kernels.count_threads(run.config.n_jobs)

    def compile(self, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        """The model: factors, shapes that read them, and the score of a row without values."""
        shapes = make_shapes(self.factors, self.encoder)
        link = self.loss.link
        return AdditiveModel(self.encoder, self.intercept, shapes, link, codes.classes, config.n_jobs, summary)

    def fit(self, plan: Plan) -> None:
        """Train main effects and the listed interactions; `factors` is the result."""
        terms = [*plan.mains, *plan.listed]
        self.factors = self._fit(terms)
        n_terms = self.config.max_terms
        if isinstance(n_terms, int) and n_terms < len(plan.features) and not self._is_over():
            self.history.clear()
            self.factors = self._fit([*self._list_strongest(n_terms), *plan.listed])

    def _list_strongest(self, count: int) -> list[Term]:
        """Main effects of the most important columns; ties in the order of names."""
        mains, names = self.factors[0], self.encoder.names
        strength = mains.importances.mean(axis=1)
        features = mains.finder.features[:, 0].tolist()
        order = sorted(range(len(features)), key=lambda t: (-strength[t], names[features[t]]))
        return [(features[t],) for t in order[:count]]

    def _fit(self, terms: Sequence[Term]) -> list[Factors]:
        """Train these terms together."""
        finders = self._make_finders(terms)
        codes = {order: finder.find(self.matrix, self.threads) for order, finder in finders.items()}
        net = self._make_net(finders, codes)
        rounds = make_wide_settings(self.config, len(self.matrix), int(self.rows.copies.sum()))
        rates = make_learning_rates(self.config)
        members = LowRankMembers(net, codes, self.rows, self.loss, rounds[0], rates, self.threads)
        for settings in rounds if members.validates else rounds[:1]:
            before = self._best_loss()
            members.begin(settings)
            batches = Batches(repeat(self.rows), settings.batch_size, settings.max_steps, self.rng)
            run_loop(members, batches, settings, self.history, self.group, self.checkpointer)
            if self._is_over() or self._best_loss() > (1 - WIDE_GAIN) * before:
                break
        members.apply_scale()
        self.intercepts = net.intercept.detach().double().numpy()
        return [self._read(net, order, found) for order, found in codes.items()]

    def _best_loss(self) -> float:
        return self.history.validation[self.history.best] if self.history.best >= 0 else math.inf

    def _is_over(self) -> bool:
        return self.history.stopped_by in ("time_limit", "callback")

    def _make_finders(self, terms: Sequence[Term]) -> dict[int, CodeFinder]:
        """The terms of each order. Names, not the order of columns, decide which input of a basis a feature is."""
        names, n_columns, absent = self.encoder.names, self.matrix.n_columns, float(self.matrix.absent)
        by_order: dict[int, list[Term]] = {}
        for term in terms:
            by_order.setdefault(len(term), []).append(tuple(sorted(term, key=names.__getitem__)))
        axis = replace(self.encoder.axes[0], name="")
        return {
            order: CodeFinder.of(self._axis_of(axis, order), absent, by_order[order], n_columns)
            for order in sorted(by_order)
        }

    def _axis_of(self, axis: Axis, order: int) -> Axis:
        return axis if order == 1 else coarsen_axis(axis, float(self.matrix.absent), WIDE_KNOTS[order])

    def _make_net(self, finders: dict[int, CodeFinder], codes: dict[int, SparseCodes]) -> LowRankNet:
        generator = torch.Generator().manual_seed(int(self.rng.integers(2**31)))
        weights = self.sample.weights
        mass = {order: count_mass(finders[order], found, weights) for order, found in codes.items()}
        bases = {order: make_wide_basis(self.config, finder, generator) for order, finder in finders.items()}
        net = LowRankNet(finders, bases, mass, self.config.outer_bags, self.loss.n_outputs)
        net.intercept.data.add_(torch.from_numpy(self.loss.first_score(self.sample)))
        return net

    @torch.no_grad()
    def _read(self, net: LowRankNet, order: int, codes: SparseCodes) -> Factors:
        """Mean and deviation of the members' coefficients, in the target's unit."""
        finder = net.finders[order]
        members = net.coefficients[order].reshape(len(finder.features), -1, net.n_members, net.n_outputs)
        if net.n_outputs > 1:  # only differences between classes matter
            members = members - members.mean(axis=3, keepdims=True)
        members = members * np.float32(self.loss.unit)
        deviation = members.std(axis=2, ddof=1) if net.n_members > 1 else np.zeros_like(members[:, :, 0])
        cells = count_cells(finder, codes, self.sample.weights)
        total = float(self.sample.weights.sum())
        factors = Factors(finder, net.table(order).numpy(), members.mean(axis=2), deviation, *cells, total)
        return factors.measure(codes, self.sample.weights)

    @property
    def intercept(self) -> np.ndarray:
        found = self.intercepts.mean(axis=0) * self.loss.unit + self.loss.shift
        return found - found.mean() if len(found) > 1 else found


def count_cells(
    finder: CodeFinder, codes: SparseCodes, weights: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Cells nearest to the codes and their weight, term by term, and where the cells of each term start."""
    shape = (len(finder.features), *[finder.side] * finder.features.shape[1])
    size = math.prod(shape[1:])
    totals = np.zeros(shape[0] * size)
    for part, row in codes.chunks():
        where = np.rint(part.position).astype(np.int64).T
        np.add.at(totals, np.ravel_multi_index((part.term, *where), shape), weights[row])
    keys = np.flatnonzero(totals)
    return keys % size, totals[keys], np.searchsorted(keys, np.arange(shape[0] + 1) * size)
