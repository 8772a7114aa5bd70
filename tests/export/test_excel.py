"""Excel: the formulas compute the predictions of the model, in LibreOffice and in a second engine in Python."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import formulas
import numpy as np
import pytest
from openpyxl import load_workbook

from neuralbasis import AdditiveModel
from neuralbasis.encoding import Axis, Encoder, continuous_axis, level_axis
from neuralbasis.export import to_excel
from neuralbasis.model.shapes import Shape
from tests.models import build_model, draw_numbers, name_columns, tie_model

FIRST_LINE, BLANK_LINES = 5, 20  # of "Predict"
SOFFICE = shutil.which("soffice")
needs_office = pytest.mark.skipif(
    SOFFICE is None, reason="LibreOffice is absent: apt-get install libreoffice-calc-nogui"
)

KINDS = ("continuous", "nominal", "continuous")
TASKS: dict[str, dict[str, Any]] = {
    "regression": {"link": "identity"},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
    "multiclass": {"link": "mlogit", "n_outputs": 3, "classes": np.array([10, 20, 30])},
}
# Case, wildcards, formulas, escapes, white space, words of the workbook, text that looks like numbers or errors.
LEVELS = ["A", "a", "*", "?", "~", "~*", "=1+1", "+1", "-1", "@x", "#N/A", "", "3", "03", "TRUE", "'q'", 'say "x"']
LEVELS += ["_x0041_", "two\nlines", "car\rriage", " space ", "missing", "any other", "é", "<&>", "\x01"]


def office_lines(path: Path) -> list[tuple[Any, ...]]:
    """Lines of "Predict" as LibreOffice computes and saves them."""
    folder = path.parent / "computed"
    profile = f"-env:UserInstallation={(path.parent / 'profile').as_uri()}"
    command = [str(SOFFICE), "--headless", profile, "--convert-to", "xlsx", "--outdir", str(folder), str(path)]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    book = load_workbook(folder / path.name, read_only=True, data_only=True)
    lines = list(book["Predict"].iter_rows(min_row=FIRST_LINE, values_only=True))
    book.close()
    return lines


def python_lines(path: Path, n_rows: int, n_columns: int) -> list[list[Any]]:
    """First columns of "Predict" as the package formulas computes them."""
    cells = formulas.ExcelModel().loads(str(path)).finish().calculate()
    sheet = f"'[{path.name}]PREDICT'!"
    letters = [chr(ord("A") + column) for column in range(n_columns)]
    lines = range(FIRST_LINE, FIRST_LINE + n_rows)
    return [[cells[f"{sheet}{letter}{line}"].value[0, 0] for letter in letters] for line in lines]


def assert_predicts(model: AdditiveModel, rows: Any, lines: Sequence[Sequence[Any]]) -> None:
    if model.classes is None:
        np.testing.assert_allclose([line[0] for line in lines], model.predict(rows), rtol=0, atol=1e-9)
        return
    proba = model.predict_proba(rows)
    found = np.array([line[1 : 1 + proba.shape[1]] for line in lines], dtype=float)
    np.testing.assert_allclose(found, proba, rtol=0, atol=1e-9)
    assert [line[0] for line in lines] == model.predict(rows).tolist()


def draw_rows(rng: np.random.Generator, model: AdditiveModel, n_rows: int) -> dict[str, np.ndarray]:
    return name_columns(model.encoder.axes, draw_numbers(rng, model.encoder.axes, n_rows))


@pytest.mark.parametrize("task", TASKS)
def test_formulas_predict_in_python(task: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    model = build_model(rng, KINDS[:2], (1, 2), **TASKS[task])
    rows = draw_rows(rng, model, 12)
    to_excel(model, tmp_path / "model.xlsx", rows)
    assert_predicts(model, rows, python_lines(tmp_path / "model.xlsx", 12, 4 if model.n_outputs > 1 else 3))


@needs_office
@pytest.mark.parametrize(("task", "n_rows"), [("regression", 4000), ("binary", 4000), ("multiclass", 2000)])
def test_ten_thousand_rows_in_libreoffice(task: str, n_rows: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    model = build_model(rng, KINDS, (1, 2), **TASKS[task])
    rows = draw_rows(rng, model, n_rows)
    to_excel(model, tmp_path / "model.xlsx", rows)
    lines = office_lines(tmp_path / "model.xlsx")
    assert len(lines) == n_rows
    assert_predicts(model, rows, lines)
    contributions = np.array([line[-6 * model.n_outputs :] for line in lines], dtype=float)
    expected = model.contributions(rows).transpose(0, 2, 1).reshape(n_rows, -1)
    np.testing.assert_allclose(contributions, expected, rtol=0, atol=1e-9)


@needs_office
def test_triples_and_tied_classes_in_libreoffice(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    model = tie_model(rng, build_model(rng, orders=(1, 2, 3), **TASKS["multiclass"]), [0, 6, 20])
    rows = draw_rows(rng, model, 100)
    to_excel(model, tmp_path / "model.xlsx", rows)
    assert_predicts(model, rows, office_lines(tmp_path / "model.xlsx"))


ODD_NAMES = ("=cmd()", "rate [%]: a/b?*\\", "'one' value")


def odd_model(names: Sequence[str] = ODD_NAMES) -> AdditiveModel:
    """Odd names and levels, a column of one value, knots that differ in the last digit."""
    rng = np.random.default_rng(4)
    axes: tuple[Axis, ...] = (
        level_axis(names[0], "nominal", LEVELS),
        continuous_axis(names[1], np.array([0.3, 0.30000000000000004, 0.5, 1e6])),
        continuous_axis(names[2], np.array([7.0])),
    )
    terms = [(0,), (1,), (2,), (0, 1), (1, 2)]
    shapes = []
    for term in terms:
        used = tuple(axes[f] for f in term)
        table = rng.normal(size=(*(axis.n_cells for axis in used), 1))
        table[..., 2, :] = (
            table[..., 1, :] if term[-1] == 1 else table[..., 2, :]
        )  # spreadsheets do not distinguish the two close knots
        if term == terms[-1]:
            table[2] = table[1]
        shapes.append(Shape(term, used, table, np.zeros_like(table), np.ones(table.shape[:-1])))
    return AdditiveModel(Encoder(axes), np.array([0.5]), tuple(shapes), "logit", np.array(["=no", "+yes"]), 1)


def odd_rows(model: AdditiveModel) -> dict[str, list[Any]]:
    texts = [None, *LEVELS, "b", "**", "A ", "_x0042_", "2", "#REF!", "=2"]
    numbers = np.resize([np.nan, 0.3, 0.30000000000000004, -5.0, 0.4, 2e6, 0.5, 1e6], len(texts))
    return dict(zip(model.encoder.names, [texts, numbers.tolist(), [7.0, -1.0, np.nan] * 11 + [8.0]], strict=True))


@needs_office
def test_odd_levels_differ_in_libreoffice(tmp_path: Path) -> None:
    model = odd_model()
    rows = odd_rows(model)
    to_excel(model, tmp_path / "model.xlsx", rows)
    lines = office_lines(tmp_path / "model.xlsx")
    assert_predicts(model, rows, lines)
    assert len({line[7] for line in lines[1 : 1 + len(LEVELS)]}) == len(LEVELS)  # each has a contribution of its own


@needs_office
def test_names_that_look_like_escapes_in_libreoffice(tmp_path: Path) -> None:
    """LibreOffice decodes _xHHHH_ in the name of a sheet, and formulas would refer to another sheet."""
    model = odd_model(("_x0041_", "A", "b_x0042_c"))
    rows = odd_rows(model)
    to_excel(model, tmp_path / "model.xlsx", rows)
    assert_predicts(model, rows, office_lines(tmp_path / "model.xlsx"))
    book = load_workbook(tmp_path / "computed" / "model.xlsx", read_only=True)
    sheets = ["-x0041_", "A", "b-x0042_c", "-x0041_ & A", "A & b-x0042_c"]
    assert book.sheetnames == ["Predict", "Terms", *sheets, "Positions", "Axes"]
    assert [book[name]["A1"].value for name in sheets] == list(model.term_names)
    assert [cell.value for cell in book["Predict"][4][3:6]] == list(model.encoder.names)


def test_odd_levels_differ_in_python(tmp_path: Path) -> None:
    model = odd_model(("text", "rate", "one"))  # the package formulas cannot read the other names
    rows = odd_rows(model)
    to_excel(model, tmp_path / "model.xlsx", rows)
    assert_predicts(model, rows, python_lines(tmp_path / "model.xlsx", len(rows["text"]), 3))


def test_data_never_becomes_a_formula(tmp_path: Path) -> None:
    model = odd_model()
    to_excel(model, tmp_path / "model.xlsx", odd_rows(model))
    allowed = re.compile(r'=(IF|INDEX|EXP|1-|Terms!|\(1-Positions!|""$)')
    texts = set()
    for sheet in load_workbook(tmp_path / "model.xlsx"):
        for line in sheet.iter_rows():
            for cell in line:
                if cell.data_type == "f":
                    assert allowed.match(cell.value), cell.value
                elif cell.data_type == "s":
                    texts.add(cell.value)
                assert cell.data_type != "e"
    assert {"=cmd()", "=1+1", "+1", "-1", "@x", "#N/A", "=no", "+yes", "=2"} <= texts


@needs_office
def test_typed_rows_are_predicted(tmp_path: Path) -> None:
    model = build_model(np.random.default_rng(5), KINDS, (1, 2), **TASKS["binary"])
    path = tmp_path / "model.xlsx"
    to_excel(model, path)
    book = load_workbook(path)
    sheet, second = book["Predict"], FIRST_LINE + 1
    assert [cell.value for cell in sheet[FIRST_LINE - 1]][:6] == ["prediction", "no", "yes", "x0", "x1", "x2"]
    sheet.cell(second, 4).value, sheet.cell(second, 5).value = 1.5, "level 2"
    sheet.cell(second + 1, 4).value = "a text"
    book.save(path)
    example, typed, wrong, *blank = office_lines(path)
    rows = {name: [a, b] for name, a, b in zip(model.encoder.names, example[3:6], (1.5, "level 2", None), strict=True)}
    assert_predicts(model, rows, [example, typed])
    assert wrong[1] == "#N/A"
    assert len(blank) == BLANK_LINES - 2
    assert {value for line in blank for value in line} <= {None, ""}


def test_levels_are_suggested_but_not_enforced(tmp_path: Path) -> None:
    model = build_model(np.random.default_rng(6), KINDS, (1,))
    to_excel(model, tmp_path / "model.xlsx")
    book = load_workbook(tmp_path / "model.xlsx")
    (choice,) = book["Predict"].data_validations.dataValidation
    assert not choice.showErrorMessage
    first, last = re.fullmatch(r"'Axes'!\$C\$(\d+):\$C\$(\d+)", choice.formula1).groups()
    suggested = [book["Axes"][f"C{line}"].value for line in range(int(first), int(last) + 1)]
    assert suggested == list(model.encoder.axes[1].levels)


def test_sheets_have_valid_names_and_links(tmp_path: Path) -> None:
    model = build_model(np.random.default_rng(7), ("continuous",) * 6, (1, 2))
    names = ["Terms", "terms", "a/b", "a:b", "x" * 40, "x" * 39 + "y"]
    axes = [replace(axis, name=name) for axis, name in zip(model.encoder.axes, names, strict=True)]
    to_excel(replace(model, encoder=Encoder(tuple(axes))), tmp_path / "model.xlsx")
    book = load_workbook(tmp_path / "model.xlsx")
    assert len(book.sheetnames) == 4 + 21
    assert len({name.lower() for name in book.sheetnames}) == len(book.sheetnames)
    assert all(len(name) <= 31 and not re.search(r"[\[\]:*?/\\]", name) for name in book.sheetnames)
    assert book.sheetnames[2:6] == ["Terms (2)", "terms (3)", "a-b", "a-b (2)"]
    linked = {cell.hyperlink.location for line in book["Terms"] for cell in line if cell.hyperlink}
    assert linked == {f"'{name}'!A1" for name in book.sheetnames[2:-2]}


def test_the_index_lists_terms_by_importance(tmp_path: Path) -> None:
    model = build_model(np.random.default_rng(8), KINDS, (1, 2))
    to_excel(model, tmp_path / "model.xlsx")
    lines = list(load_workbook(tmp_path / "model.xlsx")["Terms"].iter_rows(min_row=7, max_col=5, values_only=True))
    order = np.argsort(-model.importances())
    assert [line[0] for line in lines] == [model.term_names[t] for t in order]
    np.testing.assert_allclose([line[4] for line in lines], model.importances()[order], rtol=1e-15)


def arguments(rows: Mapping[str, Any] | None = None, path: str = "model.xlsx", model: Any = None) -> tuple[Any, ...]:
    return model or build_model(np.random.default_rng(9), KINDS, (1,)), path, rows


@pytest.mark.parametrize(
    ("case", "error", "message"),
    [
        (arguments(path="model.xls"), ValueError, "end it in .xlsx"),
        (arguments(path="absent/model.xlsx"), FileNotFoundError, "the folder .* does not exist"),
        (arguments(model="a text"), TypeError, "expected an AdditiveModel or a fitted estimator, not str"),
        (arguments({"x0": [np.inf], "x1": ["a"], "x2": [1.0]}), ValueError, "column 'x0' holds an infinite value"),
        (arguments({"x0": [1.0], "x1": ["a"]}), ValueError, "Missing column.*x2"),
        (
            arguments({"x0": [1.0], "x1": ["a" * 40_000], "x2": [1.0]}),
            ValueError,
            "'x1' has a level of 40,000 characters",
        ),
        (arguments({name: [None] * 2**20 for name in ("x0", "x1", "x2")}), ValueError, "Excel has 1,048,576"),
    ],
)
def test_wrong_arguments_are_refused(case: Any, error: type[Exception], message: str, tmp_path: Path) -> None:
    model, path, rows = case
    with pytest.raises(error, match=message):
        to_excel(model, tmp_path / path, rows)
    assert list(tmp_path.iterdir()) == []


def test_an_estimator_is_accepted_and_the_file_replaced(tmp_path: Path) -> None:
    class Fitted:
        model_ = build_model(np.random.default_rng(10), KINDS, (1,))

    path = tmp_path / "model.xlsx"
    path.write_text("old")
    to_excel(Fitted(), path)
    assert load_workbook(path).sheetnames == ["Predict", "Terms", "x0", "x1", "x2", "Positions", "Axes"]
    assert list(tmp_path.iterdir()) == [path]
