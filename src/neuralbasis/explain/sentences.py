"""One plain sentence about a term, generated from its table: where it rises and falls, and where rows are few.

    "Rises until 50, flat after; beyond 75 only 60 rows."          a curve
    "Highest for Oslo (+0.9), lowest for Bern (−0.4)."             levels
    "Beyond the single effects: highest where age is 60 …"         a pair or a triple

A change is reported only if the 95 % bands of its two ends do not overlap. In: a TermView. Out: text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, log10

import numpy as np

from ..model.shapes import QUANTILE
from .bands import NO_EFFECT, describe_effect
from .point_masses import PointMass, point_masses
from .terms import TermView

MIN_CHANGE = 0.1  # of the range of a curve
FLAT_CHANGE = 0.02, 0.15  # smallest and largest share of a rise or fall that belongs to the flat parts at its ends
FLAT_SLOPE = 2.0  # a flat end is at least so many times less steep than the whole rise or fall
FLAT_LENGTH, JUMP_LENGTH = 0.15, 0.03  # of the range of the column
MAX_PARTS = 5  # rises, falls and flat parts of a curve that are listed
FEW_ROWS, FEW_LENGTH = 0.02, 0.2  # largest share of the rows on the outer part of a column, and its least length
MAX_APART = 3  # special codes that are listed
MAX_NAME = 40
RISE, FALL, FLAT = 1, -1, 0


@dataclass(frozen=True)
class Part:
    """A part of a curve, from knot to knot: it rises, falls or is flat."""

    direction: int
    start: int
    end: int


def describe_shape(term: TermView, output: int = 0) -> str:
    """A sentence about one term.

    Parameters
    ----------
    term : a term of `explain_global(model).terms`
    output : index of the score

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, explain
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9}
    >>> model = NeuralBasisRegressor(max_steps=20).fit(table, table["size"])
    >>> describe_shape(explain.explain_global(model).terms[0])
    'Rises throughout.'
    """
    return _describe_scores(term, term.scores[..., output], term.spread[..., output], output)


def describe_outputs(term: TermView) -> list[str]:
    """The sentence of each score."""
    scores, spread = term.scores, term.spread
    return [_describe_scores(term, scores[..., k], spread[..., k], k) for k in range(scores.shape[-1])]


def _describe_scores(term: TermView, scores: np.ndarray, spread: np.ndarray, output: int) -> str:
    if describe_effect(term, [output]):
        return f"{_start(NO_EFFECT)}."
    halves = spread * (1.0 if term.evidence is None else QUANTILE)
    if len(term.axes) > 1:
        return _describe_interaction(term, scores, halves)
    return (_describe_levels if term.axes[0].is_level else _describe_curve)(term, scores, halves)


def _describe_curve(term: TermView, scores: np.ndarray, halves: np.ndarray) -> str:
    masses = [mass for mass in point_masses(term) if mass.is_apart]
    knots, weights = term.axes[0].knots, term.weights
    apart = {mass.cell for mass in masses}
    cells = np.array([cell for cell in range(1, len(knots) + 1) if cell not in apart])
    own, parts = knots[cells - 1], find_parts(knots[cells - 1], scores[cells], halves[cells])
    text = _describe_parts(own, scores[cells], parts) if parts else _start("no clear rise or fall")
    if tail := _describe_tails(own, weights[cells]):
        text += f"; {tail}"
    if special := _describe_apart(masses, scores, halves, weights):
        text += f". Apart: {special}"
    return f"{text}."


def find_parts(knots: np.ndarray, scores: np.ndarray, halves: np.ndarray) -> list[Part]:
    """The clear rises and falls of a curve, and the flat parts beside them; empty if nothing is clear.

    halves : half widths of the band

    >>> find_parts(np.arange(5.0), np.array([0.0, 1.0, 2.0, 2.0, 2.0]), np.full(5, 0.1))
    [Part(direction=1, start=0, end=2), Part(direction=0, start=2, end=4)]
    """
    legs = _find_legs(scores, halves)
    if len(legs) > MAX_PARTS:  # too many to describe: their ends do not matter
        return legs
    parts: list[Part] = []
    last, place = len(knots) - 1, 0
    for leg in legs:
        start, end = _trim_leg(knots, scores, halves, leg)
        if _is_long(knots, place, start):
            parts.append(Part(FLAT, place, start))
        elif parts:  # one turns into the other
            start = leg.start
            parts[-1] = Part(parts[-1].direction, parts[-1].start, start)
        parts.append(Part(leg.direction, start, end))
        place = end
    if parts and _is_long(knots, place, last):
        parts.append(Part(FLAT, place, last))
    return parts


def _trim_leg(knots: np.ndarray, scores: np.ndarray, halves: np.ndarray, leg: Part) -> tuple[int, int]:
    """The knots between which a leg changes: flat ends, where it changes by less than its band, are left out."""
    inside = slice(leg.start, leg.end + 1)
    x, own, widths = knots[inside] / 2, scores[inside], halves[inside]
    change = abs(own[-1] - own[0])
    least, most = (share * change for share in FLAT_CHANGE)

    def trim(end: int) -> int:
        """The last knot that belongs to the flat part at the first (0) or the last (-1) knot."""
        changes = np.abs(own - own[end])
        is_flat = changes <= np.clip(widths + widths[end], least, most)
        place = int(np.flatnonzero(is_flat)[-1 if end == 0 else 0])
        is_gentle = abs(x[place] - x[end]) * change >= FLAT_SLOPE * changes[place] * (x[-1] - x[0])
        return place if is_gentle else end % len(own)

    return leg.start + trim(0), leg.start + trim(-1)


def _is_long(knots: np.ndarray, start: int, end: int) -> bool:
    return bool(knots[end] / 2 - knots[start] / 2 >= FLAT_LENGTH * (knots[-1] / 2 - knots[0] / 2)) and end > start


def _find_legs(scores: np.ndarray, halves: np.ndarray) -> list[Part]:
    """Alternating rises and falls whose ends have bands that do not overlap."""
    least = MIN_CHANGE * float(np.ptp(scores))
    values, widths = scores.tolist(), halves.tolist()  # lists are much faster here
    legs: list[Part] = []
    direction = FLAT
    low = high = 0  # the lowest and the highest score since the last turn
    bottom = top = 0  # the lowest upper end and the highest lower end of the band
    for i, (score, half) in enumerate(zip(values, widths, strict=True)):
        low, high = (i if score < values[low] else low), (i if score > values[high] else high)
        bottom = i if score + half < values[bottom] + widths[bottom] else bottom
        top = i if score - half > values[top] - widths[top] else top
        rises = direction != RISE and score - half > values[bottom] + widths[bottom] and score - values[bottom] >= least
        falls = direction != FALL and score + half < values[top] - widths[top] and values[top] - score >= least
        if not (rises or falls):
            continue
        turn = (bottom if rises else top) if direction == FLAT else (low if rises else high)
        if legs:
            legs[-1] = Part(direction, legs[-1].start, turn)
        direction = RISE if rises else FALL
        legs.append(Part(direction, turn, i))
        low = high = bottom = top = i
    if legs:
        legs[-1] = Part(direction, legs[-1].start, high if direction == RISE else low)
    return legs


def _describe_parts(knots: np.ndarray, scores: np.ndarray, parts: Sequence[Part]) -> str:
    write = _choose_format(knots)
    if len(parts) > MAX_PARTS:
        high, low = write(knots[scores.argmax()]), write(knots[scores.argmin()])
        return f"Rises and falls several times: highest near {high}, lowest near {low}"
    if len(parts) == 1:
        return _start(_describe_part(knots, parts[0], write) or _name(parts[0]) + " throughout")
    texts = []
    for part in parts:
        after = "after" if part is parts[-1] else f"until {write(knots[part.end])}"
        texts.append(_describe_part(knots, part, write) or f"{_name(part)} {after}")
    return _start(", ".join(texts))


def _name(part: Part) -> str:
    return {RISE: "rises", FALL: "falls", FLAT: "flat"}[part.direction]


def _describe_part(knots: np.ndarray, part: Part, write: _Format) -> str:
    """A jump, described by its place; empty for any other part."""
    length, reach = knots[part.end] / 2 - knots[part.start] / 2, knots[-1] / 2 - knots[0] / 2
    if part.direction == FLAT or not length <= JUMP_LENGTH * reach:
        return ""
    return f"jumps {'up' if part.direction == RISE else 'down'} near {write(knots[part.end])}"


def _describe_tails(knots: np.ndarray, weights: np.ndarray) -> str:
    """The outer parts of the range that have few rows."""
    write, total, reach = _choose_format(knots), weights.sum(), knots[-1] / 2 - knots[0] / 2
    found = []
    for word, sign in (("below", 1), ("beyond", -1)):
        own, rows = knots[::sign], np.cumsum(weights[::sign])
        inside = np.flatnonzero(rows <= FEW_ROWS * total)
        if len(inside) == 0 or len(own) < 3:
            continue
        edge = min(int(inside[-1]) + 1, len(own) - 1)  # the first knot that is not in the tail
        if sign * (own[edge] / 2 - own[0] / 2) >= FEW_LENGTH * reach and rows[edge - 1] > 0:
            found.append(f"{word} {write(own[edge])} only {_count(rows[edge - 1])}")
    return ", ".join(found)


def _describe_apart(masses: Sequence[PointMass], scores: np.ndarray, halves: np.ndarray, weights: np.ndarray) -> str:
    """Special codes and missing values, heaviest first."""
    found = [(_write_value(mass.value), mass.cell) for mass in masses]
    if weights[0] > 0:
        found.append(("missing", 0))
    found.sort(key=lambda one: -weights[one[1]])
    clear, unclear = [], []
    for name, cell in found[:MAX_APART]:
        text = f"{name} ({_count(weights[cell])})"
        if abs(scores[cell]) > halves[cell]:
            clear.append(f"{text} {_write_score(scores[cell])}")
        else:
            unclear.append(text)
    return ", ".join([*clear, *([f"{NO_EFFECT} of {', '.join(unclear)}"] if unclear else [])])


def _describe_levels(term: TermView, scores: np.ndarray, halves: np.ndarray) -> str:
    names = term.axes[0].levels or ()
    cells = 1 + np.flatnonzero(term.weights[1:-1] > 0)
    if len(cells) == 0:
        cells = np.arange(1, len(names) + 1)
    high, low = cells[scores[cells].argmax()], cells[scores[cells].argmin()]
    text = "highest for {}, lowest for {}"
    if not scores[high] - halves[high] > scores[low] + halves[low]:
        high, low = cells[(scores - halves)[cells].argmax()], cells[(scores + halves)[cells].argmin()]
        text = "higher for {} than for {}; other levels are less certain"
        if not scores[high] - halves[high] > scores[low] + halves[low]:
            return "No clear difference between the levels."
    few = FEW_ROWS * term.weights.sum()
    ends = []
    for cell in (high, low):
        rows = f", {_count(term.weights[cell])}" if 0 < term.weights[cell] <= few else ""
        ends.append(f"{_shorten(names[cell - 1])} ({_write_score(scores[cell])}{rows})")
    return f"{_start(text.format(*ends))}."


def _describe_interaction(term: TermView, scores: np.ndarray, halves: np.ndarray) -> str:
    """Where an interaction is highest and lowest, among the cells with rows and a clear effect."""
    inner = (slice(1, -1),) * scores.ndim
    scores, is_clear = scores[inner], (np.abs(scores) > halves)[inner] & (term.weights[inner] > 0)
    ends = []
    for word, sign in (("highest", 1.0), ("lowest", -1.0)):
        clear = np.where(is_clear & (sign * scores > 0), sign * scores, 0.0)
        if clear.any():
            place = np.unravel_index(int(clear.argmax()), clear.shape)
            ends.append(f"{word} where {_describe_place(term, place)} ({_write_score(scores[place])})")
    if not ends:
        return f"{_start(NO_EFFECT)} beyond the single effects."
    return f"Beyond the single effects: {', '.join(ends)}."


def _describe_place(term: TermView, place: Sequence[np.intp]) -> str:
    texts = []
    for name, axis, index in zip(term.columns, term.axes, place, strict=True):
        knot = axis.knots[index]
        value = _choose_format(axis.knots)(knot) if axis.levels is None else _shorten(axis.levels[int(index)])
        texts.append(f"{_shorten(name)} is {value}")
    return " and ".join(texts)


class _Format:
    """Writes values rounded to about 1 % of their range."""

    def __init__(self, step: float):
        self.step = step

    def __call__(self, value: float) -> str:
        places = max(0, -floor(log10(self.step) + 0.5)) if self.step > 0 else 0
        rounded = value if self.step <= 0 else round(value / self.step) * self.step
        if rounded and not 1e-4 <= abs(rounded) < 1e9:
            return f"{rounded:.3g}".replace("-", "−")
        return f"{rounded:,.{places}f}".replace("-", "−")


def _choose_format(knots: np.ndarray) -> _Format:
    """
    >>> _choose_format(np.array([17.0, 90.0]))(50.4), _choose_format(np.array([0.0, 0.5]))(0.1234)
    ('50', '0.12')
    """
    reach = float(knots[-1] / 2 - knots[0] / 2)
    step = 10.0 ** floor(log10(reach / 25)) if reach > 0 else 0.0
    return _Format(max(step, 1.0) if (knots == np.rint(knots)).all() else step)


def _write_value(value: float) -> str:
    return f"{value:,.6g}".replace("-", "−")


def _write_score(score: float) -> str:
    """
    >>> _write_score(0.1234), _write_score(-183.4), _write_score(25_410.0)
    ('+0.12', '−180', '+25,000')
    """
    text = f"{score:+.2g}"
    return (f"{float(text):+,.0f}" if 100 <= abs(score) < 1e9 else text).replace("-", "−")


def _count(weight: float) -> str:
    rows = max(1, round(float(weight)))
    return f"{rows:,} row{'' if rows == 1 else 's'}"


def _shorten(name: str) -> str:
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]
