"""Law: 2 and 3 processes give the model of one process. Real processes, started by torchrun, speaking gloo."""

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
    """What all processes found for every fit, written by each of them."""
    out = tmp_path_factory.mktemp(f"processes-{request.param}")
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(request.param)]
    command += [fit_together.__file__, str(out)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(list(out.iterdir())) == request.param * (len(fit_together.FITS) + 1)
    return out


@pytest.fixture(scope="module")
def alone() -> dict[str, dict[str, np.ndarray]]:
    return {task: fit_together.fit_tables(task) for task in fit_together.FITS}


@pytest.mark.parametrize("task", fit_together.FITS)
def test_processes_give_the_model_of_one(folder, alone, task):
    for path in folder.glob(f"{task}-*.npz"):
        found = dict(np.load(path))
        assert list(found) == list(alone[task])  # the same terms
        for name, table in alone[task].items():
            np.testing.assert_allclose(found[name], table, rtol=0, atol=1e-5, err_msg=f"{path.name} {name}")
    assert max(table.max() for table in alone[task].values()) > 0.5


def test_what_processes_exchange_does_not_depend_on_rows(folder):
    for path in folder.glob("bytes-*.npz"):
        found = np.load(path)
        assert found["few"][0] == found["few"][1] == found["many"][0] == found["many"][1]
