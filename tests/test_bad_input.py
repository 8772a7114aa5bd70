"""Bad input: one clear message that names the column or the parameter, before any training."""

from __future__ import annotations

import re
import time
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse
from sklearn.exceptions import NotFittedError

import neuralbasis.training.fit  # noqa: F401 - the import of torch is not part of the times measured here
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from tests.parameters import HOME, nest

N, NAMES = 40, ["age", "size", "dose"]
X = np.random.default_rng(0).normal(size=(N, 3))
Y = X[:, 0] + 0.1 * X[:, 1]
LABELS = np.where(Y > 0, "yes", "no")
TABLE = pd.DataFrame(X, columns=NAMES)
QUICK = {"max_steps": 3, "outer_bags": 2, "interactions": 0}


@pytest.fixture(scope="module")
def named() -> NeuralBasisRegressor:
    return NeuralBasisRegressor(**QUICK).fit(TABLE, Y)


@pytest.fixture(scope="module")
def plain() -> NeuralBasisRegressor:
    return NeuralBasisRegressor(**QUICK).fit(X, Y)


def refuse(act, *parts: str, kind: type[Exception] = ValueError) -> None:
    """`act` raises at once, and its message holds every part."""
    start = time.perf_counter()
    with pytest.raises(kind) as caught:
        act()
    assert time.perf_counter() - start < 2
    for part in parts:
        assert part in str(caught.value)


def refuse_fit(X, y, *parts: str, kind: type[Exception] = ValueError, labels=False, fit=None, **parameters) -> None:
    estimator = (NeuralBasisClassifier if labels else NeuralBasisRegressor)(**QUICK)
    refuse(lambda: estimator.set_params(**parameters).fit(X, y, **(fit or {})), *parts, kind=kind)
    assert not hasattr(estimator, "model_")


def put(array: np.ndarray, place, value) -> np.ndarray:
    changed = array.copy()
    changed[place] = value
    return changed


EMPTY = {
    "NumPy": X[:0], "single precision": X[:0].astype("f4"), "objects": X[:0].astype(object), "pandas": TABLE[:0],
    "polars": pl.DataFrame(X[:0], schema=NAMES), "Arrow": pa.table({name: pa.array([], "f8") for name in NAMES}),
    "mapping": {name: [] for name in NAMES},
}  # fmt: skip


@pytest.mark.parametrize("kind", EMPTY)
@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore:X has feature names")
def test_empty_tables(named, plain, kind):
    message = "0 sample(s) (shape=(0, 3)) while a minimum of 1 is required"
    refuse_fit(EMPTY[kind], [], message)
    for estimator in (named, plain):
        for act in (estimator.predict, estimator.eval_terms, estimator.model_.scores, estimator.model_.contributions):
            refuse(lambda act=act: act(EMPTY[kind]), message)


@pytest.mark.parametrize("table", [np.empty((5, 0)), pd.DataFrame(index=range(5))])
def test_no_columns(table):
    refuse_fit(table, np.arange(5), "0 feature(s) (shape=(5, 0)) while a minimum of 1 is required")


def test_one_row():
    refuse_fit(X[:1], Y[:1], "X has n_samples=1: a model needs at least 2 rows")


@pytest.mark.parametrize("what", [None, 3])
def test_not_a_table(named, what):
    refuse_fit(what, Y, "Expected a table", type(what).__name__, kind=TypeError)
    refuse(lambda: named.predict(what), "Expected a table", kind=TypeError)


def test_a_text_is_a_path_to_fit_to(named):
    refuse_fit("a table", "y", "there is no file or folder a table", kind=FileNotFoundError)
    refuse(lambda: named.predict("a table"), "Expected a table", kind=TypeError)


def test_one_dimension_or_three(plain):
    refuse_fit(X[:, 0], Y, "Expected 2D array, got 1D array", "Reshape your data")
    refuse_fit(X[None], Y, "Found array with dim 3")
    refuse(lambda: plain.predict(X[0]), "Expected 2D array, got 1D array")


def test_sparse_tables(plain):
    sparse = scipy.sparse.csr_array(X)
    odd = sparse.copy()
    odd.data[5] = np.inf
    name, row = f"'feature_{odd.indices[5]:04d}'", int(np.searchsorted(odd.indptr, 5, side="right")) - 1
    refuse_fit(odd, Y, f"column {name} holds an infinite value in row {row}")
    refuse(lambda: plain.predict(odd), f"column {name} holds an infinite value in row {row}")
    refuse_fit(
        sparse,
        Y,
        "feature_types of column 'feature_0000'",
        "sparse",
        feature_types=["nominal", "auto", "auto"],
    )
    refuse(lambda: plain.predict(sparse[:, :1]), "expecting")
    refuse(lambda: plain.model_.predict(sparse[:, :1]), "the model has", "but the table has 1")
    broken = sparse.copy()
    broken.indices[0] = 99
    refuse_fit(broken, Y, "the sparse matrix is broken", "column 99")
    refuse(lambda: plain.predict(broken), "the sparse matrix is broken", "column 99")
    refuse_fit(sparse[:0], Y[:0], "0 sample(s)")
    refuse_fit(sparse, Y, "absent_value must be", storage__absent_value=np.inf)
    refuse_fit(sparse, Y, "absent_value must be", storage__absent_value="0")


@pytest.mark.parametrize(
    "dates",
    [pd.date_range("2020", periods=N), pd.to_timedelta(np.arange(N), "D"), pd.period_range("2020", periods=N)],
    ids=["date", "duration", "period"],
)
def test_dates(named, dates):
    table = TABLE.assign(size=dates)
    refuse_fit(table, Y, "Column 'size'", "got dates or times", "Convert it", kind=TypeError)
    refuse(lambda: named.predict(table), "Column 'size'", "got dates or times", kind=TypeError)


def test_complex_numbers(plain):
    refuse_fit(X + 1j, Y, "Complex data not supported: X holds complex128 values")
    refuse_fit({"age": X[:, 0], "size": X[:, 1] + 1j}, Y, "Complex data not supported: column 'size'")
    refuse_fit(TABLE.assign(size=X[:, 1] + 1j), Y, "Complex data not supported: column 'size'")
    refuse(lambda: plain.predict(X + 1j), "Complex data not supported")


def test_repeated_names():
    refuse_fit(pd.DataFrame(X, columns=["a", "b", "a"]), Y, "unique column names", "'a'", "Rename")
    refuse_fit(pd.DataFrame(X, columns=[1, "1", 2]), Y, "unique column names", "'1'", "Rename")


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_name_the_column(named, plain, value):
    array, table = put(X, (3, 1), value), TABLE.assign(size=put(X[:, 1], 3, value))
    refuse_fit(array, Y, "column 'feature_0001' holds infinite values", "NaN")
    refuse_fit(table, Y, "column 'size' holds infinite values", "NaN")
    for act in (named.predict, named.eval_terms, named.model_.scores):
        refuse(lambda act=act: act(table), "column 'size' holds an infinite value", "NaN")
    refuse(lambda: plain.predict(array), "column 'feature_0001' holds an infinite value")


def test_infinite_values_are_refused_in_rows_of_weight_zero():
    table, weights = TABLE.assign(size=put(X[:, 1], 3, np.inf)), put(np.ones(N), 3, 0.0)
    refuse_fit(table, Y, "column 'size' holds infinite values", fit={"sample_weight": weights})


def test_column_without_a_value():
    message = "has only missing values; drop it or fill it"
    refuse_fit(put(X, (slice(None), 1), np.nan), Y, "column 'feature_0001'", message)
    refuse_fit(TABLE.assign(size=None), Y, "column 'size'", message)
    refuse_fit(TABLE.assign(size=None), Y, "column 'size'", message, feature_types=["auto", "nominal", "auto"])
    weights = np.r_[np.zeros(5), np.ones(N - 5)]
    refuse_fit(put(X, (slice(5, None), 1), np.nan), Y, "column 'feature_0001'", message, fit={"sample_weight": weights})


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        (None, ["requires y to be passed, but the target y is None"]),
        (put(Y, 3, np.nan), ["Input y contains NaN"]),
        (put(Y, 3, np.inf), ["Input y contains infinity"]),
        ([None] * N, ["Input y contains NaN"]),
        (pd.array([1.0] * (N - 1) + [None], dtype="Float64"), ["Input y contains NaN"]),
        (pl.Series([1.0] * (N - 1) + [None]), ["Input y contains NaN"]),
        ([Decimal("NaN")] * N, ["Input y contains NaN"]),
        (Y[:-1], ["inconsistent numbers of samples: [40, 39]"]),
        (np.c_[Y, Y], ["y should be a 1d array", "(40, 2)"]),
        (3.0, ["y should be a 1d array"]),
        (LABELS, ["y of a regression must hold numbers", "convert it"]),
        (pd.date_range("2020", periods=N), ["y of a regression must hold numbers", "datetime64"]),
        (Y + 1j, ["Complex data not supported"]),
        (put(Y, 3, 1e200), ["y holds values beyond", "rescale it"]),
    ],
)
def test_target_of_a_regression(y, parts):
    refuse_fit(X, y, *parts)


@pytest.mark.parametrize(
    ("y", "parts"),
    [
        (None, ["requires y to be passed, but the target y is None"]),
        (["yes"] * N, ["y has one class only, 'yes'; a classifier needs at least two"]),
        ([7] * N, ["y has one class only, 7;"]),
        (Y, ["Unknown label type: continuous"]),
        (np.where(Y > 0, np.nan, 1.0), ["Input y contains NaN"]),
        (put(LABELS.astype(object), 3, None), ["Input y contains NaN or another missing value"]),
        (put(LABELS.astype(object), 3, np.nan), ["Input y contains NaN or another missing value"]),
        (pd.Series(put(LABELS.astype(object), 3, None), dtype="string"), ["missing value; leave out the rows"]),
        (pd.Categorical(put(LABELS.astype(object), 3, None)), ["missing value; leave out the rows"]),
        (pl.Series([*LABELS[:-1].tolist(), None]), ["missing value; leave out the rows"]),
        (put(LABELS.astype(object), 3, 1), ["y mixes labels of the types int, str; write all of them as text"]),
        (LABELS[:-1], ["inconsistent numbers of samples: [40, 39]"]),
        (np.c_[LABELS, LABELS], ["y should be a 1d array"]),
    ],
)
def test_labels(y, parts):
    refuse_fit(X, y, *parts, labels=True)


def test_one_class_left_by_the_weights():
    weights = (LABELS == "yes").astype(float)
    refuse_fit(X, LABELS, "y has one class only, 'yes'", labels=True, fit={"sample_weight": weights})


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (-np.ones(N), "negative values; weights must be 0 or more"),
        (np.zeros(N), "all weights are 0"),
        (put(np.ones(N), 3, np.nan), "NaN or infinite values; weights must be finite"),
        (put(np.ones(N), 3, np.inf), "NaN or infinite values; weights must be finite"),
        ([None] * N, "NaN or infinite values; weights must be finite"),
        (np.ones(3), "has 3 entries, but X has 40 rows"),
        (np.ones((N, 2)), "has 2 dimensions"),
        (["a"] * N, "must hold numbers"),
        ("balanced", "must hold numbers"),
        ({"yes": 1}, "must hold numbers"),
        ([[1], [2, 3]], "must hold numbers"),
        (np.ones(N) + 1j, "must hold numbers, but holds values of type complex128"),
        (pd.date_range("2020", periods=N), "must hold numbers, but holds values of type datetime64"),
    ],
)
def test_weights(weights, message):
    refuse_fit(X, Y, "sample_weight", message, fit={"sample_weight": weights})


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (np.ones(3), "must have shape (40, 1), but has (3,)"),
        (np.ones((N, 2)), "must have shape (40, 1), but has (40, 2)"),
        (2.0, "must have shape (40, 1), but has ()"),
        (put(np.ones(N), 3, np.nan), "NaN or infinite values; scores must be finite"),
        (put(np.ones(N), 3, np.inf), "NaN or infinite values; scores must be finite"),
        (["a"] * N, "must hold numbers"),
        ({}, "must hold numbers"),
    ],
)
def test_given_scores(plain, scores, message):
    refuse_fit(X, Y, "init_score", message, fit={"init_score": scores})
    refuse(lambda: plain.predict(X, init_score=scores), "init_score", message)


@pytest.mark.parametrize("shape", [(N,), (N, 2)])
def test_given_scores_of_three_classes(shape):
    y = np.array(["a", "b", "c"])[np.arange(N) % 3]
    refuse_fit(X, y, "init_score must have shape (40, 3)", str(shape), labels=True, fit={"init_score": np.ones(shape)})


@pytest.mark.parametrize("read", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas], ids=["pandas", "polars", "Arrow"])
def test_other_columns_at_prediction(named, read):
    cases = {
        "yet now missing:\n- size\nMissing column(s): 'size'. The columns given: 'age', 'dose'. Add them.": TABLE.drop(
            columns="size"
        ),
        "unseen at fit time:\n- sise\nFeature names seen at fit time, yet now missing:\n- size\nMissing column(s): "
        "'size'. The columns given: 'age', 'sise', 'dose'. Add or rename: 'sise' may be 'size'.": TABLE.rename(
            columns={"size": "sise"}
        ),
    }
    for message, table in cases.items():
        for act in (named.predict, named.eval_terms):
            refuse(lambda act=act, table=table: act(read(table)), message)


@pytest.mark.parametrize("read", [pd.DataFrame, pl.DataFrame, pa.Table.from_pandas], ids=["pandas", "polars", "Arrow"])
def test_columns_are_found_by_name_in_any_order_among_others(named, read):
    expected = named.predict(TABLE)
    for table in (
        TABLE[["size", "dose", "age"]],
        TABLE.assign(shoe="x"),
        TABLE.assign(shoe=1.0)[["shoe", *TABLE][::-1]],
    ):
        np.testing.assert_array_equal(named.predict(read(table)), expected)
        np.testing.assert_array_equal(named.eval_terms(read(table)), named.eval_terms(TABLE))


def test_the_model_finds_columns_by_name(named):
    expected = named.model_.scores(TABLE)
    for table in (TABLE[["size", "dose", "age"]], TABLE.assign(shoe=1.0), dict(TABLE)):
        np.testing.assert_array_equal(named.model_.scores(table), expected)
    missing = "Missing column(s): 'size'. The columns given: 'age', 'dose'"
    refuse(lambda: named.model_.scores(TABLE.drop(columns="size")), missing)
    refuse(lambda: named.model_.scores(TABLE.rename(columns={"size": "sise"})), "'sise' may be 'size'")
    refuse(lambda: named.predict({"age": X[:, 0], "dose": X[:, 2]}), missing)


@pytest.mark.parametrize("width", [1, 2, 6])
@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_wrong_number_of_columns(named, plain, width):
    array = np.c_[X, X][:, :width]
    for estimator in (named, plain):
        for table in (array, array.tolist(), array.astype(object)):
            refuse(lambda e=estimator, t=table: e.predict(t), f"X has {width} features", "expecting 3 features")
        refuse(lambda e=estimator: e.model_.scores(array), f"the model has 3 columns, but the table has {width}")
    refuse(lambda: plain.predict(pd.DataFrame(array)), f"X has {width} features", "expecting 3 features")


def test_names_where_training_had_none_warn_and_are_read_by_position(plain):
    for table in (TABLE, pl.DataFrame(TABLE)):
        with pytest.warns(UserWarning, match="X has feature names, but NeuralBasisRegressor was fitted without"):
            np.testing.assert_array_equal(plain.predict(table), plain.predict(X))


def test_no_names_where_training_had_some_warn_and_are_read_by_position(named):
    with pytest.warns(UserWarning, match="X does not have valid feature names, but NeuralBasisRegressor was fitted"):
        np.testing.assert_array_equal(named.predict(X), named.predict(TABLE))


def test_names_given_by_hand():
    estimator = NeuralBasisRegressor(**QUICK, feature_names=NAMES).fit(X, Y)
    expected = estimator.predict(X)
    for table in (TABLE, dict(TABLE), pd.DataFrame(X, columns=["a", "b", "c"])):
        np.testing.assert_array_equal(estimator.predict(table), expected)
    np.testing.assert_array_equal(estimator.predict(TABLE[NAMES[::-1]].assign(shoe=1.0)), expected)
    renamed = NeuralBasisRegressor(**QUICK, feature_names=["a", "b", "c"]).fit(TABLE, Y)
    assert renamed.term_names_ == ["a", "b", "c"]
    np.testing.assert_array_equal(renamed.predict(TABLE), renamed.predict(X))


def test_text_in_a_column_of_numbers_at_prediction(named, plain):
    table = TABLE.astype(object)
    table.loc[2, "size"] = "tall"
    missing = TABLE.assign(size=TABLE["size"].where(np.arange(N) != 2))
    for act in (named.predict, named.eval_terms, named.model_.scores):
        few = table[:9]
        refuse(lambda act=act, few=few: act(few), "Column 'size': expected numbers, got 'tall'", "feature_types")
        with pytest.warns(UserWarning, match=f"'size' holds numbers, but 1 of {N} values is not a number, 'tall'"):
            found = act(table)
        np.testing.assert_array_equal(found, act(missing))
    refuse(lambda: plain.predict(table[:9].to_numpy()), "'feature_0001': expected numbers, got 'tall'")


def test_not_fitted():
    estimator = NeuralBasisClassifier()
    for act in (estimator.predict, estimator.predict_proba, estimator.decision_function, estimator.eval_terms):
        refuse(lambda act=act: act(X), "not fitted yet", kind=NotFittedError)
    refuse(estimator.term_importances, "not fitted yet", kind=NotFittedError)
    for name in ("term_names_", "term_scores_", "bins_", "intercept_", "link_", "feature_types_in_"):
        refuse(lambda name=name: getattr(estimator, name), "not fitted yet", kind=NotFittedError)
        assert not hasattr(estimator, name)


@pytest.mark.parametrize(
    ("interactions", "part"),
    [
        ([("age", "sise")], "'sise', which is not in the table; did you mean 'size'?"),
        ([(0, "1")], "'1', which is not in the table"),
        ([(0, 3)], "names column 3, but the table has 3 columns"),
        ([(0, -1)], "names column -1, but the table has 3 columns"),
        ([("age", "age")], "('age', 'age') names one twice"),
        ([("age", 0)], "('age', 0) names one twice"),
        ([()], "joins two or three columns; () has 0"),
        ([("age",)], "joins two or three columns; ('age',) has 1"),
        ([("age", "size", "dose", 0)], "joins two or three columns; ('age', 'size', 'dose', 0) has 4"),
        ([(0, 1.7)], "by their name or index, not by 1.7"),
        ([(0, 1.0)], "by their name or index, not by 1.0"),
        ([(0, None)], "by their name or index, not by None"),
        ([(0, True)], "by their name or index, not by True"),
        ([(0, (1,))], "by their name or index, not by (1,)"),
        (["age", "size"], "must hold tuples of column names or indices, not 'age'"),
        ([0, 1], "must hold tuples of column names or indices, not 0"),
        ("age", "interactions must be a number of pairs, a share of the number of columns below 1, "),
        ("many", '"3x", "all", "auto", or a list of tuples, not \'many\''),
        (None, "or a list of tuples, not None"),
        (True, "or a list of tuples, not True"),
        (-1, "or a list of tuples, not -1"),
        (1.5, "or a list of tuples, not 1.5"),
        ("-3x", "or a list of tuples, not '-3x'"),
    ],
)
@pytest.mark.parametrize("staged", [True, False])
def test_interactions(interactions, part, staged):
    refuse_fit(TABLE, Y, "interaction", part, interactions=interactions, network__staged=staged)
    refuse_fit(TABLE, LABELS, "interaction", part, interactions=interactions, network__staged=staged, labels=True)


@pytest.mark.parametrize("triples", [True, None, -1, 1.5, "many", [("age", "size", "dose")]])
def test_triples(triples):
    refuse_fit(TABLE, Y, "triples must be", f", not {triples!r}", interactions={2: 0, 3: triples})


@pytest.mark.parametrize(
    ("exclude", "part"),
    [
        (["sise"], "'sise', which is not in the table; did you mean 'size'?"),
        ([("age", "sise")], "'sise', which is not in the table; did you mean 'size'?"),
        ([3], "names column 3, but the table has 3 columns"),
        ([(0, -1)], "names column -1, but the table has 3 columns"),
        ([("size", 1)], "('size', 1) names one twice"),
        ([()], "joins two or three columns; () has 0"),
        ([1.5], "must hold tuples of column names or indices, not 1.5"),
        ([True], "by their name or index, not by True"),
        ("size", "must be a list of columns or tuples of columns, not 'size'"),
        (1, "must be a list of columns or tuples of columns, not 1"),
        (NAMES, "leaves no column; a model needs at least one"),
    ],
)
def test_exclude(exclude, part):
    refuse_fit(TABLE, Y, "exclude", part, exclude=exclude)


@pytest.mark.parametrize(
    ("interactions", "exclude"),
    [
        ([("size", "age")], ["size"]),
        ([("size", "age")], [("age", "size")]),
        ([("dose", "size", "age")], ["dose"]),
        ([("dose", "size", "age")], [(0, 2)]),
    ],
)
def test_an_interaction_that_is_requested_and_excluded_names_the_user_s_columns(interactions, exclude):
    name = " & ".join(column for column in NAMES if column in interactions[0])
    refuse_fit(TABLE, Y, f"interactions requests '{name}', but exclude", interactions=interactions, exclude=exclude)
    plain = "feature_0000 & feature_0001"
    by_index = [tuple(NAMES.index(column) for column in interactions[0])]
    out = [NAMES.index(part) if isinstance(part, str) else part for part in exclude]
    out = [tuple(NAMES.index(c) if isinstance(c, str) else c for c in p) if isinstance(p, tuple) else p for p in out]
    refuse_fit(X, Y, f"interactions requests '{plain}", interactions=by_index, exclude=out)


def test_names_given_by_hand_are_those_of_interactions():
    refuse_fit(
        X,
        Y,
        "'age', which is not in the table; it has 'a', 'b', 'c'",
        feature_names=list("abc"),
        interactions=[("age", "b")],
    )
    estimator = NeuralBasisRegressor(
        **{**QUICK, "interactions": [("c", "a")]}, feature_names=list("abc"), validation_size=0
    )
    assert estimator.fit(TABLE, Y).term_names_ == ["a", "b", "c", "a & c"]


def test_an_interaction_requested_twice_is_one():
    requested = [("age", "size"), (1, 0)]
    estimator = NeuralBasisRegressor(**{**QUICK, "interactions": requested}, validation_size=0).fit(TABLE, Y)
    assert estimator.term_names_ == ["age", "size", "dose", "age & size"]


@pytest.mark.parametrize("staged", [True, False])
@pytest.mark.parametrize(
    ("interactions", "message"),
    [
        ("all", "1,999,000 pairs of 2,000 columns would take about 102,349 GB, but this machine has "),
        ({2: 0, 3: "all"}, "1,331,334,000 triples of 2,000 columns would take about 68,164,301 GB, but this machine "),
        (10**6, "1,000,000 pairs of 2,000 columns would take about 51,200 GB, but this machine has "),
    ],
)
def test_more_terms_than_memory_are_refused_before_training(interactions, message, staged):
    """Of 100,000 members no machine can hold so many terms."""
    table, began = np.random.default_rng(0).normal(size=(20, 2000)), []
    members = {"outer_bags": 100_000, "network__staged": staged, "callbacks": [began.append]}
    kind = "triples" if "triples" in message else "pairs"
    advice = f"GB; ask for a number of {kind}, such as 100, or list them by name"
    refuse_fit(table, table[:, 0], message, advice, interactions=interactions, max_terms=None, **members)
    assert began == []


@pytest.mark.parametrize(
    ("feature_types", "part"),
    [
        (["auto"], "feature_types has 1 entries, but the table has 3 columns"),
        (["auto"] * 4, "feature_types has 4 entries, but the table has 3 columns"),
        (
            "continuous",
            "feature_types must be a list of one entry per column, or a mapping of columns, not 'continuous'",
        ),
        (3, "feature_types must be a list of one entry per column, or a mapping of columns, not 3"),
        ({"auto", "nominal", "ordinal"}, "feature_types must be a list of one entry per column"),
        (["auto", "number", "auto"], "feature_types of column 'size' must be 'auto', one of"),
        (["auto", None, "auto"], "feature_types of column 'size' must be 'auto', one of"),
        (["auto", 3, "auto"], "feature_types of column 'size' must be 'auto', one of"),
        (["auto", float, "auto"], "feature_types of column 'size' must be 'auto', one of"),
        (["auto", [2, 1], "auto"], "feature_types of column 'size' lists numbers, which are cut points and must be"),
        (["auto", np.array([1, 2]), "auto"], "Column 'size': expected numbers, got 'big'"),
        (["auto", {"big", "small"}, "auto"], "feature_types of column 'size' must be 'auto', one of"),
        (["auto", ["small", "big", "small"], "auto"], "column 'size' lists levels more than once: ['small']"),
        (["auto", ["small", None], "auto"], "column 'size' lists a missing value as a level"),
        (["auto", ["tiny", "huge"], "auto"], "lists the levels ['tiny', 'huge'], but the column holds none of them"),
        (["auto", [], "auto"], "lists the levels [], but the column holds none of them: ['big', 'small']"),
        (["auto", "continuous", "auto"], "Column 'size': expected numbers, got 'big'"),
    ],
)
def test_feature_types(feature_types, part):
    table = TABLE.assign(size=np.where(TABLE["size"] > 0, "big", "small"))
    refuse_fit(table, Y, part, feature_types=feature_types)


def test_levels_that_are_written_alike_are_repeated():
    types = ["auto", [False, True, "1"], "auto"]
    refuse_fit(TABLE.assign(size=np.arange(N) % 2), Y, "more than once: ['1']", feature_types=types)


@pytest.mark.parametrize(
    ("feature_names", "part"),
    [
        (["a", "b"], "Expected one name per column: 3 column(s), got 2 name(s)"),
        (["a", "b", "a"], "Expected unique column names, got more than once: 'a'"),
        ("abc", "feature_names must be a list of one name per column, not 'abc'"),
        (3, "feature_names must be a list of one name per column, not 3"),
        ({"a": 0, "b": 1, "c": 2}, "feature_names must be a list of one name per column"),
        ({"a", "b", "c"}, "feature_names must be a list of one name per column"),
    ],
)
def test_feature_names(feature_names, part):
    refuse_fit(X, Y, part, feature_names=feature_names)


WRONG = {
    "absent_value": [np.inf, "0", None, True],
    "preset": ["slow", "Fast", None, 1],
    "max_bins": [1, 2.5, "a", None, True],
    "max_interaction_bins": [1, None, "few"],
    "max_terms": [0, 1.5, "many", True],
    "n_interaction_bases": [0, 1.5, None],
    "staged": ["yes", None],
    "boosted_steps": ["auto", None, 0.5],
    "network": [3, "papers"],
    "storage": [3, "2GB"],
    "scaling": ["log", ["quantile"]],
    "engine": ["fast", None],
    "basis": ["relu", None, 3],
    "n_bases": [0, 1.5, "many"],
    "hidden": [(0,), ("a",), (1.5,), 3, None, "ab"],
    "n_subnets": [0, None],
    "fourier": [-1, 1.5, None],
    "batch_norm": ["yes", None],
    "relu_bases": ["yes", None],
    "plain_training": ["yes", None],
    "dropout": [1, -0.1, "a", None, np.nan],
    "basis_dropout": [1, None],
    "tied_classes": ["yes", 0.5],
    "smoothness": ["a", -1, None, np.nan, np.inf],
    "output_penalty": [-1, None, np.inf],
    "weight_decay": [-1, "a"],
    "learning_rate": [0, -1, "a", None, np.nan, np.inf, True],
    "batch_size": [0, 1.5, "big"],
    "max_steps": [0, 1.5, None, "many"],
    "max_epochs": [0, "a", np.nan],
    "validation_size": [1.0, -0.1, 1.5, None, "a", np.nan, N, N + 1],
    "outer_bags": [0, 1.5, None, "many"],
    "early_stopping_rounds": [-1, 1.5, None],
    "early_stopping_tolerance": [-1, "none", np.nan, np.inf],
    "time_limit": [0, "a"],
    "callbacks": [3, print, [3], ["a"], "a"],
    "verbose": ["yes", None],
    "n_jobs": [0, 1.5, "all", True],
    "device": ["gpu seven", None, "cuda:99", "meta"],
    "random_state": ["a", 1.5, -1, 2**40],
    "memory_limit": [0, "much", "2 apples", True],
    "cache_dir": [3],
    "keep_cache": ["yes", None],
    "checkpoint_dir": [3],
    "checkpoint_every": [-1, "a", None],
    "warm_start": ["yes", None],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_parameters(name, value):
    refuse_fit(X, Y, name, re.sub(r"^'|'$", "", repr(value)) if name != "random_state" else "", **nest({name: value}))


def test_every_parameter_is_tried():
    elsewhere = {"feature_names", "feature_types", "interactions", "exclude"}
    assert set(WRONG) | elsewhere == {*NeuralBasisRegressor().get_params(deep=False), *HOME}


def test_knots_of_columns():
    for types, part in (
        ({"agee": [1.0]}, "feature_types names the column 'agee', which the table does not have; did you mean 'age'?"),
        ({"age": [1.0, 1.0]}, "feature_types of column 'age' lists numbers, which are cut points and must be finite"),
        (
            {"age": [0.0, np.nan]},
            "feature_types of column 'age' lists numbers, which are cut points and must be finite",
        ),
        ({"sex": [1.0]}, "Column 'sex': expected numbers, got 'f'"),
    ):
        refuse_fit(TABLE.assign(sex=list("fm" * (N // 2))), Y, part, feature_types=types)


def test_contradictory_parameters():
    refuse_fit(X, Y, "max_steps and max_epochs contradict each other", max_steps=3, network__max_epochs=2)
    parts = ("smoothness=1.0 contradicts engine='exact'", "smoothness=0 or engine='grid'")
    refuse_fit(X, Y, *parts, network__engine="exact", smoothness=1.0)


def test_importances(named):
    refuse(lambda: named.term_importances("gain"), "importance_type must be 'avg_weight' or 'min_max', not 'gain'")


def test_a_term_without_training_weight_has_no_importance(named):
    model = named.model_
    first, *others = model.shapes
    bare = replace(first, weights=np.zeros_like(first.weights), measured=None)
    edited = replace(model, shapes=(bare, *others))
    for kind in ("avg_weight", "min_max"):
        assert edited.importances(kind)[0] == 0
        np.testing.assert_array_equal(edited.importances(kind)[1:], model.importances(kind)[1:])
