"""The bound on the loss over the number of bases, and the best number of bases over the number of columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain.basis_bound import Bound, Decay, best_n_bases, generalization_bound
from .canvas import GREY, add_legend, choose_width, label_axis, line_style, open_canvas

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COLUMNS = 10**5


def bound(
    n_columns: Sequence[int] = (10, 100, 1000, 10_000),
    n_rows: int = 10_000,
    path: str | os.PathLike[str] | None = None,
    *,
    decay: Decay = Decay(),  # noqa: B008  frozen
    weight_norm: float = 1.0,
    width: float | None = None,
) -> Figure:
    """Draw `explain.basis_bound.generalization_bound` over B for several D, and the best B over D.

    A dot marks the lowest value of each curve.

    Parameters
    ----------
    n_columns : values of D, a curve for each
    n_rows : N
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    decay, weight_norm : see `generalization_bound`
    width : width of the figure in inches

    Examples
    --------
    >>> from neuralbasis import plot
    >>> figure = plot.bound([8, 800])
    >>> [text.get_text() for text in figure.legends[0].get_texts()]
    ['D = 8', 'D = 800']
    """
    find_bound = partial(generalization_bound, n_rows=n_rows, decay=decay, weight_norm=weight_norm)
    find_best = partial(best_n_bases, n_rows=n_rows, decay=decay, weight_norm=weight_norm)
    with open_canvas(path) as figure:
        figure.set_size_inches(inches := choose_width(width, 6.5), 0.4 * inches)
        left, right = figure.subplots(1, 2)
        counts = np.arange(1, 2 * find_best(max(n_columns)) + 3)
        handles = [_draw_bound(left, order, counts, find_bound(counts, n)) for order, n in enumerate(n_columns)]
        _draw_floor(left, float(find_bound(1, 1).chance), counts[-1])
        left.set(xlabel="B, bases", title=f"N = {n_rows:,} rows")
        label_axis(left, "y", "bound on the loss")
        _draw_best(right, find_best)
        add_legend(figure, handles, [f"D = {columns:,}" for columns in n_columns], "")
    return figure


def _draw_bound(axes: Axes, order: int, counts: np.ndarray, found: Bound) -> Any:
    """A curve with a dot at its lowest value."""
    best = int(found.total.argmin())
    axes.plot(counts[best], found.total[best], "o", color=line_style(order)["color"], markersize=4)
    return axes.plot(counts, found.total, **line_style(order))[0]


def _draw_floor(axes: Axes, floor: float, right: int) -> None:
    """The part of the bound that does not depend on the number of bases."""
    axes.axhline(floor, color=GREY, linewidth=0.8)
    axes.annotate("chance", (right, floor), (0, 2), textcoords="offset points", ha="right", color=GREY)
    axes.set(yscale="log", ylim=(0.8 * floor, 200 * floor))


def _draw_best(axes: Axes, find_best: Callable[[int], int]) -> None:
    columns = np.unique(np.geomspace(1, MOST_COLUMNS, 200).round().astype(int))
    axes.plot(columns, [find_best(int(n)) for n in columns], drawstyle="steps-mid", color=line_style(0)["color"])
    axes.set(xscale="log", ylim=(0, None), xlabel="D, columns", title="B with the lowest bound")
    axes.locator_params(axis="y", integer=True)
    label_axis(axes, "y", "B, bases")
