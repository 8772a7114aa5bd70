"""A worker of Ray Train: fits on its shard, together with the other workers, and reports to Ray.

Input: a `WorkerTask` and the worker's shard. Output: a checkpoint with the model, from the first worker. Workers report
together after evaluations of the validation loss: if the first worker has a new checkpoint, or if the last report is
10 seconds old. After a failure Ray restarts all workers, which resume from the last checkpoint.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray.train
import ray.train.torch

from ..data.files import Piece, Source
from ..training.history import History
from .process_group import find_process_group

if TYPE_CHECKING:
    from ..estimators import Estimator

BATCH_ROWS = 1 << 16
REPORT_SECONDS = 10.0  # between reports without a new checkpoint
MODEL_FILE, HISTORY_FILE, STATE_FOLDER = "model.nbm", "fit.json", "state"


@dataclass(frozen=True)
class WorkerTask:
    """The task of a worker: an estimator to fit, the columns of the table and their roles, and its resources."""

    estimator: Estimator
    names: tuple[str, ...]
    target: str
    sample_weight: str | None
    cpus: int
    use_gpu: bool


class ShardSource(Source):
    """A worker's shard of a dataset, as one piece. Every pass reads it again, and all workers read at the same time."""

    local = True

    def __init__(self, shard: Any, names: tuple[str, ...]):
        self.shard, self.names, self.pieces = shard, names, (Piece(None, 0, None),)

    def read(self, piece: Piece, names: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[Any]:
        requested = list(self.names if names is None else names)
        for block in self.shard.iter_batches(batch_size=None, batch_format="pyarrow"):
            yield from block.select(requested).to_batches(max_chunksize=batch_rows)


def work(config: dict[str, WorkerTask]) -> None:
    """Fit as one of several workers and report the model."""
    task, context = config["task"], ray.train.get_context()
    source = ShardSource(ray.train.get_dataset_shard("train"), task.names)
    # A restarted worker uses the same path and clears what a killed one left.
    folder = Path(tempfile.gettempdir(), f"neuralbasis-{context.get_experiment_name()}-{context.get_world_rank()}")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        can_resume = _fetch_checkpoint(folder)
        estimator = _prepare(task, folder)
        estimator.fit(source, task.target, sample_weight=task.sample_weight, resume=can_resume)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    _report_model(estimator)


def _fetch_checkpoint(folder: Path) -> bool:
    """Copy the last checkpoint into a folder; False if there is none, or if it is that of a finished run."""
    last = ray.train.get_checkpoint()
    if last is None:
        return False
    with last.as_directory() as found:
        if Path(found, MODEL_FILE).exists():
            return False
        shutil.copytree(found, folder / STATE_FOLDER)
    return True


def _prepare(task: WorkerTask, folder: Path) -> Estimator:
    """Set the estimator's threads, device, checkpoints and cache for this worker; only the first shows progress."""
    requested = task.estimator.get_params()
    rank, state = ray.train.get_context().get_world_rank(), folder / STATE_FOLDER
    state.mkdir(exist_ok=True)
    return task.estimator.set_params(
        storage__checkpoint_dir=state,
        storage__cache_dir=Path(requested["storage__cache_dir"] or folder, f"worker-{rank}"),
        callbacks=[Reporter(state), *(requested["callbacks"] or ())],  # first: one that stops training skips the rest
        n_jobs=max(1, task.cpus) if requested["n_jobs"] is None else requested["n_jobs"],
        device=str(ray.train.torch.get_device()) if task.use_gpu else requested["device"],
        verbose=requested["verbose"] and rank == 0,
    )


class Reporter:
    """A callback that reports progress to Ray, with the checkpoint if there is a new one in the folder.

    A report blocks the workers until Ray polls it, which takes seconds; therefore not every evaluation is reported.
    Either all workers must report, or none: the first worker decides.
    """

    def __init__(self, folder: Path):
        self.folder, self.reported, self.last = folder, _list_checkpoints(folder), -REPORT_SECONDS

    def __call__(self, history: History) -> bool:
        found, now = _list_checkpoints(self.folder), time.monotonic()
        is_new, is_due = find_process_group().agree((found != self.reported, now - self.last >= REPORT_SECONDS))
        if is_new or is_due:
            self.reported, self.last = found, now
            metrics = {
                "stage": history.stage[-1], "step": history.steps[-1], "loss": history.validation[-1],
                "seconds": history.seconds[-1],
            }  # fmt: skip
            is_writer = is_new and ray.train.get_context().get_world_rank() == 0
            checkpoint = ray.train.Checkpoint.from_directory(self.folder) if is_writer else None
            ray.train.report(metrics, checkpoint=checkpoint)
        return False


def _list_checkpoints(folder: Path) -> list[tuple[str, int]]:
    """Names of the checkpoints and the times (ns) when they were written."""
    return sorted((file.name, file.stat().st_mtime_ns) for file in folder.glob("fit-*"))


def _report_model(estimator: Estimator) -> None:
    """Report the model and the history of the fit; all workers have the same model, the first one writes it."""
    history = estimator.history_
    metrics = {"loss": history.validation[history.best] if history.best >= 0 else None, "seconds": history.seconds[-1]}
    with tempfile.TemporaryDirectory() as folder:
        if ray.train.get_context().get_world_rank() > 0:
            ray.train.report(metrics)
            return
        estimator.save(Path(folder) / MODEL_FILE)
        record = {"history": asdict(history), "ranking": estimator.interaction_ranking_}
        (Path(folder) / HISTORY_FILE).write_text(json.dumps(record), encoding="utf-8")
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))
