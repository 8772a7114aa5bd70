"""report: the page holds the model, computes what `predict` does, and no name can break out of it."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import threading
import time
from functools import cache
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, report
from neuralbasis.encoding.axis import Axis, continuous_axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
from neuralbasis.report import page_model
from neuralbasis.report.page import SCRIPTS, write_block
from neuralbasis.report.tables import Pack
from tests.browser import find_browser
from tests.models import build_model, draw_numbers, name_columns, tie_model
from tests.sparse_tables import build_models, draw_table, rows_of_every_kind

needs_browser = pytest.mark.skipif(find_browser() is None, reason="no Chromium: the page cannot be driven")
SOURCES = Path(report.__file__).parent
TYPES = {kind: np.dtype(letters) for kind, letters in Pack.TYPES.items()}
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
    """Tags in order, and the texts of the elements that have an id or a name of their own."""

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
    """Numbers with missing values, unseen levels and values out of range, and the table that is read as these."""
    numbers = draw_numbers(np.random.default_rng(seed), model.encoder.axes, n_rows)
    return numbers, name_columns(model.encoder.axes, numbers)


def hostile_model():
    """Every name and level is hostile; a curve, bars, a pair and a triple."""
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


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(20, 80, 300), "city": rng.choice(["Bern", "Lima", "Oslo"], 300)})
    y = pd.Series(frame["age"] / 20 + (frame["city"] == "Oslo"), name="rent")
    return NeuralBasisRegressor(max_steps=15, outer_bags=2, n_jobs=1).fit(frame, y), frame, y


@pytest.mark.parametrize("kind", KINDS)
def test_page_holds_the_tables(kind, tmp_path):
    model = make_model(kind)
    _, data, arrays = read_page(write_page(tmp_path, model))
    assert data["intercept"] == model.intercept.tolist()
    assert data["link"] == model.link
    assert data["classes"] == (None if model.classes is None else model.classes.tolist())
    assert len(data["terms"]) == len(model.shapes)
    for term, shape in zip(data["terms"], model.shapes, strict=True):
        np.testing.assert_allclose(read_table(term, data, arrays, model.n_outputs), shape.scores, rtol=0, atol=1e-14)
        assert term["columns"] == list(shape.term)
        for axis, own in zip(term["axes"], shape.axes, strict=True):
            start, count = data["axes"][axis]["knots"], data["axes"][axis]["count"]
            np.testing.assert_array_equal(arrays["exact"][start : start + count], own.knots)


def test_page_holds_spread_weights_and_members(tmp_path):
    model = make_model("identity")
    _, data, arrays = read_page(write_page(tmp_path, model))

    def steps(start, low, step, shape):
        return (low + step * arrays["steps"][start : start + np.prod(shape)].astype(float)).reshape(shape)

    for term, shape in zip(data["terms"], model.shapes, strict=True):
        weights = steps(*term["weights"], shape.weights.shape) ** 2
        np.testing.assert_allclose(weights, shape.weights, rtol=1e-3)
        assert ((weights > 0) == (shape.weights > 0)).all()
        np.testing.assert_allclose(steps(*term["spread"], shape.spread.shape), shape.spread, atol=1e-4)
        if shape.members is None:
            assert term["members"] is None
            continue
        count, *packed = term["members"]
        found = steps(*packed, (count, *shape.scores.shape))
        np.testing.assert_allclose(np.moveaxis(found, 0, -2), shape.members, atol=1e-3)


def test_importances_are_those_of_the_records(tmp_path):
    model = make_model("mlogit")
    _, data, _ = read_page(write_page(tmp_path, model))
    for term, view in zip(data["terms"], explain_global(model).terms, strict=True):
        assert (term["name"], term["importance"]) == (view.name, view.importance)
        assert term["importances"] == view.importances.tolist()


def test_axes_are_written_once(tmp_path):
    model = make_model("identity")
    _, data, _ = read_page(write_page(tmp_path, model))
    assert len(data["axes"]) == sum(map(len, model.axes_by_feature()))


def test_summary_and_title(fitted, tmp_path):
    model, _, _ = fitted
    blocks, data, _ = read_page(write_page(tmp_path, model))
    assert blocks.texts["title"] == data["title"] == "What drives rent"
    assert data["summary"]["rows"] == 300
    assert data["summary"]["validation"] == model.model_.summary.validation
    blocks, data, _ = read_page(write_page(tmp_path, model, title="Rents & <more>"))
    assert blocks.texts["title"] == data["title"] == "Rents & <more>"
    assert read_page(write_page(tmp_path, make_model("identity")))[1]["summary"] is None


def test_rows_are_coded_as_the_rule_reads_them(tmp_path):
    model = make_model("logit")
    numbers, table = rows_of(model, 40)
    y = model.predict(table)
    _, data, _ = read_page(write_page(tmp_path, model, table, y, rows=range(40)))
    for row, expected, label in zip(data["rows"], numbers, y, strict=True):
        assert row["values"] == [None if np.isnan(value) else value for value in expected]
        unseen = [index for index, axis in enumerate(model.encoder.axes) if axis.is_level and expected[index] == -1]
        assert row["unseen"] == {str(index): "never seen" for index in unseen}
        assert row["actual"] == label


def test_first_rows_by_default_and_any_table(fitted, tmp_path):
    model, frame, y = fitted
    tables = (frame, frame.to_dict("list"), frame.to_dict("records"), frame.to_numpy(dtype=object))
    found = [read_page(write_page(tmp_path, model, table, y))[1]["rows"] for table in tables]
    assert [row["index"] for row in found[0]] == list(range(8))
    assert found[1:] == found[:1] * 3
    last = read_page(write_page(tmp_path, model, frame, rows=[-1]))[1]["rows"]
    assert [(row["index"], row["actual"]) for row in last] == [(299, None)]


def test_figures_of_a_regression(fitted, tmp_path):
    model, frame, y = fitted
    check = read_page(write_page(tmp_path, model, frame, y))[1]["accuracy"]
    error = y - model.predict(frame)
    expected = {
        "R²": 1 - (error**2).mean() / y.var(ddof=0),
        "RMSE": (error**2).mean() ** 0.5,
        "mean error": abs(error).mean(),
    }
    assert dict(check["measures"]) == pytest.approx(expected)
    (bins,) = check["bins"]
    said, came, _, rows = np.transpose(bins)
    assert rows.sum() == check["n"] == 300
    assert (said * rows).sum() == pytest.approx(model.predict(frame).sum())
    assert (came * rows).sum() == pytest.approx(y.sum())
    assert (np.diff(said) > 0).all()
    assert len(check["points"]) == 300
    assert np.mean(check["points"], axis=0)[1] == pytest.approx(error.mean())


@pytest.mark.parametrize("kind", ["logit", "mlogit"])
def test_figures_of_classes(kind, tmp_path):
    model = make_model(kind)
    _, table = rows_of(model, 200)
    probability = model.predict_proba(table)
    codes = np.random.default_rng(0).integers(0, len(model.classes), 200)
    check = read_page(write_page(tmp_path, model, table, model.classes[codes]))[1]["accuracy"]
    measures = dict(check["measures"])
    assert measures["accuracy"] == pytest.approx((probability.argmax(axis=1) == codes).mean())
    assert measures["log loss"] == pytest.approx(
        -np.log(probability[np.arange(200), codes].clip(1e-15)).mean(), rel=1e-6
    )
    assert 0 < measures["AUROC"] < 1
    assert len(check["bins"]) == len(check["bars"]) == model.n_outputs
    for k, (inside, outside) in zip([1] if kind == "logit" else range(3), check["bars"], strict=True):
        assert (sum(inside), sum(outside)) == ((codes == k).sum(), (codes != k).sum())


def test_one_class_alone_has_no_auroc(tmp_path):
    model = make_model("logit")
    _, table = rows_of(model, 20)
    check = read_page(write_page(tmp_path, model, table, ["yes"] * 20))[1]["accuracy"]
    assert [name for name, _ in check["measures"]] == ["accuracy", "log loss"]


def test_wrong_arguments_are_refused(tmp_path):
    model = make_model("logit")
    _, table = rows_of(model, 5)
    with pytest.raises(TypeError, match="not NeuralBasisClassifier; call fit first"):
        write_page(tmp_path, NeuralBasisClassifier())
    with pytest.raises(ValueError, match="y needs the rows themselves: pass X"):
        write_page(tmp_path, model, y=["no"])
    with pytest.raises(ValueError, match="rows needs the rows themselves: pass X"):
        write_page(tmp_path, model, rows=[0])
    with pytest.raises(ValueError, match="between 0 and 4, the last row of X; got 5"):
        write_page(tmp_path, model, table, rows=[5])
    with pytest.raises(ValueError, match="y contains 'maybe', which is not a class of the model"):
        write_page(tmp_path, model, table, ["no"] * 4 + ["maybe"])
    with pytest.raises(ValueError, match=r"one value for each of the 5 rows of X; got shape \(4,\)"):
        write_page(tmp_path, model, table, ["no"] * 4)
    with pytest.raises(ValueError, match="missing or infinite"):
        write_page(tmp_path, make_model("identity"), table, [1.0, np.nan, 1.0, 1.0, 1.0])
    assert os.listdir(tmp_path) == []


def test_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = write_page(tmp_path, make_model("identity"), title="first")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="rows needs"):
        write_page(tmp_path, make_model("identity"), rows=[0])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


def test_policy_allows_exactly_this_script_and_style(tmp_path):
    blocks, _, _ = read_page(write_page(tmp_path, make_model("identity")))
    for kind, name in (("script-src", "script"), ("style-src", "style")):
        digest = base64.b64encode(hashlib.sha256(blocks.texts[name].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in blocks.policy
    assert blocks.policy.startswith("default-src 'none';")
    assert "unsafe" not in blocks.policy


def test_page_asks_for_nothing_and_sets_no_markup():
    for name in (*SCRIPTS, "page.css", "page.html"):
        text = (SOURCES / name).read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in (
            "http:",
            "https:",
            "@import",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
        ):
            assert word not in text, f"{name} holds {word}"
        assert name == "page.html" or "</s" not in text


def test_hostile_names_add_no_markup(tmp_path):
    plain, _, _ = read_page(write_page(tmp_path, make_model("identity")))
    blocks, data, _ = read_page(write_page(tmp_path, hostile_model(), hostile_rows(), title=HOSTILE[0]))
    assert blocks.tags == plain.tags
    assert data["title"] == blocks.texts["title"] == HOSTILE[0]
    assert data["classes"] == data["columns"][1]["levels"] == HOSTILE
    assert data["rows"][0]["unseen"] == {"1": "<i>never seen</i>"}


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
@settings(max_examples=200, deadline=None)
def test_block_is_plain_and_reads_back(value):
    block = write_block(value)
    assert block.isascii()
    assert not re.search("[<>&]", block)
    assert json.loads(block) == value


def test_file_of_a_usual_and_of_a_wide_model_is_small(tmp_path):
    size = write_page(tmp_path, wide_model()).stat().st_size
    assert size <= 15e6
    assert write_page(tmp_path, build_model(np.random.default_rng(0))).stat().st_size <= 1e6


def test_members_of_a_wide_model_are_those_of_the_strongest_terms(tmp_path):
    _, data, _ = read_page(write_page(tmp_path, wide_model()))
    kept = [term["importance"] for term in data["terms"] if term["members"]]
    dropped = [term["importance"] for term in data["terms"] if not term["members"]]
    assert 100 < len(kept) < 1000
    assert min(kept) >= max(dropped)


PROBE = """
import sys
import numpy as np
from neuralbasis import report
from neuralbasis.encoding.axis import continuous_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
report.write(sys.argv[1], AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"), [[1.0], [2.0]])
assert not {"matplotlib", "torch", "sklearn", "pandas"} & set(sys.modules)
"""


def test_writing_needs_neither_torch_nor_matplotlib(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PROBE, tmp_path / "a.html"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


@pytest.fixture
def open_page(browser, tmp_path):
    """Write a page and open it; at the end its console must be empty and it must have asked for nothing else."""
    pages = []

    def open_it(model, *arguments, width=1280, dark=False, **options):
        path = write_page(tmp_path, model, *arguments, **options)
        pages.append(browser.open(path, width=width, dark=dark))
        pages[-1].settle()
        return pages[-1]

    yield open_it
    for page in pages:
        page.close()
        assert page.errors == []
        assert [address.split(":")[0] for address in page.requests] == ["file"]


SET_ROWS = """(rows) => {
  const fire = (node, event) => node.dispatchEvent(new Event(event, { bubbles: true }));
  const read = (selector) => [...document.querySelectorAll(selector)].map((node) => Number(node.value));
  return rows.map((row) => {
    row.forEach((value, c) => {
      const field = document.querySelector(`[data-column="${c}"]`), missing = field.querySelector("[type=checkbox]");
      if (missing.checked !== (value === null)) { missing.checked = value === null; fire(missing, "change"); }
      if (value === null) return;
      const input = field.querySelector("[type=number], select");
      input.value = value;
      fire(input, input.type === "number" ? "input" : "change");
    });
    const names = [...document.querySelectorAll("#contributions .name")].map((node) => node.textContent);
    const parts = read("#contributions data"), answer = document.querySelector("#verdict .answer").textContent;
    return { answer, score: read("#sum data")[0], probabilities: read("#probabilities data"),
      contributions: Object.fromEntries(names.map((name, i) => [name, parts[i]])) };
  });
}"""


def plain_rows(numbers):
    return [[None if np.isnan(value) else value for value in row] for row in numbers]


def check_contributions(found, known):
    """Those shown by name, and the sum of the others."""
    rest = sum(known.values()) - sum(known[name] for name in found if name in known)
    for name, value in found.items():
        assert value == pytest.approx(known.get(name, rest), abs=CLOSE)


@needs_browser
@pytest.mark.parametrize("kind", KINDS)
def test_what_if_is_predict(kind, open_page):
    model = make_model(kind)
    numbers, table = rows_of(model, 200)
    page = open_page(model)
    contributions, scores = model.contributions(table), model.scores(table)
    for output in range(model.n_outputs):
        page.set("#output", output)
        found = page.run(SET_ROWS, plain_rows(numbers))
        np.testing.assert_allclose([row["score"] for row in found], scores[:, output], rtol=0, atol=CLOSE)
        for row, expected in zip(found, contributions[:, :, output], strict=True):
            check_contributions(row["contributions"], dict(zip(model.term_names, expected, strict=True)))
    if model.classes is not None:
        probabilities = [row["probabilities"] for row in found]
        np.testing.assert_allclose(probabilities, model.predict_proba(table), rtol=0, atol=CLOSE)
        assert [row["answer"] for row in found] == model.predict(table).tolist()


@needs_browser
def test_what_if_of_a_fitted_model_is_predict(fitted, open_page):
    model, frame, y = fitted
    axes = model.model_.encoder.axes
    numbers = draw_numbers(np.random.default_rng(0), axes, 300)
    found = open_page(model, frame, y).run(SET_ROWS, plain_rows(numbers))
    expected = model.predict(pd.DataFrame(name_columns(axes, numbers)))
    np.testing.assert_allclose([row["score"] for row in found], expected, rtol=0, atol=CLOSE)


def ladder(axis, feature):
    """A main effect whose cells hold 0, 1, 2, …"""
    cells = axis.n_cells
    return Shape((feature,), (axis,), np.arange(cells, dtype=float)[:, None], np.zeros((cells, 1)), np.ones(cells))


@needs_browser
def test_huge_and_tiny_knots(open_page):
    knots = {"huge": [-1e308, 1.0, 1e308], "tiny": [0.0, 5e-324, 1.0], "one": [3.0]}
    axes = [continuous_axis(name, np.array(values)) for name, values in knots.items()]
    shapes = tuple(ladder(axis, feature) for feature, axis in enumerate(axes))
    model = AdditiveModel(Encoder(tuple(axes)), np.zeros(1), shapes, "identity")
    rows = [[9e307, 0.5, 2.0], [-1.7e308, 5e-324, 3.0], [0.5, 0.0, 4.0], [-5e307, 1e-320, 3.0]]
    page = open_page(model)
    found = page.run(SET_ROWS, rows)
    np.testing.assert_allclose([row["score"] for row in found], model.predict(np.array(rows)), rtol=0, atol=CLOSE)
    page.show("#terms")
    assert page.count("#gallery .curve") == 3


@needs_browser
def test_slider_moves_prediction_and_number(open_page):
    model = make_model("identity")
    page = open_page(model)
    page.run(SET_ROWS, [[0.0, 1, 0.0, 1, 0.0]])
    low, high = model.encoder.axes[0].knots[[0, -1]]
    for share in (0.1, 0.5, 0.93):
        requested = low + share * (high - low)
        page.set('[data-column="0"] [type=range]', requested, "input")
        (value,) = page.figures('[data-column="0"] [type=number]')
        assert value == pytest.approx(requested, rel=1e-4)
        row = name_columns(model.encoder.axes, np.array([[value, 1.0, 0.0, 1.0, 0.0]]))
        assert page.figures("#sum data") == pytest.approx(model.scores(row)[0], abs=CLOSE)


@needs_browser
def test_slider_answers_the_keyboard(open_page):
    model = make_model("identity")
    page = open_page(model)
    before = page.figures("#sum data")
    page.run("document.querySelector('[data-column=\"0\"] [type=range]').focus()")
    page.press("End")
    page.settle()
    assert page.figures('[data-column="0"] [type=number]') == [pytest.approx(model.encoder.axes[0].knots[-1], rel=1e-4)]
    assert page.figures("#sum data") != before


@needs_browser
def test_search_and_sort(open_page):
    model = make_model("identity")
    page = open_page(model)
    view = explain_global(model)
    expected = [view.names[index] for index in view.order]
    cards = "[...document.querySelectorAll('#gallery article:not([hidden])')].map((card) => card.ariaLabel)"
    assert page.read("#list li:not([hidden])") == page.run(cards) == expected
    page.set("#sort", "name")
    assert page.read("#list li:not([hidden])") == page.run(cards) == sorted(expected)
    page.run("document.getElementById('search').focus()")
    page.write("X3")
    assert page.read("#list li:not([hidden])") == page.run(cards) == sorted(name for name in expected if "x3" in name)
    assert page.read("#count") == ["11 of 25 terms"]


@needs_browser
def test_class_changes_importances_and_rows(open_page):
    model = make_model("mlogit")
    _, table = rows_of(model, 4)
    page = open_page(model, table)
    local = explain_local(model, table)
    for output in (2, 1):
        page.set("#output", output)
        strongest = sorted((view.importances[output] for view in explain_global(model).terms), reverse=True)
        np.testing.assert_allclose(page.figures("#drivers data"), strongest[:8], rtol=1e-12)
        page.set("#row", 3)
        values = page.figures("#waterfall data")
        assert values[-1] == pytest.approx(sum(values[:-1]), abs=CLOSE)
        assert values[-1] == pytest.approx(local.scores[3, output], abs=CLOSE)
        known = dict(zip(local.names, local.contributions[3, :, output], strict=True))
        check_contributions(dict(zip(page.read("#waterfall .name")[1:-1], values[1:-1], strict=True)), known)


@needs_browser
def test_the_page_of_a_wide_model_knows_what_it_does_not_show(open_page, monkeypatch):
    monkeypatch.setattr(page_model, "MAX_TERMS", 3)
    monkeypatch.setattr(page_model, "MAX_ROW_TERMS", 1)
    model, rows = build_models(draw_table(0))[0], rows_of_every_kind()[2:6]
    page = open_page(model, rows)
    shown = page.count("#terms .card")
    assert 3 <= shown < len(model.shapes)
    assert f"{len(model.shapes)} numbers, one for each term." in page.read("#lead")[0]
    assert f"This page has charts of {shown} terms: the strongest, and those that matter" in page.read("#lead")[0]
    for output in range(3):
        page.set("#output", output)
        page.set("#row", 2)
        values = page.figures("#waterfall data")
        assert page.read("#waterfall .name")[0] == "row without values"
        assert values[-1] == pytest.approx(sum(values[:-1]), abs=1e-6)
        assert values[-1] == pytest.approx(model.scores(rows)[2, output], abs=1e-6)
        page.click("#take")
        assert page.figures("#sum data") == pytest.approx([model.scores(rows)[2, output]], abs=1e-6)
    page.set("#start", -1)  # a typical row has no values
    assert page.figures("#sum data") == pytest.approx([model.intercept[2]])


@needs_browser
def test_a_row_goes_to_the_what_if_panel(open_page):
    model = make_model("logit")
    _, table = rows_of(model, 6)
    page = open_page(model, table, model.predict(table), rows=[5, 2])
    page.click("#next")
    page.click("#take")
    assert page.figures("#sum data") == pytest.approx(model.scores(table)[2], abs=CLOSE)
    assert page.read("#row-verdict .actual") == [model.predict(table)[2]]


@needs_browser
def test_pictures_are_read_with_the_arrow_keys(open_page):
    model = make_model("identity")
    page = open_page(model)
    for index, shape in enumerate(model.shapes[:15]):  # main effects and pairs
        page.show(f"#term-{index}")
        page.run(f"document.querySelector('#term-{index} .chart').focus()")
        page.press("Home")
        if len(shape.term) == 2:
            for _ in range(20):
                page.press("ArrowDown")
        (found,) = page.figures(f"#term-{index} .readout data")
        assert found == pytest.approx(shape.scores.flat[0], abs=CLOSE)  # missing, where a row stands
        text = page.run(f"document.querySelector('#term-{index} .chart').getAttribute('aria-valuetext')")
        assert page.read(f"#term-{index} .readout") == [text]


@needs_browser
def test_slices_of_a_triple_follow_their_slider(open_page):
    model = make_model("identity")
    index = len(model.shapes) - 1
    shape = model.shapes[index]
    page = open_page(model)
    page.show(f"#term-{index}")
    reach = len(shape.axes[2].knots)
    page.set(f"#term-{index} .slice input", reach + 1, "input")  # the last
    page.run(f"document.querySelector('#term-{index} .chart').focus()")
    page.press("Home")
    (found,) = page.figures(f"#term-{index} .readout data")
    assert np.isclose(shape.scores[:, :, -2:, 0], found, rtol=0, atol=CLOSE).any()


@needs_browser
def test_pointing_reads_the_curve_between_knots(open_page):
    axis = continuous_axis("age", np.array([0.0, 10.0, 30.0]))
    scores = np.array([0.0, -1.0, 2.0, 1.0, 0.0])[:, None]
    shape = Shape((0,), (axis,), scores, np.full((5, 1), 0.25), np.array([0.0, 5, 5, 5, 0]))
    page = open_page(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"))
    page.show("#term-0")
    box = page.run("document.querySelector('.chart').getBoundingClientRect().toJSON()")
    for share in (0.3, 0.5, 0.8):
        page.point(box["left"] + share * box["width"], box["top"] + box["height"] / 2)
        (text,), (score,) = page.read(".readout"), page.figures(".readout data")
        age = float(re.search(r"age ([\d.]+)", text)[1])
        assert score == pytest.approx(np.interp(age, [0, 10, 30], [-1, 2, 1]), abs=2e-3)
        assert "± 0.25 · 5 training rows nearby" in text


@needs_browser
def test_curves_are_drawn_where_the_table_says(open_page):
    model = make_model("identity")
    page = open_page(model)
    page.show("#term-0")
    path = page.run("document.querySelector('#term-0 .curve').getAttribute('d')")
    heights = np.array([[float(number) for number in point.split()] for point in path[1:].split("L")])[1:-1, 1]
    scores = model.shapes[0].scores[1:-1, 0]
    slope, start = np.polyfit(scores, heights, 1)
    np.testing.assert_allclose(heights, start + slope * scores, atol=0.02)
    assert slope < 0
    assert page.count("#term-0 .member") == 3


@needs_browser
def test_pictures_have_one_scale_or_their_own(open_page):
    axes = (continuous_axis("small", np.arange(5.0)), continuous_axis("large", np.arange(50.0)))
    shapes = tuple(ladder(axis, feature) for feature, axis in enumerate(axes))
    page = open_page(AdditiveModel(Encoder(axes), np.zeros(1), shapes, "identity"))
    page.show("#terms")
    small, large = (f"#term-{index} .tick.end" for index in (0, 1))
    assert page.read(small) == page.read(large) == ["0", "20", "40"]
    page.click("#same")
    assert page.read(small) == ["0", "2", "4"]
    assert page.read(large) == ["0", "20", "40"]


@needs_browser
def test_a_model_without_terms_opens(open_page):
    page = open_page(AdditiveModel(Encoder((continuous_axis("age", np.arange(5.0)),)), np.array([2.5]), (), "identity"))
    assert page.figures("#sum data") == [2.5]
    assert page.read("#count") == ["0 terms"]


@needs_browser
def test_many_levels_are_shown_on_request(open_page):
    axis = level_axis("town", "nominal", [f"town {i}" for i in range(40)])
    page = open_page(AdditiveModel(Encoder((axis,)), np.zeros(1), (ladder(axis, 0),), "identity"))
    page.show("#term-0")
    assert page.count("#term-0 svg .whisker") == 14  # with the missing and the unseen
    page.click("#term-0 button")
    assert page.count("#term-0 svg .whisker") == 42
    page.click("#term-0 button")
    assert page.count("#term-0 svg .whisker") == 14


@needs_browser
def test_hostile_names_do_nothing(open_page):
    page = open_page(hostile_model(), hostile_rows(), np.array(HOSTILE[:3], dtype=object), title=HOSTILE[0], width=390)
    for index in range(5):
        page.show(f"#term-{index}")
        assert page.count(f"#term-{index} svg") == 1
    assert page.run("typeof window.broken") == "undefined"
    assert page.run("document.title") == HOSTILE[0]
    assert page.read("#term-0 h3") == page.read("h1") == HOSTILE[:1]
    assert (page.count("img, b b, i i"), page.count("script")) == (0, 4)
    assert page.run("document.documentElement.scrollWidth <= innerWidth")


@needs_browser
def test_policy_stops_what_is_not_the_page_s(open_page):
    page = open_page(make_model("identity"))
    page.run("document.body.append(Object.assign(document.createElement('script'), { text: 'window.broken = 1' }))")
    assert page.run("typeof window.broken") == "undefined"
    page.settle()
    assert [error for error in page.errors if "Content Security Policy" in error]
    page.errors.clear()


@needs_browser
@pytest.mark.parametrize("width", [390, 820, 1280])
def test_no_width_scrolls_sideways(width, open_page):
    model = make_model("mlogit")
    _, table = rows_of(model, 60)
    page = open_page(model, table, model.predict(table), width=width)
    for section in ("overview", "terms", "check", "rows", "whatif"):
        page.show(f"#{section}")
        outside = page.run(
            "[...document.querySelectorAll('body *')].filter((node) => !node.closest('svg, nav') &&"
            " node.getBoundingClientRect().right > innerWidth + 1).map((node) => node.outerHTML.slice(0, 80))"
        )
        assert outside == []
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), section


SCROLL_AND_SUM_SHIFTS = """(async () => {
  let total = 0;
  new PerformanceObserver((list) => { for (const entry of list.getEntries()) total += entry.value; })
    .observe({ type: "layout-shift", buffered: true });
  for (let y = 0; y < document.documentElement.scrollHeight; y += 500) {
    scrollTo(0, y);
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
  return total;
})()"""


@needs_browser
def test_nothing_jumps(open_page):
    model = make_model("identity")
    _, table = rows_of(model, 60)
    page = open_page(model, table, model.predict(table))
    assert page.run(SCROLL_AND_SUM_SHIFTS) < 0.02


class SlowPage(BaseHTTPRequestHandler):
    """A page that comes in two parts, with a second between: all markup, then the data and the script."""

    text = b""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        middle = self.text.index(b'<script type="application/json"')
        self.wfile.write(self.text[:middle])
        self.wfile.flush()
        time.sleep(1.0)
        self.wfile.write(self.text[middle:])

    def log_message(self, *_):
        """Nothing on the test's own screen."""


@needs_browser
def test_nothing_jumps_where_the_page_comes_slowly(browser, tmp_path):
    model = make_model("identity")
    _, table = rows_of(model, 60)
    path = write_page(tmp_path, model, table, model.predict(table))
    slow = type("ThisPage", (SlowPage,), {"text": path.read_bytes()})
    with ThreadingHTTPServer(("127.0.0.1", 0), slow) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page = browser.open(path)
        page.load(f"http://127.0.0.1:{server.server_port}/")
        page.settle()
        assert page.run(SCROLL_AND_SUM_SHIFTS) < 0.02
        assert page.run("getComputedStyle(document.getElementById('overview')).visibility") == "visible"
        page.close()
        server.shutdown()


@needs_browser
def test_dark_by_wish_of_the_system_and_by_the_switch(open_page):
    model = make_model("identity")
    shade = "Number(getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0])"
    dark = open_page(model, dark=True)
    assert dark.run(shade) < 40
    assert dark.run("document.getElementById('theme').getAttribute('aria-pressed')") == "true"
    light = open_page(model)
    assert light.run(shade) > 220
    light.click("#theme")
    assert light.run(shade) < 40
    light.click("#theme")
    assert light.run(shade) > 220


@needs_browser
def test_every_control_has_a_name_and_can_be_reached(open_page):
    model = make_model("mlogit")
    _, table = rows_of(model, 30)
    page = open_page(model, table, model.predict(table))
    reached = []
    for _ in range(10):
        page.press("Tab")
        reached.append(page.run("document.activeElement.id || document.activeElement.textContent"))
    assert reached[0] == "Skip to the content"
    assert {"search", "theme", "output"} <= set(reached)
    page.show("#terms")
    nameless = page.run(
        "[...document.querySelectorAll('input, select, button, [tabindex=\"0\"]')].filter((node) => !node.hidden &&"
        " !(node.ariaLabel || node.labels?.length || node.textContent.trim())).map((node) => node.outerHTML)"
    )
    assert nameless == []


@needs_browser
def test_a_wide_model_draws_only_what_is_near(open_page):
    page = open_page(wide_model())
    assert page.count("#gallery article") == 2000
    assert 2 <= page.count("#gallery svg") < 40
    page.click("#list li:last-child a")
    assert page.count("#gallery article:last-child svg") == 1
    assert page.count("#gallery svg") < 120
    assert page.count(".field") == 30
    page.click("#all-fields")
    assert page.count(".field") == 2000
