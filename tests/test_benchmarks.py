"""The benchmarks run: every script in `--quick`, as a process; its tables hold the expected rows and finite numbers."""

from __future__ import annotations

import math
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
if not (ROOT / "benchmarks").is_dir():
    pytest.skip("the benchmarks are not part of this copy of the source", allow_module_level=True)

from benchmarks import baselines, datasets  # noqa: E402
from benchmarks.accuracy import main_effects  # noqa: E402
from benchmarks.accuracy.targets import at_least_ebm, at_most, at_most_part_of_ebm  # noqa: E402
from benchmarks.measure import Cell, find_done, measure, score  # noqa: E402
from benchmarks.memory import ON_LINUX, PeakMemory, resident_mb  # noqa: E402
from benchmarks.table import judge, write_mean, write_number  # noqa: E402

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


def test_growth() -> None:
    (table,) = read_tables(run("benchmarks.speed.growth", "--quick"))
    assert [row[:2] for row in table.rows] == [["500", "5"]]
    for column in ("fit s", "steps", "MB before", "peak MB", "encode s", "epoch s", "predict s", "s / 10⁶ cells"):
        assert_positive(table.numbers(column))


def test_run_prints_and_writes_tables(tmp_path: Path) -> None:
    """The runner, on the fastest benchmark."""
    out = tmp_path / "results.md"
    printed = run("benchmarks.run", "--quick", "--only", "start", "--out", str(out))
    assert out.read_text(encoding="utf-8") == printed
    assert "## Start" in printed
    (table,) = read_tables(printed)
    assert table.names == ["import neuralbasis", "the fitted model's class", "the estimators"]
    assert_positive(table.numbers("seconds"))
    assert [row[2] for row in table.rows] == ["no", "no", "no"]  # only `fit` imports torch


def test_a_done_cell_is_not_run_again(tmp_path: Path) -> None:
    out, cell = tmp_path / "cells.jsonl", Cell("covertype", "linear", split_seed=1, quick=True)
    record = measure(cell, out)
    assert_positive([record.fit_seconds, record.peak_mb, record.before_mb, record.predict_rows_per_second])
    assert (record.n_rows, record.n_columns) == (480, 54)
    assert set(record.metrics) == {"log_loss", "auroc", "accuracy"}
    assert measure(cell, out) == record  # equal seconds: read, not measured
    assert len(out.read_text().splitlines()) == 1
    assert find_done(Cell("covertype", "linear", split_seed=2, quick=True), out) is None
    out.write_text(out.read_text().replace(record.versions["sklearn"], "0.0"))
    assert find_done(cell, out) is None


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
    n_columns, n_classes = {"ca": (8, 0), "covertype": (54, 7), "heloc": (23, 2)}.get(key, (30, 2))
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
    ],
)
def test_real_sets(key: str, shape: tuple[int, int], n_classes: int) -> None:
    problem = datasets.find_missing(key)
    if problem:
        pytest.skip(problem)
    if key in ("heloc", "fraud"):
        pytest.importorskip("pandas", reason="reading this set needs pandas")
    data = datasets.load(key)
    assert data.X.shape == shape
    assert data.X.dtype == float
    assert np.isfinite(data.X).all()
    assert data.y.shape == shape[:1]
    assert (len(np.unique(data.y)) == n_classes) if n_classes else data.task == "regression"


def test_absent_data_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEURALBASIS_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="set NEURALBASIS_DATA"):
        datasets.load("heloc")


@pytest.mark.parametrize("name", [n for n in sorted(baselines.LIBRARIES) if n not in ("ours", "ebm")])
@pytest.mark.parametrize("key", ["ca", "heloc"])
def test_other_learners(name: str, key: str) -> None:
    data = datasets.stand_in(key)
    model = baselines.get(name).fit(data.X, data.y, data.task, seed=0, quick=True)
    metrics = score(model, data.X, data.y, data.task)
    assert set(metrics) == ({"rmse"} if key == "ca" else {"log_loss", "auroc", "accuracy", "average_precision"})
    assert_positive(list(metrics.values()))


@needs_ebm
def test_ebm_learner() -> None:
    data = datasets.stand_in("heloc")
    from benchmarks.baselines import ebm

    model = ebm.fit(data.X, data.y, data.task, seed=0, quick=True)
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
    assert [judge(met) for met in (True, False, None)] == ["met", "missed", "–"]


def test_a_learner_that_did_not_run_says_so() -> None:
    study = main_effects.STUDIES["covertype"]
    line = main_effects.write_line(study, study.lines[0], {"ours": [], "ebm": []})
    assert line == ["CoverType", "accuracy", "not run", "not run", "–", "0.7369", "0.7392", "≥ 0.74", "–"]


def test_numbers_are_written() -> None:
    assert write_number(0.012345) == "0.0123"
    assert write_number(1234567.0) == "1,234,567"
    assert write_number(float("nan")) == "–"
    assert write_mean([1.0, 2.0], 2) == "1.50 ± 0.71"
    assert write_mean([1.0], 1) == "1.0"
