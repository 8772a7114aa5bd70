"""The paper's tables: their data, the runner of their cells, and the generated reports."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import baselines
from benchmarks.datasets import paper
from benchmarks.harness import RESULTS, ROOT, format_seconds, read_seconds
from benchmarks.paper import run
from benchmarks.paper.report import count_cells, explain_speeds, write_cells, write_paper_table
from benchmarks.paper.results import Results, find_version, is_current, match_count, read_count
from benchmarks.paper.run import Budget, History, is_finished
from benchmarks.paper.stability import measure_stability
from benchmarks.paper.tables import TABLES, Cell, find_job, read_data, read_file, read_table
from benchmarks.results.jsonl import append_line, read_lines
from benchmarks.results.provenance import read_versions
from benchmarks.results.report import Records, write_full_outputs, write_paper_cells, write_results
from neuralbasis import paper_settings

pytest.importorskip("tomllib", reason="the tables are read by Python 3.11 or later")

CELLS = [cell for name in TABLES for cell in read_table(name).list_cells() if cell.seed == 0]
ORIGIN = {
    "versions": dict(read_versions()),
    "date": "2026-01-01 00:00",
    "machine": "a test",
    "commit": "",
    "changed": False,
}


def published(table: str, model: str, **options: Any) -> dict[str, Any]:
    row = next(row for row in read_table(table).rows if (row.model, row.options) == (model, options))
    return dict(row.published)


def test_published_figures() -> None:
    assert published("comparison", "NBM")["ca_housing"] == [0.5638, 0.0013]
    assert published("comparison", "XGBoost")["newsgroups"] == [0.7677, 0.0009]
    assert published("comparison_sota", "NB²M")["year"] == [79.01, 0.03]
    assert published("comparison_sota", "NODE-GA²M")["microsoft"] == [0.5618, 0.0003]
    assert published("num_bases", "NB²M", n_bases=1000)["covertype"] == [0.8979, 0.0003]
    assert published("num_subnets", "NBM", n_subnets=5) == {"covertype": [0.7435]}
    assert published("shape_functions", "NAM") == {"ca_housing": [0.9921]}
    counts = {name: sum(len(row.published) for row in read_table(name).rows) for name in TABLES[:5]}
    assert counts == {"comparison": 49, "comparison_sota": 44, "num_bases": 40, "num_subnets": 5, "shape_functions": 2}


def test_published_settings() -> None:
    found = read_file("optimal_hyper")
    assert [len(found[model]) for model in ("NBM", "NB²M")] == [15, 12]
    assert found["NBM"]["credit"] == {
        "epochs": 500, "batch_size": 1024, "learning_rate": 0.00391, "weight_decay": 1.574e-6, "dropout": 0.0,
        "basis_dropout": 0.9, "output_penalty": 0.03737,
    }  # fmt: skip
    assert found["NB²M"]["cub"]["output_penalty"] == 96.894


@pytest.mark.parametrize(("model", "order"), [("NBM", 1), ("NB²M", 2)])
def test_the_package_has_the_same_settings(model: str, order: int) -> None:
    for data, published in read_file("optimal_hyper")[model].items():
        ours = paper_settings(data, order)
        found = {**ours["network"], "learning_rate": ours["learning_rate"], "epochs": ours["network"]["max_epochs"]}
        assert {name: found[name] for name in published} == published


def test_data_sets_are_those_of_the_loaders() -> None:
    assert set(read_data()) == set(paper.SETS)
    for key, data in read_data().items():
        sizes = paper.SETS[key].sizes
        assert data.n_columns == sizes.n_features
        assert data.n_outputs == (1 if sizes.n_classes in (0, 2) else sizes.n_classes)
        assert (data.metric in ("rmse", "mse")) == (paper.SETS[key].task == "regression")


@pytest.mark.parametrize("table", TABLES)
def test_cells_name_what_is_there(table: str) -> None:
    cells = [cell for cell in CELLS if cell.table == table]
    assert cells
    for cell in cells:
        job = find_job(cell)
        assert cell.value > 0
        assert cell.minutes > 0
        assert job.kind == "ratios" or job.data in paper.SETS
        if job.kind in ("fit", "shapes"):
            assert set(job.options) <= find_options(job.learner), cell.title
        name, *options = shlex.split(cell.command)[4:]
        assert name == f"paper.{table}"
        assert run.list_cells(run.make_parser().parse_args([table, *options]))[0] == cell


def find_options(learner: str) -> set[str]:
    """Options that the learner's `fit` names, or parameters of its estimator."""
    source = (ROOT / "benchmarks" / "baselines" / f"{learner}.py").read_text(encoding="utf-8")
    named = set(re.findall(r"(\w+): [\w| .\[\],]+ = ", source.partition("def fit(")[2].partition("->")[0]))
    if learner == "ours":
        from neuralbasis import NeuralBasisRegressor
        from neuralbasis.settings import HOME

        return named | {*inspect.signature(NeuralBasisRegressor).parameters, *HOME, "triples"}
    return named | ({"interactions"} if learner == "ebm" else set())


def test_a_cell_takes_the_published_settings() -> None:
    job = find_job(Cell("comparison", "covertype", "NB²M", "grid"))
    assert job.options["batch_size"] == 512
    assert (job.learner, job.options["engine"], job.options["epochs"]) == ("nbm", "grid", 500)


def test_tables_share_jobs() -> None:
    """A fit that is in three tables runs once."""
    jobs = {
        find_job(cell).key for cell in CELLS
        if (cell.data, cell.model, cell.variant) == ("covertype", "NBM", "grid")
        and cell.options in ({}, {"n_bases": 100}, {"n_subnets": 1})
    }  # fmt: skip
    assert len(jobs) == 1


def test_cells_go_by_seed_and_then_by_value() -> None:
    cells = run.list_cells(run.make_parser().parse_args(["comparison", "--data", "ca_housing", "--seed", "0", "1"]))
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    assert (cells[0].model, cells[0].variant) == ("NBM", "paper")
    values = [cell.value for cell in cells if cell.seed == 0]
    assert values == sorted(values, reverse=True)


def make_line(cell: Cell, **fields: Any) -> dict[str, Any]:
    job = find_job(cell)
    place = {"table": cell.table, "data": cell.data, "model": cell.model, "variant": cell.variant, "seed": cell.seed}
    version = find_version(job.learner, job.kind)
    return {
        "cell": place,
        "job": job.__dict__,
        "version": version,
        "seconds": 60.0,
        "minutes": cell.minutes,
        **fields,
        **ORIGIN,
    }


def test_time_is_estimated_from_the_records() -> None:
    cell = next(cell for cell in CELLS if (cell.model, cell.variant, cell.data) == ("NBM", "grid", "fico"))
    other = next(cell for cell in CELLS if (cell.model, cell.variant, cell.data) == ("NBM", "grid", "covertype"))
    job = find_job(cell)
    assert History().estimate(cell, job) == 60 * cell.minutes
    seen = History([make_line(other, seconds=2 * 60 * other.minutes, value=0.7)])
    assert seen.estimate(cell, job) == 2 * 60 * cell.minutes  # twice as slow as estimated
    counted = next(cell for cell in CELLS if (cell.model, cell.variant) == ("NBM", "network"))
    seen.add(make_line(counted, seconds=6 * counted.minutes, parameters=5))
    assert seen.estimate(cell, job) == 2 * 60 * cell.minutes  # a job of another kind does not count
    seen.add(make_line(replace(cell, seed=3), seconds=77.0, value=0.8))
    assert seen.estimate(cell, job) == 77


def test_what_counts_as_done() -> None:
    cell = next(cell for cell in CELLS if cell.model == "Linear")
    job, line = find_job(cell), make_line(cell, value=0.7)
    assert History([line]).find_done(job) == line
    assert History([line]).find_done(replace(job, seed=1)) is None
    older = {**line, "version": "0.1"}
    assert History([older]).find_done(job) is None
    assert History([older], any_version=True).find_done(job) == older
    assert is_finished(make_line(cell, failed="it broke"), 100.0)
    late = make_line(cell, failed="stopped after 60 s", limit=60.0)
    assert is_finished(late, 60.0)
    assert not is_finished(late, 100.0)


def test_budget() -> None:
    budget = Budget(3600.0)
    assert 3599 < budget.left <= 3600
    assert budget.largest == 1200
    assert budget.find_limit(10.0) == 120
    assert budget.find_limit(100.0) == 400
    assert budget.find_limit(2000.0) == pytest.approx(3600, abs=1)
    assert Budget(None).find_limit(10.0) is None
    cells = [cell for cell in CELLS if cell.model == "Linear"]
    assert run.run_cells(cells, None, History(), Budget(1.0), again=False) == {
        "did not fit into the budget": len(cells)
    }


def test_times_are_read_and_written() -> None:
    assert [read_seconds(text) for text in ("2h", "1.5 h", "20m", "90s", "90")] == [7200, 5400, 1200, 90, 90]
    with pytest.raises(Exception, match="not a duration"):
        read_seconds("soon")
    assert [format_seconds(seconds) for seconds in (40, 200, 9000)] == ["40 s", "3 min", "2 h 30 min"]


def test_a_record_has_the_version_at_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = CELLS[0]
    job = replace(find_job(cell), learner="ours")
    monkeypatch.setattr(run, "run_child", lambda *given: "{}")
    find_version("ours")
    monkeypatch.setattr("benchmarks.results.provenance._hash_source", lambda: "changed")
    assert run.run_cell(cell, job, None)["version"].endswith("+changed")
    monkeypatch.undo()
    read_versions.cache_clear()
    find_version.cache_clear()


def test_a_failed_cell_has_a_reason() -> None:
    cell = next(replace(cell, quick=True) for cell in CELLS if cell.title.startswith("comparison: Linear, default, ca"))
    line = run.run_cell(cell, replace(find_job(cell), options={"nonsense": 1}), None)
    assert "unexpected keyword argument 'nonsense'" in line["failed"]
    late = run.run_cell(cell, find_job(cell), 0.2)
    assert (late["failed"], late["limit"]) == ("stopped after 0 s", 0.2)


def test_a_killed_run_can_be_continued(tmp_path: Path) -> None:
    out = tmp_path / "lines.jsonl"
    names = ["comparison", "--quick", "--model", "Linear", "--data", "ca_housing", "fico"]
    command = [sys.executable, "-m", "benchmarks.paper.run", *names, "--out", str(out)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: read_lines(out))
        children = list_children(process.pid)
        os.kill(process.pid, signal.SIGKILL)
    wait_until(lambda: not any(map(is_running, children)))  # its child process ends too
    (first,) = read_lines(out)
    with out.open("a") as file:
        file.write('{"cell": {"table": "comp')  # an incomplete line, as after a crash
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = read_lines(out)
    assert lines[0] == first
    assert "1 done before, 3 run" in done.stderr
    assert [(line["job"]["data"], line["job"]["seed"]) for line in lines] == [
        ("ca_housing", 0), ("fico", 0), ("ca_housing", 1), ("fico", 1),
    ]  # fmt: skip
    assert all(0 < line["value"] < 1 and line["seconds"] > line["fit_seconds"] > 0 for line in lines)
    assert {"commit", "changed", "date", "machine", "versions", "peak_mb"} <= set(first)


def wait_until(is_true: Callable[[], object]) -> None:
    until = time.monotonic() + 120
    while not is_true():
        assert time.monotonic() < until
        time.sleep(0.05)


def list_children(pid: int) -> list[int]:
    """Empty without /proc."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()] if path.exists() else []


def is_running(pid: int) -> bool:
    """False if the process has ended or is a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@settings(max_examples=30, deadline=None)
@given(st.lists(st.dictionaries(st.text(), st.integers() | st.text()), max_size=4), st.binary(max_size=9))
def test_an_incomplete_line_is_overwritten(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict], incomplete: bytes
) -> None:
    path = tmp_path_factory.mktemp("journal") / "lines.jsonl"
    for line in lines:
        append_line(path, line)
    with path.open("ab") as file:
        file.write(incomplete.replace(b"\n", b""))
    assert read_lines(path) == lines
    append_line(path, {"last": 1})
    assert read_lines(path) == [*lines, {"last": 1}]


def test_counts_are_matched() -> None:
    assert [read_count(text) for text in ("54K", "0.5M", "99")] == [54_000, 500_000, 99]
    assert match_count(64_661, "65K") == "equal"
    assert match_count(243_784, "243K") == "equal, cut"
    assert match_count(70_000, "54K") == "differs"


def test_stability_is_a_deviation_over_models() -> None:
    """Two columns at two points; the second reading has no difference."""
    still, moved = [[0.0, 0.0], [1.0, 1.0]], [[2.0, 0.0], [1.0, 3.0]]
    fields = {
        "readings": ["even steps", "rows"],
        "points": [[0, 1]] * 2,
        "density": [[1]] * 2,
        "value": 0.5,
        "fit_seconds": 1,
    }
    lines = [{"shapes": [[still, still]], **fields}, {"shapes": [[moved, still]], **fields}]
    found = measure_stability(lines)
    assert found is not None
    assert found.overall == {"even steps": pytest.approx(2 * 2**0.5 / 4), "rows": 0.0}
    assert found.n_models == 2
    assert measure_stability(lines[:1]) is None


def test_report_of_made_up_records() -> None:
    cell = next(cell for cell in CELLS if cell.title.startswith("comparison: NBM, default, ca_housing"))
    lines = [make_line(replace(cell, seed=seed), value=value) for seed, value in ((0, 0.9), (0, 0.4), (1, 0.6))]
    older = next(cell for cell in CELLS if cell.title.startswith("comparison: NBM, default, fico"))
    lines.append({**make_line(older, value=0.7), "version": "0.0+old"})
    failing = next(cell for cell in CELLS if cell.title.startswith("comparison: NBM, grid, fico"))
    lines.append(make_line(failing, failed="exit code 1: MemoryError"))
    table = "| a | value | target | verdict |\n|---|--:|--:|--:|\n| b | 3 | ≤ 5 | met |\n"
    output = {"name": "speed.wide", "command": "python -m x", "output": "old", **ORIGIN}
    records = Records(lines, [], [output, {**output, "output": table, "note": "A remark."}])
    text = write_results(records)
    assert "| NBM at our defaults, CA Housing: rmse ≤ 0.5638" in text
    rows = {cells[0]: cells[1:] for cells in read_rows(text.partition("### Accuracy against other")[0])}
    assert rows["NBM, default"][:2] == ["**0.5000 ± 0.1000 (2)** / 0.5638", "0.7000† / 0.8048"]
    assert rows["NBM, default"][-1] == "1 of 2"
    assert "NBM, paper, grid" not in rows  # variants without a figure are in PAPER.md
    assert rows["MLP"][:2] == ["– / 0.5014", "– / 0.7936"]
    assert rows["MLP"][5] == "no data / 0.4584"
    assert ["speed.wide", "a: b", "3", "≤ 5", "[1]", "met"] in read_rows(text)
    assert text.rstrip().endswith(f"- [1] neuralbasis {find_version('ours')}\n- [2] neuralbasis 0.0+old †")
    cells = write_paper_cells(records)
    assert "- failed: exit code 1: MemoryError: NBM, grid, FICO (about 3 min)" in cells
    assert cell.command in cells
    full = write_full_outputs(records)
    assert full.count("## speed.wide") == 1
    assert f"\n\nA remark.\n\n{table}" in full


def read_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_later_lines_replace_earlier_ones() -> None:
    cell = next(cell for cell in CELLS if cell.model == "Linear")
    results = Results([make_line(cell, failed="no"), make_line(cell, value=1.0), make_line(cell, value=2.0)])
    assert results.find_values(cell) == [2.0]
    assert results.failed == {}


def test_a_cell_that_timed_out_has_not_failed() -> None:
    cell = next(cell for cell in CELLS if cell.model == "Linear")
    results = Results([make_line(cell, failed="stopped after 60 s", limit=60.0)])
    assert results.explain(cell) == "not run yet: stopped after 60 s"
    assert results.find_absent(find_job(cell)) is None


def test_throughput_needs_no_data() -> None:
    cell = next(cell for cell in CELLS if (cell.table, cell.data) == ("params_and_throughput", "inaturalist"))
    fit = next(cell for cell in CELLS if (cell.table, cell.data) == ("comparison", "inaturalist"))
    results = Results([make_line(cell, rows_per_second=1.0)])
    assert results.find_absent(find_job(replace(cell, model="NB²M"))) is None
    assert results.explain(fit) == "concept scores of the images are not public"
    absent = {"inaturalist": "no file", "node_gam": "no package"}
    able, n_absent = run.split_absent([cell, fit], absent)
    assert (able, n_absent) == ([cell], 1)


def test_cells_whose_data_and_package_were_available() -> None:
    """Of each table: all cells, and those that the recorded machine can run."""
    counts = {name: Results([]).count([cell for cell in CELLS if cell.table == name]) for name in TABLES}
    assert {name: (found.n_all, found.n_able) for name, found in counts.items()} == {
        "comparison": (66, 60), "comparison_sota": (68, 8), "num_bases": (56, 56), "num_subnets": (5, 5),
        "shape_functions": (4, 4), "params_and_throughput": (26, 26), "params": (1, 1), "params_multi_class": (8, 8),
    }  # fmt: skip
    assert count_cells(Results([]), CELLS) == ["234", "168", "0", "168"]


def test_available_cells_without_a_record() -> None:
    """Of the comparison, by data set: those that the report must name as not run."""
    results = Results([])
    able = [cell for cell in CELLS if cell.table == "comparison" and results.find_absent(find_job(cell)) is None]
    assert Counter(cell.data for cell in able) == {
        "ca_housing": 13, "fico": 13, "covertype": 15, "newsgroups": 6, "cub": 8, "common_objects": 5,
    }  # fmt: skip


def test_a_record_proves_that_its_data_were_there() -> None:
    cell = next(cell for cell in CELLS if (cell.table, cell.data, cell.model) == ("comparison_sota", "higgs", "NBM"))
    results = Results([make_line(cell, value=0.3)])
    assert results.count([other for other in CELLS if other.data == "higgs"]).n_able == 8  # all but NODE-GAM's two
    assert results.count([cell]).n_run == 1


@pytest.mark.skipif(paper.find_missing("fico") is not None, reason="needs the data folder")
def test_absent_data_are_those_that_the_loaders_miss() -> None:
    assert set(read_file("absent")["data"]) == {key for key in paper.SETS if paper.find_missing(key)}


def test_the_report_shows_why_nbm_is_slower_as_a_network() -> None:
    speeds = {("NAM", "network"): 200.0, ("NBM", "network"): 40.0, ("NBM", "compiled"): 20_000.0}
    lines = [
        make_line(cell, rows_per_second=speeds[cell.model, cell.variant], parameters=1)
        for cell in CELLS
        if (cell.table, cell.data) == ("params_and_throughput", "fico") and (cell.model, cell.variant) in speeds
    ]
    text = explain_speeds(read_table("params_and_throughput"), Results(lines))
    assert ["FICO", "0.20 ×", "100 ×", "6.7 ×"] in read_rows(text)
    assert "62,208 multiplications, a network of NAM 6,240" in text
    assert "faster.**" in text
    slow = [{**line, "rows_per_second": 1.0} if line["job"]["learner"] == "ours" else line for line in lines]
    assert "faster, but not on FICO.**" in explain_speeds(read_table("params_and_throughput"), Results(slow))


def test_source_that_decides_a_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of neuralbasis makes figures of our models older, not those of other learners."""
    learners = [
        ("ours", "fit"),
        ("nbm", "fit"),
        ("ebm", "fit"),
        ("nam", "fit"),
        ("nbm", "throughput"),
        ("nam", "ratios"),
    ]
    versions = {place: find_version(*place) for place in learners}
    assert all(is_current(*place, version) for place, version in versions.items())
    number, _, source = versions["ours", "fit"].partition("+")
    assert is_current("ours", "fit", f"0.0.1+{source}")  # another release of the same source
    assert not is_current("ours", "fit", number)
    read_versions.cache_clear()
    find_version.cache_clear()
    monkeypatch.setattr("benchmarks.results.provenance._hash_source", lambda: "changed")
    older = [place for place, version in versions.items() if not is_current(*place, version)]
    monkeypatch.undo()
    read_versions.cache_clear()
    find_version.cache_clear()
    assert older == [("ours", "fit"), ("nbm", "fit")]


def test_fits_of_fewer_epochs_count_until_there_are_full_ones() -> None:
    table = read_table("comparison")
    cell = next(each for each in CELLS if (each.model, each.variant, each.data) == ("NBM", "paper", "covertype"))
    lines = [make_line(replace(run.limit_epochs(cell, epochs), seed=seed), value=value, fit_seconds=1.0)
             for epochs, seed, value in ((20, 0, 0.70), (50, 0, 0.74), (50, 1, 0.73))]  # fmt: skip
    rows = {cells[0]: cells[3] for cells in read_rows(write_paper_table(table, Results(lines)))}
    assert rows["NBM, paper"] == "0.7350 ± 0.0050 (2) (50 of 500 epochs) / 0.7369"
    assert "--epochs 50 --again" in write_cells(table, Results(lines))
    full = [*lines, make_line(cell, value=0.737, fit_seconds=1.0)]
    rows = {cells[0]: cells[3] for cells in read_rows(write_paper_table(table, Results(full)))}
    assert rows["NBM, paper"] == "**0.7370** / 0.7369"


def make_shapes(cell: Cell, deviation: float) -> dict[str, Any]:
    """A record of two models of one column at one point."""
    shapes = [[[[0.0]]], [[[deviation]]]]
    fields = {"readings": ["even steps", "distinct values", "rows"], "points": [[0]], "density": [[1]]}
    return make_line(cell, shapes=[[each[0]] * 3 for each in shapes], value=0.5, fit_seconds=1.0, **fields)


def test_pieces_of_stability_and_fewer_epochs_are_stated() -> None:
    table = read_table("shape_functions")
    cell = next(cell for cell in table.list_cells() if cell.variant == "grid")
    short = run.limit_epochs(cell, 100)
    assert (short.epochs, short.minutes) == (100, cell.minutes / 10)
    assert run.limit_epochs(cell, 1000) == cell
    assert "--epochs 100" in short.command
    with pytest.raises(ValueError, match="--epochs is for cells that are trained for a number of epochs"):
        run.limit_epochs(next(cell for cell in CELLS if cell.model == "EBM"), 10)
    few = [make_shapes(replace(short, seed=seed), 0.1) for seed in range(3)]
    rows = {cells[0]: cells[1:4] for cells in read_rows(write_paper_table(table, Results(few)))}
    assert rows["NBM, paper, grid"] == ["0.0548 / 0.1987", "6 of 100", "100 of 1,000"]
    full = [make_shapes(replace(cell, seed=seed), 0.1) for seed in range(50)]
    rows = {cells[0]: cells[1:4] for cells in read_rows(write_paper_table(table, Results([*few, *full])))}
    assert rows["NBM, paper, grid"] == ["**0.0503** / 0.1987", "100 of 100", "all"]
    assert {row.model: dict(row.together) for row in table.rows} == {
        "NAM": {"default": 2}, "NBM": {"paper": 2, "grid": 2, "default": 10},
    }  # fmt: skip
    assert {
        (row.model, variant): row.seeds[variant] * row.together[variant]
        for row in table.rows
        for variant in row.minutes
    } == dict.fromkeys([("NAM", "default"), ("NBM", "paper"), ("NBM", "grid"), ("NBM", "default")], 100)


def ignore_present_version(text: str) -> str:
    """The text without what depends on the present version: its name, the marks, and the widths of columns."""
    return re.sub(r"the present one is neuralbasis \S+|†|[ -]", "", text)


def test_reports_are_generated() -> None:
    """`python -m benchmarks report` writes them; they are not edited."""
    records = Records.read()
    texts = {
        RESULTS.parent / "RESULTS.md": write_results(records),
        RESULTS / "PAPER.md": write_paper_cells(records),
        RESULTS / "OUTPUTS.md": write_full_outputs(records),
    }
    for path, text in texts.items():
        assert ignore_present_version(path.read_text(encoding="utf-8")) == ignore_present_version(text), path


def test_results_are_short() -> None:
    assert len((RESULTS.parent / "RESULTS.md").read_text(encoding="utf-8").splitlines()) <= 400


def test_records_have_no_folders_of_a_machine() -> None:
    for name in ("paper.jsonl", "outputs.jsonl"):
        for line in read_lines(RESULTS / name):
            assert not re.search(r"(?<![\w.])/(home|work|tmp|root|usr)/", json.dumps(line))


def test_learners_of_the_tables_have_a_package() -> None:
    learners = {find_job(cell).learner for cell in CELLS}
    assert learners - {"networks"} <= set(baselines.LIBRARIES)
    assert find_version("linear") == read_versions()["sklearn"]
    assert find_version("ours") == read_versions()["neuralbasis"]
    assert find_version("nam").startswith(read_versions()["torch"] + "+")
