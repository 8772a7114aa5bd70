"""The page with evidence: bands, terms without a clear effect, warnings about columns that replace each other."""

import re
from dataclasses import replace

import numpy as np
import pytest

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from neuralbasis.explain import Evidence
from neuralbasis.model.shapes import Shape
from neuralbasis.report import page_model
from tests.report.pages import make_model, needs_browser, read_page, write_page

ERROR, MULTIPLIER = 0.5, 3.0
QUANTILE = 1.959964


def build_tested_shape(term, axes, scores, p_values, **overlap):
    """A shape with the error 0.5 everywhere; the missing and unseen cells have score 0 and no rows."""
    scores = np.asarray(scores, dtype=float)
    table = np.zeros((*(axis.n_cells for axis in axes), len(p_values)))
    inner = (slice(1, -1),) * len(axes)
    table[inner] = scores[..., None] * np.ones(len(p_values))
    weights = np.zeros(table.shape[:-1])
    weights[inner] = 5.0
    same = [np.full(len(p_values), value) for value in (MULTIPLIER, 0.25)]
    members = np.repeat(table[..., None, :], 2, axis=-2) if len(axes) == 1 else None
    evidence = Evidence(np.array(p_values), *same, **overlap)
    return Shape(term, axes, table, np.full_like(table, ERROR), weights, members, evidence=evidence)


def build_tested_model(n_outputs=1, concurvity=0.0):
    """A clear curve, a stronger curve without a clear effect, bars, and a pair with one clear column of cells."""
    ages = continuous_axis("age", np.arange(4.0))
    doses, cities = continuous_axis("dose", np.arange(4.0)), level_axis("city", "nominal", ["Bern", "Oslo"])
    axes = (ages, doses, cities)
    overlap = {"concurvity": concurvity, "partner": (0,), "partner_concurvity": 0.7}
    shapes = (
        build_tested_shape((0,), axes[:1], [-1.0, -2.0, 1.0, 2.0], [0.001, 0.7, 0.7][:n_outputs]),
        build_tested_shape((1,), axes[1:2], [-4.0, 4.0, -4.0, 4.0], [0.614, 0.7, 0.01][:n_outputs], **overlap),
        build_tested_shape((2,), axes[2:], [-0.5, 0.5], [0.02] * n_outputs),
        build_tested_shape((0, 1), axes[:2], np.outer([0.5, 0.5, 0.5, 3.0], np.ones(4)), [0.03] * n_outputs),
    )
    classes = np.array(["a", "b", "c"]) if n_outputs == 3 else None
    link = "identity" if n_outputs == 1 else "mlogit"
    return AdditiveModel(Encoder(axes), np.zeros(n_outputs), shapes, link, classes)


def read_heights(page, selector):
    """Pixels of the points of a path, from the top."""
    path = page.run(f"document.querySelector('{selector}').getAttribute('d')")
    return np.array([float(point.split()[1]) for point in re.split("[ML]", path.rstrip("Z"))[1:]])


@needs_browser
def test_bands_are_those_for_each_value_and_for_the_whole_curve(open_page):
    page = open_page(build_tested_model())
    page.show("#term-0")
    curve = read_heights(page, "#term-0 .curve")[1:-1]
    pixels = -np.polyfit([-1, -2, 1, 2], curve, 1)[0]  # per unit of the score
    for look, multiple in (("each", QUANTILE), ("whole", MULTIPLIER)):
        band = read_heights(page, f"#term-0 .band.{look}")
        np.testing.assert_allclose(band[:4], curve - pixels * multiple * ERROR, atol=0.1)
        np.testing.assert_allclose(band[:3:-1], curve + pixels * multiple * ERROR, atol=0.1)
    assert page.count("#term-0 .member") == 0
    (caption,) = page.read("#legend li:first-child")
    assert "Dark: 95 % band for each value. Light: 95 % band for the whole curve." in caption


@needs_browser
def test_terms_without_a_clear_effect_are_marked_and_come_last(open_page):
    page = open_page(build_tested_model())
    assert page.read("#list li .name") == ["age", "age & dose", "city", "dose"]
    assert page.read("#drivers .name") == ["age", "age & dose", "city", "dose"]
    assert page.read("#list li.unclear .effect") == ["no clear effect (p = 0.61)"]
    assert page.read("#drivers .note") == ["no clear effect (p = 0.61)"]
    page.show("#term-1")
    assert page.read("#term-1 .effect") == ["no clear effect (p = 0.61)"]
    colour = "getComputedStyle(document.querySelector('{} .curve')).stroke"
    assert page.run(colour.format("#term-0")) != page.run(colour.format("#term-1"))
    page.set("#sort", "name")
    assert page.read("#list li .name") == ["age", "age & dose", "city", "dose"]


@needs_browser
def test_each_class_has_its_own_test(open_page):
    page = open_page(build_tested_model(3))
    assert page.read("#list li.unclear .name") == ["dose"]
    page.set("#output", 2)
    assert page.read("#list li .name") == ["dose", "age & dose", "city", "age"]
    assert page.read("#list li.unclear .effect") == ["no clear effect (p = 0.7)"]


@needs_browser
def test_a_term_that_others_could_replace_has_a_warning_and_is_not_called_unclear(open_page):
    page = open_page(build_tested_model(concurvity=0.853))
    assert page.count(".unclear") == 0
    for index in range(4):
        page.show(f"#term-{index}")
    expected = (
        "85 % of the effect of dose could also be expressed by age and other columns; read their effects together."
    )
    assert [text for text in page.read("#gallery .warning") if text] == [expected]


@needs_browser
def test_importances_and_values_have_intervals(open_page):
    page = open_page(build_tested_model())
    assert page.read("#drivers data")[0] == "1.50 ± 0.49"
    assert page.read("#drivers data")[3] == "4.00 ± 0.49"
    page.show("#term-0")
    page.run("document.querySelector('#term-0 .chart').focus()")
    page.press("Home")
    (text,) = page.read("#term-0 .readout")
    assert "−1, 95 %: −1.98 to −0.02" in text
    page.show("#term-2")
    assert page.count("#term-2 .whisker") == 4
    assert page.count("#term-2 .whisker.thick") == 2


@needs_browser
def test_cells_whose_band_contains_zero_are_pale(open_page):
    page = open_page(build_tested_model())
    page.show("#term-3")
    page.click("#term-3 .switch")  # from curves to the map
    read = """(() => {
      const map = document.querySelector('#term-3 canvas'), row = Math.floor(map.height / 2);
      const { data } = map.getContext('2d').getImageData(0, row, map.width, 1);
      return [0.1, 0.99].map((share) => [...data.slice(4 * Math.floor(share * map.width)).slice(0, 4)]);
    })()"""
    (*weak, _), (*strong, _) = page.run(read)
    full = np.array([0xD5, 0x5E, 0x00])
    np.testing.assert_allclose(strong, full, atol=3)
    np.testing.assert_allclose(weak, 255 + (full - 255) * 0.35 * 0.5 / 3, atol=3)
    assert "Pale: no clear effect there." in page.read("#legend li:last-child")[0]


@needs_browser
def test_without_evidence_the_deviation_is_named(open_page):
    page = open_page(make_model("identity"))
    page.show("#term-0")
    assert "Band: ± 1 standard deviation over the members." in page.read("#legend li:first-child")[0]
    assert page.count(".unclear, .band.whole") == 0
    assert [text for text in page.read(".effect, .warning") if text] == []


def test_page_data_of_a_tested_term(tmp_path):
    _, data, _ = read_page(write_page(tmp_path, build_tested_model()))
    first, second = data["terms"][:2]
    assert first["each"] == pytest.approx(QUANTILE)
    assert first["whole"] == [MULTIPLIER]
    assert (first["effects"], second["effects"]) == ([""], ["no clear effect (p = 0.61)"])
    assert first["importanceErrors"] == pytest.approx([QUANTILE * 0.25])
    assert first["members"] is None


def test_warnings_name_the_columns_of_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(page_model, "MAX_TABLES", 6)
    _, data, _ = read_page(write_page(tmp_path, build_tested_model(concurvity=0.853)))
    assert [term["name"] for term in data["terms"]] == ["dose"]
    assert data["terms"][0]["warning"].startswith(
        "85 % of the effect of dose could also be expressed by other columns;"
    )


@needs_browser
def test_a_tail_that_is_not_drawn_does_not_change_the_scale(open_page):
    axis = continuous_axis("income", np.array([*range(100), 1e6]))
    shape = build_tested_shape((0,), (axis,), np.r_[np.linspace(-1, 1, 100), 90.0], [0.001])
    weights = np.r_[0.0, np.full(100, 10.0), 1.0, 0.0]
    page = open_page(AdditiveModel(Encoder((axis,)), np.zeros(1), (replace(shape, weights=weights),), "identity"))
    page.show("#term-0")
    assert page.read("#term-0 .tick.end") == ["−2", "0", "2"]
