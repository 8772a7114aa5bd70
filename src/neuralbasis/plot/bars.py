"""Bars: the importances of terms, what speaks for each class, the way from the intercept to the score of one row, the
stability of shapes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import GlobalExplanation, Leaning, LocalExplanation, RowView, Stability, explain_global, explain_local
from ..explain import stability as measure_stability
from .canvas import COLOURS, GREY, LOWERS, RAISES, choose_width, number, open_canvas, plain
from .maps import write_value
from .panels import check_count, choose_layout
from .reading import choose_scale, find_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINE = 0.24  # inches of a bar
THREAD: dict[str, Any] = {"color": GREY, "linewidth": 0.6}  # from bar to bar


def importances(
    model: Any, n: int = 20, path: str | os.PathLike[str] | None = None, *, width: float | None = None
) -> Figure:
    """Draw the importance of the strongest terms, the mean of |contribution| over the training rows, as bars.

    An error bar is one standard deviation over the members, where their tables are kept: for main effects.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    n : number of terms
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    width : of the figure in inches
    """
    explanation = explain_global(model)
    chosen = explanation.top(check_count(n))
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 6.0), 0.8 + LINE * len(chosen))
        axes = figure.subplots()
        spread = [term.importance_spread for term in chosen]
        _draw_lengths(axes, [term.name for term in chosen], [term.importance for term in chosen], spread, inches)
        note = _say_hidden(len(explanation.terms) - len(chosen), "term")
        axes.set_xlabel(f"mean |{_unit(explanation)}|{note}")
    return figure


def leanings(
    model: Any,
    n: int = 8,
    path: str | os.PathLike[str] | None = None,
    classes: Sequence[Any] | None = None,
    *,
    against: bool = False,
    width: float | None = None,
) -> Figure:
    """Draw the terms that speak for each class most, as bars, a panel for each class: words of texts, for example.

    A bar is `AdditiveModel.leanings`: what the term contributes to the score of the class in rows off its most
    frequent value (for a word: texts that have it) more than in other rows, weighed by their share.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation, of classes
    n : number of terms for each class
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    classes : labels of the classes to draw; None draws all
    against : whether to draw the terms that speak against a class below those that speak for it
    width : of the figure in inches
    """
    found = explain_global(model).by_class(check_count(n))
    chosen = list(found) if classes is None else list(classes)
    unknown = [label for label in chosen if label not in found]
    if unknown or not chosen:
        raise ValueError(f"classes must name some of the model's {list(found)[:20]}, not {unknown or chosen}")
    views = [found[label] for label in chosen]
    shown = [view.speaks_for + (view.speaks_against[::-1] if against else ()) for view in views]
    layout = choose_layout(len(chosen), width, panel=2.4, across=4)
    n_rows = -(-len(chosen) // layout.across)
    with open_canvas(path, layout.panel) as figure:
        height = 0.6 + LINE * 0.75 * max(map(len, shown), default=1)
        figure.set_size_inches(layout.width or layout.panel * layout.across, 0.4 + n_rows * height)
        panels = figure.subplots(n_rows, layout.across, squeeze=False, sharex=True).ravel()
        for axes, view, bars in zip(panels, views, shown, strict=False):
            _draw_leanings(axes, str(view.label), bars, layout.panel)
        for axes in panels[len(chosen) :]:
            axes.set_axis_off()
        figure.supxlabel("speaks for the class" + (", or against it (left)" if against else ""))
    return figure


def stability(
    models: Any,
    n: int = 20,
    path: str | os.PathLike[str] | None = None,
    *,
    weighted: bool = True,
    width: float | None = None,
) -> Figure:
    """Draw how far the shapes of several models lie from each other: a bar for each column, the least steady on top.

    Parameters
    ----------
    models : list of models, one model whose members are compared, or what `explain.stability` found
    n : number of columns
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    weighted : see `explain.stability`
    width : of the figure in inches
    """
    found = models if isinstance(models, Stability) else measure_stability(models, weighted)
    by_column = found.by_column
    order = np.argsort(-by_column, kind="stable")[: check_count(n)]
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 6.0), 0.9 + LINE * len(order))
        axes = figure.subplots()
        nothing = [np.nan] * len(order)
        _draw_lengths(axes, [found.columns[i] for i in order], by_column[order].tolist(), nothing, inches)
        axes.axvline(found.overall, color=GREY, linewidth=1, linestyle="--")
        note = _say_hidden(len(by_column) - len(order), "column")
        axes.set_xlabel(f"deviation of the shape over {found.n_models} models; dashed: mean of all columns{note}")
    return figure


def waterfall(
    explained: Any,
    row: Any = 0,
    n: int = 10,
    path: str | os.PathLike[str] | None = None,
    *,
    label: Any = None,
    width: float | None = None,
) -> Figure:
    """Draw why a row has its prediction: the contributions, the largest on top, from the intercept to the score.

    Parameters
    ----------
    explained : LocalExplanation; or an AdditiveModel or fitted estimator
    row : number of the row in the explanation; or, for a model, the row itself: a dict or a table of one row
    n : number of terms; the others are one bar
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    label : the class, of three or more, whose score is explained; None takes the predicted one
    width : of the figure in inches

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> figure = plot.waterfall(model, {"size": 2.5, "colour": "red"})
    >>> sorted(text.get_text() for text in figure.axes[0].get_yticklabels())[:2]
    ['colour = red', 'intercept']
    """
    local, view = _find_row(explained, row)
    output = _find_output(local, view, label)
    names, steps = list_steps(view, output, check_count(n))
    with open_canvas(path) as figure:
        inches = choose_width(width, 6.0)
        figure.set_size_inches(inches, 1.0 + LINE * (len(steps) + 2))
        axes = figure.subplots()
        draw_steps(axes, [plain(name, int(6 * inches)) for name in names], float(view.intercept[output]), steps)
        axes.set_xlabel(name_score(local, output))
        figure.suptitle(say_prediction(local, view, output))
    return figure


def _draw_lengths(
    axes: Axes, names: Sequence[str], values: Sequence[float], spread: Sequence[float], inches: float
) -> None:
    """Horizontal bars with their numbers, the first on top; a spread of NaN is not known."""
    places = np.arange(len(names))
    axes.barh(places, values, color=COLOURS[0], height=0.7)
    known = np.isfinite(spread)
    if known.any():
        look: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 1.0, "capsize": 2}
        axes.errorbar(np.array(values)[known], places[known], xerr=np.array(spread)[known], **look)
    ends = np.array(values) + np.nan_to_num(spread)
    for place, end, value in zip(places, ends, values, strict=True):
        text = axes.annotate(number(value), (end, place), (4, 0), textcoords="offset points", va="center", color=GREY)
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.set_yticks(places, [plain(name, int(6 * inches)) for name in names])
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1.14 * ends.max(initial=0.0) or 1.0)


def _draw_leanings(axes: Axes, label: str, bars: Sequence[Leaning], inches: float) -> None:
    """Horizontal bars to both sides of 0, the first on top."""
    places, sizes = np.arange(len(bars)), [bar.size for bar in bars]
    axes.barh(places, sizes, color=[RAISES if size > 0 else LOWERS for size in sizes], height=0.75)
    axes.set_title(plain(label, int(9 * inches)))
    axes.set_yticks(places, [plain(bar.name, int(6 * inches)) for bar in bars])
    axes.set_ylim(max(len(bars), 1) - 0.4, -0.6)
    axes.axvline(0.0, color=GREY, linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=3)


def _say_hidden(hidden: int, noun: str) -> str:
    return f"\n{hidden:,} weaker {noun}{'s' * (hidden > 1)} not shown" if hidden else ""


def _unit(explanation: GlobalExplanation) -> str:
    return choose_scale(explanation).unit


def _find_row(explained: Any, row: Any) -> tuple[LocalExplanation, RowView]:
    if isinstance(explained, LocalExplanation):
        return explained, explained.row(row)
    if isinstance(row, (int, np.integer)):
        raise ValueError(
            f"a model has no row {row}; give the row itself, a dict or a table of one row, or give waterfall the "
            "result of explain_local"
        )
    local = explain_local(explained, row)
    if len(local.scores) != 1:
        raise ValueError(f"expected one row, not {len(local.scores)}; choose one, or use explain_local and a number")
    return local, local.row(0)


def _find_output(local: LocalExplanation, view: RowView, label: Any) -> int:
    if label is None:
        return view.output
    if len(view.intercept) == 1:
        raise ValueError("label needs a model of three classes or more; this one has a single score: leave it out")
    return find_class(local, label, "label")


def list_steps(view: RowView, output: int, n: int) -> tuple[list[str], np.ndarray]:
    """Names and contributions of the n terms that matter most, and of all others together."""
    found = view.contributions[:, output]
    order = np.argsort(-np.abs(found), kind="stable")
    n = n if len(order) > n + 1 else len(order)  # "1 other" would take as much room as the term itself
    names = [f"{view.names[t]} = {_write_values(view.values[t])}" for t in order[:n]]
    steps, rest = found[order[:n]], found[order[n:]]
    if len(rest):
        return [*names, f"{len(rest)} others"], np.r_[steps, rest.sum()]
    return names, steps


def _write_values(values: Sequence[float | str | None]) -> str:
    written = ["missing" if value is None else value for value in values]
    return ", ".join(value if isinstance(value, str) else write_value(value) for value in written)


def draw_steps(axes: Axes, names: Sequence[str], start: float, steps: np.ndarray) -> None:
    """Bars from where the last one ended, the first on top, with the start above and the end below them."""
    ends = start + np.cumsum(steps)
    begins = np.r_[start, ends[:-1]]
    places = np.arange(len(steps)) + 1
    colours = [RAISES if step > 0 else LOWERS for step in steps]
    axes.barh(places, steps, 0.7, begins, color=colours)
    path = np.r_[start, ends]
    for place, at in enumerate(path):
        axes.plot([at, at], [place - 0.35 * (place > 0), place + 1 + 0.35 * (place < len(steps))], **THREAD)
    axes.plot([start], [0], "o", color=GREY, markersize=4)
    axes.plot([path[-1]], [len(path)], "D", color="black", markersize=5)
    texts = [number(start), *(("+" if step > 0 else "") + number(step) for step in steps), number(path[-1])]
    right = np.r_[start, np.maximum(begins, ends), path[-1]]
    for place, (at, text) in enumerate(zip(right, texts, strict=True)):
        axes.annotate(text.replace("-", "−"), (at, place), (6, 0), textcoords="offset points", va="center")
    axes.set_yticks(np.arange(len(path) + 1), ["intercept", *names, "score"])
    axes.set_ylim(len(path) + 0.6, -0.6)
    room = float(np.ptp(path)) or 1.0
    axes.set_xlim(path.min() - 0.04 * room, path.max() + 0.16 * room)


def name_score(local: LocalExplanation, output: int) -> str:
    if local.link == "logit":
        return "log odds" if local.classes is None else f"log odds of {plain(local.classes[1], 20)}"
    return "prediction" if len(local.intercept) == 1 else f"score of {plain(local.outputs[output], 20)}"


def say_prediction(local: LocalExplanation, view: RowView, output: int) -> str:
    """The prediction in words, and what really was."""
    was = "" if view.actual is None else f", really {plain(_write_label(view.actual), 20)}"
    if local.classes is None or view.probabilities is None:
        return f"prediction {number(view.prediction)}{was}"
    column = 1 if local.link == "logit" else output
    chance = f"probability of {plain(local.classes[column], 20)} {view.probabilities[column]:.3f}"
    return f"{chance}, predicted {plain(view.prediction, 20)}{was}"


def _write_label(value: Any) -> str:
    return number(value) if isinstance(value, float) else str(value)
