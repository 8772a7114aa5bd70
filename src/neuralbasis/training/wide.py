"""WideTrainer: low-rank training for wide sparse tables, in which nearly all values are one absent value.

sparse matrix -> one shared axis -> sparse codes -> LowRankNet -> Factors -> AdditiveModel

All columns share one axis, and every term is zero where a feature is absent. Interactions are listed, or searched among
the columns with the strongest main effects. An update keeps the bases and corrects the coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import repeat

import numpy as np
import torch
from torch import Tensor

from ..config import FitConfig
from ..data.sparse import SparseMatrix
from ..encoding.sparse_codes import CodeFinder, SparseCodes, coarsen_axis
from ..model.additive_model import AdditiveModel
from ..model.factors import Factors
from ..model.shapes import make_shapes
from ..model.summary import Summary
from ..networks import Basis
from ..terms.term import Ranked, Term
from .batches import Batches
from .codes import Codes, Run
from .defaults import WIDE_KNOTS, make_wide_basis, make_wide_settings
from .loop import run_loop
from .low_rank import LearningRates, LowRankMembers, LowRankNet, count_mass
from .rows import Rows
from .screen import list_all, screen_all
from .shares import choose_shares


@dataclass(frozen=True, eq=False)
class _WholeProposal:
    """All corrections of an update as one proposal, see `shares.Proposal`."""

    members: LowRankMembers
    usual: np.ndarray  # (1,) prior mean of the share

    def read(self, rows: np.ndarray, n_members: int, pooled: bool) -> Tensor:
        """(rows, 1, M, K) constants plus contributions."""
        return (self.members.sum_terms(rows) + self.members.net.intercept.detach()).double()[:, None]


class WideTrainer:
    """Trains all terms of a wide table at once; see `Trainer` for other tables."""

    def __init__(self, codes: Codes, run: Run):
        assert isinstance(codes.numbers, SparseMatrix)
        self.codes, self.run, self.config, self.history, self.threads = codes, run, run.config, run.history, run.threads
        self.encoder, self.matrix, self.sample = codes.encoder, codes.numbers, codes.sample
        self.loss, self.rows = codes.loss, codes.rows
        self.ranking: list[Ranked] = []
        self.factors: list[Factors] = []
        self.intercept = np.zeros(codes.loss.n_outputs)

    def compile(self, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        """The model: factors, shapes that read them, and the score of a row without values."""
        shapes, intercept = make_shapes(self.factors, self.encoder), self.intercept
        return AdditiveModel(self.encoder, intercept, shapes, self.loss.link, codes.classes, config.n_jobs, summary)

    def fit(self) -> None:
        """Train main effects and interactions, or correct the model that is updated; `factors` is the result."""
        if self.codes.factors:
            return self._correct(self.codes.factors)
        plan, max_terms = self.codes.plan, self.config.max_terms
        n_terms = max_terms if isinstance(max_terms, int) else len(plan.features)
        listed = [*list_all(plan, 2), *list_all(plan, 3)]
        members = self._train(plan.mains if plan.must_search else [*plan.mains, *listed])
        self._read_all(members)
        has_fewer = n_terms < len(plan.features)
        if not (has_fewer or plan.must_search) or self.run.is_over:
            return self._finish(members)
        mains, names = self.factors[0], self.encoder.names
        strength = dict(zip(mains.finder.features[:, 0].tolist(), mains.importances.mean(axis=1), strict=True))
        terms = plan.mains
        if has_fewer:  # ties by name
            terms = [(f,) for f in sorted(strength, key=lambda f: (-strength[f], names[f]))[:n_terms]]
        if plan.must_search:
            screened = screen_all(self.codes, self.run, self._add_scores(members), lambda: strength)
            listed, self.ranking = screened.terms, screened.ranking
        self.history.clear()
        members = self._train([*terms, *listed])
        self._read_all(members)
        return self._finish(members)

    def _finish(self, members: LowRankMembers, share: float = 1.0) -> None:
        """The rows get their scores, from which residuals are measured; those of many classes would be large."""
        if self.loss.n_outputs == 1 or self.loss.n_outputs * len(self.matrix) <= 1e7:
            self.rows = self._add_scores(members, share)

    def _add_scores(self, members: LowRankMembers, share: float = 1.0) -> Rows:
        """The rows with a share of the scores of trained members added to those given."""
        scores = share * (members.net.intercept.detach() + members.sum_terms(np.arange(len(self.matrix))))
        return replace(self.rows, init=scores if self.rows.init is None else scores + self.rows.init)

    def _train(self, terms: Sequence[Term], known: Sequence[Factors] = ()) -> LowRankMembers:
        """Train these terms together, on the bases of known factors if they are given."""
        finders = {part.order: part.finder for part in known} or self._make_finders(terms)
        codes = {order: finder.find(self.matrix, self.threads) for order, finder in finders.items()}
        net = self._make_net(finders, codes, {part.order: torch.from_numpy(part.bases.copy()) for part in known})
        rounds = make_wide_settings(self.config, len(self.matrix), int(self.rows.copies.sum()))
        rates = LearningRates(output_penalty=self.config.network.output_penalty)
        members = LowRankMembers(net, codes, self.rows, self.loss, rounds[0], rates, self.threads)
        for settings in rounds if members.validates else rounds[:1]:
            before = self._best_loss()
            members.begin(settings)
            batches = Batches(repeat(self.rows), settings.batch_size, settings.max_steps, self.run.rng)
            run_loop(members, batches, settings, self.history, self.run.group, self.run.checkpointer)
            if self.run.is_over or self._best_loss() > 0.98 * before:  # too little to go on
                break
        members.apply_scale()
        return members

    def _correct(self, known: Sequence[Factors]) -> None:
        """The factors of a model with a share of the corrections that new rows propose; `intercept` is its change."""
        members = self._train((), known)
        share = self.codes.usual
        if self.rows.all_validate:
            assert self.rows.init is not None
            start = self.rows.init.expand(-1, members.net.n_members, -1)
            proposal = _WholeProposal(members, np.array([share]))
            fit = choose_shares([proposal], start, self.rows, self.loss, share**0.5)
            self.history.add("shares", 0, fit.after, keep=fit.gains)
            share = float(fit.shares[0][0])
        self._read_all(members)
        self.intercept = share * self.intercept
        self.factors = [old.correct(new, share) for old, new in zip(known, self.factors, strict=True)]
        self._finish(members, share)

    def _read_all(self, members: LowRankMembers) -> None:
        """Intercept and factors of trained members."""
        intercept = members.net.intercept.detach().double().numpy().mean(axis=0) * self.loss.unit + self.loss.shift
        self.intercept = intercept - intercept.mean() if len(intercept) > 1 else intercept
        self.factors = [self._read(members.net, learner.order, learner.codes) for learner in members.learners]

    def _best_loss(self) -> float:
        return self.history.validation[self.history.best] if self.history.best >= 0 else math.inf

    def _make_finders(self, terms: Sequence[Term]) -> dict[int, CodeFinder]:
        """The terms of each order. Names, not the order of columns, decide which input of a basis a feature is."""
        names, absent, shared = self.encoder.names, float(self.matrix.absent), replace(self.encoder.axes[0], name="")
        finders = {}
        for order in sorted({len(term) for term in terms}):
            own = [tuple(sorted(term, key=names.__getitem__)) for term in terms if len(term) == order]
            axis = shared if order == 1 else coarsen_axis(shared, absent, WIDE_KNOTS[order])
            finders[order] = CodeFinder.of(axis, absent, own, self.matrix.n_columns)
        return finders

    def _make_net(
        self, finders: Mapping[int, CodeFinder], codes: Mapping[int, SparseCodes], fixed: Mapping[int, Tensor]
    ) -> LowRankNet:
        generator = torch.Generator().manual_seed(int(self.run.rng.integers(2**31)))
        mass = {order: count_mass(finders[order], found, self.sample.weights) for order, found in codes.items()}
        bases: dict[int, Basis | Tensor] = dict(fixed)
        if not fixed:
            bases |= {order: make_wide_basis(finder, generator) for order, finder in finders.items()}
        net = LowRankNet(finders, bases, mass, self.config.outer_bags, self.loss.n_outputs)
        net.intercept.data.add_(torch.from_numpy(self.loss.first_score(self.sample)))
        if fixed and self.loss.link == "identity":  # a new mean may be far away
            net.intercept.data.add_(self.rows.mean_residual())
        return net

    @torch.no_grad()
    def _read(self, net: LowRankNet, order: int, codes: SparseCodes) -> Factors:
        """Mean and deviation of the members' coefficients, in the target's unit."""
        finder, bases = net.finders[order], net.table(order).numpy()
        members = net.coefficients[order].reshape(len(finder.features), -1, net.n_members, net.n_outputs)
        if net.n_outputs > 1:  # only differences between classes matter
            members = members - members.mean(axis=3, keepdims=True)
        members = members * np.float32(self.loss.unit)
        if order in net.fixed:
            members, bases = members * net.scale(order).numpy()[:, None, None], net.fixed[order].numpy()
        deviation = members.std(axis=2, ddof=1) if net.n_members > 1 else np.zeros_like(members[:, :, 0])
        cells = count_cells(finder, codes, self.sample.weights)
        total = float(self.sample.weights.sum())
        factors = Factors(finder, bases, members.mean(axis=2), deviation, *cells, total)
        return factors.measure(codes, self.sample.weights)


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
