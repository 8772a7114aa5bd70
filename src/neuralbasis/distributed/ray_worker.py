"""A worker of Ray Train: fits on its shard, together with the others, and reports to Ray.

Workers report together, at looks at the validation loss: when the first one has a new checkpoint, which it hands over,
else now and then; and in the end the model. After a failure Ray starts all workers again, and they go on from the last
checkpoint.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch

from ..training.history import History
from .process_group import find_process_group
from .ray_table import ShardSource

PAUSE = 10.0  # seconds between reports without a checkpoint
MODEL, COURSE, STATE = "model.nbm", "fit.json", "state"


@dataclass(frozen=True)
class Task:
    """What a worker is to do, with what: an estimator to fit, the columns of the table and their roles."""

    estimator: Any
    names: tuple[str, ...]
    target: str
    sample_weight: str | None
    cpus: int
    use_gpu: bool


def work(config: dict[str, Task]) -> None:
    """Fit, as one of several workers."""
    task = config["task"]
    source = ShardSource(ray.train.get_dataset_shard("train"), task.names)
    with open_folder() as folder:
        goes_on = fetch_checkpoint(folder)
        estimator = prepare(task, folder)
        estimator.fit(source, task.target, sample_weight=task.sample_weight, resume=goes_on)
    report_model(estimator)


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder of this worker's own; after it was killed it finds the same one, and leaves nothing behind."""
    context = ray.train.get_context()
    folder = Path(tempfile.gettempdir(), f"neuralbasis-{context.get_experiment_name()}-{context.get_world_rank()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def fetch_checkpoint(folder: Path) -> bool:
    """Put the last checkpoint into a folder; False where there is none, or where that run was finished."""
    last = ray.train.get_checkpoint()
    if last is None:
        return False
    with last.as_directory() as found:
        if Path(found, MODEL).exists():
            return False
        shutil.copytree(found, folder / STATE)
    return True


def prepare(task: Task, folder: Path) -> Any:
    """The estimator for this worker: its threads and device, its own places for state and cache.

    Only the first one shows its progress.
    """
    estimator, requested = task.estimator, task.estimator.get_params(deep=False)
    rank, state = ray.train.get_context().get_world_rank(), folder / STATE
    state.mkdir(exist_ok=True)
    return estimator.set_params(
        checkpoint_dir=state,
        cache_dir=Path(requested["cache_dir"] or folder, f"worker-{rank}"),
        callbacks=[Reporter(state), *(requested["callbacks"] or ())],  # first: one that stops ends the round of calls
        n_jobs=max(1, task.cpus) if requested["n_jobs"] is None else requested["n_jobs"],
        device=str(ray.train.torch.get_device()) if task.use_gpu else requested["device"],
        verbose=requested["verbose"] and rank == 0,
    )


class Reporter:
    """A callback: tells Ray how training goes, with the checkpoint if the folder has another one than before.

    Ray hears of a report seconds later and lets the workers wait for it, so not every look is worth one. All workers
    must report, or none: the first one decides.
    """

    def __init__(self, folder: Path):
        self.folder, self.seen, self.last = folder, list_files(folder), -PAUSE

    def __call__(self, history: History) -> bool:
        found, now = list_files(self.folder), time.monotonic()
        is_new, is_due = find_process_group().agree((found != self.seen, now - self.last >= PAUSE))
        if is_new or is_due:
            self.seen, self.last = found, now
            self._report(history, is_new and ray.train.get_context().get_world_rank() == 0)
        return False

    def _report(self, history: History, with_checkpoint: bool) -> None:
        metrics = {
            "stage": history.stage[-1], "step": history.steps[-1], "loss": history.validation[-1],
            "seconds": history.seconds[-1],
        }  # fmt: skip
        checkpoint = ray.train.Checkpoint.from_directory(self.folder) if with_checkpoint else None
        ray.train.report(metrics, checkpoint=checkpoint)


def list_files(folder: Path) -> list[tuple[str, int]]:
    """Checkpoints and when they were written."""
    return sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("fit-*"))


def report_model(estimator: Any) -> None:
    """Hand over the model and how its fit went; all workers have the same, the first one writes."""
    history = estimator.history_
    metrics = {"loss": history.validation[history.best] if history.best >= 0 else None, "seconds": history.seconds[-1]}
    with tempfile.TemporaryDirectory() as folder:
        if ray.train.get_context().get_world_rank() > 0:
            ray.train.report(metrics)
            return
        estimator.save(Path(folder) / MODEL)
        course = {"history": asdict(history), "ranking": estimator.interaction_ranking_}
        (Path(folder) / COURSE).write_text(json.dumps(course), encoding="utf-8")
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))
