"""Screening: which interactions get a term, by what they explain of the residuals of the stages so far."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..config import FitConfig
from ..encoding.layout import lay_out
from ..terms.binning import Bins, bin_columns
from ..terms.interactions import list_triples, noise_threshold, pick_terms, rank_terms
from ..terms.term import Plan, Ranked, Term, describe_ranking
from .codes import Codes
from .defaults import MAX_PICKED, MAX_SCREENED, list_chances
from .rows import Rows
from .stage import Stage


@dataclass(frozen=True, eq=False)
class Screened:
    """What screening found: terms to train, weaker candidates in the order of their strength, and the ranking."""

    terms: list[Term]
    weaker: list[Term]
    ranking: list[Ranked]


def screen(
    codes: Codes, config: FitConfig, order: int, rows: Rows, mains: Stage, pairs: Sequence[Term],
    rng: np.random.Generator,
) -> Screened:  # fmt: skip
    """Find the interactions of one order.

    Parameters
    ----------
    order : 2 for pairs, 3 for triples
    rows : with the scores of all stages so far
    mains : the stage of the main effects
    pairs : in the model so far; they limit the triples
    """
    plan = codes.plan
    requested, count = plan.list_requested(order), plan.n_pairs if order == 2 else plan.n_triples
    if not count:
        return Screened(requested, [], [])
    candidates = _list_candidates(codes, config, order, count, mains, pairs)
    if not candidates:
        return Screened(requested, [], [])
    ranked, strengths, thresholds = _rank(codes, config, candidates, count, rows, rng)
    weakest = strengths[strengths > thresholds].min(initial=np.inf)
    useful = strengths >= weakest if plan.is_automatic else strengths != 0
    limit = int(min(count, len(ranked)))
    best = [term for term, is_useful in zip(ranked, useful | np.isinf(count), strict=True) if is_useful][:limit]
    terms = sorted({*requested, *best})
    weaker = [term for term in ranked if term not in terms][: limit - len(best)] if plan.is_automatic else []
    return Screened(terms, weaker, describe_ranking(ranked, strengths, set(terms), codes.encoder.names))


def list_all(plan: Plan, order: int) -> list[Term]:
    """Requested interactions of one order, and all allowed ones if the plan has them all."""
    count = plan.n_pairs if order == 2 else plan.n_triples
    return list(plan.list_candidates(order)) if np.isinf(count) else plan.list_requested(order)


def _list_candidates(
    codes: Codes, config: FitConfig, order: int, count: float, mains: Stage, pairs: Sequence[Term]
) -> list[Term]:
    plan, names = codes.plan, codes.encoder.names
    if order == 3 and config.heredity and not np.isinf(count):
        return [term for term in list_triples(pairs, strong=config.heredity == "strong") if plan.allows(term)]
    features = None if np.isinf(count) else _strongest_features(plan, mains, MAX_SCREENED[order])
    # Equal strengths are ranked by name: the order of columns does not matter.
    return sorted(plan.list_candidates(order, features), key=lambda term: sorted(names[f] for f in term))


def _strongest_features(plan: Plan, mains: Stage, count: int) -> Sequence[int]:
    """The columns with the strongest main effects."""
    if len(plan.features) <= count:
        return plan.features
    layout, weight = mains.grid.layout, mains.grid.cell_weight
    power = mains.table().square().mean(dim=1).cpu().numpy() * weight
    strength = {term[0]: power[layout.cells_of(index)].sum() for index, term in enumerate(layout.terms)}
    return sorted(plan.features, key=lambda feature: -strength[feature])[:count]


def _rank(
    codes: Codes, config: FitConfig, candidates: Sequence[Term], count: float, rows: Rows, rng: np.random.Generator
) -> tuple[list[Term], np.ndarray, np.ndarray]:
    """Candidates by strength, their strengths, and the strength that noise reaches at each rank.

    The first are picked one after another, each on what those before it leave. Held-out rows take part in the ranking,
    which makes weak candidates look useful if there are many: hence the threshold.
    """
    assert rows.init is not None
    scores, threads = rows.init.mean(dim=1, keepdim=True), kernels.count_threads(config.n_jobs)
    residuals = -codes.loss.slope(scores, rows.target)[:, 0].cpu().numpy()
    variance = codes.loss.variance(scores)
    variances = None if variance is None else variance[:, 0].cpu().numpy()
    weights = rows.weights.cpu().numpy().astype(float)
    bins, binned = _bin_terms(codes, candidates, weights, threads)
    child = rng.spawn(1)[0]
    strengths = rank_terms(bins, residuals, weights, binned, variances, threads, rng=child)
    picked, found = pick_terms(
        bins, residuals, int(min(count, MAX_PICKED)), weights=weights, candidates=binned, variances=variances,
        threads=threads, rng=child, strengths=strengths,
    )  # fmt: skip
    order, where = np.argsort(-strengths, kind="stable"), {term: index for index, term in enumerate(binned)}
    first = [where[term] for term in picked]
    rest = [index for index in order if index not in set(first)]
    chances = list_chances(codes.n_rows, len(binned))
    thresholds = noise_threshold(bins, residuals, chances, weights, binned, variances)
    return [candidates[index] for index in [*first, *rest]], np.r_[found, strengths[rest]], thresholds


def _bin_terms(codes: Codes, terms: Sequence[Term], weights: np.ndarray, threads: int) -> tuple[Bins, list[Term]]:
    """Bins of the columns of these terms, and the terms by the numbers of the bins."""
    axes = codes.encoder.axes
    features = sorted({feature for term in terms for feature in term})
    place = {feature: index for index, feature in enumerate(features)}
    positions = lay_out(axes, [(f,) for f in range(len(axes))], {}).encode(codes.numbers, threads)
    if len(features) < len(axes):
        positions = positions[:, features] if isinstance(positions, np.ndarray) else positions.select(features)
    bins = bin_columns(positions, [axes[feature] for feature in features], weights, threads=threads)
    return bins, [tuple(place[feature] for feature in term) for term in terms]
