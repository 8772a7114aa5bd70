"""Rows: disjoint, balanced validation rows, weights that keep the expected gradient, and standard errors."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.data import Sample
from neuralbasis.losses import CrossEntropy, LogLoss, SquaredError
from neuralbasis.training import place_rows
from neuralbasis.training.rows import standard_error

seeds = st.integers(0, 2**32 - 1)


def hold_out(strata, n_members, share, rng):
    """(N, M) rows that each member holds out; strata are classes, or all 0 for a regression."""
    loss = CrossEntropy(int(strata.max()) + 1) if strata.any() else SquaredError()
    return place_rows(Sample(strata, np.ones(len(strata))), loss, n_members, share, rng, "cpu").held_out.numpy()


@settings(deadline=None)
@given(seeds, st.integers(2, 200), st.integers(1, 12), st.floats(0.02, 0.5))
def test_parts_are_disjoint_while_they_last(seed, n_rows, n_members, share):
    held = hold_out(np.zeros(n_rows), n_members, share, np.random.default_rng(seed))
    assert held.shape == (n_rows, n_members)
    requested = min(round(share * n_rows), n_rows - 1)
    if requested == 0:
        assert not held.any()
        return
    parts = max(2, -(-n_rows // requested))
    for first in range(0, n_members, parts):
        times = held[:, first : first + parts].sum(axis=1)
        assert times.max() == 1
        if first + parts <= n_members:
            assert times.min() == 1  # all parts together are all rows
    sizes = held.sum(axis=0)
    assert sizes.max() <= max(requested, -(-n_rows // 2))
    assert sizes.min() >= n_rows // parts >= 1
    assert sizes.max() - sizes.min() <= 1


@settings(deadline=None)
@given(seeds, st.lists(st.integers(0, 60), min_size=2, max_size=5), st.integers(1, 9), st.floats(0.05, 0.5))
def test_classes_are_balanced_to_a_row(seed, counts, n_members, share):
    rng = np.random.default_rng(seed)
    strata = rng.permutation(np.repeat(np.arange(len(counts)), counts))
    held = hold_out(strata, n_members, share, rng) if len(strata) > 1 else np.zeros((0, 1), bool)
    if held.any():
        parts = max(2, -(-len(strata) // round(share * len(strata))))
        for label, count in enumerate(counts):
            assert set(held[strata == label].sum(axis=0)) <= {count // parts, -(-count // parts)}


@pytest.mark.parametrize(
    ("requested", "sizes"), [(1, {1}), (10, {10}), (30, {25}), (50, {50}), (99, {50}), (500, {50})]
)
def test_a_number_of_rows_is_the_most_that_is_held_out(requested, sizes):
    """Equal parts of the table that are not larger than requested, and half of the table at most."""
    held = hold_out(np.zeros(100), 2, requested, np.random.default_rng(0))
    assert set(held.sum(axis=0)) == sizes


def test_the_validation_loss_is_the_mean_over_members_of_each_ones_mean():
    rng = np.random.default_rng(0)
    held = torch.from_numpy(rng.random((40, 3)) < 0.4)
    weights, losses = rng.random(40) + 0.5, rng.random((40, 3))
    sample = Sample(rng.normal(size=40), weights)
    rows = replace(place_rows(sample, SquaredError(), 3, 0, rng, "cpu"), held_out=held)
    means = [np.average(losses[h, m], weights=weights[h]) for m, h in enumerate(held.numpy().T)]
    parts = (torch.from_numpy(losses) * rows.validation_parts()).sum(dim=1)
    assert float(parts.sum()) == pytest.approx(np.mean(means), rel=1e-6)
    assert (parts[~held.any(dim=1)] == 0).all()
    some = torch.nonzero(held.any(dim=1))[:, 0]
    torch.testing.assert_close(rows.validation_parts(some), rows.validation_parts()[some])


def test_large_tables_hold_out_no_more_than_they_need():
    held = hold_out(np.zeros(200_000), 3, 0.4, np.random.default_rng(0))
    assert held.sum(axis=0).tolist() == [50_000] * 3


@pytest.mark.parametrize("size", [0, 0.0, 0.001])
def test_nothing_is_held_out_unless_requested(size):
    assert not hold_out(np.zeros(100), 4, size, np.random.default_rng(0)).any()


def test_members_draw_new_parts_when_all_are_used():
    held = hold_out(np.zeros(40), 4, 0.5, np.random.default_rng(0))
    assert (held[:, 0] == ~held[:, 1]).all()
    assert (held[:, 2] == ~held[:, 3]).all()
    assert (held[:, 0] != held[:, 2]).any()
    assert (held[:, 0] != held[:, 3]).any()


@settings(deadline=None)
@given(seeds, st.lists(st.integers(1, 2000), min_size=1, max_size=4), st.integers(1, 3))
def test_copies_keep_the_expected_gradient(seed, counts, n_members):
    rng = np.random.default_rng(seed)
    strata = np.repeat(np.arange(len(counts)), counts)
    sample = Sample(strata, rng.random(len(strata)) + 0.1)
    held = torch.from_numpy(rng.random((len(strata), n_members)) < 0.2)
    rows = place_rows(sample, CrossEntropy(len(counts)), n_members, 0, rng, "cpu")
    rows, copies = replace(rows, held_out=held), rows.copies
    # A draw takes a row with probability copies / Σ copies: times its share, that is its weight again.
    expected = (rows.shares() * torch.from_numpy(copies / copies.sum())[:, None]).numpy()
    plain = sample.weights[:, None] * ~held.numpy()
    np.testing.assert_allclose(expected, plain / np.maximum(plain.sum(axis=0), 1e-12), rtol=1e-4)
    if (~held).any(dim=0).all():
        np.testing.assert_allclose(expected.sum(axis=0), 1, rtol=1e-4)


def test_copies_are_capped_and_common_classes_have_one():
    counts = np.array([10_000, 510, 100, 1])  # classes below 5 % of the rows have copies, 50 at most
    strata = np.repeat(np.arange(4), counts)
    rows = place_rows(Sample(strata, np.ones(len(strata))), CrossEntropy(4), 1, 0, np.random.default_rng(0), "cpu")
    copies = [set(rows.copies[strata == label].tolist()) for label in range(4)]
    assert copies == [{1}, {1}, {int(0.05 * counts.sum() / 100)}, {50}]


def test_rows_of_a_regression_have_one_copy():
    sample = Sample(np.r_[np.zeros(99), 1.0], np.arange(1.0, 101))
    rows = place_rows(sample, SquaredError.of(sample), 2, 0.2, np.random.default_rng(0), "cpu")
    assert set(rows.copies.tolist()) == {1}
    assert rows.weights.mean().item() == pytest.approx(1)
    assert rows.n_effective == sample.weights.sum()
    rare = place_rows(replace(sample, y=sample.y.astype(int)), LogLoss(), 2, 0.2, np.random.default_rng(0), "cpu")
    assert rare.copies.tolist() == [1] * 99 + [5]


def test_the_standard_error_of_a_sum_by_hand():
    parts = torch.tensor([1.0, 2.0, 3.0, 6.0])  # mean 3, squares 4 + 1 + 0 + 9 = 14
    assert standard_error(parts) == pytest.approx(math.sqrt(14 / 3) * 2)
    assert standard_error(torch.full((5,), 0.25)) == 0
    assert standard_error(torch.tensor([3.0])) == 0
    assert standard_error(torch.empty(0)) == 0


@settings(deadline=None, max_examples=10)
@given(seeds)
def test_the_standard_error_is_the_spread_of_sums(seed):
    parts = np.random.default_rng(seed).normal(size=(4000, 25))
    found = np.mean([standard_error(torch.from_numpy(row)) ** 2 for row in parts[:200]])
    assert math.sqrt(found) == pytest.approx(parts.sum(axis=1).std(), rel=0.12)


def test_held_out_scores_are_of_the_members_that_hold_a_row_out():
    rows = place_rows(Sample(np.zeros(3), np.ones(3)), SquaredError(), 2, 0, np.random.default_rng(0), "cpu")
    held = torch.tensor([[True, False], [True, True], [False, False]])
    init = torch.tensor([[1.0, 5.0], [1.0, 5.0], [1.0, 5.0]])[:, :, None]
    scores = replace(rows, held_out=held, init=init).with_held_out_scores().init
    assert scores.tolist() == [[[1.0]], [[3.0]], [[3.0]]]
