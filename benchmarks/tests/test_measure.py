"""Cells of tables: measured once, scored, and compared with targets; time and memory; learners."""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import baselines, datasets
from benchmarks.accuracy import interactions, main_effects, planted
from benchmarks.accuracy.measure import Cell, find_done, measure, score
from benchmarks.accuracy.studies import Line, move_splits, write_line
from benchmarks.accuracy.targets import at_least_ebm, at_most, at_most_part_of_ebm
from benchmarks.harness import read_option
from benchmarks.results.markdown import format_mean, format_number, format_verdict
from benchmarks.speed.resources import ON_LINUX, PeakMemory, resident_mb

HAS_EBM = baselines.is_installed("ebm")
needs_ebm = pytest.mark.skipif(not HAS_EBM, reason="needs the package interpret-core (extra 'benchmarks')")


def assert_positive(numbers: list[float]) -> None:
    assert numbers
    assert all(math.isfinite(number) and number > 0 for number in numbers)


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
    out.write_text(json.dumps(fields) + "\n")
    assert find_done(cell, out) is None
    assert find_done(Cell("ca", "linear", quick=True, options={"interactions": 0}), out) is not None


def test_options_are_read() -> None:
    texts = ["outer_bags=2", "interactions=all", "interactions=[(0, 1)]", "smoothness=0.5", "n_jobs=None", "basis="]
    assert [read_option(text)[1] for text in texts] == [2, "all", [[0, 1]], 0.5, None, ""]
    with pytest.raises(argparse.ArgumentTypeError, match="name=value"):
        read_option("outer_bags")


def test_peak_memory_includes_freed_memory() -> None:
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


@pytest.mark.parametrize("name", baselines.SPARSE_CLASSIFIERS)
def test_learners_of_sparse_matrices(name: str) -> None:
    data = datasets.load("news", quick=True)
    model = baselines.get(name).fit(data.X, data.y, data.task, seed=0)
    found = score(model, data.test.X, data.test.y, data.task)
    assert found["accuracy"] > 0.6  # of 20 groups
    assert ("log_loss" in found) == (name != "linear_svc")


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in sorted(baselines.LIBRARIES)
        if n not in ("ours", "ebm", *baselines.NUMBERS_ONLY, *baselines.SPARSE_CLASSIFIERS)
    ],
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
    with pytest.raises(ValueError, match="learner must be one of"):
        baselines.get("magic")


def test_targets_are_judged_from_the_figures() -> None:
    assert at_most(0.5).check(0.5, None) is True
    assert at_most(0.5).check(0.6, None) is False
    assert at_most_part_of_ebm(4).check(1.0, 4.0) is True
    assert at_least_ebm(0.002).check(0.9979, 1.0) is False
    assert at_least_ebm().check(0.9, None) is None
    assert [format_verdict(met) for met in (True, False, None)] == ["met", "missed", "–"]


def test_a_learner_without_records_is_marked() -> None:
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


def test_worst_rank() -> None:
    assert planted.find_worst([(0, 1), (3, 2), (0, 2)], [(0, 1), (2, 3)]) == 2
    assert planted.find_worst([(0, 1)], [(0, 1), (2, 3)]) == 2
