"""Exports as text: each is run by its own engine on rows that reach every kind of cell, and must equal the model."""

from __future__ import annotations

import ast
import csv
import ctypes
import io
import json
import math
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import NeuralBasisClassifier, export
from neuralbasis.encoding.axis import Axis, continuous_axis, level_axis
from neuralbasis.encoding.encoder import Encoder
from neuralbasis.encoding.layout import lay_out
from neuralbasis.export import to_c, to_json, to_python, to_sql
from neuralbasis.export.c import _quote
from neuralbasis.export.sql import _search
from neuralbasis.model.additive_model import AdditiveModel
from neuralbasis.model.shapes import Shape
from tests.models import MAX_KNOTS, all_terms, build_model, draw_numbers, name_columns, tie_model

N_ROWS = 10_000
COMPILER = shutil.which("cc")
FLAGS = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-O2"]
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="needs a C compiler")

NASTY = ["", "nan", "NULL", "O'Neil", '"quoted"', "back\\slash", "what??/", "100%d", "🙂 naïve", "a\nb", "A", "a", "1"]


def build_nasty(rng: np.random.Generator, n_outputs: int, link: str, classes: np.ndarray | None) -> AdditiveModel:
    """Names and levels that need quoting in some language, numbers and booleans as levels; huge, tiny, single knots."""
    axes = (
        continuous_axis('select "x0" \\ from', rng.normal(size=30)),
        level_axis("it's 100%s\n-- 🙂;", "nominal", NASTY, rng.permutation(len(NASTY)) + 1.0),
        level_axis("data", "ordinal", ["-3", "0", "2.5", "3.0", "1e+20"], np.array([1.0, 5.0, 3.0, 2.0, 4.0])),
        level_axis("x1, y ??/", "nominal", ["0", "1"], np.ones(2)),
        continuous_axis("p0", np.array([-1.7e308, 1.6e308, 1.7e308])),
        continuous_axis("*/", np.array([2.0])),
        continuous_axis("0", np.array([-1.0, 0.0, 5e-324, 1e-300, 1.0])),
    )
    terms = [term for term in all_terms(7, (1, 2)) if term != (5,)] + [(0, 1, 2), (0, 1, 4)]
    return fill(rng, axes, terms, n_outputs, link, classes)


def fill(rng, axes: tuple[Axis, ...], terms, n_outputs=1, link="identity", classes=None) -> AdditiveModel:
    """A model of these terms with random tables."""
    layout = lay_out(axes, terms, MAX_KNOTS)
    shapes = []
    for index, term in enumerate(layout.terms):
        cells = layout.table_shape(index)
        scores = rng.normal(size=(*cells, n_outputs))
        shapes.append(Shape(term, layout.axes_of(index), scores, np.zeros_like(scores), np.ones(cells)))
    return AdditiveModel(Encoder(axes), rng.normal(size=n_outputs), tuple(shapes), link, classes, 1)


def draw_rows(rng: np.random.Generator, model: AdditiveModel, n_rows: int) -> dict[str, np.ndarray]:
    """A table with what `draw_numbers` draws; columns of numbers as levels hold numbers, one holds booleans."""
    is_huge = [axis.name == "p0" for axis in model.encoder.axes]  # its values are drawn small, then spread
    axes = [
        replace(axis, knots=axis.knots.clip(-1, 1)) if huge else axis
        for axis, huge in zip(model.encoder.axes, is_huge, strict=True)
    ]
    table = name_columns(axes, draw_numbers(rng, axes, n_rows))
    for name, values in table.items():
        if name == "data":  # "3.0" is no number's text: the number 3 was never seen
            table[name] = np.array([3.0 if v == "never seen" else np.nan if v is None else float(v) for v in values])
        elif name == "x1, y ??/":
            table[name] = np.array([None if v is None else v == "1" for v in values], dtype=object)
        elif name == "p0":
            table[name] = values * np.where(rng.random(n_rows) < 0.5, 1.0, 1.1e308)
    return table


CASES = {
    "regression": lambda rng: build_model(rng),
    "nasty": lambda rng: build_nasty(rng, 1, "identity", None),
    "two": lambda rng: build_nasty(rng, 1, "logit", np.array(["it's", 'a "yes"'])),
    "two, booleans": lambda rng: build_model(rng, orders=(1, 2), link="logit", classes=np.array([False, True])),
    "three": lambda rng: build_nasty(rng, 3, "mlogit", np.array(["no", "'maybe'", "yes 🙂"], dtype=object)),
    "tied": lambda rng: tie_model(
        rng, build_model(rng, orders=(1, 2, 3), n_outputs=3, link="mlogit", classes=np.array([1, 2, 5])), [0, 3, 7, 16]
    ),
    "intercept": lambda rng: AdditiveModel(build_model(rng).encoder, np.array([0.25]), (), "identity"),
}


MAIN_CASES = ("regression", "nasty", "two", "three")


class Case:
    """A model, rows of its columns, and the rows' scores, probabilities and predictions."""

    def __init__(self, name: str, n_rows: int | None = None):
        n_rows = (N_ROWS if name in MAIN_CASES else 2000) if n_rows is None else n_rows
        rng = np.random.default_rng(sum(map(ord, name)))
        self.model = CASES[name](rng)
        self.table = draw_rows(rng, self.model, n_rows)
        self.scores = self.model.scores(self.table)
        self.predictions = self.model.predict(self.table)

    @property
    def rows(self) -> list[dict]:
        return [dict(zip(self.table, values, strict=True)) for values in zip(*self.table.values(), strict=True)]

    @property
    def results(self) -> np.ndarray:
        """The numbers beside the prediction, in the order in which exports write them."""
        if self.model.classes is None:
            return np.empty((len(self.scores), 0))
        shares = self.model.predict_proba(self.table)
        return np.hstack([self.scores, shares[:, 1:] if self.model.link == "logit" else shares])

    def check(self, answers: list, tolerance: float, read_label=lambda label: label) -> None:
        """Compare rows of results, the last of which is the prediction."""
        assert len(answers) == len(self.scores)
        if self.model.classes is None:
            np.testing.assert_allclose([float(a[-1]) for a in answers], self.predictions, rtol=0, atol=tolerance)
            return
        found = np.array([list(map(float, answer[:-1])) for answer in answers])
        np.testing.assert_allclose(found, self.results, rtol=0, atol=tolerance)
        assert [answer[-1] for answer in answers] == [read_label(label) for label in self.predictions.tolist()]


@pytest.fixture(scope="module", params=CASES)
def case(request) -> Case:
    return Case(request.param)


def fill_sqlite(case: Case) -> sqlite3.Connection:
    base = sqlite3.connect(":memory:")
    kinds = {str: "TEXT COLLATE NOCASE", float: "REAL", bool: "BOOLEAN"}
    found = {name: kinds[type(next(v for v in values if v is not None))] for name, values in listed(case).items()}
    names = ", ".join(f'"{escape(name)}" {kind}' for name, kind in found.items())
    base.execute(f'CREATE TABLE "the data" (id INTEGER, {names})')
    marks = ", ".join("?" * (1 + len(case.table)))
    base.executemany(
        f'INSERT INTO "the data" VALUES ({marks})', zip(range(len(case.scores)), *listed(case).values(), strict=True)
    )
    return base


def listed(case: Case) -> dict[str, list]:
    return {name: values.tolist() for name, values in case.table.items()}


def escape(name: str) -> str:
    return name.replace('"', '""')


def test_sqlite(case: Case) -> None:
    base = fill_sqlite(case)
    cursor = base.execute(to_sql(case.model, table="the data", keep=["id"]))
    names, answers = [column[0] for column in cursor.description], cursor.fetchall()
    base.close()
    assert [answer[0] for answer in answers] == list(range(len(case.scores)))
    assert names[0] == "id"
    assert names[-1] == "prediction"
    case.check([answer[1:] for answer in answers], 1e-9)


def test_duckdb(case: Case) -> None:
    duckdb, arrow = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    with duckdb.connect() as base:
        # NaN stays NaN in a column of floats, None becomes NULL
        base.register("the data", arrow.table({name: arrow.array(values) for name, values in case.table.items()}))
        answers = base.execute(to_sql(case.model, table="the data", dialect="duckdb")).fetchall()
    case.check(answers, 1e-9)


def test_sql_names_its_results() -> None:
    model = CASES["three"](np.random.default_rng(0))
    base = fill_sqlite(case := Case("three", 2))
    cursor = base.execute(to_sql(model, table="the data", keep=list(case.table)[:2]))
    scores = ["score_no", "score_'maybe'", "score_yes 🙂"]
    expected = [
        *list(case.table)[:2],
        *scores,
        *[name.replace("score", "probability") for name in scores],
        "prediction",
    ]
    assert [column[0] for column in cursor.description] == expected
    base.close()


def build_large(what: str) -> AdditiveModel:
    """A model with more than 1,000 knots and levels, more than 1,000 terms, or more than 127 classes."""
    rng = np.random.default_rng(5)
    n_knots, n_levels = (1100, 1200) if what == "cells" else (3, 3)
    levels = [f"level {k}" for k in range(n_levels)]
    values = rng.normal(size=3000)[: max(n_knots, 3)]
    axes = (continuous_axis("size", values, max_knots=n_knots), level_axis("name", "nominal", levels))
    if what == "classes":
        return fill(rng, axes, [(0,), (1,)], 150, "mlogit", np.arange(150))
    model = fill(rng, axes, [(0,), (1,)])
    return AdditiveModel(model.encoder, model.intercept, model.shapes * (550 if what == "terms" else 1), "identity")


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
@pytest.mark.parametrize("what", ["cells", "terms", "classes"])
def test_sql_of_large_models(what: str, dialect: str) -> None:
    """A chain of as many would be deeper than SQLite allows an expression, or longer than it allows arguments."""
    rng, model = np.random.default_rng(6), build_large(what)
    names = np.array([*model.encoder.axes[1].levels, "unseen"], dtype=object)
    table = {"size": rng.normal(size=50), "name": names[rng.integers(len(names), size=50)]}
    answers = run_sql(dialect, to_sql(model, dialect=dialect), table)
    np.testing.assert_allclose(answers, model.predict(table), rtol=0, atol=1e-9)


def run_sql(dialect: str, query: str, table: dict[str, np.ndarray]) -> np.ndarray:
    if dialect == "sqlite":
        base = sqlite3.connect(":memory:")
        base.execute("CREATE TABLE data (size REAL, name TEXT)")
        base.executemany("INSERT INTO data VALUES (?, ?)", zip(table["size"].tolist(), table["name"], strict=True))
    else:
        base = pytest.importorskip("duckdb").connect()
        base.register("data", pytest.importorskip("pyarrow").table(table))
    answers = np.array(base.execute(query).fetchall())[:, -1]
    base.close()
    return answers


def test_sql_reads_texts_of_numbers_and_empty_cells_in_sqlite() -> None:
    """As a CSV file is imported: everything is text."""
    model = fill(np.random.default_rng(1), (continuous_axis("size", np.arange(9.0)),), [(0,)])
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (size TEXT)")
    base.executemany("INSERT INTO data VALUES (?)", [("2.5",), ("",), (None,)])
    answers = [answer[0] for answer in base.execute(to_sql(model))]
    base.close()
    expected = model.predict({"size": [2.5, np.nan, np.nan]})
    np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "kind", ["TINYINT", "UINTEGER", "HUGEINT", "FLOAT", "DECIMAL(9, 3)", "BOOLEAN", "VARCHAR", "ENUM"]
)
def test_levels_of_every_type_in_duckdb(kind: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    model = fill(np.random.default_rng(1), (level_axis("code", "nominal", ["0", "1", "7"]),), [(0,)])
    values = ["1", "0", None, "1" if kind == "BOOLEAN" else "7"]
    kind = "ENUM ('0', '1', '7', '8')" if kind == "ENUM" else kind
    with duckdb.connect() as base:
        base.execute(f"CREATE TABLE data (code {kind})")
        base.executemany("INSERT INTO data VALUES (?)", [(value,) for value in values])
        answers = [answer[0] for answer in base.execute(to_sql(model, dialect="duckdb")).fetchall()]
    cells = [0 if value is None else 1 + ["0", "1", "7"].index(value) for value in values]
    np.testing.assert_allclose(answers, model.intercept + model.shapes[0].scores[cells, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "oracle"}, "dialect must be one of .*not 'oracle'"),
        ({"keep": "id"}, "keep must be a list of columns"),
        ({"keep": ["Prediction"]}, r"keep names columns that the SELECT itself writes: \['prediction'\]"),
        ({"table": "Model_Scores"}, "the SELECT itself uses the name 'Model_Scores'"),
    ],
)
def test_sql_refuses(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_sql(build_model(np.random.default_rng(0), orders=(1,)), **options)


def test_sql_refuses_names_that_differ_in_case_only() -> None:
    axes = (continuous_axis("Age", np.arange(3.0)), continuous_axis("age", np.arange(3.0)))
    with pytest.raises(ValueError, match="cannot tell the columns 'Age' and 'age' apart"):
        to_sql(fill(np.random.default_rng(0), axes, [(0,), (1,)]))


@given(st.lists(st.integers(-50, 50), unique=True, max_size=40).map(sorted), st.integers(-60, 60))
def test_a_search_finds_the_leaf_in_few_steps(cuts: list[int], value: int) -> None:
    leaves = [str(k) for k in range(len(cuts) + 1)]
    text = _search(str(value), [str(cut) for cut in cuts], leaves)
    base = sqlite3.connect(":memory:")
    assert base.execute(f"SELECT {text}").fetchone()[0] == sum(cut <= value for cut in cuts)
    base.close()
    depth = max(text[:at].count("CASE") - text[:at].count("END") for at in range(len(text) + 1))
    assert depth <= 1 + math.log2(len(cuts) + 1)


def read_cell(axis: dict, value) -> list[tuple[int, float]]:
    """Cells and weights of a value, by the rule of the JSON file."""
    if value is None or value != value:
        return [(0, 1.0)]
    if "levels" in axis:
        if not isinstance(value, str):
            number = float(value)
            value = f"{number:.0f}" if number == round(number) and abs(number) < 1e15 else repr(number)
        return [(1 + axis["levels"].index(value) if value in axis["levels"] else 1 + len(axis["levels"]), 1.0)]
    knots = axis["knots"]
    if value <= knots[0]:
        return [(1, 1.0)]
    if value >= knots[-1]:
        return [(len(knots), 1.0)]
    i = sum(knot <= value for knot in knots)
    a, b = knots[i - 1], knots[i]
    s = (value - a) / (b - a) if b - a < math.inf else (value / 2 - a / 2) / (b / 2 - a / 2)
    return [(i, 1 - s), (i + 1, s)]


def read_json(tables: dict, row: dict) -> list[float]:
    """Scores of a row, by the rule of the JSON file."""
    scores = list(tables["intercept"])
    places = [read_cell(axis, row[axis["column"]]) for axis in tables["axes"]]
    for term in tables["terms"]:
        for corner in product(*(places[axis] for axis in term["axes"])):
            values = term["table"]
            for cell, _ in corner:
                values = values[cell]
            weight = math.prod(weight for _, weight in corner)
            scores = [score + weight * value for score, value in zip(scores, values, strict=True)]
    return scores


def test_json(case: Case) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    tables = json.loads(to_json(case.model), parse_constant=refuse)
    assert tables["link"] == case.model.link
    assert tables["classes"] == (None if case.model.classes is None else case.model.classes.tolist())
    scores = [read_json(tables, row) for row in case.rows]
    np.testing.assert_allclose(scores, case.scores, rtol=0, atol=1e-12)


def test_the_rule_stands_in_the_documentation() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "exports.md"
    if not page.exists():
        pytest.skip("the documentation is not part of this copy of the source")
    assert "\n".join(export.json.RULE) in page.read_text(encoding="utf-8")


def load_program(model: AdditiveModel) -> dict:
    program = {"__name__": "program"}
    text = to_python(model)
    ast.parse(text, feature_version=(3, 8))
    exec(compile(text, "program", "exec"), program)
    return program


def test_python(case: Case) -> None:
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
        shares = [program["probabilities"](row) for row in rows[:500]]
        np.testing.assert_allclose(shares, case.model.predict_proba(case.table)[:500], rtol=0, atol=1e-12)


def test_python_tells_contributions() -> None:
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
def test_python_refuses(row: dict, message: str) -> None:
    axes = (continuous_axis("age", np.arange(5.0)), level_axis("job", "nominal", ["a", "b"]))
    program = load_program(fill(np.random.default_rng(0), axes, [(0,), (1,)]))
    with pytest.raises(ValueError, match=message):
        program["predict"](row)


def write_csv(case: Case, path: Path) -> None:
    """A missing value is an empty cell; numbers that are levels are written as levels."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["unused", *case.table])
        for values in zip(*listed(case).values(), strict=True):
            writer.writerow(["?", *("" if v is None or v != v else write_value(v) for v in values)])


def write_value(value) -> str:
    if isinstance(value, str):
        return value
    return str(int(value)) if abs(value) < 2**53 and float(value).is_integer() else repr(float(value))


def drop_empty_levels(case: Case) -> None:
    """In a CSV file an empty cell is a missing value."""
    for name, values in case.table.items():
        case.table[name] = np.where(values == "", None, values) if values.dtype == object else values
    case.scores, case.predictions = case.model.scores(case.table), case.model.predict(case.table)


@pytest.mark.parametrize("name", ["nasty", "two", "three"])
def test_python_as_a_command(name: str, tmp_path: Path) -> None:
    case = Case(name, 1000)
    drop_empty_levels(case)
    write_csv(case, tmp_path / "rows.csv")
    to_python(case.model, tmp_path / "model.py")
    command = [sys.executable, "-I", str(tmp_path / "model.py")]
    by_name = subprocess.run([*command, str(tmp_path / "rows.csv")], capture_output=True, check=True)
    piped = subprocess.run(command, input=(tmp_path / "rows.csv").read_bytes(), capture_output=True, check=True)
    assert piped.stdout == by_name.stdout
    header, *answers = csv.reader(io.StringIO(by_name.stdout.decode(), newline=""))
    assert header[-1] == "prediction"
    case.check(answers, 1e-12)


def test_python_as_a_command_names_the_bad_row(tmp_path: Path) -> None:
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


def build_c(model: AdditiveModel, folder: Path, *options: str) -> Path:
    to_c(model, folder / "model.c")
    assert (folder / "model.c").read_bytes().isascii()
    target = folder / "model.bin"
    subprocess.run([str(COMPILER), *FLAGS, *options, str(folder / "model.c"), "-o", str(target), "-lm"], check=True)
    return target


class Library:
    """The functions of a compiled model."""

    def __init__(self, model: AdditiveModel, folder: Path):
        self.model, self.code = model, ctypes.CDLL(str(build_c(model, folder, "-shared", "-fPIC")))
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
def test_c(case: Case, tmp_path: Path) -> None:
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
def test_c_tells_contributions_and_infinite_values(tmp_path: Path) -> None:
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
def test_c_as_a_command(name: str, tmp_path: Path) -> None:
    case = Case(name)
    drop_empty_levels(case)
    write_csv(case, tmp_path / "rows.csv")
    command = build_c(case.model, tmp_path, "-DMODEL_MAIN")
    run = subprocess.run([str(command)], input=(tmp_path / "rows.csv").read_bytes(), capture_output=True, check=True)
    header, *answers = csv.reader(io.StringIO(run.stdout.decode(), newline=""))
    assert header[-1] == "prediction"
    case.check(answers, 1e-12)


@needs_compiler
@pytest.mark.parametrize(
    ("text", "code", "answer"),
    [
        ("age\n3\n\n4\n", 0, ["3", "4"]),
        ('\ufeffother,age\r\n"a,\n""b""",3\r\n,4', 0, ["3", "4"]),
        ("age\n3\nold\n", 1, "row 2: expected a number in column age\n"),
        ("age\ninf\n", 1, "row 1: infinite value in column age\n"),
        ("other\n3\n", 1, "row 0: there is no column age\n"),
    ],
)
def test_c_reads_csv(text: str, code: int, answer, tmp_path: Path) -> None:
    axis = continuous_axis("age", np.arange(5.0))
    model = fill(np.random.default_rng(0), (axis,), [(0,)])
    run = subprocess.run(
        [str(build_c(model, tmp_path, "-DMODEL_MAIN"))], input=text.encode(), capture_output=True, check=False
    )
    assert run.returncode == code
    if code:
        assert run.stderr.decode() == answer
    else:
        found = list(map(float, run.stdout.decode().split()[1:]))
        np.testing.assert_allclose(found, model.predict({"age": list(map(float, answer))}), rtol=0, atol=1e-12)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_c_texts_read_back(text: str) -> None:
    quoted = _quote(text)
    assert quoted.isascii()
    assert "?" not in quoted
    assert ast.literal_eval("b" + quoted) == text.encode()  # octal digits mean the same in Python


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
    answers = [answer[0] for answer in base.execute(to_sql(model))]
    base.close()
    np.testing.assert_allclose(answers, expected, rtol=0, atol=1e-12)


def test_only_columns_that_a_term_reads_are_exported() -> None:
    axes = (continuous_axis("a", np.arange(3.0)), continuous_axis("b", np.arange(3.0)))
    model = fill(np.random.default_rng(0), axes, [(1,)])
    assert json.loads(to_json(model))["columns"] == ["b"]
    assert load_program(model)["predict"]({"b": 1.0}) == model.predict({"a": [0.0], "b": [1.0]})[0]
    assert '"a"' not in to_sql(model)


@pytest.mark.parametrize(
    ("write", "name"), [(to_sql, "m.sql"), (to_json, "m.json"), (to_python, "m.py"), (to_c, "m.c")]
)
def test_a_file_holds_the_text_and_replaces_an_older_one(write, name: str, tmp_path: Path) -> None:
    model = CASES["nasty"](np.random.default_rng(0))
    (tmp_path / name).write_text("old")
    assert write(model, tmp_path / name) == (tmp_path / name).read_bytes().decode()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    with pytest.raises(FileNotFoundError, match=r"the folder .* does not exist"):
        write(model, tmp_path / "none" / name)


@pytest.mark.parametrize("write", [to_sql, to_json, to_python, to_c])
def test_what_is_exported(write) -> None:
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


def test_importing_the_exports_needs_no_optional_package() -> None:
    code = "import sys; from neuralbasis.export import to_sql; print({'onnx', 'openpyxl', 'torch'} & set(sys.modules))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "set()\n"
    assert export.__all__ == ["to_c", "to_excel", "to_json", "to_onnx", "to_python", "to_sql"]
    assert set(export.__all__) <= set(dir(export))
    with pytest.raises(AttributeError, match=r"module 'neuralbasis.export' has no attribute 'to_pdf'"):
        export.to_pdf  # noqa: B018
