"""Predictions over a Ray dataset, batch by batch, on all nodes with free CPUs.

Input: a model and a dataset. Output: a lazy dataset with the predictions as columns. The model is stored once in Ray's
object store, and each process reads it once. Does not import torch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import ray as engine

from ..data.files import require_names
from ..model.additive_model import AdditiveModel, find_model, load
from ..model.predictions import OUTPUTS, output_arrays, output_names
from .ray_table import open_dataset


def predict(
    model: Any,
    data: Any,
    output: str | Sequence[str] = "prediction",
    *,
    keep: Sequence[str] | None = None,
    batch_size: int = 1 << 16,
    **options: Any,
) -> Any:
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

    Examples
    --------
    >>> import neuralbasis
    >>> neuralbasis.distributed.predict(
    ...     "clicks.nbm", "s3://shop/clicks/", ["prediction", "contributions"], keep=["id"]
    ... ).write_parquet("s3://shop/scores/")  # doctest: +SKIP
    """
    outputs = check_outputs(output)
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
    work = BatchPredictor(reference, outputs, tuple(names), tuple(kept))
    return dataset.select_columns(needed).map_batches(
        work, batch_size=batch_size, batch_format="pyarrow", zero_copy_batch=True, **options
    )


def check_outputs(output: str | Sequence[str]) -> tuple[str, ...]:
    """Outputs as a tuple, checked.

    >>> check_outputs("score"), check_outputs(["prediction", "score"])
    (('score',), ('prediction', 'score'))
    """
    outputs = (output,) if isinstance(output, str) else tuple(output)
    if not outputs or not set(outputs) <= set(OUTPUTS):
        raise ValueError(f"output must be one or several of {', '.join(map(repr, OUTPUTS))}, not {output!r}")
    return outputs


@dataclass(frozen=True)
class BatchPredictor:
    """Predicts one batch, an Arrow table, in a process of Ray; `model` is a reference to the object store."""

    model: Any
    outputs: tuple[str, ...]
    names: tuple[str, ...]
    keep: tuple[str, ...]

    def __call__(self, batch: Any) -> Any:
        model = fetch(self.model)
        arrays = output_arrays(model, batch.select(model.encoder.names), self.outputs)
        return type(batch).from_arrays([*map(batch.column, self.keep), *arrays], names=[*self.keep, *self.names])


@lru_cache(maxsize=2)
def fetch(reference: Any) -> AdditiveModel:
    """Read the model from the object store, once per process."""
    return engine.get(reference)
