"""trainer: interactions are found, trained in stages on what the main effects leave, and kept only where they help."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chi2
from sklearn.metrics import log_loss

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.config import AUTO_CHANCE
from neuralbasis.model.shapes import TiedShape

QUICK = {"max_steps": 60, "outer_bags": 2, "hidden": (32, 32), "random_state": 0}
MAINS = [(0,), (1,), (2,), (3,)]
TASKS = ("regression", "binary", "multiclass")


def draw(n_rows=700, n_columns=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (n_rows, n_columns)), rng.normal(size=n_rows)


def make_target(score, task):
    cuts = {"regression": [], "binary": [0.5], "multiclass": [0.35, 0.7]}[task]
    return np.digitize(score, np.quantile(score, cuts)) if cuts else score


def make_estimator(task="regression", **parameters):
    kind = NeuralBasisRegressor if task == "regression" else NeuralBasisClassifier
    return kind(**{**QUICK, **parameters})


def find_loss(estimator, X, y):
    return log_loss(y, estimator.predict_proba(X)) if hasattr(estimator, "classes_") else 1 - estimator.score(X, y)


# Pairs


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize("task", TASKS)
def test_a_product_is_ranked_first_and_learned(task, staged):
    X, noise = draw(1200)
    y = make_target(X[:, 0] * X[:, 2] + 0.3 * X[:, 1] + 0.05 * noise, task)
    train, test = slice(0, 600), slice(600, 1200)
    paired = make_estimator(task, interactions=1, staged=staged).fit(X[train], y[train])
    first, *others = paired.interaction_ranking_
    assert (first.name, first.features, first.chosen) == ("feature_0000 & feature_0002", (0, 2), True)
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
    model = make_estimator().fit(X, y)  # five times four columns: all six pairs, as far as they are beyond noise
    assert model.interaction_ranking_[0].features == (0, 1)
    assert sorted(item.features for item in model.interaction_ranking_) == list(combinations(range(4), 2))
    reach = (chi2.isf(AUTO_CHANCE / 6, 1) - 1) / len(X)
    assert all(item.chosen == (item.strength > reach) for item in model.interaction_ranking_)
    chosen = [item.features for item in model.interaction_ranking_ if item.chosen]
    assert model.term_features_ == [*MAINS, *sorted(chosen)]
    importance = dict(zip(model.term_features_, model.term_importances(), strict=True))
    assert importance[0, 1] > 5 * max(importance[term] for term in importance if term != (0, 1))
    history = model.history_
    n_main = history.stage.index("pairs")
    n_pairs = history.stage.count("pairs")
    cut = ["cuts"] * ("cuts" in history.stage)  # if a free part helped, which takes no steps
    assert history.stage == ["main effects"] * n_main + ["pairs"] * n_pairs + cut
    assert history.steps[: n_main + n_pairs] == sorted(set(history.steps))
    assert history.steps[n_main] - history.steps[n_main - 1] <= 60 // 25
    assert history.seconds == sorted(history.seconds)
    assert history.best >= n_main
    assert history.validation[history.best] < 0.2 * min(history.validation[:n_main])


@pytest.mark.parametrize("staged", [True, False])
def test_all_pairs(staged):
    X, noise = draw(200, 5)
    model = make_estimator(interactions="all", staged=staged, max_steps=5, validation_size=0).fit(X, noise)
    assert model.term_features_ == [(index,) for index in range(5)] + list(combinations(range(5), 2))


@pytest.mark.parametrize(("wish", "count"), [(1, 1), (3, 3), (0.5, 2), ("1x", 4), ("1.5x", 6), (100, 6)])
def test_so_many_pairs_as_wished(wish, count):
    X, noise = draw(200)
    model = make_estimator(interactions=wish, max_steps=5, validation_size=0).fit(X, noise)
    chosen = sorted(item.features for item in model.interaction_ranking_ if item.chosen)
    assert len(model.interaction_ranking_) == 6
    assert len(chosen) == count
    assert model.term_features_ == [*MAINS, *chosen]


def test_wished_pairs_and_triples_are_trained_without_a_search():
    X, noise = draw(200)
    requested = [(1, 0), (2, 3), (3, 1, 0)]
    model = make_estimator(interactions=requested, max_steps=5, validation_size=0).fit(X, noise)
    assert model.interaction_ranking_ == []
    assert set(model.history_.stage) == {"main effects", "pairs", "triples"}
    # Parts of a triple that were not requested hold what they can say of it.
    assert model.term_features_ == [*MAINS, (0, 1), (0, 3), (1, 3), (2, 3), (0, 1, 3)]


@pytest.mark.parametrize("task", TASKS)
def test_interactions_of_pure_noise_are_nearly_always_dropped(task):
    kept = 0
    for seed in range(10):
        X, noise = draw(seed=seed)
        model = make_estimator(task, interactions=4).fit(X, make_target(noise, task))
        history = model.history_
        assert "pairs" in history.stage  # they were tried
        assert sum(item.chosen for item in model.interaction_ranking_) == 4
        is_dropped = model.term_features_ == MAINS
        assert (history.stage[history.best] not in ("pairs", "cuts")) == is_dropped
        kept += not is_dropped
    assert kept <= 2


@pytest.mark.parametrize("n_rows", [6000, 12_000])
def test_of_many_rows_some_of_the_automatic_interactions_may_be_noise(n_rows):
    X, noise = draw(n_rows, 8, seed=2)
    y = X[:, 0] * X[:, 1] + 0.06 * X[:, 2] * X[:, 3] + 0.05 * X[:, 4] * X[:, 5] + noise
    ranking = make_estimator(interactions="auto", max_steps=20).fit(X, y).interaction_ranking_
    strengths, ranks = np.array([item.strength for item in ranking]), np.arange(1, len(ranking) + 1)
    reach = (chi2.isf(AUTO_CHANCE * (ranks if n_rows > 10_000 else 1) / len(ranking), 1) - 1) / n_rows
    n_chosen = 1 + np.flatnonzero(strengths > reach)[-1]
    assert [item.chosen for item in ranking] == [True] * n_chosen + [False] * (len(ranking) - n_chosen)


@pytest.mark.parametrize("task", TASKS)
def test_automatic_interactions_of_pure_noise_are_hardly_ever_chosen(task):
    chosen = 0
    for seed in range(24):
        X, noise = draw(300, 6, seed)
        model = make_estimator(task, max_steps=5).fit(X, make_target(noise, task))
        chosen += any(item.chosen for item in model.interaction_ranking_)
    assert chosen <= 14  # the chance is about AUTO_CHANCE each, 0.4 with three classes


def test_a_pair_of_levels_that_says_nothing_is_pressed_flat():
    """No edges join levels; without a ridge a pair of 15 × 15 levels would learn the noise of its three rows a cell."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 15, (700, 2)).astype(str), columns=["a", "b"])
    y = rng.normal(size=700)
    settings = {"max_steps": 300, "validation_size": 0, "feature_types": ["nominal", "nominal"]}
    model = make_estimator(interactions=[("a", "b")], **settings).fit(table, y)
    spoken = model.eval_terms(table)[:, 2].std()
    assert 0 < spoken < 0.25  # cell means of noise have 0.57


def test_an_additive_target_is_not_worse_for_its_pairs():
    X, noise = draw(1500)
    truth = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    y = truth + 0.3 * noise
    train, test = slice(0, 700), slice(700, 1500)
    alone, paired = (make_estimator(interactions=count).fit(X[train], y[train]) for count in (0, "auto"))
    losses = [np.mean((model.predict(X[test]) - truth[test]) ** 2) for model in (alone, paired)]
    assert losses[1] <= 1.1 * losses[0]
    history = paired.history_
    mains = [loss for stage, loss in zip(history.stage, history.validation, strict=True) if stage == "main effects"]
    assert history.validation[history.best] <= min(mains)
    importance = dict(zip(paired.term_features_, paired.term_importances(), strict=True))
    assert max((v for term, v in importance.items() if len(term) > 1), default=0) < 0.1 * importance[0,]


@pytest.mark.parametrize("seed", range(4))
def test_a_pair_that_cannot_interact_is_not_chosen_before_one_that_can(seed):
    """A constant column has nothing to say, with whatever other column; noise has strengths below zero."""
    X, noise = draw(300, seed=seed)
    X[:, 1] = 7.0
    model = make_estimator(interactions=3, max_steps=5, validation_size=0).fit(X, noise)
    assert sorted(item.features for item in model.interaction_ranking_ if item.chosen) == [(0, 2), (0, 3), (2, 3)]


# Triples


@pytest.mark.parametrize("staged", [True, False])
def test_a_planted_triple_is_found(staged):
    X, noise = draw(1600)
    y = 3 * X[:, 0] * X[:, 1] * X[:, 3] + 0.1 * noise
    train, test = slice(0, 800), slice(800, 1600)
    options = {"interactions": "all", "staged": staged, "max_steps": 120}
    model = make_estimator(**options, triples=1).fit(X[train], y[train])
    triples = [item for item in model.interaction_ranking_ if len(item.features) == 3]
    assert [item.features for item in triples if item.chosen] == [(0, 1, 3)] == [triples[0].features]
    assert len(triples) == 4
    assert [term for term in model.term_features_ if len(term) == 3] == [(0, 1, 3)]
    assert model.score(X[test], y[test]) > 0.85
    assert make_estimator(**options).fit(X[train], y[train]).score(X[test], y[test]) < 0.2
    if staged:
        assert model.history_.stage[model.history_.best] == "triples"


@pytest.mark.parametrize(
    ("heredity", "expected"),
    [("strong", [(0, 1, 2)]), ("weak", [(0, 1, 2), (0, 2, 3), (1, 2, 3)]), (None, list(combinations(range(5), 3)))],
)
@pytest.mark.parametrize("staged", [True, False])
def test_heredity_limits_where_triples_are_searched(heredity, expected, staged):
    X, noise = draw(200, 5)
    pairs = [(0, 1), (1, 2), (0, 2), (2, 3)]
    model = make_estimator(
        interactions=pairs, triples=1, heredity=heredity, staged=staged, max_steps=5, validation_size=0
    ).fit(X, noise)
    assert sorted(item.features for item in model.interaction_ranking_) == expected
    assert sum(item.chosen for item in model.interaction_ranking_) == 1


def test_no_pairs_no_heirs():
    X, noise = draw(200)
    model = make_estimator(interactions=0, triples=3, max_steps=5).fit(X, noise)
    assert (model.interaction_ranking_, model.term_features_) == ([], MAINS)
    model = make_estimator(interactions=0, triples="all", max_steps=5, validation_size=0).fit(X, noise)
    assert [term for term in model.term_features_ if len(term) == 3] == list(combinations(range(4), 3))


@pytest.mark.parametrize("knots", [25, 17, 13, 9, 5])
def test_triples_nest_in_pairs_that_have_few_knots(knots, monkeypatch):
    """Very many pairs have fewer knots: triples must not have others, whatever their own number would allow."""
    X = np.exp(draw(2100, 12)[0] * 2)
    y = np.log(X[:, :3]).prod(axis=1)
    monkeypatch.setattr("neuralbasis.config.MAX_NUMBERS", 66 * 2 * knots**2)
    model = make_estimator(interactions="all", triples=1, max_steps=3, validation_size=0).fit(X, y)
    sizes = {len(shape.term): max(len(axis.knots) for axis in shape.axes) for shape in model.model_.shapes}
    assert sizes[2] == knots
    assert sizes[3] <= knots
    axes = {(len(shape.term), axis.name): axis for shape in model.model_.shapes for axis in shape.axes}
    for (order, name), axis in axes.items():
        assert order < 3 or np.isin(axis.knots, axes[2, name].knots).all()


# Excluded terms


@pytest.mark.parametrize("staged", [True, False])
def test_what_is_excluded_is_in_no_term_and_in_no_ranking(staged):
    X, noise = draw(400)
    y = X[:, 0] * X[:, 1] + X[:, 3] + 0.1 * noise
    options = {"interactions": "all", "triples": "all", "max_steps": 5, "staged": staged, "validation_size": 0}
    model = make_estimator(**options, exclude=[(1, 0)]).fit(X, y)
    assert model.term_features_ == [
        *MAINS, (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 2, 3), (1, 2, 3),
    ]  # fmt: skip
    model = make_estimator(**{**options, "interactions": 5, "triples": 2}, exclude=[3, ("feature_0000", 1)]).fit(X, y)
    assert model.term_features_ == [(0,), (1,), (2,), (0, 2), (1, 2)]
    assert {item.features for item in model.interaction_ranking_} <= {(0, 2), (1, 2)}
    changed = X.copy()
    changed[:, 3] = 1e3
    np.testing.assert_array_equal(model.predict(changed), model.predict(X))
    assert model.n_features_in_ == 4


def test_an_excluded_pair_leaves_the_others_to_be_found():
    X, noise = draw()
    y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2] * X[:, 3] + 0.05 * noise
    model = make_estimator(interactions=1, exclude=[(0, 1)]).fit(X, y)
    assert [item.features for item in model.interaction_ranking_ if item.chosen] == [(2, 3)]


# Limits


def test_a_callback_in_the_main_stage_skips_interactions():
    X, _ = draw(200)
    seen = []

    def stop(history):
        seen.append(history.stage[-1])
        return len(seen) == 4

    model = make_estimator(interactions="all", triples=2, callbacks=[stop]).fit(X, X[:, 0] * X[:, 1])
    assert seen == ["main effects"] * 4 == model.history_.stage
    assert model.history_.stopped_by == "callback"
    assert model.term_features_ == MAINS


def test_a_callback_in_the_pairs_stage_skips_triples():
    X, _ = draw(400)
    model = make_estimator(
        interactions="all", triples=2, callbacks=[lambda history: history.stage.count("pairs") == 6]
    ).fit(X, X[:, 0] * X[:, 1])
    assert set(model.history_.stage) - {"blend"} == {"main effects", "pairs"}
    assert model.history_.stopped_by == "callback"
    assert model.term_features_ == [*MAINS, *combinations(range(4), 2)]


def test_a_time_limit_in_the_main_stage_skips_interactions():
    X, _ = draw(400)
    model = make_estimator(interactions="all", max_steps=10**7, time_limit=0.3, learning_rate=0.05)
    model.fit(X, X[:, 0] * X[:, 1])
    assert set(model.history_.stage) == {"main effects"}
    assert (model.history_.stopped_by, model.term_features_) == ("time_limit", MAINS)
    assert 0.3 < model.history_.seconds[-1] < 1.0


def test_the_time_limit_is_that_of_all_stages_together():
    X, _ = draw(400)
    y, limit = X[:, 0] * X[:, 1], 1.0
    began = []

    def slow_down(history):
        if history.stage[-1] == "pairs":
            began.append(history.seconds[-1])

    model = make_estimator(interactions="all", time_limit=limit, early_stopping_rounds=0, max_epochs=2000 / 3)
    model.set_params(max_steps="auto", callbacks=[slow_down], learning_rate=1e-3).fit(X, y)
    assert model.history_.stopped_by == "time_limit"
    assert limit < model.history_.seconds[-1] < limit + 0.7


def test_of_very_many_columns_those_with_the_strongest_main_effects_are_searched(monkeypatch):
    monkeypatch.setattr("neuralbasis.training.schedule.MAX_SCREENED", {2: 3})
    X, noise = draw(500, 6)
    y = X[:, 1] + 2 * X[:, 3] - X[:, 4] + 0.1 * noise
    model = make_estimator(interactions=2).fit(X, y)
    assert sorted(item.features for item in model.interaction_ranking_) == [(1, 3), (1, 4), (3, 4)]
    every = make_estimator(interactions="all", max_steps=5, validation_size=0).fit(X, y)
    assert len(every.term_features_) == 6 + 15


# What stages say is what the model says


@pytest.mark.parametrize(
    "options",
    [
        {"interactions": 0},
        {"interactions": 3},
        {"interactions": 3, "staged": False},
        {"interactions": [(0, 1), (0, 1, 2)], "triples": 1},
        {"interactions": 3, "engine": "exact"},
        {"interactions": 3, "n_subnets": 2, "tied_classes": True},
        {"interactions": 3, "tied_classes": True, "staged": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("task", TASKS)
def test_the_model_says_what_its_stages_say(task, options, trainers):
    X, noise = draw(400)
    X[np.random.default_rng(1).random(X.shape) < 0.05] = np.nan
    X[:360, 3] = 0.5  # an anchor
    y = make_target(np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + 0.1 * noise, task)
    model = make_estimator(task, **{**options, "max_steps": 20, "validation_size": 0}).fit(X, y)
    (trainer,) = trainers
    objective, expected = trainer.objective, trainer.listen().init.double().numpy().mean(axis=1)
    expected = expected * objective.unit + objective.shift
    if task == "multiclass":
        expected = expected - expected.mean(axis=1, keepdims=True)
    scores = model.model_.scores(trainer.numbers)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert np.ptp(scores) > 0.01


@pytest.mark.parametrize("limit", [0, 4 * 3 * 2, 10 * 3 * 2])
def test_classes_may_be_tied_in_a_later_stage_only(limit, monkeypatch, trainers):
    """Four main effects of three classes and two members; then six pairs more."""
    monkeypatch.setattr("neuralbasis.config.MAX_FREE", limit)
    X, noise = draw(400)
    y = make_target(X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * noise, "multiclass")
    model = make_estimator("multiclass", interactions="all", max_steps=20, validation_size=0).fit(X, y)
    (trainer,) = trainers
    assert [stage.net.tied for stage in trainer.stages] == [limit < 24, limit < 60]
    expected = trainer.listen().init.double().numpy().mean(axis=1)
    expected = expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(model.model_.scores(trainer.numbers), expected, atol=1e-4 * np.abs(expected).max())


def test_training_all_terms_together_gives_the_same_kind_of_model():
    X, noise = draw()
    y = X[:, 0] * X[:, 1] + 0.1 * noise
    staged, together = (make_estimator(interactions=2, triples=0, staged=flag).fit(X, y) for flag in (True, False))
    assert set(together.history_.stage) == {"all terms"}
    assert len(together.history_.stage) == len(together.history_.steps) <= 60 // 2 + 1
    for model in (staged, together):
        assert model.interaction_ranking_[0].features == (0, 1)
        assert (0, 1) in model.term_features_
        assert len(model.term_features_) == 6
        assert model.score(X, y) > 0.9
        assert [scores.ndim for scores in model.term_scores_] == [1, 1, 1, 1, 2, 2]
    assert [item.features for item in staged.interaction_ranking_] == [
        item.features for item in together.interaction_ranking_
    ]


def test_together_a_search_must_not_shorten_the_training():
    """Where nothing is searched no model of main effects is trained before."""
    X, noise = draw(200)
    seen = []
    make_estimator(
        interactions=[(0, 1)], staged=False, max_steps=5, callbacks=[lambda history: seen.append(len(history.steps))]
    ).fit(X, noise)
    assert seen == [1, 2, 3, 4, 5]


# Given scores and weights


@pytest.mark.parametrize("staged", [True, False])
def test_given_scores_leave_their_remainder_to_the_pairs(staged):
    X, noise = draw()
    base, rest = 20 + 30 * X[:, 0] * X[:, 3], X[:, 1] * X[:, 2] + 0.02 * noise
    model = make_estimator(interactions=1, staged=staged).fit(X, base + rest, init_score=base)
    assert model.interaction_ranking_[0].features == (1, 2)
    assert model.term_features_ == [*MAINS, (1, 2)]
    assert 1 - np.var(model.predict(X) - rest) / np.var(rest) > 0.95
    np.testing.assert_allclose(model.predict(X, init_score=base), base + model.predict(X))


def test_given_scores_of_classes_leave_their_remainder_to_the_pairs():
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
def test_weights_are_repetitions_also_where_pairs_are_searched(task, staged):
    X, noise = draw(150)
    y = make_target(X[:, 0] * X[:, 1] + 0.5 * noise, task)
    weights = np.random.default_rng(2).integers(0, 4, 150)
    options = {"interactions": 2, "triples": 1, "heredity": None, "max_steps": 15, "staged": staged}
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


# Levels, few values and sparse columns


@pytest.mark.parametrize(
    "options", [{}, {"engine": "exact"}, {"basis": "spline"}, {"max_interaction_bins": 2}, {"staged": False}], ids=str
)
def test_every_kind_of_column_may_be_in_every_term(options):
    rng, n_rows = np.random.default_rng(0), 150
    table = pd.DataFrame(
        {
            "size": np.where(rng.random(n_rows) < 0.2, np.nan, rng.normal(size=n_rows)),
            "flag": rng.integers(0, 2, n_rows),
            "same": np.ones(n_rows),
            "colour": rng.choice(np.array(["red", "green", "blue", None], dtype=object), n_rows),
            "grade": pd.Categorical(rng.choice(["low", "mid", "high"], n_rows), ["low", "mid", "high"], ordered=True),
            "rare": np.where(rng.random(n_rows) < 0.9, 0.0, rng.normal(size=n_rows)),
            "one": ["only"] * n_rows,
        }
    )
    y = table["size"].fillna(0) * table["flag"] + 0.1 * rng.normal(size=n_rows)
    if "basis" in options:
        options = {**options, "hidden": NeuralBasisRegressor().hidden}  # a spline has no network
    model = make_estimator(interactions="all", triples="all", max_steps=3, validation_size=0, **options).fit(table, y)
    assert model.term_features_ == [term for order in (1, 2, 3) for term in combinations(range(7), order)]
    contributions = model.eval_terms(table)
    assert np.isfinite(contributions).all()
    np.testing.assert_allclose(contributions.sum(axis=1) + model.intercept_, model.predict(table), rtol=1e-9)
    scale = np.abs(contributions).max()
    for term, part in zip(model.term_features_, contributions.T, strict=True):
        assert np.abs(part).max() < 1e-9 * scale or not {2, 6} & set(term)  # constants have nothing to say


@pytest.mark.parametrize("staged", [True, False])
def test_a_column_of_many_levels_stays_small_in_a_pair(staged):
    rng = np.random.default_rng(0)
    level = np.r_[np.arange(300), np.minimum(rng.geometric(0.03, 2700) - 1, 299)]  # the first levels are the heaviest
    table = pd.DataFrame({"level": [f"level {k:03d}" for k in level], "x": rng.normal(size=3000)})
    y = np.where(level < 20, table["x"], -table["x"]) + 0.1 * rng.normal(size=3000)
    model = make_estimator(interactions=[("level", "x")], staged=staged).fit(table, y)
    main, _, pair = model.term_scores_
    assert main.shape == (302,)
    assert pair.shape[0] <= 49 + 2
    assert pair.shape[1] <= 49 + 2
    kept = model.bins_[0][1]
    mass = table["level"].value_counts()
    assert mass[list(kept)].min() >= mass[[name for name in mass.index if name not in kept]].max()
    assert model.score(table, y) > 0.7
    # Levels that are not kept and levels never seen read the same cell of the pair.
    rare = next(name for name in mass.index if name not in kept)
    probe = pd.DataFrame({"level": [rare, "never seen", None], "x": [0.5, 0.5, 0.5]})
    contributions = model.eval_terms(probe)
    assert np.isfinite(model.predict(probe)).all()
    assert contributions[1, 0] == 0
    assert contributions[0, 2] == contributions[1, 2]
    assert contributions[2, 2] == 0  # never missing


def test_two_columns_of_two_values_have_a_table_of_two_by_two():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (800, 2)).astype(float)
    y = 3 * (X[:, 0] != X[:, 1]) + 0.1 * rng.normal(size=800)
    model = make_estimator(interactions=1).fit(X, y)
    assert model.term_features_ == [(0,), (1,), (0, 1)]
    table, weights = model.term_scores_[2], model.bin_weights_[2]
    assert table.shape == (4, 4)
    assert weights[1:3, 1:3].sum() == weights.sum() == 800
    np.testing.assert_allclose(table[1:3, 1:3], [[-1.5, 1.5], [1.5, -1.5]], atol=0.25)
    assert (table[[0, 3]] == 0).all()
    assert (table[:, [0, 3]] == 0).all()
    assert model.score(X, y) > 0.97


def test_an_interaction_of_a_sparse_column_is_learned(trainers):
    """Nine rows in ten have the same value: interactions are anchored there while they are trained."""
    X, noise = draw(2000)
    X[:, 0] = np.where(np.arange(2000) % 10 > 0, 0.0, X[:, 0])
    y = np.where(X[:, 0] != 0, 3 * X[:, 1], 0) + 0.1 * noise
    model = make_estimator(interactions=1).fit(X, y)
    assert model.interaction_ranking_[0].features == (0, 1)
    (trainer,) = trainers
    anchors = trainer.stages[-1].grid.layout.anchors
    assert set(anchors) == {0}
    assert (anchors[0].value, anchors[0].share) == (0.0, pytest.approx(0.9, abs=0.02))
    assert model.score(X, y) > 0.85


def test_missing_values_may_interact():
    X, noise = draw(1200)
    missing = np.random.default_rng(4).random(1200) < 0.4
    y = np.where(missing, 2, -2) * X[:, 1] + 0.1 * noise
    X[missing, 0] = np.nan
    model = make_estimator(interactions=1).fit(X, y)
    assert model.interaction_ranking_[0].features == (0, 1)
    assert model.score(X, y) > 0.9


def test_many_classes_with_pairs_may_stay_in_factors(monkeypatch):
    monkeypatch.setattr("neuralbasis.training.compile.MAX_NUMBERS", 0)
    X, noise = draw(600)
    score = X[:, 0] * X[:, 1] + 0.05 * noise
    y = np.digitize(score, np.quantile(score, np.arange(1, 12) / 12))
    model = make_estimator("multiclass", interactions=1, tied_classes=True).fit(X, y)
    assert any(isinstance(shape, TiedShape) for shape in model.model_.shapes)
    assert model.term_scores_[-1].shape[-1] == 12
    assert find_loss(model, X, y) < 0.95 * np.log(12)
