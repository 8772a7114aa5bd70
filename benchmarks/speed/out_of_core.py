"""Fits of a table on disk that exceeds the memory limit: seconds per pass, peak memory, held-out loss.

    python -m benchmarks run speed.out_of_core [--rows 8_400_000] [--limit 2GB] [--in-memory]
    python -m benchmarks run speed.processes --rows 2_000_000 --processes 1 2 4

The table is generated (`disk_passes.write_table`: 28 columns, two classes, main effects only) as Parquet files;
`--folder` keeps it for later runs. Main effects are fitted in a child process; `--in-memory` also fits the same rows in
memory. `--processes` fits once for each number of processes of one thread each, started by torchrun. "pools" is the
part of training that reads rows from the cache; "bytes a step" is what one process contributes to the sums of a step.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..harness import ROOT
from ..results.markdown import format_number, print_table
from .disk_passes import make_rows, write_table
from .resources import PeakMemory, resident_mb

TEST_ROWS, QUICK_ROWS, QUICK_LIMIT = 200_000, 60_000, "745MB"


@dataclass(frozen=True)
class Setup:
    """How the table is fitted."""

    name: str
    rows: int
    folder: str
    limit: str
    processes: int = 1
    n_jobs: int | None = None
    in_memory: bool = False
    quick: bool = False


@dataclass(frozen=True)
class FitCost:
    """Seconds of the fit and of its parts, MB before the fit and at its peak, and its loss."""

    seconds: float
    profile: float
    cache: float
    pools: float
    n_pools: int
    steps: int
    before_mb: float
    peak_mb: float
    bytes_a_step: float
    log_loss: float


class Stopwatch:
    """Total seconds and number of calls of patched functions."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.calls: dict[str, int] = {}

    def watch(self, name: str, owner: Any, attribute: str) -> None:
        called: Callable = getattr(owner, attribute)
        self.seconds[name], self.calls[name] = 0.0, 0

        def timed(*given, **options):
            begin = time.perf_counter()
            try:
                return called(*given, **options)
            finally:
                self.seconds[name] += time.perf_counter() - begin
                self.calls[name] += 1

        setattr(owner, attribute, timed)


def measure_here(setup: Setup) -> FitCost:
    """Fit in this process, possibly as one of several."""
    import pyarrow.parquet

    from neuralbasis import NeuralBasisClassifier
    from neuralbasis.distributed.process_group import find_process_group
    from neuralbasis.training import block_loader, tables

    clock = Stopwatch()
    clock.watch("profile", tables, "make_profile")
    clock.watch("cache", tables, "make_cache")
    clock.watch("pools", block_loader._Buffer, "fill")
    files, given = sorted(Path(setup.folder).glob("*.parquet")), {"interactions": 0, "n_jobs": setup.n_jobs}
    if setup.quick:
        given["max_steps"] = 5
    warm_up(given)
    group, before = find_process_group(), resident_mb()
    sent = group.sent
    model = NeuralBasisClassifier(**given, storage__memory_limit=setup.limit, verbose=not setup.quick)
    with PeakMemory() as memory:
        begin = time.perf_counter()
        if setup.in_memory:
            table = pyarrow.parquet.ParquetDataset(files).read()
            model.fit(table.drop(["target"]), table["target"].to_numpy())
        else:
            model.fit([str(path) for path in files], "target")
        seconds = time.perf_counter() - begin
    steps = model.history_.steps[-1]
    return FitCost(
        seconds=seconds,
        profile=clock.seconds["profile"],
        cache=clock.seconds["cache"],
        pools=clock.seconds["pools"],
        n_pools=clock.calls["pools"],
        steps=steps,
        before_mb=before,
        peak_mb=max(group.gather(memory.mb)),
        bytes_a_step=(group.sent - sent) / steps,
        log_loss=score(model),
    )


def warm_up(given: dict[str, Any]) -> None:
    """Load the compiled loops."""
    from neuralbasis import NeuralBasisClassifier

    X = np.random.default_rng(0).random((300, 28))
    NeuralBasisClassifier(**{**given, "max_steps": 2}).fit(X, X[:, 0] > 0.5)


def score(model: Any) -> float:
    """Log loss on rows that are not in the table."""
    table = make_rows(TEST_ROWS, model.n_features_in_, [1, 0])
    probability = model.predict_proba(table.drop(["target"]))[np.arange(TEST_ROWS), table["target"].to_numpy()]
    return float(-np.log(probability).mean())


def run_setup(setup: Setup) -> FitCost:
    """Fit in child processes; the first one writes the answer."""
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch) / "answer.json"
        module = ["-m", "benchmarks.speed.out_of_core", "--child", json.dumps(asdict(setup)), "--answer", str(answer)]
        start = ["-m", "torch.distributed.run", "--nproc-per-node", str(setup.processes)] if setup.processes > 1 else []
        subprocess.run([sys.executable, *start, *module], cwd=ROOT, check=True)
        return FitCost(**json.loads(answer.read_text()))


def print_found(found: dict[str, FitCost]) -> None:
    header = ["", "seconds", "profile s", "cache s", "training s", "pools s", "pools", "steps", "MB before", "peak MB"]
    header += ["bytes a step", "log loss"]
    rows = []
    for name, f in found.items():
        training = f.seconds - f.profile - f.cache
        row = [name, *map(format_number, (f.seconds, f.profile, f.cache, training, f.pools)), str(f.n_pools)]
        row += [f"{f.steps:,}", f"{f.before_mb:,.0f}", f"{f.peak_mb:,.0f}", f"{f.bytes_a_step:,.0f}"]
        rows.append([*row, f"{f.log_loss:.5f}"])
    print_table(header, rows)


def list_setups(given: argparse.Namespace, folder: str) -> list[Setup]:
    common = {"rows": given.rows, "folder": folder, "limit": given.limit, "quick": given.quick}
    if given.processes:
        return [Setup(f"{n} × 1 thread", **common, processes=n, n_jobs=1) for n in given.processes]
    setups = [Setup(f"from disk, {given.limit}", **common)]
    return [*setups, Setup("in memory", **common, in_memory=True)] if given.in_memory else setups


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=8_400_000)
    parser.add_argument("--limit", default="2GB", help="memory_limit of every process")
    parser.add_argument("--in-memory", action="store_true", help="fit the same rows in memory too")
    parser.add_argument("--processes", type=int, nargs="+", help="numbers of processes to compare, one thread each")
    parser.add_argument("--folder", help="folder of the table; by default a temporary one")
    parser.add_argument("--quick", action="store_true", help="a small table, few steps")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child is not None:
        found = measure_here(Setup(**json.loads(given.child)))
        from neuralbasis.distributed.process_group import find_process_group

        if find_process_group().rank == 0:
            Path(given.answer).write_text(json.dumps(asdict(found)))
        return
    if given.quick:
        given.rows, given.limit = QUICK_ROWS, QUICK_LIMIT
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or f"{scratch}/table"
        write_table(folder, given.rows)
        print(f"{given.rows:,} rows × 28 columns")
        print_found({setup.name: run_setup(setup) for setup in list_setups(given, folder)})


if __name__ == "__main__":
    main()
