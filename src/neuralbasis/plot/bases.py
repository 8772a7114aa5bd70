"""The bound on the loss over the number of bases, and the best number of bases over the number of columns."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from ..explain.basis_bound import Decay, best_n_bases, generalization_bound
from .canvas import COLOURS, GREY, add_legend, choose_width, label_axis, line_style, open_canvas

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    decay, weight_norm : see `generalization_bound`
    path, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

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
        handles = []
        for order, n in enumerate(n_columns):
            total = find_bound(counts, n).total
            best = int(total.argmin())
            left.plot(counts[best], total[best], "o", color=line_style(order)["color"], markersize=4)
            handles += left.plot(counts, total, **line_style(order))
        floor = float(find_bound(1, 1).chance)  # this part of the bound does not depend on the number of bases
        left.axhline(floor, color=GREY, linewidth=0.8)
        left.annotate("chance", (counts[-1], floor), (0, 2), textcoords="offset points", ha="right", color=GREY)
        left.set(yscale="log", ylim=(0.8 * floor, 200 * floor), xlabel="B, bases", title=f"N = {n_rows:,} rows")
        label_axis(left, "y", "bound on the loss")
        columns = np.unique(np.geomspace(1, 1e5, 200).round().astype(int))
        right.plot(columns, [find_best(int(n)) for n in columns], drawstyle="steps-mid", color=COLOURS[0])
        right.set(xscale="log", ylim=(0, None), xlabel="D, columns", title="B with the lowest bound")
        right.locator_params(axis="y", integer=True)
        label_axis(right, "y", "B, bases")
        add_legend(figure, handles, [f"D = {columns:,}" for columns in n_columns], "")
    return figure
