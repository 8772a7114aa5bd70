"""Cards: a fitted model and explained rows as small pieces of HTML for a notebook.

In: a model or rows. Out: HTML without scripts and without references to other files. Text takes the colour
of the notebook, and all other colours are readable on white and on black.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from .html import wrap_card
from .scorecard import score_name, shorten
from .shapes import LEVEL, QUANTILE, AnyShape, have_evidence

BLUE, ORANGE, GREY = "#2E86C1", "#D9762B", "#888888"  # the colours of the figures, between light and dark
LINES = (BLUE, ORANGE, "#27A17C", "#B86DA0")  # of the first classes
WIDTH, HEIGHT, MARGIN = 190, 78, 3  # of a small shape in pixels
N_SHAPES, N_BARS, N_LEVELS = 6, 10, 6
MAX_POINTS = 96  # of a small curve
OVER_MEMBERS = "± 1 standard deviation over the members"


def write_card(model: Any, n_shapes: int = N_SHAPES) -> str:
    """What a model predicts, how well, and its strongest shapes."""
    importances = model.importances()
    order = np.argsort(-importances, kind="stable")
    mains = [int(t) for t in order if len(model.terms[t]) == 1][:n_shapes]
    shapes = "".join(_write_shape(model, t, float(importances[t])) for t in mains)
    band = f"{100 * LEVEL:.0f} % band for each value" if have_evidence(model.shapes) else OVER_MEMBERS
    legend = f"Contribution to the {escape(score_name(model))}; shaded: {band}"
    if model.n_outputs > 1:
        names = [escape(shorten(str(label), 20)) for label in model.classes]
        keys = [f'<span style="color:{c}">■</span> {name}' for c, name in zip(LINES, names, strict=False)]
        legend = f"Contribution to the score of a class: {', '.join(keys)}; bars: {names[0]}"
    parts = [f"<div>{_describe_model(model)}</div>", f'<div class="s">{shapes}</div>']
    parts += [f"<small>{legend}.</small>"] if shapes else []
    parts += [_write_importances(model, order, importances)]
    return wrap_card("".join(parts))


def write_bars(rows: Sequence[tuple[str, str, float, str]], header: tuple[str, str, str]) -> str:
    """A table of names, values and signed sizes, each with a bar; the last item is the printed size."""
    largest = max((abs(size) for *_, size, _ in rows), default=0.0) or 1.0
    first, second, third = map(escape, header)
    lines = [f'<tr><th>{first}</th><th>{second}</th><th class="n">{third}</th><th></th></tr>']
    for name, value, size, text in rows:
        colour = ORANGE if size > 0 else BLUE
        bar = f'<rect x="0" y="2" width="{max(1.0, 120 * abs(size) / largest):.1f}" height="9" fill="{colour}"/>'
        cells = f"<td>{escape(shorten(name, 44))}</td><td>{escape(shorten(value, 32))}</td>"
        cells += f'<td class="n">{escape(text)}</td>'
        lines.append(f'<tr>{cells}<td><svg width="124" height="13" role="presentation">{bar}</svg></td></tr>')
    return f"<table>{''.join(lines)}</table>"


def _describe_model(model: Any) -> str:
    """What the model predicts, from how many rows, and the held-out loss."""
    summary, labels = model.summary, None if model.classes is None else [shorten(str(c), 20) for c in model.classes]
    target = "" if summary is None or not summary.target else f" {escape(shorten(summary.target))}"
    if labels is None:
        predicts = f"a number,{target}" if target else "a number"
    else:
        listed = ", ".join(labels[:6]) + (f" and {len(labels) - 6} more" if len(labels) > 6 else "")
        predicts = f"{len(labels)} classes{' of' + target if target else ''}: {escape(listed)}"
    kinds = [len(term) for term in model.terms]
    counts = [(kinds.count(1), "main effect"), (kinds.count(2), "pair"), (sum(kind > 2 for kind in kinds), "triple")]
    terms = ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for count, name in counts if count)
    name = "Additive model" if summary is None else summary.estimator
    facts = [f"{summary.n_rows:,} training rows"] if summary is not None else []
    facts += [terms or "no terms", *_describe_loss(model)]
    return f"<b>{escape(name)}</b> predicts {predicts}<br/><small>{escape(' · '.join(facts))}</small>"


def _describe_loss(model: Any) -> list[str]:
    """The held-out loss of the members, in words."""
    summary = model.summary
    if summary is None or summary.validation is None:
        return []
    constant = summary.history.get("constant")
    if model.classes is not None:
        base = f" (without columns {constant:.3g})" if isinstance(constant, float) else ""
        return [f"log loss of held-out rows {summary.validation:.3g}{base}"]
    if not isinstance(constant, float) or constant <= 0:
        return []
    return [f"R² of held-out rows {1 - summary.validation / constant:.3f}"]


def _write_importances(model: Any, order: np.ndarray, importances: np.ndarray) -> str:
    shown = order[:N_BARS]
    rows = [(model.term_names[t], "", float(importances[t]), f"{importances[t]:.3g}") for t in shown]
    hidden = len(order) - len(shown)
    more = f"<small>and {hidden:,} weaker terms</small>" if hidden else ""
    table = write_bars(rows, ("term", "", "importance")) if rows else ""
    return f"<details><summary>Importance of the terms: mean |contribution|</summary>{table}{more}</details>"


def _write_shape(model: Any, index: int, importance: float) -> str:
    """A small picture of a main effect."""
    shape = model.shapes[index]
    draw = _draw_levels if shape.axes[0].is_level else _draw_curve
    name = escape(shorten(model.term_names[index], 40))
    return f"<figure><figcaption>{name} <small>{importance:.3g}</small></figcaption>{draw(shape, name)}</figure>"


def _draw_curve(shape: AnyShape, name: str) -> str:
    """A curve over the central rows, its band, the zero line and the ends of both axes."""
    knots, scores, half = shape.axes[0].knots, shape.scores[1:-1, : len(LINES)], _half_band(shape)[1:-1]
    first, last = _find_range(knots, shape.weights[1:-1])
    at = np.unique(np.linspace(first, last, min(last - first + 1, MAX_POINTS)).astype(int))
    knots, scores, half = knots[at], scores[at], half[at] if scores.shape[1] == 1 else np.zeros_like(scores[at])
    low, high = min(float((scores - half).min()), 0.0), max(float((scores + half).max()), 0.0)
    width = float(knots[-1] - knots[0]) or 1.0
    x = MARGIN + (WIDTH - 2 * MARGIN) * ((knots - knots[0]) / width)

    def place(values: np.ndarray) -> np.ndarray:
        return MARGIN + (HEIGHT - 2 * MARGIN) * (high - values) / ((high - low) or 1.0)

    parts = [_line(MARGIN, WIDTH - MARGIN, float(place(np.zeros(1))[0]))]
    for k in range(scores.shape[1]):
        colour = LINES[k]
        if half.any():
            band = _points(
                np.r_[x, x[::-1]], np.r_[place(scores[:, k] + half[:, k]), place(scores[:, k] - half[:, k])[::-1]]
            )
            parts.append(f'<polygon points="{band}" fill="{colour}" fill-opacity=".28"/>')
        line = _points(x, place(scores[:, k]))
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
    ends = [(MARGIN, "start", knots[0]), (WIDTH - MARGIN, "end", knots[-1])]
    parts += [f'<text x="{at}" y="{HEIGHT + 11}" text-anchor="{side}">{_number(end)}</text>' for at, side, end in ends]
    parts += [f'<text x="{WIDTH / 2}" y="{HEIGHT + 11}" text-anchor="middle">{_number(low)} … {_number(high)}</text>']
    return _svg(name, HEIGHT + 14, parts)


def _draw_levels(shape: AnyShape, name: str) -> str:
    """Bars of the strongest levels, sorted by effect."""
    levels, scores = shape.axes[0].levels or (), shape.scores[1:-1, 0]
    size = np.where(shape.weights[1:-1] > 0, np.abs(shape.scores[1:-1]).max(axis=1), -1.0)
    kept = np.argsort(-size, kind="stable")[:N_LEVELS]
    kept = kept[np.argsort(-scores[kept], kind="stable")]
    low, high = min(float(scores[kept].min()), 0.0), max(float(scores[kept].max()), 0.0)
    start, room = 0.5 * WIDTH, 0.5 * WIDTH - MARGIN
    zero = start + room * -low / ((high - low) or 1.0)
    parts, step = [], 15
    for row, level in enumerate(kept):
        end = start + room * (scores[level] - low) / ((high - low) or 1.0)
        bar = min(zero, end), abs(end - zero)
        parts.append(
            f'<rect x="{bar[0]:.1f}" y="{row * step + 3}" width="{max(bar[1], 0.5):.1f}" height="10" fill="{BLUE}"/>'
        )
        text = escape(shorten(str(levels[level]), 15))
        parts.append(f'<text x="{start - 5:.0f}" y="{row * step + 12}" text-anchor="end">{text}</text>')
    height = step * len(kept)
    parts.append(f'<path d="M{zero:.1f} 0V{height}" stroke="{GREY}"/>')
    more = len(levels) - len(kept)
    note = f"{_number(low)} … {_number(high)}" + (f", {more} more levels" if more else "")
    parts.append(f'<text x="{WIDTH - MARGIN}" y="{height + 11}" text-anchor="end">{note}</text>')
    return _svg(name, height + 14, parts)


def _half_band(shape: AnyShape) -> np.ndarray:
    return shape.spread[:, : len(LINES)] * (1.0 if getattr(shape, "evidence", None) is None else QUANTILE)


def _find_range(knots: np.ndarray, weights: np.ndarray) -> tuple[int, int]:
    """The knots of the central 99 % of the rows if the tails would fill a third of the picture, else all."""
    share = np.cumsum(weights) / (float(weights.sum()) or 1.0)
    first, last = (int(i) for i in np.searchsorted(share, [0.005, 0.995]).clip(max=len(knots) - 1))
    inner, whole = knots[last] - knots[first], knots[-1] - knots[0]
    return (0, len(knots) - 1) if inner == 0 or inner > 2 / 3 * whole else (first, last)


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(f"{a:.1f},{b:.1f}" for a, b in zip(x, y, strict=True))


def _line(left: float, right: float, y: float) -> str:
    return f'<path d="M{left} {y:.1f}H{right}" stroke="{GREY}" stroke-dasharray="2 3"/>'


def _number(value: float) -> str:
    text = f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.3g}"
    return text.replace("-", "−") if math.isfinite(value) else escape(text)


def _svg(name: str, height: float, parts: Sequence[str]) -> str:
    content = "".join(parts)
    size = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg {size} role="img" aria-label="{name}">{content}</svg>'
