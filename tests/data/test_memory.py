"""Memory limits are parsed, and rows are divided to stay below them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data import Load, count_rows_in_memory, divide_rows, memory, read_limit

loads = st.builds(Load, st.integers(1, 300), st.integers(0, 600), st.integers(1, 14), st.integers(1, 50))


@settings(deadline=None)
@given(st.integers(2, 10**12), loads, st.integers(10**9, 10**11), st.integers(1, 64))
def test_sample_and_pool_stay_below_the_limit(n_rows, load, limit, n_processes):
    try:
        found = divide_rows(n_rows, load, limit, n_processes)
    except ValueError:
        assert limit < memory.BASE_BYTES + 2 * memory.MIN_SAMPLE * load.sample_bytes
        return
    if found.n_pools == 0:
        assert found.n_sample == n_rows
    else:
        assert memory.MIN_SAMPLE <= found.n_sample <= 2**20
    pool = 0 if found.n_pools == 0 else (n_rows - found.n_sample) / n_processes / found.n_pools
    taken = found.n_sample * load.sample_bytes + pool * load.pool_bytes
    assert memory.BASE_BYTES + taken <= limit


def test_one_division_serves_many_limits():
    load = Load(28, 0, 4, 4)
    found = {divide_rows(8_400_000, load, limit) for limit in range(1_900_000_000, 2_000_000_000, 10_000_000)}
    assert len(found) == 1


def test_a_limit_that_is_too_small_raises_with_the_required_memory():
    with pytest.raises(ValueError, match=r"a fit to 28 columns needs about 0\.\d\d GB; raise it"):
        divide_rows(10**6, Load(28, 0, 4, 4), 10**8)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("2GB", 2 * 10**9), ("2g", 2 * 10**9), ("512 MiB", 2**29), ("1.5tb", 1.5 * 10**12), (12345, 12345), (1e9, 10**9)],
)
def test_limits_are_parsed(limit, expected):
    assert read_limit(limit) == expected


@pytest.mark.parametrize("limit", ["much", "", "-2GB", 0, -1, float("inf"), float("nan"), True, [], "2GB 3"])
def test_other_limits_raise(limit):
    with pytest.raises(ValueError, match="memory_limit must be None, a number of bytes or a text such as '2GB'"):
        read_limit(limit)


def test_without_a_limit_half_of_the_free_memory_is_shared(monkeypatch):
    monkeypatch.setattr(memory, "find_free_memory", lambda: 8 * 10**9)
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert read_limit(None) == 4 * 10**9
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "4")
    assert read_limit(None) == 10**9


def test_free_memory_is_plausible(monkeypatch):
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    assert 10**7 < 2 * read_limit(None) < 10**14


def test_rows_in_memory():
    assert count_rows_in_memory(10, 10**8) == 0
    n_rows = count_rows_in_memory(10, 10**9)
    assert 0.99 * 10**9 < memory.BASE_BYTES + n_rows * 10 * memory.CELL_BYTES <= 10**9
