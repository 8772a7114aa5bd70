"""The paper's data sets: loaders on small files in the true formats.

Tests write files to a temporary folder that NEURALBASIS_DATA names. Real sets are read where they are.
"""

from __future__ import annotations

import bz2
import gzip
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks.datasets import paper
from benchmarks.datasets.paper import SETS, Part, Sizes, Source, Splits, cub, prepare
from benchmarks.datasets.paper.mimic2 import CODES, COLUMNS
from benchmarks.datasets.paper.source import RECORDED, compute_digest

ROOT = Path(__file__).resolve().parents[2]
pd = pytest.importorskip("pandas")

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
    ("numbers", "message"), [("8\n9\n", "one part only"), ("8\n99\n", "from 0 to 9"), ("a", "a line per")]
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


def test_pairs_of_drawn_concepts_interact_and_keep_their_shares() -> None:
    shares = np.array([[0.5, 0.5, 0.9], [0.5, 0.5, 0.1], [0.5, 0.6, 1.0]])
    y = np.repeat([0, 1, 2], 4000)
    shown = cub.draw_scores(shares, y) > cub.SHOWN / 2
    chance = norm.sf(cub.SHOWN / 2)  # of a wrong side of the middle, by noise
    means = np.stack([shown[y == label].mean(axis=0) for label in range(3)])
    assert means == pytest.approx(shares + chance * (1 - 2 * shares), abs=0.03)
    assert cub.choose_pairs(shares).tolist() == [[0, 1]]
    both = [np.corrcoef(shown[y == label][:, :2].T)[0, 1] for label in range(3)]
    assert np.abs(both) == pytest.approx([0.75, 0.65, 0.65], abs=0.15)
    assert abs(np.corrcoef(shown[y == 0][:, 1:].T)[0, 1]) < 0.06


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


def test_a_broken_record_of_checksums_is_named(folder: Path) -> None:
    write_concepts(folder / "inaturalist/concepts.npz")
    write(folder / RECORDED, "{")
    with pytest.raises(ValueError, match=r"checksums\.json: expected"):
        paper.load("inaturalist")
