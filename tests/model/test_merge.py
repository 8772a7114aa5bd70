"""Merged models: a model merged with itself, rows of a single model, levels, terms and bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuralbasis
from neuralbasis import AdditiveModel, NeuralBasisClassifier, NeuralBasisRegressor, merge
from neuralbasis.encoding import Encoder, continuous_axis, level_axis
from neuralbasis.model.density import smooth_density
from neuralbasis.model.shapes import Shape
from tests.models import MIXED, NUMERIC, build_model, tie_model


def draw_rows(model: AdditiveModel, rng: np.random.Generator, n_rows: int = 200) -> dict[str, list]:
    """Rows inside and outside the knots, with missing values and unseen levels."""
    table = {}
    for axis in model.encoder.axes:
        if axis.is_level:
            table[axis.name] = [*rng.choice([*axis.levels, "new"], n_rows - 1), None]
        else:
            table[axis.name] = [*rng.uniform(axis.knots[0] - 1, axis.knots[-1] + 1, n_rows - 1), None]
    return table


def line(values: list[float], scores: list[float], weights: list[float], intercept: float = 0.0) -> AdditiveModel:
    """A model of one continuous column "x" with a knot at each value."""
    axis = continuous_axis("x", np.array(values))
    table = np.zeros((len(values) + 2, 1))
    table[1:-1, 0] = scores
    shape = Shape((0,), (axis,), table, np.full_like(table, 0.1), np.r_[0.0, weights, 0.0])
    return AdditiveModel(Encoder((axis,)), np.array([intercept]), (shape,), "identity")


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10_000), st.sampled_from([(1,), (1, 2), (1, 2, 3)]), st.sampled_from([1, 3]))
def test_a_model_merged_with_itself_is_the_same_model(seed, orders, n_outputs):
    rng = np.random.default_rng(seed)
    link = "identity" if n_outputs == 1 else "mlogit"
    model = build_model(rng, NUMERIC[:3], orders, n_outputs, link, None if n_outputs == 1 else np.arange(3))
    rows = draw_rows(model, rng)
    # A random model may have non-zero cells without rows, such as missing values; merging sets them to 0.
    inside = {name: np.nan_to_num(np.array(column, float)).tolist() for name, column in rows.items()}
    both = merge([model, model])
    np.testing.assert_allclose(both.scores(inside), model.scores(inside), atol=1e-9)


def test_where_only_one_model_has_rows_its_scores_are_kept():
    low = line([0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [5.0, 5.0, 5.0], intercept=10.0)
    high = line([5.0, 6.0, 7.0], [-2.0, 0.0, 2.0], [1.0, 1.0, 1.0], intercept=10.0)
    both = merge([low, high])
    found = both.scores({"x": [0.0, 1.0, 2.0, 5.0, 6.0, 7.0]})[:, 0]
    np.testing.assert_allclose(found, [9.0, 10.0, 11.0, 8.0, 10.0, 12.0])


def test_models_with_equal_knots_are_weighted_by_their_rows_in_each_cell():
    first = line([0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [3.0, 2.0, 3.0])
    other = line([0.0, 1.0, 2.0], [1.0, 0.0, -1.0], [1.0, 2.0, 1.0])
    both = merge([first, other])
    np.testing.assert_allclose(both.scores({"x": [0.0, 1.0, 2.0]})[:, 0], [-0.5, 0.0, 0.5], atol=1e-12)
    np.testing.assert_allclose(both.shapes[0].weights, [0, 4, 4, 4, 0])
    weighed = merge([first, other], weights=[2.0, 1.0])
    np.testing.assert_allclose(weighed.scores({"x": [0.0, 2.0]})[:, 0], [-5 / 7, 5 / 7])


def test_the_spread_includes_the_disagreement_of_the_models():
    first, other = line([0.0, 1.0], [-1.0, 1.0], [1.0, 1.0]), line([0.0, 1.0], [-3.0, 3.0], [1.0, 1.0])
    shape = merge([first, other]).shapes[0]
    np.testing.assert_allclose(shape.spread[1:-1, 0], np.sqrt(0.1**2 + 1.0))
    assert merge([first, first]).shapes[0].spread[1, 0] == pytest.approx(0.1)


def test_a_weight_of_zero_leaves_a_model_out():
    first, other = line([0.0, 1.0], [-1.0, 1.0], [1.0, 1.0]), line([0.0, 1.0], [-3.0, 3.0], [1.0, 1.0])
    assert merge([first, other], weights=[1, 0]) is first


def test_a_model_without_a_term_contributes_zero():
    first = line([0.0, 1.0], [-1.0, 1.0], [1.0, 1.0])
    none = replace(first, shapes=())
    assert merge([first, replace(none, intercept=np.array([4.0]))]).scores({"x": [1.0]})[0, 0] == pytest.approx(
        (2 * 1.0 + 1 * 4.0) / 3
    )


def levels(names: list[str], scores: list[float], weights: list[float]) -> AdditiveModel:
    axis = level_axis("city", "nominal", names, np.array(weights))
    table = np.r_[0.0, scores, 0.0][:, None]
    shape = Shape((0,), (axis,), table, np.zeros_like(table), np.r_[0.0, weights, 0.0])
    return AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")


def test_levels_of_a_single_model_keep_its_differences():
    both = merge([levels(["Oslo", "Rome"], [-1.0, 1.0], [2.0, 2.0]), levels(["Rome", "Bern"], [-1.0, 1.0], [2.0, 2.0])])
    assert both.encoder.axes[0].levels == ("Oslo", "Rome", "Bern")
    # Rome is 2 above Oslo in one model, Bern 2 above Rome in the other.
    np.testing.assert_allclose(both.scores({"city": ["Oslo", "Rome", "Bern"]})[:, 0], [-2.0, 0.0, 2.0], atol=1e-12)
    assert both.scores({"city": ["Paris"]})[0, 0] == pytest.approx(both.intercept[0])


@pytest.mark.parametrize("kinds", [MIXED, NUMERIC])
def test_columns_in_another_order_are_found_by_name(kinds):
    rng = np.random.default_rng(3)
    model = build_model(rng, kinds, (1, 2))
    turned = replace(model, encoder=model.encoder.take(range(len(kinds) - 1, -1, -1)), shapes=tuple(
        Shape(tuple(sorted(len(kinds) - 1 - f for f in s.term)), s.axes[::-1],
              s.scores.transpose(*range(s.weights.ndim - 1, -1, -1), s.weights.ndim),
              s.spread.transpose(*range(s.weights.ndim - 1, -1, -1), s.weights.ndim), s.weights.T)
        for s in model.shapes
    ))  # fmt: skip
    rows = draw_rows(model, rng)
    np.testing.assert_allclose(turned.scores(rows), model.scores(rows), atol=1e-12)
    np.testing.assert_allclose(merge([model, turned]).scores(rows), merge([model, model]).scores(rows), atol=1e-9)


def test_tied_classes_are_merged_too():
    rng = np.random.default_rng(5)
    model = build_model(rng, NUMERIC[:2], (1, 2), 3, "mlogit", np.array(["a", "b", "c"]))
    tied = tie_model(rng, model, [0, 2])
    rows = np.random.default_rng(1).normal(0, 5, (50, 2))
    np.testing.assert_allclose(merge([tied, tied]).scores(rows), tied.scores(rows), atol=1e-9)


def test_merged_models_are_purified_and_can_be_saved(tmp_path):
    rng = np.random.default_rng(2)
    models = [build_model(rng, MIXED[:3], (1, 2)) for _ in range(3)]
    both = merge(models)
    for shape in both.shapes:
        for d in range(shape.weights.ndim):
            total = (smooth_density(shape.axes, shape.weights)[..., None] * shape.scores).sum(axis=d)
            np.testing.assert_allclose(total, 0, atol=1e-8)
    both.save(tmp_path / "merged.nbm")
    rows = draw_rows(both, rng)
    np.testing.assert_array_equal(neuralbasis.load(tmp_path / "merged.nbm").scores(rows), both.scores(rows))


def test_models_centred_over_different_rows_are_aligned_first():
    """Both models are score = x; their rows cover 0 … 2 and 1 … 3, so their shapes differ by a constant."""
    low = line([0.0, 1.0, 2.0], [-1.0, 0.0, 1.0], [1.0, 1.0, 1.0], intercept=1.0)
    high = line([1.0, 2.0, 3.0], [-1.0, 0.0, 1.0], [1.0, 1.0, 1.0], intercept=2.0)
    both = merge([low, high])
    np.testing.assert_allclose(both.scores({"x": [0.0, 0.5, 1.0, 2.0, 3.0]})[:, 0], [0.0, 0.5, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(both.shapes[0].spread[1:-1, 0], 0.1)


def test_a_merged_model_is_nearly_as_good_as_one_fitted_on_all_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    X[:1000, 0] -= 1  # the two models are fitted on different distributions
    y = np.sin(2 * X[:, 0]) + X[:, 1] ** 2 + rng.normal(0, 0.3, 2000)
    fresh = rng.normal(size=(1000, 2)) - [0.5, 0]
    truth = np.sin(2 * fresh[:, 0]) + fresh[:, 1] ** 2

    def fit(rows):
        return NeuralBasisRegressor(preset="fast", interactions=0, random_state=0).fit(X[rows], y[rows])

    def error(model):
        return float(np.sqrt(np.mean((model.predict(fresh) - truth) ** 2)))

    halves, both = [fit(slice(1000)), fit(slice(1000, 2000))], fit(slice(2000))
    merged = merge(halves)
    assert error(merged) < 0.8 * min(error(model) for model in halves)
    assert error(merged) < 1.5 * error(both)
    assert merged.summary.n_rows == 2000


def test_bad_input_is_named():
    first = line([0.0, 1.0], [-1.0, 1.0], [1.0, 1.0])
    other = levels(["a", "b"], [0.0, 1.0], [1.0, 1.0])
    with pytest.raises(ValueError, match="only some of them have city, x"):
        merge([first, other])
    with pytest.raises(ValueError, match="weights must be one number"):
        merge([first, first], weights=[1.0])
    with pytest.raises(ValueError, match="weights must be one number"):
        merge([first, first], weights=[0.0, 0.0])
    with pytest.raises(TypeError, match="call fit first"):
        merge([first, NeuralBasisClassifier()])
    with pytest.raises(ValueError, match="same link"):
        merge([first, replace(first, link="logit", classes=np.array([0, 1]))])
    named = replace(other, encoder=Encoder((replace(other.encoder.axes[0], name="x"),)))
    with pytest.raises(ValueError, match="column 'x' is continuous in one model and nominal in another"):
        merge([first, named])
    with pytest.raises(TypeError, match="expected a list of models, such as"):
        merge(first)
    with pytest.raises(ValueError, match="expected at least one model"):
        merge([])
