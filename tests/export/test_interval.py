"""Prediction intervals in exports: every engine computes the bounds of `predict_interval`."""

from __future__ import annotations

import csv
import ctypes
import io
import math
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from openpyxl import load_workbook

from neuralbasis import AdditiveModel, NeuralBasisClassifier, NeuralBasisRegressor
from neuralbasis.encoding import continuous_axis
from neuralbasis.export import to_c, to_excel, to_onnx, to_python, to_sql
from neuralbasis.model.residuals import Residuals
from tests.export.cases import Case, drop_empty_levels, fill, load_program, write_csv
from tests.export.test_c import Library, build_c, needs_compiler
from tests.export.test_excel import draw_rows, needs_office, office_lines, python_lines
from tests.export.test_onnx import make_inputs, open_session
from tests.export.test_sql import fill_sqlite
from tests.models import build_model

COVERAGE = 0.9
RESULTS = {
    "identity": ["prediction", "lower", "upper"],
    "logit": ["score", "probability", "prediction", "lower", "upper"],
}


def add_residuals(model: AdditiveModel, scores: np.ndarray, n_regions: int) -> AdditiveModel:
    """Random quantiles. Rows have scores between the centres, and outside them on both sides."""
    rng, probabilities = np.random.default_rng(7), np.array([0.0, 0.02, 0.1, 0.5, 0.9, 0.97, 1.0])
    centres = np.sort(rng.normal(scores.mean(), scores.std() + 0.1, n_regions))
    quantiles = np.sort(rng.normal(0, 5, (n_regions, len(probabilities))), axis=1)
    return replace(model, residuals=(Residuals(centres, probabilities, quantiles),))


PARAMS = [("regression", 20), ("nasty", 20), ("nasty", 1), ("intercept", 3), ("two", 20), ("two", 1)]


@pytest.fixture(scope="module", params=PARAMS, ids=str)
def case(request) -> Case:
    name, n_regions = request.param
    case = Case(name, 2000)
    case.model = add_residuals(case.model, case.scores, n_regions)
    return case


def check(case: Case, results, tolerance: float) -> None:
    """Compare rows of results, the last of which are the prediction, the lower and the upper bound."""
    case.check([result[:-2] for result in results], tolerance)
    check_bounds(case, [list(map(float, result[-2:])) for result in results], tolerance)


def check_bounds(case: Case, bounds, tolerance: float) -> None:
    expected = case.model.predict_interval(case.table, COVERAGE)
    assert np.ptp(expected, axis=1).max() > 0.1
    np.testing.assert_allclose(bounds, expected, rtol=0, atol=tolerance)


def test_sqlite(case: Case) -> None:
    base = fill_sqlite(case)
    cursor = base.execute(to_sql(case.model, table="the data", keep=["id"], coverage=COVERAGE))
    names, results = [column[0] for column in cursor.description], cursor.fetchall()
    base.close()
    assert names == ["id", *RESULTS[case.model.link]]
    check(case, [result[1:] for result in results], 1e-9)


def test_duckdb(case: Case) -> None:
    duckdb, arrow = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    with duckdb.connect() as base:
        base.register("the data", arrow.table({name: arrow.array(values) for name, values in case.table.items()}))
        query = base.execute(to_sql(case.model, table="the data", dialect="duckdb", coverage=COVERAGE))
        names, results = [column[0] for column in query.description], query.fetchall()
    assert names == RESULTS[case.model.link]
    check(case, results, 1e-9)


def test_python(case: Case) -> None:
    program = load_program(case.model, COVERAGE)
    results = []
    for row in case.rows:
        shares = [] if case.model.classes is None else [*program["scores"](row), program["probabilities"](row)[1]]
        results.append([*shares, program["predict"](row), *program["interval"](row)])
    check(case, results, 1e-12)


@needs_compiler
def test_c(case: Case, tmp_path: Path) -> None:
    library = Library(case.model, tmp_path, COVERAGE)
    rows = [library.read_row(row) for row in case.rows]
    found = [library.call("model_interval", row, 2) for row in rows]
    assert {code for code, _ in found} == {0}
    check_bounds(case, [bounds for _, bounds in found], 1e-12)
    if library.columns:
        rows[0][0] = math.inf
        code, bounds = library.call("model_interval", rows[0], 2)
        assert code == 1
        assert np.isnan(bounds).all()


def test_onnx(case: Case) -> None:
    proto = to_onnx(case.model, missing="<missing>", coverage=COVERAGE)
    outputs = ["prediction"] if case.model.classes is None else ["label", "probabilities", "scores"]
    assert [value.name for value in proto.graph.output] == [*outputs, "lower", "upper"]
    table = {name: [float(v) if isinstance(v, bool) else v for v in values] for name, values in case.table.items()}
    found = open_session(proto).run(None, make_inputs(case.model, proto, table, "<missing>"))
    scale = np.ptp(case.scores) + np.abs(case.scores).max()
    check_bounds(case, np.column_stack(found[-2:]), 1e-12 * scale)


@pytest.mark.parametrize("name", ["nasty", "two"])
@pytest.mark.parametrize("engine", ["python", pytest.param("c", marks=needs_compiler)])
def test_commands_write_the_bounds(engine: str, name: str, tmp_path: Path) -> None:
    case = Case(name, 300)
    drop_empty_levels(case)
    case.model = add_residuals(case.model, case.scores, 20)
    write_csv(case, tmp_path / "rows.csv")
    if engine == "python":
        to_python(case.model, tmp_path / "model.py", coverage=COVERAGE)
        command = [sys.executable, "-I", str(tmp_path / "model.py")]
    else:
        command = [str(build_c(case.model, tmp_path, "-DMODEL_MAIN", coverage=COVERAGE))]
    run = subprocess.run(command, input=(tmp_path / "rows.csv").read_bytes(), capture_output=True, check=True)
    header, *results = csv.reader(io.StringIO(run.stdout.decode(), newline=""))
    assert header == RESULTS[case.model.link]
    check(case, results, 1e-12)


def make_excel_case(
    n_rows: int, n_regions: int, link: str = "identity"
) -> tuple[AdditiveModel, dict[str, np.ndarray], np.ndarray]:
    """A model, rows, and the numbers of their predictions and bounds: the columns before the values of the row."""
    rng = np.random.default_rng(1)
    model = build_model(
        rng, ("continuous", "nominal"), (1, 2), link=link, classes=np.array(["no", "yes"]) if link == "logit" else None
    )
    rows = draw_rows(rng, model, n_rows)
    model = add_residuals(model, model.scores(rows), n_regions)
    predicted = model.predict(rows) if link == "identity" else model.predict_proba(rows)
    return model, rows, np.column_stack([predicted, model.predict_interval(rows, COVERAGE)])


EXCEL_CASES = [("identity", 1), ("identity", 20), ("logit", 1), ("logit", 20)]


@pytest.mark.parametrize(("link", "n_regions"), EXCEL_CASES)
def test_formulas_in_python(link: str, n_regions: int, tmp_path: Path) -> None:
    model, rows, expected = make_excel_case(12, n_regions, link)
    to_excel(model, tmp_path / "model.xlsx", rows, coverage=COVERAGE)
    first = int(link == "logit")  # after the label
    lines = python_lines(tmp_path / "model.xlsx", 12, first + expected.shape[1])
    np.testing.assert_allclose(np.array([line[first:] for line in lines], dtype=float), expected, rtol=0, atol=1e-9)


@needs_office
@pytest.mark.parametrize(("link", "n_regions"), EXCEL_CASES)
def test_libreoffice(link: str, n_regions: int, tmp_path: Path) -> None:
    model, rows, expected = make_excel_case(1000, n_regions, link)
    to_excel(model, tmp_path / "model.xlsx", rows, coverage=COVERAGE)
    first = int(link == "logit")  # after the label
    lines = [line[first : first + expected.shape[1]] for line in office_lines(tmp_path / "model.xlsx")]
    np.testing.assert_allclose(np.array(lines, dtype=float), expected, rtol=0, atol=1e-9)


def test_bounds_of_classes_in_a_workbook_have_a_header_and_a_format(tmp_path: Path) -> None:
    model, rows, _ = make_excel_case(12, 20, "logit")
    to_excel(model, tmp_path / "model.xlsx", rows, coverage=COVERAGE)
    sheet = load_workbook(tmp_path / "model.xlsx")["Predict"]
    assert [cell.value for cell in sheet[4]][:7] == ["prediction", "no", "yes", "lower", "upper", "x0", "x1"]
    assert sheet["D3"].value == "90 % interval"
    assert sheet["E5"].number_format == "0.0000"


@needs_office
def test_typed_rows_get_bounds_in_libreoffice(tmp_path: Path) -> None:
    model, _, _ = make_excel_case(50, 20)
    path = tmp_path / "model.xlsx"
    to_excel(model, path, coverage=COVERAGE)
    book = load_workbook(path)
    sheet = book["Predict"]
    assert [cell.value for cell in sheet[4]][:5] == [*RESULTS["identity"], "x0", "x1"]
    assert sheet["B3"].value == "90 % interval"
    sheet["D6"], sheet["E6"], sheet["D7"] = 1.5, "level 2", "a text"
    book.save(path)
    _, typed, wrong, *blank = office_lines(path)
    expected = model.predict_interval({"x0": [1.5], "x1": ["level 2"]}, COVERAGE)
    np.testing.assert_allclose([typed[1:3]], expected, rtol=0, atol=1e-9)
    assert wrong[:3] == ("#N/A",) * 3
    assert {value for line in blank for value in line} <= {None, ""}
    computed = load_workbook(tmp_path / "computed" / "model.xlsx", read_only=True, data_only=True)
    regions = list(computed["Interval"].iter_rows(min_row=5, min_col=6, max_col=7, values_only=True))
    computed.close()
    assert {value for region in regions[3:] for value in region} <= {None, ""}


@needs_compiler
@pytest.mark.parametrize("centres", [[-1.7e308, 1.7e308], [0.0, 5e-324, 1e-300], [-1.0, 0.0, 2.0]])
def test_huge_and_tiny_centres(centres: list[float], tmp_path: Path) -> None:
    axis = continuous_axis("size", np.array([-1.7e308, -1e3, 0.0, 1e-300, 1.0, 1e3, 8e307]))
    shape = fill(np.random.default_rng(0), (axis,), [(0,)]).shapes[0]
    scores = np.array([0.0, *axis.knots, 0.0])[:, None]
    quantiles = np.cumsum(np.arange(1.0, 1 + 3 * len(centres)).reshape(len(centres), 3), axis=1)
    residuals = Residuals(np.array(centres), np.array([0.0, 0.5, 1.0]), quantiles)
    shapes = (replace(shape, scores=scores),)
    model = replace(fill(np.random.default_rng(0), (axis,), []), shapes=shapes, intercept=np.zeros(1))
    model = replace(model, residuals=(residuals,))
    values = [-1.7e308, -1e3, -0.5, 0.0, 5e-301, 1e-300, 0.7, 1.5, 1e3, 8e307]
    expected = model.predict_interval({"size": values}, COVERAGE)
    found = {
        "sql": run_sqlite(to_sql(model, coverage=COVERAGE), values),
        "python": [load_program(model, COVERAGE)["interval"]({"size": value}) for value in values],
        "onnx": np.column_stack(run_onnx(model, values)),
        "c": run_c(model, values, tmp_path),
    }
    for name, bounds in found.items():
        np.testing.assert_allclose(bounds, expected, rtol=1e-12, err_msg=name)


def run_c(model: AdditiveModel, values: list[float], folder: Path) -> list[list[float]]:
    library = Library(model, folder, COVERAGE)
    return [library.call("model_interval", (ctypes.c_double * 1)(value), 2)[1] for value in values]


def run_sqlite(query: str, values: list[float]) -> list[tuple[float, float]]:
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (size REAL)")
    base.executemany("INSERT INTO data VALUES (?)", [(value,) for value in values])
    results = [result[1:] for result in base.execute(query)]
    base.close()
    return results


def run_onnx(model: AdditiveModel, values: list[float]) -> list[np.ndarray]:
    proto = to_onnx(model, coverage=COVERAGE)
    return open_session(proto).run(["lower", "upper"], {"size": np.array(values)[:, None]})


def write_excel(model: AdditiveModel, coverage: float, folder: Path) -> None:
    to_excel(model, folder / "model.xlsx", coverage=coverage)


WRITERS = {
    "sql": lambda model, coverage, _: to_sql(model, coverage=coverage),
    "python": lambda model, coverage, _: to_python(model, coverage=coverage),
    "c": lambda model, coverage, _: to_c(model, coverage=coverage),
    "onnx": lambda model, coverage, _: to_onnx(model, coverage=coverage),
    "excel": write_excel,
}


@pytest.mark.parametrize("name", WRITERS)
def test_errors_are_those_of_predict_interval(name: str, tmp_path: Path) -> None:
    rng, write = np.random.default_rng(0), WRITERS[name]
    model = build_model(rng, ("continuous",), (1,))
    with pytest.raises(ValueError, match="needs residuals of held-out rows, and this model has none"):
        write(model, 0.9, tmp_path)
    three = build_model(rng, ("continuous",), (1,), 3, "mlogit", np.array(["no", "maybe", "yes"]))
    with pytest.raises(ValueError, match="exports compute intervals of one output, not of 3; use predict_interval"):
        write(three, 0.9, tmp_path)
    model = add_residuals(model, np.zeros(1), 2)
    for coverage in (90, 0, "0.9", math.nan):
        with pytest.raises(ValueError, match=r"coverage must be a number between 0 and 1, such as 0\.9, not"):
            write(model, coverage, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_residuals_alone_change_no_export() -> None:
    model = build_model(np.random.default_rng(0), orders=(1, 2))
    measured = add_residuals(model, np.zeros(1), 4)
    for write in (to_sql, to_python, to_c):
        assert write(measured) == write(model)
        assert "interval" not in write(model).lower()
    assert to_onnx(measured).SerializeToString() == to_onnx(model).SerializeToString()


def test_columns_named_like_the_bounds(tmp_path: Path) -> None:
    axes = tuple(continuous_axis(name, np.arange(4.0)) for name in ("lower", "Interval"))
    plain = fill(np.random.default_rng(0), axes, [(0,), (1,)])
    model = add_residuals(plain, np.zeros(1), 4)
    with pytest.raises(ValueError, match=r"keep names columns that the SELECT itself writes: \['lower'\]"):
        to_sql(model, keep=["lower"], coverage=COVERAGE)
    assert [value.name for value in to_onnx(model, coverage=COVERAGE).graph.input] == ["lower_", "Interval"]
    assert [value.name for value in to_onnx(model).graph.input] == ["lower", "Interval"]
    for coverage, expected in ((None, ["Interval"]), (COVERAGE, ["Interval (2)", "Interval"])):
        to_excel(model, tmp_path / "model.xlsx", coverage=coverage)
        names = load_workbook(tmp_path / "model.xlsx").sheetnames
        assert [name for name in names if name.startswith("Interval")] == expected


@pytest.mark.parametrize("kind", [NeuralBasisRegressor, NeuralBasisClassifier])
def test_a_fitted_estimator(kind) -> None:
    rng = np.random.default_rng(0)
    table = {"size": rng.uniform(size=400)}
    y = table["size"] + rng.normal(0, 0.1, 400)
    fitted = kind(max_steps=30, outer_bags=3).fit(table, y if kind is NeuralBasisRegressor else y > 0.5)
    rows = {"size": [-1.0, 0.3, 0.8, 2.0, math.nan]}
    program = load_program(fitted, 0.8)
    found = [program["interval"]({"size": value}) for value in rows["size"]]
    np.testing.assert_allclose(found, fitted.predict_interval(rows, 0.8), rtol=0, atol=1e-12)
