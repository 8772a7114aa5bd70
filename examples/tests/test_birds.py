"""examples/birds.py: one command draws birds, extracts concepts, fits a model and writes figures and a page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import neuralbasis
from neuralbasis.vision import load

pytest.importorskip("transformers")
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_one_command_writes_the_page(tmp_path):
    (tmp_path / "drawn.part" / "images").mkdir(parents=True)  # left by an interrupted run
    command = [sys.executable, EXAMPLES / "birds.py", "--output", tmp_path, "--images", "90", "--classes", "3"]
    quiet = {"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "MPLBACKEND": "Agg"}
    run = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | quiet)
    assert run.returncode == 0, run.stderr
    found = re.search(r"3 species: accuracy ([\d.]+)% on \d+ test pictures", run.stdout)
    assert float(found[1]) > 60  # chance is 33

    model = neuralbasis.load(tmp_path / "birds.nbm")
    assert model.encoder.names == load(tmp_path / "concepts.nbc").names
    page = (tmp_path / "birds.html").read_text(encoding="utf-8")
    shown = json.loads(re.search(r'id="data">(.*?)</script>', page)[1])["evidence"]
    assert [entry["label"] for entry in shown["classes"]] == ["001.Drawn bird", "002.Drawn bird", "003.Drawn bird"]
    assert all(len(entry["examples"]) == 4 and entry["for"] for entry in shown["classes"])
    assert shown["pictures"][0]["prediction"] == shown["pictures"][0]["actual"]
    assert shown["pictures"][0]["grid"] == [16, 16]
    assert not list(tmp_path.glob("*.part"))
    for name in ("class.png", "picture.png"):
        assert (tmp_path / name).stat().st_size > 50_000
