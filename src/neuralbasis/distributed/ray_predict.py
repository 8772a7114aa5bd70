"""Predictions over a Ray dataset, batch by batch, on all nodes with free CPUs; and the opening of datasets.

Input: a model, and files or a Ray dataset. Output: a lazy dataset with the predictions as columns. The model is stored
once in Ray's object store, and each process reads it once. Does not import torch.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

import ray as engine
import ray.data as ray_data

from ..data.files import require_names
from ..model.additive_model import AdditiveModel, find_model, load
from ..model.predictions import OUTPUTS, output_arrays, output_names


def predict(
    model: Any, data: Any, output: str | Sequence[str] = "prediction", *, keep: Sequence[str] | None = None,
    batch_size: int = 1 << 16, **options: Any,
) -> Any:  # fmt: skip
    """Return a Ray dataset with the predictions appended as columns; Ray computes it when it is read or written.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator, or path of a model file
    data : ray.data.Dataset, or paths of Parquet or CSV files, as for `distributed.ray`
    output : "prediction" (column "prediction"), "probability" ("probability_<class>"), "contributions"
        ("contribution_<term>" and "intercept"), "score", or several of them
    keep : columns of the data in the result, all by default; Ray does not keep the order of rows, so keep a key
    batch_size : rows per batch
    options : of `Dataset.map_batches`, such as `num_cpus` or `concurrency`

    Returns
    -------
    ray.data.Dataset

    Examples
    --------
    >>> import neuralbasis
    >>> neuralbasis.distributed.predict(
    ...     "clicks.nbm", "s3://shop/clicks/", ["prediction", "contributions"], keep=["id"]
    ... ).write_parquet("s3://shop/scores/")  # doctest: +SKIP
    """
    outputs = (output,) if isinstance(output, str) else tuple(output)
    if not outputs or not set(outputs) <= set(OUTPUTS):
        raise ValueError(f"output must be one or several of {', '.join(map(repr, OUTPUTS))}, not {output!r}")
    found = load(model) if isinstance(model, str) or hasattr(model, "__fspath__") else find_model(model)
    if "probability" in outputs and found.classes is None:
        raise ValueError("output='probability' needs a model of classes; this one is a regression")
    dataset = open_dataset(data)
    present = dataset.schema().names
    kept = list(present if keep is None else keep)
    require_names([*found.encoder.names, *kept], present, "the table")
    names = output_names(found, outputs)
    if taken := [name for name in kept if name in names]:
        raise ValueError(
            f"the table has a column {taken[0]!r}, and so has the output; rename it, or leave it out of keep"
        )
    needed = list(dict.fromkeys([*kept, *found.encoder.names]))
    reference = engine.put(replace(found, n_jobs=1))  # Ray runs one batch per CPU
    work = partial(_predict_batch, reference=reference, outputs=outputs, names=names, keep=kept)
    return dataset.select_columns(needed).map_batches(
        work, batch_size=batch_size, batch_format="pyarrow", zero_copy_batch=True, **options
    )


def open_dataset(data: Any) -> Any:
    """Return a Ray dataset; paths, folders and globs of Parquet or CSV files are opened as one dataset."""
    if isinstance(data, ray_data.Dataset):
        return data
    paths = [data] if isinstance(data, str | os.PathLike) else data
    is_paths = isinstance(paths, Sequence) and all(isinstance(path, str | os.PathLike) for path in paths)
    if not is_paths or not len(paths):
        raise TypeError(
            f"expected paths of Parquet or CSV files, or a Ray dataset, not {type(data).__name__}; convert a table in "
            "memory with ray.data.from_arrow"
        )
    files = [os.fspath(path) for path in paths]
    is_csv = files[0].lower().endswith((".csv", ".csv.gz"))
    return (ray_data.read_csv if is_csv else ray_data.read_parquet)(files)


def _predict_batch(
    batch: Any, reference: Any, outputs: Sequence[str], names: Sequence[str], keep: Sequence[str]
) -> Any:
    """Predict one batch, an Arrow table, in a process of Ray; `reference` is that of the model in the object store."""
    model = _fetch(reference)
    arrays = output_arrays(model, batch.select(model.encoder.names), outputs)
    return type(batch).from_arrays([*map(batch.column, keep), *arrays], names=[*keep, *names])


@lru_cache(maxsize=2)
def _fetch(reference: Any) -> AdditiveModel:
    """Read the model from the object store, once per process."""
    return engine.get(reference)
