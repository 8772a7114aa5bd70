"""SQL: SQLite and DuckDB compute the predictions of the model."""

from __future__ import annotations

import math
import re
import sqlite3

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralbasis import AdditiveModel
from neuralbasis.encoding import continuous_axis, level_axis
from neuralbasis.export import to_sql
from tests.export.cases import CASES, Case, escape, fill, listed
from tests.models import build_model


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


def test_sqlite_predicts_the_same(case: Case) -> None:
    base = fill_sqlite(case)
    cursor = base.execute(to_sql(case.model, table="the data", keep=["id"]))
    names, results = [column[0] for column in cursor.description], cursor.fetchall()
    base.close()
    assert [result[0] for result in results] == list(range(len(case.scores)))
    assert names[0] == "id"
    assert names[-1] == "prediction"
    case.check([result[1:] for result in results], 1e-9)


def test_duckdb_predicts_the_same(case: Case) -> None:
    duckdb, arrow = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    with duckdb.connect() as base:
        # NaN stays NaN in a column of floats; None becomes NULL
        base.register("the data", arrow.table({name: arrow.array(values) for name, values in case.table.items()}))
        results = base.execute(to_sql(case.model, table="the data", dialect="duckdb")).fetchall()
    case.check(results, 1e-9)


def test_results_have_names() -> None:
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
def test_large_models_predict_the_same(what: str, dialect: str) -> None:
    """Without pairwise joins, SQLite would refuse the depth of an expression or the number of arguments."""
    rng, model = np.random.default_rng(6), build_large(what)
    names = np.array([*model.encoder.axes[1].levels, "unseen"], dtype=object)
    table = {"size": rng.normal(size=50), "name": names[rng.integers(len(names), size=50)]}
    results = run_sql(dialect, to_sql(model, dialect=dialect), table)
    np.testing.assert_allclose(results, model.predict(table), rtol=0, atol=1e-9)


def run_sql(dialect: str, query: str, table: dict[str, np.ndarray]) -> np.ndarray:
    if dialect == "sqlite":
        base = sqlite3.connect(":memory:")
        base.execute("CREATE TABLE data (size REAL, name TEXT)")
        base.executemany("INSERT INTO data VALUES (?, ?)", zip(table["size"].tolist(), table["name"], strict=True))
    else:
        base = pytest.importorskip("duckdb").connect()
        base.register("data", pytest.importorskip("pyarrow").table(table))
    results = np.array(base.execute(query).fetchall())[:, -1]
    base.close()
    return results


def test_sqlite_reads_imported_csv_files() -> None:
    """After an import of CSV, numbers are text and missing values are empty text."""
    model = fill(np.random.default_rng(1), (continuous_axis("size", np.arange(9.0)),), [(0,)])
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (size TEXT)")
    base.executemany("INSERT INTO data VALUES (?)", [("2.5",), ("",), (None,)])
    results = [result[0] for result in base.execute(to_sql(model))]
    base.close()
    expected = model.predict({"size": [2.5, np.nan, np.nan]})
    np.testing.assert_allclose(results, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "kind", ["TINYINT", "UINTEGER", "HUGEINT", "FLOAT", "DECIMAL(9, 3)", "BOOLEAN", "VARCHAR", "ENUM"]
)
def test_duckdb_reads_levels_of_every_type(kind: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    model = fill(np.random.default_rng(1), (level_axis("code", "nominal", ["0", "1", "7"]),), [(0,)])
    values = ["1", "0", None, "1" if kind == "BOOLEAN" else "7"]
    kind = "ENUM ('0', '1', '7', '8')" if kind == "ENUM" else kind
    with duckdb.connect() as base:
        base.execute(f"CREATE TABLE data (code {kind})")
        base.executemany("INSERT INTO data VALUES (?)", [(value,) for value in values])
        results = [result[0] for result in base.execute(to_sql(model, dialect="duckdb")).fetchall()]
    cells = [0 if value is None else 1 + ["0", "1", "7"].index(value) for value in values]
    np.testing.assert_allclose(results, model.intercept + model.shapes[0].scores[cells, 0], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dialect": "oracle"}, "dialect must be one of .*not 'oracle'"),
        ({"keep": "id"}, "keep must be a list of columns"),
        ({"keep": ["Prediction"]}, r"keep names columns that the SELECT itself writes: \['prediction'\]"),
        ({"table": "Model_Scores"}, "the SELECT itself uses the name 'Model_Scores'"),
    ],
)
def test_wrong_options_are_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        to_sql(build_model(np.random.default_rng(0), orders=(1,)), **options)


def test_names_that_differ_only_in_case_are_refused() -> None:
    axes = (continuous_axis("Age", np.arange(3.0)), continuous_axis("age", np.arange(3.0)))
    with pytest.raises(ValueError, match="the columns 'Age' and 'age' would be one"):
        to_sql(fill(np.random.default_rng(0), axes, [(0,), (1,)]))


@given(st.lists(st.integers(-50, 50), min_size=1, max_size=40, unique=True), st.integers(-60, 60))
def test_sqlite_finds_the_knots_at_logarithmic_depth(knots: list[int], value: int) -> None:
    model = fill(np.random.default_rng(0), (continuous_axis("size", np.array(knots, dtype=float)),), [(0,)])
    text = to_sql(model)
    base = sqlite3.connect(":memory:")
    base.execute("CREATE TABLE data (size REAL)")
    base.execute("INSERT INTO data VALUES (?)", (value,))
    assert base.execute(text).fetchone()[0] == pytest.approx(model.predict({"size": [value]})[0], rel=0, abs=1e-12)
    base.close()
    depths = np.cumsum([1 if word == "CASE" else -1 for word in re.findall(r"\b(?:CASE|END)\b", text)])
    assert depths.max() <= 2 + math.log2(len(knots) + 1)
