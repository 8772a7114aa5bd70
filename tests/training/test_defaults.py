"""Defaults that depend on the data: batches, steps, pairs, knots and members; what memory cannot hold is refused."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis import NetworkConfig, NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.config import FitConfig
from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.training import make_plan, make_settings
from neuralbasis.training.defaults import choose_knots, choose_tied, count_numbers
from neuralbasis.training.fit import check_memory

KNOTS = {2: (49, 25, 17, 13, 9, 5), 3: (13, 9, 7, 5, 4, 3)}  # of interactions, the most first
PRESETS = "fast", "default", "best"


def regression(**parameters) -> FitConfig:
    return FitConfig.read(NeuralBasisRegressor(**parameters))


def classification(**parameters) -> FitConfig:
    return FitConfig.read(NeuralBasisClassifier(**parameters))


def choose_batch_size(n_rows, order=1):
    return make_settings(regression(), n_rows, n_rows, order).batch_size


def choose_steps(n_rows, order=1, classes=False, information=1.0):
    config = classification() if classes else regression()
    return make_settings(config, n_rows, n_rows, order, information=information).max_steps


@given(st.integers(1, 10**9))
def test_batch_size_is_a_power_of_two_near_a_twelfth_of_the_rows(n_rows):
    size = choose_batch_size(n_rows)
    assert type(size) is int
    assert 64 <= size <= 8192
    assert size & (size - 1) == 0
    assert size <= choose_batch_size(2 * n_rows) <= 2 * size
    if 64 < size < 8192:
        assert n_rows / 12 / math.sqrt(2) <= size <= n_rows / 12 * math.sqrt(2)


@pytest.mark.parametrize(("n_rows", "size"), [(1, 64), (2, 64), (64 * 12, 64), (128 * 12, 128), (10**7, 8192)])
def test_batch_size_at_the_edges(n_rows, size):
    assert choose_batch_size(n_rows) == size


@given(st.integers(1, 10**9))
def test_steps_grow_more_slowly_than_rows(n_rows):
    assert 400 <= choose_steps(n_rows) <= choose_steps(2 * n_rows) <= min(2 * choose_steps(n_rows), 2500)


def test_few_rows_of_classes_get_fewer_steps():
    assert [choose_steps(n_rows, classes=True) for n_rows in (1, 112, 300, 1000)] == [140, 149, 232, 400]
    assert [choose_steps(n_rows) for n_rows in (1, 112, 300, 1000)] == [400] * 4
    for n_rows in (1000, 30_000, 10**6):
        assert choose_steps(n_rows, classes=True) == choose_steps(n_rows)
    assert choose_steps(50, 2, classes=True) == choose_steps(50, 2) == 300


def test_interactions_of_large_tables_get_twice_the_steps():
    assert [choose_steps(n_rows, 2) for n_rows in (99_999, 100_000, 10**6)] == [1588, 3177, 5000]


def test_interactions_of_a_rare_class_get_steps_by_their_information():
    assert choose_steps(30_000, 2, classes=True) == int(200 * 30**0.45) == 924
    assert choose_steps(300_000, 2, classes=True, information=0.1) == 2 * choose_steps(30_000, 2) == 1848
    assert choose_steps(227_845, 2, classes=True, information=0.007) == 600
    assert choose_steps(30_000, 1, classes=True, information=0.1) == choose_steps(30_000, 1, classes=True)


def test_a_fit_of_a_rare_class_takes_steps_by_its_information():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12_000, 2)), columns=["a", "b"])
    known = {"interactions": [("a", "b")], "early_stopping_rounds": 0, "boosted_steps": False}
    small = {
        "outer_bags": 1,
        "network__hidden": (4,),
        "max_bins": 9,
        "max_interaction_bins": 5,
        "network__batch_size": 64,
    }
    for share, steps in ((0.5, 611), (0.01, 300)):
        y = X["a"] * X["b"] > (X["a"] * X["b"]).quantile(1 - share)
        history = NeuralBasisClassifier(random_state=0, **known, **small).fit(X, y).history_
        of_pairs = [s for s, stage in zip(history.steps, history.stage, strict=True) if stage == "pairs"]
        before = max(s for s, stage in zip(history.steps, history.stage, strict=True) if stage == "main effects")
        assert of_pairs[-1] - before == steps


@pytest.mark.parametrize(("preset", "steps"), [("fast", 140), ("default", 232), ("best", 464)])
def test_a_preset_leaves_steps_enough(preset, steps):
    assert make_settings(classification(preset=preset), 300, 300).max_steps == steps


@pytest.mark.parametrize(
    ("epochs", "batch_size", "n_rows", "steps"),
    [(3, 10, 100, 30), (0.5, 10, 100, 5), (2, 1000, 100, 2), (1, 30, 100, 4), (0.001, 10, 100, 1)],
)
def test_epochs_become_steps(epochs, batch_size, n_rows, steps):
    config = regression(network__max_epochs=epochs, network__batch_size=batch_size)
    assert make_settings(config, n_rows, n_rows).max_steps == steps


def test_settings_are_the_config_s():
    def callback(history):
        return False

    network = vars(NetworkConfig(weight_decay=0.1, batch_size=7, early_stopping_tolerance=0.01, output_penalty=0.2))
    given = {"learning_rate": 0.3, "max_steps": 9, "early_stopping_rounds": 2, "time_limit": 5.0, "verbose": True}
    chosen = make_settings(regression(**given, network=network, callbacks=[callback]), 1000, 1000)
    assert {name: getattr(chosen, name) for name in given} == given
    names = ("weight_decay", "batch_size", "early_stopping_tolerance")
    assert [getattr(chosen, name) for name in names] == [network[name] for name in names]
    assert chosen.callbacks == (callback,)


def test_the_output_penalty_is_a_mean_over_terms_beside_the_whole_squared_error():
    assert make_settings(regression(network__output_penalty=0.8), 100, 100, n_terms=8).output_penalty == 0.05
    assert make_settings(classification(network__output_penalty=0.8), 100, 100, n_terms=8).output_penalty == 0.1


def test_plain_training_has_neither_warm_up_nor_averaging_nor_smaller_rates():
    plain = make_settings(regression(network__plain_training=True), 100, 100, n_active=160)
    assert (plain.beta, plain.warm_up, plain.averaging, plain.learning_rate) == (0.999, 0.0, 0.0, 0.02)
    usual = make_settings(regression(), 100, 100, n_active=160)
    assert (usual.beta, usual.warm_up, usual.averaging, usual.learning_rate) == (0.99, 0.05, 0.05, 0.01)


@pytest.mark.parametrize(("given", "expected"), [(None, None), (0, 0.0), (0.5, 0.5)])
def test_an_automatic_tolerance_is_none(given, expected):
    assert make_settings(regression(network__early_stopping_tolerance=given), 100, 100).early_stopping_tolerance == (
        expected
    )
    assert make_settings(regression(), 100, 100).early_stopping_tolerance is None


def test_smoothness_is_relative_to_the_automatic_one():
    usual = make_settings(regression(), 3000, 3000).smoothness
    assert set(usual) == {0, 1, 2, 3}  # the curvature of main effects, and the slopes by order
    for parameters, factor in [({"smoothness": 1}, 1), ({"smoothness": 2}, 2), ({"network__engine": "exact"}, 0)]:
        chosen = make_settings(regression(**parameters), 3000, 3000).smoothness
        assert chosen == {key: (factor * strength, floor) for key, (strength, floor) in usual.items()}


@pytest.mark.parametrize("order", [2, 3])
def test_interactions_take_larger_batches_and_fewer_steps(order):
    for n_rows in (50, 3000, 20_000, 10**6):
        assert choose_batch_size(n_rows) <= choose_batch_size(n_rows, order) <= 8192
        factor = 2 if n_rows >= 100_000 else 1
        assert 300 <= choose_steps(n_rows, order) / factor <= choose_steps(n_rows) <= 2500
    assert choose_batch_size(3 * 1024, order) == 1024
    given = make_settings(regression(network__batch_size=7, max_steps=9), 10**6, 10**6, order)
    assert (given.batch_size, given.max_steps) == (7, 9)


def test_the_stage_is_named():
    names = [make_settings(regression(), 100, 100, order).stage for order in (1, 2, 3)]
    assert names == ["main effects", "pairs", "triples"]
    assert make_settings(regression(network__staged=False), 100, 100).stage == "all terms"


@pytest.mark.parametrize(("n_active", "factor"), [(0, 1), (40, 1), (160, 0.5), (4000, 0.1)])
def test_the_learning_rate_shrinks_where_many_interactions_are_active_in_a_row(n_active, factor):
    chosen = make_settings(regression(learning_rate=0.3), 100, 100, 2, n_active)
    assert chosen.learning_rate == pytest.approx(0.3 * factor)


@pytest.mark.parametrize("n_columns", [1, 8, 59, 61, 1000])
def test_automatic_pairs_follow_the_columns(n_columns):
    names = [f"x{index}" for index in range(n_columns)]
    for kind, classes, n_rows, times in [
        (regression, None, 500, 5),
        (regression, None, 100_000, 5),
        (classification, np.array([0, 1]), 99_999, 3),
        (classification, np.arange(5), 500, 3),
        (classification, np.arange(5), 100_000, 5),
    ]:
        chosen = make_plan(kind(), names, classes, n_rows)
        assert (chosen.n_pairs, chosen.n_triples) == (min(times * n_columns, 300), 0)
    given = make_plan(regression(interactions={2: [(0, 1)], 3: "2x"}, exclude=["x2"]), ["x0", "x1", "x2"], None, 500)
    assert (given.features, given.listed, given.n_pairs, given.n_triples) == ((0, 1), ((0, 1),), 0, 6)
    assert given.excluded == {(2,)}


def make_codes(plan: Any, n_outputs: int, n_rows: int) -> Any:
    """What `check_memory` reads of codes."""
    loss, sample = SimpleNamespace(n_outputs=n_outputs), SimpleNamespace(y=range(n_rows))
    return SimpleNamespace(plan=plan, loss=loss, sample=sample)


def build_columns(*sizes):
    return [continuous_axis(f"x{index}", np.arange(float(size))) for index, size in enumerate(sizes)]


def test_knots_of_interactions():
    axes, auto = build_columns(193, 193, 193), regression().resolve(2000)
    terms = [(0, 1), (0, 2), (0, 1, 2)]
    assert choose_knots(auto, axes, terms, 2000, 1) == {2: 49, 3: 13}
    assert choose_knots(auto, axes, terms, 2000 - 1, 1) == {2: 25, 3: 9}
    for bins, expected in ((20, {2: 20, 3: 5}), (2, {2: 2, 3: 2})):
        given = regression(max_interaction_bins=bins, outer_bags=4)
        assert [choose_knots(given, axes, terms, *size) for size in ((10**6, 10**6), (10, 1))] == [expected] * 2


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("n_terms", [1, 10, 1000, 10_000])
@pytest.mark.parametrize(
    "parameters", [{"outer_bags": 4}, {"outer_bags": 20, "network__n_subnets": 3, "network__tied_classes": True}]
)
def test_very_many_interactions_have_fewer_knots(parameters, n_terms, order):
    axes, config = build_columns(193, 193, 193), classification(**parameters)
    knots = choose_knots(config, axes, [tuple(range(order))] * n_terms, 10**6, 5)[order]
    channels = 20 if parameters["outer_bags"] == 4 else 60
    assert knots in KNOTS[order]
    assert knots**order * n_terms * channels <= 7e6 or knots == KNOTS[order][-1]
    assert all(size**order * n_terms * channels > 7e6 for size in KNOTS[order] if size > knots)


@pytest.mark.parametrize(("n_classes", "limit"), [(40, 1e6), (100, 1e5)])
def test_classes_are_tied_where_coefficients_would_be_too_many(n_classes, limit):
    auto = classification(outer_bags=4)
    few = int(limit / 4 / n_classes)
    tied = [choose_tied(auto, n_terms, n_classes) for n_terms in (1, few, few + 1, math.inf)]
    assert tied == [False, False, True, True]
    assert not choose_tied(auto, math.inf, 1)  # nothing to tie
    for requested in (True, False):
        given = classification(network__tied_classes=requested)
        assert [choose_tied(given, n_terms, 100) for n_terms in (1, 10**9)] == [requested, requested]


@pytest.mark.parametrize(
    ("n_columns", "n_classes", "requested", "n_rows", "expected"),
    [(278, 200, 0, 5_994, 7), (278, 200, "auto", 5_994, 7), (278, 200, "all", 5_994, 2), (278, 1_486, 0, 414_847, 2),
     (278, 2, "all", 5_994, 7), (60, 10, "all", 5_994, 7), (20_000, 10, 0, 400, 7)],
)  # fmt: skip
def test_very_many_classes_and_terms_have_fewer_members(n_columns, n_classes, requested, n_rows, expected):
    """Sizes of CUB and of iNaturalist's birds; columns that are not chosen do not count."""
    auto, classes = classification(interactions=requested), np.arange(n_classes)
    plan = make_plan(auto, [f"c{i}" for i in range(n_columns)], classes, n_rows)
    assert auto.resolve(n_rows, n_numbers=count_numbers(auto, plan, classes, n_rows)).outer_bags == expected
    given = classification(interactions=requested, outer_bags=5)
    assert given.resolve(n_rows, n_numbers=count_numbers(given, plan, classes, n_rows)).outer_bags == 5


def test_pairs_are_not_searched_in_scores_of_too_many_rows_and_classes():
    names, n_rows = [f"c{i}" for i in range(10)], 10**6
    auto = classification()
    counts = [make_plan(auto, names, np.arange(100), n).n_pairs for n in (n_rows, n_rows + 1)]
    assert counts == [50, 0]
    assert make_plan(classification(interactions=7), names, np.arange(100), n_rows + 1).n_pairs == 7


@pytest.mark.parametrize(
    ("requested", "staged", "is_refused"),
    [(5, True, True), (5, False, True), ([(0, 1)], True, True), ([(0, 1)], False, False), (0, True, False)],
)
def test_scores_that_memory_cannot_hold_are_refused(requested, staged, is_refused):
    config = classification(interactions=requested, network__staged=staged, outer_bags=2)
    plan, n_rows = make_plan(config, ["a", "b", "c", "d"], np.arange(1000), 10), 10**10
    check_memory(config, make_codes(plan, 1000, 10))
    if not is_refused:
        check_memory(config, make_codes(plan, 1000, n_rows))
        return
    message = "which for 10,000,000,000 rows and 1,000 classes would take about 360,000 GB"
    with pytest.raises(ValueError, match=message):
        check_memory(config, make_codes(plan, 1000, n_rows))


@pytest.mark.parametrize(("tied", "expected"), [(False, 2048), (True, 512)])
def test_pairs_of_tied_classes_have_the_batches_of_main_effects(tied, expected):
    assert make_settings(classification(), 5_994, 5_994, 2, 0.0, tied).batch_size == expected
    assert make_settings(classification(network__batch_size=100), 5_994, 5_994, 2, 0.0, tied).batch_size == 100


def test_few_values_and_levels_take_no_room():
    axes = [*build_columns(2, 2), level_axis("level", "nominal", ["a", "b"])]
    terms = [(0, 1), (0, 2), (1, 2)] * 30_000
    assert choose_knots(regression(outer_bags=4), axes, terms, 10**6, 4)[2] == 49


@given(st.integers(1, 10**8), st.sampled_from([1, 2, 3]))
def test_steps_follow_the_preset(n_rows, order):
    configs = {preset: regression(preset=preset) for preset in PRESETS}
    steps = {name: make_settings(one, n_rows, n_rows, order).max_steps for name, one in configs.items()}
    usual = choose_steps(n_rows, order)
    assert steps == {"fast": round(0.35 * usual), "default": usual, "best": 2 * usual}
    for preset in PRESETS:
        assert make_settings(regression(preset=preset, max_steps=9), n_rows, n_rows, order).max_steps == 9
        epochs = regression(preset=preset, network__max_epochs=3, network__batch_size=10)
        assert make_settings(epochs, 100, 100, order).max_steps == 30


@pytest.mark.parametrize("n_columns", [1, 3, 8, 1000])
@pytest.mark.parametrize(("classes", "usual"), [(None, 5), (np.array([0, 1]), 3)])
def test_pairs_follow_the_preset(n_columns, classes, usual):
    names = [f"x{index}" for index in range(n_columns)]
    for preset, times in (("fast", 0.4), ("default", 1.0), ("best", 2.0)):
        chosen = make_plan(classification(preset=preset), names, classes, 500)
        assert chosen.n_pairs == min(math.ceil(times * usual * n_columns), 300)
        given = make_plan(classification(preset=preset, interactions=3), names, classes, 500)
        assert given.n_pairs == 3


def test_knots_of_interactions_follow_the_preset():
    axes, terms = build_columns(193, 193, 193), [(0, 1), (0, 2), (0, 1, 2)]
    for n_rows, coarser in ((2000, {"fast": 1, "default": 0, "best": 0}), (10, dict.fromkeys(PRESETS, 1))):
        for preset, skipped in coarser.items():
            config = regression(preset=preset, outer_bags=4)
            expected = {order: KNOTS[order][skipped] for order in (2, 3)}
            assert choose_knots(config, axes, terms, n_rows, 1) == expected
            given = regression(preset=preset, outer_bags=4, max_interaction_bins=40)
            assert choose_knots(given, axes, terms, n_rows, 1) == {2: 40, 3: 10}
