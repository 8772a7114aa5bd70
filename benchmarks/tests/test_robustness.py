"""Mutated model files: thousands in a process that checks every index, and proof that the check works."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from benchmarks.robustness.model_files import check_bounds, list_seeds
from benchmarks.robustness.mutations import build_kinds, make_file

N_CASES = 3000

READ_OUT_OF_BOUNDS = """
import numpy as np
from neuralbasis import kernels
from neuralbasis.encoding.layout import lay_out
from neuralbasis.encoding.axis import continuous_axis
layout = lay_out([continuous_axis("x", np.arange(9.0))], [(0,)], {})
arrays = list(layout.axis_arrays)
numbers, positions = np.full((3, 1), 4.5), np.empty((3, 1))
assert kernels.locate_rows(0, 3, numbers, *arrays, positions) == -1
assert positions.tolist() == [[5.5]] * 3
arrays[3] = arrays[3][:5]  # missing knots
try:
    kernels.locate_rows(0, 3, numbers, *arrays, positions)
except IndexError:
    print("caught")
"""


@pytest.mark.parametrize("compiled", [False, True])
def test_an_index_out_of_bounds_is_caught(compiled, tmp_path):
    environment = check_bounds(str(tmp_path) if compiled else None)
    command = [sys.executable, "-c", READ_OUT_OF_BOUNDS]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.stdout == "caught\n", run.stderr


FORGET_A_CHECK = """
import sys
from neuralbasis.serialization import model_reader
model_reader._check_features = lambda *_: None
from benchmarks.robustness.model_files import run_cases
sys.exit(1 if run_cases(sys.argv[1:]) else 0)
"""


def test_a_missing_check_in_the_reader_is_noticed():
    """Without the check of the features of factors, a file has a term of a column that does not exist."""
    seeds = [f"factors/{number}" for number in range(78, 83)]
    command = [sys.executable, "-c", FORGET_A_CHECK, *seeds]
    run = subprocess.run(command, env=check_bounds(), capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stderr
    assert "FAILED --seed 'factors/80'" in run.stdout
    assert "IndexError" in run.stdout


def test_a_seed_gives_the_same_file_and_all_kinds_are_tried():
    seeds = list_seeds(N_CASES)
    assert len(set(seeds)) == N_CASES
    assert {seed.partition("/")[0] for seed in seeds} == set(build_kinds())
    assert make_file(seeds[7]) == make_file(seeds[7]) != make_file(seeds[7 + len(build_kinds())])


def test_mutated_files_give_a_model_that_works_or_one_error():
    command = [sys.executable, "-m", "benchmarks.robustness.model_files", "--cases", str(N_CASES), "--jobs", "2"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    counts = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+) (?:model|refused)", run.stdout)]
    assert sum(counts) == N_CASES
    models = [int(count.replace(",", "")) for count in re.findall(r"([\d,]+) model", run.stdout)]
    assert sum(models) > N_CASES / 4
    print(run.stdout)
