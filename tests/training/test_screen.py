"""Screening: interactions are ranked by what they explain of the residuals, within what is requested and allowed."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import chi2

from tests.training.test_schedule import MAINS, TASKS, draw, find_loss, make_estimator, make_target


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_a_product_is_ranked_first_and_learned(task, staged):
    X, noise = draw(1200)
    y = make_target(X[:, 0] * X[:, 2] + 0.3 * X[:, 1] + 0.05 * noise, task)
    train, test = slice(0, 600), slice(600, 1200)
    paired = make_estimator(task, interactions=1, network__staged=staged).fit(X[train], y[train])
    first, *others = paired.interaction_ranking_
    name, features, strength, chosen = first
    assert (name, features, chosen) == ("feature_0000 & feature_0002", (0, 2), True)
    assert (first.name, first.features, first.strength, first.chosen) == (name, features, strength, chosen)
    assert all(type(item.strength) is float for item in paired.interaction_ranking_)
    assert [item.chosen for item in others] == [False] * 5
    assert first.strength > 5 * max(item.strength for item in others)
    assert paired.term_features_ == [*MAINS, (0, 2)]
    alone = make_estimator(task, interactions=0).fit(X[train], y[train])
    assert alone.interaction_ranking_ == []
    losses = [find_loss(estimator, X[test], y[test]) for estimator in (paired, alone)]
    assert losses[0] < {"regression": 0.1, "binary": 0.6, "multiclass": 0.7}[task] * losses[1]


def test_interactions_are_automatic():
    X, noise = draw()
    y = X[:, 0] * X[:, 1] + 0.1 * noise
    model = make_estimator(boosted_steps=False).fit(X, y)  # five times four columns: all six pairs that exceed noise
    assert model.interaction_ranking_[0].features == (0, 1)
    assert sorted(item.features for item in model.interaction_ranking_) == list(combinations(range(4), 2))
    reach = (chi2.isf(0.3 / 6, 1) - 1) / len(X)
    assert all(item.strength > reach for item in model.interaction_ranking_ if item.chosen)
    assert model.interaction_ranking_[0].chosen
    chosen = [item.features for item in model.interaction_ranking_ if item.chosen]
    assert model.term_features_ == [*MAINS, *sorted(chosen)]
    importance = dict(zip(model.term_features_, model.term_importances(), strict=True))
    assert importance[0, 1] > 5 * max(importance[term] for term in importance if term != (0, 1))
    history = model.history_
    n_main, n_pairs = history.stage.count("main effects"), history.stage.count("pairs")
    assert history.stage == ["main effects"] * n_main + ["pairs"] * n_pairs + ["shares"]
    assert history.steps == sorted(history.steps)
    assert history.steps[n_main] - history.steps[n_main - 1] <= 60 // 25
    assert history.seconds == sorted(history.seconds)
    assert history.best >= n_main
    assert history.validation[history.best] < 0.2 * min(history.validation[:n_main])


@pytest.mark.parametrize(("requested", "count"), [(1, 1), (3, 3), (0.5, 2), ("1x", 4), ("1.5x", 6), (100, 6)])
def test_the_requested_number_of_pairs_is_trained(requested, count):
    X, noise = draw(200)
    model = make_estimator(interactions=requested, max_steps=5, validation_size=0).fit(X, noise)
    chosen = sorted(item.features for item in model.interaction_ranking_ if item.chosen)
    assert len(model.interaction_ranking_) == 6
    assert len(chosen) == count
    assert model.term_features_ == [*MAINS, *chosen]


@pytest.mark.parametrize("n_rows", [6000, 12_000])
def test_automatic_interactions_have_a_false_discovery_rate_above_10_000_rows(n_rows):
    X, noise = draw(n_rows, 8, seed=2)
    y = X[:, 0] * X[:, 1] + 0.06 * X[:, 2] * X[:, 3] + 0.05 * X[:, 4] * X[:, 5] + noise
    ranking = make_estimator(interactions="auto", boosted_steps=False).fit(X, y).interaction_ranking_
    strengths, ranks = np.array([item.strength for item in ranking]), np.arange(1, len(ranking) + 1)
    reach = (chi2.isf(0.3 * (ranks if n_rows > 10_000 else 1) / len(ranking), 1) - 1) / n_rows
    n_chosen = 1 + np.flatnonzero(strengths > reach)[-1]
    assert [ranking[0].features, ranking[0].chosen] == [(0, 1), True]
    assert not any(item.chosen for item in ranking[n_chosen:])


@pytest.mark.parametrize("task", TASKS)
def test_automatic_interactions_of_noise_are_rarely_chosen(task):
    chosen = 0
    for seed in range(24):
        X, noise = draw(300, 6, seed)
        model = make_estimator(task, max_steps=5).fit(X, make_target(noise, task))
        chosen += any(item.chosen for item in model.interaction_ranking_)
    assert chosen <= 14  # the chance is about 0.3 each, 0.4 with three classes


@pytest.mark.parametrize("seed", range(4))
def test_a_pair_that_cannot_interact_is_not_chosen_before_one_that_can(seed):
    """A constant column interacts with no other; the strengths of noise are below 0."""
    X, noise = draw(300, seed=seed)
    X[:, 1] = 7.0
    model = make_estimator(interactions=3, max_steps=5, validation_size=0).fit(X, noise)
    assert sorted(item.features for item in model.interaction_ranking_ if item.chosen) == [(0, 2), (0, 3), (2, 3)]


@pytest.mark.parametrize("staged", [True, False])
def test_a_planted_triple_is_found(staged):
    X, noise = draw(1600)
    y = 3 * X[:, 0] * X[:, 1] * X[:, 3] + 0.1 * noise
    train, test = slice(0, 800), slice(800, 1600)
    options = {"network__staged": staged, "max_steps": 120}
    model = make_estimator(interactions={2: "all", 3: 1}, **options).fit(X[train], y[train])
    triples = [item for item in model.interaction_ranking_ if len(item.features) == 3]
    assert [item.features for item in triples if item.chosen] == [(0, 1, 3)] == [triples[0].features]
    assert len(triples) == 4
    assert [term for term in model.term_features_ if len(term) == 3] == [(0, 1, 3)]
    assert model.score(X[test], y[test]) > 0.85
    assert make_estimator(interactions="all", **options).fit(X[train], y[train]).score(X[test], y[test]) < 0.2
    if staged:
        assert model.history_.best > model.history_.stage.index("triples")


@pytest.mark.parametrize("staged", [True, False])
def test_triples_are_searched_where_all_pairs_are_in_the_model(staged):
    X, noise = draw(200, 5)
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3)]
    model = make_estimator(interactions={2: pairs, 3: 1}, network__staged=staged, max_steps=5, validation_size=0).fit(
        X, noise
    )
    assert [(item.features, item.chosen) for item in model.interaction_ranking_] == [((0, 1, 2), True)]


def test_triples_need_pairs_unless_all_are_requested():
    X, noise = draw(200)
    model = make_estimator(interactions={2: 0, 3: 3}, max_steps=5).fit(X, noise)
    assert (model.interaction_ranking_, model.term_features_) == ([], MAINS)
    model = make_estimator(interactions={2: 0, 3: "all"}, max_steps=5, validation_size=0).fit(X, noise)
    assert [term for term in model.term_features_ if len(term) == 3] == list(combinations(range(4), 3))


@pytest.mark.parametrize("staged", [True, False])
def test_excluded_terms_are_neither_trained_nor_ranked(staged):
    X, noise = draw(400)
    y = X[:, 0] * X[:, 1] + X[:, 3] + 0.1 * noise
    options = {"interactions": {2: "all", 3: "all"}, "max_steps": 5, "network__staged": staged, "validation_size": 0}
    model = make_estimator(**options, exclude=[(1, 0)]).fit(X, y)
    assert model.term_features_ == [
        *MAINS, (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 2, 3), (1, 2, 3),
    ]  # fmt: skip
    model = make_estimator(**{**options, "interactions": {2: 5, 3: 2}}, exclude=[3, ("feature_0000", 1)]).fit(X, y)
    assert model.term_features_ == [(0,), (1,), (2,), (0, 2), (1, 2)]
    assert {item.features for item in model.interaction_ranking_} <= {(0, 2), (1, 2)}
    changed = X.copy()
    changed[:, 3] = 1e3
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))
    assert model.n_features_in_ == 4


def test_other_pairs_are_found_if_one_is_excluded():
    X, noise = draw()
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] * X[:, 3] + 0.05 * noise
    model = make_estimator(interactions=1, exclude=[(0, 1)]).fit(X, y)
    assert [item.features for item in model.interaction_ranking_ if item.chosen] == [(2, 3)]


def test_columns_with_the_strongest_main_effects_are_searched(monkeypatch):
    monkeypatch.setattr("neuralbasis.training.screen.MAX_SCREENED", 3)
    X, noise = draw(500, 6)
    y = X[:, 1] + 2 * X[:, 3] - X[:, 4] + 0.1 * noise
    model = make_estimator(interactions=2).fit(X, y)
    assert sorted(item.features for item in model.interaction_ranking_) == [(1, 3), (1, 4), (3, 4)]
    every = make_estimator(interactions="all", max_steps=5, validation_size=0).fit(X, y)
    assert len(every.term_features_) == 6 + 15


@pytest.mark.parametrize("staged", [True, False])
def test_pairs_learn_what_given_scores_leave(staged):
    X, noise = draw()
    base, rest = 20 + 30 * X[:, 0] * X[:, 3], X[:, 1] * X[:, 2] + 0.02 * noise
    model = make_estimator(interactions=1, network__staged=staged).fit(X, base + rest, init_score=base)
    assert model.interaction_ranking_[0].features == (1, 2)
    assert model.term_features_ == [*MAINS, (1, 2)]
    assert 1 - np.var(model.predict(X) - rest) / np.var(rest) > 0.95
    np.testing.assert_allclose(model.predict(X, init_score=base), base + model.predict(X))


def test_pairs_of_classes_learn_what_given_scores_leave():
    X, _ = draw(2000)
    base, rest = 5 * X[:, 0] * X[:, 3], 5 * X[:, 1] * X[:, 2]
    y = (1 / (1 + np.exp(-base - rest)) > np.random.default_rng(3).random(2000)).astype(int)
    given = make_estimator("binary", interactions=1).fit(X, y, init_score=base)
    assert given.interaction_ranking_[0].features == (1, 2)
    assert np.corrcoef(given.decision_function(X), rest)[0, 1] > 0.9
    plain = make_estimator("binary", interactions=2).fit(X, y)
    assert {item.features for item in plain.interaction_ranking_ if item.chosen} == {(0, 3), (1, 2)}


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_weights_are_repeated_rows_where_pairs_are_searched(task, staged):
    X, noise = draw(150)
    y = make_target(X[:, 0] * X[:, 1] + 0.5 * noise, task)
    weights = np.random.default_rng(2).integers(0, 4, 150)
    options = {"interactions": {2: 2, 3: 1}, "max_steps": 15, "network__staged": staged}
    weighted = make_estimator(task, **options).fit(X, y, sample_weight=weights)
    repeated = make_estimator(task, **options).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    assert weighted.interaction_ranking_ == repeated.interaction_ranking_
    np.testing.assert_array_equal(weighted.model_.scores(X), repeated.model_.scores(X))


def test_heavy_rows_decide_what_is_found():
    X, noise = draw(1000)
    heavy = np.arange(1000) % 2 == 0
    y = np.where(heavy, X[:, 0] * X[:, 1], X[:, 2] * X[:, 3]) + 0.05 * noise
    for mask, expected in ((heavy, (0, 1)), (~heavy, (2, 3))):
        model = make_estimator(interactions=1).fit(X, y, sample_weight=np.where(mask, 1.0, 0.01))
        assert model.interaction_ranking_[0].features == expected


def test_missing_values_may_interact():
    X, noise = draw(1200)
    missing = np.random.default_rng(4).random(1200) < 0.4
    y = np.where(missing, 2, -2) * X[:, 1] + 0.1 * noise
    X[missing, 0] = np.nan
    model = make_estimator(interactions=1).fit(X, y)
    assert model.interaction_ranking_[0].features == (0, 1)
    assert model.score(X, y) > 0.9
