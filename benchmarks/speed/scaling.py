"""Cost of a fit from disk: constants measured here, a model of time, and projections.

    python -m benchmarks run speed.scaling [--rows 4000000] [--processes 1 2 4] [--limit 1GB] [--folder FOLDER]

    seconds = (start + steps · step) / min(W, 2) + (N · prepare + steps · B · row) / W + steps · exchange

N rows, W workers of one thread each, B rows per batch; the ensemble members are split between two workers. The
constants come from streamed fits of one process with one thread, with small and with large batches: a generated table
like Higgs (28 columns, Parquet), main effects only. The exchange is timed separately, between two processes. The model
is then compared with whole fits of several processes under torchrun, with batches that were not used for the constants.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..results.markdown import format_number, print_table
from .disk_passes import write_table
from .out_of_core import Stopwatch

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, BATCH, SMALL_BATCH, LARGE_BATCH, STEPS = 28, 8_192, 2_048, 65_536, 400
TRAINERS = 2  # workers that share the networks of the members and, roughly, the work on the sample
ASSUMED = "one core per worker; 10 Gbit/s and 50 µs between any two; storage as fast as the passes"
NETWORK, LATENCY = 1.25e9, 50e-6  # bytes per second, seconds per message
PROJECTIONS = [(10**9, 1), (10**9, 8), (10**9, 64), (10**12, 64)]
BATCHES = (8_192, 131_072, 2_097_152)


@dataclass(frozen=True)
class Fit:
    """A fit to time: folder and rows of the table, batch, minimum of steps, memory limit of a process."""

    folder: str
    n_rows: int
    batch: int
    steps: int
    limit: str


@dataclass(frozen=True)
class MeasuredFit:
    """Measured fit.

    seconds, prepare, step_seconds : of the whole fit, of the two passes before training, and of a step
    steps : number of steps
    exchanged : bytes that a process contributes to the sums of a step
    cache_bytes : per row
    """

    seconds: float
    prepare: float
    step_seconds: float
    steps: int
    exchanged: float
    cache_bytes: float


@dataclass(frozen=True)
class Constants:
    """Costs of one worker.

    start : seconds that do not grow with rows: boosted steps and densities on the sample, the compiled model
    prepare : seconds per row of profile and cache
    step, row : seconds of a step, and of each of its rows
    exchanged : bytes that a worker sends in a step
    exchange : seconds of this exchange between two processes here
    cache_bytes, table_bytes : per row in the cache and in Parquet
    cores : number of cores of this machine
    """

    start: float
    prepare: float
    step: float
    row: float
    exchanged: float
    exchange: float
    cache_bytes: float
    table_bytes: float
    cores: int

    def predict_here(self, fit: Fit, steps: int, workers: int) -> float:
        """Seconds of a fit by processes of this machine; more processes than cores share the cores."""
        crowding, trainers = max(1.0, workers / self.cores), min(workers, TRAINERS)
        own = (self.start + steps * self.step) / trainers + self._work(fit.n_rows, steps * fit.batch) / workers
        return crowding * (own + steps * (workers - 1) * self.exchange)

    def _work(self, n_rows: float, n_drawn: float) -> float:
        return n_rows * self.prepare + n_drawn * self.row

    def send(self, workers: int) -> float:
        """Seconds of a ring all-reduce on a network: 2 (W - 1) messages, each with a W-th of the bytes."""
        return 2 * (workers - 1) * (LATENCY + self.exchanged / workers / NETWORK)

    def project(self, n_rows: int, workers: int, batch: int) -> tuple[float, float, float]:
        """Seconds on a cluster: the two passes, training with one pass over the rows, and the exchange in it."""
        steps = n_rows / batch
        exchange = steps * self.send(workers)
        training = steps * self.step / min(workers, TRAINERS) + self._work(0, n_rows) / workers + exchange
        return n_rows * self.prepare / workers, training, exchange


def time_fit(fit: Fit) -> MeasuredFit:
    """Fit in this process, which torchrun started."""
    from neuralbasis import NeuralBasisClassifier
    from neuralbasis.distributed.process_group import find_process_group
    from neuralbasis.training import tables

    clock = Stopwatch()
    clock.watch("profile", tables, "make_profile")
    clock.watch("cache", tables, "make_cache")
    cache, group = Path(os.environ["SCALING_CACHE"]), find_process_group()
    model = NeuralBasisClassifier(
        interactions=0, network__batch_size=fit.batch, max_steps=fit.steps, early_stopping_rounds=0, n_jobs=1,
        storage__memory_limit=fit.limit, storage__cache_dir=str(cache), storage__keep_cache=True,
    )  # fmt: skip
    before, begin = group.sent, time.perf_counter()
    model.fit(list_files(fit), "target")
    seconds, history = time.perf_counter() - begin, model.history_
    mains = [look for look, stage in enumerate(history.stage) if stage == "main effects"]
    first, last = mains[0], mains[-1]
    step_seconds = (history.seconds[last] - history.seconds[first]) / max(history.steps[last] - history.steps[first], 1)
    size = sum(path.stat().st_size for path in cache.rglob("bucket-*"))
    steps = history.steps[last]
    prepare = sum(clock.seconds.values())
    return MeasuredFit(seconds, prepare, step_seconds, steps, (group.sent - before) / steps, size / fit.n_rows)


def list_files(fit: Fit) -> list[str]:
    return [str(path) for path in write_table(fit.folder, fit.n_rows, COLUMNS)]


def time_exchange(n_bytes: float, count: int = 100) -> float:
    """Median seconds of the exchange of a step: float32 from the two trainers, float64 back to them."""
    import torch

    from neuralbasis.distributed.process_group import find_process_group

    group, size, found = find_process_group(), max(int(n_bytes / 12), 1), []
    tables = {part: [torch.zeros(size)] for part in range(TRAINERS)}
    sums = {part: [torch.zeros(size, dtype=torch.float64)] for part in range(TRAINERS)}
    for _ in range(count):
        group.barrier()
        begin = time.perf_counter()
        group.spread(tables)
        group.collect(sums)
        found.append(time.perf_counter() - begin)
    return sorted(found)[count // 2]


def run_task(task: dict[str, Any], processes: int) -> Any:
    """The result of the first of several child processes of one thread each."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(processes), "--standalone"]
    with tempfile.TemporaryDirectory() as cache:
        found = subprocess.run(
            [*command, "-m", "benchmarks.speed.scaling", "--task", json.dumps(task)], cwd=ROOT, stdout=subprocess.PIPE,
            text=True, check=True, env={**os.environ, "OMP_NUM_THREADS": "1", "SCALING_CACHE": cache},
        )  # fmt: skip
    return json.loads(next(line for line in found.stdout.splitlines() if line.startswith('{"found": ')))["found"]


def run_fit(fit: Fit, processes: int = 1) -> MeasuredFit:
    list_files(fit)  # writes the table if it does not exist
    return MeasuredFit(**run_task({"fit": asdict(fit)}, processes))


def do_task(task: dict[str, Any]) -> None:
    """Run a task in a child process of `run_task`."""
    found = asdict(time_fit(Fit(**task["fit"]))) if "fit" in task else time_exchange(task["bytes"])
    if os.environ["RANK"] == "0":
        print(json.dumps({"found": found}), flush=True)


def measure_constants(fit: Fit, exchanged: float) -> Constants:
    """From two fits of one process that differ in their batches, and from the exchange of a step."""
    small, large = (run_fit(replace(fit, batch=batch)) for batch in (SMALL_BATCH, LARGE_BATCH))
    row = (large.step_seconds - small.step_seconds) / (LARGE_BATCH - SMALL_BATCH)
    rest = [run.seconds - run.prepare - run.steps * run.step_seconds for run in (small, large)]
    found = {"row": row, "step": small.step_seconds - SMALL_BATCH * row, "start": min(rest)}
    check_measured(small, found)
    return Constants(
        **found,
        prepare=min(small.prepare, large.prepare) / fit.n_rows,
        exchanged=exchanged,
        exchange=run_task({"bytes": exchanged}, 2),
        cache_bytes=small.cache_bytes,
        table_bytes=sum(map(os.path.getsize, list_files(fit))) / fit.n_rows,
        cores=len(os.sched_getaffinity(0)),
    )


def check_measured(run: MeasuredFit, found: dict[str, float]) -> None:
    """Exit if a constant is not positive: constants are differences and may drown in noise."""
    if run.cache_bytes == 0:
        raise SystemExit("the rows fit in memory and were not streamed: give more --rows or a lower --limit")
    if invalid := [name for name, value in found.items() if value <= 0]:
        raise SystemExit(
            f"not measured, less than the noise of this machine: {', '.join(invalid)}; use an idle machine or "
            "more --rows"
        )


def print_constants(found: Constants) -> None:
    rows = [
        ["cache, bytes a row", found.cache_bytes],
        ["Parquet, bytes a row", found.table_bytes],
        ["profile and cache, s / 10⁶ rows", 1e6 * found.prepare],
        ["step, ms", 1e3 * found.step],
        ["rows of steps, s / 10⁶ rows", 1e6 * found.row],
        ["all else, s a fit", found.start],
        ["exchanged a step, KB", found.exchanged / 1e3],
        ["that between two processes here, ms", 1e3 * found.exchange],
    ]
    print_table(["one worker with one thread", "measured"], [[name, format_number(value)] for name, value in rows])


def print_runs(constants: Constants, fit: Fit, runs: dict[int, MeasuredFit]) -> None:
    rows, alone = [], next(iter(runs.values()))
    for count, run in runs.items():
        rows.append([
            str(count), format_number(constants.predict_here(fit, run.steps, count)), format_number(run.seconds),
            format_number(alone.seconds / run.seconds), format_number(1e3 * run.step_seconds),
            format_number(run.exchanged / 1e3),
        ])  # fmt: skip
    print(f"\n{fit.n_rows:,} rows, {alone.steps:,} steps of {fit.batch:,} rows, {constants.cores} cores")
    print_table(["processes", "model s", "run s", "times as fast", "ms a step", "exchanged KB a step"], rows)


def print_projections(found: Constants) -> None:
    rows = []
    for n_rows, workers in PROJECTIONS:
        for batch in BATCHES:
            passes, training, exchange = found.project(n_rows, workers, batch)
            rows.append([
                f"10{'⁹' if n_rows == 10**9 else '¹²'}", str(workers), f"{batch:,}", f"{n_rows / batch:,.0f}",
                format_number(n_rows * found.cache_bytes / workers / 1e9), format_number(passes / 3600),
                format_number(training / 3600), f"{exchange / training:.0%}",
                format_number(2e-6 * n_rows * found.table_bytes / passes),
            ])  # fmt: skip
    print(f"\nProjected, training by one pass over the rows: {ASSUMED}")
    header = ["rows", "workers", "batch", "steps", "cache GB a worker", "passes h", "training h", "of it exchange"]
    print_table([*header, "read MB/s in all"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument(
        "--processes", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes; ratios are to the first"
    )
    parser.add_argument("--limit", default="1GB", help="memory limit of a process, small enough that rows are streamed")
    parser.add_argument("--folder", help="folder of the table; by default a temporary one")
    parser.add_argument("--quick", action="store_true", help="a small table, one and two processes")
    parser.add_argument("--task", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.task:
        do_task(given.task)
        return
    if given.quick:
        given.rows, given.processes, given.limit = 600_000, [1, 2], "740MB"
    n_rows, steps, processes = given.rows, 20 if given.quick else STEPS, given.processes
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or f"{scratch}/table"
        fit = Fit(folder, n_rows, BATCH, steps, given.limit)
        runs = {count: run_fit(fit, count) for count in processes}
        constants = measure_constants(fit, max(run.exchanged for run in runs.values()))
    print_constants(constants)
    print_runs(constants, fit, runs)
    print_projections(constants)


if __name__ == "__main__":
    main()
