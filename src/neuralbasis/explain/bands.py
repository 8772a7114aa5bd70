"""Bands of shapes: the words that describe them, and which terms have no clear effect.

    band for each value          score ± QUANTILE · standard error
    band for the whole curve     score ± multiplier · standard error

In: a TermView. Out: texts that all figures and the HTML page share, and intervals of importances. Terms without
evidence have one band, the standard deviation over the members.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..model.card import OVER_MEMBERS
from ..model.shapes import LEVEL, QUANTILE
from .terms import TermView

HIGH_CONCURVITY = 0.5

EACH_VALUE = f"{100 * LEVEL:.0f} % band for each value"
WHOLE_CURVE = f"{100 * LEVEL:.0f} % band for the whole curve"
INTERVALS = f"{100 * LEVEL:.0f} % intervals"
MEMBER_LINES = "faint lines: members of the model"
NO_EFFECT = "no clear effect"
ROW_SHADES = "background: darker where there are more training rows"
NO_ROWS = "no training row near"
WITH_MAINS = "pairs: the effect of both columns together"


def describe_effect(term: TermView, outputs: Sequence[int] | None = None) -> str:
    """The p-value of a term without a clear effect on any of these scores; empty if it has one, or if it is unknown.

    The smallest of several p-values is multiplied by their number. The p-value of a term that other columns could
    express is large even if they have a strong effect together: `describe_concurvity` describes this case.
    """
    if term.evidence is None or term.evidence.concurvity >= HIGH_CONCURVITY:
        return ""
    p_values = term.evidence.p_values if outputs is None else term.evidence.p_values[list(outputs)]
    p_value = min(1.0, float(p_values.min()) * len(p_values))
    return f"{NO_EFFECT} (p = {_format_p_value(p_value)})" if p_value > 1 - LEVEL else ""


def _format_p_value(p_value: float) -> str:
    """
    >>> _format_p_value(0.614), _format_p_value(0.0503)
    ('0.61', '0.0503')
    """
    short = f"{p_value:.2g}"
    return f"{p_value:.3g}" if float(short) <= 1 - LEVEL else short


def measure_importance_errors(terms: Sequence[TermView]) -> tuple[np.ndarray, str]:
    """(T,) half widths of intervals around the importances of some terms, NaN if unknown, and what they are."""
    if all(term.evidence is None for term in terms):
        return np.array([term.importance_spread for term in terms]), OVER_MEMBERS
    found = [np.nan if term.evidence is None else float(term.evidence.importance_errors.mean()) for term in terms]
    return QUANTILE * np.array(found), INTERVALS


def describe_concurvity(term: TermView, columns: Sequence[str]) -> str:
    """A warning if other columns could express most of the term; `columns` are all columns of the model."""
    evidence = term.evidence
    if evidence is None or evidence.concurvity < HIGH_CONCURVITY:
        return ""
    others = "other columns"
    if evidence.partner is not None:
        others = " & ".join(columns[feature] for feature in evidence.partner) + " and other columns"
    return (
        f"{100 * evidence.concurvity:.0f} % of the effect of {term.name} could also be expressed by {others}; "
        "read their effects together."
    )
