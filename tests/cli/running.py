"""Run commands in this process or in another, and write their inputs."""

from __future__ import annotations

import csv
import io
import subprocess
import sys
from pathlib import Path

import numpy as np
from click.testing import CliRunner

from neuralbasis import AdditiveModel
from neuralbasis.cli import main
from neuralbasis.encoding import Axis, Encoder
from neuralbasis.model.shapes import Shape

QUICK = ["--set", "max_steps=30", "--set", "outer_bags=2", "--interactions", "0"]

KINDS = {
    "regression": {},
    "binary": {"link": "logit", "classes": np.array(["no", "yes"])},
    "multiclass": {"link": "mlogit", "classes": np.array([3, 5, 8]), "n_outputs": 3},
}


def run(*arguments, code: int | None = 0, stdin=None):
    """Run a command in this process and check its exit code; None allows any."""
    found = CliRunner().invoke(main, [str(a) for a in arguments], input=stdin)
    assert code is None or found.exit_code == code, found.output
    return found


def fails(*arguments, code: int = 1, stdin=None) -> str:
    """Run a command that must fail, and return the line of its error."""
    found = run(*arguments, code=code, stdin=stdin)
    lines = [line for line in found.stderr.splitlines() if line.startswith("error: ")]
    assert len(lines) == 1, found.output
    assert "Traceback" not in found.output
    return lines[0]


def spawn(*arguments, **options) -> subprocess.Popen:
    command = [sys.executable, "-m", "neuralbasis", *map(str, arguments)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **{**pipes, **options})


def write_csv(path: Path, columns: dict, **options) -> Path:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, **options)
        writer.writerow(columns)
        for row in zip(*columns.values(), strict=True):
            writer.writerow(["" if v is None or v != v else v for v in row])
    return path


def read_csv(source) -> dict[str, list]:
    text = source.read_text(encoding="utf-8") if isinstance(source, Path) else source
    header, *rows = csv.reader(io.StringIO(text))
    return {name: [row[k] for row in rows] for k, name in enumerate(header)}


def numbers(texts: list[str]) -> np.ndarray:
    return np.array([float(text) for text in texts])


FIT = ["--exclude", "id,weight", "--feature-types", "zip=nominal", *QUICK]


def small_model(tmp_path, axes: list[Axis]) -> tuple[Path, AdditiveModel]:
    rng, shapes = np.random.default_rng(0), []
    for index, axis in enumerate(axes):
        scores = rng.normal(size=(axis.n_cells, 1))
        shapes.append(Shape((index,), (axis,), scores, np.zeros_like(scores), np.ones(axis.n_cells)))
    model = AdditiveModel(Encoder(tuple(axes)), np.zeros(1), tuple(shapes), "identity")
    model.save(tmp_path / "small.nbm")
    return tmp_path / "small.nbm", model


def number_axis(name: str, *knots: float) -> Axis:
    return Axis(name, "continuous", np.array(knots, dtype=float), np.linspace(0, 1, len(knots)))
