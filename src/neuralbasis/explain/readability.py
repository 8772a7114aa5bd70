"""Readability of a model: how much its curves vary beyond two turns, in units of their bands.

    excess = (TV(curve) − TV(its best approximation with at most two turns)) / half width

TV is the sum of all rises and falls. The best approximation has the largest TV of all curves with the same values at
both ends and at their turns. The half width is that of the 95 % band for each value, averaged over the knots; without
evidence it is the range of the curve. In: a model. Out: a record of its main effects of ordered columns.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..model.additive_model import find_model
from ..model.scorecard import MAX_TERMS, align, shorten
from ..model.shapes import QUANTILE

ROUNDING = 1e-9  # share of a curve's range or variation


@dataclass(frozen=True)
class TermReadability:
    """A main effect of an ordered column: `turns` is the largest of the classes, `excess` the mean over the classes.

    Parameters
    ----------
    name : the column
    turns : changes of direction; the largest of the classes
    excess : variation beyond two turns, relative to the band; the mean of the classes

    Examples
    --------
    >>> TermReadability("size", turns=1, excess=0.0).turns
    1
    """

    name: str
    turns: int
    excess: float


@dataclass(frozen=True)
class Readability:
    """All such main effects, most important first; `overall` is their mean excess, weighted by importance.

    Parameters
    ----------
    terms : main effects of ordered columns, most important first
    overall : mean of their excess, weighted by importance

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> found = readability(model)
    >>> found.terms[0].name, found.overall
    ('size', 0.0)
    """

    terms: tuple[TermReadability, ...]
    overall: float

    @property
    def summary(self) -> str:
        """`overall` in a line with its unit."""
        unit = "variation of the curves beyond two turns, in half widths of their 95 % bands; 0 is best"
        return f"readability {self.overall:.2f}: {unit}"

    def __str__(self) -> str:
        rows = [(shorten(term.name), str(term.turns), f"{term.excess:.2f}") for term in self.terms[:MAX_TERMS]]
        more = [f"… and {len(self.terms) - MAX_TERMS:,} more"] if len(self.terms) > MAX_TERMS else []
        return "\n".join([*align([("term", "turns", "excess"), *rows], "<>>"), *more, self.summary])


def readability(model: Any) -> Readability:
    """Measure how far the curves of a model are from curves with at most two turns.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator

    Returns
    -------
    Readability

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9}
    >>> readability(NeuralBasisRegressor(max_steps=20).fit(table, table["size"])).terms
    (TermReadability(name='size', turns=0, excess=0.0),)
    """
    found, terms = find_model(model), {}
    for index in np.argsort(-(importances := found.importances()), kind="stable"):
        shape = found.shapes[index]
        if len(shape.term) == 1 and shape.axes[0].kind != "nominal":
            curves, errors = shape.scores[1:-1].T, shape.spread[1:-1].T
            widths = np.ptp(curves, axis=1) if shape.evidence is None else QUANTILE * errors.mean(axis=1)
            excess = float(np.mean(list(map(_measure_excess, curves, widths))))
            terms[index] = TermReadability(found.term_names[index], max(map(_count_turns, curves)), excess)
    weights = importances[list(terms)]
    overall = np.average([term.excess for term in terms.values()], weights=weights) if weights.any() else 0.0
    return Readability(tuple(terms.values()), float(overall))


def _count_turns(values: np.ndarray) -> int:
    steps = np.diff(values)
    signs = np.sign(steps[np.abs(steps) > ROUNDING * np.ptp(values)])
    return int((signs[1:] != signs[:-1]).sum())


def _measure_excess(values: np.ndarray, width: float) -> float:
    """The largest variation with turns at i ≤ j is the maximum of |v_i − v_0| + |v_j − v_i| + |v_G − v_j|."""
    variation, start, end = np.abs(np.diff(values)).sum(), np.abs(values - values[0]), np.abs(values[-1] - values)
    extra = variation - max((np.maximum.accumulate(start - v) + v + end).max() for v in (values, -values))
    return float(extra / width) if extra > ROUNDING * variation and width > 0 else 0.0
