"""The what-if panel in Chromium computes what `predict` computes."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Encoder, continuous_axis
from neuralbasis.model.residuals import Residuals
from neuralbasis.model.shapes import Shape
from tests.models import draw_numbers, name_columns
from tests.report.pages import CLOSE, KINDS, both_looks, check_contributions, ladder, make_model, needs_browser, rows_of

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
    page = open_page(model, table, rows=range(8))
    found = [row["bounds"] for row in page.run(SET_ROWS, plain_rows(numbers))]
    expected = model.predict_interval(table, 0.9)
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


BAND = "#verdict .band-end"


@needs_browser
@pytest.mark.parametrize("kind", ["identity", "logit", "mlogit"])
def test_the_band_is_that_of_predict_with_uncertainty(kind, open_page):
    model = make_model(kind)
    numbers, table = rows_of(model, 30)
    page = open_page(model, table, rows=range(8))
    found = []
    for row in plain_rows(numbers):
        page.run(SET_ROWS, [row])
        found.append(page.figures(BAND))
    errors = model.predict_with_uncertainty(table)[..., 1].reshape(30, -1)
    scores, all_rows = model.scores(table), np.arange(30)
    if kind == "identity":
        expected = scores + errors * [-1, 1]
    else:
        probability = model.predict_proba(table)
        winner = probability.argmax(axis=1) if kind == "mlogit" else np.ones(30, dtype=int)
        own = probability[all_rows, winner]
        odds, width = np.log(own / (1 - own)), errors[:, 0]
        if kind == "mlogit":  # the errors of the other scores count by their share of the other classes
            shares = probability / (1 - own)[:, None]
            shares[all_rows, winner] = 1
            width = np.sqrt((shares**2 * errors**2).sum(axis=1))
        expected = 1 / (1 + np.exp(-(odds[:, None] + width[:, None] * [-1, 1])))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-3)
    assert page.read("#verdict")[0].count("± 1 standard deviation") == 1
    np.testing.assert_allclose(page.figures("#row-verdict .band-end"), found[0], rtol=0, atol=CLOSE)


@needs_browser
@both_looks
def test_the_band_of_a_tested_model_has_95_percent(look, fitted, open_page):
    model, frame, y = fitted
    page = open_page(model, frame, y, rows=[3], **look)
    score, error = model.predict_with_uncertainty(frame.iloc[[3]])[0]
    np.testing.assert_allclose(page.figures(BAND), [score - 1.96 * error, score + 1.96 * error], rtol=1e-3)
    assert "95 % band" in page.read("#verdict")[0]
    assert page.read("#band-note")[0].startswith("95 % band: how far the prediction could move")


@needs_browser
@both_looks
def test_values_outside_the_data_are_marked(look, fitted, open_page):
    model, frame, y = fitted
    low, high = frame["age"].min(), frame["age"].max()
    page = open_page(model, frame, y, rows=[0], **look)
    assert page.read("#whatif .warning") == ["", ""]
    age, city = '[data-column="0"]', '[data-column="1"]'
    page.set(f"{age} [type=number]", -5, "input")
    (note,) = page.read(f"{age} .warning")
    ends = [float(text) for text in note.removeprefix("outside the data: ").split(" to ")]
    np.testing.assert_allclose(ends, [low, high], rtol=0.02)
    assert page.read("#verdict .warning") == [f"age −5: {note}"]
    described = page.run(f"document.querySelector('{age} [type=number]').getAttribute('aria-describedby')")
    assert page.read(f"#{described}") == [note]
    page.set(f"{age} [type=number]", "", "input")
    assert page.read(f"{age} .warning") == ["not a number: the prediction uses −5"]
    page.set(f"{age} [type=number]", low, "input")
    assert page.read(f"{age} .warning") == [""]
    page.click(f"{age} [type=checkbox]")
    assert page.read(f"{age} .warning") == ["never missing in the training data"]
    page.set(f"{city} select", -1)
    assert page.read("#verdict .warning") == [
        "age: never missing in the training data",
        "city: a level that no training row has",
    ]


@needs_browser
def test_terms_without_training_rows_at_a_value_say_so(open_page):
    axis = continuous_axis("age", np.array([20.0, 30.0, 40.0]))
    cells = np.array([0.0, 1.0, 2.0, 3.0, 0.0])
    shape = Shape((0,), (axis,), cells[:, None], np.zeros((5, 1)), np.array([0.0, 9.0, 0.0, 9.0, 0.0]))
    page = open_page(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"))
    page.set('[data-column="0"] [type=number]', 30, "input")
    assert page.read("#contributions .note") == ["30 · no training rows here"]
    page.set('[data-column="0"] [type=number]', 31, "input")
    assert page.read("#contributions .note") == ["31"]


@needs_browser
@both_looks
def test_predictions_in_the_unit_of_the_target(look, fitted, open_page):
    model, frame, y = fitted
    with pytest.raises(ValueError, match="transform='log' needs y in the unit of the target; got values near the log"):
        open_page(model, frame, y, transform="log")
    page = open_page(model, frame, np.exp(y), rows=[2], transform="log", **look)
    (score,) = model.predict(frame.iloc[[2]])
    for panel in ("#verdict", "#row-verdict"):
        assert page.figures(f"{panel} .answer") == [pytest.approx(np.exp(score), abs=CLOSE * 100)]
        bounds = np.exp(model.predict_interval(frame.iloc[[2]], 0.9)[0])
        np.testing.assert_allclose(page.figures(f"{panel} .bound"), bounds, rtol=1e-9)
        first, last = page.figures(f"{panel} .band-end")
        assert first * last == pytest.approx(np.exp(2 * score), rel=1e-6)
    assert float(page.read("#row-verdict .actual")[0]) == pytest.approx(np.exp(y[2]), rel=1e-4)
    contribution = page.figures("#waterfall data")[1]
    shown = page.read("#waterfall data")
    assert shown[1] == f"× {float(f'{np.exp(contribution):.3g}'):g}"
    assert float(shown[0]) == pytest.approx(np.exp(model.model_.intercept[0]), rel=1e-3)
    assert page.figures("#sum data") == [pytest.approx(score, abs=CLOSE)]
    assert "+ contributions = log of the prediction " in page.read("#sum")[0]
    assert "The sum is the log of the prediction." in page.read("#lead")[0]
    assert "+0.1 raises the prediction by 10.5 %" in page.read("#unit")[0]
