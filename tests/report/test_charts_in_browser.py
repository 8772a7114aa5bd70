"""Charts in Chromium: point masses, sorted levels, short names, totals of pairs, folds, stretches, and printing."""

import base64
import re
import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation, find_objects, label

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, level_axis
from tests.plot.figures import additive, evidence, knots, shape
from tests.report.pages import both_looks, needs_browser

AGES = np.arange(20.0, 90.0)


@pytest.fixture
def coded():
    """A column with the code −9 and a frequent 40, a column of levels with long names, and their pair."""
    axis = knots("age", np.r_[-9.0, AGES])
    names = [f"Department of {what} Administration" for what in ("Health", "Housing", "Labour", "Trade")]
    units = level_axis("unit", "nominal", [*names, *(f"small {i}" for i in range(20))])
    weights = np.r_[598.0, np.where(AGES == 40, 900.0, 10.0)]
    effects = np.r_[0.1, -0.9, 0.8, -0.2, np.linspace(-0.05, 0.05, 20)]
    rows = np.r_[np.full(4, 3.0), np.full(20, 90.0)]
    shapes = [
        shape((0,), [axis], np.r_[2.0, AGES / 100], 0.01, weights, evidence=evidence()),
        shape((1,), [units], effects, 0.01, rows, evidence=evidence()),
        shape((0, 1), [axis, units], np.full((71, 24), 0.25), 0.01, np.outer(weights, rows), evidence=evidence()),
    ]
    return additive([axis, units], shapes, "logit", np.array(["no", "yes"]))


def read_points(page, selector):
    path = page.run(f"document.querySelector('{selector}').getAttribute('d')")
    return [tuple(map(float, point.split())) for point in re.split("[ML]", path.rstrip("Z"))[1:]]


@needs_browser
@both_looks
def test_a_code_has_its_own_strip_and_no_slope(look, open_page, coded):
    page = open_page(coded, **look)
    page.show("#term-0")
    points = read_points(page, "#term-0 .curve")
    assert (page.count("#term-0 .curve"), len(points)) == (1, 71)  # 20 … 89 and the flat end on the right
    assert {"−9", "27 %", "41 %"} <= set(page.read("#term-0 .tick.middle"))
    marks = page.run(
        "[...document.querySelectorAll('#term-0 circle.dot')].map((dot) => Number(dot.getAttribute('cx')))"
    )
    assert len(marks) == 2  # at 40 and at −9
    assert min(marks) < min(x for x, _ in points) < max(marks)
    assert page.count("#term-0 .density.mass") == 2
    page.run("document.querySelector('#term-0 .chart').focus()")
    page.press("Home")
    (text,) = page.read("#term-0 .readout")
    assert text.startswith("age −9: +2")
    assert text.endswith("598 training rows with this value (27 %)")
    page.press("ArrowRight")
    assert page.figures("#term-0 .readout data") == [0.2]


@needs_browser
def test_levels_are_sorted_by_effect_and_names_stay_distinct(open_page, coded):
    page = open_page(coded, width=390)
    page.show("#term-1")
    shown = page.run(
        "[...document.querySelectorAll('#term-1 svg text.end:not(.tick)')]"
        ".map((text) => [text.firstChild.data, text.querySelector('title')?.textContent ?? text.textContent])"
    )
    texts, whole = zip(*shown, strict=True)
    assert len(whole) == len(set(texts)) == 12
    assert (whole[0], whole[-1]) == ("Department of Labour Administration", "Department of Housing Administration")
    assert texts[0] != whole[0]
    assert page.read("#term-1 .sentence") == [
        "Highest for Department of Labour Administration (+0.8, 3 rows), "
        "lowest for Department of Housing Administration (−0.9, 3 rows)."
    ]


@needs_browser
@both_looks
def test_a_pair_is_shown_as_curves_of_the_whole_effect(look, open_page, coded):
    page = open_page(coded, **look)
    page.show("#term-2")
    assert (page.count("#term-2 .total.faint"), page.count("#term-2 canvas")) == (5, 0)
    page.run("document.querySelector('#term-2 .chart').focus()")
    page.press("Home")
    found = page.figures("#term-2 .readout data")
    small = np.linspace(-0.05, 0.05, 20)[:5]  # the most frequent levels, the first of equal ones
    assert found == pytest.approx(2.0 + 0.25 + small)
    page.press("End")
    assert page.figures("#term-2 .readout data") == pytest.approx(0.89 + 0.25 + small)
    page.click("#term-2 .switch")
    assert (page.count("#term-2 .total"), page.count("#term-2 canvas")) == (0, 1)


@needs_browser
@both_looks
def test_a_stretch_shows_its_rows_and_their_outcomes(look, open_page, coded):
    table = {"age": np.r_[np.full(30, 40.0), np.full(10, 41.0), np.full(9, 60.0)], "unit": ["small 1"] * 49}
    page = open_page(coded, table, np.where(np.arange(49) < 20, "yes", "no"), **look)
    page.show("#term-0")
    box = page.run("document.querySelector('#term-0 .chart').getBoundingClientRect().toJSON()")
    points = dict(zip(AGES, [x for x, _ in read_points(page, "#term-0 .curve")], strict=False))
    y = box["top"] + box["height"] / 2
    page.point(box["left"] + points[38.0] + 1, y)
    page.send("Input.dispatchMouseEvent", type="mousePressed", x=box["left"] + points[38.0] + 1, y=y, button="left")
    page.send("Input.dispatchMouseEvent", type="mouseMoved", x=box["left"] + points[42.0] + 1, y=y, buttons=1)
    (text,) = page.read("#term-0 .readout")
    assert "940 training rows; outcome of 40 rows given to this page: yes 50 %" in text
    assert "Dashed: between the values beside them, as if these rows were absent." in text
    line = page.run("['x1', 'x2'].map((end) => Number(document.querySelector('#term-0 .without').getAttribute(end)))")
    assert line == pytest.approx([points[37.0], points[43.0]], abs=0.01)  # the values beside the stretch
    page.send("Input.dispatchMouseEvent", type="mouseReleased", x=box["left"] + points[42.0] + 1, y=y, button="left")
    page.run("document.querySelector('#term-0 .chart').focus()")
    page.press("Escape")
    assert page.count("#term-0 .without") == 0
    page.press("End")
    for _ in range(3):
        page.press("ArrowLeft", shift=True)
    (text,) = page.read("#term-0 .readout")
    assert "age 86 to 89: 40 training rows; none of the rows given to this page. Curve from +0.86 to +0.89" in text
    page.press("ArrowLeft")
    assert page.count("#term-0 .without") == 0


def many_terms(count, strong):
    """The first terms have strong effects, the others weak ones; the last has no clear effect."""
    axes = [knots(f"column {i}", np.arange(5.0)) for i in range(count)]
    shapes = [
        shape((i,), [axis], np.array([-1.0, 1, -1, 1, 0]) * (1.0 if i < strong else 0.001), 0.001,
              evidence=evidence(0.5 if i == count - 1 else 0.001))
        for i, axis in enumerate(axes)
    ]  # fmt: skip
    return AdditiveModel(Encoder(tuple(axes)), np.zeros(1), tuple(shapes), "identity")


@needs_browser
@both_looks
def test_weak_terms_are_folded_away_until_they_are_wanted(look, open_page):
    page = open_page(many_terms(30, 8), **look)
    assert (page.count("#strong .card"), page.count("#weak-terms .card")) == (8, 22)
    assert page.read("#weak-title")[0].startswith("22 weaker terms, together 0.27 % of all effects")
    assert not page.run("document.getElementById('weak').open")
    assert page.count("#weak-terms svg") == 0
    page.click("#list li:last-child a")
    assert page.run("document.getElementById('weak').open")
    assert page.count("#term-29 svg") == 1
    page.set("#sort", "name")
    assert (page.count("#strong .card"), page.run("document.getElementById('weak').hidden")) == (30, True)


CHECK_PRINT = """(async () => {
  const found = [];
  const measure = () => {
    for (const card of document.querySelectorAll("#strong .card")) {
      const outer = card.getBoundingClientRect(), chart = card.querySelector("svg")?.getBoundingClientRect();
      found.push([outer.right, chart ? chart.right : null, chart ? chart.width : null, card.clientWidth]);
    }
  };
  addEventListener("beforeprint", measure);
  window.readPrint = () => [found, document.documentElement.className];
})()"""


@needs_browser
def test_printing_draws_the_charts_for_the_width_of_the_paper(open_page):
    page = open_page(many_terms(12, 12), dark=True)
    page.run(CHECK_PRINT)
    page.send("Page.printToPDF")
    found, after = page.run("window.readPrint()")
    assert len(found) == 12
    assert after == ""
    for outer, right, width, room in found:
        assert right is not None, "a chart is not drawn"
        assert right <= outer <= 700
        assert width >= 0.9 * (room - 20)  # it fills its card
    assert page.run("document.querySelector('#strong svg').getBoundingClientRect().width") > 330  # as before


ACCENT = np.array([0, 114, 178])  # of curves on paper


def find_curves(pixels):
    """Left and right ends of the curves on a sheet, which are higher than bars are."""
    is_curve = binary_dilation(np.abs(pixels - ACCENT).sum(axis=2) < 60, iterations=6)  # over the outlines of dots
    boxes = find_objects(label(is_curve)[0])
    return [(x.start + 6, x.stop - 7) for y, x in boxes if y.stop - y.start > 60]


@needs_browser
@pytest.mark.skipif(shutil.which("pdftoppm") is None, reason="no pdftoppm (Debian's poppler-utils)")
@both_looks
def test_no_printed_chart_is_cut(look, open_page, tmp_path):
    page = open_page(many_terms(8, 8), **look)
    found = page.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
    (tmp_path / "page.pdf").write_bytes(base64.b64decode(found["data"]))
    subprocess.run(["pdftoppm", "-r", "72", "-png", "page.pdf", "sheet"], cwd=tmp_path, check=True)
    curves = []
    for sheet in sorted(tmp_path.glob("sheet*.png")):
        with Image.open(sheet) as picture:
            pixels = np.asarray(picture.convert("RGB"), dtype=int)
        assert (pixels[:, -20:] == 255).all(), "something is printed over the margin"
        curves += find_curves(pixels)
    assert len(curves) == 7  # the eighth has no clear effect and is grey
    left, right = np.array(curves).T
    assert np.ptp(right - left) <= 2  # those at the right edge of the paper are as long as the others
    assert (right - left).min() > 0.3 * pixels.shape[1]
