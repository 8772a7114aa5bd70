"""Kill fits at random times and resume them.

    python -m benchmarks run robustness.killed_fits --kills 30 [--setups memory stream]

Every fit is a child process, or two under torchrun, one of which gets signal 9 at a random time, three to five times;
it is resumed until it ends. After every kill each checkpoint must be readable and a model file, if it exists, complete.
One line per fit: kills, readable checkpoints, and the loss of its model on held-out rows compared with that of an
uninterrupted fit. The exit code is 1 if anything was lost.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.robustness.fit_process import draw_table, write_data

TOLERANCE = 1e-5  # relative to the loss of an uninterrupted fit
MIN_KILLS, MAX_KILLS = 3, 5  # per fit, if it runs long enough
QUICK_SETUPS = ["memory", "stream in processes, a worker killed"]


@dataclass(frozen=True)
class Setup:
    """Number of processes, files or a table in memory, and the process that is killed."""

    n_processes: int = 1
    is_stream: bool = False
    victim: int = 0
    options: tuple[str, ...] = ()  # of the fit process

    def command(self, folder: Path, resume: bool) -> list[str]:
        command = ["-m", "benchmarks.robustness.fit_process", str(folder), *self.options]
        command += ["--stream"] * self.is_stream + ["--resume"] * resume
        if self.n_processes == 1:
            return [sys.executable, *command]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.n_processes)]
        return [sys.executable, *launcher, *command]


SETUPS = {
    "memory": Setup(),
    "stream": Setup(is_stream=True),
    "processes, a worker killed": Setup(n_processes=2, victim=1),
    "processes, the first killed": Setup(n_processes=2, victim=0),
    "stream in processes, a worker killed": Setup(n_processes=2, is_stream=True, victim=1),
    "stream in processes, the first killed": Setup(n_processes=2, is_stream=True, victim=0),
}


@dataclass
class Outcome:
    """Outcome of one fit."""

    kills: int = 0
    checkpoints: int = 0
    damaged: int = 0
    loss: float = float("nan")
    seconds: float = 0.0


def run_fit(setup: Setup, times: list[float], n_rows: int, n_steps: int) -> Outcome:
    """A fit that is killed at these times after each of its starts, if it still runs, and then completes."""
    setup, outcome = replace(setup, options=("--rows", str(n_rows), "--steps", str(n_steps))), Outcome()
    with tempfile.TemporaryDirectory(prefix="killed-") as name:
        folder = Path(name)
        if setup.is_stream:
            write_data(folder / "data", n_rows)
        started = time.monotonic()
        for limit in [*times, float("inf")]:
            code, output = start(setup, folder, outcome.kills > 0, lambda seconds, limit=limit: seconds >= limit)
            if code is not None:
                break
            outcome.kills += 1
            _inspect(folder, outcome)
        if code:
            raise RuntimeError(f"a fit failed without being killed: {output[-3000:]}")
        outcome.seconds = time.monotonic() - started
        outcome.loss = measure(folder / "model.nbm")
    return outcome


def start(
    setup: Setup, folder: Path, resume: bool, is_time: Callable[[float], bool] = lambda _seconds: False
) -> tuple[int | None, str]:
    """Run the fit until `is_time` and kill it; returns its exit code, None if it was killed, and its output."""
    for mark in folder.glob("pid.*"):
        mark.unlink()
    with open(folder / "output.txt", "w+") as output:
        process = subprocess.Popen(setup.command(folder, resume), stdout=output, stderr=subprocess.STDOUT)
        started = time.monotonic()
        while process.poll() is None and not is_time(time.monotonic() - started):
            time.sleep(0.02)
        code = process.poll()
        if code is None:
            _kill(setup, folder, process)
        output.seek(0)
        return code, output.read()


def _kill(setup: Setup, folder: Path, process: subprocess.Popen) -> None:
    """Signal 9 to one process; the others must then end, or are killed after a minute."""
    mark = folder / f"pid.{setup.victim}"
    while not (mark.exists() and mark.read_text()) and process.poll() is None:
        time.sleep(0.02)
    _end(int(mark.read_text()))
    with suppress(subprocess.TimeoutExpired):
        process.wait(60)
    for other in folder.glob("pid.*"):
        _end(int(other.read_text()))
    _end(process.pid)
    process.wait()


def _end(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _inspect(folder: Path, outcome: Outcome) -> None:
    """Every checkpoint and the model must be readable."""
    from neuralbasis import load
    from neuralbasis.serialization.nested_json import read_nested
    from neuralbasis.training import list_checkpoints

    for path in list_checkpoints(folder / "state"):
        try:
            read_nested(path)
            outcome.checkpoints += 1
        except (OSError, ValueError) as error:
            outcome.damaged += 1
            print(f"damaged: {path.name}: {error}")
    if (folder / "model.nbm").exists():
        load(folder / "model.nbm")


def measure(model: Path) -> float:
    """Mean squared error of a model file on held-out rows."""
    from neuralbasis import load

    X, y = draw_table(20_000, 1)
    return float(((load(model).predict({f"x{d}": X[:, d] for d in range(X.shape[1])}) - y) ** 2).mean())


def run(setups: list[str], n_kills: int, n_rows: int, n_steps: int, seed: int) -> bool:
    """Run fits until there were `n_kills` kills and print a table; True if nothing was lost."""
    rng, complete, n_done, is_sound = random.Random(seed), {}, 0, True
    print(f"{'setup':40}{'kills':>6}{'readable':>10}{'damaged':>9}{'loss':>12}{'complete':>12}{'seconds':>9}")
    for name in setups:
        setup = replace(SETUPS[name], victim=0)  # without kills
        if setup not in complete:
            complete[setup] = run_fit(setup, [], n_rows, n_steps)
            print(
                f"{name:40}{0:6}{'':10}{'':9}{complete[setup].loss:12.6f}{'':12}{complete[setup].seconds:9.1f}",
                flush=True,
            )
    while n_done < n_kills:
        for name in setups:
            whole = complete[replace(SETUPS[name], victim=0)]
            count = min(rng.randint(MIN_KILLS, MAX_KILLS), n_kills - n_done)
            found = run_fit(SETUPS[name], [rng.uniform(0, whole.seconds) for _ in range(count)], n_rows, n_steps)
            n_done += found.kills
            is_same = abs(found.loss / whole.loss - 1) < TOLERANCE
            is_sound &= is_same and found.damaged == 0 and np.isfinite(found.loss)
            print(
                f"{name:40}{found.kills:6}{found.checkpoints:10}{found.damaged:9}{found.loss:12.6f}"
                f"{whole.loss:12.6f}{found.seconds:9.1f}{'' if is_same else '  DIFFERS'}",
                flush=True,
            )
            if n_done >= n_kills:
                break
    print(f"{n_done} kills, {'nothing lost' if is_sound else 'SOMETHING LOST'}")
    return is_sound


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--setups", nargs="+", choices=list(SETUPS), default=list(SETUPS))
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two setups, two kills, few steps")
    given = parser.parse_args()
    if given.quick:
        given.setups, given.kills, given.steps = QUICK_SETUPS, 2, 60
    sys.exit(0 if run(given.setups, given.kills, given.rows, given.steps, given.seed) else 1)


if __name__ == "__main__":
    main()
