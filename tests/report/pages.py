"""Models and pages for the tests of the report, and a parser of the page."""

import base64
import json
from functools import cache
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from neuralbasis import AdditiveModel, report
from neuralbasis.encoding import Axis, Encoder, continuous_axis, level_axis
from neuralbasis.model.shapes import Shape
from tests.browser import find_browser
from tests.models import build_model, draw_numbers, name_columns, tie_model

needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium: the page cannot be driven")


# A wide light window and a narrow dark one.
both_looks = pytest.mark.parametrize(
    "look", [{"width": 1280}, {"width": 400, "dark": True}], ids=["1280 light", "400 dark"]
)


SOURCES = Path(report.__file__).parent


TYPES = {"exact": "<f8", "steps": "<u2"}


CLOSE = 1e-9


HOSTILE = [
    "</script><script>window.broken = 1</script>",
    "\"><img src=x onerror='window.broken = 2'>",
    "<!--<script>",
    "${window.broken = 3} `$policy` \\u003c & &amp; '",
    "javascript:window.broken=4//\n\t\0\u2028\u2029",
    "‮right to left‬ 日本語 🧬 é \ud800",
    "<b>" * 3334,
]


class Blocks(HTMLParser):
    """The tags of a page in order, its policy, and the text of its scripts, style and title."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[str] = []
        self.texts: dict[str, str] = {}
        self.policy, self.inside = "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.tags.append(tag)
        self.inside = found.get("id", tag) if tag in ("script", "style", "title") else None
        if found.get("http-equiv") == "Content-Security-Policy":
            self.policy = found["content"]

    def handle_data(self, data):
        if self.inside is not None:
            self.texts[self.inside] = self.texts.get(self.inside, "") + data

    def handle_endtag(self, tag):
        self.inside = None


def write_page(folder, model, *arguments, **options):
    path = folder / "page.html"
    report.write(path, model, *arguments, **options)
    return path


def read_page(path):
    blocks = Blocks(path.read_text(encoding="utf-8"))
    arrays = {kind: np.frombuffer(base64.b64decode(blocks.texts[kind]), dtype) for kind, dtype in TYPES.items()}
    return blocks, json.loads(blocks.texts["data"]), arrays


def read_table(term, data, arrays, n_outputs):
    """A term's table from the page's arrays."""
    cells = [data["axes"][axis]["count"] + 2 for axis in term["axes"]]
    width = n_outputs if term["mix"] is None else term["mix"][0]
    table = arrays["exact"][term["scores"] :][: np.prod(cells) * width].reshape(*cells, width)
    if term["mix"] is None:
        return table
    count, start = term["mix"]
    return table @ arrays["exact"][start : start + count * n_outputs].reshape(count, n_outputs)


def make_model(kind, seed=0):
    rng = np.random.default_rng(seed)
    if kind in ("identity", "outputs"):
        return build_model(rng, n_outputs=1 if kind == "identity" else 2)
    if kind == "logit":
        return build_model(rng, link="logit", classes=np.array(["no", "yes"]))
    model = build_model(rng, n_outputs=3, link="mlogit", classes=np.array(["a", "b", "c"]))
    return tie_model(rng, model, range(0, len(model.shapes), 2)) if kind == "tied" else model


KINDS = ("identity", "outputs", "logit", "mlogit", "tied")


def rows_of(model, n_rows, seed=1):
    """Encoded rows with missing values, unseen levels and values out of range, and the same rows as a table."""
    numbers = draw_numbers(np.random.default_rng(seed), model.encoder.axes, n_rows)
    return numbers, name_columns(model.encoder.axes, numbers)


def hostile_model():
    """A curve, bars, a pair and a triple whose names and levels try to break out of the page."""
    names = [*HOSTILE[:3], HOSTILE[6]]
    axes = [continuous_axis(names[0], np.arange(9.0)), level_axis(names[1], "nominal", HOSTILE)]
    axes += [continuous_axis(name, np.arange(4.0)) for name in names[2:]]
    rng = np.random.default_rng(0)

    def shape(*term):
        own = tuple(axes[feature] for feature in term)
        cells = tuple(axis.n_cells for axis in own)
        return Shape(term, own, rng.normal(size=(*cells, 7)), np.ones((*cells, 7)), np.ones(cells))

    shapes = (shape(0), shape(1), shape(2), shape(0, 1), shape(1, 2, 3))
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(7), shapes, "mlogit", np.array(HOSTILE, dtype=object))


def hostile_rows(count=3):
    rows = [{axis.name: 1.5 for axis in hostile_model().encoder.axes} for _ in range(count)]
    for row, level in zip(rows, ["<i>never seen</i>", HOSTILE[0], None], strict=False):
        row[HOSTILE[1]] = level
    return rows


@cache
def wide_model(n_terms=2000, n_knots=193):
    rng = np.random.default_rng(0)
    places = np.linspace(0, 1, n_knots)
    axes = tuple(Axis(f"column {i}", "continuous", np.sort(rng.normal(size=n_knots)), places) for i in range(n_terms))
    shapes = []
    for i, axis in enumerate(axes):
        scores, cells = rng.normal(size=(axis.n_cells, 1)), axis.n_cells
        members = scores[:, None] + rng.normal(size=(cells, 8, 1))
        shapes.append(Shape((i,), (axis,), scores, rng.random((cells, 1)), rng.integers(0, 9, cells), members))
    return AdditiveModel(Encoder(axes), np.zeros(1), tuple(shapes), "identity")


def check_contributions(found, known):
    """Check the terms shown by name, and the sum of the others."""
    rest = sum(known.values()) - sum(known[name] for name in found if name in known)
    for name, value in found.items():
        assert value == pytest.approx(known.get(name, rest), abs=CLOSE)


def ladder(axis, feature):
    """A main effect with the scores 0, 1, 2, …"""
    cells = axis.n_cells
    return Shape((feature,), (axis,), np.arange(cells, dtype=float)[:, None], np.zeros((cells, 1)), np.ones(cells))
