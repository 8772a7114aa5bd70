"""Lazy: sequences whose items are computed on access, and package names that are imported on access.

A wide model has too many shapes to create them all. Some names of a package need other packages that few users need.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, overload

Item = TypeVar("Item")


class Lazy(Sequence[Item]):
    """Items 0 … length - 1, each computed from its index on every access.

    Examples
    --------
    >>> squares = Lazy(lambda index: index**2, 10**9)
    >>> squares[12], squares[-1], squares[3:6], len(squares)
    (144, 999999998000000001, [9, 16, 25], 1000000000)
    """

    def __init__(self, make: Callable[[int], Item], length: int):
        self._make, self._length = make, length

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> list[Item]: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self._make(i) for i in range(*index.indices(self._length))]
        return self._make(range(self._length)[operator.index(index)])

    def __repr__(self) -> str:
        return f"<{self._length:,} items, computed on access>"


def find_name(package: str, module_of: Mapping[str, str | None], name: str) -> Any:
    """Import a name of a package: from the module `module_of[name]`, or the module `name` itself if that is None."""
    if name not in module_of:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = import_module(f".{module_of[name] or name}", package)
    found = module if module_of[name] is None else getattr(module, name)
    setattr(sys.modules[package], name, found)
    return found
