"""C: the compiled file computes the predictions of the model, as a library and as a command."""

from __future__ import annotations

import ast
import csv
import ctypes
import io
import math
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis import AdditiveModel
from neuralbasis.encoding import continuous_axis
from neuralbasis.export import to_c
from tests.export.cases import Case, drop_empty_levels, fill, write_csv

COMPILER = shutil.which("cc")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")


def build_c(model: AdditiveModel, folder: Path, *options: str, coverage: float | None = None) -> Path:
    to_c(model, folder / "model.c", coverage=coverage)
    assert (folder / "model.c").read_bytes().isascii()
    target = folder / "model.bin"
    subprocess.run([str(COMPILER), *FLAGS, *options, str(folder / "model.c"), "-o", str(target), "-lm"], check=True)
    return target


class Library:
    """The functions of a compiled model."""

    def __init__(self, model: AdditiveModel, folder: Path, coverage: float | None = None):
        path = build_c(model, folder, "-shared", "-fPIC", coverage=coverage)
        self.model, self.code = model, ctypes.CDLL(str(path))
        for name in ("model_level", "model_level_number", "model_predict"):
            getattr(self.code, name).restype = ctypes.c_double
        n_columns = ctypes.c_int.in_dll(self.code, "model_n_columns").value
        names = (ctypes.c_char_p * n_columns).in_dll(self.code, "model_columns")
        self.columns = [name.decode() for name in names]

    def read_row(self, row: dict) -> ctypes.Array:
        numbers = [self.read_value(column, row[name]) for column, name in enumerate(self.columns)]
        return (ctypes.c_double * max(1, len(numbers)))(*numbers)

    def read_value(self, column: int, value) -> float:
        if self.model.encoder.axes[self.model.encoder.names.index(self.columns[column])].levels is None:
            return value
        if value is None or isinstance(value, str):
            return self.code.model_level(column, None if value is None else value.encode())
        return self.code.model_level_number(column, ctypes.c_double(value))

    def call(self, name: str, given: ctypes.Array, size: int) -> tuple[int, list[float]]:
        out = (ctypes.c_double * size)()
        return getattr(self.code, name)(given, out), list(out)


@needs_compiler
def test_c_predicts_the_same(case: Case, tmp_path: Path) -> None:
    library = Library(case.model, tmp_path)
    rows = [library.read_row(row) for row in case.rows]
    scores = [library.call("model_scores", row, case.model.n_outputs) for row in rows]
    assert {code for code, _ in scores} == {0}
    np.testing.assert_allclose([found for _, found in scores], case.scores, rtol=0, atol=1e-12)
    predictions = np.array([library.code.model_predict(row) for row in rows])
    if case.model.classes is None:
        np.testing.assert_allclose(predictions, case.predictions, rtol=0, atol=1e-12)
    else:
        assert case.model.classes[predictions.astype(int)].tolist() == case.predictions.tolist()


@needs_compiler
def test_contributions_and_infinite_values(tmp_path: Path) -> None:
    case = Case("three", 50)
    library = Library(case.model, tmp_path)
    rows = [library.read_row(row) for row in case.rows]
    expected = case.model.contributions(case.table)
    found = [library.call("model_contributions", row, expected[0].size)[1] for row in rows]
    np.testing.assert_allclose(found, expected.reshape(50, -1), rtol=0, atol=1e-12)
    column = library.columns.index("p0")
    rows[0][column] = math.inf
    assert library.call("model_scores", rows[0], 3)[0] == 1 + column
    assert math.isnan(library.code.model_predict(rows[0]))


@needs_compiler
@pytest.mark.parametrize("name", ["nasty", "two", "three"])
def test_the_command_predicts_the_same(name: str, tmp_path: Path) -> None:
    case = Case(name)
    drop_empty_levels(case)
    write_csv(case, tmp_path / "rows.csv")
    command = build_c(case.model, tmp_path, "-DMODEL_MAIN")
    run = subprocess.run([str(command)], input=(tmp_path / "rows.csv").read_bytes(), capture_output=True, check=True)
    header, *results = csv.reader(io.StringIO(run.stdout.decode(), newline=""))
    assert header[-1] == "prediction"
    case.check(results, 1e-12)


@needs_compiler
@pytest.mark.parametrize(
    ("text", "code", "result"),
    [
        ("age\n3\n\n4\n", 0, ["3", "4"]),
        ('\ufeffother,age\r\n"a,\n""b""",3\r\n,4', 0, ["3", "4"]),
        ("age\n3\nold\n", 1, "row 2: expected a number in column age\n"),
        ("age\ninf\n", 1, "row 1: infinite value in column age\n"),
        ("other\n3\n", 1, "row 0: there is no column age\n"),
    ],
)
def test_the_command_reads_csv(text: str, code: int, result, tmp_path: Path) -> None:
    axis = continuous_axis("age", np.arange(5.0))
    model = fill(np.random.default_rng(0), (axis,), [(0,)])
    run = subprocess.run(
        [str(build_c(model, tmp_path, "-DMODEL_MAIN"))], input=text.encode(), capture_output=True, check=False
    )
    assert run.returncode == code
    if code:
        assert run.stderr.decode() == result
    else:
        found = list(map(float, run.stdout.decode().split()[1:]))
        np.testing.assert_allclose(found, model.predict({"age": list(map(float, result))}), rtol=0, atol=1e-12)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_string_literals_read_back(text: str) -> None:
    written = to_c(fill(np.random.default_rng(0), (continuous_axis(text, np.arange(3.0)),), [(0,)]))
    (quoted,) = re.findall(r"model_columns\[\] = \{\n +(.*),\n", written)
    assert quoted.isascii()
    assert "?" not in quoted
    assert ast.literal_eval("b" + quoted) == text.encode()  # Python has the same octal escapes
