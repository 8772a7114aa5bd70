"""Screening: which interactions get a term, by what they explain of the residuals of the stages so far."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .. import kernels
from ..config import FitConfig
from ..terms.binning import bin_columns
from ..terms.interactions import list_triples, noise_threshold, pick_terms, rank_terms
from ..terms.term import Plan, Ranked, Term, describe_ranking
from .codes import Codes, Run
from .defaults import FEW_ROWS
from .rows import Rows

MAX_SCREENED = 500  # columns in which pairs are searched


@dataclass(frozen=True, eq=False)
class Screened:
    """What screening found: terms to train, weaker candidates in the order of their strength, and the ranking."""

    terms: list[Term]
    weaker: list[Term]
    ranking: list[Ranked]


def screen(
    codes: Codes, config: FitConfig, order: int, rows: Rows, measure: Callable[[], Mapping[int, float]],
    pairs: Sequence[Term], rng: np.random.Generator,
) -> Screened:  # fmt: skip
    """Find the interactions of one order on rows with the scores of all stages so far.

    `measure` gives the strengths of the main effects, by which columns are chosen if they are too many; `pairs` limit
    the triples.
    """
    plan = codes.plan
    requested, count = plan.list_requested(order), plan.n_pairs if order == 2 else plan.n_triples
    candidates = _list_candidates(codes, order, count, measure, pairs) if count else []
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


def screen_all(codes: Codes, run: Run, rows: Rows, measure: Callable[[], Mapping[int, float]]) -> Screened:
    """Find pairs, and triples among them, at once on rows with the scores of the main effects."""
    pairs = screen(codes, run.config, 2, rows, measure, (), run.rng)
    triples = screen(codes, run.config, 3, rows, measure, pairs.terms, run.rng)
    return Screened([*pairs.terms, *triples.terms], [], [*pairs.ranking, *triples.ranking])


def list_all(plan: Plan, order: int) -> list[Term]:
    """Requested interactions of one order, and all allowed ones if the plan has them all."""
    count = plan.n_pairs if order == 2 else plan.n_triples
    return list(plan.list_candidates(order)) if np.isinf(count) else plan.list_requested(order)


def _list_candidates(
    codes: Codes, order: int, count: float, measure: Callable[[], Mapping[int, float]], pairs: Sequence[Term]
) -> list[Term]:
    """In the order of their names: the order of columns does not matter for equal strengths."""
    plan, names = codes.plan, codes.encoder.names
    if order == 3 and not np.isinf(count):
        return [term for term in list_triples(pairs) if plan.allows(term)]
    features: Sequence[int] | None = None if np.isinf(count) else plan.features
    if features is not None and len(features) > MAX_SCREENED:  # those with the strongest main effects
        strength = measure()
        features = sorted(features, key=lambda feature: -strength[feature])[:MAX_SCREENED]
    return sorted(plan.list_candidates(order, features), key=lambda term: sorted(names[f] for f in term))


def _rank(
    codes: Codes, config: FitConfig, candidates: Sequence[Term], count: float, rows: Rows, rng: np.random.Generator
) -> tuple[list[Term], np.ndarray, np.ndarray]:
    """Candidates by strength, their strengths, and the strength that noise reaches at each rank.

    The first 20 are picked one after another, each on what those before it leave. Held-out rows take part in the
    ranking, which makes weak candidates look useful if there are many: hence the threshold. It is where 0.3 candidates
    of pure noise are expected; with many rows, a false discovery rate of 0.3 as in Benjamini and Hochberg (1995).
    """
    assert rows.init is not None
    scores, threads = rows.init.mean(dim=1, keepdim=True), kernels.count_threads(config.n_jobs)
    residuals = -codes.loss.slope(scores, rows.target)[:, 0].cpu().numpy()
    variance = codes.loss.variance(scores)
    variances = None if variance is None else variance[:, 0].cpu().numpy()
    weights = rows.weights.cpu().numpy().astype(float)
    features = sorted({feature for term in candidates for feature in term})
    axes = [codes.encoder.axes[feature] for feature in features]
    bins = bin_columns(codes.find_positions(threads, features), axes, weights, threads=threads)
    bin_of = {feature: index for index, feature in enumerate(features)}
    binned = [tuple(bin_of[feature] for feature in term) for term in candidates]
    child = rng.spawn(1)[0]
    strengths = rank_terms(bins, residuals, weights, binned, variances, threads, rng=child)
    picked, found = pick_terms(
        bins, residuals, int(min(count, 20)), weights=weights, candidates=binned, variances=variances,
        threads=threads, rng=child, strengths=strengths,
    )  # fmt: skip
    order, where = np.argsort(-strengths, kind="stable"), {term: index for index, term in enumerate(binned)}
    first = [where[term] for term in picked]
    rest = [index for index in order if index not in first]
    chances = 0.3 * (np.arange(1, len(binned) + 1) if codes.n_rows > FEW_ROWS else np.ones(len(binned)))
    thresholds = noise_threshold(bins, residuals, chances, weights, binned, variances)
    return [candidates[index] for index in [*first, *rest]], np.r_[found, strengths[rest]], thresholds
