"""Lazy: a sequence whose items are made when somebody asks for them. A wide model has too many to make them all."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
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
