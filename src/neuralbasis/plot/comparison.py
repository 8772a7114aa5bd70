"""The same term of several models in one figure: curves in one panel, or pairs side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import GlobalExplanation, explain_global
from .canvas import add_legend, align_title, choose_width, open_canvas, plain
from .curves import Curve, choose_limits, draw_background, draw_marks, make_curve, set_limits
from .legends import join_notes, list_notes
from .panels import Panel, choose_layout, draw_panels, make_panels
from .plot_axis import make_plot_axis
from .scale import Band, Scale, ScaledTerm, choose_class, choose_scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_MODELS = 10


def compare(
    models: Mapping[str, Any] | Iterable[Any],
    term: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    label: Any = None,
    scale: str = "score",
    pairs: str = "curves",
    names: Sequence[str] | None = None,
    width: float | None = None,
) -> Figure:
    """Draw the same term of several models: curves in one panel, or pairs side by side.

    Levels and the density in the background are those of the first model.

    Parameters
    ----------
    models : 2 to 10 models, fitted estimators or GlobalExplanations: a dict of names and models, or a list
    term : a main effect or a pair of all models: its name, its index, or a tuple of columns
    label : the class, for three or more classes; None takes the class for which the first model's term is strongest
    names : names of the models of a list; None numbers them
    path, scale, pairs, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> models = {
    ...     str(steps): NeuralBasisRegressor(feature_names=["time"], max_steps=steps).fit(X, X[:, 0])
    ...     for steps in (5, 20)
    ... }
    >>> figure = plot.compare(models, "time")
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['5', '20']
    """
    named = _name_models(models, names)
    explanations = list(named.values())
    first = explanations[0].find(term)
    classes = choose_class(explanations[0], first, label)
    scales = [choose_scale(explanation, classes, scale) for explanation in explanations]
    scaled_terms = [drawn.apply(drawn.explanation.find(term)) for drawn in scales]
    _check_terms(scaled_terms)
    if len(first.columns) == 1:
        return _compare_curves(list(named), scales[0], scaled_terms, path, width)
    layout = choose_layout(len(scaled_terms), width)
    with open_canvas(path, layout.panel) as figure:
        parts = [make_panels(drawn.explanation.find(term), drawn, pairs, layout.panel)[0] for drawn in scales]
        panels = [Panel(plain(name, 40), part.content) for name, part in zip(named, parts, strict=True)]
        draw_panels(figure, [panels], scales[0], True, layout, plain(first.name, 60) + scales[0].class_note)
    return figure


def _name_models(
    models: Mapping[str, Any] | Iterable[Any], names: Sequence[str] | None
) -> dict[str, GlobalExplanation]:
    if names is not None:
        models = list(models)
        if isinstance(names, str) or len(set(map(str, names))) != len(models):
            raise ValueError(f"names must be {len(models)} different names, one for each model; got {names!r}")
        models = dict(zip(names, models, strict=True))
    if isinstance(models, Mapping):
        named = {str(name): explain_global(model) for name, model in models.items()}
    elif isinstance(models, Iterable):
        named = {f"model {k + 1}": explain_global(model) for k, model in enumerate(models)}
    else:
        raise TypeError(f"expected a list or a dict of models; got {type(models).__name__}")
    if not 2 <= len(named) <= MAX_MODELS:
        raise ValueError(f"compare draws 2 to {MAX_MODELS} models; got {len(named)}")
    return named


def _check_terms(scaled_terms: list[ScaledTerm]) -> None:
    first = scaled_terms[0].term
    if len(first.columns) > 2:
        raise ValueError(f"compare draws a main effect or a pair; got {first.name!r}")
    for scaled in scaled_terms[1:]:
        if [axis.is_level for axis in scaled.term.axes] != [axis.is_level for axis in first.axes]:
            raise ValueError(
                f"{first.name!r} has levels in one model and numbers in another; fit both with the same feature_types"
            )


def _compare_curves(
    names: list[str],
    scale: Scale,
    scaled_terms: list[ScaledTerm],
    path: str | os.PathLike[str] | None,
    width: float | None,
) -> Figure:
    first = scaled_terms[0].term
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 5.0), max(0.6 * inches, 2.0))
        axes = figure.subplots()
        curves = _make_curves(scaled_terms)
        set_limits(axes, curves[0], choose_limits(curves))
        draw_background(axes, curves[0])
        handles = [handle for curve in curves for handle in draw_marks(axes, curve)]
        axes.set_title(plain(first.name, 50) + scale.class_note)
        if curves[0].is_flipped:
            align_title(axes)
        note, is_flipped = curves[0].plot_axis.note, curves[0].is_flipped
        axes.set(xlabel=scale.unit if is_flipped else note, ylabel=note if is_flipped else scale.unit)
        add_legend(figure, handles, [plain(name, 30) for name in names], join_notes(figure, list_notes(curves)))
    return figure


def _make_curves(scaled_terms: list[ScaledTerm]) -> list[Curve]:
    """Curves of all models, on axes of the same range; for levels, one set of bars."""
    if scaled_terms[0].term.axes[0].is_level:
        return [make_curve(_join_levels(scaled_terms), range(len(scaled_terms)))]
    curves = [make_curve(scaled, [index], len(scaled_terms)) for index, scaled in enumerate(scaled_terms)]
    plot_axes = [curve.plot_axis for curve in curves]
    if len({tuple(value for _, value in axis.codes) for axis in plot_axes}) > 1:  # the models have different codes
        plot_axes = [make_plot_axis(scaled.term.axes[0], scaled.term.weights) for scaled in scaled_terms]
    low, high = min(axis.low for axis in plot_axes), max(axis.high for axis in plot_axes)
    strip = any(axis.has_missing for axis in plot_axes)
    shared = [
        replace(axis, low=low, high=high, has_missing=strip, shares=(0.0,) * (strip - axis.has_missing) + axis.shares)
        for axis in plot_axes
    ]
    return [replace(curve, plot_axis=axis) for curve, axis in zip(curves, shared, strict=True)]


def _join_levels(scaled_terms: list[ScaledTerm]) -> ScaledTerm:
    """One term with a column for each model, over the levels of the first; a level that a model lacks has no bar."""
    first = scaled_terms[0].term
    tables: list[list[np.ndarray]] = [[], [], []]  # mean, low, high
    for scaled in scaled_terms:
        place = {level: index + 1 for index, level in enumerate(scaled.term.axes[0].levels or ())}
        cells = np.array([0, *(place.get(level, -1) for level in first.axes[0].levels or ()), len(place) + 1])
        for table, values in zip(tables, (scaled.mean, *scaled.inner), strict=True):
            table.append(np.where(cells >= 0, values[cells, 0], scaled.base[0]))
    mean, low, high = map(np.column_stack, tables)
    base = np.array([scaled.base[0] for scaled in scaled_terms])
    return ScaledTerm(first, mean, Band(low, high), None, base, inner_name=scaled_terms[0].inner_name)
