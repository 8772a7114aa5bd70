"""`show`, `explain`, `export`, `report`, `plot`, `doctor`, and the handling of errors."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import neuralbasis
import neuralbasis.data.memory
from neuralbasis.cli import main
from neuralbasis.cli.formatting import format_number
from neuralbasis.encoding import level_axis
from tests.cli.running import fails, number_axis, read_csv, run, small_model, write_csv


def test_errors_in_a_command(case, tmp_path) -> None:
    model, _, path, data = case
    assert "does not exist" in fails("predict", path, "nowhere.csv", code=2)
    assert "'--nothing'" in fails("predict", path, data, "--nothing", code=2)
    assert "predict --help')" in fails("predict", path, code=2)
    assert "the folder" in fails("predict", path, data, "-o", tmp_path / "nowhere" / "out.csv")
    assert "cannot be written in the same run" in fails("predict", path, data, "-o", data)
    assert "no column 'idd'; did you mean 'id'?" in fails("predict", path, data, "--keep", "idd")
    (tmp_path / "broken.nbm").write_bytes(path.read_bytes()[:-300])
    assert "broken.nbm" in fails("predict", tmp_path / "broken.nbm", data)
    assert "data.csv" in fails("show", data)
    assert "no term 'y'" in fails("show", path, "--term", "y")
    if model.classes is None:
        assert "--proba needs a model of classes" in fails("predict", path, data, "--proba")


def test_a_traceback_only_on_request(case, monkeypatch) -> None:
    _, _, path, _ = case
    missing = "the model has no term 'nothing'"
    assert missing in fails("show", path, "--term", "nothing")
    shown = run("--debug", "show", path, "--term", "nothing", code=1).stderr
    assert shown.startswith("Traceback (most recent call last):")
    assert "\nValueError: " in shown
    with pytest.raises(ValueError, match=missing):
        main(["--debug", "show", str(path), "--term", "nothing"], standalone_mode=False)
    monkeypatch.setenv("NEURALBASIS_DEBUG", "1")
    assert "Traceback" in run("show", path, "--term", "nothing", code=1).stderr


PROBE = """
import sys
from neuralbasis.cli import main
model, data = sys.argv[1:]
for command in (["--help"], ["fit", "--help"], ["show", model], ["explain", model, data], ["predict", model, data]):
    assert main(command, standalone_mode=False) in (None, 0)
    print(*sorted({"torch", "sklearn", "polars", "tqdm", "matplotlib"} & set(sys.modules)), file=sys.stderr)
"""


def test_reading_a_model_imports_no_torch(tmp_path) -> None:
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2)])
    (tmp_path / "data.csv").write_text("age\n1\n")
    command = [sys.executable, "-c", PROBE, str(path), str(tmp_path / "data.csv")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "prediction\n" in done.stdout
    assert done.stderr == "\n" * 5


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "neuralbasis", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"neuralbasis, version {neuralbasis.__version__}\n"
    printed = run(code=2).output
    assert "Usage" in printed
    assert printed.index("  demo ") < printed.index("  check ") < printed.index("  fit ")


def test_show(case) -> None:
    model, _, path, _ = case
    assert run("show", path).stdout.endswith(f"\n\n{model}\n")
    assert run("show", path, "--term", "x1 & x2").stdout == f"{model.scorecard('x1 & x2')}\n"
    found = json.loads(run("show", path, "--json").stdout)
    assert not any("evidence" in term for term in found["terms"])
    assert [term["name"] for term in found["terms"]] == list(model.term_names)
    np.testing.assert_allclose([term["importance"] for term in found["terms"]], model.importances())
    cells = json.loads(run("show", path, "--term", "x0", "--json").stdout)["cells"]
    assert cells[0]["score"] == model.shapes[0].scores[0, 0]


def test_show_evidence(tmp_path) -> None:
    X = np.random.default_rng(0).random((200, 2))
    labels = np.digitize(X[:, 0], [0.3, 0.6])
    fitted = neuralbasis.NeuralBasisClassifier(max_steps=30, outer_bags=2, interactions=0).fit(X, labels)
    fitted.save(tmp_path / "model.nbm")
    shown, loaded = run("show", tmp_path / "model.nbm").stdout, neuralbasis.load(tmp_path / "model.nbm")
    readability = neuralbasis.explain.readability(loaded)
    assert shown.endswith(f"\n\n{loaded}\n\n{fitted.evidence()}\n\n{readability.summary}\n")
    found = json.loads(run("show", tmp_path / "model.nbm", "--json").stdout)
    assert found["readability"] == readability.overall
    for term, shape in zip(found["terms"], fitted.model_.shapes, strict=True):
        assert term["evidence"]["p_values"] == shape.evidence.p_values.tolist()
        assert term["evidence"]["importance_errors"] == shape.evidence.importance_errors.tolist()


def test_explain_a_row(case) -> None:
    model, columns, path, data = case
    row = {name: values[41:42] for name, values in columns.items()}
    found = json.loads(run("explain", path, data, "--row", "41", "--json").stdout)
    contributions = model.contributions(row)[0]
    k = int(model.scores(row)[0].argmax()) if model.n_outputs > 1 else 0
    order = np.argsort(-np.abs(contributions[:, k]), kind="stable")
    assert [part["term"] for part in found["contributions"]] == [model.term_names[t] for t in order]
    np.testing.assert_array_equal(
        np.squeeze([p["contribution"] for p in found["contributions"]]), np.squeeze(contributions[order])
    )
    assert str(found["prediction"]) == str(model.predict(row)[0])
    if model.classes is not None:
        assert list(found["probabilities"].values()) == model.predict_proba(row)[0].tolist()
    page = run("explain", path, data, "--row", "41").stdout.splitlines()
    assert page[0].startswith("intercept")
    assert page[-1].startswith("prediction")
    assert len(page) == 3 + len(model.terms) + (model.classes is not None)
    if model.classes is not None:  # the probability of the class whose score is summed above it
        place = k if model.n_outputs > 1 else 1
        chance = format_number(model.predict_proba(row)[0, place])
        assert page[-2].split() == ["probability", "of", str(model.classes[place]), chance]
        assert page[-3].split()[-2] == str(model.classes[place])
    assert "█" * 24 in page[1]
    assert "has 300 rows, from 0 to 299; there is no row 300" in fails("explain", path, data, "--row", "300")


def test_explain_given_values(tmp_path) -> None:
    axes = [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["007", "7"]), number_axis("size", 0, 9)]
    path, model = small_model(tmp_path, axes)
    printed = run("explain", path, "--values", "age=3", "city=007")
    assert printed.stderr == "note: not given, so read as missing: 'size'\n"
    assert "age = 3" in printed.stdout
    assert "size = missing" in printed.stdout
    found = json.loads(run("explain", path, "--values", "age=3", "city=007", "size=1", "--json").stdout)
    cells = [np.interp(3, [1, 2, 4], model.shapes[0].scores[1:-1, 0]), model.shapes[1].scores[1, 0]]
    cells.append(np.interp(1, [0, 9], model.shapes[2].scores[1:-1, 0]))
    assert found["score"] == pytest.approx(sum(cells))
    assert "city = Rom (never seen)" in run("explain", path, "--values", "city=Rom").stdout
    assert "no column 'agee'; did you mean 'age'?" in fails("explain", path, "--values", "agee=3")
    assert "expects name=value" in fails("explain", path, "--values", "age")
    assert "column 'age' must hold numbers, but holds 'old'" in fails("explain", path, "--values", "age=old")
    assert "give one table" in fails("explain", path, code=2)
    assert "does not exist" in fails("explain", path, "nowhere.csv", code=2)


@pytest.mark.parametrize("to", ["sql", "json", "python", "c"])
def test_export_of_text_formats(to, tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["Oslo", "Rome"])])
    text = getattr(neuralbasis.export, f"to_{to}")(model)
    assert run("export", path, "--to", to).stdout.strip() == text.strip()
    suffix = {"sql": "sql", "json": "json", "python": "py", "c": "c"}[to]
    run("export", path, "-o", tmp_path / f"out.{suffix}")
    assert (tmp_path / f"out.{suffix}").read_text(encoding="utf-8").strip() == text.strip()


def test_export_of_binary_formats_and_errors(tmp_path) -> None:
    path, model = small_model(tmp_path, [number_axis("age", 1, 2, 4)])
    for name, package in (("out.onnx", "onnx"), ("out.xlsx", "openpyxl")):
        pytest.importorskip(package)
        run("export", path, "-o", tmp_path / name)
        assert (tmp_path / name).stat().st_size > 100
    printed = run("export", path, "--to", "sql", "--table", "people", "--dialect", "duckdb").stdout
    assert printed.strip() == neuralbasis.export.to_sql(model, table="people", dialect="duckdb").strip()
    assert "give --to" in fails("export", path, "-o", tmp_path / "out.txt", code=2)
    assert "onnx is a binary format" in fails("export", path, "--to", "onnx", code=2)
    assert "--table is for sql only" in fails("export", path, "--to", "c", "--table", "t", code=2)
    assert "cannot be written" in fails("export", path, "--to", "c", "-o", path)


def test_report(case, tmp_path) -> None:
    """The page equals that of `report.write` for the same rows."""
    _, columns, path, data = case
    table, model = read_csv(data), neuralbasis.load(path)
    y = model.predict(columns)
    table["truth"] = [str(value) for value in y]
    data = write_csv(tmp_path / "later.csv", table)
    out, expected = tmp_path / "page.html", tmp_path / "expected.html"
    options = ["--row", 2, "--row", 6, "--title", "Later", "--target", "truth"]
    assert "MB" in run("report", path, data, "-o", out, *options).stderr
    neuralbasis.report.write(expected, model, columns, y, [2, 6], "Later")
    assert out.read_bytes() == expected.read_bytes()
    run("report", path, "-o", out, "--force")
    neuralbasis.report.write(expected, model)
    assert out.read_bytes() == expected.read_bytes()
    assert "--row needs a table" in fails("report", path, "--row", 1, code=2)
    assert "has no column 'trut'" in fails("report", path, data, "--target", "trut", "-o", out, "--force")
    assert "has 300 rows, from 0 to 299; there is no row 300" in fails(
        "report", path, data, "--row", 300, "-o", out, "--force"
    )
    table["truth"][4] = ""
    write_csv(data, table)
    message = fails("report", path, data, "--target", "truth", "-o", out, "--force")
    assert "'truth' is missing in 1 row, first in row 4 (0 is the first)" in message
    assert out.read_bytes() == expected.read_bytes()


def test_plot(tmp_path) -> None:
    pytest.importorskip("matplotlib")
    path, _ = small_model(tmp_path, [number_axis("age", 1, 2, 4), level_axis("city", "nominal", ["Oslo", "Rome"])])
    wanted = {"a.png": [], "b.svg": ["--term", "city"], "c.pdf": ["--kind", "importances"]}
    for name, options in {**wanted, "d.png": ["--kind", "grid", "-n", 1]}.items():
        run("plot", path, "-o", tmp_path / name, *options)
        assert (tmp_path / name).stat().st_size > 1000
    assert "age" not in (tmp_path / "b.svg").read_text(encoding="utf-8").partition("<metadata>")[0]
    assert "leave --kind and -n out" in fails("plot", path, "-o", tmp_path / "e.png", "--term", "age", "-n", 2, code=2)
    assert "height" in fails("plot", path, "-o", tmp_path / "e.png", "--term", "height")
    assert ".png" in fails("plot", path, "-o", tmp_path / "e.txt")


def test_doctor() -> None:
    found = json.loads(run("doctor", "--json").stdout)
    assert (found["ok"], found["self_test"]) == (True, "passed")
    assert found["packages"]["numpy"] == np.__version__
    assert found["threads"] >= 1
    page = run("doctor").stdout
    assert page.splitlines()[-1].split() == ["self-test", "passed"]
    assert "kernels" in page
