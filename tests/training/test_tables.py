"""Tables: files that fit in memory give the model of the table; larger ones train from a sample and pools of rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor
from tests import stream_tables
from tests.laws.fit_together import QUICK, draw

KINDS = {"regression": NeuralBasisRegressor, "binary": NeuralBasisClassifier, "classes": NeuralBasisClassifier}
FEATURES = ["x0", "x1", "x2", "x3", "level"]


@pytest.fixture
def small_memory():
    with stream_tables.small_memory():
        yield


def make_table(task: str, n_rows: int = 4000) -> pa.Table:
    X, y = draw(task, n_rows)
    return pa.table({**X, "target": y, "weight": np.random.default_rng(1).integers(0, 3, n_rows).astype(float)})


def write_files(table: pa.Table, folder: Path, n_files: int = 3) -> str:
    size = -(-table.num_rows // n_files)
    for number in range(n_files):
        part = table.slice(number * size, size)
        pyarrow.parquet.write_table(part, folder / f"part-{number}.parquet", row_group_size=500)
    return str(folder / "*.parquet")


def make(task: str, **parameters):
    return KINDS[task](**{**QUICK, "interactions": 0, "max_steps": 40, **parameters})


def assert_equal_models(one, other) -> None:
    assert one.term_names_ == other.term_names_
    for mine, its in zip(one.model_.shapes, other.model_.shapes, strict=True):
        for a, b in ((mine.scores, its.scores), (mine.spread, its.spread), (mine.weights, its.weights)):
            np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(one.intercept_, other.intercept_)


@pytest.mark.parametrize("task", KINDS)
def test_files_that_fit_in_memory_give_the_model_of_the_table(task, tmp_path):
    table = make_table(task)
    expected = make(task).fit(table.select(FEATURES), table["target"].to_numpy(), table["weight"].to_numpy())
    parameters = {"feature_names": FEATURES}
    found = make(task, **parameters).fit(write_files(table, tmp_path), "target", "weight")
    assert_equal_models(found, expected)
    assert found.model_.summary.target == "target"
    assert found.feature_names_in_.tolist() == FEATURES


@pytest.mark.parametrize("task", KINDS)
def test_a_sample_of_all_rows_gives_the_model_of_the_table(task, tmp_path, small_memory):
    """Through profile, cache and sample: the same knots, the same numbers, the same model."""
    table = make_table(task)
    knots = {name: np.linspace(-2, 2, 15).tolist() for name in FEATURES[:4]}
    plain = table.select(FEATURES), table["target"].to_numpy(), table["weight"].to_numpy()
    expected = make(task, feature_types=knots, interactions=1).fit(*plain)
    found = make(task, feature_types=knots, interactions=1, storage__memory_limit="1GB")
    found.fit(write_files(table, tmp_path), "target", "weight")
    assert_equal_models(found, expected)
    assert found.n_features_in_ == 5
    assert getattr(found, "classes_", np.empty(0)).tolist() == getattr(expected, "classes_", np.empty(0)).tolist()
    assert found.history_.validation == expected.history_.validation
    np.testing.assert_array_equal(found.predict(table.select(FEATURES)), expected.predict(table.select(FEATURES)))


def find_loss(model, task: str) -> float:
    """Of rows that are not in the training table."""
    X, y = draw(task, 20_000)
    X, y = {name: values[8000:] for name, values in X.items()}, y[8000:]
    if task == "regression":
        return float(((model.predict(X) - y) ** 2).mean())
    return float(-np.log(model.predict_proba(X)[np.arange(len(y)), np.searchsorted(model.classes_, y)]).mean())


@pytest.mark.parametrize(("task", "constant"), [("regression", 2.0), ("binary", 0.1), ("classes", 1.05)])
def test_pools_learn_as_much_as_a_table_in_memory(task, constant, tmp_path, small_memory):
    table = make_table(task, 8000)
    # Steps learn from the sample alone, which has too few rows of the rare class here.
    given = {"interactions": [("x0", "x1")], "max_steps": 150, "boosted_steps": task != "binary"}
    plain = make(task, **given).fit(table.select(FEATURES), table["target"].to_numpy())
    found = make(task, **given, storage__memory_limit=400_000, feature_names=FEATURES)
    found.fit(write_files(table, tmp_path), "target")
    assert found.term_names_ == plain.term_names_
    assert find_loss(found, task) < find_loss(plain, task) + 0.05 * constant
    for shape in found.model_.shapes:
        assert shape.weights.sum() == pytest.approx(8000, rel=1e-6)  # densities count all rows
    assert found.model_.summary.n_rows == 8000


def test_rows_of_weight_0_are_not_counted(tmp_path, small_memory):
    table = make_table("regression", 6000)
    total = table["weight"].to_numpy().sum()
    found = make("regression", storage__memory_limit=400_000).fit(write_files(table, tmp_path), "target", "weight")
    assert found.model_.summary.n_rows == (table["weight"].to_numpy() > 0).sum()
    for shape in found.model_.shapes:
        assert shape.weights.sum() == pytest.approx(total)


def test_the_cache_is_removed_unless_it_is_to_be_kept(tmp_path, small_memory, monkeypatch):
    files, caches = write_files(make_table("regression"), tmp_path), tmp_path / "caches"
    caches.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(caches))
    seen = []
    watch = {"storage__memory_limit": 400_000, "callbacks": [lambda _history: seen.extend(caches.rglob("*.bin"))]}
    one = make("regression", **watch).fit(files, "target")
    assert seen
    assert not list(caches.rglob("*.bin"))
    kept = {"storage__memory_limit": 400_000, "storage__cache_dir": caches / "kept", "storage__keep_cache": True}
    two = make("regression", **kept).fit(files, "target")
    written = {path: path.stat().st_mtime_ns for path in (caches / "kept").glob("*.bin")}
    assert written
    again = make("regression", **kept).fit(files, "target")
    assert {path: path.stat().st_mtime_ns for path in (caches / "kept").glob("*.bin")} == written
    assert_equal_models(one, two)
    assert_equal_models(one, again)
    make("regression", **{**kept, "storage__keep_cache": False}).fit(files, "target")
    assert not list(caches.rglob("*.bin"))


def test_errors_of_fits_to_files(tmp_path, small_memory):
    table = make_table("regression", 600)
    files, y = write_files(table, tmp_path), table["target"].to_numpy()
    with pytest.raises(ValueError, match="y must be the name of one of its columns, not ndarray"):
        make("regression").fit(files, y)
    with pytest.raises(ValueError, match="y must be the name of one of its columns, not NoneType"):
        make("regression").fit(files, None)
    with pytest.raises(ValueError, match="sample_weight must be the name of one of its columns, not list"):
        make("regression").fit(files, "target", [1.0])
    with pytest.raises(ValueError, match="init_score needs a table in memory"):
        make("regression").fit(files, "target", init_score=y)
    with pytest.raises(ValueError, match="no column 'targets'; did you mean 'target'"):
        make("regression").fit(files, "targets")
    with pytest.raises(ValueError, match="engine='exact' needs the table in memory"):
        make("regression", network__engine="exact").fit(files, "target")
    with pytest.raises(ValueError, match="max_terms=2 needs the table in memory to choose among 6 columns"):
        make("regression", max_terms=2).fit(files, "target")
    with pytest.raises(ValueError, match="keep_cache=True needs a cache_dir"):
        make("regression", storage__keep_cache=True).fit(files, "target")
    with pytest.raises(ValueError, match="memory_limit must be None"):
        make("regression", storage__memory_limit="a lot").fit(files, "target")


def fit_in_processes(files: str, folder: Path, keep: str, *seeds: str) -> list[list[str]]:
    """Lines that each process prints; `seeds` has one text per process, and all run at the same time."""
    command = [sys.executable, "-m", "tests.share_cache", files, str(folder), keep]
    children = [
        subprocess.Popen([*command, *each.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for each in seeds
    ]
    found = [child.communicate() for child in children]
    assert [child.returncode for child in children] == [0] * len(seeds), found
    return [out.splitlines() for out, _ in found]


def test_processes_that_share_a_cache_dir_give_the_models_that_each_gives_alone(tmp_path):
    files, folder = write_files(make_table("regression").select([*FEATURES, "target"]), tmp_path), tmp_path / "cache"
    together = fit_in_processes(files, folder, "remove", "1 1", "2 2")
    (alone,) = fit_in_processes(files, folder, "remove", "1 2")
    assert together == [[line] * 2 for line in alone]
    assert len(set(alone)) == 2
    assert not folder.exists()


def test_processes_that_keep_the_same_cache_write_it_once(tmp_path):
    files, folder = write_files(make_table("regression").select([*FEATURES, "target"]), tmp_path), tmp_path / "cache"
    left = folder / "cache-0badcafe"  # of a process that was killed
    left.mkdir(parents=True)
    (left / ".lock.rank-0").touch()
    (left / "bucket-000.rank-0.bin").write_bytes(b"half")
    found = [line.split() for lines in fit_in_processes(files, folder, "keep", *["0 0"] * 2) for line in lines]
    assert len({loss for loss, _ in found}) == 1
    assert sorted(written for _, written in found) == ["0"] * 3 + ["1"]
    assert sorted({path.name.split("-")[0] for path in folder.iterdir()}) == ["bucket", "manifest.rank", "profile.rank"]


class Cut(Exception):
    """Interrupts a fit."""


@pytest.mark.parametrize("look", [3, 12, 30])
def test_an_interrupted_fit_from_pools_resumes_to_the_same_model(look, tmp_path, small_memory):
    """In the first pool, in a later one, and in the pairs."""
    files = write_files(make_table("binary", 6000), tmp_path)
    given = {
        "storage__memory_limit": 400_000,
        "interactions": [("x0", "x1")],
        "max_steps": 75,
        "early_stopping_rounds": 0,
    }

    def cut(history):
        if len(history.steps) >= look:
            raise Cut

    kept = {"storage__checkpoint_dir": tmp_path / "state", "storage__checkpoint_every": 0.0}
    whole = make("binary", **given).fit(files, "target")
    with pytest.raises(Cut):
        make("binary", **given, **kept, callbacks=[cut]).fit(files, "target")
    assert list((tmp_path / "state" / "cache").glob("bucket-*"))  # for the fit that resumes
    found = make("binary", **given, **kept).fit(files, "target", resume=True)
    assert_equal_models(found, whole)
    assert found.history_.validation == whole.history_.validation
    assert not (tmp_path / "state" / "cache").exists()
