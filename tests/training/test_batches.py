"""Batches: every row as often as it has copies, one pool after the other; processes hold parts of a pool."""

from itertools import repeat
from types import SimpleNamespace

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.distributed.process_group import ProcessGroup
from neuralbasis.training.batches import Batches, Pool

seeds = st.integers(0, 2**32 - 1)


def pool_of(copies):
    return SimpleNamespace(copies=np.array(copies))


def draw_all(pools, size, n_steps, seed=0, count=3):
    """(pool, batch) of every step, drawn a few at a time."""
    batches, found = Batches(iter(pools), size, n_steps, np.random.default_rng(seed)), []
    while drawn := batches.draw(count):
        found += [(batches.pool, batch) for batch in drawn]
    return found


@settings(deadline=None)
@given(seeds, st.lists(st.integers(1, 4), min_size=1, max_size=30), st.integers(1, 40), st.integers(1, 25))
def test_every_row_comes_as_often_as_it_has_copies_in_an_epoch(seed, copies, size, n_steps):
    copies = np.array(copies)
    batches = [batch for _, batch in draw_all(repeat(pool_of(copies)), size, n_steps, seed)]
    assert len(batches) == n_steps
    assert {len(batch) for batch in batches} == {min(size, copies.sum())}
    drawn, epoch = np.concatenate(batches), copies.sum()
    for first in range(0, len(drawn), epoch):
        times = np.bincount(drawn[first : first + epoch], minlength=len(copies))
        assert (times <= copies).all()
        if first + epoch <= len(drawn):
            assert (times == copies).all()
    again = [batch for _, batch in draw_all(repeat(pool_of(copies)), size, n_steps, seed, count=7)]
    np.testing.assert_array_equal(drawn, np.concatenate(again))


def test_every_epoch_has_a_new_order():
    (_, first), (_, second) = draw_all(repeat(pool_of([1] * 100)), 100, 2)
    assert first.tolist() != second.tolist() != list(range(100))


@settings(deadline=None)
@given(seeds, st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(1, 15))
def test_pools_follow_one_another_and_batches_never_span_two(seed, sizes, size):
    pools = [pool_of([1] * n) for n in sizes]
    n_steps = sum(max(1, n // size) for n in sizes)
    found = draw_all(pools, size, n_steps, seed)
    assert len(found) == n_steps
    for pool, n in zip(pools, sizes, strict=True):
        drawn = [batch for of, batch in found if of is pool]
        assert len(drawn) == max(1, n // size)
        assert len(np.unique(np.concatenate(drawn))) == len(drawn) * min(n, size)  # no row twice
        assert max(batch.max() for batch in drawn) < n


@settings(deadline=None)
@given(st.integers(0, 50), st.integers(1, 7), seeds)
def test_every_row_of_a_batch_is_held_by_one_process(n_rows, n_processes, seed):
    batch, found = np.random.default_rng(seed).permutation(n_rows), []
    for rank in range(n_processes):
        group = ProcessGroup()
        group.rank, group.size = rank, n_processes
        own = group.share(n_rows)
        empty = torch.zeros(own.stop - own.start)
        held = Pool(None, empty, empty, None, np.ones(n_rows, int), own.start).hold(batch)
        assert ((held >= 0) & (held < len(empty))).all()
        found += (held + own.start).tolist()
    assert sorted(found) == list(range(n_rows))
