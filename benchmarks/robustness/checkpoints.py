"""Resume fits from altered checkpoints.

    python -m benchmarks run robustness.checkpoints --cases 1000 [--kinds wide files]

Every case changes values, types, shapes, dtypes, keys or bytes in a checkpoint of a real fit, writes the archive with
valid checksums, and resumes the fit. A fit may raise `CheckpointError`, skip the file with a warning and start again,
or train to a model. Any other exception, a crash, a hang or a large growth of memory is a failure. Cases run in child
processes. Prints one line per kind of fit and per failure; the exit code is 1 if there was a failure.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import json
import queue
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

MAX_SECONDS = 180.0  # per case, on a busy machine
MAX_GROWTH = 600 << 20  # bytes of memory beyond the peak of the first fit
SMALL = {
    "n_jobs": 1, "max_steps": 20, "network__hidden": (8,), "network__n_bases": 4, "network__n_interaction_bases": 4,
    "random_state": 0,
}  # fmt: skip
ODD = [
    None, True, False, 0, -1, 1, 7, 2**31, -(2**31), 2**63, 2**200, 0.0, -0.5, 1e-300, 1e308, float("nan"),
    float("inf"), -float("inf"), "", "schedule", "time_limit", "PCG64", "MT19937", [], [0], [[]], {}, {"a": 1},
    {"array": ["<f4", [2]]}, {"array": ["|O", [1]]}, {"array": ["<f8", [10**12]]},
]  # fmt: skip
SHAPES = [(), (0,), (1,), (2, 2), (1, 1, 1), (1000,)]
DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]
EXTREMES = [
    0,
    1,
    -1,
    2,
    623,
    624,
    625,
    2**31 - 1,
    -(2**31),
    2**40,
    -(2**40),
    1e30,
    -1e30,
    1e-30,
    np.nan,
    np.inf,
    -np.inf,
]


class Interrupted(Exception):
    """Ends a fit early."""


def draw(kind: str, n_rows: int = 200) -> tuple[Any, np.ndarray]:
    """A table and its target."""
    rng = np.random.default_rng(3)
    if kind == "wide":
        import scipy.sparse

        found = scipy.sparse.random(200, 20_500, 0.001, "csr", random_state=0, data_rvs=lambda n: rng.integers(1, 4, n))
        return found, np.asarray(found[:, :40].sum(axis=1)).ravel() + rng.normal(0, 0.1, 200)
    X = rng.random((n_rows, 3))
    score = np.sin(5 * X[:, 0]) + 3 * X[:, 1] * X[:, 2] + rng.normal(0, 0.3, n_rows)
    return X, np.digitize(score, [0.5, 1.5]) if kind == "exact" else score > 1 if kind == "pairs" else score


def write_files(folder: Path) -> list[str]:
    """The table of the kind "files", in two Parquet files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    X, y = draw("files", 4000)
    table = pa.table({**{f"x{d}": X[:, d] for d in range(3)}, "target": y})
    paths = [folder / f"part-{number}.parquet" for number in range(2)]
    for number, path in enumerate(paths):
        pq.write_table(table.slice(2000 * number, 2000), path)
    return [str(path) for path in paths]


FITS: dict[str, dict[str, Any]] = {
    "dense": {"interactions": 0, "outer_bags": 2},
    "one member": {"interactions": 0, "outer_bags": 1, "validation_size": 0.3, "network": {"batch_size": 64}},
    "pairs": {"interactions": 1, "outer_bags": 3, "network": {"dropout": 0.1, "batch_size": 64}},
    "exact": {"interactions": 1, "outer_bags": 2, "smoothness": 0, "network": {"staged": False, "engine": "exact"}},
    "wide": {"preset": "fast", "max_steps": "auto", "outer_bags": 2},
    "files": {
        "interactions": [("x1", "x2")],
        "outer_bags": 2,
        "storage__memory_limit": 450_000,
        "network": {"batch_size": 256},
    },
}


def fit(kind: str, data: Path, state: Path, resume: bool, callbacks: list[Callable] | None = None) -> Any:
    """Fit one kind, with checkpoints in the folder `state`."""
    from benchmarks.robustness.fit_process import small_memory
    from neuralbasis import NeuralBasisClassifier, NeuralBasisRegressor

    estimator = NeuralBasisClassifier if kind in ("pairs", "exact") else NeuralBasisRegressor
    usual = {name: SMALL[name] for name in ("n_jobs", "random_state")} if kind == "wide" else SMALL
    given = {
        **usual,
        **FITS[kind],
        "storage__checkpoint_dir": state,
        "storage__checkpoint_every": 0.0,
        "callbacks": callbacks,
    }
    if kind == "files":
        with small_memory():
            return estimator(**given).fit(sorted(map(str, data.glob("part-*"))), "target", resume=resume)
    return estimator(**given).fit(*draw(kind), resume=resume)


def collect(kind: str, data: Path) -> list[Path]:
    """Checkpoints of a fit: an early one, one from the middle, one near the end, and the last."""
    from neuralbasis.training import list_checkpoints

    if kind == "files" and not list(data.glob("part-*")):
        write_files(data)
    looks: list[int] = []
    fit(kind, data, data / f"{kind} 0", False, [lambda history: looks.append(len(history.steps))])
    for number, look in enumerate(sorted({2, len(looks) // 2, len(looks) - 1}), start=1):
        counts = iter(range(1, look + 1))

        def cut(_history: Any, counts: Iterator[int] = counts) -> bool:
            if next(counts, None) is None:
                raise Interrupted
            return False

        with contextlib.suppress(Interrupted):
            fit(kind, data, data / f"{kind} {number}", False, [cut])
    return [list_checkpoints(folder)[-1] for folder in sorted(data.glob(f"{kind} *")) if list_checkpoints(folder)]


def alter(source: Path, target: Path, rng: np.random.Generator) -> str:
    """Write an altered copy of a checkpoint; returns a description of the change."""
    from neuralbasis.serialization.archive import write_archive
    from neuralbasis.serialization.nested_json import read_nested, write_nested

    if rng.random() < 0.1:
        from neuralbasis.serialization.archive import read_archive

        with open(source, "rb") as file:
            entries = read_archive(file)
        done = alter_entries(entries, rng)
        write_archive(target, entries)
        return done
    content = deepcopy(read_nested(source))
    done = "; ".join(alter_content(content, rng) for _ in range(rng.choice([1, 1, 1, 3])))
    try:
        write_nested(target, content)
    except (TypeError, ValueError, OverflowError):  # cannot be written: the file stays unchanged
        shutil.copy(source, target)
    return done


def alter_entries(entries: dict[str, bytes], rng: np.random.Generator) -> str:
    """Change the text or the bytes of the archive."""
    text, data = entries["state.json"], entries["arrays.bin"]
    place = int(rng.integers(len(data) + 1))
    edits: dict[str, Callable[[], None]] = {
        "arrays cut short": lambda: entries.update({"arrays.bin": data[:place]}),
        "arrays longer": lambda: entries.update({"arrays.bin": data + bytes(8)}),
        "arrays of noise": lambda: entries.update({"arrays.bin": data[:place] + rng.bytes(len(data) - place)}),
        "text cut short": lambda: entries.update({"state.json": text[: rng.integers(len(text))]}),
        "key twice": lambda: entries.update({"state.json": text[:-1] + b', "over": [{}], "choices": {"seed": -1}}'}),
        "deep text": lambda: entries.update({"state.json": b'{"format": 2, "over": ' + b"[" * 100_000}),
        "other format": lambda: entries.update({"state.json": text.replace(b'"format": 2', b'"format": 1')}),
        "list": lambda: entries.update({"state.json": b"[]"}),
        "no arrays": lambda: entries.pop("arrays.bin") and None,
        "no text": lambda: entries.pop("state.json") and None,
        "digit": lambda: entries.update({"state.json": change_digit(text, rng)}),
    }
    name = list(edits)[rng.integers(len(edits))]
    edits[name]()
    return name


def change_digit(text: bytes, rng: np.random.Generator) -> bytes:
    """Replace one digit by another."""
    places = [place for place, letter in enumerate(text) if chr(letter).isdigit()]
    place = places[rng.integers(len(places))]
    return text[:place] + str(rng.integers(10)).encode() + text[place + 1 :]


def alter_content(content: dict[str, Any], rng: np.random.Generator) -> str:
    """Change one value, mostly in the states of runs; each step of the path picks a branch uniformly."""
    states = [name for name in ("over", "under_way") if content.get(name)]
    names = states if states and rng.random() < 0.85 else list(content)
    holder, key, path = content, names[rng.integers(len(names))], ""
    while True:
        path, value = f"{path}[{key!r}]", holder[key]
        keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        if not keys or rng.random() < 0.03:
            break
        holder, key = value, keys[rng.integers(len(keys))]
    if isinstance(value, np.ndarray) and rng.random() < 0.9:
        holder[key], what = alter_array(value, rng)
        return f"{path}: {what}"
    what = ["replaced", "removed", "doubled", "moved"][rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]
    if what == "replaced":
        holder[key] = replacement = pick_odd(value, rng)
        return f"{path}: {replacement!r:.60}"
    if what == "removed":
        del holder[key]
    elif isinstance(holder, list):
        holder.insert(0 if what == "moved" else key, deepcopy(value))
    else:
        holder[f"{key}2"] = deepcopy(value) if what == "doubled" else holder.pop(key)
    return f"{path}: {what}"


def pick_odd(value: Any, rng: np.random.Generator) -> Any:
    """Another value, in half of the cases of the same type."""
    alike = [odd for odd in ODD if type(odd) is type(value)]
    if type(value) in (int, float) and rng.random() < 0.3:
        return value + type(value)(rng.integers(-2, 3))
    chosen = alike if alike and rng.random() < 0.5 else ODD
    return deepcopy(chosen[rng.integers(len(chosen))])


def alter_array(array: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, str]:
    """Change values, dtype or shape."""
    what = rng.choice(["values", "values", "values", "all values", "dtype", "shape", "shorter", "longer"])
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if what == "dtype":
            return array.astype(DTYPES[rng.integers(len(DTYPES))]), what
        if what == "shape":
            return np.zeros(SHAPES[rng.integers(len(SHAPES))], array.dtype), what
        if what == "shorter":
            return array.ravel()[: array.size // 2], what
        if what == "longer" or array.size == 0:
            return np.append(array.ravel(), np.array(EXTREMES[rng.integers(len(EXTREMES))]).astype(array.dtype)), what
        changed, extreme = array.copy(), np.array(EXTREMES[rng.integers(len(EXTREMES))]).astype(array.dtype)
        if what == "all values":
            changed[...] = extreme
        else:
            changed.ravel()[rng.integers(array.size, size=rng.integers(1, 4))] = extreme
        return changed, f"{what} {extreme}"


def run_case(kind: str, data: Path, sources: list[Path], number: int) -> tuple[str, str, str]:
    """Case `number` of a kind: outcome ("error", "started again", "model" or "FAILED"), change, and reason."""
    from neuralbasis.training import CheckpointError

    rng = np.random.default_rng([number, *kind.encode()])
    with tempfile.TemporaryDirectory() as state, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        path = Path(state, "fit-000001.checkpoint")
        done = alter(sources[rng.integers(len(sources))], path, rng)
        try:
            fit(kind, data, Path(state), resume=True)
        except CheckpointError as error:
            known = str(state) in str(error) and "resume=False" in str(error)
            return ("error" if known else "FAILED"), done, str(error)
        except Exception:
            return "FAILED", done, traceback.format_exc(limit=-3)
        skipped = [str(warning.message) for warning in caught if "cannot be read" in str(warning.message)]
        return ("started again" if skipped else "model"), done, "; ".join(skipped)


def work(kind: str, data: Path, numbers: list[int]) -> None:
    """Run cases in a child process; prints a line before and after each."""
    sources = sorted(path for folder in data.glob(f"{kind} *") for path in folder.glob("fit-*.checkpoint"))
    fit(kind, data, Path(tempfile.mkdtemp(dir=data)), False)
    usual = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    for number in numbers:
        print(json.dumps([number]), flush=True)
        outcome, done, why = run_case(kind, data, sources, number)
        growth = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - usual
        if growth > MAX_GROWTH:
            outcome, why = "FAILED", f"took {growth / 1e6:.0f} MB more than a fit; {why}"
            usual += growth
        print(json.dumps([number, outcome, done, why]), flush=True)


def run_kind(kind: str, data: Path, numbers: list[int]) -> dict[int, tuple[str, str, str]]:
    """Outcomes of all cases; if a child process dies, its current case has failed and another process continues."""
    found: dict[int, tuple[str, str, str]] = {}
    while left := [number for number in numbers if number not in found]:
        command = [sys.executable, "-m", "benchmarks.robustness.checkpoints", "--child", kind, str(data)]
        with (
            open(data / "errors.txt", "w+") as errors,
            subprocess.Popen([*command, *map(str, left)], stdout=subprocess.PIPE, stderr=errors, text=True) as child,
        ):
            current = read_lines(child, found)
            errors.seek(0)
            why = f"the process ended with code {child.returncode}: {errors.read()[-1000:]}"
        if current is not None:
            found[current] = "FAILED", "", why
        elif child.returncode:
            raise RuntimeError(why)
    return found


def read_lines(child: subprocess.Popen, found: dict[int, tuple[str, str, str]]) -> int | None:
    """Collect outcomes of a child process until it ends or hangs; returns its unfinished case."""
    lines: queue.Queue[str] = queue.Queue()
    reader = threading.Thread(target=lambda: [lines.put(line) for line in child.stdout or ()], daemon=True)
    reader.start()
    current, last = None, time.monotonic()
    while reader.is_alive() or not lines.empty():
        try:
            line = json.loads(lines.get(timeout=0.2))
        except queue.Empty:
            if time.monotonic() - last > MAX_SECONDS:
                child.kill()
            continue
        current, last = (line[0] if len(line) == 1 else None), time.monotonic()
        if len(line) > 1:
            found[line[0]] = tuple(line[1:])
    child.wait()
    return current


def run(kinds: list[str], n_cases: int, seed: int = 0) -> dict[str, dict[int, tuple[str, str, str]]]:
    """Run cases of all kinds in equal numbers; returns outcome, change and reason of each."""
    found = {}
    with tempfile.TemporaryDirectory(prefix="checkpoints-") as folder:
        for index, kind in enumerate(kinds):
            count = n_cases * (index + 1) // len(kinds) - n_cases * index // len(kinds)
            collect(kind, Path(folder))
            found[kind] = run_kind(kind, Path(folder), list(range(seed, seed + count)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--kinds", nargs="+", choices=list(FITS), default=list(FITS))
    parser.add_argument("--seed", type=int, default=0, help="number of the first case")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--quick", action="store_true", help="six cases")
    given = parser.parse_args()
    if given.quick:
        given.cases = 6
    if given.child:
        kind, data, *numbers = given.child
        work(kind, Path(data), list(map(int, numbers)))
        return
    n_failed = 0
    for kind, outcomes in run(given.kinds, given.cases, given.seed).items():
        counts = collections.Counter(outcome for outcome, _, _ in outcomes.values())
        print(f"{kind:12}" + ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())))
        failed = {number: rest for number, (outcome, *rest) in outcomes.items() if outcome == "FAILED"}
        for number, (done, why) in failed.items():
            print(f"  case {number}: {done}\n    {why.strip()}")
        n_failed += len(failed)
    print(f"{given.cases} altered checkpoints, {n_failed} failures")
    sys.exit(1 if n_failed else 0)


if __name__ == "__main__":
    main()
