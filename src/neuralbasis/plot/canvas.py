"""What all figures share: an empty figure, its file, colours and line styles, and text that is safe to draw.

`open_canvas(path)` yields a matplotlib `Figure` made without pyplot, and writes it when the block ends. matplotlib is
imported inside functions: importing `plot` does not import it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..serialization.temporary_file import replace_when_done

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours without yellow, which is too faint for a line on white. Dashes and hatches distinguish the
# same classes in a grey print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (2, 1)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "----")
LOWERS, RAISES = COLOURS[:2]
GREY, FAINT = "#666666", "#B5B5B5"
FORMATS = (".png", ".svg", ".pdf")
MIN_WIDTH = 2.0  # inches
CHARS_PER_INCH = 15  # approximately
NARROW = 2.4  # inches; narrower panels have a smaller font
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-3, 4),
    "hatch.linewidth": 0.4,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # embeds fonts as text, as journals require
    "savefig.dpi": 200,
}


@contextmanager
def open_canvas(path: str | os.PathLike[str] | None = None, panel: float = 3.0) -> Iterator[Figure]:
    """An empty figure; with a path, the file is written when the block ends, completely or not at all.

    `panel` is the width of a panel in inches, which decides the font size.
    """
    try:
        from matplotlib import rc_context

        from .figure import NotebookFigure
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "neuralbasis[plot]"') from error
    ending = FORMATS[0] if path is None else Path(path).suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"path must end in one of {', '.join(FORMATS)}; got {str(path)!r}")
    size = 8.0 if panel >= NARROW else 7.0
    with rc_context({**STYLE, "font.size": size, "axes.titlesize": size + 1, "legend.title_fontsize": size}):
        figure = NotebookFigure(layout="constrained")
        yield figure
        if path is not None:
            with replace_when_done(path) as file:
                figure.savefig(file, format=ending[1:])


def choose_width(width: float | None, default: float) -> float:
    if width is None:
        return default
    if not MIN_WIDTH <= width <= 100:
        raise ValueError(f"width must be {MIN_WIDTH:g} to 100 inches, not {width!r}")
    return float(width)


def plain(text: Any, max_length: int) -> str:
    """One line of at most `max_length` characters that the font has and that matplotlib does not parse as a formula.

    >>> print(plain("price in $", 20), plain("total of outstanding debts in thousands", 20))
    price in \\$ total of outs…usands
    """
    line = " ".join(str(text).split())
    if len(line) > max_length:
        tail = (max_length - 1) // 3  # long names often differ at their ends
        line = f"{line[: max_length - 1 - tail]}…{line[-tail:]}"
    try:
        known = _find_glyphs()
    except ImportError:  # an interactive figure, whose fonts have all letters
        return line.replace("$", r"\$")
    placeholder = "□" if ord("□") in known else "?"
    return "".join(letter if ord(letter) in known else placeholder for letter in line).replace("$", r"\$")


def wrap_name(name: str, inches: float) -> str:
    """A name wrapped to at most two lines."""
    room = max(8, int(0.85 * CHARS_PER_INCH * inches))  # titles have a slightly larger font
    return "\n".join(wrap_lines(plain(name, 2 * room - 4), room)[:2])


def wrap_lines(text: str, room: int) -> list[str]:
    """Lines of at most `room` characters; an escaped dollar sign is never split from its backslash.

    >>> wrap_lines("a" + 3 * r"\\$", 3)
    ['a\\\\$\\\\$', '\\\\$']
    """
    return [line.replace("$", r"\$") for line in wrap(text.replace(r"\$", "$"), room)]


def _find_glyphs() -> frozenset[int]:
    """Code points that the fonts of a figure contain; matplotlib warns about all others."""
    from matplotlib.font_manager import FontProperties, findfont

    families = FontProperties().get_family()
    return frozenset().union(*(_read_font(findfont(FontProperties(family=[family]))) for family in families))


@cache
def _read_font(path: str) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    return frozenset(get_font(path).get_charmap())


def format_number(value: float) -> str:
    """Three significant digits; large numbers keep all digits before the point.

    >>> format_number(5.0), format_number(0.01234), format_number(12345.6)
    ('5.00', '0.0123', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def format_signed(value: float) -> str:
    """The number with its sign.

    >>> format_signed(0.25), format_signed(-1.0)
    ('+0.250', '−1.00')
    """
    return ("+" if value > 0 else "") + format_number(value).replace("-", "−")


def format_value(value: float) -> str:
    """A raw value as short text.

    >>> format_value(2.0), format_value(1234567.0), format_value(0.123456), format_value(-122.23)
    ('2', '1,234,567', '0.1235', '-122.2')
    """
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e12 else f"{value:.4g}"


def format_values(values: Sequence[float | str | None]) -> str:
    """
    >>> format_values([2.0, "Oslo", None])
    '2, Oslo, missing'
    """
    named = ["missing" if value is None else value for value in values]
    return ", ".join(value if isinstance(value, str) else format_value(value) for value in named)


def note_hidden(before: str, count: int, noun: str) -> str:
    """How many terms or columns are not drawn; empty if all are."""
    return f"{before}{count:,} weaker {noun}{'s' * (count > 1)} not shown" if count else ""


def line_style(index: int) -> dict[str, Any]:
    """Colour and dashes of the line of the class, slice or model with this index."""
    return {"color": COLOURS[index % len(COLOURS)], "linestyle": DASHES[(index + index // len(COLOURS)) % len(DASHES)]}


def bar_style(index: int) -> dict[str, Any]:
    """Colour and hatch of a bar; once all colours are used, the hatch is coloured on white."""
    colour, hatch = COLOURS[index % len(COLOURS)], HATCHES[index % len(HATCHES)]
    if index < len(COLOURS):
        return {"facecolor": colour, "edgecolor": "white", "linewidth": 0.3, "hatch": hatch}
    return {"facecolor": "white", "edgecolor": colour, "linewidth": 0.6, "hatch": hatch}


def fade(colour: str, share: np.ndarray) -> np.ndarray:
    """(…, 3) from white, at share 0, to the colour, at share 1."""
    from matplotlib.colors import to_rgb

    return 1 - share[..., None] * (1 - np.array(to_rgb(colour)))


def add_legend(figure: Figure, handles: list[Any], labels: list[str], title: str) -> None:
    """A legend below all panels, in as many columns as fit; the figure grows by the height of the legend."""
    room = int(CHARS_PER_INCH * figure.get_figwidth())
    labels = ["\n".join(wrap_lines(label, max(12, room - 10))) for label in labels]
    letters = max(map(len, labels)) + 6
    columns = max(1, min(len(labels), room // letters))
    n_rows = (title.count("\n") + 1) * bool(title) - (-len(labels) // columns) + sum(t.count("\n") for t in labels)
    figure.set_figheight(figure.get_figheight() + 0.2 * n_rows)
    figure.legend(handles, labels, loc="outside lower center", title=title, ncols=columns)


def axes_inches(axes: Axes, direction: Literal["x", "y"]) -> float:
    """Approximate width or height of a panel, before the layout is computed."""
    return (axes.bbox.width if direction == "x" else axes.bbox.height) / axes.figure.dpi


def align_title(axes: Axes) -> None:
    """End the title at the right edge of a panel: it extends over the names of levels at the left."""
    axes.title.set_horizontalalignment("right")
    axes.title.set_x(1.0)


def label_axis(axes: Axes, direction: Literal["x", "y"], text: str) -> None:
    """Label an axis, wrapped to its length."""
    room = max(12, int(1.3 * CHARS_PER_INCH * axes_inches(axes, direction)))  # the final layout is larger
    axes.set(**{f"{direction}label": "\n".join(wrap_lines(text, room))})
