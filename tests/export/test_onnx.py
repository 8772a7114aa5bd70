"""ONNX: onnxruntime and the reference evaluator of onnx compute the predictions of the model."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from neuralbasis import AdditiveModel, NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.encoding import Axis, Encoder, continuous_axis, level_axis
from neuralbasis.export import to_onnx
from neuralbasis.model.shapes import Shape
from tests.models import MIXED, NUMERIC, all_terms, build_model, draw_numbers, name_columns, tie_model

LEVELS = ("nominal", "ordinal", "nominal")
TASKS = {
    "regression": {},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
    "multiclass": {"n_outputs": 4, "link": "mlogit", "classes": np.array([3, 1, 4, 15])},
}
TOLERANCE = 1e-12  # of the range of the scores


def open_session(proto):
    onnx.checker.check_model(proto, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])


def make_inputs(model, proto, table, missing=""):
    """Inputs of the graph: columns of shape (N, 1), text for levels."""
    inputs = {}
    for value, axis in zip(proto.graph.input, model.encoder.axes, strict=True):
        column = np.asarray(table[axis.name], dtype=object if axis.is_level else float)
        if axis.is_level:
            column = np.array(
                [missing if pd.isna(level) else str(level).removesuffix(".0") for level in column], dtype=object
            )
        inputs[value.name] = column[:, None]
    return inputs


def run(model, table, missing=""):
    """Outputs of onnxruntime, by name."""
    proto = to_onnx(model, missing=missing)
    found = open_session(proto).run(None, make_inputs(model, proto, table, missing))
    return dict(zip([value.name for value in proto.graph.output], found, strict=True))


def assert_equal(model, table, missing=""):
    outputs = run(model, table, missing)
    scores = model.scores(table)
    tolerance = TOLERANCE * (np.ptp(scores) + np.abs(scores).max() + 1e-300)
    if model.classes is None:
        assert list(outputs) == ["prediction"]
        np.testing.assert_allclose(outputs["prediction"], model.predict(table), rtol=0, atol=tolerance)
        return
    assert list(outputs) == ["label", "probabilities", "scores"]
    np.testing.assert_allclose(outputs["scores"], scores, rtol=0, atol=tolerance)
    np.testing.assert_allclose(outputs["probabilities"], model.predict_proba(table), rtol=0, atol=1e-12)
    assert outputs["label"].tolist() == model.predict(table).tolist()


def draw_rows(rng, axes, n_rows=10_000):
    """Rows of every kind of cell, some of them next to a knot."""
    numbers = draw_numbers(rng, axes, n_rows)
    is_number = np.array([not axis.is_level for axis in axes])
    side = rng.choice([-np.inf, 0.0, np.inf], numbers.shape)
    beside = np.where(side == 0, numbers, np.nextafter(numbers, side))
    return name_columns(axes, np.where(is_number, beside, numbers))


def build_main(*axes, link="identity", classes=None):
    """Random main effects of these axes."""
    rng = np.random.default_rng(0)
    shapes = []
    for index, axis in enumerate(axes):
        scores = rng.normal(size=(axis.n_cells, 1))
        shapes.append(Shape((index,), (axis,), scores, np.zeros_like(scores), np.ones(axis.n_cells)))
    return AdditiveModel(Encoder(axes), np.array([0.5]), tuple(shapes), link, classes)


@pytest.mark.parametrize("kinds", [MIXED, NUMERIC, LEVELS], ids=["mixed", "numeric", "levels"])
@pytest.mark.parametrize("task", TASKS)
def test_onnxruntime_predicts_the_same(task, kinds):
    rng = np.random.default_rng(1)
    model = build_model(rng, kinds, **TASKS[task])
    assert {len(term) for term in model.terms} == {1, 2, 3}
    assert_equal(model, draw_rows(rng, model.encoder.axes))


def test_tied_terms_predict_the_same():
    rng = np.random.default_rng(2)
    model = build_model(rng, **TASKS["multiclass"])
    model = tie_model(rng, model, range(0, len(model.shapes), 2))
    assert_equal(model, draw_rows(rng, model.encoder.axes))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    kinds=st.lists(st.sampled_from(["continuous", "nominal", "ordinal"]), min_size=1, max_size=4),
    orders=st.sets(st.integers(1, 3), min_size=1),
    task=st.sampled_from(list(TASKS)),
    n_rows=st.integers(1, 50),
)
def test_any_model_predicts_the_same(seed, kinds, orders, task, n_rows):
    rng = np.random.default_rng(seed)
    orders = [order for order in sorted(orders) if order <= len(kinds)] or [1]
    model = build_model(rng, kinds, orders, **TASKS[task])
    assert_equal(model, draw_rows(rng, model.encoder.axes, n_rows))


@pytest.mark.parametrize("task", TASKS)
def test_the_reference_evaluator_agrees(task):
    rng = np.random.default_rng(3)
    model = build_model(rng, **TASKS[task])
    table, proto = draw_rows(rng, model.encoder.axes, 200), to_onnx(model)
    found = ReferenceEvaluator(proto).run(None, make_inputs(model, proto, table))
    for other, (name, values) in zip(found, run(model, table).items(), strict=True):
        if name == "label":
            assert other.tolist() == values.tolist()
        else:
            np.testing.assert_allclose(other, values, rtol=0, atol=1e-12)


EXTREME = {
    "timestamps": 1.7e9 + np.arange(0, 9, 0.5) ** 2,
    "tiny": np.array([1e-300, 2e-300, 7e-300, 1e-299]),
    "subnormal": np.array([0.0, 5e-324, 1.5e-323, 2e-320]),
    "huge": np.array([-1.7e308, -1.0, 0.0, 1e300, 1.7e308]),
    "wide": np.array([-1.7e308, 1.7e308]),
    "neighbours": np.array([1.0, np.nextafter(1, 2), np.nextafter(np.nextafter(1, 2), 2), 2.0]),
    "two": np.array([0.0, 1.0]),
    "one": np.array([3.0]),
}


@pytest.mark.parametrize("name", EXTREME)
def test_extreme_numbers_predict_the_same(name):
    axis = continuous_axis(name, EXTREME[name])
    knots = axis.knots
    between = np.concatenate([knots[:-1] * (1 - share) + knots[1:] * share for share in (0.1, 0.5, 0.77)])
    beside = [np.nextafter(knots, side) for side in (-np.inf, np.inf)]
    values = np.concatenate([knots, between, *beside, [-1e308, -1.0, -0.0, 0.0, 1.0, 1e308, np.nan]])
    assert_equal(build_main(axis), {name: values})


def test_axes_of_different_lengths_are_searched_together():
    rng = np.random.default_rng(4)
    axes = [Axis(f"x{n}", "continuous", np.sort(rng.normal(size=n)), np.linspace(0, 1, n)) for n in range(1, 40)]
    axes.append(continuous_axis("long", rng.normal(size=5000), max_knots=1025))
    model = build_main(*axes)
    assert_equal(model, draw_rows(rng, model.encoder.axes))


def test_missing_unseen_and_outside_values():
    axes = continuous_axis("x", np.array([0.0, 1.0])), level_axis("c", "nominal", ["a", "b"])
    tables = np.array([7.0, 10.0, 20.0, 99.0]), np.array([0.1, 0.2, 0.3, 0.4])
    shapes = [
        Shape((i,), (axis,), table[:, None], np.zeros((4, 1)), np.ones(4))
        for i, (axis, table) in enumerate(zip(axes, tables, strict=True))
    ]
    model = AdditiveModel(Encoder(axes), np.array([1000.0]), tuple(shapes), "identity")
    session = open_session(to_onnx(model))
    x = np.array([[np.nan], [0.25], [-5.0], [5.0], [np.inf], [-np.inf]])
    c = np.array([[""], ["a"], ["b"], ["z"], ["A"], ["a "]], dtype=object)
    (found,) = session.run(["prediction"], {"x": x, "c": c})
    np.testing.assert_allclose(found, [1007.1, 1012.7, 1010.3, 1020.4, 1020.4, 1010.4], rtol=1e-15)


@pytest.mark.parametrize("n_rows", [0, 1, 2, 3000])
@pytest.mark.parametrize("task", TASKS)
def test_any_number_of_rows_predicts_the_same(task, n_rows):
    rng = np.random.default_rng(5)
    model = build_model(rng, orders=(1, 2), **TASKS[task])
    table, proto = draw_rows(rng, model.encoder.axes, 3000), to_onnx(model)
    session, inputs = open_session(proto), make_inputs(model, proto, table)
    whole = session.run(None, inputs)
    part = session.run(None, {name: values[:n_rows] for name, values in inputs.items()})
    for values, all_values in zip(part, whole, strict=True):
        assert values.dtype == all_values.dtype
        np.testing.assert_array_equal(values, all_values[:n_rows])


def test_the_number_of_nodes_does_not_grow_with_numeric_terms():
    rng = np.random.default_rng(6)
    few, many = (to_onnx(build_model(rng, ("continuous",) * n, (1, 2))) for n in (3, 20))
    assert len(many.graph.node) == len(few.graph.node) < 100
    assert len(all_terms(20, (1, 2))) == 210


def test_axes_are_stored_once():
    rng = np.random.default_rng(7)
    model = build_model(rng, NUMERIC, (1, 2, 3))
    n_knots = sum(len(axis.knots) for axis in {id(a): a for shape in model.shapes for a in shape.axes}.values())
    (knots,) = [c for c in to_onnx(model).graph.initializer if c.name.startswith("knots")]
    assert list(knots.dims) == [n_knots]


CLASSES = {
    "text": (np.array(["ja", "nein, danke"]), object),
    "objects": (np.array(["a", "b"], dtype=object), object),
    "int": (np.array([-1, 7], dtype=np.int8), np.int64),
    "uint": (np.array([0, 200], dtype=np.uint8), np.int64),
    "bool": (np.array([False, True]), np.bool_),
    "float": (np.array([0.5, 2.0]), np.float64),
    "int objects": (np.array([0, 1], dtype=object), np.int64),
}


@pytest.mark.parametrize("name", CLASSES)
def test_labels_keep_their_type(name):
    classes, dtype = CLASSES[name]
    model = build_main(continuous_axis("x", np.arange(9.0)), link="logit", classes=classes)
    table = {"x": np.linspace(-1, 10, 200)}
    label = run(model, table)["label"]
    assert label.dtype == dtype
    assert label.tolist() == model.predict(table).tolist()
    assert len(set(label.tolist())) == 2


def test_certain_probabilities_do_not_overflow():
    axis = continuous_axis("x", np.array([-1000.0, 1000.0]))
    scores = np.array([0.0, -1000.0, 1000.0, 0.0])[:, None]
    shape = Shape((0,), (axis,), scores, np.zeros((4, 1)), np.ones(4))
    table = {"x": np.array([-1000.0, -40.0, 0.0, 40.0, 1000.0])}
    for model in (
        AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "logit", np.array([0, 1])),
        AdditiveModel(
            Encoder((axis,)),
            np.zeros(3),
            (Shape((0,), (axis,), scores * [1.0, -1.0, 0.5], np.zeros((4, 3)), np.ones(4)),),
            "mlogit",
            np.array([0, 1, 2]),
        ),
    ):
        found = run(model, table)
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), rtol=0, atol=1e-15)
        np.testing.assert_allclose(found["probabilities"].sum(axis=1), 1.0, rtol=1e-15)


def test_equal_scores_choose_the_first_class():
    axis = continuous_axis("x", np.array([-1.0, 1.0]))
    shape = Shape((0,), (axis,), np.zeros((4, 1)), np.zeros((4, 1)), np.ones(4))
    model = AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "logit", np.array(["a", "b"]))
    assert run(model, {"x": np.array([0.0])})["label"].tolist() == ["a"] == model.predict({"x": [0.0]}).tolist()


def test_several_regressions_have_one_prediction_each():
    rng = np.random.default_rng(8)
    model = build_model(rng, n_outputs=3)
    table = draw_rows(rng, model.encoder.axes, 100)
    found = run(model, table)["prediction"]
    np.testing.assert_allclose(found, model.predict(table), rtol=0, atol=1e-12)
    assert found.shape == (100, 3)


@pytest.mark.parametrize("kind", ["continuous", "nominal"])
def test_a_model_without_terms_is_its_intercept(kind):
    axis = continuous_axis("x", np.arange(3.0)) if kind == "continuous" else level_axis("x", kind, ["a"])
    model = AdditiveModel(Encoder((axis,)), np.array([4.25]), (), "identity")
    column = np.arange(3.0) if kind == "continuous" else np.array(["a", "b", None], dtype=object)
    assert run(model, {"x": column})["prediction"].tolist() == [4.25] * 3


def test_columns_without_a_term_are_inputs():
    rng = np.random.default_rng(9)
    whole = build_model(rng, MIXED, (1, 2))
    shapes = tuple(shape for shape in whole.shapes if 0 not in shape.term and 1 not in shape.term)
    model = AdditiveModel(whole.encoder, whole.intercept, shapes, "identity")
    assert [value.name for value in to_onnx(model).graph.input] == ["x0", "x1", "x2", "x3", "x4"]
    assert_equal(model, draw_rows(rng, model.encoder.axes, 500))


def test_the_text_for_missing_must_not_be_a_level():
    model = build_main(level_axis("postcode", "nominal", ["", "N1"]))
    with pytest.raises(ValueError, match=r"column 'postcode' has a level ''.*choose another.*missing='<missing>'"):
        to_onnx(model)
    assert_equal(model, {"postcode": np.array(["", "N1", None, "?"], dtype=object)}, missing="<missing>")


def test_levels_that_a_coarser_axis_drops_are_unseen():
    own = level_axis("c", "nominal", list("abcdef"), np.array([1.0, 9, 2, 8, 3, 7]))
    number = continuous_axis("x", np.arange(4.0))
    coarse = own.coarsen(3)
    assert coarse.levels == ("b", "d", "f")
    cells = (coarse.n_cells, number.n_cells)
    scores = np.random.default_rng(11).normal(size=(*cells, 1))
    shapes = (Shape((0, 1), (coarse, number), scores, np.zeros_like(scores), np.ones(cells)),)
    model = AdditiveModel(Encoder((own, number)), np.zeros(1), shapes, "identity")
    found = run(model, {"c": np.array([*"abcdefz", None], dtype=object), "x": np.full(8, 2.0)})["prediction"]
    np.testing.assert_array_equal(found, scores[[4, 1, 4, 2, 4, 3, 4, 0], 3, 0])


def make_frame(n_rows=400):
    rng = np.random.default_rng(12)
    frame = pd.DataFrame(
        {
            "income (€)": rng.lognormal(10, 1, n_rows),
            "grade": rng.integers(1, 5, n_rows).astype(float),
            "member": rng.random(n_rows) < 0.5,
            "town": rng.choice(["Oslo", "Roma", "東京"], n_rows),
        }
    )
    frame.loc[::7, "income (€)"] = np.nan
    frame.loc[::11, "town"] = None
    frame.loc[::13, "grade"] = np.nan
    return frame


FIT = {"max_steps": 30, "outer_bags": 2, "random_state": 0, "interactions": 3}
TYPES = ["continuous", "nominal", "auto", "nominal"]


@pytest.mark.parametrize("task", ["regression", "classes"])
def test_fitted_estimators_are_exported(task):
    frame = make_frame()
    target = np.nan_to_num(frame["grade"]) + frame["member"]
    if task == "regression":
        estimator = NeuralBasisRegressor(feature_types=TYPES, **FIT).fit(frame, target)
    else:
        labels = np.where(target > 3, "high", np.where(target > 1, "middle", "low"))
        estimator = NeuralBasisClassifier(feature_types=TYPES, **FIT).fit(frame, labels)
    model = estimator.model_
    assert [axis.is_level for axis in model.encoder.axes] == [False, True, False, True]
    outputs = run(model, frame)
    if task == "regression":
        np.testing.assert_allclose(outputs["prediction"], estimator.predict(frame), rtol=0, atol=1e-12)
    else:
        np.testing.assert_allclose(outputs["probabilities"], estimator.predict_proba(frame), rtol=0, atol=1e-12)
        assert outputs["label"].tolist() == estimator.predict(frame).tolist()
    assert to_onnx(estimator) == to_onnx(model)
