"""Group: the processes that train one model together; usually one.

Every process holds some of the rows, and some of the members are at home in it: it alone evaluates and moves their
net. What they exchange is small: a table goes from its home to all rows, their sums of gradients over its cells come
back, and decisions that hang on a clock are the first process's. `Group` is the process that is alone, `Processes`
speaks torch.distributed (gloo on CPUs, nccl on GPUs); training never asks which it has.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, distributed


class Group:
    """One process alone.

    Examples
    --------
    >>> group = Group()
    >>> group.rank, group.size, group.gather("here"), group.share(10)
    (0, 1, ['here'], slice(0, 10, None))
    """

    rank, size, home, sent = 0, 1, 0, 0

    @property
    def at_home(self) -> bool:
        """Is this the process whose word counts?"""
        return self.rank == self.home

    def sum(self, tensor: Tensor) -> Tensor:
        """Over all processes, in double precision where there are several."""
        return tensor

    def spread(self, tensors: Sequence[Tensor]) -> None:
        """Write into the tensors what the home process has in them."""

    def collect(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """Sums over all processes, in double precision where there are several; the home process alone gets them."""
        return list(tensors)

    def gather(self, value: Any) -> list[Any]:
        """What every process has, in the order of their ranks."""
        return [value]

    def agree(self, value: Any) -> Any:
        """What the home process has; of all processes that is the first."""
        return value

    def barrier(self) -> None:
        """Wait for all."""

    def lane(self, _index: int) -> Group:
        """The same processes for one of several threads: what is exchanged in different lanes never meets.

        Lanes have their homes in turn. All processes ask for them in the same order.
        """
        return self

    def share(self, count: int) -> slice:
        """This process's part of so many rows."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)


ALONE = Group()


class Processes(Group):
    """The processes of torch.distributed, or of a group of it; `sent` counts the bytes that this one sent."""

    def __init__(self, group: Any = None, home: int = 0):
        self.group, self.home, self.lanes = group, home, [self]
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        self.own = 0

    @property
    def sent(self) -> int:  # type: ignore[override]
        return self.own + sum(lane.sent for lane in self.lanes[1:])

    def sum(self, tensor: Tensor) -> Tensor:
        total = tensor.detach().to(torch.float64, copy=True)
        self.own += total.nbytes
        distributed.all_reduce(total, group=self.group)
        return total

    @torch.no_grad()
    def spread(self, tensors: Sequence[Tensor]) -> None:
        flat = torch.cat([tensor.reshape(-1) for tensor in tensors])
        self.own += flat.nbytes * self.at_home
        distributed.broadcast(flat, group=self.group, group_src=self.home)
        if not self.at_home:
            for tensor, part in zip(tensors, _split(flat, tensors), strict=True):
                tensor.copy_(part)

    def collect(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        flat = torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors])
        self.own += flat.nbytes * (not self.at_home)
        distributed.reduce(flat, group=self.group, group_dst=self.home)
        return _split(flat, tensors)

    def gather(self, value: Any) -> list[Any]:
        found = [None] * self.size
        distributed.all_gather_object(found, value, group=self.group)
        return found

    def agree(self, value: Any) -> Any:
        found = [value]
        distributed.broadcast_object_list(found, group=self.group, group_src=self.home)
        return found[0]

    def barrier(self) -> None:
        distributed.barrier(group=self.group)

    def lane(self, index: int) -> Processes:
        while len(self.lanes) <= index:
            ranks = distributed.get_process_group_ranks(self.group)
            self.lanes.append(Processes(distributed.new_group(ranks), len(self.lanes) % self.size))
        return self.lanes[index]


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


_FOUND: dict[str, Any] = {}  # one object for as long as the processes are together: its lanes are made once


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
