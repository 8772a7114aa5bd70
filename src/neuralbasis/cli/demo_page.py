"""The page of the demonstration: true and found curves side by side, the comparison, the next commands.

In: a `Demonstration`. Out: one HTML file with SVG figures; it needs no script, no network and no matplotlib.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

import numpy as np

from ..model.additive_model import AdditiveModel
from ..model.shapes import AnyShape
from ..serialization.temporary_file import replace_when_done
from .demo import COMMANDS, EFFECTS, N_TEST, TITLE, Demonstration, Patients, pair_effect

PANELS = {  # column -> title and what the picture shows
    "age": ("Age in years", "Flat until 50, then a steady rise, and a jump at 85. A straight line has neither."),
    "temperature": ("Temperature in °C", "Both high and low are dangerous. A straight line through a valley is flat."),
    "oxygen": ("Oxygen saturation in %", "Nothing happens above 92; below, every point counts."),
    "urea": ("Urea in mmol/l", "Rises steeply at first, then slowly."),
    "systolic_pressure": ("Systolic pressure in mmHg", "Only low pressure is dangerous."),
    "arrival": ("Arrival", "Those who came by ambulance are more ill than the other columns say."),
    "asthma": ("Asthma", "A lower risk with asthma?"),
}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 380, 250, 44, 10, 12, 30  # of a figure and its margins
STRIP, MAX_BARS = 26, 60  # height of the histogram, and its bars
AGES = 35.0, 85.0  # of the curves that show the interaction


@dataclass(frozen=True, eq=False)
class Line:
    """One found curve with its standard error, and the true curve, at the same points."""

    found: np.ndarray
    truth: np.ndarray
    spread: np.ndarray | None = None
    colour: str = "a"
    label: str = ""


class Frame:
    """Data coordinates to pixels, and the axes."""

    def __init__(self, x: tuple[float, float], y: tuple[float, float]):
        self.x_range, self.y_range = x, y

    def x(self, value: float) -> float:
        low, high = self.x_range
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        low, high = self.y_range
        return HEIGHT - BOTTOM - STRIP - (HEIGHT - TOP - BOTTOM - STRIP) * (value - low) / (high - low)

    def path(self, x: Sequence[float] | np.ndarray, y: np.ndarray) -> str:
        return "M" + " L".join(f"{self.x(a):.1f},{self.y(b):.1f}" for a, b in zip(x, y, strict=True))

    def draw_axes(self, has_numbers: bool) -> list[str]:
        parts = []
        for tick in _ticks(*self.y_range):
            kind = "zero" if tick == 0 else "rule"
            parts.append(f'<path class="{kind}" d="M{LEFT},{self.y(tick):.1f} H{WIDTH - RIGHT}"/>')
            parts.append(f'<text x="{LEFT - 6}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{_write(tick)}</text>')
        for tick in _ticks(*self.x_range) if has_numbers else []:
            place = f'x="{self.x(tick):.1f}" y="{HEIGHT - BOTTOM + 18}"'
            parts.append(f'<text {place} text-anchor="middle">{_write(tick)}</text>')
        return parts


def write_page(path: Path, shown: Demonstration) -> None:
    """Write the page; `model.html`, the page of the model, lies beside it."""
    figures = "\n".join(_figure(shown, name) for name in PANELS if name != "asthma")
    template = Template(files(__package__).joinpath("demo.html").read_text(encoding="utf-8"))
    text = template.substitute(
        title=TITLE,
        figures=figures,
        asthma=_figure(shown, "asthma"),
        pair=draw_pair(shown),
        rows=_list_results(shown),
        n_train=f"{len(shown.train.y):,}",
        n_test=f"{N_TEST:,}",
        share=f"{np.mean(shown.train.y == 'yes'):.0%}",
        n_pairs=len(EFFECTS) * (len(EFFECTS) - 1) // 2,
        commands=html.escape(COMMANDS),
    )
    with replace_when_done(path) as file:
        file.write(text.encode())


def _figure(shown: Demonstration, name: str) -> str:
    title, sentence = PANELS[name]
    shape = shown.model.shapes[shown.model.term_names.index(name)]
    draw = draw_curve if shape.axes[0].levels is None else draw_levels
    picture, distance = draw(shape, shown.train, name)
    facts = f"On average {distance:.2f} from the truth."
    label = html.escape(f"{title}: true and found contribution to the log odds of dying")
    svg = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{picture}</svg>'
    return f"<figure><h3>{title}</h3>{svg}<figcaption>{sentence} <span>{facts}</span></figcaption></figure>"


def draw_curve(shape: AnyShape, train: Patients, name: str) -> tuple[str, float]:
    """A curve of numbers, and the mean distance of the found from the true curve over the training rows."""
    values = train.columns[name]
    values = values[~np.isnan(values)]
    low, high = np.quantile(values, [0.002, 0.998])
    knots = shape.axes[0].knots
    x = np.unique(np.concatenate([np.linspace(low, high, 160), knots[(knots >= low) & (knots <= high)]]))
    centre = EFFECTS[name](values).mean()
    found, spread = (np.interp(x, knots, table[1:-1, 0]) for table in (shape.scores, shape.spread))
    distance = np.abs(np.interp(values, knots, shape.scores[1:-1, 0]) - EFFECTS[name](values) + centre).mean()
    return draw_lines(x, [Line(found, EFFECTS[name](x) - centre, spread)], values), float(distance)


def draw_lines(x: np.ndarray, lines: Sequence[Line], values: np.ndarray) -> str:
    """Curves over a histogram of the values."""
    edges = [line.found + k * (0 if line.spread is None else line.spread) for line in lines for k in (-2, 2)]
    frame = Frame((x[0], x[-1]), _widen(np.concatenate([*edges, *(line.truth for line in lines)])))
    parts = [*_histogram(frame, values, x[0], x[-1]), *frame.draw_axes(True)]
    for place, line in enumerate(lines):
        if line.spread is not None:
            band = np.concatenate([line.found + 2 * line.spread, (line.found - 2 * line.spread)[::-1]])
            parts.append(f'<path class="band {line.colour}" d="{frame.path([*x, *x[::-1]], band)} Z"/>')
        parts.append(f'<path class="found {line.colour}" d="{frame.path(x, line.found)}"/>')
        colour = line.colour if line.label else ""
        parts.append(f'<path class="truth {colour}" d="{frame.path(x, line.truth)}"/>')
        if line.label:
            at = f'x="{(LEFT + WIDTH - RIGHT) / 2}" y="{TOP + 18 + 18 * place}"'
            parts.append(f'<text {at} class="label {line.colour}" text-anchor="middle">{line.label}</text>')
    return "".join(parts)


def draw_levels(shape: AnyShape, train: Patients, name: str) -> tuple[str, float]:
    """A point with its interval for each level, and the mean distance of the found from the true values."""
    levels, values = shape.axes[0].levels or (), train.columns[name]
    truth = EFFECTS[name](np.array(levels)) - EFFECTS[name](values).mean()
    found, spread = shape.scores[1:-1, 0], shape.spread[1:-1, 0]
    shares = np.array([np.mean(values == level) for level in levels])
    frame = Frame((-0.5, len(levels) - 0.5), _widen(np.concatenate([found - 2 * spread, found + 2 * spread, truth])))
    parts, base = frame.draw_axes(False), HEIGHT - BOTTOM
    for place, level in enumerate(levels):
        x, height = frame.x(place), (STRIP - 4) * shares[place] / shares.max()
        low, high = (frame.y(found[place] + k * spread[place]) for k in (-2, 2))
        parts.append(f'<rect class="count" x="{x - 20:.1f}" y="{base - height:.1f}" width="40" height="{height:.1f}"/>')
        parts.append(f'<path class="whisker a" d="M{x:.1f},{low:.1f} V{high:.1f}"/>')
        parts.append(f'<circle class="dot a" cx="{x:.1f}" cy="{frame.y(found[place]):.1f}" r="6"/>')
        parts.append(f'<path class="truth" d="M{x - 26:.1f},{frame.y(truth[place]):.1f} h52"/>')
        parts.append(f'<text x="{x:.1f}" y="{base + 18}" text-anchor="middle">{html.escape(level)}</text>')
    return "".join(parts), float(shares @ np.abs(found - truth))


def draw_pair(shown: Demonstration) -> str:
    """The total effect of temperature at two ages."""
    values = shown.train.columns["temperature"]
    low, high = np.quantile(values, [0.01, 0.99])
    x = np.linspace(low, high, 120)
    lines = []
    for age, colour in zip(AGES, "ba", strict=True):
        total = sum_terms(shown.model, x, age)
        truth = EFFECTS["temperature"](x) + pair_effect(age, x)
        centre = EFFECTS["temperature"](values).mean()
        lines.append(Line(total, truth - centre, None, colour, f"aged {age:.0f}"))
    label = "Temperature at two ages: true and found contribution to the log odds of dying"
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{draw_lines(x, lines, values)}</svg>'


def sum_terms(model: AdditiveModel, celsius: np.ndarray, age: float) -> np.ndarray:
    """Contributions of temperature and of its pair with age, at one age."""
    rows = {name: np.full(len(celsius), np.nan) for name in model.encoder.names}
    rows |= {"temperature": celsius, "age": np.full(len(celsius), age)}
    wanted = [t for t, name in enumerate(model.term_names) if name in ("temperature", "age & temperature")]
    return model.contributions(rows)[:, wanted].sum(axis=1)[:, 0]


def _histogram(frame: Frame, values: np.ndarray, low: float, high: float) -> list[str]:
    unit = np.diff(np.unique(values)).min()  # bars of equally many possible values, so none is high by rounding
    width = unit * np.ceil((high - low) / unit / MAX_BARS)
    counts, edges = np.histogram(values, np.arange(low - unit / 2, high + width, width))
    base, bars = HEIGHT - BOTTOM, []
    for count, left, right in zip(counts, edges, edges[1:], strict=False):
        height, x = (STRIP - 4) * count / counts.max(), frame.x(max(left, low))
        size = f'width="{frame.x(min(right, high)) - x:.1f}" height="{height:.1f}"'
        bars.append(f'<rect class="count" x="{x:.1f}" y="{base - height:.1f}" {size}/>')
    return bars


def _widen(values: np.ndarray) -> tuple[float, float]:
    low, high = float(values.min()), float(values.max())
    return low - 0.06 * (high - low), high + 0.06 * (high - low)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers, four to eight of them."""
    step = 10.0 ** np.floor(np.log10((high - low) / 4))
    step = next(step * k for k in (5, 2, 1) if (high - low) / (step * k) >= 4 or k == 1)
    return [float(round(k * step, 10)) for k in range(int(np.ceil(low / step)), int(np.floor(high / step)) + 1)]


def _write(number: float) -> str:
    return f"{number:g}".replace("-", "−")


def _list_results(shown: Demonstration) -> str:
    lines = []
    for r in shown.results:
        seconds = "–" if r.seconds is None else f"{r.seconds:.1f}"
        kind = ' class="own"' if r.name == "neuralbasis" else ""
        cells = f"<th>{r.name}<small>{r.note}</small></th><td>{r.log_loss:.4f}</td><td>{r.auroc:.4f}</td>"
        lines.append(f"<tr{kind}>{cells}<td>{seconds}</td></tr>")
    return "\n".join(lines)
