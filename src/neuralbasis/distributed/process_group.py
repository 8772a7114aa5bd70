"""Group: the processes that train one model together; usually one.

Every process holds some of the rows, and some parts of the members are at home in it: it alone evaluates and moves
their net. What they exchange is small: a table goes from its home to all rows, their sums of gradients over its cells
come back, and decisions that hang on a clock are the first process's. `Group` is the process that is alone, `Processes`
speaks torch.distributed (gloo on CPUs, nccl on GPUs) or, in every step, through wires; training never asks which it
has.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import torch
from torch import Tensor, distributed

from .wires import lay_wires

Parts = Mapping[int, Sequence[Tensor]]  # number of a part of the members -> tensors; parts have their homes in turn


class Group:
    """One process alone.

    Examples
    --------
    >>> group = Group()
    >>> group.rank, group.size, group.gather("here"), group.share(10)
    (0, 1, ['here'], slice(0, 10, None))
    """

    rank, size, sent = 0, 1, 0

    def is_home(self, part: int) -> bool:
        """Is this the process whose word on a part counts?"""
        return part % self.size == self.rank

    def sum(self, tensor: Tensor) -> Tensor:
        """Over all processes, in double precision where there are several."""
        return tensor

    def spread(self, parts: Parts) -> None:
        """Write into the tensors of every part what its home has in them."""

    def collect(self, parts: Parts) -> Parts:
        """Sums over all processes, in double precision where there are several; only its home gets those of a part."""
        return parts

    def gather(self, value: Any) -> list[Any]:
        """What every process has, in the order of their ranks."""
        return [value]

    def agree(self, value: Any, _part: int = 0) -> Any:
        """What the home of a part has; of the first that is the first process."""
        return value

    def barrier(self) -> None:
        """Wait for all."""

    def share(self, count: int) -> slice:
        """This process's part of so many rows."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)


ALONE = Group()


class Processes(Group):
    """The processes of torch.distributed; `sent` counts the bytes that this one sent."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()
        self.wires = lay_wires(self.rank, self.size, self.gather)

    def sum(self, tensor: Tensor) -> Tensor:
        total = tensor.detach().to(torch.float64, copy=True)
        self.sent += total.nbytes
        distributed.all_reduce(total)
        return total

    @torch.no_grad()
    def spread(self, parts: Parts) -> None:
        self.sent += sum(tensor.nbytes for part in parts if self.is_home(part) for tensor in parts[part])
        if self.wires is None or _on_accelerator(parts):
            self._broadcast(parts)
            return
        homes = self._deal(parts)
        self.wires.swap(dict.fromkeys(self.others, homes[self.rank]), {rank: homes[rank] for rank in self.others})

    def _broadcast(self, parts: Parts) -> None:
        flats = {part: torch.cat([tensor.reshape(-1) for tensor in tensors]) for part, tensors in parts.items()}
        _wait([distributed.broadcast(flat, part % self.size, async_op=True) for part, flat in flats.items()])
        for part, flat in flats.items():
            if not self.is_home(part):
                for tensor, found in zip(parts[part], _split(flat, parts[part]), strict=True):
                    tensor.copy_(found)

    def collect(self, parts: Parts) -> Parts:
        doubles = {part: [tensor.detach().double() for tensor in tensors] for part, tensors in parts.items()}
        self.sent += sum(tensor.nbytes for part in parts if not self.is_home(part) for tensor in doubles[part])
        if self.wires is None or _on_accelerator(parts):
            return self._reduce(doubles)
        homes = self._deal(doubles)
        own = homes[self.rank]
        found = {rank: [torch.empty_like(tensor) for tensor in own] for rank in self.others}
        self.wires.swap({rank: homes[rank] for rank in self.others}, found)
        totals = (reduce(torch.add, terms) for terms in zip(own, *found.values(), strict=True))
        return {part: [next(totals) for _ in doubles[part]] for part in parts if self.is_home(part)}

    def _reduce(self, parts: Parts) -> Parts:
        flats = {part: torch.cat([tensor.reshape(-1) for tensor in tensors]) for part, tensors in parts.items()}
        _wait([distributed.reduce(flat, part % self.size, async_op=True) for part, flat in flats.items()])
        return {part: _split(flat, parts[part]) for part, flat in flats.items()}

    @property
    def others(self) -> list[int]:
        return [rank for rank in range(self.size) if rank != self.rank]

    def _deal(self, parts: Parts) -> list[list[Tensor]]:
        """Tensors by the rank of their part's home."""
        return [
            [tensor for part in parts if part % self.size == rank for tensor in parts[part]]
            for rank in range(self.size)
        ]

    def gather(self, value: Any) -> list[Any]:
        found = [None] * self.size
        distributed.all_gather_object(found, value)
        return found

    def agree(self, value: Any, part: int = 0) -> Any:
        found = [value]
        distributed.broadcast_object_list(found, part % self.size)
        return found[0]

    def barrier(self) -> None:
        distributed.barrier()


def _on_accelerator(parts: Parts) -> bool:
    return any(tensor.device.type != "cpu" for tensors in parts.values() for tensor in tensors)


def _wait(works: Sequence[Any]) -> None:
    for work in works:
        work.wait()


def _split(flat: Tensor, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Views of a flat tensor in the shapes of others."""
    parts = flat.split([tensor.numel() for tensor in tensors])
    return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]


def find_group() -> Group:
    """The processes that torchrun started, or that torch.distributed was set up with before; else this one alone."""
    if not distributed.is_available():
        return Group()
    if "TORCHELASTIC_RUN_ID" in os.environ and not distributed.is_initialized():
        _join()
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return Group()
    if _FOUND.get("world") is not distributed.group.WORLD:
        _FOUND.update(world=distributed.group.WORLD, processes=Processes())
    return _FOUND["processes"]


_FOUND: dict[str, Any] = {}  # one object for as long as the processes are together: it counts what they send


def _join() -> None:
    """Meet the processes of torchrun; each takes the GPU of its number, if there are any."""
    backend = "gloo"
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        backend = "cpu:gloo,cuda:nccl"
    distributed.init_process_group(backend)
    atexit.register(_leave)


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
