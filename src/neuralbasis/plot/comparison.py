"""Comparison: the same term of several models in one figure, curves over each other or maps side by side."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import explain_global
from .canvas import add_legend, choose_width, open_canvas, plain
from .curves import Curve, choose_limits, draw_ground, draw_marks, lay_curve
from .maps import lay_map
from .panels import Panel, choose_layout, draw_panels
from .reading import Reading, Scale, choose_scale

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
    """Draw the same term of several models: their curves over each other, or their heat maps side by side.

    The ground is the density of the first model's rows. Levels are those of the first model.

    Parameters
    ----------
    models : two to ten models, fitted estimators or GlobalExplanations; as a dict, with their names
    term : a main effect or a pair that all of them have: its name, its index, or a tuple of columns
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    label : the class, of three or more; None takes the one for which the first model's term is strongest
    scale : "score" or "probability", see `shapes`
    width : of the figure in inches

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
    readings = [drawn.read(drawn.explanation.find(term)) for drawn in scales]
    first = readings[0].term
    _check_terms(readings)
    if len(first.columns) == 1:
        return _compare_curves(named, scales[0], readings, path, width)
    layout = choose_layout(len(readings), width)
    with open_canvas(path, layout.panel) as figure:
        maps = [lay_map(r.term, r.mean[..., 0] - r.base[0], r.term.weights) for r in readings]
        panels = [Panel(plain(name, 40), content) for name, content in zip(named, maps, strict=True)]
        draw_panels(figure, [panels], scales[0], False, layout, plain(first.name, 60) + _say_class(scales[0]))
    return figure


def _name_models(models: Mapping[str, Any] | Iterable[Any]) -> dict[str, Any]:
    if isinstance(models, Mapping):
        named = {str(name): explain_global(model) for name, model in models.items()}
    elif isinstance(models, Iterable):
        named = {f"model {k + 1}": explain_global(model) for k, model in enumerate(models)}
    else:
        raise TypeError(f"expected a list or a dict of models, not {type(models).__name__}")
    if not 2 <= len(named) <= MAX_MODELS:
        raise ValueError(f"compare draws 2 to {MAX_MODELS} models, not {len(named)}")
    return named


def _choose_scales(named: Mapping[str, Any], term: Any, label: Any, kind: str) -> list[Scale]:
    """The same class of every model."""
    first = next(iter(named.values()))
    if label is None and len(first.intercept) > 1:
        label = (first.classes or first.outputs)[int(first.find(term).importances.argmax())]
    return [choose_scale(found, None if label is None else [label], kind) for found in named.values()]


def _check_terms(readings: list[Reading]) -> None:
    first = readings[0].term
    if len(first.columns) > 2:
        raise ValueError(f"compare draws a main effect or a pair, not {first.name!r}")
    for reading in readings[1:]:
        if [axis.is_level for axis in reading.term.axes] != [axis.is_level for axis in first.axes]:
            raise ValueError(
                f"{first.name!r} holds levels in one model and numbers in another; give both the same feature_types"
            )


def _compare_curves(
    named: Mapping[str, Any],
    scale: Scale,
    readings: list[Reading],
    path: str | os.PathLike[str] | None,
    width: float | None,
) -> Figure:
    first = readings[0].term
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 5.0), max(0.6 * inches, 2.0))
        axes = figure.subplots()
        if first.axes[0].is_level:
            curves = [lay_curve(_join_levels(readings), range(len(readings)))]
        else:
            curves = _lay_lines(readings)
        handles = _draw_over(axes, curves)
        axes.set_title(plain(first.name, 50) + _say_class(scale))
        axes.set(xlabel=curves[0].ruler.note, ylabel=scale.unit)
        add_legend(figure, handles, [plain(name, 30) for name in named], "")
    return figure


def _lay_lines(readings: list[Reading]) -> list[Curve]:
    """Curves of all models on rulers of the same range."""
    curves = [lay_curve(reading, [order], len(readings)) for order, reading in enumerate(readings)]
    rulers = [curve.ruler for curve in curves]
    low, high = min(ruler.low for ruler in rulers), max(ruler.high for ruler in rulers)
    strip = any(ruler.has_missing for ruler in rulers)
    return [replace(curve, ruler=replace(curve.ruler, low=low, high=high, has_missing=strip)) for curve in curves]


def _draw_over(axes: Axes, curves: list[Curve]) -> list[Any]:
    axes.set_ylim(choose_limits(curves))
    draw_ground(axes, curves[0])
    return [handle for curve in curves for handle in draw_marks(axes, curve)]


def _join_levels(readings: list[Reading]) -> Reading:
    """One reading with a column a model, over the levels of the first; a level that a model lacks has no bar."""
    levels = readings[0].term.axes[0].levels or ()
    cells = [_find_cells(levels, reading.term.axes[0].levels or ()) for reading in readings]
    pairs = list(zip(readings, cells, strict=True))
    mean = np.column_stack([np.where(at >= 0, r.mean[at, 0], r.base[0]) for r, at in pairs])
    spread = np.column_stack([np.where(at >= 0, r.spread[at, 0], 0.0) for r, at in pairs])
    return Reading(readings[0].term, mean, spread, None, np.array([r.base[0] for r in readings]))


def _find_cells(wanted: tuple[str, ...], levels: tuple[str, ...]) -> np.ndarray:
    """For missing, each wanted level and unseen, the cell on an axis of `levels`, -1 where it is not there."""
    place = {level: index + 1 for index, level in enumerate(levels)}
    return np.array([0, *(place.get(level, -1) for level in wanted), len(levels) + 1])


def _say_class(scale: Scale) -> str:
    return f"\nfor {scale.labels[0]}" if scale.is_many else ""
