"""The benchmarks run: every script in `--quick`, as a process; its tables hold the expected rows and finite numbers."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy of the source", allow_module_level=True)

from benchmarks import baselines, datasets  # noqa: E402
from benchmarks.accuracy import interactions, main_effects, planted  # noqa: E402
from benchmarks.accuracy.measure import Cell, find_done, measure, score  # noqa: E402
from benchmarks.accuracy.studies import Line, move_splits, write_line  # noqa: E402
from benchmarks.accuracy.targets import at_least_ebm, at_most, at_most_part_of_ebm  # noqa: E402
from benchmarks.datasets.objects import draw_objects, find_frequent_pairs, make_world  # noqa: E402
from benchmarks.harness import read_option  # noqa: E402
from benchmarks.results.markdown import format_mean, format_number, format_verdict  # noqa: E402
from benchmarks.speed.predict import make_frame  # noqa: E402
from benchmarks.speed.resources import ON_LINUX, PeakMemory, resident_mb  # noqa: E402

HAS_EBM = baselines.is_installed("ebm")
needs_ebm = pytest.mark.skipif(not HAS_EBM, reason="needs the package interpret-core (extra 'benchmarks')")


@dataclass(frozen=True)
class Table:
    """A printed table: header, and rows by their first cell."""

    header: list[str]
    rows: list[list[str]]

    @property
    def names(self) -> list[str]:
        return [row[0] for row in self.rows]

    def numbers(self, column: str) -> list[float]:
        at = self.header.index(column)
        return [float(row[at].replace(",", "").split()[0]) for row in self.rows]


def run(*arguments: str) -> str:
    done = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def read_tables(text: str) -> list[Table]:
    """The Markdown tables of a text."""
    found: list[list[list[str]]] = [[]]
    for line in text.splitlines():
        if line.startswith("|"):
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
        elif found[-1]:
            found.append([])
    tables = [Table(lines[0], lines[2:]) for lines in found if lines]
    assert all(len(row) == len(table.header) for table in tables for row in table.rows)
    return tables


def assert_positive(numbers: list[float]) -> None:
    assert numbers
    assert all(math.isfinite(number) and number > 0 for number in numbers)


def test_main_effects() -> None:
    (table,) = read_tables(run("benchmarks.accuracy.main_effects", "--quick", "--only", "ca"))
    assert [row[:2] for row in table.rows] == [
        ["CA Housing", metric] for metric in ("rmse", "fit seconds", "peak MB", "predict rows/s")
    ]
    assert_positive(table.numbers("ours"))
    verdicts = [row[table.header.index("verdict")] for row in table.rows]
    assert verdicts[0] in ("met", "missed")
    if HAS_EBM:
        assert_positive(table.numbers("ours / EBM"))
        assert all(math.isfinite(number) for number in table.numbers("EBM"))
        assert verdicts[1] in ("met", "missed")


def test_interactions() -> None:
    """Telco, the set with columns of text; the learners have pairs."""
    (table,) = read_tables(run("benchmarks.accuracy.interactions", "--quick", "--only", "telco"))
    metrics = ["auroc", "log loss", "fit seconds", "peak MB", "terms", "predict rows/s"]
    assert [row[:2] for row in table.rows] == [["Telco churn", metric] for metric in metrics]
    assert table.header[-5:] == ["paper NB²M", "paper EB²M", "paper XGBoost", "target", "verdict"]
    for name in ("ours", *["EBM"] * HAS_EBM):
        assert_positive(table.numbers(name))
    if HAS_EBM:
        assert table.numbers("EBM")[4] == 19 + 3 * 19


def test_covertype_prints_its_parameters() -> None:
    text = run("benchmarks.accuracy.covertype", "--quick", "--terms", "triples", "--set", "interactions=9", "triples=2")
    assert text.splitlines()[0] == "interactions=9, triples=2; the rest at its default"
    (table,) = read_tables(text)
    assert [row[1] for row in table.rows][::2] == ["accuracy", "fit seconds", "terms"]
    assert_positive(table.numbers("ours"))
    assert table.rows[0][table.header.index("paper NB³M")] == "0.9634"


def test_covertype_knows_the_parameters() -> None:
    command = [sys.executable, "-m", "benchmarks.accuracy.covertype", "--quick", "--set", "outer_bagz=2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no parameter outer_bagz" in done.stderr


def test_planted() -> None:
    (table,) = read_tables(run("benchmarks.accuracy.planted", "--quick", "--ebm-mains"))
    assert table.names == ["regression", "2 classes", "4 classes"]
    rankers = ["ours", *["FAST", "FAST after mains"] * HAS_EBM]
    for name in rankers:
        assert all(3 <= rank <= 28 for rank in table.numbers(name))
        assert_positive(table.numbers(f"{name} s"))


def test_epoch() -> None:
    (table,) = read_tables(run("benchmarks.speed.epoch", "--quick"))
    assert [name.split(",")[0] for name in table.names] == [
        "grid engine", "exact engine", "network on every cell", "grid engine", "grid engine",
    ]  # fmt: skip
    assert_positive(table.numbers("seconds an epoch") + table.numbers("times faster") + table.numbers("steps timed"))
    assert table.numbers("times faster")[2] == 1


def test_predict() -> None:
    throughput, latency, first = read_tables(run("benchmarks.speed.predict", "--quick"))
    ours, ebm = ["ours", "ours, model_"], ["EBM"] * HAS_EBM
    assert throughput.names == [*ours, *ebm, "network"]
    assert latency.names == [*ours, *ebm]
    assert first.names == ["ours, model_"]
    assert_positive(throughput.numbers("value") + latency.numbers("value") + first.numbers("seconds"))
    assert first.rows[0][2] == "no"  # the fitted model needs no torch


def test_predict_with_pairs() -> None:
    text = run("benchmarks.speed.predict", "--quick", "--pairs", "10")
    assert "10 pairs" in text.splitlines()[0]
    throughput, latency, _first = read_tables(text)
    assert throughput.names == latency.names == ["ours", "ours, model_", *["EBM"] * HAS_EBM]  # the network has no pairs
    assert_positive(throughput.numbers("value") + latency.numbers("value"))
    if HAS_EBM:
        assert throughput.rows[2][throughput.header.index("target")] == "≥ 1 ×"


def test_predict_from_a_frame_with_text() -> None:
    text = run("benchmarks.speed.predict", "--quick", "--mixed")
    assert text.splitlines()[0].endswith("a pandas frame, half of the columns text")
    throughput, latency, _first = read_tables(text)
    assert throughput.names == latency.names == ["ours", "ours, model_", *["EBM"] * HAS_EBM]
    assert_positive(throughput.numbers("value") + latency.numbers("value"))


def test_make_frame_cuts_half_of_the_columns_into_tenths() -> None:
    rows = np.random.default_rng(0).random((1000, 4))
    frame = make_frame(rows, rows)
    np.testing.assert_array_equal(frame[["number 0", "number 1"]], rows[:, :2])
    assert frame["text 2"].value_counts().to_dict() == {f"level {tenth}": 100 for tenth in range(10)}
    assert frame["text 3"][rows[:, 3].argmax()] == "level 9"


def test_update() -> None:
    (table,) = read_tables(run("benchmarks.speed.update", "--quick"))
    assert [row[1:3] for row in table.rows] == [["fit", "1,800"], ["update", "200"], ["refit", "2,000"]]
    assert_positive(table.numbers("seconds"))
    assert_positive(table.numbers("mean squared error"))


def test_growth() -> None:
    (table,) = read_tables(run("benchmarks.speed.growth", "--quick"))
    assert [row[:2] for row in table.rows] == [["500", "5"]]
    for column in ("fit s", "steps", "MB before", "peak MB", "encode s", "epoch s", "predict s", "s / 10⁶ cells"):
        assert_positive(table.numbers(column))


def test_beyond() -> None:
    (table,) = read_tables(run("benchmarks.speed.beyond", "--quick"))
    assert table.names == ["from disk, 745MB"]
    for column in ("seconds", "profile s", "cache s", "training s", "pools s", "pools", "steps", "log loss"):
        assert_positive(table.numbers(column))
    assert table.numbers("peak MB")[0] < 745
    assert table.numbers("bytes a step") == [0.0]  # there is one process


def test_newsgroups() -> None:
    text = run("benchmarks.accuracy.newsgroups", "--quick")
    split, whole, targets, words = read_tables(text)
    assert "the paper's split: 525 documents" in text
    assert "all training documents: 600 documents" in text
    assert split.names == ["neuralbasis", "LinearSVC", "paper, NBM", "paper, linear", "paper, MLP"]
    assert_positive(split.numbers("accuracy"))
    for column in ("accuracy", "peak MB", "predict documents/s"):
        assert_positive(whole.numbers(column))
    assert_positive(whole.numbers("fit seconds")[:1])  # the other is rounded to nothing
    assert whole.rows[1][2] == "–"  # a support vector machine has no probabilities
    assert [row[3] for row in targets.rows] == ["met" if judge_line(row) else "missed" for row in targets.rows]
    for group, found in words.rows:
        assert all(word.startswith(f"{group}word") for word in found.split()[:3])


def judge_line(row: list[str]) -> bool:
    """Whether a line of value and target is met."""
    value, (sign, limit) = float(row[1].replace(",", "")), row[2].replace(",", "").split()
    return value <= float(limit) if sign == "≤" else value >= float(limit)


def test_objects() -> None:
    text = run("benchmarks.speed.objects", "--quick")
    assert text.startswith("1,500 rows × 500 columns, 45 classes, 95% absent")
    table, targets = read_tables(text)
    assert table.names == ["neuralbasis, pairs", "neuralbasis, main effects", "linear softmax", "the truth"]
    assert table.numbers("terms") == [600, 500, 500, 501]
    assert all(0 < accuracy < 1 for accuracy in table.numbers("accuracy"))
    assert max(table.numbers("accuracy")[:3]) < table.numbers("accuracy")[3]
    for column in ("fit s", "peak MB", "predict rows/s"):
        assert_positive(Table(table.header, table.rows[:3]).numbers(column))
    assert [row[3] for row in targets.rows] == ["met" if judge_line(row) else "missed" for row in targets.rows]


def test_concepts() -> None:
    text = run("benchmarks.speed.concepts", "cub", "birds", "--quick")
    assert "600 rows × 6 concepts (drawn), 60 classes" in text
    for table, target in zip(read_tables(text), ("–", "≥ 74,000"), strict=True):
        figures = {row[0]: row[1:] for row in table.rows}
        assert figures["predict, rows/s"][1] == target
        assert all(0 <= float(figures[name][0]) < 1 for name in ("accuracy", "accuracy of the shares"))
        judged = [row for row in table.rows if row[2] != "–"]
        assert [row[3] for row in judged] == ["met" if judge_line(row) else "missed" for row in judged]


def test_detection() -> None:
    (table,) = read_tables(run("benchmarks.speed.detection", "--quick"))
    figures = {row[0]: row[1:] for row in table.rows}
    assert float(figures["mAP"][0]) > float(figures["mAP of random scores"][0]) > 0
    assert figures["distance, 200 pictures at once"][2] == "met"


def test_sparse_growth() -> None:
    (table,) = read_tables(run("benchmarks.speed.sparse_growth", "--quick"))
    assert [row[:3] for row in table.rows] == [
        ["entries", "2,000", "1,000"], ["entries", "4,000", "1,000"], ["columns", "3,000", "2,000"],
    ]  # fmt: skip
    for column in ("fit s", "epoch s", "predict s", "peak MB"):
        assert_positive(table.numbers(column))
    assert table.numbers("ratio")[::2] == [1, 1]  # the first line of each part


def test_serve() -> None:
    (table,) = read_tables(run("benchmarks.speed.serve", "--quick"))
    assert table.names[0] == "the file, MB"
    assert_positive(table.numbers("value")[:-1])
    assert table.names[-1] == "2 threads: wrong answers"
    assert table.numbers("value")[-1] == 0


def test_formats() -> None:
    (table,) = read_tables(run("benchmarks.speed.formats", "--quick", "--pairs", "3"))
    assert len(table.rows) >= 8


def test_stability() -> None:
    tables = read_tables(run("benchmarks.accuracy.stability", "--quick", "--bags", "1", "2"))
    assert len(tables) == 2
    assert len(tables[1].rows) == 8


def test_figures() -> None:
    (table,) = read_tables(run("benchmarks.speed.figures", "--quick"))
    assert len(table.rows) == 5


def test_pictures() -> None:
    pytest.importorskip("transformers")
    extraction, classifiers = read_tables(run("benchmarks.speed.pictures", "--quick"))
    assert extraction.names == ["network alone", "files to scores"]
    assert_positive(extraction.numbers("pictures a second"))
    assert len(classifiers.rows) == 1


def test_page() -> None:
    assert read_tables(run("benchmarks.speed.page", "--quick"))


def test_command() -> None:
    text = run("benchmarks.speed.command", "--quick")
    assert read_tables(text)


def test_record_prints_and_keeps_tables(tmp_path: Path) -> None:
    """The recorder, on the fastest benchmark."""
    out = tmp_path / "records.jsonl"
    printed = run("benchmarks.record", "start", "--quick", "--note", "a busy machine", "--out", str(out))
    assert "## Start" in printed
    (line,) = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert line["output"] in printed
    assert (line["name"], line["note"]) == ("start", "a busy machine")
    assert line["command"] == "python -m benchmarks.speed.start"
    assert {"date", "machine", "versions", "commit", "changed"} <= set(line)
    (table,) = read_tables(printed)
    assert table.names == ["import neuralbasis", "the fitted model's class", "the estimators"]
    assert_positive(table.numbers("seconds"))
    assert [row[2] for row in table.rows] == ["no", "no", "no"]  # only `fit` imports torch


def test_a_done_cell_is_not_run_again(tmp_path: Path) -> None:
    out, cell = tmp_path / "cells.jsonl", Cell("covertype", "linear", split_seed=1, quick=True)
    record = measure(cell, out)
    assert_positive([record.fit_seconds, record.peak_mb, record.before_mb, record.predict_rows_per_second])
    assert (record.n_rows, record.n_columns) == (480, 54)
    assert set(record.metrics) == {"log_loss", "auroc", "accuracy", "calibration"}
    assert measure(cell, out) == record  # equal seconds: read, not measured
    assert len(out.read_text().splitlines()) == 1
    assert find_done(Cell("covertype", "linear", split_seed=2, quick=True), out) is None
    out.write_text(out.read_text().replace(record.versions["sklearn"], "0.0"))
    assert find_done(cell, out) is None


def test_cells_differ_by_their_options(tmp_path: Path) -> None:
    """Records from before there were options are of main effects."""
    out, cell = tmp_path / "cells.jsonl", Cell("ca", "linear", quick=True)
    measure(cell, out)
    fields = json.loads(out.read_text())
    assert fields["cell"].pop("options") == {}
    fields.pop("n_terms")
    out.write_text(json.dumps(fields))
    assert find_done(cell, out) is None
    assert find_done(Cell("ca", "linear", quick=True, options={"interactions": 0}), out) is not None


def test_options_are_read() -> None:
    texts = ["outer_bags=2", "interactions=all", "interactions=[(0, 1)]", "smoothness=0.5", "n_jobs=None", "basis="]
    assert [read_option(text)[1] for text in texts] == [2, "all", [[0, 1]], 0.5, None, ""]
    with pytest.raises(argparse.ArgumentTypeError, match="name=value"):
        read_option("outer_bags")


def test_peak_memory_sees_what_came_and_went() -> None:
    before = resident_mb()
    with PeakMemory() as memory:
        np.ones(30_000_000).sum()  # 229 MB
    assert memory.mb > before + 200
    with PeakMemory() as memory:
        np.ones(10).sum()
    assert not ON_LINUX or memory.mb < before + 200


@pytest.mark.skipif(not ON_LINUX, reason="workers are watched through /proc")
def test_peak_memory_counts_workers() -> None:
    work = "import time; block = bytearray(b'1') * 200_000_000; time.sleep(1)"
    with PeakMemory() as memory:
        before = resident_mb()
        subprocess.run([sys.executable, "-c", work], check=True)
    assert memory.mb > before + 180


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


def test_absent_news_say_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"set NEURALBASIS_DATA .* or SCIKIT_LEARN_DATA"):
        datasets.load("news")
    (tmp_path / "20news-bydate_py3.pkz").touch()
    assert datasets.find_missing_news() is None


@pytest.mark.parametrize("name", baselines.OF_STORED)
def test_learners_of_sparse_matrices(name: str) -> None:
    data = datasets.load("news", quick=True)
    model = baselines.get(name).fit(data.X, data.y, data.task, seed=0)
    found = score(model, data.test.X, data.test.y, data.task)
    assert found["accuracy"] > 0.6  # of 20 groups
    assert ("log_loss" in found) == (name != "linear_svc")


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


def test_worst_rank() -> None:
    assert planted.find_worst([(0, 1), (3, 2), (0, 2)], [(0, 1), (2, 3)]) == 2
    assert planted.find_worst([(0, 1)], [(0, 1), (2, 3)]) == 2


def test_absent_data_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set NEURALBASIS_DATA"):
        datasets.load("heloc")


@pytest.mark.parametrize(
    "name",
    [n for n in sorted(baselines.LIBRARIES) if n not in ("ours", "ebm", *baselines.OF_NUMBERS, *baselines.OF_STORED)],
)
@pytest.mark.parametrize("key", ["ca", "heloc", "telco"])
def test_other_learners(name: str, key: str) -> None:
    if not baselines.is_installed(name):
        pytest.skip(f"needs the package {baselines.LIBRARIES[name]}")
    data = datasets.stand_in(key)
    model = baselines.get(name).fit(data.X, data.y, data.task, seed=0, quick=True)
    metrics = score(model, data.X, data.y, data.task)
    of_classes = {"log_loss", "auroc", "accuracy", "average_precision", "calibration"}
    assert set(metrics) == ({"rmse"} if key == "ca" else of_classes)
    assert_positive(list(metrics.values()))


@needs_ebm
def test_ebm_learner() -> None:
    data = datasets.stand_in("heloc")
    from benchmarks.baselines import ebm

    model = ebm.fit(data.X, data.y, data.task, seed=0, quick=True, interactions=2)
    assert len(model.term_features_) == 25
    assert score(model, data.X, data.y, data.task)["auroc"] > 0.5


def test_unknown_learner() -> None:
    with pytest.raises(ValueError, match="a learner is one of"):
        baselines.get("magic")


def test_targets_are_judged_from_the_figures() -> None:
    assert at_most(0.5).check(0.5, None) is True
    assert at_most(0.5).check(0.6, None) is False
    assert at_most_part_of_ebm(4).check(1.0, 4.0) is True
    assert at_least_ebm(0.002).check(0.9979, 1.0) is False
    assert at_least_ebm().check(0.9, None) is None
    assert [format_verdict(met) for met in (True, False, None)] == ["met", "missed", "–"]


def test_a_learner_that_did_not_run_says_so() -> None:
    study = main_effects.STUDIES["covertype"]
    line = write_line(study, study.lines[0], {"ours": [], "ebm": []}, len(main_effects.PUBLISHED))
    assert line == ["CoverType", "accuracy", "not run", "not run", "–", "0.7369", "0.7392", "≥ 0.74", "–"]


def test_published_figures_fill_their_columns() -> None:
    study = interactions.STUDIES["ca"]
    assert write_line(study, Line("rmse", published=(0.4779,)), {"ours": []}, 3)[4:7] == ["0.4779", "–", "–"]


def test_studies_of_main_effects_have_no_interactions() -> None:
    for study in main_effects.STUDIES.values():
        options = {cell.learner: cell.options for cell in study.list_cells("ca", ["ours", "ebm", "linear"], quick=True)}
        assert options == {"ours": {"interactions": 0}, "ebm": {"interactions": 0}, "linear": {}}
    assert all(not study.options for study in interactions.STUDIES.values())


def test_other_splits() -> None:
    moved = move_splits(interactions.STUDIES["ca"], 100)
    assert (list(moved.splits), list(moved.seeds)) == ([100, 101, 102], [0])


def test_numbers_are_written() -> None:
    assert format_number(0.012345) == "0.0123"
    assert format_number(1234567.0) == "1,234,567"
    assert format_number(float("nan")) == "–"
    assert format_mean([1.0, 2.0], 2) == "1.50 ± 0.71"
    assert format_mean([1.0], 1) == "1.0"
