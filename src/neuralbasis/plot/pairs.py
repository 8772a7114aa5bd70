"""Two more figures of a pair: curves of one column at values of the other, and a map of the favoured class.

By default both add the main effects of the two columns: the whole effect of the two columns together. With
`total=False` they show the interaction alone.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import TermView, explain_global
from .canvas import COLOURS, GREY, add_legend, choose_width, fade, open_canvas, plain, wrap_name
from .legends import join_notes, note_hatches
from .maps import Map, draw_contours, finish_map, make_map
from .pair_curves import find_side, list_column_masses, make_pair_curves
from .panels import Panel, PanelLayout, choose_layout, draw_panels
from .scale import choose_class, choose_scale, find_pair

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_COLOURS = 6  # classes with a colour; the others are grey
TOTAL_NOTE = "with the main effects of both columns"


def slices(
    model: Any,
    pair: Any,
    along: str | None = None,
    levels: int | Sequence[Any] = 5,
    path: str | os.PathLike[str] | None = None,
    *,
    label: Any = None,
    total: bool = True,
    scale: str = "score",
    width: float | None = None,
) -> Figure:
    """Draw a pair as curves of one column, one for each value of the other; thin where no training row is near.

    If both columns have levels, markers with 95 % error bars replace the curves.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    pair : its name ("age & income"), its index, or a tuple of columns
    along : the column along the curves; None takes the first continuous column, or the one with more levels
    levels : number of curves, at evenly spaced quantiles or at the most frequent levels of the other column; or a list
        of its values, each moved to the nearest knot
    label : the class, for three or more classes; None takes the class for which the pair is strongest
    total : whether to add the main effects of the two columns, as if their errors were independent
    path, scale, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> X = np.random.default_rng(0).random((200, 2))
    >>> model = NeuralBasisRegressor(feature_names=["time", "place"], interactions=[(0, 1)], max_steps=20)
    >>> figure = plot.slices(model.fit(X, X[:, 0] * X[:, 1]), "time & place", levels=3)
    >>> figure.axes[0].get_xlabel(), len(figure.axes[0].get_legend().get_texts())
    ('time', 3)
    """
    explanation = explain_global(model)
    term = find_pair(explanation, pair, total)
    side = find_side(term, along)
    drawn = choose_scale(explanation, choose_class(explanation, term, label), scale)
    curves = make_pair_curves(drawn.apply(term), side, levels, drawn)
    layout = PanelLayout(1, 5.0) if width is None else choose_layout(1, width)
    title = _write_title(term, total, layout.panel) + drawn.class_note
    with open_canvas(path) as figure:
        draw_panels(figure, [[Panel(title, curves)]], drawn, True, layout, "")
    return figure


def push(
    model: Any,
    pair: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    total: bool = True,
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

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier, plot
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.array(["cardinal", "creeper", "heron"])[np.arange(90) % 3]
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], interactions=[(0, 1)], max_steps=20)
    >>> plot.push(model.fit(X, kind), "red & striped").axes[0].get_xlabel()
    'red'
    """
    explanation = explain_global(model)
    if explanation.classes is None:
        raise ValueError("push needs a classifier; this model is a regression: use shape(model, pair)")
    term = find_pair(explanation, pair, total)
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 4.6), max(0.75 * inches, 2.0))
        axes = figure.subplots()
        panel = make_map(term, push_strength(term.scores), masses=list_column_masses(explanation, term))
        handles, names = _draw_push(axes, panel, explanation.classes)
        axes.set_title(_write_title(term, total, 0.8 * inches))
        if handles:
            add_legend(figure, handles, names, join_notes(figure, ["favours", *note_hatches([panel])]))
    return figure


def _write_title(term: TermView, total: bool, inches: float) -> str:
    """The name of a pair, wrapped to the width of a panel."""
    return wrap_name(term.name, inches) + ("\n" + TOTAL_NOTE) * bool(total)


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
