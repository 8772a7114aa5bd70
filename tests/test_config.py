"""FitConfig: wrong parameters are named, contradictions raise, "auto" becomes numbers, the published settings run."""

import inspect
import re
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone

from neuralbasis import NetworkConfig, NeuralBasisClassifier, NeuralBasisRegressor, StorageConfig
from neuralbasis.config import FitConfig
from tests.parameters import HOME, nest

PRESETS = ("fast", "default", "best")
NAN, INF = float("nan"), float("inf")
INTEGERS = {  # smallest value that is right
    "max_bins": 2, "max_interaction_bins": 2, "n_bases": 1, "n_interaction_bases": 1, "n_subnets": 1, "outer_bags": 1,
    "fourier": 0, "early_stopping_rounds": 0, "batch_size": 1, "max_steps": 1,
}  # fmt: skip
AUTOMATIC = ("max_interaction_bins", "outer_bags", "max_steps")  # or "auto"
OPTIONAL = ("batch_size", "n_bases")  # or None
WRONG = {
    "dropout": ("a number from 0 to below 1", [-0.1, 1, 1.5, "0.1", None, NAN, True]),
    "basis_dropout": ("a number from 0 to below 1", [-1e-9, 1.0, "none"]),
    "output_penalty": ("a number of at least 0", [-1, "0", None, INF]),
    "weight_decay": ("a number of at least 0", [-1e-5, NAN, [0.1]]),
    "early_stopping_tolerance": ("None or a number of at least 0", [-0.01, "none", NAN, True]),
    "preset": ("one of ('fast', 'default', 'best')", ["Fast", "quick", None, 1, ["fast"]]),
    "scaling": ("one of (None, 'quantile', 'minmax', 'gaussian')", ["standard", "quantiles", 3]),
    "engine": ("one of ('grid', 'exact')", ["Grid", None, ""]),
    "staged": ("True or False", ["yes", None, 0.5]),
    "boosted_steps": ("True or False", ["auto", None, 0.5]),
    "learning_rate": ("a number above 0", [0, -0.1, "auto", INF, None]),
    "validation_size": ("a share below 1 or a number of rows", [-0.1, 1.5, 1.0, "0.2", NAN, None, True, -3]),
    "basis": ("'mlp', 'spline' or a callable", ["fourier", None, 3]),
    "hidden": ("a sequence of positive integers", [64, (64, 0), (64, -1), (64.0,), "64", None]),
    "max_epochs": ("None or a number above 0", [0, -1, "10", NAN]),
    "time_limit": ("None or seconds above 0", [0, -2.5, "1 h", INF]),
    "smoothness": ("'auto' or >= 0", [-1, "none", None, NAN]),
    "batch_norm": ("True or False", ["no", None]),
    "tied_classes": ("None or True or False", ["yes", 0.5]),
    "verbose": ("True or False", ["loud", None]),
    "callbacks": ("None or a list of callables", [3, len, [len, 3]]),
    "n_jobs": ("None, a number of threads, or -1 for all cores", [0, "2", 1.5]),
}
RIGHT = {
    "dropout": [0, 0.5], "output_penalty": [0, 2], "weight_decay": [0.0], "early_stopping_tolerance": [None, 0, 1e-3],
    "scaling": [None, "quantile", "minmax", "gaussian"], "engine": ["grid", "exact"], "learning_rate": [1e-5, 1],
    "validation_size": [0, 0.0, 0.999, 1, 50, np.int64(7), np.float32(0.25)], "basis": ["spline", dict],
    "hidden": [(), [8], (64, 32), (np.int64(3),)], "max_epochs": [None, 0.5, 10], "time_limit": [None, 0.1, 60],
    "smoothness": ["auto", 0, 0.5], "batch_size": [None, 1, np.int32(5)], "max_steps": ["auto", 1],
    "tied_classes": [True, False, None],
    "staged": [True, False, 0], "max_interaction_bins": ["auto", 2, 100],
    "outer_bags": ["auto", 1, np.int64(3)], "boosted_steps": [True, False], "preset": ["fast", "default", "best"],
    "callbacks": [None, [], (len,)], "n_jobs": [None, 1, -1], "verbose": [0, 1],
}  # fmt: skip


def wrong_values():
    for name, smallest in INTEGERS.items():
        others = "'auto' or " if name in AUTOMATIC else "None or " if name in OPTIONAL else ""
        for value in (smallest - 1, smallest + 0.5, str(smallest), True, *([] if name in OPTIONAL else [None])):
            yield name, f"{others}an integer of at least {smallest}", value
    for name, (expected, values) in WRONG.items():
        for value in values:
            yield name, expected, value


@pytest.mark.parametrize(("name", "expected", "value"), list(wrong_values()))
def test_errors_name_the_parameter_what_was_expected_and_what_was_given(name, expected, value):
    with pytest.raises(ValueError) as error:
        FitConfig.read(NeuralBasisRegressor(**nest({name: value})))
    assert str(error.value) == f"{name} must be {expected}, not {value!r}"


@pytest.mark.parametrize(("name", "given"), [("random_state", "seven"), ("device", "abacus")])
def test_errors_of_other_libraries_name_the_parameter(name, given):
    with pytest.raises(ValueError, match=rf"^{name} must be .*{given}"):
        FitConfig.read(NeuralBasisRegressor(**{name: given}))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name in RIGHT for value in RIGHT[name]])
def test_right_values_pass(name, value):
    FitConfig.read(NeuralBasisRegressor(**nest({name: value})))


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_defaults_pass(kind):
    FitConfig.read(kind())


def test_fit_checks_before_it_reads_the_table():
    with pytest.raises(ValueError, match="n_bases must be None or an integer of at least 1, not 0"):
        NeuralBasisRegressor(network={"n_bases": 0}).fit(None, None)


@pytest.mark.parametrize("smoothness", [1, 0.5])
def test_smoothness_contradicts_the_exact_engine(smoothness):
    with pytest.raises(ValueError, match=rf"smoothness={smoothness} contradicts engine='exact'.*set smoothness=0 or"):
        FitConfig.read(NeuralBasisRegressor(network__engine="exact", smoothness=smoothness))
    FitConfig.read(NeuralBasisRegressor(network__engine="exact", smoothness=0.0))


def test_steps_contradict_epochs():
    with pytest.raises(ValueError, match="max_steps and max_epochs contradict each other: give one of them"):
        FitConfig.read(NeuralBasisRegressor(max_steps=10, network__max_epochs=10))


def test_automatic_values_are_none():
    config = FitConfig.read(NeuralBasisClassifier())
    automatic = [name for name, value in config.given.items() if isinstance(value, str) and value == "auto"]
    kept = {"interactions", "max_terms"}  # whose "auto" is not None
    assert {name for name in automatic if getattr(config, name) is not None} == kept
    assert {name for name in automatic if getattr(config, name) is None} == set(automatic) - kept
    assert (config.estimator, config.classifier) == ("NeuralBasisClassifier", True)


def test_a_config_cannot_be_changed():
    config = FitConfig.read(NeuralBasisRegressor())
    with pytest.raises(AttributeError):
        config.max_bins = 3  # type: ignore[misc]
    assert isinstance(config.given, MappingProxyType)


def test_changed_parameters_differ_from_their_default_and_from_the_fit_before():
    given = NeuralBasisRegressor(network={"hidden": [64, 64, 32], "n_bases": 8}, exclude=(1,))
    assert FitConfig.read(given).changed == {"n_bases", "exclude"}
    assert FitConfig.read(given, {"exclude": [1]}).changed == {"n_bases"}


def test_only_the_first_process_shows_progress():
    config = FitConfig.read(NeuralBasisRegressor(verbose=True))
    assert [config.resolve(100, rank=rank).verbose for rank in (0, 1)] == [True, False]


@pytest.mark.parametrize("preset", PRESETS)
def test_members_follow_the_preset_and_the_rows(preset):
    config = FitConfig.read(NeuralBasisRegressor(preset=preset))
    members = [config.resolve(n_rows).outer_bags for n_rows in (1, 99_999, 100_000, 10**8)]
    assert members == {"fast": [3, 3, 2, 2], "default": [7, 7, 2, 2], "best": [14, 14, 4, 4]}[preset]
    assert config.resolve(1, wide=True).outer_bags == {"fast": 2, "default": 3, "best": 7}[preset]
    assert config.outer_bags is None


@given(st.sampled_from(PRESETS), st.integers(1, 10**9), st.integers(1, 50))
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
    model = NeuralBasisRegressor(preset="fast", network__hidden=(8,), max_steps=4, interactions=0)
    before = model.get_params()
    shape = model.fit(X, X[:, 0]).model_.shapes[0]
    assert shape.members.shape[-2] == 3
    assert model.get_params() == before


def test_an_unknown_preset_is_refused_by_fit():
    with pytest.raises(ValueError, match=r"^preset must be one of \('fast', 'default', 'best'\), not 'slow'$"):
        NeuralBasisRegressor(preset="slow").fit([[0.0], [1.0]], [0.0, 1.0])


def test_the_published_network_has_one_member_and_can_be_changed():
    config = FitConfig.read(NeuralBasisRegressor(network="paper", network__dropout=0.1)).resolve(1000)
    network = config.network
    assert (network.hidden, network.n_bases, network.engine) == ((256, 128, 128), 100, "exact")
    assert (network.staged, network.dropout, config.outer_bags) == (False, 0.1, 1)
    assert FitConfig.read(NeuralBasisRegressor(network="paper", outer_bags=3)).resolve(1000).outer_bags == 3


def test_published_settings_fit():
    rng = np.random.default_rng(0)
    X = rng.random((150, 2))
    y = np.sin(4 * X[:, 0]) + X[:, 1]
    model = NeuralBasisRegressor(network="paper", max_steps=60, validation_size=0, learning_rate=0.005).fit(X, y)
    assert model.score(X, y) > 0.9
    labels = np.array(["a", "b", "c"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    classifier = NeuralBasisClassifier(network="paper", max_steps=60, validation_size=0, learning_rate=0.005).fit(
        X, labels
    )
    assert classifier.score(X, labels) > 0.65


def test_a_group_is_an_object_a_mapping_or_single_settings():
    spellings = [
        {"network": NetworkConfig(n_bases=8, hidden=(4,))},
        {"network": {"n_bases": 8, "hidden": [4]}},
        {"network__n_bases": 8, "network__hidden": [4]},
        {"network": {"n_bases": 8}, "network__hidden": (4,)},
    ]
    configs = [FitConfig.read(NeuralBasisRegressor(**options)) for options in spellings]
    assert {config.network for config in configs} == {NetworkConfig(n_bases=8, hidden=(4,))}
    assert all(config.changed == {"n_bases", "hidden"} for config in configs)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"network": {"n_basis": 3}}, "network has no setting 'n_basis'; did you mean 'n_bases'?"),
        ({"network": 3}, "network must be None, 'paper', a mapping or a NetworkConfig, not 3"),
        ({"network": "papers"}, "network must be None, 'paper', a mapping or a NetworkConfig, not 'papers'"),
        ({"storage": "2GB"}, "storage must be None, a mapping or a StorageConfig, not '2GB'"),
        ({"storage": {"keep_cache": True}}, "keep_cache=True needs a cache_dir"),
        ({"interactions": {1: 3}}, "interactions as a mapping has the keys 2 for pairs and 3 for triples, not 1"),
    ],
)
def test_wrong_groups_are_named(options, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}"):
        FitConfig.read(NeuralBasisRegressor(**options))


def test_a_typo_names_the_nearest_parameter():
    with pytest.raises(TypeError, match=r"Invalid parameter 'interaction' for .*: did you mean 'interactions'\?"):
        NeuralBasisRegressor(interaction=3)
    with pytest.raises(ValueError, match="Invalid parameter 'network__n_basis'"):
        NeuralBasisRegressor().set_params(network__n_basis=3)


def test_settings_of_a_group_are_set_together(tmp_path):
    estimator = NeuralBasisRegressor(storage__keep_cache=True, storage__cache_dir=tmp_path)
    assert estimator.storage == StorageConfig(keep_cache=True, cache_dir=tmp_path)
    assert estimator.get_params()["storage__cache_dir"] == tmp_path


def test_there_are_few_parameters():
    assert len(inspect.signature(NeuralBasisClassifier).parameters) <= 24


OLD = {
    "n_bases": ("auto", {"network__n_bases": None}),
    "memory_limit": ("2GB", {"storage__memory_limit": "2GB"}),
    "refine": (False, {"boosted_steps": False}),
    "triples": (3, {"interactions": {2: "auto", 3: 3}}),
    "knots": ({"age": [1.0, 2.0]}, {"feature_types": {"age": [1.0, 2.0]}}),
    "heredity": (None, {}),
}


@pytest.mark.parametrize("name", OLD)
def test_names_of_version_1_work_with_a_warning(name):
    value, new = OLD[name]
    with pytest.warns(FutureWarning, match=f"^{name} ") as caught:
        estimator = NeuralBasisRegressor(**{name: value})
    assert caught[0].filename == __file__
    assert estimator.get_params() == NeuralBasisRegressor(**new).get_params()
    with pytest.warns(FutureWarning, match=f"^{name} "):
        assert NeuralBasisRegressor().set_params(**{name: value}).get_params() == estimator.get_params()


def test_a_summary_has_all_settings_by_their_own_names():
    X = np.random.default_rng(0).random((60, 2))
    estimator = NeuralBasisRegressor(network__n_bases=5, max_bins=9, max_steps=2, interactions=0)
    flat = estimator.fit(X, X[:, 0]).model_.summary.parameters
    assert (flat["n_bases"], flat["max_bins"], set(HOME) - set(flat)) == (5, 9, set())
    assert NeuralBasisRegressor(**nest(flat)).get_params() == estimator.get_params() | {
        "storage": StorageConfig(), "network": NetworkConfig(n_bases=5),
    }  # fmt: skip
