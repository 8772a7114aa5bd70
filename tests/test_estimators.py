"""The estimators: scikit-learn's checks, EBM's spelling, any label and any table, and quality on bundled data."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from typing import Any
from unittest import SkipTest

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.sparse import csc_matrix
from scipy.sparse import random as sparse_random
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.impute import SimpleImputer
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import neuralbasis
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor

ESTIMATORS = (NeuralBasisRegressor, NeuralBasisClassifier)
QUICK = {"max_steps": 20, "outer_bags": 2, "random_state": 1, "interactions": 0}
# The fewest tens of steps with which scikit-learn's own accuracy checks pass, and a margin.
CHECKED = {"max_steps": 40, "interactions": 0}

# The only checks that may be skipped: this one needs SCIPY_ARRAY_API=1 and the packages array-api-compat and
# array-api-strict.
OPTIONAL = {"check_array_api_input"}


@parametrize_with_checks([kind(**CHECKED) for kind in ESTIMATORS])
def test_scikit_learn_check(estimator, check):
    name, reason = check.func.__name__, ""
    try:
        check(estimator)
    except SkipTest as skipped:
        reason = f"{name}: {skipped}"
    if reason:
        assert name in OPTIONAL, reason
        pytest.skip(reason)


PAIRED_CHECKS = [
    "check_sample_weight_equivalence_on_dense_data",
    "check_sample_weights_not_overwritten",
    "check_methods_subset_invariance",
    "check_estimators_pickle",
    "check_dict_unchanged",
    "check_fit2d_1feature",
    "check_positive_only_tag_during_fit",
    "check_n_features_in",
    "check_n_features_in_after_fitting",
]


@pytest.mark.parametrize("kind", ESTIMATORS)
@pytest.mark.parametrize("name", PAIRED_CHECKS)
def test_scikit_learn_check_with_automatic_pairs(kind, name):
    getattr(estimator_checks, name)(kind.__name__, kind(max_steps=40))


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scikit_learn_check_with_all_defaults(kind):
    estimator_checks.check_fit_idempotent(kind.__name__, kind())


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_scikit_learn_check_of_weights_with_all_steps(kind):
    estimator_checks.check_sample_weight_equivalence_on_dense_data(kind.__name__, kind(interactions=0))


def make_table(n_rows: int = 200, seed: int = 0) -> pd.DataFrame:
    """Numbers with missing values, a two-valued, a constant and a text column."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "size": np.where(rng.random(n_rows) < 0.1, np.nan, rng.normal(size=n_rows)),
            "age": rng.integers(18, 80, n_rows),
            "smoker": rng.integers(0, 2, n_rows),
            "same": np.full(n_rows, 3.5),
            "colour": rng.choice(["red", "green", "blue"], n_rows),
        }
    )


def make_score(table: pd.DataFrame, seed: int = 0) -> np.ndarray:
    noise = 0.2 * np.random.default_rng(seed).normal(size=len(table))
    signal = np.sin(2 * table["size"].fillna(0)) + table["age"] / 40 + table["smoker"] - (table["colour"] == "red")
    return (signal + noise).to_numpy()


def make_labels(table: pd.DataFrame, n_classes: int) -> np.ndarray:
    """Class indices 0 … n_classes - 1, of about equal size."""
    score = make_score(table)
    return np.digitize(score, np.quantile(score, np.arange(1, n_classes) / n_classes))


PAIRED = {**QUICK, "interactions": [("size", "age")]}


def make_crossed(table: pd.DataFrame, task: str) -> np.ndarray:
    """A target with an interaction of size and age."""
    score = make_score(table) + (table["size"].fillna(0) * (table["age"] - 50) / 10).to_numpy()
    cuts = {"regression": [], "binary": [0.5], "multiclass": [0.3, 0.6]}[task]
    return np.digitize(score, np.quantile(score, cuts)) if cuts else score


@pytest.fixture(scope="module", params=["regression", "binary", "multiclass"])
def fitted(request):
    table, kind = make_table(), NeuralBasisRegressor if request.param == "regression" else NeuralBasisClassifier
    return request.param, table, kind(**PAIRED).fit(table, make_crossed(table, request.param))


def test_attributes_in_the_spelling_of_ebm(fitted):
    task, table, estimator = fitted
    assert estimator.n_features_in_ == 5
    assert estimator.feature_names_in_.tolist() == list(table.columns)
    assert estimator.feature_types_in_ == ["continuous"] * 4 + ["nominal"]
    assert estimator.term_names_ == [*table.columns, "size & age"]
    assert estimator.term_features_ == [(0,), (1,), (2,), (3,), (4,), (0, 1)]
    assert estimator.link_ == {"regression": "identity", "binary": "logit", "multiclass": "mlogit"}[task]
    if task == "regression":
        assert type(estimator.intercept_) is float
    else:
        assert estimator.intercept_.shape == ((3,) if task == "multiclass" else (1,))
    history = estimator.history_
    assert len(history.validation) == len(history.steps) == len(history.seconds) > history.best >= 0
    n_main, n_pairs = history.stage.count("main effects"), history.stage.count("pairs")
    assert history.stage == ["main effects"] * n_main + ["shares"] + ["pairs"] * n_pairs + ["shares"]
    assert history.steps == sorted(history.steps)
    assert len(set(history.steps)) == n_main + n_pairs  # shares take no steps
    assert history.best == len(history.stage) - 1
    assert history.validation[history.best] < min(history.constant, *history.validation[: n_main // 2])
    assert estimator.interaction_ranking_ == []  # the pair was requested, none was searched
    assert hasattr(estimator, "classes_") == (task != "regression")


def test_tables_have_a_cell_for_each_knot_and_two_more(fitted):
    task, _, estimator = fitted
    classes = (3,) if task == "multiclass" else ()
    for term, scores, spread, weights in zip(
        estimator.term_features_,
        estimator.term_scores_,
        estimator.standard_deviations_,
        estimator.bin_weights_,
        strict=True,
    ):
        axes = [estimator.bins_[feature][min(len(term), len(estimator.bins_[feature])) - 1] for feature in term]
        assert scores.shape == tuple(len(axis) + 2 for axis in axes) + classes
        assert spread.shape == scores.shape
        assert weights.shape == scores.shape[: len(term)]
        assert (spread >= 0).all()


def test_bins(fitted):
    _, table, estimator = fitted
    assert [len(axes) for axes in estimator.bins_] == [2, 2, 1, 1, 1]
    assert estimator.bins_[2][0].tolist() == [0.0, 1.0]
    assert estimator.bins_[3][0].tolist() == [3.5]
    assert estimator.bins_[4][0] == {"blue": 1, "green": 2, "red": 3}
    fine, coarse = estimator.bins_[1]
    assert fine.tolist() == sorted(table["age"].unique())
    assert len(coarse) <= 25 < len(fine)
    assert np.isin(coarse, fine).all()


def test_weights_of_a_main_effect_sum_to_the_number_of_rows(fitted):
    _, table, estimator = fitted
    for weights in estimator.bin_weights_:
        np.testing.assert_allclose(weights.sum(), len(table), rtol=1e-5)
    size, colour = estimator.bin_weights_[0], estimator.bin_weights_[4]
    assert size[0] == table["size"].isna().sum()
    assert size[-1] == 0
    assert colour[1:-1].tolist() == table["colour"].value_counts().sort_index().tolist()


def test_contributions_and_intercept_are_the_score(fitted):
    task, table, estimator = fitted
    contributions = estimator.eval_terms(table)
    assert contributions.shape == (len(table), 6, 3) if task == "multiclass" else (len(table), 6)
    total = contributions.sum(axis=1) + estimator.intercept_
    score = estimator.predict(table) if task == "regression" else estimator.decision_function(table)
    np.testing.assert_allclose(total, score, rtol=1e-9, atol=1e-12)


def test_importances(fitted):
    _, table, estimator = fitted
    contributions = estimator.eval_terms(table).reshape(len(table), 6, -1)
    mean, width = estimator.term_importances(), estimator.term_importances("min_max")
    np.testing.assert_array_equal(mean, estimator.term_importances(importance_type="avg_weight"))
    direct = np.abs(contributions).mean(axis=(0, 2))
    # Main effects: the rows stand near knots. In a pair, |scores| of four cells are averaged, not the |average|.
    np.testing.assert_allclose(mean[:5], direct[:5], rtol=0.02, atol=1e-9)
    assert direct[5] <= mean[5] * (1 + 1e-5)
    direct = np.ptp(contributions, axis=0).mean(axis=1)
    np.testing.assert_allclose(width[:5], direct[:5], rtol=0.02, atol=1e-9)
    assert (mean >= 0).all()
    assert mean[3] == width[3] == 0


def test_a_constant_column_contributes_nothing(fitted):
    _, table, estimator = fitted
    assert np.all(estimator.eval_terms(table)[:, 3] == 0)


@pytest.mark.filterwarnings("ignore:Missing values detected", "ignore:For multiclass we cannot")
def test_a_fitted_ebm_has_the_same_attributes(fitted):
    glassbox = pytest.importorskip("interpret.glassbox")
    task, table, ours = fitted
    kind = "ExplainableBoostingRegressor" if task == "regression" else "ExplainableBoostingClassifier"
    y = make_score(table) if task == "regression" else ours.predict(table)
    ebm = getattr(glassbox, kind)(interactions=PAIRED["interactions"], outer_bags=2, max_rounds=5, n_jobs=1).fit(
        table, y
    )
    assert ours.term_names_ == ebm.term_names_
    assert ours.term_features_ == [tuple(int(feature) for feature in term) for term in ebm.term_features_]
    assert ours.link_ == ebm.link_
    assert ours.n_features_in_ == ebm.n_features_in_
    assert list(ours.feature_names_in_) == list(ebm.feature_names_in_)
    for name in ("term_scores_", "standard_deviations_", "bin_weights_"):
        mine, theirs = getattr(ours, name), getattr(ebm, name)
        assert isinstance(mine, list)
        assert [table.ndim for table in mine] == [table.ndim for table in theirs]
    for name in ("bins_", "feature_types_in_"):
        assert isinstance(getattr(ours, name), list)
        assert len(getattr(ours, name)) == len(getattr(ebm, name))
    assert np.shape(ours.intercept_) == np.shape(ebm.intercept_)
    assert ours.eval_terms(table).shape == ebm.eval_terms(table).shape
    for importance_type in ("avg_weight", "min_max"):
        assert np.shape(ours.term_importances(importance_type)) == np.shape(ebm.term_importances(importance_type))
    if task != "regression":
        assert ours.classes_.tolist() == ebm.classes_.tolist()


FIVE = {
    "text": np.array(["a", "b", "c", "d", "e"]),
    "integers": np.array([3, 5, 8, 13, 21]),
    "small integers": np.array([-2, -1, 0, 1, 2], dtype=np.int8),
    "floats": np.array([-1.0, 0.0, 2.0, 3.0, 7.0]),
    "mixed case": np.array(["Alpha", "BETA", "gamma", "omega", "psi"], dtype=object),
}
TWO = {name: labels[:2] for name, labels in FIVE.items()} | {"booleans": np.array([False, True])}


@pytest.mark.parametrize(
    "labels", [*TWO.values(), *FIVE.values()], ids=[f"two {name}" for name in TWO] + [f"five {name}" for name in FIVE]
)
def test_labels_of_any_type(labels):
    table = make_table()
    y = labels[make_labels(table, len(labels))]
    estimator = NeuralBasisClassifier(**QUICK).fit(table, y)
    assert estimator.classes_.dtype == estimator.predict(table).dtype == y.dtype
    assert estimator.classes_.tolist() == sorted(labels.tolist())
    assert set(estimator.predict(table)) <= set(labels.tolist())
    probabilities = estimator.predict_proba(table)
    assert probabilities.shape == (len(table), len(labels))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-12)
    np.testing.assert_array_equal(estimator.predict(table), estimator.classes_[probabilities.argmax(axis=1)])
    # The names of the classes change nothing else.
    plain = NeuralBasisClassifier(**QUICK).fit(table, make_labels(table, len(labels)))
    np.testing.assert_array_equal(plain.predict_proba(table), probabilities)


@pytest.mark.parametrize(
    "hold",
    [
        pd.Series,
        pd.Categorical,
        lambda y: pd.Series(y, dtype="string"),
        pl.Series,
        lambda y: pl.Series(y, dtype=pl.Categorical),
        list,
    ],
    ids=["pandas", "pandas categorical", "pandas string", "polars", "polars categorical", "list"],
)
def test_labels_in_any_container(hold):
    table = make_table()
    y = np.array(["no", "yes", "maybe"])[make_labels(table, 3)]
    estimator = NeuralBasisClassifier(**QUICK).fit(table, hold(y.tolist()))
    assert estimator.classes_.tolist() == ["maybe", "no", "yes"]
    plain = NeuralBasisClassifier(**QUICK).fit(table, y)
    assert estimator.predict(table).tolist() == plain.predict(table).tolist()


@pytest.mark.parametrize("dtype", ["Int64", "boolean"])
def test_labels_in_nullable_pandas_types(dtype):
    table = make_table()
    y = make_labels(table, 2)
    estimator = NeuralBasisClassifier(**QUICK).fit(table, pd.array(y.astype(bool), dtype=dtype))
    assert estimator.classes_.astype(int).tolist() == [0, 1]
    np.testing.assert_array_equal(
        estimator.predict_proba(table), NeuralBasisClassifier(**QUICK).fit(table, y).predict_proba(table)
    )


def test_any_table_gives_the_same_model():
    table = make_table()
    y = make_score(table)
    forms = {
        "pandas": table,
        "polars": pl.DataFrame(table.to_dict("list")),
        "Arrow": pa.Table.from_pandas(table),
        "dict of arrays": {name: table[name].to_numpy() for name in table},
        "dict of lists": table.to_dict("list"),
        "nullable": table.astype({"size": "Float64", "age": "Int64", "smoker": "boolean", "colour": "category"}),
        "text": table.astype({"colour": "string"}),
    }
    expected = NeuralBasisRegressor(**QUICK).fit(table, y).predict(table)
    for name, form in forms.items():
        estimator = NeuralBasisRegressor(**QUICK).fit(form, y)
        np.testing.assert_array_equal(estimator.predict(form), expected, err_msg=name)
        assert estimator.feature_names_in_.tolist() == list(table.columns)
        for other in forms.values():
            np.testing.assert_array_equal(estimator.predict(other), expected, err_msg=name)
    objects = table.to_numpy(dtype=object)
    for array in (objects, objects.tolist()):
        estimator = NeuralBasisRegressor(**QUICK, feature_names=list(table.columns)).fit(array, y)
        assert estimator.term_names_ == list(table.columns)
        np.testing.assert_array_equal(estimator.predict(array), expected)


def test_arrays_and_frames_of_numbers_give_the_same_model():
    X = np.random.default_rng(0).normal(size=(150, 3))
    plain = NeuralBasisRegressor(**QUICK).fit(X, X[:, 0])
    assert plain.term_names_ == ["feature_0000", "feature_0001", "feature_0002"]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    named = NeuralBasisRegressor(**QUICK).fit(frame, X[:, 0])
    np.testing.assert_array_equal(plain.predict(X), named.predict(frame))
    np.testing.assert_array_equal(plain.predict(np.asfortranarray(X)), plain.predict(X))
    np.testing.assert_array_equal(plain.predict(X[::2]), plain.predict(X)[::2])
    numbered = NeuralBasisRegressor(**QUICK).fit(pd.DataFrame(X), X[:, 0])  # numbers are no names for scikit-learn
    for table in (pd.DataFrame(X), X):
        np.testing.assert_array_equal(numbered.predict(table), plain.predict(X))


def write_texts(values: np.ndarray) -> list[str]:
    """Prices as text: separated thousands, one percent sign, a missing value and a few other texts."""
    return [*(f"{value:,.1f}" for value in values[:-4]), f"+{values[-4]:.1f} %", "N/A", "free", "on request"]


def text_tables(texts: list[str], kinds: list[str]) -> dict[str, Any]:
    """The same table in every container that holds text."""
    rows = list(zip(texts, kinds, strict=True))
    table = {"price": texts, "kind": kinds}
    frame = pd.DataFrame(table)
    return {
        "object": frame.astype(object), "string": frame.astype("string"), "arrow": frame.astype("string[pyarrow]"),
        "polars": pl.DataFrame(table), "table": pa.table(table), "mapping": table, "rows": rows,
        "array": np.array(rows, dtype=object), "text": np.array(rows), "mixed": pd.DataFrame({
            "price": [float(text) if text.replace(".", "").isdigit() else text for text in texts], "kind": kinds,
        }),
    }  # fmt: skip


def test_text_that_is_numbers_gives_one_model_in_every_container(tmp_path):
    rng = np.random.default_rng(0)
    values, kinds = np.round(rng.uniform(500, 3000, 120), 1), rng.choice(["a", "b"], 120).tolist()
    y, texts = np.sin(values / 400) + (np.array(kinds) == "b"), write_texts(values)
    numbers = pd.DataFrame({"price": [*values[:-3], None, None, None], "kind": kinds})
    settings = {**QUICK, "max_steps": 5, "boosted_steps": False, "feature_names": ["price", "kind"]}
    known = NeuralBasisRegressor(**settings).fit(numbers, y).predict(numbers)
    tables = text_tables(texts, kinds)
    pq.write_table(tables["table"].append_column("y", pa.array(y)), tmp_path / "table.parquet")
    tables["object"].assign(y=y).to_csv(tmp_path / "table.csv", index=False)
    fits = [(table, y) for table in tables.values()]
    fits += [(str(tmp_path / "table.parquet"), "y"), (str(tmp_path / "table.csv"), "y")]
    message = (
        r"'price' holds numbers as text and is read as numbers; .*2 of 119 values are not numbers, such as '(free|on)"
    )
    for X, target in fits:
        with pytest.warns(UserWarning, match=message):
            estimator = NeuralBasisRegressor(**settings).fit(X, target)
        np.testing.assert_array_equal(estimator.predict(numbers.to_numpy()), known)
    records = tables["object"].to_dict("records")
    for X in (*tables.values(), records):
        with pytest.warns(UserWarning, match="'price' holds numbers, but 2 of 119 values are not numbers"):
            np.testing.assert_array_equal(estimator.predict(X), known)
    assert estimator.predict([{"price": "1,200", "kind": "a"}]) == estimator.predict([{"price": 1200, "kind": "a"}])
    with pytest.warns(UserWarning, match="'price' holds numbers"):
        explanation = estimator.explain_local(records)
    assert [row[0] for row in explanation.values] == [*values[:-3], None, None, None]


def test_text_as_labels_where_feature_types_are_nominal():
    table = {"zip": ["12", "34", "56", "78"] * 10}
    y = np.tile([0.0, 3.0, 1.0, 2.0], 10)
    estimator = NeuralBasisRegressor(**QUICK, feature_types=["nominal"]).fit(table, y)
    assert estimator.feature_types_in_ == ["nominal"]
    assert estimator.bins_[0][0] == {"12": 1, "34": 2, "56": 3, "78": 4}
    padded = {"zip": ["02134", "94105", "10001", "60601"] * 10}
    assert NeuralBasisRegressor(**QUICK).fit(padded, y).feature_types_in_ == ["nominal"]


def test_a_table_of_another_coding_gives_a_warning():
    table = {"grade": ["a", "b", "c", None] * 10, "x": np.arange(40.0)}
    estimator = NeuralBasisRegressor(**QUICK).fit(table, np.arange(40.0))
    other = {"grade": ["1", "2", "a", None] * 10, "x": np.arange(40.0)}
    records = [dict(zip(other, row, strict=True)) for row in zip(*other.values(), strict=True)]
    match = r"column 'grade': 20 of 30 values .* does not know, such as '1' \(10 rows\), .*; it knows 'a', 'b', 'c'\. "
    for X in (other, pd.DataFrame(other), records):
        with pytest.warns(UserWarning, match=match):
            estimator.predict(X)
    estimator.predict(records[:19])  # too few for a warning
    estimator.predict(
        {"grade": ["1", "a", "a", "a"] * 10, "x": np.arange(40.0) + 1e6}
    )  # beyond the knots is not unseen


def test_feature_types_by_name_are_those_by_position():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.uniform(16, 90, 300), "dose": rng.uniform(0, 1, 300)})
    y = np.abs(table["age"] - 30) / 20 + table["dose"]
    cuts = NeuralBasisRegressor(**QUICK, feature_types=[[18, 30, 65], "auto"]).fit(table, y)
    knots = NeuralBasisRegressor(**QUICK, feature_types={"age": [18, 30, 65]}).fit(table, y)
    assert cuts.feature_types_in_ == ["continuous", "continuous"]
    np.testing.assert_array_equal(cuts.predict(table), knots.predict(table))


@pytest.fixture(scope="module")
def scaled_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    return X, np.sin(X[:, 0]) + 2 * (X[:, 1] > 0.3), rng.uniform(0.2, 3, 200)


@pytest.fixture(scope="module")
def scaled_models(scaled_rows):
    """Models of these rows without weights, and with them."""
    X, y, weights = scaled_rows
    return NeuralBasisRegressor(**QUICK).fit(X, y), NeuralBasisRegressor(**QUICK).fit(X, y, weights)


@pytest.mark.parametrize("scale", [1e-160, 1e-250, 1e-285, 1e140])
def test_a_scaled_target_gives_the_scaled_model(scaled_rows, scaled_models, scale):
    X, y, _ = scaled_rows
    known, found = scaled_models[0], NeuralBasisRegressor(**QUICK).fit(X, y * scale)
    np.testing.assert_allclose(found.predict(X) / scale, known.predict(X), rtol=1e-9)
    for spread, other in zip(found.standard_deviations_, known.standard_deviations_, strict=True):
        np.testing.assert_allclose(spread / scale, other, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-14, 1e-35, 1e-300, 1e200])
def test_scaled_weights_give_the_same_model(scaled_rows, scaled_models, scale):
    X, y, weights = scaled_rows
    for known, weight in zip(scaled_models, (np.ones(200), weights), strict=True):
        found = NeuralBasisRegressor(**QUICK).fit(X, y, weight * scale)
        np.testing.assert_allclose(found.predict(X), known.predict(X), rtol=1e-9)


def test_a_target_too_small_for_doubles_is_refused(scaled_rows):
    X, y, _ = scaled_rows
    with pytest.raises(ValueError, match=r"standard deviation is .*e-300, and below 1e-290 .*; multiply the target"):
        NeuralBasisRegressor(**QUICK).fit(X, y * 1e-300)
    constant = NeuralBasisRegressor(**QUICK).fit(X, np.full(200, 1e-300))
    np.testing.assert_allclose(constant.predict(X), 1e-300, rtol=1e-9)


def test_a_wide_model_refuses_targets_beyond_single_precision():
    table = sparse_random(60, 30_000, density=0.001, random_state=0, format="csr")
    y = np.asarray(table.sum(axis=1)).ravel()
    for scale in (1e-60, 1e60):
        with pytest.raises(ValueError, match=r"very wide sparse table .* from 1e-25 to 1e\+15; multiply the target"):
            NeuralBasisRegressor(**QUICK).fit(table, y * scale)


def test_updates_and_merges_keep_the_spread_of_small_targets(scaled_rows):
    X, y, _ = scaled_rows
    known, found = (
        [model := NeuralBasisRegressor(**QUICK).fit(X, y * scale), neuralbasis.update(model, X, 3 * y * scale)]
        for scale in (1.0, 1e-250)
    )
    for models in (known, found):
        models.append(neuralbasis.merge(models))
    for one, other in zip(known[1:], found[1:], strict=True):
        np.testing.assert_allclose(other.predict(X) * 1e250, one.predict(X), rtol=1e-9)
        np.testing.assert_allclose(other.shapes[0].spread * 1e250, one.shapes[0].spread, rtol=1e-9, atol=1e-12)


def test_explain_local_takes_a_column_of_targets(scaled_rows):
    X, y, _ = scaled_rows
    estimator = NeuralBasisRegressor(**QUICK).fit(X, y)
    np.testing.assert_array_equal(estimator.explain_local(X[:5], y[:5, None]).actual, y[:5])
    with pytest.raises(ValueError, match="one value for each of the 5 rows"):
        estimator.explain_local(X[:5], np.c_[y, y][:5])


def test_feature_types_overrule_the_table():
    table = make_table()
    types = ["auto", "ordinal", "nominal", "continuous", ["red", "green", "blue"]]
    estimator = NeuralBasisRegressor(**QUICK, feature_types=types).fit(table, make_score(table))
    assert estimator.feature_types_in_ == ["continuous", "ordinal", "nominal", "continuous", "ordinal"]
    assert estimator.bins_[2][0] == {"0": 1, "1": 2}
    assert estimator.bins_[4][0] == {"red": 1, "green": 2, "blue": 3}


def test_given_knots_are_those_of_the_main_effect():
    table = make_table()
    name = table.columns[0]
    estimator = NeuralBasisRegressor(**{**QUICK, "boosted_steps": False}, feature_types={name: [-1.0, 0.0, 1.0]})
    estimator.fit(table, make_score(table))
    assert estimator.bins_[0][0].tolist() == [-1.0, 0.0, 1.0]
    assert estimator.term_scores_[0].shape == (5,)
    assert estimator.model_.summary.parameters["feature_types"] == {name: [-1.0, 0.0, 1.0]}


FLOATS = ["float16", "float32", "float64"]
INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS)
def test_numbers_of_any_type_give_the_same_predictions(dtype):
    """Small whole numbers are exact in every type; others are as good as their precision."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 100, (150, 3)).astype(float)
    y = X[:, 0] / 100
    expected = NeuralBasisRegressor(**QUICK).fit(X, y).predict(X)
    estimator = NeuralBasisRegressor(**QUICK).fit(X.astype(dtype), y)
    np.testing.assert_array_equal(estimator.predict(X.astype(dtype)), expected)
    if dtype in FLOATS:
        rough = rng.normal(size=(150, 3))
        estimator = NeuralBasisRegressor(**QUICK).fit(rough, rough[:, 0])
        error = np.abs(estimator.predict(rough.astype(dtype)) - estimator.predict(rough))
        assert error.mean() <= 5 * np.finfo(dtype).eps


def test_ten_thousand_levels_fit_quickly_and_do_not_leak():
    """A level of one or two rows must not learn their noise."""
    rng = np.random.default_rng(0)
    n_rows = 40_000
    table = pd.DataFrame({"id": rng.integers(0, 10_000, n_rows).astype(str), "x": rng.normal(size=n_rows)})
    y = (rng.random(n_rows) < 0.3).astype(int)
    train, test = slice(0, n_rows // 2), slice(n_rows // 2, n_rows)
    types = ["nominal", "continuous"]
    estimator = NeuralBasisClassifier(outer_bags=2, feature_types=types).fit(table[train], y[train])
    assert len(estimator.bins_[0][0]) > 8000
    constant = log_loss(y[test], np.full(n_rows // 2, y[train].mean()))
    assert log_loss(y[test], estimator.predict_proba(table[test])) <= 1.02 * constant

    def time_fit(table):
        start = time.perf_counter()
        settings = {"outer_bags": 2, "max_steps": 100, "interactions": [(0, 1)], "feature_types": types}
        NeuralBasisClassifier(**settings).fit(table[train], y[train])
        return time.perf_counter() - start

    assert time_fit(table) < 6 * time_fit(table.assign(id=table["id"].str[-1]))  # 10 levels instead of 10,000


def test_a_two_valued_column_is_learned():
    x = np.tile([0.0, 1.0], 100)
    estimator = NeuralBasisRegressor(max_steps=100, random_state=1).fit(x[:, None], 5 * x)
    np.testing.assert_allclose(estimator.predict([[0.0], [1.0]]), [0, 5], atol=0.3)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_predict_the_same(fitted, protocol):
    task, table, estimator = fitted
    copy = pickle.loads(pickle.dumps(estimator, protocol))
    np.testing.assert_array_equal(copy.predict(table), estimator.predict(table))
    np.testing.assert_array_equal(copy.eval_terms(table), estimator.eval_terms(table))
    if task != "regression":
        np.testing.assert_array_equal(copy.predict_proba(table), estimator.predict_proba(table))


def test_prediction_from_a_pickle_does_not_import_torch(tmp_path):
    X = np.random.default_rng(0).normal(size=(100, 2))
    estimator = NeuralBasisRegressor(**{**QUICK, "interactions": 1}, validation_size=0).fit(X, X[:, 0] * X[:, 1])
    assert len(estimator.interaction_ranking_) == 1
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((estimator, X)))
    script = (
        "import pickle, sys\n"
        "estimator, X = pickle.load(open('model.pickle', 'rb'))\n"
        "print(estimator.predict(X[:1])[0].hex(), estimator.eval_terms(X).shape, 'torch' in sys.modules)"
    )
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == f"{estimator.predict(X[:1])[0].hex()} (100, 3) False"


@pytest.mark.parametrize("kind", ESTIMATORS)
def test_parameters_go_round(kind):
    estimator = kind(network__n_bases=7, interactions=[(0, 1)])
    assert clone(estimator).get_params() == estimator.get_params()
    assert estimator.set_params(network__n_bases=9, verbose=True) is estimator
    assert (estimator.network.n_bases, estimator.verbose) == (9, True)
    with pytest.raises(ValueError, match="Invalid parameter 'n_basis'"):
        estimator.set_params(n_basis=3)


def test_a_clone_fits_the_same_model_and_fitting_changes_no_parameter(fitted):
    task, table, estimator = fitted
    before = estimator.get_params()
    again = clone(estimator).fit(table, make_crossed(table, task))
    np.testing.assert_array_equal(again.predict(table), estimator.predict(table))
    assert again.get_params() == before


def test_pipeline_with_named_columns():
    table = make_table()
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    prepare = ColumnTransformer(
        [("numbers", numbers, ["size", "age"]), ("rest", "passthrough", ["smoker", "colour"])],
        verbose_feature_names_out=False,
    ).set_output(transform="pandas")
    pipeline = make_pipeline(prepare, NeuralBasisRegressor(**QUICK)).fit(table, make_score(table))
    assert pipeline[-1].term_names_ == ["size", "age", "smoker", "colour"]
    assert pipeline[-1].feature_types_in_[-1] == "nominal"
    np.testing.assert_array_equal(pipeline.predict(table[table.columns[::-1]]), pipeline.predict(table))


def test_search_and_cross_validation():
    table = make_table().drop(columns="same")
    y, network = make_score(table), NeuralBasisRegressor(**QUICK, boosted_steps=False)
    search = GridSearchCV(network, {"learning_rate": [1e-5, 0.02]}, cv=2, n_jobs=2).fit(table, y)
    assert search.best_params_ == {"learning_rate": 0.02}
    assert search.predict(table).shape == (len(table),)
    scores = cross_val_score(NeuralBasisClassifier(**QUICK), table, make_labels(table, 2), cv=3, scoring="roc_auc")
    assert scores.min() > 0.7


def test_a_requested_interaction_learns_a_product_in_any_spelling():
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.uniform(-1, 1, (1200, 2)), columns=["a", "b"])
    y = (table["a"] * table["b"]).to_numpy()
    train, test = slice(0, 900), slice(900, 1200)

    def fit(interactions, max_steps=150):
        parameters = {**QUICK, "max_steps": max_steps, "interactions": interactions}
        return NeuralBasisRegressor(**parameters).fit(table[train], y[train])

    paired = fit([("a", "b")])
    assert paired.term_names_ == ["a", "b", "a & b"]
    assert r2_score(y[test], paired.predict(table[test])) > 0.8
    assert r2_score(y[test], fit(0).predict(table[test])) < 0.3
    expected = fit([("a", "b")], max_steps=10).predict(table[test])
    for interactions in ([(0, 1)], [("b", 0)], np.array([[0, 1]]), "all", 1):
        np.testing.assert_array_equal(fit(interactions, max_steps=10).predict(table[test]), expected)
    found = fit("auto")  # may cut the pair beside its net, as of few rows it does with weak pairs
    assert found.term_names_ == paired.term_names_
    assert r2_score(y[test], found.predict(table[test])) > 0.8


def test_every_axis_of_every_term_is_among_the_bins_of_its_column():
    """A column may keep its knots beside a two-valued one and have fewer beside another."""
    table = make_table()
    requested = [("size", "age"), ("size", "smoker"), ("age", "smoker"), ("size", "age", "smoker")]
    estimator = NeuralBasisRegressor(**{**QUICK, "interactions": requested}, validation_size=0).fit(
        table, make_score(table)
    )
    sizes = [[len(axis) for axis in axes] for axes in estimator.bins_]
    assert [axes[0] for axes in sizes] == [len(np.unique(table[name].dropna())) for name in table]
    for name, term, scores in zip(estimator.term_names_, estimator.term_features_, estimator.term_scores_, strict=True):
        for feature, n_cells in zip(term, scores.shape, strict=True):
            assert n_cells - 2 in sizes[feature], name


QUALITY = {"max_steps": 150, "outer_bags": 2}  # with the automatic pairs


def split(load):
    data = load(as_frame=True)
    return train_test_split(data.data, data.target, test_size=0.2, random_state=0)


def test_breast_cancer():
    X, X_test, y, y_test = split(load_breast_cancer)
    estimator = NeuralBasisClassifier(**QUALITY).fit(X, y)
    assert roc_auc_score(y_test, estimator.predict_proba(X_test)[:, 1]) > 0.98


def test_diabetes():
    """The mean over five folds, each a held-out fifth: one fold alone is mostly luck, 0.3 to 0.6."""
    data = load_diabetes(as_frame=True)
    assert cross_val_score(NeuralBasisRegressor(**QUALITY), data.data, data.target, cv=5).mean() > 0.40


def test_wine():
    X, X_test, y, y_test = split(load_wine)
    assert NeuralBasisClassifier(**QUALITY).fit(X, y).score(X_test, y_test) > 0.9


# Sparse tables


def test_sparse_tables_from_fit_to_explanation():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((120, 4)) < 0.3, rng.integers(1, 4, (120, 4)), 0).astype(float)
    y = np.where(dense[:, 0] + dense[:, 1] + 0.1 * rng.normal(size=120) > 1, "yes", "no")
    sparse = csc_matrix(dense)
    fitted = NeuralBasisClassifier(**QUICK).fit(sparse, y)
    assert fitted.feature_types_in_ == ["continuous"] * 4
    np.testing.assert_allclose(fitted.predict_proba(sparse), fitted.predict_proba(dense), rtol=1e-9)
    np.testing.assert_array_equal(fitted.eval_terms(sparse), fitted.eval_terms(dense))
    assert fitted.score(sparse, y) > 0.9
    one, other = fitted.explain_local(sparse[:5], y[:5]), fitted.explain_local(dense[:5], y[:5])
    assert one.values == other.values
    np.testing.assert_array_equal(one.contributions, other.contributions)
    assert cross_val_score(NeuralBasisClassifier(**QUICK), sparse, y, cv=2).mean() > 0.7


def test_sparse_frames_are_fitted_and_predicted_by_name():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(np.where(rng.random((80, 3)) < 0.3, 1.0, 0.0), columns=["a", "b", "c"])
    y = frame["a"] - frame["c"]
    sparse = frame.astype(pd.SparseDtype(float, 0.0))
    fitted = NeuralBasisRegressor(**QUICK).fit(sparse, y)
    np.testing.assert_allclose(
        fitted.model_.predict(sparse[["c", "a", "b"]]), fitted.predict(frame), rtol=1e-9, atol=1e-12
    )
    np.testing.assert_array_equal(fitted.predict(frame), NeuralBasisRegressor(**QUICK).fit(frame, y).predict(frame))
