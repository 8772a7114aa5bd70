"""The schedule of a fit: main effects, then pairs, then triples, each trained on what the stages before it leave.

Two learners propose tables for the terms of a stage, both from the same scores: `learn_network` (shared smooth bases)
and `learn_steps` (boosted steps). One rule, `choose_shares`, decides how much of each proposal every term keeps.
`SCHEDULE` is the whole schedule; `Trainer` carries it out.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from ..config import FitConfig
from ..encoding.axis import Axis
from ..encoding.layout import Anchor, Layout, lay_out
from ..model.additive_model import AdditiveModel
from ..model.summary import Summary
from ..terms.term import Ranked, Term
from .codes import Codes, Run
from .compile import compile_model
from .defaults import FEW_ROWS, choose_knots, choose_smoothness
from .engines import GridEngine
from .history import History
from .inference import find_p_values, infer
from .lookup import choose_lookup
from .network_learner import learn_network
from .rows import Rows
from .screen import Screened, list_all, screen, screen_all
from .shares import Proposal, choose_shares
from .simplify import simplify_model
from .stage import Stage
from .step_learner import learn_steps, subdivide
from .wide import WideTrainer

# Order of the terms of a stage -> the learners that propose tables for them, in the order of the stages.
SCHEDULE = {1: ("network", "steps"), 2: ("network", "steps"), 3: ("network",)}
# p-value from which an automatic interaction is dropped, see `find_weak`.
# DIFF: 0.05 would drop all whose band contains 0 everywhere; the loss would rise, since weak pairs help together.
MAX_CHANCE = 0.2
STEP_SHARE = 0.5  # usual share of boosted steps; the network has the rest


class Ensemble(Protocol):
    """What training gives: the ranking of interactions, and tables that compile to a model.

    It also gives the rows with the scores of all members.
    """

    ranking: list[Ranked]
    rows: Rows

    def compile(self, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel: ...


def train(codes: Codes, run: Run) -> Ensemble:
    """Train what is planned."""
    if codes.wide:
        wide = WideTrainer(codes, run)
        wide.fit()
        return wide
    trainer = Trainer(codes, run, codes.rows)
    if codes.layout is not None:
        trainer.correct(codes.layout)
    elif run.config.network.staged:
        trainer.fit_stages()
    else:
        trainer.fit_together()
    return trainer


@dataclass(eq=False)
class Trainer:
    """Terms of a table, trained stage by stage."""

    codes: Codes
    run: Run
    rows: Rows  # with the scores of the stages so far
    stages: list[Stage] = field(default_factory=list)  # in the order of training; several may have the same terms
    knots: dict[int, int] = field(default_factory=dict)  # of interactions by order; larger terms nest in them
    ranking: list[Ranked] = field(default_factory=list)
    shares: dict[Term, float] = field(default_factory=dict)  # of each term, summed over the learners

    def compile(self, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        n_rows = codes.rows.n_effective
        model = compile_model(self.stages, codes.encoder, codes.loss, codes.classes, config.n_jobs, summary, n_rows)
        # Rows of an update, and a sample of rows that do not fit in memory, do not describe the whole model.
        if codes.layout is None and codes.loader is None and not any(stage.tied for stage in self.stages):
            model = self._add_evidence(model)
        return model.measure(codes.numbers, codes.sample.weights)

    def _add_evidence(self, model: AdditiveModel) -> AdditiveModel:
        """The model with standard errors, without interactions and turns of curves that the rows do not support."""
        codes, plan, before = self.codes, self.codes.plan, model
        chances = find_p_values(model, codes, self.rows) if plan.is_automatic else {}
        weak = {term for term in find_weak(chances, len(plan.features)) if term not in plan.listed}
        if weak:
            model = replace(model, shapes=tuple(shape for shape in model.shapes if shape.term not in weak))
            chosen = [ranked.chosen and ranked.features not in weak for ranked in self.ranking]
            self.ranking = [ranked._replace(chosen=c) for ranked, c in zip(self.ranking, chosen, strict=True)]
        # Members that do not use a column have no table to simplify.
        smoothness = choose_smoothness(self.run.config) if self.rows.member_mask is None else 0.0
        model = simplify_model(infer(model, codes, self.rows), smoothness)
        change = model.score_numbers(codes.numbers) - before.score_numbers(codes.numbers)
        assert self.rows.init is not None
        moved = torch.from_numpy(change / codes.loss.unit)[:, None].to(self.rows.init)
        self.rows = replace(self.rows, init=self.rows.init + moved)
        return model

    def fit_stages(self) -> None:
        """Every stage of the schedule."""
        self._add_main_effects()
        pairs: list[Term] = []
        for order, learners in SCHEDULE.items():
            if order == 1 or self.run.is_over or not self.codes.plan.has_order(order):
                continue
            measure = self.stages[0].measure_main_effects
            tied = self.stages[0].tied
            rows = self.rows.with_held_out_scores() if tied else self.rows
            found = screen(self.codes, self.run.config, order, rows, measure, pairs, self.run.rng)
            kept = self._add_tied(order, found) if tied else self._add_interactions(order, found, "steps" in learners)
            pairs = kept if order == 2 else pairs
            self.ranking += [ranked._replace(chosen=ranked.features in kept) for ranked in found.ranking]

    def fit_together(self) -> None:
        """All terms in one network, as in the paper; a first model of main effects finds interactions if it must."""
        codes, plan = self.codes, self.codes.plan
        terms = [*plan.mains, *list_all(plan, 2), *list_all(plan, 3)]
        if plan.must_search:
            scout = Trainer(codes, replace(self.run, history=History()), self.rows)
            scout._add_main_effects()
            found = screen_all(codes, self.run, scout.rows, scout.stages[0].measure_main_effects)
            terms, self.ranking = [*plan.mains, *found.terms], found.ranking
        stage, _ = learn_network(codes, self.run, self._lay_out(terms, self._choose_knots(terms)), self.rows, [])
        self._append(stage)

    def correct(self, layout: Layout) -> None:
        """One correction of all terms of a fitted model, on its own knots."""
        codes, loss, grid = self.codes, self.codes.loss, self._make_grid(layout)
        start, rows = self.rows.init, self.rows
        assert start is not None
        offset = start.new_zeros(rows.held_out.shape[1], loss.n_outputs)
        if loss.link == "identity":  # a new mean may be far away
            offset = rows.mean_residual()
            rows = replace(rows, init=start + offset)
        stage, _ = learn_network(codes, self.run, grid, rows, [], "update")
        stage = replace(stage, intercept=stage.intercept + offset)
        proposed = [stage, *[self._learn_steps(grid, order, rows) for order in (1, 2)]]
        fit = self._choose_shares([each for each in proposed if each is not None], torch.zeros_like(offset))
        if fit is None:
            usual = codes.usual
            fit = [replace(stage, intercept=usual * stage.intercept, values=usual * stage.table())]
        for each in fit:
            self._append(each)

    def _add_main_effects(self) -> None:
        """Steps are cut between finer knots; the shapes keep those that they need."""
        codes, grid = self.codes, self._lay_out(self.codes.plan.mains, {})
        stage, _ = learn_network(codes, self.run, grid, self.rows, [])
        base = torch.from_numpy(codes.loss.first_score(codes.sample)).to(stage.intercept).expand_as(stage.intercept)
        fine = self._subdivide(grid) if self._may_step else grid
        init = base.expand(len(self.rows.target), *base.shape)
        rows = replace(self.rows, init=init.clone() if self.rows.init is None else init + self.rows.init)
        steps = self._learn_steps(fine, 1, rows)
        if steps is not None and (fit := self._choose_shares([stage.move(fine), steps], base)) is not None:
            values = fit[0].table() + fit[1].table()
            stage = self._thin(replace(fit[0], values=values), grid.layout.axes)
        self._append(stage)

    def _add_tied(self, order: int, found: Screened) -> list[Term]:
        """Train interactions of tied classes together with all earlier terms, from the beginning; returns those kept.

        Tied main effects of many classes nearly separate the rows that they learn from and leave interactions little to
        learn. For the same reason, interactions are searched on the scores of held-out rows.
        """
        history, best = self.run.history, self.run.history.best
        if not found.terms:
            return []
        terms = sorted({*found.terms, *(term for stage in self.stages for term in stage.terms)}, key=len)
        knots = self._choose_knots(terms)
        grid = self._lay_out(terms, knots)
        stage, _ = learn_network(self.codes, self.run, grid, self.codes.rows, [], "all terms")
        is_worse = history.validation[history.best] >= history.validation[best]
        if is_worse and not self.codes.plan.list_requested(order):
            history.best = best
            return []
        self.stages, self.rows = [], self.codes.rows
        self._append(stage)
        self.knots |= {order: knots[order]}
        return sorted(found.terms)

    def _add_interactions(self, order: int, found: Screened, has_steps: bool) -> list[Term]:
        """Train interactions, pairs together with corrections of the main effects; returns the terms that are kept.

        In small tables, steps are also learned for pairs that are too weak to be told from noise one by one.
        """
        plan, best = self.codes.plan, self.run.history.best
        requested = plan.list_requested(order)
        weaker = found.weaker if has_steps and self._may_step and self.codes.n_rows <= FEW_ROWS else []
        knots = self._choose_knots([*found.terms, *weaker])
        proposed, improved = [], False
        if found.terms:
            terms = [*plan.mains, *found.terms] if order == 2 else found.terms
            grid = self._lay_out(terms, knots)
            stage, improved = learn_network(self.codes, self.run, grid, self.rows, self.stages)
            proposed.append(stage)
        if has_steps and (found.terms or weaker):
            steps = self._learn_steps(self._lay_out([*found.terms, *weaker], knots), order, self.rows)
            proposed += [] if steps is None else [steps]
        fit = self._choose_shares(proposed, weaker=weaker) if proposed else None
        if fit is None:
            fit = proposed[:1] if improved or requested else []
        kept = [self._drop_zeros(stage, requested, knots) for stage in fit]
        stages = [stage for stage in kept if stage is not None]
        if not stages:
            self.run.history.best = best
        for stage in stages:
            self._append(stage)
            self.knots |= {order: knots[order]}
        return sorted({term for stage in stages for term in stage.terms if len(term) > 1})

    def _choose_shares(
        self, proposed: Sequence[Stage], base: Tensor | None = None, weaker: Sequence[Term] = ()
    ) -> list[Stage] | None:
        """The proposed stages with their shares, the constants in the first; None if shares cannot be fitted.

        base : (M, K) intercept that the proposals start from
        weaker : terms that are kept only as far as held-out rows confirm them: their usual share is 0
        """
        rows, loss = self.rows.cpu(), self.codes.loss
        if not rows.all_validate or any(stage.tied for stage in proposed):
            return None
        shape = proposed[0].intercept.shape
        base = torch.zeros(shape) if base is None else base.cpu()
        steps = {term: STEP_SHARE for stage in proposed if stage.net is None for term in stage.terms}
        steps |= dict.fromkeys(weaker, 0.0)
        proposals = [self._propose(stage, base, steps, len(proposed)) for stage in proposed]
        start = base if rows.init is None else base + rows.init
        # Few new rows of an update have a small usual share; few held-out rows must not move it far.
        width = self.codes.usual**0.5
        fit = choose_shares(proposals, start.expand(len(rows.target), *shape), rows, loss, width)
        self.run.history.add("shares", 0, fit.after, keep=fit.gains)
        intercept, stages = base, []
        for stage, proposal, shares in zip(proposed, proposals, fit.shares, strict=True):
            intercept = intercept + float(shares[0]) * proposal.constant.view(shape)
            values = torch.empty_like(proposal.table)
            for index, (term, share) in enumerate(zip(stage.terms, shares[1:].tolist(), strict=True)):
                cells = stage.grid.layout.cells_of(index)
                values[cells] = share * proposal.table[cells]
                is_zero = not bool(proposal.table[cells].any())
                self.shares[term] = self.shares.get(term, 0.0) + (0.0 if is_zero else share)
            stages.append(Stage(stage.grid, torch.zeros_like(stage.intercept), values.to(stage.grid.device)))
        return [replace(stages[0], intercept=intercept.to(stages[0].grid.device)), *stages[1:]]

    def _propose(self, stage: Stage, base: Tensor, steps: Mapping[Term, float], n_proposed: int) -> Proposal:
        """A stage as a proposal; `steps` has the usual share of the steps of each term, the network has the rest."""
        table, mean = _centre(stage)
        lookup = choose_lookup(stage.grid.positions, stage.grid.layout, self.run.threads, torch.device("cpu"))
        if stage.net is None:
            constant, usual = stage.intercept.cpu().flatten(), [steps[term] for term in stage.terms]
        else:
            constant = (stage.intercept.cpu() - base).flatten()
            usual = [1 - steps.get(term, 0.0) for term in stage.terms]
        return Proposal(table, constant + mean, lookup, self.codes.usual * np.array([1 / n_proposed, *usual]))

    def _learn_steps(self, grid: GridEngine, order: int, rows: Rows) -> Stage | None:
        """Boosted steps from the scores of these rows; None if there are none."""
        if not self._may_step:
            return None
        rows, shape = rows.cpu(), (rows.held_out.shape[1], self.codes.loss.n_outputs)
        start = torch.zeros(1, *shape) if rows.init is None else rows.init
        start = start.expand(len(rows.target), *shape)
        values = learn_steps(grid, order, start, rows, self.codes.loss, self.run.threads, self.run.group)
        if values is None or not values.any():
            return None
        return Stage(grid, torch.zeros(shape, device=grid.device), values.to(grid.device))

    @property
    def _may_step(self) -> bool:
        """Steps need all rows in memory, held-out rows and all columns in all members; they know no output penalty."""
        config, rows = self.run.config, self.rows
        may = bool(config.boosted_steps) and not config.network.output_penalty and not self.run.is_over
        return may and self.codes.loader is None and rows.member_mask is None and rows.all_validate

    def _append(self, stage: Stage) -> None:
        self.stages.append(stage)
        self.rows = replace(self.rows, init=stage.add_scores(self.rows.init))

    def _choose_knots(self, terms: Sequence[Term]) -> dict[int, int]:
        codes = self.codes
        knots = choose_knots(self.run.config, codes.encoder.axes, terms, codes.n_rows, codes.loss.n_outputs)
        return knots | {order: count for order, count in self.knots.items() if order in knots}

    def _lay_out(self, terms: Sequence[Term], knots: dict[int, int]) -> GridEngine:
        moves = self.run.config.network.engine == "grid"  # the exact engine reads the rows' own places
        return self._make_grid(lay_out(self.codes.encoder.axes, terms, knots, self._find_anchors(), moves))

    def _make_grid(self, layout: Layout) -> GridEngine:
        threads = self.run.threads
        positions = self.codes.encode(layout, threads)
        return GridEngine(layout, positions, self.codes.sample.weights, threads, self.run.config.device)

    def _find_anchors(self) -> dict[int, Anchor]:
        """Values that at least 80 % of the rows of a column have; none before the main effects are trained."""
        if not self.stages:
            return {}
        grid, anchors = self.stages[0].grid, {}
        for index, term in enumerate(grid.layout.terms):
            if len(term) == 1:
                weight, axis = grid.cell_weight[grid.layout.cells_of(index)], grid.layout.axes_of(index)[0]
                top, share = int(weight[1:-1].argmax()), float(weight[1:-1].max() / weight.sum())
                if share >= 0.8:
                    anchors[term[0]] = Anchor(float(axis.knots[top]), share)
        return anchors

    def _subdivide(self, grid: GridEngine) -> GridEngine:
        """The grid of main effects with more knots."""
        numbers = self.codes.numbers
        axes = [
            subdivide(axis, numbers[:, i] if isinstance(numbers, np.ndarray) else numbers.read_column(i))
            for i, axis in enumerate(grid.layout.axes)
        ]
        return self._make_grid(lay_out(axes, grid.layout.terms, {}))

    def _thin(self, stage: Stage, axes: Sequence[Axis]) -> Stage:
        """Main effects on these axes, with the stage's further knots wherever a shape bends between two of them."""
        layout, thin = stage.grid.layout, list(axes)
        table = stage.table().unflatten(1, (len(stage.intercept), -1)).mean(dim=1).cpu().numpy()
        for index, (feature,) in enumerate(layout.terms):
            axis, knots = layout.axes[feature], axes[feature].knots
            known, values = np.isin(axis.knots, knots), table[layout.cells_of(index)][1:-1]
            lines = np.stack([np.interp(axis.knots, knots, each) for each in values[known].T], axis=1)
            bend, between = np.zeros(len(knots) + 1), np.searchsorted(knots, axis.knots)
            np.maximum.at(bend, between, np.abs(values - lines).max(axis=1))
            # Shapes that bend less between two knots, in the unit of the scores, need no further knots.
            thin[feature] = axes[feature].add_knots(axis.knots[bend[between] > 0.05])
        return stage.move(self._make_grid(lay_out(thin, layout.terms, {})))

    def _drop_zeros(self, stage: Stage, requested: Sequence[Term], knots: dict[int, int]) -> Stage | None:
        """The stage without interactions that are zero and not requested; None if none is left."""
        layout, table = stage.grid.layout, stage.table()
        kept = {
            term for index, term in enumerate(stage.terms)
            if len(term) == 1 or term in requested or bool(table[layout.cells_of(index)].any())
        }  # fmt: skip
        if all(len(term) == 1 for term in kept):
            return None
        return stage if len(kept) == len(layout.terms) else stage.select(kept, self._lay_out(sorted(kept), knots))


def find_weak(chances: Mapping[Term, float], n_features: int) -> set[Term]:
    """Interactions whose p-value is not below `MAX_CHANCE`, times the share of all candidates that were tested.

    The interactions of a model are the strongest of all candidates on the same rows. If no candidate has an effect,
    their p-values lie between 0 and this share.

    >>> find_weak({(0, 1): 0.01, (0, 2): 0.09}, 5)
    {(0, 2)}
    """
    counts = Counter(map(len, chances))
    levels = {order: MAX_CHANCE * count / math.comb(n_features, order) for order, count in counts.items()}
    return {term for term, chance in chances.items() if chance >= levels[len(term)]}


def _centre(stage: Stage) -> tuple[Tensor, Tensor]:
    """The tables of a stage (cells, C) with mean 0 over the rows, and the sum (C,) of their means.

    Anchored tables stay as they are: rows at an anchor are not looked up, since the table is 0 there.
    """
    table, layout = stage.table().cpu().double(), stage.grid.layout
    weight, total = torch.from_numpy(stage.grid.cell_weight).to(table), table.new_zeros(table.shape[1])
    for index in np.flatnonzero(layout.skip_axis < 0).tolist():
        cells = layout.cells_of(index)
        mean = (weight[cells, None] * table[cells]).sum(dim=0) / weight[cells].sum()
        table[cells] -= mean
        total += mean
    return table.float(), total.float()
