"""Binning: bins hold similar values of about equal weight, and weights are repeated rows."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from neuralbasis.encoding import continuous_axis, level_axis
from tests.binned_columns import make_bins


def test_groups_are_about_equal_in_weight():
    rng = np.random.default_rng(0)
    bins = make_bins(np.exp(rng.normal(size=(8000, 1))))
    assert bins.n_bins.tolist() == bins.n_known.tolist() == [16]
    assert bins.mass[0].tolist() == np.bincount(bins.codes[0]).tolist()
    assert (np.abs(bins.mass[0] - 500) <= 1).all()


def test_bins_follow_the_axis_and_keep_equal_values_together():
    X = np.round(np.random.default_rng(0).normal(size=(3000, 1)), 1)
    codes = make_bins(X).codes[0]
    order = np.argsort(X[:, 0], kind="stable")
    assert (np.diff(codes[order].astype(int)) >= 0).all()
    assert all(len(set(codes[X[:, 0] == value])) == 1 for value in np.unique(X))


def test_few_values_have_a_bin_each():
    X = np.random.default_rng(0).choice([-3.0, 0.1, 0.2, 50.0], (500, 1), p=[0.01, 0.01, 0.9, 0.08])
    assert make_bins(X).codes[0].tolist() == np.unique(X, return_inverse=True)[1].ravel().tolist()


def test_a_heavy_value_uses_one_bin():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((4000, 1)) < 0.7, 0.0, rng.exponential(size=(4000, 1)))
    bins = make_bins(X)
    assert bins.n_bins[0] == 16
    assert bins.mass[0, 0] == (X == 0).sum()
    assert np.ptp(bins.mass[0, 1:]) <= 3


def test_missing_values_have_their_own_bin():
    X = np.random.default_rng(0).normal(size=(1000, 2))
    X[::4, 0] = np.nan
    bins = make_bins(X)
    assert (bins.n_known.tolist(), bins.n_bins.tolist()) == ([15, 16], [16, 16])
    assert ((bins.codes[0] == 15) == np.isnan(X[:, 0])).all()
    assert bins.codes.dtype == np.uint8


def test_heavy_levels_have_their_own_bins_and_the_others_share_one():
    levels = [f"level {index}" for index in range(40)]
    numbers = np.repeat(np.arange(40.0), np.r_[np.full(20, 1), np.arange(10, 30)])[:, None]
    bins = make_bins(numbers, axes=[level_axis("a", "nominal", levels)])
    assert bins.n_bins[0] == 16
    own = [bins.codes[0][numbers[:, 0] == level] for level in range(39, 24, -1)]
    assert [set(codes) for codes in own] == [{index} for index in range(15)]
    assert set(bins.codes[0][numbers[:, 0] < 25]) == {15}


def test_ordinal_levels_are_grouped_in_order_and_unseen_ones_are_missing():
    numbers = np.repeat(np.arange(-1.0, 40.0), 5)[:, None]
    bins = make_bins(numbers, axes=[level_axis("a", "ordinal", [str(index) for index in range(40)])], max_bins=5)
    assert bins.codes[0].tolist() == [4] * 5 + np.repeat(np.arange(4), 50).tolist()


def test_a_constant_column_has_one_bin():
    X = np.column_stack([np.ones(50), np.full(50, np.nan), np.arange(50)])
    axes = [continuous_axis("a", X[:, 2] * 0 + 1), continuous_axis("b", X[:, 2]), continuous_axis("c", X[:, 2])]
    assert make_bins(X, axes=axes).n_bins.tolist() == [1, 1, 16]


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.integers(2, 20))
def test_weighted_bins_are_bins_of_repeated_rows(seed, max_bins):
    rng = np.random.default_rng(seed)
    X = np.round(rng.normal(size=(rng.integers(1, 200), 2)), rng.integers(0, 3))
    X[rng.random(len(X)) < 0.1, 0] = np.nan
    X[0] = 0.5
    axes = [continuous_axis("a", X[:, 0]), continuous_axis("b", X[:, 1])]
    weights = rng.integers(0, 4, len(X)).astype(float)
    weights[0] = 1
    repeated = np.repeat(X, weights.astype(int), axis=0)
    weighted, plain = make_bins(X, weights, axes, max_bins), make_bins(repeated, None, axes, max_bins)
    assert np.repeat(weighted.codes, weights.astype(int), axis=1).tolist() == plain.codes.tolist()
    assert weighted.mass.tolist() == plain.mass.tolist()
    assert weighted.n_bins.tolist() == plain.n_bins.tolist()


def test_merged_bins_are_bins_of_bins():
    X = np.random.default_rng(0).normal(size=(2000, 2))
    X[::10, 1] = np.nan
    fine = make_bins(X)
    coarse = fine.merge(6)
    assert (coarse.n_known.tolist(), coarse.n_bins.tolist()) == ([6, 5], [6, 6])
    for column in range(2):
        assert coarse.mass[column].tolist() == np.bincount(coarse.codes[column], minlength=6).tolist()
        assert len(set(zip(fine.codes[column], coarse.codes[column], strict=True))) == 16
    assert (coarse.codes[1][::10] == 5).all()
    assert fine.merge(16) is fine
