"""Inference: standard errors that match the errors, a test that holds its level, concurvity, and what is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor


def fit(X, y, **options):
    kind = NeuralBasisRegressor if y.dtype == float else NeuralBasisClassifier
    return kind(**{"random_state": 0, "interactions": 0, "n_jobs": 1, **options}).fit(X, y)


def find_evidence(model, index=0):
    return model.model_.shapes[index].evidence


def make_table(n_rows, n_columns=3, seed=0, noise=0.5):
    """Uniform columns; the first has the effect sin(6 x), the second 2 x, the others none."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(size=(n_rows, n_columns))
    return X, np.sin(6 * X[:, 0]) + 2 * X[:, 1] + noise * rng.normal(size=n_rows)


def read_errors(model, X, index):
    """Standard errors of a main effect at rows."""
    shape = model.model_.shapes[index]
    return np.interp(X[:, index], shape.axes[0].knots, shape.spread[1:-1, 0])


@pytest.fixture(scope="module")
def smooth():
    X, y = make_table(1500)
    return X, fit(X, y)


def test_standard_errors_have_the_size_of_the_errors(smooth):
    X, model = smooth
    truth = np.stack([np.sin(6 * X[:, 0]), 2 * X[:, 1], 0 * X[:, 2]], axis=1)
    errors = model.eval_terms(X) - (truth - truth.mean(axis=0))
    expected = np.stack([read_errors(model, X, index) for index in range(3)], axis=1)
    assert 0.9 <= (np.abs(errors) <= 1.96 * expected).mean() <= 1.0
    assert 0.6 < np.sqrt((errors**2).mean() / (expected**2).mean()) < 1.3


def test_standard_errors_shrink_with_the_root_of_the_number_of_rows():
    sizes = []
    for n_rows in (500, 2000):
        X, y = make_table(n_rows, seed=1)
        sizes.append(np.mean([read_errors(fit(X, y), X, index).mean() for index in (0, 1)]))
    assert 1.5 < sizes[0] / sizes[1] < 2.7


def test_effects_are_told_from_noise(smooth):
    _, model = smooth
    assert [find_evidence(model, index).p_values[0] < 1e-6 for index in range(3)] == [True, True, False]


@pytest.mark.parametrize("task", ["regression", "binary"])
def test_columns_without_effect_are_rejected_at_the_level_of_the_test(task):
    """40 columns over five tables, half of them correlated with a relevant column; two rejections are expected."""
    p_values = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        relevant, other = rng.normal(size=(2, 600, 1))
        copies = 0.8 * relevant + 0.6 * rng.normal(size=(600, 4))
        X = np.hstack([relevant, rng.normal(size=(600, 4)), copies])
        score = np.tanh(2 * relevant[:, 0]) + other[:, 0]
        y = score if task == "regression" else (score > 0).astype(int)
        model = fit(X, y, max_steps=100, boosted_steps=False)
        assert find_evidence(model).p_values[0] < 1e-4
        p_values += [find_evidence(model, index).p_values[0] for index in range(1, 9)]
    assert (np.array(p_values) < 0.05).sum() <= 6
    assert 0.3 < np.mean(p_values) < 0.7


def test_columns_that_replace_each_other_have_concurvity():
    rng = np.random.default_rng(0)
    first, alone = rng.normal(size=(2, 800))
    X = np.stack([first, first + 0.1 * rng.normal(size=800), alone], axis=1)
    model = fit(X, X[:, 0] + X[:, 2] + 0.3 * rng.normal(size=800), max_steps=100)
    twin, other = find_evidence(model, 0), find_evidence(model, 2)
    assert (twin.concurvity > 0.8, twin.partner, twin.partner_concurvity > 0.8) == (True, (1,), True)
    assert other.concurvity < 0.2


def test_a_band_of_the_whole_curve_is_wider_than_that_of_a_point(smooth):
    _, model = smooth
    assert all(1.96 < find_evidence(model, index).multipliers[0] < 4.5 for index in range(3))


def test_importances_have_errors_of_the_size_of_their_scatter():
    fits = [fit(*make_table(400, seed=seed), max_steps=150, boosted_steps=False) for seed in range(8)]
    importances = np.array([model.term_importances()[:2] for model in fits])
    errors = np.array([[find_evidence(model, index).importance_errors[0] for index in (0, 1)] for model in fits])
    assert (importances.std(axis=0, ddof=1) / errors.mean(axis=0) > 0.4).all()
    assert (importances.std(axis=0, ddof=1) / errors.mean(axis=0) < 2.5).all()


def test_errors_have_the_unit_of_the_target():
    X, y = make_table(300)
    small, large = fit(X, y, max_steps=60).model_.shapes[0], fit(X, 1024.0 * y, max_steps=60).model_.shapes[0]
    np.testing.assert_allclose(large.spread, 1024 * small.spread, rtol=1e-6)
    np.testing.assert_allclose(large.evidence.p_values, small.evidence.p_values, rtol=1e-6)


def test_a_weight_is_a_repetition():
    X, y = make_table(200)
    weights = np.random.default_rng(0).integers(1, 4, size=200)
    weighted = fit_weighted(X, y, weights)
    repeated = fit_weighted(np.repeat(X, weights, axis=0), np.repeat(y, weights), np.ones(weights.sum()))
    for one, other in zip(weighted.model_.shapes, repeated.model_.shapes, strict=True):
        np.testing.assert_allclose(one.spread, other.spread, rtol=1e-9)


def fit_weighted(X, y, weights):
    return NeuralBasisRegressor(random_state=0, interactions=0, max_steps=60).fit(X, y, sample_weight=weights)


def test_every_class_has_evidence():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    y = np.digitize(X[:, 0] + 0.5 * rng.normal(size=600), [-0.4, 0.4])
    evidence = find_evidence(fit(X, y, max_steps=80))
    assert evidence.p_values.shape == evidence.multipliers.shape == (3,)
    assert evidence.p_values.min() < 1e-6


def test_a_constant_column_has_no_effect():
    X, y = make_table(200)
    X[:, 2] = 7.0
    evidence = find_evidence(fit(X, y, max_steps=60), 2)
    assert (evidence.p_values[0], evidence.concurvity, evidence.partner) == (1.0, 0.0, None)


def test_interactions_without_evidence_are_dropped_and_requested_ones_kept():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(1000, 6))
    y = X[:, 0] + 2 * X[:, 1] * X[:, 2] + 0.3 * rng.normal(size=1000)
    model = fit(X, y, interactions="auto", max_steps=150)
    pairs = [shape for shape in model.model_.shapes if len(shape.term) == 2]
    assert (1, 2) in [shape.term for shape in pairs]
    assert len(pairs) <= 4
    assert next(shape for shape in pairs if shape.term == (1, 2)).evidence.p_values[0] < 1e-6
    requested = fit(X, y, interactions=[(3, 4)], max_steps=60)
    assert requested.model_.shapes[-1].term == (3, 4)
    assert requested.model_.shapes[-1].evidence.p_values[0] > 0.01


def test_an_updated_model_has_no_evidence():
    X, y = make_table(300)
    model = fit(X, y, max_steps=60)
    model.update(X[:100], y[:100])
    assert find_evidence(model) is None


def count_turns(model, index=0):
    steps = np.diff(np.asarray(model.model_.shapes[index].scores)[1:-1, 0])
    signs = np.sign(steps[np.abs(steps) > 1e-9])
    return int((signs[1:] != signs[:-1]).sum())


def test_curves_have_few_turns():
    """sin(6 x) turns twice on [0, 1]; the line never turns."""
    X, y = make_table(800, seed=3, noise=1.0)
    model = fit(X, y)
    assert count_turns(model, 0) <= 4
    assert count_turns(model, 1) <= 2


def test_without_smoothness_curves_stay_as_they_are():
    X, y = make_table(800, seed=3, noise=1.0)
    assert count_turns(fit(X, y, smoothness=0.0)) > count_turns(fit(X, y))


def test_an_unseen_level_has_the_deviation_of_the_levels():
    rng = np.random.default_rng(0)
    heights, levels = rng.normal(size=40), rng.integers(40, size=800)
    X = {"town": [f"town {k:02}" for k in levels], "size": rng.normal(size=800)}
    shape = fit(X, heights[levels] + 0.3 * rng.normal(size=800), max_steps=100).model_.shapes[0]
    seen, unseen = shape.spread[1:-1, 0], shape.spread[-1, 0]
    assert 0.7 * heights.std() < unseen < 1.5 * heights.std()
    assert seen.max() < unseen / 2


def test_a_copy_of_a_column_has_no_effect_of_its_own():
    """Levels of a copy differ in a tenth of the rows; of ten copies, two or less may be rejected."""
    p_values = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        towns = rng.integers(60, size=600)
        copies = np.where(rng.random(600) < 0.9, towns, rng.permutation(towns))
        y = rng.normal(size=60)[towns] + 0.5 * rng.normal(size=600)
        X = {"town": [f"town {k}" for k in towns], "copy": [f"town {k}" for k in copies]}
        first, second = fit(X, y, max_steps=60, boosted_steps=False).model_.shapes
        assert first.evidence.p_values[0] < 1e-6
        p_values.append(second.evidence.p_values[0])
    assert (np.array(p_values) < 0.05).sum() <= 2
