"""Data sets: shapes of real and generated tables, planted effects, and errors that name a missing file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import datasets
from benchmarks.datasets.objects import draw_objects, find_frequent_pairs, make_world


@pytest.mark.parametrize("key", sorted(datasets.LOADERS))
def test_stand_ins_have_the_columns_of_the_real_sets(key: str) -> None:
    data = datasets.load(key, quick=True)
    known = {
        "ca": (8, 0), "covertype": (54, 7), "heloc": (23, 2), "magic": (10, 2), "bike": (12, 0), "telco": (19, 2),
        "german": (20, 2), "abalone": (8, 0), "covertype_part": (54, 7), "diabetes": (10, 0), "digits": (64, 10),
        "iris": (4, 3), "wine": (13, 3),
    }  # fmt: skip
    n_columns, n_classes = known.get(key, (30, 2))
    assert data.X.shape == (len(data.y), n_columns)
    assert data.task == "regression" if n_classes == 0 else len(np.unique(data.y)) == n_classes


@pytest.mark.parametrize(
    ("key", "shape", "n_classes"),
    [
        ("ca", (20640, 8), 0),
        ("covertype", (581012, 54), 7),
        ("heloc", (10459, 23), 2),
        ("fraud", (284807, 30), 2),
        ("cancer", (569, 30), 2),
        ("magic", (19020, 10), 2),
        ("bike", (17379, 12), 0),
    ],
)
def test_real_sets(key: str, shape: tuple[int, int], n_classes: int) -> None:
    problem = datasets.find_missing(key)
    if problem:
        pytest.skip(problem)
    if key in ("heloc", "fraud", "magic", "bike"):
        pytest.importorskip("pandas", reason="reading this set needs pandas")
    data = datasets.load(key)
    assert data.X.shape == shape
    assert data.X.dtype == float
    assert np.isfinite(data.X).all()
    assert data.y.shape == shape[:1]
    assert (len(np.unique(data.y)) == n_classes) if n_classes else data.task == "regression"


def test_telco() -> None:
    """A frame: three columns of numbers (one with 11 gaps), a flag, 15 columns of levels."""
    problem = datasets.find_missing("telco")
    if problem:
        pytest.skip(problem)
    pytest.importorskip("pandas", reason="reading this set needs pandas")
    data = datasets.load("telco")
    assert data.X.shape == (7043, 19)
    assert data.X.select_dtypes("category").shape[1] == 15
    assert data.X["TotalCharges"].isna().sum() == data.X.isna().sum().sum() == 11
    assert data.y.sum() == 1869


@pytest.mark.parametrize("n_classes", [0, 2, 4])
def test_planted_pairs_explain_the_target(n_classes: int) -> None:
    table = datasets.plant_pairs(n_classes, seed=1)
    X, y = table.data.X, table.data.y
    assert X.shape == (10_000, 30)
    assert len(table.pairs) == len({column for pair in table.pairs for column in pair}) / 2 == 3
    assert all(a < b for a, b in table.pairs)
    assert np.corrcoef(X[:, ::3].T)[0, 1:] == pytest.approx(0.5, abs=0.05)  # every third column is normal
    assert {len(np.unique(column)) for column in X[:, 1::3].T} == {5}
    assert (len(np.unique(y)) == n_classes) if n_classes else y.std() == pytest.approx(1.5, abs=0.1)
    again = datasets.plant_pairs(n_classes, seed=1)
    assert (again.data.y == y).all()
    assert again.pairs == table.pairs


def test_news_has_the_paper_s_numbers() -> None:
    problem = datasets.find_missing_news()
    if problem:
        pytest.skip(problem)
    data = datasets.load("news_validation")
    assert data.X.shape == (9899, 146_016)
    assert data.test.X.shape == (1415, 146_016)
    assert data.X.nnz == np.count_nonzero(data.X.data)
    assert len(np.unique(data.y)) == 20


def test_missing_news_raise_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"set NEURALBASIS_DATA .* or SCIKIT_LEARN_DATA"):
        datasets.load("news")
    (tmp_path / "20news-bydate_py3.pkz").touch()
    assert datasets.find_missing_news() is None


def test_objects_are_seen_together() -> None:
    world = make_world(n_columns=80, n_classes=6, sparsity=0.9, n_pairs=5)
    table = draw_objects(world, 20_000, seed=1)
    X = table.X
    assert X.has_canonical_format
    assert 1 - X.nnz / np.prod(X.shape) == pytest.approx(0.9, abs=0.005)
    assert 0 < X.data.min() <= X.data.max() <= 1
    pairs = find_frequent_pairs(X, 40)
    seen = (X > 0).toarray()
    together = [(seen[:, a] & seen[:, b]).mean() for a, b in pairs]
    assert together == sorted(together, reverse=True)
    alone = seen.mean(axis=0)[pairs].prod(axis=1)
    assert np.mean(together / alone) > 2  # more often than if they were independent
    right = world.scores(X).argmax(axis=1) == table.y
    assert table.accuracy == pytest.approx(right.mean())
    assert right.mean() > 0.03 + (world.main_scores(X).argmax(axis=1) == table.y).mean()


def test_missing_data_raise_with_advice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set NEURALBASIS_DATA"):
        datasets.load("heloc")
