"""`tune`: held-out rows, the unchanged estimator as the first trial, the final fit; and the command `tune`."""

from __future__ import annotations

import json
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from click.testing import CliRunner
from scipy import sparse
from sklearn.base import clone
from sklearn.metrics import log_loss, roc_auc_score

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, tune
from neuralbasis.cli import main
from neuralbasis.data import hold_out

QUICK = {"max_steps": 20, "outer_bags": 2, "interactions": 0, "boosted_steps": False}
RATES = {"learning_rate": (1e-4, 0.1, "log"), "network__n_bases": [4, 16]}


def draw_rows(n_rows=240, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 3))
    return X, np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * rng.normal(size=n_rows)


def draw_classes(n_rows=240):
    X, y = draw_rows(n_rows)
    return X, np.where(y > np.median(y), "yes", "no")


def losses(tuning):
    return [trial.loss for trial in tuning.trials]


@pytest.fixture(scope="module")
def tuned():
    X, y = draw_rows()
    return tune(NeuralBasisRegressor(**QUICK), X, y, RATES, n_trials=4, verbose=False)


def test_the_loss_equals_that_of_a_fit_without_the_held_out_rows(tuned):
    X, y = draw_rows()
    is_held = hold_out(y, 0.2, False, 42)
    assert is_held.sum() == 48
    for trial in tuned.trials:
        model = NeuralBasisRegressor(**QUICK).set_params(**trial.settings).fit(X[~is_held], y[~is_held])
        rmse = math.sqrt(np.mean((y[is_held] - model.predict(X[is_held])) ** 2))
        assert trial.loss == pytest.approx(rmse, rel=1e-12)
    assert tuned.loss_name == "RMSE"


def test_the_best_settings_are_fitted_on_all_rows(tuned):
    X, y = draw_rows()
    assert tuned.best.loss == min(losses(tuned))
    assert {name: getattr(tuned.estimator, name) for name in tuned.best.settings} == tuned.best.settings
    again = clone(tuned.estimator).fit(X, y)
    np.testing.assert_array_equal(tuned.estimator.predict(X), again.predict(X))
    assert tuned.estimator.model_.summary.n_rows == len(y)


def test_the_first_trial_is_the_unchanged_estimator(tuned):
    assert tuned.trials[0].settings == {}
    assert all(set(trial.settings) == set(RATES) for trial in tuned.trials[1:])
    estimator = NeuralBasisRegressor(**QUICK)
    tune(estimator, *draw_rows(), RATES, n_trials=1, verbose=False)
    assert not hasattr(estimator, "model_")


def test_a_tuning_prints_as_a_table(tuned):
    lines = str(tuned).splitlines()
    assert re.fullmatch(rf"4 trials, 0 failed, \d+ s; the best is trial {tuned.best.number}", lines[0])
    assert lines[2].split() == ["trial", "RMSE", "seconds", "learning_rate", "network__n_bases"]
    assert lines[3].split()[0] == str(tuned.best.number)
    assert [float(line.split()[1]) for line in lines[3:]] == pytest.approx(sorted(losses(tuned)), rel=1e-4)
    assert repr(tuned) == str(tuned)
    frame = pd.DataFrame(tuned.to_rows())
    assert list(frame.columns) == ["trial", "loss", "seconds", "error", "learning_rate", "network__n_bases"]
    assert frame.loss.tolist() == losses(tuned)


def test_failed_trials_are_listed():
    X, y = draw_rows()
    with pytest.warns(UserWarning, match="failed with ValueError: n_bases must be"):
        found = tune(
            NeuralBasisRegressor(**QUICK), X, y, {"network__n_bases": [0, 4]}, n_trials=5, refit=False, verbose=False
        )
    failed = [trial for trial in found.trials if trial.error is not None]
    assert failed
    assert all(trial.settings == {"network__n_bases": 0} for trial in failed)
    assert f"5 trials, {len(failed)} failed" in str(found)
    assert str(found).splitlines()[-1].startswith(f"trial {failed[-1].number} failed with ValueError: n_bases")
    assert not hasattr(found.estimator, "model_")


def test_log_loss_and_other_scores():
    X, y = draw_classes()
    is_held = hold_out(y, 0.25, True, 7)
    options = {"n_trials": 2, "validation_size": 0.25, "random_state": 7, "refit": False, "verbose": False}
    plain = tune(NeuralBasisClassifier(**QUICK), X, y, RATES, **options)
    scored = tune(NeuralBasisClassifier(**QUICK), X, y, RATES, scoring="roc_auc", **options)
    assert (plain.loss_name, scored.loss_name) == ("log loss", "−roc_auc")
    for first, second in zip(plain.trials, scored.trials, strict=True):
        model = NeuralBasisClassifier(**QUICK).set_params(**first.settings).fit(X[~is_held], y[~is_held])
        chances = model.predict_proba(X[is_held])
        assert first.loss == pytest.approx(log_loss(y[is_held], chances), rel=1e-9)
        assert second.loss == pytest.approx(-roc_auc_score(y[is_held], chances[:, 1]), rel=1e-9)


def test_a_class_without_training_rows_has_the_smallest_probability():
    X, y = draw_classes()
    other = np.array(["other", "yes", "no"])
    found = tune(NeuralBasisClassifier(**QUICK), X, y, RATES, n_trials=1, validation=(X[:3], other), verbose=False)
    model = NeuralBasisClassifier(**QUICK).fit(X, y)
    chances = model.predict_proba(X[1:3])[[0, 1], [1, 0]]
    assert found.best.loss == pytest.approx(-(math.log(1e-15) + np.log(chances).sum()) / 3, rel=1e-9)


def test_with_validation_rows_all_rows_are_fitted():
    X, y = draw_rows()
    other = draw_rows(seed=1)
    found = tune(NeuralBasisRegressor(**QUICK), X, y, RATES, n_trials=1, validation=other, verbose=False)
    model = NeuralBasisRegressor(**QUICK).fit(X, y)
    assert found.best.loss == pytest.approx(math.sqrt(np.mean((other[1] - model.predict(other[0])) ** 2)), rel=1e-12)
    np.testing.assert_array_equal(found.estimator.predict(X), model.predict(X))


def test_weights_equal_repetition_in_the_fit_and_in_the_loss():
    X, y = draw_rows(120)
    weights = np.tile([0.0, 1.0, 2.0], 40)
    is_held = hold_out(y, 0.2, False, 42)
    found = tune(
        NeuralBasisRegressor(**QUICK), X, y, RATES, n_trials=1, sample_weight=weights, refit=False, verbose=False
    )
    model = NeuralBasisRegressor(**QUICK).fit(X[~is_held], y[~is_held], sample_weight=weights[~is_held])
    squares = (y[is_held] - model.predict(X[is_held])) ** 2
    assert found.best.loss == pytest.approx(math.sqrt(np.average(squares, weights=weights[is_held])), rel=1e-12)


def make_tables(X):
    names = ["a", "b", "c"]
    return {
        "pandas": pd.DataFrame(X, columns=names),
        "polars": pl.DataFrame(X, schema=names),
        "mapping": {name: X[:, k] for k, name in enumerate(names)},
        "sparse": sparse.csr_array(X),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "mapping", "sparse"])
def test_any_kind_of_table(kind):
    X, y = draw_rows(120)
    options = {"n_trials": 2, "refit": False, "verbose": False}
    plain = tune(NeuralBasisRegressor(**QUICK), X, y, RATES, **options)
    found = tune(NeuralBasisRegressor(**QUICK), make_tables(X)[kind], y, RATES, **options)
    # Contributions of a sparse row are summed in another order, which some processors round differently.
    assert losses(found) == (pytest.approx(losses(plain), rel=1e-9) if kind == "sparse" else losses(plain))


def test_a_stored_tuning_continues_only_with_the_same_rows(tmp_path):
    X, y = draw_rows(120)
    options = {"storage": tmp_path / "trials", "refit": False, "verbose": False}
    first = tune(NeuralBasisRegressor(**QUICK), X, y, RATES, n_trials=2, **options)
    second = tune(NeuralBasisRegressor(**QUICK, verbose=False, n_jobs=1), X, y, RATES, n_trials=4, **options)
    assert second.trials[:2] == first.trials
    whole = tune(NeuralBasisRegressor(**QUICK), X, y, RATES, n_trials=4, refit=False, verbose=False)
    assert losses(second) == losses(whole)
    with pytest.raises(ValueError, match="another search: rows differ"):
        tune(NeuralBasisRegressor(**QUICK), X, y + 1, RATES, n_trials=4, **options)
    with pytest.raises(ValueError, match="another search: estimator differ"):
        tune(NeuralBasisRegressor(**QUICK, network__hidden=(8,)), X, y, RATES, n_trials=4, **options)


def test_named_spaces_keep_parameters_that_are_not_at_their_default():
    X, y = draw_rows(120)
    options = {"n_trials": 3, "refit": False, "verbose": False}
    usual = tune(NeuralBasisRegressor(**QUICK), X, y, **options)
    assert set(usual.trials[1].settings) == {"smoothness", "learning_rate", "max_bins", "network__n_bases"}
    paper = tune(
        NeuralBasisRegressor(network__max_epochs=1, outer_bags=2, network__dropout=0.1), X, y, "paper", **options
    )
    found = paper.trials[1].settings
    assert (found["network__hidden"], found["network__engine"]) == ((256, 128, 128), "exact")
    drawn = ("learning_rate", "network__weight_decay", "network__output_penalty", "network__basis_dropout")
    assert paper.drawn == drawn
    assert "outer_bags" not in found
    assert "network__dropout" not in found
    assert "hidden" not in str(paper)


@pytest.mark.parametrize(
    ("space", "words"),
    [
        ("best", "'default', 'paper' or a dict"),
        ({"depth": [1]}, "parameters of NeuralBasisRegressor, such as 'smoothness', not 'depth'"),
        ({}, "nothing to draw"),
    ],
)
def test_wrong_spaces(space, words):
    with pytest.raises(ValueError, match=words):
        tune(NeuralBasisRegressor(), *draw_rows(), space)


@pytest.mark.parametrize("share", [0, 1, -0.5, 1e-9])
def test_wrong_shares(share):
    with pytest.raises(ValueError, match="validation_size"):
        tune(NeuralBasisRegressor(), *draw_rows(), RATES, validation_size=share)


def test_validation_rows_are_a_pair():
    with pytest.raises(ValueError, match="validation must be None or a pair"):
        tune(NeuralBasisRegressor(), *draw_rows(), RATES, validation=0.2)


def test_a_wrong_seed_is_named():
    with pytest.raises(ValueError, match="random_state must be an integer of at least 0, not -1"):
        tune(NeuralBasisRegressor(), *draw_rows(), RATES, random_state=-1)


def test_bad_data_raises_in_the_first_trial():
    X, y = draw_rows()
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="infinite"):
        tune(NeuralBasisRegressor(**QUICK), X, y, RATES, verbose=False)


@pytest.fixture
def houses(tmp_path):
    X, y = draw_rows(200)
    pd.DataFrame(X, columns=["age", "size", "rooms"]).assign(price=y).to_csv(tmp_path / "houses.csv", index=False)
    return tmp_path / "houses.csv"


def run(*arguments, code=0):
    quick = ["--set", "max_steps=20", "--set", "outer_bags=2", "--set", "boosted_steps=False", "--interactions", "0"]
    found = CliRunner().invoke(main, ["tune", *map(str, arguments), *quick])
    assert found.exit_code == code, found.output
    return found


def test_the_command_tunes_fits_scores_and_saves(houses, tmp_path):
    out, trials = tmp_path / "out.nbm", tmp_path / "trials"
    given = [houses, "--target", "price", "--model", out, "--storage", trials]
    text = run(*given, "--trials", 2).stdout
    assert text.startswith("2 trials, 0 failed")
    assert text.splitlines()[2].split()[3:] == ["smoothness", "learning_rate", "max_bins", "network__n_bases"]
    assert "40 rows held out" in text
    assert f"saved {out}: 3 terms, fitted on the other 160 rows" in text

    found = json.loads(run(*given, "--trials", 3, "--force", "--json").stdout)
    assert [row["trial"] for row in found["trials"]] == [0, 1, 2]
    best = min(found["trials"], key=lambda row: row["loss"])
    assert found["settings"].items() <= best.items()
    model = neuralbasis.load(out)
    assert found["settings"].items() <= model.summary.parameters.items()
    assert model.summary.target == "price"
    table = pd.read_csv(houses)
    is_held = hold_out(table.price.to_numpy(), 0.2, False, 42)
    held = table[is_held]
    assert found["scores"]["RMSE"]["value"] == pytest.approx(
        math.sqrt(np.mean((held.price - model.predict(held.drop(columns="price"))) ** 2))
    )
    # The rows held out for the scores took no part in the search.
    rest = table[~is_held]
    model = NeuralBasisRegressor(**QUICK, feature_types=["auto"] * 3)
    again = tune(model, rest.drop(columns="price"), rest.price, n_trials=3, refit=False, verbose=False)
    assert [row["loss"] for row in found["trials"]] == pytest.approx(losses(again), rel=1e-9)


def test_the_command_keeps_a_model_and_refuses_another_search(houses, tmp_path):
    out, trials = tmp_path / "out.nbm", tmp_path / "trials"
    out.write_text("mine")
    printed = run(houses, "--target", "price", "--model", out, code=1).stderr
    assert "exists already" in printed
    assert out.read_text() == "mine"
    printed = run(houses, "--target", "price", "--model", tmp_path / "new.nbm", "--storage", houses, code=1).stderr
    assert "houses.csv is read and cannot be written" in printed
    given = [houses, "--target", "price", "--trials", 1, "--storage", trials, "--model", tmp_path / "new.nbm"]
    run(*given)
    assert "holds trials of another search: random_state, rows differ" in run(
        *given, "--force", "--seed", 1, code=1
    ).stderr.replace("estimator, ", "")
