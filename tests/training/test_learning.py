"""Whole fits: what they learn, seeds, threads, weights and given scores."""

import numpy as np
import pandas as pd
import pytest
import torch

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from tests.training.problems import SMALL, draw_additive, draw_noisy


def test_learns_a_known_additive_function():
    X, y = draw_additive(800)
    model = NeuralBasisRegressor(outer_bags=2, interactions=0).fit(X, y)
    T, truth = draw_additive(1000, seed=1)
    assert model.score(T, truth) > 0.98
    contributions = model.eval_terms(T)
    for index, part in enumerate([np.sin(6 * T[:, 0]), (T[:, 1] > 0.5) * 1.0, 2 * T[:, 2]]):
        rest = contributions[:, index] - part
        assert 1 - rest.var() / part.var() > 0.97


@pytest.mark.parametrize(
    "parameters", [{}, {"network__dropout": 0.2, "network__basis_dropout": 0.2}, {"network__engine": "exact"}], ids=str
)
def test_same_seed_same_model_other_seed_other_model(parameters):
    X, y = draw_noisy(120)

    def fit(seed):
        return NeuralBasisRegressor(**{**SMALL, "random_state": seed, "max_steps": 40, **parameters}).fit(X, y)

    torch.manual_seed(1)
    first = fit(3)
    torch.manual_seed(2)  # the global state must not matter
    second = fit(3)
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    assert first.history_.validation == second.history_.validation
    assert np.abs(first.predict(X) - fit(4).predict(X)).max() > 1e-3
    drawn = [fit(np.random.RandomState(5)).predict(X) for _ in range(2)]
    np.testing.assert_array_equal(*drawn)


def test_fitting_leaves_the_global_generators_alone():
    X, y = draw_noisy(60)
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    before, numpy_before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    NeuralBasisRegressor(**SMALL, max_steps=10, network__dropout=0.5).fit(X, y)
    assert torch.equal(torch.get_rng_state(), before)
    np.testing.assert_array_equal(np.random.get_state()[1], numpy_before)  # noqa: NPY002


@pytest.mark.parametrize("outer_bags", [1, 3])  # one group of members on all threads, or one per thread
@pytest.mark.parametrize("interactions", [0, 2])
def test_the_number_of_threads_changes_nothing(interactions, outer_bags, monkeypatch):
    monkeypatch.setattr("neuralbasis.training.lookup.MIN_WORK", 1)  # threads even for little work
    X, y = draw_additive(600)
    options = {**SMALL, "max_steps": 15, "interactions": interactions, "outer_bags": outer_bags}
    one, two, five = (NeuralBasisRegressor(**options, n_jobs=n).fit(X, y) for n in (1, 2, 5))
    for other in (two, five):
        np.testing.assert_array_equal(one.predict(X), other.predict(X))
        assert one.history_.validation == other.history_.validation


@pytest.mark.parametrize("weight", [20.0, 0.05, 0.3])
def test_a_weighted_fit_follows_the_heavy_half(weight):
    x = np.random.default_rng(0).random((400, 1))
    rising = np.arange(400) % 2 == 0
    y = np.where(rising, x[:, 0], -x[:, 0])
    model = NeuralBasisRegressor(**{**SMALL, "outer_bags": 8}).fit(x, y, sample_weight=np.where(rising, weight, 1.0))
    expected = x[:, 0] * (weight - 1) / (weight + 1)
    assert np.sqrt(np.mean((model.predict(x) - expected) ** 2)) < 0.06


def test_given_scores_of_a_regression_leave_the_remainder():
    X, _ = draw_additive(500)
    base, rest = 20 + 30 * X[:, 0], np.sin(6 * X[:, 1])
    model = NeuralBasisRegressor(**SMALL).fit(X, base + rest, init_score=base)
    assert 1 - np.var(model.predict(X) - rest) / np.var(rest) > 0.98
    assert np.mean(model.predict(X)) == pytest.approx(rest.mean(), abs=0.02)
    np.testing.assert_allclose(model.predict(X, init_score=base), base + model.predict(X))
    importance = model.term_importances()
    assert importance[1] > 10 * max(importance[0], importance[2])


def test_given_scores_of_two_classes_leave_the_remainder():
    rng = np.random.default_rng(0)
    X = rng.random((4000, 2))
    base, rest = 4 * (X[:, 0] - 0.5), 2 * np.sin(6 * X[:, 1])
    y = (rng.random(4000) < 1 / (1 + np.exp(-base - rest))).astype(int)
    model = NeuralBasisClassifier(**SMALL).fit(X, y, init_score=base)
    assert np.corrcoef(model.decision_function(X), rest)[0, 1] ** 2 > 0.95
    importance = model.term_importances()
    assert importance[1] > 5 * importance[0]
    alone = NeuralBasisClassifier(**SMALL).fit(X, y).term_importances()
    assert alone[0] > 5 * importance[0]


def test_a_table_of_levels_only_fits_the_means_of_the_levels():
    levels = np.repeat(["x", "y", "z"], 100)
    y = np.repeat([1.0, 2.0, 6.0], 100)
    for engine in ("grid", "exact"):
        model = NeuralBasisRegressor(**SMALL, network__engine=engine).fit(pd.DataFrame({"level": levels}), y)
        np.testing.assert_allclose(model.predict({"level": ["x", "y", "z"]}), [1, 2, 6], atol=0.15)


def test_a_constant_target_is_predicted():
    X, _ = draw_noisy(50)
    model = NeuralBasisRegressor(**SMALL, max_steps=20).fit(X, np.full(50, 0.1))
    np.testing.assert_allclose(model.predict(X), 0.1, atol=1e-6)


def test_rare_classes_are_found():
    rng = np.random.default_rng(0)
    X = rng.random((3000, 2))
    y = (X[:, 0] > 0.99).astype(int)
    model = NeuralBasisClassifier(**SMALL).fit(X, y)
    scores = model.decision_function(X)
    assert scores[y == 1].mean() > 0 > scores[y == 0].mean()
    assert model.predict_proba(X)[:, 1].mean() == pytest.approx(y.mean(), rel=0.25)


def test_output_penalty_shrinks_contributions_in_both_engines():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = X[:, 0] + rng.normal(size=300) * 0.1
    for engine in ("grid", "exact"):
        spans = []
        for penalty in (0.0, 10.0):
            model = NeuralBasisRegressor(
                network__engine=engine, network__output_penalty=penalty, max_steps=60, outer_bags=1,
                early_stopping_rounds=0, smoothness=0, interactions=0,
            ).fit(X, y)  # fmt: skip
            spans.append(np.ptp(model.term_scores_[0]))
        assert spans[1] < 0.3 * spans[0], engine
