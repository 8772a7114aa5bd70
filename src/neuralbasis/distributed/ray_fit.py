"""Fit an estimator on a Ray cluster.

Input: an estimator, and files or a Ray dataset. Output: the fitted estimator. Ray Data reads the files and distributes
their blocks to the workers. Ray Train starts the workers, connects them in one process group and restarts them after a
failure. During training the workers exchange sums of table gradients; see `process_group`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray import cluster_resources, train
from ray.train import torch as torch_train

from ..checks import require_integer
from ..data.files import require_names
from ..model.additive_model import load
from ..model.summary import to_plain
from ..readonly import freeze
from ..settings import flatten
from ..terms.term import Ranked
from ..training.history import History
from .ray_predict import open_dataset
from .ray_worker import HISTORY_FILE, MODEL_FILE, WorkerTask, work

if TYPE_CHECKING:
    from ..estimators import Estimator

READING_CPUS = 1.0  # that Ray Data needs in addition to the workers
BLOCK_BYTES = 16 << 20  # small blocks give shards of similar size


class WholeShards(train.DataConfig):
    """Distributes blocks in their order, each to the worker with the fewest rows, and drops no rows.

    Ray's default drops rows to make shards of equal length, and prefers workers on the node of a block. Here a worker
    has the same rows in every pass, also after a failure.
    """

    def configure(
        self, datasets: dict[str, Any], world_size: int, worker_handles: Any, worker_node_ids: Any, **_rest: Any
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = [{} for _ in range(world_size)]
        for name, dataset in datasets.items():
            dataset = dataset.copy(dataset)
            dataset.context.execution_options = self.default_ingest_options()
            dataset.context.execution_options.preserve_order = True
            dataset.context.target_max_block_size = BLOCK_BYTES
            for shards, shard in zip(found, dataset.streaming_split(world_size, equal=False), strict=True):
                shards[name] = shard
        return found


def ray(
    estimator: Estimator, data: Any, target: str, *,
    sample_weight: str | None = None, workers: int = 2, resources_per_worker: Mapping[str, float] | None = None,
    use_gpu: bool = False, storage_path: str | os.PathLike[str] | None = None, name: str | None = None,
    max_failures: int = 3,
) -> Estimator:  # fmt: skip
    """Fit an estimator on a Ray cluster.

    Every worker profiles and caches its part of the rows and trains on its part of every batch. The model is the same
    as that of one process, up to the order in which rows are read. Call `ray.init` first to join a cluster; otherwise
    Ray starts one on this machine. Workers must be able to import this package.

    Parameters
    ----------
    estimator : NeuralBasisRegressor or NeuralBasisClassifier
        The `memory_limit`, `cache_dir` and `checkpoint_every` of its `storage` apply to each worker.
    data : ray.data.Dataset, or paths of Parquet or CSV files or folders of them, local or in cloud storage ("s3://…")
    target, sample_weight : names of columns; the features are the estimator's `feature_names`, by default all others
    workers : number of workers; leave one CPU of the cluster free for reading
    resources_per_worker : such as {"CPU": 4, "memory": 8e9}, {"CPU": 1} by default; a worker uses one thread per CPU
    use_gpu : train on one GPU per worker
    storage_path : folder on a shared file system, or cloud address, for checkpoints and the model; by default Ray's
    name : name of the run; a run with the same name, storage and data resumes an interrupted one
    max_failures : how often the workers may be restarted after a failure, from the last checkpoint

    Returns
    -------
    estimator : the same object, fitted

    Examples
    --------
    >>> import neuralbasis
    >>> model = neuralbasis.NeuralBasisClassifier(storage={"memory_limit": "8GB"})
    >>> neuralbasis.distributed.ray(model, "s3://shop/clicks/", "bought", workers=16)  # doctest: +SKIP
    """
    require_integer("workers", workers, 1)
    dataset = open_dataset(data)
    names, features = dataset.schema().names, estimator.feature_names
    roles = [target] if sample_weight is None else [target, sample_weight]
    require_names([*roles, *(features or ())], names, "the table")
    if features is not None:
        names = [*features, *roles]
        dataset = dataset.select_columns(names)
    resources = {"CPU": 1, **(resources_per_worker or {})}
    requested, available = workers * resources["CPU"], cluster_resources().get("CPU", 0.0)
    if requested + READING_CPUS > available:  # the workers would wait for rows forever, without an error of Ray
        warnings.warn(
            f"the workers request {requested:g} of the cluster's {available:g} CPUs, and reading needs "
            f"{READING_CPUS:g} more; they will wait until the cluster grows: request fewer workers, or fewer CPUs in "
            "resources_per_worker",
            stacklevel=2,
        )
    task = WorkerTask(estimator, tuple(names), target, sample_weight, int(resources["CPU"]), use_gpu)
    trainer = torch_train.TorchTrainer(
        work,
        train_loop_config={"task": task},
        torch_config=torch_train.TorchConfig(backend="cpu:gloo,cuda:nccl" if use_gpu else "gloo"),
        scaling_config=train.ScalingConfig(num_workers=workers, use_gpu=use_gpu, resources_per_worker=resources),
        run_config=train.RunConfig(
            name=name,
            storage_path=None if storage_path is None else os.fspath(storage_path),
            failure_config=train.FailureConfig(max_failures=max_failures),
            checkpoint_config=train.CheckpointConfig(num_to_keep=2),
        ),
        datasets={"train": dataset},
        dataset_config=WholeShards(),
    )
    try:
        result = trainer.fit()
    except train.TrainingFailedError as error:
        failures = getattr(error, "worker_failures", {})
        raised = [getattr(failure, "_base_exc", failure) for _, failure in sorted(failures.items())]
        plain = [found for found in raised if isinstance(found, (ValueError, TypeError, OSError))]
        if not plain:
            raise
        raise type(plain[0])(str(plain[0])) from error  # the error of a worker itself
    assert result.checkpoint is not None  # every finished worker has reported the model
    with result.checkpoint.as_directory() as folder:
        _restore(estimator, Path(folder))
    return estimator


def _restore(estimator: Estimator, folder: Path) -> None:
    """Set the fitted attributes of the estimator from the report of the first worker."""
    record = json.loads((folder / HISTORY_FILE).read_text(encoding="utf-8"))
    model = load(folder / MODEL_FILE)
    assert model.summary is not None
    parameters = to_plain(flatten(estimator.get_params(deep=False)))  # the user's, not those of a worker
    estimator.model_ = replace(model, summary=replace(model.summary, parameters=parameters))
    estimator.history_ = History(**record["history"])
    estimator.interaction_ranking_ = [
        Ranked(name, tuple(features), *rest) for name, features, *rest in record["ranking"]
    ]
    estimator.feature_names_in_ = freeze(np.array(model.encoder.names, dtype=object))
    estimator.n_features_in_, estimator._has_names = len(model.encoder.names), estimator.feature_names is None
    if model.classes is not None:
        estimator.classes_ = model.classes
