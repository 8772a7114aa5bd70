"""Canvas: an empty figure in our style, its colours, its file, and texts that are safe to draw.

In: perhaps a path. Out: a matplotlib `Figure`, made without pyplot. Only files of this package know matplotlib, and
they import it when something is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
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

# Okabe and Ito's colours without yellow, which is too weak for a line on white. Dashes and hatches tell the same apart
# in grey.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
DASHES = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (8, 2)), (0, (3, 1, 1, 1, 1, 1)), (0, (2, 1)))
HATCHES = ("", "////", "....", "xxxx", "\\\\\\\\", "++++", "----")
LOWERS, RAISES = COLOURS[:2]
GREY = "#666666"
FORMATS = (".png", ".svg", ".pdf")
MIN_WIDTH = 2.0
LETTERS = 15  # that an inch holds, roughly
NARROW = 2.4  # inches of a panel below which letters are smaller
STYLE: dict[Any, Any] = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.limits": (-3, 4),
    "hatch.linewidth": 0.4,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # letters stay letters, as journals ask
    "savefig.dpi": 200,
}


@contextmanager
def open_canvas(path: str | os.PathLike[str] | None = None, panel: float = 3.0) -> Iterator[Figure]:
    """An empty figure to draw on; with a path it is written when the drawing is done: whole, or not at all.

    Parameters
    ----------
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    panel : width of a panel in inches, which decides the size of the letters
    """
    try:
        from matplotlib import rc_context

        from .figure import Picture
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "neuralbasis[plot]"') from error
    kind = "" if path is None else _read_format(path)
    size = 8.0 if panel >= NARROW else 7.0
    with rc_context({**STYLE, "font.size": size, "axes.titlesize": size + 1, "legend.title_fontsize": size}):
        figure = Picture(layout="constrained")
        yield figure
        if path is not None:
            with replace_when_done(path) as file:
                figure.savefig(file, format=kind)


def choose_width(width: float | None, default: float) -> float:
    if width is None:
        return default
    if not MIN_WIDTH <= width <= 100:
        raise ValueError(f"width must be {MIN_WIDTH:g} to 100 inches, not {width!r}")
    return float(width)


def _read_format(path: str | os.PathLike[str]) -> str:
    ending = Path(path).suffix.lower()
    if ending not in FORMATS:
        raise ValueError(f"path must end in one of {', '.join(FORMATS)}; it is {os.fspath(path)!r}")
    return ending[1:]


def plain(text: Any, max_length: int) -> str:
    """One line of at most `max_length` letters, all of them in the font, that matplotlib does not read as a formula.

    >>> print(plain("price in $", 20), plain("total of outstanding debts in thousands", 20))
    price in \\$ total of outs…usands
    """
    line = " ".join(str(text).split())
    if len(line) > max_length:
        tail = (max_length - 1) // 3  # the end of a long name often is what tells it from others
        line = f"{line[: max_length - 1 - tail]}…{line[-tail:]}"
    known = _find_letters()
    hollow = "□" if ord("□") in known else "?"
    return "".join(letter if ord(letter) in known else hollow for letter in line).replace("$", r"\$")


def wrap_name(name: str, inches: float, n_lines: int = 2) -> str:
    """A name in as many lines as it needs, at most `n_lines` of them."""
    room = max(8, int(0.85 * LETTERS * inches))  # letters of a title are a little larger
    return "\n".join(wrap_lines(plain(name, n_lines * room - 4), room)[:n_lines])


def wrap_lines(text: str, room: int) -> list[str]:
    """Lines of at most so many letters; a dollar sign stays beside the backslash that makes it plain.

    >>> wrap_lines("a" + 3 * r"\\$", 3)
    ['a\\\\$\\\\$', '\\\\$']
    """
    return [line.replace("$", r"\$") for line in wrap(text.replace(r"\$", "$"), room)]


def _find_letters() -> frozenset[int]:
    """Code points that the fonts of a figure have; matplotlib warns of every other."""
    from matplotlib.font_manager import FontProperties, findfont

    families = FontProperties().get_family()
    return frozenset().union(*(_read_font(findfont(FontProperties(family=[family]))) for family in families))


@cache
def _read_font(path: str) -> frozenset[int]:
    from matplotlib.font_manager import get_font

    return frozenset(get_font(path).get_charmap())


def number(value: float) -> str:
    """Three digits, or all those of a large number.

    >>> number(5.0), number(0.01234), number(12345.6)
    ('5.00', '0.0123', '12,346')
    """
    return f"{value:,.0f}" if abs(value) >= 99.95 else f"{value:#.3g}"


def signed(value: float) -> str:
    """
    >>> signed(0.25), signed(-1.0)
    ('+0.250', '−1.00')
    """
    return ("+" if value > 0 else "") + number(value).replace("-", "−")


def style(order: int) -> dict[str, Any]:
    """Colour and dashes of the line of the class, slice or model in this place."""
    return {"color": COLOURS[order % len(COLOURS)], "linestyle": DASHES[(order + order // len(COLOURS)) % len(DASHES)]}


def fill(order: int) -> dict[str, Any]:
    """The same for a bar: hatched in white, or in its colour on white after all colours are used up."""
    colour, hatch = COLOURS[order % len(COLOURS)], HATCHES[order % len(HATCHES)]
    if order < len(COLOURS):
        return {"facecolor": colour, "edgecolor": "white", "linewidth": 0.3, "hatch": hatch}
    return {"facecolor": "white", "edgecolor": colour, "linewidth": 0.6, "hatch": hatch}


def fade(colour: str, share: np.ndarray) -> np.ndarray:
    """(…, 3) from white, where the share is 0, to the colour, where it is 1."""
    from matplotlib.colors import to_rgb

    return 1 - share[..., None] * (1 - np.array(to_rgb(colour)))


def add_legend(figure: Figure, handles: list[Any], labels: list[str], title: str) -> None:
    """Below all panels, in as many columns as the width holds; the figure grows by its height."""
    letters = max(map(len, labels)) + 6
    columns = max(1, min(len(labels), int(LETTERS * figure.get_figwidth() / letters)))
    n_rows = bool(title) - (-len(labels) // columns)
    figure.set_figheight(figure.get_figheight() + 0.2 * n_rows)
    figure.legend(handles, labels, loc="outside lower center", title=title, ncols=columns)


def find_inches(axes: Axes, direction: Literal["x", "y"] = "x") -> float:
    """Width or height of a panel, roughly: the layout is not done yet."""
    return (axes.bbox.width if direction == "x" else axes.bbox.height) / axes.figure.dpi


def label_axis(axes: Axes, direction: Literal["x", "y"], text: str) -> None:
    """The label of an axis, in as many lines as it needs."""
    room = max(12, int(1.3 * LETTERS * find_inches(axes, direction)))  # the layout will give it more
    axes.set(**{f"{direction}label": "\n".join(wrap_lines(text, room))})
