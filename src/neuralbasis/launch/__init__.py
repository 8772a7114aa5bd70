"""launch: fits and predictions on a cluster that runs Ray.

`launch.ray` fits an estimator by several workers, each with its part of the rows; `launch.predict` runs a model over a
dataset of any size. In the order of the work: `table` (what can be read), `worker` (what each worker does), `cluster`
(who starts them and takes the model home), `prediction`. torchrun needs none of this: started by it, `fit` finds the
other processes by itself.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {"ray": "cluster", "predict": "prediction"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'neuralbasis.launch' has no attribute {name!r}")
    try:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "ray":
            raise
        raise ModuleNotFoundError(
            f"launch.{name} needs Ray, which is not installed; pip install 'neuralbasis[ray]'", name="ray"
        ) from error
