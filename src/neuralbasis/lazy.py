"""Lazy: what is made or loaded when somebody asks for it.

The items of a sequence, of which a wide model has too many to make them all, and the names of a package, which bring
other packages that few need.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, TypeVar, overload

Item = TypeVar("Item")


class Lazy(Sequence[Item]):
    """Items 0 … length - 1, each made by a function of its index, every time anew.

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
        return f"<{self._length:,} items, made when they are asked for>"


def find_name(package: str, home: Mapping[str, str | None], name: str) -> Any:
    """What a package lends under a name: found in the module `home` says, or that module itself where it says None."""
    if name not in home:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = import_module(f".{home[name] or name}", package)
    found = module if home[name] is None else getattr(module, name)
    setattr(sys.modules[package], name, found)
    return found
