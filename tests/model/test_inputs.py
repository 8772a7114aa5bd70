"""Input of a model: columns by name, arrays by position, rows as dicts, memory layouts, errors."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisRegressor, kernels
from neuralbasis.data import read_columns
from tests.model.cases import CLASSES, NAN, as_rows, make_case, make_tiny
from tests.models import MIXED, NUMERIC, slow_contributions


def as_pandas_with_levels(table):
    frame = pd.DataFrame(table)
    return frame.astype({name: "category" for name in frame if frame[name].dtype != float})


FRAMES = {
    "dict": dict,
    "pandas": pd.DataFrame,
    "pandas categories": as_pandas_with_levels,
    "polars": pl.DataFrame,
    "polars lazy": pl.LazyFrame,
    "arrow": pa.table,
    "columns": read_columns,
}


@pytest.mark.parametrize("kind", FRAMES)
def test_columns_are_found_by_name(kind):
    model, numbers, table = make_case(n_outputs=2)
    expected = model.intercept + slow_contributions(model, numbers).sum(axis=1)
    np.testing.assert_allclose(model.scores(FRAMES[kind](table)), expected, rtol=1e-10, atol=1e-10)
    extra = {"other": np.arange(60.0), **table, "label": np.array(["t"] * 60, dtype=object)}
    mixed = {name: extra[name] for name in ("label", "x3", "x0", "other", "x4", "x2", "x1")}
    np.testing.assert_array_equal(model.scores(FRAMES[kind](mixed)), model.scores(FRAMES[kind](table)))
    np.testing.assert_array_equal(model.contributions(FRAMES[kind](mixed)), model.contributions(table))


@pytest.mark.parametrize("kind", FRAMES)
def test_a_missing_column_is_named(kind):
    model, _, table = make_case()
    del table["x2"]
    with pytest.raises(ValueError, match=r"Missing column\(s\): 'x2'"):
        model.scores(FRAMES[kind](table))


def test_foreign_names_are_not_read_by_position():
    model, numbers, _ = make_case(kinds=("continuous", "continuous"), orders=(1,))
    with pytest.raises(ValueError, match=r"Missing column\(s\): 'x0', 'x1'"):
        model.scores(pd.DataFrame(numbers, columns=["u", "v"]))


ARRAYS = {
    "C": np.ascontiguousarray,
    "F": np.asfortranarray,
    "list": lambda X: X.tolist(),
    "object": lambda X: X.astype(object),
    "big endian": lambda X: X.astype(">f8"),
    "longdouble": lambda X: X.astype(np.longdouble),
    "matrix subclass": lambda X: X.view(type("Table", (np.ndarray,), {})),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_arrays_are_read_by_position(kind):
    model, numbers, table = make_case(kinds=NUMERIC)
    np.testing.assert_array_equal(model.scores(ARRAYS[kind](numbers)), model.scores(table))


def test_arrays_with_levels_are_read_by_position():
    model, _, table = make_case()
    array = np.array([list(row) for row in zip(*table.values(), strict=True)], dtype=object)
    np.testing.assert_array_equal(model.scores(array), model.scores(table))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.int8, np.int64, np.uint16, bool])
def test_any_dtype_is_read_as_its_value(dtype):
    model, _, _ = make_case(kinds=NUMERIC)
    X = np.random.default_rng(1).integers(0, 2 if dtype is bool else 9, (20, 4)).astype(dtype)
    np.testing.assert_array_equal(model.scores(X), model.scores(X.astype(np.float64)))


def test_masked_values_are_missing():
    model, numbers, _ = make_case(kinds=NUMERIC)
    masked = np.ma.array(np.nan_to_num(numbers, nan=1.0), mask=np.isnan(numbers))
    assert masked.mask.any()
    np.testing.assert_array_equal(model.scores(masked), model.scores(numbers))


@pytest.mark.parametrize("kind", ["C", "F", "list", "object"])
@pytest.mark.parametrize("width", [1, 3, 5])
def test_wrong_width(width, kind):
    model, _, _ = make_case(kinds=NUMERIC)
    with pytest.raises(ValueError, match=f"the model has 4 columns, but the table has {width}"):
        model.scores(ARRAYS[kind](np.zeros((3, width))))


def test_a_single_row_must_be_two_dimensional():
    model, numbers, _ = make_case(kinds=NUMERIC)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        model.scores(numbers[0])


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("row", [0, 69_999])
def test_an_infinite_value_names_the_column(row, compiled, monkeypatch):
    monkeypatch.setattr(kernels, "NUMBA", compiled)
    model, _, _ = make_case(kinds=NUMERIC, orders=(1,), n_jobs=3)
    X = np.zeros((70_000, 4))
    X[row, 2] = -np.inf
    for method in (model.scores, model.contributions, model.predict):
        with pytest.raises(ValueError, match="column 'x2' holds an infinite value; neuralbasis expects finite numbers"):
            method(X)
    with pytest.raises(ValueError, match="column 'x2' holds an infinite value"):
        model.scores({"x3": X[:, 3], "x2": X[:, 2], "x1": X[:, 1], "x0": X[:, 0]})


def test_text_in_a_numeric_column_names_column_and_value():
    model, _, table = make_case()
    table["x2"] = np.array(["tall"] * 60, dtype=object)
    with pytest.raises(ValueError, match="Column 'x2': expected numbers, got 'tall'"):
        model.predict(table)


def test_the_input_is_not_changed():
    model, numbers, table = make_case(kinds=NUMERIC)
    before = numbers.copy()
    model.scores(numbers)
    model.contributions(numbers)
    np.testing.assert_array_equal(numbers, before)
    np.testing.assert_array_equal(np.column_stack(list(table.values())), before)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([MIXED, NUMERIC, ("nominal", "ordinal")]), st.sampled_from([1, 3]))
def test_rows_as_dicts_equal_the_table(seed, kinds, n_outputs):
    model, _, table = make_case(seed, 20, kinds=kinds, n_outputs=n_outputs)
    rows = as_rows(table)
    for method in (model.scores, model.contributions, model.predict):
        expected = method(table)
        np.testing.assert_array_equal(method(rows), expected)
        np.testing.assert_array_equal(method(tuple(rows)), expected)
        np.testing.assert_array_equal(np.concatenate([method(row) for row in rows]), expected)


def test_a_dict_of_classes():
    model, _, table = make_case(link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    row = as_rows(table)[0]
    assert model.predict(row).tolist() == model.predict(table)[:1].tolist()
    np.testing.assert_array_equal(model.predict_proba(row), model.predict_proba(table)[:1])


def test_a_dict_by_hand():
    model = make_tiny()
    found = model.predict({"size": 2, "colour": "red", "other": [1, 2]})
    np.testing.assert_allclose(found, [10 + 1 + 2 - 0.5 / 3 + 4.5 * 2 / 3], rtol=1e-14)
    assert model.contributions({"colour": "green", "size": None})[0, :, 0].tolist() == [9, 0, 0]
    assert model.contributions({"colour": None, "size": NAN})[0, :, 0].tolist() == [9, 5, 0]


def test_a_dict_without_a_column():
    model = make_tiny()
    for rows in ({"size": 2.0, "color": "red"}, [{"size": 2.0, "colour": "red"}, {"size": 2.0, "color": "red"}]):
        with pytest.raises(ValueError, match=r"Missing column\(s\): 'colour'.* 'color' may be 'colour'"):
            model.predict(rows)


@pytest.mark.parametrize("value", [np.inf, -np.inf, "inf", 10**400])
def test_an_infinite_value_in_a_dict_names_the_column(value):
    with pytest.raises(ValueError, match="column 'size' holds an infinite value"):
        make_tiny().predict({"size": value, "colour": "red"})


def test_estimators_read_dicts_too():
    X = {"size": np.arange(40.0), "colour": ["red", "blue"] * 20}
    estimator = NeuralBasisRegressor(max_steps=30, outer_bags=2, interactions=0).fit(X, X["size"])
    expected = estimator.predict(X)
    assert estimator.predict({"size": 3.0, "colour": "blue"}).tolist() == expected[3:4].tolist()
    assert (
        estimator.predict([{"colour": "red", "size": 4}, {"size": 5, "colour": "blue"}]).tolist()
        == expected[4:6].tolist()
    )
    assert estimator.eval_terms({"size": 3.0, "colour": "blue"}).tolist() == estimator.eval_terms(X)[3:4].tolist()


def make_layouts(X):
    """The same rows in every layout that an array may have."""
    wide = np.empty((2 * len(X), 2 * X.shape[1]))
    wide[::2, ::2] = X
    read_only = X.copy()
    read_only.setflags(write=False)
    return {
        "F": np.asfortranarray(X),
        "strided": wide[::2, ::2],
        "reversed": np.ascontiguousarray(X[::-1])[::-1],
        "read-only": read_only,
        "read-only strided": np.broadcast_to(X[:1], X.shape)[:1],
        "from bytes": np.frombuffer(X.tobytes()).reshape(X.shape),
        "float32": X.astype(np.float32),
        "big endian": X.astype(">f8"),
    }


def test_few_rows_in_any_layout_compile_no_other_kernel():
    """Compiling a kernel for another memory layout takes seconds."""
    if not kernels.NUMBA:
        pytest.skip("numba is absent")
    model, numbers, _ = make_case(kinds=NUMERIC, n_rows=30)
    expected = model.scores(np.ascontiguousarray(numbers))
    before = len(kernels.score_rows.signatures)
    for name, X in make_layouts(numbers).items():
        tolerance = 1e-5 if name == "float32" else 0
        np.testing.assert_allclose(model.scores(X), expected[: len(X)], rtol=tolerance, atol=tolerance)
        np.testing.assert_array_equal(model.scores(X[:1]), model.scores(X)[:1])
    assert len(kernels.score_rows.signatures) == before
