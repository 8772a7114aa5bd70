"""ONNX: names of inputs and levels, metadata, files, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import AdditiveModel, NeuralBasisRegressor
from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.export import to_onnx
from tests.export.test_onnx import assert_equal, build_main, open_session
from tests.models import build_model


def build_named(names):
    return build_main(*(continuous_axis(name, np.arange(3.0) + i) for i, name in enumerate(names)))


def assert_names(names):
    model = build_named(names)
    rng = np.random.default_rng(10)
    table = {name: rng.normal(size=20) for name in names}
    assert_equal(model, table)
    proto = to_onnx(model)
    inputs = [value.name for value in proto.graph.input]
    properties = {item.key: item.value for item in proto.metadata_props}
    assert json.loads(properties["columns"]) == dict(zip(inputs, names, strict=True))
    assert json.loads(properties["terms"]) == list(names)
    return inputs


def test_inputs_are_named_like_the_columns():
    names = ["two words", "two_words", "Größe/m²", "年齢", "a.b", "a[b]", "a:0", '"', "new\nline", " ", "constant_1"]
    assert assert_names(names) == names


def test_empty_names_and_names_of_outputs_are_changed():
    names = ["label", "label_", "scores", "probabilities", "prediction", "", "_", "x"]
    inputs = ["label__", "label_", "scores_", "probabilities_", "prediction_", "__", "_", "x"]
    assert assert_names(names) == inputs


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.text(st.characters(codec="utf-8"), max_size=5),
            st.from_regex(r"\A(constant|add|gather|knots|table)_[0-9]{1,2}\Z"),
            st.sampled_from(["label", "label_", "scores", "prediction"]),
        ),
        min_size=1,
        max_size=5,
        unique=True,
    )
)
def test_any_names_are_exported(names):
    assert_names(names)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=6), min_size=1, max_size=8, unique=True))
def test_any_levels_are_exported(levels):
    model = build_main(level_axis("c", "nominal", levels))
    texts = [*levels, *(level + "x" for level in levels), *(level.upper() for level in levels)]
    codes = [levels.index(text) + 1 if text in levels else len(levels) + 1 for text in texts]
    session = open_session(to_onnx(model))
    (found,) = session.run(None, {"c": np.array(["", *texts], dtype=object)[:, None]})
    np.testing.assert_array_equal(found, 0.5 + model.shapes[0].scores[[0, *codes], 0])


def test_the_file_describes_its_contents():
    model = build_main(continuous_axis("age", np.array([18.0, 99.5])), level_axis("sex", "nominal", ["f", "m"]))
    proto = to_onnx(model, missing="?")
    assert proto.producer_name == "neuralbasis"
    assert [(item.domain, item.version) for item in proto.opset_import] == [("", 17), ("ai.onnx.ml", 3)]
    assert proto.ir_version == 8
    assert [value.doc_string for value in proto.graph.input] == [
        "column 'age': numbers from 18 to 99.5; NaN is missing",
        "column 'sex': levels 'f', 'm'; '?' is missing",
    ]
    assert {item.key: item.value for item in proto.metadata_props} == {
        "columns": '{"age": "age", "sex": "sex"}',
        "terms": '["age", "sex"]',
        "link": "identity",
        "missing": "?",
    }


def test_the_description_lists_a_few_levels():
    model = build_main(level_axis("c", "nominal", [f"level {k}" for k in range(3000)]))
    text = to_onnx(model).graph.input[0].doc_string
    assert text.endswith("'level 19' and 2980 more; '' is missing")


def test_a_file_is_replaced_whole(tmp_path):
    model = build_named(["x"])
    target = tmp_path / "model.onnx"
    target.write_bytes(b"old")
    proto = to_onnx(model)
    assert to_onnx(model, target) == target
    assert onnx.load(target) == proto
    to_onnx(model, str(target))
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
    assert onnxruntime.InferenceSession(target).run(None, {"x": np.array([[1.0]])})[0] == model.predict({"x": [1.0]})
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        to_onnx(model, tmp_path / "nowhere" / "model.onnx")


def test_the_same_model_gives_the_same_bytes():
    first, second = (build_model(np.random.default_rng(13)) for _ in range(2))
    assert to_onnx(first).SerializeToString() == to_onnx(second).SerializeToString()


def test_an_absent_onnx_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    monkeypatch.delitem(sys.modules, "neuralbasis.export.onnx_graph", raising=False)
    with pytest.raises(ImportError, match=r"pip install 'neuralbasis\[onnx\]'"):
        to_onnx(build_named(["x"]))


def test_only_models_are_exported():
    with pytest.raises(TypeError, match="expected an AdditiveModel or a fitted estimator, not NeuralBasisRegressor"):
        to_onnx(NeuralBasisRegressor())
    model = build_named(["x"])
    strange = AdditiveModel(model.encoder, model.intercept, model.shapes, "log")
    with pytest.raises(ValueError, match="supports the links 'identity', 'logit' and 'mlogit', not 'log'"):
        to_onnx(strange)


PROBE = """
import sys
import numpy as np
from neuralbasis.export import to_onnx
assert not {"onnx", "onnxruntime", "torch", "sklearn"} & set(sys.modules)
from neuralbasis.encoding import continuous_axis
from neuralbasis.encoding import Encoder
from neuralbasis import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
to_onnx(AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"))
assert not {"onnxruntime", "torch", "sklearn"} & set(sys.modules)
"""


def test_exporting_needs_neither_torch_nor_a_runtime():
    found = subprocess.run([sys.executable, "-c", PROBE], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
