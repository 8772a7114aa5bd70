"""`neuralbasis fit` by several processes of torchrun: one model, written and printed once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import neuralbasis

QUICK = ["--preset", "fast", "--interactions", "0", "--set", "max_steps=40", "--set", "n_jobs=1"]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Four files of a table."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    for part in range(4):
        x, z = rng.random(600).round(3), rng.normal(size=600).round(2)
        colour = rng.choice(["red", "green"], 600)
        y = np.sin(5 * x) + 0.5 * np.abs(z) + 0.7 * (colour == "red") + 0.1 * rng.normal(size=600)
        pq.write_table(pa.table({"x": x, "z": z, "colour": colour, "y": y}), folder / f"{part}.parquet")
    return folder


def fit(folder: Path, model: str, *options: str, torchrun: bool, code: int = 0) -> subprocess.CompletedProcess:
    start = [*TORCHRUN, "-m", "neuralbasis"] if torchrun else [sys.executable, "-m", "neuralbasis"]
    files = [str(path) for path in sorted(folder.glob("*.parquet"))]
    found = subprocess.run(
        [*start, "fit", *files, "--model", model, *QUICK, *options], cwd=folder, capture_output=True, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert (found.returncode == 0) == (code == 0), found.stderr[-3000:]
    return found


def test_two_processes_write_the_model_of_one(folder: Path) -> None:
    alone = fit(folder, "one.nbm", "--target", "y", torchrun=False)
    together = fit(folder, "two.nbm", "--target", "y", torchrun=True)
    assert together.stdout.replace("two.nbm", "one.nbm") == alone.stdout  # printed once
    one, two = neuralbasis.load(folder / "one.nbm"), neuralbasis.load(folder / "two.nbm")
    assert one.term_names == two.term_names == ("x", "z", "colour")
    for a, b in zip(one.shapes, two.shapes, strict=True):
        np.testing.assert_allclose(a.scores, b.scores, rtol=0, atol=1e-5)
    assert np.abs(one.shapes[0].scores).max() > 0.5


def test_an_error_of_all_processes_names_the_column(folder: Path) -> None:
    found = fit(folder, "none.nbm", "--target", "yy", torchrun=True, code=1)
    assert "no column 'yy'; did you mean 'y'?" in found.stderr
    assert not (folder / "none.nbm").exists()
