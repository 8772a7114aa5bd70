"""Seconds of one epoch on CoverType: our two engines, and the network evaluated on every value as published.

    python -m benchmarks run speed.epoch

All three have the paper's network (256-128-128, B = 100, one member, one shape per term for all classes). Encoding is
not timed. What exceeds the budget is timed on fewer steps and extrapolated to an epoch. The published form runs with
its fastest number of threads.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.model_selection import train_test_split

from neuralbasis import NeuralBasisClassifier

from .. import datasets
from ..baselines.network_training import thread_counts
from ..baselines.networks import HIDDEN, N_BASES, PaperNetwork
from ..results.markdown import format_number, print_table

PAPER = {
    "hidden": HIDDEN, "n_bases": N_BASES[1], "fourier": 0, "tied_classes": True, "scaling": "minmax",
}  # fmt: skip
REFERENCE = "network on every value, as published"


@dataclass(frozen=True)
class Timing:
    """Seconds of some steps of an epoch."""

    name: str
    batch: int
    steps: int
    steps_an_epoch: int
    seconds: float

    @property
    def epoch_seconds(self) -> float:
        return self.seconds / self.steps * self.steps_an_epoch


def time_estimator(name: str, X, y, batch: int | None, budget: float | None, **options) -> Timing:
    """Train one epoch, or as many steps as fit into the budget of seconds."""
    network = {"max_epochs": 1, "batch_size": batch, **options}
    smoothness = 0 if options else "auto"
    model = NeuralBasisClassifier(
        interactions=0, outer_bags=1, validation_size=0, time_limit=budget, smoothness=smoothness, network=network,
    ).fit(X, y)  # fmt: skip
    history = model.history_
    steps = history.steps[-1]
    if batch is None:  # without a budget these are the steps of a whole epoch
        return Timing(name, 2 ** round(math.log2(len(X) / steps)), steps, steps, history.seconds[-1])
    return Timing(name, batch, steps, math.ceil(len(X) / batch), history.seconds[-1])


def time_reference(X, y, batch: int, budget: float) -> Timing:
    """The published form: autograd through the network on batch × D values, with AdamW."""
    inputs = torch.from_numpy(scale(X))
    target = torch.from_numpy(np.unique(y, return_inverse=True)[1])
    net = PaperNetwork(X.shape[1], int(target.max()) + 1)
    optimizer = torch.optim.AdamW(net.parameters(), 1e-3)

    def step(rows: torch.Tensor) -> None:
        loss = torch.nn.functional.cross_entropy(net(inputs[rows]), target[rows])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    batches = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(0)).split(batch)
    counts = thread_counts()
    timings = [time_steps(step, batches, budget / len(counts), n_threads) for n_threads in counts]
    return min(timings, key=lambda timing: timing.epoch_seconds)


def time_steps(step: Callable, batches: Sequence[torch.Tensor], budget: float, n_threads: int) -> Timing:
    """As many steps as fit into the budget, at least one, after one to warm up."""
    torch.set_num_threads(n_threads)
    step(batches[0])
    start, steps = time.perf_counter(), 0
    while steps == 0 or (steps < len(batches) and time.perf_counter() - start < budget):
        step(batches[steps])
        steps += 1
    return Timing(REFERENCE, len(batches[0]), steps, len(batches), time.perf_counter() - start)


def scale(X: np.ndarray) -> np.ndarray:
    """Columns to [0, 1], float32."""
    low, high = X.min(axis=0), X.max(axis=0)
    return ((X - low) / np.where(high > low, high - low, 1)).astype(np.float32)


def time_all(X, y, batch: int, budget: float) -> list[Timing]:
    return [
        time_estimator("grid engine, the paper's network", X, y, batch, None, **PAPER),
        time_estimator("exact engine, the paper's network", X, y, batch, budget, engine="exact", **PAPER),
        time_reference(X, y, batch, budget),
        time_estimator("grid engine, our default network", X, y, batch, None),
        time_estimator("grid engine, our default network and batch", X, y, None, None),
    ]


def print_timings(timings: list[Timing]) -> None:
    reference = next(t.epoch_seconds for t in timings if t.name == REFERENCE)
    header = ["one epoch", "batch", "steps timed", "steps an epoch", "seconds an epoch", "", "times faster"]
    rows = []
    for t in timings:
        how = "measured" if t.steps >= t.steps_an_epoch else "extrapolated"
        numbers = [f"{number:,}" for number in (t.batch, t.steps, t.steps_an_epoch)]
        times = f"{format_number(reference / t.epoch_seconds)} ×"
        rows.append([t.name, *numbers, format_number(t.epoch_seconds), how, times])
    print_table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=1024, help="rows in a batch")
    parser.add_argument("--budget", type=float, default=20, help="seconds for each of the two slow engines")
    parser.add_argument("--quick", action="store_true", help="a tiny generated table")
    given = parser.parse_args()
    problem = None if given.quick else datasets.find_missing("covertype")
    if problem:
        print(f"not run, {problem}")
        return
    data = datasets.load("covertype", given.quick)
    X, _, y, _ = train_test_split(data.X, data.y, test_size=0.2, random_state=0, stratify=data.y)
    batch, budget = (64, 0.5) if given.quick else (given.batch, given.budget)
    time_estimator("warm up", X[:2000], y[:2000], batch, None)  # compiles the loops
    print(f"{data.name}: {len(X):,} rows × {X.shape[1]} columns\n")
    print_timings(time_all(X, y, batch, budget))


if __name__ == "__main__":
    main()
