"""The same term of several models in one figure: curves in one panel, or heat maps side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import explain_global
from .canvas import add_legend, choose_width, open_canvas, plain
from .curves import Curve, choose_limits, draw_background, draw_marks, make_curve
from .maps import make_map
from .panels import Panel, choose_layout, draw_panels
from .scale import Scale, ScaledTerm, choose_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_MODELS = 10


def compare(
    models: Mapping[str, Any] | Iterable[Any],
    term: Any,
    path: str | os.PathLike[str] | None = None,
    *,
    label: Any = None,
    scale: str = "score",
    width: float | None = None,
) -> Figure:
    """Draw the same term of several models: curves in one panel, or heat maps side by side.

    Levels and the density in the background are those of the first model.

    Parameters
    ----------
    models : list of 2 to 10 models, fitted estimators or GlobalExplanations, or a dict of names and models
    term : a main effect or a pair of all models: its name, its index, or a tuple of columns
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    label : the class, for three or more classes; None takes the class for which the first model's term is strongest
    scale : "score" or "probability", see `shapes`
    width : width of the figure in inches

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
    named = _name_models(models)
    scales = _choose_scales(named, term, label, scale)
    scaled_terms = [drawn.apply(drawn.explanation.find(term)) for drawn in scales]
    first = scaled_terms[0].term
    _check_terms(scaled_terms)
    if len(first.columns) == 1:
        return _compare_curves(named, scales[0], scaled_terms, path, width)
    layout = choose_layout(len(scaled_terms), width)
    with open_canvas(path, layout.panel) as figure:
        maps = [make_map(r.term, r.mean[..., 0] - r.base[0], r.term.weights) for r in scaled_terms]
        panels = [Panel(plain(name, 40), content) for name, content in zip(named, maps, strict=True)]
        draw_panels(figure, [panels], scales[0], False, layout, plain(first.name, 60) + scales[0].class_note)
    return figure


def _name_models(models: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): explain_global(model) for name, model in models.items()}
    elif isinstance(models, Iterable):
        named = {f"model {k + 1}": explain_global(model) for k, model in enumerate(models)}
    else:
        raise TypeError(f"expected a list or a dict of models; got {type(models).__name__}")
    if not 2 <= len(named) <= MAX_MODELS:
        raise ValueError(f"compare draws 2 to {MAX_MODELS} models; got {len(named)}")
    return named


def _choose_scales(named: Mapping[str, Any], term: Any, label: Any, kind: str) -> list[Scale]:
    """A scale for each model, all with the same class."""
    first = next(iter(named.values()))
    if label is None and len(first.intercept) > 1:
        label = (first.classes or first.outputs)[int(first.find(term).importances.argmax())]
    return [choose_scale(found, None if label is None else [label], kind) for found in named.values()]


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
    named: Mapping[str, Any],
    scale: Scale,
    scaled_terms: list[ScaledTerm],
    path: str | os.PathLike[str] | None,
    width: float | None,
) -> Figure:
    first = scaled_terms[0].term
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 5.0), max(0.6 * inches, 2.0))
        axes = figure.subplots()
        if first.axes[0].is_level:
            curves = [make_curve(_join_levels(scaled_terms), range(len(scaled_terms)))]
        else:
            curves = _make_curves(scaled_terms)
        handles = _draw_over(axes, curves)
        axes.set_title(plain(first.name, 50) + scale.class_note)
        axes.set(xlabel=curves[0].plot_axis.note, ylabel=scale.unit)
        add_legend(figure, handles, [plain(name, 30) for name in named], "")
    return figure


def _make_curves(scaled_terms: list[ScaledTerm]) -> list[Curve]:
    """Curves of all models, on axes of the same range."""
    curves = [make_curve(scaled, [index], len(scaled_terms)) for index, scaled in enumerate(scaled_terms)]
    plot_axes = [curve.plot_axis for curve in curves]
    low, high = min(axis.low for axis in plot_axes), max(axis.high for axis in plot_axes)
    strip = any(axis.has_missing for axis in plot_axes)
    shared = [replace(axis, low=low, high=high, has_missing=strip) for axis in plot_axes]
    return [replace(curve, plot_axis=axis) for curve, axis in zip(curves, shared, strict=True)]


def _draw_over(axes: Axes, curves: list[Curve]) -> list[Any]:
    axes.set_ylim(choose_limits(curves))
    draw_background(axes, curves[0])
    return [handle for curve in curves for handle in draw_marks(axes, curve)]


def _join_levels(scaled_terms: list[ScaledTerm]) -> ScaledTerm:
    """One term with a column for each model, over the levels of the first; a level that a model lacks has no bar."""
    levels = scaled_terms[0].term.axes[0].levels or ()
    cells = [_find_cells(levels, scaled.term.axes[0].levels or ()) for scaled in scaled_terms]
    pairs = list(zip(scaled_terms, cells, strict=True))
    mean = np.column_stack([np.where(at >= 0, r.mean[at, 0], r.base[0]) for r, at in pairs])
    spread = np.column_stack([np.where(at >= 0, r.spread[at, 0], 0.0) for r, at in pairs])
    return ScaledTerm(scaled_terms[0].term, mean, spread, None, np.array([r.base[0] for r in scaled_terms]))


def _find_cells(wanted: tuple[str, ...], levels: tuple[str, ...]) -> np.ndarray:
    """Cells of missing, each wanted level and unseen on an axis with `levels`; -1 if a level is absent."""
    place = {level: index + 1 for index, level in enumerate(levels)}
    return np.array([0, *(place.get(level, -1) for level in wanted), len(levels) + 1])
