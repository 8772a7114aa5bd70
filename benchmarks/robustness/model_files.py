"""Mutate model files and see what `load` makes of them: python -m benchmarks run robustness.model_files --cases 30000

A case is a file of some kind of model in which bytes, JSON values or numbers of arrays were changed; but for raw bytes,
all checksums are made right again. `load` must raise a `DocumentError` that names the file, or give a model that
predicts (dense rows, missing values, levels never seen, sparse rows), explains itself, exports to Python and, for some
of the cases, to C, and comes back from a second file bit for bit. No other exception, no index out of bounds.

Limits for load and all of these together, for a file of n bytes (each is asserted for every case):
memory    MEMORY + MEMORY_A_BYTE · n beyond what the process had before
time      SECONDS + SECONDS_A_BYTE · n of one processor, with the compiled loops run as plain Python

The cases run in a child process in which every index of the compiled loops is checked: plain Python by default
(NUMBA_DISABLE_JIT), or compiled with bounds checks (`--compiled`: NUMBA_BOUNDSCHECK, and a cache of its own, in which
compiling takes a minute). A case that fails is printed with its seed; `--seed` runs it again.
"""

from __future__ import annotations

import argparse
import copy
import csv
import hashlib
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
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from neuralbasis import export
from neuralbasis.explain import explain_global, explain_local
from neuralbasis.model.additive_model import AdditiveModel, load
from neuralbasis.model.shapes import LowRankShape
from neuralbasis.serialization.archive import DocumentError
from neuralbasis.serialization.model_file import ARRAYS, _write_entries
from tests.formats.make import make_model
from tests.models import MIXED, NUMERIC, build_model, tie_model
from tests.sparse_tables import build_models, build_wide, draw_table

MEMORY, MEMORY_A_BYTE = 100e6, 2000.0  # most for packed zeros: 50 bytes of each, 40 of what is made of it
SECONDS, SECONDS_A_BYTE = 10.0, 1e-4
PYTHON_EVERY, C_EVERY = 10, 200  # models that are exported
EXPORTED_NUMBERS = 20_000  # in the tables of models that are
MUTATIONS = {"file": 2, "text": 1, "values": 3, "numbers": 3, "allowed": 7}  # kinds, and how often each is drawn
FREE = (
    "mass",
    "weights",
    "tables",
    "spread",
    "members",
    "mix",
    "sizes",
    "bases",
    "coefficients",
    "deviations",
)  # no order
COMPILER = shutil.which("cc")
FLAGS = ["-std=c99", "-O1", "-DMODEL_MAIN", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]

Parts = tuple[Any, dict[str, bytes]]  # the JSON document, and the arrays by name


@cache
def build_kinds() -> dict[str, Parts]:
    """Small files of every kind of model."""
    rng = np.random.default_rng(1)
    many = {"link": "mlogit", "classes": np.array([f"class {k}" for k in range(12)]), "n_outputs": 12}
    binary = {"link": "logit", "classes": np.array([0, 1])}
    three = build_model(rng, MIXED, (1, 2), 3, "mlogit", np.array([2.5, 3.5, 4.5]))
    models = {
        "regression": build_model(rng, ("continuous",), (1,)),
        "dense": build_model(rng, NUMERIC, (1,), **binary),
        "nominal": build_model(rng, ("nominal", "ordinal"), (1, 2), **binary),
        "pairs": build_model(rng, ("continuous", "nominal", "continuous"), (1, 2)),
        "triples": build_model(rng, ("continuous", "ordinal", "continuous"), (1, 2, 3)),
        "two outputs": build_model(rng, ("continuous", "continuous"), (1, 2), n_outputs=2),
        "many classes": build_model(rng, ("continuous", "nominal"), (1,), **many),
        "tied classes": tie_model(rng, three, range(len(three.shapes))),
        "some tied": tie_model(rng, three, [0, 3, 7]),
        "factors": build_models(draw_table(0))[0],
        "regression by factors": build_models(draw_table(3), n_outputs=1)[0],
        "wide": build_wide(60),
        "all of it": make_model(),
    }
    return {name: write_parts(model) for name, model in models.items()}


def write_parts(model: AdditiveModel) -> Parts:
    entries = _write_entries(model)
    return json.loads(entries.pop("document.json")), entries


def pack(entries: dict[str, bytes]) -> bytes:
    """A zip of these entries with right checksums."""
    sums = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in entries.items()).encode()
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in {**entries, "SHA256SUMS": sums}.items():
            archive.writestr(name, data)
    return file.getvalue()


# Mutations

ODD: list[Any] = [None, True, False, 0, 1, -1, 2, 3, 5, 255, 10**9, 2**63, 10**25, 0.5, -1e300, 1e308, "", "x0"]
ODD += ["level 1", "<f8", "<f4", "|O", "logit", "identity", "mlogit", "nominal", "continuous", "\ud800", "\0"]
ODD += ["a" * 999, [], [0], [0, 1], [[]], {}, {"a": 1}]
NUMBERS = [np.nan, np.inf, -np.inf, 0.0, -0.0, -1.0, 1.0, 1e-320, 1e37, 1e99, 1e154, 1e199, -1e199, 1.7e308]


def mutate_bytes(draw: random.Random, data: bytes) -> bytes:
    """A flipped bit, a changed byte, a cut, a piece that is gone, comes twice or stands elsewhere, or noise."""
    changed = bytearray(data)
    for _ in range(draw.choice([1, 1, 2, 5])):
        at, to = draw.randrange(len(changed) + 1), draw.randrange(len(changed) + 1)
        size = draw.choice([1, 2, 4, 8, 30, 200])
        how = draw.randrange(7)
        if how == 0 and at < len(changed):
            changed[at] ^= 1 << draw.randrange(8)
        elif how == 1 and at < len(changed):
            changed[at] = draw.choice([0, 1, 127, 128, 255, draw.randrange(256)])
        elif how == 2:
            del changed[at:]
        elif how == 3:
            del changed[at : at + size]
        elif how == 4:
            changed[to:to] = changed[at : at + size]
        elif how == 5:
            changed[to : to + size] = changed[at : at + size]
        else:
            changed[at : at + size] = draw.randbytes(size)
        if not changed:
            break
    return bytes(changed)


def mutate_json(draw: random.Random, parts: Any) -> Any:
    """Values exchanged, added, removed, repeated, or moved from elsewhere in the document."""
    parts = copy.deepcopy(parts)
    for _ in range(draw.choice([1, 1, 1, 2, 4])):
        places = list(walk(parts))
        where, key = draw.choice(places)
        how = draw.randrange(6)
        if how <= 1:
            where[key] = draw.choice(ODD)
        elif how == 2:
            other, name = draw.choice(places)
            where[key] = copy.deepcopy(other[name])
        elif how == 3:
            del where[key]
        elif how == 4 and isinstance(where, list):
            where.insert(key, copy.deepcopy(draw.choice(where)))
        elif isinstance(where[key], int) and not isinstance(where[key], bool):
            where[key] += draw.choice([-1, 1])
        elif isinstance(where, dict):
            where[draw.choice(["extra", "", *where])] = draw.choice(ODD)
    return parts


def walk(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a document: the list or object, and the index or name."""
    keys: Sequence[Any] = list(value) if isinstance(value, dict) else range(len(value)) if type(value) is list else ()
    for key in keys:
        yield value, key
        yield from walk(value[key])


def mutate_arrays(draw: random.Random, parts: Any, arrays: dict[str, bytes]) -> Parts:
    """Other numbers in an array, numbers sorted or repeated, a changed header, arrays exchanged, another type."""
    parts, arrays = copy.deepcopy(parts), dict(arrays)
    name = draw.choice(sorted(arrays))
    kind = parts["arrays"][name.removesuffix(".npy")]
    header, data, how = arrays[name][:128], arrays[name][128:], draw.randrange(7)
    values = np.frombuffer(data, kind).copy()
    if how <= 2:
        for _ in range(draw.choice([1, 1, 3, 20])):
            odd = draw.choice([*NUMBERS, draw.gauss(0, 1), draw.gauss(0, 1e9), float(draw.randrange(8))])
            low, high = (0, 255) if kind == "|u1" else (0, 65535) if kind == "<u2" else (0, 2**32 - 1)
            whole = int(np.clip(np.nan_to_num(odd), low, high))
            with np.errstate(over="ignore"):
                values[draw.randrange(len(values))] = odd if "f" in kind else whole
        arrays[name] = header + values.tobytes()
    elif how == 3:  # right numbers in wrong places
        at, to = draw.randrange(len(values)), draw.randrange(len(values))
        values[at], values[to] = values[to], values[at]
        arrays[name] = header + (values if draw.randrange(2) else np.sort(values)).tobytes()
    elif how == 4:
        arrays[name] = mutate_bytes(draw, header) + data
    elif how == 5:
        arrays[name] = arrays[draw.choice(sorted(arrays))]
    else:
        parts["arrays"][name.removesuffix(".npy")] = draw.choice(["<f4", "<f8", "|u1", "<u2", "<u4"])
    return parts, arrays


def mutate_allowed(draw: random.Random, parts: Any, arrays: dict[str, bytes]) -> Parts:
    """Changes after which most files are models: numbers within the range of their array, and other texts."""
    parts, arrays = copy.deepcopy(parts), dict(arrays)
    for name in draw.choices([name for name in FREE if f"{name}.npy" in arrays], k=draw.choice([1, 2, 5])):
        kind, (_, low, high, _) = parts["arrays"][name], ARRAYS[name]
        values = np.frombuffer(arrays[f"{name}.npy"][128:], kind).copy()
        numbers = [low, high, 0.0, 1.0, draw.gauss(0, 1), 10 ** draw.uniform(-300, 99), float(draw.choice(values))]
        place = draw.choice(np.flatnonzero(values) if values.any() else range(len(values)))  # zeros of bases are fixed
        with np.errstate(over="ignore"):
            values[place] = min(max(draw.choice(numbers), low), high) if "f" in kind else draw.choice(values)
        arrays[f"{name}.npy"] = arrays[f"{name}.npy"][:128] + values.tobytes()
    if draw.randrange(2) and parts["arrays"]["knots"] == "<f8" and not any(run["levels"] for run in parts["columns"]):
        knots = np.frombuffer(arrays["knots.npy"][128:], "<f8") * 10 ** draw.uniform(-290, 290)
        arrays["knots.npy"] = arrays["knots.npy"][:128] + knots.tobytes()
    texts = [(where, key) for where, key in walk(parts) if isinstance(where[key], str) and isinstance(where, list)]
    for where, key in draw.sample(texts, min(len(texts), draw.randrange(3))):
        where[key] = "".join(draw.choices("aZ0 \n\"'%\\,;é🙂\0\ud800", k=draw.choice([0, 1, 5, 50])))
    parts["intercept"][0] = draw.choice([0, -0.0, 5e-324, draw.gauss(0, 1), 1e199])
    return parts, arrays


def make_file(seed: str) -> bytes:
    """The file of a case; the seed is "kind of model/number"."""
    draw = random.Random(seed)
    parts, arrays = build_kinds()[seed.rpartition("/")[0]]
    (how,) = draw.choices(list(MUTATIONS), list(MUTATIONS.values()))
    if how == "numbers":
        parts, arrays = mutate_arrays(draw, parts, arrays)
    if how == "values":
        parts = mutate_json(draw, parts)
    if how == "allowed":
        parts, arrays = mutate_allowed(draw, parts, arrays)
    text = json.dumps(parts).encode()
    data = pack({"document.json": mutate_bytes(draw, text) if how == "text" else text, **arrays})
    return mutate_bytes(draw, data) if how == "file" else data


# What a model must be able to do


def check_case(seed: str, folder: Path) -> str:
    """Returns "refused" or "model"; raises whatever is wrong."""
    data = make_file(seed)
    path = folder / "case.nbm"
    path.write_bytes(data)
    before, started = read_peak(), time.process_time()
    try:
        model = load(path)
    except DocumentError as error:
        if not str(error).startswith(f"{path} is not a model that can be read: "):
            raise AssertionError(f"an error without the file's name: {error}") from error
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
    """Bytes that the process has held at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def draw_rows(draw: random.Random, model: AdditiveModel) -> list[dict[str, Any]]:
    """Missing values, knots, values between and beyond them, the absent value, levels and one that was never seen."""
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
    require_close(model.scores(store(filled, absent)), model.scores(filled), model, model.contributions(filled))
    assert len(model.list_contributions(store(filled, absent))) == len(rows)
    return scores


def store(table: np.ndarray, absent: float) -> sp.csr_matrix:
    """The table without its absent values."""
    row, column = np.nonzero(~np.isnan(table) if np.isnan(absent) else table != absent)
    return sp.csr_matrix((table[row, column], (row, column)), shape=table.shape)


def require_close(found: np.ndarray, expected: np.ndarray, model: AdditiveModel, contributions: np.ndarray) -> None:
    """Equal up to the rounding of a sum of these contributions; finite in any case."""
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
    """A second file gives the same scores, bit for bit, and a third one is the second."""
    model.save(folder / "second.nbm")
    again = load(folder / "second.nbm")
    assert again.scores(rows).tobytes() == scores.tobytes()
    again.save(folder / "third.nbm")
    assert (folder / "third.nbm").read_bytes() == (folder / "second.nbm").read_bytes()


def check_exports(
    model: AdditiveModel, rows: list[dict[str, Any]], scores: np.ndarray, draw: random.Random, folder: Path
) -> None:
    """An export may be refused with a ValueError, but must not be wrong."""
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
    """Compile with sanitizers, and let the command predict the rows."""
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
    )  # the sanitizer reserves addresses by the terabyte
    if run.returncode:
        raise AssertionError(f"the C program failed: {run.stderr.decode(errors='replace')[-2000:]}")
    assert len(run.stdout.splitlines()) >= len(scores)


# Running


def run_cases(seeds: Sequence[str]) -> int:
    """Check all cases and print those that fail; returns how many did."""
    warnings.simplefilter("ignore")  # of NumPy, for the huge numbers of mutated tables
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
    """Let allocations beyond this size fail, before the machine does."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard if size is None else size, hard))


def warm_up(kind: str, folder: Path) -> None:
    """Check a file as it is, so that modules and compiled code do not count as a case's."""
    parts, arrays = build_kinds()[kind]
    (folder / "whole.nbm").write_bytes(pack({"document.json": json.dumps(parts).encode(), **arrays}))
    model, draw = load(folder / "whole.nbm"), random.Random(0)
    rows = draw_rows(draw, model)
    check_second_file(model, rows, check_predictions(model, rows), folder)
    check_explanations(model, rows)


def list_seeds(count: int, first: int = 0) -> list[str]:
    """So many cases, as many of each kind."""
    kinds = list(build_kinds())
    return [f"{kinds[index % len(kinds)]}/{first + index // len(kinds)}" for index in range(count)]


def check_bounds(cache: str | None = None) -> dict[str, str]:
    """The environment of a process in which every index of the compiled loops is checked.

    The loops run as plain Python or, given a folder for compiled code, are compiled with checks.
    """
    if cache is None:
        return {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": cache}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=3000)
    parser.add_argument("--first", type=int, default=0, help="number of the first case of each kind")
    parser.add_argument("--seed", help="one case, as it was printed")
    parser.add_argument("--compiled", action="store_true", help="compiled loops with bounds checks")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
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
