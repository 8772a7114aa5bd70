"""One class in one figure, as in the paper's appendix.

From top to bottom: examples of the class, the shapes of the terms that raise its score most, and the shapes of the
terms that lower it most. Panels look as in `shapes`; ticks at the bottom are the rows of the class.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import ClassExplanation, TermView, explain_class
from .canvas import CHARS_PER_INCH, GREY, LOWERS, RAISES, format_signed, open_canvas, plain, wrap_name
from .curves import Curve, make_curve
from .maps import Map, make_map, split_triple
from .overlays import draw_pictures
from .panels import Panel, choose_layout, draw_block
from .scale import ScaledTerm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_PICTURES = 6
PICTURE = 1.5  # height of a picture in inches


def class_shapes(
    explained: Any,
    label: Any = None,
    X: Any = None,
    n: int = 4,
    path: str | os.PathLike[str] | None = None,
    *,
    pictures: Iterable[Any] = (),
    width: float | None = None,
) -> Figure:
    """Draw one class: examples, and the shapes of the terms that raise or lower its score most.

    The number above a shape is a mean contribution to the score of the class. For terms that raise it, the mean is over
    rows of the class; for terms that lower it, over rows that the term makes less likely to be of the class. See
    `explain.explain_class`.

    Parameters
    ----------
    explained : ClassExplanation, AdditiveModel or fitted estimator
    label, X, n, pictures : see `explain.explain_class`; omit them for a ClassExplanation
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    width : width of the figure in inches

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisClassifier, plot
    >>> X, kind = np.eye(3)[np.arange(90) % 3], np.array(["cardinal", "creeper", "heron"])[np.arange(90) % 3]
    >>> model = NeuralBasisClassifier(feature_names=["red", "striped", "long"], max_steps=50, interactions=0)
    >>> figure = plot.class_shapes(model.fit(X, kind), "creeper", n=1)
    >>> figure.axes[0].get_title().split()[0]
    'striped'
    """
    found = explained
    if not isinstance(explained, ClassExplanation):
        found = explain_class(explained, label, X, n, pictures)
    sides = found.terms_for, found.terms_against
    layout = choose_layout(max(map(len, sides)), width, panel=2.4 if width is None else 1.5, across=6)
    panels = [
        [_make_panel(term, sizes[term.index], layout.panel) for term in side]
        for side, sizes in zip(sides, (found.gains, found.losses), strict=True)
    ]
    placed = _place(panels, layout.across)
    if not placed:
        raise ValueError(f"no term raises or lowers the score of {found.label!r}: there is no shape to draw")
    n_rows, shown = placed[-1][0] + 1, found.pictures[:MAX_PICTURES]
    with open_canvas(path, layout.panel) as figure:
        height = n_rows * (0.72 * layout.panel + 0.6)
        inches = layout.width or layout.across * layout.panel + 0.4
        figure.set_size_inches(inches, height + 0.8 + PICTURE * bool(shown))
        figure.suptitle(plain(found.label, int(10 * inches)), fontweight="bold")
        parts: Any = figure.subfigures(2, 1, height_ratios=[PICTURE, height]) if shown else [figure, figure]
        if shown:
            draw_pictures(parts[0], shown)
        unit = f"contribution to score of {plain(found.label, 24)}"
        drawn = draw_block(parts[1], placed, (n_rows, layout.across), (unit, unit), False)
        _mark_rows(drawn, found, sides)
        figure.supxlabel(_number_note(found, inches), fontsize=8, color=GREY)
    return figure


def _make_panel(term: TermView, size: float, inches: float) -> Panel:
    return Panel(f"{wrap_name(term.name, inches)}\n{format_signed(size)}", _make_contents(term))


def _make_contents(term: TermView) -> Curve | Map:
    """A curve or a map; a triple is drawn at the median of its third column."""
    if len(term.columns) == 1:
        members = None if term.members is None or term.members.shape[-2] < 2 else term.members
        return make_curve(ScaledTerm(term, term.scores, term.spread, members, np.zeros(1)), (0,))
    values = term.scores[..., 0]
    return make_map(term, values, term.weights) if len(term.columns) == 2 else split_triple(term, values, 1)[0][1]


def _place(sides: Sequence[Sequence[Panel]], across: int) -> list[tuple[int, int, Panel]]:
    """Row and column of each panel; each group starts a new row."""
    placed, row = [], 0
    for side in sides:
        placed += [(row + i // across, i % across, panel) for i, panel in enumerate(side)]
        row += -(-len(side) // across)
    return placed


def _mark_rows(drawn: Sequence[Axes], found: ClassExplanation, sides: Sequence[Sequence[TermView]]) -> None:
    """Colour the titles by the sign of the effect, and draw a tick below a curve for each row of the class."""
    coloured = [(term, colour) for side, colour in zip(sides, (RAISES, LOWERS), strict=True) for term in side]
    for axes, (term, colour) in zip(drawn, coloured, strict=True):
        axes.title.set_color(colour)
        if len(term.columns) > 1 or term.axes[0].is_level:
            continue
        low, high = axes.get_xlim()
        numbers = np.array(found.values(term)[0], dtype=float)  # None becomes NaN
        inside = numbers[(numbers >= low) & (numbers <= high)]
        look: dict[str, Any] = {"color": "black", "linestyle": "", "marker": "|", "markersize": 5, "alpha": 0.5}
        axes.plot(inside, np.full(len(inside), 0.02), transform=axes.get_xaxis_transform(), **look)


def _number_note(found: ClassExplanation, inches: float) -> str:
    if found.n_rows:
        rows = f"the {found.n_rows:,} rows of the class (ticks)"
    else:
        rows = "training rows that the term makes more likely to be of the class"
    text = f"+ mean contribution over {rows}; − over training rows that the term makes less likely to be of it"
    return "\n".join(wrap(text, int(CHARS_PER_INCH * inches)))
