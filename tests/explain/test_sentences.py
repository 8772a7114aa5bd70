"""Sentences: what a table shows beyond its band, in words."""

import numpy as np
import pytest

from neuralbasis.encoding import level_axis
from neuralbasis.explain import explain_global, sentences
from tests.plot.figures import additive, evidence, knots, shape

X = np.arange(0.0, 101.0)


def say(scores, values=X, spread=0.01, weights=10.0, found=None):
    """The sentence of a curve."""
    axis = knots("age", values)
    shapes = [shape((0,), [axis], scores, spread, weights, evidence=found or evidence())]
    return sentences.describe_shape(explain_global(additive([axis], shapes)).terms[0])


@pytest.mark.parametrize(
    ("scores", "text"),
    [
        (X / 50, "Rises throughout."),
        (-X / 50, "Falls throughout."),
        (np.minimum(X, 50), "Rises until 50, flat after."),
        (np.maximum(X, 50), "Flat until 51, rises after."),
        (np.clip(X, 20, 70), "Flat until 21, rises until 70, flat after."),
        (-np.abs(X - 50), "Rises until 50, falls after."),
        (np.abs(X - 50), "Falls until 50, rises after."),
        (np.where(X < 30, 0.0, 5.0), "Flat until 29, jumps up near 30, flat after."),
        (np.where(X < 30, 5.0, 0.0), "Flat until 29, jumps down near 30, flat after."),
        (np.sin(X / 5), "Rises and falls several times: highest near 8, lowest near 55."),
    ],
)
def test_curves(scores, text):
    assert say(scores) == text


def test_a_change_within_its_band_is_not_told():
    wave = np.sin(X / 10)
    assert say(wave, spread=0.6) == "No clear rise or fall."
    assert say(X / 100, spread=0.3) == "No clear rise or fall."
    assert say(X / 100, spread=0.2) == "Rises throughout."
    bump = X / 50 + 0.4 * np.exp(-0.5 * ((X - 50) / 3) ** 2)
    assert say(bump, spread=0.15) == "Rises throughout."  # the fall after 50 is smaller than its band


def test_a_term_without_a_clear_effect():
    assert say(X, found=evidence(0.4)) == "No clear effect."


def test_few_rows_are_named():
    weights = np.where(X > 75, 60 / 25, 100.0)
    assert say(np.minimum(X, 50), weights=weights) == "Rises until 50, flat after; beyond 75 only 60 rows."
    assert say(X / 50, weights=np.where(X < 30, 1.0, 100.0)) == "Rises throughout; below 31 only 130 rows."


def test_codes_and_missing_values_stand_apart():
    axis = knots("age", np.r_[-9.0, -8.0, X[20:]])
    own = shape(
        (0,), [axis], np.r_[0.5, 0.01, X[20:] / 50], 0.02, np.r_[598, 100, np.full(81, 100)], evidence=evidence()
    )
    text = sentences.describe_shape(explain_global(additive([axis], [own])).terms[0])
    assert text == "Rises throughout. Apart: −9 (598 rows) +0.5, no clear effect of −8 (100 rows)."


def test_values_are_rounded_to_their_range():
    assert say(np.minimum(X, 50), values=X / 1000) == "Rises until 0.050, flat after."
    assert say(np.minimum(X, 50), values=1000 * X) == "Rises until 50,000, flat after."


def say_levels(scores, spread=0.05, weights=100.0):
    axis = level_axis("city", "nominal", ["Bern", "Lima", "Oslo"])
    own = shape((0,), [axis], scores, spread, weights, evidence=evidence())
    return sentences.describe_shape(explain_global(additive([axis], [own])).terms[0])


def test_levels():
    assert say_levels([-0.4, 0.1, 0.9]) == "Highest for Oslo (+0.9), lowest for Bern (−0.4)."
    assert say_levels([-0.4, 0.1, 0.9], weights=[100.0, 300.0, 3.0]) == (
        "Highest for Oslo (+0.9, 3 rows), lowest for Bern (−0.4)."
    )
    assert (
        say_levels([-0.4, 0.1, 0.9], weights=[100.0, 300.0, 0.0]) == "Highest for Lima (+0.1), lowest for Bern (−0.4)."
    )
    assert say_levels([-0.1, 0.0, 0.1], spread=0.1) == "No clear difference between the levels."


def test_a_rare_level_with_a_wide_band_does_not_hide_a_clear_difference():
    assert say_levels([-0.4, 0.2, 0.3], np.array([0.0, 0.05, 0.05, 1.0, 0.0])[:, None]) == (
        "Higher for Lima (+0.2) than for Bern (−0.4); other levels are less certain."
    )


def test_pairs():
    ages, city = knots("age", [20.0, 40.0, 60.0]), level_axis("city", "nominal", ["Bern", "Oslo"])
    scores = np.array([[0.0, 0.5], [0.1, -0.3], [9.0, 0.0]])
    weights = np.array([[5.0, 5.0], [5.0, 5.0], [0.0, 5.0]])  # no rows at the largest score
    own = shape((0, 1), [ages, city], scores, 0.05, weights, evidence=evidence())
    view = explain_global(additive([ages, city], [own])).terms[0]
    assert sentences.describe_shape(view) == (
        "Beyond the single effects: highest where age is 20 and city is Oslo (+0.5), "
        "lowest where age is 40 and city is Oslo (−0.3)."
    )
    unclear = shape((0, 1), [ages, city], scores, 0.5, weights, evidence=evidence())
    view = explain_global(additive([ages, city], [unclear])).terms[0]
    assert sentences.describe_shape(view) == "No clear effect beyond the single effects."


def test_each_score_has_its_own_sentence():
    axis = knots("age", X)
    own = shape((0,), [axis], np.column_stack([X, -X, 0 * X]), 0.1, evidence=evidence(n_outputs=3))
    found = sentences.describe_outputs(
        explain_global(additive([axis], [own], "mlogit", np.array(["a", "b", "c"]))).terms[0]
    )
    assert found == ["Rises throughout.", "Falls throughout.", "No clear rise or fall."]
