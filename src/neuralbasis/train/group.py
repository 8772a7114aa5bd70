"""Group: the processes that train one model together; usually one.

Every process holds some of the rows and does the same with all the rest, so that it ends with the same model. What they
exchange is small: sums of gradients over a table's cells, and decisions that hang on a clock. `Group` is the process
that is alone, `Processes` speaks torch.distributed (gloo on CPUs, nccl on GPUs); training never asks which it has.
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

    rank, size, sent = 0, 1, 0

    def sum(self, tensor: Tensor) -> Tensor:
        """Over all processes, in double precision where there are several."""
        return self.sum_all([tensor])[0]

    def sum_all(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The same for some tensors at once."""
        return list(tensors)

    def gather(self, value: Any) -> list[Any]:
        """What every process has, in the order of their ranks."""
        return [value]

    def agree(self, value: Any) -> Any:
        """What the first process has."""
        return value

    def barrier(self) -> None:
        """Wait for all."""

    def lane(self, _index: int) -> Group:
        """The same processes for one of several threads: sums of different lanes never meet.

        All processes ask for lanes in the same order.
        """
        return self

    def share(self, count: int) -> slice:
        """This process's part of so many rows."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)


ALONE = Group()


class Processes(Group):
    """The processes of torch.distributed, or of a group of it; `sent` counts the bytes that this one gave to sums."""

    def __init__(self, group: Any = None):
        self.group, self.lanes = group, [self]
        self.rank, self.size = distributed.get_rank(group), distributed.get_world_size(group)
        self.own = 0

    @property
    def sent(self) -> int:  # type: ignore[override]
        return self.own + sum(lane.sent for lane in self.lanes[1:])

    def sum_all(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        flat = torch.cat([tensor.detach().double().reshape(-1) for tensor in tensors])
        self.own += flat.nbytes
        distributed.all_reduce(flat, group=self.group)
        parts = flat.split([tensor.numel() for tensor in tensors])
        return [part.view(tensor.shape) for part, tensor in zip(parts, tensors, strict=True)]

    def gather(self, value: Any) -> list[Any]:
        found = [None] * self.size
        distributed.all_gather_object(found, value, group=self.group)
        return found

    def agree(self, value: Any) -> Any:
        found = [value]
        distributed.broadcast_object_list(found, group=self.group, group_src=0)
        return found[0]

    def barrier(self) -> None:
        distributed.barrier(group=self.group)

    def lane(self, index: int) -> Processes:
        while len(self.lanes) <= index:
            ranks = distributed.get_process_group_ranks(self.group)
            self.lanes.append(Processes(distributed.new_group(ranks)))
        return self.lanes[index]


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
