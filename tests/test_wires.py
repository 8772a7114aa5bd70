"""Wires between threads that stand for processes: what is swapped arrives, whatever its size and whoever is late."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from neuralbasis.distributed import wires
from neuralbasis.distributed.wires import Wires, lay_wires


def lay(size: int) -> list[Wires | None]:
    """The wires of so many processes."""
    meeting, board = threading.Barrier(size), [None] * size

    def make(rank: int) -> Wires | None:
        def gather(value):
            board[rank] = value
            meeting.wait(10)
            found = list(board)
            meeting.wait(10)
            return found

        return lay_wires(rank, size, gather)

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(make, range(size)))


@pytest.fixture
def pair():
    found = lay(2)
    yield found
    close(found)


def close(found: list[Wires]) -> None:
    for each in found:
        for wire in each.sockets.values():
            wire.close()


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("count", [1, 10_000, 3_000_000])  # more than sockets hold at a time
def test_all_get_what_all_give(size, count):
    found, others = lay(size), {rank: [other for other in range(size) if other != rank] for rank in range(size)}

    def swap(rank: int) -> dict[int, list[torch.Tensor]]:
        time.sleep(0.05 * rank)
        rooms = {other: [torch.empty(count), torch.empty(0), torch.empty(2, 3).double()] for other in others[rank]}
        for number in range(3):  # one after the other, without waiting for the rest
            given = [
                torch.full((count,), rank + 10.0 * number),
                torch.empty(0),
                torch.full((2, 3), float(rank)).double(),
            ]
            found[rank].swap(dict.fromkeys(others[rank], given), rooms)
        return rooms

    with ThreadPoolExecutor(size) as pool:
        for rank, rooms in enumerate(pool.map(swap, range(size))):
            assert sorted(rooms) == others[rank]
            for other, (numbers, _, squares) in rooms.items():
                assert torch.equal(numbers, torch.full((count,), other + 20.0))
                assert torch.equal(squares, torch.full((2, 3), float(other)).double())
    close(found)


def test_one_way_is_enough(pair):
    room = torch.empty(5)
    pair[0].swap({1: [torch.arange(5.0)]}, {1: []})
    pair[1].swap({}, {0: [room]})
    assert room.tolist() == [0, 1, 2, 3, 4]


def test_a_process_that_ended_is_named(pair):
    close(pair[1:])
    with pytest.raises(ConnectionError, match="process 1 of this fit ended before the others"):
        pair[0].swap({}, {1: [torch.empty(5)]})
    with pytest.raises(ConnectionError, match="process 1 of this fit ended before the others"):
        pair[0].swap({1: [torch.empty(5)]}, {})


def test_a_process_that_is_silent_is_not_waited_for_without_end(pair, monkeypatch):
    monkeypatch.setattr(wires, "PATIENCE", 0.05)
    with pytest.raises(TimeoutError, match="no sign of the other processes"):
        pair[0].swap({}, {1: [torch.empty(5)]})


def test_there_are_none_for_one_for_many_and_where_a_door_cannot_be_reached(monkeypatch):
    assert lay(1) == [None]
    assert lay(wires.FEW + 1) == [None] * (wires.FEW + 1)
    monkeypatch.setattr(wires, "Path", lambda folder, name: Path(folder, name * 50))  # longer than a name may be
    assert lay(2) == [None, None]
    monkeypatch.setattr(wires, "_open", lambda *_given: "/of/another/machine")
    assert lay(3) == [None] * 3
