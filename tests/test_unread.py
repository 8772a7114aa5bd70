"""Parameters that a kind of fit never reads: `config.UNREAD` is true and complete, and a fit warns of them."""

from __future__ import annotations

import warnings
from copy import deepcopy
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.sparse import random_array

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, load, update
from neuralbasis.config import UNREAD, FitConfig, warn_unread
from neuralbasis.networks import MLPBasis
from tests.parameters import nest
from tests.stream_tables import small_memory

QUICK = {"outer_bags": 1, "max_steps": 8, "interactions": [(0, 1)], "n_jobs": 1}
NETWORK = {
    "n_bases": 5, "n_interaction_bases": 20, "hidden": (8,), "n_subnets": 2, "fourier": 3, "batch_norm": True,
    "dropout": 0.3, "basis_dropout": 0.3, "smoothness": 30.0, "learning_rate": 0.004, "weight_decay": 0.5,
    "output_penalty": 1.0,
}  # fmt: skip
OTHERS = {
    "feature_types": ["nominal"] * 3, "max_bins": 9, "max_interaction_bins": 5,
    "interactions": {2: 0, 3: 1}, "exclude": ["x2"], "max_terms": 1, "scaling": "minmax",
    "staged": False, "boosted_steps": False, "cache_dir": "cache", "keep_cache": True, "checkpoint_dir": "state",
    "checkpoint_every": 1.0, "early_stopping_rounds": 1, "early_stopping_tolerance": 0.5,
}  # fmt: skip
WIDE = random_array((200, 20_000), density=0.0004, format="csr", random_state=0)


def draw(n_rows: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.random((n_rows, 3))
    return X, np.sin(6 * X[:, 0]) + 2 * X[:, 0] * X[:, 1] + 0.1 * rng.normal(size=n_rows)


def make_basis(n_inputs, n_bases, n_copies, generator):
    return MLPBasis(n_inputs, n_bases, n_copies, (7,), 2, generator=generator)


def fit(**options) -> np.ndarray:
    X, y = draw()
    return NeuralBasisRegressor(**QUICK, **nest(options)).fit(X, y).predict(X)


def fit_wide(**options) -> np.ndarray:
    y = WIDE.sum(axis=1) + np.random.default_rng(0).normal(size=200)
    model = NeuralBasisRegressor(**nest({**QUICK, "max_steps": "auto", "max_epochs": 1, **options})).fit(WIDE, y)
    assert model.model_.is_wide
    return model.predict(WIDE)


def fit_present(**options) -> np.ndarray:
    table = WIDE[:, :1200]
    y = table.sum(axis=1) + np.random.default_rng(0).normal(size=200)
    given = {**QUICK, "interactions": 0, "network__engine": "exact", "network__scaling": "minmax", **nest(options)}
    return NeuralBasisRegressor(**given).fit(table, y).predict(table)


@pytest.fixture(scope="module")
def fitted() -> NeuralBasisRegressor:
    return NeuralBasisRegressor(**QUICK).fit(*draw())


@pytest.fixture
def fit_by(fitted, tmp_path):
    """Name of a path -> a function from options to the predictions of a fit on that path."""

    def fit_update(**options) -> np.ndarray:
        X, y = draw(200)
        options = {name: tmp_path if name.endswith("_dir") else value for name, value in options.items()}
        return deepcopy(fitted).set_params(**nest(options)).update(X, y + 3 * X[:, 1]).predict(X)

    def fit_files(**options) -> np.ndarray:
        X, y = draw(1500)
        table = pa.table({f"x{d}": X[:, d] for d in range(3)} | {"y": y})
        pyarrow.parquet.write_table(table, tmp_path / "rows.parquet", row_group_size=500)
        model = NeuralBasisRegressor(**QUICK, storage__memory_limit=100_000, **nest(options))
        with small_memory():
            return model.fit(str(tmp_path / "rows.parquet"), "y").model_.predict(X)

    return {
        "": fit,
        "exact": lambda **options: fit(network__engine="exact", **options),
        "files": fit_files,
        "other basis": lambda **options: fit(network__basis="spline", **options),
        "no validation": lambda **options: fit(validation_size=0, **options),
        "wide": fit_wide,
        "present": fit_present,
        "update": fit_update,
    }


PATHS = ["", "exact", "files", "other basis", "no validation", "wide", "present", "update"]
# Refused with the exact engine; without effect where no interactions are requested.
NOT_GIVEN = {"exact": ("smoothness",), "present": ("smoothness", "n_interaction_bases")}


@pytest.mark.parametrize("path", PATHS)
def test_a_path_reads_the_network_parameters_that_are_not_listed(path, fit_by):
    usual, unread = fit_by[path](), UNREAD.get(path, ())
    for name, value in NETWORK.items():
        if name not in (*unread, *NOT_GIVEN.get(path, ())):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                assert not np.array_equal(fit_by[path](**{name: value}), usual), name


@pytest.mark.parametrize("path", list(UNREAD))
def test_listed_parameters_change_nothing_and_one_warning_names_them(path, fit_by):
    listed = ", ".join(UNREAD[path][:-1]) + f" and {UNREAD[path][-1]}"
    with pytest.warns(UserWarning, match=f"^{listed} have no effect: .*; ") as caught:
        found = fit_by[path](**{name: (NETWORK | OTHERS)[name] for name in UNREAD[path]})
    assert len(caught) == 1
    assert caught[0].filename == __file__, "the warning points at the call of fit"
    np.testing.assert_array_equal(found, fit_by[path]())


@pytest.mark.parametrize(("path", "name"), [(path, name) for path in UNREAD for name in UNREAD[path]])
def test_a_single_parameter_is_named_alone(path, name):
    given = {"other basis": {"network__basis": "spline"}, "no validation": {"validation_size": 0}}.get(path, {})
    with pytest.warns(UserWarning, match=f"^{name} has no effect: "):
        warn_unread(replace(FitConfig.read(NeuralBasisRegressor(**given)), changed=frozenset({name})), [path])


def test_a_callable_basis_reads_no_network_parameters():
    usual = fit(network__basis=make_basis)
    with pytest.warns(UserWarning, match="^hidden, fourier, batch_norm and dropout have no effect: only basis='mlp'"):
        found = fit(
            network__basis=make_basis,
            network__hidden=(3,),
            network__fourier=1,
            network__batch_norm=True,
            network__dropout=0.5,
        )
    np.testing.assert_array_equal(found, usual)


def test_one_warning_names_all_paths():
    with pytest.warns(UserWarning, match="^hidden has no effect: .*early_stopping_rounds has no effect: ") as caught:
        fit(network__basis="spline", network__hidden=(3,), validation_size=0, early_stopping_rounds=3)
    assert len(caught) == 1


def test_an_update_is_silent_about_what_the_model_was_fitted_with(tmp_path):
    X, y = draw()
    model = NeuralBasisRegressor(**QUICK, max_bins=33, exclude=(2,), network__scaling="minmax", warm_start=True).fit(
        X, y
    )
    model.update(X, y).fit(X, y)
    model.save(tmp_path / "model.nbm")
    loaded = load(tmp_path / "model.nbm")
    update(loaded, X, y, max_bins=33)
    with pytest.warns(UserWarning, match="^max_bins has no effect: an update keeps the knots"):
        update(loaded, X, y, max_bins=17)


def test_defaults_presets_and_the_published_settings_are_silent():
    X, y = draw(120)
    paper = {"network": "paper", "max_steps": 3}
    for options in [{"preset": "fast"}, paper, {**paper, "interactions": 0}]:
        NeuralBasisRegressor(**options).fit(X, y)
    for preset in ("fast", "default", "best"):
        NeuralBasisClassifier(preset=preset, network__max_epochs=0.1).fit(WIDE, np.arange(200) % 2)
