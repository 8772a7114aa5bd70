"""FitConfig: wrong parameters are named, contradictions raise, "auto" becomes numbers, the published settings run."""

import inspect
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.config import LARGE_TABLE, PAPER, PRESETS, FitConfig

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
def test_errors_name_the_parameter_what_was_expected_and_what_was_given(name, expected, value):
    with pytest.raises(ValueError) as error:
        FitConfig.read(NeuralBasisRegressor(**{name: value}))
    assert str(error.value) == f"{name} must be {expected}, not {value!r}"


@pytest.mark.parametrize(("name", "given"), [("random_state", "seven"), ("device", "abacus")])
def test_errors_of_other_libraries_name_the_parameter(name, given):
    with pytest.raises(ValueError, match=rf"^{name} must be .*{given}"):
        FitConfig.read(NeuralBasisRegressor(**{name: given}))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in RIGHT for value in RIGHT[name]])
def test_right_values_pass(name, value):
    FitConfig.read(NeuralBasisRegressor(**{name: value}))


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_defaults_pass(kind):
    FitConfig.read(kind())


def test_fit_checks_before_it_reads_the_table():
    with pytest.raises(ValueError, match="n_bases must be 'auto' or an integer of at least 1, not 0"):
        NeuralBasisRegressor(n_bases=0).fit(None, None)


@pytest.mark.parametrize("smoothness", [1, 0.5])
def test_smoothness_contradicts_the_exact_engine(smoothness):
    with pytest.raises(ValueError, match=rf"smoothness={smoothness} contradicts engine='exact'.*set smoothness=0 or"):
        FitConfig.read(NeuralBasisRegressor(engine="exact", smoothness=smoothness))
    FitConfig.read(NeuralBasisRegressor(engine="exact", smoothness=0.0))


def test_steps_contradict_epochs():
    with pytest.raises(ValueError, match="max_steps and max_epochs contradict each other: give one of them"):
        FitConfig.read(NeuralBasisRegressor(max_steps=10, max_epochs=10))


def test_automatic_values_are_none():
    config = FitConfig.read(NeuralBasisClassifier())
    automatic = [name for name, value in config.given.items() if isinstance(value, str) and value == "auto"]
    kept = {"interactions", "max_terms", "scaling"}  # whose "auto" is not None
    assert {name for name in automatic if getattr(config, name) is not None} == kept
    assert {name for name in automatic if getattr(config, name) is None} == set(automatic) - kept
    assert (config.estimator, config.classifier) == ("NeuralBasisClassifier", True)


def test_a_config_cannot_be_changed():
    config = FitConfig.read(NeuralBasisRegressor())
    with pytest.raises(AttributeError):
        config.max_bins = 3  # type: ignore[misc]
    assert isinstance(config.given, MappingProxyType)


def test_changed_parameters_differ_from_their_default_and_from_the_fit_before():
    given = NeuralBasisRegressor(hidden=[64, 64, 32], n_bases=8, triples=1)
    assert FitConfig.read(given).changed == {"n_bases", "triples"}
    assert FitConfig.read(given, {"triples": 1}).changed == {"n_bases"}


def test_only_the_first_process_shows_progress():
    config = FitConfig.read(NeuralBasisRegressor(verbose=True))
    assert [config.resolve(100, rank=rank).verbose for rank in (0, 1)] == [True, False]


@pytest.mark.parametrize("preset", PRESETS)
def test_members_follow_the_preset_and_the_rows(preset):
    config = FitConfig.read(NeuralBasisRegressor(preset=preset))
    members = [config.resolve(n_rows).outer_bags for n_rows in (1, LARGE_TABLE - 1, LARGE_TABLE, 10**8)]
    assert members == {"fast": [3, 3, 2, 2], "default": [7, 7, 4, 4], "best": [14, 14, 7, 7]}[preset]
    assert config.resolve(1, wide=True).outer_bags == {"fast": 2, "default": 3, "best": 7}[preset]
    assert config.outer_bags is None


@given(st.sampled_from(sorted(PRESETS)), st.integers(1, 10**9), st.integers(1, 50))
def test_a_given_number_of_members_wins(preset, n_rows, outer_bags):
    config = FitConfig.read(NeuralBasisClassifier(preset=preset, outer_bags=outer_bags))
    assert config.resolve(n_rows, wide=True, n_numbers=1e9).outer_bags == outer_bags


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_a_clone_keeps_the_preset(kind):
    estimator = kind(preset="fast")
    copy = clone(estimator)
    assert copy.get_params() == estimator.get_params()
    assert (copy.preset, copy.outer_bags) == ("fast", "auto")
    assert kind().set_params(preset="best").preset == "best"


def test_a_fit_leaves_the_parameters_as_they_are_and_has_the_preset_s_members():
    X = np.random.default_rng(0).random((60, 2))
    model = NeuralBasisRegressor(preset="fast", hidden=(8,), max_steps=4, interactions=0)
    before = model.get_params()
    shape = model.fit(X, X[:, 0]).model_.shapes[0]
    assert shape.members.shape[-2] == 3
    assert model.get_params() == before


def test_an_unknown_preset_is_refused_by_fit():
    with pytest.raises(ValueError, match=r"^preset must be one of \('fast', 'default', 'best'\), not 'slow'$"):
        NeuralBasisRegressor(preset="slow").fit([[0.0], [1.0]], [0.0, 1.0])


def test_published_settings_are_parameters_of_both_estimators():
    for kind in (NeuralBasisRegressor, NeuralBasisClassifier):
        assert PAPER.keys() <= inspect.signature(kind).parameters.keys()
        assert kind(**PAPER).get_params()["hidden"] == (256, 128, 128)


def test_published_settings_have_no_boosted_steps():
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
