"""Read-only arrays of a fitted model: plots, files and exports always agree with predictions.

A model stores each number several times: in the tables of its shapes, and in the arrays of the compiled loops. A change
in place would alter one copy and not the others, so every array of a model is read-only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

MESSAGE = (
    "this array belongs to a fitted model and is read-only: predictions, plots and files must agree. Take a copy with "
    ".copy() to calculate with it. To change the model, make a new one: replace the shape with "
    "dataclasses.replace(shape, scores=...) and the model with dataclasses.replace(model, shapes=...)"
)


class ModelArray(np.ndarray):
    """A read-only array; writing to it raises an error that explains how to make a changed model.

    Results of arithmetic are plain arrays, and a copy can be written to. Pickling keeps the array read-only.

    Examples
    --------
    >>> table = freeze(np.array([1.0, 2.0]))
    >>> table[0] = 5.0  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    ValueError: this array belongs to a fitted model and is read-only: ...
    >>> type(table + 1) is np.ndarray, table.copy().flags.writeable
    (True, True)
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        self._check_writeable()
        super().__setitem__(key, value)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple[Any, ...] = (), **kwargs: Any) -> Any:
        for array in out:
            if isinstance(array, ModelArray):
                array._check_writeable()
        if method == "at" and isinstance(inputs[0], ModelArray):
            inputs[0]._check_writeable()
        plain = [_unwrap(value) for value in inputs]
        if out:
            kwargs["out"] = tuple(map(_unwrap, out))
        result = getattr(ufunc, method)(*plain, **kwargs)
        return out[0] if len(out) == 1 else result

    def _check_writeable(self) -> None:
        if not self.flags.writeable:
            raise ValueError(MESSAGE)

    def __reduce__(self) -> Any:
        return (freeze if not self.flags.writeable else np.asarray), (np.asarray(self),)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __deepcopy__(self, memo: Any) -> ModelArray:
        return self if not self.flags.writeable else self.copy()


def freeze(values: Any) -> ModelArray:
    """The values as a read-only array. An array that owns its memory becomes read-only itself; others are copied."""
    if isinstance(values, ModelArray) and not values.flags.writeable:
        return values
    array = np.asarray(values)
    owned = array if array.flags.owndata and type(values) is np.ndarray else array.copy()
    owned.setflags(write=False)
    return owned.view(ModelArray)


def freeze_fields(record: Any, *names: str) -> None:
    """Freeze array fields of a frozen dataclass, in its `__post_init__`; None stays None."""
    for name in names:
        if (value := getattr(record, name)) is not None:
            object.__setattr__(record, name, freeze(value))


def _unwrap(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, ModelArray) else value
