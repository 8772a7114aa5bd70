"""Fits in child processes that are killed or meet a damaged file, and what remains of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.robustness.disk_faults import CASES, run_case
from benchmarks.robustness.fit_process import N_COLUMNS, draw_table, write_data
from benchmarks.robustness.killed_fits import Setup, start
from neuralbasis import load
from neuralbasis.serialization.nested_json import read_nested
from neuralbasis.training import list_checkpoints

N_ROWS = 8000  # exceeds the memory limit
OPTIONS = ("--rows", str(N_ROWS), "--steps", "60")


def fit_whole(setup: Setup, folder: Path) -> np.ndarray:
    """Predictions of an uninterrupted fit."""
    write_data(folder / "data", N_ROWS)
    code, output = start(setup, folder, resume=False)
    assert code == 0, output
    return predict(folder)


def kill_and_resume(setup: Setup, folder: Path) -> np.ndarray:
    """Predictions of a fit that is killed as soon as there are two checkpoints, and resumed."""
    write_data(folder / "data", N_ROWS)
    code, output = start(setup, folder, False, lambda _seconds: len(list_checkpoints(folder / "state")) == 2)
    assert code is None, output
    assert all(read_nested(path)["is_done"] is False for path in list_checkpoints(folder / "state"))
    assert not (folder / "model.nbm").exists()
    code, output = start(setup, folder, resume=True)
    assert code == 0, output
    assert read_nested(list_checkpoints(folder / "state")[-1])["is_done"] is True
    return predict(folder)


def predict(folder: Path) -> np.ndarray:
    X, _ = draw_table(N_ROWS, 1)
    return load(folder / "model.nbm").predict({f"x{d}": X[:, d] for d in range(N_COLUMNS)})


@pytest.mark.parametrize("setup", [Setup(options=OPTIONS), Setup(2, is_stream=True, victim=1, options=OPTIONS)])
def test_a_killed_fit_resumes_to_the_same_model(setup, tmp_path):
    """A killed worker ends the others, and all resume."""
    whole, killed = fit_whole(setup, tmp_path / "whole"), kill_and_resume(setup, tmp_path / "killed")
    np.testing.assert_array_equal(killed, whole)
    assert not (tmp_path / "killed" / "state" / "cache").exists()


def test_a_damaged_row_group_is_named_and_the_repaired_fit_completes():
    case = next(case for case in CASES if case.name == "row group damaged")
    problems = run_case(case, N_ROWS, 60, expected=float("nan"))
    assert problems == []
