"""stability: standard deviation of main effects over models, compared point by point."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel, NeuralBasisRegressor, explain
from neuralbasis.encoding import Axis, Encoder, level_axis
from tests.explain.models import CLASSES, COLOURS, knots, make_curve, make_model


def test_deviation_of_two_curves_by_hand():
    """Values ±1 at the left knot, ±3 at the right one: deviations √2 and 3√2."""
    axis = knots(0, 10)
    models = [make_curve(axis, [0, sign, 3 * sign, 0], weights=[0, 3, 1, 0]) for sign in (1, -1)]
    found = explain.stability(models)
    assert found.points == ((0.0, 10.0),)
    np.testing.assert_allclose(found.deviations[0][:, 0], [np.sqrt(2), 3 * np.sqrt(2)])
    assert found.overall == pytest.approx((3 * 1 + 1 * 3) / 4 * np.sqrt(2))
    even = explain.stability(models, weighted=False)
    assert len(even.points[0]) == 512
    assert even.overall == pytest.approx(2 * np.sqrt(2))  # the middle of the line
    X = [[0.0], [0.0], [0.0], [5.0], [20.0]]
    assert explain.stability(models, X=X).overall == pytest.approx((3 * 1 + 2 + 3) / 5 * np.sqrt(2))
    assert explain.stability(models, weighted=False, X=X).overall == pytest.approx((1 + 2 + 3) / 3 * np.sqrt(2))


def test_missing_values_count_as_rows_but_not_as_even_steps():
    models = [make_curve(knots(0, 1), [5 * sign, 1, 1, 0], weights=[1, 1, 2, 0]) for sign in (1, -1)]
    found = explain.stability(models)
    assert found.points == ((None, 0.0, 1.0),)
    assert found.overall == pytest.approx(5 * np.sqrt(2) / 4)
    assert explain.stability(models, weighted=False).overall == 0
    X = {"size": [np.nan, 0.0]}
    assert explain.stability(models, X=X).overall == pytest.approx(5 * np.sqrt(2) / 2)
    assert explain.stability(models, weighted=False, X=X).overall == 0


def test_levels_are_compared_by_name():
    other = level_axis("colour", "nominal", ["red", "01"])
    models = [make_curve(COLOURS, [0, 1, 4, 2, 0], [0, 1, 1, 1, 0]), make_curve(other, [0, 2, 1, 0], [0, 1, 1, 0])]
    found = explain.stability(models)
    assert found.points == (("01", "blue", "red"),)
    np.testing.assert_allclose(found.curves[0][..., 0], [[1, 4, 2], [1, 0, 2]])  # unseen contributes 0
    np.testing.assert_array_equal(found.weights[0], [1, 0.5, 1])
    np.testing.assert_array_equal(explain.stability(models, weighted=False).weights[0], [1, 1, 1])


def test_knots_of_all_models_are_points():
    models = [make_curve(knots(0, 4), [0, 0, 4, 0]), make_curve(knots(1, 2, 4), [0, 1, 2, 4, 0])]
    found = explain.stability(models)
    assert found.points == ((0.0, 1.0, 2.0, 4.0),)
    np.testing.assert_allclose(found.curves[0][..., 0], [[0, 1, 2, 4], [1, 1, 2, 4]])


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(sorted(CLASSES)))
def test_members_of_one_model_deviate_by_its_spread(seed, link):
    """At knots and levels, weighted by the training rows."""
    model = make_model(seed, link)
    found = explain.stability(model)
    mains = [shape for shape in model.shapes if len(shape.term) == 1]
    assert found.n_models == 3
    for deviation, shape in zip(found.by_column, mains, strict=True):
        spread = shape.members.std(axis=1, ddof=1).mean(axis=1)[:-1]
        assert deviation == pytest.approx(np.average(spread, weights=shape.weights[:-1]))


def test_models_are_compared_by_the_names_of_their_columns():
    """The order of columns, other pairs and additional columns do not matter."""
    model = make_model(orders=(1,))
    first, second = model.encoder.axes[:2]
    turned = AdditiveModel(
        Encoder((second, first)),
        model.intercept,
        (replace(model.shapes[1], term=(0,)), replace(model.shapes[0], term=(1,))),
        "identity",
    )
    found = explain.stability([model, turned, make_model()])
    assert found.columns == ("x0", "x1")
    np.testing.assert_array_equal(found.curves[0][0], found.curves[0][1])
    assert explain.stability([model, turned]).overall == 0


def test_rows_are_read_by_position():
    """Columns without a main effect count as positions too."""
    size, age = knots(0, 10), knots(0, 1, name="age")
    shapes = [make_curve(size, [0, sign, 3 * sign, 0]).shapes[0] for sign in (1, -1)]
    models = [
        AdditiveModel(Encoder((age, size)), np.zeros(1), (replace(shape, term=(1,)),), "identity") for shape in shapes
    ]
    found = explain.stability(models, X=[[0.5, 0.0], [0.7, 10.0]])
    assert (found.columns, found.points) == (("size",), ((0.0, 10.0),))
    assert found.overall == pytest.approx(2 * np.sqrt(2))


def test_stability_of_fitted_models(houses):
    frame, y = houses
    alone = {"max_steps": 30, "outer_bags": 1, "interactions": 0}
    models = [NeuralBasisRegressor(**alone, random_state=seed).fit(frame, y) for seed in range(4)]
    found = explain.stability(models)
    curves = np.stack([model.eval_terms(frame) for model in models])  # (models, N, T)
    expected = curves.std(axis=0, ddof=1).mean(axis=0)
    np.testing.assert_allclose(explain.stability(models, X=frame).by_column, expected)
    np.testing.assert_allclose(found.by_column, expected, rtol=1e-6)  # every row is at a knot
    assert found.to_pandas()["deviation"].tolist() == found.by_column.tolist()
    np.testing.assert_allclose(found.model.contributions(frame)[..., 0], curves.mean(axis=0))  # their mean is a model
    assert [shape.members.shape[1] for shape in found.model.shapes] == [4, 4]
    assert repr(found) == f"Stability(4 models, 2 columns, deviation {found.overall:.4g})"


def test_huge_columns_do_not_overflow():
    axis = Axis("size", "continuous", np.array([-1.7e308, 1.7e308]), np.array([0.0, 1.0]))
    models = [make_curve(axis, [0, sign, sign, 0]) for sign in (1, -1)]
    assert explain.stability(models, weighted=False).overall == pytest.approx(np.sqrt(2))


def test_models_that_cannot_be_compared_are_errors():
    curve, levels = make_curve(knots(0, 1), [0, 1, 2, 0]), make_curve(level_axis("size", "nominal", ["a"]), [0, 1, 0])
    with pytest.raises(ValueError, match="two or more models, or the members of one model; got 1"):
        explain.stability([curve])
    with pytest.raises(ValueError, match="does not store the tables of its members; pass a list"):
        explain.stability(curve)
    with pytest.raises(ValueError, match="same classes; got \\('score',\\) and \\('a', 'b', 'c'\\)"):
        explain.stability([make_model(), make_model(link="mlogit")])
    with pytest.raises(ValueError, match="column 'size' has levels in one model and numbers in another"):
        explain.stability([curve, levels])
    with pytest.raises(ValueError, match="no main effect in common"):
        explain.stability([curve, make_curve(knots(0, 1, name="age"), [0, 1, 2, 0])])
    with pytest.raises(ValueError, match="column 'size' of X has only missing values"):
        explain.stability([curve, curve], weighted=False, X=[[np.nan]])
    with pytest.raises(ValueError, match="the model has 1 columns, but the table has 2"):
        explain.stability([curve, curve], X=[[1.0, 2.0]])
