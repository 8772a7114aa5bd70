"""Encoder: the kind of each column, the effect of `feature_types`, and the numbers for the kernels."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from neuralbasis.data import read_columns
from neuralbasis.encoding import Encoder, continuous_axis, settle_texts

NAN = float("nan")


def fit(table, **options):
    return Encoder.fit(read_columns(table), **options)


def kinds(encoder):
    return [axis.kind for axis in encoder.axes]


def encode(encoder, table):
    """Numbers of a one-column table as a list, None for missing."""
    return [None if np.isnan(v) else v for v in encoder.numbers(read_columns(table))[:, 0].tolist()]


# Kinds


def test_kinds_follow_the_columns():
    frame = pd.DataFrame(
        {
            "age": [31, 45, 8],
            "income": [1.5, None, 2.0],
            "flag": [True, False, True],
            "city": ["Oslo", "Rome", None],
            "colour": pd.Categorical(["red", "blue", "red"]),
            "size": pd.Categorical(["S", "L", "S"], categories=["S", "M", "L"], ordered=True),
        }
    )
    encoder = fit(frame)
    assert encoder.names == ("age", "income", "flag", "city", "colour", "size")
    assert kinds(encoder) == ["continuous", "continuous", "continuous", "nominal", "nominal", "ordinal"]
    assert [axis.levels for axis in encoder.axes[3:]] == [("Oslo", "Rome"), ("blue", "red"), ("S", "M", "L")]
    expected = [[31, 1.5, 1, 0, 1, 0], [45, NAN, 0, 1, 0, 2], [8, 2, 1, NAN, 1, 0]]
    np.testing.assert_array_equal(encoder.numbers(read_columns(frame)), expected)


def test_a_polars_enum_is_ordinal_with_its_declared_levels():
    series = pl.Series("size", ["M", None, "S"], dtype=pl.Enum(["S", "M", "L"]))
    encoder = fit(pl.DataFrame(series))
    assert (kinds(encoder), encoder.axes[0].levels) == (["ordinal"], ("S", "M", "L"))
    assert encode(encoder, {"size": ["L", "XL", "S", None]}) == [2.0, -1.0, 0.0, None]


def test_scaling_and_knots_reach_the_axes():
    values = np.random.default_rng(0).normal(size=(500, 1))
    for scaling in ("quantile", "minmax", "gaussian"):
        (axis,) = fit(values, scaling=scaling, max_knots=9).axes
        expected = continuous_axis("feature_0000", values[:, 0], None, scaling, 9)
        assert axis.name == "feature_0000"
        np.testing.assert_array_equal(axis.knots, expected.knots)
        np.testing.assert_array_equal(axis.places, expected.places)


# feature_types


def test_auto_changes_nothing():
    table = {"a": [1.0, 2.0], "b": ["x", "y"]}
    assert kinds(fit(table, feature_types=["auto", "auto"])) == kinds(fit(table)) == ["continuous", "nominal"]


@pytest.mark.parametrize("kind", ["nominal", "ordinal"])
def test_numbers_as_levels_are_sorted_by_value(kind):
    encoder = fit({"x": [10.0, 2.0, NAN, 2.5]}, feature_types=[kind])
    assert (kinds(encoder), encoder.axes[0].levels) == ([kind], ("2", "2.5", "10"))
    assert encode(encoder, {"x": [2.5, 10.0, 3.0, NAN, 2.0]}) == [1.0, 2.0, -1.0, None, 0.0]


def test_a_matrix_with_one_nominal_column():
    X = np.array([[1.0, 7.0], [NAN, 5.0], [3.0, NAN]])
    encoder = fit(X, feature_types=["auto", "nominal"])
    assert kinds(encoder) == ["continuous", "nominal"]
    np.testing.assert_array_equal(encoder.numbers(read_columns(X)), [[1.0, 1.0], [NAN, 0.0], [3.0, NAN]])


def test_numeric_text_as_continuous():
    frame = pd.DataFrame({"x": ["10", "2.5", None, "-1e3"]})
    encoder = fit(frame, feature_types=["continuous"])
    assert encoder.axes[0].knots.tolist() == [-1000.0, 2.5, 10.0]
    assert encode(encoder, frame) == [10.0, 2.5, None, -1000.0]


@pytest.mark.parametrize("levels", [["low", "mid", "high"], ("low", "mid", "high")])
def test_a_list_of_levels_is_ordinal_in_its_order(levels):
    encoder = fit({"x": ["high", "low", "other"]}, feature_types=[levels])
    assert (kinds(encoder), encoder.axes[0].levels) == (["ordinal"], ("low", "mid", "high"))
    assert encoder.axes[0].places.tolist() == [0.0, 0.5, 1.0]
    assert encode(encoder, {"x": ["mid", "other", None, "high", "low"]}) == [1.0, -1.0, None, 2.0, 0.0]


def test_a_list_of_texts_matches_a_column_of_numbers():
    encoder = fit({"x": [1.0, 2.0, 3.0]}, feature_types=[["3", "1", "2"]])
    assert encoder.axes[0].levels == ("3", "1", "2")
    assert encode(encoder, {"x": [1.0, 2.0, 3.0, 4.0]}) == [1.0, 2.0, 0.0, -1.0]


@pytest.mark.parametrize("cuts", [[18, 30, 65], (18.0, 30.0, 65.0), np.array([18, 30, 65])])
def test_a_list_of_numbers_gives_knots(cuts):
    table = {"age": [20.0, 40.0, 80.0], "x": ["a", "b", "a"]}
    found, known = fit(table, feature_types=[cuts, "auto"]), fit(table, feature_types={"age": [18, 30, 65]})
    assert kinds(found) == ["continuous", "nominal"]
    assert found.axes[0].knots.tolist() == known.axes[0].knots.tolist() == [18.0, 30.0, 65.0]
    assert found.axes[0].places.tolist() == known.axes[0].places.tolist()


@pytest.mark.parametrize("cuts", [[65, 18], [18, 18], [18, np.inf], [NAN]])
def test_cut_points_must_increase(cuts):
    with pytest.raises(ValueError, match="'age' lists numbers, which are cut points and must be finite and increasing"):
        fit({"age": [20.0, 40.0]}, feature_types=[cuts])


def test_requested_levels_that_rarely_occur_warn():
    table = {"x": ["low", "mid", "high", "1", "2", "2", "3", None]}
    match = (
        r"column 'x': 57.1% of the values are levels that the model does not know, such as '2'; it knows 'low', 'mid'"
    )
    with pytest.warns(UserWarning, match=match):
        fit(table, feature_types=[["low", "mid", "high"]])
    fit(table, weights=np.array([1, 1, 1, 1, 1, 1, 0, 1.0]), feature_types=[["low", "mid", "high"]])


def settle(table, feature_types=None, weights=None):
    return list(settle_texts(read_columns(table), feature_types, weights))


def test_texts_that_are_numbers_become_numbers():
    match = (
        r"'x' holds numbers as text and is read as numbers; '1,200' is read as 1200; 1 of 11 values is not a number, "
    )
    with pytest.warns(UserWarning, match=match + "'free', and is read as missing; to keep .* 'nominal'"):
        (column,) = settle({"x": ["1,200", "NA", *"123456789", "free"]})
    np.testing.assert_array_equal(column.numbers, [1200, NAN, *range(1, 10), NAN])


@pytest.mark.parametrize(
    ("texts", "feature_type"),
    [
        (["1", "2"], "nominal"), (["1", "2"], ["2", "1"]), (["02134", *["94105"] * 20], "auto"), (["a", "1"], "auto"),
        (pd.Categorical(["1", "2"]), "auto"), (["NA", "?"], "auto"),
    ],
)  # fmt: skip
def test_texts_that_stay_labels(texts, feature_type):
    (column,) = settle(pd.DataFrame({"x": texts}), [feature_type])
    assert column.numbers is None


def test_weights_count_texts_as_repeated_rows_do():
    texts, weights = ["1", "2", "low"], np.array([9.0, 9.0, 1.0])
    (column,) = settle({"x": texts})
    assert column.numbers is None
    with pytest.warns(UserWarning, match="1 of 19 values"):
        (column,) = settle({"x": texts}, weights=weights)
    assert column.numbers is not None


def test_a_list_of_booleans_matches_a_column_of_booleans():
    encoder = fit({"x": np.array([True, False])}, feature_types=[[True, False]])
    assert encode(encoder, {"x": np.array([False, True])}) == [1.0, 0.0]


def test_wrong_number_of_feature_types():
    with pytest.raises(ValueError, match="feature_types has 1 entries, but the table has 2 columns"):
        fit({"a": [1.0], "b": [2.0]}, feature_types=["auto"])


@pytest.mark.parametrize("feature_type", ["numeric", None, 3, "Nominal"])
def test_wrong_feature_type_names_the_column(feature_type):
    message = re.escape("feature_types of column 'b' must be 'auto', one of ('continuous', 'nominal', 'ordinal')")
    with pytest.raises(ValueError, match=f"{message}.*{re.escape(repr(feature_type))}"):
        fit({"a": [1.0], "b": [2.0]}, feature_types=["auto", feature_type])


def test_text_as_continuous_names_column_and_value():
    with pytest.raises(ValueError, match="Column 'x': expected numbers, got 'tall'"):
        fit({"x": ["1.5", "tall"]}, feature_types=["continuous"])


# Missing, unseen, weights


@pytest.mark.parametrize("table", [{"age": [NAN, NAN]}, {"age": [None, None]}, pd.DataFrame({"age": ["", ""]})[:0]])
def test_a_column_without_values(table):
    message = "column 'age' has only missing values" if len(table) else "Found array with 0 sample"
    with pytest.raises(ValueError, match=message):
        fit(table)


@pytest.mark.parametrize("kind", ["nominal", "ordinal", "continuous"])
def test_a_column_with_only_missing_values_is_named_for_every_type(kind):
    with pytest.raises(ValueError, match="column 'age' has only missing values"):
        fit({"age": [NAN, NAN]}, feature_types=[kind])


def test_an_infinite_value_names_the_column():
    with pytest.raises(ValueError, match="column 'feature_0001' holds infinite values"):
        fit(np.array([[1.0, 2.0], [3.0, -np.inf]]))


def test_unseen_levels_and_missing_values():
    encoder = fit({"city": ["Oslo", None, "Rome"]})
    assert encode(encoder, {"city": ["Bern", "Rome", None, "Oslo", "oslo"]}) == [-1.0, 1.0, None, 0.0, -1.0]


def test_levels_that_only_rows_of_weight_zero_have_are_unseen():
    table = {"city": ["Oslo", "Bern", "Rome", "Bern", None]}
    encoder = fit(table, weights=np.array([1.0, 0.0, 0.5, 0.0, 1.0]))
    assert encoder.axes[0].levels == ("Oslo", "Rome")
    assert encode(encoder, table) == [0.0, -1.0, 1.0, -1.0, None]


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([0.0, 1.5, 2.0, 9.0]), st.integers(0, 3)), min_size=1)
)
def test_weights_are_repetitions(rows):
    letters, values, weights = (np.array(part) for part in zip(*rows, strict=True))
    if not weights.any():
        return
    weighed = fit({"l": letters, "v": values}, weights=weights.astype(float))
    repeated = fit({"l": np.repeat(letters, weights), "v": np.repeat(values, weights)})
    assert [axis.levels for axis in weighed.axes] == [axis.levels for axis in repeated.axes]
    for one, other in zip(weighed.axes, repeated.axes, strict=True):
        np.testing.assert_array_equal(one.knots, other.knots)
        np.testing.assert_array_equal(one.places, other.places)


def test_text_in_a_numeric_column_names_column_and_value():
    encoder = fit({"size": [1.0, 2.0], "age": [3.0, 4.0]})
    with pytest.raises(ValueError, match="Column 'age': expected numbers, got 'old'"):
        encoder.numbers(read_columns({"size": [1.0, 1.0], "age": ["3", "old"]}))


def test_numbers_where_levels_were_text():
    encoder = fit(pd.DataFrame({"grade": ["1", "2", "3"]}))
    assert encode(encoder, {"grade": [2.0, 3.0, 4.0, NAN]}) == [1.0, 2.0, -1.0, None]


# Numbers


@pytest.mark.parametrize("order", ["C", "F"])
def test_a_float64_matrix_is_not_copied(order):
    X = np.asarray(np.random.default_rng(0).normal(size=(20, 3)), order=order)
    encoder = fit(X)
    numbers = encoder.numbers(read_columns(X))
    assert np.shares_memory(numbers, X)
    assert numbers.strides == X.strides
    np.testing.assert_array_equal(numbers, X)


def test_numbers_are_float64_for_all_types():
    table = {"a": np.array([1, 2], dtype=np.int8), "b": np.array([0.5, 1.5], dtype=np.float16), "c": ["u", "v"]}
    numbers = fit(table).numbers(read_columns(table))
    assert (numbers.dtype, numbers.tolist()) == (np.float64, [[1.0, 0.5, 0.0], [2.0, 1.5, 1.0]])


@pytest.mark.parametrize("width", [1, 3])
def test_wrong_width(width):
    encoder = fit(np.zeros((3, 2)))
    with pytest.raises(ValueError, match=f"the model has 2 columns, but the table has {width}"):
        encoder.numbers(read_columns(np.zeros((3, width))))


def test_fitting_reads_a_matrix_and_columns_alike():
    X = np.random.default_rng(3).normal(size=(50, 2))
    matrix = read_columns(X, names=["a", "b"])
    assert matrix.columns is None
    for one, other in zip(Encoder.fit(matrix).axes, fit({"a": X[:, 0], "b": X[:, 1]}).axes, strict=True):
        assert one.name == other.name
        np.testing.assert_array_equal(one.knots, other.knots)
        np.testing.assert_array_equal(one.places, other.places)


# Sparse tables


@settings(deadline=None, max_examples=150)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 1.0, np.nan]),
    st.sampled_from(["none", "whole", "fractional"]),
    st.sampled_from(["quantile", "minmax", "gaussian"]),
    st.sampled_from([193, 5]),
)
def test_axes_of_a_sparse_table_equal_those_of_the_dense_table(seed, absent, weighing, scaling, max_knots):
    rng = np.random.default_rng(seed)
    n_rows, n_columns = rng.integers(2, 50), rng.integers(1, 7)
    values = rng.integers(-4, 5, (n_rows, n_columns)) if seed % 2 else rng.normal(size=(n_rows, n_columns))
    dense = np.where(rng.random((n_rows, n_columns)) < rng.random(), values, absent)
    dense[1:][rng.random((n_rows - 1, n_columns)) < 0.05] = np.nan
    dense[0] = rng.integers(0, 2, n_columns)  # every column has a value
    weights = {"none": None, "whole": rng.integers(0, 3, n_rows) + 0.0, "fractional": rng.exponential(size=n_rows) ** 9}
    present = ~((dense == absent) | (np.isnan(dense) & np.isnan(absent)))
    X = csr_array((dense[present], np.nonzero(present)), shape=dense.shape)
    given_weights = weights[weighing]
    if given_weights is not None:
        given_weights[0] = 1.0
    sparse = Encoder.fit(read_columns(X, absent=absent), given_weights, None, scaling, max_knots)
    plain = Encoder.fit(read_columns(dense), given_weights, None, scaling, max_knots)
    for one, other in zip(sparse.axes, plain.axes, strict=True):
        assert (one.name, one.kind) == (other.name, other.kind)
        assert one.knots.tolist() == other.knots.tolist()
        assert one.places.tolist() == other.places.tolist()


def test_numbers_of_a_sparse_table_are_the_table():
    columns = read_columns(csr_array(np.eye(3)))
    assert Encoder.fit(columns).numbers(columns) is columns.sparse


def test_a_sparse_column_without_entries_is_constant_unless_absent_means_missing():
    columns = read_columns(csr_array(np.array([[0.0, 1.0], [0.0, 0.0]])))
    assert [axis.knots.tolist() for axis in Encoder.fit(columns).axes] == [[0.0], [0.0, 1.0]]
    with pytest.raises(ValueError, match="column 'feature_0000' has only missing values"):
        Encoder.fit(read_columns(csr_array(np.array([[0.0, 1.0], [0.0, 0.0]])), absent=np.nan))


def test_sums_of_weights_are_exact_in_any_order():
    def weigh(codes, weights):
        labels = np.array([f"{code:03d}" for code in codes], dtype=object)
        return Encoder.fit(read_columns({"x": labels}), weights).axes[0].mass

    rng = np.random.default_rng(0)
    alone, codes, weights = np.arange(1000), rng.integers(0, 7, 1000), rng.exponential(size=1000) ** 5
    np.testing.assert_allclose(weigh(alone, weights), weights, rtol=0, atol=weights.sum() * 2.0**-50)
    assert len(weigh(alone, weights)) == 1000  # no weight is rounded to 0
    mass, order = weigh(codes, weights), rng.permutation(1000)
    assert mass.tolist() == weigh(codes[::-1], weights[::-1]).tolist() == weigh(codes[order], weights[order]).tolist()
    assert mass.sum() == weigh(np.zeros(1000, int), weights)[0] == mass[:3].sum() + mass[3:].sum()
    assert weigh(alone, np.arange(1000.0)).tolist() == list(range(1, 1000))


@pytest.mark.parametrize("scaling", ["quantile", "minmax", "gaussian"])
def test_given_knots_do_not_depend_on_the_rows(scaling):
    rng = np.random.default_rng(0)
    given = {"size": [-1.0, 0.0, 0.5, 2.0], "dose": np.arange(300)}
    found = []
    for scale in (1.0, 50.0):
        table = {"size": rng.normal(size=500) * scale, "dose": rng.random(500), "age": rng.integers(0, 9, 500)}
        found.append(Encoder.fit(read_columns(table), scaling=scaling, max_knots=9, feature_types=given).axes)
    for (one, other), knots in zip(zip(*found, strict=True), [*given.values(), np.arange(9)], strict=True):
        assert one.knots.tolist() == other.knots.tolist() == list(knots)
        assert one.places.tolist() == other.places.tolist() or one.name == "age"
        assert one.places[[0, -1]].tolist() == [0.0, 1.0]
        assert (np.diff(one.places) > 0).all()
    assert Encoder.fit(read_columns({"size": [1.0, 2.0]}), feature_types={"size": [1.5]}).axes[0].places.tolist() == [
        0.5
    ]


def test_given_knots_of_a_sparse_table():
    dense = np.random.default_rng(0).poisson(0.3, size=(50, 2)).astype(float)
    knots = {"feature_0001": [0.0, 2.0]}
    one, other = (Encoder.fit(read_columns(X), feature_types=knots) for X in (dense, csr_array(dense)))
    assert [axis.knots.tolist() for axis in one.axes] == [axis.knots.tolist() for axis in other.axes]
    assert other.axes[1].knots.tolist() == [0.0, 2.0]
