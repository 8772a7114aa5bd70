"""Wires: sockets between a few processes of one machine, for what these exchange in every step.

gloo sends through TCP and a thread of its own, which takes longer than the step's sums themselves. Here the thread that
has the numbers puts them into a Unix socket, and takes what comes while it waits for room.
"""

from __future__ import annotations

import select
import socket
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

FEW = 4  # processes: of more, those that sum round a ring are faster
BUFFER = 1 << 22  # bytes on their way, if the system allows so many
PATIENCE = 1800.0  # seconds without a sign of another process

Room = Mapping[int, Sequence[Tensor]]  # rank of another process -> tensors for it, or from it
Queues = dict[int, list[memoryview]]  # rank -> bytes that are still to go, or to come


class Wires:
    """One socket to each of the other processes, by rank."""

    def __init__(self, sockets: Mapping[int, socket.socket]):
        self.sockets = sockets
        self.ranks = {wire.fileno(): rank for rank, wire in sockets.items()}
        for wire in sockets.values():
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
            wire.setblocking(False)

    def swap(self, given: Room, wanted: Room) -> None:
        """Send tensors and fill others with what comes, as far as each process is ready at a time."""
        going, coming, poll = _list_bytes(given), _list_bytes(wanted), select.poll()
        for rank in {*going, *coming}:
            poll.register(self.sockets[rank], _wish(rank, going, coming))
        while going or coming:
            ready = poll.poll(1000 * PATIENCE)
            if not ready:
                raise TimeoutError(f"no sign of the other processes of this fit for {PATIENCE:.0f} seconds")
            for number, event in ready:
                rank = self.ranks[number]
                self._pass(rank, event, going, coming)
                if wish := _wish(rank, going, coming):
                    poll.modify(number, wish)
                else:
                    poll.unregister(number)

    def _pass(self, rank: int, event: int, going: Queues, coming: Queues) -> None:
        """Give a process and take from it what is possible now."""
        wire = self.sockets[rank]
        try:
            if rank in coming and event & ~select.POLLOUT:
                count = wire.recv_into(coming[rank][0])
                if count == 0:
                    raise ConnectionResetError("closed")
                _shorten(coming, rank, count)
            if rank in going and event & ~select.POLLIN:
                _shorten(going, rank, wire.send(going[rank][0]))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionError(f"process {rank} of this fit ended before the others") from error


def _wish(rank: int, going: Queues, coming: Queues) -> int:
    return (select.POLLOUT if rank in going else 0) | (select.POLLIN if rank in coming else 0)


def _list_bytes(room: Room) -> Queues:
    listed = {rank: [tensor.numpy().data.cast("B") for tensor in room[rank] if tensor.numel()] for rank in room}
    return {rank: views for rank, views in listed.items() if views}


def _shorten(queues: Queues, rank: int, count: int) -> None:
    """So many bytes are through; what is through whole is left no more."""
    views = queues[rank]
    views[0] = views[0][count:]
    if not views[0]:
        views.pop(0)
    if not views:
        del queues[rank]


def lay_wires(rank: int, size: int, gather: Callable[[Any], list[Any]]) -> Wires | None:
    """Between all processes, if they are few and on one machine; else none."""
    if not 1 < size <= FEW or not hasattr(socket, "AF_UNIX"):
        return None
    with tempfile.TemporaryDirectory(prefix="neuralbasis-") as folder, socket.socket(socket.AF_UNIX) as door:
        paths = gather(_open(door, Path(folder, "door")))
        called = {other: _call(paths[other], rank) for other in range(rank)}
        if not all(gather(None not in paths and None not in called.values())):
            return None
        answered = [_answer(door) for _ in range(rank + 1, size)]
    return Wires({**called, **dict(answered)})


def _open(door: socket.socket, path: Path) -> str | None:
    """Where others find the door; None if it cannot be opened."""
    try:
        door.bind(str(path))
        door.listen(FEW)
    except OSError:
        return None
    return str(path)


def _call(path: str | None, rank: int) -> Any:
    """A socket to the process behind a door, which is told who calls; None if there is no such door on this machine."""
    wire = socket.socket(socket.AF_UNIX)
    try:
        wire.connect(path or "")
        wire.send(bytes([rank]))
    except OSError:
        wire.close()
        return None
    return wire


def _answer(door: socket.socket) -> tuple[int, socket.socket]:
    wire, _ = door.accept()
    return wire.recv(1)[0], wire
