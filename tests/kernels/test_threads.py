"""Threads share the rows without gaps, change no number, and survive a fork."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis import kernels
from tests.lookups import contribute, contribute_numpy, gather, scatter, take
from tests.models import NUMERIC, build_model, draw_numbers


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 30_000), st.integers(-1, 7), st.integers(1, 5000))
def test_parts_cover_all_rows_once(n_rows, threads, min_rows):
    seen, lock = [], threading.Lock()

    def work(part, first, last):
        with lock:
            seen.append((part, int(first), int(last)))
        return part - 1

    result = kernels.share_rows(work, n_rows, threads, min_rows)
    seen.sort()
    assert [part for part, _, _ in seen] == list(range(len(seen)))
    assert 1 <= len(seen) <= max(1, threads)
    assert seen[0][1] == 0
    assert seen[-1][2] == n_rows
    assert all(one[2] == other[1] for one, other in pairwise(seen))
    assert len(seen) == 1 or all(last - first >= min_rows // 2 for _, first, last in seen)
    assert result == len(seen) - 2  # the largest


def test_parts_between_given_edges():
    seen, lock = [], threading.Lock()

    def work(part, first, last):
        with lock:
            seen.append((part, first, last))
        return last

    assert kernels.share_work(work, [0, 4, 4, 9]) == 9
    assert sorted(seen) == [(0, 0, 4), (1, 4, 4), (2, 4, 9)]
    seen.clear()
    assert kernels.share_work(work, [2, 7]) == 7
    assert seen == [(0, 2, 7)]


def test_an_error_on_a_thread_reaches_the_caller():
    def work(part, first, last):
        if part == 2:
            raise KeyError("part two")
        return -1

    with pytest.raises(KeyError, match="part two"):
        kernels.share_rows(work, 3000, 3, min_rows=1)


def test_threads_change_no_number():
    rng = np.random.default_rng(11)
    model = build_model(rng, n_outputs=4)
    numbers = draw_numbers(rng, model.encoder.axes, 15_000)
    np.testing.assert_array_equal(contribute(model, numbers, threads=3), contribute(model, numbers))
    positions = model.layout.encode(numbers, threads=3)
    np.testing.assert_array_equal(positions, model.layout.encode(numbers))
    rows = rng.integers(0, 15_000, 5000)
    taken = take(positions, rows)
    np.testing.assert_array_equal(take(positions, rows, threads=3), taken)
    table = rng.normal(size=(model.layout.n_cells, 4)).astype(np.float32)
    for width in (1, len(model.layout.terms)):
        grad = rng.normal(size=(5000, width, 4)).astype(np.float32)
        forward, backward = gather(model.layout, taken, table, width > 1), scatter(model.layout, taken, grad)
        for threads in (2, 3, 40):  # more threads than terms
            np.testing.assert_array_equal(gather(model.layout, taken, table, width > 1, threads), forward)
            np.testing.assert_array_equal(scatter(model.layout, taken, grad, threads), backward)


def test_number_of_threads():
    cores = kernels.count_threads(None)
    assert 1 <= cores <= (os.cpu_count() or 1)
    assert kernels.count_threads(-1) == cores
    assert kernels.count_threads(0) == cores
    assert kernels.count_threads(-2) == max(1, cores - 1)
    assert kernels.count_threads(-1000) == 1
    assert [kernels.count_threads(n) for n in (1, 3, 64)] == [1, 3, 64]


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system does not report the cores of a process")
def test_cores_are_those_of_the_process():
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from neuralbasis.kernels import count_threads; print(count_threads(None), count_threads(-2))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert run.stdout.split() == ["1", "1"]


def test_eight_callers_at_once():
    rng = np.random.default_rng(12)
    model = build_model(rng, NUMERIC, n_outputs=2, n_jobs=3)
    tables = [draw_numbers(rng, model.encoder.axes, 13_000 + 7 * index) for index in range(16)]
    expected = [model.intercept + contribute_numpy(model, table).sum(axis=1) for table in tables]
    with ThreadPoolExecutor(8) as pool:
        for scores, wanted in zip(pool.map(model.scores, tables), expected, strict=True):
            np.testing.assert_allclose(scores, wanted, rtol=1e-11, atol=1e-11)


FORK = """
import multiprocessing
import numpy as np
from tests.models import NUMERIC, build_model, draw_numbers

rng = np.random.default_rng(0)
model = build_model(rng, NUMERIC, n_jobs=3)
numbers = draw_numbers(rng, model.encoder.axes, 20_000)
before = model.scores(numbers)  # starts the parent's threads

def predict(pipe):
    pipe.send(model.scores(numbers))

context = multiprocessing.get_context("fork")
for _ in range(2):
    near, far = context.Pipe()
    child = context.Process(target=predict, args=(far,), daemon=True)
    child.start()
    assert near.poll(60), "the child did not respond"
    assert np.array_equal(near.recv(), before)
    child.join(60)
    assert child.exitcode == 0
assert np.array_equal(model.scores(numbers), before)
print("same")
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other systems do not fork threads safely")
def test_a_forked_child_predicts(pytestconfig):
    run = subprocess.run(
        [sys.executable, "-c", FORK],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        cwd=pytestconfig.rootpath,
    )
    assert run.stdout == "same\n", run.stderr
