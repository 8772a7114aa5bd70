"""The cost model of `speed.scaling`, where the answer is known."""

from __future__ import annotations

import pytest

from benchmarks.speed.scaling import LATENCY, NETWORK, Constants, Fit, MeasuredFit, check_measured, print_projections

CONSTANTS = Constants(
    start=5.0, prepare=2e-6, step=0.01, row=1e-6, exchanged=1e6, exchange=1e-3, cache_bytes=113.0,
    table_bytes=120.0, cores=2,
)  # fmt: skip
FIT = Fit("folder", 1_000_000, 10_000, 100, "1GB")


def test_one_process_exchanges_nothing() -> None:
    assert CONSTANTS.send(1) == 0.0
    assert CONSTANTS.predict_here(FIT, 100, 1) == pytest.approx(5 + 2 + 100 * (0.01 + 0.01))


def test_two_processes_share_rows_and_networks() -> None:
    assert CONSTANTS.predict_here(FIT, 100, 2) == pytest.approx(2.5 + 1 + 100 * (0.005 + 0.005 + 0.001))


def test_processes_beyond_the_cores_wait_for_one_another() -> None:
    own = 2.5 + 0.5 + 100 * (0.005 + 0.0025 + 3 * 0.001)
    assert CONSTANTS.predict_here(FIT, 100, 4) == pytest.approx(2 * own)


def test_a_ring_sends_the_sum_twice_however_many_take_part() -> None:
    sent = [(CONSTANTS.send(workers) - 2 * (workers - 1) * LATENCY) * NETWORK for workers in (2, 64, 10**6)]
    assert sent == pytest.approx([1e6, 2e6 * 63 / 64, 2e6], rel=1e-5)


def test_a_projection_is_linear_in_rows_and_falls_with_the_batch() -> None:
    passes, training, exchange = CONSTANTS.project(10**9, 64, 8_192)
    assert CONSTANTS.project(10**12, 64, 8_192) == pytest.approx((1e3 * passes, 1e3 * training, 1e3 * exchange))
    assert passes == pytest.approx(1e9 * 2e-6 / 64)
    assert exchange == pytest.approx(1e9 / 8_192 * 126 * (LATENCY + 1e6 / 64 / NETWORK))
    assert training == pytest.approx(1e9 / 8_192 * 0.005 + 1e9 * 1e-6 / 64 + exchange)
    assert CONSTANTS.project(10**9, 64, 131_072)[1] < training / 10


def test_projections_are_printed(capsys) -> None:
    print_projections(CONSTANTS)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 4 * 3
    assert "113,000" in lines[2 + 9].replace(" ", "") or "1,766" in lines[2 + 9]  # GB of the cache, over 64 workers


def test_what_was_not_measured_is_refused() -> None:
    found = {"row": 1e-6, "start": 1.0, "step": 0.01}
    streamed, in_memory = MeasuredFit(10.0, 1.0, 0.01, 100, 0.0, 101.0), MeasuredFit(10.0, 1.0, 0.01, 100, 0.0, 0.0)
    check_measured(streamed, found)
    with pytest.raises(SystemExit, match="the rows fit in memory"):
        check_measured(in_memory, found)
    with pytest.raises(SystemExit, match="not measured, less than the noise of this machine: row, step"):
        check_measured(streamed, {**found, "row": -1e-7, "step": 0.0})
