"""Plot: figures of an AdditiveModel, drawn from its tables and nothing else. The only file that knows matplotlib.

In: an AdditiveModel, or an estimator that holds one as `model_`. Out: a matplotlib `Figure`, also written to a file
if a path is given. Figures are made without pyplot: no global state, no display.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .axis import Axis
from .model import AdditiveModel, Shape

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MAX_LEVELS = 12
MAX_CLASSES = 10
FEW_KNOTS = 30  # up to here a column is drawn as separate values, each with its own dot and bar
TAIL = 0.005  # share of the rows that a long tail may lose at each end of the x axis
DENSITY_HEIGHT = 0.2  # of the panel

# Okabe and Ito's colours without yellow, which is too weak for a line on white; further classes are dashed.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
GREY, LIGHT = "#666666", "#E3E3E3"
FORMATS = (".png", ".svg", ".pdf")


def shapes(
    model: Any, n: int = 6, path: str | os.PathLike | None = None, classes: Sequence[Any] | None = None
) -> Figure:
    """Draw the strongest main effects and pairs, one panel a term.

    A line (bars for levels) is the model's table, the band is ± one standard deviation over the members, grey bars
    at the bottom are the training weight, a diamond at the left edge is the missing value where there was one. All
    curves have one y scale. A long tail is cut where the central 99 % of the rows end, and the x axis says so. A pair
    is a heat map without its missing cells; with several classes, of the class for which it is strongest. Pairs have
    one scale of colours.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    n : number of terms, the most important first; triples are passed over
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    classes : labels of the classes to draw, at most 10; None draws the first 10. Three classes or more only

    Examples
    --------
    >>> import numpy as np
    >>> from neuralbasis import NeuralBasisRegressor, plot
    >>> X = np.linspace(0, 1, 200)[:, None]
    >>> model = NeuralBasisRegressor(feature_names=["time"], max_steps=20).fit(X, X[:, 0])
    >>> figure = plot.shapes(model)
    >>> np.array_equal(figure.axes[0].lines[-1].get_ydata(), model.term_scores_[0][1:-1])
    True
    """
    model = _additive_model(model)
    outputs = _choose_outputs(model, classes)
    strengths = model.importances()
    chosen = [index for index in _strongest(strengths) if len(model.terms[index]) <= 2][: _check_count(n)]
    figure, grid = _make_panels(len(chosen))
    panels = []
    for axes, index in zip(grid, chosen, strict=True):
        axes.set_title(_title(model.term_names[index], strengths[index]), fontsize=9)
        panels.append((axes, model.shapes[index]))
    _draw_curves(figure, model, [panel for panel in panels if len(panel[1].term) == 1], outputs)
    _draw_pairs(figure, model, [panel for panel in panels if len(panel[1].term) == 2], outputs)
    return _finish(figure, path)


def importances(model: Any, n: int = 20, path: str | os.PathLike | None = None) -> Figure:
    """Draw the importance of the strongest terms, the mean of |contribution| over the training rows, as bars.

    Parameters
    ----------
    model : AdditiveModel or fitted estimator
    n : number of terms
    path : where to write the figure, by its ending as PNG, SVG or PDF; None writes nothing
    """
    model = _additive_model(model)
    strengths = model.importances()
    chosen = _strongest(strengths)[: _check_count(n)]
    figure = _new_figure(6.0, 0.8 + 0.24 * len(chosen))
    axes = figure.subplots()
    bars = axes.barh(np.arange(len(chosen)), strengths[chosen], color=COLOURS[0], height=0.7)
    axes.bar_label(bars, labels=[_number(strengths[index]) for index in chosen], padding=3, fontsize=8, color=GREY)
    axes.set_yticks(np.arange(len(chosen)), [_plain(model.term_names[index], 45) for index in chosen])
    axes.set_ylim(len(chosen) - 0.4, -0.6)
    axes.margins(x=0.12)
    hidden = len(strengths) - len(chosen)
    note = f"\n{hidden} weaker term{'s' * (hidden > 1)} not shown" if hidden else ""
    axes.set_xlabel(f"mean |{_score_label(model)}|{note}", fontsize=9)
    _tidy(axes)
    return _finish(figure, path)


@dataclass(frozen=True, eq=False)
class _Ruler:
    """One axis as it is drawn.

    Parameters
    ----------
    cells : (P,) cells of the table that are drawn
    at : (P,) where: raw values of knots, or 0 … P - 1 for levels
    low, high : ends of the drawn range
    labels : names below the levels, None for a continuous column
    is_cut : whether knots of the tails lie outside the range
    """

    cells: np.ndarray
    at: np.ndarray
    low: float
    high: float
    labels: list[str] | None = None
    is_cut: bool = False

    @property
    def seen(self) -> np.ndarray:
        """The cells that lie in the drawn range."""
        return self.cells[(self.at >= self.low) & (self.at <= self.high)]


def _lay_ruler(axis: Axis, weights: np.ndarray) -> _Ruler:
    """`weights` (cells,): training weight along this axis."""
    inner = weights[1:-1]
    if axis.levels is None:
        low, high = _choose_range(axis.knots, inner)
        is_cut = bool(low > axis.knots[0] or high < axis.knots[-1])
        margin = 0.03 * (high - low) or 0.5
        return _Ruler(np.arange(len(inner)) + 1, axis.knots, low - margin, high + margin, is_cut=is_cut)
    kept = np.sort(np.argsort(-inner, kind="stable")[:MAX_LEVELS])  # the most frequent, in the axis's order
    labels = [_plain(axis.levels[index], 16) for index in kept]
    if len(inner) > MAX_LEVELS:
        labels.append(f"… {len(inner) - MAX_LEVELS} more")
    return _Ruler(kept + 1, np.arange(len(kept), dtype=float), -0.6, len(labels) - 0.4, labels)


def _choose_range(knots: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """All knots, or those between the outer quantiles where the tails would take a third of the axis or more.

    >>> knots = np.array([0.0, 1.0, 2.0, 900.0])
    >>> _choose_range(knots, np.array([30.0, 50.0, 30.0, 0.1]))
    (0.0, 2.0)
    >>> _choose_range(knots, np.array([30.0, 50.0, 30.0, 10.0]))
    (0.0, 900.0)
    """
    share = np.cumsum(weights) / max(weights.sum(), np.finfo(float).tiny)
    first, last = np.searchsorted(share, [TAIL, 1 - TAIL]).clip(max=len(knots) - 1)
    inner, whole = knots[last] - knots[first], knots[-1] - knots[0]
    if inner == 0 or inner > 2 / 3 * whole:
        first, last = 0, -1
    return float(knots[first]), float(knots[last])


def _make_panels(count: int) -> tuple[Figure, list[Axes]]:
    """A figure with `count` panels, at most three in a row."""
    n_columns = 2 if count == 4 else max(1, min(3, count))
    n_rows = -(-count // n_columns)
    figure = _new_figure(3.5 * n_columns + 0.4, 2.7 * n_rows + 0.4)
    return figure, [figure.add_subplot(n_rows, n_columns, place + 1) for place in range(count)]


def _draw_curves(
    figure: Figure, model: AdditiveModel, panels: list[tuple[Axes, Shape]], outputs: Sequence[int]
) -> None:
    """Main effects, all on one y scale."""
    if not panels:
        return
    rulers = [_lay_ruler(shape.axes[0], shape.weights) for _, shape in panels]
    limits = _choose_limits([(shape, ruler) for (_, shape), ruler in zip(panels, rulers, strict=True)], outputs)
    rows: set[int] = set()
    for (axes, shape), ruler in zip(panels, rulers, strict=True):
        axes.axhline(0.0, color=GREY, linewidth=0.6, linestyle=":")
        axes.set_ylim(limits)
        _draw_density(axes, ruler, shape.weights)
        handles = (_draw_line if ruler.labels is None else _draw_bars)(axes, shape, ruler, outputs)
        _draw_ruler(axes, ruler, "x")
        axes.set_xlabel(_cut_note(ruler), fontsize=7, color=GREY)
        _draw_missing(axes, shape, ruler, outputs)
        _tidy(axes)
        row = axes.get_subplotspec().rowspan.start  # type: ignore[union-attr]
        if row in rows:
            axes.tick_params(labelleft=False)
        else:
            axes.set_ylabel(_score_label(model), fontsize=8)
            rows.add(row)
    if model.n_outputs > 1 and model.classes is not None:
        _draw_legend(figure, model.classes, handles, outputs)


def _choose_limits(panels: Iterable[tuple[Shape, _Ruler]], outputs: Sequence[int]) -> tuple[float, float]:
    """Lowest and highest value that any panel shows, with its band and a margin; 0 is always inside."""
    low = high = 0.0
    for shape, ruler in panels:
        cells = np.r_[0, ruler.seen] if shape.weights[0] > 0 else ruler.seen
        mean, spread = (table[cells][:, outputs] for table in (shape.scores, shape.spread))
        low, high = min(low, (mean - spread).min()), max(high, (mean + spread).max())
    margin = 0.05 * (high - low) or 1.0
    return float(low - margin), float(high + margin)


def _draw_line(axes: Axes, shape: Shape, ruler: _Ruler, outputs: Sequence[int]) -> list[Any]:
    handles = []
    for order, output in enumerate(outputs):
        mean, spread = shape.scores[ruler.cells, output], shape.spread[ruler.cells, output]
        style = _style(order)
        axes.fill_between(ruler.at, mean - spread, mean + spread, color=style["color"], alpha=0.2, linewidth=0)
        marker = "." if len(ruler.at) <= FEW_KNOTS else None
        handles += axes.plot(ruler.at, mean, linewidth=1.4, marker=marker, markersize=5, **style)
    return handles


def _draw_bars(axes: Axes, shape: Shape, ruler: _Ruler, outputs: Sequence[int]) -> list[Any]:
    handles = []
    width = 0.7 / len(outputs)
    for order, output in enumerate(outputs):
        mean, spread = shape.scores[ruler.cells, output], shape.spread[ruler.cells, output]
        at = ruler.at + (order - (len(outputs) - 1) / 2) * width
        colour, dashed = _style(order)["color"], order >= len(COLOURS)
        error = {"elinewidth": 0.8, "ecolor": GREY}
        look = {"facecolor": "white", "hatch": "/////"} if dashed else {"facecolor": colour}
        handles.append(axes.bar(at, mean, width, yerr=spread, error_kw=error, edgecolor=colour, linewidth=0.4, **look))
    return handles


def _draw_density(axes: Axes, ruler: _Ruler, weights: np.ndarray) -> None:
    """Training weight as bars at the foot of the panel, the highest always of the same height."""
    at, weight = ruler.at, weights[ruler.cells]
    width = 0.9 if ruler.labels is not None else (ruler.high - ruler.low) / 40
    if ruler.labels is None and len(at) > FEW_KNOTS:
        # Each knot stands for the values up to half way to its neighbours: no gaps where knots are sparse.
        ends = max(at[0], ruler.low), min(at[-1], ruler.high)
        sides = np.linspace(*ends, 41)
        weight = np.diff(np.interp(sides, _sides(at).clip(at[0], at[-1]), np.r_[0.0, np.cumsum(weight)]))
        at, width = (sides[1:] + sides[:-1]) / 2, sides[1] - sides[0]
    height = DENSITY_HEIGHT * weight / max(weight.max(), np.finfo(float).tiny)
    axes.bar(at, height, width, color=LIGHT, linewidth=0, transform=axes.get_xaxis_transform(), zorder=0)


def _sides(at: np.ndarray) -> np.ndarray:
    """(P + 1,) borders half way between neighbours.

    >>> _sides(np.array([0.0, 2.0, 6.0])).tolist()
    [-1.0, 1.0, 4.0, 8.0]
    """
    gaps = np.diff(at) / 2 if len(at) > 1 else np.array([0.5])
    return np.r_[at[0] - gaps[0], at[:-1] + gaps[: len(at) - 1], at[-1] + gaps[-1]]


def _draw_missing(axes: Axes, shape: Shape, ruler: _Ruler, outputs: Sequence[int]) -> None:
    """The missing value in a strip of its own, left of the range, if any training row had it."""
    if not shape.weights[0] > 0:
        return
    width = 0.16 * (ruler.high - ruler.low)
    axes.axvline(ruler.low, color=GREY, linewidth=0.6)
    axes.set_xlim(ruler.low - width, ruler.high)
    for order, output in enumerate(outputs):
        mean, spread = shape.scores[0, output], shape.spread[0, output]
        colour = _style(order)["color"]
        look = {"color": colour, "marker": "D", "markersize": 3.5, "elinewidth": 1.2}
        look["markerfacecolor"] = "white" if order >= len(COLOURS) else colour
        axes.errorbar(ruler.low - 0.35 * width, mean, spread, **look)
    text = f"missing {100 * shape.weights[0] / shape.weights.sum():.3g}%"
    place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "rotation": 90, "ha": "center", "va": "top"}
    axes.text(ruler.low - 0.75 * width, 0.98, text, fontsize=7, color=GREY, **place)


def _draw_pairs(figure: Figure, model: AdditiveModel, panels: list[tuple[Axes, Shape]], outputs: Sequence[int]) -> None:
    """Pairs as heat maps, all on one scale of colours, white at 0."""
    if not panels:
        return
    maps = [_read_pair(shape, outputs) for _, shape in panels]
    limit = max(float(np.abs(table).max()) for *_, table in maps) or 1.0
    for (axes, shape), (output, rulers, table) in zip(panels, maps, strict=True):
        sides = [_sides(ruler.at) for ruler in rulers]
        mesh = axes.pcolormesh(*sides, table.T, cmap="RdBu_r", vmin=-limit, vmax=limit, rasterized=True)
        if model.n_outputs > 1 and model.classes is not None:
            axes.set_title(f"{axes.get_title()}\nscore of {_plain(model.classes[output], 30)}", fontsize=9)
        _draw_ruler(axes, rulers[0], "x")
        _draw_ruler(axes, rulers[1], "y")
        _label_pair(axes, shape, rulers)
    bar = figure.colorbar(mesh, ax=figure.axes, shrink=0.6, aspect=30)
    bar.set_label(f"{_score_label(model)} (pairs)", fontsize=8)
    _tidy(bar.ax)


def _label_pair(axes: Axes, shape: Shape, rulers: Sequence[_Ruler]) -> None:
    names = [_plain(axis.name, 30) for axis in shape.axes]
    notes = [f" ({_cut_note(ruler)})" if ruler.is_cut else "" for ruler in rulers]
    axes.set_xlabel(names[0] + notes[0], fontsize=8)
    axes.set_ylabel(names[1] + notes[1], fontsize=8)
    _tidy(axes)


def _read_pair(shape: Shape, outputs: Sequence[int]) -> tuple[int, list[_Ruler], np.ndarray]:
    """The class for which the pair is strongest, its two rulers, and the drawn part of its table."""
    mass = np.tensordot(shape.weights, np.abs(shape.scores[..., outputs]), 2)
    output = outputs[int(mass.argmax())]
    rulers = [_lay_ruler(axis, shape.weights.sum(axis=1 - d)) for d, axis in enumerate(shape.axes)]
    return output, rulers, shape.scores[..., output][np.ix_(rulers[0].cells, rulers[1].cells)]


def _cut_note(ruler: _Ruler) -> str:
    return f"central {1 - 2 * TAIL:.0%} of rows" if ruler.is_cut else ""


def _draw_ruler(axes: Axes, ruler: _Ruler, direction: Literal["x", "y"]) -> None:
    """Range and ticks in the direction "x" or "y"."""
    axes.set(**{f"{direction}lim": (ruler.low, ruler.high)})
    line = axes.xaxis if direction == "x" else axes.yaxis
    if ruler.labels is None and len(ruler.at) <= 2:  # yes and no as 0 and 1
        line.set_ticks(ruler.at)
    elif ruler.labels is None:
        axes.locator_params(axis=direction, nbins=6)
        axes.ticklabel_format(axis=direction, scilimits=(-3, 4))
        line.set_ticks([tick for tick in line.get_majorticklocs() if ruler.low <= tick <= ruler.high])
        line.get_offset_text().set_fontsize(8)  # "1e5" at the end of the axis
    else:
        line.set_ticks(np.arange(len(ruler.labels)), ruler.labels)
    if ruler.labels is not None and direction == "x" and sum(map(len, ruler.labels)) > 24:
        axes.tick_params(axis="x", labelrotation=45)
        for text in axes.get_xticklabels():
            text.set(ha="right", rotation_mode="anchor")


def _draw_legend(figure: Figure, classes: np.ndarray, handles: list[Any], outputs: Sequence[int]) -> None:
    title = "class" if len(outputs) == len(classes) else f"class ({len(outputs)} of {len(classes)})"
    labels = [_plain(classes[output], 20) for output in outputs]
    look = {"ncols": min(5, len(labels)), "frameon": False, "fontsize": 8, "title_fontsize": 8}
    figure.legend(handles, labels, loc="outside lower center", title=title, **look)


def _additive_model(model: Any) -> AdditiveModel:
    found = getattr(model, "model_", model)
    if not isinstance(found, AdditiveModel):
        raise TypeError(f"expected an AdditiveModel or a fitted estimator, not {type(model).__name__}; call fit first")
    return found


def _choose_outputs(model: AdditiveModel, classes: Sequence[Any] | None) -> list[int]:
    """Which of the K outputs are drawn."""
    if classes is None:
        return list(range(min(model.n_outputs, MAX_CLASSES)))
    if model.classes is None or model.n_outputs == 1:
        raise ValueError("classes needs a model of three classes or more; this one has a single score: leave it out")
    known = model.classes.tolist()
    unknown = [label for label in classes if label not in known]
    if unknown:
        raise ValueError(f"classes holds {unknown[0]!r}; the model's classes are {known[:20]}")
    if not 1 <= len(classes) <= MAX_CLASSES:
        raise ValueError(f"classes must name 1 to {MAX_CLASSES} classes, not {len(classes)}")
    return [known.index(label) for label in classes]


def _check_count(n: int) -> int:
    if n < 1:
        raise ValueError(f"n must be 1 or more, not {n!r}")
    return n


def _strongest(strengths: np.ndarray) -> list[int]:
    return np.argsort(-strengths, kind="stable").tolist()


def _score_label(model: AdditiveModel) -> str:
    if model.link != "logit":
        return "contribution to score"
    return "contribution to log odds" + (f" of {_plain(model.classes[1], 20)}" if model.classes is not None else "")


def _title(name: str, importance: float) -> str:
    """
    >>> _title("age", 0.12345)
    'age (importance 0.123)'
    """
    name = _plain(name, 48)
    return f"{name}{' ' if len(name) <= 28 else chr(10)}(importance {_number(importance)})"


def _number(value: float) -> str:
    """Three digits, or all those of a large number.

    >>> _number(5.0), _number(0.01234), _number(12345.6)
    ('5.00', '0.0123', '12,346')
    """
    return f"{value:,.0f}" if value >= 99.95 else f"{value:#.3g}"


def _plain(text: Any, max_length: int) -> str:
    """One line of at most `max_length` characters that matplotlib does not read as a formula."""
    line = " ".join(str(text).split())
    line = line if len(line) <= max_length else line[: max_length - 1].rstrip() + "…"
    return line.replace("$", r"\$")


def _style(order: int) -> dict[str, Any]:
    return {"color": COLOURS[order % len(COLOURS)], "linestyle": "-" if order < len(COLOURS) else "--"}


def _tidy(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)


def _new_figure(width: float, height: float) -> Figure:
    """An empty figure of its own, in inches."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError('plots need matplotlib: pip install "neuralbasis[plot]"') from error
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _finish(figure: Figure, path: str | os.PathLike | None) -> Figure:
    """Write the figure under a temporary name and move it into place: a file is whole or absent."""
    if path is None:
        return figure
    target = Path(path)
    if target.suffix.lower() not in FORMATS:
        raise ValueError(f"path must end in one of {', '.join(FORMATS)}; it is {str(target)!r}")
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {str(target)!r}: the folder {str(target.parent)!r} does not exist")
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        figure.savefig(part, format=target.suffix.lower()[1:], dpi=200)
        os.replace(part, target)
    finally:
        part.unlink(missing_ok=True)
    return figure
