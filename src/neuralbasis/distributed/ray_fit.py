"""ray: an estimator fitted by the workers of a Ray cluster.

Ray Data reads the files and deals their blocks to the workers; Ray Train starts these, joins them to one process group
and starts them again after a failure. What they exchange while training are sums of table gradients; see `train.group`.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ray import cluster_resources, train
from ray.train import torch as torch_train

from ..data.files import require_names
from ..model.additive_model import load
from ..model.summary import to_plain
from ..terms.term import Ranked
from ..training.history import History
from .ray_table import open_dataset
from .ray_worker import COURSE, MODEL, Task, work

READING = 1.0  # CPUs that Ray Data needs beside the workers
BLOCK_BYTES = 16 << 20  # what is dealt at a time: shards of not quite small tables differ little


class WholeShards(train.DataConfig):
    """Blocks dealt in their order, each to the worker that has fewest rows, and no row left out.

    Ray's own way makes shards of equal length by leaving rows out, and deals blocks to where they are near. Here a
    worker has the same rows in every pass, and again after a failure.
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
    estimator: Any,
    data: Any,
    target: str,
    *,
    sample_weight: str | None = None,
    workers: int = 2,
    resources_per_worker: Mapping[str, float] | None = None,
    use_gpu: bool = False,
    storage_path: str | os.PathLike[str] | None = None,
    name: str | None = None,
    max_failures: int = 3,
) -> Any:
    """Fit an estimator on a Ray cluster; returns it, fitted.

    Every worker surveys and caches its part of the rows and trains on its part of every batch. The model is that of
    one process, up to the order in which rows are read. Call `ray.init` before to join a cluster; else Ray starts one
    on this machine. Workers must be able to import this package.

    Parameters
    ----------
    estimator : NeuralBasisRegressor or NeuralBasisClassifier
        Its `memory_limit`, `cache_dir` and `checkpoint_every` are those of each worker.
    data : str, path, list of them, or ray.data.Dataset
        Parquet or CSV files, folders of them, also in the cloud ("s3://…").
    target, sample_weight : str
        Names of columns; all others are features, or those in the estimator's `feature_names`.
    workers : int
        How many; leave a CPU of the cluster free for reading.
    resources_per_worker : dict, optional
        Such as {"CPU": 4, "memory": 8e9}; {"CPU": 1} by default. A worker has as many threads as CPUs.
    use_gpu : bool
        Train on one GPU a worker.
    storage_path : str or path, optional
        A folder that all machines see, or a cloud address, for checkpoints and the model; Ray's own by default.
    name : str, optional
        Of the run. The same name, storage and data go on with a run that was broken off.
    max_failures : int
        How often workers are started again after a failure, from the last checkpoint.

    Examples
    --------
    >>> import neuralbasis
    >>> model = neuralbasis.NeuralBasisClassifier(memory_limit="8GB")
    >>> neuralbasis.distributed.ray(
    ...     model,
    ...     "s3://shop/clicks/",
    ...     "bought",
    ...     workers=16,
    ...     resources_per_worker={"CPU": 4},
    ...     storage_path="s3://shop/fits",
    ... )  # doctest: +SKIP
    """
    if workers < 1:
        raise ValueError(f"workers must be an integer of at least 1, not {workers!r}")
    dataset, names = choose_columns(open_dataset(data), estimator.feature_names, target, sample_weight)
    resources = {"CPU": 1, **(resources_per_worker or {})}
    warn_if_crowded(workers * resources["CPU"])
    trainer = torch_train.TorchTrainer(
        work,
        train_loop_config={"task": Task(estimator, names, target, sample_weight, int(resources["CPU"]), use_gpu)},
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
    with workers_errors():
        result = trainer.fit()
    assert result.checkpoint is not None  # the model: a worker that ends has reported it
    with result.checkpoint.as_directory() as folder:
        return restore(estimator, Path(folder))


def choose_columns(
    dataset: Any, features: Sequence[str] | None, target: str, weight: str | None
) -> tuple[Any, tuple[str, ...]]:
    """The dataset without the columns that nobody asked for, and the names of the others."""
    names = [target] if weight is None else [target, weight]
    came = dataset.schema().names
    require_names([*names, *(features or ())], came, "the table")
    if features is None:
        return dataset, tuple(came)
    return dataset.select_columns([*features, *names]), (*features, *names)


def warn_if_crowded(asked: float) -> None:
    """Workers that take every CPU wait for rows that nobody can read, without a word."""
    here = cluster_resources().get("CPU", 0.0)
    if asked + READING > here:
        warnings.warn(
            f"the workers ask for {asked:g} of the cluster's {here:g} CPUs, and reading needs {READING:g} more; unless "
            "the cluster grows they will wait: ask for fewer workers, or fewer CPUs in resources_per_worker",
            stacklevel=3,
        )


@contextmanager
def workers_errors() -> Iterator[None]:
    """What a worker could not do, as the error it raised; Ray's own reports stay behind it."""
    try:
        yield
    except train.TrainingFailedError as error:
        failures = getattr(error, "worker_failures", {})
        raised = [getattr(failure, "_base_exc", failure) for _, failure in sorted(failures.items())]
        plain = [found for found in raised if isinstance(found, (ValueError, TypeError, OSError))]
        if not plain:
            raise
        raise type(plain[0])(str(plain[0])) from error


def restore(estimator: Any, folder: Path) -> Any:
    """The estimator as it is after `fit`, from what the first worker reported."""
    course = json.loads((folder / COURSE).read_text(encoding="utf-8"))
    model = load(folder / MODEL)
    assert model.summary is not None
    parameters = to_plain(estimator.get_params(deep=False))  # the user's, not those of a worker
    estimator.model_ = replace(model, summary=replace(model.summary, parameters=parameters))
    estimator.history_ = History(**course["history"])
    estimator.interaction_ranking_ = [
        Ranked(name, tuple(features), *rest) for name, features, *rest in course["ranking"]
    ]
    estimator.feature_names_in_ = np.array(model.encoder.names, dtype=object)
    estimator.n_features_in_, estimator._has_names = len(model.encoder.names), estimator.feature_names is None
    if model.classes is not None:
        estimator.classes_ = model.classes
    return estimator
