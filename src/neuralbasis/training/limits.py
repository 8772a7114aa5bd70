"""Limits: what a fit refuses before it trains: models that memory could not hold, or that no file could."""

from __future__ import annotations

import math
import os

from ..config import FitConfig
from ..serialization.model_file import check_columns, check_labels, check_size
from .codes import Codes
from .defaults import WIDE_BASES, WIDE_KNOTS, choose_tied, count_channels

BYTES_PER_SCORE = 28  # of a row and class beside its members' scores, while interactions are screened
BYTES_PER_TERM = 16 * 4 * 8  # the smallest useful table, and what training holds beside it


def check_memory(config: FitConfig, codes: Codes) -> None:
    """Refuse more terms, or more scores of main effects to screen interactions with, than memory could hold."""
    plan, n_outputs, n_rows = codes.plan, codes.loss.n_outputs, len(codes.sample.y)
    here = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else math.inf
    for order, kind, count in ((2, "pairs", plan.n_pairs), (3, "triples", plan.n_triples)):
        n_terms = min(math.comb(len(plan.features), order), count)
        needed = BYTES_PER_TERM * n_terms * count_channels(config, n_terms, n_outputs)
        if needed > here:
            raise ValueError(
                f"{n_terms:,} {kind} of {len(plan.features):,} columns would take about {needed / 1e9:,.0f} GB, but "
                f"this machine has {here / 1e9:,.0f} GB; ask for a number of {kind}, such as 100, or list them by name"
            )
    needed = (BYTES_PER_SCORE + 4 * config.outer_bags) * n_rows * n_outputs
    has_scores = config.staged or plan.must_search
    if (plan.listed or plan.n_pairs or plan.n_triples) and has_scores and needed > here:
        raise ValueError(
            f"interactions build on the scores of main effects, which for {n_rows:,} rows and {n_outputs:,} classes "
            f"would take about {needed / 1e9:,.0f} GB, but this machine has {here / 1e9:,.0f} GB; set interactions=0, "
            "or list them and set staged=False, which trains all terms at once"
        )


def check_saving(config: FitConfig, codes: Codes) -> None:
    """Refuse a model that no file could hold."""
    check_labels(codes.classes)
    plan, n_outputs, n_features = codes.plan, codes.loss.n_outputs, len(codes.plan.features)
    n_found = [min(math.comb(n_features, order), n) for order, n in ((2, 2 * plan.n_pairs), (3, plan.n_triples))]
    n_terms = n_features + len(plan.listed) + sum(n_found)  # weak pairs are as many as strong ones
    whole = codes.encoder if codes.whole is None else codes.whole
    check_columns(whole.axes, config.given, 0 if codes.wide else n_terms)
    if codes.wide:
        orders = [1, *map(len, plan.listed)]
        n_numbers = WIDE_BASES[1] * n_features + sum(WIDE_BASES[len(term)] for term in plan.listed)
        check_size(8.0 * n_numbers * n_outputs, max((WIDE_KNOTS[order] + 3) ** order for order in orders) * n_outputs)
    elif not choose_tied(config, n_terms, n_outputs):
        n_cells = sum(codes.encoder.axes[feature].n_cells for feature in plan.features)
        check_size(n_cells * n_outputs * (12.0 + 4.0 * config.outer_bags))  # scores, spread, members
