"""Texts of a figure that are cut at its edge or overlap."""

from itertools import combinations

from matplotlib.axes import Axes
from matplotlib.text import Text

TOLERANCE = 1.5  # pixels


def find_cut_texts(figure):
    """The texts that leave the figure, and the pairs of texts that overlap; slanted texts are left out of the pairs."""
    figure.canvas.draw()
    hidden = {text for axes in figure.findobj(Axes) for text in find_hidden_ticks(axes)}
    shown = [text for text in figure.findobj(Text) if text.get_text().strip() and text.get_visible()]
    boxes = [(text, text.get_window_extent()) for text in shown if text not in hidden]
    cut = [text.get_text() for text, box in boxes if not is_inside(box, figure.bbox)]
    straight = [(text.get_text(), box) for text, box in boxes if text.get_rotation() % 90 == 0]
    pairs = [(one, other) for (one, a), (other, b) in combinations(straight, 2) if overlap(a, b)]
    return cut, pairs


def find_hidden_ticks(axes):
    """The labels of ticks outside the range of an axis, which are not drawn."""
    for line in (axes.xaxis, axes.yaxis):
        low, high = sorted(line.get_view_interval())
        margin = 1e-6 * (high - low)
        for tick in (*line.get_major_ticks(), *line.get_minor_ticks()):
            if not axes.axison or not low - margin <= tick.get_loc() <= high + margin or not tick.label1.get_visible():
                yield tick.label1
            yield tick.label2


def is_inside(box, outer):
    return (
        box.x0 >= outer.x0 - TOLERANCE and box.x1 <= outer.x1 + TOLERANCE
        and box.y0 >= outer.y0 - TOLERANCE and box.y1 <= outer.y1 + TOLERANCE
    )  # fmt: skip


def overlap(a, b):
    return min(a.x1, b.x1) - max(a.x0, b.x0) > TOLERANCE and min(a.y1, b.y1) - max(a.y0, b.y0) > TOLERANCE
