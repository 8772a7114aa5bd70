"""The legend of a figure of panels: classes, bands, faint lines, shading, grey curves, pale and hatched cells.

In: the drawn curves and maps. Out: a legend below the panels. With several classes, the title of their legend describes
the rest. `explain.bands` has the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..explain.bands import (
    EACH_VALUE,
    MEMBER_LINES,
    NO_EFFECT,
    NO_ROWS,
    OVER_MEMBERS,
    ROW_SHADES,
    WHOLE_CURVE,
    WITH_MAINS,
)
from .canvas import CHARS_PER_INCH, COLOURS, GREY, add_legend, line_style, wrap_lines
from .curves import INNER_SHADE, OUTER_SHADE, Curve
from .maps import PALE, Map
from .pair_curves import PairCurves
from .scale import Scale

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RED = "#B2182B"  # of the maps

OWN_SCALES = "every panel has its own scale"

Entry = tuple[Any, str]  # a handle and its text
Content = Curve | PairCurves | Map


def explain_panels(figure: Figure, contents: Sequence[Content], scale: Scale, is_shared: bool) -> None:
    """Add the legend; `is_shared` says whether all panels have one scale."""
    entries = list_entries(contents)
    if len(contents) > 1 and not is_shared:
        entries.append((_make_blank(), OWN_SCALES))
    if len(scale.outputs) > 1 and any(isinstance(content, Curve) for content in contents):
        explain_classes(figure, scale, _write_notes(entries))
    elif entries:
        add_legend(figure, [handle for handle, _ in entries], [text for _, text in entries], "")


def list_entries(contents: Sequence[Content]) -> list[Entry]:
    """What bands, faint lines, shading, grey curves, thin curves, pale and hatched cells are."""
    from matplotlib.patches import Patch

    curves = [content for content in contents if isinstance(content, Curve)]
    pairs = [content for content in contents if isinstance(content, PairCurves)]
    entries = [*_list_bands(curves), *_list_pairs(pairs, bool(curves))]
    if any(not panel.is_flipped for panel in curves) or any(not panel.is_flipped for panel in pairs):
        entries.append((Patch(facecolor="0.85", linewidth=0), ROW_SHADES))
    return entries + _list_maps([content for content in contents if isinstance(content, Map)])


def list_notes(contents: Sequence[Content]) -> list[str]:
    """The entries as text, for a figure whose legend names classes or models."""
    return _write_notes(list_entries(contents))


def note_hatches(maps: Sequence[Map]) -> list[str]:
    return [text for _, text in _list_maps(maps)]


def _write_notes(entries: Sequence[Entry]) -> list[str]:
    bands = (EACH_VALUE, OVER_MEMBERS)
    return [f"shaded: {text}" if text.startswith(bands) else text for _, text in entries]


def _make_blank() -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linestyle="")


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
        entries.append((Line2D([], [], color=COLOURS[0], alpha=0.45, linewidth=0.6), MEMBER_LINES))
    has_outer = any(curve.scaled.outer is not None for curve in curves)
    for text in dict.fromkeys(curve.scaled.inner_name for curve in curves if curve.has_inner):
        is_known = text == EACH_VALUE
        shade = INNER_SHADE + OUTER_SHADE * has_outer
        entries.append(_make_entry(text, shade, has_lines, is_known and has_bars, "thick"))
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


def _list_pairs(pairs: Sequence[PairCurves], has_curves: bool) -> list[Entry]:
    """What the error bars, thin lines and hollow markers of pairs are."""
    from matplotlib.lines import Line2D

    entries: list[Entry] = []
    if bars := [panel for panel in pairs if panel.has_bars]:
        text = f"error bars{' of pairs' if has_curves else ''}: {bars[0].scaled.inner_name}"
        entries.append((Line2D([], [], color=COLOURS[0], linewidth=1.0, marker="o", markersize=4), text))
    far = [panel.is_flipped for panel in pairs if not panel.is_near.all()]
    words = " and ".join(["thin lines"] * (False in far) + ["hollow markers"] * (True in far))
    if has_curves and pairs:
        entries.append((_make_blank(), WITH_MAINS))
    if words:
        look: dict[str, Any] = {"marker": "o", "markerfacecolor": "white", "markersize": 4} if all(far) else {}
        entries.append((Line2D([], [], color=GREY, linewidth=0.5, **look), f"{words}: {NO_ROWS}"))
    return entries


def _list_maps(maps: Sequence[Map]) -> list[Entry]:
    from matplotlib.patches import Patch

    entries: list[Entry] = []
    if any(panel.is_pale is not None and panel.select_drawn(panel.is_pale).filled(False).any() for panel in maps):
        entries.append((Patch(color=RED, alpha=1 - PALE, linewidth=0), f"pale: {NO_EFFECT} there"))
    if any(panel.select_drawn(panel.is_empty).filled(False).any() for panel in maps):
        entries.append((Patch(facecolor="white", edgecolor=GREY, linewidth=0, hatch="////"), f"hatched: {NO_ROWS}"))
    return entries
