"""recipe: wrong parameters are named, contradictions raise, "auto" becomes numbers, the published settings run."""

import inspect
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

import neuralbasis.training.fit
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.config import (
    AUTO_PAIRS,
    BYTES_A_TERM,
    INTERACTION_STEPS,
    KNOTS,
    LARGE_TABLE,
    MAX_ACTIVE,
    MAX_AUTO_PAIRS,
    MAX_FREE,
    MAX_FREE_MANY,
    MAX_NUMBERS,
    MAX_SCORES,
    PAPER,
    PRESETS,
    SMALL_TABLE,
    SMOOTHNESS,
    check_memory,
    check_parameters,
    choose_batch_size,
    choose_knots,
    choose_steps,
    choose_tied,
    count_active,
    count_channels,
    count_numbers,
    list_chances,
    make_plan,
    make_settings,
    settle,
)
from neuralbasis.encoding.axis import continuous_axis, level_axis
from neuralbasis.encoding.layout import Anchor, lay_out
from neuralbasis.terms.term import Plan
from neuralbasis.training.rows import place_rows

NAN, INF = float("nan"), float("inf")
INTEGERS = {  # smallest value that is right
    "max_bins": 2, "max_interaction_bins": 2, "n_bases": 1, "n_interaction_bases": 1, "n_subnets": 1, "outer_bags": 1,
    "fourier": 0, "early_stopping_rounds": 0, "batch_size": 1, "max_steps": 1,
}  # fmt: skip
AUTOMATIC = ("max_interaction_bins", "outer_bags", "batch_size", "max_steps", "n_bases")  # or "auto"
WRONG = {
    "dropout": ("a number from 0 to below 1", [-0.1, 1, 1.5, "0.1", None, NAN, True]),
    "basis_dropout": ("a number from 0 to below 1", [-1e-9, 1.0, "none"]),
    "output_penalty": ("a number of at least 0", [-1, "0", None, INF]),
    "weight_decay": ("a number of at least 0", [-1e-5, NAN, [0.1]]),
    "early_stopping_tolerance": ("'auto' or >= 0", [-0.01, "none", None, NAN, True]),
    "preset": ("one of ('fast', 'default', 'best')", ["Fast", "quick", None, 1, ["fast"]]),
    "scaling": ("one of ('auto', 'quantile', 'minmax', 'gaussian')", ["standard", None, 3]),
    "engine": ("one of ('grid', 'exact')", ["Grid", None, ""]),
    "heredity": ("one of ('strong', 'weak', None)", ["none", "Strong", 0, True]),
    "staged": ("True or False", ["yes", None, 0.5]),
    "refine": ("True or False", ["auto", None, 0.5]),
    "learning_rate": ("a number above 0", [0, -0.1, "auto", INF, None]),
    "validation_size": ("a share below 1 or a number of rows", [-0.1, 1.5, 1.0, "0.2", NAN, None, True, -3]),
    "basis": ("'mlp', 'spline' or a callable", ["fourier", None, 3]),
    "hidden": ("a sequence of positive integers", [64, (64, 0), (64, -1), (64.0,), "64", None]),
    "max_epochs": ("None or a number above 0", [0, -1, "10", NAN]),
    "time_limit": ("None or seconds above 0", [0, -2.5, "1 h", INF]),
    "smoothness": ("'auto' or >= 0", [-1, "none", None, NAN]),
    "batch_norm": ("True or False", ["no", None]),
    "tied_classes": ("True, False or 'auto'", ["yes", None, 0.5]),
    "verbose": ("True or False", ["loud", None]),
    "callbacks": ("None or a list of callables", [3, len, [len, 3]]),
    "n_jobs": ("None, a number of threads, or -1 for all cores", [0, "2", 1.5]),
}
RIGHT = {
    "dropout": [0, 0.5], "output_penalty": [0, 2], "weight_decay": [0.0], "early_stopping_tolerance": ["auto", 0, 1e-3],
    "scaling": ["auto", "quantile", "minmax", "gaussian"], "engine": ["grid", "exact"], "learning_rate": [1e-5, 1],
    "validation_size": [0, 0.0, 0.999, 1, 50, np.int64(7), np.float32(0.25)], "basis": ["spline", dict],
    "hidden": [(), [8], (64, 32), (np.int64(3),)], "max_epochs": [None, 0.5, 10], "time_limit": [None, 0.1, 60],
    "smoothness": ["auto", 0, 0.5], "batch_size": ["auto", 1, np.int32(5)], "max_steps": ["auto", 1],
    "heredity": ["strong", "weak", None], "tied_classes": [True, False, "auto"],
    "staged": [True, False, 0], "max_interaction_bins": ["auto", 2, 100],
    "outer_bags": ["auto", 1, np.int64(3)], "refine": [True, False], "preset": ["fast", "default", "best"],
    "callbacks": [None, [], (len,)], "n_jobs": [None, 1, -1], "verbose": [0, 1],
}  # fmt: skip


def wrong_values():
    for name, smallest in INTEGERS.items():
        for value in (smallest - 1, smallest + 0.5, str(smallest), None, True):
            yield name, "'auto' or " * (name in AUTOMATIC) + f"an integer of at least {smallest}", value
    for name, (expected, values) in WRONG.items():
        for value in values:
            yield name, expected, value


@pytest.mark.parametrize(("name", "expected", "value"), list(wrong_values()))
def test_errors_say_which_parameter_what_is_expected_and_what_came(name, expected, value):
    with pytest.raises(ValueError) as error:
        check_parameters(NeuralBasisRegressor(**{name: value}))
    assert str(error.value) == f"{name} must be {expected}, not {value!r}"


@pytest.mark.parametrize(("name", "came"), [("random_state", "seven"), ("device", "abacus")])
def test_errors_of_other_libraries_name_the_parameter(name, came):
    with pytest.raises(ValueError, match=rf"^{name} must be .*{came}"):
        check_parameters(NeuralBasisRegressor(**{name: came}))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in RIGHT for value in RIGHT[name]])
def test_right_values_pass(name, value):
    check_parameters(NeuralBasisRegressor(**{name: value}))


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_defaults_pass(kind):
    check_parameters(kind())


def test_fit_checks_before_it_reads_the_table():
    with pytest.raises(ValueError, match="n_bases must be 'auto' or an integer of at least 1, not 0"):
        NeuralBasisRegressor(n_bases=0).fit(None, None)


@pytest.mark.parametrize("smoothness", [1, 0.5])
def test_smoothness_contradicts_the_exact_engine(smoothness):
    with pytest.raises(ValueError, match=rf"smoothness={smoothness} contradicts engine='exact'.*set smoothness=0 or"):
        check_parameters(NeuralBasisRegressor(engine="exact", smoothness=smoothness))
    check_parameters(NeuralBasisRegressor(engine="exact", smoothness=0.0))


def test_steps_contradict_epochs():
    with pytest.raises(ValueError, match="max_steps and max_epochs contradict each other: give one of them"):
        check_parameters(NeuralBasisRegressor(max_steps=10, max_epochs=10))


# Settings


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
    steps = choose_steps(n_rows)
    assert type(steps) is int
    assert steps <= choose_steps(2 * n_rows) <= 2 * steps


@pytest.mark.parametrize(("few", "many"), [(1, 1000), (10**8, 10**9)])
def test_steps_are_bounded_at_both_ends(few, many):
    assert choose_steps(few) == choose_steps(many) > 0


def test_few_rows_of_classes_get_fewer_steps():
    assert [choose_steps(n_rows, classes=True) for n_rows in (1, 112, 300, 1000)] == [140, 149, 232, 400]
    assert [choose_steps(n_rows) for n_rows in (1, 112, 300, 1000)] == [400] * 4
    for n_rows in (1000, 30_000, 10**6):
        assert choose_steps(n_rows, classes=True) == choose_steps(n_rows)
    assert choose_steps(50, 2, classes=True) == choose_steps(50, 2) == INTERACTION_STEPS[0]


def test_interactions_of_a_rare_class_get_steps_by_what_rows_tell():
    assert choose_steps(30_000, 2, classes=True) == int(200 * 30**0.45) == 924
    assert choose_steps(300_000, 2, classes=True, information=0.1) == 924
    assert choose_steps(227_845, 2, classes=True, information=0.007) == INTERACTION_STEPS[0]
    assert choose_steps(30_000, 1, classes=True, information=0.1) == choose_steps(30_000, 1, classes=True)


def test_a_fit_of_a_rare_class_takes_the_steps_of_what_its_rows_tell():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(12_000, 2)), columns=["a", "b"])
    known = {"interactions": [("a", "b")], "early_stopping_rounds": 0, "refine": False}
    small = {"outer_bags": 1, "hidden": (4,), "max_bins": 9, "max_interaction_bins": 5, "batch_size": 64}
    for share, steps in ((0.5, 611), (0.01, 300)):
        y = X["a"] * X["b"] > (X["a"] * X["b"]).quantile(1 - share)
        history = NeuralBasisClassifier(random_state=0, **known, **small).fit(X, y).history_
        of_pairs = [s for s, stage in zip(history.steps, history.stage, strict=True) if stage == "pairs"]
        before = max(s for s, stage in zip(history.steps, history.stage, strict=True) if stage == "main effects")
        assert of_pairs[-1] - before == steps


@pytest.mark.parametrize(("preset", "steps"), [("fast", 140), ("default", 232), ("best", 464)])
def test_a_preset_leaves_steps_enough(preset, steps):
    assert make_settings(NeuralBasisClassifier(preset=preset), 300, 300).max_steps == steps


def test_automatic_settings_follow_the_rows():
    for n_rows in (50, 20_000, 10**6):
        chosen = make_settings(NeuralBasisRegressor(), n_rows, n_rows)
        assert (chosen.batch_size, chosen.max_steps) == (choose_batch_size(n_rows), choose_steps(n_rows))


@pytest.mark.parametrize(
    ("epochs", "batch_size", "n_rows", "steps"),
    [(3, 10, 100, 30), (0.5, 10, 100, 5), (2, 1000, 100, 2), (1, 30, 100, 4), (0.001, 10, 100, 1)],
)
def test_epochs_become_steps(epochs, batch_size, n_rows, steps):
    estimator = NeuralBasisRegressor(max_epochs=epochs, batch_size=batch_size)
    assert make_settings(estimator, n_rows, n_rows).max_steps == steps


def test_settings_are_the_estimator_s():
    def callback(history):
        return False

    given = {
        "learning_rate": 0.3, "weight_decay": 0.1, "batch_size": 7, "max_steps": 9, "early_stopping_rounds": 2,
        "early_stopping_tolerance": 0.01, "output_penalty": 0.2, "time_limit": 5.0, "verbose": True,
    }  # fmt: skip
    chosen = make_settings(NeuralBasisRegressor(**given, callbacks=[callback]), 1000, 1000)
    assert {name: getattr(chosen, name) for name in given} == given
    assert chosen.callbacks == (callback,)


@pytest.mark.parametrize(("given", "expected"), [("auto", None), (0, 0.0), (0.5, 0.5)])
def test_an_automatic_tolerance_is_none(given, expected):
    assert make_settings(NeuralBasisRegressor(early_stopping_tolerance=given), 100, 100).early_stopping_tolerance == (
        expected
    )
    assert make_settings(NeuralBasisRegressor(), 100, 100).early_stopping_tolerance is None


@pytest.mark.parametrize("order", [1, 2, 3])
def test_smoothness_is_relative_to_the_automatic_one(order):
    assert set(SMOOTHNESS) == {0, 1, 2, 3}  # the curvature of main effects, and the slopes by order
    for parameters, factor in [({}, 1), ({"smoothness": 2}, 2), ({"smoothness": 0}, 0), ({"engine": "exact"}, 0)]:
        chosen = make_settings(NeuralBasisRegressor(**parameters), 3000, 3000, order).smoothness
        assert chosen == {key: (factor * strength, floor) for key, (strength, floor) in SMOOTHNESS.items()}


@pytest.mark.parametrize("order", [2, 3])
def test_interactions_take_larger_batches_and_fewer_steps(order):
    for n_rows in (50, 3000, 20_000, 10**6):
        chosen = make_settings(NeuralBasisRegressor(), n_rows, n_rows, order)
        assert choose_batch_size(n_rows) <= chosen.batch_size == choose_batch_size(n_rows, order) <= 8192
        assert chosen.max_steps == choose_steps(n_rows, order)
        assert INTERACTION_STEPS[0] <= chosen.max_steps <= INTERACTION_STEPS[1]
        assert chosen.max_steps <= choose_steps(n_rows)
    assert choose_batch_size(3 * 1024, order) == 1024
    given = make_settings(NeuralBasisRegressor(batch_size=7, max_steps=9), 10**6, 10**6, order)
    assert (given.batch_size, given.max_steps) == (7, 9)


def test_the_stage_is_named():
    names = [make_settings(NeuralBasisRegressor(), 100, 100, order).stage for order in (1, 2, 3)]
    assert names == ["main effects", "pairs", "triples"]
    assert make_settings(NeuralBasisRegressor(staged=False), 100, 100).stage == "all terms"


@pytest.mark.parametrize(
    ("n_active", "factor"), [(0, 1), (MAX_ACTIVE, 1), (4 * MAX_ACTIVE, 0.5), (100 * MAX_ACTIVE, 0.1)]
)
def test_the_learning_rate_shrinks_where_many_interactions_are_active_in_a_row(n_active, factor):
    chosen = make_settings(NeuralBasisRegressor(learning_rate=0.3), 100, 100, 2, n_active)
    assert chosen.learning_rate == pytest.approx(0.3 * factor)


def test_active_interactions_are_counted_without_what_anchors_skip():
    axes = [continuous_axis(name, np.arange(5.0)) for name in "abc"]
    terms = [(0,), (1,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
    assert count_active(lay_out(axes, terms, {2: 3, 3: 2})) == 4
    anchored = lay_out(axes, terms, {2: 3, 3: 2}, {0: Anchor(0.0, 0.9), 1: Anchor(0.0, 0.8)})
    assert count_active(anchored) == pytest.approx(0.1 + 0.1 + 0.2 + 0.1)


# Terms and their knots


@pytest.mark.parametrize("n_columns", [1, 8, 59, 61, 1000])
def test_automatic_pairs_follow_the_columns(n_columns):
    names = [f"x{index}" for index in range(n_columns)]
    for kind, classes, n_rows, task in [
        (NeuralBasisRegressor, None, 500, "regression"),
        (NeuralBasisRegressor, None, LARGE_TABLE, "regression"),
        (NeuralBasisClassifier, np.array([0, 1]), LARGE_TABLE - 1, "classes"),
        (NeuralBasisClassifier, np.arange(5), 500, "classes"),
        (NeuralBasisClassifier, np.arange(5), LARGE_TABLE, "large"),
    ]:
        chosen = make_plan(kind(), names, classes, n_rows)
        assert (chosen.n_pairs, chosen.n_triples) == (min(AUTO_PAIRS[task] * n_columns, MAX_AUTO_PAIRS), 0)
    given = make_plan(
        NeuralBasisRegressor(interactions=[(0, 1)], triples="2x", exclude=["x2"]), ["x0", "x1", "x2"], None, 500
    )
    assert given == Plan((0, 1), ((0, 1),), 0, 6, frozenset({(2,)}))


def build_columns(*sizes):
    return [continuous_axis(f"x{index}", np.arange(float(size))) for index, size in enumerate(sizes)]


def test_knots_of_interactions():
    axes, auto = build_columns(193, 193, 193), settle(NeuralBasisRegressor(), SMALL_TABLE)
    terms = [(0, 1), (0, 2), (0, 1, 2)]
    assert choose_knots(auto, axes, terms, SMALL_TABLE, 1) == {2: KNOTS[2][0], 3: KNOTS[3][0]} == {2: 49, 3: 13}
    assert choose_knots(auto, axes, terms, SMALL_TABLE - 1, 1) == {2: KNOTS[2][1], 3: KNOTS[3][1]}
    for bins, expected in ((20, {2: 20, 3: 5}), (2, {2: 2, 3: 2})):
        given = NeuralBasisRegressor(max_interaction_bins=bins, outer_bags=4)
        assert [choose_knots(given, axes, terms, *size) for size in ((10**6, 10**6), (10, 1))] == [expected] * 2


@pytest.mark.parametrize("order", [2, 3])
@pytest.mark.parametrize("n_terms", [1, 10, 1000, 10_000])
@pytest.mark.parametrize("parameters", [{"outer_bags": 4}, {"outer_bags": 20, "n_subnets": 3, "tied_classes": True}])
def test_very_many_interactions_have_fewer_knots(parameters, n_terms, order):
    axes, estimator = build_columns(193, 193, 193), NeuralBasisClassifier(**parameters)
    knots = choose_knots(estimator, axes, [tuple(range(order))] * n_terms, 10**6, 5)[order]
    channels = count_channels(estimator, n_terms, 5)
    assert channels == (20 if parameters["outer_bags"] == 4 else 60)
    assert knots in KNOTS[order]
    assert knots**order * n_terms * channels <= MAX_NUMBERS or knots == KNOTS[order][-1]
    assert all(size**order * n_terms * channels > MAX_NUMBERS for size in KNOTS[order] if size > knots)


@pytest.mark.parametrize(("n_classes", "limit"), [(40, MAX_FREE), (100, MAX_FREE_MANY)])
def test_classes_are_tied_where_coefficients_would_be_too_many(n_classes, limit):
    auto = NeuralBasisClassifier(outer_bags=4)
    few = int(limit / 4 / n_classes)
    tied = [choose_tied(auto, n_terms, n_classes) for n_terms in (1, few, few + 1, math.inf)]
    assert tied == [False, False, True, True]
    assert [count_channels(auto, n_terms, n_classes) for n_terms in (few, few + 1)] == [4 * n_classes, 4]
    assert not choose_tied(auto, math.inf, 1)  # nothing to tie
    for wish in (True, False):
        given = NeuralBasisClassifier(tied_classes=wish)
        assert [choose_tied(given, n_terms, 100) for n_terms in (1, 10**9)] == [wish, wish]


@pytest.mark.parametrize(
    ("n_columns", "n_classes", "wish", "n_rows", "expected"),
    [(278, 200, 0, 5_994, 7), (278, 200, "auto", 5_994, 7), (278, 200, "all", 5_994, 2), (278, 1_486, 0, 414_847, 2),
     (278, 2, "all", 5_994, 7), (60, 10, "all", 5_994, 7), (20_000, 10, 0, 400, 7)],
)  # fmt: skip
def test_very_many_classes_and_terms_have_fewer_members(n_columns, n_classes, wish, n_rows, expected):
    """Sizes of CUB and of iNaturalist's birds; columns that are not chosen do not count."""
    auto, classes = NeuralBasisClassifier(interactions=wish), np.arange(n_classes)
    plan = make_plan(auto, [f"c{i}" for i in range(n_columns)], classes, n_rows)
    assert settle(auto, n_rows, False, count_numbers(auto, plan, classes, n_rows)).outer_bags == expected
    given = NeuralBasisClassifier(interactions=wish, outer_bags=5)
    assert settle(given, n_rows, False, count_numbers(given, plan, classes, n_rows)).outer_bags == 5


def test_pairs_are_not_searched_in_scores_of_too_many_rows_and_classes():
    names, n_rows = [f"c{i}" for i in range(10)], int(MAX_SCORES / 100)
    auto = NeuralBasisClassifier()
    counts = [make_plan(auto, names, np.arange(100), n).n_pairs for n in (n_rows, n_rows + 1)]
    assert counts == [50, 0]
    assert make_plan(NeuralBasisClassifier(interactions=7), names, np.arange(100), n_rows + 1).n_pairs == 7


@pytest.mark.parametrize(("wish", "staged", "is_refused"), [(5, True, True), (5, False, True), ([(0, 1)], True, True),
                                                           ([(0, 1)], False, False), (0, True, False)])  # fmt: skip
def test_scores_that_memory_cannot_hold_are_refused(wish, staged, is_refused):
    estimator = NeuralBasisClassifier(interactions=wish, staged=staged, outer_bags=2)
    plan, n_rows = make_plan(estimator, ["a", "b", "c", "d"], np.arange(1000), 10), 10**10
    check_memory(estimator, plan, 1000, 10)
    if not is_refused:
        check_memory(estimator, plan, 1000, n_rows)
        return
    message = "which of 10,000,000,000 rows and 1,000 classes would take about 360,000 GB"
    with pytest.raises(ValueError, match=message):
        check_memory(estimator, plan, 1000, n_rows)


@pytest.mark.parametrize(("tied", "expected"), [(False, 2048), (True, 512)])
def test_pairs_of_tied_classes_have_the_batches_of_main_effects(tied, expected):
    assert make_settings(NeuralBasisClassifier(), 5_994, 5_994, 2, 0.0, tied).batch_size == expected
    assert make_settings(NeuralBasisClassifier(batch_size=100), 5_994, 5_994, 2, 0.0, tied).batch_size == 100


def test_few_values_and_levels_take_no_room():
    axes = [*build_columns(2, 2), level_axis("level", "nominal", ["a", "b"])]
    terms = [(0, 1), (0, 2), (1, 2)] * 30_000
    assert choose_knots(NeuralBasisRegressor(outer_bags=4), axes, terms, 10**6, 4)[2] == 49


@pytest.mark.parametrize(("order", "kind"), [(2, "pairs"), (3, "triples")])
def test_more_terms_than_memory_are_refused_before_they_are_listed(order, kind):
    def check(count, n_columns=100_000):
        counts = (count, 0) if order == 2 else (0, count)
        check_memory(NeuralBasisRegressor(outer_bags=4), Plan(tuple(range(n_columns)), (), *counts, frozenset()), 1)

    n_terms = math.comb(100_000, order)
    message = rf"^{n_terms:,} {kind} of 100,000 columns would take about {BYTES_A_TERM * n_terms * 4 / 1e9:,.0f} GB, "
    message += f"but this machine has .* GB; ask for a number of {kind}, such as 100, or list them by name$"
    with pytest.raises(ValueError, match=message):
        check(math.inf)
    with pytest.raises(ValueError, match=r"^1,000,000,000 "):
        check(10**9)
    check(300)
    check(0)
    check(math.inf, n_columns=100)


# Presets


@pytest.mark.parametrize("preset", PRESETS)
def test_members_follow_the_preset_and_the_rows(preset):
    estimator = NeuralBasisRegressor(preset=preset)
    members = [settle(estimator, n_rows).outer_bags for n_rows in (1, LARGE_TABLE - 1, LARGE_TABLE, 10**8)]
    known = PRESETS[preset]
    assert members == [known.members, known.members, known.members_large, known.members_large]
    assert members == {"fast": [3, 3, 2, 2], "default": [7, 7, 4, 4], "best": [14, 14, 7, 7]}[preset]
    assert (estimator.outer_bags, estimator.get_params()["outer_bags"]) == ("auto", "auto")  # a copy was settled


@given(st.sampled_from(sorted(PRESETS)), st.integers(1, 10**9), st.integers(1, 50))
def test_a_given_number_of_members_wins(preset, n_rows, outer_bags):
    estimator = NeuralBasisClassifier(preset=preset, outer_bags=outer_bags)
    settled = settle(estimator, n_rows)
    assert settled.get_params() == estimator.get_params()
    assert settle(settled, n_rows).outer_bags == outer_bags


@given(st.integers(1, 10**8), st.sampled_from([1, 2, 3]))
def test_steps_follow_the_preset(n_rows, order):
    estimators = {preset: NeuralBasisRegressor(preset=preset) for preset in PRESETS}
    steps = {name: make_settings(one, n_rows, n_rows, order).max_steps for name, one in estimators.items()}
    usual = choose_steps(n_rows, order)
    assert steps == {"fast": round(0.35 * usual), "default": usual, "best": 2 * usual}
    for preset in PRESETS:
        assert make_settings(NeuralBasisRegressor(preset=preset, max_steps=9), n_rows, n_rows, order).max_steps == 9
        epochs = NeuralBasisRegressor(preset=preset, max_epochs=3, batch_size=10)
        assert make_settings(epochs, 100, 100, order).max_steps == 30


@pytest.mark.parametrize("n_columns", [1, 3, 8, 1000])
@pytest.mark.parametrize(("classes", "task"), [(None, "regression"), (np.array([0, 1]), "classes")])
def test_pairs_follow_the_preset(n_columns, classes, task):
    names = [f"x{index}" for index in range(n_columns)]
    for preset, times in (("fast", 0.4), ("default", 1.0), ("best", 2.0)):
        chosen = make_plan(NeuralBasisClassifier(preset=preset), names, classes, 500)
        assert chosen.n_pairs == min(math.ceil(times * AUTO_PAIRS[task] * n_columns), MAX_AUTO_PAIRS)
        given = make_plan(NeuralBasisClassifier(preset=preset, interactions=3), names, classes, 500)
        assert given.n_pairs == 3


def test_knots_of_interactions_follow_the_preset():
    axes, terms = build_columns(193, 193, 193), [(0, 1), (0, 2), (0, 1, 2)]
    for n_rows, coarser in ((SMALL_TABLE, {"fast": 1, "default": 0, "best": 0}), (10, dict.fromkeys(PRESETS, 1))):
        for preset, skipped in coarser.items():
            estimator = NeuralBasisRegressor(preset=preset, outer_bags=4)
            expected = {order: KNOTS[order][skipped] for order in (2, 3)}
            assert choose_knots(estimator, axes, terms, n_rows, 1) == expected
            given = NeuralBasisRegressor(preset=preset, outer_bags=4, max_interaction_bins=40)
            assert choose_knots(given, axes, terms, n_rows, 1) == {2: 40, 3: 10}


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_a_clone_keeps_the_preset(kind):
    estimator = kind(preset="fast")
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert (copy.preset, copy.outer_bags) == ("fast", "auto")
    assert kind().set_params(preset="best").preset == "best"


def test_a_fit_leaves_the_parameters_as_they_are_and_has_the_preset_s_members(monkeypatch):
    members = []

    def watch(sample, objective, n_members, *arguments):
        members.append(n_members)
        return place_rows(sample, objective, n_members, *arguments)

    monkeypatch.setattr(neuralbasis.training.prepare, "place_rows", watch)
    X = np.random.default_rng(0).random((60, 2))
    model = NeuralBasisRegressor(preset="fast", hidden=(8,), max_steps=4, interactions=0)
    before = model.get_params()
    assert np.isfinite(model.fit(X, X[:, 0]).predict(X)).all()
    assert members == [3]
    assert model.get_params() == before


def test_an_unknown_preset_is_refused_by_fit():
    with pytest.raises(ValueError, match=r"^preset must be one of \('fast', 'default', 'best'\), not 'slow'$"):
        NeuralBasisRegressor(preset="slow").fit([[0.0], [1.0]], [0.0, 1.0])


# The published settings


def test_published_settings_are_parameters_of_both_estimators():
    for kind in (NeuralBasisRegressor, NeuralBasisClassifier):
        assert PAPER.keys() <= inspect.signature(kind).parameters.keys()
        assert kind(**PAPER).get_params()["hidden"] == (256, 128, 128)


def test_published_settings_have_no_free_part():
    assert PAPER["refine"] is False


def test_published_settings_fit():
    rng = np.random.default_rng(0)
    X = rng.random((150, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    model = NeuralBasisRegressor(**PAPER, max_steps=60, validation_size=0, learning_rate=0.005).fit(X, y)
    assert model.score(X, y) > 0.9
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    classifier = NeuralBasisClassifier(**PAPER, max_steps=60, validation_size=0, learning_rate=0.005).fit(X, labels)
    assert classifier.score(X, labels) > 0.65


def test_of_many_rows_a_share_of_the_interactions_may_be_noise():
    np.testing.assert_allclose(list_chances(10_000, 4), 0.3)
    np.testing.assert_allclose(list_chances(10_001, 4), [0.3, 0.6, 0.9, 1.2])
