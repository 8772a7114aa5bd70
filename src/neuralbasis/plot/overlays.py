"""One picture: its contributions, and heat maps of where its concepts were found.

A heat map is a grid over the whole picture, linear between the centres of its cells. Under the colour, the picture is
grey with stretched contrast, which keeps dark pictures readable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..explain import PictureExplanation, Sight, explain_picture
from .bars import BAR_INCHES, describe_prediction, draw_waterfall, list_steps, score_label
from .canvas import (
    CHARS_PER_INCH,
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

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_OPACITY = 0.8  # opacity of the colour where a concept is strongest
PANEL = 1.7  # minimum width of a heat map in inches
NARROW = 5.0  # inches; in narrower figures, the bars are below the picture


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
    path : file to write, ending in .png, .svg or .pdf; None writes no file
    width : width of the figure in inches
    """
    found = explained
    if not isinstance(explained, PictureExplanation):
        found = explain_picture(explained, row, picture, heat, label, n_terms=n)
    seen = [sight for sight in found.sights if sight.heat is not None]
    inches = choose_width(width, 7.2)
    size = n_rows, across = _choose_grid(len(seen), inches)
    names, steps = list_steps(found.row, found.output, found.n_terms)
    is_narrow = inches < NARROW
    bars = 0.8 + BAR_INCHES * (len(steps) + 2)
    top = 0.7 * inches + bars if is_narrow else max(2.4, bars)
    with open_canvas(path) as figure:
        foot = n_rows * (inches / across + 0.6)
        figure.set_size_inches(inches, top + foot + 0.4)
        title = describe_prediction(found.local, found.row, found.output)
        figure.suptitle("\n".join(wrap_lines(title, int(0.9 * CHARS_PER_INCH * inches))))
        parts: Any = figure.subfigures(2, 1, height_ratios=[top, foot]) if seen else [figure]
        if is_narrow:
            spots = parts[0].subfigures(2, 1, height_ratios=[top - bars, bars])
        else:
            spots = parts[0].subfigures(1, 2, width_ratios=[2, 3])
        left, right = (spot.subplots() for spot in spots)
        _show_image(left, found.picture)
        room = int((7 if is_narrow else 5) * inches)
        draw_waterfall(right, [plain(name, room) for name in names], float(found.intercept[found.output]), steps)
        right.set_xlabel(score_label(found.local, found.output))
        if seen:
            _draw_sights(parts[1], found.picture, seen, size, inches / across)
    return figure


def _choose_grid(count: int, inches: float) -> tuple[int, int]:
    """Rows and columns of heat maps, with rows of similar length.

    >>> _choose_grid(6, 7.2), _choose_grid(6, 3.3), _choose_grid(0, 7.2)
    ((2, 3), (3, 2), (0, 1))
    """
    n_rows = -(-count // max(2, int(inches // PANEL)))
    return n_rows, -(-count // n_rows) if n_rows else 1


def draw_pictures(part: Any, pictures: Sequence[np.ndarray]) -> None:
    """Pictures side by side, all with the same height."""
    ratios = [picture.shape[1] / picture.shape[0] for picture in pictures]
    panels = part.subplots(1, len(pictures), squeeze=False, width_ratios=ratios)[0]
    for axes, picture in zip(panels, pictures, strict=True):
        _show_image(axes, picture)


def _draw_sights(part: Any, picture: np.ndarray, seen: Sequence[Sight], size: tuple[int, int], inches: float) -> None:
    grids = np.stack([sight.heat for sight in seen if sight.heat is not None])
    low, high = float(grids.min()), float(grids.max())
    panels = part.subplots(*size, squeeze=False).ravel()
    for axes, sight, grid in zip(panels, seen, grids, strict=False):
        strength = (grid - low) / ((high - low) or 1.0)
        _show_image(axes, overlay_heat(picture, strength, RAISES if sight.contribution > 0 else LOWERS))
        axes.set_title(_title_sight(sight, inches))
    for axes in panels[len(seen) :]:
        axes.set_axis_off()


def _title_sight(sight: Sight, inches: float) -> str:
    values = plain(format_values(sight.values), 20)
    return f"{wrap_name(sight.name, inches)}\n{values} → {format_signed(sight.contribution)}"


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
