"""Cards of a notebook say what the model says; they are small, safe and readable on white and on black."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import numpy as np
import pytest

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from tests.browser import Browser, find_browser

ROWS = {
    "age": np.linspace(18, 80, 240),
    "town": np.array(["Oslo", "Bergen <b>", "Tromsø"] * 80, dtype=object),
}
SHARE = np.where(ROWS["age"] + 20 * (ROWS["town"] == "Oslo") > 50, "yes", "no")


@pytest.fixture(scope="module")
def fitted() -> NeuralBasisClassifier:
    return NeuralBasisClassifier(max_steps=20, outer_bags=2, interactions=[("age", "town")]).fit(ROWS, SHARE)


def parse(card: str) -> ElementTree.Element:
    """The elements of a card, which is also well-formed XML."""
    return ElementTree.fromstring(card)


def read_text(card: str) -> str:
    return " ".join(" ".join(parse(re.sub("<style>.*?</style>", "", card)).itertext()).split())


def test_the_card_says_what_the_model_predicts(fitted) -> None:
    card = fitted._repr_mimebundle_()["text/html"]
    assert card == fitted.model_._repr_html_() == fitted._repr_html_()
    text, summary = read_text(card), fitted.model_.summary
    assert text.startswith(
        "NeuralBasisClassifier predicts 2 classes: no, yes 240 training rows · 2 main effects, 1 pair"
    )
    assert f"log loss of held-out rows {summary.validation:.3g}" in text
    assert 'Contribution to the log odds of "yes"; shaded: 95 % band for each value.' in text
    for name, importance in zip(fitted.term_names_, fitted.term_importances(), strict=True):
        assert re.search(rf"{re.escape(name)} ?{importance:.3g}", text)


def test_the_curve_of_the_card_is_the_table(fitted) -> None:
    figure = next(f for f in parse(fitted._repr_html_()).iter("figure") if "age" in "".join(f.itertext()))
    points = np.array([[float(n) for n in p.split(",")] for p in figure.find(".//polyline").get("points").split()])
    knots, curve = fitted.model_.shapes[0].axes[0].knots, fitted.term_scores_[0][1:-1]
    expected = np.interp(points[:, 0], 3 + 184 * (knots - knots[0]) / np.ptp(knots), curve)
    scale = np.polyfit(points[:, 1], expected, 1)
    assert scale[0] < 0  # up is more
    np.testing.assert_allclose(np.polyval(scale, points[:, 1]), expected, atol=0.03 * np.ptp(curve))


def test_classes_have_colours_and_names() -> None:
    kind = np.array(["<low>", "middle", "high"] * 80)
    fitted = NeuralBasisClassifier(max_steps=20, outer_bags=2, interactions=0).fit(ROWS, kind)
    card = fitted._repr_html_()
    assert "Contribution to the score of a class: ■ <low>, ■ high, ■ middle; bars: <low>." in read_text(card)
    figure = next(f for f in parse(card).iter("figure") if "age" in "".join(f.itertext()))
    lines = [line.get("stroke") for line in figure.iter("polyline")]
    assert lines == re.findall('<span style="color:(#[0-9A-F]{6})">■', card)
    row = fitted.explain_local(ROWS).row(4)
    expected = f"score of {row.prediction} {row.scores.max():.4g} = intercept"
    assert expected in read_text(row._repr_html_()).replace("−", "-")
    assert f"probability of {row.prediction} {row.probabilities.max():.3f}" in read_text(row._repr_html_())


def test_a_regression_states_its_r2() -> None:
    fitted = NeuralBasisRegressor(max_steps=20, outer_bags=2, interactions=0).fit(ROWS, ROWS["age"])
    summary = fitted.model_.summary
    text = read_text(fitted._repr_html_())
    assert f"R² of held-out rows {1 - summary.validation / summary.history['constant']:.3f}" in text


def test_an_estimator_before_the_fit_has_the_diagram_of_scikit_learn() -> None:
    assert "sk-" in NeuralBasisRegressor()._repr_html_()


def test_cards_of_explanations_and_scorecards(fitted) -> None:
    local = fitted.explain_local({"age": [30.0, None], "town": ["Oslo", "Rome"]}, ["yes", "no"])
    text, row = read_text(local._repr_html_()), local.row(0)
    score = f'log odds of "yes" {row.scores[0]:.4g} = intercept {row.intercept[0]:.4g} + the contributions; '
    expected = f"Row 0: prediction {row.prediction}, actual yes {score}probability of yes {row.probabilities[1]:.3f}"
    assert expected.replace("-", "−") in text
    assert "missing" in text
    assert f"{row.contributions[0, 0]:+.3g}".replace("-", "−") in text
    assert read_text(row._repr_html_()).startswith("Row 0: prediction")
    assert "NeuralBasisClassifier" in read_text(fitted.explain_global()._repr_html_())
    assert "and 235 more rows: row(i) shows one of them" in read_text(fitted.explain_local(ROWS)._repr_html_())
    card = fitted.scorecard("town")
    assert "Bergen &lt;b&gt;" in card._repr_html_()
    assert " ".join(str(card).split()) == read_text(card._repr_html_())
    whole = parse(fitted.scorecard()._repr_html_())
    assert len(list(whole.iter("details"))) == 3


def test_cards_are_small_safe_and_without_references(fitted) -> None:
    cards = [fitted._repr_html_(), fitted.explain_global()._repr_html_(), fitted.explain_local(ROWS)._repr_html_()]
    for card in cards:
        assert len(card.encode()) < 100_000
        assert not re.search(r"<script|https?:|url\(|<b>Oslo|Bergen <b>", card)


def test_a_loaded_model_explains_like_the_estimator(fitted, tmp_path) -> None:
    path = tmp_path / "model.nbm"
    assert fitted.save(path) == path
    loaded = neuralbasis.load(path)
    np.testing.assert_array_equal(loaded.explain_local(ROWS).contributions, fitted.explain_local(ROWS).contributions)
    assert (
        loaded.explain_global().data("age")["scores"].tolist() == fitted.explain_global().data("age")["scores"].tolist()
    )
    assert str(loaded.scorecard("town")) == str(fitted.scorecard("town"))
    assert str(loaded.evidence()) == str(fitted.evidence())
    assert loaded._repr_html_() == fitted._repr_html_()


@pytest.mark.skipif(find_browser() is None, reason="needs Chromium")
def test_text_and_curves_are_readable_on_white_and_on_black(fitted, tmp_path) -> None:
    page = tmp_path / "cards.html"
    with Browser() as browser:
        for back, text in (("rgb(255, 255, 255)", "rgb(17, 17, 17)"), ("rgb(17, 17, 17)", "rgb(221, 221, 221)")):
            body = fitted._repr_html_() + fitted.explain_local(ROWS)._repr_html_()
            head = "<!doctype html><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            page.write_text(f"{head}<body style='background:{back};color:{text}'>{body}")
            window = browser.open(page, width=400)
            assert window.run("getComputedStyle(document.querySelector('.nbm td')).color") == text
            assert window.run("getComputedStyle(document.querySelector('.nbm text')).fill") == text
            assert window.run("document.documentElement.scrollWidth") <= 400
            for colour in ((46, 134, 193), (217, 118, 43)):
                assert (
                    contrast(colour, tuple(map(int, re.findall(r"\d+", back)))) >= 3
                )  # of graphical objects, WCAG 1.4.11


def contrast(first: tuple[int, ...], second: tuple[int, ...]) -> float:
    """The contrast ratio of WCAG."""
    shares = [np.array(colour) / 255 for colour in (first, second)]
    linear = [
        np.where(s <= 0.04045, s / 12.92, ((s + 0.055) / 1.055) ** 2.4) @ [0.2126, 0.7152, 0.0722] for s in shares
    ]
    return float((max(linear) + 0.05) / (min(linear) + 0.05))
