"""Kill fits at random times and let them go on: python -m benchmarks run robustness.killed_fits --kills 30 [--ways memory stream]

Every fit is a fresh process, or two under torchrun, of which one is killed with signal 9 at a random moment, three to
five times, and which is resumed until it comes to its end. After every kill each checkpoint there is must be readable,
and a model file, if there is one, whole. A line a fit: its kills, checkpoints seen, and the loss of its model on
held-out rows beside that of a fit that nobody killed. Ends with code 1 if anything was lost.
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

TOLERANCE = 1e-5  # of the loss of a fit that nobody killed
MIN_KILLS, MAX_KILLS = 3, 5  # of a fit, if it lasts so long
QUICK_WAYS = ["memory", "stream in processes, a worker killed"]


@dataclass(frozen=True)
class Way:
    """How a fit runs: in so many processes, on files or a table in memory; and which process is killed."""

    n_processes: int = 1
    is_stream: bool = False
    victim: int = 0
    options: tuple[str, ...] = ()  # of the job

    def command(self, folder: Path, resume: bool) -> list[str]:
        job = ["-m", "benchmarks.robustness.fit_process", str(folder), *self.options]
        job += ["--stream"] * self.is_stream + ["--resume"] * resume
        if self.n_processes == 1:
            return [sys.executable, *job]
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(self.n_processes)]
        return [sys.executable, *launcher, *job]


WAYS = {
    "memory": Way(),
    "stream": Way(is_stream=True),
    "processes, a worker killed": Way(n_processes=2, victim=1),
    "processes, the first killed": Way(n_processes=2, victim=0),
    "stream in processes, a worker killed": Way(n_processes=2, is_stream=True, victim=1),
    "stream in processes, the first killed": Way(n_processes=2, is_stream=True, victim=0),
}


@dataclass
class Outcome:
    """What happened to one fit."""

    kills: int = 0
    checkpoints: int = 0
    damaged: int = 0
    loss: float = float("nan")
    seconds: float = 0.0


def drill(way: Way, moments: list[float], n_rows: int, n_steps: int) -> Outcome:
    """A fit that is killed so many seconds after each of its starts, as far as it lasts so long, then left alone."""
    way, outcome = replace(way, options=("--rows", str(n_rows), "--steps", str(n_steps))), Outcome()
    with tempfile.TemporaryDirectory(prefix="drill-") as name:
        folder = Path(name)
        if way.is_stream:
            write_data(folder / "data", n_rows)
        started = time.monotonic()
        for moment in [*moments, float("inf")]:
            code, output = start(way, folder, outcome.kills > 0, lambda seconds, moment=moment: seconds >= moment)
            if code is not None:
                break
            outcome.kills += 1
            _inspect(folder, outcome)
        if code:
            raise RuntimeError(f"a fit failed by itself: {output[-3000:]}")
        outcome.seconds = time.monotonic() - started
        outcome.loss = measure(folder / "model.nbm")
    return outcome


def start(
    way: Way, folder: Path, resume: bool, is_time: Callable[[float], bool] = lambda _seconds: False
) -> tuple[int | None, str]:
    """Run the job until it is time, after so many seconds, to kill it; its code, None if it was killed, and output."""
    for mark in folder.glob("pid.*"):
        mark.unlink()
    with open(folder / "output.txt", "w+") as output:
        process = subprocess.Popen(way.command(folder, resume), stdout=output, stderr=subprocess.STDOUT)
        started = time.monotonic()
        while process.poll() is None and not is_time(time.monotonic() - started):
            time.sleep(0.02)
        code = process.poll()
        if code is None:
            _kill(way, folder, process)
        output.seek(0)
        return code, output.read()


def _kill(way: Way, folder: Path, process: subprocess.Popen) -> None:
    """Signal 9 to one process; the others of its fit must then end by themselves, or are ended when they do not."""
    mark = folder / f"pid.{way.victim}"
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
    """Every checkpoint there is must be readable, and so must a model."""
    from neuralbasis import load
    from neuralbasis.serialization.nested_json import read_nested
    from neuralbasis.training.checkpoints import list_checkpoints

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
    """Mean squared error of a model file on rows that no fit has seen."""
    from neuralbasis import load

    X, y = draw_table(20_000, 1)
    return float(((load(model).predict({f"x{d}": X[:, d] for d in range(X.shape[1])}) - y) ** 2).mean())


def run(ways: list[str], n_kills: int, n_rows: int, n_steps: int, seed: int) -> bool:
    """Drill until there were so many kills, print a table; True if nothing was lost."""
    rng, usual, n_done, is_sound = random.Random(seed), {}, 0, True
    print(f"{'way':40}{'kills':>6}{'readable':>10}{'damaged':>9}{'loss':>12}{'unkilled':>12}{'seconds':>9}")
    for name in ways:
        way = replace(WAYS[name], victim=0)  # nobody is killed
        if way not in usual:
            usual[way] = drill(way, [], n_rows, n_steps)
            print(f"{name:40}{0:6}{'':10}{'':9}{usual[way].loss:12.6f}{'':12}{usual[way].seconds:9.1f}", flush=True)
    while n_done < n_kills:
        for name in ways:
            whole = usual[replace(WAYS[name], victim=0)]
            count = min(rng.randint(MIN_KILLS, MAX_KILLS), n_kills - n_done)
            found = drill(WAYS[name], [rng.uniform(0, whole.seconds) for _ in range(count)], n_rows, n_steps)
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
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=list(WAYS))
    parser.add_argument("--rows", type=int, default=8_000)
    parser.add_argument("--steps", type=int, default=800)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="two ways, two kills, few steps")
    given = parser.parse_args()
    if given.quick:
        given.ways, given.kills, given.steps = QUICK_WAYS, 2, 60
    sys.exit(0 if run(given.ways, given.kills, given.rows, given.steps, given.seed) else 1)


if __name__ == "__main__":
    main()
