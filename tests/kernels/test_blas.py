"""BLAS has one thread inside `hold_blas`, in all threads, and its own number afterwards."""

from __future__ import annotations

from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from neuralbasis.kernels.blas import hold_blas


def count_blas_threads() -> set[int]:
    np.ones((2, 2)) @ np.ones((2, 2))
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def three_threads():
    with threadpool_limits(3, "blas"):
        yield


def test_blas_has_one_thread_inside():
    before = count_blas_threads()
    with hold_blas():
        assert count_blas_threads() == {1}
        with hold_blas():
            assert count_blas_threads() == {1}
        assert count_blas_threads() == {1}
    assert count_blas_threads() == before == {3}


def test_limits_are_restored_after_an_error():
    with pytest.raises(KeyError), hold_blas():
        raise KeyError
    assert count_blas_threads() == {3}


def test_the_last_thread_to_leave_restores_the_limits():
    """The first thread leaves while another is still inside."""
    inside, left, seen = Barrier(2), Barrier(2), []

    def enter_second():
        inside.wait()
        with hold_blas():
            inside.wait()
            left.wait()
            seen.append(count_blas_threads())

    other = Thread(target=enter_second)
    other.start()
    with hold_blas():
        inside.wait()
        inside.wait()
    left.wait()
    other.join()
    assert seen == [{1}]
    assert count_blas_threads() == {3}
