"""Bar charts: importances of terms, terms that raise or lower the score of each class, the waterfall of one row,
stability of shapes over models.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import Leaning, LocalExplanation, RowView, Stability, explain_global, explain_local
from ..explain import stability as measure_stability
from ..explain.bands import NO_EFFECT, describe_effect, measure_importance_errors
from .canvas import (
    COLOURS,
    FAINT,
    GREY,
    LOWERS,
    RAISES,
    choose_width,
    format_number,
    format_values,
    note_hidden,
    open_canvas,
    plain,
    wrap_lines,
)
from .panels import check_count, choose_layout
from .scale import choose_scale, find_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BAR_INCHES = 0.24  # height of a bar
CONNECTOR: dict[str, Any] = {"color": GREY, "linewidth": 0.6}  # between the bars of a waterfall


def importances(
    model: Any, n: int = 20, path: str | os.PathLike[str] | None = None, *, width: float | None = None
) -> Figure:
    """Draw the importances of the strongest terms: the mean of |contribution| over the training rows.

    Error bars are 95 % intervals. A term without a clear effect is grey. In a model without evidence, error bars are
    one standard deviation over the members, which is known for main effects only.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation
    n : number of terms
    path, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> [text.get_text() for text in plot.importances(model).axes[0].get_yticklabels()]
    ['size', 'colour']
    """
    explanation = explain_global(model)
    chosen = explanation.top(check_count(n))
    values = np.array([term.importance for term in chosen])
    errors, error_name = measure_importance_errors(chosen)
    effects = [describe_effect(term) for term in chosen]
    room = int(6 * choose_width(width, 6.0))
    names = [
        plain(term.name, room - (len(NO_EFFECT) + 2) * bool(effect)) + (f", {NO_EFFECT}" if effect else "")
        for term, effect in zip(chosen, effects, strict=True)
    ]
    with open_canvas(path) as figure:
        axes = _draw_values(figure, choose_width(width, 6.0), 0.95, names, values, errors)
        for bar, effect in zip(axes.patches, effects, strict=True):
            bar.set_facecolor(FAINT if effect else COLOURS[0])
        note = f"\nerror bars: {error_name}" if np.isfinite(errors).any() else ""
        note += note_hidden("\n", len(explanation.terms) - len(chosen), "term")
        axes.set_xlabel(f"mean |{choose_scale(explanation).unit}|{note}")
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
    """Draw the terms that raise the score of each class most, such as words of texts; a panel for each class.

    Two classes share one score, so they have one panel: bars to the right raise the second class, bars to the left the
    first. The length of a bar is `AdditiveModel.leanings`. It compares the mean contribution in rows that differ from
    the most frequent value (for a word: texts that contain it) with the contribution in all other rows. The difference
    is weighted by the shares of both groups.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator or GlobalExplanation of a classifier
    n : number of terms for each class
    classes : labels of the classes to draw; None draws all
    against : whether to also draw the terms that lower the score of a class
    path, width : see `shapes`

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
    >>> len(plot.leanings(model, n=2).axes)
    3
    """
    explanation = explain_global(model)
    found = explanation.by_class(check_count(n))
    chosen = list(found) if classes is None else list(classes)
    if classes is None and len(found) == 2:
        chosen, against = chosen[1:], True
    unknown = [label for label in chosen if label not in found]
    if unknown or not chosen:
        raise ValueError(f"classes must be some of {list(found)[:20]}; got {unknown or chosen}")
    views = [found[label] for label in chosen]
    shown = [view.raised_by + (view.lowered_by[::-1] if against else ()) for view in views]
    layout = choose_layout(len(chosen), width, panel=2.4 if len(chosen) > 1 else 4.8, across=4)
    n_rows = -(-len(chosen) // layout.across)
    with open_canvas(path, layout.panel) as figure:
        height = 0.6 + BAR_INCHES * 0.75 * max(map(len, shown), default=1)
        figure.set_size_inches(layout.width or layout.panel * layout.across, 0.4 + n_rows * height)
        panels = figure.subplots(n_rows, layout.across, squeeze=False, sharex=True).ravel()
        for axes, view, bars in zip(panels, views, shown, strict=False):
            _draw_leanings(axes, str(view.label), bars, layout.panel)
        for axes in panels[len(chosen) :]:
            axes.set_axis_off()
        text = "raises the score of the class" + (" (right) or lowers it (left)" if against else "")
        figure.supxlabel("\n".join(wrap_lines(text, int(12 * figure.get_figwidth()))))
    return figure


def stability(
    models: Any,
    n: int = 20,
    path: str | os.PathLike[str] | None = None,
    *,
    weighted: bool = True,
    width: float | None = None,
) -> Figure:
    """Draw how much the shapes of several models differ: a bar for each column, the least stable on top.

    Parameters
    ----------
    models : list of models, one model whose members are compared, or a result of `explain.stability`
    n : number of columns
    weighted : see `explain.stability`
    path, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> table = {"size": [1.0, 2.0, 3.0, 4.0] * 9, "colour": ["red", "blue"] * 18}
    >>> model = NeuralBasisRegressor(max_steps=20, interactions=0).fit(table, table["size"])
    >>> len(plot.stability(model).axes[0].patches)
    2
    """
    found = models if isinstance(models, Stability) else measure_stability(models, weighted)
    by_column = found.by_column
    order = np.argsort(-by_column, kind="stable")[: check_count(n)]
    room = int(6 * choose_width(width, 6.0))
    names, unknown = [plain(found.columns[i], room) for i in order], np.full(len(order), np.nan)
    with open_canvas(path) as figure:
        axes = _draw_values(figure, choose_width(width, 6.0), 0.9, names, by_column[order], unknown)
        axes.axvline(found.overall, color=GREY, linewidth=1, linestyle="--")
        note = note_hidden("\n", len(by_column) - len(order), "column")
        axes.set_xlabel(f"standard deviation over {found.n_models} models (dashed: mean of all columns){note}")
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
    """Draw how a row gets its prediction: from the intercept to the score, the largest contributions on top.

    Parameters
    ----------
    explained : LocalExplanation, AdditiveModel or fitted estimator
    row : index of the row in the explanation; for a model, the row itself: a dict or a table of one row
    n : number of terms; all others share one bar
    label : class whose score is explained, for three or more classes; None takes the predicted class
    path, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

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
    if label is not None and len(view.intercept) == 1:
        raise ValueError("label needs a model with three or more classes; this model has a single score: omit it")
    output = view.output if label is None else find_class(local, label, "label")
    inches = choose_width(width, 6.0)
    names, steps = list_steps(view, output, check_count(n), int(6 * inches))
    with open_canvas(path) as figure:
        figure.set_size_inches(inches, 1.0 + BAR_INCHES * (len(steps) + 2))
        draw_waterfall(figure.subplots(), local, output, names, steps)
        figure.suptitle(describe_prediction(local, view, output, steps))
    return figure


def _draw_values(
    figure: Figure, inches: float, margin: float, names: Sequence[str], values: np.ndarray, spread: np.ndarray
) -> Axes:
    """Horizontal bars with their numbers, the first on top; a spread of NaN is unknown."""
    figure.set_size_inches(inches, margin + BAR_INCHES * len(names))
    axes, places = figure.subplots(), np.arange(len(names))
    axes.barh(places, values, color=COLOURS[0], height=0.7)
    known = np.isfinite(spread)
    if known.any():
        look: dict[str, Any] = {"fmt": "none", "ecolor": "black", "elinewidth": 1.0, "capsize": 2}
        sizes = np.stack([np.minimum(spread, values), spread])[:, known]  # no importance is below 0
        axes.errorbar(values[known], places[known], xerr=sizes, **look)
    ends = values + np.nan_to_num(spread)
    for place, end, value in zip(places, ends, values, strict=True):
        text = axes.annotate(
            format_number(value), (end, place), (4, 0), textcoords="offset points", va="center", color=GREY
        )
        text.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.5})
    axes.set_yticks(places, names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.set_xlim(0, 1.14 * ends.max(initial=0.0) or 1.0)
    return axes


def _draw_leanings(axes: Axes, label: str, bars: Sequence[Leaning], inches: float) -> None:
    """Horizontal bars to both edges of 0, the first on top."""
    places, sizes = np.arange(len(bars)), [bar.size for bar in bars]
    axes.barh(places, sizes, color=[RAISES if size > 0 else LOWERS for size in sizes], height=0.75)
    axes.set_title(plain(label, int(9 * inches)))
    axes.set_yticks(places, [plain(bar.name, int(8 * inches)) for bar in bars])
    axes.set_ylim(max(len(bars), 1) - 0.4, -0.6)
    axes.axvline(0.0, color=GREY, linewidth=0.6)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=3)


def _find_row(explained: Any, row: Any) -> tuple[LocalExplanation, RowView]:
    if isinstance(explained, LocalExplanation):
        return explained, explained.row(row)
    if isinstance(row, (int, np.integer)):
        raise ValueError(
            f"a model has no row {row}; pass the row itself, as a dict or a table of one row, or pass the result of "
            "explain_local"
        )
    local = explain_local(explained, row)
    if len(local.scores) != 1:
        raise ValueError(f"expected one row; got {len(local.scores)}. Select one, or pass explain_local and an index")
    return local, local.row(0)


def list_steps(view: RowView, output: int, n: int, room: int) -> tuple[list[str], np.ndarray]:
    """Names of at most `room` characters and contributions of the n largest terms, and the sum of all others."""
    found = view.contributions[:, output]
    order = np.argsort(-np.abs(found), kind="stable")
    n = n if len(order) > n + 1 else len(order)  # a bar "1 other" would save no space
    names = [join_name(view.names[t], format_values(view.values[t]), room) for t in order[:n]]
    steps, rest = found[order[:n]], found[order[n:]]
    if len(rest):
        return [*names, f"{len(rest)} others"], np.r_[steps, rest.sum()]
    return names, steps


def join_name(name: str, value: str, room: int) -> str:
    """A name and a value; if there is no room for both, each is shortened in the middle.

    >>> join_name("age", "31", 20), join_name("purpose of the credit", "repairs of a house", 25)
    ('age = 31', 'purpose…dit = repairs…use')
    """
    half = (room - 3) // 2
    if len(name) + len(value) + 3 > room:
        name, value = name[: 4 * room], value[: 4 * room]
        limit = max(half, room - 3 - min(len(value), half)), max(half, room - 3 - min(len(name), half))
        return f"{plain(name, min(len(name), limit[0]))} = {plain(value, min(len(value), limit[1]))}"
    return plain(f"{name} = {value}", room)


def draw_waterfall(axes: Axes, local: LocalExplanation, output: int, names: Sequence[str], steps: np.ndarray) -> None:
    """Bars that each start where the previous one ended, between the intercept (top) and the score (bottom)."""
    start = float(local.intercept[output])
    path = np.r_[start, start + np.cumsum(steps)]
    begins, ends = path[:-1], path[1:]
    colours = [RAISES if step > 0 else LOWERS for step in steps]
    axes.barh(np.arange(len(steps)) + 1, steps, 0.7, begins, color=colours)
    for place, at in enumerate(path):
        axes.plot([at, at], [place - 0.35 * (place > 0), place + 1 + 0.35 * (place < len(steps))], **CONNECTOR)
    axes.plot([start], [0], "o", color=GREY, markersize=4)
    axes.plot([path[-1]], [len(path)], "D", color="black", markersize=5)
    show = find_format(steps)
    signed = [("+" if step > 0 else "") + show(step) for step in steps]
    texts = [show(start), *signed, show(float(path[-1]))]
    right = np.r_[start, np.maximum(begins, ends), path[-1]]
    for place, (at, text) in enumerate(zip(right, texts, strict=True)):
        axes.annotate(text.replace("-", "−"), (at, place), (6, 0), textcoords="offset points", va="center")
    axes.set_yticks(np.arange(len(path) + 1), ["intercept", *names, "score"])
    axes.set_ylim(len(path) + 0.6, -0.6)
    room = float(np.ptp(path)) or 1.0
    axes.set_xlim(path.min() - 0.04 * room, path.max() + 0.16 * room)
    axes.set_xlabel(_score_label(local, output))


def find_format(steps: np.ndarray) -> Callable[[float], str]:
    """Formats all numbers of a waterfall with the decimals of three digits of its largest step: changes are visible.

    >>> show = find_format(np.array([0.2, -0.04]))
    >>> show(12.0), show(12.2), show(-0.04)
    ('12.000', '12.200', '-0.040')
    >>> find_format(np.array([4100.0]))(123456.7)
    '123,457'
    """
    largest = float(np.abs(steps).max(initial=0.0))
    decimals = int(np.clip(2 - np.floor(np.log10(largest)), 0, 12)) if largest > 0 else 2
    return lambda value: f"{value:,.{decimals}f}"


def _score_label(local: LocalExplanation, output: int) -> str:
    if local.link == "logit":
        return "log odds" if local.classes is None else f"log odds of {plain(local.classes[1], 20)}"
    return "prediction" if len(local.intercept) == 1 else f"score of {plain(local.outputs[output], 20)}"


def describe_prediction(local: LocalExplanation, view: RowView, output: int, steps: np.ndarray) -> str:
    """The title of a row: its prediction, with the digits of the waterfall, and the actual value if it is known."""
    show = find_format(steps)
    known = show(view.actual) if isinstance(view.actual, float) else view.actual
    actual = "" if view.actual is None else f", actual {plain(known, 20)}"
    if local.classes is None or view.probabilities is None:
        return f"prediction {show(view.prediction)}{actual}"
    column = 1 if local.link == "logit" else output
    chance = f"probability of {plain(local.classes[column], 20)} {view.probabilities[column]:.3f}"
    return f"{chance}, predicted {plain(view.prediction, 20)}{actual}"
