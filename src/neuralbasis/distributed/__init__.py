"""Fits and predictions by several processes.

`distributed.ray` fits an estimator on a Ray cluster; each worker has a part of the rows. `distributed.predict` applies
a model to a Ray dataset. Ray, in the order of the work: `ray_fit` (starts the workers, returns the model), `ray_worker`
(the work of one worker), `ray_predict`. `process_group` exchanges tensors between the processes of one fit; under
torchrun, `fit` finds the other processes itself.
"""

from __future__ import annotations

from typing import Any

from ..lazy import find_name

_HOME = {"ray": "ray_fit", "predict": "ray_predict"}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    try:
        return find_name(__name__, _HOME, name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "ray":
            raise
        raise ModuleNotFoundError(
            f"distributed.{name} needs Ray, which is not installed; pip install 'neuralbasis[ray]'", name="ray"
        ) from error
