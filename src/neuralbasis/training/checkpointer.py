"""Checkpointer: keeps the state of training runs, to resume an interrupted fit.

The loop calls a checkpointer when a run begins, after every round of batches and when it ends. `Checkpointer` keeps
nothing; `checkpoints.Checkpoints` writes to disk. The runs of a fit always follow one another in the same order, and
the seed reproduces everything between them: only the state of runs is kept.

A state from a file may be damaged or forged. `check_form` compares it with the form of the run's own state (keys,
types, dtypes, shapes); then every `restore` checks the ranges of its values. Both raise `StateError`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from torch import Tensor

MAX_KEPT = 1e15  # its square fits single precision; contributions are in units of the target's deviation


class StateError(ValueError):
    """A state that does not fit the run to resume."""


class RunState(Protocol):
    """The state of a run; `check_form` compares a file with `form` before `restore`."""

    def form(self) -> dict[str, Any]: ...
    def capture(self) -> dict[str, Any]: ...
    def restore(self, state: dict[str, Any], is_over: bool) -> None: ...


class Checkpointer:
    """Keeps nothing."""

    def __enter__(self) -> Checkpointer:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """The fit is over or has failed: other fits may use the same folder."""

    def choose(self, _name: str, value: int) -> int:
        """A choice that a fit makes once: this value, or that of the resumed fit."""
        return value

    def check(self, _fit: dict[str, Any]) -> None:
        """Refuse to resume another fit than the one described."""

    def begin(self, _state: RunState) -> bool:
        """A run begins: restore its kept state, if there is one; True if that run was over."""
        return False

    def note(self, _state: RunState) -> None:
        """A round of batches is done."""

    def end(self, _state: RunState) -> None:
        """The run is over."""

    def finish(self) -> None:
        """The fit is over."""


NO_CHECKPOINTS = Checkpointer()


def require(is_right: bool, problem: str) -> None:
    """Refuse a state with a problem."""
    if not is_right:
        raise StateError(problem)


def require_bounded(tensors: Iterable[Tensor]) -> None:
    """Refuse values of the best state that are not finite, or whose products would overflow."""
    is_bounded = all(bool((tensor.abs() < MAX_KEPT).all()) for tensor in tensors)
    require(is_bounded, f"the best values are not finite, or beyond ±{MAX_KEPT:.0e}")


def check_form(value: Any, form: Any, name: str = "its content") -> None:
    """Refuse a value whose form differs from an example.

    Parameters
    ----------
    value : nested plain values and arrays
    form : an example with the same keys, types, dtypes and shapes. Where the content varies, a type stands for one
        plain value, a list of one type for any number of them, and a dtype for an array of one dimension
    name : of the value, for the error

    Examples
    --------
    >>> check_form({"step": 7, "losses": [0.5, 0.25]}, {"step": int, "losses": [float]})
    >>> check_form({"kept": np.zeros(3)}, {"kept": np.ones(4)})
    Traceback (most recent call last):
    ...
    neuralbasis.training.checkpointer.StateError: its content['kept'] is float64 (3,), but float64 (4,) was expected
    """
    if isinstance(form, type):
        require(type(value) is form, f"{name} is {_describe(value)}, but {form.__name__} was expected")
    elif isinstance(form, np.dtype):
        is_right = isinstance(value, np.ndarray) and value.dtype == form and value.ndim == 1
        require(is_right, f"{name} is {_describe(value)}, but {form} of one dimension was expected")
    elif isinstance(form, list) and len(form) == 1 and isinstance(form[0], type):
        require(isinstance(value, list), f"{name} is {_describe(value)}, but a list was expected")
        for index, item in enumerate(value):
            check_form(item, form[0], f"{name}[{index}]")
    else:
        came, expected = _describe(value), _describe(form)
        require(came == expected, f"{name} is {came:.200}, but {expected:.200} was expected")
        keys = form if isinstance(form, dict) else range(len(form)) if isinstance(form, list) else ()
        for key in keys:
            check_form(value[key], form[key], f"{name}[{key!r}]")


def _describe(value: Any) -> str:
    """The form of one value, without its items."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, dict):
        return f"a dict of {sorted(value)}"
    return f"a list of {len(value)}" if isinstance(value, list) else type(value).__name__
