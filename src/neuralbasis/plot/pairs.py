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
from ..explain import GlobalExplanation, TermView, explain_global
from .canvas import COLOURS, GREY, add_legend, choose_width, fade, line_style, open_canvas, plain
from .curves import draw_density
from .maps import Map, choose_levels, draw_contours, find_empty, finish_map, format_value, make_map
from .plot_axis import PlotAxis, draw_plot_axis, make_plot_axis
from .scale import Scale, add_mains, choose_scale, find_pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_COLOURS = 6  # classes with a colour; the others are grey


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
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    label : the class, for three or more classes; None takes the class for which the pair is strongest
    total : whether to add the main effects of the two columns
    scale : "score" or "probability", see `shapes`
    width : width of the figure in inches

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
    term = find_pair(explanation, pair)
    along_axis = _find_side(term, along)
    drawn = _choose_class(explanation, term, label, scale)
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 5.0), max(0.6 * inches, 2.0))
        axes = figure.subplots()
        handles, names = _draw_slices(axes, term, drawn, along_axis, levels, total)
        axes.set(xlabel=plain(term.columns[along_axis], 40), ylabel=drawn.unit)
        axes.set_title(plain(term.name, 50) + _total_note(total) + drawn.class_note)
        add_legend(figure, handles, names, plain(term.columns[1 - along_axis], 40))
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
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    total : whether to add the main effects of the two columns
    width : width of the figure in inches
    """
    explanation = explain_global(model)
    if explanation.classes is None:
        raise ValueError("push needs a classifier; this model is a regression: use shape(model, pair)")
    term = find_pair(explanation, pair)
    scores = add_mains(explanation, term) if total else term.scores
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 4.6), max(0.75 * inches, 2.0))
        axes = figure.subplots()
        handles, names = _draw_push(axes, make_map(term, push_strength(scores), term.weights), explanation.classes)
        axes.set_title(plain(term.name, 50) + _total_note(total))
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
    palette = _choose_palette(mass)
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


def _choose_palette(mass: np.ndarray) -> dict[int, str]:
    """Colours of the most favoured classes; with few classes, the same colours as their curves."""
    heaviest = [k for k in np.argsort(-mass, kind="stable").tolist() if mass[k] > 0][:MAX_COLOURS]
    has_own = len(mass) <= MAX_COLOURS
    return {k: COLOURS[k if has_own else place] for place, k in enumerate(sorted(heaviest))}


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
    axes: Axes, term: TermView, scale: Scale, along: int, levels: int | Sequence[Any], total: bool
) -> tuple[list[Any], list[str]]:
    across = 1 - along
    scaled = scale.apply(term, add_mains(scale.explanation, term) if total else term.scores)
    tables = scaled.mean[..., 0], ~find_empty(term.axes, term.weights)
    values, is_near = (np.moveaxis(table, along, 0) for table in tables)
    plot_axis = make_plot_axis(term.axes[along], term.weights.sum(axis=across))
    chosen = _choose_slices(term.axes[across], term.weights.sum(axis=along), levels)
    draw_density(axes, plot_axis, term.weights.sum(axis=across))
    axes.axhline(scaled.base[0], color=GREY, linewidth=0.6, linestyle=":")
    colours = _choose_colours(term.axes[across], len(chosen))
    handles = [
        _draw_slice(axes, plot_axis, values[plot_axis.cells, cell], is_near[plot_axis.cells, cell], look)
        for (cell, _), look in zip(chosen, colours, strict=True)
    ]
    draw_plot_axis(axes, plot_axis, "x")
    return handles, [text for _, text in chosen]


def _draw_slice(axes: Axes, plot_axis: PlotAxis, values: np.ndarray, is_near: np.ndarray, look: dict[str, Any]) -> Any:
    """A thin line, thick where training rows are near."""
    at, line = plot_axis.polyline(values)
    near = plot_axis.polyline(is_near)[1]
    axes.plot(at, line, linewidth=0.5, **look)
    return axes.plot(at, np.where(near, line, np.nan), linewidth=2.0, **look)[0]


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


def _choose_class(explanation: GlobalExplanation, term: TermView, label: Any, kind: str) -> Scale:
    if label is not None:
        return choose_scale(explanation, [label], kind)
    scale = choose_scale(explanation, None, kind)
    return scale.select(int(term.importances.argmax())) if scale.is_multiclass else scale


def _choose_slices(axis: Axis, weights: np.ndarray, levels: int | Sequence[Any]) -> list[tuple[int, str]]:
    """Cells of the other column, with their names."""
    if isinstance(levels, (int, np.integer)):
        if not 1 <= levels <= 10:
            raise ValueError(f"levels must be 1 to 10 curves, or a list of values; got {levels!r}")
        return choose_levels(axis, weights, int(levels))
    if axis.levels is None:
        cells = [int(np.abs(axis.knots - float(value)).argmin()) for value in levels]
        return [(cell + 1, format_value(axis.knots[cell])) for cell in cells]
    unknown = [level for level in levels if str(level) not in axis.levels]
    if unknown:
        known = ", ".join(map(repr, axis.levels[:20]))
        raise ValueError(f"column {axis.name!r} has no level {unknown[0]!r} in this pair; its levels are {known}")
    return [(axis.levels.index(str(level)) + 1, plain(level, 20)) for level in levels]


def _total_note(total: bool) -> str:
    return " and their main effects" if total else ""
