"""Law: 2 and 3 processes give the model of one process. torchrun starts them; they communicate by gloo."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.laws import fit_together


@pytest.fixture(scope="module", params=[2, 3])
def folder(request, tmp_path_factory) -> Path:
    """The tables of every fit, written by each process."""
    out = tmp_path_factory.mktemp(f"processes-{request.param}")
    fit_together.write_table(out)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(request.param)]
    command += [fit_together.__file__, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(out.glob("*.npz"))) == request.param * (len(fit_together.FITS) + 2)
    return out


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, np.ndarray]]:
    return {task: fit_together.fit_tables(task) for task in fit_together.FITS}


@pytest.mark.parametrize("task", fit_together.FITS)
def test_processes_give_the_model_of_one(folder, alone, task):
    assert_same_tables(folder, task, alone[task])


def test_one_of_the_fits_has_steps_of_weaker_pairs(alone):
    assert sum(" & " in name for name in alone["weak"]) > 10


def test_processes_that_share_files_give_the_model_of_one(folder):
    assert_same_tables(folder, "files", fit_together.fit_files(folder))


def assert_same_tables(folder: Path, task: str, expected: dict[str, np.ndarray]) -> None:
    for path in folder.glob(f"{task}-*.npz"):
        found = dict(np.load(path))
        assert list(found) == list(expected)  # the same terms
        for name, table in expected.items():
            np.testing.assert_allclose(found[name], table, rtol=0, atol=1e-5, err_msg=f"{path.name} {name}")
    assert max(table.max() for table in expected.values()) > 0.5


def test_what_processes_exchange_does_not_depend_on_rows(folder):
    """Tables are sent in single precision, gradients in double precision, and the network once at the end."""
    found = [np.load(path) for path in folder.glob("bytes-*.npz")]
    (few, numbers), (many, _) = (np.array([each[name] for each in found]).T for name in ("few", "many"))
    assert few.tolist() == many.tolist()
    assert 0 < few.sum() - numbers[0] * (4 + 8 * (len(found) - 1)) < 100_000
