"""The page as a file: it stores the tables of the model, and no name becomes markup."""

import base64
import hashlib
import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier
from neuralbasis.explain import explain_global
from neuralbasis.report.page import write_block
from tests.models import build_model
from tests.report.pages import (
    HOSTILE,
    KINDS,
    SOURCES,
    hostile_model,
    hostile_rows,
    make_model,
    read_page,
    read_table,
    rows_of,
    write_page,
)


@pytest.mark.parametrize("kind", KINDS)
def test_page_stores_the_tables(kind, tmp_path):
    model = make_model(kind)
    _, data, arrays = read_page(write_page(tmp_path, model))
    assert data["intercept"] == model.intercept.tolist()
    assert data["link"] == model.link
    assert data["classes"] == (None if model.classes is None else model.classes.tolist())
    assert len(data["terms"]) == len(model.shapes)
    for term, shape in zip(data["terms"], model.shapes, strict=True):
        np.testing.assert_allclose(read_table(term, data, arrays, model.n_outputs), shape.scores, rtol=0, atol=1e-14)
        assert term["columns"] == list(shape.term)
        for axis, own in zip(term["axes"], shape.axes, strict=True):
            start, count = data["axes"][axis]["knots"], data["axes"][axis]["count"]
            np.testing.assert_array_equal(arrays["exact"][start : start + count], own.knots)


def test_page_stores_spread_weights_and_members(tmp_path):
    model = make_model("identity")
    _, data, arrays = read_page(write_page(tmp_path, model))

    def steps(start, low, step, shape):
        return (low + step * arrays["steps"][start : start + np.prod(shape)].astype(float)).reshape(shape)

    for term, shape in zip(data["terms"], model.shapes, strict=True):
        weights = steps(*term["weights"], shape.weights.shape) ** 2
        np.testing.assert_allclose(weights, shape.weights, rtol=1e-3)
        assert ((weights > 0) == (shape.weights > 0)).all()
        np.testing.assert_allclose(steps(*term["spread"], shape.spread.shape), shape.spread, atol=1e-4)
        if shape.members is None:
            assert term["members"] is None
            continue
        count, *packed = term["members"]
        found = steps(*packed, (count, *shape.scores.shape))
        np.testing.assert_allclose(np.moveaxis(found, 0, -2), shape.members, atol=1e-3)


def test_importances_are_those_of_the_explanation(tmp_path):
    model = make_model("mlogit")
    _, data, _ = read_page(write_page(tmp_path, model))
    for term, view in zip(data["terms"], explain_global(model).terms, strict=True):
        assert (term["name"], term["importance"]) == (view.name, view.importance)
        assert term["importances"] == view.importances.tolist()


def test_axes_are_stored_once(tmp_path):
    model = make_model("identity")
    _, data, _ = read_page(write_page(tmp_path, model))
    assert len(data["axes"]) == sum(map(len, model.axes_by_feature()))


def test_summary_and_title(fitted, tmp_path):
    model, _, _ = fitted
    blocks, data, _ = read_page(write_page(tmp_path, model))
    assert blocks.texts["title"] == data["title"] == "What drives rent"
    assert data["summary"]["rows"] == 300
    assert data["summary"]["validation"] == model.model_.summary.validation
    blocks, data, _ = read_page(write_page(tmp_path, model, title="Rents & <more>"))
    assert blocks.texts["title"] == data["title"] == "Rents & <more>"
    assert read_page(write_page(tmp_path, make_model("identity")))[1]["summary"] is None


def test_rows_are_encoded_for_the_script(tmp_path):
    model = make_model("logit")
    numbers, table = rows_of(model, 40)
    y = model.predict(table)
    _, data, _ = read_page(write_page(tmp_path, model, table, y, rows=range(40)))
    for row, expected, label in zip(data["rows"], numbers, y, strict=True):
        assert row["values"] == [None if np.isnan(value) else value for value in expected]
        unseen = [index for index, axis in enumerate(model.encoder.axes) if axis.is_level and expected[index] == -1]
        assert row["unseen"] == {str(index): "never seen" for index in unseen}
        assert row["actual"] == label


def test_the_same_rows_of_any_table(fitted, tmp_path):
    model, frame, y = fitted
    tables = (frame, frame.to_dict("list"), frame.to_dict("records"), frame.to_numpy(dtype=object))
    found = [read_page(write_page(tmp_path, model, table, y))[1]["rows"] for table in tables]
    assert len(found[0]) == 8
    assert found[1:] == found[:1] * 3
    last = read_page(write_page(tmp_path, model, frame, rows=[-1]))[1]["rows"]
    assert [(row["index"], row["actual"], row["reason"]) for row in last] == [(299, None, "")]


def test_accuracy_of_a_regression(fitted, tmp_path):
    model, frame, y = fitted
    check = read_page(write_page(tmp_path, model, frame, y))[1]["accuracy"]
    error = y - model.predict(frame)
    expected = {
        "R²": 1 - (error**2).mean() / y.var(ddof=0),
        "RMSE": (error**2).mean() ** 0.5,
        "mean absolute error": abs(error).mean(),
    }
    assert dict(check["measures"]) == pytest.approx(expected)
    (bins,) = check["bins"]
    predicted, actual, _, rows = np.transpose(bins)
    assert rows.sum() == check["n"] == 300
    assert (predicted * rows).sum() == pytest.approx(model.predict(frame).sum())
    assert (actual * rows).sum() == pytest.approx(y.sum())
    assert (np.diff(predicted) > 0).all()
    assert len(check["points"]) == 300
    assert np.mean(check["points"], axis=0)[1] == pytest.approx(error.mean())


@pytest.mark.parametrize("kind", ["logit", "mlogit"])
def test_accuracy_of_a_classifier(kind, tmp_path):
    model = make_model(kind)
    _, table = rows_of(model, 200)
    probability = model.predict_proba(table)
    codes = np.random.default_rng(0).integers(0, len(model.classes), 200)
    check = read_page(write_page(tmp_path, model, table, model.classes[codes]))[1]["accuracy"]
    measures = dict(check["measures"])
    assert measures["accuracy"] == pytest.approx((probability.argmax(axis=1) == codes).mean())
    assert measures["log loss"] == pytest.approx(
        -np.log(probability[np.arange(200), codes].clip(1e-15)).mean(), rel=1e-6
    )
    assert 0 < measures["AUROC"] < 1
    assert len(check["bins"]) == len(check["bars"]) == model.n_outputs
    for k, (inside, outside) in zip([1] if kind == "logit" else range(3), check["bars"], strict=True):
        assert (sum(inside), sum(outside)) == ((codes == k).sum(), (codes != k).sum())


def test_one_class_alone_has_no_auroc(tmp_path):
    model = make_model("logit")
    _, table = rows_of(model, 20)
    check = read_page(write_page(tmp_path, model, table, ["yes"] * 20))[1]["accuracy"]
    assert [name for name, _ in check["measures"]] == ["accuracy", "log loss"]


def test_wrong_arguments_are_errors(tmp_path):
    model = make_model("logit")
    _, table = rows_of(model, 5)
    with pytest.raises(TypeError, match="not NeuralBasisClassifier; call fit first"):
        write_page(tmp_path, NeuralBasisClassifier())
    with pytest.raises(ValueError, match="y needs the rows themselves: pass X"):
        write_page(tmp_path, model, y=["no"])
    with pytest.raises(ValueError, match="rows needs the rows themselves: pass X"):
        write_page(tmp_path, model, rows=[0])
    with pytest.raises(ValueError, match="between 0 and 4, the last row of X; got 5"):
        write_page(tmp_path, model, table, rows=[5])
    with pytest.raises(ValueError, match="y contains 'maybe', which is not a class of the model"):
        write_page(tmp_path, model, table, ["no"] * 4 + ["maybe"])
    with pytest.raises(ValueError, match=r"one value for each of the 5 rows of X; got shape \(4,\)"):
        write_page(tmp_path, model, table, ["no"] * 4)
    with pytest.raises(ValueError, match="missing or infinite"):
        write_page(tmp_path, make_model("identity"), table, [1.0, np.nan, 1.0, 1.0, 1.0])
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_completely_or_not_at_all(tmp_path):
    path = write_page(tmp_path, make_model("identity"), title="first")
    before = path.read_bytes()
    with pytest.raises(ValueError, match="rows needs"):
        write_page(tmp_path, make_model("identity"), rows=[0])
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["page.html"]


def test_policy_allows_exactly_this_script_and_style(tmp_path):
    blocks, _, _ = read_page(write_page(tmp_path, make_model("identity")))
    for kind, name in (("script-src", "script"), ("style-src", "style")):
        digest = base64.b64encode(hashlib.sha256(blocks.texts[name].encode()).digest()).decode()
        assert f"{kind} 'sha256-{digest}';" in blocks.policy
    assert blocks.policy.startswith("default-src 'none';")
    assert "unsafe" not in blocks.policy


def test_sources_request_nothing_and_insert_no_markup():
    sources = [path for path in SOURCES.iterdir() if path.suffix in (".js", ".css", ".html")]
    assert len(sources) == 18
    for path in sources:
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        for word in (
            "http:",
            "https:",
            "@import",
            "innerHTML",
            "outerHTML",
            "insertAdjacent",
            "document.write",
            "eval(",
        ):
            assert word not in text, f"{path.name} holds {word}"
        assert path.suffix == ".html" or "</s" not in text


def test_hostile_names_add_no_markup(tmp_path):
    plain, _, _ = read_page(write_page(tmp_path, make_model("identity")))
    blocks, data, _ = read_page(write_page(tmp_path, hostile_model(), hostile_rows(), title=HOSTILE[0]))
    assert blocks.tags == plain.tags
    assert data["title"] == blocks.texts["title"] == HOSTILE[0]
    assert data["classes"] == data["columns"][1]["levels"] == HOSTILE
    assert data["rows"][0]["unseen"] == {"1": "<i>never seen</i>"}


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
@settings(max_examples=200, deadline=None)
def test_data_block_is_ascii_and_round_trips(value):
    block = write_block(value)
    assert block.isascii()
    assert not re.search("[<>&]", block)
    assert json.loads(block) == value


def test_files_are_small(wide_page, tmp_path):
    assert wide_page.stat().st_size <= 15e6
    assert write_page(tmp_path, build_model(np.random.default_rng(0))).stat().st_size <= 1e6


def test_members_of_a_wide_model_are_those_of_the_strongest_terms(wide_page):
    _, data, _ = read_page(wide_page)
    kept = [term["importance"] for term in data["terms"] if term["members"]]
    dropped = [term["importance"] for term in data["terms"] if not term["members"]]
    assert 100 < len(kept) < 1000
    assert min(kept) >= max(dropped)


PROBE = """
import sys
import numpy as np
from neuralbasis import report
from neuralbasis.encoding import continuous_axis
from neuralbasis.encoding import Encoder
from neuralbasis import AdditiveModel
from neuralbasis.model.shapes import Shape
axis = continuous_axis("a", np.arange(3.0))
shape = Shape((0,), (axis,), np.ones((5, 1)), np.zeros((5, 1)), np.ones(5))
report.write(sys.argv[1], AdditiveModel(Encoder((axis,)), np.zeros(1), (shape,), "identity"), [[1.0], [2.0]])
assert not {"matplotlib", "torch", "sklearn", "pandas"} & set(sys.modules)
"""


def test_writing_needs_neither_torch_nor_matplotlib(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", PROBE, tmp_path / "a.html"], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
