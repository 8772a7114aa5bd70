"""Load mutated model files and check what comes of them.

    python -m benchmarks run robustness.model_files --cases 30000

A case is a file in which bytes, JSON values or numbers of arrays were changed (`mutations`). `load` must raise a
`DocumentError` that names the file, or return a model that predicts (dense rows, missing values, unknown levels, sparse
rows), explains itself, exports to Python and for some cases to C, and is the same bit for bit after saving and loading.
No other exception and no index out of bounds is allowed.

Limits of load and all of these together, for a file of n bytes, asserted for every case:
memory    MEMORY + MEMORY_A_BYTE · n beyond the memory of the process before
time      SECONDS + SECONDS_A_BYTE · n of one processor, with the compiled loops run as plain Python

Cases run in a child process that checks every index of the compiled loops: plain Python by default (NUMBA_DISABLE_JIT),
or compiled with bounds checks (`--compiled`: NUMBA_BOUNDSCHECK with a separate cache; compilation takes a minute). A
failed case is printed with its seed; `--seed` runs it again.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import math
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from neuralbasis import export
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.model.additive_model import AdditiveModel, load
from neuralbasis.model.shapes import LowRankShape
from neuralbasis.serialization.archive import DocumentError

from .mutations import build_kinds, make_file, pack

MEMORY, MEMORY_A_BYTE = 100e6, 2000.0  # the maximum is for compressed zeros: 50 bytes each, 40 for derived arrays
SECONDS, SECONDS_A_BYTE = 10.0, 1e-4
PYTHON_EVERY, C_EVERY = 10, 200  # one of this many models is exported
EXPORTED_NUMBERS = 20_000  # largest exported tables
COMPILER = shutil.which("cc")
FLAGS = ["-std=c99", "-O1", "-DMODEL_MAIN", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]


def check_case(seed: str, folder: Path) -> str:
    """Check one case; returns "refused" or "model", raises if something is wrong."""
    data = make_file(seed)
    path = folder / "case.nbm"
    path.write_bytes(data)
    before, started = read_peak(), time.process_time()
    try:
        model = load(path)
    except DocumentError as error:
        if not str(error).startswith(f"{path} is not a model that can be read: "):
            raise AssertionError(f"an error that does not name the file: {error}") from error
        model = None
    if model is not None:
        draw = random.Random(seed + " rows")
        rows = draw_rows(draw, model)
        scores = check_predictions(model, rows)
        check_explanations(model, rows)
        check_second_file(model, rows, scores, folder)
        check_exports(model, rows, scores, draw, folder)
    seconds, memory = time.process_time() - started, read_peak() - before
    if seconds > SECONDS + SECONDS_A_BYTE * len(data):
        raise AssertionError(f"a file of {len(data):,} bytes took {seconds:.1f} s")
    if memory > MEMORY + MEMORY_A_BYTE * len(data):
        raise AssertionError(f"a file of {len(data):,} bytes took {memory / 1e6:.0f} MB")
    return "refused" if model is None else "model"


def read_peak() -> int:
    """Peak memory of the process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def draw_rows(draw: random.Random, model: AdditiveModel) -> list[dict[str, Any]]:
    """Rows with missing values, knots, values between and beyond them, the absent value, known and unknown levels."""
    rows: list[dict[str, Any]] = [{axis.name: None for axis in model.encoder.axes}]
    for _ in range(3):
        row: dict[str, Any] = {}
        for axis in model.encoder.axes:
            if axis.levels is not None:
                row[axis.name] = draw.choice([None, "never seen", axis.levels[0], axis.levels[-1], *axis.levels[:9]])
            else:
                knot = float(draw.choice(axis.knots))
                row[axis.name] = draw.choice([None, 0.0, knot, 0.7 * knot, knot + 0.1, -1.7e308, 1.7e308])
        rows.append(row)
    return rows


def check_predictions(model: AdditiveModel, rows: list[dict[str, Any]]) -> np.ndarray:
    """(N, K) scores of the rows."""
    scores, contributions = model.scores(rows), model.contributions(rows)
    assert scores.shape == (len(rows), model.n_outputs)
    assert contributions.shape == (len(rows), len(model.shapes), model.n_outputs)
    require_close(contributions.sum(axis=1) + model.intercept, scores, model, contributions)
    predictions = model.predict(rows)
    assert len(predictions) == len(rows)
    if model.classes is not None:
        np.testing.assert_allclose(model.predict_proba(rows).sum(axis=1), 1.0)
        assert set(predictions.tolist()) <= set(model.classes.tolist())
    if any(axis.is_level for axis in model.encoder.axes):
        return scores
    dense = np.array([[np.nan if value is None else value for value in row.values()] for row in rows])
    np.testing.assert_array_equal(model.scores(dense), scores)
    absent = model.absent_value
    filled = np.where(np.isnan(dense) & ~np.isnan(absent), 0.5, dense)
    require_close(model.scores(make_sparse(filled, absent)), model.scores(filled), model, model.contributions(filled))
    assert len(model.list_contributions(make_sparse(filled, absent))) == len(rows)
    return scores


def make_sparse(table: np.ndarray, absent: float) -> sp.csr_matrix:
    """The table as a sparse matrix without its absent values."""
    row, column = np.nonzero(~np.isnan(table) if np.isnan(absent) else table != absent)
    return sp.csr_matrix((table[row, column], (row, column)), shape=table.shape)


def require_close(found: np.ndarray, expected: np.ndarray, model: AdditiveModel, contributions: np.ndarray) -> None:
    """Assert equality up to the rounding of a sum of these contributions, and finite values."""
    assert np.isfinite(found).all()
    assert np.isfinite(expected).all()
    is_single = any(isinstance(shape, LowRankShape) for shape in model.shapes)
    tables = [np.abs(shape.scores).reshape(-1, model.n_outputs).max(axis=0) for shape in model.shapes]
    size = np.abs(model.intercept) + np.abs(contributions).sum(axis=1) + np.sum(tables, axis=0)
    assert (np.abs(found - expected) <= (1e-4 if is_single else 1e-9) * size).all(), (found, expected)


def check_explanations(model: AdditiveModel, rows: list[dict[str, Any]]) -> None:
    for importance_type in ("avg_weight", "min_max"):
        found = model.importances(importance_type)
        assert found.shape == (len(model.shapes),)
        assert np.isfinite(found).all()
        assert (found >= 0).all()
    assert np.isfinite(model.leanings()).all()
    assert len(str(model)) > 0
    for term in range(0, len(model.shapes), max(1, len(model.shapes) // 4)):
        assert len(str(model.scorecard(term, max_rows=20))) > 0
    explanation = explain_global(model)
    explanation.data()
    for term in explanation.top(5):
        assert len(repr(term)) > 0
    if model.shapes:
        explain_local(model, rows[:2])
    for shape in model.shapes[:50]:
        cells = tuple(axis.n_cells for axis in shape.axes)
        assert shape.scores.shape == shape.spread.shape == (*cells, model.n_outputs)
        assert shape.weights.shape == cells


def check_second_file(model: AdditiveModel, rows: list[dict[str, Any]], scores: np.ndarray, folder: Path) -> None:
    """A second file gives the same scores bit for bit, and a third file equals the second."""
    model.save(folder / "second.nbm")
    again = load(folder / "second.nbm")
    assert again.scores(rows).tobytes() == scores.tobytes()
    again.save(folder / "third.nbm")
    assert (folder / "third.nbm").read_bytes() == (folder / "second.nbm").read_bytes()


def check_exports(
    model: AdditiveModel, rows: list[dict[str, Any]], scores: np.ndarray, draw: random.Random, folder: Path
) -> None:
    """An export may raise ValueError but must not be wrong."""
    n_numbers = sum(math.prod(axis.n_cells for axis in shape.axes) for shape in model.shapes) * model.n_outputs
    in_python, in_c = draw.randrange(PYTHON_EVERY) == 0, draw.randrange(C_EVERY) == 0
    if n_numbers > EXPORTED_NUMBERS or not (in_python or in_c):
        return
    try:
        text, code = export.to_python(model), export.to_c(model)
    except ValueError:
        return
    program: dict[str, Any] = {"__name__": "program"}
    exec(compile(text, "model.py", "exec"), program)
    found = np.array([program["scores"](row) for row in rows], dtype=float).reshape(len(rows), -1)
    require_close(found, scores, model, model.contributions(rows))
    if in_c and COMPILER is not None and code.isascii():
        check_c(code, rows, found, folder)


def check_c(code: str, rows: list[dict[str, Any]], scores: np.ndarray, folder: Path) -> None:
    """Compile with sanitizers and predict the rows."""
    (folder / "model.c").write_text(code, encoding="ascii")
    command = str(folder / "model.bin")
    subprocess.run([str(COMPILER), *FLAGS, str(folder / "model.c"), "-o", command, "-lm"], check=True)
    file = io.StringIO(newline="")
    writer = csv.writer(file)
    writer.writerow(rows[0])
    writer.writerows([["" if value is None else value for value in row.values()] for row in rows])
    data = file.getvalue().encode("utf-8", "replace")
    run = subprocess.run(
        [command], input=data, capture_output=True, check=False, timeout=60, preexec_fn=lambda: limit_memory(None)
    )  # the sanitizer reserves terabytes of addresses
    if run.returncode:
        raise AssertionError(f"the C program failed: {run.stderr.decode(errors='replace')[-2000:]}")
    assert len(run.stdout.splitlines()) >= len(scores)


def run_cases(seeds: Sequence[str]) -> int:
    """Check all cases and print failures; returns their number."""
    warnings.simplefilter("ignore")  # NumPy warns of huge numbers in mutated tables
    limit_memory(6 << 30)
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as name:
        for kind in build_kinds():
            warm_up(kind, Path(name))
        for seed in seeds:
            try:
                outcomes[check_case(seed, Path(name))] += 1
            except Exception:
                outcomes["failed"] += 1
                print(f"FAILED --seed {seed!r}\n{traceback.format_exc(limit=-6)}", flush=True)
    print(", ".join(f"{count:,} {outcome}" for outcome, count in sorted(outcomes.items())), flush=True)
    return outcomes["failed"]


def limit_memory(size: int | None) -> None:
    """Make allocations beyond this size fail."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard if size is None else size, hard))


def warm_up(kind: str, folder: Path) -> None:
    """Check an unchanged file: imports and compilation are then not counted for a case."""
    parts, arrays = build_kinds()[kind]
    (folder / "whole.nbm").write_bytes(pack({"document.json": json.dumps(parts).encode(), **arrays}))
    model, draw = load(folder / "whole.nbm"), random.Random(0)
    rows = draw_rows(draw, model)
    check_second_file(model, rows, check_predictions(model, rows), folder)
    check_explanations(model, rows)


def list_seeds(count: int, first: int = 0) -> list[str]:
    """Seeds of `count` cases, equally many of each kind."""
    kinds = list(build_kinds())
    return [f"{kinds[index % len(kinds)]}/{first + index // len(kinds)}" for index in range(count)]


def check_bounds(cache: str | None = None) -> dict[str, str]:
    """Environment of a process that checks every index of the compiled loops.

    The loops run as plain Python or, given a folder for compiled code, are compiled with checks.
    """
    if cache is None:
        return {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each kind")
    parser.add_argument("--seed", help="one case, as printed")
    parser.add_argument("--compiled", action="store_true", help="compiled loops with bounds checks")
    parser.add_argument("--jobs", type=int, default=1, help="number of processes")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="26 cases")
    given = parser.parse_args()
    if given.quick:
        given.cases = 26
    if given.child is not None:
        seeds = list_seeds(given.cases, given.first) if given.seed is None else [given.seed]
        sys.exit(1 if run_cases(seeds[given.child :: given.jobs]) else 0)
    command = [sys.executable, "-m", "benchmarks.robustness.model_files", *sys.argv[1:], "--child"]
    with tempfile.TemporaryDirectory(prefix="bounds-") as cache:
        environment = check_bounds(cache if given.compiled else None)
        children = [subprocess.Popen([*command, str(job)], env=environment) for job in range(given.jobs)]
        codes = [child.wait() for child in children]
    sys.exit(1 if any(codes) else 0)


if __name__ == "__main__":
    main()
