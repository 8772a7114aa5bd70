"""Figures made of panels: one term, the strongest terms, a whole model, or one term for each class.

A main effect is a panel with a curve or bars, a pair is a panel with curves of one column at values of the other, or
with a heat map, a triple is a row of heat maps. Curves come before maps. Every panel has its own scale, unless
`share_y` gives all curves one range and all maps one colour scale.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..explain import GlobalExplanation, TermView, explain_global
from ..explain.bands import describe_effect
from .canvas import (
    CHARS_PER_INCH,
    align_title,
    axes_inches,
    choose_width,
    format_number,
    label_axis,
    note_hidden,
    open_canvas,
    plain,
    wrap_lines,
)
from .curves import Curve, choose_limits, draw_background, draw_marks, make_curve, set_limits
from .legends import Content, explain_panels
from .maps import BAR_ROOM, Map, add_colour_bar, draw_map, make_maps
from .pair_curves import PairCurves, draw_pair_curves, find_side, label_curves, list_column_masses, make_pair_curves
from .plot_axis import measure_names
from .scale import Scale, add_mains, choose_scale, find_clear_cells

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL, NARROW_PANEL = 3.5, 2.2  # width of a panel in inches, and its minimum if the width of the figure is given
MAX_ACROSS = 3
MAX_TERMS = 60
N_SLICES = 4  # maps of a triple
N_CURVES = 4  # curves of a pair
PAIRS = ("curves", "map")


def shapes(
    model: Any,
    n: int = 6,
    path: str | os.PathLike[str] | None = None,
    classes: Sequence[Any] | None = None,
    *,
    terms: Iterable[Any] | None = None,
    scale: str = "score",
    reference: Any = None,
    share_y: bool = False,
    pairs: str = "curves",
    width: float | None = None,
) -> Figure:
    """Draw the strongest terms, one panel each.

    A main effect is a thick line. The darker band contains each value with 95 % confidence, the lighter band contains
    the whole curve. A term without a clear effect is grey, and its title says so. Few whole numbers are steps. Levels
    are bars labelled with the number of their rows: the strongest ones, sorted by effect. The background is darker
    where there are more training rows, by the same scale in every panel. Diamonds in a strip at the left show the
    missing value and special codes such as −9, with their shares of the rows. Long tails are cut to the central 99 % of
    the rows, which is noted below the x axis.

    A pair is drawn as curves of one column at values of the other, which include the main effects of both columns;
    markers with error bars replace them if both have levels. With `pairs="map"`, it is a heat map without main effects,
    pale where its 95 % band contains 0 and hatched where no training row is near. With several classes, a pair is drawn
    for the class for which it is strongest. A triple is a row of heat maps.

    A model without evidence has a faint line for each member instead of the bands. More than three classes have lines
    without bands: `by_class` draws a panel with bands for each class.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    n : number of terms, most important first
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    classes : labels of at most 10 classes to draw; None draws the first 10. Needs three or more classes
    terms : names, indices or tuples of columns to draw instead of the strongest terms
    scale : "score", or "probability": the probability if all other contributions were 0
    reference : label of a class; draws differences from the score of this class. Needs three or more classes. Bands of
        differences and of probabilities add the errors of the classes as if they were independent
    share_y : whether all panels share one scale, which shows how strong they are compared with each other
    pairs : "curves", or "map": a heat map of the pair without the main effects
    width : width of the figure in inches: 3.3 for a column of a paper, 6.9 for a page; None fits the panels

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["time"], max_steps=20).fit(X, X[:, 0])
    >>> figure = plot.shapes(model)
    >>> np.array_equal(figure.axes[0].lines[-1].get_ydata(), model.term_scores_[0][1:-1])
    True
    """
    explanation = explain_global(model)
    if terms is None:
        chosen = explanation.top(check_count(n))
    else:
        chosen = [explanation.find(term) for term in terms]
    drawn = choose_scale(explanation, classes, scale, reference)
    return _draw_terms(chosen, drawn, pairs, share_y, choose_layout(len(chosen), width), path)


def shape(
    model: Any,
    term: Any,
    path: str | os.PathLike[str] | None = None,
    classes: Sequence[Any] | None = None,
    *,
    scale: str = "score",
    reference: Any = None,
    pairs: str = "curves",
    width: float | None = None,
) -> Figure:
    """Draw one term: a curve, bars, the curves or the heat map of a pair, or for a triple several heat maps.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    term : its name ("age", "age & income"), its index, or a tuple of columns
    path, classes, scale, reference, pairs, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> len(plot.shape(model, "size").axes)
    1
    """
    explanation = explain_global(model)
    chosen, drawn = explanation.find(term), choose_scale(explanation, classes, scale, reference)
    count = N_SLICES if len(chosen.columns) == 3 else 1
    layout = choose_layout(count, width, panel=4.4 if count == 1 else 2.8, across=count)
    return _draw_terms([chosen], drawn, pairs, True, layout, path)


def grid(
    model: Any,
    path: str | os.PathLike[str] | None = None,
    classes: Sequence[Any] | None = None,
    *,
    n: int = MAX_TERMS,
    scale: str = "score",
    share_y: bool = False,
    pairs: str = "curves",
    width: float | None = None,
) -> Figure:
    """Draw a whole model in one figure: all curves, then all maps, most important first.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    n : maximum number of terms; the title counts the terms that are left out
    path, classes, scale, share_y, pairs, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> len(plot.grid(model).axes)
    2
    """
    explanation = explain_global(model)
    chosen = explanation.top(check_count(n))
    drawn = choose_scale(explanation, classes, scale)
    layout = choose_layout(len(chosen), width, panel=2.9, across=4)
    return _draw_terms(chosen, drawn, pairs, share_y, layout, path, _write_formula(explanation, len(chosen)))


def by_class(
    model: Any,
    term: Any,
    path: str | os.PathLike[str] | None = None,
    classes: Sequence[Any] | None = None,
    *,
    scale: str = "score",
    reference: Any = None,
    pairs: str = "curves",
    width: float | None = None,
) -> Figure:
    """Draw one main effect or pair with a panel for each class.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation, with three or more classes
    term : its name, its index, or a tuple of columns
    reference : label of a class that the others are compared with; it has no panel
    path, classes, scale, pairs, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier, plot
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.array(["cardinal", "creeper", "heron"])[np.arange(90) % 3]
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], max_steps=20, interactions=0)
    >>> _ = model.fit(X, kind)
    >>> len(plot.by_class(model, "red").axes)
    3
    """
    explanation = explain_global(model)
    chosen, drawn = explanation.find(term), choose_scale(explanation, classes, scale, reference)
    if len(chosen.columns) > 2:
        raise ValueError(f"by_class draws a main effect or a pair; got {chosen.name!r}. Use shape(…, classes=[…])")
    parts = [drawn.select(output) for output in drawn.outputs]
    layout = choose_layout(len(parts), width, panel=2.8)
    with open_canvas(path, layout.panel) as figure:
        panels = [_make_class_panel(chosen, part, pairs, layout.panel) for part in parts]
        draw_panels(figure, [panels], drawn.select(drawn.outputs[0]), True, layout, plain(chosen.name, 60))
    return figure


class Panel(NamedTuple):
    title: str
    content: Content


class PanelLayout(NamedTuple):
    across: int  # maximum number of panels in a row
    panel: float  # width of a panel in inches
    width: float | None = None  # width of the figure in inches, None to fit the panels


def check_count(n: int) -> int:
    if n < 1:
        raise ValueError(f"n must be 1 or more; got {n!r}")
    return n


def choose_layout(count: int, width: float | None, panel: float = PANEL, across: int = MAX_ACROSS) -> PanelLayout:
    if width is not None:
        wide = choose_width(width, 0.0)
        across = max(1, min(count, across, int(wide // min(NARROW_PANEL, panel))))
        return PanelLayout(across, (wide - 0.4) / across, wide)
    across = 2 if count == 4 and across == MAX_ACROSS else max(1, min(count, across))
    return PanelLayout(across, panel)


def _write_formula(explanation: GlobalExplanation, count: int) -> str:
    """The title of a whole model: how the panels add up to a score."""
    name = "log odds" if explanation.link == "logit" else "score"
    many = len(explanation.intercept) > 1
    start = "intercept of the class" if many else format_number(float(explanation.intercept[0]))
    rest = note_hidden(" and ", len(explanation.terms) - count, "term")
    return f"{name} = {start} + sum of {'this term' if count == 1 else f'these {count} terms'}{rest}"


def make_panels(term: TermView, scale: Scale, pairs: str, inches: float) -> list[Panel]:
    """The panels of a term; their titles are the value of the third column and the class, or empty."""
    if pairs not in PAIRS:
        raise ValueError(f"pairs must be one of {PAIRS}; got {pairs!r}")
    if len(term.columns) == 1:
        return [Panel("", make_curve(scale.apply(term), scale.colour_indices))]
    whose = ""
    if len(scale.outputs) > 1:
        scale = scale.select(max(scale.outputs, key=lambda output: float(term.importances[output])))
        whose = f"for {scale.labels[0]}"
    if len(term.columns) == 2 and pairs == "curves":
        total = scale.apply(add_mains(scale.explanation.model, term))
        count = N_CURVES if inches > NARROW_PANEL else N_CURVES - 1
        return [Panel(whose, make_pair_curves(total, find_side(term, None), count, scale))]
    scaled, masses = scale.apply(term), list_column_masses(scale.explanation, term)
    maps = make_maps(term, scaled.mean[..., 0] - scaled.base[0], N_SLICES, find_clear_cells(scaled), masses)
    return [Panel(", ".join(filter(None, [text, whose])), content) for text, content in maps]


def _make_class_panel(term: TermView, scale: Scale, pairs: str, inches: float) -> Panel:
    """One term for one class."""
    title = "\n".join(filter(None, [scale.labels[0], scale.apply(term).effect]))
    return Panel(title, make_panels(term, scale, pairs, inches)[0].content)


def _title_panels(term: TermView, panels: Sequence[Panel], inches: float) -> list[Panel]:
    """Add name and importance to the title of the first panel, on two lines if needed."""
    room = int(10.5 * inches)
    name, importance = plain(term.name, room), f"(importance {format_number(term.importance)})"
    first = f"{name} {importance}" if len(name) + len(importance) < room else f"{name}\n{importance}"
    title = "\n".join(filter(None, [first, describe_effect(term), panels[0].title]))
    return [panels[0]._replace(title=title), *panels[1:]]


def _draw_terms(
    terms: Sequence[TermView],
    scale: Scale,
    pairs: str,
    share_y: bool,
    layout: PanelLayout,
    path: str | os.PathLike[str] | None,
    heading: str = "",
) -> Figure:
    if not terms:
        raise ValueError("there is no term to draw; name at least one in `terms`")
    with open_canvas(path, layout.panel) as figure:
        made = [make_panels(term, scale, pairs, layout.panel) for term in terms]
        groups = [_title_panels(term, panels, layout.panel) for term, panels in zip(terms, made, strict=True)]
        draw_panels(figure, groups, scale, share_y, layout, heading)
    return figure


def draw_panels(
    figure: Figure, groups: Sequence[Sequence[Panel]], scale: Scale, share_y: bool, layout: PanelLayout, heading: str
) -> None:
    """Draw groups of panels: curves, then maps, which start a new row unless all of them fit beside the last curves."""
    maps = [list(group) for group in groups if isinstance(group[0].content, Map)]
    curves = [list(group) for group in groups if not isinstance(group[0].content, Map)]
    fits = sum(map(len, maps)) <= -len(curves) % layout.across
    blocks = [curves + maps] if fits else [block for block in (curves, maps) if block]
    placed = [place_panels(block, layout.across) for block in blocks]
    n_rows = [places[-1][0] + 1 for places in placed]
    n_columns = 1 + max(column for places in placed for _, column, _ in places)
    width = layout.width or n_columns * layout.panel + 0.4
    legends = 0.35 * any(isinstance(group[0].content, PairCurves) for group in curves)
    figure.set_size_inches(width, sum(n_rows) * (0.72 * layout.panel + 0.35 + legends) + 0.4)
    if heading:
        figure.suptitle(heading)
    parts: Any = figure.subfigures(len(blocks), 1, height_ratios=n_rows) if len(blocks) > 1 else [figure]
    units = scale.unit, "change in probability" if scale.kind == "probability" else scale.unit
    for part, places, count in zip(parts, placed, n_rows, strict=True):
        draw_block(part, places, (count, n_columns), units, share_y)
    explain_panels(figure, [panel.content for group in groups for panel in group], scale, share_y)


def draw_block(
    part: Any, places: Sequence[tuple[int, int, Panel]], size: tuple[int, int], units: tuple[str, str], share_y: bool
) -> list[Axes]:
    """Draw panels at (row, column) into a figure or subfigure with `size` = (rows, columns).

    `units` are the labels of curves and of maps. Returns the matplotlib axes of each panel.
    """
    drawn = [
        (part.add_subplot(*size, row * size[1] + column + 1, title=panel.title), panel.content)
        for row, column, panel in places
    ]
    if curves := [(axes, content) for axes, content in drawn if not isinstance(content, Map)]:
        _draw_curves(curves, units[0], share_y, _measure_columns(drawn))
    if maps := [(axes, content) for axes, content in drawn if isinstance(content, Map)]:
        _draw_maps(part, maps, units[1], share_y)
    return [axes for axes, _ in drawn]


def place_panels(groups: Sequence[Sequence[Panel]], across: int) -> list[tuple[int, int, Panel]]:
    """Row and column of each panel; a group of several panels has rows of its own."""
    places, row, column = [], 0, 0
    for group in groups:
        column = across if column and len(group) > 1 else column
        for panel in group:
            row, column = (row + 1, 0) if column == across else (row, column)
            places.append((row, column, panel))
            column += 1
        column = across if len(group) > 1 else column
    return places


def _draw_curves(
    panels: Sequence[tuple[Axes, Curve | PairCurves]], unit: str, share_y: bool, taken: Mapping[int, float]
) -> None:
    shared, rows = choose_limits(content for _, content in panels), set()
    flipped = {_find_column(axes) for axes, content in panels if content.is_flipped}
    for axes, content in panels:
        set_limits(axes, content, shared if share_y else choose_limits([content]))
        room = taken[_find_column(axes)]
        if isinstance(content, Curve):
            draw_background(axes, content, room)
            draw_marks(axes, content)
            note = content.plot_axis.note
        else:
            note = draw_pair(axes, content, room)
        row = axes.get_subplotspec().rowspan.start  # type: ignore[union-attr]
        if content.is_flipped:
            _finish_bars(axes, content, unit, note)
            continue
        label_axis(axes, "x", note)
        if row not in rows:
            label_axis(axes, "y", unit)
            rows.add(row)
        elif share_y:
            axes.tick_params(labelleft=False)
    for axes, _ in panels:
        if _find_column(axes) in flipped:
            align_title(axes)


def _measure_columns(panels: Sequence[tuple[Axes, Content]]) -> dict[int, float]:
    """For each column of panels, the room in inches that names take from all panels above and below them."""
    found: dict[int, float] = {}
    for axes, content in panels:
        column = _find_column(axes)
        if isinstance(content, Map):
            room = measure_names(content.plot_axes[1]) + BAR_ROOM
        else:
            room = measure_names(content.plot_axis)
        found[column] = max(found.get(column, 0.0), room)
    return found


def _find_column(axes: Axes) -> int:
    return axes.get_subplotspec().colspan.start  # type: ignore[union-attr]


def _finish_bars(axes: Axes, content: Curve | PairCurves, unit: str, note: str) -> None:
    """Labels of a panel whose levels are listed from top to bottom."""
    inches = max(0.8, axes_inches(axes, "x") - measure_names(content.plot_axis) / 2)  # the final layout is larger
    axes.set_xlabel("\n".join(wrap_lines(unit, max(12, int(1.3 * CHARS_PER_INCH * inches)))))
    axes.locator_params(axis="x", nbins=max(2, min(5, int(1.8 * inches))))
    if note:
        label_axis(axes, "y", note)


def draw_pair(axes: Axes, content: PairCurves, taken: float) -> str:
    """Draw the curves of a pair; returns the label of the column along them. For `taken` see `draw_plot_axis`."""
    along, across = content.names_of_columns
    handles = draw_pair_curves(axes, content, taken)
    label_curves(axes, handles, content.names, plain(across, 30), max(0.8, axes_inches(axes, "x") - taken))
    note = content.plot_axis.note
    return plain(along, 30) + (f" ({note})" if note else "")


def _draw_maps(part: Any, panels: Sequence[tuple[Axes, Map]], unit: str, share_y: bool) -> None:
    terms = dict.fromkeys("" if share_y else content.term for _, content in panels)
    for group in [[panel for panel in panels if share_y or panel[1].term == term] for term in terms]:
        limit = max(content.limit for _, content in group) or 1.0
        meshes = [draw_map(axes, content, limit) for axes, content in group]
        add_colour_bar(part, meshes[-1], [axes for axes, _ in group], unit)
