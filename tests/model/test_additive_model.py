"""AdditiveModel: scores are intercept plus contributions, columns are found by name, all kinds of input agree."""

import os
import pickle
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

import neuralbasis.model.additive_model
from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor, kernels
from neuralbasis.data.columns import read_columns
from neuralbasis.encoding.axis import Axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.losses.links import inverse_link
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape, TiedShape
from tests.models import MIXED, NUMERIC, build_model, draw_numbers, name_columns, slow_contributions, tie_model

NAN = float("nan")
CLASSES = {"logit": np.array(["no", "yes"]), "mlogit": np.array(["a", "b", "c"])}


def make_case(seed=0, n_rows=60, **options):
    """A model, rows as numbers, and the same rows as a table of raw columns."""
    rng = np.random.default_rng(seed)
    model = build_model(rng, **options)
    numbers = draw_numbers(rng, model.encoder.axes, n_rows)
    return model, numbers, name_columns(model.encoder.axes, numbers)


def make_tiny(link="identity", classes=None):
    """score = 10 + f(size) + g(colour) + h(size, colour), written out."""
    size = Axis("size", "continuous", np.array([0.0, 2.0, 3.0]), np.array([0.0, 0.5, 1.0]))
    colour = level_axis("colour", "nominal", ["blue", "red"])
    coarse = size.coarsen(2)
    f = Shape(
        (0,), (size,), np.array([[9.0], [-1.0], [1.0], [3.0], [0.0]]), np.zeros((5, 1)), np.array([0, 1, 2, 1, 0.0])
    )
    g = Shape((1,), (colour,), np.array([[5.0], [-2.0], [2.0], [0.0]]), np.zeros((4, 1)), np.array([1.0, 1, 2, 0]))
    h_scores = np.zeros((4, 4, 1))
    h_scores[1:3, 1:3, 0] = [[0.5, -0.5], [-1.5, 4.5]]
    h_weights = np.zeros((4, 4))
    h_weights[1:3, 1:3] = [[1, 2], [1, 0]]
    h = Shape((0, 1), (coarse, colour), h_scores, np.zeros((4, 4, 1)), h_weights)
    return AdditiveModel(Encoder((size, colour)), np.array([10.0]), (f, g, h), link, classes)


# Scores


def test_a_model_by_hand():
    model = make_tiny()
    table = {"size": [1.0, 2.0, 2.5, 9.0, NAN, 0.0], "colour": ["red", "blue", None, "green", "red", "blue"]}
    expected = [
        [0.0, 2.0, -0.5 * 2 / 3 + 4.5 / 3],  # halfway from 0 to 2; a third of the way from 0 to 3
        [1.0, -2.0, 0.5 / 3 - 1.5 * 2 / 3],
        [2.0, 5.0, 0.0],
        [3.0, 0.0, 0.0],
        [9.0, 2.0, 0.0],
        [-1.0, -2.0, 0.5],
    ]
    assert model.term_names == ("size", "colour", "size & colour")
    assert model.terms == ((0,), (1,), (0, 1))
    np.testing.assert_allclose(model.contributions(table)[:, :, 0], expected, atol=1e-15)
    np.testing.assert_allclose(model.scores(table)[:, 0], 10 + np.sum(expected, axis=1))
    np.testing.assert_allclose(model.predict(table), 10 + np.sum(expected, axis=1))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([(1,), (1, 2), (1, 2, 3)]),
    st.sampled_from([1, 4]),
    st.sampled_from([MIXED, NUMERIC]),
)
def test_contributions_and_intercept_sum_to_the_score(seed, orders, n_outputs, kinds):
    model, numbers, table = make_case(seed, 30, kinds=kinds, orders=orders, n_outputs=n_outputs)
    contributions, scores = model.contributions(table), model.scores(table)
    assert contributions.shape == (30, len(model.shapes), n_outputs)
    assert scores.shape == (30, n_outputs)
    assert model.n_outputs == n_outputs
    np.testing.assert_allclose(model.intercept + contributions.sum(axis=1), scores, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(contributions[:8], slow_contributions(model, numbers[:8]), rtol=1e-10, atol=1e-11)


def test_unseen_levels_and_missing_values_read_their_cells():
    model, _, _ = make_case(kinds=("nominal", "continuous"), orders=(1,))
    nominal, continuous = (shape.scores[:, 0] for shape in model.shapes)
    found = model.contributions({"x0": ["level 1", "other", None], "x1": [NAN, -1e9, 1e9]})[:, :, 0]
    assert found[:, 0].tolist() == [nominal[2], nominal[-1], nominal[0]]
    assert found[:, 1].tolist() == [continuous[0], continuous[1], continuous[-2]]


def test_one_row_reads_like_many():
    model, numbers, _ = make_case(kinds=NUMERIC, n_rows=50)
    together = model.scores(numbers)
    alone = np.concatenate([model.scores(numbers[i : i + 1]) for i in range(50)])
    np.testing.assert_array_equal(alone, together)


@pytest.mark.parametrize("n_jobs", [None, -1, 1, 3])
def test_threads_change_nothing(n_jobs):
    model, numbers, _ = make_case(kinds=NUMERIC, n_rows=13_000, n_outputs=2, n_jobs=n_jobs)
    serial, _, _ = make_case(kinds=NUMERIC, n_rows=1, n_outputs=2, n_jobs=1)
    np.testing.assert_array_equal(model.scores(numbers), serial.scores(numbers))
    np.testing.assert_array_equal(model.contributions(numbers), serial.contributions(numbers))


# Predictions


def test_regression_predicts_the_score():
    model, _, table = make_case()
    np.testing.assert_array_equal(model.predict(table), model.scores(table)[:, 0])
    with pytest.raises(AttributeError, match="predict_proba needs a model of classes; this one is a regression"):
        model.predict_proba(table)


def test_two_classes():
    model, _, table = make_case(link="logit", classes=CLASSES["logit"])
    scores, probabilities = model.scores(table)[:, 0], model.predict_proba(table)
    np.testing.assert_allclose(probabilities[:, 1], 1 / (1 + np.exp(-scores)))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0)
    assert model.predict(table).tolist() == ["yes" if score > 0 else "no" for score in scores]
    assert {"yes", "no"} == set(model.predict(table))


def test_three_classes():
    model, _, table = make_case(link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    scores, probabilities = model.scores(table), model.predict_proba(table)
    np.testing.assert_allclose(probabilities, np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True))
    assert model.predict(table).tolist() == ["abc"[row.argmax()] for row in scores]
    assert set(model.predict(table)) == {"a", "b", "c"}


# Tied classes


def make_tied(which="all", seed=0, n_rows=60, **options):
    """A model with tied terms, the same model with plain tables, rows as numbers and as a table."""
    options = {"link": "mlogit", "classes": CLASSES["mlogit"], "n_outputs": 3, **options}
    model, numbers, table = make_case(seed, n_rows, **options)
    every = range(len(model.shapes))
    tied = tie_model(np.random.default_rng(seed), model, every if which == "all" else every[::2])
    dense = [Shape(s.term, s.axes, s.scores, s.spread, s.weights) for s in tied.shapes]
    return tied, AdditiveModel(model.encoder, model.intercept, tuple(dense), model.link, model.classes), numbers, table


def test_a_tied_shape_by_hand():
    colour = level_axis("colour", "nominal", ["blue", "red"])
    values = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 3.0], [0.0, 0.0]])  # missing, blue, red, unseen
    mix = np.array([[[1.0, -1.0], [3.0, -3.0]], [[0.0, 2.0], [0.0, 4.0]]])  # two shapes, two members, two classes
    shape = TiedShape((0,), (colour,), values, mix, np.array([0.0, 1.0, 3.0, 0.0]))
    # Members: red is 2 · (1, -1) + 3 · (0, 2) = (2, 4) and 2 · (3, -3) + 3 · (0, 4) = (6, 6).
    np.testing.assert_allclose(shape.scores, [[0, 0], [2, -2], [4, 5], [0, 0]])
    np.testing.assert_allclose(shape.spread, np.sqrt([[0, 0], [2, 2], [8, 2], [0, 0]]))
    model = AdditiveModel(Encoder((colour,)), np.array([0.5, -0.5]), (shape,), "mlogit", np.array(["no", "yes"]))
    table = {"colour": ["red", "blue", None, "green"]}
    np.testing.assert_allclose(model.scores(table), [[4.5, 4.5], [2.5, -2.5], [0.5, -0.5], [0.5, -0.5]])
    np.testing.assert_allclose(model.contributions(table)[:, 0], [[4, 5], [2, -2], [0, 0], [0, 0]])
    np.testing.assert_allclose(model.importances(), [((2 + 3 * 4) / 4 + (2 + 3 * 5) / 4) / 2])
    np.testing.assert_allclose(model.importances("min_max"), [(2 + 7) / 2])


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    gap=st.sampled_from([0.0, 1e-300, 1e-12, 1e-6, 1.0]),
    size=st.sampled_from([1e-30, 1, 1e39]),
)
def test_tied_classes_with_nearly_equal_scores_are_picked_in_double_precision(seed, gap, size):
    """The predicted class has the highest score in double precision, for any gap between scores and any size."""
    rng = np.random.default_rng(seed)
    tied, _, _, table = make_tied(seed=seed % 50)
    shapes = []
    for shape in tied.shapes:
        mix = size * shape.mix[..., :1] * (1 + gap * rng.normal(size=(1, 1, 3)))
        shapes.append(replace(shape, mix=mix))
    model = replace(tied, shapes=tuple(shapes), intercept=size * gap * rng.normal(size=3))
    assert model.predict(table).tolist() == model.classes[model.scores(table).argmax(axis=1)].tolist()


def test_blocks_of_rows_predict_the_same_classes(monkeypatch):
    tied, dense, _, table = make_tied(n_rows=60)
    expected = tied.classes[tied.scores(table).argmax(axis=1)].tolist()
    for size in (1, 50, 1 << 23):
        monkeypatch.setattr("neuralbasis.model.predictor.BLOCK_NUMBERS", size)
        assert tied.predict(table).tolist() == expected
        assert dense.predict(table).tolist() == dense.classes[dense.scores(table).argmax(axis=1)].tolist()


def test_arrays_of_many_rows_are_read_a_block_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(50, 2)), np.arange(50) % 3
    model = NeuralBasisClassifier(max_steps=20, outer_bags=2, interactions=0, random_state=0).fit(X, y).model_
    expected = model.classes[model.scores(X).argmax(axis=1)].tolist()
    assert len(set(expected)) > 1
    for size in (1, 7, 50):
        monkeypatch.setattr("neuralbasis.model.predictor.BLOCK_ROWS", size)
        assert model.predict(X).tolist() == expected


def test_probabilities_are_the_link_of_the_scores_on_any_number_of_threads(monkeypatch):
    tied, _, _, table = make_tied(n_rows=60)
    expected = inverse_link("mlogit", tied.scores(table))
    monkeypatch.setattr("neuralbasis.model.additive_model.CACHED_NUMBERS", 8)
    for n_jobs in (1, 3):
        assert (replace(tied, n_jobs=n_jobs).predict_proba(table) == expected).all()


def test_one_member_of_tied_classes_has_no_spread():
    tied = tie_model(np.random.default_rng(0), make_case(n_outputs=3)[0], [0, 6], n_members=1)
    assert all((tied.shapes[index].spread == 0).all() for index in (0, 6))
    assert tied.shapes[6].spread.shape == tied.shapes[6].scores.shape


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("which", ["all", "some"])
@pytest.mark.parametrize("orders", [(1,), (1, 2, 3)])
def test_tied_terms_equal_their_plain_tables(orders, which, compiled, monkeypatch):
    monkeypatch.setattr(kernels, "NUMBA", compiled)
    tied, dense, numbers, table = make_tied(which, orders=orders)
    np.testing.assert_allclose(tied.contributions(table), dense.contributions(table), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.scores(table), dense.scores(table), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.contributions(table)[:5], slow_contributions(tied, numbers[:5]), atol=1e-10)
    np.testing.assert_allclose(tied.predict_proba(table), dense.predict_proba(table), rtol=1e-10)
    assert tied.predict(table).tolist() == dense.predict(table).tolist()
    for kind in ("avg_weight", "min_max"):
        np.testing.assert_allclose(tied.importances(kind), dense.importances(kind), rtol=1e-12)
    assert (tied.terms, tied.term_names, tied.n_outputs) == (dense.terms, dense.term_names, 3)


@pytest.mark.parametrize("which", ["all", "some"])
def test_blocks_of_tied_terms_cover_all_rows(which, monkeypatch):
    tied, dense, numbers, _ = make_tied(which, n_rows=333, kinds=NUMERIC)
    monkeypatch.setattr(neuralbasis.model.predictor, "BLOCK_NUMBERS", 3 * len(tied.shapes) * 10)  # ten rows
    np.testing.assert_allclose(tied.scores(numbers), dense.scores(numbers), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.contributions(numbers), dense.contributions(numbers), rtol=1e-10, atol=1e-12)
    numbers[300, 2] = np.inf
    for ask in (tied.scores, tied.contributions):
        with pytest.raises(ValueError, match="column 'x2' holds an infinite value"):
            ask(numbers)


@pytest.mark.parametrize("n_jobs", [1, 3])
@pytest.mark.parametrize("numbers_at_a_time", [1, 6, 7, 4000])
def test_chunks_of_tied_terms_add_up(numbers_at_a_time, n_jobs, monkeypatch):
    tied, dense, numbers, _ = make_tied(n_rows=333, kinds=NUMERIC, orders=(1, 2, 3))
    tied = replace(tied, n_jobs=n_jobs)
    monkeypatch.setattr(neuralbasis.model.predictor, "CHUNK_NUMBERS", numbers_at_a_time)
    monkeypatch.setattr(neuralbasis.model.predictor, "BLOCK_NUMBERS", 2000)
    np.testing.assert_allclose(tied.scores(numbers), dense.scores(numbers), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(tied.predict_proba(numbers), dense.predict_proba(numbers), rtol=1e-10)
    assert tied.predict(numbers).tolist() == dense.predict(numbers).tolist()
    stored = csr_array(np.nan_to_num(numbers))
    assert tied.predict(stored).tolist() == dense.predict(stored.toarray()).tolist()
    numbers[300, 2] = np.inf
    for ask in (tied.scores, tied.predict, tied.predict_proba):
        with pytest.raises(ValueError, match="column 'x2' holds an infinite value"):
            ask(numbers)


@pytest.mark.parametrize("which", ["all", "some"])
def test_tied_terms_in_a_pickle(which):
    tied, _, _, table = make_tied(which)
    assert_same_model(pickle.loads(pickle.dumps(tied)), tied, table)


# Finding columns


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
    for ask in (model.scores, model.contributions, model.predict):
        with pytest.raises(ValueError, match="column 'x2' holds an infinite value; neuralbasis expects finite numbers"):
            ask(X)
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


# Rows as dicts


def as_rows(table):
    """A table of columns as a list of dicts of plain values."""
    columns = [values.tolist() for values in table.values()]
    return [dict(zip(table, values, strict=True)) for values in zip(*columns, strict=True)]


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 2**32 - 1), st.sampled_from([MIXED, NUMERIC, ("nominal", "ordinal")]), st.sampled_from([1, 3]))
def test_rows_as_dicts_equal_the_table(seed, kinds, n_outputs):
    model, _, table = make_case(seed, 20, kinds=kinds, n_outputs=n_outputs)
    rows = as_rows(table)
    for ask in (model.scores, model.contributions, model.predict):
        expected = ask(table)
        np.testing.assert_array_equal(ask(rows), expected)
        np.testing.assert_array_equal(ask(tuple(rows)), expected)
        np.testing.assert_array_equal(np.concatenate([ask(row) for row in rows]), expected)


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


# Serving


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


def test_many_threads_on_one_model():
    model, _, table = make_case(7, 200, n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    model = tie_model(np.random.default_rng(7), model, [0, 5, 20])
    rows = as_rows(table)
    # Tied terms of one row may differ in the last bit from those of many: BLAS sums products of other sizes.
    expected = [model.scores(row) for row in rows], model.contributions(rows), model.predict(rows)
    end = time.monotonic() + 2.0

    def work(seed):
        rng, n_calls = np.random.default_rng(seed), 0
        while time.monotonic() < end:
            i = int(rng.integers(len(rows)))
            j = i + int(rng.integers(1, 6))
            wrong = [
                (model.scores(rows[i]) != expected[0][i]).any(),
                (model.contributions(rows[i:j]) != expected[1][i:j]).any(),
                (model.predict({name: values[i:j] for name, values in table.items()}) != expected[2][i:j]).any(),
            ]
            assert not any(wrong)
            n_calls += 1
        return n_calls

    with ThreadPoolExecutor(8) as pool:
        assert min(pool.map(work, range(8))) > 0


# Importances


def test_importances_by_hand():
    model = make_tiny()
    # Weighted means of |scores|: (1 + 2·1 + 3) / 4, (5 + 2 + 2·2) / 4, (0.5 + 2·0.5 + 1.5) / 4.
    np.testing.assert_allclose(model.importances(), [6 / 4, 11 / 4, 3 / 4])
    np.testing.assert_allclose(model.importances("avg_weight"), model.importances())
    # Ranges over the cells with weight: the 9 of missing sizes and the 4.5 of a pair without rows do not count.
    np.testing.assert_allclose(model.importances("min_max"), [3 - -1, 5 - -2, 0.5 - -1.5])


def test_importances_are_means_over_classes():
    model, _, _ = make_case(n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    for kind in ("avg_weight", "min_max"):
        parts = []
        for k in range(3):
            shapes = tuple(Shape(s.term, s.axes, s.scores[..., [k]], s.spread, s.weights) for s in model.shapes)
            parts.append(AdditiveModel(model.encoder, model.intercept[[k]], shapes, "identity").importances(kind))
        np.testing.assert_allclose(model.importances(kind), np.mean(parts, axis=0))
    assert model.importances().shape == (len(model.shapes),)


def test_average_importance_is_the_mean_over_the_training_rows():
    model, numbers, _ = make_case(kinds=("nominal", "continuous"), orders=(1,))
    counts = [np.zeros_like(shape.weights) for shape in model.shapes]
    on_knots = numbers.copy()
    on_knots[:, 1] = np.random.default_rng(2).choice(model.encoder.axes[1].knots, len(numbers))
    positions = model.layout.encode(on_knots).astype(int)
    for term, count in enumerate(counts):
        np.add.at(count, positions[:, term], 1.0)
    shapes = tuple(Shape(s.term, s.axes, s.scores, s.spread, c) for s, c in zip(model.shapes, counts, strict=True))
    counted = AdditiveModel(model.encoder, model.intercept, shapes, "identity")
    rows = np.abs(model.contributions(name_columns(model.encoder.axes, on_knots))[:, :, 0])
    np.testing.assert_allclose(counted.importances(), rows.mean(axis=0))


def test_unknown_importance():
    with pytest.raises(ValueError, match="importance_type must be 'avg_weight' or 'min_max', not 'gain'"):
        make_tiny().importances("gain")


def test_axes_of_a_column_by_order():
    model, _, _ = make_case(kinds=("continuous", "nominal", "continuous"))
    for feature, axes in enumerate(model.axes_by_feature()):
        assert axes[0] is model.encoder.axes[feature]
        used = [s.axes[s.term.index(feature)] for s in model.shapes if feature in s.term]
        assert {id(axis) for axis in axes} == {id(axis) for axis in used}
        assert [len(axis.knots) for axis in axes] == sorted((len(axis.knots) for axis in axes), reverse=True)
    assert [len(axes) for axes in model.axes_by_feature()] == [3, 3, 3]


# Pickles and other processes


def assert_same_model(one, other, table):
    assert (one.term_names, one.link, one.terms) == (other.term_names, other.link, other.terms)
    np.testing.assert_array_equal(one.scores(table), other.scores(table))
    np.testing.assert_array_equal(one.contributions(table), other.contributions(table))
    np.testing.assert_array_equal(one.predict(table), other.predict(table))
    for kind in ("avg_weight", "min_max"):
        np.testing.assert_array_equal(one.importances(kind), other.importances(kind))


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle(protocol):
    model, _, table = make_case(link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    copy = pickle.loads(pickle.dumps(model, protocol))
    assert_same_model(copy, model, table)
    assert copy.encoder.axes[0] is copy.shapes[0].axes[0]
    assert len(copy.layout.axes) == len(model.layout.axes)


@pytest.mark.parametrize("orders", [(1,), (1, 2, 3)])
@pytest.mark.parametrize("n_outputs", [1, 4])
@pytest.mark.parametrize("kinds", [MIXED, NUMERIC, ("ordinal",) * 3], ids=["mixed", "numeric", "levels"])
def test_the_numpy_path_gives_the_same_numbers(kinds, n_outputs, orders, monkeypatch):
    model, _, table = make_case(3, 500, kinds=kinds, n_outputs=n_outputs, orders=orders)
    compiled = model.scores(table), model.contributions(table)
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(model.scores(table), compiled[0], rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.contributions(table), compiled[1], rtol=1e-12, atol=1e-13)


def test_blocks_of_the_numpy_path_cover_all_rows(monkeypatch):
    model, numbers, _ = make_case(4, 140_000, kinds=("continuous", "continuous"), orders=(1,))
    compiled = model.scores(numbers)
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(model.scores(numbers), compiled, rtol=1e-12, atol=1e-12)


PREDICT = """
import pickle, sys
import neuralbasis.model.additive_model
from neuralbasis import kernels
with open(sys.argv[1], "rb") as file:
    model, table = pickle.load(file)
assert not kernels.NUMBA
assert not hasattr(kernels.score_rows, "py_func")
positions = model.layout.encode(model.encoder.numbers(model.find_columns(table)))
answer = model.scores(table), model.contributions(table), model.predict_proba(table), positions
assert "torch" not in sys.modules and "sklearn" not in sys.modules
with open(sys.argv[2], "wb") as file:
    pickle.dump(answer, file)
"""

NO_NUMBA = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numba":
            raise ImportError("no module named numba")
sys.meta_path.insert(0, Refuse())
"""


@pytest.mark.parametrize("absent", ["by choice", "not installed"])
def test_a_process_without_numba_predicts_the_same(absent, tmp_path):
    model, numbers, table = make_case(5, 300, link="mlogit", classes=CLASSES["mlogit"], n_outputs=3)
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((model, table)))
    code = PREDICT if absent == "by choice" else NO_NUMBA + PREDICT
    env = {**os.environ, "NEURALBASIS_NUMBA": "0" if absent == "by choice" else "1"}
    files = [str(tmp_path / "model.pickle"), str(tmp_path / "answer.pickle")]
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *files], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    scores, contributions, probabilities, positions = pickle.loads((tmp_path / "answer.pickle").read_bytes())
    np.testing.assert_allclose(scores, model.scores(table), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(contributions, model.contributions(table), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(probabilities, model.predict_proba(table), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(positions, model.layout.encode(numbers))


def test_a_model_is_immutable():
    model = make_tiny()
    with pytest.raises(AttributeError, match=re.escape("cannot assign to field 'intercept'")):
        model.intercept = np.array([0.0])


# Sparse tables


def make_sparse_case(seed: int, absent: float, n_rows: int = 300, **options):
    model, numbers, _ = make_case(seed, n_rows, kinds=NUMERIC, **options)
    rng = np.random.default_rng(seed)
    numbers[rng.random(numbers.shape) < 0.7] = absent
    is_stored = ~((numbers == absent) | (np.isnan(numbers) & np.isnan(absent)))
    X = csr_array((numbers[is_stored], np.nonzero(is_stored)), shape=numbers.shape)
    return model, numbers, read_columns(X, absent=absent)


@pytest.mark.parametrize("absent", [0.0, 3.7, np.nan])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_a_sparse_table_is_predicted_like_a_dense_one(absent, n_jobs, monkeypatch):
    monkeypatch.setattr("neuralbasis.model.predictor.BLOCK_ROWS", 128)
    model, numbers, columns = make_sparse_case(0, absent, n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    model = replace(model, n_jobs=n_jobs)
    np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(model.contributions(columns), model.contributions(numbers))
    np.testing.assert_allclose(model.predict_proba(columns), model.predict_proba(numbers), rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(model.predict(columns), model.predict(numbers))
    monkeypatch.setattr(kernels, "NUMBA", False)
    np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.contributions(columns), model.contributions(numbers), rtol=1e-12, atol=1e-12)


def test_sparse_tables_with_different_absent_values_in_turn():
    for absent in (0.0, 1.0, 0.0, np.nan):
        model, numbers, columns = make_sparse_case(1, absent)
        np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)


def test_a_sparse_table_is_predicted_by_a_model_with_tied_terms():
    model, numbers, columns = make_sparse_case(2, 0.0, n_outputs=3, link="mlogit", classes=CLASSES["mlogit"])
    model = tie_model(np.random.default_rng(0), model, [0, 3, 5])
    np.testing.assert_allclose(model.scores(columns), model.scores(numbers), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.contributions(columns), model.contributions(numbers), rtol=1e-12, atol=1e-12)


def test_contributions_of_a_sparse_table_are_limited_in_size(monkeypatch):
    model, _, columns = make_sparse_case(3, 0.0)
    monkeypatch.setattr("neuralbasis.model.additive_model.MAX_BYTES", 100 * 8 * len(model.shapes))
    with pytest.raises(ValueError, match=r"contributions of 300 rows.* pass at most 100 rows at a time"):
        model.contributions(columns)
    assert model.scores(columns).shape == (300, 1)


def test_columns_of_a_sparse_table_are_found_by_name():
    model, numbers, _ = make_sparse_case(4, 0.0)
    frame = pd.DataFrame(numbers, columns=model.encoder.names)[list(model.encoder.names[::-1])]
    sparse = frame.fillna(9.0).astype(pd.SparseDtype(float, 0.0))
    np.testing.assert_allclose(model.scores(sparse), model.scores(frame.fillna(9.0)), rtol=1e-12, atol=1e-12)


def test_scipy_sparse_is_imported_only_for_sparse_tables():
    code = """
import sys, numpy as np
from neuralbasis.encoding.axis import continuous_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.losses.links import inverse_link
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
model = AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity")
assert model.predict(np.ones((2, 1))).tolist() == [1.0, 1.0]
assert "scipy.sparse" not in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
