"""One class and one picture, as in the paper's appendix.

A class shows, from top to bottom: examples, the shapes of the terms that raise its score most, and the shapes of the
terms that lower it most. Ticks at the bottom of a shape are the rows of the class. A picture shows its contributions,
and heat maps of where its concepts were found: grids over the whole picture, linear between the centres of their cells.
Under the colour, the picture is grey with stretched contrast, which keeps dark pictures readable.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import ClassExplanation, PictureExplanation, PictureTerm, TermView, explain_class, explain_picture
from .bars import BAR_INCHES, describe_prediction, draw_waterfall, list_steps
from .canvas import (
    CHARS_PER_INCH,
    GREY,
    LOWERS,
    RAISES,
    choose_width,
    format_signed,
    format_values,
    open_canvas,
    plain,
    wrap_lines,
    wrap_name,
)
from .curves import make_curve
from .legends import list_entries
from .maps import make_maps
from .panels import Panel, choose_layout, draw_block, place_panels
from .scale import find_clear_cells, scale_alone

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_EXAMPLES = 6  # pictures of a class
EXAMPLE = 1.5  # height of an example in inches
MAX_OPACITY = 0.8  # opacity of the colour where a concept is strongest
HEAT_MAP = 1.7  # minimum width of a heat map in inches
NARROW = 5.0  # inches; in narrower figures, the bars are below the picture


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
    path, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

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
    placed = place_panels(panels, layout.across)
    if not placed:
        raise ValueError(f"no term raises or lowers the score of {found.label!r}: there is no shape to draw")
    n_rows, shown = placed[-1][0] + 1, found.pictures[:MAX_EXAMPLES]
    with open_canvas(path, layout.panel) as figure:
        height = n_rows * (0.72 * layout.panel + 0.6)
        inches = layout.width or layout.across * layout.panel + 0.4
        figure.set_size_inches(inches, height + 0.8 + EXAMPLE * bool(shown))
        figure.suptitle(plain(found.label, int(10 * inches)), fontweight="bold")
        parts: Any = figure.subfigures(2, 1, height_ratios=[EXAMPLE, height]) if shown else [figure, figure]
        if shown:  # side by side, all with the same height
            ratios = [picture.shape[1] / picture.shape[0] for picture in shown]
            tops = parts[0].subplots(1, len(shown), squeeze=False, width_ratios=ratios)[0]
            for axes, picture in zip(tops, shown, strict=True):
                _show_image(axes, picture)
        unit = f"contribution to score of {plain(found.label, 24)}"
        drawn = draw_block(parts[1], placed, (n_rows, layout.across), (unit, unit), True)
        _mark_rows(drawn, found, sides)
        bands = [text for _, text in list_entries([panel.content for side in panels for panel in side])]
        figure.supxlabel(_write_note(found, bands, inches), fontsize=8, color=GREY)
    return figure


def _make_panel(term: TermView, size: float, inches: float) -> Panel:
    """A curve or a map; a triple is drawn at the median of its third column."""
    scaled = scale_alone(term)
    title = "\n".join(filter(None, [wrap_name(term.name, inches), format_signed(size), scaled.effect]))
    if len(term.columns) > 1:
        return Panel(title, make_maps(term, term.scores[..., 0], 1, find_clear_cells(scaled))[0][1])
    return Panel(title, make_curve(scaled, (0,)))


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


def _write_note(found: ClassExplanation, bands: Sequence[str], inches: float) -> str:
    """What the numbers above the shapes are, and what the bands are."""
    if found.n_rows:
        rows = f"the {found.n_rows:,} rows of the class (ticks)"
    else:
        rows = "training rows that the term makes more likely to be of the class"
    text = f"+ mean contribution over {rows}; − over training rows that the term makes less likely to be of it"
    lines = wrap_lines(text, int(CHARS_PER_INCH * inches)) + wrap_lines("; ".join(bands), int(CHARS_PER_INCH * inches))
    return "\n".join(lines)


def picture(
    explained: Any,
    row: Any = None,
    picture: Any = None,
    heat: Mapping[str, Any] | None = None,
    n: int = 8,
    path: str | os.PathLike[str] | None = None,
    *,
    label: Any = None,
    width: float | None = None,
) -> Figure:
    """Draw how a picture gets its prediction: a waterfall of its concepts, and where each concept was found.

    Heat maps of concepts that raise the score are orange, those of concepts that lower it are blue. All share one
    scale: a concept that was found nowhere has no colour.

    Parameters
    ----------
    explained : PictureExplanation, AdditiveModel or fitted estimator
    row, picture, heat, n, label : see `explain.explain_picture`; omit them for a PictureExplanation
    path, width : see `shapes`

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> X = np.linspace(0, 1, 60)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["red"], max_steps=20).fit(X, X[:, 0])
    >>> type(plot.picture(model, {"red": 0.9}, np.zeros((8, 8)), {"red": [[0.1, 0.9]]})).__name__
    'NotebookFigure'
    """
    found = explained
    if not isinstance(explained, PictureExplanation):
        found = explain_picture(explained, row, picture, heat, label, n_terms=n)
    seen = [term for term in found.terms if term.heat is not None]
    inches = choose_width(width, 7.2)
    size = n_rows, across = _choose_grid(len(seen), inches)
    is_narrow = inches < NARROW
    names, steps = list_steps(found.row, found.output, found.n_terms, int((7 if is_narrow else 5) * inches))
    bars = 0.8 + BAR_INCHES * (len(steps) + 2)
    top = 0.7 * inches + bars if is_narrow else max(2.4, bars)
    with open_canvas(path) as figure:
        foot = n_rows * (inches / across + 0.6)
        figure.set_size_inches(inches, top + foot + 0.4)
        title = describe_prediction(found.local, found.row, found.output, steps)
        figure.suptitle("\n".join(wrap_lines(title, int(0.9 * CHARS_PER_INCH * inches))))
        parts: Any = figure.subfigures(2, 1, height_ratios=[top, foot]) if seen else [figure]
        if is_narrow:
            spots = parts[0].subfigures(2, 1, height_ratios=[top - bars, bars])
        else:
            spots = parts[0].subfigures(1, 2, width_ratios=[2, 3])
        left, right = (spot.subplots() for spot in spots)
        _show_image(left, found.picture)
        draw_waterfall(right, found.local, found.output, names, steps)
        if seen:
            _draw_maps(parts[1], found.picture, seen, size, inches / across)
    return figure


def _choose_grid(count: int, inches: float) -> tuple[int, int]:
    """Rows and columns of heat maps, with rows of similar length.

    >>> _choose_grid(6, 7.2), _choose_grid(6, 3.3), _choose_grid(0, 7.2)
    ((2, 3), (3, 2), (0, 1))
    """
    n_rows = -(-count // max(2, int(inches // HEAT_MAP)))
    return n_rows, -(-count // n_rows) if n_rows else 1


def _draw_maps(part: Any, picture: Any, terms: Sequence[PictureTerm], size: tuple[int, int], inches: float) -> None:
    grids = np.stack([term.heat for term in terms if term.heat is not None])
    low, high = float(grids.min()), float(grids.max())
    panels = part.subplots(*size, squeeze=False).ravel()
    for axes, term, grid in zip(panels, terms, grids, strict=False):
        strength = (grid - low) / ((high - low) or 1.0)
        _show_image(axes, overlay_heat(picture, strength, RAISES if term.contribution > 0 else LOWERS))
        values = plain(format_values(term.values), 20)
        axes.set_title(f"{wrap_name(term.name, inches)}\n{values} → {format_signed(term.contribution)}")
    for axes in panels[len(terms) :]:
        axes.set_axis_off()


def _show_image(axes: Axes, picture: np.ndarray) -> None:
    axes.imshow(picture, interpolation="antialiased")
    axes.set_axis_off()


def overlay_heat(picture: np.ndarray, strength: np.ndarray, colour: str) -> np.ndarray:
    """(height, width, 3) 0 … 1: a grey picture under a colour whose opacity follows `strength` (h, w) 0 … 1."""
    from matplotlib.colors import to_rgb

    grey = picture @ np.array([0.299, 0.587, 0.114])
    dark, bright = np.percentile(grey, [1, 99])
    ground = 0.25 + 0.75 * np.clip((grey - dark) / ((bright - dark) or 1.0), 0.0, 1.0)[..., None]
    share = MAX_OPACITY * upsample(strength, *picture.shape[:2])[..., None]
    return (1 - share) * ground + share * np.array(to_rgb(colour))


def upsample(grid: np.ndarray, height: int, width: int) -> np.ndarray:
    """A grid (h, w) -> (height, width), linear between the centres of its cells.

    >>> upsample(np.array([[0.0, 1.0]]), 1, 4).tolist()
    [[0.0, 0.25, 0.75, 1.0]]
    """
    for axis, size in enumerate((height, width)):
        count = grid.shape[axis]
        at = np.clip((np.arange(size) + 0.5) * count / size - 0.5, 0, count - 1)
        before = at.astype(int)
        after = np.minimum(before + 1, count - 1)
        share = np.expand_dims(at - before, 1 - axis)
        grid = (1 - share) * grid.take(before, axis) + share * grid.take(after, axis)
    return grid
