"""Point masses of a continuous column: special codes (−9, 99999), and values with a large share of the rows (0).

A chart draws a point mass with its own mark. A mass that is *apart* has its own strip beside the curve: it is a code,
or an end of the range that other values do not continue. A mass that is not *joined* is not connected with the values
beside it, because the model has no rows in between.

In: a TermView, or knots and training weights. Out: a record for each point mass, in increasing order of their values.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from .terms import TermView

MAX_CODES = 5  # values at one end of the range that may be apart
MIN_OTHERS = 10  # values that are needed to tell an unusual gap from a usual one
MIN_GAP = 5.0  # gap between codes and the other values, in smallest gaps of the other values
CODE_SHARE = 0.02  # of the rows, at the most frequent of the values that are apart
NEAR = 0.03  # gap to a frequent value that is apart and does not look like a code, at least, in ranges of the others
FAR, FAR_CODE = 1.0, 0.25  # gap to a rare value that is apart, in ranges of the other values; if it looks like a code
TAIL_SHARE = 0.005  # rarer values that do not look like codes are a tail
LARGE_SHARE, PEAK = 0.05, 3.0  # share of the rows at a frequent value, and its multiple of the values beside it
END_SHARE, MAX_ALONE = 0.15, 2  # share of a frequent end of the range that is apart; most values inside that are alone
MIN_KNOTS = 30  # columns with fewer values have a mark at each value
SAME_GAP = 1.5  # gaps up to this multiple of the smallest one are steps of a grid


@dataclass(frozen=True)
class PointMass:
    """One value that is drawn alone.

    Parameters
    ----------
    cell : its cell in the table of the term, 1 … G
    value : the raw value
    weight, share : its training weight, and the share of all rows that have a value
    is_apart : whether it has its own strip beside the curve
    is_joined : whether the curve connects it with the values beside it
    """

    cell: int
    value: float
    weight: float
    share: float
    is_apart: bool
    is_joined: bool


def point_masses(term: TermView, side: int = 0) -> tuple[PointMass, ...]:
    """The point masses of one column of a term; `side` is the position of the column in the term.

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, explain
    >>> ages = [-9.0] * 6 + [20.0 + step % 40 for step in range(120)]
    >>> model = NeuralBasisRegressor(feature_names=["age"], max_steps=20).fit([[age] for age in ages], ages)
    >>> [(mass.value, mass.weight, mass.is_apart) for mass in point_masses(explain.explain_global(model).terms[0])]
    [(-9.0, 6.0, True)]
    """
    axis, weights = term.axes[side], term.weights
    if axis.is_level:
        return ()
    others = tuple(d for d in range(weights.ndim) if d != side)
    return find_point_masses(axis.knots, weights.sum(axis=others)[1:-1])


def list_point_masses(term: TermView, mains: Mapping[str, Sequence[PointMass]]) -> list[Sequence[PointMass]]:
    """The point masses of each column of a term; `mains` has those of the main effects."""
    return [
        carry_point_masses(mains[name], term, side) if name in mains else point_masses(term, side)
        for side, name in enumerate(term.columns)
    ]


def carry_point_masses(masses: Sequence[PointMass], term: TermView, side: int) -> tuple[PointMass, ...]:
    """The point masses of a column, found by its main effect, on the coarser axis of an interaction."""
    cells = {value: cell for cell, value in enumerate(term.axes[side].knots.tolist(), start=1)}
    return tuple(replace(mass, cell=cells[mass.value]) for mass in masses if mass.value in cells)


def find_point_masses(knots: np.ndarray, weights: np.ndarray) -> tuple[PointMass, ...]:
    """The point masses among values (G,) in increasing order, with their training weights (G,).

    >>> [mass.value for mass in find_point_masses(np.r_[-9.0, 30:60], np.ones(31))]
    [-9.0]
    """
    knots, weights = np.array(knots), np.array(weights)
    total = weights.sum()
    if len(knots) < 3 or not total > 0:
        return ()
    shares = weights / total
    low = _count_apart(knots, shares)
    end = len(knots) - _count_apart(-knots[low:][::-1], shares[low:][::-1])
    frequent = _list_frequent(shares, low, end)
    steps = np.diff(knots[low:end] / 2)
    alone = {i for i in frequent if not _is_on_grid(steps, i - low)}
    apart = {i for i in (low, end - 1) if i in alone and shares[i] >= END_SHARE}  # such as the zeros of an amount
    low, end = low + (low in apart), end - (end - 1 in apart)
    if len(alone - apart) > MAX_ALONE:  # values are often rounded to these
        alone = apart
    make = partial(_make_mass, knots, weights, shares)
    inner = [make(i, False, i not in alone) for i in frequent if low <= i < end]
    return (
        *(make(i, True, False) for i in range(low)),
        *inner,
        *(make(i, True, False) for i in range(end, len(knots))),
    )


def _make_mass(
    knots: np.ndarray, weights: np.ndarray, shares: np.ndarray, index: int, is_apart: bool, is_joined: bool
) -> PointMass:
    found = float(knots[index]), float(weights[index]), float(shares[index])
    return PointMass(index + 1, *found, is_apart, is_joined)


def _count_apart(knots: np.ndarray, shares: np.ndarray) -> int:
    """How many of the first values are apart from the others; 0 if none."""
    total = 0
    while found := _count_first(knots[total:], shares[total:], MAX_CODES - total):
        total += found
    return total


def _count_first(knots: np.ndarray, shares: np.ndarray, limit: int) -> int:
    """How many values there are before the first gap that sets them apart; 0 if there is no such gap."""
    gaps = np.diff(knots / 2)  # halved: the range of huge knots must not overflow
    for count in range(1, min(limit, len(gaps) - 1) + 1):
        gap, others, share = gaps[count - 1], gaps[count:], shares[:count].max()
        distance = float(gap) / max(float(others.sum()), sys.float_info.min)  # differences of tiny knots vanish
        is_few = len(others) + 1 < MIN_OTHERS
        if all(map(_looks_like_code, knots[:count].tolist())):
            is_alone = distance >= (FAR if is_few else FAR_CODE)
            is_candidate = not is_few and share >= CODE_SHARE
        elif is_few:  # such as the zeros of an amount that few rows have
            is_alone = False
            is_candidate = count == 1 and distance >= FAR and share >= max(END_SHARE, PEAK * shares[count:].max())
        else:
            is_alone = count == 1 and share >= TAIL_SHARE and distance >= FAR
            is_candidate = (
                distance >= NEAR
                and shares[:count].min() >= CODE_SHARE
                and shares[:count].min() >= 2 * float(np.median(shares[count:]))
            )
        if is_alone or (is_candidate and gap >= MIN_GAP * _find_usual_gap(others)):
            return count
    return 0


def _find_usual_gap(gaps: np.ndarray) -> float:
    """The step of a grid such as that of whole numbers, otherwise the median gap."""
    smallest = max(float(gaps.min()), sys.float_info.min)  # differences of tiny knots vanish
    is_grid = np.allclose(gaps / smallest, np.rint(gaps / smallest), atol=1e-6)
    return smallest if is_grid else float(np.median(gaps))


def _looks_like_code(value: float) -> bool:
    """
    >>> [_looks_like_code(value) for value in (-9.0, 99999.0, 88.0, 12.0, 9.5, 0.0)]
    [True, True, True, False, False, False]
    """
    digits = f"{abs(value):.0f}"
    return value == round(value) and len(set(digits)) == 1 and digits[0] in "789"


def _list_frequent(shares: np.ndarray, low: int, end: int) -> list[int]:
    """The frequent values that are not apart."""
    if end - low <= MIN_KNOTS:
        return []
    inner = np.r_[0.0, shares[low:end], 0.0]
    beside = np.maximum(inner[:-2], inner[2:])
    return (low + np.flatnonzero((inner[1:-1] >= LARGE_SHARE) & (inner[1:-1] >= PEAK * beside))).tolist()


def _is_on_grid(steps: np.ndarray, place: int) -> bool:
    """Whether most steps are multiples of the smallest, and the values beside this place are one step away."""
    beside, smallest = steps[max(place - 1, 0) : place + 1], max(float(steps.min()), sys.float_info.min)
    is_multiple = np.abs(steps / smallest - np.rint(steps / smallest)) < 1e-6
    return bool(beside.max() <= SAME_GAP * smallest and is_multiple.mean() > 0.5)
