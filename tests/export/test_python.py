"""Python: the exported file computes the predictions of the model, as a module and as a command."""

from __future__ import annotations

import csv
import io
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.export import to_python
from tests.export.cases import Case, drop_empty_levels, fill, load_program, write_csv


def test_python_predicts_the_same(case: Case) -> None:
    program = load_program(case.model)
    rows = case.rows
    np.testing.assert_allclose([program["scores"](row) for row in rows], case.scores, rtol=0, atol=1e-12)
    predictions = program["predict_many"](rows[:500])
    if case.model.classes is None:
        np.testing.assert_allclose(predictions, case.predictions[:500], rtol=0, atol=1e-12)
        with pytest.raises(ValueError, match="a regression has no probabilities"):
            program["probabilities"](rows[0])
    else:
        assert predictions == case.predictions[:500].tolist()
        proba = [program["probabilities"](row) for row in rows[:500]]
        np.testing.assert_allclose(proba, case.model.predict_proba(case.table)[:500], rtol=0, atol=1e-12)


def test_contributions() -> None:
    case = Case("three", 50)
    program = load_program(case.model)
    found = [program["contributions"](row) for row in case.rows]
    assert [name for name, _ in found[0]] == list(case.model.term_names)
    values = [[value for _, value in row] for row in found]
    np.testing.assert_allclose(values, case.model.contributions(case.table), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"age": 1.0}, "the row has no column 'job'"),
        ({"age": "young", "job": "a"}, "column 'age': expected a number, got 'young'"),
        ({"age": "1_0", "job": "a"}, "column 'age': expected a number, got '1_0'"),
        ({"age": math.inf, "job": "a"}, "column 'age': expected a finite number or a missing value, got inf"),
    ],
)
def test_wrong_rows_are_refused(row: dict, message: str) -> None:
    axes = (continuous_axis("age", np.arange(5.0)), level_axis("job", "nominal", ["a", "b"]))
    program = load_program(fill(np.random.default_rng(0), axes, [(0,), (1,)]))
    with pytest.raises(ValueError, match=message):
        program["predict"](row)


@pytest.mark.parametrize("name", ["nasty", "two", "three"])
def test_the_command_predicts_the_same(name: str, tmp_path: Path) -> None:
    case = Case(name, 1000)
    drop_empty_levels(case)
    write_csv(case, tmp_path / "rows.csv")
    to_python(case.model, tmp_path / "model.py")
    command = [sys.executable, "-I", str(tmp_path / "model.py")]
    by_name = subprocess.run([*command, str(tmp_path / "rows.csv")], capture_output=True, check=True)
    piped = subprocess.run(command, input=(tmp_path / "rows.csv").read_bytes(), capture_output=True, check=True)
    assert piped.stdout == by_name.stdout
    header, *results = csv.reader(io.StringIO(by_name.stdout.decode(), newline=""))
    assert header[-1] == "prediction"
    case.check(results, 1e-12)


def test_the_command_names_the_wrong_row(tmp_path: Path) -> None:
    model = fill(np.random.default_rng(0), (continuous_axis("age", np.arange(5.0)),), [(0,)])
    to_python(model, tmp_path / "model.py")
    run = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "model.py")],
        input="age\n3\nold\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr == "row 2: column 'age': expected a number, got 'old'\n"
