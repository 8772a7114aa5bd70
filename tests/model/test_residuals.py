"""Residuals: ranks, weights, regions, interpolation; intervals and standard errors of models."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, load, merge
from neuralbasis.export import to_json
from neuralbasis.model.residuals import Residuals
from tests.models import build_model, draw_numbers, name_columns, slow_contributions, tie_model
from tests.sparse_tables import build_models, draw_table

QUICK = {"max_steps": 30, "outer_bags": 4, "interactions": 0, "random_state": 0}


def measure(residuals, weights=None, scores=0.0) -> Residuals:
    """Residuals of rows with these scores, by default all the same."""
    residuals = np.asarray(residuals, dtype=float)
    weights = np.ones(len(residuals)) if weights is None else np.asarray(weights, dtype=float)
    return Residuals.measure(np.broadcast_to(np.asarray(scores, dtype=float), residuals.shape), residuals, weights)


def test_bounds_are_order_statistics_of_n_plus_one():
    residuals = np.random.default_rng(0).permutation(np.arange(1.0, 100.0))  # 99 rows: rank 100 · probability
    found = measure(residuals)
    np.testing.assert_allclose(found.interval(np.array([10.0]), 0.9), [[15.0, 105.0]])
    np.testing.assert_allclose(found.interval(np.array([10.0]), 0.8), [[20.0, 100.0]])
    assert found.read(np.array([0.0, 0.5, 1.0])).tolist() == [[1.0, 50.0, 99.0]]


def test_ranks_are_rounded_away_from_the_median():
    found = measure(np.arange(1.0, 31.0))  # rank 31 · 0.1 = 3.1 and 31 · 0.9 = 27.9
    np.testing.assert_allclose(found.interval(np.zeros(1), 0.8), [[3.0, 28.0]])


def test_too_few_rows_give_the_extreme_residuals():
    assert measure([2.0, -1.0, 0.5]).interval(np.zeros(1), 0.9).tolist() == [[-1.0, 2.0]]
    assert measure([2.0]).interval(np.zeros(1), 0.5).tolist() == [[2.0, 2.0]]


def test_a_weight_is_a_repetition():
    rng = np.random.default_rng(1)
    scores, residuals, counts = rng.normal(size=900), rng.normal(size=900), rng.integers(1, 4, 900)
    weighted = measure(residuals, counts, scores)
    repeated = measure(np.repeat(residuals, counts), None, np.repeat(scores, counts))
    np.testing.assert_array_equal(weighted.quantiles, repeated.quantiles)
    np.testing.assert_allclose(weighted.centres, repeated.centres, rtol=0, atol=1e-12)


def test_the_order_of_rows_does_not_matter():
    rng = np.random.default_rng(2)
    scores, residuals, weights, order = *rng.normal(size=(2, 700)), rng.random(700), rng.permutation(700)
    one, other = measure(residuals, weights, scores), measure(residuals[order], weights[order], scores[order])
    np.testing.assert_array_equal(one.quantiles, other.quantiles)
    np.testing.assert_allclose(one.centres, other.centres, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("n_rows", "n_regions"), [(20, 1), (299, 1), (300, 2), (1500, 10), (9000, 20)])
def test_regions_have_150_rows_and_are_at_most_20(n_rows, n_regions):
    scores = np.random.default_rng(3).permutation(n_rows).astype(float)
    found = measure(np.zeros(n_rows), None, scores)
    assert len(found.centres) == n_regions
    np.testing.assert_allclose(found.centres, (np.arange(n_regions) + 0.5) * n_rows / n_regions - 0.5, atol=0.51)


def test_equal_scores_stay_in_one_region():
    scores = np.repeat([1.0, 2.0, 7.0], [500, 100, 400])
    found = measure(scores * np.tile([-1.0, 1.0], 500), None, scores)
    assert set(found.centres.tolist()) <= {1.0, 2.0, 7.0}
    assert found.interval(np.array([1.0, 7.0]), 0.9).tolist() == [[0.0, 2.0], [0.0, 14.0]]


def test_bounds_are_linear_between_centres_and_in_probability():
    found = Residuals(np.array([0.0, 10.0]), np.array([0.0, 0.5, 1.0]), np.array([[-1.0, 0.0, 1.0], [-3.0, 0.0, 5.0]]))
    assert found.interval(np.array([-5.0, 5.0, 20.0]), 0.5).tolist() == [[-5.5, -4.5], [4.0, 6.5], [18.5, 22.5]]


@pytest.mark.parametrize("size", [1e-200, 1.0, 1e150])
def test_any_unit_gives_the_same_interval(size):
    rng = np.random.default_rng(4)
    scores, residuals = rng.normal(size=(2, 600))
    expected = measure(residuals, None, scores).interval(scores, 0.9)
    found = measure(size * residuals, None, size * scores).interval(size * scores, 0.9)
    np.testing.assert_allclose(found, size * expected, rtol=1e-9, atol=1e-9 * size)


@pytest.mark.parametrize("coverage", [0, 1, -0.1, 90, np.nan, "0.9", None, True])
def test_other_coverages_are_refused(coverage):
    with pytest.raises(ValueError, match=r"coverage must be a number between 0 and 1, such as 0\.9, not"):
        measure([1.0, 2.0]).interval(np.zeros(1), coverage)


def draw_rows(n_rows: int = 600) -> tuple[dict[str, np.ndarray], np.ndarray]:
    rng = np.random.default_rng(5)
    table = {"size": rng.normal(size=n_rows), "colour": rng.choice(["red", "blue"], n_rows)}
    return table, 50 + 10 * (table["size"] + (table["colour"] == "red") + 0.5 * rng.normal(size=n_rows))


@pytest.fixture(scope="module")
def fitted() -> NeuralBasisRegressor:
    return NeuralBasisRegressor(**QUICK).fit(*draw_rows())


def test_a_loaded_model_gives_the_same_intervals(fitted, tmp_path):
    X, y = draw_rows()
    found = fitted.predict_interval(X, 0.8)
    assert found.shape == (600, 2)
    assert abs(((found[:, 0] <= y) & (y <= found[:, 1])).mean() - 0.8) < 0.05
    fitted.save(tmp_path / "model.nbm")
    loaded = load(tmp_path / "model.nbm")
    np.testing.assert_array_equal(loaded.predict_interval(X, 0.8), found)
    uncertain = loaded.predict_with_uncertainty(X)
    np.testing.assert_allclose(uncertain, fitted.predict_with_uncertainty(X), rtol=1e-5)
    row = {name: values[0] for name, values in X.items()}
    np.testing.assert_allclose(loaded.predict_interval(row, 0.8), found[:1], rtol=1e-12)


def test_a_higher_coverage_contains_a_lower_one(fitted):
    X, _ = draw_rows()
    bounds = [fitted.predict_interval(X, coverage) for coverage in (0.1, 0.5, 0.9, 0.99, 0.9999)]
    for inner, outer in pairwise(bounds):
        assert (outer[:, 0] <= inner[:, 0]).all()
        assert (inner[:, 1] <= outer[:, 1]).all()


def test_given_scores_move_the_interval():
    X, y = draw_rows()
    given = np.linspace(-300, 300, len(y))
    fitted = NeuralBasisRegressor(**QUICK).fit(X, y + given, init_score=given)
    low, high = fitted.predict_interval(X, init_score=given).T
    assert abs(((low <= y + given) & (y + given <= high)).mean() - 0.9) < 0.05
    assert (high - low).mean() < 40
    moved = fitted.predict_with_uncertainty(X, init_score=given) - fitted.predict_with_uncertainty(X)
    np.testing.assert_allclose(moved, np.c_[given, np.zeros(len(y))], atol=1e-9)


def test_the_json_has_what_its_rule_needs(fitted):
    X, _ = draw_rows()
    found = json.loads(to_json(fitted))["residuals"]
    scores, bounds = fitted.predict(X), []
    for probability in (0.05, 0.95):
        by_region = [np.interp(probability, found["probabilities"], own) for own in found["quantiles"]]
        bounds.append(scores + np.interp(scores, found["centres"], by_region))
    np.testing.assert_allclose(np.transpose(bounds), fitted.predict_interval(X), rtol=1e-12)
    assert "(1 - c) / 2" in found["rule"]
    assert json.loads(to_json(replace(fitted.model_, residuals=None)))["residuals"] is None


def test_models_without_residuals_say_what_to_do(fitted):
    X, y = draw_rows()
    whole = NeuralBasisRegressor(**QUICK, validation_size=0).fit(X, y)
    for model in (whole, whole.model_, merge([fitted, whole])):
        with pytest.raises(ValueError, match=r"has none: .* fit it with held-out rows, such as validation_size=0\.15"):
            model.predict_interval(X)
    with pytest.raises(ValueError, match="coverage must be a number"):
        fitted.predict_interval(X, coverage=90)


def test_classes_have_no_intervals():
    X, y = draw_rows()
    fitted = NeuralBasisClassifier(**QUICK).fit(X, y > 55)
    assert not hasattr(fitted, "predict_interval")
    assert fitted.model_.residuals is None
    with pytest.raises(AttributeError, match="predict_interval needs a regression; a model of classes has predict_pro"):
        fitted.model_.predict_interval(X)
    found = fitted.predict_with_uncertainty(X)
    np.testing.assert_array_equal(found[:, 0], fitted.decision_function(X))
    assert (found[:, 1] > 0).all()


@pytest.mark.parametrize("n_outputs", [1, 3])
def test_the_standard_error_is_the_root_of_all_squared_spreads(n_outputs):
    rng = np.random.default_rng(6)
    link, classes = ("identity", None) if n_outputs == 1 else ("mlogit", np.arange(3))
    model = build_model(rng, ("continuous", "nominal"), (1, 2), n_outputs, link, classes)
    model = model if n_outputs == 1 else tie_model(rng, model, [0])
    numbers = draw_numbers(rng, model.encoder.axes, 30)
    shapes = tuple(replace(build, scores=np.square(build.spread)) for build in map(as_table, model.shapes))
    expected = np.sqrt(slow_contributions(replace(model, shapes=shapes), numbers).sum(axis=1))
    table = name_columns(model.encoder.axes, numbers)
    found = model.predict_with_uncertainty(table).reshape(30, n_outputs, 2)
    np.testing.assert_allclose(found[..., 1], expected, rtol=1e-9)
    np.testing.assert_array_equal(found[..., 0], model.scores(table))


def as_table(shape):
    """Any shape as a plain table."""
    from neuralbasis.model.shapes import Shape

    return Shape(shape.term, shape.axes, shape.scores, shape.spread, shape.weights)


def test_the_standard_error_of_a_wide_model_reads_its_tables():
    model = build_models(draw_table(3))[0]
    rows = draw_table(4)[:20]
    plain = replace(model, shapes=tuple(map(as_table, model.shapes)))
    expected = plain.predict_with_uncertainty(rows)
    for table in (rows, sp.csr_array(rows)):
        np.testing.assert_allclose(model.predict_with_uncertainty(table), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", [1e-200, 1e148])
def test_standard_errors_of_any_size_are_finite(size):
    X, y = draw_rows(200)
    fitted, scaled = (NeuralBasisRegressor(**QUICK).fit(X, unit * y) for unit in (1.0, size))
    expected = fitted.predict_with_uncertainty(X)
    np.testing.assert_allclose(scaled.predict_with_uncertainty(X) / size, expected, rtol=1e-3, atol=1e-3)
