"""Trainer: adds terms to a model stage by stage, and finds the interactions that are worth a term.

A stage trains some terms on what the stages before it leave: its rows start from their scores. Interactions are
ranked by `screen` on the same residuals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from .. import kernels
from ..config import FitConfig
from ..data.sparse import SparseMatrix
from ..data.target import Sample
from ..distributed.process_group import ProcessGroup
from ..encoding.encoder import Encoder
from ..encoding.layout import Anchor, Layout, lay_out
from ..losses.loss import Loss
from ..model.additive_model import AdditiveModel
from ..model.summary import Summary
from ..terms.binning import Bins, bin_columns
from ..terms.interactions import list_triples, noise_threshold, pick_terms, rank_terms
from ..terms.term import Plan, Ranked, Term, describe_ranking, mark_chosen
from .blend import blend
from .block_loader import BlockLoader
from .boosting import FEW_ROWS
from .checkpointer import Checkpointer
from .codes import Codes
from .compile import compile_model
from .cuts import cut, cut_weak, keep_strongest
from .defaults import (
    MAX_NUMBERS,
    MAX_PICKED,
    MAX_SCREENED,
    MAX_WEAK,
    MIN_ANCHOR,
    choose_knots,
    choose_tied,
    count_active,
    count_channels,
    list_chances,
    make_net,
    make_settings,
    see_all_rows,
)
from .engines import ExactEngine, GridEngine
from .history import History
from .loop import train_net
from .refine import refine
from .rows import Rows
from .run import Run
from .stage import Stage
from .wide import WideTrainer


class Ensemble(Protocol):
    """What training gives: the ranking of interactions, and tables that compile to a model."""

    ranking: list[Ranked]

    def compile(self, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel: ...


@dataclass(eq=False)
class Trainer:
    """Terms of a table, trained stage by stage.

    `rows.init` holds the scores of the first `n_scored` stages, `knots` how many they have by order: larger terms must
    nest in them.
    """

    codes: Codes
    run: Run
    rows: Rows
    stages: list[Stage] = field(default_factory=list)
    knots: dict[int, int] = field(default_factory=dict)
    n_scored: int = 0
    ranking: list[Ranked] = field(default_factory=list)

    def compile(self, codes: Codes, config: FitConfig, summary: Summary) -> AdditiveModel:
        model = compile_model(self.stages, codes.encoder, codes.loss, codes.classes, config.n_jobs, summary)
        return model.measure(codes.numbers, codes.sample.weights)

    @property
    def config(self) -> FitConfig:
        return self.run.config

    @property
    def history(self) -> History:
        return self.run.history

    @property
    def rng(self) -> np.random.Generator:
        return self.run.rng

    @property
    def group(self) -> ProcessGroup:
        return self.run.group

    @property
    def checkpointer(self) -> Checkpointer:
        return self.run.checkpointer

    @property
    def encoder(self) -> Encoder:
        return self.codes.encoder

    @property
    def numbers(self) -> np.ndarray | SparseMatrix:
        return self.codes.numbers

    @property
    def sample(self) -> Sample:
        return self.codes.sample

    @property
    def objective(self) -> Loss:
        return self.codes.loss

    @property
    def supply(self) -> BlockLoader | None:
        return self.codes.loader

    @property
    def n_rows(self) -> int:
        return self.codes.n_rows

    @property
    def threads(self) -> int:
        return kernels.count_threads(self.config.n_jobs)

    def score(self) -> Rows:
        """The rows with the scores of all stages so far: of many classes more than all else, so on demand only."""
        for stage in self.stages[self.n_scored :]:
            self.rows = replace(self.rows, init=stage.add_scores(self.rows.init))
        self.n_scored = len(self.stages)
        return self.rows

    def add_stage(self, terms: Sequence[Term], requested: bool = False) -> None:
        """Train these terms on what the others leave; after the first stage they must lower the validation loss.

        Terms that are requested by name stay in any case, if only to say that they say nothing.
        """
        if not terms or self._is_over:
            return
        config, axes, rows = self.config, self.encoder.axes, self.score()
        knots = choose_knots(config, axes, terms, self.n_rows, self.objective.n_outputs)
        knots |= {order: count for order, count in self.knots.items() if order in knots}
        grid = self._lay_out(terms, knots)
        sample = None if self.stages else self.sample
        net = make_net(config, grid, self.objective, sample, rows.n_effective, self.rng)
        if rows.member_mask is not None:
            net.set_member_mask(*grid.find_member_mask(rows.member_mask))
        engine = grid if config.engine == "grid" else ExactEngine(grid)
        order = max(len(term) for term in terms) if self.stages else 1
        n_drawn = round(rows.copies.mean() * self.n_rows)
        active = count_active(grid.layout)
        settings = make_settings(config, self.n_rows, n_drawn, order, active, net.tied, rows.information)
        pools = None
        if self.supply is not None:
            settings = see_all_rows(settings, n_drawn)
            pools = self.supply.pools(grid, self.stages, self.objective, rows)
        known = rows, self.objective, settings, self.history, self.rng, self.group
        improved = train_net(net, grid, engine, *known, pools, self.checkpointer)
        if improved or requested or not self.stages:
            stage = self._add_free_parts(Stage(net, grid))
            self.stages.append(stage)
            self.knots |= {order: knots[order] for order in {len(term) for term in terms} if order > 1}

    def add_weak_pairs(self, plan: Plan) -> list[Term]:
        """Pairs that cannot be told from noise one by one and yet help, of tables with few rows; returns them.

        Each member chooses as many as the plan has, by the rows it learns from, and cuts them in tables. Of what all
        have found the strongest are kept, again as many as the plan has.
        """
        chosen, n_outputs = self._choose_weak_pairs(plan), self.objective.n_outputs
        terms = sorted(set().union(*chosen))
        if not terms or choose_tied(self.config, len(terms), n_outputs):
            return []
        knots = choose_knots(self.config, self.encoder.axes, terms, self.n_rows, n_outputs) | self.knots
        layout = lay_out(self.encoder.axes, terms, knots, self._find_anchors())
        if layout.n_cells * count_channels(self.config, len(terms), n_outputs) > MAX_NUMBERS:
            return []
        grid = self._make_grid(layout)
        choices = np.array([[tuple(sorted(term)) in own for own in chosen] for term in layout.terms])
        found = cut_weak(grid, choices, self.rows, self.objective, self.history, self.threads, self.group)
        if found is None:
            return []
        kept, tables = keep_strongest(grid, found, int(plan.n_pairs))
        grid = self._lay_out(kept, knots)
        net = make_net(self.config, grid, self.objective, None, self.rows.n_effective, self.rng)
        self.stages.append(Stage(net, grid).add_part(tables))
        self.knots |= {2: knots[2]}
        return kept

    def _lay_out(self, terms: Sequence[Term], knots: dict[int, int]) -> GridEngine:
        return self._make_grid(lay_out(self.encoder.axes, terms, knots, self._find_anchors()))

    def _make_grid(self, layout: Layout) -> GridEngine:
        positions = layout.encode(self.numbers, self.threads)
        return GridEngine(layout, positions, self.sample.weights, self.threads, self.config.device)

    @property
    def _is_over(self) -> bool:
        return self.history.stopped_by in ("time_limit", "callback")

    @property
    def _may_refine(self) -> bool:
        """Free parts know no output penalty, and a fit that was stopped is done."""
        return not self._is_over and bool(self.config.refine) and not self.config.output_penalty

    @property
    def _may_boost(self) -> bool:
        """Boosting knows no member_mask."""
        return self._may_refine and self.rows.member_mask is None

    def _add_free_parts(self, stage: Stage) -> Stage:
        """What bases cannot say, first of main effects and then of pairs."""
        known = self.rows, self.objective, self.history, self.threads, self.group
        if self.stages:
            return cut(stage, *known) if self._may_boost else stage
        stage = refine(stage, *known) if self._may_refine else stage
        return blend(stage, self.numbers, self._make_grid, *known) if self._may_boost else stage

    def _find_anchors(self) -> dict[int, Anchor]:
        """Values that most rows of a column have; none before the main effects are trained."""
        if not self.stages:
            return {}
        grid, anchors = self.stages[0].grid, {}
        for index, term in enumerate(grid.layout.terms):
            if len(term) == 1:
                weight, axis = grid.cell_weight[grid.layout.cells_of(index)], grid.layout.axes_of(index)[0]
                top, share = int(weight[1:-1].argmax()), float(weight[1:-1].max() / weight.sum())
                if share >= MIN_ANCHOR:
                    anchors[term[0]] = Anchor(float(axis.knots[top]), share)
        return anchors

    def choose(
        self, plan: Plan, order: int, count: float, pairs: Sequence[Term] = ()
    ) -> tuple[list[Term], list[Ranked]]:
        """Wished terms of this order and the strongest `count` of the others, and the ranking of all candidates."""
        requested = plan.list_requested(order)
        if not count:
            return requested, []
        candidates = self._list_candidates(plan, order, count, pairs)
        if not self.stages:
            return candidates, []
        ranked, strengths, reach = self._rank(candidates, count)
        weakest = strengths[strengths > reach].min(initial=np.inf)
        can_help = strengths >= weakest if plan.is_automatic else strengths != 0
        best = [term for term, useful in zip(ranked, can_help | np.isinf(count), strict=True) if useful]
        chosen = sorted({*requested, *best[: int(min(count, len(best)))]})
        return chosen, describe_ranking(ranked, strengths, set(chosen), self.encoder.names)

    def _list_candidates(self, plan: Plan, order: int, count: float, pairs: Sequence[Term]) -> list[Term]:
        if order == 3 and self.config.heredity and not np.isinf(count):
            return [term for term in list_triples(pairs, strong=self.config.heredity == "strong") if plan.allows(term)]
        features = None if np.isinf(count) else self._strongest_features(plan, MAX_SCREENED[order])
        names = self.encoder.names  # equal strengths are ranked by name: the order of columns does not matter
        return sorted(plan.list_candidates(order, features), key=lambda term: sorted(names[f] for f in term))

    def _strongest_features(self, plan: Plan, count: int) -> Sequence[int]:
        """Of very many columns those with the strongest main effects, in which interactions are searched."""
        if len(plan.features) <= count:
            return plan.features
        grid = self.stages[0].grid
        power = self.stages[0].table().square().mean(dim=1).cpu().numpy() * grid.cell_weight
        strength = {term[0]: power[grid.layout.cells_of(t)].sum() for t, term in enumerate(grid.layout.terms)}
        return sorted(plan.features, key=lambda feature: -strength[feature])[:count]

    def _choose_weak_pairs(self, plan: Plan) -> list[set[Term]]:
        """For each member; none where they are not requested, or would take long to find."""
        if not (plan.is_automatic and plan.n_pairs and self.n_rows <= FEW_ROWS and self._may_boost):
            return []
        candidates = self._list_candidates(plan, 2, plan.n_pairs, ())
        work = self.n_rows * len(candidates) * self.config.outer_bags * self.objective.n_outputs
        return self._choose_by_members(candidates, int(plan.n_pairs)) if 0 < work <= MAX_WEAK else []

    def _choose_by_members(self, candidates: Sequence[Term], count: int) -> list[set[Term]]:
        """So many of the strongest pairs for each member, by the rows it learns from alone."""
        rows, held_out = self.score(), self.rows.held_out.cpu().numpy()
        assert rows.init is not None
        weights, chosen = rows.weights.cpu().numpy().astype(float), []
        bins, binned = self._bin_terms(candidates, weights)
        for member, rng in enumerate(self.rng.spawn(held_out.shape[1])):
            learned = np.flatnonzero(~held_out[:, member])
            residuals, variances = self._find_residuals(rows.init[:, member : member + 1])
            strengths = rank_terms(
                bins.take(learned), residuals[learned], weights[learned], binned,
                None if variances is None else variances[learned], self.threads, rng=rng,
            )  # fmt: skip
            chosen.append({candidates[index] for index in np.argsort(-strengths, kind="stable")[:count]})
        return chosen

    def _rank(self, candidates: Sequence[Term], count: float) -> tuple[list[Term], np.ndarray, np.ndarray]:
        """Candidates by their strength in what the stages so far leave; the first on what those before them leave.

        And the strength that noise reaches at each rank: rows that members hold out have a say in the ranking, so that
        among many candidates of few rows, weaker ones look useful to the very end and are not.
        """
        rows = self.score()
        assert rows.init is not None
        residuals, variances = self._find_residuals(rows.init.mean(dim=1, keepdim=True))
        weights = rows.weights.cpu().numpy().astype(float)
        bins, binned = self._bin_terms(candidates, weights)
        known: dict[str, Any] = {
            "weights": weights, "candidates": binned, "threads": self.threads, "rng": self.rng.spawn(1)[0],
            "variances": variances,
        }  # fmt: skip
        strengths = rank_terms(bins, residuals, **known)
        picked, found = pick_terms(bins, residuals, int(min(count, MAX_PICKED)), strengths=strengths, **known)
        order, where = np.argsort(-strengths, kind="stable"), {term: index for index, term in enumerate(binned)}
        first = [where[term] for term in picked]
        rest = [index for index in order if index not in set(first)]
        reach = noise_threshold(bins, residuals, list_chances(self.n_rows, len(binned)), weights, binned, variances)
        return [candidates[index] for index in [*first, *rest]], np.r_[found, strengths[rest]], reach

    def _find_residuals(self, scores: Tensor) -> tuple[np.ndarray, np.ndarray | None]:
        """(N, K) what scores (N, 1, K) leave, and how much that varies."""
        residuals, variances = -self.objective.slope(scores, self.rows.target), self.objective.variance(scores)
        return residuals[:, 0].cpu().numpy(), None if variances is None else variances[:, 0].cpu().numpy()

    def _bin_terms(self, terms: Sequence[Term], weights: np.ndarray) -> tuple[Bins, list[Term]]:
        """Bins of the columns that terms speak of, and the terms by the bins' numbers."""
        features = sorted({feature for term in terms for feature in term})
        place = {feature: index for index, feature in enumerate(features)}
        return self._bin(features, weights), [tuple(place[feature] for feature in term) for term in terms]

    def _bin(self, features: Sequence[int], weights: np.ndarray) -> Bins:
        """Bins of these columns."""
        axes = self.encoder.axes
        positions = lay_out(axes, [(f,) for f in range(len(axes))], {}).encode(self.numbers, self.threads)
        if len(features) < len(axes):
            positions = positions.select(features) if isinstance(positions, SparseMatrix) else positions[:, features]
        return bin_columns(positions, [axes[feature] for feature in features], weights, threads=self.threads)


def train(codes: Codes, run: Run) -> Ensemble:
    """Train what is planned."""
    if codes.wide:
        wide = WideTrainer(codes, run)
        wide.fit(codes.plan)
        return wide
    trainer = Trainer(codes, run, codes.rows)
    trainer.ranking = fit_stages(trainer, codes.plan) if run.config.staged else fit_together(trainer, codes.plan)
    return trainer


def fit_stages(trainer: Trainer, plan: Plan) -> list[Ranked]:
    """Main effects, then pairs, then triples, each on what the ones before leave."""
    trainer.add_stage(plan.mains)
    pairs, ranking = trainer.choose(plan, 2, plan.n_pairs)
    trainer.add_stage([*plan.mains, *pairs] if pairs else [], bool(plan.list_requested(2)))
    ranking = mark_chosen(ranking, trainer.add_weak_pairs(plan))
    triples, ranked_triples = trainer.choose(plan, 3, plan.n_triples, pairs)
    trainer.add_stage(triples, bool(plan.list_requested(3)))
    return ranking + ranked_triples


def fit_together(trainer: Trainer, plan: Plan) -> list[Ranked]:
    """All terms at once; where interactions are to be found, a first model of main effects finds them."""
    scout = Trainer(trainer.codes, replace(trainer.run, history=History()), trainer.rows)
    if plan.must_search:
        scout.add_stage(plan.mains)
    pairs, ranking = scout.choose(plan, 2, plan.n_pairs)
    triples, ranked_triples = scout.choose(plan, 3, plan.n_triples, pairs)
    trainer.add_stage([*plan.mains, *pairs, *triples])
    return ranking + ranked_triples
