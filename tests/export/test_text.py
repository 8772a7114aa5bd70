"""Text exports: rules that hold for SQL, JSON, Python and C alike."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, export
from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.export import to_c, to_json, to_python, to_sql
from tests.export.cases import CASES, escape, fill, load_program, read_json
from tests.models import build_model


@pytest.mark.parametrize("write", [to_c, to_sql])
def test_a_nul_in_a_level_is_refused(write) -> None:
    model = fill(np.random.default_rng(0), (level_axis("code", "nominal", ["a\0b", "c"]),), [(0,)])
    with pytest.raises(ValueError, match="column 'code' has a name or a level with the character NUL"):
        write(model)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), min_size=1, unique=True),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
)
def test_any_text_may_be_a_level_or_a_name(levels: list[str], name: str) -> None:
    model = fill(np.random.default_rng(0), (level_axis(name, "nominal", levels),), [(0,)])
    expected = model.intercept + model.shapes[0].scores[1:-1, 0]
    program = load_program(model)
    assert program["predict_many"]([{name: level} for level in levels]) == expected.tolist()
    tables = json.loads(to_json(model))
    assert [read_json(tables, {name: level})[0] for level in levels] == expected.tolist()
    base = sqlite3.connect(":memory:")
    base.execute(f'CREATE TABLE data ("{escape(name)}" TEXT)')
    base.executemany("INSERT INTO data VALUES (?)", [(level,) for level in levels])
    results = [result[0] for result in base.execute(to_sql(model))]
    base.close()
    np.testing.assert_allclose(results, expected, rtol=0, atol=1e-12)


def test_columns_without_terms_are_not_exported() -> None:
    axes = (continuous_axis("a", np.arange(3.0)), continuous_axis("b", np.arange(3.0)))
    model = fill(np.random.default_rng(0), axes, [(1,)])
    assert json.loads(to_json(model))["columns"] == ["b"]
    assert load_program(model)["predict"]({"b": 1.0}) == model.predict({"a": [0.0], "b": [1.0]})[0]
    assert '"a"' not in to_sql(model)


@pytest.mark.parametrize(
    ("write", "name"), [(to_sql, "m.sql"), (to_json, "m.json"), (to_python, "m.py"), (to_c, "m.c")]
)
def test_a_file_has_the_text_and_replaces_an_older_one(write, name: str, tmp_path: Path) -> None:
    model = CASES["nasty"](np.random.default_rng(0))
    (tmp_path / name).write_text("old")
    assert write(model, tmp_path / name) == tmp_path / name
    assert (tmp_path / name).read_bytes().decode() == write(model)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        write(model, tmp_path / "none" / name)


@pytest.mark.parametrize("write", [to_sql, to_json, to_python, to_c])
def test_only_fitted_models_of_one_output_are_exported(write) -> None:
    with pytest.raises(TypeError, match="expected an AdditiveModel or a fitted estimator, not NeuralBasisClassifier"):
        write(NeuralBasisClassifier())
    with pytest.raises(ValueError, match="regressions of one output, but the model has 2"):
        write(build_model(np.random.default_rng(0), orders=(1,), n_outputs=2))


def test_a_fitted_estimator_is_exported() -> None:
    rng = np.random.default_rng(0)
    table = {"size": rng.normal(size=300), "colour": rng.choice(np.array(["red", "blue"], dtype=object), 300)}
    y = np.where(table["size"] + (table["colour"] == "red") > 0.5, "yes", "no")
    fitted = NeuralBasisClassifier(interactions=[(0, 1)], max_steps=30, outer_bags=2, random_state=0).fit(table, y)
    rows = [dict(zip(table, values, strict=True)) for values in zip(*table.values(), strict=True)]
    assert load_program(fitted)["predict_many"](rows) == fitted.predict(table).tolist()
    assert to_json(fitted) == to_json(fitted.model_)


def test_importing_exports_needs_no_optional_package() -> None:
    code = "import sys; from neuralbasis.export import to_sql; print({'onnx', 'openpyxl', 'torch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
    assert export.__all__ == ["to_c", "to_excel", "to_json", "to_onnx", "to_python", "to_sql"]
    assert set(export.__all__) <= set(dir(export))
    with pytest.raises(AttributeError, match=r"module 'neuralbasis.export' has no attribute 'to_pdf'"):
        export.to_pdf  # noqa: B018
