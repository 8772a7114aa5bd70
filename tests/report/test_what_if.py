"""The what-if panel in Chromium computes what `predict` computes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis
from neuralbasis.model.residuals import Residuals
from tests.models import draw_numbers, name_columns
from tests.report.pages import CLOSE, KINDS, check_contributions, ladder, make_model, needs_browser, rows_of

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
      bounds: read("#verdict .bound"),
      contributions: Object.fromEntries(names.map((name, i) => [name, parts[i]])) };
  });
}"""


NOTE = "#whatif [data-needs=interval]"


def plain_rows(numbers):
    return [[None if np.isnan(value) else value for value in row] for row in numbers]


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
    bounds = model.predict_interval(pd.DataFrame(name_columns(axes, numbers)), 0.9)
    np.testing.assert_allclose([row["bounds"] for row in found], bounds, rtol=0, atol=CLOSE)


@needs_browser
@pytest.mark.parametrize(("kind", "n_regions"), [("identity", 1), ("identity", 2), ("identity", 20), ("logit", 20)])
def test_the_interval_is_predict_interval(kind, n_regions, open_page):
    rng, model = np.random.default_rng(0), make_model(kind)
    numbers, table = rows_of(model, 200)
    low, high = np.quantile(model.scores(table), [0.2, 0.8])  # some rows are outside
    quantiles = np.sort(rng.normal(size=(n_regions, 9)), axis=1)
    residuals = Residuals(np.linspace(low, high, n_regions), np.linspace(0, 1, 9), quantiles)
    model = replace(model, residuals=(residuals,))
    page = open_page(model, table)
    found = [row["bounds"] for row in page.run(SET_ROWS, plain_rows(numbers))]
    expected = model.predict_interval(table, 0.9)
    if kind == "logit":  # the page shows the probability of the most probable class
        is_second = model.scores(table) > 0
        assert 0 < is_second.sum() < len(expected)
        expected = np.where(is_second, expected, 1 - expected[:, ::-1])
    np.testing.assert_allclose(found, expected, rtol=0, atol=CLOSE)
    np.testing.assert_allclose(page.figures("#row-verdict .bound"), found[0], rtol=0, atol=CLOSE)
    assert "90 % interval" in page.read("#verdict")[0]
    assert page.read(NOTE)[0].startswith(
        "About 90 % of new rows" if kind == "identity" else "Among rows with a similar"
    )
    assert page.run(f"document.querySelector('{NOTE}').checkVisibility()")


@needs_browser
@pytest.mark.parametrize("kind", ["identity", "outputs", "logit"])
def test_models_without_residuals_show_no_interval(kind, open_page):
    model = make_model(kind)
    page = open_page(model, rows_of(model, 3)[1])
    assert page.count(".bound") == 0
    assert not page.run(f"document.querySelector('{NOTE}').checkVisibility()")
    assert "interval" not in page.read("#verdict")[0]


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
def test_slider_works_with_the_keyboard(open_page):
    model = make_model("identity")
    page = open_page(model)
    before = page.figures("#sum data")
    page.run("document.querySelector('[data-column=\"0\"] [type=range]').focus()")
    page.press("End")
    page.settle()
    assert page.figures('[data-column="0"] [type=number]') == [pytest.approx(model.encoder.axes[0].knots[-1], rel=1e-4)]
    assert page.figures("#sum data") != before
