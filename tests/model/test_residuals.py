"""Residuals: ranks, weights, regions, interpolation; intervals and standard errors of models."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.special import expit
from scipy.stats import beta

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


def test_quantiles_are_interpolated_between_ranks():
    found = measure(np.arange(1.0, 31.0))  # rank 31 · 0.1 = 3.1 and 31 · 0.9 = 27.9
    np.testing.assert_allclose(found.interval(np.zeros(1), 0.8), [[3.1, 27.9]])


def test_fractional_weights_keep_the_order_of_quantiles():
    rng = np.random.default_rng(3)
    values, weights = rng.normal(size=50), rng.random(50) * 3
    found = measure(values, weights).quantiles[0]
    assert (np.diff(found) >= 0).all()
    assert found[[0, -1]].tolist() == [values.min(), values.max()]


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
    np.testing.assert_allclose(follow_rule(found["outputs"][0], fitted.predict(X)), fitted.predict_interval(X))
    assert "(1 - c) / 2" in found["rule"]
    assert json.loads(to_json(replace(fitted.model_, residuals=())))["residuals"] is None


def follow_rule(entry: dict, scores: np.ndarray) -> np.ndarray:
    """Bounds of coverage 0.9 by the rule of the JSON."""
    bounds = []
    for probability in (0.05, 0.95):
        by_region = [np.interp(probability, entry["probabilities"], own) for own in entry["quantiles"]]
        bounds.append(scores + np.interp(scores, entry["centres"], by_region))
    return np.transpose(bounds)


def test_models_without_residuals_say_what_to_do(fitted):
    X, y = draw_rows()
    whole = NeuralBasisRegressor(**QUICK, validation_size=0).fit(X, y)
    for model in (whole, whole.model_, merge([fitted, whole])):
        with pytest.raises(ValueError, match=r"has none: .* fit it with held-out rows, such as validation_size=0\.15"):
            model.predict_interval(X)
    with pytest.raises(ValueError, match="coverage must be a number"):
        fitted.predict_interval(X, coverage=90)


def test_the_score_of_two_classes_has_a_standard_error():
    X, y = draw_rows()
    fitted = NeuralBasisClassifier(**QUICK).fit(X, y > 55)
    found = fitted.predict_with_uncertainty(X)
    np.testing.assert_array_equal(found[:, 0], fitted.decision_function(X))
    assert (found[:, 1] > 0).all()


def measure_shares(scores, is_class, weights=None) -> Residuals:
    weights = np.ones(len(scores)) if weights is None else np.asarray(weights, dtype=float)
    return Residuals.measure_shares(np.asarray(scores, dtype=float), np.asarray(is_class, dtype=bool), weights)


@pytest.mark.parametrize("n_events", [0, 1, 30, 149, 150])
def test_bounds_of_a_share_are_quantiles_of_jeffreys_posterior(n_events):
    found = measure_shares(np.full(150, 0.7), np.arange(150) < n_events)
    bounds = expit(found.interval(np.array([0.7]), 0.9))
    np.testing.assert_allclose(bounds, [beta(n_events + 0.5, 150.5 - n_events).ppf([0.05, 0.95])], rtol=1e-6)
    assert np.isfinite(found.quantiles).all()
    assert (np.diff(found.quantiles) > 0).all()


@pytest.mark.parametrize("size", [1.0, 30.0, 1e4])
def test_the_centre_is_the_mean_probability_and_always_finite(size):
    scores = size * np.random.default_rng(7).normal(size=3000)
    found = measure_shares(scores, scores > 0)
    assert np.isfinite(found.quantiles).all()
    assert (np.diff(found.centres) > 0).all()
    if size == 1.0:
        parts = np.array_split(np.sort(scores), len(found.centres))
        np.testing.assert_allclose(expit(found.centres), [expit(part).mean() for part in parts], rtol=1e-9)


def test_a_weight_of_a_class_row_is_a_repetition():
    rng = np.random.default_rng(8)
    scores, counts = rng.normal(size=900), rng.integers(1, 4, 900)
    is_class = rng.random(900) < expit(scores)
    weighted = measure_shares(scores, is_class, counts)
    repeated = measure_shares(np.repeat(scores, counts), np.repeat(is_class, counts))
    np.testing.assert_allclose(weighted.quantiles, repeated.quantiles, atol=1e-9)
    np.testing.assert_allclose(weighted.centres, repeated.centres, rtol=0, atol=1e-12)


def draw_classes(n_classes: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    X, y = draw_rows(900)
    return X, np.array(["low", "mid", "top"])[np.digitize(y, [55] if n_classes == 2 else [50, 60])]


@pytest.fixture(scope="module", params=[2, 3])
def classifier(request) -> NeuralBasisClassifier:
    return NeuralBasisClassifier(**QUICK).fit(*draw_classes(request.param))


def test_a_loaded_classifier_gives_the_same_intervals(classifier, tmp_path):
    X, _ = draw_classes(2)
    found = classifier.predict_interval(X, 0.8)
    assert found.shape == ((900, 2) if len(classifier.classes_) == 2 else (900, 3, 2))
    assert ((found >= 0) & (found <= 1)).all()
    assert (found[..., 0] < found[..., 1]).all()
    classifier.save(tmp_path / "model.nbm")
    np.testing.assert_array_equal(load(tmp_path / "model.nbm").predict_interval(X, 0.8), found)
    wider = classifier.predict_interval(X, 0.95)
    assert (wider[..., 0] < found[..., 0]).all()
    assert (found[..., 1] < wider[..., 1]).all()


def test_the_json_of_classes_has_what_its_rule_needs(classifier):
    X, _ = draw_classes(2)
    found = json.loads(to_json(classifier))["residuals"]
    proba, bounds = classifier.predict_proba(X), classifier.predict_interval(X)
    columns = (proba[:, 1:], bounds[:, None]) if len(classifier.classes_) == 2 else (proba, bounds)
    for output, (own, expected) in enumerate(zip(columns[0].T, columns[1].swapaxes(0, 1), strict=True)):
        log_odds = follow_rule(found["outputs"][output], np.log(own / (1 - own)))
        np.testing.assert_allclose(1 / (1 + np.exp(-log_odds)), expected, rtol=1e-9)
    assert "1 / (1 + exp(-b))" in found["rule"]


def test_given_scores_move_the_interval_of_a_class():
    rng = np.random.default_rng(9)
    X, given = {"size": rng.normal(size=900)}, rng.normal(0, 3, 900)
    y = rng.random(900) < expit(X["size"] + given)
    fitted = NeuralBasisClassifier(**QUICK).fit(X, y, init_score=given)
    bounds = fitted.predict_interval(X, init_score=given)
    is_high = given > 2
    assert bounds[is_high, 0].mean() < y[is_high].mean() < bounds[is_high, 1].mean()
    assert np.abs(bounds - fitted.predict_interval(X)).max() > 0.3


def test_classes_without_residuals_say_what_to_do(classifier):
    X, y = draw_classes(len(classifier.classes_))
    whole = NeuralBasisClassifier(**QUICK, validation_size=0).fit(X, y)
    for model in (whole, whole.model_, merge([classifier, whole])):
        with pytest.raises(ValueError, match=r"has none: .* fit it with held-out rows, such as validation_size=0\.15"):
            model.predict_interval(X)


def test_more_than_100_classes_have_no_intervals():
    y = np.repeat(np.arange(101), 4)
    fitted = NeuralBasisClassifier(**QUICK).fit({"size": y + 0.5}, y)
    with pytest.raises(ValueError, match="or very many classes"):
        fitted.predict_interval({"size": [3.0]})


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
