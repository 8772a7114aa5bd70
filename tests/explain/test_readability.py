"""readability: turns and variation beyond two turns of curves made by hand, and of fitted models."""

from dataclasses import FrozenInstanceError, replace
from statistics import NormalDist

import numpy as np
import pytest

from neuralbasis import NeuralBasisClassifier, explain
from neuralbasis.encoding import level_axis
from tests.plot.figures import ABC, additive, evidence, knots, shape

Z = NormalDist().inv_cdf(0.975)


def measure(values, spread=0.0, found=None):
    """The only line of a model of one curve."""
    axis = knots("x", np.arange(len(values)))
    (line,) = explain.readability(additive([axis], [shape((0,), [axis], values, spread, evidence=found)])).terms
    return line


@pytest.mark.parametrize(
    ("values", "turns"),
    [
        ([1.0], 0),
        ([2.0, 2.0, 2.0], 0),
        ([0.0, 1.0, 1.0, 3.0], 0),
        ([3.0, 1.0, 0.0, 2.0], 1),
        ([0.0, 4.0, 4.0, 1.0, 2.0, 5.0], 2),
    ],
)
def test_curves_with_at_most_two_turns_have_no_excess(values, turns):
    assert measure(values) == explain.TermReadability("x", turns, 0.0)
    assert measure(values, 0.1, evidence()) == explain.TermReadability("x", turns, 0.0)


@pytest.mark.parametrize(
    ("values", "turns", "extra"),
    [
        ([0.0, 3.0, 0.0, 3.0, 0.0], 3, 6.0),  # 12 in all, 6 without the dip
        ([0.0, 5.0, 4.0, 9.0, 1.0, 2.0], 4, 2.0),  # 0 to 9 to 1 to 2: 18 of 20
        ([0.0, 2.0, 1.0, 3.0, 2.0, 4.0], 4, 2.0),  # a rise to 4 and one fall of 1: 6 of 8
        ([0.0, 0.1, 0.0, 8.0, 7.5, 8.0], 4, 0.2),  # the small turns at the left are left out
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_excess_is_the_variation_beyond_two_turns(values, turns, extra, sign):
    values = sign * np.array(values)
    line = measure(values, 0.5, evidence())
    assert (line.turns, line.excess) == (turns, pytest.approx(extra / (Z * 0.5)))
    assert measure(values).excess == pytest.approx(extra / np.ptp(values))  # without evidence
    assert measure(values[::-1]).excess == pytest.approx(extra / np.ptp(values))


def test_the_excess_is_the_smallest_over_all_turns():
    values = np.random.default_rng(0).normal(size=12)
    paths = [np.abs(np.diff(values[[0, i, j, -1]])).sum() for i in range(12) for j in range(i, 12)]
    expected = np.abs(np.diff(values)).sum() - max(paths)
    assert measure(values).excess == pytest.approx(expected / np.ptp(values))


def test_classes_and_terms_are_averaged():
    axes = [knots("steady", np.arange(5)), knots("bumpy", np.arange(5)), level_axis("grade", "ordinal", list("abcde"))]
    bumpy, flat, steady = [0.0, 3.0, 0.0, 3.0, 0.0], np.zeros(5), np.arange(5.0)
    tables = [np.c_[steady, flat, flat], np.c_[bumpy, flat, steady], np.c_[flat, flat, bumpy]]
    shapes = [shape((t,), [axes[t]], tables[t], 0.5, evidence=evidence(n_outputs=3)) for t in range(3)]
    model = additive(axes, shapes, "mlogit", ABC)
    found, importances = explain.readability(model), dict(zip(model.term_names, model.importances(), strict=True))
    lines = {line.name: line for line in found.terms}
    assert [line.name for line in found.terms] == ["bumpy", "steady", "grade"]  # most important first
    excess = 6.0 / (Z * 0.5) / 3  # one of three classes
    assert (lines["bumpy"].turns, lines["bumpy"].excess) == (3, pytest.approx(excess))
    assert lines["grade"].excess == pytest.approx(excess)  # ordinal levels have an order
    share = 1 - importances["steady"] / sum(importances.values())
    assert found.overall == pytest.approx(share * excess)


def test_levels_without_order_and_interactions_have_no_curve():
    axes = [level_axis("city", "nominal", list("abcde")), knots("age", np.arange(5))]
    shapes = [shape((0,), axes[:1], [0.0, 3.0, 0.0, 3.0, 0.0]), shape((0, 1), axes, np.zeros((5, 5)))]
    assert explain.readability(additive(axes, shapes)) == explain.Readability((), 0.0)


def test_the_text_is_a_table():
    axes = [knots(f"x{t}", np.arange(5)) for t in range(22)]
    shapes = [shape((t,), [axes[t]], (30.0 - t) * np.array([0.0, 1.0, 0.0, 1.0, 0.0])) for t in range(22)]
    found = explain.readability(additive(axes, shapes))
    lines = str(found).splitlines()
    assert (lines[0].split(), lines[1].split()) == (["term", "turns", "excess"], ["x0", "3", "2.00"])
    assert lines[-2] == "… and 2 more"
    assert lines[-1] == found.summary == "readability 2.00: " + found.summary.partition(": ")[2]
    with pytest.raises(FrozenInstanceError):
        found.overall = 0.0


def test_estimators_and_their_models():
    X = np.random.default_rng(0).random((200, 2))
    fitted = NeuralBasisClassifier(max_steps=20, outer_bags=2, interactions=0).fit(X, X[:, 0] > 0.5)
    assert explain.readability(fitted) == explain.readability(fitted.model_)
    bare = replace(fitted.model_, shapes=tuple(replace(one, evidence=None) for one in fitted.model_.shapes))
    assert [line.turns for line in explain.readability(bare).terms] == [
        line.turns for line in explain.readability(fitted).terms
    ]
