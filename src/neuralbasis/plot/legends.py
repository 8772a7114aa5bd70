"""The legend of a figure of panels: classes, bands, grey curves and pale cells, in words.

In: the drawn curves and maps. Out: a legend below the panels. With several classes, the title of their legend describes
the bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..explain.bands import EACH_VALUE, NO_EFFECT, OVER_MEMBERS, WHOLE_CURVE
from .canvas import CHARS_PER_INCH, COLOURS, GREY, add_legend, line_style, wrap_lines
from .curves import INNER_SHADE, OUTER_SHADE, Curve
from .maps import PALE, Map
from .scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RED = "#B2182B"  # of the maps

Entry = tuple[Any, str]  # a handle and its text


def explain_panels(figure: Figure, contents: Sequence[Curve | Map], scale: Scale) -> None:
    """Add the legend; without bands, classes and pale cells there is none."""
    entries = list_entries(contents)
    if len(scale.outputs) > 1 and any(isinstance(content, Curve) for content in contents):
        explain_classes(figure, scale, list_notes(contents))
    elif entries:
        add_legend(figure, [handle for handle, _ in entries], [text for _, text in entries], "")


def list_entries(contents: Sequence[Curve | Map]) -> list[Entry]:
    """What bands, grey curves and pale cells are."""
    maps = [content for content in contents if isinstance(content, Map)]
    return [*_list_bands([content for content in contents if isinstance(content, Curve)]), *_list_maps(maps)]


def list_notes(contents: Sequence[Curve | Map]) -> list[str]:
    """The entries as text, for a figure whose legend names classes or models."""
    bands = (EACH_VALUE, OVER_MEMBERS)
    texts = [text for _, text in list_entries(contents)]
    return [f"shaded: {text}" if text.startswith(bands) else text for text in texts]


def explain_classes(figure: Figure, scale: Scale, notes: Sequence[str]) -> None:
    """The legend of the drawn classes; its title contains the notes."""
    from matplotlib.lines import Line2D

    count, known = len(scale.outputs), len(scale.explanation.intercept) - (scale.reference is not None)
    handles = [Line2D([], [], linewidth=1.8, **line_style(order)) for order in scale.colour_indices]
    name = "class" if count == known else f"class ({count} of {known})"
    add_legend(figure, handles, scale.labels, join_notes(figure, [name, *notes]))


def join_notes(figure: Figure, notes: Sequence[str]) -> str:
    """One text, wrapped to the width of the figure."""
    return "\n".join(wrap_lines("; ".join(notes), int(CHARS_PER_INCH * figure.get_figwidth())))


def _list_bands(curves: Sequence[Curve]) -> list[Entry]:
    """What bands, error bars and faint lines are; all curves of a figure have the same kinds of bands."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    lines = [curve for curve in curves if curve.plot_axis.labels is None]
    has_lines, has_bars = bool(lines), len(lines) < len(curves)
    entries: list[Entry] = []
    if any(curve.scaled.members is not None for curve in lines):
        entries.append((Line2D([], [], color=COLOURS[0], alpha=0.45, linewidth=0.6), "members"))
    has_outer = any(curve.scaled.outer is not None for curve in curves)
    for text in dict.fromkeys(curve.scaled.inner_name for curve in curves if curve.has_inner):
        is_known = text == EACH_VALUE
        entries.append(
            _make_entry(text, INNER_SHADE + OUTER_SHADE * has_outer, has_lines, is_known and has_bars, "thick")
        )
    if has_outer:
        entries.append(_make_entry(WHOLE_CURVE, OUTER_SHADE, has_lines, has_bars, "thin"))
    if any(curve.scaled.effect for curve in curves):
        entries.append((Patch(color=GREY, alpha=INNER_SHADE + OUTER_SHADE), f"grey: {NO_EFFECT}"))
    return entries


def _make_entry(text: str, shade: float, has_lines: bool, has_bars: bool, width: str) -> Entry:
    """A shaded box for bands, a line for error bars; the text names both."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    if has_lines:
        note = f" (bars: {width} line)" if has_bars else ""
        return Patch(color=COLOURS[0], alpha=shade, linewidth=0), text + note
    return Line2D([], [], color="black", linewidth=2.2 if width == "thick" else 0.8), text


def _list_maps(maps: Sequence[Map]) -> list[Entry]:
    from matplotlib.patches import Patch

    if any(panel.is_pale is not None and panel.select_drawn(panel.is_pale).filled(False).any() for panel in maps):
        return [(Patch(color=RED, alpha=1 - PALE, linewidth=0), f"pale: {NO_EFFECT} there")]
    return []
