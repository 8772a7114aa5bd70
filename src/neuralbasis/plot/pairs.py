"""Two more figures of a pair: curves of one column at values of the other, and a map of the favoured class.

By default both show the interaction alone. With `total=True` they add the main effects of the two columns: the whole
effect of the two columns together.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoding.axis import Axis
from ..explain import TermView, explain_global
from .canvas import COLOURS, GREY, add_legend, choose_width, fade, line_style, open_canvas, plain
from .curves import draw_density
from .maps import Map, choose_knots, draw_contours, find_empty, finish_map, make_map, name_knot
from .plot_axis import draw_plot_axis, make_plot_axis
from .scale import ScaledTerm, choose_class, choose_scale, find_pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_COLOURS = 6  # classes with a colour; the others are grey
TOTAL_NOTE = " and their main effects"


def slices(
    model: Any,
    pair: Any,
    along: str | None = None,
    levels: int | Sequence[Any] = 5,
    path: str | os.PathLike[str] | None = None,
    *,
    label: Any = None,
    total: bool = False,
    scale: str = "score",
    width: float | None = None,
) -> Figure:
    """Draw a pair as curves of one column, one for each value of the other; thin where no training row is near.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    pair : its name ("age & income"), its index, or a tuple of columns
    along : the column on the x axis; None takes the first continuous column
    levels : number of curves, at evenly spaced quantiles or at the most frequent levels of the other column; or a list
        of its values, each moved to the nearest knot
    label : the class, for three or more classes; None takes the class for which the pair is strongest
    total : whether to add the main effects of the two columns
    path, scale, width : see `shapes`

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = NeuralBasisRegressor(feature_names=["time", "place"], interactions=[(0, 1)], max_steps=20)
    >>> figure = plot.slices(model.fit(X, X[:, 0] * X[:, 1]), "time & place", levels=3)
    >>> figure.axes[0].get_xlabel(), len(figure.legends[0].get_texts())
    ('time', 3)
    """
    explanation = explain_global(model)
    term = find_pair(explanation, pair, total)
    side = _find_side(term, along)
    drawn = choose_scale(explanation, choose_class(explanation, term, label), scale)
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 5.0), max(0.6 * inches, 2.0))
        axes = figure.subplots()
        handles, names = _draw_slices(axes, drawn.apply(term), side, levels)
        axes.set(xlabel=plain(term.columns[side], 40), ylabel=drawn.unit)
        axes.set_title(plain(term.name, 50) + TOTAL_NOTE * bool(total) + drawn.class_note)
        add_legend(figure, handles, names, plain(term.columns[1 - side], 40))
    return figure


def push(
    model: Any,
    pair: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    total: bool = False,
    width: float | None = None,
) -> Figure:
    """Draw the class that each cell of a pair favours: the class whose score it raises most above the mean of all.

    A deeper colour is a stronger effect; white is none. The name of a class is written where its effect is strongest.
    Cells without training rows nearby are hatched.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation of a classifier
    pair : its name ("age & income"), its index, or a tuple of columns
    total : whether to add the main effects of the two columns
    path, width : see `shapes`
    """
    explanation = explain_global(model)
    if explanation.classes is None:
        raise ValueError("push needs a classifier; this model is a regression: use shape(model, pair)")
    term = find_pair(explanation, pair, total)
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 4.6), max(0.75 * inches, 2.0))
        axes = figure.subplots()
        panel = make_map(term, push_strength(term.scores))
        handles, names = _draw_push(axes, panel, explanation.classes)
        axes.set_title(plain(term.name, 50) + TOTAL_NOTE * bool(total))
        if handles:
            add_legend(figure, handles, names, "favours")
    return figure


def push_strength(scores: np.ndarray) -> np.ndarray:
    """Scores (…, K) -> score of each class minus the mean of all classes, (…, classes).

    With two classes, K is 1: the score belongs to the second class, and the first class has 0.

    >>> push_strength(np.array([[2.0]])).tolist(), push_strength(np.array([[3.0, 0.0, 0.0]])).tolist()
    ([[-1.0, 1.0]], [[2.0, -1.0, -1.0]])
    """
    if scores.shape[-1] == 1:
        scores = np.concatenate([np.zeros_like(scores), scores], axis=-1)
    return scores - scores.mean(axis=-1, keepdims=True)


def _draw_push(axes: Axes, panel: Map, classes: Sequence[Any]) -> tuple[list[Any], list[str]]:
    """Draw cells coloured by class; returns legend handles and names of the favoured classes."""
    from matplotlib.patches import Patch

    strength, winner = panel.values.max(axis=-1), panel.values.argmax(axis=-1)
    drawn = np.ix_(*(plot_axis.cells for plot_axis in panel.plot_axes))
    near = np.where(panel.is_empty[drawn], 0.0, strength[drawn])
    mass = np.bincount(winner[drawn].ravel(), near.ravel(), minlength=len(classes))
    heaviest = [k for k in np.argsort(-mass, kind="stable").tolist() if mass[k] > 0][:MAX_COLOURS]
    is_few = len(classes) <= MAX_COLOURS  # then a class has the colour of its curves
    palette = {k: COLOURS[k if is_few else place] for place, k in enumerate(sorted(heaviest))}
    share = (strength / (near.max(initial=0.0) or 1.0)).clip(max=1)
    colours = fade(GREY, share)
    for k, colour in palette.items():
        colours[winner == k] = fade(colour, share[winner == k])
    axes.pcolormesh(*panel.edges, panel.select_drawn(colours).filled(1.0).swapaxes(0, 1), rasterized=True)
    for k in palette:
        draw_contours(axes, panel, (winner == k).astype(float), [0.5])
    finish_map(axes, panel)
    names = [plain(classes[k], 20) for k in palette]
    for k, name in zip(palette, names, strict=True):
        _label_class(axes, panel, np.where(winner[drawn] == k, near, 0.0), name)
    hidden = int((mass > 0).sum()) - len(palette)
    handles = [Patch(color=colour) for colour in [*palette.values(), *([GREY] if hidden else [])]]
    return handles, [*names, *([f"{hidden} others"] if hidden else [])]


def _label_class(axes: Axes, panel: Map, strength: np.ndarray, name: str) -> None:
    """Write the name of a class at the drawn cell (P, Q) with the strongest effect."""
    from matplotlib.patheffects import withStroke

    place = np.unravel_index(strength.argmax(), strength.shape)
    x, y = (plot_axis.positions[index] for plot_axis, index in zip(panel.plot_axes, place, strict=True))
    low, high = axes.get_xlim()
    side = "left" if x < low + 0.2 * (high - low) else "right" if x > high - 0.2 * (high - low) else "center"
    halo = [withStroke(linewidth=2, foreground="white")]
    axes.text(x, y, name, ha=side, va="center", path_effects=halo, clip_on=True)


def _draw_slices(
    axes: Axes, scaled: ScaledTerm, along: int, levels: int | Sequence[Any]
) -> tuple[list[Any], list[str]]:
    """Draw thin lines, thick where training rows are near; returns legend handles and names of the slices."""
    term, across = scaled.term, 1 - along
    weights = term.weights.sum(axis=across)
    plot_axis = make_plot_axis(term.axes[along], weights)
    chosen = _choose_slices(term.axes[across], term.weights.sum(axis=along), levels)
    draw_density(axes, plot_axis, weights)
    axes.axhline(scaled.base[0], color=GREY, linewidth=0.6, linestyle=":")
    tables = scaled.mean[..., 0], ~find_empty(term.axes, term.weights)
    values, is_near = (np.moveaxis(table, along, 0)[plot_axis.cells] for table in tables)
    handles = []
    for index, look in zip(chosen, _choose_colours(term.axes[across], len(chosen)), strict=True):
        at, line = plot_axis.polyline(values[:, index + 1])
        _, near = plot_axis.polyline(is_near[:, index + 1])
        axes.plot(at, line, linewidth=0.5, **look)
        handles += axes.plot(at, np.where(near, line, np.nan), linewidth=2.0, **look)
    draw_plot_axis(axes, plot_axis, "x")
    return handles, [name_knot(term.axes[across], index) for index in chosen]


def _choose_colours(axis: Axis, count: int) -> list[dict[str, Any]]:
    """Line styles: different colours for levels, dark to light for numbers."""
    if axis.is_level:
        return [line_style(order) for order in range(count)]
    from matplotlib import colormaps

    return [{"color": colormaps["viridis"](share)} for share in np.linspace(0.0, 0.85, count)]


def _find_side(term: TermView, along: str | None) -> int:
    if along is None:
        return next((d for d in (0, 1) if not term.axes[d].is_level), 0)
    if along not in term.columns:
        first, second = term.columns
        raise ValueError(f"along must be a column of the pair, {first!r} or {second!r}; got {along!r}")
    return term.columns.index(along)


def _choose_slices(axis: Axis, weights: np.ndarray, levels: int | Sequence[Any]) -> list[int]:
    """Indices of knots or levels of the other column."""
    if isinstance(levels, (int, np.integer)):
        if not 1 <= levels <= 10:
            raise ValueError(f"levels must be 1 to 10 curves, or a list of values; got {levels!r}")
        return choose_knots(axis, weights, int(levels))
    if axis.levels is None:
        return [int(np.abs(axis.knots - float(value)).argmin()) for value in levels]
    unknown = [level for level in levels if str(level) not in axis.levels]
    if unknown:
        known = ", ".join(map(repr, axis.levels[:20]))
        raise ValueError(f"column {axis.name!r} has no level {unknown[0]!r} in this pair; its levels are {known}")
    return [axis.levels.index(str(level)) for level in levels]
