"""The page in Chromium: charts, controls, layout, colours and the content security policy."""

import re
import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.model.shapes import Shape
from neuralbasis.report import page_model
from tests.report.pages import (
    CLOSE,
    HOSTILE,
    check_contributions,
    hostile_model,
    hostile_rows,
    ladder,
    make_model,
    needs_browser,
    rows_of,
    write_page,
)
from tests.sparse_tables import build_models, draw_table, rows_of_every_kind


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
def test_a_row_is_explained_for_its_predicted_class(open_page):
    model = make_model("mlogit")
    _, table = rows_of(model, 6)
    page = open_page(model, table, rows=range(6))
    scores = model.scores(table)
    assert len(set(scores.argmax(axis=1))) > 1
    for row, own in enumerate(scores):
        page.set("#row", row)
        assert page.figures("#waterfall data")[-1] == pytest.approx(own.max(), abs=CLOSE)
        assert page.read("#row-score") == [f"score of {model.classes[own.argmax()]}"]
    page.set("#row-class", 1)
    assert page.figures("#waterfall data")[-1] == pytest.approx(scores[5, 1], abs=CLOSE)
    page.set("#row-class", "")
    assert page.figures("#waterfall data")[-1] == pytest.approx(scores[5].max(), abs=CLOSE)


@needs_browser
def test_numbers_beside_bars_and_names_of_levels_are_not_cut(open_page):
    axes = (
        level_axis("W" * 60, "nominal", ["MWMWMWMW", "WWWWWWWWWWWW" * 3, "i"]),
        continuous_axis("x", np.arange(4.0)),
    )
    ladders = [ladder(axis, feature) for feature, axis in enumerate(axes)]
    shapes = tuple(replace(own, scores=own.scores / 12345) for own in ladders)
    model = AdditiveModel(Encoder(axes), np.zeros(1), shapes, "identity")
    for width in (1280, 400):
        page = open_page(model, width=width)
        page.show("#term-0")
        assert page.run("document.documentElement.scrollWidth") == width
        cut = """[...document.querySelectorAll('.bars data')].filter((node) => node.scrollWidth > node.clientWidth + 1
            || node.getBoundingClientRect().right > node.closest('.panel').getBoundingClientRect().right - 10).length"""
        assert page.run(cut) == 0
        left = "[...document.querySelectorAll('#term-0 svg text')].map((node) => node.getBBox().x)"
        assert min(page.run(left)) >= 0


@needs_browser
def test_the_page_of_a_wide_model_sums_terms_that_are_not_on_it(open_page, monkeypatch):
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
def test_a_row_is_edited_in_the_what_if_panel(open_page):
    model = make_model("logit")
    _, table = rows_of(model, 6)
    page = open_page(model, table, model.predict(table), rows=[5, 2])
    page.click("#next")
    page.click("#take")
    assert page.figures("#sum data") == pytest.approx(model.scores(table)[2], abs=CLOSE)
    assert page.read("#row-verdict .actual") == [model.predict(table)[2]]


@needs_browser
def test_charts_are_read_with_the_arrow_keys(open_page):
    model = make_model("identity")
    page = open_page(model)
    for index, shape in enumerate(model.shapes[:15]):  # main effects and pairs
        page.show(f"#term-{index}")
        if page.count(f"#term-{index} .switch"):
            page.click(f"#term-{index} .switch")  # from curves to the map
        page.run(f"document.querySelector('#term-{index} .chart').focus()")
        page.press("Home")
        if len(shape.term) == 2:
            for _ in range(20):
                page.press("ArrowDown")
        (found,) = page.figures(f"#term-{index} .readout data")
        assert found == pytest.approx(shape.scores.flat[0], abs=CLOSE)  # the missing cell, which has rows
        text = page.run(f"document.querySelector('#term-{index} .chart').getAttribute('aria-valuetext')")
        assert page.read(f"#term-{index} .readout") == [text]


@needs_browser
def test_slices_of_a_triple_follow_the_slider(open_page):
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
def test_curves_show_the_table(open_page):
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
def test_charts_share_a_scale_or_have_their_own(open_page):
    axes = (continuous_axis("small", np.arange(5.0)), continuous_axis("large", np.arange(50.0)))
    shapes = tuple(ladder(axis, feature) for feature, axis in enumerate(axes))
    page = open_page(AdditiveModel(Encoder(axes), np.zeros(1), shapes, "identity"))
    page.show("#terms")
    small, large = (f"#term-{index} .tick.end" for index in (0, 1))
    assert page.read(small) == ["0", "2", "4"]
    assert page.read(large) == ["0", "20", "40"]
    page.click("#same")
    assert page.read(small) == page.read(large) == ["0", "20", "40"]


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
def test_policy_blocks_foreign_scripts(open_page):
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
def test_the_layout_does_not_shift(open_page):
    model = make_model("identity")
    _, table = rows_of(model, 60)
    page = open_page(model, table, model.predict(table))
    assert page.run(SCROLL_AND_SUM_SHIFTS) < 0.02


class SlowPage(BaseHTTPRequestHandler):
    """Sends a page in two parts, one second apart: the markup, then the data and the script."""

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
        """Print nothing."""


@needs_browser
def test_the_layout_does_not_shift_on_a_slow_connection(browser, tmp_path):
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
def test_dark_colours_follow_the_system_and_the_switch(open_page):
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
def test_only_charts_near_the_window_are_drawn(open_page, wide_page):
    page = open_page(wide_page)
    assert page.count("#gallery article") == 2000
    assert 2 <= page.count("#gallery svg") < 40
    page.click("#list li:last-child a")
    assert page.count("#gallery article:last-child svg") == 1
    assert page.count("#gallery svg") < 120
    assert page.count(".field") == 30
    page.click("#all-fields")
    assert page.count(".field") == 2000
