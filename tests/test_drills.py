"""Short drills: real processes, killed or in trouble, and what is left of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.drills.faults import CASES, face
from benchmarks.drills.job import write_data
from benchmarks.drills.kill import Way, measure, start
from neuralbasis.checkpoint import list_checkpoints
from neuralbasis.nested import read_nested

OPTIONS = ("--rows", "8000", "--steps", "60")


def kill_and_go_on(way: Way, folder: Path) -> float:
    """The loss of a fit that is killed as soon as there are two checkpoints, and goes on."""
    write_data(folder / "data", 8000)  # more than the memory of a job has room for
    code, output = start(way, folder, False, lambda _seconds: len(list_checkpoints(folder / "state")) == 2)
    assert code is None, output
    assert all(read_nested(path)["is_done"] is False for path in list_checkpoints(folder / "state"))
    assert not (folder / "model.nbm").exists()
    code, output = start(way, folder, resume=True)
    assert code == 0, output
    assert read_nested(list_checkpoints(folder / "state")[-1])["is_done"] is True
    return measure(folder / "model.nbm")


def test_a_killed_fit_goes_on_to_the_same_loss(tmp_path):
    (tmp_path / "whole").mkdir()
    code, output = start(Way(options=OPTIONS), tmp_path / "whole", resume=False)
    assert code == 0, output
    usual = measure(tmp_path / "whole" / "model.nbm")
    (tmp_path / "killed").mkdir()
    np.testing.assert_allclose(kill_and_go_on(Way(options=OPTIONS), tmp_path / "killed"), usual, rtol=1e-9)


def test_a_killed_worker_ends_the_others_and_all_go_on(tmp_path):
    together = Way(n_processes=2, is_stream=True, victim=1, options=OPTIONS)
    assert kill_and_go_on(together, tmp_path) < 0.2
    assert not (tmp_path / "state" / "cache").exists()


def test_a_damaged_row_group_is_named_and_once_mended_the_fit_comes_to_its_end():
    case = next(case for case in CASES if case.name == "row group damaged")
    wrong = face(case, 8000, 60, usual=float("nan"))
    assert wrong == []
