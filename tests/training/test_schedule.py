"""Schedule: which stages a fit has, which interactions are found and kept, and what stops it."""

from __future__ import annotations

from itertools import combinations, groupby

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import log_loss

from neuralbasis import NetworkConfig, NeuralBasisClassifier, NeuralBasisRegressor
from tests.laws.fit_together import draw_weak_pairs

QUICK = {"max_steps": 60, "outer_bags": 2, "network__hidden": (32, 32), "random_state": 0}
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


# Stages


def list_stages(model):
    """Names of the stages, without repetitions in a row."""
    return [name for name, _ in groupby(model.history_.stage)]


MAIN, PAIRS, TRIPLES = ["main effects", "shares"], ["pairs", "shares"], ["triples", "shares"]
STAGES = {
    "default": ({}, [*MAIN, *PAIRS]),
    "main effects": ({"interactions": 0}, MAIN),
    "a number of pairs": ({"interactions": 1}, [*MAIN, *PAIRS]),
    "listed pairs": ({"interactions": [(0, 1)]}, [*MAIN, *PAIRS]),
    "all pairs": ({"interactions": "all"}, [*MAIN, *PAIRS]),
    "triples": ({"interactions": {2: "all", 3: 1}}, [*MAIN, *PAIRS, *TRIPLES]),
    "triples alone": ({"interactions": {2: 0, 3: "all"}}, [*MAIN, *TRIPLES]),
    "together": ({"network__staged": False}, ["all terms"]),
    "no steps": ({"boosted_steps": False}, ["main effects", *PAIRS]),
    "output penalty": ({"network__output_penalty": 1e-6}, ["main effects", *PAIRS]),
    "no validation": ({"validation_size": 0}, ["main effects", "pairs"]),
    "callback": ({"callbacks": [lambda history: True]}, ["main effects"]),
    "time limit": ({"time_limit": 1e-6}, ["main effects"]),
}


@pytest.mark.parametrize("case", STAGES)
def test_stages_of_a_fit(case):
    options, expected = STAGES[case]
    X, noise = draw(300)
    model = make_estimator(**{"max_steps": 20, **options}).fit(X, 3 * X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * noise)
    assert list_stages(model) == expected


def test_tied_classes_have_neither_steps_nor_shares():
    X, noise = draw(300)
    y = make_target(X[:, 0] * X[:, 1] + 0.1 * noise, "multiclass")
    model = make_estimator("multiclass", interactions=[(0, 1)], network__tied_classes=True, max_steps=20).fit(X, y)
    assert list_stages(model) == ["main effects", "all terms"]


def test_pairs_of_tied_classes_are_trained_together_with_the_main_effects():
    """Three pairs of columns have the same or the opposite sign, by class; no main effect can represent that."""
    rng = np.random.default_rng(0)
    y = rng.integers(20, size=2200)
    X = rng.normal(size=(2200, 12)) + 0.6 * rng.normal(size=(20, 12))[y]
    for first in (0, 2, 4):
        sign = rng.choice([-1, 1], size=20)[y]
        X[:, first + 1] = sign * X[:, first] + 0.3 * rng.normal(size=2200)
    accuracy = []
    for pairs in (0, [(0, 1), (2, 3), (4, 5)]):
        model = NeuralBasisClassifier(
            interactions=pairs, network={"tied_classes": True}, outer_bags=3, random_state=0
        ).fit(X[:1200], y[:1200])
        accuracy.append(model.score(X[1200:], y[1200:]))
    assert model.term_features_[-3:] == [(0, 1), (2, 3), (4, 5)]
    assert set(model.history_.stage) == {"main effects", "all terms"}
    assert accuracy[1] > accuracy[0] + 0.1


def test_members_with_columns_of_their_own_have_no_steps(trainers):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 300))
    model = make_estimator(interactions=0, outer_bags=5).fit(X, X[:, :60] @ rng.normal(size=60))
    (trainer,) = trainers
    mask, (stage,) = trainer.rows.member_mask, trainer.stages
    assert list_stages(model) == ["main effects"]
    assert not mask.all()
    for index, (feature,) in enumerate(stage.grid.layout.terms):
        table = stage.table()[stage.grid.layout.cells_of(index)]
        assert table.any(dim=0).tolist() == mask[feature].tolist()


def test_shares_take_no_steps_and_lower_the_held_out_loss():
    X, noise = draw()
    y = (X[:, 0] > 0.3) + 2 * X[:, 0] * X[:, 1] + 0.1 * noise
    history = make_estimator(interactions=[(0, 1)], early_stopping_rounds=0).fit(X, y).history_
    at = [index for index, stage in enumerate(history.stage) if stage == "shares"]
    assert len(at) == 2
    assert history.best == at[1] == len(history.stage) - 1
    for index in at:
        assert history.steps[index] == history.steps[index - 1]
    assert history.validation[at[0]] < min(history.validation[: at[0]])
    assert history.validation[at[1]] < history.validation[at[0]]


def test_axes_get_knots_where_main_effects_jump():
    X, noise = draw(3000)
    y = 2.0 * (X[:, 0] > 0.37) + X[:, 1] + 0.05 * noise
    plain, stepped = (make_estimator(interactions=0, boosted_steps=flag).fit(X, y).model_ for flag in (False, True))
    known = [axis.knots for axis in plain.encoder.axes]
    found = [axis.knots for axis in stepped.encoder.axes]
    assert all(np.isin(one, other).all() for one, other in zip(known, found, strict=True))
    new = np.setdiff1d(found[0], known[0])
    assert (np.abs(new - 0.37) < 0.05).mean() > 0.5
    assert [len(knots) for knots in found[2:]] == [len(knots) for knots in known[2:]]  # columns without effects


# Kept and dropped interactions


@pytest.mark.parametrize("staged", [True, False])
def test_all_pairs(staged):
    X, noise = draw(200, 5)
    model = make_estimator(interactions="all", network__staged=staged, max_steps=5, validation_size=0).fit(X, noise)
    assert model.term_features_ == [(index,) for index in range(5)] + list(combinations(range(5), 2))


def test_listed_pairs_and_triples_are_trained_without_a_search():
    X, noise = draw(200)
    requested = [(1, 0), (2, 3), (3, 1, 0)]
    model = make_estimator(interactions=requested, max_steps=5, validation_size=0).fit(X, noise)
    assert model.interaction_ranking_ == []
    assert set(model.history_.stage) == {"main effects", "pairs", "triples"}
    # Purification moves parts of a triple to pairs that were not requested.
    assert model.term_features_ == [*MAINS, (0, 1), (0, 3), (1, 3), (2, 3), (0, 1, 3)]


@pytest.mark.parametrize("task", TASKS)
def test_interactions_of_noise_are_dropped_or_small(task):
    kept = 0
    for seed in range(10):
        X, noise = draw(seed=seed)
        model = make_estimator(task, interactions=4, outer_bags=7).fit(X, make_target(noise, task))
        history, pairs = model.history_, model.term_features_[4:]
        assert (history.best > history.stage.index("pairs")) == bool(pairs)
        assert model.term_importances()[4:].max(initial=0) < 0.1  # the standard deviation of the target is 1
        kept += bool(pairs)
    assert kept <= 4


def test_listed_pairs_stay_even_if_they_are_zero():
    X, noise = draw(3000)
    X[:, 3] = 1.0
    model = make_estimator(interactions=[(0, 1), (2, 3)]).fit(X, X[:, 0] + noise)
    assert model.term_features_ == [*MAINS, (0, 1), (2, 3)]
    np.testing.assert_allclose(model.term_importances()[-1], 0, atol=1e-6)


OPTIONS = (
    {}, {"interactions": 3}, {"interactions": "all"}, {"boosted_steps": False}, {"validation_size": 0},
    {"network__staged": False}, {"interactions": {2: "all", 3: 2}}, {"interactions": {2: 2, 3: 1}},
)  # fmt: skip


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("task", TASKS)
def test_chosen_interactions_are_the_terms_of_the_model(task, options):
    X, noise = draw(300)
    y = make_target(X[:, 0] * X[:, 1] + 0.5 * X[:, 2] * X[:, 3] + 0.3 * noise, task)
    model = make_estimator(task, **{"max_steps": 20, **options}).fit(X, y)
    chosen = {item.features for item in model.interaction_ranking_ if item.chosen}
    parts = {part for term in chosen if len(term) == 3 for part in combinations(term, 2)}
    assert {(0, 1)} <= chosen
    assert chosen <= set(model.term_features_) - set(MAINS) <= chosen | parts


# Weaker pairs of small tables

WEAK = {"outer_bags": 5}


def list_pairs(model):
    return [term for term in model.term_features_ if len(term) == 2]


def test_weaker_pairs_gain_on_new_rows():
    (X, y), (T, truth) = draw_weak_pairs(), draw_weak_pairs(4000, seed=1)
    model = make_estimator(**WEAK).fit(X, y)
    strong = list_pairs(make_estimator(**WEAK, boosted_steps=False).fit(X, y))
    plain = make_estimator(**WEAK, interactions=strong).fit(X, y)
    errors = [np.mean((each.predict(T) - truth) ** 2) for each in (model, plain)]
    assert errors[0] < 0.95 * errors[1]
    assert len(list_pairs(plain)) + 5 < len(list_pairs(model)) <= 28
    assert set(list_pairs(model)) == {item.features for item in model.interaction_ranking_ if item.chosen}


@pytest.mark.parametrize(
    ("options", "most"),
    [({"interactions": 2}, 2), ({"interactions": [(0, 1)]}, 1), ({"boosted_steps": False}, 20)],
    ids=str,
)
def test_there_are_no_weaker_pairs_unless_pairs_are_automatic_and_have_steps(options, most):
    X, y = draw_weak_pairs()
    assert 0 < len(list_pairs(make_estimator(**WEAK, **options).fit(X, y))) <= most


def test_weaker_pairs_are_not_among_excluded_ones():
    X, y = draw_weak_pairs()
    pairs = list_pairs(make_estimator(**WEAK, exclude=[(0, 1), "feature_0005"]).fit(X, y))
    assert len(pairs) > 8
    assert not any(term == (0, 1) or 5 in term for term in pairs)


def test_a_pair_of_levels_of_noise_stays_small():
    """Levels have no neighbours to be smooth with: a ridge keeps cells from learning the noise of their three rows."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.integers(0, 15, (700, 2)).astype(str), columns=["a", "b"])
    y = rng.normal(size=700)
    settings = {"max_steps": 300, "validation_size": 0, "feature_types": ["nominal", "nominal"]}
    model = make_estimator(interactions=[("a", "b")], **settings).fit(table, y)
    assert 0 < model.eval_terms(table)[:, 2].std() < 0.25  # cell means of noise have 0.57


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


# Limits


def test_a_callback_in_the_main_stage_skips_interactions():
    X, _ = draw(200)
    seen = []

    def stop(history):
        seen.append(history.stage[-1])
        return len(seen) == 4

    model = make_estimator(interactions={2: "all", 3: 2}, callbacks=[stop]).fit(X, X[:, 0] * X[:, 1])
    assert seen == ["main effects"] * 4 == model.history_.stage
    assert model.history_.stopped_by == "callback"
    assert model.term_features_ == MAINS


def test_a_callback_in_the_pairs_stage_skips_triples():
    X, _ = draw(400)
    model = make_estimator(
        interactions={2: "all", 3: 2}, callbacks=[lambda history: history.stage.count("pairs") == 6]
    ).fit(X, X[:, 0] * X[:, 1])
    assert set(model.history_.stage) == {"main effects", "pairs", "shares"}
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

    model = make_estimator(interactions="all", time_limit=limit, early_stopping_rounds=0, network__max_epochs=2000 / 3)
    model.set_params(max_steps="auto", callbacks=[slow_down], learning_rate=1e-3).fit(X, y)
    assert model.history_.stopped_by == "time_limit"
    assert limit < model.history_.seconds[-1] < limit + 0.7


# Compiled models


@pytest.mark.parametrize(
    "options",
    [
        {"interactions": 0},
        {"interactions": 3},
        {"interactions": 3, "network__staged": False},
        {"interactions": {2: [(0, 1), (0, 1, 2)], 3: 1}},
        {"interactions": 3, "network__engine": "exact"},
        {"interactions": 3, "network__n_subnets": 2, "network__tied_classes": True},
        {"interactions": 3, "network__tied_classes": True, "network__staged": False},
        {"interactions": 3, "validation_size": 0.2},
        {"interactions": [(0, 1), (0, 1, 2)], "validation_size": 0.2, "boosted_steps": False},
    ],
    ids=str,
)
@pytest.mark.parametrize("task", TASKS)
def test_the_model_has_the_scores_of_its_stages(task, options, trainers):
    X, noise = draw(400)
    X[np.random.default_rng(1).random(X.shape) < 0.05] = np.nan
    X[:360, 3] = 0.5  # an anchor
    y = make_target(np.nan_to_num(X[:, 0] * X[:, 1] + X[:, 2]) + 0.1 * noise, task)
    model = make_estimator(task, **{"max_steps": 20, "validation_size": 0, **options}).fit(X, y)
    trainer = trainers[0]
    loss, expected = trainer.codes.loss, trainer.rows.init.double().numpy().mean(axis=1)
    expected = expected * loss.unit + loss.shift
    if task == "multiclass":
        expected = expected - expected.mean(axis=1, keepdims=True)
    scores = model.model_.scores(trainer.codes.numbers)
    np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())
    assert np.ptp(scores) > 0.01


@pytest.mark.parametrize("limit", [0, 4 * 3 * 2, 10 * 3 * 2])
def test_classes_may_be_tied_in_a_later_stage_only(limit, monkeypatch, trainers):
    """Four main effects of three classes and two members; then six pairs more."""
    monkeypatch.setattr("neuralbasis.training.defaults.MAX_FREE", limit)
    X, noise = draw(400)
    y = make_target(X[:, 0] * X[:, 1] + X[:, 2] + 0.1 * noise, "multiclass")
    model = make_estimator("multiclass", interactions="all", max_steps=20, validation_size=0).fit(X, y)
    (trainer,) = trainers
    assert [stage.net.tied for stage in trainer.stages] == ([True] if limit < 24 else [False, limit < 60])
    expected = trainer.rows.init.double().numpy().mean(axis=1)
    expected = expected - expected.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(model.model_.scores(trainer.codes.numbers), expected, atol=1e-4 * np.abs(expected).max())


def test_training_all_terms_together_gives_the_same_kind_of_model():
    X, noise = draw()
    y = X[:, 0] * X[:, 1] + 0.1 * noise
    staged, together = (
        make_estimator(interactions={2: 2, 3: 0}, network__staged=flag).fit(X, y) for flag in (True, False)
    )
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


def test_no_main_effects_are_trained_first_if_nothing_is_searched():
    X, noise = draw(200)
    seen = []
    make_estimator(
        interactions=[(0, 1)],
        network__staged=False,
        max_steps=5,
        callbacks=[lambda history: seen.append(len(history.steps))],
    ).fit(X, noise)
    assert seen == [1, 2, 3, 4, 5]


def test_many_tied_classes_with_pairs_are_learned():
    X, noise = draw(600)
    score = X[:, 0] * X[:, 1] + 0.05 * noise
    y = np.digitize(score, np.quantile(score, np.arange(1, 12) / 12))
    model = make_estimator("multiclass", interactions=1, network__tied_classes=True).fit(X, y)
    assert model.term_scores_[-1].shape[-1] == 12
    assert find_loss(model, X, y) < 0.95 * np.log(12)


# Knots and kinds of columns


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"network__engine": "exact"},
        {"network__basis": "spline"},
        {"max_interaction_bins": 2},
        {"network__staged": False},
    ],
    ids=str,
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
    if "network__basis" in options:
        options = {**options, "network__hidden": NetworkConfig().hidden}  # a spline has no network
    model = make_estimator(interactions={2: "all", 3: "all"}, max_steps=3, validation_size=0, **options).fit(table, y)
    terms = [term for order in (1, 2, 3) for term in combinations(range(7), order)]
    constant = set() if "network__staged" in options else {2, 6}  # their interactions are 0, and dropped
    assert model.term_features_ == [term for term in terms if len(term) == 1 or not constant & set(term)]
    contributions = model.eval_terms(table)
    assert np.isfinite(contributions).all()
    np.testing.assert_allclose(contributions.sum(axis=1) + model.intercept_, model.predict(table), rtol=1e-9)
    scale = np.abs(contributions).max()
    for term, part in zip(model.term_features_, contributions.T, strict=True):
        assert np.abs(part).max() < 1e-9 * scale or not {2, 6} & set(term)  # constants contribute nothing


@pytest.mark.parametrize("staged", [True, False])
def test_a_column_of_many_levels_stays_small_in_a_pair(staged):
    rng = np.random.default_rng(0)
    level = np.r_[np.arange(300), np.minimum(rng.geometric(0.03, 2700) - 1, 299)]  # the first levels are the heaviest
    table = pd.DataFrame({"level": [f"level {k:03d}" for k in level], "x": rng.normal(size=3000)})
    y = np.where(level < 20, table["x"], -table["x"]) + 0.1 * rng.normal(size=3000)
    model = make_estimator(interactions=[("level", "x")], network__staged=staged).fit(table, y)
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


def test_a_pair_of_two_values_each_has_a_table_of_two_by_two():
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
    """Nine rows in ten have the same value, where interactions are anchored during training."""
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


@pytest.mark.parametrize("knots", [25, 17, 13, 9, 5])
def test_triples_nest_in_pairs_that_have_few_knots(knots, monkeypatch):
    """Very many pairs have fewer knots; those of triples are among them."""
    X = np.exp(draw(2100, 12)[0] * 2)
    y = np.log(X[:, :3]).prod(axis=1)
    monkeypatch.setattr("neuralbasis.training.defaults.MAX_NUMBERS", 66 * 2 * knots**2)
    model = make_estimator(interactions={2: "all", 3: 1}, max_steps=3, validation_size=0).fit(X, y)
    sizes = {len(shape.term): max(len(axis.knots) for axis in shape.axes) for shape in model.model_.shapes}
    assert sizes[2] == knots
    assert sizes[3] <= knots
    axes = {(len(shape.term), axis.name): axis for shape in model.model_.shapes for axis in shape.axes}
    for (order, name), axis in axes.items():
        assert order < 3 or np.isin(axis.knots, axes[2, name].knots).all()
