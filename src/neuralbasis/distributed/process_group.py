"""ProcessGroup: the processes that train one model together; usually one.

Every process holds a part of the rows. Groups of members are assigned to processes in turn, and only the process that
owns a group evaluates its network and updates its weights. What is exchanged does not grow with the rows: a table goes
from its owner to all processes, their sums of gradients over its cells come back. Decisions that depend on a clock are
taken by the first process. `ProcessGroup` is a single process; `TorchProcessGroup` uses torch.distributed (gloo on
CPUs, nccl on GPUs). Training does not ask which one it has.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, distributed

Tensors = Mapping[int, Sequence[Tensor]]  # number of a group of members -> its tensors


class ProcessGroup:
    """A single process.

    >>> group = ProcessGroup()
    >>> group.rank, group.size, group.gather("here"), group.share(10)
    (0, 1, ['here'], slice(0, 10, None))
    """

    rank, size, sent = 0, 1, 0

    def owns(self, number: int) -> bool:
        """Does this process own the group of members with this number?"""
        return number % self.size == self.rank

    def sum(self, tensor: Tensor) -> Tensor:
        """Sum over all processes, in double precision if there are several."""
        return tensor

    def spread(self, tensors: Tensors) -> None:
        """Overwrite the tensors of every group of members with those of its owner."""

    def collect(self, tensors: Tensors) -> Tensors:
        """Sums over all processes, in double precision if there are several; valid in the owner of each group only."""
        return tensors

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in the order of their ranks."""
        return [value]

    def agree(self, value: Any, _number: int = 0) -> Any:
        """The value of the process that owns a group of members; by default of the first process."""
        return value

    def barrier(self) -> None:
        """Wait for all processes."""

    def share(self, count: int) -> slice:
        """This process's part of `count` rows."""
        return slice(self.rank * count // self.size, (self.rank + 1) * count // self.size)


SINGLE_PROCESS = ProcessGroup()


class TorchProcessGroup(ProcessGroup):
    """The processes of torch.distributed; `sent` counts the bytes that this process has sent."""

    def __init__(self) -> None:
        self.rank, self.size = distributed.get_rank(), distributed.get_world_size()

    def sum(self, tensor: Tensor) -> Tensor:
        total = tensor.detach().to(torch.float64, copy=True)
        self.sent += total.nbytes
        distributed.all_reduce(total)
        return total

    @torch.no_grad()
    def spread(self, tensors: Tensors) -> None:
        self.sent += sum(tensor.nbytes for number in tensors if self.owns(number) for tensor in tensors[number])
        for number, received in self._exchange(distributed.broadcast, tensors).items():
            if not self.owns(number):
                for tensor, values in zip(tensors[number], received, strict=True):
                    tensor.copy_(values)

    def collect(self, tensors: Tensors) -> Tensors:
        doubles = {number: [tensor.detach().double() for tensor in own] for number, own in tensors.items()}
        self.sent += sum(tensor.nbytes for number in doubles if not self.owns(number) for tensor in doubles[number])
        return self._exchange(distributed.reduce, doubles)

    def _exchange(self, operation: Callable[..., Any], tensors: Tensors) -> dict[int, list[Tensor]]:
        """Broadcast from or reduce to the owner of each group of members, in one message per group."""
        flats = {number: torch.cat([tensor.reshape(-1) for tensor in own]) for number, own in tensors.items()}
        for work in [operation(flat, number % self.size, async_op=True) for number, flat in flats.items()]:
            work.wait()
        parts = {number: flat.split([tensor.numel() for tensor in tensors[number]]) for number, flat in flats.items()}
        return {number: list(map(Tensor.view_as, parts[number], own)) for number, own in tensors.items()}

    def gather(self, value: Any) -> list[Any]:
        found = [None] * self.size
        distributed.all_gather_object(found, value)
        return found

    def agree(self, value: Any, number: int = 0) -> Any:
        found = [value]
        distributed.broadcast_object_list(found, number % self.size)
        return found[0]

    def barrier(self) -> None:
        distributed.barrier()


def find_process_group() -> ProcessGroup:
    """The processes started by torchrun, or an existing torch.distributed group; otherwise this process alone."""
    if not distributed.is_available():
        return ProcessGroup()
    if "TORCHELASTIC_RUN_ID" in os.environ and not distributed.is_initialized():
        backend = "gloo"
        if torch.cuda.is_available():  # each process takes the GPU of its local rank
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
            backend = "cpu:gloo,cuda:nccl"
        distributed.init_process_group(backend)
        atexit.register(_leave)
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return ProcessGroup()
    return _find_connected(distributed.group.WORLD)


@lru_cache(maxsize=1)
def _find_connected(_world: Any) -> TorchProcessGroup:
    """One object while the processes are connected: it counts the bytes sent."""
    return TorchProcessGroup()


def _leave() -> None:
    if distributed.is_initialized():
        distributed.destroy_process_group()
