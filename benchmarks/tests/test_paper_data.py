"""The paper's data sets: loaders on small files of the true formats, splits, preprocessing, and downloads.

Tests write the files to a folder of their own, which NEURALBASIS_DATA then names. Real sets are read where they are.
"""

from __future__ import annotations

import bz2
import doctest
import gzip
import http.server
import json
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from urllib.request import urlopen

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy of the source", allow_module_level=True)
pd = pytest.importorskip("pandas")

from benchmarks.datasets import paper  # noqa: E402
from benchmarks.datasets.paper import SETS, File, Part, Sizes, Source, Splits, prepare  # noqa: E402
from benchmarks.datasets.paper import splits as splits_module  # noqa: E402
from benchmarks.datasets.paper.download import download, fetch  # noqa: E402
from benchmarks.datasets.paper.mimic2 import CODES, COLUMNS  # noqa: E402
from benchmarks.datasets.paper.source import RECORDED, compute_digest  # noqa: E402
from benchmarks.datasets.paper.splits import check_sizes, draw_queries, split_shares  # noqa: E402

SMALL = Sizes(8, 2, 3, 4, 2)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder."""
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path / "cache"))
    return tmp_path


def shrink(key: str, sizes: Sizes) -> Source:
    """The set with other sizes; a published checksum is not that of a small file."""
    source = SETS[key]
    return replace(source, sizes=sizes, files=tuple(replace(file, sha256={}) for file in source.files))


def write(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def write_lines(table: np.ndarray, separator: str = ",") -> str:
    return "".join(separator.join(f"{value:.7g}" for value in row) + "\n" for row in table)


def write_svmlight(X: np.ndarray, y: np.ndarray, queries: np.ndarray | None = None) -> str:
    """Lines of libsvm's format; zeros are left out, as the real files do."""
    lines = []
    for row, values in enumerate(X):
        query = [] if queries is None else [f"qid:{queries[row]}"]
        stored = [f"{column + 1}:{value:.7g}" for column, value in enumerate(values) if value]
        lines.append(" ".join([f"{y[row]:g}", *query, *stored]))
    return "\n".join(lines) + "\n"


def make_table(n_rows: int, n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Columns, the first of which is the row number, and classes that take turns."""
    X = np.random.default_rng(0).normal(size=(n_rows, n_columns)).round(4)
    X[:, 0] = np.arange(n_rows)
    return X, np.arange(n_rows) % 2


def assert_rows(part: Part, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The part holds rows of this table with their targets; which."""
    rows = np.asarray(part.X)[:, 0].astype(int)
    assert np.asarray(part.X) == pytest.approx(X[rows], rel=1e-6)
    assert (part.y == y[rows]).all()
    return rows


def assert_parts(splits: Splits, X: np.ndarray, y: np.ndarray) -> list[np.ndarray]:
    """The parts are the table, every row once."""
    rows = [assert_rows(part, X, y) for part in splits.parts]
    assert sorted(np.concatenate(rows)) == list(range(len(y)))
    return rows


@pytest.mark.parametrize("name", ["HIGGS.csv.gz", "HIGGS.csv"])
def test_higgs(folder: Path, name: str) -> None:
    X, y = make_table(13, 4)
    text = write_lines(np.column_stack([y, X])).encode()
    write(folder / "higgs" / name, gzip.compress(text) if name.endswith("gz") else text)
    splits = shrink("higgs", SMALL).load()
    train, valid, test = assert_parts(splits, X, y)
    assert [len(train), len(valid), len(test)] == [8, 2, 3]
    assert list(test) == [10, 11, 12]
    assert splits.train.X.dtype == np.float32
    assert (splits.task, splits.recipe) == ("classification", "gaussian")
    assert np.bincount(splits.valid.y).tolist() == [1, 1]


def test_published_row_numbers_go_first(folder: Path) -> None:
    X, y = make_table(13, 4)
    write(folder / "higgs/HIGGS.csv", write_lines(np.column_stack([y, X])))
    write(folder / "higgs/train_idx.txt", "0\n1\n2\n3\n4\n5\n6\n9\n")
    write(folder / "higgs/valid_idx.txt", "8\n7\n")
    _, valid, _ = assert_parts(shrink("higgs", SMALL).load(), X, y)
    assert list(valid) == [7, 8]


@pytest.mark.parametrize(
    ("numbers", "message"), [("8\n9\n", "one part only"), ("8\n99\n", "from 0 to 9"), ("a", "a line")]
)
def test_wrong_row_numbers_name_their_file(folder: Path, numbers: str, message: str) -> None:
    X, y = make_table(13, 4)
    write(folder / "higgs/HIGGS.csv", write_lines(np.column_stack([y, X])))
    write(folder / "higgs/train_idx.txt", "0\n1\n2\n3\n4\n5\n6\n9\n")
    write(folder / "higgs/valid_idx.txt", numbers)
    with pytest.raises(ValueError, match=rf"valid_idx\.txt: .*{message}"):
        shrink("higgs", SMALL).load()


@pytest.mark.parametrize("is_packed", [True, False])
def test_year(folder: Path, is_packed: bool) -> None:
    X, _ = make_table(13, 4)
    y = 1999.0 + np.arange(13)
    text = write_lines(np.column_stack([y, X]))
    (folder / "year").mkdir()
    if is_packed:
        with zipfile.ZipFile(folder / "year/YearPredictionMSD.txt.zip", "w") as archive:
            archive.writestr("YearPredictionMSD.txt", text)
    else:
        write(folder / "year/YearPredictionMSD.txt", text)
    splits = shrink("year", replace(SMALL, n_classes=0)).load()
    assert list(assert_parts(splits, X, y)[2]) == [10, 11, 12]
    assert splits.test.y.tolist() == [2009, 2010, 2011]


@pytest.mark.parametrize("suffix", [".bz2", ""])
def test_epsilon(folder: Path, suffix: str) -> None:
    X, y = make_table(13, 4)
    signs = 2 * y - 1
    pack = bz2.compress if suffix else bytes
    write(folder / f"epsilon/epsilon_normalized{suffix}", pack(write_svmlight(X[:10], signs[:10]).encode()))
    write(folder / f"epsilon/epsilon_normalized.t{suffix}", pack(write_svmlight(X[10:], signs[10:]).encode()))
    splits = shrink("epsilon", SMALL).load()
    assert list(assert_parts(splits, X, y)[2]) == [10, 11, 12]
    assert splits.train.X.dtype == np.float32


def write_microsoft(folder: Path, X: np.ndarray, y: np.ndarray, queries: np.ndarray) -> Path:
    path = folder / "microsoft/MSLR-WEB10K.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("Fold1/train.txt", write_svmlight(X[:10], y[:10], queries[:10]))
        archive.writestr("Fold1/vali.txt", "0 qid:1 1:777\n")
        archive.writestr("Fold1/test.txt", write_svmlight(X[10:], y[10:], queries[10:]))
    return path


def test_microsoft_keeps_queries_together(folder: Path) -> None:
    X, _ = make_table(13, 4)
    y = np.arange(13) % 5.0
    queries = np.array([1, 1, 1, 16, 16, 16, 31, 31, 46, 46, 61, 61, 61])
    write_microsoft(folder, X, y, queries)
    splits = shrink("microsoft", replace(SMALL, n_classes=0)).load()
    train, valid, test = assert_parts(splits, X, y)
    assert not set(queries[train]) & set(queries[valid])
    assert len(valid) == 2
    assert list(test) == [10, 11, 12]


def test_yahoo(folder: Path) -> None:
    X, _ = make_table(13, 4)
    y = np.arange(13) % 5.0
    for part, rows in (("train", slice(0, 8)), ("valid", slice(8, 10)), ("test", slice(10, 13))):
        write(folder / f"yahoo/set1.{part}.txt", write_svmlight(X[rows], y[rows], np.arange(13)[rows]))
    splits = shrink("yahoo", replace(SMALL, n_classes=0)).load()
    assert [list(rows) for rows in assert_parts(splits, X, y)] == [list(range(8)), [8, 9], [10, 11, 12]]


def test_mimic2(folder: Path) -> None:
    X, y = make_table(100, 17)
    X[:, [COLUMNS.index(name) for name in CODES]] = (np.arange(100) % 3)[:, None]
    write(folder / "mimic2/mimic2.data", write_lines(np.column_stack([X, y]), " "))
    splits = shrink("mimic2", Sizes(69, 11, 20, 17, 2)).load()
    assert_parts(splits, X, y)
    assert tuple(splits.train.X.columns) == COLUMNS[:-1]
    assert {name for name in COLUMNS[:-1] if splits.train.X[name].dtype == "category"} == set(CODES)


def test_click(folder: Path) -> None:
    rng = np.random.default_rng(0)
    names = [*SETS["click"].levels, "impression", "depth", "position"]
    table = pd.DataFrame(rng.integers(0, 9, size=(13, len(names))), columns=names)
    table["impression"] = np.arange(13)
    table.insert(0, "target", np.where(np.arange(13) % 2, 1, -1))
    (folder / "click").mkdir()
    table.to_csv(folder / "click/click.csv")
    splits = shrink("click", replace(SMALL, n_features=11)).load()
    for part in splits.parts:
        rows = part.X["impression"].to_numpy()
        assert (part.y == rows % 2).all()
        assert (part.X["user_id"].astype(int).to_numpy() == table["user_id"].to_numpy()[rows]).all()
    assert splits.test.X["impression"].tolist() == [10, 11, 12]
    assert [str(part.X["ad_id"].dtype) for part in splits.parts] == ["category"] * 3


@pytest.mark.parametrize("name", ["creditcard.csv", "creditcard.parquet"])
def test_credit(folder: Path, name: str) -> None:
    X, y = make_table(100, 30)
    table = pd.DataFrame(X, columns=["Time", *(f"V{number}" for number in range(1, 29)), "Amount"]).assign(Class=y)
    (folder / "credit").mkdir()
    table.to_csv(folder / "credit" / name, index=False) if name.endswith("csv") else table.to_parquet(
        folder / "credit" / name
    )
    assert_parts(shrink("credit", Sizes(69, 11, 20, 30, 2)).load(), X, y)


def test_fico_has_levels(folder: Path) -> None:
    levels = {"MaxDelq2PublicRecLast12M": np.arange(100) % 4, "MaxDelqEver": np.arange(100) % 3}
    table = pd.DataFrame({"RiskPerformance": ["Bad", "Good"] * 50, "ExternalRiskEstimate": np.arange(100), **levels})
    (folder / "fico_heloc").mkdir()
    table.to_csv(folder / "fico_heloc/heloc_dataset_v1.csv", index=False)
    splits = shrink("fico", Sizes(69, 11, 20, 1 + 4 + 3, 2)).load()
    prepared = prepare(splits)
    rows = splits.train.X["ExternalRiskEstimate"].to_numpy()
    assert (splits.train.y == 1 - rows % 2).all()
    assert prepared.train.X.shape == (69, 8)
    assert (prepared.train.X[:, 1:5].argmax(axis=1) == rows % 4).all()
    assert (prepared.train.X[:, 1:].sum(axis=1) == 2).all()


def write_concepts(path: Path, **changed: np.ndarray) -> None:
    X, _ = make_table(45, 4)
    labels = np.array(["jay", "owl", "wren"])[np.arange(45) % 3]
    arrays = {"X_train": X[:30], "y_train": labels[:30], "X_valid": X[30:], "y_valid": labels[30:]}
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **{name: changed.get(name, values) for name, values in arrays.items()})


def test_concepts_of_pictures(folder: Path) -> None:
    write_concepts(folder / "inaturalist/concepts.npz")
    splits = shrink("inaturalist", Sizes(30, 15, None, 4, 3)).load()
    X, _ = make_table(45, 4)
    train, valid, test = assert_parts(splits, X, np.arange(45) % 3)
    assert [len(train), len(valid)] == [27, 3]
    assert list(test) == list(range(30, 45))
    assert np.bincount(splits.valid.y).tolist() == [1, 1, 1]


def test_unknown_classes_of_pictures_are_named(folder: Path) -> None:
    write_concepts(folder / "inaturalist/concepts.npz", y_valid=np.array(["dodo"] * 15))
    with pytest.raises(ValueError, match=r"concepts\.npz: y_valid has classes .*: dodo"):
        shrink("inaturalist", Sizes(30, 15, None, 4, 3)).load()


def write_cub(folder: Path, n_pictures: int = 90) -> None:
    """Three classes, of which every third picture is tested; four attributes, one of the whole bird."""
    names = ["has_beak_shape::dagger", "has_primary_color::blue", "has_leg_color::red", "has_wing_color::grey"]
    shares = "100 0 0 0\n0 100 100 0\n0 0 0 100\n"
    write(folder / "cub/attributes.txt", "".join(f"{number + 1} {name}\n" for number, name in enumerate(names)))
    write(folder / "cub/attributes/class_attribute_labels_continuous.txt", shares)
    pictures = np.arange(n_pictures)
    write(folder / "cub/image_class_labels.txt", "".join(f"{i + 1} {i // 30 + 1}\n" for i in pictures))
    write(folder / "cub/train_test_split.txt", "".join(f"{i + 1} {int(i % 3 > 0)}\n" for i in pictures))


def test_cub_is_drawn_from_the_shares_of_classes(folder: Path) -> None:
    write_cub(folder)
    splits = shrink("cub", Sizes(60, 30, None, 3, 3)).load()
    assert splits.name == "CUB (drawn)"
    assert [part.X.shape for part in splits.parts] == [(54, 3), (6, 3), (30, 3)]
    assert (splits.test.y == np.repeat([0, 1, 2], 10)).all()
    means = np.stack([splits.train.X[splits.train.y == label].mean(axis=0) for label in range(3)])
    assert means == pytest.approx(3 * np.eye(3), abs=1)
    again = shrink("cub", Sizes(60, 30, None, 3, 3)).load()
    assert (again.train.X == splits.train.X).all()


def test_cub_reads_scores_where_they_are(folder: Path) -> None:
    write_cub(folder)
    write_concepts(folder / "cub/concepts.npz")
    splits = shrink("cub", Sizes(30, 15, None, 4, 3)).load()
    assert splits.test.X[:, 0].tolist() == list(range(30, 45))
    assert splits.name == "CUB"


def test_common_objects_are_sparse() -> None:
    splits = shrink("common_objects", Sizes(500, 150, None, 300, 20)).load()
    assert [part.X.shape for part in splits.parts] == [(450, 300), (50, 300), (150, 300)]
    assert splits.train.X.nnz / (450 * 300) == pytest.approx(0.03, abs=0.005)
    assert prepare(splits).train.X.dtype == np.float32


HIGGS_LINES = write_lines(np.column_stack([make_table(13, 4)[1], make_table(13, 4)[0]])).encode()
BROKEN = {
    "cut off": ("higgs/HIGGS.csv", HIGGS_LINES[:-40], "too few|only 12 lines"),
    "short": ("higgs/HIGGS.csv", b"".join(HIGGS_LINES.splitlines(True)[:9]), "only 9 lines"),
    "long": ("higgs/HIGGS.csv", HIGGS_LINES * 2, "more lines"),
    "text": ("higgs/HIGGS.csv", HIGGS_LINES.replace(b"1", b"one"), "13 lines of 5 numbers"),
    "narrow": ("higgs/HIGGS.csv", b"1,2\n" * 13, "2 values"),
    "packed, cut off": ("higgs/HIGGS.csv.gz", gzip.compress(HIGGS_LINES)[:-20], "13 lines of 5 numbers"),
    "not packed": ("higgs/HIGGS.csv.gz", HIGGS_LINES, "13 lines of 5 numbers"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_broken_files_are_named(folder: Path, case: str) -> None:
    name, content, message = BROKEN[case]
    write(folder / name, content)
    with pytest.raises(ValueError, match=f"{Path(name).name}: expected .*({message})"):
        shrink("higgs", SMALL).load()
    assert not (folder / RECORDED).exists()


def test_broken_lines_of_svmlight_are_named(folder: Path) -> None:
    X, y = make_table(13, 4)
    write(folder / "epsilon/epsilon_normalized", write_svmlight(X[:10], y[:10]).replace("1:5", "9:5"))
    write(folder / "epsilon/epsilon_normalized.t", write_svmlight(X[10:], y[10:]))
    with pytest.raises(ValueError, match="epsilon_normalized: expected 10 lines"):
        shrink("epsilon", SMALL).load()
    write(folder / "epsilon/epsilon_normalized", bz2.compress(b"1 1:2\n")[:-4])
    with pytest.raises(ValueError, match="epsilon_normalized: expected 10 lines"):
        shrink("epsilon", SMALL).load()


def test_a_zip_file_without_its_member_is_named(folder: Path) -> None:
    (folder / "microsoft").mkdir()
    with zipfile.ZipFile(folder / "microsoft/MSLR-WEB10K.zip", "w") as archive:
        archive.writestr("Fold2/train.txt", "0 qid:1 1:1\n")
    with pytest.raises(ValueError, match=r"MSLR-WEB10K\.zip/Fold1/train\.txt: expected 10 lines"):
        shrink("microsoft", SMALL).load()


@pytest.mark.parametrize(
    ("key", "name", "content"),
    [
        ("mimic2", "mimic2/mimic2.data", "1 2 3\n" * 5),
        ("click", "click/click.csv", ",target,depth\n0,1,2\n"),
        ("credit", "credit/creditcard.csv", "Time,V1\n1,2\n"),
        ("credit", "credit/creditcard.parquet", "PAR1"),
        ("inaturalist", "inaturalist/concepts.npz", "PK"),
        ("fico", "fico_heloc/heloc_dataset_v1.csv", "Risk,x\nBad,1\n"),
        ("ca_housing", "sklearn_home/cal_housing_py3.pkz", "x"),
        ("newsgroups", "sklearn_home/20news-bydate_py3.pkz", "x"),
    ],
)
def test_other_tables_are_named(folder: Path, key: str, name: str, content: str) -> None:
    write(folder / name, content)
    with pytest.raises(ValueError, match=f"{Path(name).name}: expected"):
        shrink(key, SMALL).load()


def test_wrong_sizes_are_told() -> None:
    part = Part(np.zeros((4, 3)), np.array([0, 1, 0, 1]))
    splits = Splits("Four", "classification", part, part, part, "minmax")
    check_sizes(splits, Sizes(4, 4, 4, 3, 2))
    check_sizes(splits, Sizes(5, 3, 4, 3, 2), slack=1)
    with pytest.raises(ValueError, match=r"Four: expected 5 / 4 / 4 rows .* got 4 / 4 / 4"):
        check_sizes(splits, Sizes(5, 4, 4, 3, 2), slack=1)
    with pytest.raises(ValueError, match="Four: expected 7 features, got 3"):
        check_sizes(splits, Sizes(4, 4, 4, 7, 2))
    with pytest.raises(ValueError, match="Four: expected 3 classes in the rows to train, got 2"):
        check_sizes(splits, Sizes(4, 4, 4, 3, 3))


def test_checksums_are_recorded_and_compared(folder: Path) -> None:
    X, y = make_table(13, 4)
    path = write(folder / "higgs/HIGGS.csv", write_lines(np.column_stack([y, X])))
    source = shrink("higgs", SMALL)
    source.load()
    assert json.loads((folder / RECORDED).read_text()) == {"higgs/HIGGS.csv": compute_digest(path)}
    write(path, write_lines(np.column_stack([y, X + 1])))
    with pytest.raises(ValueError, match=r"HIGGS\.csv: expected sha256 .* in .*checksums\.json"):
        source.load()
    write(folder / RECORDED, json.dumps({"higgs/HIGGS.csv": compute_digest(path)}))
    assert source.load().test.X[0, 0] == 11


def test_published_checksums_are_compared(folder: Path) -> None:
    write(folder / "higgs/HIGGS.csv.gz", b"something else")
    with pytest.raises(ValueError, match=r"HIGGS\.csv\.gz: expected sha256 ea302c18"):
        paper.load("higgs")


@pytest.mark.parametrize(
    ("n_rows", "sizes"),
    [
        (20_640, (14_447, 2_065, 4_128)),
        (10_459, (7_321, 1_046, 2_092)),
        (24_508, (17_155, 2_451, 4_902)),
        (284_807, (199_364, 28_481, 56_962)),
        (581_012, (406_707, 58_102, 116_203)),
    ],
)
def test_shares_are_rounded_as_in_the_paper(n_rows: int, sizes: tuple[int, int, int]) -> None:
    X, y = np.arange(n_rows)[:, None], np.arange(n_rows) % 2
    parts = split_shares(X, y, "classification")
    assert tuple(len(part.y) for part in parts) == sizes
    assert len(np.unique(np.concatenate([part.X for part in parts]))) == n_rows
    assert [part.y.mean() for part in parts] == pytest.approx([0.5] * 3, abs=0.001)


@given(st.lists(st.integers(1, 30), min_size=3, max_size=60), st.integers(0, 200))
def test_queries_stay_whole(counts: list[int], n_valid: int) -> None:
    queries = np.repeat(np.arange(len(counts)), counts)
    train, valid = draw_queries(queries, n_valid)
    assert sorted([*train, *valid]) == list(range(len(queries)))
    assert not set(queries[train]) & set(queries[valid])
    assert len(valid) <= n_valid
    if len(train):  # no query to train on would have fitted
        assert min(counts[query] for query in set(queries[train])) > n_valid - len(valid)


def make_splits(recipe: str, rest: float) -> Splits:
    """Rows to train that are always the same; others are spread as told."""
    rng = np.random.default_rng(0)

    def make(n_rows: int, spread: float) -> Part:
        X = np.column_stack([spread * rng.normal(size=n_rows), np.arange(n_rows) % 2, np.full(n_rows, 5.0)])
        return Part(X, np.arange(n_rows) % 2)

    return Splits("Made", "classification", make(3_000, 1), make(50, rest), make(50, rest), recipe)


@pytest.mark.parametrize("recipe", ["minmax", "gaussian"])
def test_scalers_see_rows_to_train_only(recipe: str) -> None:
    near, far = prepare(make_splits(recipe, 0.1)), prepare(make_splits(recipe, 1_000))
    assert (near.train.X == far.train.X).all()
    assert far.train.X.dtype == np.float32
    low, high = (0, 1) if recipe == "minmax" else (-5.2, 5.2)
    assert far.test.X.min() >= low
    assert far.test.X.max() <= high
    assert np.unique(far.test.X[:, 0].round(1)).size < 6  # nearly all are beyond the rows to train
    assert (near.train.X[:, 2] == 0).all()


def test_numbers_become_normal() -> None:
    splits = make_splits("gaussian", 1)
    before = splits.train.X.copy()
    X = prepare(splits).train.X
    ranks = before[:, 0].argsort().argsort()
    assert np.quantile(X[:, 0], [0.1, 0.5, 0.9]) == pytest.approx([-1.2816, 0, 1.2816], abs=0.03)
    assert np.corrcoef(ranks, X[:, 0].argsort().argsort())[0, 1] > 0.9999
    assert np.unique(X[:, 1]) == pytest.approx([-0.6745, 0.6745], abs=0.05)  # the middles of the two halves
    assert (before == splits.train.X).all()


def test_levels_become_means_of_rows_to_train() -> None:
    def make(levels: list[str | None], y: list[int]) -> Part:
        column = pd.Series(pd.Categorical(levels, categories=["a", "b", "c", "d"]))
        return Part(pd.DataFrame({"kind": column}), np.array(y))

    train = make(["a"] * 4 + ["b"] * 4 + ["c"], [0, 0, 0, 1, 1, 1, 1, 0, 0])
    others = make(["a", "b", "c", "d", None], [1, 1, 1, 1, 1])
    prepared = prepare(Splits("Made", "classification", train, others, others, "gaussian"))
    a, b, c, d, missing = prepared.test.X[:, 0]
    assert a < c < b  # 1/4, 4/9 and 3/4: one row says nothing of others
    assert c == d == missing
    assert prepared.train.X[0, 0] == a


def test_missing_numbers_name_their_column() -> None:
    part = Part(pd.DataFrame({"age": [1.0, np.nan]}), np.zeros(2))
    with pytest.raises(ValueError, match="Made: column age has missing"):
        prepare(Splits("Made", "regression", part, part, part, "gaussian"))


@pytest.mark.parametrize("key", SETS)
def test_stand_ins_have_the_columns_of_the_set(key: str) -> None:
    splits = paper.load(key, quick=True)
    source = SETS[key]
    assert (splits.task, splits.recipe) == (source.task, source.recipe)
    assert splits.name.endswith("(generated)")
    if key not in ("newsgroups", "common_objects"):
        assert splits.train.X.shape[1] == (source.n_columns or source.sizes.n_features)
    if key != "epsilon":  # slow: 2,000 columns
        prepared = prepare(splits)
        expected = {"newsgroups": splits.train.X.shape[1], "common_objects": 300}.get(key, source.sizes.n_features)
        assert [part.X.shape for part in prepared.parts] == [(len(part.y), expected) for part in splits.parts]
        assert prepared.train.X.dtype == np.float32


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; the file "short" promises more bytes than it has."""

    def log_message(self, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path != "/short":
            return super().do_GET()
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 10)
        return None


@pytest.fixture
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Of a server that has the file "numbers"."""
    served = tmp_path_factory.mktemp("served")
    (served / "numbers").write_bytes(b"1 2 3\n")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(served))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


OTHER = "0" * 64  # no file's checksum


def test_download(folder: Path, address: str) -> None:
    download(f"{address}/numbers", folder / "set/numbers.txt")
    assert (folder / "set/numbers.txt").read_bytes() == b"1 2 3\n"
    assert [path.name for path in (folder / "set").iterdir()] == ["numbers.txt"]


@pytest.mark.parametrize(
    ("name", "sha256", "message"),
    [
        ("short", None, "1,000 bytes, got 10"),
        ("absent", None, "404"),
        ("numbers", OTHER, f"sha256 {OTHER}"),
    ],
)
def test_a_failed_download_leaves_nothing(folder: Path, address: str, name: str, sha256: str, message: str) -> None:
    with pytest.raises(OSError, match=rf"{message}.*place the file as .*numbers\.txt"):
        download(f"{address}/{name}", folder / "set/numbers.txt", sha256)
    assert list((folder / "set").iterdir()) == []


def test_without_a_network_the_file_to_place_is_named(folder: Path) -> None:
    with pytest.raises(OSError, match=r"could not be fetched: .*; place the file as .*numbers\.txt"):
        download("http://127.0.0.1:9/numbers", folder / "numbers.txt")
    assert list(folder.iterdir()) == []


def test_fetching_a_set(folder: Path, address: str, capsys: pytest.CaptureFixture[str]) -> None:
    files = (File(("set/numbers",), f"{address}/numbers"), File(("set/more",), f"{address}/more", optional=True))
    source = replace(SETS["higgs"], files=files)
    assert "set/numbers not in" in source.find_missing()
    fetch(source)
    assert source.find_missing() is None
    assert "Higgs can be read without this: " in capsys.readouterr().out
    assert [path.name for path in (folder / "set").iterdir()] == ["numbers"]


def test_what_scikit_learn_cannot_fetch_is_named(folder: Path) -> None:
    source = replace(SETS["ca_housing"], fetch=lambda home: urlopen("http://127.0.0.1:9/cal_housing.tgz"))
    with pytest.raises(
        OSError, match=r"could not fetch it: .* sklearn_home/cal_housing_py3\.pkz not in .*SCIKIT_LEARN_DATA"
    ):
        fetch(source)


def test_sets_that_nobody_can_fetch_say_what_to_place(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"mimic2/mimic2\.data not in .*PhysioNet"):
        paper.load("mimic2", fetch=True)


@pytest.mark.parametrize("key", SETS)
def test_missing_files_are_named_with_their_folder(folder: Path, key: str) -> None:
    problem = paper.find_missing(key)
    if key == "common_objects":
        assert problem is None
        return
    assert problem is not None
    assert all(file.paths[0] in problem for file in SETS[key].files if not file.optional)
    assert str(folder) in problem
    with pytest.raises(FileNotFoundError, match="NEURALBASIS_DATA"):
        paper.load(key)
    assert list(folder.iterdir()) == []  # nothing is fetched unasked


def test_caches_of_scikit_learn_are_found(folder: Path) -> None:
    write(folder / "cache/cal_housing_py3.pkz", b"")
    write(folder / "cache/covertype/samples_py3", b"")
    write(folder / "cache/covertype/targets_py3", b"")
    assert [paper.find_missing(key) for key in ("ca_housing", "covertype")] == [None, None]


def test_a_broken_record_of_checksums_is_named(folder: Path) -> None:
    write_concepts(folder / "inaturalist/concepts.npz")
    write(folder / RECORDED, "{")
    with pytest.raises(ValueError, match=r"checksums\.json: expected"):
        paper.load("inaturalist")


@pytest.mark.parametrize(
    "module", [paper, splits_module, sys.modules[prepare.__module__]], ids=lambda module: module.__name__
)
def test_examples(module: ModuleType) -> None:
    found = doctest.testmod(module)
    assert (found.failed, found.attempted > 0) == (0, True)


def test_an_unknown_set_is_told() -> None:
    with pytest.raises(ValueError, match=r"one of ca_housing, fico, .* not 'iris'"):
        paper.load("iris")


def test_the_command_lists_all_sets(folder: Path) -> None:
    command = [sys.executable, "-m", "benchmarks.datasets.paper"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    states = {row.split("|")[2].strip(): row.split("|")[5].strip() for row in done.stdout.splitlines() if "|" in row}
    assert {key: states[key] for key in SETS} == dict.fromkeys(SETS, "missing") | {"common_objects": "drawn"}
    assert "FICO: fico_heloc/heloc_dataset_v1.csv not in" in done.stdout
    refused = subprocess.run([*command, "--fetch", "yahoo"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "Yahoo: yahoo/set1.train.txt" in refused.stdout


@pytest.mark.parametrize("key", ["ca_housing", "fico", "newsgroups", "credit", "cub", "covertype"])
def test_real_sets_have_the_paper_s_sizes(key: str) -> None:
    problem = paper.find_missing(key)
    if problem:
        pytest.skip(problem)
    splits = paper.load(key)
    sizes = SETS[key].sizes
    assert tuple(len(part.y) for part in splits.parts) == sizes.count_rows()
    if splits.recipe != "gaussian":  # slow
        prepared = prepare(splits)
        assert [part.X.shape[1] for part in prepared.parts] == [sizes.n_features] * 3
        assert (prepared.train.X.min(), prepared.train.X.max()) == (0, pytest.approx(1, abs=0.01))
    if splits.task == "classification":
        assert np.unique(splits.train.y).tolist() == list(range(sizes.n_classes))
