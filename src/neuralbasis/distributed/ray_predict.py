"""predict: a model over a Ray dataset, batch by batch, on all machines that have room.

The model goes to the object store once; a process that predicts reads it from there once. No torch.
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
    """A Ray dataset with the predictions of all rows behind their columns; it is worked out when it is read or written.

    Parameters
    ----------
    model : AdditiveModel, fitted estimator, or path of a model file
    data : ray.data.Dataset, or paths of Parquet or CSV files, as for `launch.ray`
    output : "prediction" (column "prediction"), "probability" ("probability_<class>"), "contributions"
        ("contribution_<term>" and "intercept"), "score", or several of them
    keep : columns of the data to pass on, all by default; Ray does not keep the order of rows, so keep a key
    batch_size : rows worked on at a time
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
    came = dataset.schema().names
    kept = list(came if keep is None else keep)
    require_names([*found.encoder.names, *kept], came, "the table")
    names = output_names(found, outputs)
    if twice := [name for name in kept if name in names]:
        raise ValueError(f"the table has a column {twice[0]!r}, as the output has; rename it, or leave it out of keep")
    needed = list(dict.fromkeys([*kept, *found.encoder.names]))
    one = engine.put(replace(found, n_jobs=1))  # Ray runs as many batches at a time as there are CPUs
    work = Predictor(one, outputs, tuple(names), tuple(kept))
    return dataset.select_columns(needed).map_batches(
        work, batch_size=batch_size, batch_format="pyarrow", zero_copy_batch=True, **options
    )


def check_outputs(output: str | Sequence[str]) -> tuple[str, ...]:
    """
    >>> check_outputs("score"), check_outputs(["prediction", "score"])
    (('score',), ('prediction', 'score'))
    """
    outputs = (output,) if isinstance(output, str) else tuple(output)
    if not outputs or not set(outputs) <= set(OUTPUTS):
        raise ValueError(f"output must be one or several of {', '.join(map(repr, OUTPUTS))}, not {output!r}")
    return outputs


@dataclass(frozen=True)
class Predictor:
    """What is done with a batch, wherever it is."""

    model: Any
    outputs: tuple[str, ...]
    names: tuple[str, ...]
    keep: tuple[str, ...]

    def __call__(self, batch: Any) -> Any:
        """Arrow tables in and out."""
        model = fetch(self.model)
        arrays = output_arrays(model, batch.select(model.encoder.names), self.outputs)
        return type(batch).from_arrays([*map(batch.column, self.keep), *arrays], names=[*self.keep, *self.names])


@lru_cache(maxsize=2)
def fetch(reference: Any) -> AdditiveModel:
    """The model from the object store, once for each process."""
    return engine.get(reference)
