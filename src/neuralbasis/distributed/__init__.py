"""Fits and predictions by several processes.

`distributed.ray` fits an estimator on a Ray cluster; each worker has a part of the rows. `distributed.predict` applies
a model to a Ray dataset. Ray, in the order of the work: `ray_table` (input), `ray_worker` (the work of one worker),
`ray_fit` (starts the workers, returns the model), `ray_predict`. `process_group` exchanges tensors between the
processes of one fit; under torchrun, `fit` finds the other processes itself.
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
