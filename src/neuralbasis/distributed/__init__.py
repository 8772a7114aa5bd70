"""Several processes: fits and predictions on a cluster.

`distributed.ray` fits an estimator by several workers, each with its part of the rows. `distributed.predict` runs a
model over a dataset of any size. `process_group` is how the processes of one fit exchange tensors; started by
torchrun, `fit` finds the other processes by itself. Ray, in the order of the work: `ray_table` (what can be read),
`ray_worker` (what each worker does), `ray_fit` (starts them and returns the model), `ray_predict`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"ray": "ray_fit", "predict": "ray_predict"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'neuralbasis.distributed' has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "ray":
            raise
        raise ModuleNotFoundError(
            f"distributed.{name} needs Ray, which is not installed; pip install 'neuralbasis[ray]'", name="ray"
        ) from error
